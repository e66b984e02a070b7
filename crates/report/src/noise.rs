//! How noisy a machine is, in the terminal. The figures are the analysis's.

use fsdyno_model::noise::{Noise, NoiseDifference, NoiseFigure, NoiseNeeded};
use fsdyno_model::units;

use crate::list;
use crate::note::time;
use crate::text;

/// The document as JSON, indented, with a newline at the end.
///
/// # Errors
/// Only when a value cannot be written as JSON, which no type of the document holds.
pub fn json(noise: &Noise) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(noise)? + "\n")
}

/// Tables and advice within `width` columns, with a newline at the end.
#[must_use]
pub fn render(noise: &Noise, width: usize, unicode: bool) -> String {
    let host = noise.hostname.as_ref().map_or(String::new(), |host| format!(" of {host}"));
    let head = format!(
        "Noise{host}: {} in {}, {} trials in {} blocks of two that are alike, {} each.",
        noise.target,
        noise.directory,
        noise.trials,
        noise.blocks,
        text::unbroken(&seconds(noise.trial_s))
    );
    let mut sections = vec![text::wrap(&head, width, "  ") + "\n"];
    let rows: Vec<Vec<String>> = noise.figures.iter().map(figure).collect();
    sections.push(list::columns(&["FIGURE", "MEDIAN", "VARIES", "LAG 1", "DRIFT"], &rows, width));
    let legend = "Varies: standard deviation over mean. Lag 1: correlation of each value with the next; near 1 noise lasts. Drift: end to beginning, where it is no chance.";
    sections.push(text::wrap(legend, width, "") + "\n");
    sections.push(needed(noise, width));
    let warnings = noise.warnings.iter().map(|warning| {
        let line = format!("warning: {}: {}", warning.message, warning.advice);
        text::wrap(&line, width, "  ") + "\n"
    });
    sections.push(warnings.collect());
    sections.retain(|section| !section.is_empty());
    text::plain(&sections.join("\n"), unicode)
}

fn figure(figure: &NoiseFigure) -> Vec<String> {
    let median = match figure.unit.as_str() {
        "ns" => time(figure.median),
        unit => format!("{} {unit}", rounded(figure.median)),
    };
    let is_trend = figure.drift_p.is_some_and(|p| p <= 0.01);
    vec![
        figure.title.clone(),
        median,
        figure.variation.map_or("–".to_owned(), |it| format!("{:.1} %", it * 100.0)),
        figure.autocorrelation.map_or("–".to_owned(), |it| format!("{it:.2}")),
        figure.drift.filter(|_| is_trend).map_or("–".to_owned(), |it| format!("{it:.2} ×")),
    ]
}

/// What the noise means for comparisons; a sentence where too few blocks tell nothing.
fn needed(noise: &Noise, width: usize) -> String {
    let Some(first) = noise.needed.first() else {
        return "Too few blocks completed to tell how many trials are needed.\n".to_owned();
    };
    let percents = first.differences.iter().map(|it| format!("{} %", it.percent));
    let head: Vec<String> =
        ["PHASE".to_owned(), "IN A BLOCK".to_owned()].into_iter().chain(percents).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = (noise.needed.iter())
        .map(|needed| {
            let own = [needed.phase.clone(), within_block(needed)];
            own.into_iter().chain(needed.differences.iter().map(trials)).collect()
        })
        .collect();
    let lead = "Trials of each target that tell such a difference in 4 of 5 runs: automatic (--max-trials)/fixed (--trials), and the time of two targets at most for the former, if trials are as short as these.";
    let trust = format!(
        "In a block: standard deviation of the ratio of two equal targets, from {} blocks [95 % interval]; the numbers of trials go with its square. Those of automatic trials are by their rule, simulated, with a --resolution finer than the difference.",
        noise.blocks
    );
    let [lead, trust] = [lead, trust.as_str()].map(|words| text::wrap(words, width, "") + "\n");
    format!("{lead}\n{}\n{trust}", list::columns(&head, &rows, width))
}

/// `5.0 % [3.3–10]`.
fn within_block(needed: &NoiseNeeded) -> String {
    let ends = match (needed.deviation_low, needed.deviation_high) {
        (Some(low), Some(high)) => format!(" [{:.1}–{:.0}]", low * 100.0, high * 100.0),
        _ => String::new(),
    };
    format!("{:.1} %{ends}", needed.deviation * 100.0)
}

/// `62/45, 4m 08s`.
fn trials(difference: &NoiseDifference) -> String {
    let number = |trials: Option<u32>, most: &str| {
        trials.map_or(format!(">{most}"), |trials| trials.to_string())
    };
    let auto = number(difference.trials_auto, "1000");
    let fixed = number(difference.trials_fixed, "100000");
    let time = difference.auto_s.map_or(String::new(), |auto_s| format!(", {}", seconds(auto_s)));
    format!("{auto}/{fixed}{time}")
}

fn seconds(seconds: f64) -> String {
    units::human_duration((seconds.max(0.0) * 1e9) as u64)
}

/// Three digits that tell, at least.
fn rounded(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        1.0..10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::record::Warning;

    use super::*;

    fn noise() -> Noise {
        let figure = |title: &str, unit: &str, median: f64, variation: f64| NoiseFigure {
            name: title.to_owned(),
            title: title.to_owned(),
            is_phase: unit != "ns",
            unit: unit.to_owned(),
            n: 17,
            median,
            variation: Some(variation),
            autocorrelation: Some(0.31),
            drift: Some(1.2),
            drift_p: Some(if unit == "ns" { 0.001 } else { 0.4 }),
        };
        let difference = |percent: f64, trials_auto: Option<u32>| NoiseDifference {
            percent,
            trials_auto,
            trials_fixed: Some(45),
            auto_s: trials_auto.map(|trials| f64::from(trials) * 4.0),
        };
        let differences =
            vec![difference(1.0, None), difference(3.0, Some(62)), difference(10.0, Some(5))];
        Noise {
            schema_version: 1,
            hostname: Some("bench".to_owned()),
            target: "ext4".to_owned(),
            directory: "/var/tmp".to_owned(),
            blocks: 8,
            trials: 16,
            trial_s: 2.0,
            figures: vec![
                figure("computing", "ns", 1.312, 0.006),
                figure("create", "files/s", 18_694.0, 0.042),
            ],
            needed: vec![NoiseNeeded {
                phase: "create".to_owned(),
                deviation: 0.05,
                deviation_low: Some(0.0331),
                deviation_high: Some(0.1018),
                differences,
            }],
            warnings: vec![Warning {
                code: "device-noisy".to_owned(),
                message: "flushing varies".to_owned(),
                advice: "wait".to_owned(),
            }],
        }
    }

    #[test]
    fn noise_is_told_within_the_width() {
        for width in [60, 80, 120] {
            let page = render(&noise(), width, true);
            assert!(page.lines().all(|line| text::width(line) <= width), "{width}:\n{page}");
        }
        let page = render(&noise(), 100, true);
        for words in [
            "Noise of bench: ext4 in /var/tmp, 16 trials in 8 blocks",
            "computing  1.31 ns        0.6 %   0.31   1.20 ×",
            "create     18694 files/s  4.2 %   0.31   –",
            "create  5.0 % [3.3–10]  >1000/45  62/45, 4m 08s  5/45, 20.0 s",
            "warning: flushing varies: wait",
        ] {
            assert!(page.contains(words), "{words}\n{page}");
        }
        let none = Noise { needed: Vec::new(), ..noise() };
        assert!(render(&none, 80, false).contains("Too few blocks"));
        assert!(render(&none, 80, false).is_ascii());
    }
}
