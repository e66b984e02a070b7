//! Where sectors lie: zones of cylinders with as many sectors on each track as the rate of the zone
//! says, tracks skewed by just the time that it takes to get from one to the next. Angles are times: the
//! nanoseconds that a revolution takes to bring a place under the heads, as integers, so that nothing
//! drifts.

use super::HddParams;
use super::seek::{Distances, SeekCurve};
use crate::request::SECTOR_BYTES;

/// Sections of the disk over which mean distances are computed.
const SECTIONS: usize = 512;

/// Cylinders with equally many sectors on each track.
#[derive(Debug, Clone, Copy)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    sectors_per_track: u64,
}

/// The disk as a solid body.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    revolution_ns: u64,
    /// Angle at the beginning of time: disks of an array do not turn in step.
    phase_ns: u64,
    head_switch_ns: u64,
    cylinder_switch_ns: u64,
    seek: SeekCurve,
}

/// Where a sector lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cylinder: u64,
    pub(super) head: u64,
    /// Number of the sector on its track.
    sector: u64,
    sectors_per_track: u64,
    /// Angle at which the track begins.
    begin_ns: u64,
}

impl Place {
    /// Sectors from this one to the end of its track.
    pub(super) fn rest_of_track(&self) -> u64 {
        self.sectors_per_track - self.sector
    }
}

impl Geometry {
    /// The body of a disk of `sectors`.
    ///
    /// # Errors
    /// A sentence where its times fit no seek curve, or its rates no track.
    pub(super) fn new(params: &HddParams, sectors: u64, seed: u64) -> Result<Geometry, String> {
        let heads = params.heads;
        let revolution_ns = (60e9 / params.rpm).round() as u64;
        let switches_ns = (heads - 1) * params.head_switch_ns + params.track_to_track_ns;
        let cylinder_ns = heads * revolution_ns + switches_ns;
        let per_track = |rate_mbs: f64| {
            let cylinder_bytes = rate_mbs * 1e6 * cylinder_ns as f64 / 1e9;
            cylinder_bytes / (heads * SECTOR_BYTES) as f64
        };
        let (outer, inner) = (per_track(params.outer_mbs), per_track(params.inner_mbs));
        if inner < 16.0 {
            return Err("inner_mbs leaves less than 16 sectors on a track".to_owned());
        }
        let count = params.zones;
        let cylinders = sectors as f64 / (heads as f64 * (outer + inner) / 2.0);
        let zone_cylinders = (cylinders / count as f64).ceil().max(1.0) as u64;
        let (mut zones, mut first_sector) = (Vec::new(), 0);
        for index in 0..count {
            let share = (index as f64 + 0.5) / count as f64;
            let sectors_per_track = (outer + (inner - outer) * share).round() as u64;
            let first_cylinder = index * zone_cylinders;
            zones.push(Zone { first_sector, first_cylinder, sectors_per_track });
            first_sector += zone_cylinders * heads * sectors_per_track;
        }
        // The rounding of the zones leaves some percent of a small disk's cylinders unused at its end.
        let last = locate(&zones, heads, sectors.saturating_sub(1)).0;
        let distances = distances(&zones, zone_cylinders, last.max(2));
        let seek = SeekCurve::fit(
            params.track_to_track_ns,
            params.average_seek_ns,
            params.full_stroke_ns,
            distances,
        )?;
        let head_switch_ns = if heads > 1 { params.head_switch_ns } else { 0 };
        let cylinder_switch_ns = seek.time_ns(1).max(head_switch_ns);
        let phase_ns = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % revolution_ns;
        Ok(Geometry {
            zones,
            heads,
            revolution_ns,
            phase_ns,
            head_switch_ns,
            cylinder_switch_ns,
            seek,
        })
    }

    /// Where `sector` of the disk lies.
    pub(super) fn place(&self, sector: u64) -> Place {
        let (cylinder, head, sector, sectors_per_track) = locate(&self.zones, self.heads, sector);
        let per_cylinder = (self.heads - 1) * self.head_switch_ns + self.cylinder_switch_ns;
        let skew = cylinder * per_cylinder + head * self.head_switch_ns;
        let begin_ns = skew % self.revolution_ns;
        Place { cylinder, head, sector, sectors_per_track, begin_ns }
    }

