//! What the loop's own types are called in a trace.
//!
//! **Owns** these translations, so that types of the loop can be renamed and the format stays. **Does not own** either.

use super::{
    Answer, ClearIntent, Foretold, LineState, Lists, Marks, Obstacle, PageoutReport, Reading,
    ReclaimFailure, ReclaimReport, Room, Standing, Verdicts, Who,
};
use crate::access;
use crate::actuator::{self, PageoutError, ShrinkOutcome};
use crate::cgroup;
use std::io::ErrorKind;
use strata_control::Watermarks;
use strata_control::cpu::CpuState;
use strata_control::limit::Standing as Stands;
use strata_control::list_balance::{KernelLists, Reading as When};
use strata_control::reclaimer::Reclaimer as Takes;
use strata_lru::{Foretold as Told, Isolated, Verdict};

impl From<Watermarks> for Marks {
    fn from(marks: Watermarks) -> Marks {
        Marks {
            approach_bytes: marks.approach_bytes,
            low_bytes: marks.low_bytes,
            high_bytes: marks.high_bytes,
            urgent_bytes: marks.urgent_bytes,
            line_bytes: marks.line_bytes,
            budget_bytes: marks.budget_bytes,
            backstop_bytes: marks.backstop_bytes,
        }
    }
}

impl From<Stands> for Standing {
    fn from(standing: Stands) -> Standing {
        match standing {
            Stands::Fine => Standing::Fine,
            Stands::NothingEvictable => Standing::NothingEvictable,
            Stands::Thrashing => Standing::Thrashing,
        }
    }
}

impl From<CpuState> for Room {
    fn from(state: CpuState) -> Room {
        match state {
            CpuState::Free => Room::Free,
            CpuState::Contended => Room::Crowded,
            CpuState::Saturated => Room::Filled,
        }
    }
}

impl From<When> for Reading {
    fn from(reading: When) -> Reading {
        match reading {
            When::Paced => Reading::Paced,
            When::NotYet => Reading::NotYet,
            When::Due => Reading::Due,
        }
    }
}

impl From<cgroup::Line> for LineState {
    fn from(line: cgroup::Line) -> LineState {
        match line {
            cgroup::Line::Held => LineState::Held,
            cgroup::Line::Moving => LineState::Moving,
            cgroup::Line::Resting => LineState::Resting,
            cgroup::Line::NotOffered => LineState::NotOffered,
        }
    }
}

impl From<access::ClearIntent> for ClearIntent {
    fn from(intent: access::ClearIntent) -> ClearIntent {
        match intent {
            access::ClearIntent::Pageout => ClearIntent::Pageout,
            access::ClearIntent::Watch => ClearIntent::Watch,
        }
    }
}

impl From<KernelLists> for Lists {
    fn from(lists: KernelLists) -> Lists {
        Lists {
            nr_inactive_pages: lists.nr_inactive_pages,
            nr_active_pages: lists.nr_active_pages,
        }
    }
}

impl From<Told> for Foretold {
    fn from(told: Told) -> Foretold {
        Foretold {
            nr_warm_pages: told.nr_warm_pages,
            nr_warm_used_pages: told.nr_warm_used_pages,
            nr_other_pages: told.nr_other_pages,
            nr_other_used_pages: told.nr_other_used_pages,
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

impl From<&PageoutError> for Obstacle {
    fn from(error: &PageoutError) -> Obstacle {
        match error {
            PageoutError::NoSpace(_) | PageoutError::NotPermitted(_) => Obstacle::Lasting,
            _ => Obstacle::Passing,
        }
    }
}

impl From<&actuator::PageoutReport> for PageoutReport {
    fn from(report: &actuator::PageoutReport) -> PageoutReport {
        let mut verdicts = Verdicts::default();
        for (_, verdict) in &report.results {
            *match verdict {
                Verdict::Evicted => &mut verdicts.evicted,
                Verdict::Referenced => &mut verdicts.referenced,
                Verdict::Busy => &mut verdicts.busy,
                Verdict::Shared => &mut verdicts.shared,
                Verdict::Dirty => &mut verdicts.dirty,
                Verdict::Unevictable => &mut verdicts.unevictable,
                Verdict::Gone => &mut verdicts.gone,
                Verdict::NotTried => &mut verdicts.not_tried,
            } += 1;
        }
        PageoutReport {
            nr_folios: report.results.len() as u64,
            nr_tried_pages: report.nr_tried_pages,
            nr_evicted_pages: report.nr_evicted_pages,
            verdicts,
            wall_ns: report.wall_ns,
            cpu_ns: report.cpu_ns,
            obstacle: report.error.as_ref().map(Obstacle::from),
        }
    }
}

impl From<&ShrinkOutcome> for ReclaimReport {
    fn from(outcome: &ShrinkOutcome) -> ReclaimReport {
        let failure = |error: &std::io::Error| match error.kind() {
            ErrorKind::WouldBlock => ReclaimFailure::NoProof,
            _ => ReclaimFailure::NothingFound,
        };
        ReclaimReport {
            asked_bytes: outcome.asked_bytes,
            freed_bytes: outcome.result.as_ref().ok().copied(),
            failure: outcome.result.as_ref().err().map(failure),
            wall_ns: outcome.wall_ns,
            cpu_ns: outcome.cpu_ns,
        }
    }
}

impl From<Takes> for Who {
    fn from(reclaimer: Takes) -> Who {
        match reclaimer {
            Takes::Pageout => Who::Pageout,
            Takes::Kernel => Who::Kernel,
            Takes::Programs => Who::Programs,
        }
    }
}
