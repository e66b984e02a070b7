//! Mounting, unmounting, and the mount table read back. The options are given as for mount(8); what
//! they mean to a filesystem is the kernel's business, and its explanation of a refusal is kept.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_create_exclusive, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount_change, move_mount,
};
use rustix::thread::UnshareFlags;

use crate::block::DeviceNumber;
use crate::error::{Result, SysError};
use crate::file;
use crate::mount_options::{MountOptions, parse_options};

/// How long [`unmount`] insists while the filesystem is busy.
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(10);

/// Mounts `source` (a device, or any word for a filesystem without one) on the directory `target`
/// with comma-separated `options` as for mount(8), such as `noatime,data=ordered`.
///
/// The filesystem must not be mounted elsewhere: a second mount would silently ignore its own options
/// (refused with `EBUSY` from Linux 6.6 on).
///
/// # Errors
/// The kernel's errno and, where it gave one, its explanation.
pub fn mount(fs_type: &str, source: &str, target: &Path, options: &str) -> Result<()> {
    let parsed = parse_options(options);
    let failed = |errno| SysError::new("mount", format!("{source} on {}", target.display()), errno);
    let context = match fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(context) => context,
        Err(Errno::NOSYS) => {
            return mount_classic(fs_type, source, target, &parsed).map_err(failed);
        }
        Err(Errno::NODEV) => {
            return Err(failed(Errno::NODEV)
                .with_detail(format!("this kernel has no filesystem \"{fs_type}\"")));
        }
        Err(errno) => return Err(failed(errno)),
    };
    configure(&context, source, &parsed).map_err(|refusal| refusal.into_error(&context, failed))?;
    let create = match fsconfig_create_exclusive(context.as_fd()) {
        Err(Errno::OPNOTSUPP) => fsconfig_create(context.as_fd()),
        other => other,
    };
    let hint = |errno| match errno {
        Errno::BUSY => "the device is in use or already mounted",
        _ => "the kernel log may say more: dmesg",
    };
    create.map_err(|errno| {
        Refusal { errno, hint: hint(errno).into() }.into_error(&context, failed)
    })?;
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, parsed.attributes)
        .map_err(|errno| Refusal { errno, hint: "fsmount".into() }.into_error(&context, failed))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS;
    move_mount(mounted.as_fd(), "", CWD, target, flags).map_err(failed)
}

/// Makes the filesystem `fs_type`, one of the kernel's own without a device, reachable through the
/// descriptor alone: it has no place in the tree, nobody else sees it, and it is gone when the descriptor
/// is closed. Paths lead into it by [`descriptor_path`].
///
/// # Errors
/// The kernel's errno and, where it gave one, its explanation; `ENOSYS` before Linux 5.2.
pub fn mount_detached(fs_type: &str) -> Result<OwnedFd> {
    let failed = |errno| SysError::new("mount", fs_type, errno);
    let context = fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    let refused =
        |errno, hint: &str| Refusal { errno, hint: hint.to_owned() }.into_error(&context, failed);
    fsconfig_create(context.as_fd()).map_err(|errno| refused(errno, "fsconfig"))?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|errno| refused(errno, "fsmount"))
}

