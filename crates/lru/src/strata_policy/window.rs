//! How much memory is for trial: found by comparing what one more page is worth on either side.
//!
//! ```text
//!   near return      left the trial among the last 5 % of memory: a trial that much
//!                    longer would have kept it                        -> one step up
//!   time that passes a proven page stands for one access in the time its coldest has
//!                    not been accessed, and 5 % of memory for that many -> steps down
//!   lull             the proven should have been asked for and were not: no steps down
//! ```
//!
//! A page taken from the proven is asked for again too, and then goes through the trial: when folios
//! stay there almost as long as the coldest proven folio goes without an access, a longer trial keeps
//! nothing longer, it only has more to hold. So the 5 % shrink by the ratio of the two times.
//!
//! A step is one page while the evidence is mixed and up to a hundredth of memory while it is
//! one-sided: that is a change of phase. Evidence is averaged over a hundred arrivals, so in the time
//! it takes to notice that it has turned, the trial can change by all of memory and not by several
//! times as much.
//!
//! No figure here was fitted to one trace; `docs/reference/policy.md` says what was tried beside them.
//!
//! **Owns** the share and its arithmetic (fixed point, no floats). **Does not own** when it is told.
//!
//! **Invariants**
//! - I1: the trial is at least a hundredth and at most four fifths of memory, and one page.

/// An age above that of any folio.
pub(super) const NEVER: u64 = 1 << u32::BITS;

/// One page, or one, in fixed point.
const ONE: u64 = 1 << 16;

/// All of memory as a share.
const WHOLE: u64 = 1 << 32;

/// Memory in this many parts gives how far back a return from the trial is near.
pub(super) const ZONES_PER_MEMORY: u64 = 20;

/// What a proven page is worth, as a fraction: in a time as long as the coldest has waited, it is
/// asked for less than once, because the coldest may never be asked for again.
pub(super) const WORTH_OF_PROVEN: (u64, u64) = (1, 2);

/// Evidence is averaged over this many arrivals.
pub(super) const NR_EVIDENCE_ARRIVALS: u64 = 100;

/// Memory in this many parts gives the longest step: no faster than evidence is heard of.
const LONG_STEPS_PER_MEMORY: u64 = NR_EVIDENCE_ARRIVALS;

/// Most steps down at one arrival.
const NR_STEPS_DOWN_MAX: u64 = 4 * ONE;

/// The trial's share before anything was learnt: what 2Q gives it for good (Johnson and Shasha, 1994).
const SHARE_AT_FIRST: u64 = WHOLE / 4;
const SHARE_MIN: u64 = WHOLE / 100;
const SHARE_MAX: u64 = WHOLE / 5 * 4;

/// What an arrival says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Base pages in memory.
    pub(super) nr_pages: u64,
    /// Accesses since the last arrival.
    pub(super) nr_accesses: u64,
    /// Accesses since the coldest proven folio's last one.
    pub(super) coldest_age: u64,
    /// Tells if the page left the trial just before.
    pub(super) is_near: bool,
    /// Whether the proven should have been asked for by now, and were not.
    pub(super) is_lull: bool,
}

/// The share of memory that is for trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    share: u64,
    /// Averages of steps up and down, in fixed point, times `NR_EVIDENCE_ARRIVALS`: evidence of one
    /// side alone is as rare as one arrival in thousands, and must not be lost in rounding.
    up_sum: u64,
    down_sum: u64,
    /// Average of the coldest proven folio's age, times `NR_EVIDENCE_ARRIVALS`.
    coldest_age_sum: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            share: SHARE_AT_FIRST,
            up_sum: 0,
            down_sum: 0,
            coldest_age_sum: 0,
        }
    }
}

impl Window {
    /// Base pages for trial, of so many.
    pub(super) fn nr_trial_pages(self, nr_pages: u64) -> u64 {
        let nr_trial_pages = (u128::from(self.share) * u128::from(nr_pages)
            + u128::from(WHOLE / 2))
            / u128::from(WHOLE);
        // At most four fifths of a u64.
        (nr_trial_pages as u64).max(1)
    }

