//! Targets: a device, a filesystem, mkfs options, mount options and an age; and their grammar on the
//! command line,
//!
//! ```text
//! [LABEL=]FS[+log|+journal][/MKFS OPTIONS][:MOUNT OPTIONS][~AGE][@DEVICE][@kernel=KERNEL]
//! [LABEL=]dir:PATH
//! ```
//!
//! A backslash takes the meaning from `/`, `:`, `~` and `@` inside options.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::age::{self, AgeSpec};
pub use crate::device::{ArrayKind, ArraySpec, DeviceSpec};
use crate::info::Names;
use crate::kernel::{self, KernelChoice};

/// What lies under the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ground {
    /// A filesystem made for each trial.
    Fresh(FreshSpec),
    /// A directory on whatever is mounted there already; needs no root.
    Directory {
        /// Its path as given.
        path: PathBuf,
    },
}

/// A filesystem that is made anew for each trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreshSpec {
    /// Its name in the catalogue.
    pub filesystem: String,
    /// Arguments for mkfs, one each.
    #[serde(default)]
    pub mkfs: Vec<String>,
    /// Mount options, comma-separated; empty for none.
    #[serde(default)]
    pub mount: String,
    /// Where it is made.
    pub device: DeviceSpec,
    /// Where its journal (ext3, ext4) or log (xfs) is, when not inside.
    #[serde(default)]
    pub journal: Option<DeviceSpec>,
    /// What is done to it before the workload begins.
    #[serde(default)]
    pub age: Option<AgeSpec>,
    /// Which kernel its guests boot; that of the plan when absent.
    #[serde(default)]
    pub kernel: Option<KernelChoice>,
}

impl FreshSpec {
    /// Its device, then that of its journal where it has one.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceSpec> {
        std::iter::once(&self.device).chain(&self.journal)
    }

    /// All devices that these are made of, in order.
    pub fn leaves(&self) -> impl Iterator<Item = &DeviceSpec> {
        self.devices().flat_map(DeviceSpec::leaves)
    }

    /// As [`FreshSpec::leaves`], to be changed.
    pub fn leaves_mut(&mut self) -> impl Iterator<Item = &mut DeviceSpec> {
        let devices = std::iter::once(&mut self.device).chain(&mut self.journal);
        devices.flat_map(DeviceSpec::leaves_mut)
    }
}

/// One thing to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetSpec {
    /// Name in tables and results; unique within a plan.
    pub label: String,
    /// What lies under the workload.
    pub ground: Ground,
}

impl TargetSpec {
    /// The filesystem's name in the catalogue; `dir` for a directory.
    #[must_use]
    pub fn filesystem(&self) -> &str {
        match &self.ground {
            Ground::Fresh(fresh) => &fresh.filesystem,
            Ground::Directory { .. } => "dir",
        }
    }

    /// The kernel that it names for its guests.
    #[must_use]
    pub fn kernel(&self) -> Option<&KernelChoice> {
        match &self.ground {
            Ground::Fresh(fresh) => fresh.kernel.as_ref(),
            Ground::Directory { .. } => None,
        }
    }

    /// The text that [`TargetSpec::parse`] reads back to the same ground. A journal on a device of
    /// the user's, which only a plan can name, is shown as `+log=DEVICE`.
    #[must_use]
    pub fn unlabelled(&self) -> String {
        let fresh = match &self.ground {
            Ground::Directory { path } => return format!("dir:{}", path.display()),
            Ground::Fresh(fresh) => fresh,
        };
        let image = DeviceSpec::LoopImage { size_bytes: None };
        let mut text = fresh.filesystem.clone();
        if let Some(journal) = &fresh.journal {
            text.push_str(if fresh.filesystem == "xfs" { "+log" } else { "+journal" });
            if *journal != image {
                text.push_str(&format!("={journal}"));
            }
        }
        if !fresh.mkfs.is_empty() {
            text.push_str(&format!("/{}", escape(&join_mkfs(&fresh.mkfs))));
        }
        if !fresh.mount.is_empty() {
            text.push_str(&format!(":{}", escape(&fresh.mount)));
        }
        if let Some(age) = &fresh.age {
            text.push_str(&format!("~{age}"));
        }
        if fresh.device != image {
            text.push_str(&format!("@{}", fresh.device));
        }
        if let Some(kernel) = &fresh.kernel {
            text.push_str(&format!("{}{kernel}", kernel::MARK));
        }
        text
    }

