//! What holds of any trace of the control loop.
//!
//! **Owns** [`violations`]: what a trace says that no loop of Strata's does. **Does not own** what a turn says
//! (`strata_control::trace`), nor any trace.

use strata_control::Reclaimer;
use strata_control::Watermarks;
use strata_control::limit::{Answer, Standing, Step};
use strata_control::trace::{Note, Turn};
use strata_lru::Isolated;

/// The turns of a trace.
pub(crate) fn turns(text: &str) -> Vec<Turn> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    text.lines().map(read).collect()
}

/// What was heard and done in all turns.
pub(crate) fn notes(turns: &[Turn]) -> impl Iterator<Item = &Note> {
    turns.iter().flat_map(|turn| &turn.notes)
}

/// The budget that holds at the beginning, and its marks.
pub(crate) fn marks(turns: &[Turn]) -> Watermarks {
    match notes(turns).next() {
        Some(Note::Marks(marks)) => *marks,
        other => panic!("{other:?} comes first"),
    }
}

/// What the kernel was asked for, bytes.
pub(crate) fn asked_bytes(turns: &[Turn]) -> u64 {
    let asked = notes(turns).map(|note| match note {
        Note::AskKernel {
            bytes,
            is_taken: true,
        } => *bytes,
        _ => 0,
    });
    asked.sum()
}

/// All that is wrong with the trace of a run whose loop chooses who reclaims, as `is_auto` says.
pub(crate) fn violations(turns: &[Turn], is_auto: bool) -> Vec<String> {
    let mut check = Check {
        marks: marks(turns),
        is_auto,
        now_ms: 0,
        standing: Standing::Fine,
        is_kernel_out: false,
        nr_isolated_pages: 0,
        nr_tried_pages: 0,
        found: Vec::new(),
    };
    for turn in turns {
        check.hold(check.now_ms <= turn.now.0, "time runs backwards");
        check.now_ms = turn.now.0;
        check.decision(turn);
        check.limits(turn);
        turn.notes.iter().for_each(|note| check.note(note));
        check.standing = turn.standing;
    }
    check.found
}

struct Check {
    marks: Watermarks,
    is_auto: bool,
    now_ms: u64,
    standing: Standing,
    is_kernel_out: bool,
    nr_isolated_pages: u64,
    nr_tried_pages: u64,
    found: Vec<String>,
}

impl Check {
    fn hold(&mut self, holds: bool, what: &str) {
        if !holds {
            self.found.push(format!("at {} ms: {what}", self.now_ms));
        }
    }

    fn decision(&mut self, turn: &Turn) {
        let (Some(sample), Some(plan)) = (&turn.sample, &turn.plan) else {
            return;
        };
        let (marks, usage_bytes) = (self.marks, sample.usage_bytes);
        let asked = plan.decision.asked;
        let (pageout, kernel) = (asked.pageout_pages > 0, asked.kernel_bytes > 0);
        let is_left =
            plan.decision.reclaimer == Reclaimer::Programs && usage_bytes <= marks.budget_bytes;
        self.hold(!(pageout && kernel), "two reclaim at once");
        self.hold(
            usage_bytes <= marks.high_bytes || pageout || kernel || is_left,
            "usage is above the high mark and nobody reclaims",
        );
        self.hold(
            usage_bytes > 2 * marks.low_bytes - marks.high_bytes || !pageout && !kernel,
            "reclaim below all that is said to be held",
        );
        self.hold(
            !is_left || !pageout && !kernel,
            "the programs reclaim, and somebody else as well",
        );
        self.hold(
            sample.cpu.is_some() == (self.is_auto && usage_bytes > marks.low_bytes),
            "the processors are looked at where that decides nothing, or are not where it does",
        );
        let due = plan.decision.reclaim();
        // While a walk is under way the loop looks again after a millisecond.
        let is_as_planned = turn.wait_ms == due.wait_ms || turn.wait_ms == 1;
        self.hold(
            turn.standing != Standing::Fine || is_as_planned,
            "the wait is another than was planned",
        );
        let asked = turn.notes.iter().filter_map(|note| match note {
            Note::AskKernel { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let wanted = Some(due.kernel_bytes).filter(|bytes| *bytes > 0);
        self.hold(
            asked.eq(wanted),
            "the kernel was asked for other than was planned",
        );
        let mut isolated = turn.notes.iter().filter_map(|note| match note {
            Note::Isolate { nr_pages, .. } => Some(*nr_pages),
            _ => None,
        });
        self.hold(
            isolated.all(|nr_pages| nr_pages == due.pageout_pages),
            "pages were chosen that the plan does not want",
        );
    }

    /// Anew where eviction does not stand as it did.
    fn limits(&mut self, turn: &Turn) {
        let mut looks = vec![self.standing, turn.standing];
        looks.dedup();
        let looked = turn.notes.iter().filter_map(|note| match note {
            Note::Limit { need, .. } => Some(need.standing),
            _ => None,
        });
        // The last line is of no turn: it has what came after.
        let is_turn = turn.plan.is_some();
        self.hold(
            !is_turn || looked.eq(looks),
            "the limit was not looked at as it should be",
        );
        let most_bytes = self.marks.budget_bytes + (self.marks.budget_bytes / 4).max(64 << 20);
        let (mut is_under_oom, mut limit_bytes) = (false, 0);
        for note in &turn.notes {
            match *note {
                Note::Limit { need, .. } => is_under_oom = need.is_under_oom,
                Note::Step(_, Some(Answer::Limit(limit))) => limit_bytes = limit.unwrap_or(0),
                Note::Step(Step::Raise { bytes }, Some(Answer::Raised(raised_bytes))) => {
                    limit_bytes += raised_bytes;
                    let is_far = limit_bytes > most_bytes && raised_bytes > 0;
                    self.hold(
                        raised_bytes <= bytes && (!is_far || is_under_oom),
                        "it gave way further than it should",
                    );
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::AskKernel { is_taken: true, .. } => {
                let was_out = std::mem::replace(&mut self.is_kernel_out, true);
                self.hold(!was_out, "the kernel was asked while it was at it");
            }
            Note::Reclaimed { .. } => {
                let was_out = std::mem::replace(&mut self.is_kernel_out, false);
                self.hold(was_out, "an answer nobody asked for");
            }
            Note::Isolate {
                answer: Isolated::Pages(nr_pages),
                ..
            } => self.nr_isolated_pages += nr_pages,
            Note::PagedOut {
                nr_tried_pages,
                nr_evicted_pages,
                ..
            } => {
                self.nr_tried_pages += nr_tried_pages;
                self.hold(
                    nr_evicted_pages <= nr_tried_pages
                        && self.nr_tried_pages <= self.nr_isolated_pages,
                    "more was taken than was chosen",
                );
            }
            Note::Walk { sample, .. } => {
                let found = sample.found;
                let mut kinds = found.nr_young_pages.iter().zip(found.nr_resident_pages);
                self.hold(
                    kinds.all(|(young, resident)| *young <= resident),
                    "more is young than there is",
                );
            }
            _ => {}
        }
    }
}
