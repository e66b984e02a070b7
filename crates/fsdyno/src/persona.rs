//! The personas that come with the program: texts below `personas/`, one explicit list.

use fsdyno_model::param::unknown;
use fsdyno_model::persona::Persona;

use crate::bad_input;

/// Name and text of each.
pub const ALL: &[(&str, &str)] = &[
    ("build-server", include_str!("../../../personas/build-server.toml")),
    ("mail-server", include_str!("../../../personas/mail-server.toml")),
    ("web-cache", include_str!("../../../personas/web-cache.toml")),
    ("desktop", include_str!("../../../personas/desktop.toml")),
    ("database", include_str!("../../../personas/database.toml")),
    ("backup", include_str!("../../../personas/backup.toml")),
    ("media", include_str!("../../../personas/media.toml")),
];

/// The persona called `name`.
///
/// # Errors
/// Bad input: there is none of this name.
pub fn find(name: &str) -> anyhow::Result<Persona> {
    let Some((_, text)) = ALL.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = ALL.iter().map(|(known, _)| *known).collect();
        return Err(bad_input(unknown("persona", name, &known)));
    };
    Persona::parse(text).map_err(|error| bad_input(format!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use fsdyno_model::workload::WorkloadSpec;

    #[test]
    fn every_persona_asks_for_workloads_that_exist() {
        for (name, _) in ALL {
            for part in find(name).unwrap().parts {
                let read =
                    catalogue::with_names(|names| WorkloadSpec::parse(&part.spec, false, names));
                assert!(read.is_ok(), "{name}: {read:?}");
            }
        }
        let error = find("mail").unwrap_err().to_string();
        assert!(error.contains("mail-server"), "{error}");
    }
}
