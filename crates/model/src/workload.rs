//! A workload with its parameters, and its grammar on the command line:
//! `NAME[:key=value,...]` or `FILE.toml[:key=value,...]`, where a value that has a colon may go on over commas
//! (`payload=realistic:compressibility=50%,duplication=0%`), and free text goes on until the next
//! parameter of this workload (`command=dd if=/dev/zero of=f bs=1M count=9 iflag=fullblock,count_bytes`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::info::{Names, WorkloadInfo};
use crate::param::{ParamKind, Params};

/// Characters of a label that is made from a command line.
const LABEL_CHARS: usize = 30;

/// One workload to run on every target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadSpec {
    /// Name in tables and results; unique within a plan.
    pub label: String,
    /// Name in the catalogue.
    pub kind: String,
    /// Every parameter, defaults filled in.
    pub params: Params,
    /// The text of the file that defines it; null for a workload of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl WorkloadSpec {
    /// The workload `kind` with its defaults.
    ///
    /// # Errors
    /// A sentence when there is no such workload.
    pub fn defaults(kind: &str, quick: bool, names: &Names<'_>) -> Result<WorkloadSpec, String> {
        let info = names.workload(kind)?;
        Ok(WorkloadSpec::of(info, Params::defaults(info.params, quick)))
    }

    /// The workload with these parameters, called by its command line where it has one and else by its
    /// name.
    #[must_use]
    pub fn of(info: &WorkloadInfo, params: Params) -> WorkloadSpec {
        let label = match params.contains(COMMAND) {
            true => label_of_command(params.text(COMMAND)),
            false => info.name.to_owned(),
        };
        WorkloadSpec { label, kind: info.name.to_owned(), params, definition: None }
    }

    /// Reads a workload as written on the command line.
    ///
    /// # Errors
    /// Every error in it, a sentence each.
    pub fn parse(text: &str, quick: bool, names: &Names<'_>) -> Result<WorkloadSpec, Vec<String>> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (info, definition) = names.workload_or_file(kind).map_err(|error| vec![error])?;
        let mut params = Params::defaults(info.params, quick);
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut errors = Vec::new();
        for part in rest.split(',') {
            let pair = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let known = pair.is_some_and(|(key, _)| info.params.iter().any(|def| def.name == key));
            match (pair, pairs.last_mut()) {
                (Some((key, value)), _) if known => pairs.push((key.to_owned(), value.to_owned())),
                (_, Some((key, value))) if is_free_text(info, key) => {
                    value.push(',');
                    value.push_str(part);
                }
                _ if part.trim().is_empty() => {}
                (_, Some((_, value))) if value.contains(':') => {
                    value.push(',');
                    value.push_str(part);
                }
                (Some((key, value)), _) => pairs.push((key.to_owned(), value.to_owned())),
                (None, _) => {
                    errors.push(format!("`{part}` in `{text}` is not of the form key=value"))
                }
            }
        }
        for (key, value) in &pairs {
            if let Err(error) = params.set(info.params, key, value) {
                errors.push(format!("{kind}: {error}"));
            }
        }
        let spec = WorkloadSpec { definition, ..WorkloadSpec::of(info, params) };
        if errors.is_empty() { Ok(spec) } else { Err(errors) }
    }
}

/// Name of the parameter that holds a command line.
const COMMAND: &str = "command";

/// Whether any text is a value of the parameter `name`.
fn is_free_text(info: &WorkloadInfo, name: &str) -> bool {
    let is_free = |kind, check: bool| kind == ParamKind::Text && !check;
    info.params.iter().any(|def| def.name == name && is_free(def.kind, def.check.is_some()))
}

/// A command line as a label: on one line, cut short.
fn label_of_command(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(printable).collect();
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    if text.is_empty() {
        return COMMAND.to_owned();
    }
    match text.char_indices().nth(LABEL_CHARS) {
        None => text,
        Some(_) => {
            let kept: String = text.chars().take(LABEL_CHARS - 3).collect();
            format!("{}...", kept.trim_end())
        }
    }
}

