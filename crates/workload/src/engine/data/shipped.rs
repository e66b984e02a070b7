//! The lists of files that are part of the program.

use fsdyno_model::param::unknown;

/// Name and text of each.
static LISTS: &[(&str, &str)] = &[
    ("boot", include_str!("../../../../../workloads/boot.list")),
    ("boot-quick", include_str!("../../../../../workloads/boot-quick.list")),
];

/// The text of the list called `name`.
///
/// # Errors
/// A sentence with the nearest name.
pub(super) fn find(name: &str) -> Result<&'static str, String> {
    LISTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<&str> = LISTS.iter().map(|(known, _)| *known).collect();
        unknown("shipped list", name, &known)
    })
}
