//! One table as an Apache Parquet file: typed columns, compressed with zstd, null where nothing is known.

use std::io;
use std::sync::Arc;

use fsdyno_model::report_data::ReportData;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::tables::{Kind, Table, Value};
use super::{ExportFormat, ExportOptions, Output};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "parquet",
    doc: "One table (--table) as an Apache Parquet file, for pandas, DuckDB and others",
    extensions: &["parquet"],
    is_text: false,
    is_file: true,
    is_picture: false,
    holds_several: true,
    has_tables: true,
    needs: |options| options.table.needs,
    write,
};

/// Rows that are kept in memory and written together.
const GROUP_ROWS: usize = 1 << 17;

fn write(runs: &[ReportData], options: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    let table = options.table;
    let level = ZstdLevel::default();
    let about = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(format!("fsdyno {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![about("table", table.name), about("doc", table.doc)]))
        .build();
    let schema = schema(table).map_err(io::Error::other)?;
    let writer = SerializedFileWriter::new(output, schema, Arc::new(properties));
    let mut writer = writer.map_err(io::Error::other)?;
    let mut columns: Vec<Column> = table.columns.iter().map(|it| Column::new(it.kind)).collect();
    let mut rows = 0;
    (table.rows)(runs, &mut |row| {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(*value);
        }
        rows += 1;
        if rows < GROUP_ROWS {
            return Ok(());
        }
        rows = 0;
        flush(&mut writer, &mut columns).map_err(io::Error::other)
    })?;
    if rows > 0 {
        flush(&mut writer, &mut columns).map_err(io::Error::other)?;
    }
    writer.close().map_err(io::Error::other)?;
    Ok(())
}

fn schema(table: &Table) -> Result<Arc<Type>, ParquetError> {
    let fields = table.columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Real => (PhysicalType::DOUBLE, None),
            Kind::Flag => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(column.name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL);
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<_, _>>()?;
    Type::group_type_builder(table.name).with_fields(fields).build().map(Arc::new)
}

/// Rows of one column that are not written yet.
struct Column {
    values: Values,
    /// 1 where there is a value, 0 where there is none.
    levels: Vec<i16>,
}

enum Values {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
}

impl Column {
    fn new(kind: Kind) -> Column {
        let values = match kind {
            Kind::Text => Values::Text(Vec::new()),
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Flag => Values::Flag(Vec::new()),
        };
        Column { values, levels: Vec::new() }
    }

    /// A value of another kind than the column's counts as absent; a test of the tables finds it.
    fn push(&mut self, value: Value<'_>) {
        let is_there = match (&mut self.values, value) {
            (Values::Text(values), Value::Text(text)) => {
                // Most cells repeat the one above: they share its memory.
                let above = values.last().filter(|above| above.data() == text.as_bytes());
                let cell = above.cloned().unwrap_or_else(|| ByteArray::from(text));
                values.push(cell);
                true
            }
            (Values::Integer(values), Value::Integer(value)) => {
                values.push(value);
                true
            }
            (Values::Real(values), Value::Real(value)) => {
                values.push(value);
                true
            }
            (Values::Flag(values), Value::Flag(value)) => {
                values.push(value);
                true
            }
            _ => false,
        };
        self.levels.push(i16::from(is_there));
    }
}

fn flush(
    writer: &mut SerializedFileWriter<Output<'_>>,
    columns: &mut [Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut own) = group.next_column()? else { break };
        let levels = Some(column.levels.as_slice());
        match &mut column.values {
            Values::Text(values) => {
                own.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Integer(values) => {
                own.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Real(values) => {
                own.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Flag(values) => {
                own.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        column.levels.clear();
        own.close()?;
    }
    group.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::exports::tables::{ALL, fixture};

    fn assert_field(field: &Field, value: Value<'_>) {
        match (field, value) {
            (Field::Null, Value::Null) => {}
            (Field::Str(field), Value::Text(text)) => assert_eq!(field, text),
            (Field::Long(field), Value::Integer(integer)) => assert_eq!(*field, integer),
            (Field::Double(field), Value::Real(real)) => {
                assert_eq!(field.to_bits(), real.to_bits());
            }
            (Field::Bool(field), Value::Flag(flag)) => assert_eq!(*field, flag),
            (field, value) => panic!("{field:?} is not {value:?}"),
        }
    }

    #[test]
    fn every_table_reads_back_as_it_was() {
        let runs = [fixture::run()];
        for table in ALL {
            let mut file = Vec::new();
            write(&runs, &ExportOptions { table, ..ExportOptions::default() }, &mut file).unwrap();
            let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
            let compression = reader.metadata().row_group(0).column(0).compression();
            assert!(matches!(compression, Compression::ZSTD(_)), "{compression:?}");
            let mut found = reader.get_row_iter(None).unwrap();
            (table.rows)(&runs, &mut |row| {
                let record = found.next().unwrap().unwrap();
                let fields: Vec<_> = record.get_column_iter().collect();
                assert_eq!(fields.len(), table.columns.len());
                for ((value, column), (name, field)) in row.iter().zip(table.columns).zip(fields) {
                    assert_eq!(name, column.name);
                    assert_field(field, *value);
                }
                Ok(())
            })
            .unwrap();
            assert!(found.next().is_none());
        }
    }

    #[test]
    fn groups_follow_each_other() {
        let runs = [fixture::run()];
        static LONG: Table = Table {
            rows: |_, sink| {
                (0..GROUP_ROWS as i64 + 3).try_for_each(|row| {
                    let value = if row % 2 == 0 { Value::Integer(row) } else { Value::Null };
                    sink(&[value])
                })
            },
            columns: &[tables::Column { name: "row", kind: Kind::Integer, doc: "" }],
            ..*ALL[0]
        };
        use super::super::tables;
        let mut file = Vec::new();
        write(&runs, &ExportOptions { table: &LONG, ..ExportOptions::default() }, &mut file)
            .unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap();
        assert_field(
            last.get_column_iter().next().unwrap().1,
            Value::Integer(GROUP_ROWS as i64 + 2),
        );
    }

    #[test]
    fn an_empty_table_is_a_file_all_the_same() {
        let mut file = Vec::new();
        write(&[], &ExportOptions::default(), &mut file).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}
