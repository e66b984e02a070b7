//! Where a filesystem (or its journal) lives: an image, a device of the user's, an emulated disk, or an
//! array of such; and how that is written.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;

/// More devices than this under one filesystem are refused: a guest has a slot for each.
const MAX_DEVICES: usize = 16;
/// Arrays of arrays of arrays are as deep as anybody builds them.
const MAX_DEPTH: usize = 3;
/// Least and greatest chunk, in bytes: a page, and what mdadm and LVM both take.
const MIN_CHUNK_BYTES: u64 = 4 << 10;
const MAX_CHUNK_BYTES: u64 = 1 << 20;

/// What makes one device of several, or another of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrayKind {
    /// Stripes, by the kernel's md driver.
    Raid0,
    /// Mirrors, by the kernel's md driver.
    Raid1,
    /// Striped mirrors, by the kernel's md driver.
    Raid10,
    /// A striped volume of LVM.
    LvmStripe,
    /// A mirrored volume of LVM.
    LvmMirror,
    /// One device, encrypted by dm-crypt.
    Crypt,
    /// Several devices that the filesystem itself puts together: btrfs, bcachefs.
    Pool,
}

impl ArrayKind {
    /// All of them, in the order in which documents show them.
    pub const ALL: [ArrayKind; 7] = [
        ArrayKind::Raid0,
        ArrayKind::Raid1,
        ArrayKind::Raid10,
        ArrayKind::LvmStripe,
        ArrayKind::LvmMirror,
        ArrayKind::Crypt,
        ArrayKind::Pool,
    ];

    /// Its word in targets and plans.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ArrayKind::Raid0 => "raid0",
            ArrayKind::Raid1 => "raid1",
            ArrayKind::Raid10 => "raid10",
            ArrayKind::LvmStripe => "lvm-stripe",
            ArrayKind::LvmMirror => "lvm-mirror",
            ArrayKind::Crypt => "crypt",
            ArrayKind::Pool => "pool",
        }
    }

    /// The kind with this word.
    #[must_use]
    pub fn by_word(word: &str) -> Option<ArrayKind> {
        ArrayKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// How many members it has where none are named.
    #[must_use]
    pub fn usual_members(self) -> usize {
        match self {
            ArrayKind::Crypt => 1,
            ArrayKind::Raid10 => 4,
            _ => 2,
        }
    }

    /// Whether data is cut into chunks over its members.
    #[must_use]
    pub fn has_chunks(self) -> bool {
        matches!(self, ArrayKind::Raid0 | ArrayKind::Raid10 | ArrayKind::LvmStripe)
    }

    /// Whether it can note in a bitmap what is being written.
    #[must_use]
    pub fn has_bitmap(self) -> bool {
        matches!(self, ArrayKind::Raid1 | ArrayKind::Raid10)
    }

    /// Size of each of `count` members with which the whole holds `size_bytes`, in whole MiB: what the
    /// array keeps for itself comes off that. A pool's members are as large together.
    fn share(self, size_bytes: u64, count: usize) -> u64 {
        let count = count.max(1) as u64;
        let share = match self {
            ArrayKind::Raid1 | ArrayKind::LvmMirror | ArrayKind::Crypt => size_bytes,
            ArrayKind::Raid0 | ArrayKind::LvmStripe | ArrayKind::Pool => size_bytes.div_ceil(count),
            ArrayKind::Raid10 => size_bytes.saturating_mul(2).div_ceil(count),
        };
        share.checked_next_multiple_of(1 << 20).unwrap_or(share)
    }

    /// What members of these sizes hold together, but for what the array keeps for itself.
    fn capacity(self, sizes: &[u64]) -> u64 {
        let least = sizes.iter().copied().min().unwrap_or_default();
        let all = least.saturating_mul(sizes.len() as u64);
        match self {
            ArrayKind::Raid1 | ArrayKind::LvmMirror | ArrayKind::Crypt => least,
            ArrayKind::Raid0 | ArrayKind::LvmStripe => all,
            ArrayKind::Raid10 => all / 2,
            ArrayKind::Pool => sizes.iter().fold(0, |sum, size| sum.saturating_add(*size)),
        }
    }
}

/// Devices put together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArraySpec {
    /// By what, and how.
    pub array: ArrayKind,
    /// Of what, in order.
    pub members: Vec<DeviceSpec>,
    /// How much goes to one member before the next has its turn, in bytes; null for the tool's own choice.
    #[serde(default)]
    pub chunk_bytes: Option<u64>,
    /// Whether there is a write-intent bitmap.
    #[serde(default)]
    pub bitmap: bool,
}

