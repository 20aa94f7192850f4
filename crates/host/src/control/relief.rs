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
//! The other way round, where the kernel can't be asked to reclaim ahead fast enough (cgroup v1) the
//! limit comes down to just below the budget while usage is above it ([`Line`](crate::cgroup::Line)).
//!
//! **Owns** both decisions. **Does not own** the limit (`cgroup`).

use super::arena::Arena;
use super::governor::Marks;
use super::managed::Standing;
use crate::cgroup::{BudgetGroup, CgroupError, Version, backstop_bytes};
use strata_lru::{Swappiness, TimeMs};

/// The limit gives way by at most the budget divided by this ...
const RELIEF_SHARE: u64 = 4;
/// ... or this, for small budgets.
const RELIEF_BYTES_MIN: u64 = 64 << 20;

/// The line is held for this long after usage was above the budget, so that it does not come and go.
const LINE_HOLD_MS: u64 = 5000;

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
}

impl Stock {
    fn read(group: &BudgetGroup, usage_bytes: u64, can_swap: bool) -> Stock {
        let stats = group.stats().unwrap_or_default();
        let anon_bytes = stats.lru_anon_bytes.filter(|_| can_swap);
        let evictable_bytes = stats.lru_file_bytes.unwrap_or(0) + anon_bytes.unwrap_or(0);
        Stock {
            evictable_bytes,
            floor_bytes: usage_bytes.saturating_sub(evictable_bytes),
        }
    }
}

/// What is remembered between ticks.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// When usage was last above the budget while the line was being held.
    held_at: Option<TimeMs>,
    /// (v1) When what can't go was last near the limit, or tasks waited.
    pinched_at: Option<TimeMs>,
}

impl Relief {
    /// Whether a signal that ended the program may come from the limit: see the module text.
    pub(super) fn may_have_caused(&self, signal: i32, now: TimeMs) -> bool {
        let is_fault = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
        is_fault
            && self
                .pinched_at
                .is_some_and(|then| now.since(then) <= PINCH_MS)
    }

    /// Gives way if tasks wait or nothing old enough is left, holds the line if usage is above the
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
        let group = arena.gauge().group()?.clone();
        if arena.is_dry_run() || group.budget_bytes().is_none() {
            return None;
        }
        let step = backstop_bytes(marks.budget) - marks.budget;
        let stock = (is_under_oom || usage_bytes > marks.high).then(|| {
            let can_swap = arena.has_free_swap() && swappiness.get() > 0;
            Stock::read(&group, usage_bytes, can_swap)
        });
        let floor_bytes = stock.map_or(0, |stock| stock.floor_bytes);
        let outcome = group.limit_bytes().and_then(|limit| {
            let is_squeezed = standing != Standing::Fine && usage_bytes > marks.urgent;
            // Twice, because what locks its memory goes through one step in some milliseconds.
            let is_pinched = floor_bytes > marks.budget - marks.budget / FLOOR_SHARE
                && floor_bytes.saturating_add(2 * step) > limit.unwrap_or(u64::MAX);
            if group.version() == Version::V1 && (is_under_oom || is_pinched) {
                self.pinched_at = Some(now);
            }
            if is_under_oom || is_squeezed || is_pinched {
                self.held_at = None;
                let moment = Moment {
                    standing,
                    // The kernel found everything active. That passes, and a kill would not help; a
                    // program that grows without end fills swap first.
                    can_pass: stock.is_some_and(|stock| stock.evictable_bytes > step),
                    is_under_oom,
                    is_pinched,
                    has_free_swap: arena.has_free_swap(),
                };
                raise(&group, marks, moment)
            } else {
                self.follow(&group, marks, now, usage_bytes, floor_bytes)
                    .map(|()| None)
            }
        });
        outcome.unwrap_or_else(|error| Some(format!("the limit can't be adjusted: {error}")))
    }

    fn follow(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        now: TimeMs,
        usage_bytes: u64,
        floor_bytes: u64,
    ) -> Result<(), CgroupError> {
        if floor_bytes > marks.budget {
            // Lower than it stands it would only have to be raised again.
            self.held_at = None;
            return Ok(());
        }
        if usage_bytes > marks.budget {
            self.held_at = Some(now);
        }
        match self.held_at {
            Some(then) if now.since(then) > LINE_HOLD_MS && usage_bytes <= marks.high => {
                self.held_at = None;
                group.release_line()
            }
            Some(_) => group.hold_line().map(|_| ()),
            None => group.settle_limit().map(|_| ()),
        }
    }
}

/// Why the limit should rise.
#[derive(Clone, Copy, Debug)]
struct Moment {
    standing: Standing,
    /// Enough is left that can go, later.
    can_pass: bool,
    is_under_oom: bool,
    /// What can't go takes up the budget and comes near the limit.
    is_pinched: bool,
    has_free_swap: bool,
}

fn raise(
    group: &BudgetGroup,
    marks: &Marks,
    moment: Moment,
) -> Result<Option<String>, CgroupError> {
    let Moment {
        standing,
        can_pass,
        is_under_oom,
        is_pinched,
        has_free_swap,
    } = moment;
    let most = marks.budget + (marks.budget / RELIEF_SHARE).max(RELIEF_BYTES_MIN);
    let step = backstop_bytes(marks.budget) - marks.budget;
    let limit = group.limit_bytes()?.unwrap_or(u64::MAX);
    let headroom = limit.saturating_sub(group.usage_bytes()?);
    // All at once: where nothing can go a tight limit only makes system calls fail.
    if is_pinched && limit < most && group.relieve(most - limit)? > 0 {
        return Ok(None);
    }
    if headroom >= step && !is_under_oom {
        return Ok(None);
    }
    let may_rise = is_under_oom && can_pass || limit.saturating_add(step) <= most;
    if !may_rise || group.relieve(step)? == 0 {
        if is_under_oom {
            group.hand_back_oom()?;
        }
        let need = match has_free_swap {
            true => "a larger budget or more swap is needed",
            false => {
                "there is no free swap or next to none, so only file pages can be taken (see \
                 --swap); that or a larger budget is needed"
            }
        };
        return Ok(Some(format!(
            "nothing more can be reclaimed and the limit has given way as far as it may ({} MiB): \
             the kernel may kill in this group; {need}",
            limit >> 20
        )));
    }
    Ok((standing == Standing::Thrashing).then(|| {
        "all that is left is younger than --min-ttl: the budget is exceeded rather than thrash"
            .to_owned()
    }))
}
