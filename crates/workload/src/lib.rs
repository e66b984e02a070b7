//! The measured region: datasets, payloads, the recorder and the catalogue of workloads.
//! Knows a directory to work in, but neither devices nor filesystems.
//!
//! | module | holds |
//! |---|---|
//! | [`catalog`] | the workloads: one file each, one list |
//! | [`age`] | what is done to a fresh filesystem before a workload |
//! | [`engine`] | workloads that a text describes |
//! | [`runner`] | a specification comes in, messages go out |
//! | [`params`] | the parameters that several workloads have |
//! | [`context`] | what a running workload is given |
//! | [`phase`] | the timed region and the record of a phase |
//! | [`program`] | external programs as part of a workload |
//! | [`jobs`] | several threads that work at the same time |
//! | [`fragmentation`] | the phase that counts extents, available to all |
//! | [`recorder`] | latency of every call by kind |
//! | [`probe`] | processor time and device traffic at the edges of samples |
//! | [`sampler`] | the same and more, ten times a second |
//! | [`payload`], [`contents`] | the bytes of files, and whether they are still there |
//! | [`walk`] | reading, asking for and deleting what is in a tree |
//! | [`archive`] | archives in the format of tar, read and extracted |
//! | [`dataset`] | which files a source tree holds before and after a patch and a build |
//! | [`rng`] | the random draws of workloads, those of CPython among them |
//! | [`command_line`] | a command line of the user's, its files and what it leaves behind |
//! | [`compilebench`] | the operations of one workload |
//! | [`floor`] | the cost of the harness itself |
//! | [`read_speed`] | reads from memory and past the cache, timed |
//! | [`yardstick`] | fixed work for the processor and the device, timed |
//! | [`failure`] | how a workload fails |
//! | [`small_files`] | the loops of one workload |
//! | [`web_cache`] | the archive of one workload |
//! | [`million_files`] | the operations of one workload |
//! | [`dbench`] | the load files, the clients and the phases of one workload |
//! | [`mdtest`] | the tree and the phases of one workload |
//! | [`postmark`] | the operations of one workload |
//! | [`random_io`] | the loops of one workload |
//! | [`sqlite`], [`postgres`] | the parts of two workloads: databases |
//! | [`transactions`] | what is told of transactions of a database |
//! | [`bonnie`] | the operations of one workload |
//! | [`package_install`] | packages: a model of a base system, real ones through dpkg, and the listing of both |
//! | [`kernel_source`] | the parts of one workload: the source archive, its build, what is touched and checked |
#![forbid(unsafe_code)]

pub mod age;
pub mod archive;
pub mod bonnie;
pub mod catalog;
pub mod command_line;
pub mod compilebench;
pub mod contents;
pub mod context;
pub mod dataset;
pub mod dbench;
pub mod engine;
pub mod failure;
pub mod fileio;
pub mod floor;
pub mod fragmentation;
pub mod fs_mark;
pub mod jobs;
pub mod kernel_source;
pub mod mdtest;
pub mod million_files;
pub mod package_install;
pub mod params;
pub mod payload;
pub mod phase;
pub mod postgres;
pub mod postmark;
pub mod probe;
pub mod program;
pub mod random_io;
pub mod read_speed;
pub mod recorder;
pub mod rng;
pub mod runner;
pub mod sampler;
mod sampler_groups;
mod sampler_series;
pub mod small_files;
pub mod sqlite;
pub mod transactions;
pub mod walk;
pub mod web_cache;
pub mod yardstick;
