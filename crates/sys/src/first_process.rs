//! What the first process of a machine does that has no other: the kernel's own filesystems, modules,
//! entropy, power. Which modules, and in which order, is the caller's business.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{self, opcode};
use rustix::mount::MountFlags;
use rustix::system::RebootCommand;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustix::time::{ClockId, Timespec};

use crate::error::{Result, SysError};

/// True where this is the first process of its machine or container.
pub fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Mounts `/proc`, `/sys`, `/dev` and the kernel's security and trace filesystems, where they are not
/// mounted yet; the latter two may be missing.
///
/// # Errors
/// One of the first three cannot be mounted.
pub fn mount_kernel_filesystems() -> Result<()> {
    let all = [
        ("proc", "/proc", true),
        ("sysfs", "/sys", true),
        ("devtmpfs", "/dev", true),
        ("securityfs", "/sys/kernel/security", false),
        ("tracefs", "/sys/kernel/tracing", false),
    ];
    for (kind, place, is_needed) in all {
        let path = Path::new(place);
        let _ = fs::create_dir_all(path);
        match rustix::mount::mount(kind, path, kind, MountFlags::empty(), None) {
            Err(errno) if is_needed && errno != Errno::BUSY => {
                return Err(SysError::at_path("mount", path, errno));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Loads a module that is not compressed; one that is loaded already is a success.
///
/// # Errors
/// The kernel's; `ENODEV` where the module finds that this machine lacks what it is for.
pub fn load_module(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| SysError::from_io("open", path, &error))?;
    match rustix::system::finit_module(&file, c"", 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(SysError::at_path("finit_module", path, errno)),
    }
}

/// Opens a serial line for bytes that pass as they are.
///
/// # Errors
/// The kernel's: it is not there, or no serial line.
pub fn open_serial(path: &Path) -> Result<File> {
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits() as i32)
        .open(path);
    let line = options.map_err(|error| SysError::from_io("open", path, &error))?;
    let failed = |errno| SysError::at_path("set the serial line", path, errno);
    let mut settings = tcgetattr(&line).map_err(failed)?;
    settings.make_raw();
    tcsetattr(&line, OptionalActions::Now, &settings).map_err(failed)?;
    Ok(line)
}

/// The argument of `RNDADDENTROPY` with as many bytes as are ever given at once.
#[repr(C)]
struct PoolInfo {
    entropy_bits: i32,
    size_bytes: i32,
    bytes: [u8; 64],
}

/// Gives the kernel's random number generator up to 64 bytes and has it believe that nobody knows them.
///
/// # Errors
/// The kernel's: it takes root.
pub fn credit_entropy(bytes: &[u8]) -> Result<()> {
    let path = Path::new("/dev/urandom");
    let device = File::open(path).map_err(|error| SysError::from_io("open", path, &error))?;
    let count = bytes.len().min(64);
    let mut pool =
        PoolInfo { entropy_bits: 8 * count as i32, size_bytes: count as i32, bytes: [0; 64] };
    pool.bytes[..count].copy_from_slice(&bytes[..count]);
    // The number of the call has the size of the two counts alone.
    const ADD_ENTROPY: ioctl::Opcode = opcode::write::<[i32; 2]>(b'R', 3);
    // SAFETY: RNDADDENTROPY reads two counts and as many bytes behind them as the second says, all of
    // which lie in `pool`; it writes nothing.
    let added =
        unsafe { ioctl::ioctl(device.as_fd(), ioctl::Setter::<ADD_ENTROPY, PoolInfo>::new(pool)) };
    added.map_err(|errno| SysError::at_path("ioctl RNDADDENTROPY", path, errno))
}

/// Has the kernel draw anew from what it was given, at once and not only after a minute: a machine that goes
/// on from a saved state would draw what others of that state draw. Kernels older than 4.17 cannot.
///
/// # Errors
/// The kernel's: it takes root, and entropy that was credited before.
pub fn draw_anew() -> Result<()> {
    let path = Path::new("/dev/urandom");
    let device = File::open(path).map_err(|error| SysError::from_io("open", path, &error))?;
    const RESEED: ioctl::Opcode = opcode::none(b'R', 7);
    // SAFETY: RNDRESEEDCRNG has no argument.
    let reseeded = unsafe { ioctl::ioctl(device.as_fd(), ioctl::NoArg::<RESEED>::new()) };
    reseeded.map_err(|errno| SysError::at_path("ioctl RNDRESEEDCRNG", path, errno))
}

/// Sets the machine's date: nanoseconds since 1970.
///
/// # Errors
/// The kernel's: it takes root.
pub fn set_wall_clock(unix_ns: u64) -> Result<()> {
    let time = Timespec {
        tv_sec: i64::try_from(unix_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (unix_ns % 1_000_000_000) as _,
    };
    rustix::time::clock_settime(ClockId::Realtime, time)
        .map_err(|errno| SysError::new("clock_settime", "the date", errno))
}

/// Has the emulator stop this machine: the device by which kernels tell of their panics (`pvpanic`), which takes
/// a word from anybody. The next instruction is carried out when somebody outside has the machine go on.
///
/// Source: QEMU, docs/specs/pvpanic.rst.
///
/// # Errors
/// The kernel has no `/dev/port` (`CONFIG_DEVPORT`), or this is not root.
pub fn stop_machine() -> Result<()> {
    const PORT: u64 = 0x505;
    const PANICKED: u8 = 1 << 0;
    let path = Path::new("/dev/port");
    let failed = |error: std::io::Error| SysError::from_io("write a word to", path, &error);
    let ports = OpenOptions::new().write(true).open(path).map_err(failed)?;
    ports.write_all_at(&[PANICKED], PORT).map_err(failed)
}

/// Has the kernel panic at once, without an error of its own.
///
/// # Errors
/// `/proc` is not mounted, or this is not root.
pub fn panic_kernel() -> Result<()> {
    let path = Path::new("/proc/sysrq-trigger");
    // Whatever is allowed of the keys: writing here is always allowed.
    fs::write(path, "c").map_err(|error| SysError::from_io("write", path, &error))
}

/// Switches the machine off. Only where this is its first process.
///
/// # Errors
/// `EPERM` where it is not, or may not.
pub fn power_off() -> Result<()> {
    let failed = |errno| SysError::new("reboot", "power off", errno);
    if !is_first_process() {
        return Err(failed(Errno::PERM));
    }
    rustix::fs::sync();
    rustix::system::reboot(RebootCommand::PowerOff).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_left_alone() {
        assert!(!is_first_process());
        assert_eq!(power_off().unwrap_err().errno, Errno::PERM);
        assert_eq!(open_serial(Path::new("/dev/null")).unwrap_err().errno, Errno::NOTTY);
        assert_eq!(load_module(Path::new("/no/such.ko")).unwrap_err().errno, Errno::NOENT);
    }
}