    /// Time from the beginning of a track to a sector of it, in nanoseconds.
    fn offset_ns(&self, place: Place, sector: u64) -> u64 {
        sector * self.revolution_ns / place.sectors_per_track
    }

    /// Time that `count` sectors from `place` on take to pass, all on one track.
    pub(super) fn pass_ns(&self, place: Place, count: u64) -> u64 {
        self.offset_ns(place, place.sector + count) - self.offset_ns(place, place.sector)
    }

    /// Sectors from `place` on that have passed whole after `time_ns`, at most to the end of the track.
    pub(super) fn passed(&self, place: Place, time_ns: u64) -> u64 {
        let rest = place.rest_of_track();
        let guess = time_ns * place.sectors_per_track / self.revolution_ns;
        let mut count = guess.min(rest);
        // Both roundings are downwards, so that the guess may be off by one.
        while count < rest && self.pass_ns(place, count + 1) <= time_ns {
            count += 1;
        }
        while count > 0 && self.pass_ns(place, count) > time_ns {
            count -= 1;
        }
        count
    }

    /// How long it takes at `now_ns` until `place` is under its head.
    pub(super) fn rotation_ns(&self, place: Place, now_ns: u64) -> u64 {
        let target = (place.begin_ns + self.offset_ns(place, place.sector)) % self.revolution_ns;
        let angle = (now_ns + self.phase_ns) % self.revolution_ns;
        (target + self.revolution_ns - angle) % self.revolution_ns
    }

    /// Time to move from one place to another, without waiting for its angle.
    pub(super) fn move_ns(&self, from: (u64, u64), to: Place) -> u64 {
        let (cylinder, head) = from;
        let switch = if head == to.head { 0 } else { self.head_switch_ns };
        self.seek.time_ns(cylinder.abs_diff(to.cylinder)).max(switch)
    }

    #[cfg(test)]
    pub(super) fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    #[cfg(test)]
    pub(super) fn seek(&self) -> SeekCurve {
        self.seek
    }
}

/// Cylinder, head, sector on the track and sectors of the track.
fn locate(zones: &[Zone], heads: u64, sector: u64) -> (u64, u64, u64, u64) {
    let after = zones.partition_point(|zone| zone.first_sector <= sector);
    let zone = zones[after.max(1) - 1];
    let within = sector - zone.first_sector;
    let per_track = zone.sectors_per_track;
    let (track, sector) = (within / per_track, within % per_track);
    (zone.first_cylinder + track / heads, track % heads, sector, per_track)
}

/// Mean distances between sectors drawn at random, which are more on outer cylinders.
fn distances(zones: &[Zone], zone_cylinders: u64, last_cylinder: u64) -> Distances {
    let weight = |section: usize| {
        let cylinder = last_cylinder * section as u64 / SECTIONS as u64;
        let zone = usize::try_from(cylinder / zone_cylinders).unwrap_or(usize::MAX);
        zones[zone.min(zones.len() - 1)].sectors_per_track as f64
    };
    let weights: Vec<f64> = (0..SECTIONS).map(weight).collect();
    let total: f64 = weights.iter().sum();
    let step = last_cylinder as f64 / SECTIONS as f64;
    let (mut mean_root, mut mean) = (0.0, 0.0);
    for (from, from_weight) in weights.iter().enumerate() {
        for (to, to_weight) in weights.iter().enumerate() {
            let share = from_weight * to_weight / (total * total);
            // Within a section the distance is uniform as well: means of x and √x over two places.
            let (distance, root) = match from.abs_diff(to) {
                0 => (step / 3.0, step.sqrt() * 8.0 / 15.0),
                sections => (sections as f64 * step, (sections as f64 * step).sqrt()),
            };
            mean += share * distance;
            mean_root += share * root;
        }
    }
    Distances { greatest: last_cylinder as f64, mean_root, mean }
}
