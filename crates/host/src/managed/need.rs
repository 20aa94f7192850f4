//! How short the host is of memory, and what follows for the pace of a guard.
//!
//! ```text
//!   far from short   a look a second, a walk as often as the least age says, within the guard's share of the processors
//!   near             a look each 250 ms, a walk each 5 s, within the share that is allowed in need
//!   short            looks as the shortage asks for
//! ```
//!
//! **Owns** readings of the host, and that pace. **Does not own** when the host counts as near or short
//! (`strata_control::shortage`), what goes then (`oldest`), nor what is done with whole groups (`resort`).
//!
//! **Invariants** I1: where rules leave memory to the kernel nothing is read, and the pace is that of a host far from short.

use super::group::Asks;
use std::time::Duration;
use strata_control::shortage::{Free, HostReading, Need, Shortage};
use strata_linux::process::{MachineMemory, memory_pressure_percent};
use strata_lru::TimeMs;

/// From look to look where the host is far from short.
const LOOK_FAR: Duration = Duration::from_secs(1);
/// From look to look where it is near.
const LOOK_NEAR: Duration = Duration::from_millis(250);
/// From walk to walk in need: half of the age at which memory goes then.
const WALK_NEAR: Duration = Duration::from_secs(5);
/// Walks that find nothing idle on a host that is short come up to so many times twice as far apart.
const NR_DOUBLINGS_MAX: u32 = 4;
/// Less than this part of what is missing is as good as nothing.
const WORTH_PART: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Host {
    shortage: Shortage,
    read: HostReading,
    /// It was near or short at some time since the last walk.
    was_near: bool,
    /// Nothing idle was left when memory was short last.
    pub(super) is_exhausted: bool,
    /// When a look found nothing idle, and who had asked; forgotten at the next walk, which tells other ages.
    nothing_found: Option<(Duration, Asks)>,
    /// Walks in a row that found nothing idle on a host that is short.
    nr_vain_walks: u32,
    /// What goes by the second was looked at.
    seconds_looked_at: Option<Duration>,
}

impl Host {
    /// So much is to be available from now on.
    pub(super) fn set_free(&mut self, free: Free) {
        self.shortage.set_free(free);
    }

    /// How the host stands. Returns whether it is near where it was not.
    pub(super) fn look(&mut self, at: Duration) -> bool {
        if !self.shortage.can_be_short() {
            return false;
        }
        let Ok(memory) = MachineMemory::read() else {
            self.shortage.forget();
            return false;
        };
        self.read = HostReading {
            total_bytes: memory.total_bytes,
            available_bytes: memory.available_bytes,
            waiting_percent: memory_pressure_percent(),
        };
        let was_near = self.need().is_near;
        let now = TimeMs(at.as_millis() as u64);
        let is_near = self.shortage.look(now, &self.read).is_near;
        self.was_near |= is_near;
        is_near && !was_near
    }

    /// How it stood at the last look.
    pub(super) fn need(&self) -> Need {
        self.shortage.need()
    }

    /// What has to go now: on a host that is short only until it is not, as what was used of late goes for that alone.
    pub(super) fn missing_bytes(&self) -> u64 {
        let need = self.need();
        match need.wanted_bytes.saturating_sub(self.read.available_bytes) {
            0 => need.missing_bytes,
            lacking => need.missing_bytes.min(lacking),
        }
    }

    /// What was available at the last look.
    pub(super) fn available_bytes(&self) -> u64 {
        self.read.available_bytes
    }

    /// What asks for memory: a host that is short, or one that gets ahead of that.
    pub(super) fn asks(&self) -> Asks {
        match self.read.available_bytes < self.need().wanted_bytes {
            true => Asks::OfHostNow,
            false => Asks::OfHostAhead,
        }
    }

    /// Whether the host can be short: rules do not leave memory to the kernel.
    pub(super) fn can_be_short(&self) -> bool {
        self.shortage.can_be_short()
    }

    /// Whether what is looked at once a second is due.
    pub(super) fn is_second(&mut self, at: Duration) -> bool {
        let is_due = (self.seconds_looked_at).is_none_or(|last| at >= last + LOOK_FAR);
        if is_due {
            self.seconds_looked_at = Some(at);
        }
        is_due
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Duration {
        let need = self.need();
        let asked = Duration::from_millis(need.wait_ms);
        match (self.nothing_found, need.missing_bytes) {
            _ if !self.can_be_short() => LOOK_FAR,
            (Some((_, Asks::OfHostNow)), _) => LOOK_FAR,
            (None, 1..) => asked.min(LOOK_NEAR),
            _ if need.is_near => LOOK_NEAR,
            _ => asked.clamp(LOOK_NEAR, LOOK_FAR),
        }
    }

    /// From walk to walk, where rules say so much. Walks that find nothing come more and more rarely.
    pub(super) fn walk_interval(&self, usual: Duration) -> Duration {
        let in_need = WALK_NEAR * 2u32.pow(self.nr_vain_walks.min(NR_DOUBLINGS_MAX));
        match self.need().is_near {
            true => usual.min(in_need),
            false => usual,
        }
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
        let is_known = |(then, asks): (Duration, Asks)| asks == self.asks() && at < then + LOOK_FAR;
        !self.nothing_found.is_some_and(is_known)
    }

    /// So much was found that is idle.
    pub(super) fn found_idle(&mut self, at: Duration, found_bytes: u64, waits_for_rate: bool) {
        let asks = self.asks();
        let missing_bytes = self.missing_bytes();
        self.nothing_found = (found_bytes == 0).then_some((at, asks));
        // A few pages that pass the age with each walk are no end of the shortage.
        let is_little = found_bytes < missing_bytes / WORTH_PART;
        self.is_exhausted = is_little && !waits_for_rate && asks == Asks::OfHostNow;
        match asks {
            Asks::OfHostAhead if found_bytes == 0 => self.shortage.settle(),
            Asks::OfHostNow if !is_little => self.nr_vain_walks = 0,
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
