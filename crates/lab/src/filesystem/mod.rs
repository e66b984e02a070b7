//! The catalogue of filesystems. Each entry says how to make, mount, check and read back one of them,
//! and by which names its kernel threads go. When these things are done is for [`crate::stand`].
//!
//! To add a filesystem: one new file here, its `mod` line and its line in [`ALL`].

mod bcachefs;
mod btrfs;
mod exfat;
mod ext2;
mod ext3;
mod ext4;
mod ext_family;
mod ext_groups;
mod f2fs;
mod jfs;
mod nilfs2;
mod ntfs3;
mod reiserfs;
mod xfs;
mod zfs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use crate::arguments::MkfsOptions;
use crate::command::{self, CommandError, CommandSpec};
use crate::tools::ToolDef;

/// Every filesystem that can be measured, in the order in which lists show them.
pub static ALL: &[&FilesystemDef] = &[
    &ext2::DEF,
    &ext3::DEF,
    &ext4::DEF,
    &xfs::DEF,
    &btrfs::DEF,
    &zfs::DEF,
    &bcachefs::DEF,
    &f2fs::DEF,
    &jfs::DEF,
    &reiserfs::DEF,
    &nilfs2::DEF,
    &exfat::DEF,
    &ntfs3::DEF,
];

/// The entry called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static FilesystemDef> {
    ALL.iter().copied().find(|filesystem| filesystem.info.name == name)
}

/// The devices of one filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Members<'a> {
    /// The device of the filesystem.
    pub device: &'a Path,
    /// Further devices of it, where it puts several together itself.
    pub others: &'a [PathBuf],
    /// The device of its journal or log, where that is another.
    pub journal: Option<&'a Path>,
}

/// Parameters of a filesystem, by name.
pub type Parameters = BTreeMap<String, String>;

/// What an exit code of a check means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The filesystem is consistent.
    Clean,
    /// It had errors that were corrected.
    Corrected,
    /// It has errors.
    Errors,
    /// The check itself could not be done.
    Operational,
}

