//! A model: the figures of one disk as a text states them, read strictly, and a disk made of them.

use std::ops::Range;

use fsdyno_model::diagnostic::Diagnostic;
use fsdyno_model::toml_reader::{TomlReader, Value};
use fsdyno_model::units::{exact_bytes, human_bytes};
use toml::de::{DeTable, DeValue};

use crate::array::{Array, ArrayParams};
use crate::card::{Card, CardParams};
use crate::fields::Fields;
use crate::figure::{self, Stated};
use crate::hdd::{Hdd, HddParams};
use crate::ram::Ram;
use crate::request::Mechanism;
use crate::smr::{Smr, SmrParams};
use crate::ssd::{Ssd, SsdParams};
use crate::volume::{Volume, VolumeParams};

/// The kinds, as models write them.
pub const KINDS: &[&str] = &["hdd", "ssd", "card", "smr", "volume", "array", "ram"];

/// The mechanism with its figures.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A disk that rotates.
    Hdd(HddParams),
    /// A flash disk with a controller.
    Ssd(SsdParams),
    /// An SD card or eMMC.
    Card(CardParams),
    /// A shingled disk.
    Smr(SmrParams),
    /// A volume of a cloud.
    Volume(VolumeParams),
    /// Several disks as one.
    Array(ArrayParams),
    /// No timing.
    Ram,
}

impl Kind {
    /// As models write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Hdd(_) => "hdd",
            Kind::Ssd(_) => "ssd",
            Kind::Card(_) => "card",
            Kind::Smr(_) => "smr",
            Kind::Volume(_) => "volume",
            Kind::Array(_) => "array",
            Kind::Ram => "ram",
        }
    }
}

/// What a model states.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name by which users call it: that of its file.
    pub name: String,
    /// One line.
    pub title: String,
    /// Where the figures come from, and which are assumed.
    pub sources: Vec<String>,
    /// Size of the whole disk.
    pub capacity_bytes: u64,
    /// The mechanism.
    pub kind: Kind,
    /// What its data sheet, or whoever measured it, states of its speed.
    pub stated: Vec<Stated>,
}

impl Model {
    /// Reads a model. `resolve` gives the model that a disk of an array is of.
    ///
    /// # Errors
    /// All that is wrong, each with its place.
    pub fn parse(
        name: &str,
        text: &str,
        resolve: &dyn Fn(&str) -> Result<Model, String>,
    ) -> Result<Model, Vec<Diagnostic>> {
        let (root, mut toml) = TomlReader::parse(text);
        let whole = 0..text.len().min(1);
        let table = root.get_ref();
        let mut head = Fields::new(&mut toml, table, whole.clone(), "model");
        let title = head.text("title");
        let sources = head.texts("sources");
        let kind_name = if head.has("kind") {
            head.choice("kind", KINDS)
        } else {
            head.wrong(format!("a model needs `kind`: {}", KINDS.join(", ")));
            "ram"
        };
        let given_capacity = match kind_name {
            // What it holds follows from its disks.
            "array" => None,
            _ => Some(head.size("capacity", 1 << 20, 1 << 50)),
        };
        for known in [kind_name, "stated"].into_iter().chain((kind_name == "smr").then_some("hdd"))
        {
            let _ = head.optional(known);
        }
        head.finish();
        let kind = read_kind(&mut toml, table, whole, kind_name, resolve);
        let stated = figure::read_stated(&mut toml, table);
        let capacity_bytes = match (&kind, given_capacity) {
            (Kind::Array(array), _) => {
                let member = array.members.first().map_or(0, |member| member.capacity_bytes);
                array.capacity_bytes(member)
            }
            (_, Some(capacity)) => capacity / 4096 * 4096,
            (_, None) => 0,
        };
        let model = Model { name: name.to_owned(), title, sources, capacity_bytes, kind, stated };
        if toml.diagnostics.is_empty()
            && let Err(error) = model.build(model.capacity_bytes.min(PROBED_BYTES), 0)
        {
            let span = table.get(kind_name).map_or(0..0, Value::span);
            toml.wrong(span, error);
        }
        if toml.diagnostics.is_empty() { Ok(model) } else { Err(toml.into_sorted()) }
    }

    /// The disk at work, of `size_bytes` from its beginning on; what is drawn comes from `seed`.
    ///
    /// # Errors
    /// A sentence: the disk is smaller, or its figures contradict each other.
    pub fn build(&self, size_bytes: u64, seed: u64) -> Result<Box<dyn Mechanism>, String> {
        if size_bytes == 0 || size_bytes > self.capacity_bytes {
            return Err(format!(
                "{} holds {} ({}), not {}",
                self.name,
                human_bytes(self.capacity_bytes),
                exact_bytes(self.capacity_bytes),
                exact_bytes(size_bytes)
            ));
        }
        Ok(match &self.kind {
            Kind::Hdd(params) => Box::new(Hdd::new(params, self.capacity_bytes, seed)?),
            Kind::Ssd(params) => Box::new(Ssd::new(params, size_bytes)?),
            Kind::Card(params) => Box::new(Card::new(params)),
            Kind::Smr(params) => Box::new(Smr::new(params, self.capacity_bytes, seed)?),
            Kind::Volume(params) => Box::new(Volume::new(params, seed)),
            Kind::Array(params) => {
                let bytes = params.member_bytes(size_bytes);
                let members = params.members.iter().enumerate().map(|(index, member)| {
                    member.build(bytes.min(member.capacity_bytes), seed.wrapping_add(index as u64))
                });
                Box::new(Array::new(params, members.collect::<Result<_, String>>()?))
            }
            Kind::Ram => Box::new(Ram::default()),
        })
    }

