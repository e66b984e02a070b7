//! The section that puts published figures beside those of the run.

use fsdyno_model::then_and_now::ThenAndNow;

use super::view::Table;
use crate::then_and_now::{Rows, figures, findings, lead, pairs, remarks};

/// The section.
pub struct ThenAndNowView {
    pub lead: String,
    pub findings: Vec<String>,
    pub figures: Table,
    pub pairs: Table,
    pub remarks: Vec<String>,
}

/// What is shown of it.
pub fn view(it: &ThenAndNow) -> ThenAndNowView {
    ThenAndNowView {
        lead: lead(it),
        findings: findings(it),
        figures: table(figures(it)),
        pairs: table(pairs(it)),
        remarks: remarks(it),
    }
}

fn table(rows: Rows) -> Table {
    let split = |mut row: Vec<String>| {
        let rest = row.split_off(1);
        (row.remove(0), rest)
    };
    Table {
        caption: rows.caption.to_owned(),
        head: rows.head,
        rows: rows.rows.into_iter().map(split).collect(),
    }
}
