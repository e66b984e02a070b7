//! The TOML form of a workload: its documentation, its parameters, and the [`Definition`] that the
//! parameters make of it.

use fsdyno_model::diagnostic::Diagnostic;
use fsdyno_model::info::WorkloadInfo;
use fsdyno_model::param::Params;

use crate::engine::definition::Definition;

/// A workload that a text defines.
#[derive(Debug)]
pub struct DataWorkload {
    /// What is known of it.
    pub info: WorkloadInfo,
    /// The text.
    pub text: String,
}

impl DataWorkload {
    /// Reads a text; what it says is checked with the default parameters and with those of `--quick`.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text.
    pub fn parse(text: &str) -> Result<DataWorkload, Vec<Diagnostic>> {
        let _ = text;
        Err(vec![Diagnostic { message: "not read yet".to_owned(), span: None }])
    }

    /// The same for the rest of the life of this process; a text that was read before is not kept twice.
    ///
    /// # Errors
    /// As [`DataWorkload::parse`].
    pub fn load(text: &str) -> Result<&'static DataWorkload, Vec<Diagnostic>> {
        DataWorkload::parse(text).map(|workload| &*Box::leak(Box::new(workload)))
    }

    /// What it is with these parameters.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn definition(&self, params: &Params) -> Result<Definition, Vec<Diagnostic>> {
        let _ = params;
        Err(Vec::new())
    }

    /// Upper estimate of what is on the target at once, in bytes, as
    /// [`crate::catalog::WorkloadDef::peak_bytes`]; `None` where none can be made.
    ///
    /// # Errors
    /// As [`DataWorkload::definition`], as one sentence.
    pub fn peak_bytes(&self, params: &Params) -> Result<Option<u64>, String> {
        let _ = params;
        Ok(None)
    }
}
