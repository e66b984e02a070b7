//! Disposable virtual machines, made without root: a kernel, the modules and programs that one trial
//! needs, and QEMU or User-Mode Linux around them. What a trial is, is left to the caller; what is said over the port is in
//! [`fsdyno_model::guest`].
//!
//! | module | answers |
//! |---|---|
//! | [`kernel`] | which kernels there are, and where their modules lie |
//! | [`image`] | the ELF inside a compressed kernel image |
//! | [`package`] | the kernel inside a distribution's package |
//! | [`rpm`] | the files in an RPM package |
//! | [`fetch`] | a kernel's package, by the distribution's package manager |
//! | [`elf`] | what a program, a library, a module or a kernel says of itself |
//! | [`libraries`] | the libraries that a program needs |
//! | [`modules`] | the modules that a driver needs, in order |
//! | [`cpio`] | the archive that an initial file system is |
//! | [`initramfs`] | what lies in that of a guest |
//! | [`qemu`] | the command line of QEMU |
//! | [`uml`] | User-Mode Linux, and its command line |
//! | [`front`] | what carries a guest out: one of the two |
//! | [`machine`] | a guest that runs: what it says, and how it ended |
//! | [`saved_state`] | guests that go on where a booted one waited |
//! | `memory_file` | what of their memory they share |
//! | [`stopped`] | the same in virtual time, at an instruction |
//! | [`monitor`] | what QEMU itself is told while it runs |
//! | [`console`] | what the kernel of the guest said last |
//! | [`accelerator`] | whether hardware acceleration works |
//! | [`channel`] | how the errand reaches a guest, and its words this program |
//! | [`virtual_time`] | a machine whose time is the count of its instructions |
//! | [`inside`] | the first process of a guest |
#![forbid(unsafe_code)]

pub mod accelerator;
pub mod channel;
pub mod console;
pub mod cpio;
pub mod elf;
pub mod fetch;
pub mod front;
pub mod image;
pub mod initramfs;
pub mod inside;
pub mod kernel;
pub mod libraries;
pub mod machine;
mod memory_file;
pub mod modules;
pub mod monitor;
pub mod package;
pub mod qemu;
pub mod rpm;
pub mod saved_state;
pub mod stopped;
pub mod uml;
pub mod virtual_time;

use std::process::Command;
use std::time::Duration;

use fsdyno_sys::child::{self, Ended, Keep, Limits};

/// A sentence for every error: what failed, on what, what to try.
pub type Result<T> = std::result::Result<T, String>;

/// XXH3 of `bytes`, in hexadecimal digits.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

/// Reads a file whole.
fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))
}

/// What a program says when it is asked for its version.
fn ask_version(program: &std::path::Path) -> Result<Ended> {
    let limits = Limits {
        stdout: Keep::Start(4 << 10),
        stderr: Keep::End(4 << 10),
        duration: Some(Duration::from_secs(20)),
    };
    child::run(Command::new(program).arg("--version"), &limits)
        .map_err(|error| format!("{} --version: {error:?}", program.display()))
}
