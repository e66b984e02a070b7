//! How caches are emptied before a phase that should read from the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How caches are emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cold {
    /// The filesystem is unmounted and mounted again: nothing of it is left in memory.
    Remount,
    /// The page cache, the inodes and the directory entries of the whole machine are dropped.
    DropCaches,
    /// Nothing is done.
    None,
}

impl Cold {
    /// The words that a parameter takes.
    pub const WORDS: &'static [&'static str] = &["remount", "drop-caches", "none"];

    /// The word in parameters, records and results.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Cold::Remount => "remount",
            Cold::DropCaches => "drop-caches",
            Cold::None => "none",
        }
    }

    /// What `word` stands for.
    ///
    /// # Errors
    /// A sentence with the words that are known.
    pub fn parse(word: &str) -> Result<Cold, String> {
        [Cold::Remount, Cold::DropCaches, Cold::None]
            .into_iter()
            .find(|cold| cold.word() == word)
            .ok_or_else(|| format!("cold is one of {}, not `{word}`", Cold::WORDS.join(", ")))
    }
}

/// A phase that reads fewer bytes than this is not asked where they came from.
pub const PROVING_BYTES: u64 = 1 << 20;

/// What the device reads for each byte that a phase reads, below which the bytes came from memory. Not
/// zero, because metadata and read-ahead of others count; small, because compression takes some of it.
pub const FROM_MEMORY_SHARE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back() {
        for word in Cold::WORDS {
            let cold = Cold::parse(word).unwrap();
            assert_eq!(cold.word(), *word);
            assert_eq!(serde_json::to_string(&cold).unwrap(), format!("\"{word}\""));
        }
        assert!(Cold::parse("warm").unwrap_err().contains("remount"));
    }
}
