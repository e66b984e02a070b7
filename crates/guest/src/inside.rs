//! The first process of a guest: makes the machine ready, finds the port, and switches the machine off at
//! the end. What it is told to do in between is left to the caller.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Errand};
use fsdyno_model::wire;
use fsdyno_sys::caches::{self, CacheLevel};
use fsdyno_sys::{Errno, first_process, idle_loop};

use crate::initramfs::BOOT_MODULES;
use crate::{Result, virtual_time};

/// Where the errand lies that does not come over the port.
pub const ERRAND: &str = "/fsdyno/errand";
/// Where the kernel shows the ports.
const PORTS: &str = "/sys/class/virtio-ports";
/// How long the port, or a disk, may take to appear.
const PORT_PATIENCE: Duration = Duration::from_secs(30);

/// Makes the machine ready and opens the port: that of virtio, or the serial line that the kernel's command
/// line names.
///
/// # Errors
/// Something that the machine should have is missing.
pub fn begin() -> Result<File> {
    first_process::mount_kernel_filesystems().map_err(|error| error.to_string())?;
    if std::env::var_os(guest::NEVER_IDLE_VARIABLE).is_some() {
        idle_loop::start().map_err(|error| error.to_string())?;
    }
    let list = fs::read_to_string(BOOT_MODULES)
        .map_err(|error| format!("read {BOOT_MODULES}: {error}"))?;
    let modules: Vec<String> = list.lines().map(str::to_owned).collect();
    load(&modules)?;
    if let Some(line) = std::env::var_os(guest::LINE_VARIABLE) {
        return first_process::open_serial(Path::new(&line)).map_err(|error| error.to_string());
    }
    let end = Instant::now() + PORT_PATIENCE;
    loop {
        if let Some(node) = port_node() {
            let opened = OpenOptions::new().read(true).write(true).open(&node);
            return opened.map_err(|error| format!("open {node}: {error}"));
        }
        if Instant::now() > end {
            return Err(format!("the port {} did not appear", guest::PORT));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Has a machine in virtual time stopped, so that its state can be saved at this very instruction. In real time
/// machines wait for what comes over the port instead.
///
/// # Errors
/// The kernel lets nobody speak to that device.
pub fn stop() -> Result<()> {
    if !Path::new(virtual_time::ERRAND).exists() {
        return Ok(());
    }
    first_process::stop_machine().map_err(|error| error.to_string())
}

/// The errand of a machine that has gone on, where it comes from QEMU itself; else as [`errand`].
///
/// # Errors
/// As [`errand`].
pub fn next_errand(port: &mut File) -> Result<Errand> {
    errand_in(virtual_time::ERRAND, port)
}

/// The errand: what lies beside this program, or comes over the port.
///
/// # Errors
/// There is none, or it is not to be understood.
pub fn errand(port: &mut File) -> Result<Errand> {
    errand_in(ERRAND, port)
}

fn errand_in(file: &str, port: &mut File) -> Result<Errand> {
    let read = match File::open(file) {
        Ok(mut file) => wire::read_frame(&mut file),
        Err(_) => wire::read_frame(port),
    };
    read.map_err(|error| format!("read the errand: {error}"))?
        .ok_or_else(|| "there is no errand".to_owned())
}

/// Makes the machine ready for an errand that comes later: another machine may go on from here, with other
/// disks. So nothing that was read of these may stay.
///
/// # Errors
/// The kernel refuses a module, or a disk does not appear.
pub fn make_ready(errand: &Errand, disks: &[PathBuf]) -> Result<()> {
    let failed = |error: fsdyno_sys::SysError| error.to_string();
    first_process::credit_entropy(&errand.entropy).map_err(failed)?;
    load(&errand.modules)?;
    await_disks(disks.iter().map(PathBuf::as_path))?;
    caches::sync_all();
    caches::drop_caches(CacheLevel::All).map_err(failed)
}

/// Makes a machine that has waited for this errand one of its own, with its own date and random numbers: it
/// may be one of many that went on from one state.
///
/// # Errors
/// The kernel's.
pub fn go_on(errand: &Errand) -> Result<()> {
    let failed = |error: fsdyno_sys::SysError| error.to_string();
    first_process::credit_entropy(&errand.entropy).map_err(failed)?;
    first_process::draw_anew().map_err(failed)?;
    errand.unix_ns.map_or(Ok(()), first_process::set_wall_clock).map_err(failed)
}

/// Waits until the disks at these paths are there: their drivers find them in their own time.
///
/// # Errors
/// One does not appear.
pub fn await_disks<'a>(disks: impl Iterator<Item = &'a Path>) -> Result<()> {
    for disk in disks {
        let end = Instant::now() + PORT_PATIENCE;
        while !disk.exists() {
            if Instant::now() > end {
                return Err(format!("the guest's disk {} did not appear", disk.display()));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// The devices that stand for those which the errand names: the same ones, but for disks that are memory.
///
/// # Errors
/// The machine's addresses cannot be read.
pub fn found_disks() -> Result<impl Fn(&Path) -> PathBuf> {
    let path = "/proc/iomem";
    let text = fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
    let found = virtual_time::disk_devices(&text);
    Ok(move |named: &Path| {
        let is_named = |number: &usize| virtual_time::disk_device(*number) == named;
        let number = (0..found.len()).find(is_named);
        number.map_or_else(|| named.to_owned(), |number| found[number].clone())
    })
}

/// The node of the port; its number depends on what else the machine has.
fn port_node() -> Option<String> {
    let ports = fs::read_dir(PORTS).ok()?;
    let is_ours = |path: &Path| {
        fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == guest::PORT)
    };
    let port = ports.flatten().map(|entry| entry.path()).find(|path| is_ours(path))?;
    let node = format!("/dev/{}", port.file_name()?.to_string_lossy());
    // Writing to a node that is not there yet would make a file.
    Path::new(&node).exists().then_some(node)
}

/// Loads modules in their order. One that finds nothing to do here is passed over: algorithms for
/// processors that this is not.
///
/// # Errors
/// The kernel refuses one.
pub fn load(modules: &[String]) -> Result<()> {
    for path in modules.iter().filter(|path| !path.is_empty()) {
        match first_process::load_module(Path::new(path)) {
            Err(error) if error.errno != Errno::NODEV => return Err(error.to_string()),
            _ => {}
        }
    }
    Ok(())
}
