//! How short memory is, of the host or below a limit, and what follows for the pace of a guard.
//!
//! ```text
//!   far from short   a look a second, a walk as often as the least age says, within the guard's share of the processors
//!   near             a look each 250 ms, a walk each 5 s; on the host within the share that is allowed in need
//!   short            looks as the shortage asks for
//! ```
//!
//! **Owns** that pace, and what is known of a shortage from look to look. **Does not own** when memory counts as near or short
//! (`strata_control::shortage`), what a limit is (`limits`), what goes then (`oldest`), nor what is done with whole groups (`resort`).
//!
//! **Invariants** I1: where rules leave memory to the kernel nothing is read, and the pace is that of a host far from short.

use std::time::Duration;
use strata_control::shortage::{Need, Reading, Shortage};
use strata_linux::process::{MachineMemory, memory_pressure_percent};
use strata_lru::TimeMs;

/// From look to look where memory is far from short.
pub(super) const LOOK_FAR: Duration = Duration::from_secs(1);
/// From look to look where it is near.
const LOOK_NEAR: Duration = Duration::from_millis(250);
/// From walk to walk in need: half of the age at which memory goes then.
const WALK_NEAR: Duration = Duration::from_secs(5);
/// Walks that find nothing idle while memory is short come up to so many times twice as far apart.
const NR_DOUBLINGS_MAX: u32 = 4;
/// Less than this part of what is missing is as good as nothing.
const WORTH_PART: u64 = 8;

/// Memory of which some is to stay available; see the module.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) shortage: Shortage,
    read: Reading,
    /// It was near or short at some time since the last walk.
    was_near: bool,
    /// Nothing idle was left when memory was short last.
    pub(super) is_exhausted: bool,
    /// When a look found nothing idle, and whether memory was short; forgotten at the next walk, which tells other ages.
    nothing_found: Option<(Duration, bool)>,
    /// Walks in a row that found nothing idle while memory was short.
    nr_vain_walks: u32,
    /// When accessed bits were cleared last of groups that it is for.
    cleared_at: Duration,
}

/// What is read of the host; `None`: nothing can be. What can't be reclaimed is no part of its budget: of a host whose memory is mostly set
/// aside for guests, a share of all memory would be most of what is left.
pub(super) fn of_host() -> Option<Reading> {
    let memory = MachineMemory::read().ok()?;
    Some(Reading {
        total_bytes: memory.total_bytes.saturating_sub(memory.locked_bytes),
        available_bytes: memory.available_bytes,
        waiting_percent: memory_pressure_percent(),
    })
}

impl Budget {
    /// That of the host; `default` is that of a limit.
    pub(super) fn of_host() -> Budget {
        Budget {
            shortage: Shortage::of_host(),
            ..Budget::default()
        }
    }

    /// How it stands by what `read` tells. Returns whether it is near where it was not.
    pub(super) fn look(&mut self, at: Duration, read: impl Fn() -> Option<Reading>) -> bool {
        if !self.shortage.can_be_short() {
            return false;
        }
        let Some(read) = read() else {
            self.shortage.forget();
            return false;
        };
        self.read = read;
        let was_near = self.need().is_near;
        let now = TimeMs(at.as_millis() as u64);
        let is_near = self.shortage.look(now, &read).is_near;
        self.is_exhausted &= self.is_short();
        self.was_near |= is_near;
        is_near && !was_near
    }

    /// How it stood at the last look.
    pub(super) fn need(&self) -> Need {
        self.shortage.need()
    }

    /// What has to go now: of memory that is short only until it is not, as what was used of late goes for that alone.
    pub(super) fn missing_bytes(&self) -> u64 {
        let need = self.need();
        match need.begin_bytes.saturating_sub(self.read.available_bytes) {
            0 => need.missing_bytes,
            lacking => need.missing_bytes.min(lacking),
        }
    }

    /// What was available at the last look.
    pub(super) fn available_bytes(&self) -> u64 {
        self.read.available_bytes
    }

    /// Share of the last ten seconds in which some task of the host waited for memory, as of the last look.
    pub(super) fn waiting_percent(&self) -> Option<f64> {
        self.read.waiting_percent
    }

