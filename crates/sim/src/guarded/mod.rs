//! A guard played on a trace: what it gives back within its promise, and what comes back.
//!
//! ```text
//!   request        sets the accessed bit of its page; a page that is away comes back: a fault
//!   every interval walk: bits into the ledger of ages, each group's look at its promise, what goes leaves memory
//! ```
//!
//! What is decided is what the live guard decides, by the same code: ages by `strata_lru::ages`, the promise by
//! `strata_control::promise`, what goes by `strata_control::guard`. Only who walks and who takes is played: walks take no
//! time, pages go at once, and there is always room in swap. Every page is its group's own: none is shared or locked. What a
//! guard reads back after a broken promise counts as away until its next access, which costs nothing then.
//!
//! A guard sees what is mapped. Accesses through descriptors are passed over, and only counted. A trace without times
//! has an access a millisecond: promises are about minutes. What a recording knows to be freed is gone, and is no longer away.
//!
//! **Owns** the bits and the clock. **Does not own** what goes, nor the figures (`report`).
//!
//! **Invariants**
//! - I1: after each walk what is in memory and what is away is what was touched and not freed.
//! - I2: the same workload and setup give the same figures.

mod memory;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Guarded, GuardedGroup, Moment};
pub use strata_control::promise::{Promise, STALL_SHARE, Standing};

use crate::cost::CostModel;
use crate::ratio::Ratio;
use crate::simulate::{PROGRESS_REQUESTS, Progress};
use crate::workload::{PageId, Workload, ends_before};
use memory::Memory;
use report::{Sums, ms};
use std::time::Duration;
use strata_control::guard::{self, Counted, Leaning, Member};
use strata_control::promise::PromiseHolder;
use strata_lru::GroupId;
use strata_lru::ages::Ledger;
use strata_trace::Via;
use strata_trace::recording::RecordingInfo;

/// The most walks of a play: those of four months, ten seconds apart.
const NR_WALKS_MAX: u64 = 1 << 20;

/// Time between two accesses of a trace without times.
const ACCESS_US: u64 = 1000;

/// How a guard is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardSetup {
    /// What is promised to each group of the trace.
    pub promise: Promise,
    /// Time between two walks; of a recording with longer steps, these.
    pub walk_interval: Duration,
}

/// What a recording tells beside its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When the last walk was, microseconds since the recording began.
    pub end_us: u64,
    /// Time between two walks, microseconds.
    pub step_us: u64,
    /// CPU time that the recorded processes used, microseconds.
    pub busy_us: u64,
}

impl Recorded {
    /// What a play has to know of a recording; `None` where it holds no interval.
    pub fn of(info: &RecordingInfo) -> Option<Recorded> {
        let (_, end_us) = info.times_us?;
        Some(Recorded {
            end_us,
            step_us: info.duration_us().checked_div(info.nr_walks)?,
            busy_us: info.cpu_us,
        })
    }
}

/// Why a guard can't be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// There is nothing that a guard could see.
    #[error(
        "{trace}: no access goes through a mapping, and a guard sees nothing else; --via mmap takes all accesses for such"
    )]
    NothingMapped {
        /// Name of the workload.
        trace: String,
    },
    /// Too long for such an interval.
    #[error(
        "{trace}: {nr_walks} walks are more than {NR_WALKS_MAX}: take a longer interval, or a part of the trace"
    )]
    TooManyWalks {
        /// Name of the workload.
        trace: String,
        /// How many there would be.
        nr_walks: u64,
    },
}

/// A guard at work.
#[derive(Debug)]
struct Play {
    ledger: Ledger,
    memory: Memory,
    holders: Vec<PromiseHolder>,
    sums: Vec<Sums>,
    nr_walks: u64,
    /// Every how many walks a moment is kept.
    moment_every: u64,
}

