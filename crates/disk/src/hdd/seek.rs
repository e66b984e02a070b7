//! The seek curve: `a + b·√d + c·d` over a distance of `d` cylinders, through the three times that every
//! data sheet states. The form is that of E. K. Lee and R. H. Katz, *An analytic performance model of
//! disk arrays* (SIGMETRICS 1993): the arm accelerates over short distances and coasts over long ones.

/// Time of a seek by distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeekCurve {
    constant_ns: f64,
    root_ns: f64,
    linear_ns: f64,
}

/// Mean of `√d` and of `d` over pairs of places, in cylinders.
#[derive(Debug, Clone, Copy)]
pub struct Distances {
    /// Greatest distance, in cylinders.
    pub greatest: f64,
    /// Mean of the square root.
    pub mean_root: f64,
    /// Mean.
    pub mean: f64,
}

impl SeekCurve {
    /// The curve through the time of one cylinder, the mean over random places and the full stroke, all
    /// in nanoseconds.
    ///
    /// # Errors
    /// A sentence where no curve of this form grows through the three.
    pub fn fit(
        track_to_track_ns: u64,
        average_ns: u64,
        full_stroke_ns: u64,
        distances: Distances,
    ) -> Result<SeekCurve, String> {
        let (track, average) = (track_to_track_ns as f64, average_ns as f64);
        let full = full_stroke_ns as f64;
        let Distances { greatest, mean_root, mean } = distances;
        // Differences to the first equation, which is a + b + c = track.
        let (root_1, linear_1) = (mean_root - 1.0, mean - 1.0);
        let (root_2, linear_2) = (greatest.sqrt() - 1.0, greatest - 1.0);
        let determinant = root_1 * linear_2 - root_2 * linear_1;
        let root_ns = ((average - track) * linear_2 - (full - track) * linear_1) / determinant;
        let linear_ns = ((full - track) * root_1 - (average - track) * root_2) / determinant;
        let curve = SeekCurve { constant_ns: track - root_ns - linear_ns, root_ns, linear_ns };
        // The slope b/(2√d) + c moves one way only, so that its ends decide.
        let slope = |distance: f64| root_ns / (2.0 * distance.sqrt()) + linear_ns;
        if determinant == 0.0 || slope(1.0) < 0.0 || slope(greatest) < 0.0 {
            return Err(format!(
                "no seek curve goes through track_to_track_ms, average_seek_ms and full_stroke_ms: with \
                 {:.2} and {:.2} ms at the ends an average is between {:.2} and {:.2} ms",
                track / 1e6,
                full / 1e6,
                (track + (full - track) * mean / greatest * 0.75) / 1e6,
                (track + (full - track) * mean_root / greatest.sqrt() * 1.1) / 1e6,
            ));
        }
        Ok(curve)
    }

    /// Time to move by `cylinders`, in nanoseconds; 0 for 0.
    #[must_use]
    pub fn time_ns(&self, cylinders: u64) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        let distance = cylinders as f64;
        let time = self.constant_ns + self.root_ns * distance.sqrt() + self.linear_ns * distance;
        time.round().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(cylinders: f64) -> Distances {
        Distances {
            greatest: cylinders,
            mean_root: cylinders.sqrt() * 8.0 / 15.0,
            mean: cylinders / 3.0,
        }
    }

    #[test]
    fn the_curve_goes_through_the_data_sheet() {
        let curve = SeekCurve::fit(800_000, 8_900_000, 18_000_000, uniform(60_000.0)).unwrap();
        assert_eq!(curve.time_ns(0), 0);
        assert_eq!(curve.time_ns(1), 800_000);
        assert_eq!(curve.time_ns(60_000), 18_000_000);
        let pairs = 2000;
        let total: u64 = (0..pairs * pairs)
            .map(|pair| (pair / pairs, pair % pairs))
            .map(|(from, to): (u64, u64)| curve.time_ns(from.abs_diff(to) * 30))
            .sum();
        let mean = total as f64 / (pairs * pairs) as f64;
        assert!((mean / 8_900_000.0 - 1.0).abs() < 0.002, "{mean}");
        for distance in 1..60_000 {
            assert!(curve.time_ns(distance) <= curve.time_ns(distance + 1), "{distance}");
        }
    }

    #[test]
    fn impossible_times_are_refused() {
        for (average, full) in [(17_000_000, 18_000_000), (1_000_000, 18_000_000)] {
            let error = SeekCurve::fit(800_000, average, full, uniform(60_000.0)).unwrap_err();
            assert!(error.contains("average_seek_ms"), "{error}");
        }
    }
}
