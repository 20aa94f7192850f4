//! When the hard limit gives way, and how far: what keeps a budget from killing or thrashing.
//!
//! The kernel's own limit kills although memory could still be reclaimed (all pages active at that
//! moment, swap nearly empty), and it thrashes a program whose working set is larger than the
//! budget. So the limit gives way in steps while that can help: while tasks wait for memory although
//! the group holds pages that can go, as far as it takes, else never further than [`RELIEF_SHARE`] of
//! the budget. A program that grows without bound and can't be evicted still meets the kernel.
//!
//! Up to that bound it gives way at once where what can't go at all (the floor: locked memory, the
//! kernel's own, anon without swap) takes up the budget. With the kernel's killer off (cgroup v1) only
//! page faults of the program wait there: a system call fails with ENOMEM, and a write of the kernel
//! to the thread's own data (`rseq`) ends the program by SIGSEGV.
//!
//! The other way round, where the kernel can't be asked to reclaim ahead fast enough the limit (v2:
//! `memory.high`) stands just below the budget ([`Line`](crate::cgroup::Line)), before usage is there if it can.
//!
//! **Owns** both decisions. **Does not own** the limit (`cgroup`).

use super::arena::Arena;
use super::counts::Counts;
use super::governor::{Held, Marks};
use super::managed::Standing;
use super::report::LimitReport;
use super::trace::{Counters, LimitAction, Recorder, StatReader};
use crate::cgroup::{BudgetGroup, CgroupError, GroupStats, Line, Version, backstop_bytes};
use crate::swap;
use strata_control::list_balance::Reading;
use strata_lru::{Swappiness, TimeMs};

/// The limit gives way by at most the budget divided by this ...
const RELIEF_SHARE: u64 = 4;
/// ... or this, for small budgets.
const RELIEF_BYTES_MIN: u64 = 64 << 20;

/// The first step of giving way is the budget divided by this (the moment that needs it is short) ...
const RAISE_SHARE: u64 = 100;
/// ... but not less than this; steps double while they follow each other within [`RAISE_AGAIN_MS`].
const RAISE_BYTES_MIN: u64 = 1 << 20;
/// See [`RAISE_BYTES_MIN`].
const RAISE_AGAIN_MS: u64 = 1000;
/// Tasks that a raise has woken need a moment to run; till then they still count as waiting.
const RAISE_SETTLES_MS: u64 = 50;

/// The budget is taken up by what can't go when less than the budget divided by this is left.
const FLOOR_SHARE: u64 = 8;
/// What happened so long ago has nothing to do with the program's end.
const PINCH_MS: u64 = 500;

/// What may and may not go, as the kernel lists it.
#[derive(Clone, Copy, Debug)]
struct Stock {
    /// Pages the kernel could take, bytes.
    evictable_bytes: u64,
    /// The rest of usage, bytes.
    floor_bytes: u64,
    /// Usage then, bytes.
    usage_bytes: u64,
    /// Whether anon pages had somewhere to go.
    can_swap: bool,
}

impl Stock {
    fn of(stats: &GroupStats, usage_bytes: u64, can_swap: bool) -> Stock {
        let anon_bytes = stats.lru_anon_bytes.filter(|_| can_swap);
        let evictable_bytes = stats.lru_file_bytes.unwrap_or(0) + anon_bytes.unwrap_or(0);
        Stock {
            evictable_bytes,
            floor_bytes: usage_bytes.saturating_sub(evictable_bytes),
            usage_bytes,
            can_swap,
        }
    }
}

/// What is remembered between ticks.
#[derive(Debug)]
pub(super) struct Relief {
    /// Whether the line stands where it should.
    is_line_held: bool,
    /// When the kernel's lists were last read, and what they said.
    stock: Option<(TimeMs, Stock)>,
    /// When they are to be read again.
    counts: Counts,
    /// Whether the programs reclaim for themselves.
    is_left: bool,
    /// When the kernel's counts are read.
    reading: Reading,
    /// Whether much of what the last reading found can go.
    is_calm: bool,
    /// What the last reading found.
    counters: Option<GroupStats>,
    has_read: bool,
    /// The last raise, and how far it went.
    raised: Option<(TimeMs, u64)>,
    /// (v1) When what can't go was last near the limit, or tasks waited.
    pinched_at: Option<TimeMs>,
    report: LimitReport,
    recorder: Recorder,
}