/// Where the directory behind `descriptor` is found by this process.
pub fn descriptor_path(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

/// A refused step of mounting, before the kernel's explanation is known.
struct Refusal {
    errno: Errno,
    hint: String,
}

impl Refusal {
    /// With the kernel's words where there are any, else with the hint.
    fn into_error(self, context: &OwnedFd, failed: impl Fn(Errno) -> SysError) -> SysError {
        let messages = kernel_messages(context);
        let detail = if messages.is_empty() {
            self.hint
        } else {
            format!("kernel: {}", messages.join("; "))
        };
        failed(self.errno).with_detail(detail)
    }
}

fn configure(
    context: &OwnedFd,
    source: &str,
    options: &MountOptions,
) -> std::result::Result<(), Refusal> {
    let refused = |option: &str| {
        let hint = format!("option \"{option}\"");
        move |errno| Refusal { errno, hint }
    };
    fsconfig_set_string(context.as_fd(), "source", source).map_err(refused("source"))?;
    for flag in &options.superblock_flags {
        fsconfig_set_flag(context.as_fd(), *flag).map_err(refused(flag))?;
    }
    for (key, value) in &options.parameters {
        match value {
            None => fsconfig_set_flag(context.as_fd(), key).map_err(refused(key))?,
            Some(value) => {
                fsconfig_set_string(context.as_fd(), key, value).map_err(refused(key))?
            }
        }
    }
    Ok(())
}

/// What the filesystem has written to its configuration context: one message a read, each led by its
/// severity (`e `, `w `, `i `), until there is no more.
fn kernel_messages(context: &OwnedFd) -> Vec<String> {
    const MESSAGES_MAX: usize = 16;
    let mut messages = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count) = rustix::io::read(context, &mut buffer)
        && count > 0
        && messages.len() < MESSAGES_MAX
    {
        let text = String::from_utf8_lossy(&buffer[..count]);
        let text = text.trim_end();
        let message =
            ["e ", "w ", "i "].iter().find_map(|lead| text.strip_prefix(lead)).unwrap_or(text);
        messages.push(message.to_owned());
    }
    messages
}

/// mount(2), for kernels before 5.2: no explanations.
fn mount_classic(
    fs_type: &str,
    source: &str,
    target: &Path,
    options: &MountOptions,
) -> std::result::Result<(), Errno> {
    let data = CString::new(options.data()).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(source, target, fs_type, options.classic_flags, Some(data.as_c_str()))
}

/// Unmounts what was mounted last on `target`, and insists for up to 10 s while it is busy.
///
/// # Errors
/// `EBUSY` where it is still in use then; `EINVAL` where nothing is mounted there.
pub fn unmount(target: &Path) -> Result<()> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if start.elapsed() < UNMOUNT_DEADLINE => std::thread::sleep(pause),
            Err(Errno::BUSY) => {
                let detail = "still in use; fuser -vm shows by whom";
                return Err(SysError::at_path("unmount", target, Errno::BUSY).with_detail(detail));
            }
            Err(errno) => return Err(SysError::at_path("unmount", target, errno)),
        }
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// As [`unmount`], and waits until the filesystem has let go of `device`: the mount may be gone while
/// another process that was forked during `mount` still holds the filesystem for a moment, and what it
/// writes last is not on the device then.
///
/// # Errors
/// As [`unmount`]; `EBUSY` where the device is still claimed 10 s later.
pub fn unmount_from(target: &Path, device: &Path) -> Result<()> {
    unmount(target)?;
    await_release(device)
}

/// Waits until no filesystem claims `device` any more.
///
/// # Errors
/// `EBUSY` where one still does 10 s later.
pub fn await_release(device: &Path) -> Result<()> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    while crate::block::is_claimed(device)? {
        if start.elapsed() > UNMOUNT_DEADLINE {
            let detail = "it is unmounted, but still in use";
            return Err(SysError::at_path("let go of", device, Errno::BUSY).with_detail(detail));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}

/// Takes the mount on `target` out of the tree at once; the filesystem ends when its last user lets go.
///
/// # Errors
/// `EINVAL` where nothing is mounted there.
pub fn unmount_lazy(target: &Path) -> Result<()> {
    rustix::mount::unmount(target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
        .map_err(|errno| SysError::at_path("unmount lazily", target, errno))
}

/// Gives the calling thread its own mount table, of which nobody else sees the changes and which
/// vanishes, with all that is mounted in it, when its last process ends. Threads and children started
/// afterwards share it; threads started before do not: call it first thing in `main`.
///
/// # Errors
/// `EPERM` without root.
pub fn private_namespace() -> Result<()> {
    // SAFETY: only the mount namespace (and with it the thread's own copy of root and working
    // directory) is unshared; descriptors stay shared, so no I/O safety rule is broken.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|errno| SysError::new("unshare", "the mount namespace", errno))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| SysError::new("make private", "/", errno))
}

/// One line of the mount table, as read from `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// Number of the mount, unique while it exists.
    pub id: u64,
    /// The mount it is mounted on.
    pub parent_id: u64,
    /// The filesystem's device number; anonymous (major 0) for btrfs and those without a device.
    pub device: DeviceNumber,
    /// The directory of the filesystem that is mounted.
    pub root: PathBuf,
    /// Where, relative to the process's root.
    pub mount_point: PathBuf,
    /// Options of this mount: `rw`, `noatime`, …
    pub mount_options: Vec<String>,
    /// Filesystem type, such as `ext4`.
    pub fs_type: String,
    /// What was mounted, such as `/dev/loop0`.
    pub source: String,
    /// Options of the filesystem itself, as it states them.
    pub super_options: Vec<String>,
}

impl MountInfo {
    /// The options of the mount and of the filesystem as one list, each once, in the kernel's order.
    pub fn effective_options(&self) -> String {
        let mut options: Vec<&str> = Vec::new();
        for option in self.mount_options.iter().chain(&self.super_options) {
            if !options.contains(&option.as_str()) {
                options.push(option);
            }
        }
        options.join(",")
    }
}

/// What is mounted in the calling thread's mount namespace, in order of mounting.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn mounts() -> Result<Vec<MountInfo>> {
    // A thread may have its own namespace; "self" would show that of the process's first thread.
    let own = Path::new("/proc/thread-self/mountinfo");
    let path = if own.exists() { own } else { Path::new("/proc/self/mountinfo") };
    let bytes = fs::read(path).map_err(|error| SysError::from_io("read", path, &error))?;
    Ok(parse_mountinfo(&String::from_utf8_lossy(&bytes)))
}

