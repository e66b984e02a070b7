//! The list of metrics: name, unit, which way is better, and how each is read off a phase record.
//! A new metric is one row here.

use crate::record::PhaseRecord;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better: throughput, operations per second.
    Higher,
    /// Less is better: seconds, write amplification.
    Lower,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name; a key in stored results, never renamed.
    pub name: &'static str,
    /// Unit as tables show it; empty for a ratio.
    pub unit: &'static str,
    /// Which way is better; `None` where neither is.
    pub better: Option<Better>,
    /// One sentence for `fsdyno list metrics`.
    pub doc: &'static str,
    /// The value for one phase of one trial; `None` when the record does not tell.
    pub read: fn(&PhaseRecord) -> Option<f64>,
}

const NS_PER_S: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

/// Time until durable where it is known, else until return.
fn elapsed_ns(phase: &PhaseRecord) -> u64 {
    phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns)
}

fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    (denominator > 0.0).then_some(numerator / denominator)
}

fn seconds(nanoseconds: Option<u64>) -> Option<f64> {
    nanoseconds.map(|ns| ns as f64 / NS_PER_S)
}

fn throughput(bytes: u64, elapsed_ns: u64) -> Option<f64> {
    if bytes == 0 {
        return None;
    }
    ratio(bytes as f64 / MIB, elapsed_ns as f64 / NS_PER_S)
}

/// Unweighted mean of a value over the samples that have it.
fn sample_mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut sum = 0.0;
    let mut count = 0u32;
    for value in values.flatten() {
        sum += value;
        count += 1;
    }
    ratio(sum, f64::from(count))
}

/// The list.
pub static ALL: &[Metric] = &[
    Metric {
        name: "throughput_mib_per_s",
        unit: "MiB/s",
        better: Some(Better::Higher),
        doc: "bytes read or written by the application, per second until durable (until return where nothing is made durable)",
        read: |phase| throughput(phase.bytes, elapsed_ns(phase)),
    },
    Metric {
        name: "return_throughput_mib_per_s",
        unit: "MiB/s",
        better: Some(Better::Higher),
        doc: "bytes read or written by the application, per second until the last operation returned",
        read: |phase| throughput(phase.bytes, phase.elapsed_return_ns),
    },
    Metric {
        name: "sample_mean_throughput_mib_per_s",
        unit: "MiB/s",
        better: Some(Better::Higher),
        doc: "unweighted mean of the throughputs of the samples, as compilebench prints it",
        read: |phase| {
            sample_mean(phase.samples.iter().map(|sample| {
                throughput(
                    sample.bytes,
                    sample.elapsed_durable_ns.unwrap_or(sample.elapsed_return_ns),
                )
            }))
        },
    },
    Metric {
        name: "elapsed_s",
        unit: "s",
        better: Some(Better::Lower),
        doc: "duration of the phase until durable (until return where nothing is made durable)",
        read: |phase| seconds(Some(elapsed_ns(phase))),
    },
    Metric {
        name: "return_elapsed_s",
        unit: "s",
        better: Some(Better::Lower),
        doc: "duration of the phase until the last operation returned",
        read: |phase| seconds(Some(phase.elapsed_return_ns)),
    },
    Metric {
        name: "sample_mean_elapsed_s",
        unit: "s/tree",
        better: Some(Better::Lower),
        doc: "mean duration of one sample (compilebench: one tree) until durable",
        read: |phase| {
            sample_mean(phase.samples.iter().map(|sample| {
                seconds(Some(sample.elapsed_durable_ns.unwrap_or(sample.elapsed_return_ns)))
            }))
        },
    },
    Metric {
        name: "files_per_s",
        unit: "files/s",
        better: Some(Better::Higher),
        doc: "files worked on, per second until durable (until return where nothing is made durable)",
        read: |phase| {
            phase.files.and_then(|files| ratio(files as f64, elapsed_ns(phase) as f64 / NS_PER_S))
        },
    },
    Metric {
        name: "operations_per_s",
        unit: "op/s",
        better: Some(Better::Higher),
        doc: "operations of all kinds, per second until the last returned",
        read: |phase| {
            let operations = phase.operation_count();
            if operations == 0 {
                return None;
            }
            ratio(operations as f64, phase.elapsed_return_ns as f64 / NS_PER_S)
        },
    },
    Metric {
        name: "app_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        doc: "user and system time of the application",
        read: |phase| Some(seconds(phase.cpu.app_user_ns)? + seconds(phase.cpu.app_system_ns)?),
    },
    Metric {
        name: "filesystem_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        doc: "time of the filesystem's own kernel threads",
        read: |phase| seconds(phase.cpu.filesystem_ns),
    },
    Metric {
        name: "system_busy_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        doc: "time that the processors of the whole machine were busy",
        read: |phase| seconds(phase.cpu.system_busy_ns),
    },
    Metric {
        name: "device_read_mib",
        unit: "MiB",
        better: Some(Better::Lower),
        doc: "bytes read from the device: near zero in a read phase means that it was not cold",
        read: |phase| phase.device.read_bytes.map(|bytes| bytes as f64 / MIB),
    },
    Metric {
        name: "device_read_share",
        unit: "",
        better: None,
        doc: "bytes read from the device for each byte that the application read: near 1 (or below it with compression) the phase was cold, near 0 it was served from memory",
        read: |phase| ratio(phase.device.read_bytes? as f64, phase.read_bytes as f64),
    },
    Metric {
        name: "device_write_mib",
        unit: "MiB",
        better: Some(Better::Lower),
        doc: "bytes written to the device",
        read: |phase| phase.device.write_bytes.map(|bytes| bytes as f64 / MIB),
    },
    Metric {
        name: "device_flushes",
        unit: "",
        better: Some(Better::Lower),
        doc: "flush requests that the device completed",
        read: |phase| phase.device.flushes.map(|flushes| flushes as f64),
    },
];

