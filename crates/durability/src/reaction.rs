//! What became of a filesystem whose disk went wrong, as a program saw it: all that it was told, and what was there
//! afterwards.

use serde::{Deserialize, Serialize};

/// What a program does so that what it wrote is durable.
pub(crate) const FSYNC: &str = "fsync";

/// What a program was told of one thing that it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it did.
    pub what: String,
    /// What it was told, in words.
    pub told: String,
    /// Whether that was an error.
    pub is_error: bool,
    /// Whether it was given bytes that nobody wrote there, as if nothing were wrong.
    pub is_wrong: bool,
    /// How long it took, in seconds.
    pub elapsed_s: f64,
}

/// What a filesystem did when a disk went wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reaction {
    /// The fault.
    pub fault: String,
    /// What the program did and was told.
    pub steps: Vec<Step>,
    /// What became of the filesystem, while the disk was wrong: it goes on, or how it gave up; or of the
    /// machine.
    pub state: String,
    /// Whether the machine ended with it, a guest, so that nothing more is known.
    pub is_machine_lost: bool,
    /// The first error that the kernel told of it.
    pub kernel: Option<String>,
    /// Once the disk was well again: whether it could be mounted, what the file held, what the check found.
    pub after: After,
}

/// What was there once the disk was well again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct After {
    /// Why it could not be mounted; null where it could.
    pub mount_error: Option<String>,
    /// What the file held: `written` what was written last, `before` what was there before, `mixed` both,
    /// `wrong` anything else; or the error of reading it.
    pub file: Option<String>,
    /// What the check found; null where it found no errors.
    pub check: Option<String>,
}

impl Reaction {
    /// The machine ended, or had to be ended, as `state` tells.
    #[must_use]
    pub fn lost(fault: &str, state: String) -> Reaction {
        Reaction {
            fault: fault.to_owned(),
            steps: Vec::new(),
            state,
            is_machine_lost: true,
            kernel: None,
            after: After::default(),
        }
    }

    /// Whether a program was given wrong bytes, or told that its bytes were durable that were not, and
    /// never an error.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let is_told = self.steps.iter().any(|step| step.is_error);
        let is_wrong_now = self.steps.iter().any(|step| step.is_wrong);
        let is_durable = self.steps.iter().any(|step| step.what == FSYNC && !step.is_error);
        let is_wrong_later = match self.after.file.as_deref() {
            Some("before" | "mixed") => is_durable,
            Some("wrong") => true,
            _ => false,
        };
        let is_found = self.after.mount_error.is_some() || self.after.check.is_some();
        !is_told && (is_wrong_now || is_wrong_later && !is_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaction(steps: Vec<Step>, file: &str) -> Reaction {
        let after = After { file: Some(file.to_owned()), ..After::default() };
        Reaction { steps, after, is_machine_lost: false, ..Reaction::lost("x", String::new()) }
    }

    fn step(what: &'static str, is_error: bool, is_wrong: bool) -> Step {
        Step { what: what.to_owned(), told: String::new(), is_error, is_wrong, elapsed_s: 0.0 }
    }

    #[test]
    fn silent_is_what_nobody_was_told() {
        let fsync = |is_error| vec![step(FSYNC, is_error, false)];
        for (steps, file, expected) in [
            (fsync(false), "written", false),
            (fsync(false), "before", true),
            (fsync(false), "mixed", true),
            (fsync(true), "before", false),
            (fsync(false), "Input/output error", false),
            (vec![step("read", false, true)], "before", true),
            (vec![step("read", true, false)], "before", false),
            (vec![step("read", false, false)], "before", false),
        ] {
            assert_eq!(reaction(steps.clone(), file).is_silent(), expected, "{steps:?} {file}");
        }
        let mut found = reaction(fsync(false), "before");
        found.after.check = Some("errors".to_owned());
        assert!(!found.is_silent());
    }
}