    /// Whether less is available than is to be while memory grows so fast: else reclaim gets ahead of that.
    pub(super) fn is_short(&self) -> bool {
        self.read.available_bytes < self.need().begin_bytes
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Duration {
        let need = self.need();
        let asked = Duration::from_millis(need.wait_ms);
        match (self.nothing_found, need.missing_bytes) {
            _ if !self.shortage.can_be_short() => LOOK_FAR,
            (Some((_, true)), _) => LOOK_FAR,
            (None, 1..) => asked.min(LOOK_NEAR),
            _ if need.is_near => LOOK_NEAR,
            _ => asked.clamp(LOOK_NEAR, LOOK_FAR),
        }
    }

    /// From walk to walk, where rules say so much. Walks that find nothing come more and more rarely.
    pub(super) fn walk_interval(&self, usual: Duration) -> Duration {
        match self.need().is_near {
            true => usual.min(self.in_need()),
            false => usual,
        }
    }

    /// Whether accessed bits of its groups are to be cleared by the walk that begins at `at`. The kernel takes pages of which they are
    /// clear first, so where it has to take as walks find nothing, they are cleared as rarely as walks come in need.
    pub(super) fn clears(&mut self, at: Duration) -> bool {
        let is_vain = self.need().is_near && self.nr_vain_walks > 0;
        let is_due = !is_vain || at >= self.cleared_at + self.in_need();
        if is_due {
            self.cleared_at = at;
        }
        is_due
    }

    /// From walk to walk in need.
    fn in_need(&self) -> Duration {
        WALK_NEAR * 2u32.pow(self.nr_vain_walks.min(NR_DOUBLINGS_MAX))
    }

    /// The share of the processors that may be used, where this much is given ahead of need and that much in need.
    pub(super) fn cpu_share(&self, ahead: f64, in_need: f64) -> f64 {
        match self.was_near {
            true => ahead.max(in_need),
            false => ahead,
        }
    }

    /// Whether to look for idle memory: where a look found none of the age that is asked for, the next look comes a second later.
    pub(super) fn is_worth_looking(&self, at: Duration) -> bool {
        let is_known = |(then, was_short): (Duration, bool)| {
            was_short == self.is_short() && at < then + LOOK_FAR
        };
        !self.nothing_found.is_some_and(is_known)
    }

    /// So much was found that is idle.
    pub(super) fn found_idle(&mut self, at: Duration, found_bytes: u64, waits_for_rate: bool) {
        let is_short = self.is_short();
        let missing_bytes = self.missing_bytes();
        self.nothing_found = (found_bytes == 0).then_some((at, is_short));
        // A few pages that pass the age with each walk are no end of the shortage.
        let is_little = found_bytes < missing_bytes / WORTH_PART;
        self.is_exhausted = is_little && !waits_for_rate && is_short;
        match is_short {
            false if found_bytes == 0 => self.shortage.settle(),
            true if !is_little => self.nr_vain_walks = 0,
            _ => {}
        }
    }

    /// Idle memory is to be looked for anew, as a group was stopped or ended and gives what it holds.
    pub(super) fn look_anew(&mut self) {
        (self.is_exhausted, self.nothing_found) = (false, None);
    }

    /// A walk was made, and what was used until now is counted.
    pub(super) fn walked(&mut self) {
        self.nothing_found = None;
        self.nr_vain_walks = match self.is_exhausted {
            true => self.nr_vain_walks + 1,
            false => 0,
        };
        self.was_near = self.need().is_near;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A limit of 1000 MiB below which so much is left at `ms`.
    fn look(budget: &mut Budget, ms: u64, available_mib: u64) -> bool {
        let read = Reading {
            total_bytes: 1000 * MIB,
            available_bytes: available_mib * MIB,
            waiting_percent: None,
        };
        budget.look(at(ms), || Some(read))
    }

    #[test]
    fn looks_and_walks_come_more_often_where_memory_is_near_or_short() {
        let mut budget = Budget::default();
        let minute = Duration::from_secs(60);
        assert!(!look(&mut budget, 0, 800));
        assert_eq!(budget.walk_interval(minute), minute);
        // 20 MiB/s: there are 200 MiB for half a minute.
        assert!(look(&mut budget, 10_000, 600) || look(&mut budget, 20_000, 200));
        assert!(!look(&mut budget, 21_000, 180), "it was near before");
        assert_eq!(budget.next_look(), LOOK_NEAR);
        assert_eq!(budget.walk_interval(minute), WALK_NEAR);
        look(&mut budget, 22_000, 20);
        assert!(budget.missing_bytes() > 0 && budget.next_look() < LOOK_NEAR);
        budget.found_idle(at(22_000), 0, false);
        assert_eq!(budget.next_look(), LOOK_FAR, "nothing is left to look for");
        assert!(!budget.is_worth_looking(at(22_500)) && budget.is_worth_looking(at(23_000)));
    }

    #[test]
    fn bits_are_cleared_more_and_more_rarely_while_walks_find_nothing_below_a_full_limit() {
        let mut budget = Budget::default();
        // A walk each 2 s, after which so much is found.
        let clears = |budget: &mut Budget, from_ms: u64, available_mib, found_mib| {
            let walks = (from_ms..from_ms + 200_000).step_by(2000);
            let cleared = walks.filter(|ms| {
                look(budget, *ms, available_mib);
                let is_cleared = budget.clears(at(*ms));
                budget.walked();
                budget.found_idle(at(*ms), found_mib * MIB, false);
                is_cleared
            });
            cleared.map(|ms| (ms - from_ms) / 1000).collect::<Vec<_>>()
        };
        assert_eq!(clears(&mut budget, 0, 10, 0), [0, 2, 82, 162]);
        let all: Vec<u64> = (0..200).step_by(2).collect();
        // The first walk that finds something is the last one that does not clear.
        assert_eq!(clears(&mut budget, 200_000, 10, 20), all[1..]);
        assert_eq!(clears(&mut budget, 400_000, 900, 0), all, "there is room");
    }
}
