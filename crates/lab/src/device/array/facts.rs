//! What the kernel says of an array: md in sysfs, the device mapper in its tables. Not what was asked for.

use std::collections::BTreeMap;
use std::fs;

use fsdyno_sys::block::DeviceNumber;

use super::mapper;

/// Files of md in sysfs, and what their contents are called here.
const MD_FILES: [(&str, &str); 7] = [
    ("level", "array_level"),
    ("raid_disks", "array_members"),
    ("layout", "array_layout"),
    ("metadata_version", "array_metadata"),
    ("bitmap/location", "array_bitmap"),
    ("sync_action", "array_sync"),
    ("degraded", "array_degraded"),
];
/// Facts of members that are kept; the first of the whole are the first member's.
const OF_MEMBERS: [&str; 14] = [
    "kind",
    "path",
    "size_bytes",
    "disk",
    "model",
    "disk_model",
    "image",
    "backing_source",
    "array",
    "array_level",
    "array_members",
    "array_chunk_bytes",
    "array_layout",
    "array_sync",
];
/// What lies below all members counts for the whole.
const OF_THE_FIRST: [&str; 7] = [
    "image",
    "image_position_bytes",
    "backing_filesystem",
    "backing_source",
    "backing_options",
    "loop_direct_io",
    "emptied_by",
];
const SECTOR_BYTES: u64 = 512;

/// Adds what the kernel says of the device, where it is an array of md or mapped.
pub fn add_kernel_facts(number: DeviceNumber, facts: &mut BTreeMap<String, String>) {
    let md = number.sysfs_path().join("md");
    let read = |name: &str| Some(fs::read_to_string(md.join(name)).ok()?.trim().to_owned());
    if md.is_dir() {
        for (file, name) in MD_FILES {
            if let Some(value) = read(file).filter(|value| !value.is_empty()) {
                facts.insert(name.to_owned(), value);
            }
        }
        if let Some(bytes) = read("chunk_size").filter(|bytes| bytes != "0") {
            facts.insert("array_chunk_bytes".to_owned(), bytes);
        }
        return;
    }
    let Some(name) = mapper::name_of(number) else { return };
    if let Some(table) = mapper::table(&name) {
        add_table(&table, facts);
    }
    if let Some(status) = mapper::status(&name) {
        add_status(&status, facts);
    }
}

/// A table with one line: `0 409600 striped 2 128 254:0 2048 254:16 2048`.
fn add_table(table: &str, facts: &mut BTreeMap<String, String>) {
    let words: Vec<&str> = table.split_whitespace().collect();
    let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
    match words.get(2..).unwrap_or_default() {
        ["striped", count, sectors, ..] => {
            add("array_level", "striped".to_owned());
            add("array_members", (*count).to_owned());
            if let Ok(sectors) = sectors.parse::<u64>() {
                add("array_chunk_bytes", sectors.saturating_mul(SECTOR_BYTES).to_string());
            }
        }
        ["raid", level, ..] => {
            add("array_level", (*level).to_owned());
            let region = words.iter().position(|word| *word == "region_size");
            let region = region.and_then(|at| words.get(at + 1)?.parse::<u64>().ok());
            if let Some(sectors) = region {
                let bytes = sectors.saturating_mul(SECTOR_BYTES);
                add("array_bitmap", format!("regions of {bytes} bytes"));
            }
        }
        ["crypt", cipher, key, ..] => {
            // The key is shown as zeros.
            add("array_level", format!("{cipher}, key of {} bits", key.len() * 4));
        }
        [target, ..] => drop(add("array_level", (*target).to_owned())),
        [] => {}
    }
}

/// The state of a raid: `0 409600 raid raid1 2 AA 409600/409600 idle 0 0 -`.
fn add_status(status: &str, facts: &mut BTreeMap<String, String>) {
    let words: Vec<&str> = status.split_whitespace().collect();
    if let ["raid", _, _, health, _, action, ..] = words.get(2..).unwrap_or_default() {
        let bad = health.chars().filter(|state| !matches!(state, 'A' | 'a')).count();
        facts.insert("array_sync".to_owned(), (*action).to_owned());
        facts.insert("array_degraded".to_owned(), bad.to_string());
    }
}

/// Adds what tells members apart, as `member1.path`, and what the whole shares with the first.
pub fn add_members(members: &[BTreeMap<String, String>], facts: &mut BTreeMap<String, String>) {
    for (number, member) in (1..).zip(members) {
        let kept = member
            .iter()
            .filter(|(name, _)| OF_MEMBERS.contains(&name.as_str()) || name.starts_with("member"));
        for (name, value) in kept {
            facts.insert(format!("member{number}.{name}"), value.clone());
        }
    }
    for name in OF_THE_FIRST {
        if let Some(value) = members.first().and_then(|first| first.get(name)) {
            facts.insert(name.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let read = |table: &str, status: &str| {
            let mut facts = BTreeMap::new();
            add_table(table, &mut facts);
            add_status(status, &mut facts);
            let text: Vec<String> =
                facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
            text.join(" ")
        };
        assert_eq!(
            read(
                "0 409600 striped 2 128 254:0 2048 254:16 2048",
                "0 409600 striped 2 254:0 254:16 1 AA"
            ),
            "array_chunk_bytes=65536 array_level=striped array_members=2"
        );
        assert_eq!(
            read(
                "0 409600 raid raid1 3 0 region_size 4096 2 254:1 254:2 254:3 254:4",
                "0 409600 raid raid1 2 aa 0/409600 resync 0 0 -"
            ),
            "array_bitmap=regions of 2097152 bytes array_degraded=0 array_level=raid1 array_sync=resync"
        );
        let zeros = "0".repeat(128);
        let table = format!("0 8 crypt aes-xts-plain64 {zeros} 0 7:0 0 1 allow_discards");
        assert_eq!(read(&table, ""), "array_level=aes-xts-plain64, key of 512 bits");
        assert_eq!(read("", "x y raid"), "");
    }
}
