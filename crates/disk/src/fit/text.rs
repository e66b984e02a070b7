//! A model as a text, made of what was measured. What cannot be seen by reading is assumed, and the text says
//! so.

use std::fmt::Write as _;

use fsdyno_model::units;

use super::rotating::{Arm, Radius, SeekTimes, rpm};
use super::{Figures, Zone};
use crate::model::Model;
use crate::shipped;

/// What stands above the figures.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// What was measured, as a title.
    pub title: &'a str,
    /// When, where and how.
    pub source: &'a str,
    /// Commands that the disk says that it takes at once; `None` where it says nothing.
    pub queue_depth: Option<u64>,
}

/// A model that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Its text, without the figures as comments.
    pub text: String,
    /// The same, read.
    pub model: Model,
}

/// Tracks of one surface that are assumed where heads cannot be told: of the order of disks since 2005.
const TRACKS_OF_SURFACE: f64 = 150_000.0;
/// More commands at once help by this factor where the disk orders them itself.
const ORDERED: f64 = 1.12;

/// Makes the model.
///
/// # Errors
/// A sentence where the figures contradict each other.
pub fn model(figures: &Figures, head: Head<'_>) -> Result<Fitted, String> {
    let text = match figures.turn_ns {
        Some(turn_ns) => rotating(figures, head, turn_ns),
        None => volume(figures, head),
    };
    let parsed = Model::parse("fitted", &text, &|name| shipped::find(name));
    let model = parsed.map_err(|errors| {
        let told: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        format!("no model can be made of what was measured: {}", told.join("; "))
    })?;
    Ok(Fitted { text, model })
}

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}

fn top(figures: &Figures, head: Head<'_>, kind: &str, assumed: &str) -> String {
    format!(
        "title = {}\nkind = \"{kind}\"\ncapacity = \"{}\"\nsources = [\n  {},\n  {},\n]\n\n",
        quoted(head.title),
        units::exact_bytes(figures.size_bytes),
        quoted(head.source),
        quoted(assumed)
    )
}

fn rotating(figures: &Figures, head: Head<'_>, turn_ns: f64) -> String {
    let radius = Radius::of(&figures.zones);
    let (outer, inner) = radius.edges_mbs;
    let rate = (outer + inner) / 2.0;
    let transfer_ns = 4096.0 * 1e3 / rate;
    let fixed_ns = figures.again_ns as f64 + transfer_ns;
    let arm = Arm::of(&figures.far, &radius, figures.size_bytes, turn_ns, fixed_ns);
    let tracks = figures.size_bytes as f64 / (rate * 1e6 * turn_ns / 1e9);
    let heads = (tracks / TRACKS_OF_SURFACE).round().clamp(1.0, 20.0);
    let SeekTimes { track_to_track, average, full_stroke } =
        arm.seek_times(&radius, tracks / heads);
    let large_ns = figures.again_large_ns.saturating_sub(figures.again_ns).max(1);
    let interface = (f64::from(124 << 10) * 1e3 / large_ns as f64).clamp(outer * 1.05, 6000.0);
    let overhead_us = (figures.again_ns as f64 - 4096.0 * 1e3 / interface).max(0.0) / 1e3;
    let alone = 1e9 / Figures::trimmed_mean_ns(&figures.random_ns).max(1.0);
    let measured_depth = if figures.deep_iops > alone * ORDERED { 31 } else { 1 };
    let depth =
        head.queue_depth.filter(|_| measured_depth > 1).unwrap_or(measured_depth).clamp(1, 1024);
    let cache = figures.written.as_ref().map(|it| Figures::median(&it.times_ns));
    let (cache, cached) = match cache {
        Some(median) if (median as f64) < turn_ns / 4.0 => ("6MiB", "its size is assumed"),
        Some(_) => ("0", "writes waited for the platters"),
        None => ("6MiB", "assumed: nothing was written"),
    };
    let flush_us = "50";
    let mut text = top(
        figures,
        head,
        "hdd",
        "assumed, because reading does not show it: heads, buffer, segments, read_ahead, write_settle_ms, \
         flush_us, the policies of the caches",
    );
    let _ = write!(
        text,
        "[hdd]\nrpm = {}\nheads = {heads:.0} # assumed: {TRACKS_OF_SURFACE:.0} tracks on a surface\nzones = 24\n\
         outer_mbs = {outer:.1}\ninner_mbs = {inner:.1}\ntrack_to_track_ms = {:.3}\naverage_seek_ms = {:.3}\n\
         full_stroke_ms = {:.3}\nwrite_settle_ms = 0.5 # assumed\noverhead_us = {overhead_us:.0}\n\
         interface_mbs = {interface:.0}\nqueue_depth = {depth}\nbuffer = \"8MiB\" # assumed\nsegments = 16 # assumed\n\
         read_ahead = \"256KiB\" # assumed\nwrite_cache = \"{cache}\" # {cached}\nflush_us = {flush_us} # assumed\n",
        rpm(turn_ns),
        track_to_track / 1e6,
        average / 1e6,
        full_stroke / 1e6,
    );
    let first = figures.zones.first().map_or(outer, |zone| zone.rate_mbs);
    let mean = Figures::trimmed_mean_ns(&figures.random_ns) / 1e6;
    let _ =
        write!(text, "\n[stated]\nsequential_read_mbs = {first:.1}\nrandom_read_ms = {mean:.2}\n");
    text
}

