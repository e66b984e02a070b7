//! What is said of power cuts beside speed.

use fsdyno_model::power_cuts::{BrokenPromise, TargetPowerCuts};
use fsdyno_model::result::RunResult;
use fsdyno_model::words::listed;

/// What tests of power cuts found on each target, and which were not tested. `None` where none was.
pub fn power_cuts(result: &RunResult) -> Option<String> {
    if result.power_cuts.is_empty() {
        return None;
    }
    let tested = result.power_cuts.iter().filter(|own| own.cuts > 0);
    let mut told: Vec<String> =
        tested.map(|own| format!("{} {}", own.target, sentence(own))).collect();
    told.extend(untested(result.power_cuts.iter()));
    Some(format!("Power cuts: {}.", told.join("; ")))
}

/// `kept all promises in 200 of 200 power cuts (2026-01-02)`, or the first promise that was broken with the
/// call that made it and the command that shows it again.
pub fn sentence(own: &TargetPowerCuts) -> String {
    let mut about: Vec<String> = Vec::new();
    if own.tests > 1 {
        about.push(format!("{} tests", own.tests));
    }
    about.extend(own.finished.as_ref().map(|when| when.chars().take(10).collect()));
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let (kept, cuts) = (own.kept, own.cuts);
    if !own.is_broken() {
        return format!("kept all promises in {kept} of {cuts} power cuts{about}");
    }
    let first = own.first_broken.as_ref().map(broken).unwrap_or_default();
    format!("broke promises in {} of {cuts} power cuts{about}{first}", cuts - kept)
}

fn broken(first: &BrokenPromise) -> String {
    let mut text = format!(", first: {}: {}", first.promise, first.what);
    if let Some(call) = &first.call {
        text.push_str(&format!(", promised by {call}"));
    }
    if let Some(again) = &first.again {
        text.push_str(&format!(", again: {again}"));
    }
    text
}

/// The targets without a test on the kernel of the run, with what tests them. `None` where there are none.
pub fn untested<'a>(all: impl Iterator<Item = &'a TargetPowerCuts>) -> Option<String> {
    let untested: Vec<&TargetPowerCuts> = all.filter(|own| own.cuts == 0).collect();
    let first = untested.first()?;
    let mut kernels: Vec<&str> = Vec::new();
    for kernel in untested.iter().flat_map(|own| &own.other_kernels) {
        if !kernels.contains(&kernel.as_str()) {
            kernels.push(kernel);
        }
    }
    let kernels = match kernels.as_slice() {
        [] => String::new(),
        kernels => format!(" on this kernel, only on {}", listed(kernels)),
    };
    let names: Vec<&str> = untested.iter().map(|own| own.target.as_str()).collect();
    let mut words: Vec<&str> = vec![&first.command];
    for own in &untested[1..] {
        let target = own.command.trim_start_matches(COMMAND);
        if !words.iter().any(|word| word.trim_start_matches(COMMAND) == target) {
            words.push(target);
        }
    }
    Some(format!("{} not tested{kernels} ({})", listed(&names), words.join(" ")))
}

/// How the command begins.
const COMMAND: &str = "fsdyno durability ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, markdown, table};

    fn own(target: &str, kept: u64, cuts: u64) -> TargetPowerCuts {
        let broken = BrokenPromise {
            promise: "durable data stay".to_owned(),
            what: "w0a/f3 holds zeros at byte 16".to_owned(),
            call: Some("call 7: fsync w0a/f3".to_owned()),
            cut: 17,
            recording: Some("/var/cuts/1".to_owned()),
            again: Some("fsdyno durability --replay /var/cuts/1 --only 17".to_owned()),
        };
        TargetPowerCuts {
            target: target.to_owned(),
            cuts,
            kept,
            tests: if cuts > 200 { 2 } else { u32::from(cuts > 0) },
            finished: (cuts > 0).then(|| "2026-01-02T03:04:05.000Z".to_owned()),
            first_broken: (kept < cuts).then_some(broken),
            other_kernels: Vec::new(),
            command: format!("fsdyno durability {target}"),
        }
    }

    fn tested() -> RunResult {
        let mut result = fixture::three_targets();
        result.power_cuts = vec![own("ext4", 400, 400), own("xfs", 198, 200), own("btrfs", 0, 0)];
        result
    }

    #[test]
    fn power_cuts_stand_beside_speed() {
        let result = tested();
        assert_eq!(
            power_cuts(&result).unwrap(),
            "Power cuts: ext4 kept all promises in 400 of 400 power cuts (2 tests, 2026-01-02); xfs broke \
             promises in 2 of 200 power cuts (2026-01-02), first: durable data stay: w0a/f3 holds zeros at byte \
             16, promised by call 7: fsync w0a/f3, again: fsdyno durability --replay /var/cuts/1 --only 17; \
             btrfs not tested (fsdyno durability btrfs)."
        );
        let page = markdown::render(&result);
        assert!(page.contains("| power cuts | kept | 400/400 | 198/200! | – |"), "{page}");
        let options = table::TableOptions { width: 100, color: false, unicode: true };
        let text = table::render(&result, options);
        let row = text.lines().find(|line| line.starts_with("power cuts")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["power", "cuts", "kept", "400/400", "198/200!", "–"]);
        assert_eq!(power_cuts(&fixture::three_targets()), None);
    }

    #[test]
    fn kernels_of_other_tests_are_told() {
        let mut all = [own("xfs", 0, 0), own("btrfs", 0, 0), own("xfs", 0, 0)];
        all[0].other_kernels = vec!["6.1.0".to_owned()];
        assert_eq!(
            untested(all.iter()).unwrap(),
            "xfs, btrfs and xfs not tested on this kernel, only on 6.1.0 (fsdyno durability xfs btrfs)"
        );
        assert_eq!(untested([own("xfs", 1, 1)].iter()), None);
    }
}
