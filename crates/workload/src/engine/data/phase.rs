//! Phases of a text and the groups that work in them.

use std::ops::Range;
use std::time::Duration;

use fsdyno_model::cold::Cold;
use fsdyno_model::metric;
use fsdyno_model::param::unknown;
use fsdyno_model::toml_reader::{Value, kind_of};

use super::agreement;
use super::fields::{Bounds, Fields, Reader};
use super::step::{Known, Located, absent};
use crate::engine::definition::{End, Engine, Group, Op, Phase, Step, Task};

const DEFAULT_METRIC: &str = "operations_per_s";
/// Most jobs of a group.
const MAX_JOBS: u64 = 4096;
const PHASE: [&str; 9] =
    ["name", "doc", "metric", "cold", "runtime", "tasks", "baseline", "sync", "group"];
const GROUP: [&str; 12] = [
    "name",
    "jobs",
    "background",
    "record_as",
    "rate",
    "arrivals",
    "think",
    "engine",
    "iodepth",
    "begin",
    "steps",
    "tasks",
];

/// What the list of phases shows of one: a phase or a group with a record of its own.
pub(super) struct PhaseDoc {
    pub(super) name: String,
    pub(super) doc: String,
}

/// The phases of a text.
#[derive(Default)]
pub(super) struct Phases {
    pub(super) phases: Vec<Phase>,
    /// One for each phase, then one for each record of a group.
    pub(super) docs: Vec<PhaseDoc>,
    records: Vec<PhaseDoc>,
}

/// A group with the places that the checks of a phase point at.
pub(super) struct LocatedGroup {
    pub(super) group: Group,
    pub(super) span: Range<usize>,
    pub(super) ops: Vec<Located>,
}

