//! What the results database keeps of power cuts.

use fsdyno_model::power_cuts::{BrokenPromise, HeldTo, PowerCutTest};
use fsdyno_sys::clock;

use super::{Args, Tried, text};
use crate::cmd::output;
use crate::store::Store;

impl Args {
    /// Stores what came of one target; nothing of a recording that was kept.
    pub(super) fn put(&self, store: &mut Store, tried: &Tried) -> anyhow::Result<()> {
        let Some(spec) = &tried.spec else { return Ok(()) };
        let about = &tried.recording.about;
        let finished_unix_ns = clock::wall_ns();
        let rules = self.rules();
        let held_to = match (self.manual_only, self.unsynced_rename) {
            (true, _) => HeldTo::Manual,
            (false, true) => HeldTo::UnsyncedRename,
            (false, false) => HeldTo::Documented,
        };
        let test = PowerCutTest {
            fsdyno_version: env!("CARGO_PKG_VERSION").to_owned(),
            target: about.target.clone(),
            spec: spec.clone(),
            kernel: about.kernel.clone(),
            size_bytes: about.size_bytes,
            disk_model: about.disk_model.clone(),
            block_bytes: rules.block_bytes,
            cache_bytes: rules.cache_bytes,
            ignores_flushes: rules.ignores_flushes,
            held_to,
            checked: !self.no_fsck,
            seed: about.seed,
            workload: about.workload.clone(),
            calls: about.operations() as u64,
            cuts: tried.outcome.cuts,
            kept: tried.outcome.kept,
            finished: output::rfc3339(finished_unix_ns),
            first_broken: self.first_broken(tried),
        };
        store.put_power_cuts(finished_unix_ns, &test)
    }

    fn first_broken(&self, tried: &Tried) -> Option<BrokenPromise> {
        let cut = tried.outcome.broken.first()?;
        let broken = cut.broken.first()?;
        let history = cut.worker.and_then(|worker| tried.recording.about.histories.get(worker));
        Some(BrokenPromise {
            promise: broken.promise.words().to_owned(),
            what: broken.what.clone(),
            call: history.and_then(|history| text::promising_call(history, broken)),
            cut: cut.cut.number,
            recording: tried.kept_in.as_ref().map(|path| path.display().to_string()),
            again: text::again(tried, cut, self.rules(), &self.promise_words()),
        })
    }
}
