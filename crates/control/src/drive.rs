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
    Answer, Batch, ChosenBy, ClearIntent, ReclaimAsk, Recorder, WalkAsk, WalkEnd, WalkPlan,
    WalkSample,
};
use strata_lru::{Isolated, TimeMs};

/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;

/// What a walk found and took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Visit {
    /// What was found, as a trace has it.
    pub sample: WalkSample,
    /// Whether accessed bits are cleared, now or by and by.
    pub has_cleared: bool,
}

/// How large a batch of pages is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Folios.
    pub nr_folios: u64,
    /// Requests they are sent in: one a program.
    pub nr_requests: u64,
}

/// How the memory and its threads stand at one moment of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Whether pages that were sent have not come back.
    pub is_batch_out: bool,
    /// Whether all pages are younger than `min_ttl`.
    pub is_all_young: bool,
    /// Whether a walk has to come soon to see what was split.
    pub is_splitting: bool,
    /// Whether the engine wants a new generation.
    pub is_ageing_due: bool,
    /// How long clearing has to rest still before a walk may clear again, microseconds.
    pub rest_us: u64,
}

/// What a mechanism is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The engine is asked for pages: an attempt that is answered at once.
    Attempt,
    /// Nothing could be taken because everything is younger than `min_ttl`.
    Thrashing,
    /// A walk is wanted and has to wait.
    WalkPutOff,
    /// A walk has ended: huge pages may be chosen to be split.
    WalkEnded,
}

/// What the engine gave.
#[derive(Debug)]
pub struct Given<B> {
    /// Its answer.
    pub answer: Isolated,
    /// Pages that are ready to be sent.
    pub batch: B,
    /// How large the batch is.
    pub size: BatchSize,
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
    /// Where everything is noted.
    fn recorder(&self) -> &Recorder;

    /// How things stand.
    fn view(&mut self, now: TimeMs) -> View;
    /// Takes note of something.
    fn hear(&mut self, now: TimeMs, event: Event);
    /// Carries an action out, but for [`Action::PageOut`] and [`Action::Reclaim`].
    fn apply(&mut self, now: TimeMs, action: Action);
    /// Asks the kernel to reclaim so many bytes; whether it was free to be asked.
    fn ask_kernel(&mut self, now: TimeMs, bytes: u64) -> bool;
    /// Takes what the engine would evict next. `None`: the engine can't, and the user was told.
    ///
    /// # Errors
    /// The run can't go on.
    fn isolate(
        &mut self,
        now: TimeMs,
        nr_pages: u64,
    ) -> Result<Option<Given<Self::Batch>>, Self::Error>;
    /// Has the pages of a batch taken.
    fn send(&mut self, now: TimeMs, batch: Self::Batch);
    /// Walks. `is_thorough`: programs that have not run, too.
    ///
    /// # Errors
    /// The run can't go on.
    fn visit(
        &mut self,
        now: TimeMs,
        is_thorough: bool,
        intent: ClearIntent,
    ) -> Result<Visit, Self::Error>;
    /// Ends a walk with a new generation.
    ///
    /// # Errors
    /// The run can't go on.
    fn age(&mut self, now: TimeMs) -> Result<(), Self::Error>;
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
                if !on.view(now).is_batch_out {
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
    if on.control().min_ttl_ms() > 0 {
        let is_all_young = on.view(now).is_all_young;
        on.recorder()
            .note(|tick| tick.sample.is_all_young = Some(is_all_young));
        if is_all_young {
            on.hear(now, Event::Thrashing);
            return Standing::Thrashing;
        }
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
    on.hear(now, Event::Attempt);
    let mut has_walked = false;
    for _ in 0..ISOLATE_TRIES {
        let by = ChosenBy::Generations;
        let Some(given) = on.isolate(now, nr_pages)? else {
            note_batch(on, by, Some(nr_pages), Answer::Failed, BatchSize::default());
            return Ok(Standing::NothingEvictable);
        };
        note_batch(on, by, Some(nr_pages), given.answer.into(), given.size);
        match given.answer {
            Isolated::Pages(_) => {
                on.send(now, given.batch);
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
                on.hear(now, Event::Thrashing);
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
    size: BatchSize,
) {
    on.recorder().note(|tick| {
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
    let view = on.view(now);
    if is_pageout_wanted {
        on.recorder()
            .note(|tick| tick.sample.is_ageing_due = Some(view.is_ageing_due));
    }
    let look = WalkLook {
        usage_bytes,
        is_splitting: view.is_splitting,
        is_pageout_wanted,
        is_ageing_due: is_pageout_wanted && view.is_ageing_due,
    };
    let Some(pause_ms) = on.control().walk_pause_ms(&look) else {
        return Ok(());
    };
    if may_walk(on, now, pause_ms) {
        return walk(on, now, usage_bytes);
    }
    on.hear(now, Event::WalkPutOff);
    Ok(())
}

/// Whether a walk may come that clears, where walks are to be so far apart.
pub fn may_walk<M: Mechanism>(on: &mut M, now: TimeMs, pause_ms: u64) -> bool {
    // Sooner it would not clear, and what was used since would not be told from what was used before.
    let rest_us = on.view(now).rest_us;
    let may_come = rest_us == 0 && on.control().may_look(now, pause_ms);
    let ask = WalkAsk {
        pause_ms,
        rest_us,
        may_come,
    };
    on.recorder().note(|tick| tick.plan.walk_asks.push(ask));
    may_come
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
    let is_thorough = on.control_mut().begin_walk() || is_thorough;
    let intent = match on.control().is_clearing_for_pageout() {
        true => ClearIntent::Pageout,
        false => ClearIntent::Watch,
    };
    let visit = on.visit(now, is_thorough, intent)?;
    on.control_mut()
        .note_walk_cost(visit.sample.cpu_ns, visit.sample.wall_ns);
    on.recorder().note(|tick| {
        tick.sample.walks.push(visit.sample);
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
    on.hear(now, Event::WalkEnded);
    on.control_mut().end_walk(now, usage_bytes);
}

/// Notes what follows the walk that was noted last.
pub fn note_walk_end<M: Mechanism>(on: &M, then: WalkEnd) {
    on.recorder().note(|tick| {
        if let Some(walk) = tick.plan.walks.last_mut() {
            walk.then = then;
        }
    });
}
