//! The table of a result as GitHub markdown, for a README or an issue.

use fsdyno_model::place::Clock;
use fsdyno_model::result::RunResult;

use crate::grid::{Cell, Grid, IntervalStyle, Mark};
use crate::note;
use crate::text;
use crate::then_and_now;

/// The whole result, with a newline at the end.
#[must_use]
pub fn render(result: &RunResult) -> String {
    let title = result.run.title.as_ref().map(|title| format!("## {}\n", escape(title)));
    let then_and_now = result.then_and_now.as_ref().map(then_and_now::markdown);
    let sections = title.into_iter().chain(sections(result)).chain(then_and_now);
    sections.chain(verdicts(result)).collect::<Vec<String>>().join("\n")
}

/// The whole result but for its title and what stands beside publications.
pub(crate) fn measured(result: &RunResult) -> String {
    sections(result).into_iter().chain(verdicts(result)).collect::<Vec<String>>().join("\n")
}

/// The tables and what is to be said of them.
fn sections(result: &RunResult) -> Vec<String> {
    let mut sections = Vec::new();
    let (mut uncertain, mut has_letters, mut has_why) = (false, false, false);
    let left_out = note::left_out(result);
    for workload in &result.workloads {
        if let Some(left_out) = left_out.iter().find(|it| it.holds(&workload.label)) {
            if left_out.begins_with(&workload.label) {
                sections.push(format!("{}\n", escape(&left_out.line())));
            }
            continue;
        }
        let grid = Grid::with_power_cuts(result, &workload.label);
        let explaining = Grid::explaining(result, &workload.label);
        let mut section = format!("### {}\n", escape(&note::heading(result, workload)));
        if grid.rows.is_empty() && explaining.is_empty() {
            section.push_str("\nNo trial completed.\n");
        }
        let grids = std::iter::once(&grid).chain(&explaining).filter(|grid| !grid.rows.is_empty());
        section.extend(grids.map(|grid| table(result, grid)));
        uncertain |= grid.is_uncertain();
        has_letters |= grid.has_letters();
        has_why |= !explaining.is_empty();
        if let Some(memory) = note::from_memory(result, &workload.label) {
            section.push_str(&format!("\n{}\n", escape(&memory)));
        }
        let incomplete = note::incomplete(result, &workload.label);
        if !incomplete.is_empty() {
            section.push('\n');
            section.extend(incomplete.iter().map(|note| format!("- {}\n", escape(note))));
        }
        sections.push(section);
    }
    let headline = note::headline(result).replace(text::NO_BREAK, " ");
    sections.push(format!("{}\n\n{}\n", legend(result, has_letters, uncertain), escape(&headline)));
    sections.extend(has_why.then(|| format!("{}\n", note::WHY)));
    sections.extend(note::power_cuts(result).map(|cuts| escape(&cuts) + "\n"));
    sections.extend(note::ages(result).map(|ages| escape(&ages) + "\n"));
    sections.extend(note::harness(result).map(|harness| harness + "\n"));
    let machine = note::machine(result).map(|note| note.replace(text::NO_BREAK, " "));
    sections.extend(machine.map(|note| escape(&note) + "\n"));
    let traces = note::traces(result).map(|note| note.replace(text::NO_BREAK, " "));
    sections.extend(traces.map(|note| note + "\n"));
    let warnings: String = note::warnings(result)
        .iter()
        .map(|warning| format!("- Warning: {}\n", escape(warning)))
        .collect();
    sections.push(warnings);
    sections.retain(|section| !section.is_empty());
    sections
}

fn verdicts(result: &RunResult) -> Vec<String> {
    let said = note::verdicts(result).into_iter();
    said.map(|(lead, words)| format!("**{}** {}\n", escape(&lead), escape(&words))).collect()
}

fn table(result: &RunResult, grid: &Grid) -> String {
    let labels: Vec<String> = result.targets.iter().map(|target| escape(&target.label)).collect();
    let mut text = format!("\n| {} | unit | {} |\n", escape(&grid.head), labels.join(" | "));
    text.push_str(&format!("|---|---|{}\n", "--:|".repeat(labels.len())));
    for row in &grid.rows {
        let cells: Vec<String> = row.cells.iter().map(|c| cell(c.as_ref())).collect();
        text.push_str(&format!(
            "| {} | {} | {} |\n",
            escape(&row.name),
            row.unit,
            cells.join(" | ")
        ));
    }
    text
}

