//! How many files this process may have open and how many it has. What they are is left to others.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit before it was raised, where it was.
static BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// Raises the soft limit of open files (RLIMIT_NOFILE) to the hard one, which needs no right; gives
/// the limit that is in force then, `u64::MAX` where there is none.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current.unwrap_or(u64::MAX);
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    BEFORE.get_or_init(|| limit.current);
    let in_force = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| limit.maximum);
    in_force.unwrap_or(u64::MAX)
}

/// Has a program start with the soft limit that this process itself was given: some programs walk through
/// all descriptors that they might have.
pub fn give_back_limit(command: &mut Command) {
    let Some(&before) = BEFORE.get() else { return };
    let give_back = move || {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: before, maximum }).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only two system calls are made, without allocation or locks.
    unsafe {
        command.pre_exec(give_back);
    }
}

/// How many descriptors are open in this process; `None` without `/proc`.
pub fn open_count() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    // The one that lists them is gone afterwards.
    Some(entries.count().saturating_sub(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_counted_and_the_limit_holds_them() {
        const MANY: usize = 200;
        let limit = raise_limit();
        let told = getrlimit(Resource::Nofile);
        assert_eq!((told.current, told.current.unwrap_or(u64::MAX)), (told.maximum, limit));
        let files: Vec<std::fs::File> =
            (0..MANY).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let open = open_count().unwrap();
        // Other tests of this process open files too.
        assert!((files.len() as u64..limit).contains(&open), "{open} of {limit}");
    }
}