impl Relief {
    /// Nothing done yet.
    pub(super) fn new(budget_bytes: u64, recorder: Recorder) -> Relief {
        let backstop_bytes = backstop_bytes(budget_bytes);
        Relief {
            is_line_held: false,
            stock: None,
            counts: Counts::default(),
            is_left: false,
            reading: Reading::Paced,
            is_calm: false,
            counters: None,
            has_read: false,
            raised: None,
            pinched_at: None,
            report: LimitReport {
                backstop_bytes,
                peak_bytes: backstop_bytes,
                ..LimitReport::default()
            },
            recorder,
        }
    }

    /// From now on another budget holds; what was learnt of the last one's limit says nothing of it.
    pub(super) fn set_budget(&mut self, budget_bytes: u64) {
        let backstop_bytes = backstop_bytes(budget_bytes);
        self.report.backstop_bytes = backstop_bytes;
        self.report.peak_bytes = self.report.peak_bytes.max(backstop_bytes);
        self.raised = None;
    }

    /// Whether the programs reclaim in their own faults from now on, and when the kernel's lists are to be read.
    pub(super) fn set_left(&mut self, is_left: bool, reading: Reading) {
        if !is_left || reading != Reading::Paced {
            self.counts = Counts::default();
        }
        (self.is_left, self.reading) = (is_left, reading);
    }

    /// What the last reading found, while there is to be no other: to read brings the kernel's counts up to date.
    pub(super) fn kept_counters(&self) -> Option<GroupStats> {
        self.counters.filter(|_| self.reading == Reading::NotYet)
    }

    /// What the last reading found, while usage is near the budget and anon pages have somewhere to go.
    pub(super) fn pressing_counters(&self) -> Option<&GroupStats> {
        let can_swap = self.stock.is_some_and(|(_, stock)| stock.can_swap);
        self.counters.as_ref().filter(|_| can_swap)
    }

    /// Whether they were since the last call.
    pub(super) fn take_reading(&mut self) -> bool {
        std::mem::take(&mut self.has_read)
    }

    /// Whether the kernel holds usage below the budget by itself.
    pub(super) fn is_line_held(&self) -> bool {
        self.is_line_held
    }

    /// What became of the limit.
    pub(super) fn report(&self) -> LimitReport {
        self.report
    }

    /// Whether a signal that ended the program may come from the limit: see the module text.
    pub(super) fn may_have_caused(&self, signal: i32, now: TimeMs) -> bool {
        let is_fault = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
        is_fault
            && self
                .pinched_at
                .is_some_and(|then| now.since(then) <= PINCH_MS)
    }

