//! What a tick does to the limit and to the kernel's balance, and what it notes of that.
//!
//! **Owns** the order of looking at the kernel's lists, the limit and the balance, and carrying out the steps. **Does not
//! own** any of these decisions (`strata_control`: `limit`, `list_balance`, `swappiness`).

use super::{ReclaimLoop, Session};
use crate::cgroup::{BudgetGroup, CgroupError, Line, Offered};
use crate::run::trace::{Counters, Lean, LimitAction, LimitPlan, StatReader};
use crate::sense::readings::Readings;
use strata_control::FreeSwap;
use strata_control::limit::{Answer, Need, Step, Trouble};
use strata_lru::TimeMs;

impl Session<'_> {
    pub(super) fn adjust_limit(&mut self, now: TimeMs, usage_bytes: u64, readings: &mut Readings) {
        self.recorder.note(|tick| {
            tick.sample.limit.push(Default::default());
            tick.plan.limit.push(LimitPlan {
                standing: self.standing.into(),
                ..LimitPlan::default()
            });
        });
        if let Some(managed) = &mut self.managed {
            let reading = managed.look_at_lists(now, usage_bytes);
            self.recorder
                .note_limit(|_, plan| plan.reading = reading.into());
            self.limit
                .set_left(managed.control().is_left_to_programs(), reading);
        }
        let is_under_oom = self.arena.take_oom_event();
        self.recorder
            .note_limit(|sample, _| sample.is_under_oom = is_under_oom);
        let group = self.arena.gauge().group().cloned();
        let group = group.filter(|group| group.budget_bytes().is_some());
        if let Some(group) = group.filter(|_| !self.arena.is_dry_run()) {
            let need = Need {
                standing: self.standing,
                is_under_oom,
                has_free_swap: self.has_free_swap(readings.free_swap()),
                usage_bytes,
            };
            self.hold_limit(&group, now, need, readings);
        }
        self.recorder
            .note_limit(|_, plan| plan.is_line_held = self.limit.is_line_held());
        self.lean(now);
    }

    /// Notes the free swap, and says whether a step of the limit fits there.
    fn has_free_swap(&self, free_swap: FreeSwap) -> bool {
        self.recorder
            .note_limit(|sample, _| sample.free_swap = Some(free_swap));
        self.arena.is_enough_swap(free_swap)
    }

    fn hold_limit(
        &mut self,
        group: &BudgetGroup,
        now: TimeMs,
        need: Need,
        readings: &mut Readings,
    ) {
        let Need {
            usage_bytes,
            is_under_oom,
            has_free_swap,
            ..
        } = need;
        let can_swap = has_free_swap && self.config.swappiness.base().get() > 0;
        let is_wanted =
            self.limit
                .wants_counters(now, &self.marks, usage_bytes, can_swap, is_under_oom);
        match is_wanted {
            None => {}
            Some(false) => self
                .recorder
                .note_counters(StatReader::Limit, Counters::Kept),
            Some(true) => {
                let stats = readings.counters(group);
                let counters = stats.map_or(Counters::Failed, Counters::Fresh);
                self.recorder.note_counters(StatReader::Limit, counters);
                self.limit
                    .take_counters(now, stats, usage_bytes, can_swap, is_under_oom);
                if let Some(managed) = &mut self.managed {
                    managed.note_reading();
                }
            }
        }
        match self.carry_out(group, now, need) {
            Ok(Some(trouble)) => self.warn(tell(trouble)),
            Ok(None) => {}
            Err(error) => {
                self.recorder.note_limit_action(LimitAction::Fail);
                self.warn(format!("the limit can't be adjusted: {error}"));
            }
        }
    }

    /// Takes the steps that are needed now, one by one.
    fn carry_out(
        &mut self,
        group: &BudgetGroup,
        now: TimeMs,
        need: Need,
    ) -> Result<Option<Trouble>, CgroupError> {
        let mut step = self.limit.start(now, need, &self.marks);
        loop {
            let answer = match step {
                Step::Done(trouble) => {
                    let is_refused = matches!(trouble, Some(Trouble::Refused { .. }));
                    if is_refused && !need.is_under_oom {
                        self.recorder.note_limit_action(LimitAction::Refuse);
                    }
                    return Ok(trouble);
                }
                Step::LookAtLimit => {
                    let limit_bytes = group.limit_bytes()?;
                    self.recorder
                        .note_limit(|sample, _| sample.limit_bytes.push(limit_bytes));
                    Answer::Limit(limit_bytes)
                }
                Step::LookAtUsage => {
                    let usage_bytes = group.usage_bytes()?;
                    self.recorder
                        .note_limit(|sample, _| sample.usage_bytes = Some(usage_bytes));
                    Answer::Usage(usage_bytes)
                }
                Step::ReleaseLine => {
                    self.recorder.note_limit_action(LimitAction::ReleaseLine);
                    group.release_line()?;
                    Answer::Done
                }
                Step::ReleaseHigh => {
                    self.recorder.note_limit_action(LimitAction::ReleaseHigh);
                    group.release_high()?;
                    Answer::Done
                }
                Step::Raise { bytes } => {
                    let raised_bytes = group.relieve(bytes)?;
                    tracing::debug!(bytes, raised_bytes, ?need, "the limit gives way");
                    self.recorder.note_limit_action(LimitAction::Raise {
                        bytes,
                        raised_bytes,
                    });
                    Answer::Raised(raised_bytes)
                }
                Step::HandBackOom => {
                    self.recorder.note_limit_action(LimitAction::Refuse);
                    self.recorder.note_limit_action(LimitAction::HandBackOom);
                    group.hand_back_oom()?;
                    Answer::Done
                }
                Step::Settle => {
                    self.recorder.note_limit_action(LimitAction::Settle);
                    group.settle_limit()?;
                    Answer::Done
                }
                Step::HoldLine => {
                    let line = group.hold_line()?;
                    self.recorder
                        .note_limit_action(LimitAction::HoldLine(line.into()));
                    Answer::Line {
                        is_held: line == Line::Held,
                    }
                }
            };
            step = self.limit.next(answer);
        }
    }

    fn lean(&mut self, now: TimeMs) {
        let is_left = |managed: &ReclaimLoop| managed.control().is_left_to_programs();
        let is_at_rest = self.is_paused || self.is_dry_run;
        let is_ahead = !is_at_rest && !self.managed.as_ref().is_none_or(is_left);
        let lists = self.limit.pressing_counters().filter(|_| is_ahead);
        let Some(swappiness) = self.swappiness_bias.change(now, lists) else {
            return;
        };
        let group = self.arena.gauge().group();
        let offered = group.map(|group| group.set_swappiness(swappiness));
        tracing::debug!(
            swappiness,
            ?offered,
            "the kernel's balance of anon and file"
        );
        let is_taken = matches!(offered, Some(Ok(Offered::Yes)));
        let lean = Lean {
            swappiness,
            is_taken,
        };
        self.recorder.note_limit(|_, plan| plan.lean = Some(lean));
        if !is_taken {
            self.swappiness_bias.give_up(now);
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