    /// How many departures from the trial back a return is near.
    pub(super) fn near_pages(nr_pages: u64, trial_age: u64, coldest_age: u64) -> u64 {
        let ahead = u128::from(coldest_age.saturating_sub(trial_age));
        let whole = u128::from(ZONES_PER_MEMORY) * u128::from(coldest_age.max(1));
        let near = u128::from(nr_pages.max(ZONES_PER_MEMORY)) * ahead / whole;
        // At most a part of memory.
        near as u64
    }

    /// The coldest proven folio's age, averaged; 0 before any was known.
    pub(super) fn coldest_age(self) -> u64 {
        self.coldest_age_sum / NR_EVIDENCE_ARRIVALS
    }

    /// Learns from an arrival.
    pub(super) fn learn(&mut self, evidence: Evidence) {
        let up = if evidence.is_near { ONE } else { 0 };
        let presumed = steps_down(evidence, self.smooth(evidence.coldest_age));
        let down = if evidence.is_lull { 0 } else { presumed };
        self.up_sum = averaged(self.up_sum, up);
        self.down_sum = averaged(self.down_sum, down);
        let step = self.step(evidence.nr_pages);
        // In pages and fixed point, then as a share of memory.
        let change = i128::from(step) * (i128::from(up) - i128::from(down)) / i128::from(ONE);
        let change = change * i128::from(WHOLE / ONE) / i128::from(evidence.nr_pages.max(1));
        let share = i128::from(self.share) + change;
        self.share = share.clamp(i128::from(SHARE_MIN), i128::from(SHARE_MAX)) as u64;
    }

    /// The coldest age, averaged: from one arrival to the next what is known of it may be far from it.
    /// Never less than what is known now.
    fn smooth(&mut self, coldest_age: u64) -> u64 {
        if coldest_age < NEVER {
            if self.coldest_age_sum == 0 {
                self.coldest_age_sum = coldest_age * NR_EVIDENCE_ARRIVALS;
            }
            self.coldest_age_sum = averaged(self.coldest_age_sum, coldest_age);
        }
        coldest_age.max(self.coldest_age_sum / NR_EVIDENCE_ARRIVALS)
    }

    /// Length of a step in pages, fixed point: the more one-sided the evidence, the longer.
    fn step(self, nr_pages: u64) -> u64 {
        let sum = self.up_sum + self.down_sum;
        let difference = self.up_sum.abs_diff(self.down_sum);
        let one_sided = (difference * ONE).checked_div(sum).unwrap_or(0);
        let squared = one_sided * one_sided / ONE;
        (nr_pages * squared / LONG_STEPS_PER_MEMORY).max(ONE)
    }

    /// Checks the bounds.
    pub(super) fn validate(self) -> Result<(), String> {
        if (SHARE_MIN..=SHARE_MAX).contains(&self.share) {
            return Ok(());
        }
        Err(format!("the trial's share {} is out of bounds", self.share))
    }
}

/// An average of the last arrivals, times their number, with one more value.
fn averaged(sum: u64, value: u64) -> u64 {
    sum - sum / NR_EVIDENCE_ARRIVALS + value
}

/// What the proven were worth since the last arrival, in steps and fixed point.
fn steps_down(evidence: Evidence, coldest_age: u64) -> u64 {
    let (worth, of) = WORTH_OF_PROVEN;
    let earned = u128::from(evidence.nr_accesses)
        * u128::from(evidence.nr_pages.max(ZONES_PER_MEMORY))
        * u128::from(worth * ONE);
    let whole = u128::from(ZONES_PER_MEMORY * of) * u128::from(coldest_age.max(1));
    let steps = earned / whole;
    steps.min(u128::from(NR_STEPS_DOWN_MAX)) as u64
}
