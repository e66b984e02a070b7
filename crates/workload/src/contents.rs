//! Writing payload into files and reading it back: the buffer of the hot loop, the sample of files
//! that a run leaves behind, and the comparison of that sample with what must be in it.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use anyhow::Context as _;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::VerifyRecord;
use fsdyno_model::wire::{Manifest, ManifestFile, VerifySpec};
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{CallResult, Calls, Real};

use crate::failure::{call_failed, check_interrupt};
use crate::payload::{GOLDEN, PayloadSource, mix};

/// Most files in a manifest.
pub const MANIFEST_FILES: usize = 2000;
/// Bytes that are compared at a time.
const COMPARE_BYTES: usize = 256 << 10;
/// Mismatches that are told one by one.
const MISMATCHES: usize = 20;

/// Produces payload, one buffer at a time.
#[derive(Debug)]
pub struct PayloadBuffer {
    source: PayloadSource,
    is_constant: bool,
    buffer: AlignedBuffer,
}

impl PayloadBuffer {
    /// A buffer of `size_bytes` for `payload`.
    #[must_use]
    pub fn new(payload: Payload, seed: u64, size_bytes: usize) -> PayloadBuffer {
        let source = PayloadSource::new(payload, seed);
        let mut buffer = AlignedBuffer::new(size_bytes);
        source.fill(0, 0, &mut buffer);
        PayloadBuffer { is_constant: source.is_constant(), source, buffer }
    }

    /// Size of the buffer: the most that [`PayloadBuffer::bytes`] gives at a time.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Whether [`PayloadBuffer::bytes`] costs nothing.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.is_constant
    }

    /// The `count` bytes of a file from `offset` on.
    ///
    /// # Panics
    /// When `count` is more than the size of the buffer.
    #[inline(always)]
    pub fn bytes(&mut self, content_key: u64, offset: u64, count: u64) -> &[u8] {
        let bytes = &mut self.buffer[..count as usize];
        if !self.is_constant {
            self.source.fill(content_key, offset, bytes);
        }
        bytes
    }
}

/// Chooses at most `limit` of any number of things, all with the same chance, the same ones for the
/// same seed.
#[derive(Debug)]
pub struct Reservoir<T> {
    limit: usize,
    seen: u64,
    seed: u64,
    chosen: Vec<T>,
}

impl<T> Reservoir<T> {
    /// An empty choice.
    #[must_use]
    pub fn new(limit: usize, seed: u64) -> Reservoir<T> {
        Reservoir { limit, seen: 0, seed: mix(seed ^ GOLDEN), chosen: Vec::new() }
    }

    /// Offers one thing; it is made only if it is chosen for now.
    pub fn offer(&mut self, thing: impl FnOnce() -> T) {
        self.seen += 1;
        if self.chosen.len() < self.limit {
            self.chosen.push(thing());
            return;
        }
        let draw = mix(self.seed.wrapping_add(self.seen.wrapping_mul(GOLDEN)));
        // The high half of the product: as even as a remainder of so many bits, and cheaper.
        let place = ((u128::from(draw) * u128::from(self.seen)) >> 64) as usize;
        if let Some(chosen) = self.chosen.get_mut(place) {
            *chosen = thing();
        }
    }

    /// What was chosen.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.chosen
    }
}

/// Reads the files of a manifest back and compares them byte by byte.
///
/// # Errors
/// When the directory cannot be opened, or a signal asked to stop. What is wrong with a file is a
/// mismatch in the record.
pub fn verify(spec: &VerifySpec, mut advance: impl FnMut(u64)) -> anyhow::Result<VerifyRecord> {
    let root = Real
        .open_root(&spec.root)
        .map_err(|errno| call_failed("open", spec.root.display().to_string(), errno))?;
    let mut comparison = Comparison {
        source: PayloadSource::new(spec.manifest.payload, spec.manifest.seed),
        found: vec![0; COMPARE_BYTES],
        scratch: vec![0; COMPARE_BYTES],
    };
    let mut record = VerifyRecord::default();
    let mut untold = 0u64;
    for file in &spec.manifest.files {
        check_interrupt()?;
        record.files += 1;
        let (bytes, outcome) = comparison.compare(&root, file);
        record.bytes += bytes;
        if let Err(difference) = outcome {
            if record.mismatches.len() < MISMATCHES {
                record.mismatches.push(format!("{}: {difference}", file.path));
            } else {
                untold += 1;
            }
        }
        advance(1);
    }
    if untold > 0 {
        record.mismatches.push(format!("and {untold} more files"));
    }
    Ok(record)
}

/// Reads a manifest's files back during a run; what was compared is for [`Context::note_verified`].
///
/// [`Context::note_verified`]: crate::context::Context::note_verified
///
/// # Errors
/// As [`verify`], and when a file is not what it must be.
pub fn verify_now(root: &Path, manifest: Manifest) -> anyhow::Result<VerifyRecord> {
    let record = verify(&VerifySpec { root: root.to_owned(), manifest }, |_| {})?;
    match record.mismatches.as_slice() {
        [] => Ok(record),
        [first] => Err(differing(first)),
        [first, rest @ ..] => Err(differing(&format!("{first} (and {} more)", rest.len()))),
    }
}

