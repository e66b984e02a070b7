//! The command line of QEMU: one virtual machine without a network, with plain disks and one port to this
//! program. Running it is left to [`crate::machine`].
//!
//! The flags were chosen by measurement: an emulated machine of the old kind without the devices that
//! nobody uses, and a kernel that tests and mitigates nothing, begin the first process in about a second.

use std::path::{Path, PathBuf};

use fsdyno_model::guest;
use fsdyno_model::place::Accelerator;
use fsdyno_sys::child;

use crate::{Result, channel, initramfs, virtual_time};

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// How to get it.
pub const INSTALL: &str = "apt-get install qemu-system-x86 (dnf: qemu-system-x86-core)";
/// The oldest version that knows every flag.
const LEAST_VERSION: (u32, u32) = (7, 0);

/// QEMU as it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// Its version, such as `7.2.22`.
    pub version: String,
}

/// Finds QEMU.
///
/// # Errors
/// It is not installed, does not run, or is too old.
pub fn find() -> Result<Qemu> {
    let path = child::find_program(PROGRAM)
        .ok_or_else(|| format!("{PROGRAM} is not installed: {INSTALL}"))?;
    let ended = crate::ask_version(&path)?;
    let version = parse_version(&ended.stdout.text).ok_or_else(|| {
        let words = child::last_words(&ended.stdout.text, &ended.stderr.text);
        format!("{} tells no version: {words}", path.display())
    })?;
    let mut numbers = version.split('.').filter_map(|number| number.parse().ok());
    let known = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if known < LEAST_VERSION {
        return Err(format!("{PROGRAM} {version} is too old: 7.0 or later is needed"));
    }
    Ok(Qemu { path, version })
}

fn parse_version(text: &str) -> Option<String> {
    let version = text.split("version ").nth(1)?.split([' ', '(', '\n']).next()?;
    Some(version.to_owned()).filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// What QEMU boots.
    pub kernel: PathBuf,
    /// The initial file system.
    pub initramfs: PathBuf,
    /// What carries out instructions.
    pub accelerator: Accelerator,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// In virtual time: an instruction takes 2 to this power nanoseconds.
    pub shift: Option<u8>,
    /// Files that are its disks, in order.
    pub disks: Vec<PathBuf>,
}

/// The kernel's command line: it does without what takes an emulated machine long and serves nobody here, such as
/// looking through its page tables for what is writable and executable (`rodata=off`). Words that it does not know go
/// to the first process, those with `=` as its environment.
const KERNEL_LINE: &str = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off audit=0 \
    apparmor=0 selinux=0 no_timer_check tsc=reliable cryptomgr.notests 8250.nr_uarts=1 \
    ipv6.disable=1 nowatchdog rodata=off random.trust_cpu=on LC_ALL=C RUST_BACKTRACE=0 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where it is emulated it also does without two things that take 0.2 and 0.15 s: what ACPI knows of the interrupt
/// lines of PCI devices, since these send messages, and taking the locks of several processors out of its code.
const EMULATED_LINE: &str = "acpi=noirq noreplace-smp";

/// A machine of the old kind, without what nobody uses.
const MACHINE: &str = "pc,hpet=off,vmport=off,usb=off,i8042=off,smbus=off";

impl Spec {
    /// Memory of the machine in bytes, with what its kernel needs for disks that are memory.
    #[must_use]
    pub fn all_memory_bytes(&self) -> u64 {
        match self.shift {
            None => self.memory_bytes,
            Some(_) => {
                self.memory_bytes + virtual_time::structure_bytes(&virtual_time::sizes(&self.disks))
            }
        }
    }

