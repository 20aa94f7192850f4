//! What the loop's own types are called in a trace.
//!
//! **Owns** these translations, so that types of the loop can be renamed and the format stays. **Does not own** either.

use super::{Answer, CacheAsk, LimitAction, Verdicts};
use crate::limit::{Answer as Came, Step};
use crate::plan::Action;
use crate::tunables::Tunables;
use std::collections::BTreeMap;
use strata_lru::{Isolated, Verdict};

impl CacheAsk {
    /// As the loop has it; `None`: it has nothing to do with page cache.
    pub fn of(action: Action) -> Option<CacheAsk> {
        match action {
            Action::TakeCensus => Some(CacheAsk::Census),
            Action::DropReadOnce { file, bytes } => Some(CacheAsk::ReadOnce { file, bytes }),
            Action::DropReadAgain { file, bytes } => Some(CacheAsk::ReadAgain { file, bytes }),
            Action::LookAtNewcomers { history_bytes } => {
                Some(CacheAsk::NewcomersLook { history_bytes })
            }
            Action::DropNewcomers { bytes } => Some(CacheAsk::Newcomers { bytes }),
            _ => None,
        }
    }
}

impl From<Isolated> for Answer {
    fn from(answer: Isolated) -> Answer {
        match answer {
            Isolated::Pages(_) => Answer::Pages,
            Isolated::Again => Answer::Again,
            Isolated::NeedsAgeing => Answer::NeedsAgeing,
            Isolated::Thrashing => Answer::Thrashing,
            Isolated::Empty => Answer::Empty,
        }
    }
}

impl LimitAction {
    /// What a step did to the limit; `None`: it only looked.
    pub(crate) fn of(step: Step, came: Came) -> Option<LimitAction> {
        Some(match (step, came) {
            (Step::ReleaseLine, _) => LimitAction::ReleaseLine,
            (Step::ReleaseHigh, _) => LimitAction::ReleaseHigh,
            (Step::Settle, _) => LimitAction::Settle,
            (Step::HandBackOom, _) => LimitAction::HandBackOom,
            (Step::HoldLine, Came::Line(line)) => LimitAction::HoldLine(line),
            (Step::Raise { bytes }, Came::Raised(raised_bytes)) => LimitAction::Raise {
                bytes,
                raised_bytes,
            },
            _ => return None,
        })
    }
}

impl Verdicts {
    /// One folio more of this kind.
    pub fn count(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Evicted => &mut self.evicted,
            Verdict::Referenced => &mut self.referenced,
            Verdict::Busy => &mut self.busy,
            Verdict::Shared => &mut self.shared,
            Verdict::Dirty => &mut self.dirty,
            Verdict::Unevictable => &mut self.unevictable,
            Verdict::Gone => &mut self.gone,
            Verdict::NotTried => &mut self.not_tried,
        } += 1;
    }
}

/// Tunables that are not as by default, by name.
pub fn changed_tunables(config: &impl Tunables) -> BTreeMap<String, f64> {
    let tunables = config.tunables().into_iter();
    let changed = tunables.filter(|of| of.value != of.default);
    changed
        .map(|of| (format!("{}.{}", of.module, of.name), of.value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn only_tunables_that_were_set_are_named_and_with_what_they_were_set_to() {
        let default = Config::default();
        assert_eq!(changed_tunables(&default), BTreeMap::new());
        let set = default.with("walks.pause_ms_min", 30.0).expect("in range");
        let changed = BTreeMap::from([("walks.pause_ms_min".to_owned(), 30.0)]);
        assert_eq!(changed_tunables(&set), changed);
    }

    #[test]
    fn each_answer_of_the_engine_has_a_name_of_its_own() {
        for (answer, name) in [
            (Isolated::Again, Answer::Again),
            (Isolated::NeedsAgeing, Answer::NeedsAgeing),
            (Isolated::Thrashing, Answer::Thrashing),
            (Isolated::Empty, Answer::Empty),
        ] {
            assert_eq!(Answer::from(answer), name);
        }
    }

    #[test]
    fn each_verdict_is_counted_by_itself() {
        let mut verdicts = Verdicts::default();
        let all = [
            Verdict::Evicted,
            Verdict::Referenced,
            Verdict::Busy,
            Verdict::Shared,
            Verdict::Dirty,
            Verdict::Unevictable,
            Verdict::Gone,
            Verdict::NotTried,
        ];
        for (nr_times, verdict) in (1..).zip(all) {
            (0..nr_times).for_each(|_| verdicts.count(verdict));
        }
        let counted = [
            verdicts.evicted,
            verdicts.referenced,
            verdicts.busy,
            verdicts.shared,
            verdicts.dirty,
            verdicts.unevictable,
            verdicts.gone,
            verdicts.not_tried,
        ];
        assert_eq!(counted, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
