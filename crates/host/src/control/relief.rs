//! When the hard limit gives way, and how far: what keeps a budget from killing or thrashing.
//!
//! The kernel's own limit kills although memory could still be reclaimed (all pages active at that
//! moment, swap nearly empty), and it thrashes a program whose working set is larger than the
//! budget. So the limit gives way in steps while that can help: while tasks wait for memory and swap
//! has room, as far as it takes, else never further than [`RELIEF_SHARE`] of the budget. A program
//! that grows without bound and can't be evicted still meets the kernel.
//!
//! The other way round, where the kernel can't be asked to reclaim ahead fast enough the limit (v2:
//! `memory.high`) comes down to just below the budget once usage is near it
//! ([`Line`](crate::cgroup::Line)).
//!
//! **Owns** both decisions. **Does not own** the limit (`cgroup`).

use super::arena::Arena;
use super::governor::Marks;
use super::managed::Standing;
use super::report::LimitReport;
use crate::cgroup::{BudgetGroup, CgroupError, Version, backstop_bytes};
use crate::swap;
use strata_lru::TimeMs;

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

/// Near the budget the kernel's counts of the group are brought up to date this often.
const COUNTS_MS: u64 = 20;

/// The line is held from the high mark on, because there it still costs no reclaim to set, and for
/// this long after usage was above it, so that it does not come and go.
const LINE_HOLD_MS: u64 = 5000;

/// What is remembered between ticks.
#[derive(Debug)]
pub(super) struct Relief {
    /// When usage was last above the high mark.
    held_at: Option<TimeMs>,
    counts_refreshed: Option<TimeMs>,
    /// The last raise, and how far it went.
    raised: Option<(TimeMs, u64)>,
    report: LimitReport,
}

impl Relief {
    /// Nothing done yet.
    pub(super) fn new(budget_bytes: u64) -> Relief {
        let backstop_bytes = backstop_bytes(budget_bytes);
        Relief {
            held_at: None,
            counts_refreshed: None,
            raised: None,
            report: LimitReport {
                backstop_bytes,
                peak_bytes: backstop_bytes,
                nr_raises: 0,
            },
        }
    }

    /// What became of the limit.
    pub(super) fn report(&self) -> LimitReport {
        self.report
    }

    /// Gives way if tasks wait or nothing old enough is left, holds the line if usage is near
    /// the budget, and takes back what is not needed any more. Returns what the user should know.
    pub(super) fn adjust(
        &mut self,
        arena: &mut Arena,
        standing: Standing,
        marks: &Marks,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Option<String> {
        let is_under_oom = arena.take_oom_event();
        let group = arena.gauge().group()?.clone();
        if arena.is_dry_run() || group.budget_bytes().is_none() {
            return None;
        }
        if is_under_oom || usage_bytes > marks.low {
            self.refresh_counts(&group, now, is_under_oom);
        }
        let is_squeezed = match standing {
            Standing::Fine => false,
            // The kernel may still find something at the line; if not, tasks wait and that is told.
            Standing::NothingEvictable => usage_bytes > marks.urgent,
            Standing::Thrashing => usage_bytes > marks.high,
        };
        let outcome = if is_under_oom || is_squeezed {
            self.held_at = None;
            let need = Need {
                standing,
                is_under_oom,
                has_free_swap: arena.has_free_swap(),
            };
            self.raise(&group, marks, now, need)
        } else {
            self.follow(&group, marks, now, usage_bytes).map(|()| None)
        };
        outcome.unwrap_or_else(|error| Some(format!("the limit can't be adjusted: {error}")))
    }

    /// Stale counts are what makes the kernel find nothing to take; see
    /// [`BudgetGroup::refresh_counts`].
    fn refresh_counts(&mut self, group: &BudgetGroup, now: TimeMs, is_urgent: bool) {
        let is_fresh = self
            .counts_refreshed
            .is_some_and(|then| now.since(then) < COUNTS_MS);
        if is_fresh && !is_urgent {
            return;
        }
        self.counts_refreshed = Some(now);
        if let Err(error) = group.refresh_counts() {
            tracing::debug!("{error}");
        }
    }

    fn follow(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<(), CgroupError> {
        // v2 has no event that tells of growth, and a line that usage is below costs nothing there:
        // so it stands before the program can outrun the next look.
        if usage_bytes > marks.high || group.version() == Version::V2 {
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

    fn raise(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        now: TimeMs,
        need: Need,
    ) -> Result<Option<String>, CgroupError> {
        group.release_high()?;
        let most = marks.budget + (marks.budget / RELIEF_SHARE).max(RELIEF_BYTES_MIN);
        let backstop_step = backstop_bytes(marks.budget) - marks.budget;
        let limit = group.limit_bytes()?.unwrap_or(u64::MAX);
        let headroom = limit.saturating_sub(group.usage_bytes()?);
        let since_raise_ms = self.raised.map(|(then, _)| now.since(then));
        let is_settling = since_raise_ms.is_some_and(|ms| ms < RAISE_SETTLES_MS);
        if headroom >= backstop_step && !need.is_under_oom || headroom > 0 && is_settling {
            return Ok(None);
        }
        let first = (marks.budget / RAISE_SHARE).max(RAISE_BYTES_MIN);
        let step = match self.raised {
            Some((then, step)) if now.since(then) < RAISE_AGAIN_MS => (step * 2).min(backstop_step),
            _ => first.min(backstop_step),
        };
        // Tasks that wait although swap has room: the kernel found everything active at that moment.
        // That passes, and a kill would not help; a program that grows without end fills swap first.
        let is_moment =
            need.is_under_oom && swap::free_swap_bytes().is_ok_and(|free| free > backstop_step);
        let may_rise = is_moment || limit.saturating_add(step) <= most;
        if !may_rise || group.relieve(step)? == 0 {
            if need.is_under_oom {
                group.hand_back_oom()?;
            }
            return Ok(Some(need.refusal(limit)));
        }
        tracing::debug!(
            limit_bytes = limit,
            step_bytes = step,
            headroom_bytes = headroom,
            is_under_oom = need.is_under_oom,
            "the limit gives way"
        );
        self.raised = Some((now, step));
        self.report.nr_raises += 1;
        self.report.peak_bytes = self.report.peak_bytes.max(limit.saturating_add(step));
        Ok((need.standing == Standing::Thrashing).then(|| {
            "all that is left is younger than --min-ttl: the budget is exceeded rather than thrash"
                .to_owned()
        }))
    }
}

/// Why the limit should give way.
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
                "there is no free swap, so only file pages can be taken (see --swap); that or a \
                 larger budget is needed"
            }
        };
        format!(
            "nothing more can be reclaimed and the limit has given way as far as it may ({} MiB): \
             the kernel may kill in this group; {need}",
            limit_bytes >> 20
        )
    }
}
