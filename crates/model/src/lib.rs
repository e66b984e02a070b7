//! Plain data of fsdyno: units, metrics, parameters, targets, plans, records and results.
//!
//! Everything here is a value or a pure function of values. Nothing reads a file, makes a system
//! call or asks the clock, so that every stage of the pipeline can share it and a test needs
//! nothing but literals.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | sizes and durations as users write them |
//! | [`param`] | what a parameter of a workload is, and its value |
//! | [`cold`] | how caches are emptied before a phase |
//! | [`payload`] | what is written into files: `original` or `realistic` |
//! | [`info`] | what catalogues tell about their entries |
//! | [`device`] | images, devices, arrays: what filesystems lie on
//! | [`target`] | the target grammar of the command line |
//! | [`age`] | what is done to a filesystem before the workload begins |
//! | [`workload`] | the workload grammar of the command line |
//! | [`plan`] | a plan, and its TOML form with every error located |
//! | [`toml_reader`] | walking TOML so that every error has its place |
//! | [`stop`] | when trials end: a fixed number, or settled comparisons |
//! | [`ladder`] | one workload under ever heavier loads |
//! | [`outcome`] | how a trial ended |
//! | [`record`] | what a trial measured |
//! | [`yardstick`] | how fast the machine was before and after a trial |
//! | [`disturbance`] | what may disturb a trial |
//! | [`activity`] | what the machine did meanwhile |
//! | [`trace`] | block traces |
//! | [`io_graph`] | what a block trace shows |
//! | [`audit`] | whether targets were measured under the same conditions |
//! | [`environment`] | where it was measured |
//! | [`plan_text`] | a plan as the text that it is read from |
//! | [`place`] | on the host or in guests, by whose clock |
//! | [`kernel`] | which kernel a guest boots, as users write it |
//! | [`guest`] | what a guest is told and what it answers |
//! | [`wire`] | what the phase runner is told and what it answers |
//! | [`metric`] | the list of metrics and how each is read off a record |
//! | [`cpu_group`] | whose work a kernel thread does |
//! | [`report_data`] | what a report shows besides the result document |
//! | [`result`] | the result document (`--json`) |
//! | [`power_cuts`] | power cuts of a target, as they are stored and shown |
//! | [`noise`] | how noisy a machine is |
//! | [`advice`] | how targets rank for somebody's work |
//! | [`persona`] | whose work that is |
//! | [`diff`] | two runs beside each other, one figure over many runs |
#![forbid(unsafe_code)]

pub mod activity;
pub mod advice;
pub mod age;
pub mod audit;
pub mod cold;
pub mod cpu_group;
pub mod device;
mod device_toml;
pub mod diagnostic;
pub mod diff;
pub mod disturbance;
pub mod environment;
pub mod guest;
pub mod info;
pub mod io_graph;
pub mod kernel;
pub mod ladder;
pub mod metric;
pub mod noise;
pub mod outcome;
pub mod param;
pub mod payload;
pub mod persona;
pub mod place;
pub mod plan;
mod plan_fields;
pub mod plan_text;
mod plan_toml;
pub mod power_cuts;
pub mod published;
pub mod record;
pub mod report_data;
pub mod result;
pub mod stop;
pub mod target;
pub mod then_and_now;
pub mod toml_reader;
pub mod trace;
pub mod units;
pub mod wire;
pub mod words;
pub mod workload;
pub mod yardstick;

/// Version of everything that is stored or printed for other programs: the result document, the
/// records inside the results database and the runner protocol.
pub const SCHEMA_VERSION: u32 = 1;
