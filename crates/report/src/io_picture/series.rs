//! Every figure of traces: CSV with one value in each row, and JSON.

use fsdyno_model::io_graph::IoGraph;
use serde::Serialize;

/// Version of the JSON document: fields may be added within a version, never changed.
pub const JSON_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    graphs: &'a [&'a IoGraph],
}

/// The graphs as JSON: `{"schema_version": 1, "graphs": […]}`, each as [`IoGraph`] is written.
///
/// # Errors
/// Only when a value cannot be written as JSON, which no type of the document holds.
pub fn json(graphs: &[&IoGraph]) -> serde_json::Result<String> {
    let document = Document { schema_version: JSON_VERSION, graphs };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Every series of every graph as CSV: `trace,time_s,series,unit,value`, one row for each value that
/// there is; `time_s` is the begin of the bin after the left end of the axis.
///
/// # Errors
/// None that is known: it is written into memory.
pub fn csv(graphs: &[&IoGraph]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["trace", "time_s", "series", "unit", "value"])?;
    for graph in graphs {
        for series in &graph.series {
            let values = series.values.iter().enumerate();
            for (bin, value) in values.filter_map(|(bin, value)| Some((bin, (*value)?))) {
                let time_s = bin as f64 * graph.bin_ns as f64 / 1e9;
                writer.write_record([
                    &graph.label,
                    &format!("{time_s:.9}"),
                    &series.name,
                    &series.unit,
                    &value.to_string(),
                ])?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