impl Reader<'_> {
    /// The phases of a text; `sync` is whether they end with syncfs where they do not say.
    pub(super) fn phases(&mut self, root: &Fields<'_>, known: &Known<'_>, sync: bool) -> Phases {
        let mut all = Phases::default();
        let Some(value) = self.required(root, "phase", "[[phase]] with at least one group") else {
            return all;
        };
        for at in self.toml.tables(value, "phase") {
            let fields = self.fields(at, "field of a phase", &PHASE);
            let phase = self.phase(&fields, known, sync, &mut all);
            all.phases.push(phase);
        }
        if all.phases.is_empty() && value.get_ref().as_array().is_some() {
            self.wrong(value.span(), "a workload has at least one phase");
        }
        let Phases { docs, records, .. } = &mut all;
        docs.append(records);
        all
    }

    fn phase(
        &mut self,
        fields: &Fields<'_>,
        known: &Known<'_>,
        sync: bool,
        all: &mut Phases,
    ) -> Phase {
        let name = self.required(fields, "name", "name = \"run\"");
        let name = name.and_then(|value| self.record_name(value, all)).unwrap_or_default();
        let doc = match self.required(fields, "doc", "doc = \"what it does\"") {
            Some(value) => self.line(value),
            None => String::new(),
        };
        all.docs.push(PhaseDoc { name: name.clone(), doc });
        let metric = fields.get("metric").and_then(|value| self.metric(value));
        let cold = fields.get("cold").and_then(|value| {
            let word = self.text(value)?;
            self.toml.keep(value.span(), Cold::parse(&word))
        });
        let end = End {
            runtime: fields.get("runtime").and_then(|value| self.duration(value)),
            tasks: fields.get("tasks").and_then(|value| self.count(value, 1, u64::MAX)),
        };
        let baseline = fields.get("baseline").and_then(|value| self.baseline(value, &all.phases));
        let sync = self.flag_or(fields, "sync", sync);
        let before = self.errors();
        let groups = self.groups(fields, known, all);
        if self.errors() == before && (end != End::default() || !has_end(fields)) {
            agreement::check(self, fields, known, end, &groups);
        }
        Phase {
            name,
            metric: metric.unwrap_or_else(|| DEFAULT_METRIC.to_owned()),
            cold: cold.filter(|cold| *cold != Cold::None),
            sync,
            end,
            baseline,
            groups: groups.into_iter().map(|one| one.group).collect(),
        }
    }

    /// A name of a record, which no other has.
    fn record_name(&mut self, value: &Value<'_>, all: &Phases) -> Option<String> {
        let name = self.name(value)?;
        let is_taken = all.docs.iter().chain(&all.records).any(|other| other.name == name);
        if is_taken || name == "fragmentation" {
            self.wrong(value.span(), format!("there is a record `{name}` already"));
        }
        Some(name)
    }

    fn metric(&mut self, value: &Value<'_>) -> Option<String> {
        let name = self.toml.text(value)?;
        if metric::find(&name).is_none() {
            let names: Vec<&str> = metric::ALL.iter().map(|metric| metric.name).collect();
            self.wrong(value.span(), unknown("metric", &name, &names));
        }
        Some(name)
    }

    fn baseline(&mut self, value: &Value<'_>, before: &[Phase]) -> Option<usize> {
        let name = self.toml.text(value)?;
        let index = before.iter().position(|phase| phase.name == name);
        if index.is_none() {
            let names: Vec<&str> = before.iter().map(|phase| phase.name.as_str()).collect();
            self.wrong(value.span(), absent("phase before this one", &name, &names));
        }
        index
    }

    fn groups(
        &mut self,
        fields: &Fields<'_>,
        known: &Known<'_>,
        all: &mut Phases,
    ) -> Vec<LocatedGroup> {
        let mut groups: Vec<LocatedGroup> = Vec::new();
        let example = "[[phase.group]] with the steps of its work";
        let Some(value) = self.required(fields, "group", example) else { return groups };
        for at in self.toml.tables(value, "phase.group") {
            let fields = self.fields(at, "field of a group", &GROUP);
            let group = self.group(&fields, known, all);
            if groups.iter().any(|other| other.group.name == group.group.name) {
                let message = format!("there is a group `{}` already", group.group.name);
                self.wrong(fields.span_of("name"), message);
            }
            groups.push(group);
        }
        groups
    }

    fn group(&mut self, fields: &Fields<'_>, known: &Known<'_>, all: &mut Phases) -> LocatedGroup {
        let name = self.required(fields, "name", "name = \"user\"");
        let name = name.and_then(|value| self.name(value)).unwrap_or_default();
        let jobs = fields.get("jobs").and_then(|value| self.count(value, 1, MAX_JOBS));
        let background = self.flag_or(fields, "background", false);
        let record_as = fields.get("record_as").and_then(|value| self.record_name(value, all));
        if let Some(record) = &record_as {
            let phase = all.docs.last().map_or("", |phase| phase.name.as_str());
            let doc = format!("what the group {name} did in the phase {phase}");
            all.records.push(PhaseDoc { name: record.clone(), doc });
        }
        let rate = fields.get("rate");
        let rate_per_s = rate.and_then(|value| self.number(value, Bounds::above(0.0, 1e7)));
        let even = fields.get("arrivals").is_some_and(|value| self.is_even(fields, value));
        let think = fields.get("think").and_then(|value| self.duration(value));
        if rate.is_some() && fields.has("think") {
            let message =
                "`think` is for groups without a rate, whose next task waits for the one before";
            self.wrong(fields.span_of("think"), message);
        }
        let engine = self.engine(fields);
        let mut ops = Vec::new();
        let begin = self.begin(fields, known, engine, &mut ops);
        let tasks = self.group_tasks(fields, known, &mut ops);
        let group = Group {
            name,
            jobs: jobs.map_or(1, |jobs| jobs as u32),
            background,
            record_as,
            rate_per_s,
            even,
            think: think.unwrap_or(Duration::ZERO),
            engine,
            begin,
            tasks,
        };
        LocatedGroup { group, span: fields.span.clone(), ops }
    }

    fn is_even(&mut self, fields: &Fields<'_>, value: &Value<'_>) -> bool {
        if !fields.has("rate") {
            let message = "`arrivals` are for groups with a rate: add rate = 100";
            self.wrong(fields.span_of("arrivals"), message);
        }
        let word = self.text(value);
        match word.as_deref() {
            Some("even") => return true,
            Some("poisson") | None => {}
            Some(other) => {
                self.wrong(value.span(), unknown("kind of arrivals", other, &["even", "poisson"]));
            }
        }
        false
    }

    fn engine(&mut self, fields: &Fields<'_>) -> Engine {
        let word = match fields.get("engine") {
            Some(value) => self.text(value).map(|word| (word, value.span())),
            None => Some(("psync".to_owned(), fields.span.clone())),
        };
        let Some((word, span)) = word else { return Engine::Psync };
        let iodepth = fields.get("iodepth").map(|value| self.count(value, 1, 4096));
        match word.as_str() {
            "psync" => {
                // A depth of 1 is what it does, so that one parameter can serve both engines.
                if iodepth.flatten().is_some_and(|depth| depth > 1) {
                    let message = "psync has one call under way: more need engine = \"io_uring\"";
                    self.wrong(fields.span_of("iodepth"), message);
                }
                Engine::Psync
            }
            "io_uring" => {
                let iodepth = iodepth.flatten().map_or(1, |depth| depth as u32);
                Engine::IoUring { iodepth }
            }
            other => {
                self.wrong(span, unknown("engine", other, &["psync", "io_uring"]));
                Engine::Psync
            }
        }
    }

    /// What each job does before the phase begins.
    fn begin(
        &mut self,
        fields: &Fields<'_>,
        known: &Known<'_>,
        engine: Engine,
        ops: &mut Vec<Located>,
    ) -> Vec<Step> {
        let Some(value) = fields.get("begin") else { return Vec::new() };
        if engine != Engine::Psync {
            let message = "`begin` is for engine = \"psync\", whose jobs keep their files open";
            self.wrong(fields.span_of("begin"), message);
        }
        let steps = self.steps(value, known, ops, 0);
        for (op, span) in ops.iter() {
            if matches!(op, Op::Wait { .. }) {
                let message = "nobody can post before the phase begins: this waits for ever";
                self.wrong(span.clone(), message);
            }
        }
        steps
    }

    fn group_tasks(
        &mut self,
        fields: &Fields<'_>,
        known: &Known<'_>,
        ops: &mut Vec<Located>,
    ) -> Vec<Task> {
        match (fields.get("steps"), fields.get("tasks")) {
            (Some(value), None) => {
                vec![Task { weight: 1.0, steps: self.steps(value, known, ops, 0) }]
            }
            (None, Some(value)) => self.weighted(value, known, ops),
            (Some(_), Some(_)) => {
                let message = "a group has either steps, or tasks with steps and weights";
                self.wrong(fields.span_of("tasks"), message);
                Vec::new()
            }
            (None, None) => {
                let message = "this group does nothing: add steps = [ … ]";
                self.wrong(fields.span.clone(), message);
                Vec::new()
            }
        }
    }

    fn weighted(
        &mut self,
        value: &Value<'_>,
        known: &Known<'_>,
        ops: &mut Vec<Located>,
    ) -> Vec<Task> {
        let items = value.get_ref().as_array().filter(|items| !items.is_empty());
        let Some(items) = items else {
            self.wrong(value.span(), "expected a list such as [{ weight = 3, steps = [ … ] }]");
            return Vec::new();
        };
        let mut tasks = Vec::new();
        for item in items.iter() {
            let Some(table) = item.get_ref().as_table() else {
                self.wrong(item.span(), format!("a task is a table, not {}", kind_of(item)));
                continue;
            };
            let fields = self.fields((item.span(), table), "field of a task", &["weight", "steps"]);
            let weight = match fields.get("weight") {
                Some(value) => self.number(value, Bounds::above(0.0, 1e12)),
                None => Some(1.0),
            };
            let steps = self.required(&fields, "steps", "steps = [ … ]");
            let steps = steps.map(|value| self.steps(value, known, ops, 0)).unwrap_or_default();
            tasks.push(Task { weight: weight.unwrap_or(1.0), steps });
        }
        tasks
    }
}

/// Whether the phase says when it ends, rightly or wrongly.
fn has_end(fields: &Fields<'_>) -> bool {
    fields.has("runtime") || fields.has("tasks")
}