/// The mount that holds the file or directory `path`.
///
/// # Errors
/// Where `path` does not exist or the mount table cannot be read.
pub fn mount_containing(path: &Path) -> Result<Option<MountInfo>> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)
        .map_err(|errno| SysError::at_path("stat", path, errno))?;
    let mut mounts = mounts()?;
    if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
        return Ok(mounts.into_iter().find(|mount| mount.id == found.stx_mnt_id));
    }
    // Before Linux 5.8: of the mounts above it, the longest and, of those, the last.
    let path =
        fs::canonicalize(path).map_err(|error| SysError::from_io("resolve", path, &error))?;
    mounts.retain(|mount| path.starts_with(&mount.mount_point));
    Ok(mounts.into_iter().max_by_key(|mount| mount.mount_point.as_os_str().len()))
}

/// Where systems have a filesystem in memory that everybody may write to.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// The mount at [`SHARED_MEMORY`], where it is in memory and has room for `bytes`.
#[must_use]
pub fn shared_memory(bytes: u64) -> Option<MountInfo> {
    let path = Path::new(SHARED_MEMORY);
    let has_room = file::free_space(path).is_ok_and(|space| space.available >= bytes);
    let mounted = mount_containing(path).ok().flatten();
    mounted.filter(|it| has_room && it.fs_type == "tmpfs")
}

/// Parses the text of a `mountinfo` file (proc_pid_mountinfo(5)). Lines that lack a field are left out.
pub fn parse_mountinfo(text: &str) -> Vec<MountInfo> {
    text.lines().filter_map(parse_mountinfo_line).collect()
}

fn parse_mountinfo_line(line: &str) -> Option<MountInfo> {
    // Single spaces, not runs: a field may be empty. Optional fields end at a lone "-".
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let mut filesystem = filesystem.split(' ');
    let options = |list: &str| {
        list.split(',').filter(|option| !option.is_empty()).map(unescape_text).collect()
    };
    Some(MountInfo {
        id: mount.next()?.parse().ok()?,
        parent_id: mount.next()?.parse().ok()?,
        device: mount.next()?.parse().ok()?,
        root: unescape_path(mount.next()?),
        mount_point: unescape_path(mount.next()?),
        mount_options: options(mount.next()?),
        fs_type: unescape_text(filesystem.next()?),
        source: unescape_text(filesystem.next()?),
        super_options: options(filesystem.next()?),
    })
}

/// Undoes the kernel's `\ooo` for space, tab, newline, backslash and `#`. What is no complete escape
/// stays as it is.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        match escaped_byte(&bytes[index..]) {
            Some(byte) => {
                plain.push(byte);
                index += 4;
            }
            None => {
                plain.push(bytes[index]);
                index += 1;
            }
        }
    }
    plain
}

fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"\\")?.get(..3)?;
    digits.iter().try_fold(0u8, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

pub(crate) fn unescape_path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(text)))
}

fn unescape_text(text: &str) -> String {
    String::from_utf8_lossy(&unescape(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
36 27 7:1 /sub /mnt/a\\040b\\134c rw,noatime shared:1 master:2 - xfs /dev/loop1 rw,attr2,logbufs=8\n\
40 27 0:30 / /tmp rw - tmpfs  rw,size=4k\n";

    #[test]
    fn the_mount_table_is_parsed() {
        let mounts = parse_mountinfo(TABLE);
        assert_eq!(mounts.len(), 3);
        let xfs = &mounts[1];
        assert_eq!(
            (xfs.id, xfs.parent_id, xfs.device),
            (36, 27, DeviceNumber { major: 7, minor: 1 })
        );
        assert_eq!(xfs.mount_point, Path::new("/mnt/a b\\c"));
        assert_eq!(xfs.root, Path::new("/sub"));
        assert_eq!((xfs.fs_type.as_str(), xfs.source.as_str()), ("xfs", "/dev/loop1"));
        assert_eq!(xfs.effective_options(), "rw,noatime,attr2,logbufs=8");
        assert_eq!(mounts[2].source, "");
        assert_eq!(mounts[2].super_options, ["rw", "size=4k"]);
    }

    #[test]
    fn malformed_lines_are_left_out() {
        for line in [
            "",
            " - ",
            "x 1 254:0 / / rw - ext4 /dev/vda rw",
            "27 1 254 / / rw - ext4 /dev/vda rw",
            "27 1 254:0 / / rw ext4 /dev/vda rw",
            "27 1 254:0 / / - ext4 /dev/vda rw",
            "27 1 254:0 / / rw - ext4",
        ] {
            assert!(parse_mountinfo(line).is_empty(), "{line:?}");
        }
        for end in (0..TABLE.len()).filter(|&end| TABLE.is_char_boundary(end)) {
            assert!(parse_mountinfo(&TABLE[..end]).len() <= 3);
        }
    }

    #[test]
    fn escapes_are_undone_and_broken_ones_kept() {
        for (text, plain) in [
            ("a\\040b", "a b"),
            ("\\011\\012\\134\\043", "\t\n\\#"),
            ("\\04", "\\04"),
            ("\\", "\\"),
            ("\\999", "\\999"),
            ("\\777", "\\777"),
            ("é\\040", "é "),
        ] {
            assert_eq!(unescape_text(text), plain, "{text:?}");
        }
    }

    #[test]
    fn this_process_has_a_root_and_files_lie_on_mounts() {
        assert!(mounts().unwrap().iter().any(|mount| mount.mount_point == Path::new("/")));
        let proc = mount_containing(Path::new("/proc/version")).unwrap().unwrap();
        assert_eq!(proc.fs_type, "proc");
        assert!(mount_containing(Path::new("/no/such/file")).unwrap_err().is_not_found());
    }

    #[test]
    fn the_classic_call_mounts_with_the_same_options() {
        if !crate::process::is_root() || !crate::process::may_mount() {
            println!("skipped: needs root");
            return;
        }
        let thread = std::thread::spawn(|| {
            private_namespace().unwrap();
            let target = tempfile::tempdir().unwrap();
            let options = parse_options("ro,noatime,nosuid,size=1m");
            mount_classic("tmpfs", "none", target.path(), &options).unwrap();
            let found = mount_containing(target.path()).unwrap().unwrap();
            for option in ["ro", "noatime", "nosuid", "size=1024k"] {
                let effective = found.effective_options();
                assert!(
                    effective.split(',').any(|word| word == option),
                    "{option} not in {effective}"
                );
            }
            unmount(target.path()).unwrap();
            let options = parse_options("nosuchopt=1");
            assert_eq!(mount_classic("tmpfs", "none", target.path(), &options), Err(Errno::INVAL));
        });
        thread.join().unwrap();
    }
}
