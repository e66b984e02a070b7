//! Whether the files that clients have left hold what was written: every byte that was written has its
//! place in the payload of its file, and what was never written reads as zero.

use std::ffi::CStr;

use fsdyno_model::record::VerifyRecord;
use fsdyno_sys::calls::{Calls, FileKind, Real};
use fsdyno_sys::{Errno, SysError};

use super::client::Client;
use crate::contents::differing;
use crate::failure::{check_interrupt, name_failed};
use crate::payload::PayloadSource;

/// About the most that is compared for all clients.
const SAMPLE_BYTES: u64 = 256 << 20;
/// Bytes that are compared at a time.
const COMPARE_BYTES: usize = 256 << 10;

/// Compares what the clients have left; without a source it must be zeros.
///
/// # Errors
/// A file that differs, a call that failed, or the request to stop.
pub fn verify(
    root: &<Real as Calls>::Fd,
    clients: &[&Client<'_>],
    source: Option<&PayloadSource>,
) -> anyhow::Result<VerifyRecord> {
    let mut record = VerifyRecord::default();
    let (mut found, mut expected) = (vec![0; COMPARE_BYTES], vec![0; COMPARE_BYTES]);
    for client in clients {
        for (path, key) in client.contents() {
            check_interrupt()?;
            let failed = |call| {
                let name: &CStr = &path.name;
                move |errno: Errno| -> SysError { name_failed(call, "", name, errno) }
            };
            match Real.stat(root, &path.name) {
                Ok(facts) if facts.kind == FileKind::File => {}
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(errno) => return Err(failed("stat")(errno).into()),
            }
            if record.bytes > SAMPLE_BYTES {
                return Ok(record);
            }
            let file = Real.open_read(root, &path.name).map_err(failed("open"))?;
            let mut offset = 0;
            loop {
                let count = Real.read_at(&file, &mut found, offset).map_err(failed("read"))?;
                if count == 0 {
                    break;
                }
                let (found, expected) = (&found[..count], &mut expected[..count]);
                if let Some(source) = source {
                    source.fill(key, offset, expected);
                }
                let mut pairs = found.iter().zip(expected.iter());
                if let Some(index) =
                    pairs.position(|(found, wanted)| found != wanted && *found != 0)
                {
                    let name = path.name.to_string_lossy();
                    let place = offset + index as u64;
                    return Err(differing(&format!("{name}: differs at byte {place}")));
                }
                offset += count as u64;
            }
            record.files += 1;
            record.bytes += offset;
        }
    }
    Ok(record)
}
