//! `fsdyno runner` (hidden): the phase runner, a child of `compare` and `run`. Its spec is the way
//! to repeat one trial's phases alone, under a profiler for example.

/// Arguments of `fsdyno runner`: none.
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// When signal handlers cannot be installed.
    pub fn execute(self) -> anyhow::Result<bool> {
        fsdyno_sys::process::install_signal_handlers()?;
        // Where it is not allowed, the kernel chooses by size alone.
        let _ = fsdyno_sys::process::prefer_when_memory_is_short();
        let code = fsdyno_workload::runner::serve(std::io::stdin(), std::io::stdout());
        Ok(code == 0)
    }
}