    /// Reads a target as written on the command line.
    ///
    /// # Errors
    /// A sentence that says which part is wrong and what is accepted.
    pub fn parse(text: &str, names: &Names<'_>) -> Result<TargetSpec, String> {
        let (label, rest) = split_label(text);
        if let Some(path) = rest.strip_prefix("dir:") {
            if path.is_empty() {
                return Err("`dir:` needs a path: write dir:/mnt/data or dir:.".to_owned());
            }
            if looks_aged(path) {
                return Err(format!("`{text}`: {}", age::DIRECTORY_ERROR));
            }
            let ground = Ground::Directory { path: PathBuf::from(path) };
            return Ok(TargetSpec { label: label.unwrap_or(rest).to_owned(), ground });
        }
        let (before, kernel) = kernel::split(rest);
        let pieces = split_pieces(before);
        let (name, suffix) = match pieces.filesystem.split_once('+') {
            Some((name, suffix)) => (name, Some(suffix)),
            None => (pieces.filesystem.as_str(), None),
        };
        if name.is_empty() {
            return Err(format!(
                "`{text}` names no filesystem: write FS[/MKFS OPTIONS][:MOUNT OPTIONS][~AGE][@DEVICE][@kernel=KERNEL]"
            ));
        }
        let info = names.filesystem(name)?;
        let journal = match (suffix, info.external_journal) {
            (None, _) => None,
            (Some(given), Some(keyword)) if given == keyword => {
                Some(DeviceSpec::LoopImage { size_bytes: None })
            }
            (Some(given), Some(keyword)) => {
                return Err(format!(
                    "`{name}+{given}`: {name} has an external {keyword}: write `{name}+{keyword}`"
                ));
            }
            (Some(given), None) => {
                return Err(format!(
                    "`{name}+{given}`: {name} cannot have its journal on another device"
                ));
            }
        };
        let device = match &pieces.device {
            Some(device) => DeviceSpec::parse(device)?,
            None => DeviceSpec::LoopImage { size_bytes: None },
        };
        check_pool(name, &device)?;
        let mkfs = split_mkfs(&pieces.mkfs)?;
        let fresh = FreshSpec {
            filesystem: name.to_owned(),
            mkfs,
            mount: check_mount(&pieces.mount)?,
            device,
            journal,
            age: pieces.age.as_deref().map(AgeSpec::parse).transpose()?,
            kernel: kernel.map(KernelChoice::parse).transpose()?,
        };
        let label = label.unwrap_or(rest).to_owned();
        Ok(TargetSpec { label, ground: Ground::Fresh(fresh) })
    }
}

/// The target as the command line would have it, with its label where that is one that the grammar
/// can carry.
impl std::fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.unlabelled();
        let plain = !self.label.is_empty() && !self.label.contains(['=', '/', ':', '@', '+', '~']);
        if plain && self.label != text {
            write!(f, "{}={text}", self.label)
        } else {
            f.write_str(&text)
        }
    }
}

/// Filesystems that can be made on several devices.
const POOLING: [&str; 2] = ["btrfs", "bcachefs"];

/// Checks that only a filesystem which puts devices together itself is given several.
///
/// # Errors
/// A sentence that says what to write instead.
pub fn check_pool(filesystem: &str, device: &DeviceSpec) -> Result<(), String> {
    let is_pool = matches!(device, DeviceSpec::Array(spec) if spec.array == ArrayKind::Pool);
    if is_pool && !POOLING.contains(&filesystem) {
        return Err(format!(
            "{filesystem}@{device}: only {} put devices together themselves: take raid0 or raid1",
            POOLING.join(" and ")
        ));
    }
    Ok(())
}

