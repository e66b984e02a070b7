//! The TOML form of a workload: its documentation, its parameters, and the [`Definition`] that the
//! parameters make of it. A text is read anew for each set of values, because a parameter may stand in
//! place of any of them.

mod agreement;
mod estimate;
mod fields;
mod fileset;
mod head;
mod list;
mod phase;
mod shipped;
mod step;
mod substitution;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Mutex;

use fsdyno_model::diagnostic::Diagnostic;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, ParamKind, Params};
use fsdyno_model::payload::Payload;
use fsdyno_model::toml_reader::TomlReader;

pub use self::agreement::is_served_by_io_uring;
use self::fields::{Fields, Reader};
use self::head::{Head, Kind, POINTS};
use self::phase::PhaseDoc;
use self::step::Known;
use self::substitution::{Scalar, Scope};
use crate::engine::definition::Definition;
use crate::fragmentation;

/// Keys of a text besides the five points.
const KEYS: [&str; 7] =
    ["name", "summary", "cold_default", "semaphores", "params", "fileset", "phase"];

/// A workload that a text defines.
#[derive(Debug)]
pub struct DataWorkload {
    /// What is known of it.
    pub info: WorkloadInfo,
    /// The text.
    pub text: String,
}

impl DataWorkload {
    /// Reads a text; what it says is checked with the default parameters and with those of `--quick`.
    /// What is known of it stays in memory for the rest of the life of this process.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text.
    pub fn parse(text: &str) -> Result<DataWorkload, Vec<Diagnostic>> {
        let (head, phases) = read_twice(text)?;
        Ok(DataWorkload { info: keep(head, phases), text: text.to_owned() })
    }

    /// As [`DataWorkload::parse`], for the rest of the life of this process; a text that was read before
    /// is not kept twice.
    ///
    /// # Errors
    /// As [`DataWorkload::parse`].
    pub fn load(text: &str) -> Result<&'static DataWorkload, Vec<Diagnostic>> {
        static LOADED: Mutex<BTreeMap<String, &'static DataWorkload>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = loaded.get(text) {
            return Ok(known);
        }
        let workload: &'static DataWorkload = Box::leak(Box::new(DataWorkload::parse(text)?));
        loaded.insert(text.to_owned(), workload);
        Ok(workload)
    }

    /// What it is with these parameters.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn definition(&self, params: &Params) -> Result<Definition, Vec<Diagnostic>> {
        let scope = Scope::of(self.info.params, params);
        let (root, toml) = TomlReader::parse(&self.text);
        let mut reader = Reader::new(toml, &scope);
        let root = reader.root(&root);
        let (definition, _) = reader.body(&root);
        finish(reader, definition)
    }

    /// Upper estimate of what is on the target at once, in bytes, as
    /// [`crate::catalog::WorkloadDef::peak_bytes`]: every fileset full of files of the mean size (with a
    /// margin for chance), their directories, and what is appended; `None` where a phase that only time
    /// ends appends without end.
    ///
    /// # Errors
    /// As [`DataWorkload::definition`], as one sentence.
    pub fn peak_bytes(&self, params: &Params) -> Result<Option<u64>, String> {
        let definition = self.definition(params).map_err(|errors| {
            let messages: Vec<String> = errors.into_iter().map(|one| one.message).collect();
            messages.join("; ")
        })?;
        Ok(estimate::peak_bytes(&definition))
    }
}

/// Checks a text as [`DataWorkload::parse`] does, and keeps nothing of it.
///
/// # Errors
/// All that is wrong, in the order of the text.
pub fn check(text: &str) -> Result<(), Vec<Diagnostic>> {
    read_twice(text).map(drop)
}

