//! The parameters of the workload `bonnie`: read, checked against each other and against the memory of
//! the machine, which is the original's rule on the size of the large file.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::units::{exact_bytes, human_bytes, parse_bytes};

/// Whose rules and arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those of bonnie++ 2.00.
    Original,
    /// Rates until durable, reads from the device.
    Corrected,
}

/// What the small files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallFiles {
    /// Files of sizes drawn evenly between the bounds, both included.
    Files {
        /// Least size in bytes.
        min_bytes: u64,
        /// Greatest size in bytes.
        max_bytes: u64,
    },
    /// Names of one file.
    Links,
    /// Symbolic links to one file.
    Symlinks,
}

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whose rules.
    pub mode: Mode,
    /// Size of the large file, a multiple of 1 MiB; 0 leaves its phases out.
    pub size_bytes: u64,
    /// Bytes of one read or write.
    pub chunk_bytes: usize,
    /// Bytes written and read one at a time; 0 leaves these phases out.
    pub per_char_bytes: u64,
    /// Number of small files; 0 leaves their phases out.
    pub file_count: u64,
    /// What they are.
    pub small_files: SmallFiles,
    /// Directories that they are spread over.
    pub directory_count: u64,
    /// Whether chunks go past the page cache.
    pub direct: bool,
    /// Threads that seek.
    pub seekers: usize,
    /// Seeks of all of them together; 0 leaves the phase out.
    pub seek_count: u64,
    /// How caches are emptied before the phases that read.
    pub cold: Cold,
    /// Whether phases that write end with syncfs, in corrected mode.
    pub sync: bool,
    /// What is written.
    pub payload: Payload,
    /// The rule that the large file breaks by being smaller than twice the memory of so many bytes.
    pub fits_in_memory_bytes: Option<u64>,
    /// The memory that the large file is smaller than, or breaks the rule by, where phases read it from
    /// there in corrected mode, whatever `ram` says.
    pub warm_in_memory_bytes: Option<u64>,
}

const MIB: u64 = 1 << 20;
/// Files in one unit of the parameter `files`.
pub const FILES_UNIT: u64 = 1024;
/// Least size of the large file where none is given.
const LEAST_MIB: u64 = 300;

/// Size of the large file, in MiB, where none is given: twice the memory, rounded up to whole GiB where
/// more than half of one would be left over.
fn auto_size_mib(ram_mib: u64) -> u64 {
    let size_mib = LEAST_MIB.max(ram_mib.saturating_mul(2));
    if size_mib % 1024 > 512 { size_mib.next_multiple_of(1024) } else { size_mib }
}

/// `auto`, or a size in bytes.
pub(crate) fn check_auto_or_bytes(text: &str) -> Result<(), String> {
    auto_or_bytes(text).map(drop)
}

fn auto_or_bytes(text: &str) -> Result<Option<u64>, String> {
    match text {
        "auto" => Ok(None),
        _ => parse_bytes(text).map(Some).map_err(|error| format!("`auto` or a size: {error}")),
    }
}

/// `all`, or a size in bytes.
pub(crate) fn check_per_char(text: &str) -> Result<(), String> {
    per_char(text).map(drop)
}

fn per_char(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(u64::MAX),
        _ => parse_bytes(text).map_err(|error| format!("`all` or a size: {error}")),
    }
}

/// `link`, `symlink`, or a size in bytes.
pub(crate) fn check_max(text: &str) -> Result<(), String> {
    small_files(text, 0).map(drop)
}

fn small_files(max: &str, min_bytes: u64) -> Result<SmallFiles, String> {
    let max_bytes = match max {
        "link" | "symlink" if min_bytes > 0 => {
            return Err(format!(
                "min={min_bytes} with max={max}: links have no size; leave min out"
            ));
        }
        "link" => return Ok(SmallFiles::Links),
        "symlink" => return Ok(SmallFiles::Symlinks),
        _ => parse_bytes(max).map_err(|error| format!("`link`, `symlink` or a size: {error}"))?,
    };
    match max_bytes {
        0..=0x1_0000_0000 => Ok(SmallFiles::Files { min_bytes, max_bytes }),
        _ => Err(format!("max must be 4GiB at most, not {max}")),
    }
}

/// The word that stands for the default of the mode.
pub const COLD_AUTO: &str = "auto";