/// Makes labels unique: the second `compilebench` becomes `compilebench-2`.
pub fn number_labels<'a>(labels: impl Iterator<Item = &'a mut String>) {
    let mut seen: Vec<String> = Vec::new();
    for label in labels {
        if seen.contains(label) {
            let free =
                (2..).map(|n| format!("{label}-{n}")).find(|candidate| !seen.contains(candidate));
            *label = free.expect("some number is free");
        }
        seen.push(label.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::{WorkloadDoc, WorkloadInfo, no_files};
    use crate::param::{ParamDef, ParamKind};
    use crate::payload::Payload;

    static INFO: WorkloadInfo = WorkloadInfo {
        name: "compilebench",
        summary: "",
        doc: WorkloadDoc { timed: "", not_timed: "", models: "", read_it_as: "", caveats: "" },
        differences: &[],
        params: &[
            ParamDef {
                name: "payload",
                kind: ParamKind::Text,
                default: "realistic",
                quick: None,
                doc: "",
                check: Some(Payload::check),
            },
            ParamDef {
                name: "trees",
                kind: ParamKind::Count { min: 1, max: 9 },
                default: "3",
                quick: Some("1"),
                doc: "",
                check: None,
            },
        ],
        phases: &[],
    };
    const fn text(name: &'static str) -> ParamDef {
        let kind = ParamKind::Text;
        ParamDef { name, kind, default: "none", quick: None, doc: "", check: None }
    }

    static LINES: WorkloadInfo =
        WorkloadInfo { name: "command", params: &[text("command"), text("prepare")], ..INFO };
    const NAMES: Names<'static> =
        Names { workloads: &[&INFO, &LINES], filesystems: &[], load_workload: no_files };

    #[test]
    fn free_text_goes_on_until_the_next_parameter() {
        for (text, command, prepare) in [
            ("command:command=make -j2", "make -j2", "none"),
            ("command:command=a b=c,d=e,,f,prepare=x,y=z", "a b=c,d=e,,f", "x,y=z"),
            ("command:prepare=x,command=a,prepare=y", "a", "y"),
            ("command", "none", "none"),
        ] {
            let spec = WorkloadSpec::parse(text, false, &NAMES).unwrap();
            assert_eq!(spec.params.text("command"), command, "{text}");
            assert_eq!(spec.params.text("prepare"), prepare, "{text}");
        }
        assert!(WorkloadSpec::parse("command:x=1", false, &NAMES).is_err());
    }

    #[test]
    fn a_command_line_is_its_own_label() {
        for (text, label) in [
            ("make -j2", "make -j2"),
            (" a\n\tb ", "a b"),
            ("tar xf linux-6.18.tar.xz && make", "tar xf linux-6.18.tar.xz &&..."),
            ("exactly thirty characters long", "exactly thirty characters long"),
            (
                "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4} 12345678901234567890",
                "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4} 1234567890123456...",
            ),
            ("", "command"),
        ] {
            assert_eq!(label_of_command(text), label);
            assert_eq!(crate::target::check_label(label), Ok(()));
        }
        let spec = WorkloadSpec::parse("command:command=make -j2", false, &NAMES).unwrap();
        assert_eq!(spec.label, "make -j2");
        assert_eq!(
            WorkloadSpec::defaults("compilebench", false, &NAMES).unwrap().label,
            "compilebench"
        );
    }

    #[test]
    fn a_value_with_a_colon_goes_on_over_commas() {
        let text = "compilebench:payload=realistic:compressibility=50%,duplication=5%,trees=4";
        let spec = WorkloadSpec::parse(text, false, &NAMES).unwrap();
        assert_eq!(spec.params.text("payload"), "realistic:compressibility=50%,duplication=5%");
        assert_eq!(spec.params.number("trees"), 4);
    }

    #[test]
    fn all_errors_are_told_at_once() {
        let errors =
            WorkloadSpec::parse("compilebench:tree=4,trees=77,x", false, &NAMES).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[1..].iter().all(|it| it.starts_with("compilebench: ")), "{errors:?}");
        assert!(
            WorkloadSpec::parse("compile-bench", false, &NAMES).unwrap_err()[0]
                .contains("did you mean")
        );
    }

    #[test]
    fn labels_become_unique() {
        let mut labels = ["a", "a", "a-2", "a"].map(str::to_owned);
        number_labels(labels.iter_mut());
        assert_eq!(labels, ["a", "a-2", "a-2-2", "a-3"]);
    }
}
