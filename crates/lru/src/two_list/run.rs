//! A reclaim run: which list is looked at next, and when it is enough (rules 8.9).
//!
//! A run begins relaxed and becomes more desperate until it has what it was asked for:
//!
//! ```text
//!   run     priority 12, 11, ... 0      each looks at size >> priority of the lists
//!   scan    one lruvec at one priority  how much of each list is left to look at
//!   step    up to 32 pages of one list  inactive anon, active anon, inactive file, active file, (again)
//! ```
//!
//! A step is what one [`Policy::isolate`](crate::Policy::isolate) hands out, so a run lasts over
//! many calls. What is left of a scan when its goal is met is taken by the next call: the kernel
//! takes it at once and then has a little more than it needs.
//!
//! **Owns** the order of steps and the goal. **Does not own** the lists.
//!
//! **Invariants**
//! - I1: a scan's steps add up to no more than its counts plus one deactivation at its end.
//! - I2: a run ends: each scan is finite, and priorities only fall.

use super::{
    lruvec::{Control, Counts, Demand, Lruvec, NodePages, PRIORITY_MAX},
    page::Half,
};
use crate::{
    ids::{Kind, NodeId},
    seam::{OnePass, ReclaimRequest},
    swappiness::Swappiness,
};

/// The most base pages in one step.
pub(super) const NR_STEP_PAGES: u64 = 32;

/// The order in which lists are looked at.
const ROUND: [(Half, Kind); 4] = [
    (Half::Inactive, Kind::Anon),
    (Half::Active, Kind::Anon),
    (Half::Inactive, Kind::File),
    (Half::Active, Kind::File),
];

/// Some base pages at the old end of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) lruvec: usize,
    pub(super) half: Half,
    pub(super) kind: Kind,
    pub(super) nr_pages: u64,
}

/// One lruvec at one priority.
#[derive(Clone, Copy, Debug)]
struct Scan {
    lruvec: usize,
    control: Control,
    counts: Counts,
    left: Counts,
    nr_reclaimed_pages: u64,
    /// Position in [`ROUND`].
    next: usize,
    is_trimmed: bool,
}

/// One group's way from relaxed to desperate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    swappiness: Swappiness,
    node: Option<NodeId>,
    goal_pages: u64,
    first_priority: u8,
    priority: u8,
    /// Position among the group's lruvecs.
    position: usize,
    nr_reclaimed_pages: u64,
    /// Active folios are deactivated whatever the balance says.
    is_forced: bool,
    /// The run is this one priority, and the group protected so much.
    one_pass: Option<OnePass>,
    is_offline: bool,
    scan: Option<Scan>,
}

impl Run {
    pub(super) fn new(request: ReclaimRequest, is_offline: bool) -> Run {
        let priority = request.priority.min(PRIORITY_MAX);
        Run {
            swappiness: request.swappiness,
            node: request.node,
            goal_pages: request.nr_pages,
            first_priority: priority,
            priority,
            one_pass: request.one_pass,
            is_offline,
            ..Run::default()
        }
    }

    /// Whether a request asks for more of the same.
    pub(super) fn is_of(&self, request: ReclaimRequest) -> bool {
        let is_same_pass = match (self.one_pass, request.one_pass) {
            (None, None) => true,
            (Some(_), Some(_)) => self.first_priority == request.priority.min(PRIORITY_MAX),
            _ => false,
        };
        is_same_pass && self.swappiness == request.swappiness && self.node == request.node
    }

    /// Tells if the run may go on once its goal is met or its priority is done with.
    pub(super) fn is_one_pass(&self) -> bool {
        self.one_pass.is_some()
    }

    pub(super) fn is_met(&self) -> bool {
        self.nr_reclaimed_pages >= self.goal_pages
    }

    pub(super) fn has_reclaimed(&self) -> bool {
        self.nr_reclaimed_pages > 0
    }

    /// Pages of an lruvec left memory; whether that just met the goal.
    pub(super) fn reclaimed(&mut self, lruvec: usize, nr_pages: u64) -> bool {
        let was_met = self.is_met();
        self.nr_reclaimed_pages += nr_pages;
        if let Some(scan) = self.scan.as_mut().filter(|scan| scan.lruvec == lruvec) {
            scan.nr_reclaimed_pages += nr_pages;
        }
        self.is_met() && !was_met
    }

    /// The next list to look at, at most `nr_pages_max` of it; `None` when the run is over. The
    /// group's lruvecs are `of_group`, looked up in `lruvecs`.
    pub(super) fn next_step(
        &mut self,
        of_group: &[u16],
        lruvecs: &[Lruvec],
        nr_pages_max: u64,
    ) -> Option<Step> {
        loop {
            let Some(mut scan) = self.scan else {
                if !self.begin_scan(of_group, lruvecs) {
                    return None;
                }
                continue;
            };
            let step = scan.next_step(self.goal_pages, nr_pages_max);
            self.scan = step.map(|_| scan);
            let step = match step {
                Some(step) => scan.allows(step).then_some(step),
                None => {
                    let swappiness = self.swappiness_of(&lruvecs[scan.lruvec]);
                    deactivation(scan.lruvec, lruvecs, swappiness)
                }
            };
            if step.is_some() {
                return step;
            }
        }
    }

