//! A tick on live memory or on played memory: what is decided is carried out, in one order for both.
//!
//! ```text
//!   plan -> reclaim: evict, or ask the kernel
//!        -> a walk, if one is due -> which huge pages are to be split
//! ```
//!
//! **Owns** this order. **Does not own** the decisions ([`Control`]), nor pages, threads, page tables and limits: those are
//! a [`Mechanism`]'s, live or played.
//!
//! **Invariants** I1: nothing here waits. I2: a tick makes at most one walk: two walks are never closer than a pause.

mod limit;
pub mod notes;
#[cfg(test)]
mod tests;

pub use limit::{Limits, hold_limit};

use crate::control::{Control, WalkLook};
use crate::limit::Standing;
use crate::plan::{Action, Plan};
use crate::trace::{
    Answer, Batch, ChosenBy, ClearIntent, Found, ProgramPages, ReclaimAsk, Recorder, WalkAsk,
    WalkEnd, WalkPlan, WalkSample,
};
use strata_lru::{Isolated, TimeMs};

/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;

/// What a walk visited, and what that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// Programs walked.
    pub nr_spaces: u64,
    /// Programs left out because they had not run.
    pub nr_spaces_skipped: u64,
    /// Entries of page tables read.
    pub nr_entries: u64,
    /// CPU time of reading and of what was cleared at once, nanoseconds.
    pub cpu_ns: u64,
    /// Wall time of the same, nanoseconds.
    pub wall_ns: u64,
    /// Whether accessed bits are cleared, now or by and by.
    pub has_cleared: bool,
}

/// What a walk found, for the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WalkFound {
    /// In all programs together.
    pub all: Found,
    /// In each program.
    pub programs: Vec<ProgramPages>,
}

/// How large a batch of pages is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Folios.
    pub nr_folios: u64,
    /// Requests they are sent in: one a program.
    pub nr_requests: u64,
}

/// The memory of one group and the threads that act on it.
///
/// Counts are of base pages unless said otherwise. Whatever goes wrong without ending the run is told the user by the
/// mechanism itself.
pub trait Mechanism {
    /// Why the run can't go on.
    type Error;
    /// Pages that were chosen and are ready to be sent.
    type Batch;

    /// Who decides.
    fn control(&self) -> &Control;
    /// Who decides, to be told.
    fn control_mut(&mut self) -> &mut Control;
    /// The engine was asked for pages: an attempt that is answered at once.
    fn note_attempt(&mut self);
    /// Where everything is noted.
    fn recorder(&self) -> &Recorder;

    /// What the last walk found.
    fn found(&self) -> WalkFound;

    /// Whether all pages are younger than `min_ttl`.
    fn is_all_young(&mut self, now: TimeMs) -> bool {
        let _ = now;
        false
    }
    /// Nothing could be taken because everything is younger than `min_ttl`.
    fn note_thrashing(&mut self) {}
    /// Asks the kernel to reclaim so many bytes; whether it was free to be asked.
    fn ask_kernel(&mut self, now: TimeMs, bytes: u64) -> bool;

    /// Whether pages that were sent have not come back.
    fn is_batch_out(&self) -> bool;
    /// Chooses huge pages that are to be split, after a walk.
    fn choose_splits(&mut self, now: TimeMs) {
        let _ = now;
    }
    /// Whether a walk has to come soon to see what was split.
    fn is_splitting(&self) -> bool {
        false
    }
    /// Takes what the engine would evict next. `None`: the engine can't, and the user was told.
    ///
    /// # Errors
    /// The run can't go on.
    fn isolate(
        &mut self,
        now: TimeMs,
        nr_pages: u64,
    ) -> Result<Option<(Isolated, Self::Batch)>, Self::Error>;
    /// How large a batch is.
    fn size_of(batch: &Self::Batch) -> BatchSize;
    /// Has the pages of a batch taken.
    fn send(&mut self, now: TimeMs, batch: Self::Batch);