impl ArraySpec {
    /// An array of as many images as is usual.
    #[must_use]
    pub fn of(array: ArrayKind) -> ArraySpec {
        let image = DeviceSpec::LoopImage { size_bytes: None };
        let members = vec![image; array.usual_members()];
        ArraySpec { array, members, chunk_bytes: None, bitmap: false }
    }

    /// Reads what is inside the parentheses of `raid0(4GiB,4GiB,chunk=64KiB)`.
    fn parse(array: ArrayKind, inside: &str) -> Result<ArraySpec, String> {
        let mut spec = ArraySpec { members: Vec::new(), ..ArraySpec::of(array) };
        for piece in split_list(inside)? {
            match piece.split_once('=') {
                Some(("chunk", size)) => spec.set_chunk(size)?,
                None if piece == "bitmap" => spec.bitmap = true,
                _ => spec.members.push(DeviceSpec::parse_member(piece)?),
            }
        }
        if spec.members.is_empty() {
            spec.members = ArraySpec::of(array).members;
        }
        spec.checked()
    }

    /// Sets the chunk from its text.
    ///
    /// # Errors
    /// It is no size that a chunk can have.
    pub fn set_chunk(&mut self, text: &str) -> Result<(), String> {
        let bytes = units::parse_bytes(text).map_err(|error| error.to_string())?;
        if !bytes.is_power_of_two() || !(MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&bytes) {
            return Err(format!("chunk={text}: a chunk is a power of two from 4KiB to 1MiB"));
        }
        self.chunk_bytes = Some(bytes);
        Ok(())
    }

    /// The same, where it can be built.
    ///
    /// # Errors
    /// What is against it.
    pub fn checked(self) -> Result<ArraySpec, String> {
        let (word, count) = (self.array.word(), self.members.len());
        if self.array == ArrayKind::Crypt && count != 1 {
            return Err(format!("{word} has one member, not {count}"));
        }
        if self.array != ArrayKind::Crypt && count < 2 {
            return Err(format!("{word} has at least two members, not {count}"));
        }
        if self.chunk_bytes.is_some() && !self.array.has_chunks() {
            return Err(format!("{word} has no chunks: leave out chunk"));
        }
        if self.bitmap && !self.array.has_bitmap() {
            return Err(format!("{word} has no bitmap: leave out bitmap"));
        }
        let whole = DeviceSpec::Array(self);
        if whole.depth() > MAX_DEPTH {
            return Err(format!("{whole}: arrays lie in each other at most {MAX_DEPTH} deep"));
        }
        if whole.leaves().len() > MAX_DEVICES {
            return Err(format!("{word}: at most {MAX_DEVICES} devices are put together"));
        }
        let DeviceSpec::Array(spec) = whole else { return Err("it is no array".to_owned()) };
        let is_pool = |member: &DeviceSpec| matches!(member, DeviceSpec::Array(inner) if inner.array == ArrayKind::Pool);
        if spec.members.iter().any(is_pool) {
            return Err("a pool is for a filesystem, not for another array".to_owned());
        }
        Ok(spec)
    }
}

/// `raid1`, `raid0(loop:4GiB,loop:4GiB,chunk=64KiB)`.
impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces: Vec<String> = Vec::new();
        if self.members != ArraySpec::of(self.array).members {
            pieces.extend(self.members.iter().map(ToString::to_string));
        }
        pieces.extend(self.chunk_bytes.map(|size| format!("chunk={}", units::exact_bytes(size))));
        pieces.extend(self.bitmap.then(|| "bitmap".to_owned()));
        f.write_str(self.array.word())?;
        if pieces.is_empty() { Ok(()) } else { write!(f, "({})", pieces.join(",")) }
    }
}

/// Where a filesystem (or its journal) lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeviceSpec {
    /// An image file, fully allocated, under a loop device that passes I/O directly.
    LoopImage {
        /// Size; the plan's size when absent.
        size_bytes: Option<u64>,
    },
    /// A block device of the user's.
    Block {
        /// Its path as given.
        path: PathBuf,
    },
    /// A disk that is emulated by a model.
    Emulated {
        /// Name of a shipped model, or path of a file.
        model: String,
        /// Size; the plan's size when absent.
        size_bytes: Option<u64>,
    },
    /// Several devices put together, or one encrypted.
    Array(ArraySpec),
}

