//! The data directory of a server: made by initdb, served, and checked. It is named to PostgreSQL by a
//! descriptor, as the target may lie below directories that its account cannot pass through.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use fsdyno_model::record::VerifyRecord;
use rustix::fs::{Mode, OFlags};

use super::account::Account;
use super::programs;
use super::scratch::Scratch;
use super::server::Server;
use super::settings::Settings;
use crate::program::{Finished, Program};

/// Name of the data directory in the working directory.
pub const DIRECTORY: &str = "postgres";
/// Name of the database's owner, and of the database.
const OWNER: &str = "postgres";
const PORT: &str = "5432";
const CHECKPOINT_TIMEOUT_S: u32 = 300;
/// Size of the pages that checksums cover.
const PAGE_BYTES: u64 = 8192;

/// A data directory and all that is needed to use it.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    account: Account,
    scratch: Scratch,
    data: PathBuf,
    options: Vec<String>,
}

/// The data directory, open in a way that children inherit.
struct Door(OwnedFd);

impl Door {
    fn open(data: &Path) -> anyhow::Result<Door> {
        // Without CLOEXEC: this is what children get.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = rustix::fs::open(data, flags, Mode::empty());
        Ok(Door(opened.with_context(|| format!("open {}", data.display()))?))
    }

    /// Its path as a child sees it.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

impl Cluster {
    /// Makes the directory, empty, below `root`.
    ///
    /// # Errors
    /// PostgreSQL is not there, its account is not, or the directory cannot be made.
    pub fn new(root: &Path, settings: &Settings) -> anyhow::Result<Cluster> {
        let programs = programs::locate(&settings.programs)?;
        let account = Account::choose(&settings.user)?;
        let scratch = Scratch::new(account)?;
        let data = root.join(DIRECTORY);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&data);
        made.with_context(|| format!("mkdir {}", data.display()))?;
        account.own(&data)?;
        let socket = scratch.path().display().to_string();
        let setting = |name: &str, value: String| ["-c".to_owned(), format!("{name}={value}")];
        let options = [
            setting("listen_addresses", String::new()),
            setting("unix_socket_directories", socket),
            setting("port", PORT.to_owned()),
            setting("max_connections", (settings.clients + 10).to_string()),
            setting("shared_buffers", format!("{}kB", settings.shared_buffers_bytes >> 10)),
            setting("huge_pages", "off".to_owned()),
            setting("fsync", "on".to_owned()),
            setting("full_page_writes", "on".to_owned()),
            setting("synchronous_commit", settings.synchronous_commit.clone()),
            setting("max_wal_size", format!("{}MB", settings.max_wal_bytes >> 20)),
            setting("checkpoint_timeout", format!("{CHECKPOINT_TIMEOUT_S}s")),
            setting("logging_collector", "off".to_owned()),
            setting("restart_after_crash", "off".to_owned()),
        ];
        let options = options.into_iter().flatten().collect();
        Ok(Cluster { programs, account, scratch, data, options })
    }

    /// The directory for the socket and for logs.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Runs initdb, which makes the database durable at its end.
    ///
    /// # Errors
    /// What it says.
    pub fn initialize(&self) -> anyhow::Result<()> {
        let door = Door::open(&self.data)?;
        let program = self
            .program("initdb")
            .arg(format!("--pgdata={}", door.path()))
            .arg(format!("--username={OWNER}"));
        let options = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--data-checksums"];
        run(&options.into_iter().fold(program, Program::arg))?;
        Ok(())
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// What its log says; a request to stop.
    pub fn start(&self) -> anyhow::Result<Server> {
        let door = Door::open(&self.data)?;
        let mut arguments = vec!["-D".to_owned(), door.path()];
        arguments.extend_from_slice(&self.options);
        let program = self.programs.join("postgres");
        Server::start((&program, &arguments), self.account, &self.data, self.scratch.path())
    }

    /// A client program that connects to the server.
    #[must_use]
    pub fn client(&self, name: &str) -> Program {
        let host = self.scratch.path().display().to_string();
        let program = self.program(name).arg(format!("--host={host}"));
        program.arg(format!("--port={PORT}")).arg(format!("--username={OWNER}"))
    }

    /// The answer to a query of one row, its columns.
    ///
    /// # Errors
    /// What psql says.
    pub fn ask(&self, query: &str) -> anyhow::Result<Vec<String>> {
        let options = ["--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "-c", query, OWNER];
        let answer = run(&options.into_iter().fold(self.client("psql"), Program::arg))?;
        Ok(answer.stdout.trim().split('|').map(str::to_owned).collect())
    }

    /// Checks tables and indexes against each other over a server that runs, where pg_amcheck is there
    /// (since PostgreSQL 14); tells whether it is.
    ///
    /// # Errors
    /// What it finds.
    pub fn check_structure(&self) -> anyhow::Result<bool> {
        if !self.programs.join("pg_amcheck").is_file() {
            return Ok(false);
        }
        let options = ["--install-missing", "--heapallindexed", OWNER];
        run(&options.into_iter().fold(self.client("pg_amcheck"), Program::arg))?;
        Ok(true)
    }

    /// Checks the checksum of every page; the server must have been stopped. `None` where pg_checksums is
    /// not there.
    ///
    /// # Errors
    /// What it finds.
    pub fn check_pages(&self) -> anyhow::Result<Option<VerifyRecord>> {
        if !self.programs.join("pg_checksums").is_file() {
            return Ok(None);
        }
        let door = Door::open(&self.data)?;
        let program = self.program("pg_checksums").arg("--check");
        let told = run(&program.arg(format!("--pgdata={}", door.path())))?.stdout;
        let number = |name: &str| -> u64 {
            let lines = told.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(left, _)| *left == name);
            found.next().and_then(|(_, right)| right.trim().parse().ok()).unwrap_or_default()
        };
        let bytes = number("Blocks scanned") * PAGE_BYTES;
        Ok(Some(VerifyRecord { files: number("Files scanned"), bytes, mismatches: Vec::new() }))
    }

    /// A program of PostgreSQL's as the account, whatever the user's environment says of servers.
    fn program(&self, name: &str) -> Program {
        let program = Program::new([self.programs.join(name).display().to_string()])
            .current_dir("/")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("HOME", self.scratch.path().display().to_string())
            .env("PGDATABASE", OWNER)
            .env("PGOPTIONS", "")
            .env("PGAPPNAME", "fsdyno")
            .env("PGSERVICEFILE", "/dev/null")
            .env("PGPASSFILE", self.scratch.join("no-passwords"));
        self.account.with(program)
    }
}

/// Runs a program to a successful end.
///
/// # Errors
/// Its last words, with what to try.
pub fn run(program: &Program) -> anyhow::Result<Finished> {
    let finished = program.run_any()?;
    if finished.exit_code == Some(0) {
        return Ok(finished);
    }
    let error = anyhow!("{program}: {}", finished.complaint());
    Err(with_advice(error, &finished.stderr))
}

/// Says what to do about a full filesystem, where the whole of what was `said` tells of one.
#[must_use]
pub fn with_advice(error: anyhow::Error, said: &str) -> anyhow::Error {
    let text = format!("{error:#}");
    if !said.contains("No space left on device") || text.contains("ENOSPC") {
        return error;
    }
    anyhow!(
        "{text} (ENOSPC: the target is full: make room on it or an image larger (--size), or the \
         workload smaller, see its parameters)"
    )
}