    /// How long clearing has to rest still before a walk may clear again, microseconds.
    fn rest_us(&mut self, now: TimeMs) -> u64;
    /// Whether the engine wants a new generation.
    fn is_ageing_due(&mut self) -> bool {
        false
    }
    /// A walk is wanted and has to wait.
    fn put_off_walk(&mut self, now: TimeMs) {
        let _ = now;
    }
    /// A walk is about to begin: whatever has to be known for it is looked at.
    fn prepare_walk(&mut self, now: TimeMs) {
        let _ = now;
    }
    /// Walks. `is_thorough`: programs that have not run, too. `is_for_pageout`: bits are cleared as is cheapest, because the
    /// kernel does not choose; else so that its lists stay as they are.
    ///
    /// # Errors
    /// The run can't go on.
    fn visit(
        &mut self,
        now: TimeMs,
        is_thorough: bool,
        is_for_pageout: bool,
    ) -> Result<Visit, Self::Error>;
    /// Ends a walk with a new generation.
    ///
    /// # Errors
    /// The run can't go on.
    fn age(&mut self, now: TimeMs) -> Result<(), Self::Error>;
    /// All that follows a walk is done.
    fn end_walk(&mut self, now: TimeMs) {
        let _ = now;
    }

    /// Carries an action out, but for [`Action::PageOut`] and [`Action::Reclaim`].
    fn apply(&mut self, now: TimeMs, action: Action);
}

/// What a tick came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Look again after this, unless woken, milliseconds.
    pub wait_ms: u64,
    /// How eviction stands.
    pub standing: Standing,
}

/// Carries a plan out that was made with so much in use, and walks if that is due.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn carry_out<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    plan: Plan,
) -> Result<Ticked, M::Error> {
    let mut ticked = Ticked {
        wait_ms: plan.wait_ms,
        standing: Standing::Fine,
    };
    let mut is_pageout_wanted = false;
    for action in plan.actions {
        match action {
            Action::Reclaim { bytes } => ticked.standing = ask_kernel(on, now, bytes),
            Action::PageOut { nr_pages } => {
                is_pageout_wanted = true;
                if !on.is_batch_out() {
                    ticked.standing = evict(on, now, usage_bytes, nr_pages)?;
                    if ticked.standing != Standing::Fine {
                        ticked.wait_ms = on.control_mut().back_off();
                    }
                }
            }
            action => on.apply(now, action),
        }
    }
    walk_if_due(on, now, usage_bytes, is_pageout_wanted)?;
    Ok(ticked)
}

/// Asks the kernel for so many bytes, unless `min_ttl` protects everything: the engine would refuse to take any of it,
/// and the kernel, which knows no such promise, must not be asked instead.
fn ask_kernel<M: Mechanism>(on: &mut M, now: TimeMs, bytes: u64) -> Standing {
    if on.control().min_ttl_ms() > 0 && on.is_all_young(now) {
        on.note_thrashing();
        return Standing::Thrashing;
    }
    let is_taken = on.control().may_ask_kernel(now) && on.ask_kernel(now, bytes);
    on.recorder()
        .note(|tick| tick.plan.reclaim = Some(ReclaimAsk { bytes, is_taken }));
    Standing::Fine
}

/// Takes so many pages, the coldest first.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn evict<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    nr_pages: u64,
) -> Result<Standing, M::Error> {
    on.note_attempt();
    let mut has_walked = false;
    for _ in 0..ISOLATE_TRIES {
        let by = ChosenBy::Generations;
        let Some((answer, batch)) = on.isolate(now, nr_pages)? else {
            note_batch(on, by, Some(nr_pages), Answer::Failed, None);
            return Ok(Standing::NothingEvictable);
        };
        note_batch(on, by, Some(nr_pages), answer.into(), Some(&batch));
        match answer {
            Isolated::Pages(_) => {
                on.send(now, batch);
                return Ok(Standing::Fine);
            }
            Isolated::Again => {}
            // What appeared since the last walk is not known yet, so "empty" may be stale too.
            Isolated::NeedsAgeing | Isolated::Empty if !has_walked => {
                // Also where it would clear nothing: what is new is found, and what is old was not used since
                // something was cleared.
                let walks = on.control().config().walks;
                let may_walk = may_walk(on, now, walks.pause_ms_min)
                    || on.control().may_look(now, walks.pause_approach_ms);
                if !may_walk {
                    return Ok(Standing::Fine);
                }
                walk(on, now, usage_bytes)?;
                has_walked = true;
            }
            Isolated::NeedsAgeing => return Ok(Standing::Fine),
            Isolated::Empty => return Ok(Standing::NothingEvictable),
            Isolated::Thrashing => {
                on.note_thrashing();
                return Ok(Standing::Thrashing);
            }
        }
    }
    Ok(Standing::Fine)
}

