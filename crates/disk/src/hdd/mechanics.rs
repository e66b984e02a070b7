//! Arm, platters and the stream of sectors that pass under the heads: how long it takes to get to a
//! place and to read or write on from there, and how far reading ahead has come.

use super::geometry::{Geometry, Place};

/// Sectors that are read ahead after a read, as long as nothing else is to be done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// The first sector of it that is in the buffer.
    pub(super) first: u64,
    /// Known position: `sector` passes from `at_ns` on.
    sector: u64,
    at_ns: u64,
    /// Where it stops.
    pub(super) limit: u64,
}

/// Where the heads are.
#[derive(Debug)]
pub(super) struct Mechanics {
    pub(super) geometry: Geometry,
    write_settle_ns: u64,
    cylinder: u64,
    head: u64,
    /// The sector behind the last one that passed, and when it did.
    next: u64,
    free_ns: u64,
    pub(super) stream: Option<Stream>,
    pub(super) seeks: u64,
    pub(super) seek_ns: u64,
    pub(super) rotation_ns: u64,
    pub(super) transfer_ns: u64,
}

impl Mechanics {
    pub(super) fn new(geometry: Geometry, write_settle_ns: u64) -> Mechanics {
        Mechanics {
            geometry,
            write_settle_ns,
            cylinder: 0,
            head: 0,
            next: 0,
            free_ns: 0,
            stream: None,
            seeks: 0,
            seek_ns: 0,
            rotation_ns: 0,
            transfer_ns: 0,
        }
    }

    /// The sector that the heads are next to.
    pub(super) fn next_sector(&self) -> u64 {
        self.next
    }

    /// Whether the sectors from `first` to `end` begin where the stream is or was, and end beyond it:
    /// reading goes on there. The buffer holds the last `room` sectors of the stream.
    pub(super) fn is_streamed(&self, first: u64, end: u64, room: u64) -> bool {
        self.stream.is_some_and(|stream| {
            let held = stream.first.max(stream.sector.saturating_sub(room));
            (held..=stream.sector).contains(&first) && end > stream.sector
        })
    }

    /// How long it takes at `now_ns` until `sector` passes: moving and waiting for its angle.
    pub(super) fn access_ns(&self, sector: u64, is_write: bool, now_ns: u64) -> u64 {
        let (moving, rotation) = self.access_parts(sector, is_write, now_ns);
        moving + rotation
    }

    fn access_parts(&self, sector: u64, is_write: bool, now_ns: u64) -> (u64, u64) {
        let place = self.geometry.place(sector);
        let mut moving = self.geometry.move_ns((self.cylinder, self.head), place);
        // What goes on where the last access ended is on track already.
        if is_write && sector != self.next {
            moving += self.write_settle_ns;
        }
        (moving, self.geometry.rotation_ns(place, now_ns + moving))
    }

    /// Moves to `sector` and passes `count` sectors; gives the time at which the last one has passed.
    pub(super) fn access(&mut self, sector: u64, count: u64, is_write: bool, now_ns: u64) -> u64 {
        let (moving, rotation) = self.access_parts(sector, is_write, now_ns);
        let begin_ns = now_ns + moving + rotation;
        if self.geometry.place(sector).cylinder != self.cylinder {
            self.seeks += 1;
        }
        self.seek_ns += moving;
        self.rotation_ns += rotation;
        let end_ns = self.pass(sector, count, begin_ns);
        self.transfer_ns += end_ns - begin_ns;
        self.stream = None;
        end_ns
    }

    /// Passes `count` sectors from `sector` on, which is under its head at `begin_ns`.
    fn pass(&mut self, sector: u64, count: u64, begin_ns: u64) -> u64 {
        let (mut sector, mut left, mut now_ns) = (sector, count, begin_ns);
        loop {
            let place = self.geometry.place(sector);
            let here = left.min(place.rest_of_track());
            now_ns += self.geometry.pass_ns(place, here);
            self.hold(place, sector + here, now_ns);
            (sector, left) = (sector + here, left - here);
            if left == 0 {
                return now_ns;
            }
            now_ns = self.switch(place, sector, now_ns);
        }
    }

    /// Gets from the end of the track of `from` to `sector`, the first of the next one.
    fn switch(&self, from: Place, sector: u64, now_ns: u64) -> u64 {
        let to = self.geometry.place(sector);
        let now_ns = now_ns + self.geometry.move_ns((from.cylinder, from.head), to);
        now_ns + self.geometry.rotation_ns(to, now_ns)
    }

    fn hold(&mut self, place: Place, next: u64, free_ns: u64) {
        (self.cylinder, self.head) = (place.cylinder, place.head);
        (self.next, self.free_ns) = (next, free_ns);
    }

    /// Begins to read ahead where the last access ended, up to `limit`; `first` is in the buffer already.
    pub(super) fn begin_stream(&mut self, first: u64, limit: u64) {
        let (sector, at_ns) = (self.next, self.free_ns);
        self.stream = Some(Stream { first, sector, at_ns, limit: limit.max(sector) });
    }

    /// Lets a stream that has stopped at its limit go on to another, once its sector comes round.
    pub(super) fn restart_stream(&mut self, limit: u64, now_ns: u64) {
        let Some(mut stream) = self.stream else { return };
        let place = self.geometry.place(stream.sector);
        let now_ns = now_ns.max(stream.at_ns);
        let now_ns = now_ns + self.geometry.move_ns((self.cylinder, self.head), place);
        stream.at_ns = now_ns + self.geometry.rotation_ns(place, now_ns);
        stream.limit = limit;
        self.stream = Some(stream);
    }

    /// Lets the stream run until `now_ns`; gives the sector behind the last one that is in the buffer.
    pub(super) fn follow_stream(&mut self, now_ns: u64) -> Option<u64> {
        let mut stream = self.stream?;
        while stream.sector < stream.limit && stream.at_ns < now_ns {
            let place = self.geometry.place(stream.sector);
            let here = place.rest_of_track().min(stream.limit - stream.sector);
            let passed = self.geometry.passed(place, now_ns - stream.at_ns).min(here);
            stream.at_ns += self.geometry.pass_ns(place, passed);
            stream.sector += passed;
            self.hold(place, stream.sector, stream.at_ns);
            if passed < place.rest_of_track() {
                break;
            }
            if stream.sector < stream.limit {
                let next_ns = self.switch(place, stream.sector, stream.at_ns);
                if next_ns > now_ns {
                    // Between two tracks: the next sector is not there before.
                    stream.at_ns = next_ns;
                    break;
                }
                stream.at_ns = next_ns;
            }
        }
        self.stream = Some(stream);
        Some(stream.sector)
    }

    /// Reads on with the stream to `end`, which is beyond what it has reached; gives the time at which
    /// that has passed. A stream that had stopped at its limit waits for its sector to come round.
    pub(super) fn read_on(&mut self, end: u64, now_ns: u64) -> u64 {
        let Some(stream) = self.stream else { return now_ns };
        let place = self.geometry.place(stream.sector);
        let begin_ns = if stream.sector >= stream.limit {
            let now_ns = now_ns.max(stream.at_ns);
            now_ns + self.geometry.move_ns((self.cylinder, self.head), place)
        } else {
            stream.at_ns
        };
        let begin_ns = begin_ns + self.geometry.rotation_ns(place, begin_ns);
        let end_ns = self.pass(stream.sector, end - stream.sector, begin_ns);
        self.transfer_ns += end_ns.saturating_sub(now_ns);
        end_ns
    }
}