impl DeviceSpec {
    /// Reads `loop`, `loop:8GiB`, `disk:MODEL`, `disk:MODEL:8GiB`, an absolute path, or an array of such:
    /// `raid1`, `raid0(4GiB,4GiB,chunk=64KiB)`, `crypt(/dev/sdb)`.
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse(text: &str) -> Result<DeviceSpec, String> {
        if text == "loop" {
            return Ok(DeviceSpec::LoopImage { size_bytes: None });
        }
        if let Some(size) = text.strip_prefix("loop:") {
            let size = units::parse_bytes(size).map_err(|error| error.to_string())?;
            return Ok(DeviceSpec::LoopImage { size_bytes: Some(size) });
        }
        if let Some(rest) = text.strip_prefix("disk:") {
            let sized = rest.rsplit_once(':');
            let sized =
                sized.and_then(|(model, size)| Some((model, units::parse_bytes(size).ok()?)));
            let (model, size_bytes) =
                sized.map_or((rest, None), |(model, size)| (model, Some(size)));
            if model.is_empty() {
                return Err("`disk:` needs a model: fsdyno disk list shows them".to_owned());
            }
            return Ok(DeviceSpec::Emulated { model: model.to_owned(), size_bytes });
        }
        if text.starts_with('/') && text.len() > 1 {
            return Ok(DeviceSpec::Block { path: PathBuf::from(text) });
        }
        if let Some(kind) = ArrayKind::by_word(text) {
            return Ok(DeviceSpec::Array(ArraySpec::of(kind)));
        }
        if let Some((word, rest)) = text.split_once('(')
            && let Some(kind) = ArrayKind::by_word(word)
        {
            let inside = rest.strip_suffix(')').ok_or_else(|| format!("`{text}`: not closed"))?;
            return ArraySpec::parse(kind, inside).map(DeviceSpec::Array);
        }
        let words = ArrayKind::ALL.map(ArrayKind::word).join(", ");
        Err(format!(
            "`{text}` is not a device: give an absolute path such as /dev/sdb, `loop`, `loop:8GiB` or `disk:MODEL`, \
             or an array of them ({words}) such as raid1"
        ))
    }

    /// As [`DeviceSpec::parse`]; a size alone is an image of that size.
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse_member(text: &str) -> Result<DeviceSpec, String> {
        match units::parse_bytes(text) {
            Ok(size) => Ok(DeviceSpec::LoopImage { size_bytes: Some(size) }),
            Err(_) => DeviceSpec::parse(text),
        }
    }

    /// Whether a device's text begins here: among options an address is none.
    pub(crate) fn begins(text: &str) -> bool {
        let is_array = || ArrayKind::ALL.iter().any(|kind| text.starts_with(kind.word()));
        text.starts_with(['/', 'l']) || text.starts_with("disk:") || is_array()
    }

    /// The devices that it is made of, in order; itself where it is no array.
    #[must_use]
    pub fn leaves(&self) -> Vec<&DeviceSpec> {
        match self {
            DeviceSpec::Array(spec) => spec.members.iter().flat_map(DeviceSpec::leaves).collect(),
            other => vec![other],
        }
    }

    /// As [`DeviceSpec::leaves`], to be changed.
    pub fn leaves_mut(&mut self) -> Vec<&mut DeviceSpec> {
        match self {
            DeviceSpec::Array(spec) => {
                spec.members.iter_mut().flat_map(DeviceSpec::leaves_mut).collect()
            }
            other => vec![other],
        }
    }

    /// The arrays in it, the outermost first.
    #[must_use]
    pub fn arrays(&self) -> Vec<&ArraySpec> {
        let DeviceSpec::Array(spec) = self else { return Vec::new() };
        std::iter::once(spec).chain(spec.members.iter().flat_map(DeviceSpec::arrays)).collect()
    }

    /// Size that a member has where it names none, so that the array has `size_bytes`.
    #[must_use]
    pub fn member_size(spec: &ArraySpec, size_bytes: u64) -> u64 {
        spec.array.share(size_bytes, spec.members.len())
    }

    /// The devices that it is made of with their sizes, where `size_bytes` is that of a whole that names
    /// none. What a device of the user's holds is not known here: it has that size too.
    #[must_use]
    pub fn leaf_sizes(&self, size_bytes: u64) -> Vec<(&DeviceSpec, u64)> {
        match self {
            DeviceSpec::Array(spec) => {
                let share = DeviceSpec::member_size(spec, size_bytes);
                spec.members.iter().flat_map(|member| member.leaf_sizes(share)).collect()
            }
            other => vec![(other, other.size(size_bytes))],
        }
    }

    /// How much it holds, but for what arrays keep for themselves, where `size_bytes` is the size of a
    /// whole that names none.
    #[must_use]
    pub fn size(&self, size_bytes: u64) -> u64 {
        match self {
            DeviceSpec::LoopImage { size_bytes: own }
            | DeviceSpec::Emulated { size_bytes: own, .. } => own.unwrap_or(size_bytes),
            DeviceSpec::Block { .. } => size_bytes,
            DeviceSpec::Array(spec) => {
                let share = DeviceSpec::member_size(spec, size_bytes);
                let sizes: Vec<u64> = spec.members.iter().map(|it| it.size(share)).collect();
                spec.array.capacity(&sizes)
            }
        }
    }

