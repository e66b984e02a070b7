//! The TOML form of a plan. The tree is walked by hand, so that one reading tells every error with
//! its place instead of the first alone.
//!
//! ```toml
//! [plan]
//! trials = 5
//!
//! [[target]]
//! filesystem = "ext4"
//!
//! [[workload]]
//! kind = "compilebench"
//! trees = 10
//! ```

use std::ops::Range;
use std::path::PathBuf;

use toml::de::DeTable;

use crate::age::{self, AgeSpec};
use crate::device_toml;
use crate::diagnostic::Diagnostic;
use crate::info::{FilesystemInfo, Names};
use crate::kernel::KernelChoice;
use crate::param::{self, Params};
use crate::place::{self, Accelerator, Clock, Place, Where};
use crate::plan::Plan;
use crate::plan_fields::{PLACE_FIELDS, PLAN_FIELDS, TARGET_FIELDS};
use crate::stop::{self, Asked, Trials};
use crate::target::{self, DeviceSpec, FreshSpec, Ground, TargetSpec};
use crate::toml_reader::{TomlReader, Value, kind_of, scalar};
use crate::trace::TraceMode;
use crate::units;
use crate::workload::WorkloadSpec;

/// Reads a plan; see [`Plan::parse`].
pub(crate) fn parse(text: &str, names: &Names<'_>) -> Result<Plan, Vec<Diagnostic>> {
    let (root, toml) = TomlReader::parse(text);
    let mut reader = Reader { names, toml };
    let mut plan = Plan { trace: TraceMode::Explain, ..Plan::new(false) };
    // What [plan] says of the trials, if there is one, comes instead.
    Asked::default().apply(&mut plan);
    for (key, value) in root.get_ref() {
        match key.get_ref().as_ref() {
            "plan" => reader.plan(value, &mut plan),
            "target" => {
                for (span, table) in reader.toml.tables(value, "target") {
                    plan.targets.extend(reader.target(span, table));
                }
            }
            "workload" => {
                for (span, table) in reader.toml.tables(value, "workload") {
                    plan.workloads.extend(reader.workload(span, table));
                }
            }
            other => {
                let known = ["plan", "target", "workload"];
                reader.toml.wrong(key.span(), param::unknown("table", other, &known));
            }
        }
    }
    if reader.toml.diagnostics.is_empty() {
        return plan.finish().map_err(|errors| {
            errors.into_iter().map(|message| Diagnostic { message, span: None }).collect()
        });
    }
    Err(reader.toml.into_sorted())
}

/// A target as far as its fields could be read.
#[derive(Default)]
struct TargetFields {
    label: Option<String>,
    filesystem: Option<(String, Range<usize>)>,
    directory: Option<String>,
    mkfs: Option<Vec<String>>,
    mount: Option<String>,
    device: Option<DeviceSpec>,
    journal: Option<JournalField>,
    age: Option<AgeSpec>,
    kernel: Option<KernelChoice>,
    /// Where the age is written.
    age_span: Option<Range<usize>>,
    /// Whether there is a field that a directory cannot have.
    of_filesystem: bool,
}

/// `log` or `journal` with its place and the device; no device for `false`.
struct JournalField {
    keyword: String,
    span: Range<usize>,
    device: Option<DeviceSpec>,
}

struct Reader<'n> {
    names: &'n Names<'n>,
    toml: TomlReader,
}

