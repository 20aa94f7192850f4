//! What a tick does to the limit.
//!
//! **Owns** carrying the steps out one by one, and noting them. **Does not own** which steps those are (`limit`),
//! nor the limit itself (a [`Limits`]).

use crate::limit::{Answer, Limit, Need, Step, Trouble};
use crate::sample::GroupStats;
use crate::trace::{Counters, LimitAction, Recorder, StatReader};
use crate::watermarks::Watermarks;
use strata_lru::TimeMs;

/// The limits of one group.
pub trait Limits {
    /// Why a limit can't be read or changed.
    type Error;

    /// The kernel's counts, read now and so brought up to date; `None`: they could not be read.
    ///
    /// # Errors
    /// The run can't go on.
    fn counters(&mut self) -> Result<Option<GroupStats>, Self::Error>;

    /// Carries a step out. It is never asked for [`Step::Done`].
    ///
    /// # Errors
    /// The limit could not be read or changed.
    fn take_step(&mut self, step: Step) -> Result<Answer, Self::Error>;
}

/// Looks at the limit, and has it give way or hold the line. `can_swap`: anon pages have somewhere to go and may go there.
///
/// # Errors
/// The limit could not be read or changed; what was done before stays done.
pub fn hold_limit<L: Limits>(
    limit: &mut Limit,
    on: &mut L,
    recorder: &Recorder,
    now: TimeMs,
    need: Need,
    marks: &Watermarks,
    can_swap: bool,
) -> Result<Option<Trouble>, L::Error> {
    let Need {
        usage_bytes,
        is_under_oom,
        ..
    } = need;
    match limit.wants_counters(now, marks, usage_bytes, is_under_oom) {
        None => {}
        Some(false) => recorder.note_counters(StatReader::Limit, Counters::Kept),
        Some(true) => {
            let stats = on.counters()?;
            let counters = stats.map_or(Counters::Failed, Counters::Fresh);
            recorder.note_counters(StatReader::Limit, counters);
            limit.take_counters(now, stats, usage_bytes, can_swap);
        }
    }
    let mut step = limit.start(now, need, marks);
    loop {
        if let Step::Done(trouble) = step {
            let is_refused = matches!(trouble, Some(Trouble::Refused { .. }));
            if is_refused && !is_under_oom {
                recorder.note_limit_action(LimitAction::Refuse);
            }
            return Ok(trouble);
        }
        let answer = match on.take_step(step) {
            Ok(answer) => answer,
            Err(error) => {
                recorder.note_limit_action(LimitAction::Fail);
                return Err(error);
            }
        };
        note_step(recorder, step, answer);
        step = limit.next(answer);
    }
}

