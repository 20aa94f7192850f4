//! A tick on live memory or on played memory: what is decided is carried out, in one order for both.
//!
//! ```text
//!   plan -> reclaim: evict, or ask the kernel
//!        -> hints, as soon as clearing is over
//!        -> a walk, if one is due -> ranking -> hints -> reading ahead
//! ```
//!
//! **Owns** this order, and the little that is kept from one step to a later one ([`Kept`]). **Does not own** the
//! decisions ([`Control`]), nor pages, threads, page tables and limits: those are a [`Mechanism`]'s, live or played.
//!
//! **Invariants** I1: nothing here waits. I2: a tick makes at most one walk, and one more where pages are to be taken and
//! none are known that can go.

mod beside;
mod evict;
mod limit;
mod notes;
mod walking;

pub use beside::{act, look_at_lists};
pub use evict::{evict, note_batch};
pub use limit::{Held, Limits, bias_swappiness, hold_limit};
pub use notes::Seen;
pub use walking::{after_walk, look, may_walk, note_walk_end, walk};

use crate::control::Control;
use crate::limit::Standing;
use crate::plan::{Action, Plan};
use crate::sample::KernelLists;
use crate::strategy::{Busy, Outcome};
use crate::trace::{Found, ProgramPages, Recorder};
use strata_lru::{Foretold, Isolated, ReclaimStats, TimeMs};

/// What is kept from one step to a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Attempts at taking pages, those of the kernel included, that were answered. Whoever hears the answers counts them.
    pub nr_attempts: u64,
    /// Whether what the last walk showed has still to be told the kernel.
    is_telling_due: bool,
    /// Base pages taken by heat since pages were last ranked.
    nr_taken_pages: u64,
}

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
    /// What is kept from step to step.
    fn kept_mut(&mut self) -> &mut Kept;
    /// Where everything is noted.
    fn recorder(&self) -> &Recorder;

    /// The engine's counters.
    fn stats(&self) -> ReclaimStats;
    /// In memory, as of the last walk.
    fn nr_resident_pages(&self) -> u64;
    /// Found used by the last walk.
    fn nr_used_pages(&self) -> u64;
    /// Of those that were read in ahead, used for the first time since this was last asked.
    fn take_prefetched_used(&mut self) -> u64 {
        0
    }
    /// How what the walk before foretold compares with what became of it.
    fn foretold(&self) -> Foretold;
    /// What the last walk found.
    fn found(&self) -> WalkFound;
    /// Which threads of strategies are at work.
    fn busy(&self) -> Busy;
    /// The kernel's lists, where they can be read.
    fn kernel_lists(&mut self) -> Option<KernelLists>;
    /// Whether pages may be named to the kernel as cold from now on.
    fn allow_deactivation(&mut self, is_allowed: bool);

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
    /// Ranked folios that were not taken yet.
    fn nr_ranked_folios(&self) -> u64;
    /// Ranks the coldest pages.
    fn rank(&mut self, nr_pages: u64);
    /// Chooses huge pages that are to be split, after a walk.
    fn choose_splits(&mut self, now: TimeMs) {
        let _ = now;
    }
    /// Whether a walk has to come soon to see what was split.
    fn is_splitting(&self) -> bool {
        false
    }
    /// Takes ranked pages, the coldest first; an empty batch if there are none.
    fn isolate_cold(&mut self, now: TimeMs, nr_pages: u64) -> Self::Batch;
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
    /// Has them taken.
    fn send(&mut self, now: TimeMs, batch: Self::Batch);

    /// How long clearing has to rest still before a walk may clear again, microseconds.
    fn rest_us(&mut self, now: TimeMs) -> u64;
    /// How far apart walks that clear come at least, milliseconds.
    fn pace_ms(&self) -> u64;
    /// Whether pages of the last walk are being cleared: until then nobody else is to move pages on the kernel's lists.
    fn is_clearing(&mut self) -> bool;
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
    /// Ends a walk without one.
    fn end_look(&mut self);
    /// All that follows a walk is done.
    fn end_walk(&mut self, now: TimeMs) {
        let _ = now;
    }

    /// Carries an action out, but for [`Action::PageOut`] and [`Action::Reclaim`]. What became of it, if it asks for pages.
    fn apply(&mut self, now: TimeMs, action: Action) -> Option<Outcome>;
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
            Action::Reclaim { bytes } => ticked.standing = evict::ask_kernel(on, now, bytes),
            Action::PageOut { nr_pages } => {
                is_pageout_wanted = true;
                if !on.is_batch_out() {
                    ticked.standing = evict(on, now, usage_bytes, nr_pages)?;
                    if ticked.standing != Standing::Fine {
                        ticked.wait_ms = on.control_mut().back_off();
                    }
                }
            }
            action => {
                act(on, now, action);
            }
        }
    }
    walking::tell_when_cleared(on, now);
    walking::walk_if_due(on, now, usage_bytes, is_pageout_wanted)?;
    Ok(ticked)
}
