//! What a tick does to the limit.
//!
//! **Owns** carrying the steps out one by one, and noting them. **Does not own** which steps those are (`limit`),
//! nor the limit itself (a [`Limits`]).

use crate::limit::{Answer, Limit, Need, Step, Trouble};
use crate::sample::GroupStats;
use crate::trace::{Note, Recorder};
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
    recorder.note(|| Note::Limit { need, can_swap });
    if limit.wants_counters(now, marks, usage_bytes, is_under_oom) == Some(true) {
        let stats = on.counters()?;
        recorder.note(|| Note::Counters(stats));
        limit.take_counters(now, stats, usage_bytes, can_swap);
    }
    let mut step = limit.start(now, need, marks);
    loop {
        if let Step::Done(trouble) = step {
            return Ok(trouble);
        }
        let answer = on.take_step(step);
        recorder.note(|| Note::Step(step, answer.as_ref().ok().copied()));
        step = limit.next(answer?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Line, Standing};
    use crate::sample::CgroupVersion;
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

    type Held = (Result<Option<Trouble>, &'static str>, Vec<Note>);

    /// What comes of one look at the limit, and what is noted of it.
    fn hold(usage_bytes: u64, is_read_only: bool) -> Held {
        hold_where(usage_bytes, is_read_only, false)
    }

    fn hold_where(usage_bytes: u64, is_read_only: bool, is_held_down: bool) -> Held {
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
        let held = hold_limit(&mut limit, &mut group, &recorder, NOW, need, &marks, true);
        let notes = recorder.take().expect("it records").notes;
        let limit = Note::Limit {
            need,
            can_swap: true,
        };
        assert_eq!(notes.first(), Some(&limit));
        (held, notes[1..].to_vec())
    }

    #[test]
    fn far_below_the_budget_the_line_is_held_and_no_counts_are_read() {
        let (held, notes) = hold(50 * MIB, false);
        assert_eq!(held, Ok(None));
        let look = Note::Step(Step::LookAtLimit, Some(Answer::Limit(Some(108 * MIB))));
        let line = Note::Step(Step::HoldLine, Some(Answer::Line(Line::Held)));
        assert_eq!(notes, [look, line]);
    }

    #[test]
    fn what_is_read_and_done_for_a_limit_that_gives_way_is_noted_in_order() {
        let (held, notes) = hold(99 * MIB, false);
        assert_eq!(held, Ok(None));
        let bytes = 56 * MIB;
        let expected = [
            Note::Counters(Some(GroupStats::default())),
            Note::Step(Step::LookAtLimit, Some(Answer::Limit(Some(108 * MIB)))),
            Note::Step(Step::ReleaseHigh, Some(Answer::Done)),
            Note::Step(Step::Raise { bytes }, Some(Answer::Raised(bytes))),
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn a_limit_that_can_not_be_changed_is_an_error_and_noted_as_one() {
        let (held, notes) = hold(99 * MIB, true);
        assert_eq!(held, Err("read-only"));
        assert_eq!(notes.last(), Some(&Note::Step(Step::ReleaseHigh, None)));
    }

    #[test]
    fn a_limit_that_others_hold_down_is_refused() {
        let (held, notes) = hold_where(107 * MIB, false, true);
        let trouble = held.expect("it can be read");
        assert!(
            matches!(trouble, Some(Trouble::Refused { .. })),
            "{trouble:?}"
        );
        let raise = |note: &Note| matches!(note, Note::Step(_, Some(Answer::Raised(0))));
        assert!(notes.iter().any(raise), "{notes:?}");
    }
}
