//! When the hard limit gives way, and how far: what keeps a budget from killing or thrashing.
//!
//! The kernel's own limit kills although memory could still be reclaimed (all pages active at that
//! moment, swap nearly empty), and it thrashes a program whose working set is larger than the
//! budget. So the limit gives way in steps while that can help: while tasks wait for memory and swap
//! has room, as far as it takes, else never further than [`RELIEF_SHARE`] of the budget. A program
//! that grows without bound and can't be evicted still meets the kernel.
//!
//! The other way round, where the kernel can't be asked to reclaim ahead fast enough the limit (v2:
//! `memory.high`) comes down to just below the budget while usage is above it
//! ([`Line`](crate::cgroup::Line)).
//!
//! **Owns** both decisions. **Does not own** the limit (`cgroup`).

use super::arena::Arena;
use super::governor::Marks;
use super::managed::Standing;
use crate::cgroup::{BudgetGroup, CgroupError};
use crate::swap;
use strata_lru::TimeMs;

/// The limit gives way by at most the budget divided by this ...
const RELIEF_SHARE: u64 = 4;
/// ... or this, for small budgets.
const RELIEF_BYTES_MIN: u64 = 64 << 20;

/// The line is held for this long after usage was above the budget, so that it does not come and go.
const LINE_HOLD_MS: u64 = 5000;

/// What is remembered between ticks.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// When usage was last above the budget while the line was being held.
    held_at: Option<TimeMs>,
}

impl Relief {
    /// Gives way if tasks wait or nothing old enough is left, holds the line if usage is above the
    /// budget, and takes back what is not needed any more. Returns what the user should know.
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
        let is_squeezed = standing != Standing::Fine && usage_bytes > marks.urgent;
        let outcome = if is_under_oom || is_squeezed {
            self.held_at = None;
            let has_swap = arena.has_free_swap();
            group
                .release_high()
                .and_then(|()| raise(&group, marks, standing, is_under_oom, has_swap))
        } else {
            self.follow(&group, marks, now, usage_bytes).map(|()| None)
        };
        outcome.unwrap_or_else(|error| Some(format!("the limit can't be adjusted: {error}")))
    }

    fn follow(
        &mut self,
        group: &BudgetGroup,
        marks: &Marks,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<(), CgroupError> {
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

fn raise(
    group: &BudgetGroup,
    marks: &Marks,
    standing: Standing,
    is_under_oom: bool,
    has_free_swap: bool,
) -> Result<Option<String>, CgroupError> {
    let most = marks.budget + (marks.budget / RELIEF_SHARE).max(RELIEF_BYTES_MIN);
    let step = crate::cgroup::backstop_bytes(marks.budget) - marks.budget;
    let limit = group.limit_bytes()?.unwrap_or(u64::MAX);
    let headroom = limit.saturating_sub(group.usage_bytes()?);
    if headroom >= step && !is_under_oom {
        return Ok(None);
    }
    // Tasks that wait although swap has room: the kernel found everything active at that moment.
    // That passes, and a kill would not help; a program that grows without end fills swap first.
    let is_moment = is_under_oom && swap::free_swap_bytes().is_ok_and(|free| free > step);
    let may_rise = is_moment || limit.saturating_add(step) <= most;
    if !may_rise || group.relieve(step)? == 0 {
        if is_under_oom {
            group.hand_back_oom()?;
        }
        let need = match has_free_swap {
            true => "a larger budget or more swap is needed",
            false => {
                "there is no free swap, so only file pages can be taken (see --swap); that or a \
                 larger budget is needed"
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