/// The metric called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sample;

    #[test]
    fn names_are_unique_and_documented() {
        for (index, metric) in ALL.iter().enumerate() {
            assert!(!metric.doc.is_empty());
            assert!(
                ALL[index + 1..].iter().all(|other| other.name != metric.name),
                "{}",
                metric.name
            );
        }
    }

    #[test]
    fn values_are_read_off_a_record() {
        let mut phase = PhaseRecord::new("create", "throughput_mib_per_s");
        phase.elapsed_return_ns = 1_000_000_000;
        phase.bytes = 10 << 20;
        let value = |name: &str, phase: &PhaseRecord| (find(name).unwrap().read)(phase);
        assert_eq!(value("throughput_mib_per_s", &phase), Some(10.0));
        phase.elapsed_durable_ns = Some(2_000_000_000);
        assert_eq!(value("throughput_mib_per_s", &phase), Some(5.0));
        assert_eq!(value("return_throughput_mib_per_s", &phase), Some(10.0));
        assert_eq!(value("elapsed_s", &phase), Some(2.0));
        assert_eq!(value("sample_mean_elapsed_s", &phase), None);
        assert_eq!(value("filesystem_cpu_s", &phase), None);
        assert_eq!(value("files_per_s", &phase), None);
        let sample = |seconds: u64, bytes| Sample {
            subject: String::new(),
            elapsed_return_ns: seconds * 1_000_000_000,
            elapsed_durable_ns: None,
            operations: 1,
            bytes,
            app_user_ns: None,
            app_system_ns: None,
        };
        phase.samples = vec![sample(1, 8 << 20), sample(2, 8 << 20)];
        assert_eq!(value("sample_mean_throughput_mib_per_s", &phase), Some(6.0));
        assert_eq!(value("sample_mean_elapsed_s", &phase), Some(1.5));
        phase.bytes = 0;
        assert_eq!(value("throughput_mib_per_s", &phase), None);
    }
}
