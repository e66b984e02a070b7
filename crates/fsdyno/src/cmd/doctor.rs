//! `fsdyno doctor`: what this machine can do, and what would mend each gap; how noisy it is.

mod noise;

use std::path::{Path, PathBuf};

use fsdyno_guest::{accelerator, kernel, qemu, uml};
use fsdyno_lab::doctor::{self, Check, Status};
use fsdyno_lab::emulator::check;
use fsdyno_lab::filesystem::{self, FilesystemDef};
use fsdyno_sys::process;

use super::output;
use crate::{paths, run};

/// Arguments of `fsdyno doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filesystems that are to be measured: what they lack is an error, what others lack a warning
    #[arg(value_name = "FILESYSTEM", conflicts_with = "noise", value_parser = known)]
    filesystems: Vec<&'static FilesystemDef>,

    /// Directory of the images [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Measure instead how noisy this machine is, and how many trials a difference of 1, 3 and 10 % will
    /// need; about half a minute
    #[arg(long)]
    noise: bool,

    /// With --noise: a first impression, in seconds
    #[arg(long, hide = true, requires = "noise")]
    quick: bool,

    /// With --noise: no progress
    #[arg(long, short, requires = "noise")]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn known(name: &str) -> Result<&'static FilesystemDef, String> {
    let found = filesystem::by_name(name);
    found.ok_or_else(|| "no filesystem of the catalogue: fsdyno list filesystems".to_owned())
}

impl Args {
    /// Does it; false when something is missing.
    ///
    /// # Errors
    /// Those of the output; a directory in which no noise can be measured.
    pub fn execute(self) -> anyhow::Result<bool> {
        let directory = self.dir.clone().unwrap_or_else(paths::default_image_directory);
        if self.noise {
            return self.measure_noise(&directory);
        }
        let mut checks = doctor::checks(&directory, &self.filesystems);
        checks.push(block_traces());
        checks.push(guests());
        checks.push(user_mode_linux());
        checks.push(emulated_disks(&directory));
        let complete = checks.iter().all(|check| check.status != Status::Missing);
        if self.json {
            output::print(&serde_json::to_string_pretty(&checks)?)?;
            return Ok(complete);
        }
        let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for check in &checks {
            let status = match check.status {
                Status::Ok => "ok     ",
                Status::Warn => "warning",
                Status::Missing => "MISSING",
            };
            text.push_str(&format!("{status}  {:width$}  {}\n", check.name, check.detail));
            if let Some(mend) = &check.mend {
                text.push_str(&format!("{:9}{:width$}  -> {mend}\n", "", ""));
            }
        }
        output::print(&text)?;
        Ok(complete)
    }
}

impl Args {
    fn measure_noise(&self, directory: &Path) -> anyhow::Result<bool> {
        let noise = noise::measure(directory, self.quick, self.quiet)?;
        let text = if self.json {
            fsdyno_report::noise::json(&noise)?
        } else {
            let options = output::table_options();
            fsdyno_report::noise::render(&noise, options.width, options.unicode)
        };
        output::print(&text)?;
        Ok(true)
    }
}

/// Without them everything is measured and less explained.
fn block_traces() -> Check {
    let unavailable = fsdyno_trace::capture::unavailable();
    let (status, mend) = match unavailable {
        None => (Status::Ok, None),
        Some(_) => (Status::Warn, Some("--trace none measures without them".to_owned())),
    };
    let detail = unavailable.unwrap_or_else(|| "can be taken, through tracefs".to_owned());
    Check { name: "block traces".to_owned(), status, detail, mend }
}

/// Without them there are no disks of models, no power cuts and no faults. It is tried: whether a loop device
/// gets direct I/O on what FUSE serves is known no sooner.
fn emulated_disks(directory: &Path) -> Check {
    let name = "emulated disks".to_owned();
    let warn = |detail: String, mend: &str| {
        let mend = Some(mend.to_owned());
        Check { name: name.clone(), status: Status::Warn, detail, mend }
    };
    let without = "no @disk:MODEL, no power cuts, no faults";
    if !Path::new("/dev/fuse").exists() {
        return warn(format!("{without}: the kernel has no FUSE"), "modprobe fuse");
    }
    if !process::may_mount() {
        return warn(format!("{without}: they are mounted"), "run fsdyno with sudo");
    }
    run::enter_private_namespace();
    match check::overhead(directory) {
        Ok(overhead) => {
            let detail = format!(
                "served by FUSE under a loop device with direct I/O: {:.0} µs for a request, {:.0} a second",
                overhead.request_ns / 1e3,
                overhead.iops
            );
            Check { name, status: Status::Ok, detail, mend: None }
        }
        Err(error) => warn(
            format!("{without}: {error}"),
            "they need FUSE, loop devices with direct I/O (Linux 4.10), and a directory for images",
        ),
    }
}

/// Without them everything is measured under this machine's own kernel.
fn guests() -> Check {
    let found = qemu::find().and_then(|qemu| Ok((qemu, kernel::choose(None, Path::new("/"))?)));
    let name = "guests".to_owned();
    match found {
        Ok((qemu, kernel)) => {
            let accelerated = match accelerator::unavailable() {
                None => "kvm is tried first".to_owned(),
                Some(error) => format!("emulated ({error})"),
            };
            let detail = format!(
                "--in guest boots Linux {} under QEMU {}, {accelerated}",
                kernel.release, qemu.version
            );
            Check { name, status: Status::Ok, detail, mend: None }
        }
        Err(error) => without(name, "--in guest", &error),
    }
}

/// The faster second way to guests, where a distribution has it.
fn user_mode_linux() -> Check {
    let name = "user-mode linux".to_owned();
    match uml::find() {
        Ok(found) => {
            let detail =
                format!("--in uml runs Linux {} on processor {}", found.release, found.cpu);
            Check { name, status: Status::Ok, detail, mend: None }
        }
        Err(error) => without(name, "--in uml", &error),
    }
}

/// What an option lacks, by a sentence that ends with what mends it.
fn without(name: String, option: &str, error: &str) -> Check {
    let (detail, mend) = error.split_once(": ").unwrap_or((error, ""));
    let mend = Some(mend.to_owned()).filter(|mend| !mend.is_empty());
    Check { name, status: Status::Warn, detail: format!("{option}: {detail}"), mend }
}
