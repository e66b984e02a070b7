//! A disk that rotates against closed forms.

use super::geometry::Geometry;
use super::*;
use crate::disk::Disk;
use crate::model::Kind;
use crate::probe::{self, Probe};
use crate::request::{Op, Request};
use crate::shipped;

fn params() -> HddParams {
    match shipped::find("hdd-7200-2007").unwrap().kind {
        Kind::Hdd(params) => params,
        _ => unreachable!("it rotates"),
    }
}

const CAPACITY: u64 = 250_000_000_000;

fn disk(change: impl FnOnce(&mut HddParams)) -> Disk {
    let mut model = shipped::find("hdd-7200-2007").unwrap();
    let mut params = params();
    change(&mut params);
    model.kind = Kind::Hdd(params);
    Disk::new(&model, CAPACITY / 4096 * 4096, 1).unwrap()
}

fn near(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < share, "{what}: {found}, expected {expected}");
}

#[test]
fn sequential_reads_have_the_rate_of_their_zone() {
    let (outer, inner) = (78.0, 40.0);
    for place in [0.0, 0.25, 0.5, 0.75, 0.99] {
        let from = (CAPACITY as f64 * place) as u64 / (1 << 20) * (1 << 20);
        let found = probe::run(&mut disk(|_| {}), Probe::sequential(Op::Read, from, 400), 0);
        // Rate over radius is linear and capacity its integral, which gives the radius of a place.
        let ratio: f64 = inner / outer;
        let expected = outer * (1.0 - place * (1.0 - ratio * ratio)).sqrt();
        near(found.rate_mbs(), expected, 0.03, "rate");
    }
    // One at a time, and in small pieces, it is the same: the buffer reads ahead.
    let probe = Probe { depth: 1, bytes: 64 << 10, ..Probe::sequential(Op::Read, 0, 3000) };
    near(probe::run(&mut disk(|_| {}), probe, 0).rate_mbs(), outer, 0.03, "one at a time");
}

#[test]
fn a_random_read_takes_seek_half_a_turn_and_transfer() {
    let params = params();
    let mut disk = disk(|params| params.read_ahead_sectors = 0);
    let found = probe::run(&mut disk, Probe::random(Op::Read, 1, 30_000, CAPACITY), 0);
    let turn = 60e9 / params.rpm;
    let transfer = 4096.0 / 61.0 * 1e3;
    let overhead = params.overhead_ns as f64;
    let expected = overhead + params.average_seek_ns as f64 + turn / 2.0 + transfer;
    near(found.mean_ns(), expected, 0.02, "mean");
    // The distribution: the seek over a random distance plus a uniform part of a turn.
    let geometry = Geometry::new(&params, CAPACITY / 512, 1).unwrap();
    let sectors = Probe { seed: 99, ..Probe::random(Op::Read, 1, 1, CAPACITY) }.sectors();
    let places: Vec<u64> = sectors.take(2000).map(|it| geometry.place(it).cylinder).collect();
    let mut times: Vec<f64> = Vec::new();
    for (index, two) in places.windows(2).enumerate() {
        let seek = geometry.seek().time_ns(two[0].abs_diff(two[1])) as f64;
        let turns = (0..50).map(|step| (f64::from(step) + 0.5) / 50.0);
        times.extend(turns.map(|share| seek + share * geometry.revolution_ns() as f64));
        assert!(index < 2000);
    }
    times.sort_by(f64::total_cmp);
    for share in [0.5, 0.9, 0.99] {
        let expected = times[(times.len() as f64 * share) as usize] + overhead + transfer;
        near(found.quantile_ns(share) as f64, expected, 0.02, "quantile");
    }
}

#[test]
fn a_queue_makes_random_reads_faster_and_one_of_one_does_not() {
    let iops = |depth: usize, queue_depth: usize| {
        let mut disk = disk(|params| params.queue_depth = queue_depth);
        probe::run(&mut disk, Probe::random(Op::Read, depth, 4000, CAPACITY), 0).iops()
    };
    let (alone, four, many) = (iops(1, 31), iops(4, 31), iops(31, 31));
    assert!(four > alone * 1.2 && many > alone * 2.0, "{alone} {four} {many}");
    near(iops(31, 1), alone, 0.03, "without a queue");
}