/// Reads a text with the default parameters and with those of `--quick`.
fn read_twice(text: &str) -> Result<(Head, Vec<PhaseDoc>), Vec<Diagnostic>> {
    let nothing = Scope::default();
    let (root, toml) = TomlReader::parse(text);
    // What follows from broken syntax is not worth telling.
    if !toml.diagnostics.is_empty() {
        return Err(toml.into_sorted());
    }
    let mut reader = Reader::new(toml, &nothing);
    let root = reader.root(&root);
    let head = reader.head(&root);
    let mut toml = reader.toml;
    let (scope, quick_scope) = (head.scope(false), head.scope(true));
    let mut reader = Reader::new(TomlReader::default(), &scope);
    let (_, phases) = reader.body(&root);
    toml.diagnostics.append(&mut reader.toml.diagnostics);
    let mut reader = Reader::new(TomlReader::default(), &quick_scope);
    reader.body(&root);
    // What was wrong with the default values already is not told again.
    for mut one in reader.toml.diagnostics {
        if !toml.diagnostics.iter().any(|other| other.span == one.span) {
            one.message.push_str(" (with the values of --quick)");
            toml.diagnostics.push(one);
        }
    }
    // What uses it may be what is wrong.
    let unused = head.params.iter().filter(|param| !scope.is_used(&param.name));
    for param in unused.take(if toml.diagnostics.is_empty() { usize::MAX } else { 0 }) {
        let message = format!("nothing uses the parameter `{}`: write \"${0}\"", param.name);
        toml.wrong(param.name_span.clone(), message);
    }
    let diagnostics = toml.into_sorted();
    if diagnostics.is_empty() { Ok((head, phases)) } else { Err(diagnostics) }
}

fn finish(reader: Reader<'_>, definition: Definition) -> Result<Definition, Vec<Diagnostic>> {
    let diagnostics = reader.toml.into_sorted();
    if diagnostics.is_empty() { Ok(definition) } else { Err(diagnostics) }
}

impl Reader<'_> {
    fn root<'a>(&mut self, root: &'a toml::Spanned<toml::de::DeTable<'a>>) -> Fields<'a> {
        let known: Vec<&str> = KEYS.iter().chain(&POINTS).copied().collect();
        let span = root.span();
        // An error about the whole text points at its beginning.
        let span = span.start..span.start;
        self.fields((span, root.get_ref()), "key of a workload", &known)
    }

    /// All that depends on parameters.
    fn body(&mut self, root: &Fields<'_>) -> (Definition, Vec<PhaseDoc>) {
        let payload = match self.scope.get("payload") {
            Some(Scalar::Text(text)) => Payload::parse(text).unwrap_or(Payload::DEFAULT),
            _ => Payload::DEFAULT,
        };
        let sync = !matches!(self.scope.get("sync"), Some(Scalar::Flag(false)));
        let semaphores = self.semaphores(root);
        let filesets = self.filesets(root);
        let known = Known { filesets: &filesets, semaphores: &semaphores };
        let all = self.phases(root, &known, sync);
        let phases = all.phases;
        (Definition { payload, sync, filesets, semaphores, phases }, all.docs)
    }

    fn semaphores(&mut self, root: &Fields<'_>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let Some(value) = root.get("semaphores") else { return names };
        let Some(items) = value.get_ref().as_array() else {
            self.wrong(value.span(), "expected a list of names, such as [\"log\"]");
            return names;
        };
        for item in items.iter() {
            let Some(name) = self.name(item) else { continue };
            if names.contains(&name) {
                self.wrong(item.span(), format!("there is a semaphore `{name}` already"));
            }
            names.push(name);
        }
        names
    }
}

/// What is known of a workload, kept for good.
fn keep(head: Head, phases: Vec<PhaseDoc>) -> WorkloadInfo {
    let shared = head.shared();
    let mut params: Vec<ParamDef> = Vec::new();
    for param in head.params {
        let kind = match param.kind {
            Kind::Plain(kind) => kind,
            Kind::Choice(words) => {
                let words: Vec<&'static str> = words.into_iter().map(leak).collect();
                ParamKind::Choice(words.leak())
            }
        };
        params.push(ParamDef {
            name: leak(param.name),
            kind,
            default: leak(param.default),
            quick: param.quick.map(leak),
            doc: leak(param.doc),
            check: None,
        });
    }
    params.extend(shared);
    let mut infos: Vec<PhaseInfo> = phases
        .into_iter()
        .map(|phase| PhaseInfo { name: leak(phase.name), doc: leak(phase.doc) })
        .collect();
    infos.push(fragmentation::PHASE);
    let [timed, not_timed, models, read_it_as, caveats] = head.doc.map(leak);
    WorkloadInfo {
        name: leak(head.name),
        summary: leak(head.summary),
        doc: WorkloadDoc { timed, not_timed, models, read_it_as, caveats },
        differences: &[],
        params: params.leak(),
        phases: infos.leak(),
    }
}

fn leak(text: String) -> &'static str {
    text.leak()
}
