//! Published figures beside those of a run, as text, as markdown and for the page. What they amount to is
//! said by the analysis. And the list of publications that can be repeated.

use fsdyno_model::plan::Plan;
use fsdyno_model::published::{Machine, Published, WHOLE};
use fsdyno_model::then_and_now::{Cell, Pair, ThenAndNow};
use fsdyno_model::units;
use serde_json::json;

use crate::list::{self, ListFormat};
use crate::markdown::escape;
use crate::text;

/// A head, and rows of as many cells.
pub(crate) struct Rows {
    pub caption: &'static str,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// What was published, on what, and how it was repeated.
pub(crate) fn lead(it: &ThenAndNow) -> String {
    let then = format!(
        "{}. Then: Linux {}, {}. Repeated at scale {}.",
        it.source.trim_end_matches('.'),
        it.kernel,
        it.hardware,
        it.scale
    );
    std::iter::once(then).chain(it.setting.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// Every published row that was done again: a column for each target.
pub(crate) fn figures(it: &ThenAndNow) -> Rows {
    let mut labels: Vec<&str> = Vec::new();
    for cell in it.rows.iter().filter(|row| row.phase.is_some()).flat_map(|row| &row.cells) {
        if !labels.contains(&cell.target.as_str()) {
            labels.push(&cell.target);
        }
    }
    let several = has_several_workloads(it);
    let head = ["operation", "unit"].into_iter().chain(labels.iter().copied());
    let rows = it.rows.iter().filter(|row| row.phase.is_some()).map(|row| {
        let name = name(row.workload.as_deref(), &row.operation, several);
        let of = |label: &&str| {
            let cell = row.cells.iter().find(|cell| cell.target == **label);
            cell.map_or_else(|| "–".to_owned(), |cell| words(cell, &row.unit))
        };
        [name, row.unit.clone()].into_iter().chain(labels.iter().map(of)).collect()
    });
    Rows {
        caption: "published → measured (how many times as fast)",
        head: head.map(str::to_owned).collect(),
        rows: rows.collect(),
    }
}

/// The same, a line for each target.
fn lines(it: &ThenAndNow) -> Rows {
    let several = has_several_workloads(it);
    let rows = it.rows.iter().filter(|row| row.phase.is_some()).flat_map(|row| {
        let name = name(row.workload.as_deref(), &row.operation, several);
        row.cells.iter().map(move |cell| {
            vec![name.clone(), row.unit.clone(), cell.target.clone(), words(cell, &row.unit)]
        })
    });
    Rows {
        caption: "published → measured (how many times as fast)",
        head: ["operation", "unit", "target", "then → now"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// Every pair of targets of every row.
pub(crate) fn pairs(it: &ThenAndNow) -> Rows {
    let several = has_several_workloads(it);
    let rows = it.pairs.iter().map(|pair| {
        let Pair { operation, workload, a, b, then, .. } = pair;
        let order = match pair.agrees() {
            Some(true) => "same",
            Some(false) => "other",
            None => "open",
        };
        let name = name(Some(workload), operation, several);
        let then = if is_rank(it, pair) { rank_words(*then) } else { format!("{then:.2}") };
        vec![format!("{a}/{b}"), name, then, pair.now_text(), order.to_owned()]
    });
    Rows {
        caption: "every pair: how many times as fast the first was as the second",
        head: ["pair", "operation", "then", "now", "order"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn rank_words(then: f64) -> String {
    let words = match then {
        then if then > 1.0 => "ahead",
        then if then < 1.0 => "behind",
        _ => "equal",
    };
    words.to_owned()
}

fn is_rank(it: &ThenAndNow, pair: &Pair) -> bool {
    let mut own = it.rows.iter().filter(|row| row.operation == pair.operation);
    own.any(|row| row.unit == "rank")
}

/// What was not done again, and what differs: a sentence each.
pub(crate) fn remarks(it: &ThenAndNow) -> Vec<String> {
    let missing = it.rows.iter().filter_map(|row| {
        let printed: Vec<String> =
            row.cells.iter().map(|cell| format!("{} {}", cell.target, cell.published)).collect();
        let why = row.missing.as_ref()?;
        Some(format!("Not repeated: {} ({}): {why}.", row.operation, printed.join(", ")))
    });
    unmeasured(it).into_iter().chain(it.differences.iter().cloned()).chain(missing).collect()
}

/// What has no figure now, and why: a sentence for each target of each workload.
fn unmeasured(it: &ThenAndNow) -> Vec<String> {
    let several = has_several_workloads(it);
    let mut told: Vec<(String, String, Vec<&str>)> = Vec::new();
    for row in &it.rows {
        for cell in &row.cells {
            let Some(why) = &cell.not_measured else { continue };
            let who = name(row.workload.as_deref(), &cell.target, several);
            match told.iter_mut().find(|(known, reason, _)| *known == who && reason == why) {
                Some((_, _, operations)) => operations.push(&row.operation),
                None => told.push((who, why.clone(), vec![&row.operation])),
            }
        }
    }
    let sentence = |(who, why, operations): &(String, String, Vec<&str>)| {
        format!("N/A: {who} ({}): {}.", operations.join(", "), why.trim_end_matches('.'))
    };
    told.iter().map(sentence).collect()
}

/// What the pairs say.
pub(crate) fn findings(it: &ThenAndNow) -> Vec<String> {
    let tau = it.tau.map(|tau| format!("Agreement of the orders, Kendall's τ: {tau:.2}."));
    it.words.iter().cloned().chain(tau).collect()
}

fn has_several_workloads(it: &ThenAndNow) -> bool {
    let mut own = it.rows.iter().filter_map(|row| row.workload.as_deref());
    let first = own.next();
    own.any(|workload| Some(workload) != first)
}

fn name(workload: Option<&str>, operation: &str, several: bool) -> String {
    match workload.filter(|_| several) {
        Some(workload) => format!("{workload}: {operation}"),
        None => operation.to_owned(),
    }
}

/// `28.77 → 113 (3.9)`, `4 → 2` of ranks; `3m27s → N/A` where a trial did not come to it.
fn words(cell: &Cell, unit: &str) -> String {
    let none = if cell.not_measured.is_some() { "N/A" } else { "–" };
    let number =
        |value: f64| if unit == "rank" { format!("{value}") } else { units::significant(value) };
    let now = cell.measured.map_or_else(|| none.to_owned(), number);
    let ratio =
        cell.ratio.map_or(String::new(), |ratio| format!(" ({})", units::significant(ratio)));
    format!("{} → {now}{ratio}", cell.published)
}

/// The section for a terminal of `width` columns.
#[must_use]
pub fn section(it: &ThenAndNow, width: usize, unicode: bool) -> String {
    let mut text = format!("Then and now\n\n{}\n", text::wrap(&lead(it), width, ""));
    let wide = figures(it);
    let widest = |column: usize| {
        let cells = std::iter::once(&wide.head).chain(&wide.rows);
        cells.map(|row| text::width(&row[column])).max().unwrap_or(0) + 2
    };
    let needed: usize = (0..wide.head.len()).map(widest).sum();
    let rows = if needed <= width + 2 { wide } else { lines(it) };
    if !rows.rows.is_empty() {
        let head: Vec<&str> = rows.head.iter().map(String::as_str).collect();
        text.push_str(&format!("\n{}\n", list::columns(&head, &rows.rows, width)));
        text.push_str(&format!("{}: {}.\n", "Cells", rows.caption));
    }
    for sentence in findings(it).iter().chain(&remarks(it)) {
        text.push_str(&text::wrap(&format!("- {sentence}"), width, "  "));
        text.push('\n');
    }
    text::plain(&text, unicode)
}

/// The section as markdown.
#[must_use]
pub fn markdown(it: &ThenAndNow) -> String {
    let mut page = format!("## Then and now\n\n{}\n", escape(&lead(it)));
    page.push_str(&tables(it));
    page.push('\n');
    page.extend(
        findings(it).iter().chain(&remarks(it)).map(|sentence| format!("- {}\n", escape(sentence))),
    );
    page
}

/// Figures and pairs as markdown with `pictures` before them; what is to be said of them is left out.
pub(crate) fn figures_markdown(it: &ThenAndNow, pictures: &str) -> String {
    format!("## Then and now\n\n{pictures}{}", tables(it))
}

fn tables(it: &ThenAndNow) -> String {
    let mut page = String::new();
    for rows in [figures(it), pairs(it)].into_iter().filter(|rows| !rows.rows.is_empty()) {
        page.push_str(&format!("\n{}:\n\n", escape(rows.caption)));
        for (index, row) in std::iter::once(&rows.head).chain(&rows.rows).enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
            page.push_str(&format!("| {} |\n", cells.join(" | ")));
            if index == 0 {
                page.push_str(&format!("|{}\n", "---|".repeat(row.len())));
            }
        }
    }
    page
}

/// A published comparison with its plan at one scale.
pub struct PlanEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// What was published.
    pub published: &'a Published,
}

/// The publications that can be repeated; as markdown with every figure and the phase that repeats it.
#[must_use]
pub fn plans(entries: &[PlanEntry<'_>], format: ListFormat) -> String {
    let title = |it: &PlanEntry<'_>| it.plan.title.clone().unwrap_or_default();
    match format {
        ListFormat::Json => list::pretty(&entries.iter().map(plan_json).collect()),
        ListFormat::Text { width } => {
            let row = |it: &PlanEntry<'_>| vec![it.name.to_owned(), title(it)];
            let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
            list::columns(&["PLAN", "WHAT"], &rows, width)
        }
        ListFormat::Markdown => {
            let cells = entries.iter().flat_map(|it| &it.published.figures);
            let count = cells.map(|figure| figure.cells.len()).sum::<usize>();
            let mut page = format!(
                "# Published comparisons\n\nEach is run again by `fsdyno run --published NAME`, at three scales. \
                 Of their {count} figures each has below the phase that repeats it, or why there is none.\n"
            );
            page.extend(entries.iter().map(|it| plan_markdown(it, &title(it))));
            page
        }
    }
}

fn plan_json(it: &PlanEntry<'_>) -> serde_json::Value {
    json!({
        "name": it.name,
        "title": it.plan.title,
        "targets": it.plan.targets.iter().map(|target| &target.label).collect::<Vec<_>>(),
        "workloads": it.plan.workloads.iter().map(|workload| &workload.label).collect::<Vec<_>>(),
        "published": it.published,
    })
}

/// `Machine: disk hdd-7200-2007; 16.0 GiB of data for 8.00 GiB of memory.`
fn machine_markdown(machine: &Machine) -> String {
    let mib = |count: u64| units::human_bytes(count << 20);
    let name = if machine.name.is_empty() { "the machine" } else { &machine.name };
    let journal = machine.journal_disk.as_ref();
    let journal = journal.map_or(String::new(), |disk| format!(", of journals {disk}"));
    let assumed = machine.memory_assumed.as_ref();
    let assumed = assumed.map_or(String::new(), |why| format!(" ({})", escape(why)));
    format!(
        "- In virtual time {name} has the disk {}{journal}; {} of data for {} of memory{assumed}.\n",
        machine.disk,
        mib(machine.data_mib),
        mib(machine.memory_mib)
    )
}

fn plan_markdown(it: &PlanEntry<'_>, title: &str) -> String {
    let Published { source, kernel, hardware, differences, missed, figures, .. } = it.published;
    let mut page = format!(
        "\n## {}\n\n{title}. {}. Linux {}, {}.\n\n",
        it.name,
        escape(source.trim_end_matches('.')),
        escape(kernel),
        escape(hardware)
    );
    page.extend(it.published.machines.iter().map(machine_markdown));
    page.extend(differences.iter().map(|difference| format!("- {}\n", escape(difference))));
    page.push_str("\n| operation | repeated by | unit | published |\n|---|---|---|---|\n");
    for figure in figures {
        let by = match (&figure.phase, &figure.missing) {
            (Some(phase), _) => {
                let workload = figure.workload.as_deref();
                let workload = workload.or_else(|| Some(it.plan.workloads.first()?.label.as_str()));
                let metric = figure.metric.as_ref();
                let metric = metric.map_or_else(String::new, |name| format!(": {name}"));
                let phase = match phase.as_str() {
                    WHOLE => "all phases".to_owned(),
                    phase => format!("phase {phase}"),
                };
                format!("{}, {phase}{metric}", workload.unwrap_or_default())
            }
            (None, missing) => format!("not repeated: {}", missing.as_deref().unwrap_or_default()),
        };
        let cells: Vec<String> =
            figure.cells.iter().map(|(target, text)| format!("{target} {text}")).collect();
        let cells = [&figure.operation, &by, &figure.unit, &cells.join(", ")].map(|it| escape(it));
        page.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    if !missed.is_empty() {
        page.push_str("\nWhat its author missed or left open:\n\n");
        page.extend(missed.iter().map(|it| format!("- {}\n", escape(it))));
    }
    page
}
