//! The models that are part of the program: texts below `models/`, one explicit list.

use fsdyno_model::param::unknown;

use crate::model::Model;

/// Name and text of each, by kind and age.
pub static ALL: &[(&str, &str)] = &[
    ("hdd-scsi-10k-2002", include_str!("../../../models/hdd-scsi-10k-2002.toml")),
    ("hdd-5400-laptop-2006", include_str!("../../../models/hdd-5400-laptop-2006.toml")),
    ("hdd-7200-2007", include_str!("../../../models/hdd-7200-2007.toml")),
    ("hdd-7200-750gb-2008", include_str!("../../../models/hdd-7200-750gb-2008.toml")),
    ("hdd-5400-2010", include_str!("../../../models/hdd-5400-2010.toml")),
    ("hdd-7200-20tb", include_str!("../../../models/hdd-7200-20tb.toml")),
    ("smr-8tb", include_str!("../../../models/smr-8tb.toml")),
    ("ssd-sata", include_str!("../../../models/ssd-sata.toml")),
    ("nvme-consumer", include_str!("../../../models/nvme-consumer.toml")),
    ("nvme-datacentre", include_str!("../../../models/nvme-datacentre.toml")),
    ("sd-card-a1", include_str!("../../../models/sd-card-a1.toml")),
    ("emmc", include_str!("../../../models/emmc.toml")),
    ("volume-gp3", include_str!("../../../models/volume-gp3.toml")),
    ("volume-gp2-100gib", include_str!("../../../models/volume-gp2-100gib.toml")),
    ("mirror-2008", include_str!("../../../models/mirror-2008.toml")),
    ("mirror-scsi-2003", include_str!("../../../models/mirror-scsi-2003.toml")),
    ("stripe-6-scsi-2003", include_str!("../../../models/stripe-6-scsi-2003.toml")),
    ("raid5-battery", include_str!("../../../models/raid5-battery.toml")),
    ("ram", include_str!("../../../models/ram.toml")),
];

/// Whether what a user writes for a model is the path of a file rather than a name of the list.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// The name of a model that lies in the file `path`.
#[must_use]
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".toml").unwrap_or(name)
}

/// The text of a shipped model.
///
/// # Errors
/// A sentence with the nearest name.
pub fn text(name: &str) -> Result<&'static str, String> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|(known, _)| *known).collect();
        unknown("shipped model of a disk called", name, &known)
    })
}

/// A shipped model.
///
/// # Errors
/// A sentence with the nearest name.
pub fn find(name: &str) -> Result<Model, String> {
    let text = text(name)?;
    Model::parse(name, text, &|member| match member == name {
        true => Err("an array cannot be a disk of itself".to_owned()),
        false => find(member),
    })
    .map_err(|wrong| format!("{name}: {}", wrong.first().map_or("", |one| one.message.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_listed_and_can_be_read() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut listed: Vec<String> = ALL.iter().map(|(name, _)| format!("{name}.toml")).collect();
        listed.sort();
        assert_eq!(files, listed);
        for (name, _) in ALL {
            let model = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(model.name, *name);
            assert!(!model.sources.is_empty() && model.capacity_bytes > 0, "{name}");
        }
    }
}
