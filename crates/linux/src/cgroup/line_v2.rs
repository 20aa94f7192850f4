//! Holding the line (v2): `memory.high` one step below the budget.
//!
//! `memory.reclaim` in a thread of ours keeps up with a program that pulls pages back at random, but
//! not with one that grows at full speed, and pageout less. Then usage would stand at the backstop.
//! Above `memory.high` a task reclaims on its way back to user space what it has charged, and nobody is
//! killed. Below it the line costs nothing, so it stands from before the program starts; where usage is
//! above it already it comes down little by little.
//!
//! `memory.high` makes tasks sleep as well when nothing can be reclaimed. A line that usage does not
//! come down to would only slow the program, so it is lifted after [`VAIN_TIME`] and not tried again
//! for [`REST_TIME`]: then the backstop alone stands behind the budget.
//!
//! **Owns** where `memory.high` stands and goes next. **Does not own** its steps (`line`), nor when to hold the line
//! (`control`).
//!
//! **Invariants**
//! - H1: the line is never lower than one step below the budget, nor [`STEP_BYTES`] below usage.
//! - H2: what was in `memory.high` before, or is set by somebody else meanwhile, is never exceeded, is
//!   journalled before the first change, and is what release writes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::file::{ControlFile, MemoryLimit, lock};
use crate::addr::PAGE_BYTES;
use strata_lru::machine::Line;

/// How far below usage the line is brought in one step: no further than the kernel reclaims in a moment.
const STEP_BYTES: u64 = 256 << 10;
/// Usage above the budget for so long although the line is held, and none of it coming down: nothing
/// can be reclaimed.
const VAIN_TIME: Duration = Duration::from_secs(2);
/// How long the line is left alone then.
const REST_TIME: Duration = Duration::from_secs(10);

/// `memory.high` of a group.
#[derive(Debug)]
pub(super) struct HighLine {
    pub(super) file: ControlFile,
    /// What was there before our first change, or was set by somebody else since; `u64::MAX`: `max`.
    pub(super) found_bytes: AtomicU64,
    pub(super) state: Mutex<State>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: the line stands where it should, or rests.
    Stay(Line),
    /// Lower it to this.
    Lower(u64),
    /// Lift it: it is held in vain.
    Lift,
}

/// Where the line stands and how it fares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// What was written; `None`: what was found.
    pub(super) set_bytes: Option<u64>,
    /// Since when usage has been above the budget and the line could not be lowered.
    stuck_since: Option<Instant>,
    /// Not before this.
    rests_until: Option<Instant>,
}

impl State {
    /// What to do about `line` with usage as it is.
    pub(super) fn step(&mut self, now: Instant, line: u64, budget: u64, usage: u64) -> Step {
        if self.rests_until.is_some_and(|until| now < until) {
            return Step::Stay(Line::Resting);
        }
        let target = usage.saturating_sub(STEP_BYTES).max(line);
        let target = target - target % PAGE_BYTES;
        let stands = self.set_bytes.unwrap_or(u64::MAX);
        if target < stands {
            self.stuck_since = None;
            return Step::Lower(target);
        }
        if usage <= budget {
            self.stuck_since = None;
        } else if now.duration_since(*self.stuck_since.get_or_insert(now)) > VAIN_TIME {
            self.stuck_since = None;
            self.rests_until = Some(now + REST_TIME);
            return Step::Lift;
        }
        Step::Stay(match stands <= line {
            true => Line::Held,
            false => Line::Moving,
        })
    }
}

impl HighLine {
    /// Opens it; `None` where the kernel does not offer it.
    pub(super) fn open(group: &std::path::Path) -> Option<HighLine> {
        let file = ControlFile::open_read_write(group.join("memory.high")).ok()?;
        Some(HighLine {
            found_bytes: AtomicU64::new(file.read_number().ok()?),
            file,
            state: Mutex::new(State::default()),
        })
    }

    pub(super) fn found(&self) -> u64 {
        self.found_bytes.load(Ordering::SeqCst)
    }

    /// What was found, or was set by somebody else since.
    pub(super) fn found_limit(&self) -> MemoryLimit {
        MemoryLimit {
            file: self.file.path.clone(),
            bytes: self.found(),
        }
    }

    /// Takes note that the file holds what was found again.
    pub(super) fn forget(&self) {
        lock(&self.state).set_bytes = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const BUDGET: u64 = 100 * MIB;
    const LINE: u64 = 99 * MIB;

    #[test]
    fn the_line_follows_usage_down_and_stops_one_step_below_the_budget() {
        let (mut state, now) = (State::default(), Instant::now());
        let mut usage = 101 * MIB;
        let mut nr_steps = 0;
        while let Step::Lower(target) = state.step(now, LINE, BUDGET, usage) {
            assert!(target >= LINE && usage - target <= STEP_BYTES);
            state.set_bytes = Some(target);
            usage = target;
            nr_steps += 1;
        }
        assert_eq!(state.set_bytes, Some(LINE));
        assert_eq!(nr_steps, 2 * MIB / STEP_BYTES);
        assert_eq!(state.step(now, LINE, BUDGET, usage), Step::Stay(Line::Held));
    }

    #[test]
    fn a_line_that_usage_does_not_come_down_to_is_lifted_and_rests() {
        let (mut state, start) = (State::default(), Instant::now());
        let usage = 104 * MIB;
        let mut step = |at: Duration| {
            let step = state.step(start + at, LINE, BUDGET, usage);
            match step {
                Step::Lower(target) => state.set_bytes = Some(target),
                Step::Lift => state.set_bytes = None,
                Step::Stay(_) => {}
            }
            step
        };
        assert!(matches!(step(Duration::ZERO), Step::Lower(_)));
        assert_eq!(step(VAIN_TIME / 2), Step::Stay(Line::Moving));
        assert_eq!(step(VAIN_TIME), Step::Stay(Line::Moving));
        assert_eq!(step(VAIN_TIME * 2), Step::Lift);
        assert_eq!(step(VAIN_TIME * 3), Step::Stay(Line::Resting));
        assert!(matches!(step(VAIN_TIME * 2 + REST_TIME), Step::Lower(_)));
    }

    #[test]
    fn usage_that_comes_down_slowly_is_no_reason_to_give_up() {
        let (mut state, start) = (State::default(), Instant::now());
        for second in 0..10 {
            let usage = 108 * MIB - second * (MIB / 2);
            let at = start + Duration::from_secs(second);
            let step = state.step(at, LINE, BUDGET, usage);
            let Step::Lower(target) = step else {
                panic!("{second} s: {step:?}");
            };
            state.set_bytes = Some(target);
        }
    }
}