/// How a filesystem is checked after a trial.
#[derive(Debug, Clone, Copy)]
pub enum Fsck {
    /// By a program that does not write.
    Program {
        /// The command.
        command: fn(Members<'_>) -> CommandSpec,
        /// What its exit code means, in words.
        meaning: fn(i32) -> (Verdict, &'static str),
    },
    /// By none: why, in words that follow its name. That the contents are right is still read back.
    Missing(&'static str),
}

/// A filesystem of the catalogue.
#[derive(Debug)]
pub struct FilesystemDef {
    /// What plans and lists know of it; its name is also the type for mounting.
    pub info: FilesystemInfo,
    /// The programs that it takes: mkfs first, then fsck where there is one, then the reader of its superblock
    /// where that is not read here.
    pub tools: &'static [ToolDef],
    /// Smallest device on which mkfs makes it with its defaults, in bytes.
    pub min_size_bytes: u64,
    /// Smallest device for its external journal, in bytes.
    pub min_journal_bytes: u64,
    /// The names in `/proc/filesystems` that can mount it, the best first.
    pub drivers: &'static [&'static str],
    /// The commands that make it, in order, with the user's arguments.
    pub mkfs: fn(Members<'_>, &[String]) -> Vec<CommandSpec>,
    /// What its mkfs accepts of the user.
    pub mkfs_options: MkfsOptions,
    /// What is mounted, as the kernel is told.
    pub mount_source: fn(Members<'_>) -> String,
    /// Mount options that it cannot do without.
    pub mount_options: fn(Members<'_>) -> Vec<String>,
    /// What has the kernel know of it before it is mounted, where a mount alone does not.
    pub attach: fn(Members<'_>) -> Option<CommandSpec>,
    /// What has the kernel forget it after mkfs and after it was unmounted, where it else would not.
    pub detach: fn(Members<'_>) -> Option<CommandSpec>,
    /// Whether it has a cache besides the kernel's, which is emptied by mounting it again.
    pub has_own_cache: bool,
    /// Why it is measured in guests only; `None` for all that can be measured on a host.
    pub guests_only: Option<&'static str>,
    /// How it is checked.
    pub fsck: Fsck,
    /// Its parameters as the superblock of the mounted filesystem has them. Each command has at most
    /// the given time.
    pub read_back: fn(Members<'_>, &Path, Duration) -> Result<Parameters, CommandError>,
    /// The names of the kernel threads that work for it, with `*` for any text.
    pub kernel_threads: fn(&MemberNames) -> Vec<String>,
    /// What it still does after being made and mounted; `None` once it is at rest.
    pub unrest: fn(Members<'_>) -> Option<String>,
}

/// What the kernel calls the devices of one filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberNames {
    /// The name of the filesystem's device in sysfs, such as `loop3`; empty where it is on none.
    pub device: String,
    /// The name of its journal's device.
    pub journal: Option<String>,
    /// All device numbers as `7:3`.
    pub numbers: Vec<String>,
}

impl MemberNames {
    /// The names of all devices.
    fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.device.as_str())
            .chain(self.journal.as_deref())
            .filter(|name| !name.is_empty())
    }

    /// Workers that serve any filesystem on these devices: writeback and the completion of direct I/O.
    /// A worker bears the name `flush-…` only while it writes back; before and after it is a plain
    /// `writeback`, whatever device it served. On a machine at rest that is the device measured.
    fn worker_patterns(&self) -> Vec<String> {
        let flush = self.numbers.iter().map(|number| format!("kworker/*-flush-{number}"));
        let direct = self.all().map(|name| format!("kworker/*-dio/{name}"));
        flush.chain(direct).chain(["kworker/*-writeback".to_owned()]).collect()
    }
}

/// The command that makes a filesystem on its one device, with the user's arguments behind its own.
fn make(
    program: &'static str,
    own: &[&str],
    members: Members<'_>,
    user: &[String],
) -> Vec<CommandSpec> {
    vec![CommandSpec::new(program, own).args(user).arg(members.device.display().to_string())]
}

/// A command on the device of a filesystem.
fn on_device(program: &'static str, own: &[&str], members: Members<'_>) -> CommandSpec {
    CommandSpec::new(program, own).arg(members.device.display().to_string())
}

/// What a command on the device prints, within `limit`.
fn told(
    program: &'static str,
    own: &[&str],
    members: Members<'_>,
    limit: Duration,
) -> Result<String, CommandError> {
    Ok(command::run_checked(&on_device(program, own, members), limit)?.stdout)
}

/// The pattern of a thread whose name starts with `start`, as kernels before 5.17 cut it at 15 bytes.
fn thread_pattern(start: &str) -> String {
    const COMM_BYTES: usize = 15;
    let end =
        start.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= COMM_BYTES);
    format!("{}*", &start[..end.last().unwrap_or(0)])
}

/// The values behind `NAME:` in the lines of a text, under other names; white space is made one blank, and
/// quotes go.
fn colon_fields(text: &str, wanted: &[(&str, &str)]) -> Parameters {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let known = fields.filter_map(|(name, value)| {
        let (_, key) = wanted.iter().find(|(wanted, _)| *wanted == name.trim())?;
        let words: Vec<&str> = value.split_whitespace().collect();
        Some(((*key).to_owned(), words.join(" ").trim_matches('"').to_owned()))
    });
    known.collect()
}

impl FilesystemDef {
    /// What many share: nothing on another device, no mount option that they cannot do without, no threads of
    /// their own, and rest as soon as they are made.
    const USUAL: FilesystemDef = FilesystemDef {
        info: FilesystemInfo { name: "", summary: "", external_journal: None },
        tools: &[],
        min_size_bytes: 16 << 20,
        min_journal_bytes: 0,
        drivers: &[],
        mkfs: |_, _| Vec::new(),
        mkfs_options: MkfsOptions {
            flags: &[],
            valued: &[],
            paths: &[],
            refused: &[],
            configuration: None,
        },
        mount_source: |members| members.device.display().to_string(),
        mount_options: |_| Vec::new(),
        attach: |_| None,
        detach: |_| None,
        has_own_cache: false,
        guests_only: None,
        fsck: Fsck::Missing(""),
        read_back: |_, _, _| Ok(Parameters::new()),
        kernel_threads: MemberNames::worker_patterns,
        unrest: |_| None,
    };

    /// Whether this kernel can mount it, now or by loading a module. `Some` text tells which driver
    /// does, where that is another's.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    pub fn kernel_support(&self) -> Result<Option<String>, String> {
        let listed = fsdyno_sys::kernel::filesystems().map_err(|error| error.to_string())?;
        let listed: Vec<&str> = listed.iter().map(|found| found.name.as_str()).collect();
        let release = fsdyno_sys::kernel::facts().release;
        supported_by(self.info.name, self.drivers, &listed, &installed_modules(), &release)
    }
}

/// The modules of this kernel, built in or to be loaded, as their lists have them.
#[derive(Debug, Default)]
pub struct InstalledModules(String);

/// Reads the lists of this kernel's modules; empty where there are none.
#[must_use]
pub fn installed_modules() -> InstalledModules {
    let directory = Path::new("/lib/modules").join(fsdyno_sys::kernel::facts().release);
    let texts = ["modules.builtin", "modules.dep"];
    let lists = texts.map(|name| std::fs::read_to_string(directory.join(name)).unwrap_or_default());
    InstalledModules(lists.concat())
}

impl InstalledModules {
    /// Whether a module of this name is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let file = format!("/{name}.ko");
        self.0.lines().filter_map(|line| line.split(':').next()).any(|path| {
            path.rsplit_once(&file)
                .is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

fn supported_by(
    name: &str,
    drivers: &[&str],
    listed: &[&str],
    modules: &InstalledModules,
    release: &str,
) -> Result<Option<String>, String> {
    for driver in drivers {
        let note = (*driver != name).then(|| format!("served by the kernel's {driver} driver"));
        if listed.contains(driver) {
            return Ok(note);
        }
        if modules.has(driver) {
            return Ok(Some(note.unwrap_or_else(|| format!("module {driver} is loaded at mount"))));
        }
    }
    Err(format!("this kernel ({release}) has no {name}: boot one that has, or leave {name} out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_well_formed() {
        let mut names: Vec<&str> = ALL.iter().map(|filesystem| filesystem.info.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for filesystem in ALL {
            let name = filesystem.info.name;
            assert!(std::ptr::eq(by_name(name).unwrap(), *filesystem));
            assert!(!filesystem.info.summary.is_empty() && filesystem.min_size_bytes > 0);
            let device = Path::new("/dev/loop7");
            for journal in [None, filesystem.info.external_journal.map(|_| Path::new("/dev/loop8"))]
            {
                let members = Members { device, others: &[], journal };
                let user = ["-L".to_owned(), "x".to_owned()];
                let commands = (filesystem.mkfs)(members, &user);
                let last = commands.last().unwrap();
                assert_eq!(last.args.last().unwrap(), "/dev/loop7", "{name}");
                assert!(last.args.windows(2).any(|pair| pair == user), "{name}");
                assert_eq!(
                    commands.iter().any(|c| c.to_string().contains("/dev/loop8")),
                    journal.is_some()
                );
                let check = match filesystem.fsck {
                    Fsck::Program { command, .. } => Some(command(members)),
                    Fsck::Missing(why) => {
                        assert!(!why.is_empty(), "{name}");
                        None
                    }
                };
                assert!(filesystem.tools.len() >= 2, "{name}");
                let around = [(filesystem.attach)(members), (filesystem.detach)(members)];
                assert_eq!(around[0].is_some(), around[1].is_some(), "{name}");
                let around = around.iter().flatten();
                let used = commands.iter().chain(&check).chain(around).all(|command| {
                    filesystem.tools.iter().any(|tool| tool.name == command.program)
                });
                assert!(used, "{name}: a command is not among its tools");
            }
            let Fsck::Program { meaning, .. } = filesystem.fsck else { continue };
            assert_eq!(meaning(0).0, Verdict::Clean);
            for code in [1, 4, 8, 16, 32, 127, 128, 255] {
                let (verdict, meaning) = meaning(code);
                assert!(verdict != Verdict::Clean && !meaning.is_empty(), "{name} {code}");
            }
        }
    }

    #[test]
    fn support_is_found_in_the_kernel_or_its_modules() {
        let modules = "kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko\nkernel/fs/ext4/ext4.ko\n";
        let ask = |name, drivers: &[&str], listed: &[&str]| {
            supported_by(name, drivers, listed, &InstalledModules(modules.to_owned()), "6.1")
        };
        assert_eq!(ask("ext4", &["ext4"], &["ext4"]), Ok(None));
        assert_eq!(ask("xfs", &["xfs"], &[]).unwrap().unwrap(), "module xfs is loaded at mount");
        let note = ask("ext2", &["ext2", "ext4"], &[]).unwrap().unwrap();
        assert_eq!(note, "served by the kernel's ext4 driver");
        assert!(ask("btrfs", &["btrfs"], &["ext4"]).unwrap_err().contains("has no btrfs"));
        assert!(ask("libcrc32c", &["libcrc32c"], &[]).is_err(), "a dependency is not the module");
    }

    #[test]
    fn threads_are_told_apart_by_device() {
        let names = MemberNames {
            device: "loop1".to_owned(),
            journal: Some("loop2".to_owned()),
            numbers: vec!["7:1".to_owned(), "7:2".to_owned()],
        };
        for (filesystem, mine, others) in [
            (
                "ext4",
                &[
                    "jbd2/loop1-8",
                    "jbd2/loop2",
                    "kworker/u8:1-flush-7:1",
                    "kworker/u8:1-writeback",
                    "kworker/0:1-ext4-rsv-conversion",
                ][..],
                &[
                    "jbd2/loop11-8",
                    "kworker/u8:1-flush-7:11",
                    "kworker/0:2H-kblockd",
                    "kworker/u8:0-loop1",
                    "kworker/u8:0-events_unbound",
                ][..],
            ),
            (
                "xfs",
                &["xfsaild/loop1", "kworker/1:0-xfs-cil/loop1", "kworker/0:1-xfs-log/loop1"][..],
                &["xfsaild/loop11", "kworker/1:0-xfs-cil/vda1", "kworker/0:0-dio/vda"][..],
            ),
            (
                "btrfs",
                &[
                    "btrfs-transaction",
                    "btrfs-cleaner",
                    "kworker/u8:5-btrfs-endio-write",
                    "kworker/u8:1-flush-btrfs-3",
                    "kworker/u8:1-events_unbound",
                ][..],
                &["jbd2/vda-8", "kworker/u8:1-flush-254:0"][..],
            ),
            (
                "bcachefs",
                &[
                    "bch-copygc/loop1",
                    "bch-reclaim/loop1",
                    "bch-rebalance/0d1f2c3a-9b1c-4c58-8f5e-0a6c1b9d7e21",
                    "kworker/u8:1-bcachefs_journal",
                    "kworker/u8:0-btree_update",
                    "kworker/u8:2-flush-bcachefs-1",
                ][..],
                &["bch-copygc/loop11", "kworker/u8:1-flush-254:0", "jbd2/loop1-8"][..],
            ),
        ] {
            let patterns = (by_name(filesystem).unwrap().kernel_threads)(&names);
            let matched = |comm: &str| {
                patterns.iter().any(|pattern| fsdyno_model::wire::matches(pattern, comm))
            };
            for comm in mine {
                assert!(matched(comm), "{filesystem}: {comm} is missing in {patterns:?}");
            }
            for comm in others {
                assert!(!matched(comm), "{filesystem}: {comm} is another's");
            }
        }
        assert_eq!(thread_pattern("jbd2/nvme0n1p1-"), "jbd2/nvme0n1p1-*");
        assert_eq!(thread_pattern("jbd2/nvme0n1p11-"), "jbd2/nvme0n1p11*");
    }
}
