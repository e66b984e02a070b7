//! The phases of the workload `dbench`: warm-up, run and cleanup, and what is noted of the run. What a
//! client does is in [`super::client`].

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::Warning;
use fsdyno_model::wire::Manifest;
use fsdyno_sys::clock::Timer;

use super::client::{Client, Shared, Span, Writing};
use super::kinds::{Kind, KindTally};
use super::program::Program;
use super::settings::Settings;
use super::tree::delete_tree;
use super::verify::verify;
use crate::contents::PayloadBuffer;
use crate::context::Context;
use crate::failure::name_failed;
use crate::fragmentation;
use crate::jobs;
use crate::payload::PayloadSource;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::Recorder;

/// Mismatches that are told one by one.
const TOLD_MISMATCHES: usize = 5;
const MB: f64 = 1e6;
const NS_PER_MS: f64 = 1e6;

/// Runs the workload.
///
/// # Errors
/// Parameters or a load that do not fit, a full or failing device, contents that changed; with
/// `strict=true` an operation that ends otherwise than expected.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params).map_err(anyhow::Error::msg)?;
    context.progress.set_total(settings.runtime_ns / 1_000_000);
    measure(context, &settings)?;
    fragmentation::survey(context)?;
    if context.params.flag("cleanup") {
        clean_up(context, &settings)?;
    }
    let (payload, seed) = (settings.payload, context.seed);
    context.hand_over(Manifest { payload, seed, files: Vec::new() })
}

/// Warm-up, run, and the comparison of what is left.
fn measure(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    let program = &settings.program;
    let points = (0..settings.clients).map(|_| AtomicU64::new(0)).collect();
    let shared = Shared { points };
    let around: (&OwnedFd, &Shared, _) = (context.root(), &shared, context.progress);
    let clients: Vec<Mutex<Client<'_>>> = (0..settings.clients)
        .map(|index| {
            let writing = writing(program, settings.payload, context.seed);
            Mutex::new(Client::new(program, around, settings.manner, index, writing))
        })
        .collect();
    if settings.warmup_ns > 0 {
        context.progress.enter("warmup");
        let span = span(settings, settings.warmup_ns);
        run_all(&clients, span, &mut Recorder::new())?;
    }
    let durability = if settings.sync { Durability::Target } else { Durability::None };
    let mut tally = PhaseTally::new("run", "throughput_mib_per_s");
    tally.measure(context, "all clients", durability, |recorder| {
        run_all(&clients, span(settings, settings.runtime_ns - settings.warmup_ns), recorder)
    })?;
    note(&mut tally, &clients);
    context.finish_phase(tally.into_record())?;
    tell_mismatches(context, &clients)?;
    clients.iter().for_each(|client| locked(client).close_all());

    context.progress.enter("verify");
    let is_plain = settings.payload == Payload::Original && program.patterns.len() > 1;
    if program.is_verifiable && !is_plain {
        let source = (settings.payload != Payload::Original)
            .then(|| PayloadSource::new(settings.payload, context.seed));
        let guards: Vec<MutexGuard<'_, Client<'_>>> = clients.iter().map(locked).collect();
        let all: Vec<&Client<'_>> = guards.iter().map(|guard| &**guard).collect();
        context.note_verified(verify(context.root(), &all, source.as_ref())?);
    }
    Ok(())
}

