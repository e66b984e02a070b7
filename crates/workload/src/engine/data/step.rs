//! Steps of a task: which fields each operation has, and what they say.

use std::ops::Range;

use fsdyno_model::param::unknown;
use fsdyno_model::toml_reader::{Value, kind_of};

use super::fields::{Bounds, Fields, MAX_BYTES, Reader};
use crate::engine::definition::{
    Access, Amount, Distribution, EntryKind, Fileset, FilesetIndex, Op, Pick, SLOTS, Slot, Step,
};

/// Greatest block of one call, in bytes.
const MAX_BLOCK_BYTES: u64 = 64 << 20;
/// Block of a whole file where none is given.
const WHOLE_BLOCK_BYTES: u64 = 1 << 20;
/// Greatest value of an extended attribute, as the kernel has it.
const MAX_XATTR_BYTES: u64 = 64 << 10;
/// Deepest blocks of steps.
const MAX_DEPTH: usize = 8;
/// Most repetitions.
const MAX_REPEATS: u64 = 1_000_000_000;

/// Fields of an operation on an entry, on an entry and a further one, and on what is read or written.
const ENTRY: &[&str] = &["fileset", "pick"];
const PAIR: &[&str] = &["fileset", "pick", "into"];
const BLOCKS: &[&str] = &["slot", "access", "whole", "block", "count"];
const SLOT: &[&str] = &["slot"];
const SIZED: &[&str] = &["slot", "size"];

/// Every operation with its fields.
pub(super) const OPS: &[(&str, &[&str])] = &[
    ("create", &["fileset", "pick", "slot", "direct"]),
    ("open", &["fileset", "pick", "slot", "write", "direct"]),
    ("close", SLOT),
    ("read", BLOCKS),
    ("write", BLOCKS),
    ("append", &["slot", "bytes"]),
    ("overwrite", BLOCKS),
    ("rewrite", BLOCKS),
    ("mmap_read", BLOCKS),
    ("mmap_write", BLOCKS),
    ("fsync", SLOT),
    ("fdatasync", SLOT),
    ("sync_file_range", SLOT),
    ("truncate", SIZED),
    ("fallocate", SIZED),
    ("punch", &["slot", "bytes"]),
    ("lock", SLOT),
    ("set_xattr", &["slot", "name", "bytes"]),
    ("get_xattr", &["slot", "name"]),
    ("stat", ENTRY),
    ("readdir", ENTRY),
    ("unlink", ENTRY),
    ("mkdir", ENTRY),
    ("rmdir", ENTRY),
    ("rename", PAIR),
    ("link", PAIR),
    ("symlink", PAIR),
    ("copy_file_range", PAIR),
    ("reflink", PAIR),
    ("replay", &["fileset"]),
    ("sleep", &["for"]),
    ("hog", &["rounds"]),
    ("post", &["semaphore", "count"]),
    ("wait", &["semaphore", "count"]),
];

/// What steps may name.
pub(super) struct Known<'k> {
    pub(super) filesets: &'k [Fileset],
    pub(super) semaphores: &'k [String],
}

/// An operation with the place of its step.
pub(super) type Located = (Op, Range<usize>);

