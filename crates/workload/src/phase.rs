//! The timed region: what happens around the calls of one sample, and how samples add up to the
//! record of a phase. Which calls are made is left to the workloads.
//!
//! ```text
//! probe.before | start … calls … end | syncfs or sync | probe.after
//!                └ elapsed_return ─┘
//!                └ elapsed_durable ───────────────────┘
//! ```

use fsdyno_model::record::{PhaseRecord, Sample};
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::cpu::application_times;

use crate::context::Context;
use crate::failure::call_failed;
use crate::probe::{add_cpu, add_device};
use crate::recorder::Recorder;

/// What makes the work of a sample durable before its clock stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing does.
    None,
    /// `syncfs` on the target.
    Target,
    /// `sync`, on all filesystems of the machine, and its processor time is not the application's:
    /// what the classic tools do by starting a program of that name.
    Machine,
}

/// A phase that is being measured.
#[derive(Debug)]
pub struct PhaseTally {
    record: PhaseRecord,
    recorder: Recorder,
}

impl PhaseTally {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(name: &str, primary_metric: &str) -> PhaseTally {
        PhaseTally { record: PhaseRecord::new(name, primary_metric), recorder: Recorder::new() }
    }

    /// Name of the phase.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Number of samples.
    #[must_use]
    pub fn sample_count(&self) -> usize {
        self.record.samples.len()
    }

    /// Measures one sample: the calls that `body` makes on `subject`, then what `durability` asks.
    ///
    /// # Errors
    /// That of `body`, and then nothing is counted but the calls in the recorder; or that of the
    /// final synchronization.
    pub fn measure(
        &mut self,
        context: &Context<'_>,
        subject: &str,
        durability: Durability,
        body: impl FnOnce(&mut Recorder) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.measure_then(context, subject, durability, body, |_, ()| {})
    }

    /// The same where what `body` gives is counted by `finish` only once the clocks stand still.
    ///
    /// # Errors
    /// As [`PhaseTally::measure`].
    pub fn measure_then<T>(
        &mut self,
        context: &Context<'_>,
        subject: &str,
        durability: Durability,
        body: impl FnOnce(&mut Recorder) -> anyhow::Result<T>,
        finish: impl FnOnce(&mut Recorder, T),
    ) -> anyhow::Result<()> {
        context.progress.enter(self.name());
        let cold = context.take_cold();
        let recorder = &mut self.recorder;
        let (operations, bytes) = (recorder.operation_count(), recorder.bytes);
        let before = context.probe.before();
        let own = application_times();
        let start_ns = now_ns();
        recorder.begin();
        let counted = body(recorder)?;
        let returned_ns = now_ns();
        let mut own_at_return = None;
        match durability {
            Durability::None => {}
            Durability::Target => Real.syncfs(context.root()).map_err(|errno| {
                call_failed("syncfs", context.root_path().display().to_string(), errno)
            })?,
            Durability::Machine => {
                own_at_return = Some(application_times());
                fsdyno_sys::caches::sync_all();
            }
        }
        let durable_ns = now_ns();
        let own = own_at_return.unwrap_or_else(application_times).since(&own);
        let after = context.probe.after();
        finish(&mut self.recorder, counted);
        let is_durable = durability != Durability::None;
        let sample = Sample {
            subject: subject.to_owned(),
            started_ns: Some(start_ns),
            elapsed_return_ns: returned_ns - start_ns,
            elapsed_durable_ns: is_durable.then_some(durable_ns - start_ns),
            operations: self.recorder.operation_count() - operations,
            bytes: self.recorder.bytes - bytes,
            app_user_ns: Some(own.user_ns),
            app_system_ns: Some(own.system_ns),
        };
        let (cpu, device) = context.probe.difference(&before, &after);
        let record = &mut self.record;
        if record.samples.is_empty() {
            (record.cpu, record.device, record.cold) = (cpu, device, cold);
            record.elapsed_durable_ns = sample.elapsed_durable_ns;
        } else {
            record.cpu = add_cpu(&record.cpu, &cpu);
            record.device = add_device(&record.device, &device);
            let durable = record.elapsed_durable_ns.zip(sample.elapsed_durable_ns);
            record.elapsed_durable_ns = durable.map(|(sum, sample)| sum + sample);
        }
        record.elapsed_return_ns += sample.elapsed_return_ns;
        record.samples.push(sample);
        Ok(())
    }

    /// Stores a figure that is no time, no count of operations and no traffic, by the name of its
    /// metric. What is not a finite number is not stored: absent is not zero.
    pub fn value(&mut self, metric: &str, value: f64) {
        if value.is_finite() {
            self.record.values.insert(metric.to_owned(), value);
        }
    }

    /// A further record of the same time, of what `recorder` has counted. Processor time and traffic of
    /// devices cannot be told apart and stay with this one.
    #[must_use]
    pub fn part(&self, name: &str, primary_metric: &str, recorder: Recorder) -> PhaseTally {
        let mut record = PhaseRecord::new(name, primary_metric);
        record.elapsed_return_ns = self.record.elapsed_return_ns;
        record.elapsed_durable_ns = self.record.elapsed_durable_ns;
        record.cold = self.record.cold;
        if let Some(whole) = self.record.samples.first() {
            record.samples.push(Sample {
                elapsed_return_ns: record.elapsed_return_ns,
                elapsed_durable_ns: record.elapsed_durable_ns,
                operations: recorder.operation_count(),
                bytes: recorder.bytes,
                app_user_ns: None,
                app_system_ns: None,
                ..whole.clone()
            });
        }
        PhaseTally { record, recorder }
    }

    /// What was counted so far.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The same, to add what was measured elsewhere and is known only after the clock stopped.
    pub fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// The samples so far.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.record.samples
    }

    /// The finished record.
    #[must_use]
    pub fn into_record(self) -> PhaseRecord {
        let mut record = self.record;
        record.operations = self.recorder.operations();
        record.latency = self.recorder.latency();
        record.bytes = self.recorder.bytes;
        record.read_bytes = self.recorder.read_bytes;
        record.files = Some(self.recorder.files);
        record
    }
}
