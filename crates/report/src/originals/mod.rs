//! The output formats of the classic tools, byte for byte in their form, one block for each trial: one
//! file each, one list. `--format NAME` and its help are made from the list.

pub mod bonnie_1_03;
pub mod bonnie_2_00;
pub mod compilebench;
pub mod dbench;
pub mod fs_mark;
pub mod fs_mark_verbose;
pub mod mdtest;
pub mod postmark;

use fsdyno_model::param::Params;
use fsdyno_model::record::TrialRecord;

/// What a classic tool would have known of the trial besides its record.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Parameters of the workload.
    pub params: &'a Params,
    /// Name of the machine.
    pub host: &'a str,
}

/// One output format of a classic tool.
#[derive(Debug)]
pub struct OriginalFormat {
    /// Name on the command line: the tool, and its version where its formats differ.
    pub name: &'static str,
    /// The workload whose trials it can show.
    pub workload: &'static str,
    /// What is printed, for the help.
    pub doc: &'static str,
    /// Whether a line `# TARGET trial N OUTCOME` goes before each trial; without it the output is what
    /// the tool itself prints, for programs that take nothing else.
    pub headed: bool,
    /// The output of one trial, with a newline at its end.
    pub render: fn(&TrialRecord, &Setting<'_>) -> String,
    /// What a reader of that output may wonder at and has to be told beside it.
    pub remark: fn(&TrialRecord, &Setting<'_>) -> Option<&'static str>,
}

/// The list.
pub static ALL: &[&OriginalFormat] = &[
    &bonnie_1_03::FORMAT,
    &bonnie_2_00::FORMAT,
    &compilebench::FORMAT,
    &dbench::FORMAT,
    &fs_mark::FORMAT,
    &fs_mark_verbose::FORMAT,
    &mdtest::FORMAT,
    &postmark::FORMAT,
];

/// The format called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static OriginalFormat> {
    ALL.iter().copied().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_file_is_listed() {
        for format in ALL {
            assert!(std::ptr::eq(find(format.name).unwrap(), *format), "{}", format.name);
            assert!(format.doc.len() > 20);
        }
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/originals");
        let files = std::fs::read_dir(directory).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name != "mod.rs" && std::path::Path::new(&name).extension().is_some_and(|it| it == "rs")
        });
        // A tool with two versions of its format has a file for each.
        assert_eq!(files.count(), ALL.len());
    }
}