fn cell(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "–".to_owned();
    };
    let value = match cell.mark {
        Mark::Best => format!("**{}**", cell.value),
        Mark::Tied => format!("~ {}", cell.value),
        Mark::None => cell.value.clone(),
    };
    let parts = [&value, cell.interval(IntervalStyle::Full), &cell.letters];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn legend(result: &RunResult, has_letters: bool, uncertain: bool) -> String {
    let several = result.targets.len() > 1;
    let marks = if several {
        "Bold: best of its row; ~: not told apart from the best (paired by trial, at 5 % for the row)."
    } else {
        ""
    };
    let intervals = match result.run.environment.measured.clock {
        _ if result.run.trials > 1 => "Median [95 % interval].",
        Clock::Virtual => note::EXACT,
        Clock::Real => "One trial each.",
    };
    let uncertain = if uncertain { note::UNCERTAIN } else { "" };
    let letters = if has_letters { note::LETTERS } else { "" };
    let sentences = [marks, intervals, letters, uncertain];
    let sentences: Vec<&str> = sentences.into_iter().filter(|it| !it.is_empty()).collect();
    sentences.join(" ")
}

/// `text` with the characters that mean something to markdown taken literally.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '\\' | '[' | ']' | '<' | '>' | '~') {
            escaped.push('\\');
        }
        escaped.push(if c == '\n' { ' ' } else { c });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_result_as_markdown() {
        insta::assert_snapshot!(render(&fixture::with_failures()), @r"
### compilebench

| phase | unit | ext4 | xfs | btrfs |
|---|---|--:|--:|--:|
| initial-create | MiB/s | **122** [119–125] | ~ 117 [98–138] | – |
| create | MiB/s | ~ 105 [101–108] | **114** [98–132] | – |
| patch | MiB/s | **68.3** [66.9–70.1] | ~ 62.5 [61.2–63.9] | – |
| compile | MiB/s | ~ 482 [477–488] | **500** [479–521] | – |
| clean | MiB/s | **5572** [5533–5626] | 4192 [4115–4271] | – |
| read | MiB/s | **91.5** [91.0–92.1] | ~ 91.1 [84.1–98.8] | – |
| read-compiled | MiB/s | ~ 218 [214–220] | **219** [179–267] | – |
| delete | ms/tree | **614** [601–630] | 863 [708–1053] | – |
| delete-compiled | ms/tree | **846** [823–869] | 1279 [1170–1398] | – |
| stat | ms/tree | **342** [334–352] | ~ 371 [354–390] | – |
| stat-compiled | ms/tree | **410** [396–433] | ~ 459 [395–532] | – |
| fsck | ms | **714** [700–724] | 964 [944–984] | – |

- xfs: 2 of 3 trials completed; failed in create: cannot write kernel-3/fs/xfs/xfs\_aops.c: no space left on device; give a larger --size
- btrfs: 0 of 3 trials completed; skipped: mkfs.btrfs is not installed; install btrfs-progs

Bold: best of its row; ~: not told apart from the best (paired by trial, at 5 % for the row). Median [95 % interval].

run 20260102-030405 · 3 targets × 3 trials · images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 · host bench, Linux 6.18.44

The harness itself takes 184 ns per operation, measured on a target that does nothing.

- Warning: caches were not dropped before reading (6 of 9 trials): run as root.

**Verdict:** ext4 was fastest over all 11 phases by the geometric mean: 1.12 × as fast as xfs (95 % interval 1.06–1.18). xfs completed 2 of 3 trials (failed in create, see the notes). Left out: btrfs (skipped, see the notes).
");
    }

    #[test]
    fn what_explains_is_a_table_of_its_own() {
        let page = render(&fixture::with_explanations());
        let (_, page) = page.split_once("| fsck |").unwrap();
        insta::assert_snapshot!(page, @r"
 ms | **714** [700–724] a | 966 [957–975] b | 2866 [2831–2893] c |

| why: fragmentation | unit | ext4 | xfs | btrfs |
|---|---|--:|--:|--:|
| extents\_per\_file | extents/file | 3.0 | 15.0 | 1348 |
| extents\_per\_file\_p99 | extents/file | 3 | 15 | 1349 |
| fragmented\_share | share | 0.002 | 0.007 | 0.674 |
| free\_extent\_largest\_mib | MiB | 2890 | 2890 | 2890 |

| why: layout | unit | ext4 | xfs | btrfs |
|---|---|--:|--:|--:|
| readdir\_inode\_correlation | correlation | 0.002 | 0.999 | -0.504 |

Read from memory, not from the device: read (ext4, xfs, btrfs); read-compiled (ext4).

Bold: best of its row; ~: not told apart from the best (paired by trial, at 5 % for the row). Median [95 % interval]. Figures of a row that share a letter are not told apart.

run 20260102-030405 · 3 targets × 3 trials · images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 · host bench, Linux 6.18.44

Why: how files and free space lie on the device (medians); `fsdyno list metrics` explains each.

The harness itself takes 184 ns per operation, measured on a target that does nothing.

**Verdict:** ext4 was fastest over all 11 phases by the geometric mean: 1.13 × as fast as xfs (95 % interval 1.11–1.14), 1.36 × btrfs (1.35–1.38). xfs won create; btrfs won stat and stat-compiled.
");
    }

    #[test]
    fn labels_are_taken_literally() {
        assert_eq!(escape("a|b*c_d`e"), r"a\|b\*c\_d\`e");
    }
}
