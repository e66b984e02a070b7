//! Models that are measured and made again.

use super::*;
use crate::disk::Disk;
use crate::model::{Kind, Model};
use crate::shipped;

const HEAD: Head<'_> = Head { title: "a \"disk\"", source: "a test", queue_depth: None };

fn fitted(name: &str) -> (Model, Figures, Fitted) {
    let model = shipped::find(name).unwrap();
    // The mapping of flash takes memory.
    let most = if model.kind.name() == "ssd" { 4 << 30 } else { 250_000_000_000 };
    let size_bytes = model.capacity_bytes.min(most) / 4096 * 4096;
    let mut disk = Disk::new(&model, size_bytes, 1).unwrap();
    let amount = Amount { requests: 30, writes: true, seed: 1 };
    let figures = measure(&mut disk, amount, &mut |_| {}).unwrap();
    let made = super::model(&figures, HEAD).unwrap();
    (model, figures, made)
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < share, "{what}: {found}, expected {expected}");
}

#[test]
fn disks_that_rotate_are_found_again() {
    for name in ["hdd-7200-2007", "hdd-5400-2010", "hdd-scsi-10k-2002", "hdd-7200-750gb-2008"] {
        let (model, figures, made) = fitted(name);
        let (Kind::Hdd(real), Kind::Hdd(found)) = (&model.kind, &made.model.kind) else {
            panic!("{name} became a {}: {figures:?}", made.model.kind.name());
        };
        assert_eq!(found.rpm, real.rpm, "{name}");
        near(found.outer_mbs, real.outer_mbs, 0.1, name);
        if model.capacity_bytes <= 250_000_000_000 {
            near(found.inner_mbs, real.inner_mbs, 0.12, name);
            near(found.full_stroke_ns as f64, real.full_stroke_ns as f64, 0.25, name);
            near(found.average_seek_ns as f64, real.average_seek_ns as f64, 0.25, name);
        }
        let track = (found.track_to_track_ns as f64 - real.track_to_track_ns as f64).abs();
        assert!(track < 1.2e6, "{name}: {track}");
        near(found.overhead_ns as f64, real.overhead_ns as f64, 0.3, name);
    }
}

#[test]
fn what_does_not_rotate_becomes_a_volume() {
    for name in ["volume-gp3", "ssd-sata"] {
        let (model, figures, made) = fitted(name);
        let Kind::Volume(found) = &made.model.kind else {
            panic!("{name} became a {}: {figures:?}", made.model.kind.name());
        };
        if let Kind::Volume(real) = &model.kind {
            near(found.iops as f64, real.iops as f64, 0.1, name);
            near(found.rate_bytes as f64, real.rate_bytes as f64, 0.1, name);
            let median = |points: &[(f64, f64)]| points.iter().find(|it| it.0 == 0.5).unwrap().1;
            near(median(&found.read_latency), median(&real.read_latency), 0.15, name);
            near(median(&found.write_latency), median(&real.write_latency), 0.25, name);
        }
    }
}

#[test]
fn a_model_answers_as_what_was_measured() {
    for name in ["hdd-7200-2007", "volume-gp3"] {
        let (_, figures, made) = fitted(name);
        let mut disk = Disk::new(&made.model, made.model.capacity_bytes, 1).unwrap();
        let amount = Amount { requests: 30, writes: true, seed: 1 };
        let again = measure(&mut disk, amount, &mut |_| {}).unwrap();
        for ((row, unit, found), (_, _, modelled)) in figures.rows().iter().zip(again.rows()) {
            // Credit of throughput is assumed, and what is left of it decides on large reads of a volume.
            let is_of_credit = name == "volume-gp3" && row.contains("256 KiB");
            let is_scattered = ["least", "write", "flush"].iter().any(|word| row.contains(word));
            if !(is_of_credit || unit == &"ms" && is_scattered) {
                near(modelled, *found, 0.25, &format!("{name}: {row}"));
            }
        }
        let text = made.annotated(&figures, &again);
        assert!(Model::parse("x", &text, &|name| shipped::find(name)).is_ok(), "{text}");
    }
}

#[test]
fn disks_that_are_too_small_are_refused() {
    let model = shipped::find("ram").unwrap();
    let mut disk = Disk::new(&model, 1 << 20, 1).unwrap();
    let amount = Amount { requests: 30, writes: false, seed: 1 };
    assert!(measure(&mut disk, amount, &mut |_| {}).unwrap_err().contains("64 MiB"));
}
