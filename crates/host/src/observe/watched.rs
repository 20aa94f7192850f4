//! What is known of a space from walk to walk.
//!
//! **Owns** since when it rests, and for how long it is left out. **Does not own** walks (`look`).

use super::left_out::LeftOut;
use super::unclear::Unclear;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_linux::access::NrEntries;
use strata_linux::process::Process;
use strata_lru::SpaceNo;

/// A process whose walk stood still is left out for so long at first, and for twice as long each time it does so again.
pub(super) const LEFT_OUT_MIN: Duration = Duration::from_secs(20);
/// At most for so long.
const LEFT_OUT_MAX: Duration = Duration::from_secs(3600);

/// A process as walks know it.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) id: SpaceNo,
    pub(super) process: Arc<Process>,
    /// CPU time at the last walk; a space that has not run since can't have accessed anything.
    pub(super) cpu_ns_at_walk: Option<u64>,
    /// CPU time as last looked at, and when it was found to have changed.
    ran: (Option<u64>, Instant),
    /// When its CPU time was looked at last.
    looked_at: Instant,
    /// What the last walk found in memory.
    pub(super) nr_entries: Option<NrEntries>,
    /// Before this, clearing would hold it up for too much of the time.
    pub(super) rest_until: Instant,
    /// The next walk clears nothing of it.
    pub(super) keeps_bits: bool,
    pub(super) unclear: Unclear,
    /// The last walk left it out.
    pub(super) is_left_out: bool,
    /// Its walk stood still: not tried before this, and for how long it was left out.
    pub(super) tried_again: Option<(Instant, Duration)>,
}

impl Watched {
    /// One that was not walked yet.
    pub(super) fn new(id: SpaceNo, process: Arc<Process>, opened: Instant) -> Watched {
        Watched {
            id,
            process,
            cpu_ns_at_walk: None,
            ran: (None, opened),
            looked_at: opened,
            nr_entries: None,
            rest_until: opened,
            keeps_bits: false,
            unclear: Unclear::default(),
            is_left_out: false,
            tried_again: None,
        }
    }

    /// Its CPU time, and whether it has run since that was read last.
    pub(super) fn read_cpu(&mut self, now: Instant) -> Option<u64> {
        let cpu_ns = self.process.cpu_ns().ok();
        self.looked_at = now;
        if cpu_ns.is_none() || cpu_ns != self.ran.0 {
            self.ran = (cpu_ns, now);
        }
        cpu_ns
    }

    /// For how long it has not run, as of the last look.
    pub(super) fn rests_for(&self) -> Duration {
        self.looked_at.saturating_duration_since(self.ran.1)
    }

    /// It is left out for so long, twice as long as the last time in a row.
    pub(super) fn postpone(&mut self) -> Duration {
        let before = self.tried_again.map(|(_, wait)| wait * 2);
        let wait = before.unwrap_or(LEFT_OUT_MIN).min(LEFT_OUT_MAX);
        self.tried_again = Some((Instant::now() + wait, wait));
        self.cpu_ns_at_walk = None;
        self.is_left_out = true;
        wait
    }

    pub(super) fn left_out(&self, why: String) -> LeftOut {
        LeftOut {
            pid: self.process.pid(),
            comm: self.process.comm().to_owned(),
            why,
        }
    }
}
