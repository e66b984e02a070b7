//! Volumes of a cloud: what they may do is counted in token buckets, one for operations and one for
//! bytes, which fill at a steady rate and hold credit for bursts; how long an operation takes is drawn
//! from a distribution. A request begins when both buckets have enough for it, in order of arrival.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::fields::Fields;
use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Op, Request, counters};

/// Parts of a token: a rate per second is then as many of them per nanosecond, exactly.
const PARTS: u128 = 1_000_000_000;

/// What a model states.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeParams {
    /// Operations a second that the bucket is filled with.
    pub iops: u64,
    /// Operations that it holds.
    pub iops_credit: u64,
    /// Operations a second while there is credit; `None` where nothing limits them.
    pub burst_iops: Option<u64>,
    /// Largest number of bytes that counts as one operation.
    pub operation_bytes: u64,
    /// Bytes a second that the other bucket is filled with.
    pub rate_bytes: u64,
    /// Bytes that it holds.
    pub credit_bytes: u64,
    /// Points of the distribution of latencies: share of the requests, and nanoseconds; straight between.
    pub read_latency: Vec<(f64, f64)>,
    /// The same for writes.
    pub write_latency: Vec<(f64, f64)>,
    /// What a flush takes.
    pub flush_ns: u64,
}

impl VolumeParams {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> VolumeParams {
        let iops = fields.count("iops", 1, 100_000_000);
        let rate_bytes = fields.size("throughput_per_second", 1 << 10, 1 << 40);
        let read_latency = latency(fields, "read_latency_us");
        let write_latency = match fields.has("write_latency_us") {
            true => latency(fields, "write_latency_us"),
            false => read_latency.clone(),
        };
        VolumeParams {
            iops,
            iops_credit: fields.count_or("iops_credit", 1, 1, 1 << 40),
            burst_iops: fields
                .has("burst_iops")
                .then(|| fields.count("burst_iops", 1, 100_000_000)),
            operation_bytes: fields.size_or("operation", 256 << 10, 512, 1 << 30),
            rate_bytes,
            credit_bytes: fields.size_or("throughput_credit", rate_bytes, 1 << 10, 1 << 50),
            read_latency,
            write_latency,
            flush_ns: fields.time_or("flush_us", 0.0, 1e3, 1e6),
        }
    }

    /// Mean of a distribution of latencies, in nanoseconds.
    #[must_use]
    pub fn mean_ns(points: &[(f64, f64)]) -> f64 {
        points.windows(2).map(|two| (two[1].0 - two[0].0) * (two[0].1 + two[1].1) / 2.0).sum()
    }
}

/// Pairs of share and microseconds, from 0 to 1, both growing.
fn latency(fields: &mut Fields<'_, '_>, key: &'static str) -> Vec<(f64, f64)> {
    let fallback = vec![(0.0, 0.0), (1.0, 0.0)];
    let pairs = fields.number_pairs(key);
    if fields.has(key) && pairs.is_empty() {
        return fallback;
    }
    let grows = pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
    let ends = (pairs.first().map(|it| it.0), pairs.last().map(|it| it.0));
    if !grows || ends != (Some(0.0), Some(1.0)) || pairs[0].1 < 0.0 {
        fields.wrong_at(
            key,
            "a distribution is a list of [share, microseconds] that grows from share 0 to share 1",
        );
        return fallback;
    }
    pairs.into_iter().map(|(share, us)| (share, us * 1e3)).collect()
}

/// A bucket of tokens.
#[derive(Debug)]
struct Bucket {
    /// Tokens a second, which are parts a nanosecond.
    rate: u128,
    most: u128,
    parts: u128,
    at_ns: u64,
}

impl Bucket {
    fn full(rate: u64, tokens: u64) -> Bucket {
        let most = u128::from(tokens) * PARTS;
        Bucket { rate: u128::from(rate), most, parts: most, at_ns: 0 }
    }

    /// When `tokens` are there, not before `now_ns`; they are taken then. More than it ever holds are
    /// owed, and paid by those that come later.
    fn take(&mut self, tokens: u64, now_ns: u64) -> u64 {
        let now_ns = now_ns.max(self.at_ns);
        let gained = u128::from(now_ns - self.at_ns) * self.rate;
        self.parts = (self.parts + gained).min(self.most);
        self.at_ns = now_ns;
        let wanted = u128::from(tokens) * PARTS;
        if self.parts >= wanted {
            self.parts -= wanted;
            return now_ns;
        }
        let missing = wanted - self.parts;
        let wait_ns = missing.div_ceil(self.rate);
        self.parts = wait_ns * self.rate - missing;
        self.at_ns = now_ns + u64::try_from(wait_ns).unwrap_or(u64::MAX / 4);
        self.at_ns
    }
}

/// A volume at work.
#[derive(Debug)]
pub struct Volume {
    params: VolumeParams,
    operations: Bucket,
    bytes: Bucket,
    burst: Option<Bucket>,
    random: Xoshiro256StarStar,
    pending: Pending,
    begun_ns: u64,
    waited: u64,
}

impl Volume {
    /// A volume with full buckets, whose latencies are drawn by `seed`.
    #[must_use]
    pub fn new(params: &VolumeParams, seed: u64) -> Volume {
        Volume {
            operations: Bucket::full(params.iops, params.iops_credit),
            bytes: Bucket::full(params.rate_bytes, params.credit_bytes),
            burst: params.burst_iops.map(|rate| Bucket::full(rate, 1)),
            params: params.clone(),
            random: Xoshiro256StarStar::seed_from_u64(seed),
            pending: Pending::default(),
            begun_ns: 0,
            waited: 0,
        }
    }

