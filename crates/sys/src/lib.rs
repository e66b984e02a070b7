//! The operating system under fsdyno: system calls, clocks, mounts, loop devices, counters.
//! Holds the only unsafe code of the workspace, and knows neither workloads nor filesystems.
//!
//! | module | answers |
//! |---|---|
//! | [`error`] | what failed, on what, with which errno, and what the kernel said about it |
//! | [`clock`] | what time is it, and how long did one operation take |
//! | [`calls`] | the system calls of the measured region, real or null |
//! | [`ring`] | the same calls through io_uring, many at a time |
//! | [`buffer`] | memory that direct I/O takes |
//! | [`caches`] | write dirty pages back, drop clean ones, count both |
//! | [`loopdev`] | make a block device of an image file, and undo it |
//! | [`mount`] | mount, unmount, and read back what is mounted with which options |
//! | [`block`] | what a block device is, who uses it, how its queue is set |
//! | [`counters`] | what a block device has read, written, discarded and flushed |
//! | [`confine`] | children on one processor alone, that leave no image of their memory |
//! | [`cpu`] | who burnt processor time: this process, its children, the whole machine |
//! | [`kthreads`] | what the kernel's own threads burnt, by name |
//! | [`process_times`] | what descendants, the starter and all other processes burnt |
//! | [`process_io`] | what other processes read and wrote |
//! | [`vmstat`] | what memory management holds and does |
//! | [`pressure`] | how long tasks waited for processor, I/O and memory |
//! | [`process`] | children that die with us, who is alive, signals, the terminal |
//! | [`child`] | external programs: found, supervised, drained, timed |
//! | [`waiting`] | what processes that do not end are doing |
//! | [`orphans`] | what such programs leave running |
//! | [`warden`] | programs of several processes, all ended when we die |
//! | [`descriptors`] | how many files may be open, and how many are |
//! | [`file`](mod@file) | allocate files, free space, durable directories |
//! | [`fiemap`] | the extents of an open file |
//! | [`fsmap`] | the free extents of a mounted filesystem |
//! | [`first_process`] | what the first process of a virtual machine does |
//! | [`fuse`] | serve one file from user space, and end a server that hangs |
//! | [`nbd`] | block devices of the kernel that ask a server in this machine |
//! | [`pass`] | give an open descriptor to another process |
//! | [`home`] | where this user's own state, data and cache lie |
//! | [`idle_loop`] | a processor that is never idle |
//! | [`kernel`] | kernel, processor, memory and host facts for the record |
//!
//! Two rules hold everywhere: text from `/proc` and `/sys` is parsed by pure functions that never
//! panic on what they do not understand, and an absent figure is `None`, never 0.

pub mod block;
pub mod buffer;
pub mod caches;
pub mod calls;
pub mod child;
pub mod clock;
pub mod confine;
pub mod counters;
pub mod cpu;
pub mod descriptors;
pub mod error;
pub mod fiemap;
pub mod file;
pub mod first_process;
pub mod fsmap;
pub mod fuse;
pub mod home;
pub mod idle_loop;
pub mod kernel;
pub mod kthreads;
pub mod loopdev;
pub mod mount;
mod mount_options;
pub mod nbd;
mod newcomers;
pub mod orphans;
pub mod pass;
pub mod pressure;
pub mod process;
pub mod process_io;
pub mod process_times;
pub mod ring;
pub mod vmstat;
pub mod waiting;
pub mod warden;

pub use error::{Result, SysError};
/// The error numbers that the hot-loop calls return; re-exported so that callers need no rustix.
pub use rustix::io::Errno;