/// Splits mkfs options into arguments as a shell would.
///
/// # Errors
/// A sentence when a quote is not closed.
pub fn split_mkfs(text: &str) -> Result<Vec<String>, String> {
    let words = shell_words::split(text)
        .map_err(|_| format!("mkfs options `{text}` have a quote that is not closed"))?;
    match words.iter().find(|word| word.contains('\0')) {
        Some(_) => Err(format!("mkfs options `{}` hold a NUL byte", text.escape_debug())),
        None => Ok(words),
    }
}

/// The arguments as one text that [`split_mkfs`] takes apart again.
#[must_use]
pub fn join_mkfs(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,.^/:@+%".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            shell_words::quote(word).into_owned()
        }
    });
    quoted.collect::<Vec<String>>().join(" ")
}

/// Checks the form of mount options: what they mean, the kernel will say.
///
/// # Errors
/// A sentence when they hold white space, a NUL or an empty option.
pub fn check_mount(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    if text.chars().any(|c| c.is_whitespace() || c == '\0') {
        return Err(format!(
            "mount options `{}` hold white space: separate them by commas",
            text.escape_debug()
        ));
    }
    if text.split(',').any(str::is_empty) {
        return Err(format!("mount options `{text}` hold an empty one"));
    }
    Ok(text.to_owned())
}

/// Checks a label: it heads a column and is a key in results.
///
/// # Errors
/// A sentence when it is empty, longer than 64 characters or holds a control character.
pub fn check_label(label: &str) -> Result<(), String> {
    if label.is_empty() || label.chars().count() > 64 || label.chars().any(char::is_control) {
        return Err(format!(
            "`{}` cannot be a label: 1 to 64 printable characters",
            label.escape_debug()
        ));
    }
    Ok(())
}

/// Whether a path ends as an aged target would and no such path is meant: `dir:/mnt~churn`.
fn looks_aged(path: &str) -> bool {
    path.rsplit_once('~').is_some_and(|(_, age)| AgeSpec::parse(age).is_ok())
}

struct Pieces {
    filesystem: String,
    mkfs: String,
    mount: String,
    age: Option<String>,
    device: Option<String>,
}

/// `old=ext3` → (`old`, `ext3`); an equals sign inside options is not a label's.
fn split_label(text: &str) -> (Option<&str>, &str) {
    match text.find(['=', '/', ':', '@', '+', '~']) {
        Some(at) if at > 0 && text.as_bytes()[at] == b'=' => (Some(&text[..at]), &text[at + 1..]),
        _ => (None, text),
    }
}