/// Points of a distribution, in microseconds, each at least the one before. The slowest thousandth is left out
/// where there are fewer than a thousand: it would be one request.
fn points(times_ns: &[u64]) -> String {
    let shares = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999];
    let last = times_ns.len().saturating_sub(1);
    let mut text = String::new();
    let mut greatest = 0.0;
    for share in shares.into_iter().filter(|share| last >= 1000 || *share < 0.999) {
        let time = times_ns.get((share * last as f64) as usize).copied().unwrap_or(0);
        greatest = time as f64 / 1e3;
        let _ = write!(text, "[{share}, {greatest:.1}], ");
    }
    format!("[{text}[1.0, {greatest:.1}]]")
}

/// MB a second of all zones together but the first, which credit may make faster. The slowest requests count:
/// a limit of throughput gives to the next what one that came late did not use.
fn sustained_mbs(zones: &[Zone]) -> f64 {
    let zones = zones.get(1..).unwrap_or_default();
    let slowness: f64 = zones.iter().map(|zone| 1.0 / zone.whole_mbs.max(0.001)).sum();
    zones.len() as f64 / slowness.max(f64::MIN_POSITIVE)
}

fn volume(figures: &Figures, head: Head<'_>) -> String {
    let rate = sustained_mbs(&figures.zones);
    let alone = 1e9 / Figures::trimmed_mean_ns(&figures.random_ns).max(1.0);
    let iops = figures.deep_iops.max(alone).ceil().max(1.0);
    let (writes, flush_us, assumed) = match &figures.written {
        Some(written) => (
            format!("write_latency_us = {}\n", points(&written.times_ns)),
            Figures::median(&written.flushes_ns) as f64 / 1e3,
            "operations a second are what eight requests at once reached, which may be less than the limit; credits are assumed",
        ),
        None => (
            String::new(),
            0.0,
            "writes and flushes are assumed to be as fast as reads, and at once: nothing was written; operations \
             a second are what eight requests at once reached, which may be less than the limit; credits are assumed",
        ),
    };
    let mut text = top(figures, head, "volume", assumed);
    let _ = write!(
        text,
        "[volume]\niops = {iops:.0}\niops_credit = 32\noperation = \"1MiB\"\nthroughput_per_second = \"{:.0}\"\n\
         throughput_credit = \"1MiB\"\nread_latency_us = {}\n{writes}flush_us = {flush_us:.0}\n",
        (rate * 1e6).max(1024.0),
        points(&figures.random_ns),
    );
    let _ = write!(
        text,
        "\n[stated]\nsequential_read_mbs = {rate:.1}\nrandom_read_iops = {alone:.0}\n"
    );
    text
}

impl Fitted {
    /// The text with what was measured beside what the model does, as comments. `name` and unit of each row
    /// are the same in both.
    #[must_use]
    pub fn annotated(&self, measured: &Figures, modelled: &Figures) -> String {
        let mut text = self.text.clone();
        text.push_str("\n# measured, and the same requests made to this model\n");
        for ((name, unit, found), (_, _, of_model)) in
            measured.rows().into_iter().zip(modelled.rows())
        {
            let off = (of_model / found - 1.0) * 100.0;
            let _ = writeln!(
                text,
                "# {name:38} {:>9} {:>9} {unit:4} {off:+.1} %",
                units::significant(found),
                units::significant(of_model)
            );
        }
        if let Some(turn_ns) = measured.turn_ns {
            let _ = writeln!(
                text,
                "# a turn of {:.3} ms ({:.0} rpm), at which times fell together by {:.2} of 1",
                turn_ns / 1e6,
                rpm(turn_ns),
                measured.turn_share
            );
        }
        text
    }
}