impl Settings {
    /// Reads the parameters; `memory_bytes` is what there is to cache files in.
    ///
    /// # Errors
    /// A sentence for parameters that do not go together, and in original mode for a large file of less
    /// than twice the memory.
    pub fn new(params: &Params, memory_bytes: Option<u64>) -> Result<Settings, String> {
        let mode = match params.text("mode") {
            "original" => Mode::Original,
            _ => Mode::Corrected,
        };
        let ram_bytes = match auto_or_bytes(params.text("ram"))? {
            Some(bytes) => Some(bytes),
            None => memory_bytes,
        };
        let asked = auto_or_bytes(params.text("size"))?;
        let size_bytes = match (asked, ram_bytes) {
            (Some(bytes), _) => bytes,
            (None, Some(bytes)) => auto_size_mib(bytes / MIB).saturating_mul(MIB),
            (None, None) => {
                return Err("the memory of this machine is not known: give size or ram".to_owned());
            }
        };
        let cold = match params.text("cold") {
            COLD_AUTO if mode == Mode::Original => Cold::None,
            COLD_AUTO => Cold::DropCaches,
            word => Cold::parse(word)?,
        };
        let twice = ram_bytes.unwrap_or(0).saturating_mul(2);
        let is_small = asked.is_some() && (1..twice).contains(&size_bytes);
        let fits_in_memory_bytes = ram_bytes.filter(|_| is_small);
        let per_char_bytes = per_char(params.text("per_char"))?.min(size_bytes);
        // Direct I/O reads the device, but for single bytes.
        let is_cached = !params.flag("direct") || per_char_bytes > 0;
        let is_warm = mode == Mode::Corrected && cold == Cold::None && is_cached;
        let smaller_than = memory_bytes.filter(|memory| (1..*memory).contains(&size_bytes));
        let settings = Settings {
            mode,
            size_bytes,
            chunk_bytes: params.number("chunk") as usize,
            per_char_bytes,
            file_count: params.number("files") * FILES_UNIT,
            small_files: small_files(params.text("max"), params.number("min"))?,
            directory_count: params.number("dirs"),
            direct: params.flag("direct"),
            seekers: params.number("seekers") as usize,
            seek_count: params.number("seeks"),
            cold,
            sync: params.flag("sync"),
            payload: Payload::parse(params.text("payload"))?,
            fits_in_memory_bytes,
            warm_in_memory_bytes: fits_in_memory_bytes.or(smaller_than).filter(|_| is_warm),
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        let chunk = exact_bytes(self.chunk_bytes as u64);
        if !self.chunk_bytes.is_power_of_two() {
            return Err(format!("chunk must be a power of two, not {chunk}"));
        }
        if self.direct && self.chunk_bytes < 512 {
            return Err(format!(
                "direct=true needs chunks of whole blocks of the device: use chunk=4KiB instead of {chunk}"
            ));
        }
        if !self.size_bytes.is_multiple_of(MIB) {
            let size = exact_bytes(self.size_bytes);
            return Err(format!("size must be a whole number of MiB, not {size}"));
        }
        if self.size_bytes == 0 && self.file_count == 0 {
            return Err("size=0 with files=0 leaves nothing to do: use one of them".to_owned());
        }
        match self.small_files {
            SmallFiles::Files { min_bytes, max_bytes } if min_bytes > max_bytes => {
                return Err(format!(
                    "min={min_bytes} is more than max={max_bytes}: use a larger max"
                ));
            }
            _ => {}
        }
        if self.file_count > 0 && self.directory_count > self.file_count {
            return Err(format!(
                "dirs={} is more than the {} files: use fewer directories",
                self.directory_count, self.file_count
            ));
        }
        match (self.mode, self.fits_in_memory_bytes) {
            (Mode::Original, Some(ram)) => Err(format!(
                "the original refuses a file of {} where the memory is {}: use size={}MiB or more, \
                 size=auto, or ram=0 to switch the rule off",
                human_bytes(self.size_bytes),
                human_bytes(ram),
                ram.saturating_mul(2).div_ceil(MIB)
            )),
            _ => Ok(()),
        }
    }

    /// Chunks of the large file.
    #[must_use]
    pub fn chunk_count(&self) -> u64 {
        self.size_bytes / self.chunk_bytes as u64
    }

    /// Greatest size of a small file, in bytes.
    #[must_use]
    pub fn small_file_max_bytes(&self) -> u64 {
        match self.small_files {
            SmallFiles::Files { max_bytes, .. } => max_bytes,
            SmallFiles::Links | SmallFiles::Symlinks => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::bonnie::DEF;

    const GIB: u64 = 1 << 30;

    fn settings(memory_bytes: Option<u64>, pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let mut params = Params::defaults(DEF.info.params, false);
        for (name, value) in pairs {
            params.set(DEF.info.params, name, value).unwrap();
        }
        Settings::new(&params, memory_bytes)
    }

    #[test]
    fn the_size_follows_from_the_memory() {
        // Memory and size in MiB. The published run: 8 GB of memory, 16 G.
        for (ram_mib, size_mib) in [
            (0, 300),
            (64, 300),
            (150, 300),
            (151, 302),
            (256, 512),
            (257, 1024),
            (512, 1024),
            (700, 1400),
            (800, 2048),
            (7977, 16384),
            (8192, 16384),
            (24105, 48210),
        ] {
            let found = settings(Some(ram_mib * MIB + 4095), &[]).unwrap();
            assert_eq!(found.size_bytes, size_mib * MIB, "{ram_mib}");
            assert_eq!(found.fits_in_memory_bytes, None);
        }
        assert_eq!(settings(Some(GIB), &[("ram", "0")]).unwrap().size_bytes, LEAST_MIB * MIB);
        assert_eq!(settings(Some(GIB), &[("ram", "4GiB")]).unwrap().size_bytes, 8 * GIB);
        assert!(settings(None, &[]).unwrap_err().contains("give size or ram"));
        assert!(settings(None, &[("size", "1GiB")]).is_ok());
    }

    #[test]
    fn a_file_that_fits_in_memory_is_refused_by_the_original_only() {
        let small: &[(&str, &str)] = &[("size", "2047MiB")];
        let found = settings(Some(GIB), small).unwrap();
        assert_eq!((found.cold, found.fits_in_memory_bytes), (Cold::DropCaches, Some(GIB)));
        let error = settings(Some(GIB), &[small, &[("mode", "original")]].concat()).unwrap_err();
        assert!(error.contains("ram=0") && error.contains("size=2048MiB"), "{error}");
        for pairs in [
            &[("size", "2048MiB")][..],
            &[("size", "0")],
            &[("size", "1MiB"), ("ram", "0")],
            &[("size", "1MiB"), ("ram", "512KiB")],
        ] {
            for mode in ["original", "corrected"] {
                let found = settings(Some(GIB), &[pairs, &[("mode", mode)]].concat()).unwrap();
                assert_eq!(found.fits_in_memory_bytes, None, "{pairs:?}");
            }
        }
    }

    #[test]
    fn a_file_that_is_read_from_memory_is_told_whatever_the_rule_is_set_to() {
        let warm = |pairs: &[(&str, &str)]| {
            let all = [&[("cold", "none"), ("size", "600MiB")], pairs].concat();
            settings(Some(GIB), &all).unwrap().warm_in_memory_bytes
        };
        assert_eq!(warm(&[]), Some(GIB));
        assert_eq!(warm(&[("ram", "0")]), Some(GIB));
        assert_eq!(warm(&[("ram", "0"), ("size", "auto")]), Some(GIB));
        assert_eq!(warm(&[("ram", "10MiB")]), Some(GIB));
        assert_eq!(warm(&[("ram", "8GiB")]), Some(8 * GIB));
        assert_eq!(warm(&[("direct", "true")]), Some(GIB), "single bytes are not read directly");
        for pairs in [
            &[("cold", "drop-caches")][..],
            &[("cold", "auto"), ("ram", "0")],
            &[("mode", "original"), ("ram", "0")],
            &[("size", "0")],
            &[("size", "1GiB"), ("ram", "0")],
            &[("direct", "true"), ("per_char", "0")],
        ] {
            assert_eq!(warm(pairs), None, "{pairs:?}");
        }
    }

    #[test]
    fn caches_are_emptied_unless_the_original_is_asked_for() {
        for (mode, cold, expected) in [
            ("original", "auto", Cold::None),
            ("corrected", "auto", Cold::DropCaches),
            ("original", "remount", Cold::Remount),
            ("corrected", "none", Cold::None),
        ] {
            let found = settings(Some(GIB), &[("mode", mode), ("cold", cold)]).unwrap();
            assert_eq!(found.cold, expected);
        }
    }

    #[test]
    fn parameters_that_do_not_go_together_are_told() {
        for (pairs, words) in [
            (&[("chunk", "3000")][..], "power of two"),
            (&[("chunk", "256"), ("direct", "true")], "chunk=4KiB"),
            (&[("size", "1000000")], "whole number of MiB"),
            (&[("size", "0"), ("files", "0")], "nothing to do"),
            (&[("max", "10"), ("min", "11")], "larger max"),
            (&[("max", "link"), ("min", "5")], "leave min out"),
            (&[("max", "symlink"), ("min", "7")], "leave min out"),
            (&[("files", "1"), ("dirs", "1025")], "fewer directories"),
        ] {
            let error = settings(Some(GIB), pairs).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let links = settings(Some(GIB), &[("max", "symlink")]).unwrap();
        assert_eq!((links.small_files, links.small_file_max_bytes()), (SmallFiles::Symlinks, 0));
        let all = settings(Some(GIB), &[("per_char", "all"), ("size", "5MiB")]).unwrap();
        assert_eq!((all.per_char_bytes, all.chunk_count()), (5 * MIB, 640));
    }
}
