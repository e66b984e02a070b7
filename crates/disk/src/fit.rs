//! Models out of measurements: what a disk is asked, in whichever time it answers, and the model that would
//! answer alike. The same requests go to a real disk and to the model that was made of it, so that both can
//! be laid beside each other.
//!
//! A disk that rotates gives itself away: blocks that lie before each other on one track pass under the head
//! at times that differ by whole turns, however long the arm was away in between. The length of a turn is
//! the longest one for which the times fall together (as in N. Talagala, R. Arpaci-Dusseau, D. Patterson,
//! *Microbenchmark-based extraction of local and global disk characteristics*, 2000, who write where this
//! reads). With it the time of the arm is what the fastest accesses over each distance took, less the turn.

mod ask;
pub mod rotating;
mod text;

pub use ask::{Source, measure};
pub use text::{Fitted, Head, model};

/// What is asked, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Random reads of each kind; other probes follow from it.
    pub requests: u32,
    /// Whether it is written to, which overwrites what is there.
    pub writes: bool,
    /// Places come from it.
    pub seed: u64,
}

/// Reading in sequence at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    /// The place, as a share of the disk.
    pub place: f64,
    /// MB (10⁶ bytes) a second, without the slowest tenth of the requests.
    pub rate_mbs: f64,
    /// The same with all of them.
    pub whole_mbs: f64,
}

/// Reading again and again over about one distance.
#[derive(Debug, Clone, PartialEq)]
pub struct Far {
    /// Mean distance in bytes.
    pub distance_bytes: f64,
    /// The distances, each from place to place, in bytes.
    pub pairs: Vec<(u64, u64)>,
    /// Times in nanoseconds, growing.
    pub times_ns: Vec<u64>,
}

/// Writing.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Writes of 4 KiB at random places, in nanoseconds, growing.
    pub times_ns: Vec<u64>,
    /// Flushes after one of them each, in nanoseconds, growing.
    pub flushes_ns: Vec<u64>,
    /// MB a second in sequence.
    pub rate_mbs: f64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Median time of the same 4 KiB again and again, in nanoseconds: the way there, and a buffer.
    pub again_ns: u64,
    /// The same of 128 KiB.
    pub again_large_ns: u64,
    /// Reading in sequence, from the beginning to the end of the disk.
    pub zones: Vec<Zone>,
    /// Reads of 4 KiB at random places one at a time, in nanoseconds, growing.
    pub random_ns: Vec<u64>,
    /// Bytes and median time of random reads of other sizes.
    pub sizes: Vec<(u64, u64)>,
    /// Random reads of 4 KiB a second, eight at a time.
    pub deep_iops: f64,
    /// Length of a turn in nanoseconds; `None` where nothing turns.
    pub turn_ns: Option<f64>,
    /// How well the times fell together at that length, 0 to 1.
    pub turn_share: f64,
    /// Reads by distance, the shortest first; empty where nothing turns.
    pub far: Vec<Far>,
    /// Writes and flushes; `None` where nothing was written.
    pub written: Option<Written>,
}

impl Figures {
    /// Median of times that grow; 0 for none.
    #[must_use]
    pub fn median(times_ns: &[u64]) -> u64 {
        times_ns.get(times_ns.len() / 2).copied().unwrap_or(0)
    }

    /// Mean of times in nanoseconds without the slowest twentieth: what came late says nothing of the disk.
    #[must_use]
    pub fn trimmed_mean_ns(times_ns: &[u64]) -> f64 {
        let kept = &times_ns[..times_ns.len() - times_ns.len() / 20];
        kept.iter().map(|it| *it as f64).sum::<f64>() / kept.len().max(1) as f64
    }

    /// Names, units and values that are laid beside those of the model.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, &'static str, f64)> {
        let ms = |ns: f64| ns / 1e6;
        let mut rows = Vec::new();
        for zone in &self.zones {
            let name = format!("sequential read at {:.0} %", zone.place * 100.0);
            rows.push((name, "MB/s", zone.rate_mbs));
        }
        rows.push(("the same 4 KiB again".to_owned(), "ms", ms(self.again_ns as f64)));
        let mean = Figures::trimmed_mean_ns(&self.random_ns);
        rows.push(("random read 4 KiB, mean".to_owned(), "ms", ms(mean)));
        for (bytes, median) in &self.sizes {
            let name = format!("random read {} KiB, median", bytes >> 10);
            rows.push((name, "ms", ms(*median as f64)));
        }
        rows.push(("random read 4 KiB, 8 at once".to_owned(), "/s", self.deep_iops));
        if let Some(turn) = self.turn_ns {
            rows.push(("turn".to_owned(), "ms", ms(turn)));
            for far in &self.far {
                let name = format!("read over {:.3} % of the disk, least", 100.0 * far.share(self));
                let base = rotating::least_ns(&far.times_ns, turn);
                rows.push((name, "ms", ms(base)));
            }
        }
        if let Some(written) = &self.written {
            let median = |times: &[u64]| ms(Figures::median(times) as f64);
            rows.push(("random write 4 KiB, median".to_owned(), "ms", median(&written.times_ns)));
            rows.push(("flush after it, median".to_owned(), "ms", median(&written.flushes_ns)));
            rows.push(("sequential write".to_owned(), "MB/s", written.rate_mbs));
        }
        rows
    }
}

impl Far {
    /// The distance as a share of the disk.
    fn share(&self, figures: &Figures) -> f64 {
        self.distance_bytes / figures.size_bytes as f64
    }
}

#[cfg(test)]
mod tests;
