//! When a job begins its next task: as soon as the one before has ended and its think time is over
//! (closed loop), or at set times (open loop). In an open loop a task that begins late is as slow as its
//! delay and its work together: a target that stalls cannot hide it by being asked less.

use std::time::Duration;

use fsdyno_sys::clock::now_ns;

use super::conduct::Stage;
use super::draw::exponential_ns;
use crate::engine::definition::Group;
use crate::recorder::{Operation, Recorder};
use crate::rng::Xoshiro;

/// Set times are waited for by sleeping up to this much before, for the kernel wakes late, and then by
/// looking at the clock.
const WAKING: Duration = Duration::from_micros(60);

#[derive(Debug)]
enum Loop {
    Closed { think: Duration },
    Open { rate: f64, even: bool, count: u64, start_ns: u64, due_ns: f64 },
}

/// The times of one job's tasks.
#[derive(Debug)]
pub struct Pace<'p> {
    stage: &'p Stage<'p>,
    how: Loop,
    /// Tasks that the job may still begin.
    tickets: u64,
    counted: bool,
    /// When the task under way began, or should have: a tick of the recorder, or nanoseconds.
    began: u64,
}

impl<'p> Pace<'p> {
    /// The times of a job of `group`, from now on.
    #[must_use]
    pub fn new(stage: &'p Stage<'p>, group: &Group) -> Pace<'p> {
        let how = match group.rate_per_s {
            None => Loop::Closed { think: group.think },
            Some(rate) => {
                Loop::Open { rate, even: group.even, count: 0, start_ns: now_ns(), due_ns: 0.0 }
            }
        };
        Pace { stage, how, tickets: 0, counted: !group.background, began: 0 }
    }

    /// Waits until the next task is to begin; false where there is none.
    #[inline]
    pub fn begin(&mut self, rng: &mut Xoshiro, recorder: &mut Recorder) -> bool {
        if self.counted {
            if self.tickets == 0 {
                self.tickets = self.stage.take_tickets();
                if self.tickets == 0 {
                    return false;
                }
            }
            self.tickets -= 1;
        }
        match &mut self.how {
            Loop::Closed { .. } => {
                self.began = recorder.tick();
                true
            }
            Loop::Open { rate, even, count, start_ns, due_ns } => {
                let due = if *even {
                    *count as f64 / *rate * 1e9
                } else {
                    *due_ns += exponential_ns(rng, *rate);
                    *due_ns
                };
                *count += 1;
                self.began = *start_ns + due as u64;
                let going = wait_until(self.stage, self.began);
                recorder.begin();
                going
            }
        }
    }

    /// Says that the task is done.
    #[inline]
    pub fn end(&mut self, recorder: &mut Recorder) {
        match self.how {
            Loop::Closed { think } => {
                recorder.record_since(Operation::Task, self.began);
                if !think.is_zero() {
                    self.stage.pause(think);
                    recorder.begin();
                }
            }
            Loop::Open { .. } => {
                recorder.record_ns(Operation::Task, now_ns().saturating_sub(self.began));
            }
        }
    }

    /// Says that the task was given up: it does not count.
    pub fn give_up(&mut self) {
        // Another may be begun instead, unless tasks are not counted.
        self.tickets = self.tickets.saturating_add(u64::from(self.counted));
    }
}

/// Waits until `due_ns` of the monotonic clock, which may have passed; false once the phase has ended.
fn wait_until(stage: &Stage<'_>, due_ns: u64) -> bool {
    let left = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
    if left > WAKING && !stage.pause(left - WAKING) {
        return false;
    }
    while now_ns() < due_ns {
        std::hint::spin_loop();
    }
    !stage.stop.load(std::sync::atomic::Ordering::Relaxed)
}