impl Reader<'_> {
    /// The steps of a task or a repeated block; each operation is added to `located` too.
    pub(super) fn steps(
        &mut self,
        value: &Value<'_>,
        known: &Known<'_>,
        located: &mut Vec<Located>,
        depth: usize,
    ) -> Vec<Step> {
        let items = value.get_ref().as_array().filter(|items| !items.is_empty());
        let Some(items) = items else {
            let message =
                "expected a list of steps, such as [{ op = \"stat\", fileset = \"files\" }]";
            self.wrong(value.span(), message);
            return Vec::new();
        };
        let mut steps = Vec::new();
        for item in items.iter() {
            let Some(table) = item.get_ref().as_table() else {
                let message = format!("a step is a table, not {}", kind_of(item));
                self.wrong(item.span(), message);
                continue;
            };
            if table.contains_key("repeat") || table.contains_key("steps") {
                let known_keys = ["repeat", "steps", "when"];
                let fields =
                    self.fields((item.span(), table), "field of a repeated block", &known_keys);
                let step = self.repeat(&fields, known, located, depth);
                steps.extend(step);
            } else {
                steps.extend(self.op((item.span(), table), known, located).map(Step::Do));
            }
        }
        steps
    }

    fn repeat(
        &mut self,
        fields: &Fields<'_>,
        known: &Known<'_>,
        located: &mut Vec<Located>,
        depth: usize,
    ) -> Option<Step> {
        if depth >= MAX_DEPTH {
            let message = format!("repeated blocks are more than {MAX_DEPTH} deep");
            self.wrong(fields.span.clone(), message);
            return None;
        }
        let is_wanted = self.flag_or(fields, "when", true);
        let count = self.required(fields, "repeat", "repeat = 10");
        let count = count.and_then(|value| self.count(value, 1, MAX_REPEATS));
        let steps = self.required(fields, "steps", "steps = [ … ]");
        let mut inner = Vec::new();
        let steps = self.steps(steps?, known, &mut inner, depth + 1);
        if is_wanted {
            located.append(&mut inner);
        }
        (is_wanted && !steps.is_empty()).then_some(Step::Repeat { count: count?, steps })
    }

    fn op(
        &mut self,
        (span, table): (Range<usize>, &toml::de::DeTable<'_>),
        known: &Known<'_>,
        located: &mut Vec<Located>,
    ) -> Option<Op> {
        let Some(value) = table.get("op") else {
            self.wrong(span, "this step has no op: add op = \"stat\", or repeat = 10 and steps");
            return None;
        };
        let word = self.text(value)?;
        let Some((name, keys)) = OPS.iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = OPS.iter().map(|(name, _)| *name).collect();
            self.wrong(value.span(), unknown("operation", &word, &names));
            return None;
        };
        let keys: Vec<&str> = keys.iter().copied().chain(["op", "when"]).collect();
        let fields = self.fields((span, table), &format!("field of `{name}`"), &keys);
        let is_wanted = self.flag_or(&fields, "when", true);
        let before = self.errors();
        let op = match *name {
            "create" | "open" | "stat" | "readdir" | "unlink" | "mkdir" | "rmdir" => {
                self.entry_op(name, &fields, known)
            }
            "rename" | "link" | "symlink" | "copy_file_range" | "reflink" => {
                self.pair_op(name, &fields, known)
            }
            "read" | "write" | "overwrite" | "rewrite" | "mmap_read" | "mmap_write" => {
                self.block_op(name, &fields)
            }
            "replay" | "sleep" | "hog" | "post" | "wait" => self.free_op(name, &fields, known),
            _ => self.slot_op(name, &fields),
        };
        let op = op.filter(|_| is_wanted && self.errors() == before)?;
        located.push((op.clone(), fields.span));
        Some(op)
    }

    fn entry_op(&mut self, name: &str, fields: &Fields<'_>, known: &Known<'_>) -> Option<Op> {
        let kinds: &[EntryKind] = match name {
            "create" | "open" => &[EntryKind::File],
            "unlink" => &[EntryKind::File, EntryKind::Symlink],
            "mkdir" | "rmdir" => &[EntryKind::Directory],
            _ => &[EntryKind::File, EntryKind::Directory, EntryKind::Symlink],
        };
        let fileset = self.fileset_of(fields, "fileset", name, known, kinds);
        let pick = self.pick(fields, fileset.and_then(|index| known.filesets.get(index)));
        let direct = self.flag_or(fields, "direct", false);
        Some(match name {
            "create" => {
                let slot = self.slot(fields);
                Op::Create { fileset: fileset?, pick: pick?, slot: slot?, direct }
            }
            "open" => {
                let slot = self.slot(fields);
                let write = self.flag_or(fields, "write", false);
                Op::Open { fileset: fileset?, pick: pick?, slot: slot?, write, direct }
            }
            "stat" => Op::Stat { fileset: fileset?, pick: pick? },
            "readdir" => Op::Readdir { fileset: fileset?, pick: pick? },
            "unlink" => Op::Unlink { fileset: fileset?, pick: pick? },
            "mkdir" => Op::Mkdir { fileset: fileset?, pick: pick? },
            _ => Op::Rmdir { fileset: fileset?, pick: pick? },
        })
    }

    fn pair_op(&mut self, name: &str, fields: &Fields<'_>, known: &Known<'_>) -> Option<Op> {
        let all = [EntryKind::File, EntryKind::Directory, EntryKind::Symlink];
        let from: &[EntryKind] = if name == "rename" { &all } else { &[EntryKind::File] };
        let fileset = self.fileset_of(fields, "fileset", name, known, from);
        let source = fileset.and_then(|index| known.filesets.get(index));
        let wanted = match (name, source) {
            ("symlink", _) => EntryKind::Symlink,
            (_, Some(source)) => source.kind,
            (_, None) => EntryKind::File,
        };
        let pick = self.pick(fields, source);
        let into = match (fields.has("into"), name, fileset) {
            (false, "symlink", _) | (true, _, _) | (false, _, None) => {
                self.fileset_of(fields, "into", name, known, &[wanted])
            }
            (false, _, Some(same)) => Some(same),
        };
        let (fileset, pick, into) = (fileset?, pick?, into?);
        Some(match name {
            "rename" => Op::Rename { fileset, pick, into },
            "link" => Op::Link { fileset, pick, into },
            "symlink" => Op::Symlink { fileset, pick, into },
            "copy_file_range" => Op::CopyFileRange { fileset, pick, into },
            _ => Op::Reflink { fileset, pick, into },
        })
    }

    fn block_op(&mut self, name: &str, fields: &Fields<'_>) -> Option<Op> {
        let slot = self.slot(fields);
        let amount = self.amount(fields);
        let access = self.access(fields);
        let (slot, access, amount) = (slot?, access?, amount?);
        Some(match name {
            "read" => Op::Read { slot, access, amount },
            "write" => Op::Write { slot, access, amount },
            "overwrite" => Op::Overwrite { slot, access, amount },
            "rewrite" => Op::Rewrite { slot, access, amount },
            "mmap_read" => Op::MmapRead { slot, access, amount },
            _ => Op::MmapWrite { slot, access, amount },
        })
    }

    fn slot_op(&mut self, name: &str, fields: &Fields<'_>) -> Option<Op> {
        let slot = self.slot(fields);
        let drawn = |reader: &mut Self, key: &str| -> Option<Distribution> {
            let value = reader.required(fields, key, &format!("{key} = \"16KiB\""))?;
            reader.distribution(value)
        };
        Some(match name {
            "close" => Op::Close { slot: slot? },
            "append" => Op::Append { bytes: drawn(self, "bytes")?, slot: slot? },
            "fsync" => Op::Fsync { slot: slot? },
            "fdatasync" => Op::Fdatasync { slot: slot? },
            "sync_file_range" => Op::SyncFileRange { slot: slot? },
            "truncate" => Op::Truncate { size: drawn(self, "size")?, slot: slot? },
            "fallocate" => Op::Fallocate { size: drawn(self, "size")?, slot: slot? },
            "punch" => {
                let bytes = self.required(fields, "bytes", "bytes = \"64KiB\"")?;
                let bytes = self.bytes(bytes, 1, MAX_BYTES);
                Op::Punch { slot: slot?, bytes: bytes? }
            }
            "lock" => Op::Lock { slot: slot? },
            "set_xattr" => {
                let name = self.xattr_name(fields);
                let bytes = self.required(fields, "bytes", "bytes = 32")?;
                let bytes = self.bytes(bytes, 0, MAX_XATTR_BYTES);
                Op::SetXattr { slot: slot?, name: name?, bytes: bytes? }
            }
            _ => Op::GetXattr { name: self.xattr_name(fields)?, slot: slot? },
        })
    }

    fn free_op(&mut self, name: &str, fields: &Fields<'_>, known: &Known<'_>) -> Option<Op> {
        match name {
            "replay" => {
                let kinds = [EntryKind::File];
                let fileset = self.fileset_of(fields, "fileset", name, known, &kinds)?;
                if known.filesets[fileset].list.is_none() {
                    let message = "replay takes a fileset with a list";
                    self.wrong(fields.span_of("fileset"), message);
                    return None;
                }
                Some(Op::Replay { fileset })
            }
            "sleep" => {
                let value = self.required(fields, "for", "for = \"1ms\"")?;
                self.duration(value).map(|duration| Op::Sleep { duration })
            }
            "hog" => {
                let value = self.required(fields, "rounds", "rounds = 1000")?;
                self.count(value, 1, 1_000_000_000_000).map(|rounds| Op::Hog { rounds })
            }
            _ => {
                let value = self.required(fields, "semaphore", "semaphore = \"log\"")?;
                let word = self.text(value)?;
                let index = known.semaphores.iter().position(|name| *name == word);
                if index.is_none() {
                    let names: Vec<&str> = known.semaphores.iter().map(String::as_str).collect();
                    self.wrong(value.span(), absent("semaphore", &word, &names));
                }
                let count = fields.get("count").map(|value| self.count(value, 1, 1_000_000_000));
                let (semaphore, count) = (index?, count.unwrap_or(Some(1))?);
                Some(match name {
                    "post" => Op::Post { semaphore, count },
                    _ => Op::Wait { semaphore, count },
                })
            }
        }
    }

    /// The fileset that `key` names, which must hold one of `kinds`.
    fn fileset_of(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        op: &str,
        known: &Known<'_>,
        kinds: &[EntryKind],
    ) -> Option<FilesetIndex> {
        let value = self.required(fields, key, &format!("{key} = \"files\""))?;
        let name = self.text(value)?;
        let found = known.filesets.iter().position(|fileset| fileset.name == name);
        let Some(index) = found else {
            let names: Vec<&str> =
                known.filesets.iter().map(|fileset| fileset.name.as_str()).collect();
            self.wrong(value.span(), absent("fileset", &name, &names));
            return None;
        };
        let kind = known.filesets[index].kind;
        if kinds.contains(&kind) {
            return Some(index);
        }
        let wanted: Vec<&str> = kinds.iter().map(|kind| kind_word(*kind)).collect();
        let message = format!(
            "{op} with `{key}` takes {}, and `{name}` holds {}",
            wanted.join(" or "),
            kind_word(kind)
        );
        self.wrong(value.span(), message);
        None
    }

    fn pick(&mut self, fields: &Fields<'_>, fileset: Option<&Fileset>) -> Option<Pick> {
        let Some(value) = fields.get("pick") else { return Some(Pick::Random) };
        let Some(table) = value.get_ref().as_table() else {
            let word = self.text(value)?;
            return match word.as_str() {
                "random" => Some(Pick::Random),
                "sequential" => Some(Pick::Sequential),
                "once" => Some(Pick::Once),
                other => {
                    let known = ["random", "sequential", "once", "{ zipf = 0.9 }", "{ index = 0 }"];
                    self.wrong(value.span(), unknown("pick", other, &known));
                    None
                }
            };
        };
        let inner = self.fields((value.span(), table), "pick", &["zipf", "index"]);
        match (inner.get("zipf"), inner.get("index")) {
            (Some(theta), None) => self.number(theta, Bounds::above(0.0, 10.0)).map(Pick::Zipf),
            (None, Some(index)) => {
                let entries = fileset.map_or(u64::MAX, |fileset| fileset.entries);
                self.count(index, 0, entries.saturating_sub(1)).map(Pick::Index)
            }
            _ => {
                self.wrong(value.span(), "expected { zipf = 0.9 } or { index = 0 }");
                None
            }
        }
    }

    fn access(&mut self, fields: &Fields<'_>) -> Option<Access> {
        let Some(value) = fields.get("access") else { return Some(Access::Sequential) };
        let Some(table) = value.get_ref().as_table() else {
            let word = self.text(value)?;
            return match word.as_str() {
                "sequential" => Some(Access::Sequential),
                "random" => Some(Access::Random),
                other => {
                    let known =
                        ["sequential", "random", "{ zipf = 1.1 }", "{ strided = \"64KiB\" }"];
                    self.wrong(value.span(), unknown("access", other, &known));
                    None
                }
            };
        };
        let inner = self.fields((value.span(), table), "access", &["zipf", "strided"]);
        match (inner.get("zipf"), inner.get("strided")) {
            (Some(theta), None) => self.number(theta, Bounds::above(0.0, 10.0)).map(Access::Zipf),
            (None, Some(stride)) => self.bytes(stride, 1, MAX_BYTES).map(Access::Strided),
            _ => {
                self.wrong(value.span(), "expected { zipf = 1.1 } or { strided = \"64KiB\" }");
                None
            }
        }
    }

    /// `whole = true` with an optional block, or a block and an optional count.
    fn amount(&mut self, fields: &Fields<'_>) -> Option<Amount> {
        let block = fields.get("block").map(|value| self.bytes(value, 1, MAX_BLOCK_BYTES));
        if self.flag_or(fields, "whole", false) {
            for key in ["count", "access"] {
                if fields.has(key) {
                    let message = format!("`{key}` has no meaning where the whole file is taken");
                    self.wrong(fields.span_of(key), message);
                }
            }
            let block_bytes = block.unwrap_or(Some(WHOLE_BLOCK_BYTES))?;
            return Some(Amount::Whole { block_bytes });
        }
        let count = fields.get("count").map(|value| self.count(value, 1, MAX_REPEATS));
        let Some(block) = block else {
            let message = "how much? add whole = true, or block = \"4KiB\" and count = 1";
            self.wrong(fields.span.clone(), message);
            return None;
        };
        Some(Amount::Blocks { block_bytes: block?, count: count.unwrap_or(Some(1))? })
    }

    fn slot(&mut self, fields: &Fields<'_>) -> Option<Slot> {
        let Some(value) = fields.get("slot") else { return Some(0) };
        self.count(value, 0, SLOTS as u64 - 1).map(|slot| slot as Slot)
    }

    fn xattr_name(&mut self, fields: &Fields<'_>) -> Option<String> {
        let value = self.required(fields, "name", "name = \"tag\"")?;
        let name = self.text(value)?;
        if name.is_empty() || name.len() > 200 || name.contains('\0') {
            self.wrong(value.span(), "the name of an attribute has 1 to 200 bytes, none of them 0");
            return None;
        }
        Some(name)
    }
}

fn kind_word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "files",
        EntryKind::Directory => "directories",
        EntryKind::Symlink => "symlinks",
    }
}

/// As [`unknown`], also where none is known at all.
pub(super) fn absent(what: &str, name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("there is no {what} `{name}`: the text has none");
    }
    unknown(what, name, known)
}
