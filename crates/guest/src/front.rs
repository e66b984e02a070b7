//! What carries a guest out: QEMU, or User-Mode Linux. All that they have in common is in
//! [`crate::machine`].

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fsdyno_sys::process::{self, Signal};
use fsdyno_sys::warden;

use crate::Result;
use crate::qemu::{Qemu, Spec};
use crate::uml::Uml;

/// How long User-Mode Linux may take to end by itself when this process has died.
const UML_GRACE: Duration = Duration::from_secs(2);

/// The program under a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Front {
    /// A virtual machine.
    Qemu(Qemu),
    /// A kernel that is a process.
    Uml(Uml),
}

impl Front {
    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Front::Qemu(_) => "QEMU",
            Front::Uml(_) => "User-Mode Linux",
        }
    }

    /// Whether the errand lies in the initial file system, and what the guest says is written to a file. User-Mode
    /// Linux writes bytes to a serial line as they are, but misses what came before the line was opened.
    #[must_use]
    pub fn has_file(&self, spec: &Spec) -> bool {
        spec.shift.is_some() || matches!(self, Front::Uml(_))
    }

    /// The command that starts a guest in `directory` with the messages of its kernel in the file `console`.
    /// QEMU gets its end of the channel, `stdout` and `more` arguments. It ends with the thread that starts
    /// it.
    ///
    /// # Errors
    /// A file cannot be made, or something cannot be given to it.
    pub fn command(
        &self,
        spec: &Spec,
        directory: &Path,
        console: &Path,
        (its_end, stdout): (Stdio, Stdio),
        more: &[&str],
    ) -> Result<Command> {
        let mut command = match self {
            Front::Qemu(qemu) => {
                let mut command = Command::new(&qemu.path);
                command.args(spec.arguments(console)).args(more).current_dir("/");
                command.stdin(its_end).stdout(stdout);
                command
            }
            Front::Uml(uml) => uml.command(spec, directory, console)?,
        };
        let last = match self {
            Front::Qemu(_) => Signal::KILL,
            // It ends its helpers when it is asked to end, and could not if it were killed.
            Front::Uml(_) => Signal::TERM,
        };
        process::own_process_group(process::signal_with_parent(&mut command, last));
        if matches!(self, Front::Uml(_)) {
            // It forgets a helper that it was just making.
            warden::watch_over(&mut command, UML_GRACE);
        }
        Ok(command)
    }
}