fn note_step(recorder: &Recorder, step: Step, answer: Answer) {
    match (step, answer) {
        (Step::LookAtLimit, Answer::Limit(limit_bytes)) => {
            recorder.note_limit(|sample, _| sample.limit_bytes.push(limit_bytes));
        }
        (Step::LookAtUsage, Answer::Usage(usage_bytes)) => {
            recorder.note_limit(|sample, _| sample.usage_bytes = Some(usage_bytes));
        }
        (Step::HandBackOom, _) => recorder.note_limit_action(LimitAction::Refuse),
        _ => {}
    }
    if let Some(action) = LimitAction::of(step, answer) {
        recorder.note_limit_action(action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Line;
    use crate::sample::CgroupVersion;
    use crate::trace::{LineState, Standing, Tick};
    use crate::{limit, watermarks};

    const MIB: u64 = 1 << 20;
    const NOW: TimeMs = TimeMs(10_000);

    /// A group with a budget of 100 MiB, of which nothing can go.
    struct Group {
        usage_bytes: u64,
        limit_bytes: u64,
        is_read_only: bool,
        /// Whether others hold the limit down.
        is_held_down: bool,
    }

    impl Limits for Group {
        type Error = &'static str;

        fn counters(&mut self) -> Result<Option<GroupStats>, Self::Error> {
            Ok(Some(GroupStats::default()))
        }

        fn take_step(&mut self, step: Step) -> Result<Answer, Self::Error> {
            match step {
                Step::LookAtLimit => Ok(Answer::Limit(Some(self.limit_bytes))),
                Step::LookAtUsage => Ok(Answer::Usage(self.usage_bytes)),
                _ if self.is_read_only => Err("read-only"),
                Step::Raise { .. } if self.is_held_down => Ok(Answer::Raised(0)),
                Step::Raise { bytes } => {
                    self.limit_bytes += bytes;
                    Ok(Answer::Raised(bytes))
                }
                Step::HoldLine => Ok(Answer::Line(Line::Held)),
                _ => Ok(Answer::Done),
            }
        }
    }

    /// What comes of one look at the limit, and what is noted of it.
    fn hold(usage_bytes: u64, is_read_only: bool) -> (Result<Option<Trouble>, &'static str>, Tick) {
        hold_where(usage_bytes, is_read_only, false)
    }

    fn hold_where(
        usage_bytes: u64,
        is_read_only: bool,
        is_held_down: bool,
    ) -> (Result<Option<Trouble>, &'static str>, Tick) {
        let marks = Watermarks::new(100 * MIB, &watermarks::Config::DEFAULT);
        let mut group = Group {
            usage_bytes,
            limit_bytes: marks.backstop_bytes,
            is_read_only,
            is_held_down,
        };
        let mut limit = Limit::new(CgroupVersion::V2, &marks, limit::Config::DEFAULT);
        let need = Need {
            standing: Standing::Fine,
            is_under_oom: false,
            has_free_swap: true,
            usage_bytes,
        };
        let recorder = Recorder::recording();
        recorder.begin_limit(Standing::Fine);
        let held = hold_limit(&mut limit, &mut group, &recorder, NOW, need, &marks, true);
        (held, recorder.take().expect("it records"))
    }

    #[test]
    fn far_below_the_budget_the_line_is_held_and_no_counts_are_read() {
        let (held, tick) = hold(50 * MIB, false);
        assert_eq!(held, Ok(None));
        assert_eq!(tick.sample.memory_stat, []);
        let held_line = LimitAction::HoldLine(LineState::Held);
        assert_eq!(tick.plan.limit[0].actions, [held_line]);
    }

    #[test]
    fn what_is_read_and_done_for_a_limit_that_gives_way_is_noted_in_order() {
        let (held, tick) = hold(99 * MIB, false);
        assert_eq!((held, tick.sample.memory_stat.len()), (Ok(None), 1));
        let (sample, plan) = (&tick.sample.limit[0], &tick.plan.limit[0]);
        assert_eq!(sample.limit_bytes.first(), Some(&Some(108 * MIB)));
        let raise = LimitAction::Raise {
            bytes: 56 * MIB,
            raised_bytes: 56 * MIB,
        };
        assert_eq!(plan.actions, [LimitAction::ReleaseHigh, raise]);
    }

    #[test]
    fn a_limit_that_can_not_be_changed_is_an_error_and_noted_as_one() {
        let (held, tick) = hold(99 * MIB, true);
        assert_eq!(held, Err("read-only"));
        assert_eq!(tick.sample.memory_stat.len(), 1);
        assert_eq!(tick.plan.limit[0].actions, [LimitAction::Fail]);
    }

    #[test]
    fn a_limit_that_others_hold_down_is_refused_and_noted_as_that() {
        let (held, tick) = hold_where(107 * MIB, false, true);
        let trouble = held.expect("it can be read");
        assert!(
            matches!(trouble, Some(Trouble::Refused { .. })),
            "{trouble:?}"
        );
        let last = tick.plan.limit[0].actions.last();
        assert_eq!(last, Some(&LimitAction::Refuse));
    }
}
