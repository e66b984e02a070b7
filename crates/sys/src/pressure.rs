//! Pressure stall information (PSI): for how long tasks had to wait for the processor, for I/O and for
//! memory. Many kernels have it compiled in but turned off (boot parameter `psi=1`).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Stalled time since boot, in nanoseconds (counted in microseconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// At least one task had to wait.
    pub some_ns: u64,
    /// All tasks that were not idle had to wait; `None` where the kernel does not tell.
    pub full_ns: Option<u64>,
}

/// Reads the pressure of one resource from a kept descriptor.
#[derive(Debug)]
pub struct Pressure {
    file: File,
}

impl Pressure {
    /// Names of the resources.
    pub const RESOURCES: [&'static str; 3] = ["cpu", "io", "memory"];

    /// Opens the pressure of `resource`, one of [`Self::RESOURCES`]; `None` where the kernel has none.
    #[must_use]
    pub fn open(resource: &str) -> Option<Self> {
        let file = File::open(format!("/proc/pressure/{resource}")).ok()?;
        let pressure = Self { file };
        // Where it is turned off, opening it or reading it fails.
        pressure.read().is_some().then_some(pressure)
    }

    /// The time of this moment. Costs about 2 µs.
    #[must_use]
    pub fn read(&self) -> Option<Stall> {
        let mut buffer = [0; 512];
        let count = self.file.read_at(&mut buffer, 0).ok()?;
        parse(std::str::from_utf8(&buffer[..count]).ok()?)
    }
}

fn parse(text: &str) -> Option<Stall> {
    let total_ns = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        let total = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
        total.parse::<u64>().ok()?.checked_mul(1000)
    };
    Some(Stall { some_ns: total_ns("some")?, full_ns: total_ns("full") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_parsed_or_refused() {
        let both = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n\
                    full avg10=1.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(both), Some(Stall { some_ns: 12_000, full_ns: Some(7_000) }));
        let old = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n";
        assert_eq!(parse(old), Some(Stall { some_ns: 12_000, full_ns: None }));
        for text in ["", "some", "some total=x", "full total=3", "something total=3"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn it_grows_where_there_is_any() {
        let Some(pressure) = Pressure::open("cpu") else {
            println!("skipped: this kernel tells no pressure");
            return;
        };
        let before = pressure.read().unwrap();
        assert!(pressure.read().unwrap().some_ns >= before.some_ns);
    }
}
