//! Whether what was extracted is what the archive holds: a sample of files, read back from the target.
//! For a generated archive the contents are known; of a user's archive the sample is read once more.

use std::collections::HashMap;
use std::ffi::CString;

use anyhow::bail;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::VerifyRecord;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{CallResult, Calls, Real};
use xxhash_rust::xxh3::Xxh3Default;

use super::model::{CacheModel, object_key};
use crate::archive::{Archive, EntryKind, EntryName};
use crate::contents::{MANIFEST_FILES, Reservoir};
use crate::failure::{call_failed, check_interrupt};
use crate::payload::{GOLDEN, mix, name_hash};

/// About the most that is compared.
const SAMPLE_BYTES: u64 = 256 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// A sample of the objects of `model` below the directory `top`, chosen by `seed`.
#[must_use]
pub fn generated(model: CacheModel, payload: Payload, top: &str, seed: u64) -> Manifest {
    let mut chosen = Reservoir::new(MANIFEST_FILES, seed);
    for object in model.objects() {
        chosen.offer(|| ManifestFile {
            path: format!("{top}/{}", model.path(object.number)),
            size_bytes: object.size_bytes,
            content_key: object_key(object.number),
        });
    }
    Manifest { payload, seed: model.seed, files: chosen.into_vec() }
}

/// Reads `archive` again and compares a sample of about 2000 of its `file_count` files with those below
/// the open directory `top`; gives what was compared.
///
/// # Errors
/// A file is missing or differs; the archive is damaged; a signal asked to stop.
pub fn against_archive(
    top: &<Real as Calls>::Fd,
    archive: &Archive,
    file_count: u64,
    seed: u64,
) -> anyhow::Result<VerifyRecord> {
    let expected = sample(archive, file_count, seed)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut wrong = Vec::new();
    for (path, expected) in &expected {
        check_interrupt()?;
        let name = String::from_utf8_lossy(path);
        let path = CString::new(path.as_slice()).unwrap_or_default();
        let found = contents(top, &path, &mut buffer);
        let found = found.map_err(|errno| call_failed("read", name.as_ref(), errno))?;
        if found != *expected {
            wrong.push(name.into_owned());
        }
    }
    wrong.sort();
    match wrong.as_slice() {
        [] => Ok(VerifyRecord {
            files: expected.len() as u64,
            bytes: expected.values().map(|(size_bytes, _)| size_bytes).sum(),
            mismatches: Vec::new(),
        }),
        [first, rest @ ..] => bail!(
            "contents differ from those in {}: {first}{}; check the device and the kernel log",
            archive.path().display(),
            if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) }
        ),
    }
}

/// Size and hash of a file's contents.
type Contents = (u64, u64);

fn sample(
    archive: &Archive,
    file_count: u64,
    seed: u64,
) -> anyhow::Result<HashMap<Vec<u8>, Contents>> {
    // A file is chosen by its name, so that of several entries for one name all are or none is.
    let chosen_below = match file_count / MANIFEST_FILES as u64 {
        0 => u64::MAX,
        _ => u64::MAX / file_count * MANIFEST_FILES as u64,
    };
    archive.read(|entries| {
        let mut expected = HashMap::new();
        let mut left_bytes = SAMPLE_BYTES;
        let mut name = EntryName::default();
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some(mut entry) = entries.next_entry()? {
            check_interrupt()?;
            // What cannot be made below the directory was not.
            if name.set(entry.raw_name(), 0).is_err() {
                continue;
            }
            let path = name.to_bytes();
            let is_file = entry.kind() == EntryKind::File;
            let is_chosen = mix(name_hash(&path) ^ seed.wrapping_mul(GOLDEN)) <= chosen_below;
            if !(is_chosen && is_file && entry.size_bytes() <= left_bytes) {
                if entry.kind() != EntryKind::Other {
                    expected.remove(&path);
                }
                continue;
            }
            let mut hasher = Xxh3Default::new();
            let mut size_bytes = 0;
            loop {
                let count = entry.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                hasher.update(&buffer[..count]);
                size_bytes += count as u64;
            }
            left_bytes -= size_bytes;
            expected.insert(path, (size_bytes, hasher.digest()));
        }
        Ok(expected)
    })
}

fn contents(
    top: &<Real as Calls>::Fd,
    path: &std::ffi::CStr,
    buffer: &mut [u8],
) -> CallResult<Contents> {
    let file = Real.open_read(top, path)?;
    let mut hasher = Xxh3Default::new();
    let mut size_bytes = 0;
    loop {
        match Real.read(&file, buffer)? {
            0 => return Ok((size_bytes, hasher.digest())),
            count => {
                hasher.update(&buffer[..count]);
                size_bytes += count as u64;
            }
        }
    }
}
