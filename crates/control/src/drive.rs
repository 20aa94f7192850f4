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
//! A walk may take longer than a tick: it goes on in the ticks that follow, which come soon.
//!
//! **Invariants** I1: nothing here waits. I2: a tick begins at most one walk, and none while one is under way: two walks are never
//! closer than a pause.

mod limit;
#[cfg(test)]
mod tests;

pub use limit::{Limits, hold_limit};

use crate::control::{Control, WalkLook};
use crate::limit::Standing;
use crate::plan::{Action, Plan};
use crate::sample::Sample;
use crate::trace::{ClearIntent, Note, Recorder, WalkSample};
use strata_lru::{Isolated, TimeMs};

/// While a walk is under way a tick comes after so long at most.
const WALKING_WAIT_MS: u64 = 1;
/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;

/// What a walk found and took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Visit {
    /// What was found, as a trace has it.
    pub sample: WalkSample,
    /// Programs that have not run were walked, too.
    pub is_thorough: bool,
    /// How accessed bits are cleared, now or by and by; `None`: not at all, because clearing has to rest.
    pub clear: Option<ClearIntent>,
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
    /// Whether a walk is under way.
    pub is_walking: bool,
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
    /// Begins a walk, or goes on with the one that is under way; what it found, once it is over. `is_thorough`: programs that have
    /// not run, too.
    ///
    /// # Errors
    /// The run can't go on.
    fn visit(
        &mut self,
        now: TimeMs,
        is_thorough: bool,
        intent: ClearIntent,
    ) -> Result<Option<Visit>, Self::Error>;
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

/// Says what is to be done about what was read.
pub fn decide(control: &mut Control, recorder: &Recorder, sample: Sample) -> Plan {
    recorder.turn(|turn| turn.sample = Some(sample.clone()));
    let plan = control.tick(sample);
    recorder.turn(|turn| turn.plan = Some(plan.clone()));
    plan
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
    if on.view(now).is_walking {
        ticked.wait_ms = ticked.wait_ms.min(WALKING_WAIT_MS);
    }
    Ok(ticked)
}

/// Asks the kernel for so many bytes, unless `min_ttl` protects everything: the engine would refuse to take any of it,
/// and the kernel, which knows no such promise, must not be asked instead.
fn ask_kernel<M: Mechanism>(on: &mut M, now: TimeMs, bytes: u64) -> Standing {
    if on.control().min_ttl_ms() > 0 && on.view(now).is_all_young {
        on.hear(now, Event::Thrashing);
        return Standing::Thrashing;
    }
    let is_taken = on.control().may_ask_kernel(now) && on.ask_kernel(now, bytes);
    on.recorder().note(|| Note::AskKernel { bytes, is_taken });
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
        let Some(Given { answer, batch }) = on.isolate(now, nr_pages)? else {
            return Ok(Standing::NothingEvictable);
        };
        on.recorder().note(|| Note::Isolate { nr_pages, answer });
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
                let may_walk = on.view(now).is_walking
                    || may_walk(on, now, walks.pause_ms_min)
                    || on.control().may_look(now, walks.pause_approach_ms);
                has_walked = may_walk && walk(on, now, usage_bytes, false)?;
                if !has_walked {
                    return Ok(Standing::Fine);
                }
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

fn walk_if_due<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    is_pageout_wanted: bool,
) -> Result<(), M::Error> {
    let view = on.view(now);
    if view.is_walking {
        walk(on, now, usage_bytes, false)?;
        return Ok(());
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
    match may_walk(on, now, pause_ms) {
        true => drop(walk(on, now, usage_bytes, false)?),
        false => on.hear(now, Event::WalkPutOff),
    }
    Ok(())
}

/// Whether a walk may come that clears, where walks are to be so far apart.
pub fn may_walk<M: Mechanism>(on: &mut M, now: TimeMs, pause_ms: u64) -> bool {
    // Sooner it would not clear, and what was used since would not be told from what was used before.
    on.view(now).rest_us == 0 && on.control().may_look(now, pause_ms)
}

/// Walks all programs, or goes on with that; whether it is over: a new generation is born then. `is_thorough`: those that have not
/// run, too.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn walk<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    is_thorough: bool,
) -> Result<bool, M::Error> {
    let is_thorough = !on.view(now).is_walking && on.control_mut().begin_walk() || is_thorough;
    let intent = match on.control().is_clearing_for_pageout() {
        true => ClearIntent::Pageout,
        false => ClearIntent::Watch,
    };
    let Some(visit) = on.visit(now, is_thorough, intent)? else {
        return Ok(false);
    };
    on.control_mut()
        .note_walk_cost(visit.sample.cpu_ns, visit.sample.wall_ns);
    on.recorder().note(|| Note::Walk {
        is_thorough: visit.is_thorough,
        clear: visit.clear,
        sample: visit.sample,
    });
    on.age(now)?;
    after_walk(on, now, usage_bytes);
    Ok(true)
}

/// All that follows a walk: huge pages are chosen to be split.
fn after_walk<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) {
    on.hear(now, Event::WalkEnded);
    on.control_mut().end_walk(now, usage_bytes);
}
