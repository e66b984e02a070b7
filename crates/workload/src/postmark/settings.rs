//! The parameters of the workload `postmark`, read and checked against each other.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;

use super::pieces::Chunking;
use super::sequence::{BIAS_OF, SequenceConfig};
use crate::payload::mix;

/// Word for a seed that is that of the trial.
pub const SEED_OF_TRIAL: &str = "trial";
/// Word for a bias that turns its half of the transactions off.
pub const BIAS_OFF: &str = "off";
/// Greatest seed: the original keeps it in a C `int`.
pub const GREATEST_SEED: u32 = i32::MAX as u32;
/// Below this the original divides by zero.
const LEAST_TRANSACTIONS: u32 = 10;

/// The parameters of a run, read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the first pool of files does; the others differ in the seed.
    pub sequence: SequenceConfig,
    /// Pools of files, each worked on by a thread of its own.
    pub pools: u32,
    /// Whether the rules are those of the original.
    pub is_original: bool,
    /// Whether files are opened as C's standard input and output does, and moved through its buffer.
    pub is_buffered: bool,
    /// Sizes of the calls that read.
    pub reading: Chunking,
    /// Sizes of the calls that write.
    pub writing: Chunking,
    /// Whether phases end with syncfs.
    pub sync: bool,
    /// What precedes the transactions and the deletion.
    pub cold: Cold,
    /// What is written.
    pub payload: Payload,
}

impl Settings {
    /// Reads the parameters; `trial_seed` is that of the trial.
    ///
    /// # Errors
    /// A sentence: parameters that do not go together.
    pub fn new(params: &Params, trial_seed: u64) -> Result<Settings, String> {
        let small = |name: &str| {
            u32::try_from(params.number(name)).map_err(|_| format!("{name} is too large"))
        };
        let (size_low, size_high) = (small("size_low")?, small("size_high")?);
        if size_low > size_high {
            return Err(format!(
                "size_low={size_low} is more than size_high={size_high}: swap them"
            ));
        }
        let (number, transactions) = (small("number")?, small("transactions")?);
        if number.saturating_add(transactions) > GREATEST_SEED {
            return Err(format!(
                "number={number} and transactions={transactions} make more than {GREATEST_SEED} \
                 files: use fewer transactions"
            ));
        }
        let is_original = params.text("mode") == "original";
        if is_original && transactions < LEAST_TRANSACTIONS {
            return Err(format!(
                "transactions={transactions}: the original divides by zero below \
                 {LEAST_TRANSACTIONS}; use more, or mode=corrected"
            ));
        }
        let bias = |name| read_bias(name, params.text(name));
        let (bias_read, bias_create) = (bias("bias_read")?, bias("bias_create")?);
        if bias_read.is_none() && bias_create.is_none() && transactions > 0 {
            return Err(format!(
                "bias_read={BIAS_OFF} with bias_create={BIAS_OFF}: transactions would do nothing; use \
                 one of them, or transactions=0"
            ));
        }
        let is_buffered = params.flag("buffered");
        let seed = match read_seed(params.text("seed"))? {
            Some(seed) => seed,
            None => (mix(trial_seed) % u64::from(GREATEST_SEED)) as u32 + 1,
        };
        Ok(Settings {
            sequence: SequenceConfig {
                seed,
                number,
                transactions,
                subdirectories: small("subdirectories")?,
                size_low,
                size_high,
                bias_read,
                bias_create,
            },
            pools: small("numjobs")?,
            is_original,
            is_buffered,
            reading: Chunking::new(params.number("read_block"), is_buffered),
            writing: Chunking::new(params.number("write_block"), is_buffered),
            sync: params.flag("sync") && !is_original,
            cold: Cold::parse(params.text("cold"))?,
            payload: Payload::parse(params.text("payload"))?,
        })
    }

    /// What the pool `pool_index` does.
    #[must_use]
    pub fn sequence_of(&self, pool_index: u32) -> SequenceConfig {
        SequenceConfig { seed: self.sequence.seed.wrapping_add(pool_index), ..self.sequence }
    }

    /// What the names of the files of a pool begin with: nothing where there is one pool only.
    #[must_use]
    pub fn prefix_of(&self, pool_index: u32) -> String {
        if self.pools == 1 { String::new() } else { format!("pool{pool_index}/") }
    }
}

/// A number of digits only; `parse` alone would accept a sign.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The seed; `None` for that of the trial.
fn read_seed(text: &str) -> Result<Option<u32>, String> {
    if text == SEED_OF_TRIAL {
        return Ok(None);
    }
    let seed = digits(text).filter(|seed| (1..=GREATEST_SEED).contains(seed));
    seed.map(Some).ok_or_else(|| {
        format!("seed is a number from 1 to {GREATEST_SEED} or {SEED_OF_TRIAL}, not `{text}`")
    })
}

/// The bias called `name`; `None` where it is off.
fn read_bias(name: &str, text: &str) -> Result<Option<u32>, String> {
    if [BIAS_OFF, "-1"].contains(&text) {
        return Ok(None);
    }
    let bias = digits(text).filter(|bias| *bias <= BIAS_OF);
    bias.map(Some).ok_or_else(|| {
        format!("{name} is a number from 0 to {BIAS_OF} or {BIAS_OFF}, not `{text}`")
    })
}

/// For the definition of the parameter.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn check_seed(text: &str) -> Result<(), String> {
    read_seed(text).map(drop)
}

/// For the definition of the parameter `bias_read`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn check_bias_read(text: &str) -> Result<(), String> {
    read_bias("bias_read", text).map(drop)
}

/// For the definition of the parameter `bias_create`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn check_bias_create(text: &str) -> Result<(), String> {
    read_bias("bias_create", text).map(drop)
}
