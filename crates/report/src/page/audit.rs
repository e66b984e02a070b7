//! The section on fairness: the audit of each workload and the answered checklists. What is judged, and
//! how, is decided by the analysis.

use fsdyno_analysis::checklist;
use fsdyno_model::audit::Fairness;
use fsdyno_model::result::RunResult;

use super::view::Table;
use crate::audit::{sorted, values};

/// The audit of one workload.
pub struct AuditView {
    pub workload: String,
    /// The verdict in words; empty where nothing was compared.
    pub verdict: String,
    /// Class of the verdict: `unfair` where targets are not comparable, else empty.
    pub class: &'static str,
    /// Why, fact by fact.
    pub reasons: Vec<String>,
    pub table: Table,
}

/// The audits of all workloads of which something was measured.
pub fn audits(result: &RunResult) -> Vec<AuditView> {
    let measured = result.audit.workloads.iter().filter(|own| !own.rows.is_empty());
    let views = measured.map(|own| {
        let rows = sorted(result, own);
        let cells = rows.iter().map(|row| {
            let judged = row.judgement.word().to_owned();
            (row.title.clone(), vec![row.status.word().to_owned(), judged, values(row)])
        });
        AuditView {
            workload: own.workload.clone(),
            verdict: own.text.clone(),
            class: match own.fairness {
                Some(Fairness::NotComparable) => "unfair",
                _ => "",
            },
            reasons: rows
                .iter()
                .filter(|row| !row.sentence.is_empty())
                .map(|row| row.sentence.clone())
                .collect(),
            table: Table {
                caption: format!("{}: conditions of the targets", own.workload),
                head: ["fact", "is", "judged", "values"].map(str::to_owned).to_vec(),
                rows: cells.collect(),
            },
        }
    });
    views.collect()
}

/// The published checklists, answered.
pub fn checklist(result: &RunResult) -> Table {
    let rows = checklist::answers(result).into_iter();
    Table {
        caption: "Published checklists for filesystem benchmarks, answered from the records"
            .to_owned(),
        head: ["question", "asked by", "answer"].map(str::to_owned).to_vec(),
        rows: rows.map(|it| (it.question, vec![it.source, it.answer])).collect(),
    }
}