#[test]
fn no_request_starves_in_a_queue() {
    let mut disk = disk(|_| {});
    let found = probe::run(&mut disk, Probe::random(Op::Read, 31, 20_000, CAPACITY), 0);
    let worst = found.quantile_ns(1.0) as f64;
    assert!(worst < 30.0 * found.mean_ns(), "{worst} {}", found.mean_ns());
}

#[test]
fn the_write_cache_fills_and_then_writes_take_the_time_of_the_platters() {
    let mut disk = disk(|_| {});
    let cached = params().write_cache_bytes / 4096;
    let first = Probe { warm_up: 0, ..Probe::random(Op::Write, 1, cached / 2, CAPACITY) };
    let quick = probe::run(&mut disk, first, 0);
    assert!(quick.quantile_ns(0.99) < 1_000_000, "{}", quick.quantile_ns(0.99));
    let then = Probe { warm_up: 3000, seed: 2, ..Probe::random(Op::Write, 1, 3000, CAPACITY) };
    let slow = probe::run(&mut disk, then, quick.elapsed_ns);
    assert!(slow.mean_ns() > 2e6, "{}", slow.mean_ns());
    // Out of many waiting writes the near ones are chosen: faster than one at a time.
    let through = Probe::random(Op::Write, 1, 2000, CAPACITY);
    let mut without = self::disk(|params| params.write_cache_bytes = 0);
    let through = probe::run(&mut without, through, 0).mean_ns();
    assert!(slow.mean_ns() < through * 0.8, "{} {through}", slow.mean_ns());
}

#[test]
fn sequential_writes_have_the_rate_of_the_platters_with_a_cache_and_lose_turns_without() {
    let write = |depth: usize, cache: u64| {
        let mut disk = disk(|params| params.write_cache_bytes = cache);
        let probe = Probe { depth, warm_up: 100, ..Probe::sequential(Op::Write, 0, 600) };
        probe::run(&mut disk, probe, 0).rate_mbs()
    };
    near(write(1, 6 << 20), 78.0, 0.04, "with a cache");
    // 512 KiB of 640 pass in one turn, and the next turn is waited for.
    assert!(write(1, 0) < 50.0, "{}", write(1, 0));
}

#[test]
fn a_flush_waits_for_what_is_cached_and_costs_little_else() {
    let mut disk = disk(|_| {});
    let mut done = Vec::new();
    let flush =
        |id, arrival_ns| Request { id, op: Op::Flush, sector: 0, bytes: 0, fua: false, arrival_ns };
    disk.submit(flush(0, 0), &mut done);
    disk.advance(1_000_000, &mut done);
    assert_eq!(done[0].at_ns, params().flush_ns);
    done.clear();
    let sectors = Probe::random(Op::Write, 1, 1, CAPACITY).sectors();
    for (id, sector) in (1..33).zip(sectors) {
        let (bytes, arrival_ns) = (4096, 2_000_000);
        let op = Op::Write;
        disk.submit(Request { id, op, sector, bytes, fua: false, arrival_ns }, &mut done);
    }
    disk.advance(20_000_000, &mut done);
    assert_eq!(done.len(), 32, "writes end in the cache");
    disk.submit(flush(33, 20_000_000), &mut done);
    disk.advance(u64::MAX / 2, &mut done);
    let took = done[32].at_ns - 20_000_000;
    // About thirty writes, the nearest first.
    assert!((60_000_000..400_000_000).contains(&took), "{took}");
    assert_eq!(disk.counters()["written_back"], 32);
}

#[test]
fn a_write_with_fua_takes_the_time_of_the_platters() {
    let mut disk = disk(|_| {});
    let mut done = Vec::new();
    let (op, sector, bytes) = (Op::Write, CAPACITY / 1024, 4096);
    disk.submit(Request { id: 0, op, sector, bytes, fua: true, arrival_ns: 0 }, &mut done);
    disk.advance(u64::MAX / 2, &mut done);
    assert!(done[0].at_ns > 5_000_000, "{done:?}");
}
