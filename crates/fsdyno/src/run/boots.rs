//! A run that is resumed: in which boots its trials were made, and whether this machine is still the one that
//! it began on. Its trials are compared with each other, so that neither kernel nor processor may change.

use fsdyno_model::environment::Environment;
use fsdyno_model::guest::GuestFacts;
use fsdyno_model::record::Warning;
use fsdyno_sys::kernel;

use crate::bad_input;
use crate::store::StoredRun;

/// [`Warning::code`] of a run whose trials are of several boots.
const CODE: &str = "rebooted-in-between";

/// What is known of this moment's machine.
struct Machine {
    boot_id: Option<String>,
    release: String,
    version: String,
    cpu_model: Option<String>,
}

impl Machine {
    fn here() -> Machine {
        let facts = kernel::facts();
        Machine {
            boot_id: kernel::boot_id(),
            release: facts.release,
            version: facts.version,
            cpu_model: kernel::cpu_model(),
        }
    }

    /// What is another thing than in `known`, with both values.
    fn differences(&self, known: &Environment) -> Vec<String> {
        let pairs = [
            ("the kernel", known.kernel_release.as_ref(), Some(&self.release)),
            ("the build of the kernel", known.kernel_version.as_ref(), Some(&self.version)),
            ("the processor", known.cpu_model.as_ref(), self.cpu_model.as_ref()),
        ];
        let differing = pairs.into_iter().filter_map(|(what, known, here)| {
            let (known, here) = (known?, here?);
            (known != here).then(|| format!("{what} was {known} and is {here}"))
        });
        differing.collect()
    }
}

/// Notes in `run`, of which `finished` trials are there, that it goes on here; true where that changes it.
///
/// # Errors
/// Bad input, where kernel or processor are others than those that it began with.
pub fn go_on_here(run: &mut StoredRun, finished: usize) -> anyhow::Result<bool> {
    note(run, finished, &Machine::here())
}

/// Whether the guests of a run that is resumed are those that it began with.
///
/// # Errors
/// Bad input, where a kernel or QEMU is another.
pub fn check_guests(run: &StoredRun, here: &Environment) -> anyhow::Result<()> {
    let (Some(known), Some(here)) = (&run.environment.guest, &here.guest) else { return Ok(()) };
    let told = |facts: &GuestFacts| {
        let kernels = facts.kernels.iter().map(|kernel| {
            format!("{} ({})", kernel.release.as_deref().unwrap_or("unknown"), kernel.hash)
        });
        let front = match &facts.qemu_version {
            Some(version) => format!("QEMU {version}"),
            None => "User-Mode Linux".to_owned(),
        };
        format!("{front}, {}", kernels.collect::<Vec<_>>().join(", "))
    };
    let (known, here) = (told(known), told(here));
    if known == here {
        return Ok(());
    }
    Err(bad_input(format!(
        "run {} cannot go on here: its guests were {known} and are {here}. Name the kernel that it began with, or begin a new run and compare the two with fsdyno diff",
        run.id
    )))
}

fn note(run: &mut StoredRun, finished: usize, here: &Machine) -> anyhow::Result<bool> {
    // The kernel of a guest is the plan's, and looked at when the guest is made.
    let is_of_guest = run.environment.guest.is_some();
    let differences = if is_of_guest { Vec::new() } else { here.differences(&run.environment) };
    if !differences.is_empty() {
        let (id, differences) = (&run.id, differences.join("; "));
        return Err(bad_input(format!(
            "run {id} cannot go on here: {differences}. Its trials could not be compared with each other: boot that kernel again, or begin a new run and compare the two with fsdyno diff; what is finished stays (fsdyno show {id})"
        )));
    }
    let Some(boot_id) = &here.boot_id else { return Ok(false) };
    let boots = &mut run.environment.boot_ids;
    if boots.last() == Some(boot_id) {
        return Ok(false);
    }
    boots.push(boot_id.clone());
    let reboots = boots.len() - 1;
    run.warnings.retain(|warning| warning.code != CODE);
    if reboots > 0 {
        run.warnings.push(warning(reboots, finished));
    }
    Ok(true)
}

fn warning(reboots: usize, finished: usize) -> Warning {
    let trials = if finished == 1 { "trial" } else { "trials" };
    let when = match reboots {
        1 => format!("after {finished} {trials}"),
        _ => format!("{reboots} times, the last time after {finished} {trials}"),
    };
    Warning {
        code: CODE.to_owned(),
        message: format!("the machine was rebooted during the run, {when}"),
        advice: "trials before and after a reboot may differ by it: look at their spread, or run it again in one boot"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::plan::Plan;

    fn run() -> StoredRun {
        let environment = Environment {
            kernel_release: Some("6.1".to_owned()),
            kernel_version: Some("#1".to_owned()),
            boot_ids: vec!["a".to_owned()],
            ..Environment::default()
        };
        StoredRun {
            id: "r".to_owned(),
            started_unix_ns: 1,
            finished_unix_ns: None,
            command: String::new(),
            plan: Plan::new(false),
            environment,
            warnings: Vec::new(),
        }
    }

    fn machine(boot_id: &str, release: &str) -> Machine {
        Machine {
            boot_id: Some(boot_id.to_owned()),
            release: release.to_owned(),
            version: "#1".to_owned(),
            cpu_model: Some("x".to_owned()),
        }
    }

    #[test]
    fn boots_are_counted_and_told_once() {
        let mut run = run();
        assert!(!note(&mut run, 3, &machine("a", "6.1")).unwrap());
        assert!(run.warnings.is_empty());
        assert!(note(&mut run, 3, &machine("b", "6.1")).unwrap());
        assert!(!note(&mut run, 4, &machine("b", "6.1")).unwrap());
        assert!(run.warnings[0].message.ends_with("during the run, after 3 trials"));
        assert!(note(&mut run, 7, &machine("c", "6.1")).unwrap());
        assert_eq!(run.warnings.len(), 1);
        assert!(run.warnings[0].message.ends_with("2 times, the last time after 7 trials"));
        assert_eq!(run.environment.boot_ids, ["a", "b", "c"]);
    }

    #[test]
    fn a_run_whose_boots_are_unknown_is_not_said_to_have_any() {
        let mut run = run();
        run.environment.boot_ids.clear();
        assert!(note(&mut run, 3, &machine("b", "6.1")).unwrap());
        assert!(run.warnings.is_empty());
    }

    #[test]
    fn another_kernel_is_refused() {
        let mut run = run();
        let error = note(&mut run, 3, &machine("b", "6.2")).unwrap_err().to_string();
        assert!(error.contains("the kernel was 6.1 and is 6.2") && error.contains("fsdyno diff"));
        assert_eq!(run.environment.boot_ids, ["a"]);
    }
}
