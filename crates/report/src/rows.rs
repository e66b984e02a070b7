//! Rows of any shape as text: a table for the terminal, JSON, comma-separated values. What they hold is
//! left to whoever asked the database.

use std::io;

use crate::text;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing is known.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// Text.
    Text(String),
}

/// Columns of the widest cell in a table; the other forms cut nothing.
const WIDEST: usize = 100;

/// Columns beside each other, numbers to the right and to nine digits, nothing where nothing is known.
#[must_use]
pub fn table(head: &[String], rows: &[Vec<Cell>]) -> String {
    let is_right = |column: usize| {
        let mut known = rows.iter().map(|row| &row[column]).filter(|cell| **cell != Cell::Null);
        let are_numbers = known.clone().all(|cell| !matches!(cell, Cell::Text(_)));
        are_numbers && known.next().is_some()
    };
    let right: Vec<bool> = (0..head.len()).map(is_right).collect();
    let head: Vec<String> = head.iter().map(|name| one_line(name)).collect();
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(&short(cell))).collect()).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = std::iter::once(&head).chain(&shown).map(|row| text::width(&row[column]));
            cells.max().unwrap_or(0)
        })
        .collect();
    let mut table = String::new();
    for row in std::iter::once(&head).chain(&shown) {
        let cells = row.iter().zip(&widths).zip(&right);
        let line: Vec<String> =
            cells.map(|((cell, width), right)| text::pad(cell, *width, *right)).collect();
        table.push_str(line.join("  ").trim_end());
        table.push('\n');
    }
    table
}

/// A list of objects, keys in the order of the columns; a name that comes again gets a number.
#[must_use]
pub fn json(head: &[String], rows: &[Vec<Cell>]) -> String {
    let mut keys: Vec<String> = Vec::new();
    for name in head {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let key = std::iter::once(name.clone()).chain(numbered).find(|key| !keys.contains(key));
        keys.extend(key);
    }
    let mut text = String::from("[");
    for (index, row) in rows.iter().enumerate() {
        text.push_str(if index == 0 { "\n  {" } else { ",\n  {" });
        for (column, (key, cell)) in keys.iter().zip(row).enumerate() {
            let value = match cell {
                Cell::Null => serde_json::Value::Null,
                Cell::Integer(integer) => (*integer).into(),
                Cell::Real(real) => (*real).into(),
                Cell::Text(text) => text.as_str().into(),
            };
            let comma = if column == 0 { "" } else { ", " };
            let key = serde_json::Value::from(key.as_str());
            text.push_str(&format!("{comma}{key}: {value}"));
        }
        text.push('}');
    }
    text.push_str(if rows.is_empty() { "]\n" } else { "\n]\n" });
    text
}

/// Comma-separated values with a head, an empty field where nothing is known.
///
/// # Errors
/// None that memory does not have.
pub fn csv(head: &[String], rows: &[Vec<Cell>]) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head)?;
    for row in rows {
        writer.write_record(row.iter().map(|cell| match cell {
            Cell::Null => String::new(),
            Cell::Integer(integer) => integer.to_string(),
            Cell::Real(real) => crate::exports::shortest(*real),
            Cell::Text(text) => text.clone(),
        }))?;
    }
    let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// A cell as a table shows it.
fn short(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(integer) => integer.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Real(real) if real.fract() == 0.0 && real.abs() < 1e15 => real.to_string(),
        Cell::Real(real) => {
            // Rounded where more digits than nine would be shown.
            let rounded: f64 = format!("{real:.8e}").parse().unwrap_or(*real);
            crate::exports::shortest(rounded)
        }
    }
}

fn one_line(cell: &str) -> String {
    let line: String = cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text::cut(&line, WIDEST, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> (Vec<String>, Vec<Vec<Cell>>) {
        let head = ["name", "n", "value", "n"].map(str::to_owned).to_vec();
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = vec![
            vec![text("a\nb"), Cell::Integer(5), Cell::Real(0.1 + 0.2), Cell::Null],
            vec![text("\"é\", c"), Cell::Integer(-17), Cell::Null, text("x")],
        ];
        (head, rows)
    }

    #[test]
    fn a_table_is_aligned_and_rounded() {
        let (head, rows) = rows();
        let expected = "name      n  value  n\na b       5    0.3\n\"é\", c  -17         x\n";
        assert_eq!(table(&head, &rows), expected);
        assert_eq!(table(&head, &[]), "name  n  value  n\n");
        let long = [vec![Cell::Text("y".repeat(500))]];
        let widest = table(&head[..1], &long).lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(WIDEST));
        for (real, shown) in
            [(1e18, "1e18"), (123_456_789_012.0, "123456789012"), (2.0 / 3.0, "0.666666667")]
        {
            assert_eq!(short(&Cell::Real(real)), shown);
        }
    }

    #[test]
    fn json_and_csv_cut_nothing() {
        let (head, rows) = rows();
        let parsed: serde_json::Value = serde_json::from_str(&json(&head, &rows)).unwrap();
        assert_eq!(parsed[0]["value"].as_f64(), Some(0.1 + 0.2));
        assert_eq!(parsed[0]["name"], "a\nb");
        assert_eq!(parsed[1]["n"], -17);
        assert_eq!(parsed[1]["n_2"], "x");
        assert_eq!(json(&head, &[]), "[]\n");
        let text = csv(&head, &rows).unwrap();
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(&records[0][2], "0.30000000000000004");
        assert_eq!(&records[1][0], "\"é\", c");
        assert_eq!(&records[1][2], "");
    }
}
