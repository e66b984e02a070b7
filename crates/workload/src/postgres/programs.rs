//! Where PostgreSQL's programs are. Distributions keep the server's outside of the `PATH`, one
//! directory for each version, and some put a script in front of pgbench that looks for a server of its
//! own.

use std::path::{Path, PathBuf};

use fsdyno_sys::child::find_program;

use crate::failure::Unavailable;

/// What must be there, all in one directory.
pub const NEEDED: [&str; 4] = ["initdb", "postgres", "pgbench", "psql"];
/// Where distributions keep a directory for each version, and what lies between it and the programs.
const VERSIONED: [(&str, &str, &str); 3] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/lib64", "pgsql-", "bin"),
];
/// The word for looking for them.
pub const AUTO: &str = "auto";

/// The directory with all of [`NEEDED`]: `given`, or with `auto` that of the initdb in the `PATH`, where
/// links are followed, or else the newest one in the usual places.
///
/// # Errors
/// [`Unavailable`], with what to install.
pub fn locate(given: &str) -> anyhow::Result<PathBuf> {
    let candidates = match given {
        AUTO => candidates(),
        given => vec![PathBuf::from(given)],
    };
    if let Some(found) = candidates.iter().find(|directory| missing(directory).is_empty()) {
        return Ok(found.clone());
    }
    let reason = match candidates.first() {
        None => "PostgreSQL is not installed".to_owned(),
        Some(first) => {
            format!("PostgreSQL lacks {} in {}", missing(first).join(", "), first.display())
        }
    };
    let advice = "install postgresql (Debian, Arch) or postgresql-server and postgresql-contrib \
                  (Fedora), or give the directory of its programs (programs=DIRECTORY)";
    Err(Unavailable(format!("{reason}: {advice}")).into())
}

/// Those of [`NEEDED`] that a directory lacks.
fn missing(directory: &Path) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|name| !directory.join(name).is_file()).collect()
}

fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for program in ["initdb", "postgres", "pgbench"] {
        let Some(path) = find_program(program) else { continue };
        for path in [path.canonicalize().ok(), Some(path)].into_iter().flatten() {
            found.extend(path.parent().map(Path::to_owned));
        }
    }
    let mut versioned: Vec<(u32, PathBuf)> = Vec::new();
    for (parent, prefix, below) in VERSIONED {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
            versioned.extend(version.map(|version| (version, entry.path().join(below))));
        }
    }
    versioned.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.extend(versioned.into_iter().map(|(_, path)| path));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let given = directory.path().display().to_string();
        let error = locate(&given).unwrap_err();
        assert!(error.is::<Unavailable>());
        assert!(error.to_string().contains("lacks initdb, postgres, pgbench, psql in "), "{error}");
        for name in NEEDED {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(locate(&given).unwrap(), directory.path());
    }
}
