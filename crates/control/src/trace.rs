//! What each tick of the loop read, what it decided, and what became of it: the lines of a trace.
//!
//! ```text
//!   whoever reads or decides --note--> [the tick so far] --take--> a line
//! ```
//!
//! `strata run --trace` and `strata sim --steered --trace` write the same lines. Whoever writes a value into a decision
//! notes the value, and what it came from, with one call. Nothing here is ever asked for anything, so that a loop with a
//! trace decides as one without.
//!
//! **Owns** the tick that is being recorded. **Does not own** the format (`format`, `plan`; in words: the page about the
//! control trace in the docs), what the loop's own types are called there (`names`), nor files.
//!
//! **Invariants** I1: without a trace a note is one comparison.

mod format;
mod names;
mod plan;

pub use format::*;
pub use plan::*;

use std::cell::RefCell;
use std::rc::Rc;

/// Where whoever reads or decides notes it. Clones note in the same tick.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Rc<RefCell<Tick>>>);

impl Recorder {
    /// One that takes notes; [`Recorder::default`] takes none.
    pub fn recording() -> Recorder {
        Recorder(Some(Rc::default()))
    }

    /// Adds to the tick so far, where there is a trace.
    pub fn note(&self, into: impl FnOnce(&mut Tick)) {
        if let Some(tick) = &self.0 {
            into(&mut tick.borrow_mut());
        }
    }

    /// What became of something.
    pub fn note_report(&self, report: impl FnOnce() -> Report) {
        self.note(|tick| tick.reports.push(report()));
    }

    /// A look at the limit begins.
    pub fn begin_limit(&self, standing: Standing) {
        self.note(|tick| {
            tick.sample.limit.push(LimitSample::default());
            tick.plan.limit.push(LimitPlan {
                standing,
                ..LimitPlan::default()
            });
        });
    }

    /// Adds to the look at the limit that is under way.
    pub fn note_limit(&self, into: impl FnOnce(&mut LimitSample, &mut LimitPlan)) {
        self.note(|tick| {
            let (sample, plan) = (&mut tick.sample.limit, &mut tick.plan.limit);
            if let (Some(sample), Some(plan)) = (sample.last_mut(), plan.last_mut()) {
                into(sample, plan);
            }
        });
    }

    /// What was done to the limit.
    pub fn note_limit_action(&self, action: LimitAction) {
        self.note_limit(|_, plan| plan.actions.push(action));
    }

    /// A reading of the kernel's counters.
    pub fn note_counters(&self, by: StatReader, counters: Counters) {
        let reading = StatReading { by, counters };
        self.note(|tick| tick.sample.memory_stat.push(reading));
    }

    /// The tick so far; the next begins. `None`: there is no trace.
    pub fn take(&self) -> Option<Tick> {
        Some(std::mem::take(&mut *self.0.as_ref()?.borrow_mut()))
    }
}