    /// Gives way if tasks wait or nothing old enough is left, holds the line if usage is near the
    /// budget, and takes back what is not needed any more. Returns what the user should know.
    pub(super) fn adjust(
        &mut self,
        arena: &mut Arena,
        standing: Standing,
        swappiness: Swappiness,
        marks: &Marks,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Option<String> {
        let is_under_oom = arena.take_oom_event();
        self.recorder
            .note_limit(|sample, _| sample.is_under_oom = is_under_oom);
        let group = arena.gauge().group()?.clone();
        if arena.is_dry_run() || group.budget_bytes().is_none() {
            return None;
        }
        let free_swap_bytes = swap::known_free_swap_bytes();
        self.recorder
            .note_limit(|sample, _| sample.free_swap = Some(free_swap_bytes.into()));
        let has_free_swap = arena.is_enough_swap(free_swap_bytes);
        // Below both marks nothing is reclaimed, and what can't go is far from any limit ([`is_pinch`]).
        let near = marks.low.min(marks.budget - marks.budget / FLOOR_SHARE);
        if usage_bytes <= near {
            self.stock = None;
        }
        if is_under_oom || usage_bytes > near {
            let can_swap = has_free_swap && swappiness.get() > 0;
            // What has come since the last look may be locked by now.
            let growth_bytes = marks.high - marks.low;
            let has_grown = |stock: Stock| usage_bytes > stock.usage_bytes + growth_bytes;
            self.stock = self.stock.filter(|(_, stock)| !has_grown(*stock));
            self.take_stock(&group, now, usage_bytes, can_swap, is_under_oom);
        }
        let need = Need {
            standing,
            is_under_oom,
            has_free_swap,
        };
        self.decide(&group, need, marks, now, usage_bytes)
            .unwrap_or_else(|error| {
                self.recorder.note_limit_action(LimitAction::Fail);
                Some(format!("the limit can't be adjusted: {error}"))
            })
    }

    /// Reads the kernel's lists, which also brings its counts up to date: stale ones are what makes it
    /// find nothing to take (see [`BudgetGroup::stats`]).
    fn take_stock(
        &mut self,
        group: &BudgetGroup,
        now: TimeMs,
        usage_bytes: u64,
        can_swap: bool,
        is_urgent: bool,
    ) {
        let is_fresh = self.stock.is_some_and(|(then, _)| match self.reading {
            Reading::Due => false,
            // What has nowhere to go counts as what can't go.
            Reading::NotYet if self.is_calm && can_swap => true,
            Reading::Paced | Reading::NotYet => now.since(then) < self.counts.every_ms(),
        });
        if is_fresh && !is_urgent {
            self.recorder
                .note_counters(StatReader::Limit, Counters::Kept);
        } else {
            let stats = group.stats();
            let counters = stats.as_ref().ok().copied();
            let counters = counters.map_or(Counters::Failed, Counters::Fresh);
            self.recorder.note_counters(StatReader::Limit, counters);
            let stats = stats.unwrap_or_default();
            let stock = Stock::of(&stats, usage_bytes, can_swap);
            self.is_calm = can_swap && !is_urgent && stock.floor_bytes < stock.evictable_bytes;
            self.counts.after(&stats, self.is_left && self.is_calm);
            self.counters = Some(stats);
            self.stock = Some((now, stock));
            self.has_read = true;
        }
    }

    fn decide(
        &mut self,
        group: &BudgetGroup,
        need: Need,
        marks: &Marks,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<Option<String>, CgroupError> {
        self.is_line_held = false;
        let floor_bytes = self.stock.map_or(0, |(_, stock)| stock.floor_bytes);
        let mut limit = self.read_limit(group)?;
        let is_v1 = group.version() == Version::V1;
        if is_v1 && limit < backstop_bytes(marks.budget) && is_pinch(floor_bytes, marks, limit) {
            // What is locked has come near the line, and that may be all it has come near.
            self.recorder.note_limit_action(LimitAction::ReleaseLine);
            group.release_line()?;
            limit = self.read_limit(group)?;
        }
        let is_pinched = is_pinch(floor_bytes, marks, limit);
        if is_v1 && (need.is_under_oom || is_pinched) {
            self.pinched_at = Some(now);
        }
        let is_squeezed = match need.standing {
            Standing::Fine => false,
            // The kernel may still find something at the line; if not, tasks wait and that is told.
            Standing::NothingEvictable => usage_bytes > marks.urgent,
            Standing::Thrashing => usage_bytes > marks.high,
        };
        if is_pinched && self.give_way_at_once(group, marks, limit)? {
            return Ok(None);
        }
        if need.is_under_oom || is_squeezed || is_pinched {
            return self.raise(group, marks, now, need);
        }
        self.follow(group, marks, floor_bytes).map(|()| None)
    }

    fn read_limit(&self, group: &BudgetGroup) -> Result<u64, CgroupError> {
        let limit_bytes = group.limit_bytes()?;
        self.recorder
            .note_limit(|sample, _| sample.limit_bytes.push(limit_bytes));
        Ok(limit_bytes.unwrap_or(u64::MAX))
    }

    fn relieve(&self, group: &BudgetGroup, bytes: u64) -> Result<u64, CgroupError> {
        let raised_bytes = group.relieve(bytes)?;
        self.recorder.note_limit_action(LimitAction::Raise {
            bytes,
            raised_bytes,
        });
        Ok(raised_bytes)
    }

    fn release_high(&self, group: &BudgetGroup) -> Result<(), CgroupError> {
        self.recorder.note_limit_action(LimitAction::ReleaseHigh);
        group.release_high()
    }

    fn follow(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        floor_bytes: u64,
    ) -> Result<(), CgroupError> {
        if floor_bytes > marks.budget {
            // Lower than it stands it would only have to be raised again.
            return self.release_high(group);
        }
        // A line that usage is below costs nothing, so it stands before the program can outrun the next look:
        // brought down later it has to win against a program at full speed. On v1, where system calls fail at
        // it, not next to what can't go: the limit would be raised and brought down in turns.
        let line = Held::of(marks.budget).most_bytes;
        let is_safe = group.version() == Version::V2 || !is_pinch(floor_bytes, marks, line);
        if !is_safe {
            self.recorder.note_limit_action(LimitAction::Settle);
            return group.settle_limit().map(|_| ());
        }
        let line = group.hold_line()?;
        self.recorder
            .note_limit_action(LimitAction::HoldLine(line.into()));
        self.is_line_held = line == Line::Held;
        Ok(())
    }

    /// Where nothing can go a tight limit only makes system calls fail. Whether it gave way.
    fn give_way_at_once(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        limit: u64,
    ) -> Result<bool, CgroupError> {
        self.release_high(group)?;
        let most = most_bytes(marks);
        let has_risen = limit < most && self.relieve(group, most - limit)? > 0;
        if has_risen {
            self.note_raise(most);
        }
        Ok(has_risen)
    }

    fn raise(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        now: TimeMs,
        need: Need,
    ) -> Result<Option<String>, CgroupError> {
        self.release_high(group)?;
        let limit = self.read_limit(group)?;
        let usage_bytes = group.usage_bytes()?;
        self.recorder
            .note_limit(|sample, _| sample.usage_bytes = Some(usage_bytes));
        let headroom = limit.saturating_sub(usage_bytes);
        let since_raise_ms = self.raised.map(|(then, _)| now.since(then));
        let is_settling = since_raise_ms.is_some_and(|ms| ms < RAISE_SETTLES_MS);
        if headroom >= step_bytes(marks) && !need.is_under_oom || headroom > 0 && is_settling {
            return Ok(None);
        }
        let first = (marks.budget / RAISE_SHARE).max(RAISE_BYTES_MIN);
        let step = match self.raised {
            Some((then, step)) if now.since(then) < RAISE_AGAIN_MS => step * 2,
            _ => first,
        };
        let step = step.min(step_bytes(marks));
        // Tasks that wait although there are pages that can go: the kernel found everything active at
        // that moment. That passes, and a kill would not help; a program that grows without end fills
        // swap first.
        let is_moment = need.is_under_oom
            && self
                .stock
                .is_some_and(|(_, stock)| stock.evictable_bytes > step_bytes(marks));
        let may_rise = is_moment || limit.saturating_add(step) <= most_bytes(marks);
        if !may_rise || self.relieve(group, step)? == 0 {
            self.recorder.note_limit_action(LimitAction::Refuse);
            if need.is_under_oom {
                self.recorder.note_limit_action(LimitAction::HandBackOom);
                group.hand_back_oom()?;
            }
            return Ok(Some(need.refusal(limit)));
        }
        tracing::debug!(limit, step, headroom, ?need, "the limit gives way");
        self.raised = Some((now, step));
        self.note_raise(limit.saturating_add(step));
        Ok((need.standing == Standing::Thrashing).then(|| {
            "all that is left is younger than --min-ttl: the budget is exceeded rather than thrash"
                .to_owned()
        }))
    }

    fn note_raise(&mut self, limit_bytes: u64) {
        self.report.nr_raises += 1;
        self.report.peak_bytes = self.report.peak_bytes.max(limit_bytes);
    }
}

/// Whether what can't go takes up the budget and is near this limit: twice a step, because what locks its
/// memory goes through one in some milliseconds.
fn is_pinch(floor_bytes: u64, marks: &Marks, limit: u64) -> bool {
    floor_bytes > marks.budget - marks.budget / FLOOR_SHARE
        && floor_bytes.saturating_add(2 * step_bytes(marks)) > limit
}

/// From the budget to the backstop.
fn step_bytes(marks: &Marks) -> u64 {
    backstop_bytes(marks.budget) - marks.budget
}

/// As far as the limit gives way for what can't be evicted.
fn most_bytes(marks: &Marks) -> u64 {
    marks.budget + (marks.budget / RELIEF_SHARE).max(RELIEF_BYTES_MIN)
}

/// Why the limit should rise.
#[derive(Clone, Copy, Debug)]
struct Need {
    standing: Standing,
    is_under_oom: bool,
    has_free_swap: bool,
}

impl Need {
    fn refusal(self, limit_bytes: u64) -> String {
        let need = match self.has_free_swap {
            true => "a larger budget or more swap is needed",
            false => {
                "there is no free swap or next to none, so only file pages can be taken (see \
                 --swap); that or a larger budget is needed"
            }
        };
        format!(
            "nothing more can be reclaimed and the limit has given way as far as it may ({} MiB): \
             the kernel may kill in this group; {need}",
            limit_bytes >> 20
        )
    }
}
