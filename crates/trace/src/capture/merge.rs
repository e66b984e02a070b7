//! Events of several processors into one order of time. A pure buffer: where they come from is left to
//! [`super::drain`].

use fsdyno_model::trace::TraceEvent;

/// Events that came and were not handed on.
#[derive(Debug, Default)]
pub struct Merge {
    events: Vec<TraceEvent>,
    /// Time of the last event that was handed on.
    last_ns: u64,
    /// Events that came too late for their place.
    late: u64,
}

impl Merge {
    /// Takes an event; those of one processor come in the order of their time.
    #[inline]
    pub fn push(&mut self, event: TraceEvent) {
        self.events.push(event);
    }

    /// Hands the events before `horizon_ns` to `take`, in the order of their time, and keeps the rest.
    /// Events that belong before what was handed on already are given its time.
    pub fn hand_on<E>(
        &mut self,
        horizon_ns: u64,
        take: impl FnOnce(&[TraceEvent]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Stable, and quick where long runs are in order.
        self.events.sort_by_key(|event| event.time_ns);
        let count = self.events.partition_point(|event| event.time_ns < horizon_ns);
        for event in self.events[..count].iter_mut() {
            if event.time_ns >= self.last_ns {
                break;
            }
            event.time_ns = self.last_ns;
            self.late += 1;
        }
        let Some(last) = self.events[..count].last() else { return Ok(()) };
        self.last_ns = last.time_ns;
        let taken = take(&self.events[..count]);
        self.events.drain(..count);
        taken
    }

    /// Events that came too late for their place.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::trace::{Action, Flags};

    use super::*;

    fn push(merge: &mut Merge, times: &[u64]) {
        for &time_ns in times {
            merge.push(TraceEvent {
                time_ns,
                sector: 0,
                sectors: 8,
                device: 1,
                process: 0,
                flags: Flags::WRITE,
                action: Action::Queue,
            });
        }
    }

    fn hand_on(merge: &mut Merge, horizon_ns: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let taken: Result<(), ()> = merge.hand_on(horizon_ns, |events| {
            times.extend(events.iter().map(|event| event.time_ns));
            Ok(())
        });
        taken.unwrap();
        times
    }

    #[test]
    fn processors_are_merged_up_to_the_horizon() {
        let mut merge = Merge::default();
        push(&mut merge, &[10, 30, 50]);
        push(&mut merge, &[20, 40, 60]);
        assert_eq!(hand_on(&mut merge, 45), [10, 20, 30, 40]);
        push(&mut merge, &[55, 70]);
        assert_eq!(hand_on(&mut merge, u64::MAX), [50, 55, 60, 70]);
        assert_eq!(hand_on(&mut merge, u64::MAX), [0; 0]);
        assert_eq!(merge.late(), 0);
    }

    #[test]
    fn times_never_go_back() {
        let mut merge = Merge::default();
        push(&mut merge, &[100]);
        assert_eq!(hand_on(&mut merge, u64::MAX), [100]);
        push(&mut merge, &[90, 95, 110]);
        assert_eq!(hand_on(&mut merge, u64::MAX), [100, 100, 110]);
        assert_eq!(merge.late(), 2);
    }
}
