//! What fs_mark 3.3 prints for one run with `-v`: the table of [`super::fs_mark`] with the shortest, mean
//! and longest time of each kind of call, in microseconds.

use super::fs_mark::render;
use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "fs-mark-verbose",
    workload: "fs-mark",
    doc: "the table of fs_mark 3.3 -v, with the times of calls",
    headed: true,
    render: |trial, setting| render(trial, setting, true),
    remark: |_, _: &Setting<'_>| None,
};
