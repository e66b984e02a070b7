//! Whole numbers of variable length: seven bits to a byte, the least first, the top bit of all but the
//! last one set (LEB128); and signed differences folded so that small ones of either sign are short.

/// Appends `value`.
#[inline]
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number off the front of `bytes`; `None` when they end in its midst or it has more than 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    take_longer(bytes, u64::from(first & 0x7f))
}

#[inline]
fn take_longer(bytes: &mut &[u8], mut value: u64) -> Option<u64> {
    let mut shift = 7;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// 0, -1, 1, -2 … as 0, 1, 2, 3 …
#[inline]
pub(super) fn fold(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The difference that was folded.
#[inline]
pub(super) fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None, "cut short");
        }
        for difference in [0, -1, 1, 63, -64, i64::MIN, i64::MAX] {
            assert_eq!(unfold(fold(difference)), difference);
        }
        assert_eq!([fold(-1), fold(1), fold(-2)], [1, 2, 3]);
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert_eq!(take(&mut [0xff_u8; 12].as_slice()), None);
        let two_to_the_64th = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
        assert_eq!(take(&mut two_to_the_64th.as_slice()), None);
    }
}