fn locked<'a, 'p>(client: &'a Mutex<Client<'p>>) -> MutexGuard<'a, Client<'p>> {
    client.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client writes from.
fn writing(program: &Program, payload: Payload, seed: u64) -> Writing {
    let most_bytes = program.most_bytes.0;
    if payload != Payload::Original {
        return Writing::Made(PayloadBuffer::new(payload, seed, most_bytes));
    }
    let filled = |text: &String| text.bytes().cycle().take(most_bytes).collect();
    Writing::Fixed(program.patterns.iter().map(filled).collect())
}

fn span(settings: &Settings, end_ns: u64) -> Span {
    let end_ns = if settings.passes > 0 { u64::MAX } else { end_ns };
    let (passes, bytes_per_s) = (settings.passes, settings.bytes_per_s);
    Span { start_ticks: Timer::new().now(), end_ns, passes, bytes_per_s }
}

fn run_all(
    clients: &[Mutex<Client<'_>>],
    span: Span,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    jobs::run(clients.len(), recorder, |index, recorder| {
        locked(&clients[index]).run(span, recorder)
    })
}

/// Stores what the table and the last line of dbench tell, and how evenly the clients were served.
fn note(tally: &mut PhaseTally, clients: &[Mutex<Client<'_>>]) {
    let timer = Timer::new();
    let mut kinds = [KindTally::default(); Kind::COUNT];
    let mut moved = Vec::with_capacity(clients.len());
    let (mut mismatches, mut passes) = (0, 0);
    let full_seconds = clients.iter().map(|client| locked(client).second_bytes().len()).min();
    let mut bytes_at_second = 0;
    for client in clients {
        let client = locked(client);
        kinds.iter_mut().zip(client.tallies()).for_each(|(all, own)| all.merge(own));
        moved.push(client.span_bytes() as f64);
        mismatches += client.mismatches().0;
        passes += client.passes_done();
        if let Some(last) = full_seconds.and_then(|count| count.checked_sub(1)) {
            bytes_at_second += client.second_bytes()[last];
        }
    }
    let elapsed_s = tally.samples()[0].elapsed_return_ns as f64 / 1e9;
    let seconds = full_seconds.unwrap_or(0) as f64;
    let (bytes, seconds) = if seconds > 0.0 {
        (bytes_at_second as f64, seconds)
    } else {
        (moved.iter().sum(), elapsed_s)
    };
    tally.value("dbench_mb_per_s", bytes / seconds / MB);
    tally.value("clients", clients.len() as f64);
    tally.value("passes", passes as f64);
    tally.value("status_mismatches", mismatches as f64);
    let sum: f64 = moved.iter().sum();
    let squares: f64 = moved.iter().map(|bytes| bytes * bytes).sum();
    tally.value("fairness", sum * sum / (squares * moved.len() as f64));
    let ms = |ticks: u64| timer.elapsed_ns(ticks) as f64 / NS_PER_MS;
    let longest = kinds.iter().map(|kind| kind.longest_ticks).max().unwrap_or(0);
    tally.value("max_latency_ms", ms(longest));
    for ((_, _, word), kind) in Kind::ALL.iter().zip(kinds).filter(|(_, kind)| kind.count > 0) {
        tally.value(&format!("{word}_count"), kind.count as f64);
        tally.value(&format!("{word}_avg_ms"), ms(kind.total_ticks) / kind.count as f64);
        tally.value(&format!("{word}_max_ms"), ms(kind.longest_ticks));
    }
}

/// Says which operations ended otherwise than the load expects.
fn tell_mismatches(context: &Context<'_>, clients: &[Mutex<Client<'_>>]) -> anyhow::Result<()> {
    let mut count = 0;
    let mut told = Vec::new();
    for (index, client) in clients.iter().enumerate() {
        let client = locked(client);
        let (own, first) = client.mismatches();
        count += own;
        told.extend(first.iter().map(|it| format!("client {index}, {}", it.text())));
    }
    if count == 0 {
        return Ok(());
    }
    told.truncate(TOLD_MISMATCHES);
    context.warn(Warning {
        code: "status-mismatches".to_owned(),
        message: format!(
            "{count} operations ended otherwise than the load expects: {}{}",
            told.join("; "),
            if count > told.len() as u64 { "; …" } else { "" }
        ),
        advice: "mend the load, or use strict=true to end at the first of them".to_owned(),
    })
}

/// Deletes what the clients have left.
fn clean_up(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    let mut names: Vec<String> = (0..settings.clients as u32)
        .flat_map(|client| settings.program.paths_of(client))
        .filter_map(|path| path.split('/').next().map(str::to_owned))
        .filter(|name| name != ".")
        .collect();
    names.sort_unstable();
    names.dedup();
    let durability = if settings.sync { Durability::Target } else { Durability::None };
    let mut tally = PhaseTally::new("cleanup", "files_per_s");
    tally.measure(context, "all files", durability, |recorder| {
        for name in &names {
            let name = CString::new(name.as_str()).context("the name of a file")?;
            delete_tree(context.root(), &name, false, recorder)
                .map_err(|errno| name_failed("delete", "", &name, errno))?;
        }
        Ok(())
    })?;
    context.finish_phase(tally.into_record())
}
