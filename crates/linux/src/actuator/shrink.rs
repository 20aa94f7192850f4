//! A thread that has the kernel reclaim by amount: the kernel chooses the pages.
//!
//! **Owns** when it runs: one request after the other, the result polled later. **Does not own** what a request names, nor how the
//! kernel is asked (`cgroup`: `memory.reclaim`; on version 1 a careful dip, or `memory.force_empty`).

use std::io;
use std::time::Instant;

use super::worker::Worker;
use crate::cgroup::ReclaimError;
use crate::process::thread_cpu_ns;

/// What became of one request.
#[derive(Debug)]
pub struct ShrinkOutcome {
    /// Bytes reclaimed.
    pub result: Result<u64, ReclaimError>,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
}

/// Asks the kernel beside the control loop.
pub type ShrinkThread<Request = u64> = Worker<Request, ShrinkOutcome>;

/// Starts the thread, which has at most so many requests (bytes, say) at once. `shrink` asks the kernel, which may take seconds,
/// and returns the bytes that were reclaimed.
///
/// # Errors
/// The thread can't be started.
pub fn start_shrink<Request: Send + 'static>(
    in_flight_max: usize,
    mut shrink: impl FnMut(Request) -> Result<u64, ReclaimError> + Send + 'static,
) -> io::Result<ShrinkThread<Request>> {
    Worker::start("strata-shrink", in_flight_max, move |request, stop| {
        let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
        let result = match stop.is_set() {
            true => Ok(0),
            false => shrink(request),
        };
        ShrinkOutcome {
            result,
            wall_ns: start.elapsed().as_nanos() as u64,
            cpu_ns: thread_cpu_ns() - cpu_start,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn one_request_at_a_time_and_the_loop_never_waits() {
        let (go, may_go) = channel::<()>();
        let mut thread = start_shrink(1, move |bytes: u64| {
            may_go.recv().expect("who tells it to go");
            match bytes {
                1 => Err(ReclaimError::NothingReclaimable("/g".into())),
                bytes => Ok(bytes / 2),
            }
        })
        .unwrap();
        assert!(thread.try_submit(4096).is_ok());
        assert!(thread.try_submit(4096).is_err() && thread.is_busy());
        assert!(thread.poll().is_none());
        go.send(()).unwrap();
        let outcome = wait(&mut thread);
        assert_eq!(outcome.result.unwrap(), 2048);
        assert!(outcome.wall_ns >= outcome.cpu_ns / 2);

        assert!(thread.try_submit(1).is_ok());
        go.send(()).unwrap();
        assert!(wait(&mut thread).result.is_err());
        assert!(thread.stop().is_empty());
        assert!(thread.try_submit(1).is_err());
    }

    fn wait(thread: &mut ShrinkThread<u64>) -> ShrinkOutcome {
        loop {
            if let Some(outcome) = thread.poll() {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
