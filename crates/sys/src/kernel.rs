//! Facts for the record: kernel, processor, memory, host. Each is what the system states of itself;
//! what it does not state is `None`.

use std::fs;
use std::path::Path;

use crate::caches::meminfo_bytes;
use crate::error::{Result, SysError};

/// What uname(2) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Release, such as `6.1.0-18-amd64`.
    pub release: String,
    /// Build number, configuration and date.
    pub version: String,
    /// Machine architecture, such as `x86_64`.
    pub machine: String,
    /// Name of the host.
    pub hostname: String,
}

/// The running kernel and its host.
pub fn facts() -> KernelFacts {
    let name = rustix::system::uname();
    let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
    KernelFacts {
        release: text(name.release()),
        version: text(name.version()),
        machine: text(name.machine()),
        hostname: text(name.nodename()),
    }
}

/// A filesystem that the kernel has at this moment; more may come with modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFilesystem {
    /// Name for mounting.
    pub name: String,
    /// Whether it stands on a block device.
    pub needs_device: bool,
}

/// The filesystems registered with the kernel.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn filesystems() -> Result<Vec<KernelFilesystem>> {
    let path = Path::new("/proc/filesystems");
    let text = fs::read_to_string(path).map_err(|error| SysError::from_io("read", path, &error))?;
    Ok(parse_filesystems(&text))
}

fn parse_filesystems(text: &str) -> Vec<KernelFilesystem> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(_, name)| !name.is_empty())
        .map(|(lead, name)| KernelFilesystem {
            name: name.to_owned(),
            needs_device: lead != "nodev",
        })
        .collect()
}

/// The kernel's command line.
pub fn cmdline() -> Option<String> {
    trimmed("/proc/cmdline")
}

/// Identifies this boot: process numbers, mounts and loop devices recorded under another are gone.
pub fn boot_id() -> Option<String> {
    trimmed("/proc/sys/kernel/random/boot_id")
}

/// Name of the processor, such as `AMD EPYC 7763`.
pub fn cpu_model() -> Option<String> {
    parse_cpu_model(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// Whether the processor has a feature, by the kernel's name of it such as `avx512f`; false where that is not known.
pub fn has_cpu_feature(name: &str) -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == name)
}

/// `model name` on x86; other architectures use other words, or say only numbers.
fn parse_cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    ["model name", "Model", "cpu model", "cpu", "uarch"].into_iter().find_map(value)
}

/// Processors that this process may run on.
pub fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Main memory in bytes.
pub fn memory_bytes() -> Option<u64> {
    meminfo_bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")
}

/// Memory in bytes that programs can still be given without swapping, as the kernel estimates it.
pub fn available_memory_bytes() -> Option<u64> {
    meminfo_bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// The frequency governors in force, each once (`performance`, `schedutil`, …), joined by commas;
/// `None` where the processor's frequency is not ours to govern, as in most virtual machines.
pub fn cpu_governor() -> Option<String> {
    let processors = fs::read_dir("/sys/devices/system/cpu").ok()?;
    let mut governors: Vec<String> = processors
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok())
        .map(|text| text.trim().to_owned())
        .collect();
    governors.sort();
    governors.dedup();
    (!governors.is_empty()).then(|| governors.join(","))
}

fn trimmed(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystems_are_listed_with_their_need() {
        let found = parse_filesystems("nodev\ttmpfs\n\text4\nnodev\t\nbroken\n\n");
        let expected = [("tmpfs", false), ("ext4", true)]
            .map(|(name, needs_device)| KernelFilesystem { name: name.to_owned(), needs_device });
        assert_eq!(found, expected);
        assert!(
            filesystems()
                .unwrap()
                .iter()
                .any(|filesystem| filesystem.name == "proc" && !filesystem.needs_device)
        );
    }

    #[test]
    fn the_processor_has_a_name_on_every_architecture() {
        for (cpuinfo, model) in [
            ("processor\t: 0\nmodel\t\t: 49\nmodel name\t: AMD EPYC 7571\n", Some("AMD EPYC 7571")),
            ("processor\t: 0\nModel\t\t: Raspberry Pi 4\n", Some("Raspberry Pi 4")),
            ("processor : 0\ncpu : POWER9\n", Some("POWER9")),
            ("model name\t: \n", None),
            ("", None),
        ] {
            assert_eq!(parse_cpu_model(cpuinfo).as_deref(), model, "{cpuinfo:?}");
        }
    }

    #[test]
    fn this_host_states_the_essentials() {
        let facts = facts();
        assert!(!facts.release.is_empty() && !facts.machine.is_empty());
        assert!(cpu_count() >= 1 && memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(boot_id(), boot_id());
        let _ = (cmdline(), cpu_governor());
    }
}
