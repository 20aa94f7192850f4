//! For how long a program has done next to nothing: by its processor time, by the pages it uses, and by its processes.
//!
//! ```text
//!   from one look to the next: at most 1 % of a processor, at most a tenth of its pages used, nobody came or went
//!                                              -> idle for longer
//!   else                                       -> idle from now on
//! ```
//!
//! A clock alone is no sign: a program that waits for an answer looks idle, and one with a timer does not.
//!
//! **Owns** that rule. **Does not own** the readings, nor what is done with what is idle (the host).
//!
//! **Invariants** I1: nobody is idle for longer than it was looked at.

use std::time::Duration;

/// The most processor time between two looks: heartbeats and timers take less, work takes more.
const CPU_SHARE_MAX: f64 = 0.01;
/// The most of its pages that are used between two looks: what a timer touches.
const USED_SHARE_MAX: f64 = 0.1;

/// A program as it stands.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When.
    pub at: Duration,
    /// Its processes, in order.
    pub pids: &'a [i32],
    /// Processor time of all of them since they began.
    pub cpu: Duration,
    /// Its pages that were accessed since the last look.
    pub nr_used_pages: u64,
    /// Its pages in memory.
    pub nr_resident_pages: u64,
}

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub struct Quiet {
    since: Duration,
    last: Option<Last>,
}

#[derive(Clone, Debug)]
struct Last {
    at: Duration,
    cpu: Duration,
    pids: Vec<i32>,
}

impl Quiet {
    /// Returns for how long it has been idle.
    pub fn look(&mut self, seen: &Seen<'_>) -> Duration {
        let is_idle = self.last.as_ref().is_some_and(|last| {
            let used = seen.cpu.saturating_sub(last.cpu).as_secs_f64();
            let elapsed = seen.at.saturating_sub(last.at).as_secs_f64();
            last.pids == seen.pids
                && used <= elapsed * CPU_SHARE_MAX
                && seen.nr_used_pages as f64 <= seen.nr_resident_pages as f64 * USED_SHARE_MAX
        });
        if !is_idle {
            self.since = seen.at;
        }
        self.last = Some(Last {
            at: seen.at,
            cpu: seen.cpu,
            pids: seen.pids.to_vec(),
        });
        seen.at - self.since
    }

    /// When it was looked at last.
    pub fn looked_at(&self) -> Option<Duration> {
        self.last.as_ref().map(|last| last.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at_s: u64, cpu_ms: u64, nr_used_pages: u64) -> Seen<'static> {
        Seen {
            at: Duration::from_secs(at_s),
            pids: &[5, 7],
            cpu: Duration::from_millis(cpu_ms),
            nr_used_pages,
            nr_resident_pages: 1000,
        }
    }

    fn seconds(quiet: &mut Quiet, seen: &Seen<'_>) -> u64 {
        quiet.look(seen).as_secs()
    }

    #[test]
    fn a_heartbeat_is_no_work_and_work_begins_the_time_anew() {
        let mut quiet = Quiet::default();
        assert_eq!(seconds(&mut quiet, &seen(0, 5000, 1000)), 0);
        assert_eq!(seconds(&mut quiet, &seen(10, 5100, 100)), 10);
        assert_eq!(seconds(&mut quiet, &seen(20, 5100, 0)), 20);
        assert_eq!(seconds(&mut quiet, &seen(30, 5201, 0)), 0, "processor time");
        assert_eq!(seconds(&mut quiet, &seen(40, 5201, 0)), 10);
        assert_eq!(seconds(&mut quiet, &seen(50, 5201, 101)), 0, "pages");
    }

    #[test]
    fn a_process_that_comes_or_goes_is_work() {
        let mut quiet = Quiet::default();
        quiet.look(&seen(0, 0, 0));
        assert_eq!(seconds(&mut quiet, &seen(10, 0, 0)), 10);
        let fewer = Seen {
            pids: &[5],
            ..seen(20, 0, 0)
        };
        assert_eq!(seconds(&mut quiet, &fewer), 0);
        assert_eq!(seconds(&mut quiet, &seen(30, 0, 0)), 0);
        assert_eq!(seconds(&mut quiet, &seen(40, 0, 0)), 10);
    }
}
