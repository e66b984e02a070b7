//! A command line of the user's as a workload: what the text means, the files it is given, and what it
//! leaves behind. What is timed around it is left to the catalogue entry `command`.

mod copy;
mod line;
mod remains;

pub use copy::{Copied, copy_tree, tree_bytes};
pub use line::{CommandLine, Grounds};
pub use remains::{make_removable, mounts_below, unmount_below};
