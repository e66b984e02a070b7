//! One table as comma-separated values (RFC 4180, line feeds): a head, an empty field where nothing is
//! known, numbers in the fewest digits that read back the same.

use std::io;

use fsdyno_model::report_data::ReportData;

use super::tables::Value;
use super::{ExportFormat, ExportOptions, Output, shortest};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "csv",
    doc: "One table (--table) as comma-separated values, by default a row for each figure of each trial",
    extensions: &["csv"],
    is_text: true,
    is_file: false,
    is_picture: false,
    holds_several: true,
    has_tables: true,
    needs: |options| options.table.needs,
    write,
};

fn write(runs: &[ReportData], options: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(output);
    let head = options.table.columns.iter().map(|column| column.name);
    writer.write_record(head).map_err(plain)?;
    (options.table.rows)(runs, &mut |row| {
        for value in row {
            writer.write_field(text(*value).as_bytes()).map_err(plain)?;
        }
        writer.write_record(None::<&[u8]>).map_err(plain)
    })?;
    writer.flush()
}

/// The error of the output itself, so that a reader that went away is told from others.
fn plain(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn text(value: Value<'_>) -> std::borrow::Cow<'_, str> {
    match value {
        Value::Null => "".into(),
        Value::Text(text) => text.into(),
        Value::Integer(integer) => integer.to_string().into(),
        Value::Flag(flag) => if flag { "true" } else { "false" }.into(),
        Value::Real(real) => shortest(real).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::tables::{self, ALL, fixture};

    #[test]
    fn every_table_reads_back_as_it_was() {
        let runs = [fixture::run()];
        for table in ALL {
            let mut bytes = Vec::new();
            write(&runs, &ExportOptions { table, ..ExportOptions::default() }, &mut bytes).unwrap();
            let mut reader = ::csv::Reader::from_reader(bytes.as_slice());
            let head: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(head, names);
            let mut records = reader.records();
            let mut count = 0;
            (table.rows)(&runs, &mut |row| {
                let record = records.next().unwrap().unwrap();
                count += 1;
                for (field, value) in record.iter().zip(row) {
                    match *value {
                        Value::Null => assert_eq!(field, ""),
                        Value::Text(text) => assert_eq!(field, text),
                        Value::Integer(integer) => assert_eq!(field.parse(), Ok(integer)),
                        Value::Flag(flag) => assert_eq!(field.parse(), Ok(flag)),
                        Value::Real(real) => {
                            assert_eq!(field.parse::<f64>().unwrap().to_bits(), real.to_bits());
                        }
                    }
                }
                Ok(())
            })
            .unwrap();
            assert!(records.next().is_none());
            assert!(count > 0, "{} is empty", table.name);
        }
        assert!(tables::find("results").is_some());
    }

    #[test]
    fn a_reader_that_goes_away_is_told_from_other_errors() {
        struct Gone;
        impl io::Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = write(&[fixture::run()], &ExportOptions::default(), &mut Gone).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn numbers_read_back_and_are_short() {
        for (real, expected) in
            [(0.1, "0.1"), (3.0, "3"), (0.0, "0"), (1e300, "1e300"), (-5e-324, "-5e-324")]
        {
            assert_eq!(text(Value::Real(real)), expected);
        }
        assert_eq!(text(Value::Real(1.0 / 3.0)).parse(), Ok(1.0 / 3.0));
    }
}