    /// The balance of the kinds in one lruvec.
    fn swappiness_of(&self, lruvec: &Lruvec) -> Swappiness {
        self.one_pass.map_or(self.swappiness, |of| {
            of.swappiness_on(lruvec.account.node, self.swappiness)
        })
    }

    /// Goes on to the next lruvec, or becomes more desperate; `false` if the run is over.
    fn begin_scan(&mut self, of_group: &[u16], lruvecs: &[Lruvec]) -> bool {
        let Some(lruvec) = of_group.get(self.position).map(|n| usize::from(*n)) else {
            if self.is_met() || !self.becomes_more_desperate() {
                return false;
            }
            self.position = 0;
            return true;
        };
        self.position += 1;
        let state = &lruvecs[lruvec];
        if self.node.is_some_and(|only| only != state.account.node) {
            return true;
        }
        let nr_short = self.one_pass.and_then(|of| of.nr_short_pages);
        let node = nr_short.map(|nr_short| pages_of_node(state.account.node, nr_short, lruvecs));
        let control = state.control(self.priority, self.is_forced, node);
        let counts = state.scan_counts(
            control,
            Demand {
                swappiness: self.swappiness_of(state),
                priority: self.priority,
                one_pass: self.one_pass,
                is_offline: self.is_offline,
            },
        );
        self.scan = Some(Scan {
            lruvec,
            control,
            counts,
            left: counts,
            nr_reclaimed_pages: 0,
            next: 0,
            is_trimmed: false,
        });
        true
    }

    fn becomes_more_desperate(&mut self) -> bool {
        if self.is_one_pass() {
            return false;
        }
        if self.priority > 0 {
            self.priority -= 1;
            return true;
        }
        // All was in vain: once more without mercy for active folios and second chances.
        let is_last_hope = !self.has_reclaimed() && !self.is_forced;
        self.is_forced |= is_last_hope;
        self.priority = if is_last_hope { self.first_priority } else { 0 };
        is_last_hope
    }
}

impl Scan {
    fn allows(&self, step: Step) -> bool {
        step.half == Half::Inactive || self.control.may_deactivate[step.kind.index()]
    }

    fn next_step(&mut self, goal_pages: u64, nr_pages_max: u64) -> Option<Step> {
        loop {
            if self.next == ROUND.len() {
                self.next = 0;
                if self.nr_reclaimed_pages >= goal_pages && !self.is_trimmed && !self.trim() {
                    return None;
                }
            }
            if self.next == 0 && self.is_done() {
                return None;
            }
            let (half, kind) = ROUND[self.next];
            self.next += 1;
            let left = &mut self.left[half.index()][kind.index()];
            let nr_pages = match half {
                Half::Inactive => NR_STEP_PAGES.min(nr_pages_max),
                Half::Active => NR_STEP_PAGES,
            };
            let nr_pages = nr_pages.min(*left);
            *left -= nr_pages;
            if nr_pages > 0 {
                let lruvec = self.lruvec;
                return Some(Step {
                    lruvec,
                    half,
                    kind,
                    nr_pages,
                });
            }
        }
    }

    /// Active anon alone does not keep a scan going.
    fn is_done(&self) -> bool {
        let [inactive, active] = self.left;
        inactive == [0; 2] && active[Kind::File.index()] == 0
    }

    /// The goal is met: stops the kind of which less is left, and takes of the other only as large
    /// a part as was taken of it. `false` if one kind is finished already, so all is.
    fn trim(&mut self) -> bool {
        self.is_trimmed = true;
        let total = |counts: &Counts, kind: Kind| counts[0][kind.index()] + counts[1][kind.index()];
        let [anon, file] = Kind::ALL.map(|kind| total(&self.left, kind));
        if anon == 0 || file == 0 {
            return false;
        }
        let (smaller, larger, left) = if file > anon {
            (Kind::Anon, Kind::File, anon)
        } else {
            (Kind::File, Kind::Anon, file)
        };
        let percent_left = left * 100 / (total(&self.counts, smaller) + 1);
        for half in Half::ALL.map(Half::index) {
            self.left[half][smaller.index()] = 0;
            let count = self.counts[half][larger.index()];
            let left = &mut self.left[half][larger.index()];
            let nr_scanned = count - *left;
            *left = (count * (100 - percent_left) / 100).saturating_sub(nr_scanned);
        }
        true
    }
}

/// Pages of a node, all groups together.
fn pages_of_node(node: NodeId, nr_short: u64, lruvecs: &[Lruvec]) -> NodePages {
    let of_node = || lruvecs.iter().filter(|of| of.account.node == node);
    let file =
        |of: &Lruvec| of.size(Half::Inactive, Kind::File) + of.size(Half::Active, Kind::File);
    NodePages {
        nr_file: of_node().map(file).sum(),
        nr_inactive_anon: of_node()
            .map(|of| of.size(Half::Inactive, Kind::Anon))
            .sum(),
        nr_short,
    }
}

/// After a scan, anon whose inactive list is short gets some deactivated, so that folios can be
/// told apart before they are needed.
fn deactivation(lruvec: usize, lruvecs: &[Lruvec], swappiness: Swappiness) -> Option<Step> {
    let is_due = swappiness.allows(Kind::Anon) && lruvecs[lruvec].is_inactive_low(Kind::Anon);
    is_due.then_some(Step {
        lruvec,
        half: Half::Active,
        kind: Kind::Anon,
        nr_pages: NR_STEP_PAGES,
    })
}