/// Plays a guard on a workload from empty memory.
///
/// # Errors
/// [`GuardError`].
pub fn guarded(
    workload: &Workload,
    setup: &GuardSetup,
    recorded: Option<Recorded>,
    cost: &CostModel,
    progress: &dyn Progress,
) -> Result<Guarded, GuardError> {
    let trace = || workload.name().to_owned();
    let step = Duration::from_micros(recorded.map_or(0, |of| of.step_us));
    let interval = setup.walk_interval.max(step).max(Duration::from_micros(1));
    let interval_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
    let time_us = |position| {
        let time_us = workload.time_us(position);
        time_us.unwrap_or_else(|| u64::from(position) * ACCESS_US)
    };
    let nr_requests = workload.nr_requests();
    let begin_us = time_us(0);
    let end_us = (0..nr_requests).map(time_us).max().unwrap_or_default();
    let end_us = end_us.max(recorded.map_or(0, |of| of.end_us));
    let nr_walks = (end_us - begin_us) / interval_us + 1;
    if nr_walks > NR_WALKS_MAX {
        let trace = trace();
        return Err(GuardError::TooManyWalks { trace, nr_walks });
    }
    let mut play = Play::new(workload, setup.promise, nr_walks);
    let (mut next_us, mut nr_unmapped) = (begin_us, 0);
    let mut ends = workload.ends();
    for (position, request) in (0..).zip(workload.requests()) {
        // What is told at the time of a walk was accessed before it.
        while next_us < time_us(position) {
            play.walk(next_us - begin_us);
            next_us += interval_us;
        }
        for end in ends_before(&mut ends, position as usize) {
            play.memory.free(end.page);
        }
        match request.via() {
            Via::PageTable => play.access(request.page()),
            Via::FileDescriptor => nr_unmapped += 1,
        }
        if (position as usize + 1).is_multiple_of(PROGRESS_REQUESTS) {
            progress.advance(PROGRESS_REQUESTS as u64);
        }
    }
    progress.advance(u64::from(nr_requests) % PROGRESS_REQUESTS as u64);
    if nr_unmapped == nr_requests {
        return Err(GuardError::NothingMapped { trace: trace() });
    }
    while next_us <= end_us {
        play.walk(next_us - begin_us);
        next_us += interval_us;
    }
    let groups = play.sums.into_iter().zip(0..);
    let groups = groups.map(|(sums, group)| sums.told(group, cost));
    let groups: Vec<GuardedGroup> = groups.collect();
    let fault_ns = groups.iter().map(|group| group.fault_ns).sum();
    let busy_us = recorded.map(|of| of.busy_us);
    Ok(Guarded {
        trace: trace(),
        promise_share_per_min: setup.promise.share_per_min,
        min_age_ms: ms(setup.promise.min_age),
        walk_interval_ms: ms(interval),
        duration_ms: (end_us - begin_us) / 1000,
        nr_walks: play.nr_walks,
        nr_unmapped_accesses: nr_unmapped,
        busy_us,
        slowdown: busy_us
            .filter(|us| *us > 0)
            .map(|us| Ratio::of(fault_ns, us.saturating_mul(1000))),
        groups,
    })
}

impl Play {
    fn new(workload: &Workload, promise: Promise, nr_walks: u64) -> Play {
        let mut ledger = Ledger::new();
        let nr_groups = usize::from(workload.nr_groups());
        let memory = Memory::of(workload, &mut ledger);
        Play {
            ledger,
            memory,
            holders: vec![PromiseHolder::new(promise); nr_groups],
            sums: vec![Sums::default(); nr_groups],
            nr_walks: 0,
            moment_every: nr_walks.div_ceil(report::NR_MOMENTS_MAX),
        }
    }

    fn access(&mut self, page: PageId) {
        if let Some(fault) = self.memory.access(page) {
            self.sums[fault.group].fault(fault.kind, fault.is_near);
        }
    }

    /// The walk at a time since the beginning.
    fn walk(&mut self, at_us: u64) {
        let at = Duration::from_micros(at_us);
        self.memory.tell(&mut self.ledger, at);
        let nr_groups = self.holders.len();
        let ages = self
            .ledger
            .count(nr_groups, |space, _| Some(space.0 as usize))
            .parts;
        let walked = guard::Walked::of(&self.ledger);
        let ids = (0..).map(GroupId);
        let mut idle = Vec::with_capacity(nr_groups);
        for ((id, holder), ages) in ids.clone().zip(&mut self.holders).zip(&ages) {
            let returned = walked.returned(id);
            let away = self.ledger.nr_taken(id);
            let counted = Counted::without_cache(ages.resident(), away, returned);
            walked.look(holder, at, id, counted);
            idle.push(guard::idle(holder, |age| ages.idle_for(age)));
            self.sums[usize::from(id.0)].came_back(returned);
            if let Some(within) = holder.reads_back() {
                let runs = self.ledger.taken_within(id, within);
                self.memory.read_back(usize::from(id.0), &runs);
            }
        }
        let members = ids.clone().zip(&self.holders).zip(idle);
        let members = members.map(|((group, holder), idle)| Member {
            group,
            holder,
            idle,
            went: strata_lru::ages::NrPages::default(),
            nr_pages_max: u64::MAX,
            leaning: Leaning::default(),
            spares_code: true,
            on: None,
        });
        let choice = guard::choose(&self.ledger, members, u64::MAX);
        for goes in &choice.goes {
            let group = usize::from(goes.group.0);
            let taken = self.ledger.taken(&goes.pages.runs);
            self.memory.take(group, &goes.pages.runs);
            self.sums[group].took(taken);
        }
        let is_moment = self.nr_walks.is_multiple_of(self.moment_every);
        self.nr_walks += 1;
        for (id, holder) in ids.zip(&self.holders) {
            let group = usize::from(id.0);
            let away = self.ledger.nr_taken(id);
            let resident = self.memory.nr_resident(group);
            let offer = choice.offers.get(&id).copied().unwrap_or_default();
            self.sums[group].look(at, holder, resident, away, offer);
            if is_moment {
                self.sums[group].keep_moment();
            }
        }
    }
}
