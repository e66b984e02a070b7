//! A persona: whose work a filesystem is chosen for, as workloads with weights. The TOML form is read here;
//! what the figures say is left to the analysis.

use serde::Deserialize;

/// Greatest weight of a workload.
const MAX_WEIGHT: u32 = 100;

/// Somebody who chooses a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    /// In a sentence: `a mail server`.
    pub title: String,
    /// What it asks of a filesystem.
    pub work: String,
    /// The workloads that stand for it.
    #[serde(rename = "workload")]
    pub parts: Vec<Part>,
}

/// One workload of a persona.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The workload as `--workload` takes it.
    pub spec: String,
    /// Its part of the whole, beside the weights of the others.
    pub weight: u32,
    /// What of the work it stands for.
    pub why: String,
}

impl Persona {
    /// Reads one.
    ///
    /// # Errors
    /// A sentence: no TOML, an unknown field, no workload, a weight outside of 1 to 100.
    pub fn parse(text: &str) -> Result<Persona, String> {
        let persona: Persona = toml::from_str(text).map_err(|error| error.to_string())?;
        if persona.parts.is_empty() {
            return Err("a persona has at least one [[workload]]".to_owned());
        }
        match persona.parts.iter().find(|part| !(1..=MAX_WEIGHT).contains(&part.weight)) {
            Some(part) => Err(format!(
                "the weight of {} is {}: give 1 to {MAX_WEIGHT}",
                part.spec, part.weight
            )),
            None => Ok(persona),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_persona_is_refused() {
        let head = "title = \"t\"\nwork = \"w\"\n";
        let part = |weight: &str| {
            format!("{head}[[workload]]\nspec = \"sqlite\"\nwhy = \"y\"\nweight = {weight}\n")
        };
        assert_eq!(Persona::parse(&part("2")).unwrap().parts[0].weight, 2);
        for (text, words) in [
            (head.to_owned(), "workload"),
            (format!("{head}workload = []"), "at least one"),
            (part("0"), "1 to 100"),
            (part("101"), "1 to 100"),
            (part("2\nwieght = 3"), "wieght"),
            ("=".to_owned(), ""),
        ] {
            let error = Persona::parse(&text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
