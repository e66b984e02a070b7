//! Aging: what is done to a fresh filesystem before the workload begins, and what it looks like then.
//! Each kind has a file; how an age is written is [`fsdyno_model::age`]'s, and what becomes of the aged
//! filesystem is left to whoever asked for it.

mod churn;
pub mod compilebench;
pub mod sizes;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use fsdyno_model::age::{AgeRecord, AgeSpec};
use fsdyno_model::wire::AgeTask;
use fsdyno_sys::calls::{Calls as _, Real};

use crate::context::Progress;
use crate::failure::call_failed;
use crate::fragmentation;

/// Changes whenever the same age and seed lead to another state.
pub const FORMAT: u32 = 1;

/// Files of which the extents are asked for, at most about so many.
const SAMPLED_FILES: u64 = 20_000;

/// Where it is done.
struct Ground<'a> {
    /// The directory that keeps the files.
    root: &'a OwnedFd,
    /// Its path.
    path: &'a str,
    seed: u64,
    /// Of the filesystem, in bytes.
    capacity_bytes: u64,
}

impl Ground<'_> {
    /// Makes everything durable, so that what was deleted is free.
    fn sync(&self) -> anyhow::Result<()> {
        Ok(Real.syncfs(self.root).map_err(|errno| call_failed("syncfs", self.path, errno))?)
    }

    /// Bytes in use, by statfs.
    fn used_bytes(&self) -> anyhow::Result<u64> {
        let space = fsdyno_sys::file::free_space(Path::new(self.path))?;
        Ok(space.total.saturating_sub(space.free))
    }
}

/// Does what `task` says and looks at what came of it.
///
/// # Errors
/// The call that failed first, or the request to stop.
pub fn age(task: &AgeTask, progress: &Progress) -> anyhow::Result<AgeRecord> {
    let path = task.root.display().to_string();
    progress.enter("age");
    let root = Real.open_root(&task.root);
    let root = root.map_err(|errno| call_failed("open", path.as_str(), errno))?;
    let started = Instant::now();
    let capacity_bytes = fsdyno_sys::file::free_space(&task.root)?.total;
    let ground = Ground { root: &root, path: &path, seed: task.seed, capacity_bytes };
    let mut record = AgeRecord {
        age: task.spec.full(),
        seed: task.seed,
        capacity_bytes,
        used_bytes: 0,
        written_bytes: 0,
        files: 0,
        directories: 0,
        created_files: 0,
        times_full: 0,
        elapsed_ns: 0,
        sampled_files: 0,
        extents_per_file: None,
        fragmented_share: None,
        free_space_fragmentation: None,
        from_snapshot: false,
    };
    match &task.spec {
        AgeSpec::Churn(spec) => churn::run(spec, &ground, progress, &mut record),
        AgeSpec::Compilebench(spec) => compilebench::run(spec, &ground, progress, &mut record),
    }
    .with_context(|| format!("age by {}", task.spec))?;
    ground.sync()?;
    record.elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    record.used_bytes = ground.used_bytes()?;
    progress.enter("age-survey");
    let again = Real.open_root(&task.root);
    let again = again.map_err(|errno| call_failed("open", path.as_str(), errno))?;
    let look = fragmentation::look(again, &root, SAMPLED_FILES)?;
    (record.files, record.directories) = (look.files, look.directories);
    record.sampled_files = look.sampled_files;
    record.extents_per_file = look.value("extents_per_file");
    record.fragmented_share = look.value("fragmented_share");
    record.free_space_fragmentation = look.value("free_space_fragmentation");
    Ok(record)
}
