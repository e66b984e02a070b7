//! Datasets: which files of which sizes a source tree holds before and after a patch and a build.
//! Content is not here, and nothing is created: see the payload and the workloads for that.
//!
//! A dataset describes four [`State`]s of one tree. Workloads work with the four lists that follow
//! from them, as compilebench 0.6 derives them when it loads its files:
//!
//! | list | holds | written by |
//! |---|---|---|
//! | [`FileList::Tree`] | every unpatched file | create |
//! | [`FileList::Patch`] | the patched files that are new or differ in size | patch |
//! | [`FileList::Objects`] | compiled files that the unpatched tree lacks | compile |
//! | [`FileList::PatchedObjects`] | compiled patched files that the patched tree lacks, and that are new or differ in size from [`FileList::Objects`] | compile and patch |
//!
//! Files that only the unpatched state has are in no list but the first: no operation removes them.

mod builder;
mod load;
mod paths;
#[cfg(test)]
mod tests;
mod tree;
pub mod twin;

pub use builder::Fault;
pub use load::{LoadError, load};
pub use paths::{PathId, Paths};
pub use tree::{FromTree, FromTreeError, Skipped, Trees, from_tree, write};
use xxhash_rust::xxh3::xxh3_64;

/// One of the four states that a tree goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The sources.
    Unpatched,
    /// The sources of the next version.
    Patched,
    /// The sources and what building them left.
    UnpatchedCompiled,
    /// The sources of the next version and what building them left.
    PatchedCompiled,
}

impl State {
    /// In the order in which the files of a dataset are read.
    pub const ALL: [State; 4] =
        [State::Unpatched, State::Patched, State::UnpatchedCompiled, State::PatchedCompiled];

    /// The name of the file that lists this state in a directory with a dataset.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            State::Unpatched => "dataset-unpatched",
            State::Patched => "dataset-patched",
            State::UnpatchedCompiled => "dataset-unpatched-compiled",
            State::PatchedCompiled => "dataset-patched-compiled",
        }
    }

    /// Whether a tree in this state has been built.
    #[must_use]
    pub fn is_compiled(self) -> bool {
        matches!(self, State::UnpatchedCompiled | State::PatchedCompiled)
    }
}

/// Which list of a dataset an operation works through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileList {
    /// Every file of the unpatched tree.
    Tree,
    /// What the patch writes.
    Patch,
    /// What building the unpatched tree adds.
    Objects,
    /// What building the patched tree adds or changes.
    PatchedObjects,
}

impl FileList {
    /// All lists.
    pub const ALL: [FileList; 4] =
        [FileList::Tree, FileList::Patch, FileList::Objects, FileList::PatchedObjects];
}

/// One file: its path in [`Dataset::paths`] and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEntry {
    /// Where, relative to the top of the tree.
    pub path: PathId,
    /// How long, in bytes.
    pub size_bytes: u64,
}

/// How much one state or list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Count of files.
    pub files: u64,
    /// Sum of the sizes, in bytes.
    pub bytes: u64,
}

/// The paths of a dataset and its four lists.
///
/// [`FileList::Objects`] is in the order of its file, which is what compilebench shuffles; the other lists
/// are sorted with the files of a directory before those of its subdirectories ([`Paths::compare`]).
#[derive(Debug, Clone)]
pub struct Dataset {
    paths: Paths,
    lists: [Vec<FileEntry>; 4],
    states: [Totals; 4],
}

impl Dataset {
    /// The built-in dataset: a synthetic tree with the counts and totals of a classic kernel tree.
    #[must_use]
    pub fn twin() -> Self {
        twin::dataset()
    }

    /// Leaves one of `count` files in the lists, chosen by a hash of its path, so that all lists agree. Totals of
    /// states stay those of the whole dataset.
    pub fn keep_one_in(&mut self, count: u64) {
        let Dataset { paths, lists, .. } = self;
        for list in lists {
            list.retain(|file| xxh3_64(paths.path(file.path).as_bytes()).is_multiple_of(count));
        }
    }

    /// Every path that the lists refer to, and the directories above them.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The files of a list, in the order told at [`Dataset`].
    #[must_use]
    pub fn list(&self, list: FileList) -> &[FileEntry] {
        &self.lists[list as usize]
    }

    /// Count and bytes of a list.
    #[must_use]
    pub fn list_totals(&self, list: FileList) -> Totals {
        let files = self.list(list);
        // Cannot overflow: the builder refused a state whose sum does not fit.
        Totals { files: files.len() as u64, bytes: files.iter().map(|file| file.size_bytes).sum() }
    }

    /// Count and bytes of a whole state, as listed before the lists were derived.
    #[must_use]
    pub fn state_totals(&self, state: State) -> Totals {
        self.states[state as usize]
    }

    /// The index of a path in a sorted list, if it is there; meaningless for [`FileList::Objects`].
    #[must_use]
    pub fn position(&self, list: FileList, path: &str) -> Option<usize> {
        self.list(list)
            .binary_search_by(|file| paths::compare_paths(self.paths.path(file.path), path))
            .ok()
    }
}
