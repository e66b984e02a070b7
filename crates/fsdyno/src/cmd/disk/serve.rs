//! `fsdyno disk serve`: a file as a disk, until it is interrupted or unmounted.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fsdyno_disk::Model;
use fsdyno_lab::emulator::faults::Faults;
use fsdyno_lab::emulator::server::{self, Report, Service};
use fsdyno_lab::emulator::store::Store;
use fsdyno_lab::emulator::write_log::LogWriter;
use fsdyno_lab::emulator::{FILE_NAME, READY, mount_source};
use fsdyno_model::units;
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::{mount, process};

use crate::cmd::output;
use crate::run::progress::say;
use crate::{bad_input, disk_model};

/// Arguments of `fsdyno disk serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A model of `fsdyno disk list`, or a file
    #[arg(value_name = "MODEL")]
    model: String,

    /// The file with the contents; it is made where it does not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The directory to mount on; the disk is the file `disk` in it, under a loop device
    #[arg(long, value_name = "DIR")]
    mount: PathBuf,

    /// Size of a file that is made, such as 8GiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    size: Option<u64>,

    /// Keep what is not flushed apart, as a volatile write cache does: killing the server (kill -9) is a
    /// power cut and loses it
    #[arg(long)]
    volatile: bool,

    /// Write down every write, flush and discard in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,

    /// Spoil the requests that the rules in this file are about; it may be replaced meanwhile
    #[arg(long, value_name = "FILE", hide = true)]
    faults: Option<PathBuf>,

    /// What a model draws comes from this number
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Nanoseconds that the way through the kernel takes; answers leave so much earlier
    #[arg(long, default_value_t = 0, hide = true)]
    lead_ns: u64,

    /// Serve for a run: no loop device, and an account for programs at the end
    #[arg(long, hide = true)]
    for_parent: bool,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: no such model, a size that it does not have; those of mounting and of the file.
    pub fn execute(self) -> anyhow::Result<bool> {
        let model = disk_model::find(&self.model).map_err(bad_input)?;
        let file = self.open(&model)?;
        let size_bytes = file.metadata().context("cannot look at the file")?.len() / 512 * 512;
        // What is served must be readable to its own loop device from the first moment on.
        let source = mount_source();
        let volatile_bytes = if self.volatile { model.volatile_bytes().max(1 << 20) } else { 0 };
        let service = Service {
            model: &model,
            store: Store::new(file, volatile_bytes),
            size_bytes,
            directory: &self.mount,
            name: FILE_NAME,
            source: &source,
            seed: self.seed,
            lead_ns: self.lead_ns,
            log: self.log.as_deref().map(log_in).transpose()?,
            faults: self.faults.as_deref().map(Faults::new),
        };
        if self.for_parent {
            let report =
                server::serve(service, &mut || say_line(READY)).map_err(anyhow::Error::msg)?;
            say_line(&serde_json::to_string(&report)?);
            return Ok(true);
        }
        process::install_signal_handlers()?;
        let attending = self.attend(&model, size_bytes);
        let report =
            server::serve(service, &mut attending.into_beat()).map_err(anyhow::Error::msg)?;
        tell(&report);
        Ok(true)
    }

    fn open(&self, model: &Model) -> anyhow::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let shown = self.file.display();
        if self.file.exists() {
            if self.size.is_some() {
                return Err(bad_input(format!(
                    "{shown} exists: --size is for a file that is made"
                )));
            }
        } else {
            let Some(size) = self.size else {
                return Err(bad_input(format!("{shown} does not exist: give --size to make it")));
            };
            if size > model.capacity_bytes {
                let capacity = units::exact_bytes(model.capacity_bytes);
                return Err(bad_input(format!("{} holds {capacity}, not more", model.name)));
            }
            options.create_new(true);
        }
        let file = options.open(&self.file).with_context(|| format!("cannot open {shown}"))?;
        if let Some(size) = self.size {
            file.set_len(size).with_context(|| format!("cannot make {shown} that large"))?;
        }
        Ok(file)
    }

    fn attend(&self, model: &Model, size_bytes: u64) -> Attending {
        let what = format!("{} of {}", model.name, units::human_bytes(size_bytes));
        Attending { what, directory: self.mount.clone() }
    }
}

/// What is done beside serving: once it is mounted a loop device is attached, and at an interruption
/// everything is taken down, both by threads of their own, because both wait for the server.
struct Attending {
    what: String,
    directory: PathBuf,
}

impl Attending {
    fn into_beat(self) -> impl FnMut() {
        let mut device: Option<std::thread::JoinHandle<Option<LoopDevice>>> = None;
        let mut is_ending = false;
        move || {
            if device.is_none() && !is_ending {
                let (file, what) = (self.directory.join(FILE_NAME), self.what.clone());
                device = Some(std::thread::spawn(move || attach(&file, &what)));
            }
            if process::interrupted() && !is_ending {
                is_ending = true;
                let (device, directory) = (device.take(), self.directory.clone());
                std::thread::spawn(move || {
                    let device = device.and_then(|it| it.join().ok()).flatten();
                    if let Some(Err(error)) = device.map(LoopDevice::detach) {
                        say(&format!("fsdyno: {error}"));
                    }
                    let unmounted = mount::unmount(&directory)
                        .or_else(|error| mount::unmount_lazy(&directory).map_err(|_| error));
                    if let Err(error) = unmounted {
                        say(&format!("fsdyno: {error}"));
                    }
                });
            }
        }
    }
}

fn attach(file: &Path, what: &str) -> Option<LoopDevice> {
    let options = LoopOptions { block_size: Some(512), ..LoopOptions::default() };
    match LoopDevice::attach(file, options) {
        Ok(device) => {
            say_line(&format!("{} is a {what}; Ctrl-C takes it down", device.path().display()));
            Some(device)
        }
        Err(error) => {
            say(&format!("fsdyno: {error}"));
            None
        }
    }
}

fn log_in(directory: &Path) -> anyhow::Result<LogWriter> {
    LogWriter::create(directory)
        .map_err(|error| bad_input(format!("--log {}: {error}", directory.display())))
}

fn say_line(line: &str) {
    // Whoever listened may be gone; the disk is still to be served.
    let _ = output::print(line);
}

fn tell(report: &Report) {
    say(&format!(
        "answered {} requests, {} of them late; mean time by the model {:.3} ms",
        report.requests,
        report.late,
        report.modelled_ns as f64 / 1e6 / report.requests.max(1) as f64
    ));
}
