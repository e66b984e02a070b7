//! The letters by which block events say what kind of request it is: `WSM`, `FF`, `DS` (Linux,
//! `blk_fill_rwbs`), as flags. A pure function.

use fsdyno_model::trace::Flags;

/// What the letters mean of a request of `sectors`, or `None` where it moves nothing: a command that
/// the driver alone understands, the change of a zone's state, the second end that the kernel reports
/// of a write once the flush before it is done.
///
/// The letters are: `F` where the cache is flushed before; one or two for the operation (`R` read, `W`
/// write, `WZ` zeroes, `D` discard, `DE` secure erase, `F` flush, `ZA` append to a zone, `ZR` reset of
/// a zone, `N` another); then `F` forced unit access, `A` readahead, `S` synchronous, `M` metadata,
/// `U` atomic. Older kernels write `N` of zeroes too.
#[inline]
#[must_use]
pub fn flags(rwbs: &[u8], sectors: u32) -> Option<Flags> {
    let letter = |index: usize| rwbs.get(index).copied().unwrap_or(0);
    let mut index = 0;
    let mut flags = Flags::default();
    let before = letter(0) == b'F';
    if before {
        flags = Flags::FLUSH;
        index = 1;
    }
    let (operation, length) = match (letter(index), letter(index + 1)) {
        (b'R', _) => (Flags::default(), 1),
        (b'W', b'Z') => (Flags::WRITE, 2),
        (b'W', _) => (Flags::WRITE, 1),
        (b'D', b'E') => (Flags::DISCARD, 2),
        (b'D', _) => (Flags::DISCARD, 1),
        (b'F', _) => (Flags::FLUSH, 1),
        (b'Z', b'A') => (Flags::WRITE, 2),
        (b'Z', b'R') => (Flags::DISCARD, 2),
        (b'N', _) if before => (Flags::FLUSH, 1),
        (b'N', _) => (Flags::WRITE, 1),
        // `F` alone: what was taken for a flush before is the operation.
        _ if before => (Flags::FLUSH, 0),
        _ => return None,
    };
    if sectors > 0 {
        flags = flags.with(operation);
    } else if flags == Flags::default() && operation != Flags::FLUSH {
        return None;
    } else {
        flags = Flags::FLUSH;
    }
    for &modifier in rwbs.get(index + length..).unwrap_or_default() {
        flags = match modifier {
            0 => break,
            b'F' => flags.with(Flags::FUA),
            b'A' => flags.with(Flags::READAHEAD),
            b'S' => flags.with(Flags::SYNC),
            b'M' => flags.with(Flags::METADATA),
            _ => flags,
        };
    }
    Some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Flags = Flags(0);

    fn union(parts: &[Flags]) -> Flags {
        parts.iter().fold(READ, |all, &part| all.with(part))
    }

    #[test]
    fn letters_mean_what_the_kernel_means_by_them() {
        use Flags as F;
        let table: &[(&str, u32, Option<&[F]>)] = &[
            ("R", 8, Some(&[READ])),
            ("RA", 8, Some(&[F::READAHEAD])),
            ("RSM", 8, Some(&[F::SYNC, F::METADATA])),
            ("RAM", 8, Some(&[F::READAHEAD, F::METADATA])),
            ("RF", 8, Some(&[F::FUA])),
            ("W", 8, Some(&[F::WRITE])),
            ("WS", 8, Some(&[F::WRITE, F::SYNC])),
            ("WSM", 8, Some(&[F::WRITE, F::SYNC, F::METADATA])),
            ("WM", 8, Some(&[F::WRITE, F::METADATA])),
            ("WFS", 8, Some(&[F::WRITE, F::FUA, F::SYNC])),
            ("WFSM", 8, Some(&[F::WRITE, F::FUA, F::SYNC, F::METADATA])),
            ("FWS", 8, Some(&[F::FLUSH, F::WRITE, F::SYNC])),
            ("FWFS", 8, Some(&[F::FLUSH, F::WRITE, F::FUA, F::SYNC])),
            ("FWFSM", 8, Some(&[F::FLUSH, F::WRITE, F::FUA, F::SYNC, F::METADATA])),
            ("WSU", 8, Some(&[F::WRITE, F::SYNC])),
            // Flushes: the bio, the request, and older spellings.
            ("FWS", 0, Some(&[F::FLUSH, F::SYNC])),
            ("FF", 0, Some(&[F::FLUSH])),
            ("FFS", 0, Some(&[F::FLUSH, F::SYNC])),
            ("F", 0, Some(&[F::FLUSH])),
            ("FN", 0, Some(&[F::FLUSH])),
            // Discards and zeroes.
            ("D", 8, Some(&[F::DISCARD])),
            ("DS", 8, Some(&[F::DISCARD, F::SYNC])),
            ("DE", 8, Some(&[F::DISCARD])),
            ("DES", 8, Some(&[F::DISCARD, F::SYNC])),
            ("WZS", 8, Some(&[F::WRITE, F::SYNC])),
            ("N", 8, Some(&[F::WRITE])),
            ("NS", 8, Some(&[F::WRITE, F::SYNC])),
            // Zones.
            ("ZAS", 8, Some(&[F::WRITE, F::SYNC])),
            ("ZR", 8, Some(&[F::DISCARD])),
            // What moves nothing.
            ("N", 0, None),
            ("WS", 0, None),
            ("WFSM", 0, None),
            ("R", 0, None),
            ("D", 0, None),
            ("ZR", 0, None),
            ("ZO", 0, None),
            ("ZO", 8, None),
            ("", 8, None),
            ("?", 8, None),
        ];
        for &(letters, sectors, wanted) in table {
            let wanted = wanted.map(union);
            for size in [8, 10] {
                let mut padded = letters.as_bytes().to_vec();
                padded.resize(size, 0);
                assert_eq!(flags(&padded, sectors), wanted, "{letters:?} of {sectors} sectors");
            }
            assert_eq!(flags(letters.as_bytes(), sectors), wanted, "{letters:?} without an end");
        }
    }

    #[test]
    fn a_read_is_told_from_the_rest() {
        assert!(flags(b"RSM", 8).is_some_and(Flags::is_read));
        for letters in ["W", "D", "FF", "FWS", "N"] {
            assert!(!flags(letters.as_bytes(), 8).is_some_and(Flags::is_read), "{letters}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_letters_make_it_panic(rwbs: Vec<u8>, sectors: u32) {
            let _ = flags(&rwbs, sectors);
        }
    }
}