    /// Whether filesystems should be told that it seeks.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        match &self.kind {
            Kind::Hdd(_) | Kind::Smr(_) => true,
            Kind::Array(array) => array.members.iter().any(Model::is_rotational),
            Kind::Ssd(_) | Kind::Card(_) | Kind::Volume(_) | Kind::Ram => false,
        }
    }

    /// Whether it can be told that bytes are no longer needed: flash and what is made of it.
    #[must_use]
    pub fn takes_discards(&self) -> bool {
        match &self.kind {
            Kind::Hdd(_) => false,
            Kind::Array(array) => array.members.iter().all(Model::takes_discards),
            Kind::Ssd(_) | Kind::Card(_) | Kind::Smr(_) | Kind::Volume(_) | Kind::Ram => true,
        }
    }

    /// Bytes that are lost at most when power is cut: the memory for writes that is not protected.
    #[must_use]
    pub fn volatile_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Hdd(params) => params.write_cache_bytes,
            Kind::Smr(params) => params.hdd.write_cache_bytes,
            Kind::Ssd(params) if !params.is_protected => params.buffer_bytes,
            Kind::Array(array) => array.members.iter().map(Model::volatile_bytes).sum(),
            Kind::Ssd(_) | Kind::Card(_) | Kind::Volume(_) | Kind::Ram => 0,
        }
    }

    /// The same disk with its write cache switched off, as controllers with a memory of their own do.
    #[must_use]
    pub fn without_write_cache(mut self) -> Model {
        match &mut self.kind {
            Kind::Hdd(params) => params.write_cache_bytes = 0,
            Kind::Smr(params) => params.hdd.write_cache_bytes = 0,
            Kind::Ssd(_) | Kind::Card(_) | Kind::Volume(_) | Kind::Array(_) | Kind::Ram => {}
        }
        self
    }
}

/// Size at which a model is tried out when it is read: what it would be used at.
const PROBED_BYTES: u64 = 1 << 30;

fn read_kind(
    toml: &mut TomlReader,
    table: &DeTable<'_>,
    whole: Range<usize>,
    name: &'static str,
    resolve: &dyn Fn(&str) -> Result<Model, String>,
) -> Kind {
    if name == "ram" {
        return Kind::Ram;
    }
    let hdd = match name {
        "smr" => section(toml, table, whole.clone(), "hdd", HddParams::read),
        _ => None,
    };
    let kind = section(toml, table, whole, name, |fields| match name {
        "hdd" => Some(Kind::Hdd(HddParams::read(fields))),
        "ssd" => Some(Kind::Ssd(SsdParams::read(fields))),
        "card" => Some(Kind::Card(CardParams::read(fields))),
        "volume" => Some(Kind::Volume(VolumeParams::read(fields))),
        "array" => Some(Kind::Array(ArrayParams::read(fields, resolve))),
        _ => hdd.map(|hdd| Kind::Smr(SmrParams::read(hdd, fields))),
    });
    kind.flatten().unwrap_or(Kind::Ram)
}

/// Reads the table `[name]`, which must be there.
fn section<T>(
    toml: &mut TomlReader,
    table: &DeTable<'_>,
    whole: Range<usize>,
    name: &'static str,
    read: impl FnOnce(&mut Fields<'_, '_>) -> T,
) -> Option<T> {
    let found = table.get(name);
    let inner = found.and_then(|value| match value.get_ref() {
        DeValue::Table(inner) => Some((value.span(), inner)),
        _ => None,
    });
    let Some((span, inner)) = inner else {
        toml.wrong(
            found.map_or(whole, Value::span),
            format!("a model of this kind needs [{name}]"),
        );
        return None;
    };
    let mut fields = Fields::new(toml, inner, span, name);
    let read = read(&mut fields);
    fields.finish();
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    fn errors(text: &str) -> Vec<String> {
        let parsed = Model::parse("x", text, &|name| shipped::find(name));
        parsed.unwrap_err().into_iter().map(|one| one.message).collect()
    }

    #[test]
    fn every_error_is_told_with_its_place() {
        let text = "kind = \"hdd\"\ntitle = 3\nsources = [\"x\"]\ncapacity = \"1GB\"\n[hdd]\nrpm = 7200\nheds = 2\n";
        let found = Model::parse("x", text, &|name| shipped::find(name)).unwrap_err();
        let told = |word: &str| found.iter().find(|one| one.message.contains(word)).cloned();
        assert_eq!(told("expected a string").and_then(|it| it.span), Some(21..22));
        let at = text.find("heds").unwrap();
        assert_eq!(told("`heds`").and_then(|it| it.span), Some(at..at + 4));
        assert!(told("`heds`").is_some_and(|it| it.message.contains("did you mean `heads`")));
        assert!(told("needs `average_seek_ms`").is_some());
    }

    #[test]
    fn bad_models_are_refused_and_none_panics() {
        for (text, word) in [
            ("", "needs `kind`"),
            ("kind = \"floppy\"", "floppy"),
            ("kind = \"ssd\"", "needs [ssd]"),
            (
                "kind = \"array\"\n[array]\nlevel = \"raid5\"\nmembers = 2\nmember = \"ram\"",
                "three",
            ),
            ("kind = \"array\"\n[array]\nlevel = \"raid0\"\nmembers = 2\nmember = \"rm\"", "rm"),
            ("kind = [", "array"),
        ] {
            let told = errors(text);
            assert!(told.iter().any(|one| one.contains(word)), "{text}: {told:?}");
        }
    }

    #[test]
    fn contradicting_figures_are_told_at_their_table() {
        let model = shipped::text("hdd-7200-2007").expect("it is shipped");
        let text = model.replace("full_stroke_ms = ", "full_stroke_ms = 9.0 # ");
        let told = errors(&text);
        assert!(told.iter().any(|one| one.contains("no seek curve")), "{told:?}");
    }
}