fn split_pieces(text: &str) -> Pieces {
    #[derive(PartialEq, PartialOrd)]
    enum At {
        Filesystem,
        Mkfs,
        Mount,
        Age,
    }
    let mut pieces = Pieces {
        filesystem: String::new(),
        mkfs: String::new(),
        mount: String::new(),
        age: None,
        device: None,
    };
    let mut at = At::Filesystem;
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        let (literal, c) = match c {
            '\\' => match chars.next() {
                Some((_, next @ ('/' | ':' | '~' | '@' | '\\'))) => (true, next),
                Some((_, next)) => {
                    let piece = match at {
                        At::Mkfs => &mut pieces.mkfs,
                        At::Age => pieces.age.get_or_insert_default(),
                        At::Filesystem | At::Mount => &mut pieces.mount,
                    };
                    piece.push('\\');
                    (true, next)
                }
                None => (true, '\\'),
            },
            c => (false, c),
        };
        match c {
            '/' if !literal && at == At::Filesystem => at = At::Mkfs,
            ':' if !literal && at < At::Mount => at = At::Mount,
            '~' if !literal && at < At::Age => {
                at = At::Age;
                pieces.age = Some(String::new());
            }
            // Among options a device is a path or a kind of device, so that an address stays whole.
            '@' if !literal
                && (matches!(at, At::Filesystem | At::Age)
                    || DeviceSpec::begins(&text[index + 1..])) =>
            {
                pieces.device = Some(text[index + 1..].to_owned());
                break;
            }
            c => match at {
                At::Filesystem => pieces.filesystem.push(c),
                At::Mkfs => pieces.mkfs.push(c),
                At::Mount => pieces.mount.push(c),
                At::Age => pieces.age.get_or_insert_default().push(c),
            },
        }
    }
    pieces
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, ':' | '~' | '@' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::FilesystemInfo;

    const EXT3: FilesystemInfo =
        FilesystemInfo { name: "ext3", summary: "", external_journal: Some("journal") };
    const XFS: FilesystemInfo =
        FilesystemInfo { name: "xfs", summary: "", external_journal: Some("log") };
    const BTRFS: FilesystemInfo =
        FilesystemInfo { name: "btrfs", summary: "", external_journal: None };
    const NAMES: Names<'static> = Names {
        workloads: &[],
        filesystems: &[&EXT3, &XFS, &BTRFS],
        load_workload: crate::info::no_files,
    };

    fn fresh(text: &str) -> (String, FreshSpec) {
        let target = TargetSpec::parse(text, &NAMES).expect(text);
        match target.ground {
            Ground::Fresh(fresh) => (target.label, fresh),
            Ground::Directory { .. } => panic!("{text} is a directory"),
        }
    }

    #[test]
    fn every_part_is_found() {
        let (label, spec) = fresh("xfs/-d agcount=1 -l size=128m:logbsize=256k");
        assert_eq!(label, "xfs/-d agcount=1 -l size=128m:logbsize=256k");
        assert_eq!(spec.mkfs, ["-d", "agcount=1", "-l", "size=128m"]);
        assert_eq!(spec.mount, "logbsize=256k");
        let (label, spec) = fresh("old=ext3:data=writeback,barrier=1");
        assert_eq!((label.as_str(), spec.filesystem.as_str()), ("old", "ext3"));
        assert_eq!(spec.mount, "data=writeback,barrier=1");
        let (_, spec) = fresh("btrfs:compress=zstd@/dev/sdb");
        assert_eq!(spec.device, DeviceSpec::Block { path: PathBuf::from("/dev/sdb") });
        for (text, model, size_bytes) in [
            ("ext3@disk:hdd-7200-2007", "hdd-7200-2007", None),
            ("xfs:noatime@disk:ssd-sata:8GiB", "ssd-sata", Some(8 << 30)),
            ("ext3@disk:/x/a:b.toml", "/x/a:b.toml", None),
        ] {
            let (_, spec) = fresh(text);
            assert_eq!(spec.device, DeviceSpec::Emulated { model: model.to_owned(), size_bytes });
            assert!(text.ends_with(&spec.device.to_string()), "{text}");
        }
        for text in ["ext3@raid1", "xfs:noatime@raid0(4GiB,4GiB,chunk=64KiB)", "btrfs@pool"] {
            let (label, spec) = fresh(text);
            assert!(label == text && matches!(spec.device, DeviceSpec::Array(_)), "{text}");
        }
        assert!(TargetSpec::parse("ext3@disk:", &NAMES).unwrap_err().contains("disk list"));
        let (_, spec) = fresh("xfs+log@loop:4GiB");
        assert_eq!(spec.device, DeviceSpec::LoopImage { size_bytes: Some(4 << 30) });
        assert!(spec.journal.is_some());
        let (_, spec) = fresh(r"ext3/-E root_owner=0\:0:noatime");
        assert_eq!(spec.mkfs, ["-E", "root_owner=0:0"]);
        assert_eq!(spec.mount, "noatime");
        let text = "ext3/-L a\\~b:noatime~churn(utilisation=90%,sizes=mail)@loop:1GiB";
        let (label, spec) = fresh(text);
        assert_eq!((label.as_str(), spec.mount.as_str()), (text, "noatime"));
        assert_eq!(spec.mkfs, ["-L", "a~b"]);
        assert_eq!(spec.age, Some(AgeSpec::parse("churn(utilisation=90%,sizes=mail)").unwrap()));
        assert_eq!(spec.device, DeviceSpec::LoopImage { size_bytes: Some(1 << 30) });
        let (label, spec) = fresh("old=xfs+log~compilebench(rounds=5)");
        assert_eq!((label.as_str(), spec.age.unwrap().kind()), ("old", "compilebench"));
        assert!(spec.journal.is_some());
        assert_eq!(fresh("ext3~churn(age=3)").0, "ext3~churn(age=3)");
        let (label, spec) = fresh("xfs+log:noatime@loop:1GiB@kernel=6.12");
        assert_eq!(label, "xfs+log:noatime@loop:1GiB@kernel=6.12");
        assert_eq!(spec.kernel.unwrap().version(), Some("6.12"));
        assert_eq!(spec.device, DeviceSpec::LoopImage { size_bytes: Some(1 << 30) });
        assert_eq!(fresh("new=ext3@kernel=/boot/a@b").1.kernel.unwrap().to_string(), "/boot/a@b");
    }

    #[test]
    fn directories_keep_their_whole_path() {
        let target = TargetSpec::parse("home=dir:/srv/a:b@c", &NAMES).unwrap();
        assert_eq!(target.label, "home");
        assert_eq!(target.ground, Ground::Directory { path: PathBuf::from("/srv/a:b@c") });
        assert_eq!(target.filesystem(), "dir");
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, words) in [
            ("", "names no filesystem"),
            ("ext33", "did you mean `ext3`"),
            ("xfs+journal", "write `xfs+log`"),
            ("btrfs+log", "cannot have its journal"),
            ("ext3@loop:x", "is not a size"),
            ("ext3@sdb", "is not a device"),
            ("ext3@pool", "only btrfs and bcachefs"),
            ("ext3@raid1(4GiB)", "at least two"),
            ("ext3/-O 'x", "quote that is not closed"),
            ("ext3:a,,b", "empty one"),
            ("dir:", "needs a path"),
            ("ext3~", "there is no kind of age"),
            ("ext3~churn(age=3", "not closed"),
            ("ext3~churns@/dev/sdb", "did you mean `churn`"),
            ("ext3@loop~churn", "is not a device"),
            ("ext3@kernel=", "is no kernel"),
            ("dir:/mnt~churn(age=3)", "a directory cannot be aged"),
        ] {
            let error = TargetSpec::parse(text, &NAMES).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_text_reads_back() {
        for text in [
            "ext3",
            "old=ext3:data=writeback",
            "xfs+log/-d agcount=1:logbsize=256k@/dev/sdb",
            r"ext3/-E root_owner=0\:0",
            "ext3:noatime@crypt(raid1(/dev/sdb,/dev/sdc))",
            "dir:/tmp",
            "dir:/tmp/a@kernel=6.1",
            "ext3~churn@/dev/sdb@kernel=6.1",
            r"ext3:x=a\@kernel=1@kernel=/b/c.deb",
        ] {
            let target = TargetSpec::parse(text, &NAMES).unwrap();
            assert_eq!(TargetSpec::parse(&target.to_string(), &NAMES).unwrap(), target, "{target}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = TargetSpec::parse(&text, &NAMES);
        }

        #[test]
        fn what_is_accepted_reads_back(text in "(a=)?(ext3|xfs|btrfs)(/[-a-z0-9=:@\\\\ ]{0,12})?(:[a-z=,:@\\\\]{0,10})?(@/dev/[a-z]{1,4})?(@kernel=[0-9./a-z@\\\\]{0,6})?") {
            if let Ok(target) = TargetSpec::parse(&text, &NAMES) {
                let again = TargetSpec::parse(&target.to_string(), &NAMES);
                proptest::prop_assert_eq!(again.map(|t| t.ground), Ok(target.ground), "{}", text);
            }
        }
    }
}
