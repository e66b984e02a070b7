//! `fsdyno disk fit`: a model of a disk that is there, by what it answers.

use std::io::Write as _;
use std::path::PathBuf;

use fsdyno_disk::Disk;
use fsdyno_disk::fit::{self, Amount, Figures, Fitted, Head, Source as _};
use fsdyno_lab::disk_probe::AskedDisk;
use fsdyno_model::units::{human_bytes, significant};
use fsdyno_report::list;
use fsdyno_sys::{clock, fuse, kernel, process};

use crate::bad_input;
use crate::cmd::output;
use crate::run::progress::say;

/// Arguments of `fsdyno disk fit`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A block device, or a file whose bytes are all on its disk
    #[arg(value_name = "DEVICE|FILE")]
    device: PathBuf,

    /// Write to it too, which overwrites what is on it; only a block device that holds nothing is written to
    #[arg(long)]
    write: bool,

    /// Random reads of each kind: more take longer and tell more
    #[arg(long, short = 'n', value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    requests: u32,

    /// Write the model to this file, which must not exist yet, and print the table
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Places come from this number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Reads only, unless --write is given. Leave the disk and the machine alone meanwhile.

  fsdyno disk fit /dev/sdb -o mine.toml
  fsdyno disk check mine.toml
  fsdyno compare ext4@disk:./mine.toml:8GiB xfs@disk:./mine.toml:8GiB

docs/DISKS.md says what is measured and what is assumed.";

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: a device that cannot be measured; a request that failed; a file that cannot be written.
    pub fn execute(self) -> anyhow::Result<bool> {
        if let Some(path) = self.output.as_ref().filter(|path| path.exists()) {
            return Err(bad_input(format!("{} exists: name another file", path.display())));
        }
        process::install_signal_handlers()?;
        let mut disk = AskedDisk::open(&self.device, self.write).map_err(bad_input)?;
        // What came late says nothing of the disk: before other processes it comes less late.
        fuse::prepare_server();
        let amount = Amount { requests: self.requests, writes: self.write, seed: self.seed };
        let mut tell = |what: &str| {
            if !self.quiet {
                say(&format!("{}: {what}", self.device.display()));
            }
        };
        let measured = fit::measure(&mut disk, amount, &mut tell).map_err(anyhow::Error::msg)?;
        let (rotational, queue_depth) = disk.known();
        if let Some(words) = doubt(rotational, &measured) {
            say(&format!("fsdyno: {words}"));
        }
        let title = self.title(&disk);
        let source = self.source();
        let head = Head { title: &title, source: &source, queue_depth };
        let fitted = fit::model(&measured, head).map_err(anyhow::Error::msg)?;
        let modelled = modelled(&fitted, amount).map_err(anyhow::Error::msg)?;
        self.tell(&fitted, &measured, &modelled)?;
        Ok(true)
    }

    fn title(&self, disk: &AskedDisk) -> String {
        let name = disk.name().unwrap_or_else(|| self.device.display().to_string());
        format!("{name}, {}, as measured", human_bytes(disk.size_bytes()))
    }

    fn source(&self) -> String {
        let when = output::rfc3339(clock::wall_ns());
        format!(
            "measured by fsdyno disk fit {} on {} (Linux {}), {} requests of each kind{}",
            self.device.display(),
            when.get(..10).unwrap_or(&when),
            kernel::facts().release,
            self.requests,
            if self.write { "" } else { ", reading only" }
        )
    }

    fn tell(&self, fitted: &Fitted, measured: &Figures, modelled: &Figures) -> anyhow::Result<()> {
        let text = fitted.annotated(measured, modelled);
        if let Some(path) = &self.output {
            let failed = |error| bad_input(format!("cannot write {}: {error}", path.display()));
            let file = std::fs::File::create_new(path);
            file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
        }
        let rows = || measured.rows().into_iter().zip(modelled.rows());
        if self.json {
            let row = |((name, unit, found), (_, _, of_model)): (_, (String, &str, f64))| {
                let (name, unit, found): (String, &str, f64) = (name, unit, found);
                serde_json::json!({ "name": name, "unit": unit, "measured": found, "model": of_model })
            };
            return output::print(&serde_json::to_string_pretty(&serde_json::json!({
                "size_bytes": measured.size_bytes,
                "kind": fitted.model.kind.name(),
                "turn_ns": measured.turn_ns,
                "turn_share": measured.turn_share,
                "figures": rows().map(row).collect::<Vec<_>>(),
                "model": text,
            }))?);
        }
        if self.output.is_none() {
            return output::print(&text);
        }
        let cells = rows().map(|((name, unit, found), (_, _, of_model))| {
            let off = format!("{:+.1} %", (of_model / found - 1.0) * 100.0);
            vec![name, significant(found), significant(of_model), unit.to_owned(), off]
        });
        let cells: Vec<Vec<String>> = cells.collect();
        let head = ["PROBE", "MEASURED", "MODEL", "UNIT", "DIFFERENCE"];
        output::print(&list::columns(&head, &cells, output::table_options().width))
    }
}

/// The same requests, made to the model.
fn modelled(fitted: &Fitted, amount: Amount) -> Result<Figures, String> {
    let model = &fitted.model;
    let mut disk = Disk::new(model, model.capacity_bytes, amount.seed)?;
    fit::measure(&mut disk, amount, &mut |_| {})
}

/// What to say where the kernel takes the disk for another kind than its times do.
fn doubt(rotational: Option<bool>, measured: &Figures) -> Option<&'static str> {
    match (rotational, measured.turn_ns.is_some()) {
        (Some(true), false) => Some(
            "the kernel takes it for a disk that rotates, but nothing in its times turns: the model is of a \
             volume",
        ),
        (Some(false), true) => Some(
            "the kernel takes it for a disk without moving parts, but its times turn: the model rotates",
        ),
        _ => None,
    }
}
