//! A flash disk against closed forms.

use super::*;
use crate::disk::Disk;
use crate::model::{Kind, Model};
use crate::probe::{self, Probe};
use crate::shipped;

fn params() -> SsdParams {
    SsdParams {
        channels: 2,
        dies_per_channel: 2,
        channel_mbs: 1000.0,
        page_bytes: 4096,
        pages_per_block: 256,
        read_ns: 50_000,
        program_ns: 200_000,
        erase_ns: 3_000_000,
        suspend_ns: None,
        over_provisioning: 0.15,
        slc_bytes: 0,
        slc_program_ns: 0,
        fold_delay_ns: 1_000_000,
        buffer_bytes: 1 << 20,
        is_protected: false,
        overhead_ns: 10_000,
        write_overhead_ns: 10_000,
        command_ns: 0,
        interface_mbs: 1000.0,
        interface_write_mbs: 1000.0,
        flush_ns: 100_000,
        is_filled: true,
    }
}

fn disk(params: SsdParams, size_bytes: u64) -> Disk {
    let model = Model {
        name: "x".to_owned(),
        title: String::new(),
        sources: Vec::new(),
        capacity_bytes: size_bytes,
        kind: Kind::Ssd(params),
        stated: Vec::new(),
    };
    Disk::new(&model, size_bytes, 1).unwrap()
}

/// Lambert's W, upper branch, by Newton's method.
fn lambert(x: f64) -> f64 {
    let mut w = 0.0f64;
    for _ in 0..200 {
        let power = w.exp();
        w -= (w * power - x) / (power * (w + 1.0));
    }
    w
}

#[test]
fn cleaning_amplifies_writes_as_greedy_cleaning_does() {
    for spare in [0.12, 0.28] {
        let size = 1 << 30;
        let params = SsdParams { over_provisioning: spare, ..params() };
        let mut disk = disk(params, size);
        let writes = size / 4096;
        let settle = Probe::random(Op::Write, 4, 3 * writes, size);
        let end = probe::run(&mut disk, settle, 0).elapsed_ns;
        let before = disk.counters();
        let probe = Probe { warm_up: 0, seed: 7, ..Probe::random(Op::Write, 4, writes, size) };
        probe::run(&mut disk, probe, end * 2);
        let after = disk.counters();
        let grown = |name: &str| (after[name] - before[name]) as f64;
        let found = 1.0 + grown("moved_units") / grown("written_units");
        // P. Desnoyers, Analytic models of SSD write performance (ACM TOS 10, 2014): uniform writes, many
        // pages in a block.
        let alpha = 1.0 + spare;
        let expected = alpha / (alpha + lambert(-alpha * (-alpha).exp()));
        assert!((found / expected - 1.0).abs() < 0.06, "{spare}: {found}, expected {expected}");
    }
}

#[test]
fn one_read_takes_cell_channel_and_interface() {
    let mut disk = disk(params(), 1 << 28);
    let found = probe::run(&mut disk, Probe::random(Op::Read, 1, 2000, 1 << 28), 0);
    let expected = 10_000 + 50_000 + 4096 + 4096;
    assert_eq!((found.quantile_ns(0.0), found.quantile_ns(1.0)), (expected, expected));
    // Four dies: four times as many, less what waits for the same die.
    let deep = probe::run(&mut disk, Probe::random(Op::Read, 64, 4000, 1 << 28), 1 << 40);
    assert!(deep.iops() > 60_000.0 && deep.iops() < 80_000.0, "{}", deep.iops());
}

#[test]
fn writes_take_the_buffer_until_it_is_full() {
    let params = SsdParams { is_filled: false, ..params() };
    let mut disk = disk(params, 1 << 28);
    let first = Probe { warm_up: 0, ..Probe::random(Op::Write, 1, 200, 1 << 28) };
    let quick = probe::run(&mut disk, first, 0);
    assert_eq!(quick.quantile_ns(1.0), 10_000 + 4096);
    let then = Probe { warm_up: 2000, ..Probe::random(Op::Write, 8, 4000, 1 << 28) };
    let slow = probe::run(&mut disk, then, quick.elapsed_ns);
    // Four dies, 200 µs a page.
    assert!((slow.iops() / 20_000.0 - 1.0).abs() < 0.02, "{}", slow.iops());
}

#[test]
fn a_flush_writes_the_buffer_unless_it_is_protected() {
    for (is_protected, expected) in [(true, 10_000 + 100_000), (false, 0)] {
        let mut disk = disk(SsdParams { is_protected, ..params() }, 1 << 28);
        let mut done = Vec::new();
        let (sector, bytes, fua) = (0, 4096, false);
        disk.submit(Request { id: 0, op: Op::Write, sector, bytes, fua, arrival_ns: 0 }, &mut done);
        let arrival_ns = 50_000;
        disk.submit(Request { id: 1, op: Op::Flush, sector, bytes: 0, fua, arrival_ns }, &mut done);
        disk.advance(u64::MAX / 2, &mut done);
        let took = done.iter().find(|it| it.id == 1).unwrap().at_ns - arrival_ns;
        match is_protected {
            true => assert_eq!(took, expected),
            false => assert!(took > 200_000, "{took}"),
        }
    }
}

#[test]
fn the_slc_cache_is_used_up_and_comes_back() {
    let params = SsdParams {
        slc_bytes: 64 << 20,
        slc_program_ns: 50_000,
        over_provisioning: 0.3,
        is_filled: false,
        ..params()
    };
    let mut disk = disk(params, 1 << 30);
    let rate = |disk: &mut Disk, from: u64, at: u64| {
        let probe = Probe { warm_up: 8, ..Probe::sequential(Op::Write, from, 64) };
        let found = probe::run(disk, probe, at);
        (found.rate_mbs(), at + found.elapsed_ns)
    };
    let (fast, end) = rate(&mut disk, 0, 0);
    let (_, end) = rate(&mut disk, 64 << 20, end * 2);
    let (slow, end) = rate(&mut disk, 128 << 20, end);
    assert!(fast > 3.0 * slow, "{fast} {slow}");
    let (again, _) = rate(&mut disk, 192 << 20, end + 30_000_000_000);
    assert!(again > 3.0 * slow, "{again} {slow}");
}

#[test]
fn what_is_forgotten_makes_cleaning_cheap() {
    let size = 1 << 28;
    let moved = |discards: bool| {
        let mut disk = disk(params(), size);
        let mut done = Vec::new();
        if discards {
            let (op, bytes) = (Op::Discard, size / 2);
            disk.submit(
                Request { id: 0, op, sector: 0, bytes, fua: false, arrival_ns: 0 },
                &mut done,
            );
            disk.advance(1 << 40, &mut done);
        }
        let probe =
            Probe { from_bytes: size / 2, ..Probe::random(Op::Write, 4, 100_000, size / 2) };
        probe::run(&mut disk, probe, 1 << 40);
        disk.counters()["moved_units"]
    };
    assert!(moved(true) < moved(false) / 4, "{} {}", moved(true), moved(false));
}

#[test]
fn a_small_disk_has_smaller_blocks_and_a_huge_one_is_refused() {
    let model = shipped::find("nvme-consumer").unwrap();
    for size in [256 << 20, 1 << 30, 3 << 30] {
        let mut disk = Disk::new(&model, size, 1).unwrap();
        let found = probe::run(&mut disk, Probe::random(Op::Write, 32, 50_000, size), 0);
        assert!(found.iops() > 1000.0);
    }
    assert!(Disk::new(&model, 900 << 30, 1).unwrap_err().contains("smaller size"));
}
