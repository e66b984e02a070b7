//! Counting semaphores that the jobs of a phase share. Nobody waits for ever: the end of the phase wakes
//! all, and when every job waits, which nobody could end any more, all are told so.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The semaphore held enough, which was taken.
    Taken,
    /// The phase has ended.
    Stopped,
    /// Every job that is left waits, and nobody can post.
    Stuck,
}

#[derive(Debug, Default)]
struct State {
    values: Vec<u64>,
    /// For each semaphore, how much those wait for who wait.
    wanted: Vec<Vec<u64>>,
    /// Jobs that have not ended.
    live: usize,
    stopped: bool,
    stuck: bool,
}

impl State {
    /// Whether all wait and none will get what it waits for.
    fn is_stuck(&self) -> bool {
        let waiting: usize = self.wanted.iter().map(Vec::len).sum();
        let mut pairs = self.values.iter().zip(&self.wanted);
        let any = pairs.any(|(value, wanted)| wanted.iter().any(|count| count <= value));
        waiting > 0 && waiting == self.live && !any
    }
}

/// The semaphores of one phase, each 0 at first.
#[derive(Debug)]
pub struct Semaphores {
    state: Mutex<State>,
    changed: Vec<Condvar>,
}

impl Semaphores {
    /// `count` semaphores for `jobs` jobs.
    #[must_use]
    pub fn new(count: usize, jobs: usize) -> Semaphores {
        let state = State {
            values: vec![0; count],
            wanted: vec![Vec::new(); count],
            live: jobs,
            ..State::default()
        };
        Semaphores {
            state: Mutex::new(state),
            changed: (0..count).map(|_| Condvar::new()).collect(),
        }
    }

    /// Adds to a semaphore.
    pub fn post(&self, semaphore: usize, count: u64) {
        let mut state = self.lock();
        state.values[semaphore] = state.values[semaphore].saturating_add(count);
        if !state.wanted[semaphore].is_empty() {
            self.changed[semaphore].notify_all();
        }
    }

    /// Takes from a semaphore if it holds so much now.
    #[must_use]
    pub fn try_wait(&self, semaphore: usize, count: u64) -> bool {
        take(&mut self.lock(), semaphore, count)
    }

    /// Takes from a semaphore, waiting until it holds so much.
    #[must_use]
    pub fn wait(&self, semaphore: usize, count: u64) -> Waited {
        let mut state = self.lock();
        if take(&mut state, semaphore, count) {
            return Waited::Taken;
        }
        state.wanted[semaphore].push(count);
        self.tell_stuck(&mut state);
        let outcome = loop {
            if state.stuck {
                break Waited::Stuck;
            }
            if state.stopped {
                break Waited::Stopped;
            }
            if take(&mut state, semaphore, count) {
                break Waited::Taken;
            }
            let woken = self.changed[semaphore].wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        };
        let wanted = &mut state.wanted[semaphore];
        if let Some(place) = wanted.iter().position(|other| *other == count) {
            wanted.swap_remove(place);
        }
        outcome
    }

    /// Wakes all: the phase has ended.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.iter().for_each(Condvar::notify_all);
    }

    /// Says that a job has ended.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.live -= 1;
        self.tell_stuck(&mut state);
    }

    fn tell_stuck(&self, state: &mut State) {
        if state.is_stuck() && !state.stopped {
            state.stuck = true;
            self.changed.iter().for_each(Condvar::notify_all);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(state: &mut State, semaphore: usize, count: u64) -> bool {
    let left = state.values[semaphore].checked_sub(count);
    if let Some(left) = left {
        state.values[semaphore] = left;
    }
    left.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_posted_is_taken_once() {
        let semaphores = Semaphores::new(2, 3);
        let taken: u64 = std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        (0..500).filter(|_| semaphores.wait(1, 2) == Waited::Taken).count() as u64
                    })
                })
                .collect();
            for _ in 0..1000 {
                semaphores.post(1, 1);
                semaphores.post(1, 1);
            }
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
        assert!(!semaphores.try_wait(1, 1) && semaphores.try_wait(1, 0));
    }

    #[test]
    fn nobody_waits_for_ever() {
        // The only job: nobody can post.
        assert_eq!(Semaphores::new(1, 1).wait(0, 1), Waited::Stuck);
        let wait_beside = |end: fn(&Semaphores)| {
            let semaphores = Semaphores::new(2, 2);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    let waited = semaphores.wait(0, 1);
                    semaphores.leave();
                    waited
                });
                std::thread::sleep(std::time::Duration::from_millis(5));
                end(&semaphores);
                waiter.join().unwrap()
            })
        };
        assert_eq!(wait_beside(Semaphores::stop), Waited::Stopped);
        assert_eq!(wait_beside(Semaphores::leave), Waited::Stuck);
        assert_eq!(wait_beside(|other| assert_eq!(other.wait(1, 1), Waited::Stuck)), Waited::Stuck);
        // Posted before the last one waits: nobody is stuck as long as both are there.
        let first = wait_beside(|other| {
            other.post(0, 1);
            assert_eq!(other.wait(1, 1), Waited::Stuck, "until the other has taken it and left");
        });
        assert_eq!(first, Waited::Taken);
    }
}
