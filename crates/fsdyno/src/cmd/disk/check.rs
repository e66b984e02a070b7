//! `fsdyno disk check`: what a model states beside what probes find, first on the model alone, in its
//! own time, then through the emulator, where this machine can carry one.

use fsdyno_disk::Model;
use fsdyno_disk::figure;
use fsdyno_lab::emulator::check::{self, Checked, Overhead};
use fsdyno_model::units::significant;
use fsdyno_report::list;
use fsdyno_sys::{mount, process};

use crate::cmd::output;
use crate::run::progress::say;
use crate::{bad_input, disk_model, paths, run};

/// Share of the processors' time taken by others from which on it is told.
const NOTABLE_STOLEN: f64 = 0.02;

/// Room in memory that the file behind the emulated disk may take: it has holes wherever nothing is written.
const MEMORY_BYTES: u64 = 512 << 20;

/// Arguments of `fsdyno disk check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A model of `fsdyno disk list`, or a file
    #[arg(value_name = "MODEL")]
    model: String,

    /// The model alone: nothing is served, no root is needed
    #[arg(long)]
    offline: bool,

    /// Requests of each probe through the emulator
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(20..=100_000))]
    requests: u64,

    /// Directory for the file behind the emulated disk; default: in memory where there is room, so that the
    /// host's disk and page cache are not probed
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it; false where a probe through the emulator is not near the model.
    ///
    /// # Errors
    /// Bad input: no such model, one that is faster than the emulator.
    pub fn execute(self) -> anyhow::Result<bool> {
        let model = disk_model::find(&self.model).map_err(bad_input)?;
        let offline = offline(&model)?;
        let mut emulated = None;
        if !self.offline {
            if process::may_mount() {
                emulated = Some(self.emulated(&model)?);
            } else {
                say("the emulator needs root: only the model was probed");
            }
        }
        let rows = emulated.as_ref().map_or(&[][..], |(_, rows)| rows.as_slice());
        let is_near = emulated
            .as_ref()
            .is_none_or(|(overhead, rows)| rows.iter().all(|row| row.is_near(overhead)));
        if self.json {
            let overhead = emulated.as_ref().map(|(overhead, _)| overhead);
            output::print(&serde_json::to_string_pretty(&serde_json::json!({
                "model": super::list::about(&model),
                "figures": offline,
                "overhead": overhead,
                "probes": rows,
                "near": is_near,
            }))?)?;
            return Ok(is_near);
        }
        print_figures(&offline)?;
        if let Some((overhead, rows)) = &emulated {
            print_probes(overhead, rows)?;
        }
        Ok(is_near)
    }

    fn emulated(&self, model: &Model) -> anyhow::Result<(Overhead, Vec<Checked>)> {
        let in_memory = || mount::shared_memory(MEMORY_BYTES).map(|_| mount::SHARED_MEMORY.into());
        let parent = self.dir.clone().or_else(in_memory);
        let parent = parent.unwrap_or_else(paths::default_image_directory);
        run::enter_private_namespace();
        process::install_signal_handlers()?;
        let overhead = check::overhead(&parent).map_err(anyhow::Error::msg)?;
        check::fast_enough(model, &overhead).map_err(bad_input)?;
        let tell = |name: &str| say(&format!("probing through the emulator: {name}"));
        let rows = check::probes(&self.model, model, &overhead, &parent, self.requests, &tell);
        Ok((overhead, rows.map_err(anyhow::Error::msg)?))
    }
}

/// One figure: what is stated and what was found.
#[derive(Debug, serde::Serialize)]
struct Row {
    figure: &'static str,
    stated: Option<f64>,
    found: f64,
}

fn offline(model: &Model) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    // A disk that takes no time has no figures.
    let figures = if model.kind.name() == "ram" { &[][..] } else { figure::ALL };
    for figure in figures {
        let stated = model.stated.iter().find(|it| it.name == figure.name).map(|it| it.value);
        let found = (figure.find)(model).map_err(anyhow::Error::msg)?;
        rows.push(Row { figure: figure.name, stated, found });
    }
    Ok(rows)
}

fn print_figures(rows: &[Row]) -> anyhow::Result<()> {
    let cells = |row: &Row| {
        let number =
            |value: f64| if value.is_finite() { significant(value) } else { "-".to_owned() };
        vec![
            row.figure.to_owned(),
            row.stated.map_or_else(|| "-".to_owned(), number),
            number(row.found),
            row.stated.map_or_else(String::new, |stated| {
                format!("{:+.1} %", (row.found / stated - 1.0) * 100.0)
            }),
        ]
    };
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let head = ["FIGURE", "STATED", "MODEL", "DIFFERENCE"];
    output::print(&list::columns(&head, &cells, output::table_options().width))
}

fn print_probes(overhead: &Overhead, rows: &[Checked]) -> anyhow::Result<()> {
    let ms = |ns: f64| significant(ns / 1e6);
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:+.1} %", share * 100.0))
    };
    let cells = |row: &Checked| {
        vec![
            row.name.clone(),
            ms(row.model_mean_ns),
            ms(row.mean_ns),
            percent(row.mean_error()),
            ms(row.model_p99_ns),
            ms(row.p99_ns),
            percent(row.p99_error()),
            row.late.to_string(),
        ]
    };
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let head = ["PROBE", "MODEL ms", "MEAN ms", "ERROR", "MODEL p99", "P99 ms", "ERROR", "LATE"];
    output::print("")?;
    output::print(&list::columns(&head, &cells, output::table_options().width))?;
    output::print(&format!(
        "\nthe emulator itself takes {:.1} µs for each request here, and carries {:.0} a second",
        overhead.request_ns / 1e3,
        overhead.iops
    ))?;
    let stolen = rows.iter().filter_map(|row| row.stolen).reduce(f64::max).unwrap_or(0.0);
    if stolen < NOTABLE_STOLEN {
        return Ok(());
    }
    output::print(&format!(
        "other guests of this host took up to {:.0} % of the processors' time: what came late is theirs, not the \
         emulator's",
        stolen * 100.0
    ))
}
