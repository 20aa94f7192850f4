//! What a tick does to the limit.
//!
//! **Owns** the order of looking at the kernel's lists and the limit, and the calls that the steps are made of.
//! **Does not own** any of these decisions, nor the order of the steps (`strata_control`).

use super::Session;
use crate::sense::readings::Readings;
use strata_control::GroupStats;
use strata_control::drive::{Limits, hold_limit};
use strata_control::limit::{Answer, Need, Step, Trouble};
use strata_linux::cgroup::{BudgetGroup, CgroupError};
use strata_lru::TimeMs;

/// The limits of the group, and what is read of it in this tick.
struct GroupLimits<'a> {
    group: &'a BudgetGroup,
    readings: &'a mut Readings,
}

impl Limits for GroupLimits<'_> {
    type Error = CgroupError;

    fn counters(&mut self) -> Result<Option<GroupStats>, CgroupError> {
        Ok(self.readings.counters(self.group))
    }

    fn take_step(&mut self, step: Step) -> Result<Answer, CgroupError> {
        let group = self.group;
        Ok(match step {
            Step::Done(_) => Answer::Done,
            Step::LookAtLimit => Answer::Limit(group.limit_bytes()?),
            Step::LookAtUsage => Answer::Usage(group.usage_bytes()?),
            Step::ReleaseLine => {
                group.release_line()?;
                Answer::Done
            }
            Step::ReleaseHigh => {
                group.release_high()?;
                Answer::Done
            }
            Step::Raise { bytes } => {
                let raised_bytes = group.relieve(bytes)?;
                tracing::debug!(bytes, raised_bytes, "the limit gives way");
                Answer::Raised(raised_bytes)
            }
            Step::HandBackOom => {
                group.hand_back_oom()?;
                Answer::Done
            }
            Step::Settle => {
                group.settle_limit()?;
                Answer::Done
            }
            Step::HoldLine => Answer::Line(group.hold_line()?),
        })
    }
}

impl Session<'_> {
    /// The keeper lifts limits while this loop is not heard of; heard of again, it sets them anew.
    pub(super) fn heed_keeper(&mut self) {
        match self.arena.heed_keeper() {
            Ok(false) => {}
            Ok(true) => self.warn(
                "Strata was held up for more than a second; its keeper had lifted the limits meanwhile, and they hold again"
                    .to_owned(),
            ),
            Err(error) => self.warn(format!(
                "the keeper lifted the limits while Strata was held up, and they can't be set again: {error}"
            )),
        }
    }

    pub(super) fn adjust_limit(&mut self, now: TimeMs, usage_bytes: u64, readings: &mut Readings) {
        let is_under_oom = self.arena.take_oom_event();
        let group = self.arena.gauge.group().cloned();
        let group = group.filter(|group| group.budget_bytes().is_some());
        if let Some(group) = group.filter(|_| !self.config.dry_run) {
            let need = Need {
                standing: self.standing,
                is_under_oom,
                has_free_swap: self.arena.is_enough_swap(readings.free_swap()),
                usage_bytes,
            };
            self.hold_limit(&group, now, need, readings);
        }
    }

    fn hold_limit(
        &mut self,
        group: &BudgetGroup,
        now: TimeMs,
        need: Need,
        readings: &mut Readings,
    ) {
        let can_swap = need.has_free_swap && self.config.swappiness.base().get() > 0;
        let mut limits = GroupLimits { group, readings };
        let held = hold_limit(
            &mut self.limit,
            &mut limits,
            &self.recorder,
            now,
            need,
            &self.marks,
            can_swap,
        );
        match held {
            Ok(trouble) => trouble.into_iter().for_each(|of| self.warn(tell(of))),
            Err(error) => self.warn(format!("the limit can't be adjusted: {error}")),
        }
    }
}

fn tell(trouble: Trouble) -> String {
    match trouble {
        Trouble::Exceeded => {
            "all that is left is younger than --min-ttl: the budget is exceeded rather than thrash"
                .to_owned()
        }
        Trouble::Refused {
            limit_bytes,
            has_free_swap,
        } => {
            let need = match has_free_swap {
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
}
