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
    /// Whether it is a reason for performance and not performance itself: how files and free space
    /// lie on the device. Such a metric bears no marks, has no part in a verdict, and is shown apart.
    pub explains: bool,
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
        explains: false,
        doc: "bytes read or written by the application, per second until durable (until return where nothing is made durable)",
        read: |phase| throughput(phase.bytes, elapsed_ns(phase)),
    },
    Metric {
        name: "return_throughput_mib_per_s",
        unit: "MiB/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "bytes read or written by the application, per second until the last operation returned",
        read: |phase| throughput(phase.bytes, phase.elapsed_return_ns),
    },
    Metric {
        name: "sample_mean_throughput_mib_per_s",
        unit: "MiB/s",
        better: Some(Better::Higher),
        explains: false,
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
        name: "memory_read_mib_per_s",
        unit: "MiB/s",
        better: None,
        explains: false,
        doc: "bytes read from the page cache, per second: the machine's figure, not the filesystem's",
        read: |phase| {
            // Elsewhere bytes do not come from the page cache alone.
            let is_its = phase.primary_metric == "memory_read_mib_per_s";
            if is_its { throughput(phase.bytes, phase.elapsed_return_ns) } else { None }
        },
    },
    Metric {
        name: "elapsed_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "duration of the phase until durable (until return where nothing is made durable)",
        read: |phase| seconds(Some(elapsed_ns(phase))),
    },
    Metric {
        name: "return_elapsed_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "duration of the phase until the last operation returned",
        read: |phase| seconds(Some(phase.elapsed_return_ns)),
    },
    Metric {
        name: "sample_mean_elapsed_s",
        unit: "s/tree",
        better: Some(Better::Lower),
        explains: false,
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
        explains: false,
        doc: "files worked on, per second until durable (until return where nothing is made durable)",
        read: |phase| {
            phase.files.and_then(|files| ratio(files as f64, elapsed_ns(phase) as f64 / NS_PER_S))
        },
    },
    Metric {
        name: "jobs_files_per_s",
        unit: "files/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "sum of the jobs' files per second, each job with its own time until its last call returned, as fs_mark adds up processes",
        read: |phase| phase.values.get("jobs_files_per_s").copied(),
    },
    Metric {
        name: "operations_per_s",
        unit: "op/s",
        better: Some(Better::Higher),
        explains: false,
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
        name: "requests_per_s",
        unit: "req/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "reads and writes per second until the last returned, without what made them durable",
        read: |phase| phase.values.get("requests_per_s").copied(),
    },
    Metric {
        name: "reads_per_s",
        unit: "req/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "of these, reads",
        read: |phase| phase.values.get("reads_per_s").copied(),
    },
    Metric {
        name: "writes_per_s",
        unit: "req/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "of these, writes",
        read: |phase| phase.values.get("writes_per_s").copied(),
    },
    Metric {
        name: "fsyncs_per_s",
        unit: "op/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "files made durable per second",
        read: |phase| phase.values.get("fsyncs_per_s").copied(),
    },
    Metric {
        name: "request_percentile_ms",
        unit: "ms",
        better: Some(Better::Lower),
        explains: false,
        doc: "latency that the share of requests kept which the parameter percentile asks for",
        read: |phase| phase.values.get("request_percentile_ms").copied(),
    },
    Metric {
        name: "tasks_per_s",
        unit: "task/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "tasks, each of several calls, per second until the last returned",
        read: |phase| ratio(*phase.values.get("tasks")?, phase.elapsed_return_ns as f64 / NS_PER_S),
    },
    Metric {
        name: "task_p50_ms",
        unit: "ms",
        better: Some(Better::Lower),
        explains: false,
        doc: "latency that half of the tasks kept, from the time at which each was due where they begin at set times",
        read: |phase| phase.values.get("task_p50_ms").copied(),
    },
    Metric {
        name: "task_p99_ms",
        unit: "ms",
        better: Some(Better::Lower),
        explains: false,
        doc: "latency that 99 % of the tasks kept, from the time at which each was due where they begin at set times",
        read: |phase| phase.values.get("task_p99_ms").copied(),
    },
    Metric {
        name: "task_p999_ms",
        unit: "ms",
        better: Some(Better::Lower),
        explains: false,
        doc: "latency that 99.9 % of the tasks kept, from the time at which each was due where they begin at set times",
        read: |phase| phase.values.get("task_p999_ms").copied(),
    },
    Metric {
        name: "task_max_ms",
        unit: "ms",
        better: Some(Better::Lower),
        explains: false,
        doc: "latency of the slowest task",
        read: |phase| phase.values.get("task_max_ms").copied(),
    },
    Metric {
        name: "slowdown",
        unit: "",
        better: Some(Better::Lower),
        explains: false,
        doc: "mean latency of a task, relative to the phase in which nothing else ran",
        read: |phase| phase.values.get("slowdown").copied(),
    },
    Metric {
        name: "fairness",
        unit: "",
        better: Some(Better::Higher),
        explains: false,
        doc: "how evenly the clients were served: 1 all alike, 1/n one of n alone (Jain's index over their tasks)",
        read: |phase| phase.values.get("fairness").copied(),
    },
    Metric {
        name: "app_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "user and system time of the application",
        read: |phase| Some(seconds(phase.cpu.app_user_ns)? + seconds(phase.cpu.app_system_ns)?),
    },
    Metric {
        name: "app_user_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "user time of the application",
        read: |phase| seconds(phase.cpu.app_user_ns),
    },
    Metric {
        name: "app_system_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "system time of the application",
        read: |phase| seconds(phase.cpu.app_system_ns),
    },
    Metric {
        name: "filesystem_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "time of the filesystem's own kernel threads",
        read: |phase| seconds(phase.cpu.filesystem_ns),
    },
    Metric {
        name: "system_busy_cpu_s",
        unit: "s",
        better: Some(Better::Lower),
        explains: false,
        doc: "time that the processors of the whole machine were busy",
        read: |phase| seconds(phase.cpu.system_busy_ns),
    },
    Metric {
        name: "device_read_mib",
        unit: "MiB",
        better: Some(Better::Lower),
        explains: false,
        doc: "bytes read from the device: near zero in a read phase means that it was not cold",
        read: |phase| phase.device.read_bytes.map(|bytes| bytes as f64 / MIB),
    },
    Metric {
        name: "device_read_share",
        unit: "",
        better: None,
        explains: false,
        doc: "bytes read from the device for each byte that the application read: near 1 (or below it with compression) the phase was cold, near 0 it was served from memory",
        read: |phase| ratio(phase.device.read_bytes? as f64, phase.read_bytes as f64),
    },
    Metric {
        name: "device_write_mib",
        unit: "MiB",
        better: Some(Better::Lower),
        explains: false,
        doc: "bytes written to the device",
        read: |phase| phase.device.write_bytes.map(|bytes| bytes as f64 / MIB),
    },
    Metric {
        name: "write_amplification",
        unit: "",
        better: None,
        explains: false,
        doc: "bytes written to the device for each byte that the application wrote",
        read: |phase| {
            let written = phase.bytes.saturating_sub(phase.read_bytes);
            ratio(phase.device.write_bytes? as f64, written as f64)
        },
    },
    Metric {
        name: "device_flushes",
        unit: "",
        better: Some(Better::Lower),
        explains: false,
        doc: "flush requests that the device completed",
        read: |phase| phase.device.flushes.map(|flushes| flushes as f64),
    },
    Metric {
        name: "readdir_inode_correlation",
        unit: "correlation",
        better: None,
        explains: true,
        doc: "rank correlation (Spearman) of the order in which a directory lists its files with their inode numbers: 1 the same order, 0 nothing to do with each other, -1 reversed",
        read: |phase| phase.values.get("readdir_inode_correlation").copied(),
    },
    Metric {
        name: "readdir_disk_correlation",
        unit: "correlation",
        better: None,
        explains: true,
        doc: "the same with the places of the first extents on the device, of the files that have one outside of the metadata",
        read: |phase| phase.values.get("readdir_disk_correlation").copied(),
    },
    Metric {
        name: "metadata_data_distance_mib",
        unit: "MiB",
        better: None,
        explains: true,
        doc: "median distance on the device from the first extent of a file to its inode, where FIEMAP tells its place (extended attributes stored in it), else to the nearest block of its directory",
        read: |phase| phase.values.get("metadata_data_distance_mib").copied(),
    },
    Metric {
        name: "inline_share",
        unit: "share",
        better: None,
        explains: true,
        doc: "share of the files with extents whose contents lie within the metadata",
        read: |phase| phase.values.get("inline_share").copied(),
    },
    Metric {
        name: "extents_per_file",
        unit: "extents/file",
        better: None,
        explains: true,
        doc: "mean number of extents of the files that have any: 1 where each lies in one piece",
        read: |phase| phase.values.get("extents_per_file").copied(),
    },
    Metric {
        name: "extents_per_file_p99",
        unit: "extents/file",
        better: None,
        explains: true,
        doc: "number of extents that 99 of 100 files do not exceed",
        read: |phase| phase.values.get("extents_per_file_p99").copied(),
    },
    Metric {
        name: "extents_per_file_max",
        unit: "extents/file",
        better: None,
        explains: true,
        doc: "number of extents of the most fragmented file",
        read: |phase| phase.values.get("extents_per_file_max").copied(),
    },
    Metric {
        name: "fragmented_share",
        unit: "share",
        better: None,
        explains: true,
        doc: "share of the files with extents that lie in more than one piece",
        read: |phase| phase.values.get("fragmented_share").copied(),
    },
    Metric {
        name: "free_extents",
        unit: "extents",
        better: None,
        explains: true,
        doc: "number of pieces that the free space of the filesystem lies in",
        read: |phase| phase.values.get("free_extents").copied(),
    },
    Metric {
        name: "free_extent_mean_mib",
        unit: "MiB",
        better: None,
        explains: true,
        doc: "mean size of a piece of free space",
        read: |phase| phase.values.get("free_extent_mean_mib").copied(),
    },
    Metric {
        name: "free_extent_largest_mib",
        unit: "MiB",
        better: None,
        explains: true,
        doc: "size of the largest piece of free space: the largest file that can still lie in one piece",
        read: |phase| phase.values.get("free_extent_largest_mib").copied(),
    },
    Metric {
        name: "free_space_fragmentation",
        unit: "share",
        better: None,
        explains: true,
        doc: "share of the free space in pieces of less than 1 MiB (Gorman's unusable free space index): 0 on a new filesystem, 1 where no MiB lies in one piece",
        read: |phase| phase.values.get("free_space_fragmentation").copied(),
    },
    Metric {
        name: "transactions_per_s",
        unit: "tx/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "transactions per second until durable (until return where nothing is made durable)",
        read: |phase| {
            ratio(*phase.values.get("transactions")?, elapsed_ns(phase) as f64 / NS_PER_S)
        },
    },
    Metric {
        name: "return_transactions_per_s",
        unit: "tx/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "transactions per second until the last operation returned",
        read: |phase| {
            ratio(*phase.values.get("transactions")?, phase.elapsed_return_ns as f64 / NS_PER_S)
        },
    },
    Metric {
        name: "transactions",
        unit: "",
        better: None,
        explains: false,
        doc: "transactions that were carried out",
        read: |phase| phase.values.get("transactions").copied(),
    },
    Metric {
        name: "created_files",
        unit: "",
        better: None,
        explains: false,
        doc: "files that transactions created",
        read: |phase| phase.values.get("created_files").copied(),
    },
    Metric {
        name: "read_files",
        unit: "",
        better: None,
        explains: false,
        doc: "files that transactions read",
        read: |phase| phase.values.get("read_files").copied(),
    },
    Metric {
        name: "appended_files",
        unit: "",
        better: None,
        explains: false,
        doc: "files that transactions appended to",
        read: |phase| phase.values.get("appended_files").copied(),
    },
    Metric {
        name: "deleted_files",
        unit: "",
        better: None,
        explains: false,
        doc: "files that transactions deleted",
        read: |phase| phase.values.get("deleted_files").copied(),
    },
    Metric {
        name: "counted_read_bytes",
        unit: "B",
        better: None,
        explains: false,
        doc: "bytes read since the start of the workload, in the inexact arithmetic of the original",
        read: |phase| phase.values.get("counted_read_bytes").copied(),
    },
    Metric {
        name: "counted_written_bytes",
        unit: "B",
        better: None,
        explains: false,
        doc: "bytes written since the start of the workload, in the inexact arithmetic of the original",
        read: |phase| phase.values.get("counted_written_bytes").copied(),
    },
    Metric {
        name: "rewrite_mib_per_s",
        unit: "MiB/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "bytes that were read, changed and written back, each counted once, per second until durable",
        read: |phase| phase.values.get("rewrite_mib_per_s").copied(),
    },
    Metric {
        name: "seeks_per_s",
        unit: "seeks/s",
        better: Some(Better::Higher),
        explains: false,
        doc: "random reads of all threads, some with a write, per second until durable",
        read: |phase| phase.values.get("seeks_per_s").copied(),
    },
    Metric {
        name: "max_latency_ns",
        unit: "ns",
        better: Some(Better::Lower),
        explains: false,
        doc: "longest iteration of the phase's loop: of one chunk or one file, as bonnie++ counts it",
        read: |phase| phase.values.get("max_latency_ns").copied(),
    },
    Metric {
        name: "original_cpu_percent",
        unit: "%",
        better: Some(Better::Lower),
        explains: false,
        doc: "processor time for elapsed time as bonnie++ shows it (%CP): without the kernel's threads",
        read: |phase| phase.values.get("original_cpu_percent").copied(),
    },
    Metric {
        name: "true_cpu_percent",
        unit: "%",
        better: Some(Better::Lower),
        explains: false,
        doc: "processor time of the application and of the filesystem's own kernel threads for elapsed time; 100 is one processor",
        read: |phase| phase.values.get("true_cpu_percent").copied(),
    },
];

/// The metric called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests;
