//! Arrays against what their layouts promise.

use super::*;
use crate::disk::Disk;
use crate::model::Kind;
use crate::probe::{self, Probe};
use crate::shipped;

fn array(level: Level, count: usize, change: impl FnOnce(&mut ArrayParams)) -> (Model, Disk) {
    let member = shipped::find("hdd-scsi-10k-2002").unwrap();
    let mut params = ArrayParams {
        level,
        chunk_sectors: 128,
        members: vec![member.clone(); count],
        overhead_ns: 0,
        interface_mbs: 300.0,
        cache_bytes: 0,
    };
    change(&mut params);
    let mut model = member;
    model.capacity_bytes = params.capacity_bytes(model.capacity_bytes);
    model.kind = Kind::Array(params);
    let disk = Disk::new(&model, model.capacity_bytes, 1).unwrap();
    (model, disk)
}

fn counted(disk: &Disk) -> (u64, u64) {
    let counters = disk.counters();
    (counters["member_reads"], counters["member_writes"])
}

#[test]
fn a_small_write_to_raid_5_costs_four_requests() {
    let (model, mut disk) = array(Level::Raid5, 6, |_| {});
    let probe = Probe { warm_up: 0, ..Probe::random(Op::Write, 1, 500, model.capacity_bytes) };
    let found = probe::run(&mut disk, probe, 0);
    assert_eq!(counted(&disk), (1000, 1000));
    // Read both, then write both: a write comes a turn after its read at the earliest.
    let (model, mut one) = array(Level::Raid0, 6, |_| {});
    let alone = probe::run(&mut one, Probe::random(Op::Write, 1, 500, model.capacity_bytes), 0);
    assert!(found.mean_ns() > alone.mean_ns() + 5e6, "{} {}", found.mean_ns(), alone.mean_ns());
}

#[test]
fn a_stripe_reads_as_fast_as_its_disks_together() {
    let rate = |count: usize| {
        let (_, mut disk) = array(Level::Raid0, count, |_| {});
        let probe = Probe { bytes: 1 << 20, depth: 8, ..Probe::sequential(Op::Read, 0, 600) };
        probe::run(&mut disk, probe, 0).rate_mbs()
    };
    let (two, six) = (rate(2), rate(6));
    assert!((two / 136.0 - 1.0).abs() < 0.1 && (six / 408.0 - 1.0).abs() < 0.1, "{two} {six}");
}

#[test]
fn a_mirror_reads_from_both_and_writes_to_both() {
    let (model, mut disk) = array(Level::Raid1, 2, |_| {});
    let member = shipped::find("hdd-scsi-10k-2002").unwrap();
    let mut single = Disk::new(&member, member.capacity_bytes, 1).unwrap();
    let probe = Probe::random(Op::Read, 8, 3000, model.capacity_bytes);
    let both = probe::run(&mut disk, probe, 0).iops();
    let alone = probe::run(&mut single, probe, 0).iops();
    assert!(both > alone * 1.5, "{both} {alone}");
    let (reads, writes) = counted(&disk);
    assert_eq!((reads, writes), (3300, 0));
    probe::run(&mut disk, Probe::random(Op::Write, 1, 100, model.capacity_bytes), 1 << 50);
    assert_eq!(counted(&disk).1, 220);
    // The slower of two: two thirds of a turn instead of half, and the longer of two seeks.
    let write = Probe::random(Op::Write, 1, 1000, model.capacity_bytes);
    let two = probe::run(&mut disk, write, 1 << 51).mean_ns();
    let one = probe::run(&mut single, write, 1 << 51).mean_ns();
    assert!(two > one * 1.02, "{two} {one}");
}

#[test]
fn a_battery_makes_writes_and_flushes_quick_until_the_memory_is_full() {
    let (model, mut disk) = array(Level::Raid5, 6, |params| {
        params.cache_bytes = 4 << 20;
        params.overhead_ns = 80_000;
    });
    let write = Probe { warm_up: 0, ..Probe::random(Op::Write, 1, 500, model.capacity_bytes) };
    let quick = probe::run(&mut disk, write, 0);
    assert!(quick.quantile_ns(1.0) < 200_000, "{}", quick.quantile_ns(1.0));
    let flush = Probe { warm_up: 0, ..Probe::random(Op::Flush, 1, 10, model.capacity_bytes) };
    let flushed = probe::run(&mut disk, flush, quick.elapsed_ns);
    assert_eq!(flushed.quantile_ns(1.0), 80_000);
    let more = Probe { warm_up: 2000, ..Probe::random(Op::Write, 8, 3000, model.capacity_bytes) };
    let slow = probe::run(&mut disk, more, 1 << 40);
    assert!(slow.mean_ns() > 1e6, "{}", slow.mean_ns());
}

#[test]
fn small_writes_in_sequence_become_whole_stripes_in_the_memory() {
    let (_, mut disk) = array(Level::Raid5, 6, |params| params.cache_bytes = 64 << 20);
    let probe = Probe { bytes: 16 << 10, depth: 8, ..Probe::sequential(Op::Write, 0, 4000) };
    probe::run(&mut disk, probe, 0);
    let (reads, writes) = counted(&disk);
    assert!(reads < writes / 5, "{reads} {writes}");
}
