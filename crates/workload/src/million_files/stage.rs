//! The operations that a run consists of, and their words in the parameter `operations`. What each does
//! is in [`super::visit`].

use fsdyno_model::param::unknown;

/// One operation on all files; also the name of its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Makes and writes the files.
    Create,
    /// Lists the directory.
    List,
    /// Lists it and asks for the attributes of each file.
    Find,
    /// Reads the files in readdir order.
    ReadTar,
    /// Reads them in inode order, in batches.
    ReadAcp,
    /// Reads them in the order of their first extents, in batches.
    ReadPhysical,
    /// Removes the files.
    Delete,
}

impl Stage {
    /// All, in the order in which they are done.
    pub const ALL: [Stage; 7] = [
        Stage::Create,
        Stage::List,
        Stage::Find,
        Stage::ReadTar,
        Stage::ReadAcp,
        Stage::ReadPhysical,
        Stage::Delete,
    ];

    /// Its word, and the name of its phase.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Stage::Create => "create",
            Stage::List => "list",
            Stage::Find => "find",
            Stage::ReadTar => "read-tar",
            Stage::ReadAcp => "read-acp",
            Stage::ReadPhysical => "read-physical",
            Stage::Delete => "delete",
        }
    }

    /// Reads `create+find+delete`: words joined by `+`, in the order of [`Stage::ALL`], from create on.
    ///
    /// # Errors
    /// A sentence that says which word is wrong and what is accepted.
    pub fn parse_list(text: &str) -> Result<Vec<Stage>, String> {
        let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.word()).collect();
        let mut stages: Vec<Stage> = Vec::new();
        for word in text.split('+').map(str::trim) {
            let stage = Stage::ALL.into_iter().find(|stage| stage.word() == word);
            let stage = stage.ok_or_else(|| match word {
                "" => format!(
                    "operations are words joined by `+`, such as create+find+delete, not `{text}`"
                ),
                _ => unknown("operation", word, &words),
            })?;
            match stages.last() {
                None if stage != Stage::Create => {
                    return Err(format!("operations begin with create, not with {word}"));
                }
                Some(last) if *last >= stage => {
                    return Err(format!(
                        "operations: {word} cannot come after {}; the order is {}",
                        last.word(),
                        words.join("+")
                    ));
                }
                _ => stages.push(stage),
            }
        }
        Ok(stages)
    }

    /// For [`fsdyno_model::param::ParamDef::check`].
    ///
    /// # Errors
    /// As [`Stage::parse_list`].
    pub fn check(text: &str) -> Result<(), String> {
        Stage::parse_list(text).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let all = Stage::ALL.map(Stage::word).join("+");
        assert_eq!(Stage::parse_list(&all), Ok(Stage::ALL.to_vec()));
        assert_eq!(Stage::parse_list("create"), Ok(vec![Stage::Create]));
        let spaced = Stage::parse_list("create + read-acp +delete");
        assert_eq!(spaced, Ok(vec![Stage::Create, Stage::ReadAcp, Stage::Delete]));
    }

    #[test]
    fn wrong_lists_are_answered() {
        for (text, words) in [
            ("", "words joined by `+`"),
            ("create+", "words joined by `+`"),
            ("create,find", "operation"),
            ("create+read-tra", "did you mean `read-tar`"),
            ("find+delete", "begin with create"),
            ("create+delete+find", "find cannot come after delete; the order is create+list+find"),
            ("create+find+find", "find cannot come after find"),
        ] {
            let error = Stage::parse_list(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