    /// The paths of the user's devices in it.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.leaves().into_iter().filter_map(|leaf| match leaf {
            DeviceSpec::Block { path } => Some(path.as_path()),
            _ => None,
        })
    }

    fn depth(&self) -> usize {
        match self {
            DeviceSpec::Array(spec) => {
                1 + spec.members.iter().map(DeviceSpec::depth).max().unwrap_or_default()
            }
            _ => 0,
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::LoopImage { size_bytes: None } => f.write_str("loop"),
            DeviceSpec::LoopImage { size_bytes: Some(size) } => {
                write!(f, "loop:{}", units::exact_bytes(*size))
            }
            DeviceSpec::Block { path } => write!(f, "{}", path.display()),
            DeviceSpec::Emulated { model, size_bytes: None } => write!(f, "disk:{model}"),
            DeviceSpec::Emulated { model, size_bytes: Some(size) } => {
                write!(f, "disk:{model}:{}", units::exact_bytes(*size))
            }
            DeviceSpec::Array(spec) => write!(f, "{spec}"),
        }
    }
}

/// The pieces between the commas that are inside no parentheses; an empty text has none.
fn split_list(text: &str) -> Result<Vec<&str>, String> {
    let (mut pieces, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1).ok_or_else(|| format!("`{text}`: a ) too many"))?;
            }
            ',' if depth == 0 => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("`{text}`: not closed"));
    }
    if !text.is_empty() {
        pieces.push(&text[start..]);
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_read_back() {
        for text in [
            "raid1",
            "raid0(loop:4GiB,loop:4GiB,chunk=64KiB)",
            "raid10(bitmap)",
            "crypt(raid1(/dev/sdb,/dev/sdc))",
            "lvm-stripe(disk:hdd-7200-2007,disk:hdd-7200-2007:1GiB,chunk=128KiB)",
            "pool(loop,loop,loop)",
        ] {
            let device = DeviceSpec::parse(text).expect(text);
            assert_eq!(device.to_string(), text);
            let json = serde_json::to_string(&device).unwrap();
            assert_eq!(serde_json::from_str::<DeviceSpec>(&json).unwrap(), device, "{json}");
        }
        let short = DeviceSpec::parse("raid1(4GiB,4GiB)").unwrap();
        assert_eq!(short.to_string(), "raid1(loop:4GiB,loop:4GiB)");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, words) in [
            ("raid1(4GiB)", "at least two"),
            ("crypt(loop,loop)", "one member"),
            ("raid1(chunk=64KiB)", "no chunks"),
            ("raid0(chunk=5000)", "power of two"),
            ("raid0(bitmap)", "no bitmap"),
            ("raid1(4GiB,x)", "`x` is not a device"),
            ("raid1(4GiB,", "not closed"),
            ("raid1(loop,raid1(loop,loop)", "not closed"),
            ("raid1(loop))", "too many"),
            ("raid5", "raid10"),
            ("raid1(pool,loop)", "not for another array"),
            ("crypt(crypt(crypt(crypt)))", "deep"),
            ("raid1()(", "not closed"),
        ] {
            let error = DeviceSpec::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let many = format!("raid0({})", vec!["loop"; 17].join(","));
        assert!(DeviceSpec::parse(&many).unwrap_err().contains("at most 16"));
    }

    #[test]
    fn an_array_is_as_large_as_a_disk_would_be() {
        const GIB: u64 = 1 << 30;
        for (text, leaves, size) in [
            ("raid0", vec![GIB / 2; 2], GIB),
            ("raid1", vec![GIB; 2], GIB),
            ("raid10", vec![GIB / 2; 4], GIB),
            ("crypt", vec![GIB], GIB),
            ("pool(loop,loop,2GiB)", vec![342 << 20, 342 << 20, 2 * GIB], (684 << 20) + 2 * GIB),
            ("raid1(raid0(2GiB,3GiB),loop)", vec![2 * GIB, 3 * GIB, GIB], GIB),
        ] {
            let device = DeviceSpec::parse(text).unwrap();
            let found: Vec<u64> = device.leaf_sizes(GIB).iter().map(|(_, size)| *size).collect();
            assert_eq!((found, device.size(GIB)), (leaves, size), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_accepted_reads_back(text in "(raid0|raid1|crypt|pool|\\(|\\)|,|loop|4KiB|chunk=|bitmap|/dev/s|é){0,12}") {
            if let Ok(device) = DeviceSpec::parse(&text) {
                proptest::prop_assert_eq!(DeviceSpec::parse(&device.to_string()), Ok(device.clone()));
            }
        }
    }
}
