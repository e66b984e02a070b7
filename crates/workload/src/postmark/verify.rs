//! Whether the files of the pools hold what was written, before they are deleted: a sample of them,
//! byte by byte. What the original writes is known from the sequence, which is gone through once more.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;

use anyhow::Context as _;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::VerifyRecord;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, Real};

use super::files::Pool;
use super::sequence::{Action, File, Sequence, SequenceConfig, Stage};
use crate::contents::{MANIFEST_FILES, Reservoir, differing, verify_now};
use crate::failure::{call_failed, check_interrupt};

/// About the most that is compared.
const SAMPLE_BYTES: u64 = 256 << 20;
/// Bytes that are compared at a time.
const COMPARE_BYTES: usize = 256 << 10;

/// Files to compare in each of `pools` pools whose files have up to `size_high` bytes.
#[must_use]
pub fn sample_files(pools: u32, size_high: u32) -> usize {
    let affordable = 1 + (SAMPLE_BYTES / u64::from(size_high)) as usize;
    (MANIFEST_FILES.min(affordable) / pools as usize).max(1)
}

/// Compares up to `limit` files of a pool that has been through its transactions; gives what was
/// compared.
///
/// # Errors
/// A file that is not what it must be, a call that failed, or the request to stop.
pub fn verify(
    root: &Path,
    pool: &Pool,
    (config, payload, seed): (SequenceConfig, Payload, u64),
    limit: usize,
) -> anyhow::Result<VerifyRecord> {
    let mut chosen = Reservoir::new(limit, seed);
    for file in pool.sequence().files() {
        chosen.offer(|| *file);
    }
    let chosen = chosen.into_vec();
    if let Some(source) = pool.source() {
        return verify_beginnings(root, pool, config, source, &chosen);
    }
    let files = chosen.iter().map(|file| ManifestFile {
        path: pool.path_of(file),
        size_bytes: u64::from(file.size_bytes),
        content_key: pool.content_key_of(file),
    });
    verify_now(root, Manifest { payload, seed, files: files.collect() })
}

/// Each of `chosen` must hold the beginnings of `source` that the operations on it have written.
fn verify_beginnings(
    root: &Path,
    pool: &Pool,
    config: SequenceConfig,
    source: &[u8],
    chosen: &[File],
) -> anyhow::Result<VerifyRecord> {
    let mut written: HashMap<u32, Vec<u32>> =
        chosen.iter().map(|file| (file.id, Vec::new())).collect();
    let mut again = Sequence::new(config);
    for stage in [Stage::Create, Stage::Transactions] {
        while let Some(op) = again.next_of(stage) {
            if matches!(op.action, Action::Create | Action::Append)
                && let Some(parts) = written.get_mut(&op.file.id)
            {
                parts.push(op.count_bytes);
            }
        }
    }
    let directory = Real
        .open_root(root)
        .map_err(|errno| call_failed("open", root.display().to_string(), errno))?;
    let mut found = vec![0; COMPARE_BYTES];
    let mut record = VerifyRecord::default();
    for file in chosen {
        check_interrupt()?;
        let path = pool.path_of(file);
        let parts = &written[&file.id];
        compare(&directory, &path, parts, source, &mut found)?
            .map_err(|difference| differing(&format!("{path}: {difference}")))?;
        record.files += 1;
        record.bytes += parts.iter().copied().map(u64::from).sum::<u64>();
    }
    Ok(record)
}

/// How the file differs from `parts`, each a beginning of `source`; the outer error is a failed call.
fn compare(
    directory: &<Real as Calls>::Fd,
    path: &str,
    parts: &[u32],
    source: &[u8],
    found: &mut [u8],
) -> anyhow::Result<Result<(), String>> {
    let name = CString::new(path).context("the name of a file")?;
    let file =
        Real.open_read(directory, &name).map_err(|errno| call_failed("open", path, errno))?;
    let read = |most: usize, found: &mut [u8]| {
        let most = most.min(found.len());
        Real.read(&file, &mut found[..most]).map_err(|errno| call_failed("read", path, errno))
    };
    let mut offset = 0;
    for part in parts {
        let mut expected = &source[..*part as usize];
        while !expected.is_empty() {
            let count = read(expected.len(), found)?;
            let pairs = expected.iter().zip(&found[..count]);
            if let Some(index) = pairs.clone().position(|(expected, found)| expected != found) {
                return Ok(Err(format!("differs at byte {}", offset + index)));
            }
            if count == 0 {
                let size: u64 = parts.iter().copied().map(u64::from).sum();
                return Ok(Err(format!("holds {offset} bytes instead of {size}")));
            }
            offset += count;
            expected = &expected[count..];
        }
    }
    if read(1, found)? != 0 {
        return Ok(Err(format!("holds more than {offset} bytes")));
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use fsdyno_model::param::Params;

    use super::super::settings::Settings;
    use super::*;
    use crate::catalog::postmark::DEF;
    use crate::recorder::Recorder;

    /// The pool after its transactions, in a directory.
    fn worked(payload: &str) -> (tempfile::TempDir, Pool, (SequenceConfig, Payload, u64)) {
        let mut params = Params::defaults(DEF.info.params, false);
        for (name, text) in [("payload", payload), ("number", "40"), ("transactions", "200")] {
            params.set(DEF.info.params, name, text).unwrap();
        }
        let settings = Settings::new(&params, 7).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let root = Real.open_root(directory.path()).unwrap();
        let mut pool = Pool::new(&settings, 0, 7);
        for stage in [Stage::Create, Stage::Transactions] {
            while pool.batch(&Real, &root, stage, &mut Recorder::new()).unwrap() > 0 {}
        }
        (directory, pool, (settings.sequence_of(0), settings.payload, 7))
    }

    #[test]
    fn one_byte_is_noticed() {
        for payload in ["original", "realistic:compressibility=50%,duplication=0%"] {
            let (directory, pool, what) = worked(payload);
            let check = || verify(directory.path(), &pool, what, 1000).map_err(|it| it.to_string());
            let compared = check().unwrap();
            let sizes: Vec<u64> =
                pool.sequence().files().map(|file| u64::from(file.size_bytes)).collect();
            let whole = (sizes.len() as u64, sizes.iter().sum());
            assert_eq!((compared.files, compared.bytes), whole);
            // One that was appended to, so that it holds two beginnings.
            let file = *pool.sequence().files().max_by_key(|file| file.size_bytes).unwrap();
            let path = directory.path().join(pool.path_of(&file));
            let whole = std::fs::read(&path).unwrap();
            assert_eq!(whole.len(), file.size_bytes as usize);
            for place in [0, whole.len() / 2, whole.len() - 1] {
                let mut bytes = whole.clone();
                bytes[place] ^= 1;
                std::fs::write(&path, bytes).unwrap();
                let error = check().unwrap_err();
                let told = format!("{}: differs at byte {place};", file.id);
                assert!(error.contains(&told), "{error}");
            }
            std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert!(check().unwrap_err().contains("bytes instead of"));
            std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
            assert!(check().is_err());
            std::fs::remove_file(&path).unwrap();
            assert!(check().unwrap_err().contains("ENOENT"));
        }
    }
}
