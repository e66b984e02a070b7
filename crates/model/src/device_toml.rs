//! A device in a plan: a text as in a target, or a table such as `{ raid1 = ["4GiB", "4GiB"] }`.

use toml::de::DeTable;

use crate::device::{ArrayKind, ArraySpec, DeviceSpec};
use crate::param;
use crate::toml_reader::{TomlReader, Value};

/// How deep tables are read; what is deeper is refused anyway.
const DEPTH: usize = 8;

/// Reads a device; nothing after an error, which the reader has then.
pub(crate) fn read(reader: &mut TomlReader, value: &Value<'_>) -> Option<DeviceSpec> {
    match value.get_ref().as_table() {
        Some(table) => array(reader, value, table, DEPTH),
        None => {
            let text = reader.text(value)?;
            reader.keep(value.span(), DeviceSpec::parse(&text))
        }
    }
}

fn array(
    reader: &mut TomlReader,
    value: &Value<'_>,
    table: &DeTable<'_>,
    depth: usize,
) -> Option<DeviceSpec> {
    let Some(depth) = depth.checked_sub(1) else {
        reader.wrong(value.span(), "these arrays are too deep in each other");
        return None;
    };
    let before = reader.diagnostics.len();
    let mut spec: Option<ArraySpec> = None;
    let (mut chunk, mut bitmap) = (None, false);
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        match (name, ArrayKind::by_word(name)) {
            (_, Some(kind)) if spec.is_none() => {
                let members = members(reader, value, depth);
                spec = Some(ArraySpec { members, ..ArraySpec::of(kind) });
            }
            (_, Some(_)) => reader.wrong(key.span(), "a device is one array, not two"),
            ("chunk", None) => chunk = reader.text(value).map(|text| (text, value.span())),
            ("bitmap", None) => bitmap = reader.flag(value).unwrap_or_default(),
            _ => {
                let words = ArrayKind::ALL.map(ArrayKind::word);
                let known = [&words[..], &["chunk", "bitmap"]].concat();
                reader.wrong(key.span(), param::unknown("setting of a device", name, &known));
            }
        }
    }
    let Some(mut spec) = spec else {
        if reader.diagnostics.len() == before {
            reader.wrong(
                value.span(),
                "this device is nothing: write { raid1 = [\"4GiB\", \"4GiB\"] }",
            );
        }
        return None;
    };
    spec.bitmap = bitmap;
    if let Some((text, span)) = chunk {
        let set = spec.set_chunk(&text);
        reader.keep(span, set)?;
    }
    if reader.diagnostics.len() > before {
        return None;
    }
    reader.keep(value.span(), spec.checked()).map(DeviceSpec::Array)
}

fn members(reader: &mut TomlReader, value: &Value<'_>, depth: usize) -> Vec<DeviceSpec> {
    let Some(list) = value.get_ref().as_array() else {
        reader.wrong(value.span(), "the members of an array are a list: [\"4GiB\", \"4GiB\"]");
        return Vec::new();
    };
    let mut members = Vec::new();
    for item in list {
        members.extend(match item.get_ref().as_table() {
            Some(table) => array(reader, item, table, depth),
            None => reader.text(item).and_then(|text| {
                let read = DeviceSpec::parse_member(&text);
                reader.keep(item.span(), read)
            }),
        });
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Option<DeviceSpec>, Vec<String>) {
        let (root, mut reader) = TomlReader::parse(text);
        let device = root.get_ref().get("device").and_then(|value| read(&mut reader, value));
        let told = reader.into_sorted().into_iter().map(|it| it.message).collect();
        (device, told)
    }

    #[test]
    fn tables_are_what_texts_are() {
        for (toml, text) in [
            (r#"device = "raid1""#, "raid1"),
            (r#"device = { raid1 = ["4GiB", "4GiB"] }"#, "raid1(4GiB,4GiB)"),
            (
                r#"device = { raid0 = ["/dev/a", "/dev/b"], chunk = "64KiB" }"#,
                "raid0(/dev/a,/dev/b,chunk=64KiB)",
            ),
            (
                r#"device = { crypt = [{ raid1 = ["loop", "loop"], bitmap = true }] }"#,
                "crypt(raid1(loop,loop,bitmap))",
            ),
        ] {
            let (device, told) = parse(toml);
            assert!(told.is_empty(), "{toml}: {told:?}");
            assert_eq!(device, Some(DeviceSpec::parse(text).unwrap()), "{toml}");
        }
    }

    #[test]
    fn every_error_is_told() {
        for (toml, words) in [
            ("device = { raid1 = [\"4GiB\"] }", "at least two"),
            ("device = { raid1 = 4 }", "are a list"),
            ("device = { raid7 = [] }", "raid"),
            ("device = { }", "is nothing"),
            ("device = { raid1 = [\"loop\", \"loop\"], raid0 = [] }", "not two"),
            ("device = { raid0 = [\"loop\", \"x\"] }", "not a device"),
            ("device = { raid0 = [\"loop\", \"loop\"], chunk = \"3\" }", "power of two"),
        ] {
            let (device, told) = parse(toml);
            assert!(
                device.is_none() && told.iter().any(|it| it.contains(words)),
                "{toml}: {told:?}"
            );
        }
    }
}
