//! What the catalogues of workloads and filesystems tell about their entries, as plain data: enough
//! to check a plan and to print documentation, without the code behind it.

use crate::param::ParamDef;

/// Documentation of a workload, always these five points.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadDoc {
    /// What lies between the clock's start and stop.
    pub timed: &'static str,
    /// What is done but never counted.
    pub not_timed: &'static str,
    /// The real program that it stands for.
    pub models: &'static str,
    /// What a difference between two filesystems means.
    pub read_it_as: &'static str,
    /// Where it misleads.
    pub caveats: &'static str,
}

/// One phase that a workload may record.
#[derive(Debug, Clone, Copy)]
pub struct PhaseInfo {
    /// Name, kebab-case; a key in stored results, never renamed.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

/// What is known of a workload without running it.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadInfo {
    /// Name, kebab-case; a key in stored results, never renamed.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The five points.
    pub doc: WorkloadDoc,
    /// For a classic: what the original does, and what `mode=corrected` does instead.
    pub differences: &'static [(&'static str, &'static str)],
    /// Its parameters.
    pub params: &'static [ParamDef],
    /// The phases that it may record, in the order in which tables show them.
    pub phases: &'static [PhaseInfo],
}

/// What is known of a filesystem without asking the kernel.
#[derive(Debug, Clone, Copy)]
pub struct FilesystemInfo {
    /// Name as users and `mount -t` write it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What its journal on another device is called (`log`, `journal`), where it can have one.
    pub external_journal: Option<&'static str>,
}

/// The names that a target, a workload or a plan may use.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// The catalogue of workloads.
    pub workloads: &'a [&'static WorkloadInfo],
    /// The catalogue of filesystems.
    pub filesystems: &'a [&'static FilesystemInfo],
    /// Reads the file of the user's that defines a workload. The error is ready to be shown; it may
    /// have several lines.
    pub load_workload: fn(path: &str) -> Result<LoadedWorkload, String>,
}

/// A workload that a file of the user's defines.
#[derive(Debug, Clone)]
pub struct LoadedWorkload {
    /// What is known of it.
    pub info: &'static WorkloadInfo,
    /// The text of the file.
    pub definition: String,
}

/// For [`Names::load_workload`] where files have no meaning.
///
/// # Errors
/// Always.
pub fn no_files(path: &str) -> Result<LoadedWorkload, String> {
    Err(format!("`{path}`: workloads are not read from files here"))
}

impl Names<'_> {
    /// The workload called `name`.
    ///
    /// # Errors
    /// A sentence with the nearest name.
    pub fn workload(&self, name: &str) -> Result<&'static WorkloadInfo, String> {
        self.workloads.iter().copied().find(|info| info.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.workloads.iter().map(|info| info.name).collect();
            crate::param::unknown("workload", name, &known)
        })
    }

    /// The workload called `name`, or the one that the file `name` defines where that ends in `.toml`,
    /// with the text of that file.
    ///
    /// # Errors
    /// As [`Names::workload`]; what is wrong with the file.
    pub fn workload_or_file(
        &self,
        name: &str,
    ) -> Result<(&'static WorkloadInfo, Option<String>), String> {
        if !name.ends_with(".toml") {
            return Ok((self.workload(name)?, None));
        }
        let LoadedWorkload { info, definition } = (self.load_workload)(name)?;
        Ok((info, Some(definition)))
    }

    /// The filesystem called `name`.
    ///
    /// # Errors
    /// A sentence with the nearest name.
    pub fn filesystem(&self, name: &str) -> Result<&'static FilesystemInfo, String> {
        self.filesystems.iter().copied().find(|info| info.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.filesystems.iter().map(|info| info.name).collect();
            crate::param::unknown("filesystem", name, &known)
        })
    }
}