    /// A latency from a distribution: the inverse of its shares, at a uniform draw.
    fn draw_ns(&mut self, op: Op) -> u64 {
        let points =
            if op == Op::Read { &self.params.read_latency } else { &self.params.write_latency };
        let share = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let after = points.partition_point(|point| point.0 <= share).clamp(1, points.len() - 1);
        let ((from, low), (to, high)) = (points[after - 1], points[after]);
        (low + (high - low) * (share - from) / (to - from)).round() as u64
    }
}

impl Mechanism for Volume {
    fn submit(&mut self, request: Request) {
        let done_ns = match request.op {
            Op::Flush => request.arrival_ns + self.params.flush_ns,
            Op::Discard => request.arrival_ns,
            Op::Read | Op::Write => {
                let tokens = request.bytes.div_ceil(self.params.operation_bytes).max(1);
                let mut begin_ns = request.arrival_ns.max(self.begun_ns);
                if let Some(burst) = &mut self.burst {
                    begin_ns = burst.take(tokens, begin_ns);
                }
                begin_ns = self.operations.take(tokens, begin_ns);
                begin_ns = self.bytes.take(request.bytes, begin_ns);
                self.waited += u64::from(begin_ns > request.arrival_ns);
                self.begun_ns = begin_ns;
                begin_ns + self.draw_ns(request.op)
            }
        };
        self.pending.push(done_ns, request.id);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.pending.next_ns()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        self.pending.drain(until_ns, done);
    }

    fn counters(&self) -> Counters {
        counters([("waited_for_tokens", self.waited)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> VolumeParams {
        VolumeParams {
            iops: 3000,
            iops_credit: 10,
            burst_iops: None,
            operation_bytes: 256 << 10,
            rate_bytes: 125 << 20,
            credit_bytes: 125 << 20,
            read_latency: vec![(0.0, 500e3), (0.5, 500e3), (1.0, 500e3)],
            write_latency: vec![(0.0, 0.0), (0.9, 1e6), (1.0, 11e6)],
            flush_ns: 7,
        }
    }

    fn requests(volume: &mut Volume, count: u64, bytes: u64, op: Op) -> Vec<u64> {
        for id in 0..count {
            let sector = id * 8;
            volume.submit(Request { id, op, sector, bytes, fua: false, arrival_ns: 0 });
        }
        let mut done = Vec::new();
        volume.advance(u64::MAX, &mut done);
        done.sort_by_key(|it| it.id);
        done.into_iter().map(|it| it.at_ns).collect()
    }

    #[test]
    fn operations_are_counted_exactly() {
        let times = requests(&mut Volume::new(&params(), 1), 3010, 4096, Op::Read);
        for (index, time) in times.iter().enumerate() {
            // Ten of credit at once, then one every 333,333 ns and a third.
            let expected = (index as u64).saturating_sub(9) * 1_000_000_000;
            assert_eq!(*time, expected.div_ceil(3000) + 500_000, "{index}");
        }
    }

    #[test]
    fn bytes_are_counted_exactly() {
        // One MiB counts as four operations, of which there are ten; the bytes decide after 125.
        let params = VolumeParams { iops: 1_000_000, iops_credit: 1_000_000, ..params() };
        let times = requests(&mut Volume::new(&params, 1), 250, 1 << 20, Op::Read);
        assert_eq!(times[124], 500_000);
        assert_eq!(times[125], 8_000_000 + 500_000);
        assert_eq!(times[249], 1_000_000_000 + 500_000);
    }

    #[test]
    fn credit_is_spent_at_the_rate_of_a_burst() {
        let params =
            VolumeParams { iops: 300, iops_credit: 3000, burst_iops: Some(3000), ..params() };
        let times = requests(&mut Volume::new(&params, 1), 9000, 4096, Op::Read);
        let second = 1_000_000_000;
        // The bucket fills while it is being emptied: 3000 tokens last 3000 / (3000 - 300) seconds.
        let in_burst = times.iter().filter(|time| **time < second).count();
        assert!((2999..=3001).contains(&in_burst), "{in_burst}");
        let end = times[3332] - 500_000;
        assert!(end.abs_diff(second * 10 / 9) < 2_000_000, "{end}");
        let spacing = times[8000] - times[7999];
        assert!((3_333_333..=3_333_334).contains(&spacing), "{spacing}");
    }

    #[test]
    fn latencies_have_the_stated_mean_and_come_from_the_seed() {
        let params = VolumeParams {
            iops: 100_000_000,
            iops_credit: 1 << 40,
            rate_bytes: 1 << 40,
            credit_bytes: 1 << 50,
            ..params()
        };
        let times = requests(&mut Volume::new(&params, 5), 100_000, 4096, Op::Write);
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        let stated = VolumeParams::mean_ns(&params.write_latency);
        assert!((mean / stated - 1.0).abs() < 0.02, "{mean} {stated}");
        assert_eq!(times, requests(&mut Volume::new(&params, 5), 100_000, 4096, Op::Write));
        assert_ne!(times, requests(&mut Volume::new(&params, 6), 100_000, 4096, Op::Write));
    }
}
