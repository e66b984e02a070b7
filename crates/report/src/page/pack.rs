//! Numbers as compact text: little-endian arrays in base64, which the page's script decodes. What the
//! numbers mean is left to the callers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Bytes as base64.
pub fn bytes(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// 32-bit floats; what is absent becomes NaN.
pub fn floats(values: impl IntoIterator<Item = Option<f64>>) -> Value {
    let mut packed = Vec::new();
    for value in values {
        let value = value.filter(|value| value.is_finite()).map_or(f32::NAN, |value| value as f32);
        packed.extend_from_slice(&value.to_le_bytes());
    }
    bytes(&packed)
}

/// Appends `value` in groups of seven bits, the lowest first; the top bit says that more follow.
pub fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// How neighbours become one point where a line has more points than a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinning {
    /// Their mean.
    Mean,
    /// The greatest: of high percentiles the worst is what matters.
    Greatest,
    /// Their sum: of what was added between two samples.
    Sum,
}

/// `values` in groups of `group` neighbours, one value each; null where a group has none.
pub fn thinned(values: &[Option<f64>], group: usize, how: Thinning) -> Vec<Option<f64>> {
    let one = |chunk: &[Option<f64>]| {
        let known = || chunk.iter().flatten().copied();
        let count = known().count();
        if count == 0 {
            return None;
        }
        Some(match how {
            Thinning::Mean => known().sum::<f64>() / count as f64,
            Thinning::Greatest => known().fold(f64::NEG_INFINITY, f64::max),
            Thinning::Sum => known().sum(),
        })
    };
    values.chunks(group.max(1)).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_are_nan() {
        let packed = floats([Some(1.0), None, Some(f64::INFINITY)]);
        let decoded = STANDARD.decode(packed.as_str().unwrap()).unwrap();
        let values: Vec<f32> =
            decoded.chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect();
        assert_eq!(values[0], 1.0);
        assert!(values[1].is_nan() && values[2].is_nan());
    }

    #[test]
    fn long_numbers_take_more_bytes() {
        let mut packed = Vec::new();
        for value in [0, 127, 128, u64::MAX] {
            varint(&mut packed, value);
        }
        assert_eq!(packed.len(), 1 + 1 + 2 + 10);
        assert_eq!(packed[..4], [0, 127, 0x80, 1]);
    }

    #[test]
    fn neighbours_become_one_point() {
        let values = [Some(1.0), Some(3.0), None, None, Some(5.0)];
        assert_eq!(thinned(&values, 2, Thinning::Mean), [Some(2.0), None, Some(5.0)]);
        assert_eq!(thinned(&values, 2, Thinning::Greatest), [Some(3.0), None, Some(5.0)]);
        assert_eq!(thinned(&values, 5, Thinning::Sum), [Some(9.0)]);
    }
}
