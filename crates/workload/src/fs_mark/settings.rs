//! The parameters of the workload `fs-mark`, read and checked against each other.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;

use super::layout::Layout;

/// What is made durable, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncMethod {
    /// Whether each file is synced before it is closed.
    pub before_close: bool,
    /// Whether `sync` follows when all files of a job are closed.
    pub sync: bool,
    /// Which files are then opened again and synced.
    pub after: After,
}

/// Which files are opened again and synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// None.
    Nothing,
    /// The first one of each job.
    First,
    /// All, the last one first.
    Reverse,
    /// All, in the order of their creation.
    InOrder,
}

/// The words of the parameter `sync_method`: those with a meaning in the order of the original's
/// numbers, which follow and mean the same.
pub const SYNC_METHODS: &[&str] = &[
    "none",
    "fsync",
    "sync-first",
    "post-reverse",
    "sync-post-reverse",
    "post",
    "sync-post",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
];

impl SyncMethod {
    /// The method that one of [`SYNC_METHODS`] stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<SyncMethod> {
        let index = SYNC_METHODS.iter().position(|known| *known == word)?;
        let number = index % (SYNC_METHODS.len() / 2);
        let after = match number {
            2 => After::First,
            3 | 4 => After::Reverse,
            5 | 6 => After::InOrder,
            _ => After::Nothing,
        };
        let sync = matches!(number, 2 | 4 | 6);
        Some(SyncMethod { before_close: number == 1, sync, after })
    }
}

/// The parameters of a run, read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files of each job in each iteration.
    pub files: u64,
    /// Bytes of each file.
    pub size_bytes: u64,
    /// Bytes of each call that writes; the last one of a file may be shorter.
    pub write_bytes: u64,
    /// Names of files and directories.
    pub layout: Layout,
    /// What is made durable, and when.
    pub method: SyncMethod,
    /// Threads, each with files of its own.
    pub jobs: u64,
    /// Iterations.
    pub loops: u64,
    /// Whether files stay when an iteration is over.
    pub keep: bool,
    /// Whether the rules are those of the original.
    pub is_original: bool,
    /// Whether phases end with syncfs.
    pub sync: bool,
    /// What precedes the removal.
    pub cold: Cold,
    /// What is written.
    pub payload: Payload,
}

impl Settings {
    /// Reads the parameters; `seed` is that of the names.
    ///
    /// # Errors
    /// A sentence: parameters that do not go together.
    pub fn new(params: &Params, seed: u64) -> Result<Settings, String> {
        let number = |name: &str| params.number(name);
        let (files, jobs, loops) = (number("files"), number("numjobs"), number("loops"));
        let all_files = files
            .checked_mul(jobs)
            .and_then(|files| files.checked_mul(loops))
            .filter(|files| *files <= MOST_FILES)
            .ok_or_else(|| {
                format!("files, numjobs and loops make more than {MOST_FILES} files: use fewer")
            })?;
        let size_bytes = number("size");
        all_files
            .checked_mul(size_bytes.saturating_add(4096))
            .ok_or("files times size is more than can be counted: use smaller files")?;
        let layout = Layout {
            seed,
            name_bytes: number("name_length") as usize,
            random_bytes: number("name_random") as usize,
            directories: number("directories"),
            per_directory: number("per_directory"),
            files,
            jobs,
        };
        layout.check(all_files)?;
        let is_original = params.text("mode") == "original";
        Ok(Settings {
            files,
            size_bytes,
            write_bytes: number("bs"),
            layout,
            method: SyncMethod::parse(params.text("sync_method"))
                .ok_or("sync_method is one of the words or a number from 0 to 6")?,
            jobs,
            loops,
            keep: match params.text("keep") {
                "auto" => loops > 1,
                word => word == "true",
            },
            is_original,
            sync: params.flag("sync") && !is_original,
            cold: Cold::parse(params.text("cold"))?,
            payload: Payload::parse(params.text("payload"))?,
        })
    }

    /// Files of all jobs in one iteration.
    #[must_use]
    pub fn files_of_all_jobs(&self) -> u64 {
        self.files * self.jobs
    }
}

/// Most files in a run.
const MOST_FILES: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_mean_the_same() {
        let seven = SYNC_METHODS.len() / 2;
        for (word, number) in SYNC_METHODS[..seven].iter().zip(0..) {
            assert_eq!(SYNC_METHODS[seven + number], number.to_string());
            assert_eq!(SyncMethod::parse(word), SyncMethod::parse(&number.to_string()));
            assert!(SyncMethod::parse(word).is_some());
        }
        assert_eq!(SyncMethod::parse("7"), None);
    }
}
