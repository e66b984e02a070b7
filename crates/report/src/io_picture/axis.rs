//! Axes: where ticks stand and how figures are written beside them.

/// Largest number of ticks for `length` pixels with `apart` pixels between them.
pub fn room(length: f64, apart: f64) -> usize {
    ((length / apart) as usize).max(1)
}

/// Round values from 0 to at least `most`, one, two or five of a power of ten apart, at most `count`
/// steps of them; the last one is the top of the axis.
pub fn ticks_up(most: f64, count: usize) -> Vec<f64> {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let step = round_step(most / count.max(1) as f64);
    let steps = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=steps).map(|index| index as f64 * step).collect()
}

/// Round values within `low` … `high`, about `count` of them.
pub fn ticks_within(low: f64, high: f64, count: usize) -> Vec<f64> {
    if high.is_nan() || low.is_nan() || high <= low || !(high - low).is_finite() {
        return vec![low];
    }
    let step = round_step((high - low) / count.max(1) as f64);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// Powers of ten within `low` … `high`; with 2 and 5 times of them where there are few.
pub fn ticks_log(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |multiples: &[f64]| -> Vec<f64> {
        (first..=last)
            .flat_map(|power| multiples.iter().map(move |by| by * 10f64.powi(power)))
            .filter(|value| *value >= low * 0.999 && *value <= high * 1.001)
            .collect()
    };
    let (all, two, one) = (inside(&[1.0, 2.0, 5.0]), inside(&[1.0, 3.0]), inside(&[1.0]));
    if all.len() <= count {
        return all;
    }
    if two.len() <= count {
        return two;
    }
    let every = one.len().div_ceil(count.max(1)).max(1);
    one.into_iter().step_by(every).collect()
}

/// The smallest of 1, 2, 5, 10, … that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let multiple = [1.0, 2.0, 5.0, 10.0].into_iter().find(|by| by * power >= step * (1.0 - 1e-9));
    multiple.unwrap_or(10.0) * power
}

/// A unit and how many of the base it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub unit: &'static str,
    pub factor: f64,
}

/// The decimal unit of bytes for values up to `most`.
pub fn bytes(most: f64) -> Scale {
    largest(most, &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)])
}

/// The unit of time for spans up to `most` nanoseconds.
pub fn time(most: f64) -> Scale {
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    if most >= 2.0 * 3600e9 {
        Scale { unit: "h", factor: 3600e9 }
    } else if most >= 600e9 {
        Scale { unit: "min", factor: 60e9 }
    } else {
        largest(most, &units)
    }
}

fn largest(most: f64, units: &[(&'static str, f64)]) -> Scale {
    let found = units.iter().rev().find(|(_, factor)| most >= *factor).unwrap_or(&units[0]);
    Scale { unit: found.0, factor: found.1 }
}

/// A tick's value, short: `0`, `0.25`, `20`, `20k`, `1.5M`.
pub fn label(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{suffix}", if text == "-0" { "0" } else { text }).replace('-', "−")
}

/// A time with its unit: `20 µs`.
pub fn time_label(nanoseconds: f64) -> String {
    let scale = time(nanoseconds * 1.000_001);
    format!("{} {}", label((nanoseconds / scale.factor * 1e6).round() / 1e6), scale.unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks_up(93.0, 4), [0.0, 50.0, 100.0]);
        assert_eq!(ticks_up(100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks_up(0.0, 4).last(), Some(&1.0));
        assert_eq!(ticks_up(f64::NAN, 4).last(), Some(&1.0));
        assert_eq!(ticks_within(3.0, 11.0, 4), [4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks_within(1.0, 1.0, 4), [1.0]);
        assert_eq!(ticks_log(1e3, 1e6, 4), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(ticks_log(0.4, 2.5, 9), [0.5, 1.0, 2.0]);
        for most in [1e-9, 0.3, 7.0, 1e3, 123_456.0, 9.9e11] {
            for count in 1..9 {
                let ticks = ticks_up(most, count);
                let top = ticks[ticks.len() - 1];
                assert!(ticks.len() <= count + 1 && top >= most * 0.999_999, "{most} {ticks:?}");
            }
        }
    }

    #[test]
    fn figures_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (-3.0, "−3"),
            (9_000.0, "9000"),
            (2e4, "20k"),
            (1.5e6, "1.5M"),
        ] {
            assert_eq!(label(value), text);
        }
        assert_eq!(time_label(2e4), "20 µs");
        assert_eq!(time_label(1e9), "1 s");
        assert_eq!(bytes(2.5e8), Scale { unit: "MB", factor: 1e6 });
        assert_eq!(time(900e9).unit, "min");
    }
}
