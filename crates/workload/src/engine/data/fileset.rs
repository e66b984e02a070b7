//! Filesets of a text.

use fsdyno_model::param::unknown;
use fsdyno_model::toml_reader::Value;

use super::fields::{Bounds, Fields, MAX_BYTES, Reader};
use super::list;
use crate::engine::definition::{Distribution, EntryKind, Fileset, Tree};

/// Most entries of a fileset.
const MAX_ENTRIES: u64 = 100_000_000;
/// Most directories of a fileset.
const MAX_DIRECTORIES: u64 = 10_000_000;
const KNOWN: [&str; 9] =
    ["name", "kind", "entries", "preallocated", "size", "width", "depth", "branch", "list"];

impl Reader<'_> {
    /// The filesets of a text.
    pub(super) fn filesets(&mut self, root: &Fields<'_>) -> Vec<Fileset> {
        let mut filesets: Vec<Fileset> = Vec::new();
        let Some(value) = root.get("fileset") else { return filesets };
        for at in self.toml.tables(value, "fileset") {
            let fields = self.fields(at, "field of a fileset", &KNOWN);
            let fileset = self.fileset(&fields);
            if filesets.iter().any(|other| other.name == fileset.name && !other.name.is_empty()) {
                let message = format!("there is a fileset `{}` already", fileset.name);
                self.wrong(fields.span_of("name"), message);
            }
            filesets.push(fileset);
        }
        filesets
    }

    /// A fileset; what could not be read has any value, its error is noted.
    fn fileset(&mut self, fields: &Fields<'_>) -> Fileset {
        let name = self.required(fields, "name", "name = \"files\"");
        let name = name.and_then(|value| self.name(value)).unwrap_or_default();
        let kind = fields.get("kind").and_then(|value| self.entry_kind(value));
        let kind = kind.unwrap_or(EntryKind::File);
        let has_list = fields.has("list");
        let preallocated = match fields.get("preallocated") {
            Some(value) => self.number(value, Bounds::within(0.0, 1.0)).unwrap_or(0.0),
            None => f64::from(u8::from(has_list)),
        };
        let mut fileset = Fileset {
            name,
            kind,
            entries: 1,
            preallocated,
            size: Distribution::Fixed(0),
            tree: Tree::Flat,
            list: None,
        };
        match fields.get("list") {
            Some(value) => self.listed(fields, value, &mut fileset),
            None => self.counted(fields, &mut fileset),
        }
        fileset
    }

    fn entry_kind(&mut self, value: &Value<'_>) -> Option<EntryKind> {
        let word = self.text(value)?;
        match word.as_str() {
            "files" => Some(EntryKind::File),
            "directories" => Some(EntryKind::Directory),
            "symlinks" => Some(EntryKind::Symlink),
            other => {
                let known = ["files", "directories", "symlinks"];
                self.wrong(value.span(), unknown("kind of entries", other, &known));
                None
            }
        }
    }

    fn listed(&mut self, fields: &Fields<'_>, value: &Value<'_>, fileset: &mut Fileset) {
        for key in ["entries", "size", "width", "depth", "branch"] {
            if fields.has(key) {
                self.wrong(fields.span_of(key), format!("`{key}` is what the list says"));
            }
        }
        if fileset.kind != EntryKind::File {
            self.wrong(fields.span_of("kind"), "a list is of files");
        }
        let Some(place) = self.text(value) else { return };
        if let Some(files) = self.toml.keep(value.span(), list::read(&place)) {
            list::apply(fileset, files);
        }
    }

    fn counted(&mut self, fields: &Fields<'_>, fileset: &mut Fileset) {
        if let Some(value) = self.required(fields, "entries", "entries = 1000") {
            fileset.entries = self.count(value, 1, MAX_ENTRIES).unwrap_or(1);
        }
        match fields.get("size") {
            Some(_) if fileset.kind != EntryKind::File => {
                self.wrong(fields.span_of("size"), "only files have a size");
            }
            Some(value) => {
                fileset.size = self.distribution(value).unwrap_or(Distribution::Fixed(0));
            }
            None if fileset.kind == EntryKind::File => {
                self.wrong(fields.span.clone(), "`size` is missing: add size = \"16KiB\"");
            }
            None => {}
        }
        fileset.tree = self.tree(fields).unwrap_or(Tree::Flat);
        let total = fileset.entries.checked_mul(greatest(&fileset.size));
        if total.is_none_or(|total| total > MAX_BYTES << 10) {
            self.wrong(fields.span_of("size"), "entries times size is more than 16 PiB");
        }
    }

    fn tree(&mut self, fields: &Fields<'_>) -> Option<Tree> {
        let levels = (fields.get("depth"), fields.get("branch"));
        match (fields.get("width"), levels) {
            (None, (None, None)) => Some(Tree::Flat),
            (Some(width), (None, None)) => self.count(width, 1, MAX_ENTRIES).map(Tree::Width),
            (Some(_), _) => {
                let message = "a tree has either a width or a depth and a branch";
                self.wrong(fields.span_of("width"), message);
                None
            }
            (None, (Some(depth), Some(branch))) => {
                let levels = (self.count(depth, 0, 64), self.count(branch, 1, 1_000_000));
                let (depth, branch) = (levels.0? as u32, levels.1?);
                if directories(depth, branch).is_none_or(|count| count > MAX_DIRECTORIES) {
                    let message = format!(
                        "{branch} directories in each of {depth} levels are more than \
                         {MAX_DIRECTORIES} in all"
                    );
                    self.wrong(fields.span_of("depth"), message);
                    return None;
                }
                Some(Tree::Levels { depth, branch })
            }
            (None, (depth, _)) => {
                let (given, absent) =
                    if depth.is_some() { ("depth", "branch") } else { ("branch", "depth") };
                self.wrong(fields.span_of(given), format!("`{given}` needs `{absent}` too"));
                None
            }
        }
    }
}

/// Directories of a tree of levels, its root among them; none where that cannot be counted.
pub(super) fn directories(depth: u32, branch: u64) -> Option<u64> {
    (0..=depth).try_fold(0u64, |sum, level| sum.checked_add(branch.checked_pow(level)?))
}

/// The greatest size that is drawn.
pub(super) fn greatest(size: &Distribution) -> u64 {
    match size {
        Distribution::Fixed(bytes) => *bytes,
        Distribution::Uniform { max, .. }
        | Distribution::Lognormal { max, .. }
        | Distribution::Gamma { max, .. }
        | Distribution::Zipf { max, .. } => *max,
        Distribution::Empirical(pairs) => pairs.iter().map(|(size, _)| *size).max().unwrap_or(0),
    }
}
