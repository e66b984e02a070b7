//! Latency histograms into percentiles. Recording them is left to the runner.

use std::io::Read;

use flate2::read::ZlibDecoder;
use fsdyno_model::record::LatencyHistogram;
use fsdyno_model::result::Percentiles;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use thiserror::Error;

/// Why the bytes of a histogram could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// They are not a histogram in the V2 format with deflate compression.
    #[error("not a latency histogram in HdrHistogram's compressed V2 format: {0}")]
    Unreadable(String),
    /// Two histograms do not fit together.
    #[error("latency histograms cannot be merged: {0}")]
    Unmergeable(String),
}

/// Cookie of the compressed format, first four bytes.
const COMPRESSED_COOKIE: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
/// Bytes of the cookie and of the length of the compressed part.
const COMPRESSED_HEADER_BYTES: usize = 8;
/// Bytes before the counts in the format inside, where their length is at 4..8.
const INNER_HEADER_BYTES: usize = 40;
/// More than any histogram with three digits takes; a false length must not take the memory.
const INNER_LIMIT_BYTES: u64 = 16 << 20;
/// A variable-length number of nine such bytes is a count that no run reaches, and one for which
/// the decoder's arithmetic has no room.
const ABSURD_COUNT: [u8; 9] = [0xff; 9];

/// The percentiles of one histogram.
///
/// # Errors
/// [`HistogramError::Unreadable`] when its bytes are not a histogram.
pub fn percentiles(histogram: &LatencyHistogram) -> Result<Percentiles, HistogramError> {
    decode(histogram).map(|histogram| of(&histogram))
}

/// The percentiles of several histograms taken together, such as those of all trials; `None` of
/// none.
///
/// # Errors
/// [`HistogramError`] when one cannot be read, or holds values beyond the range of the first.
pub fn merged<'a>(
    histograms: impl IntoIterator<Item = &'a LatencyHistogram>,
) -> Result<Option<Percentiles>, HistogramError> {
    let mut sum: Option<Histogram<u64>> = None;
    for histogram in histograms {
        let histogram = decode(histogram)?;
        match &mut sum {
            None => sum = Some(histogram),
            Some(sum) => sum
                .add(&histogram)
                .map_err(|error| HistogramError::Unmergeable(error.to_string()))?,
        }
    }
    Ok(sum.map(|sum| of(&sum)))
}

/// The histograms that can be read, taken together, whatever their ranges; `None` where none can.
pub(crate) fn sum_of_readable<'a>(
    histograms: impl IntoIterator<Item = &'a LatencyHistogram>,
) -> Option<Histogram<u64>> {
    let mut readable = histograms.into_iter().filter_map(|histogram| decode(histogram).ok());
    let mut sum = readable.next()?;
    sum.auto(true);
    for histogram in readable {
        sum.add(&histogram).expect("a histogram that may grow takes every value");
    }
    Some(sum)
}

fn of(histogram: &Histogram<u64>) -> Percentiles {
    Percentiles {
        count: histogram.len(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
    }
}

fn decode(histogram: &LatencyHistogram) -> Result<Histogram<u64>, HistogramError> {
    let unreadable = |why: &str| HistogramError::Unreadable(why.to_owned());
    let bytes = &histogram.0;
    if bytes.len() < COMPRESSED_HEADER_BYTES || bytes[..4] != COMPRESSED_COOKIE {
        return Err(unreadable("its first bytes are not the format's"));
    }
    let mut inner = Vec::new();
    ZlibDecoder::new(&bytes[COMPRESSED_HEADER_BYTES..])
        .take(INNER_LIMIT_BYTES)
        .read_to_end(&mut inner)
        .map_err(|error| unreadable(&error.to_string()))?;
    if inner.len() < INNER_HEADER_BYTES {
        return Err(unreadable("it ends within its header"));
    }
    let counts_bytes = u32::from_be_bytes([inner[4], inner[5], inner[6], inner[7]]) as usize;
    let counts = &inner[INNER_HEADER_BYTES..];
    if counts_bytes > counts.len() {
        return Err(unreadable("it ends within its counts"));
    }
    if counts.windows(ABSURD_COUNT.len()).any(|window| window == ABSURD_COUNT) {
        return Err(unreadable("a count is absurd"));
    }
    Deserializer::new()
        .deserialize(&mut inner.as_slice())
        .map_err(|error| unreadable(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;
    use crate::fixture::histogram;

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let percentiles = percentiles(&histogram(1..=1000)).unwrap();
        assert_eq!(percentiles.count, 1000);
        for (actual, expected) in [
            (percentiles.p50, 500.0),
            (percentiles.p90, 900.0),
            (percentiles.p99, 990.0),
            (percentiles.p999, 999.0),
            (percentiles.max, 1000.0),
        ] {
            assert!((actual as f64 / expected - 1.0).abs() <= 1e-3, "{actual} {expected}");
        }
    }

    #[test]
    fn trials_are_taken_together() {
        let parts = [histogram(1..=500), histogram(501..=1000)];
        assert_eq!(merged(&parts), Ok(Some(percentiles(&histogram(1..=1000)).unwrap())));
        assert_eq!(merged(&[]), Ok(None));
        assert!(merged(&[histogram(1..=5), LatencyHistogram(vec![1, 2, 3])]).is_err());
    }

    #[test]
    fn an_empty_histogram_is_all_zero() {
        assert_eq!(
            percentiles(&histogram([])),
            Ok(Percentiles { count: 0, p50: 0, p90: 0, p99: 0, p999: 0, max: 0 })
        );
    }

    /// A histogram whose compressed part is `inner`.
    fn wrapped(inner: &[u8]) -> LatencyHistogram {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(inner).unwrap();
        let compressed = encoder.finish().unwrap();
        let mut bytes = COMPRESSED_COOKIE.to_vec();
        bytes.extend(u32::try_from(compressed.len()).unwrap().to_be_bytes());
        bytes.extend(compressed);
        LatencyHistogram(bytes)
    }

    fn inner(histogram: &LatencyHistogram) -> Vec<u8> {
        let mut inner = Vec::new();
        ZlibDecoder::new(&histogram.0[8..]).read_to_end(&mut inner).unwrap();
        inner
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = histogram((1..100_000).step_by(37));
        for length in 0..whole.0.len() {
            let cut = LatencyHistogram(whole.0[..length].to_vec());
            assert!(matches!(percentiles(&cut), Err(HistogramError::Unreadable(_))), "{length}");
        }
        let plain = inner(&whole);
        for length in 0..plain.len() {
            assert!(percentiles(&wrapped(&plain[..length])).is_err(), "{length}");
        }
    }

    #[test]
    fn an_absurd_count_is_an_error() {
        let mut plain = inner(&histogram(1..=1000));
        let end = plain.len();
        plain[end - 12..].fill(0xff);
        assert!(percentiles(&wrapped(&plain)).is_err());
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]
        #[test]
        fn no_bytes_panic(
            changes in proptest::collection::vec((0usize..400, proptest::prelude::any::<u8>()), 0..6),
        ) {
            let mut plain = inner(&histogram((1..100_000).step_by(977)));
            let length = plain.len();
            for (at, byte) in changes {
                plain[at % length] = byte;
            }
            let _ = percentiles(&wrapped(&plain));
        }
    }
}
