//! The report as one HTML file that needs nothing else: no network, no other file. Text and tables are
//! made here from templates; charts are drawn in the browser by the scripts in `assets/page` and by
//! uPlot. Figures are all in [`ReportData`]: nothing is computed here but what drawing needs.
//!
//! | module | makes |
//! |---|---|
//! | `view` | words and tables |
//! | `audit` | whether the targets were measured under the same conditions |
//! | `exact` | "what exactly was run" |
//! | `chart` | what the charts of workloads draw |
//! | `timeline`, `heat` | what I/O graphs draw |
//! | `pack` | numbers as compact text |

mod audit;
pub(crate) mod chart;
mod exact;
mod figures;
mod heat;
mod pack;
mod then_and_now;
mod timeline;
mod view;

pub(crate) use chart::group_title;

use askama::Template;
use fsdyno_model::report_data::{ReportData, TrialTimeline};
use serde_json::{Value, json};

use crate::note;
use crate::text;
use audit::AuditView;
use exact::Exact;
use then_and_now::ThenAndNowView;
use view::{GraphView, Table, WorkloadView};

/// Style sheet and scripts, in the order in which they are run.
const STYLE: &str = concat!(
    include_str!("../../assets/uplot/uPlot.min.css"),
    include_str!("../../assets/page/page.css")
);
const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_LICENSE: &str = include_str!("../../assets/uplot/LICENSE");
const SCRIPTS: [&str; 8] = [
    include_str!("../../assets/page/data.js"),
    include_str!("../../assets/page/format.js"),
    include_str!("../../assets/page/theme.js"),
    include_str!("../../assets/page/chart.js"),
    include_str!("../../assets/page/heat.js"),
    include_str!("../../assets/page/graph.js"),
    include_str!("../../assets/page/movie.js"),
    include_str!("../../assets/page/main.js"),
];

/// What every page has.
struct Frame {
    title: String,
    style: &'static str,
    uplot: &'static str,
    uplot_license: &'static str,
    scripts: String,
    data: String,
}

impl Frame {
    fn new(title: String, manifest: &Value) -> Frame {
        Frame {
            title,
            style: STYLE,
            uplot: UPLOT,
            uplot_license: UPLOT_LICENSE,
            scripts: SCRIPTS.join("\n"),
            // No text in it can end the element that holds it.
            data: manifest.to_string().replace('<', "\\u003c"),
        }
    }
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    frame: Frame,
    eyebrow: String,
    question: String,
    verdicts: Vec<(String, String)>,
    power_cuts: Option<String>,
    headline: String,
    first: String,
    targets: Vec<String>,
    top: Option<Table>,
    top_hint: String,
    workloads: Vec<WorkloadView>,
    then_and_now: Option<ThenAndNowView>,
    audits: Vec<AuditView>,
    checklist: Table,
    exact: Exact,
}

#[derive(Template)]
#[template(path = "trace.html")]
struct TracePage {
    frame: Frame,
    title: String,
    graphs: Vec<GraphView>,
}

/// The report of a run.
#[must_use]
pub fn run_page(data: &ReportData) -> String {
    let result = &data.result;
    let question = view::question(result);
    let several = result.workloads.len() > 1;
    let top_rows = |phases: bool| {
        let rows = result.workloads.iter().flat_map(|spec| {
            let name = if several { spec.label.as_str() } else { "all phases" };
            chart::ratio_rows(data, &spec.label, name, phases)
        });
        rows.collect::<Vec<_>>()
    };
    let full = top_rows(true);
    let is_full = full.len() <= chart::TOP_ROWS || !several;
    let top = if is_full { full } else { top_rows(false) };
    let workloads = view::workloads(data, is_full);
    let charts: Vec<Value> =
        workloads.iter().map(|it| chart_manifest(data, &it.label, is_full)).collect();
    let manifest = json!({
        "targets": result.targets.iter().map(|it| &it.label).collect::<Vec<_>>(),
        "top": chart::ratios(&top),
        "groups": chart::CPU_GROUPS,
        "workloads": charts,
        "timelines": timeline::manifest(&data.timelines),
    });
    let verdicts = note::verdicts(result).into_iter();
    let page = RunPage {
        frame: Frame::new(question.clone(), &manifest),
        eyebrow: result
            .run
            .title
            .clone()
            .unwrap_or_else(|| "Filesystem benchmark report".to_owned()),
        question,
        verdicts: verdicts.collect(),
        power_cuts: note::power_cuts(result),
        headline: note::headline(result).replace(text::NO_BREAK, " "),
        first: result.targets.first().map_or_else(String::new, |it| it.label.clone()),
        targets: result.targets.iter().map(|it| it.label.clone()).collect(),
        top_hint: view::ratio_hint(result, &top),
        top: (!top.is_empty()).then(|| view::ratio_table(result, &top)),
        workloads,
        then_and_now: result.then_and_now.as_ref().map(then_and_now::view),
        audits: audit::audits(result),
        checklist: audit::checklist(result),
        exact: exact::exact(result),
    };
    page.render().expect("writing to a string does not fail")
}

fn chart_manifest(data: &ReportData, label: &str, is_full: bool) -> Value {
    let mut manifest = chart::workload(data, label);
    if !is_full {
        manifest["ratios"] = chart::ratios(&chart::ratio_rows(data, label, "all phases", true));
    }
    manifest
}

/// The same graphs of any traces, without a run.
#[must_use]
pub fn trace_page(title: &str, timelines: &[TrialTimeline]) -> String {
    let graphs: Vec<GraphView> =
        timelines.iter().enumerate().map(|(index, it)| view::graph(index, it)).collect();
    let manifest = json!({
        "targets": graphs.iter().map(|it| &it.target).collect::<Vec<_>>(),
        "top": [],
        "groups": chart::CPU_GROUPS,
        "workloads": [],
        "timelines": timeline::manifest(timelines),
    });
    let frame = Frame::new(title.to_owned(), &manifest);
    let page = TracePage { frame, title: title.to_owned(), graphs };
    page.render().expect("writing to a string does not fail")
}

#[cfg(test)]
mod tests;
