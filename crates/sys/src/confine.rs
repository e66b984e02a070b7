//! Children that are confined: to one processor, and to no image of their memory when they crash.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Result, SysError};

/// The last of the processors that this process may run on, from 0: interrupts and what else runs on a machine
/// are more often on the first.
///
/// # Errors
/// The kernel's; `ENODEV` where it names none.
pub fn last_cpu() -> Result<usize> {
    let failed = |errno| SysError::new("sched_getaffinity", "this process", errno);
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    last.ok_or_else(|| failed(rustix::io::Errno::NODEV))
}

/// Has the child and all that it starts run on the processor `cpu` alone. Starting it fails with `EINVAL`
/// where it may not run there.
pub fn to_cpu(command: &mut Command, cpu: usize) -> &mut Command {
    let mut only = CpuSet::new();
    let is_known = cpu < CpuSet::MAX_CPU;
    if is_known {
        only.set(cpu);
    }
    let pin = move || sched_setaffinity(None, &only).map_err(io::Error::from);
    // SAFETY: between fork and exec one system call is made, without allocation or locks.
    unsafe { command.pre_exec(pin) }
}

/// Has the kernel write no image of the child's memory to the disk when it crashes.
pub fn without_core(command: &mut Command) -> &mut Command {
    let limit = || {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Core, none).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec one system call is made, without allocation or locks.
    unsafe { command.pre_exec(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_stays_on_its_processor() {
        let cpu = last_cpu().unwrap();
        let mut command = Command::new("cat");
        to_cpu(without_core(command.arg("/proc/self/status").arg("/proc/self/limits")), cpu);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let after = |start: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(start)).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!(after("Cpus_allowed_list:"), cpu.to_string());
        assert_eq!(after("Max core file size"), "0");
        assert!(to_cpu(&mut Command::new("true"), CpuSet::MAX_CPU).status().is_err());
    }
}