/// Each of `files` below `root` must hold as many zeros as it has bytes; what was compared is for
/// [`Context::note_verified`].
///
/// [`Context::note_verified`]: crate::context::Context::note_verified
///
/// # Errors
/// A file that is not what it must be, a call that failed, or the request to stop.
pub fn verify_zeros(root: &OwnedFd, files: &[ManifestFile]) -> anyhow::Result<VerifyRecord> {
    let mut buffer = vec![0; COMPARE_BYTES];
    let mut record = VerifyRecord::default();
    for ManifestFile { path, size_bytes, .. } in files {
        check_interrupt()?;
        let name = CString::new(path.as_str()).context("the name of a file")?;
        let failed = |call| move |errno| call_failed(call, path.as_str(), errno);
        let file = Real.open_read(root, &name).map_err(failed("open"))?;
        let mut offset = 0;
        loop {
            let count = Real.read(&file, &mut buffer).map_err(failed("read"))?;
            if count == 0 {
                break;
            }
            if let Some(index) = buffer[..count].iter().position(|byte| *byte != 0) {
                let place = offset + index as u64;
                return Err(differing(&format!("{path}: differs at byte {place}")));
            }
            offset += count as u64;
        }
        if offset != *size_bytes {
            return Err(differing(&format!(
                "{path}: holds {offset} bytes instead of {size_bytes}"
            )));
        }
        record.files += 1;
        record.bytes += offset;
    }
    Ok(record)
}

/// The error of contents that are not what was written; `difference` names the file and how it differs.
#[must_use]
pub fn differing(difference: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "contents differ from what was written: {difference}; check the device and the kernel log"
    )
}

struct Comparison {
    source: PayloadSource,
    found: Vec<u8>,
    scratch: Vec<u8>,
}

impl Comparison {
    /// Bytes compared, and how the file differs.
    fn compare(
        &mut self,
        root: &<Real as Calls>::Fd,
        file: &ManifestFile,
    ) -> (u64, Result<(), String>) {
        let mut offset = 0;
        let outcome = self.compare_from(root, file, &mut offset);
        (offset, outcome)
    }

    fn compare_from(
        &mut self,
        root: &<Real as Calls>::Fd,
        file: &ManifestFile,
        offset: &mut u64,
    ) -> Result<(), String> {
        let below = |part| matches!(part, Component::Normal(_));
        let inside = Path::new(&file.path).components().all(below) && !file.path.is_empty();
        let path = CString::new(file.path.as_str()).ok().filter(|_| inside);
        let path = path.ok_or("the path does not lie below the directory")?;
        let told = |call, errno| call_failed(call, file.path.as_str(), errno).to_string();
        let handle = Real.open_read(root, &path).map_err(|errno| told("open", errno))?;
        loop {
            let count = read_full(&handle, &mut self.found).map_err(|errno| told("read", errno))?;
            let bytes = &self.found[..count];
            self.source
                .verify(file.content_key, *offset, bytes, &mut self.scratch)
                .map_err(|index| format!("differs at byte {}", *offset + index as u64))?;
            *offset += count as u64;
            if count < self.found.len() || *offset > file.size_bytes {
                break;
            }
        }
        if *offset == file.size_bytes {
            return Ok(());
        }
        let how = if *offset > file.size_bytes { "at least " } else { "" };
        Err(format!("holds {how}{offset} bytes instead of {}", file.size_bytes))
    }
}

/// Fills `buffer` as far as the file goes.
fn read_full(handle: &<Real as Calls>::Fd, buffer: &mut [u8]) -> CallResult<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match Real.read(handle, &mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservoir_is_even_and_repeatable() {
        let choose = |seed| {
            let mut reservoir = Reservoir::new(100, seed);
            (0..10_000u32).for_each(|thing| reservoir.offer(|| thing));
            reservoir.into_vec()
        };
        assert_eq!(choose(1), choose(1));
        assert_ne!(choose(1), choose(2));
        let mut tenths = [0u32; 10];
        for seed in 0..100 {
            choose(seed).iter().for_each(|thing| tenths[*thing as usize / 1000] += 1);
        }
        // 1000 expected in each; the standard deviation is 30.
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn differences_are_found_and_told() {
        let directory = tempfile::tempdir().unwrap();
        let payload = Payload::DEFAULT;
        let size: u64 = 600_000;
        let mut buffer = PayloadBuffer::new(payload, 5, size as usize);
        let bytes = buffer.bytes(9, 0, size).to_vec();
        let write = |bytes: &[u8]| std::fs::write(directory.path().join("f"), bytes).unwrap();
        let check = |path: &str| {
            let file = ManifestFile { path: path.to_owned(), size_bytes: size, content_key: 9 };
            let manifest = Manifest { payload, seed: 5, files: vec![file] };
            let spec = VerifySpec { root: directory.path().to_owned(), manifest };
            verify(&spec, |_| {}).unwrap()
        };
        write(&bytes);
        assert_eq!(check("f"), VerifyRecord { files: 1, bytes: size, mismatches: vec![] });
        let mut flipped = bytes.clone();
        flipped[543_210] ^= 1;
        write(&flipped);
        assert_eq!(check("f").mismatches, ["f: differs at byte 543210"]);
        write(&bytes[..1000]);
        assert_eq!(check("f").mismatches, ["f: holds 1000 bytes instead of 600000"]);
        assert!(check("g").mismatches[0].contains("ENOENT"));
        for path in ["../f", "/etc/passwd", "", "a/../f", "f\0"] {
            assert!(check(path).mismatches[0].contains("does not lie below"), "{path:?}");
        }
    }
}