    /// The flags that are the same in every trial.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let processor = match self.accelerator {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "qemu64",
        };
        let (memory, machine, accelerator, more) = match self.shift {
            None => {
                let memory = format!("{}M", self.memory_bytes >> 20);
                (memory, MACHINE.to_owned(), self.accelerator.word().to_owned(), String::new())
            }
            Some(_) => (
                virtual_time::memory(self.all_memory_bytes()),
                format!("{MACHINE},nvdimm=on"),
                format!("{},thread=single", self.accelerator.word()),
                virtual_time::kernel_words(),
            ),
        };
        let own = match self.accelerator {
            Accelerator::Kvm => "",
            Accelerator::Tcg => EMULATED_LINE,
        };
        let line =
            format!("{KERNEL_LINE} {own} {more} rdinit={} -- guest-init", initramfs::PROGRAM);
        let words = [
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-monitor",
            "none",
            "-M",
            &machine,
            "-smp",
            "1",
            "-m",
            &memory,
            "-accel",
            &accelerator,
            "-cpu",
            processor,
            "-append",
            &line,
        ];
        let of_time = self.shift.map(virtual_time::flags).unwrap_or_default();
        words.map(str::to_owned).into_iter().chain(of_time).collect()
    }

    /// All arguments; the kernel's messages go to the file `console`. The port is standard input, a
    /// connected socket, or a file beside the console where time is virtual.
    #[must_use]
    pub fn arguments(&self, console: &Path) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        // In lists of settings a comma stands twice for itself.
        let listed = |path: &Path| shown(path).replace(',', ",,");
        let mut all = self.flags();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-kernel", &shown(&self.kernel), "-initrd", &shown(&self.initramfs)]);
        add(&["-chardev", &format!("file,id=console,path={}", listed(console))]);
        add(&["-serial", "chardev:console"]);
        if self.shift.is_some() {
            // In the processor's own thread: it goes on when the words are written.
            add(&["-device", "virtio-serial-pci,ioeventfd=off"]);
            let said = listed(&console.with_file_name(channel::SAID));
            add(&["-chardev", &format!("file,id=port,path={said}")]);
        } else {
            add(&["-device", "virtio-serial-pci", "-chardev", "socket,id=port,fd=0"]);
        }
        add(&["-device", &format!("virtserialport,chardev=port,name={}", guest::PORT)]);
        if self.shift.is_some() {
            all.extend(virtual_time::disk_arguments(&self.disks));
            let directory = console.parent().unwrap_or(Path::new("/"));
            all.extend(virtual_time::stop_arguments(directory));
            return all;
        }
        for (number, disk) in self.disks.iter().enumerate() {
            let backend = format!(
                "driver=raw,node-name=disk{number},cache.direct=off,cache.no-flush=on,discard=unmap,\
                 file.driver=file,file.aio=threads,file.filename={}",
                listed(disk)
            );
            let device = format!(
                "virtio-blk-pci,drive=disk{number},serial=fsdyno{number},werror=report,rerror=report"
            );
            add(&["-blockdev", &backend, "-device", &device]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, version) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright", Some("7.2.22")),
            ("QEMU emulator version 10.0.2\n", Some("10.0.2")),
            ("version x", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text).as_deref(), version);
        }
    }

    #[test]
    fn paths_of_a_trial_are_among_no_flags() {
        let spec = Spec {
            kernel: PathBuf::from("/k"),
            initramfs: PathBuf::from("/trial/i"),
            accelerator: Accelerator::Tcg,
            memory_bytes: 512 << 20,
            shift: None,
            disks: vec![PathBuf::from("/trial/a,b.img"), PathBuf::from("/trial/c.img")],
        };
        let flags = spec.flags().join(" ");
        assert!(flags.contains("-m 512M") && flags.contains("guest-init"), "{flags}");
        assert!(!flags.contains("/trial"), "{flags}");
        let all = spec.arguments(Path::new("/trial/console")).join(" ");
        assert!(all.contains("file.filename=/trial/a,,b.img"), "{all}");
        assert!(all.contains("drive=disk1") && !all.contains("net"), "{all}");
        let spec = Spec { shift: Some(0), ..spec };
        let all = spec.arguments(Path::new("/trial/console")).join(" ");
        assert!(all.contains("mem-path=/trial/a,,b.img") && all.contains("nvdimm=on"), "{all}");
        assert!(!all.contains("virtio-blk") && !all.contains("socket"), "{all}");
    }
}