/// Notes what the engine was asked for, and what it gave.
pub fn note_batch<M: Mechanism>(
    on: &M,
    by: ChosenBy,
    nr_wanted_pages: Option<u64>,
    answer: Answer,
    batch: Option<&M::Batch>,
) {
    on.recorder().note(|tick| {
        let size = batch.map(M::size_of).unwrap_or_default();
        tick.plan.batches.push(Batch {
            by,
            nr_wanted_pages,
            answer,
            nr_sent_folios: size.nr_folios,
            nr_requests: size.nr_requests,
        });
    });
}

fn walk_if_due<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    is_pageout_wanted: bool,
) -> Result<(), M::Error> {
    let look = WalkLook {
        usage_bytes,
        is_splitting: on.is_splitting(),
        is_pageout_wanted,
        is_ageing_due: is_pageout_wanted && is_ageing_due(on),
    };
    let Some(pause_ms) = on.control().walk_pause_ms(&look) else {
        return Ok(());
    };
    if may_walk(on, now, pause_ms) {
        return walk(on, now, usage_bytes);
    }
    on.put_off_walk(now);
    Ok(())
}

/// Whether a walk may come that clears, where walks are to be so far apart.
pub fn may_walk<M: Mechanism>(on: &mut M, now: TimeMs, pause_ms: u64) -> bool {
    // Sooner it would not clear, and what was used since would not be told from what was used before.
    let rest_us = on.rest_us(now);
    let may_come = rest_us == 0 && on.control().may_look(now, pause_ms);
    let ask = WalkAsk {
        pause_ms,
        rest_us,
        may_come,
    };
    on.recorder().note(|tick| tick.plan.walk_asks.push(ask));
    may_come
}

/// Whether the engine wants a new generation.
fn is_ageing_due<M: Mechanism>(on: &mut M) -> bool {
    let is_due = on.is_ageing_due();
    on.recorder()
        .note(|tick| tick.sample.is_ageing_due = Some(is_due));
    is_due
}

/// Walks all programs; a new generation is born.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn walk<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) -> Result<(), M::Error> {
    look(on, now, false)?;
    on.age(now)?;
    after_walk(on, now, usage_bytes);
    Ok(())
}

/// Visits all programs; the caller ends the walk. `is_thorough`: those that have not run, too.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn look<M: Mechanism>(on: &mut M, now: TimeMs, is_thorough: bool) -> Result<(), M::Error> {
    on.prepare_walk(now);
    let is_thorough = on.control_mut().begin_walk() || is_thorough;
    let is_for_pageout = on.control().is_clearing_for_pageout();
    let visit = on.visit(now, is_thorough, is_for_pageout)?;
    on.control_mut().note_walk_cost(visit.cpu_ns, visit.wall_ns);
    let intent = match is_for_pageout {
        true => ClearIntent::Pageout,
        false => ClearIntent::Watch,
    };
    on.recorder().note(|tick| {
        let found = on.found();
        tick.sample.walks.push(WalkSample {
            nr_spaces: visit.nr_spaces,
            nr_spaces_skipped: visit.nr_spaces_skipped,
            nr_entries: visit.nr_entries,
            cpu_ns: visit.cpu_ns,
            wall_ns: visit.wall_ns,
            found: found.all,
            programs: found.programs,
        });
        tick.plan.walks.push(WalkPlan {
            is_thorough,
            clear: visit.has_cleared.then_some(intent),
            then: WalkEnd::Age,
        });
    });
    Ok(())
}

/// All that follows a walk: huge pages are chosen to be split.
pub fn after_walk<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) {
    on.choose_splits(now);
    on.control_mut().end_walk(now, usage_bytes);
    on.end_walk(now);
}

/// Notes what follows the walk that was noted last.
pub fn note_walk_end<M: Mechanism>(on: &M, then: WalkEnd) {
    on.recorder().note(|tick| {
        if let Some(walk) = tick.plan.walks.last_mut() {
            walk.then = then;
        }
    });
}
