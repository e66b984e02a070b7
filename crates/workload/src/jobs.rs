//! Several threads that do their work at the same time, each with a recorder of its own. What the work
//! is, and how it is divided, is left to the workloads.

use std::sync::Barrier;

use crate::recorder::Recorder;

/// Runs `body` with the job indices 0 … `count` − 1, all started at once, and adds what they recorded
/// to `recorder`. With one job it runs in this thread, on `recorder` itself.
///
/// # Errors
/// That of the job with the lowest index that failed; the others are waited for.
pub fn run<F>(count: usize, recorder: &mut Recorder, body: F) -> anyhow::Result<()>
where
    F: Fn(usize, &mut Recorder) -> anyhow::Result<()> + Sync,
{
    if count <= 1 {
        return body(0, recorder);
    }
    let start = Barrier::new(count);
    let work = |job_index: usize| {
        let mut own = Recorder::new();
        start.wait();
        own.begin();
        let outcome = body(job_index, &mut own);
        (own, outcome)
    };
    let work = &work;
    let finished: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..count).map(|job_index| scope.spawn(move || work(job_index))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut first_error = Ok(());
    for joined in finished {
        let (own, outcome) = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        recorder.merge(&own);
        first_error = first_error.and(outcome);
    }
    first_error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Operation;

    #[test]
    fn what_all_recorded_is_added_up() {
        for count in [1, 2, 7] {
            let mut recorder = Recorder::new();
            let body = |job_index: usize, recorder: &mut Recorder| {
                (0..=job_index).for_each(|_| recorder.end(Operation::Create));
                recorder.bytes += 10;
                Ok(())
            };
            run(count, &mut recorder, body).unwrap();
            assert_eq!(recorder.count(Operation::Create), (count * (count + 1) / 2) as u64);
            assert_eq!(recorder.bytes, 10 * count as u64);
        }
    }

    #[test]
    fn the_first_failure_is_told_and_all_are_waited_for() {
        let ended = std::sync::atomic::AtomicUsize::new(0);
        let outcome = run(4, &mut Recorder::new(), |job_index, _| {
            ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            anyhow::ensure!(job_index < 2, "job {job_index} failed");
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().to_string(), "job 2 failed");
        assert_eq!(ended.into_inner(), 4);
    }
}