impl Reader<'_> {
    fn seconds(&mut self, value: &Value<'_>) -> Option<u64> {
        let text = self.toml.text(value)?;
        let parsed = units::parse_duration_ns(&text).map_err(|error| error.to_string());
        let seconds = self.toml.keep(value.span(), parsed)?.div_ceil(1_000_000_000);
        if seconds == 0 {
            self.toml.wrong(value.span(), "a limit of no time lets nothing run");
            return None;
        }
        Some(seconds)
    }

    fn plan(&mut self, value: &Value<'_>, plan: &mut Plan) {
        let Some(table) = value.get_ref().as_table() else {
            self.toml.wrong(value.span(), "[plan] is one table");
            return;
        };
        let mut asked = Asked::default();
        // Settings of automatic trials alone, each with its place.
        let mut of_auto = Vec::new();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "title" => plan.title = self.toml.text(value),
                "trials" => asked.trials = self.trials(value),
                "resolution" => {
                    of_auto.push(("resolution", key.span()));
                    asked.resolution_permille = (self.toml.text(value))
                        .and_then(|it| self.toml.keep(value.span(), stop::parse_resolution(&it)));
                }
                "max_trials" => {
                    of_auto.push(("max_trials", key.span()));
                    let most = self.toml.count(value, 1, stop::MAX_TRIALS.into());
                    asked.max_trials = most.and_then(|number| u32::try_from(number).ok());
                }
                "seed" => {
                    plan.seed = self.toml.count(value, 0, i64::MAX as u64).unwrap_or(plan.seed)
                }
                "max_time" => plan.max_time_s = self.seconds(value),
                "trial_timeout" => {
                    plan.trial_timeout_s = self.seconds(value).unwrap_or(plan.trial_timeout_s);
                }
                "phase_timeout" => plan.phase_timeout_s = self.seconds(value),
                "size" => plan.size_bytes = self.toml.size(value).unwrap_or(plan.size_bytes),
                "dir" => plan.directory = self.toml.text(value).map(PathBuf::from),
                "trace" => {
                    let word = self.toml.text(value);
                    let mode =
                        word.and_then(|it| self.toml.keep(value.span(), TraceMode::parse(&it)));
                    plan.trace = mode.unwrap_or(plan.trace);
                }
                "yardstick" => {
                    plan.yardstick = self.toml.flag(value).unwrap_or(plan.yardstick);
                }
                name if PLACE_FIELDS.contains(&name) => self.place(name, value, &mut plan.place),
                other => {
                    let known = [PLAN_FIELDS, PLACE_FIELDS].concat();
                    self.toml.wrong(key.span(), param::unknown("setting of [plan]", other, &known));
                }
            }
        }
        if let Some(number) = asked.fixed() {
            for (name, span) in of_auto {
                let message = stop::contradiction(name, &format!("trials = {number}"));
                self.toml.wrong(span, message);
            }
        }
        asked.apply(plan);
    }

    /// A setting of the place of trials.
    fn place(&mut self, name: &str, value: &Value<'_>, place: &mut Place) {
        if name == "shift" {
            let text = scalar(value).unwrap_or_else(|| kind_of(value).to_owned());
            let read = self.toml.keep(value.span(), place::parse_shift(&text));
            place.shift = read.unwrap_or(place.shift);
            return;
        }
        if name == "saved_state" {
            place.saved_state = self.toml.flag(value).unwrap_or(place.saved_state);
            return;
        }
        let text = self.toml.text(value);
        match name {
            "where" => {
                let read = text.and_then(|it| self.toml.keep(value.span(), Where::parse(&it)));
                place.kind = read.unwrap_or(place.kind);
            }
            "clock" => {
                let read = text.and_then(|it| self.toml.keep(value.span(), Clock::parse(&it)));
                place.clock = read.unwrap_or(place.clock);
            }
            "kernel" => {
                let read = text.map(|it| KernelChoice::parse(&it));
                place.kernel = read.and_then(|read| self.toml.keep(value.span(), read));
            }
            "accelerator" => {
                let read = text.map(|it| Accelerator::parse(&it));
                place.accelerator = read.and_then(|read| self.toml.keep(value.span(), read));
            }
            _ => {
                let read = text.map(|it| units::parse_bytes(&it).map_err(|it| it.to_string()));
                let read = read.and_then(|read| self.toml.keep(value.span(), read));
                match name {
                    "memory_limit" => place.memory_limit_bytes = read,
                    _ => place.memory_bytes = read.unwrap_or(place.memory_bytes),
                }
            }
        }
    }

    /// A number of trials, or `"auto"`.
    fn trials(&mut self, value: &Value<'_>) -> Option<Trials> {
        let text = scalar(value).unwrap_or_else(|| kind_of(value).to_owned());
        self.toml.keep(value.span(), Trials::parse(&text))
    }

    fn target(&mut self, span: Range<usize>, table: &DeTable<'_>) -> Option<TargetSpec> {
        let before = self.toml.diagnostics.len();
        let fields = self.target_fields(table);
        if let Some(path) = fields.directory {
            if let Some(span) = fields.age_span {
                self.toml.wrong(span, age::DIRECTORY_ERROR);
                return None;
            }
            if fields.of_filesystem {
                self.toml.wrong(span, "a target is a directory or a filesystem, not both");
                return None;
            }
            let label = fields.label.unwrap_or_else(|| format!("dir:{path}"));
            let ground = Ground::Directory { path: PathBuf::from(path) };
            return Some(TargetSpec { label, ground });
        }
        let Some((filesystem, name_span)) = fields.filesystem else {
            if self.toml.diagnostics.len() == before {
                self.toml.wrong(
                    span,
                    "this target names no filesystem: add filesystem = \"ext4\" or directory = \"/path\"",
                );
            }
            return None;
        };
        let info = self.toml.keep(name_span.clone(), self.names.filesystem(&filesystem))?;
        if let Some(device) = &fields.device {
            self.toml.keep(name_span, target::check_pool(&filesystem, device))?;
        }
        let journal = fields.journal.and_then(|journal| self.journal_of(info, journal));
        let fresh = FreshSpec {
            filesystem,
            mkfs: fields.mkfs.unwrap_or_default(),
            mount: fields.mount.unwrap_or_default(),
            device: fields.device.unwrap_or(DeviceSpec::LoopImage { size_bytes: None }),
            journal,
            age: fields.age,
            kernel: fields.kernel,
        };
        let mut target =
            TargetSpec { label: fields.label.unwrap_or_default(), ground: Ground::Fresh(fresh) };
        if target.label.is_empty() {
            // As on the command line, the text of an unlabelled target is its label.
            target.label = target.unlabelled();
        }
        Some(target)
    }

    /// The fields of a target, each checked alone.
    fn target_fields(&mut self, table: &DeTable<'_>) -> TargetFields {
        let mut fields = TargetFields::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            fields.of_filesystem |= !["label", "directory"].contains(&name);
            match name {
                "label" => {
                    fields.label = self.toml.text(value).and_then(|text| {
                        self.toml.keep(value.span(), target::check_label(&text)).map(|()| text)
                    });
                }
                "filesystem" => {
                    fields.filesystem = self.toml.text(value).map(|text| (text, value.span()));
                }
                "directory" => fields.directory = self.toml.text(value),
                "mkfs" => fields.mkfs = self.mkfs(value),
                "mount" => {
                    fields.mount = self
                        .toml
                        .text(value)
                        .and_then(|text| self.toml.keep(value.span(), target::check_mount(&text)));
                }
                "device" => {
                    fields.device = device_toml::read(&mut self.toml, value);
                }
                "age" => {
                    fields.age_span = Some(key.span());
                    fields.age = (self.toml.text(value))
                        .and_then(|text| self.toml.keep(value.span(), AgeSpec::parse(&text)));
                }
                "kernel" => {
                    fields.kernel = (self.toml.text(value))
                        .and_then(|text| self.toml.keep(value.span(), KernelChoice::parse(&text)));
                }
                "log" | "journal" => {
                    let keyword = name.to_owned();
                    let device = self.journal(value);
                    fields.journal =
                        device.map(|device| JournalField { keyword, span: key.span(), device });
                }
                other => {
                    let message = param::unknown("field of a target", other, TARGET_FIELDS);
                    self.toml.wrong(key.span(), message);
                }
            }
        }
        fields
    }

    /// The journal's device, when this filesystem calls it so.
    fn journal_of(&mut self, info: &FilesystemInfo, field: JournalField) -> Option<DeviceSpec> {
        let JournalField { keyword, span, device } = field;
        match info.external_journal {
            Some(right) if right == keyword => return device,
            Some(right) => {
                self.toml.wrong(span, format!("{} has no `{keyword}` but a `{right}`", info.name));
            }
            None => {
                self.toml.wrong(
                    span,
                    format!("{} cannot have its journal on another device", info.name),
                );
            }
        }
        None
    }

    fn mkfs(&mut self, value: &Value<'_>) -> Option<Vec<String>> {
        if let Some(array) = value.get_ref().as_array() {
            return array.iter().map(|item| self.toml.text(item)).collect();
        }
        let text = self.toml.text(value)?;
        self.toml.keep(value.span(), target::split_mkfs(&text))
    }

    /// `true`, `false`, or a device; the outer `None` after an error.
    fn journal(&mut self, value: &Value<'_>) -> Option<Option<DeviceSpec>> {
        match value.get_ref().as_bool() {
            Some(true) => Some(Some(DeviceSpec::LoopImage { size_bytes: None })),
            Some(false) => Some(None),
            None => device_toml::read(&mut self.toml, value).map(Some),
        }
    }

    fn workload(&mut self, span: Range<usize>, table: &DeTable<'_>) -> Option<WorkloadSpec> {
        let Some(kind) = table.get("kind").or_else(|| table.get("file")) else {
            let text =
                "this workload has no kind: add kind = \"compilebench\" or file = \"mine.toml\"";
            self.toml.wrong(span, text);
            return None;
        };
        let name = self.toml.text(kind)?;
        let (info, definition) = self.toml.keep(kind.span(), self.names.workload_or_file(&name))?;
        let mut params = Params::defaults(info.params, false);
        let mut label = None;
        for (key, value) in table {
            let key_text = key.get_ref().as_ref();
            match key_text {
                "kind" | "file" => {}
                "label" => {
                    let text = self.toml.text(value).unwrap_or_default();
                    self.toml.keep(value.span(), target::check_label(&text));
                    label = Some(text);
                }
                _ if info.params.iter().any(|def| def.name == key_text) => match scalar(value) {
                    Some(text) => {
                        let set = params.set(info.params, key_text, &text);
                        self.toml.keep(value.span(), set);
                    }
                    None => {
                        self.toml.wrong(
                            value.span(),
                            format!("{key_text} takes one value, not {}", kind_of(value)),
                        );
                    }
                },
                _ => {
                    let known: Vec<&str> = info.params.iter().map(|def| def.name).collect();
                    let what = format!("parameter of {name}");
                    self.toml.wrong(key.span(), param::unknown(&what, key_text, &known));
                }
            }
        }
        let mut spec = WorkloadSpec { definition, ..WorkloadSpec::of(info, params) };
        spec.label = label.unwrap_or(spec.label);
        Some(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::{WorkloadDoc, WorkloadInfo};
    use crate::param::{ParamDef, ParamKind};

    static EXT4: FilesystemInfo =
        FilesystemInfo { name: "ext4", summary: "", external_journal: Some("journal") };
    static BTRFS: FilesystemInfo =
        FilesystemInfo { name: "btrfs", summary: "", external_journal: None };
    static INFO: WorkloadInfo = WorkloadInfo {
        name: "compilebench",
        summary: "",
        doc: WorkloadDoc { timed: "", not_timed: "", models: "", read_it_as: "", caveats: "" },
        differences: &[],
        params: &[
            ParamDef {
                name: "trees",
                kind: ParamKind::Count { min: 1, max: 100 },
                default: "30",
                quick: None,
                doc: "",
                check: None,
            },
            ParamDef {
                name: "sync",
                kind: ParamKind::Flag,
                default: "true",
                quick: None,
                doc: "",
                check: None,
            },
        ],
        phases: &[],
    };
    static NAMES: Names<'static> = Names {
        workloads: &[&INFO],
        filesystems: &[&EXT4, &BTRFS],
        load_workload: crate::info::no_files,
    };

    #[test]
    fn a_whole_plan_is_read() {
        let text = r#"
            [plan]
            title = "then and now"
            trials = 3
            seed = 0x2A
            max_time = "1h 30m"
            size = "4GiB"
            dir = "/srv/images"
            trace = "all"

            [[target]]
            label = "old"
            filesystem = "ext4"
            mkfs = "-O ^has_journal"
            mount = "noatime"
            journal = "loop:1GiB"

            [[target]]
            filesystem = "btrfs"
            mkfs = ["-d", "single"]

            [[target]]
            directory = "/tmp"

            [[workload]]
            kind = "compilebench"
            trees = 4
            sync = false

            [[workload]]
            kind = "compilebench"
        "#;
        let plan = Plan::parse(text, &NAMES).unwrap();
        assert_eq!((plan.trials, plan.seed, plan.max_time_s), (3, 42, Some(5400)));
        assert_eq!(plan.trace, TraceMode::All);
        let labels: Vec<&str> = plan.targets.iter().map(|target| target.label.as_str()).collect();
        assert_eq!(labels, ["old", "btrfs/-d single", "dir:/tmp"]);
        assert_eq!(plan.workloads[0].params.number("trees"), 4);
        assert!(!plan.workloads[0].params.flag("sync"));
        assert_eq!(plan.workloads[1].label, "compilebench-2");
    }

    #[test]
    fn every_error_is_told_with_its_place() {
        let text = "\
[plan]
trails = 3
trials = 0
size = \"many\"
trace = \"some\"

[[target]]
filesystem = \"ext5\"

[[target]]
filesystem = \"btrfs\"
journal = true

[[workload]]
kind = \"compilebench\"
trees = 1000
tree = 3

[extra]
";
        let diagnostics = Plan::parse(text, &NAMES).unwrap_err();
        let found: Vec<(&str, &str)> = diagnostics
            .iter()
            .map(|one| (&text[one.span.clone().unwrap()], one.message.as_str()))
            .collect();
        let expected = [
            ("trails", "did you mean `trials`"),
            ("0", "auto or a number from 1 to 10000"),
            ("\"many\"", "not a size"),
            ("\"some\"", "trace is one of explain, all, none"),
            ("\"ext5\"", "did you mean `ext4`"),
            ("journal", "cannot have its journal"),
            ("1000", "between 1 and 100"),
            ("tree", "did you mean `trees`"),
            ("extra", "there is no table"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((place, message), (want_place, want)) in found.iter().zip(expected) {
            assert_eq!(*place, want_place, "{message}");
            assert!(message.contains(want), "{message} lacks {want}");
        }
    }

    #[test]
    fn trials_are_automatic_unless_their_number_is_fixed() {
        let rest = "[[target]]\ndirectory = \"/tmp\"\n[[workload]]\nkind = \"compilebench\"\n";
        let read = |head: &str| Plan::parse(&format!("{head}{rest}"), &NAMES).unwrap();
        for (head, rule, trials, further_time_s) in [
            ("", Some((5, 30)), 20, Some(3600)),
            ("[plan]\nseed = 3\n", Some((5, 30)), 20, Some(3600)),
            ("[plan]\ntrials = \"auto\"\nresolution = \"2.5%\"\n", Some((5, 25)), 20, Some(3600)),
            ("[plan]\nmax_trials = 50\nmax_time = \"2h\"\n", Some((5, 30)), 50, None),
            ("[plan]\ntrials = 7\nmax_time = \"2h\"\n", None, 7, None),
            ("[plan]\ntrials = \"7\"\n", None, 7, None),
        ] {
            let plan = read(head);
            let found = plan.stop.map(|stop| (stop.min_trials, stop.resolution_permille));
            assert_eq!((found, plan.trials, plan.further_time_s), (rule, trials, further_time_s));
        }
    }

    #[test]
    fn what_is_wrong_with_the_number_of_trials_has_its_place() {
        for (head, place, words) in [
            ("trials = \"many\"", "\"many\"", "auto or a number"),
            ("trials = 2.5", "2.5", "auto or a number"),
            ("trials = [3]", "[3]", "auto or a number"),
            ("resolution = 3", "3", "expected a string"),
            ("resolution = \"3\"", "\"3\"", "such as 3% or 2.5%"),
            ("resolution = \"80%\"", "\"80%\"", "out of bounds"),
            ("max_trials = 0", "0", "from 1 to 10000"),
            ("trials = 5\nresolution = \"3%\"", "resolution", "trials = 5 fixes their number"),
            ("max_trials = 9\ntrials = 5", "max_trials", "leave one of the two out"),
            ("max_trails = 9", "max_trails", "did you mean `max_trials`"),
        ] {
            let text = format!("[plan]\n{head}\n");
            let wrong = Plan::parse(&text, &NAMES).unwrap_err();
            assert_eq!(wrong.len(), 1, "{head}: {wrong:?}");
            assert_eq!(&text[wrong[0].span.clone().unwrap()], place, "{head}");
            assert!(wrong[0].message.contains(words), "{head}: {}", wrong[0].message);
        }
    }

    #[test]
    fn an_empty_plan_says_what_is_missing() {
        let diagnostics = Plan::parse("", &NAMES).unwrap_err();
        assert_eq!(diagnostics.len(), 2);
        assert!(diagnostics.iter().all(|one| one.span.is_none()));
    }

    #[test]
    fn broken_toml_is_located() {
        let diagnostics = Plan::parse("[plan]\ntrials = \n[[target]\n", &NAMES).unwrap_err();
        assert!(diagnostics.len() >= 2, "{diagnostics:?}");
        assert!(diagnostics[0].span.is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(\\[plan\\]\n|\\[\\[target\\]\\]\n|[a-z]{1,6} ?= ?[\"0-9a-z\\[\\]{}.\\-]{0,8}\n|.{0,12}\n){0,8}") {
            let _ = Plan::parse(&text, &NAMES);
        }
    }
}
