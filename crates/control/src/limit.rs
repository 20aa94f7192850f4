//! When the hard limit gives way, and how far: what keeps a budget from killing or thrashing.
//!
//! The kernel's own limit kills although memory could still be reclaimed (all pages active at that
//! moment, swap nearly empty), and it thrashes a program whose working set is larger than the
//! budget. So the limit is raised in steps while a raise can help. The bound is the budget plus a quarter, at least plus
//! 64 MiB. The limit passes the bound only while tasks wait and more than a step of memory could still be reclaimed. A
//! program that grows without bound and can't be evicted still meets the kernel.
//!
//! Up to that bound it gives way at once where what can't go at all (the floor: locked memory, the
//! kernel's own, anon without swap) takes up the budget. With the kernel's killer off (cgroup v1) only
//! page faults of the program wait there: a system call fails with ENOMEM, and a write of the kernel
//! to the thread's own data (`rseq`) ends the program by SIGSEGV.
//!
//! The other way round, as long as what can't go leaves room the limit (v2: `memory.high`) stands just below the budget,
//! at the line, before usage is there if it can: it holds usage where reclaim ahead does not keep up.
//!
//! ```text
//!   start --(v1, the floor is near the line: ReleaseLine)--> look at the limit
//!     the floor is near the limit     -> ReleaseHigh, Raise as far as it may --nothing gained--> as below
//!     tasks wait, or nothing can go   -> ReleaseHigh, look again, Raise a step | refuse: HandBackOom
//!     the floor is above the budget   -> ReleaseHigh
//!     (v1) the line is near the floor -> Settle
//!     else                            -> HoldLine
//! ```
//!
//! **Owns** these decisions, and when the kernel's counts are read for them. **Does not own** the limit: each [`Step`] is
//! carried out by the caller, who hands what came of it to [`Limit::next`].
//!
//! **Invariants** I1: the limit never rises above the bound unless tasks wait and more than a step can go. I2: a job ends
//! after ten steps at most.

#[cfg(test)]
mod tests;

use crate::sample::{CgroupVersion, GroupStats};
use crate::tunables::config;
use crate::watermarks::Watermarks;
use serde::{Deserialize, Serialize};
use strata_lru::TimeMs;
pub use strata_lru::machine::Line;

config! {
    /// How far the hard limit gives way, and in which steps.
    "limit"

    /// The limit gives way by at most this part of the budget: a program that grows without bound and can't be evicted still
    /// meets the kernel.
    raised_share: u64 = 4, 1..=100, "1/n of the budget";
    /// The limit may give way by so much even where the budget is small.
    raised_bytes_min: u64 = 64 << 20, 1 << 20..=1 << 30, "bytes";
    /// What can't go takes up the budget when it leaves less than this part of it.
    floor_share: u64 = 8, 2..=64, "1/n of the budget";
    /// The kernel's counts of the group are read this often near the budget, which brings them up to date: stale ones have the
    /// kernel find nothing to take. Usage is looked at as often while the programs reclaim in their own faults.
    counts_ms: u64 = 20, 1..=100, "ms";
}

/// A step within this time after the last one is twice as large, up to the distance from the budget to the backstop. A
/// program's end has to do with the limit when what can't go was near it, or tasks waited, within this time before. It is far
/// more than the milliseconds that lie between two steps of one squeeze, or between a fault and the end of a program.
const RECENT_MS: u64 = 1000;
/// Tasks that a raise has woken need so long to run, and count as waiting until then.
const STEP_SETTLES_MS: u64 = 50;

/// How eviction stands after a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing to report.
    #[default]
    Fine,
    /// Above the low mark and nothing evictable is left.
    NothingEvictable,
    /// Only pages younger than `min_ttl` are left.
    Thrashing,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Read the limit: [`Answer::Limit`].
    LookAtLimit,
    /// Read usage: [`Answer::Usage`].
    LookAtUsage,
    /// (v1) Bring the limit from the line back to the backstop: [`Answer::Done`].
    ReleaseLine,
    /// Lift `memory.high`, which only v2 has: [`Answer::Done`].
    ReleaseHigh,
    /// Raise the limit by so many bytes: [`Answer::Raised`].
    Raise {
        /// By so much.
        bytes: u64,
    },
    /// Let the kernel's killer decide: [`Answer::Done`].
    HandBackOom,
    /// Bring a limit that has given way back down, as far as usage allows: [`Answer::Done`].
    Settle,
    /// Have the kernel hold usage at the line: [`Answer::Line`].
    HoldLine,
    /// Nothing more.
    Done(Option<Trouble>),
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The step was carried out.
    Done,
    /// The limit stands here, bytes; `None`: there is none.
    Limit(Option<u64>),
    /// Usage, bytes.
    Usage(u64),
    /// The limit rose by so much, bytes.
    Raised(u64),
    /// How far holding the line has got.
    Line(Line),
}

/// What the user should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// All that is left is younger than `min_ttl`: the budget is exceeded.
    Exceeded,
    /// The limit has given way as far as it may.
    Refused {
        /// Where the limit stands, bytes.
        limit_bytes: u64,
        /// Whether anon pages have somewhere to go.
        has_free_swap: bool,
    },
}

/// Why the limit may have to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// How eviction stands.
    pub standing: Standing,
    /// Whether tasks wait for memory with the kernel's killer off.
    pub is_under_oom: bool,
    /// Whether anon pages have somewhere to go.
    pub has_free_swap: bool,
    /// In use, bytes.
    pub usage_bytes: u64,
}

/// What may and may not go, as the kernel lists it.
#[derive(Clone, Copy, Debug)]
struct Stock {
    /// Pages the kernel could take, bytes.
    evictable_bytes: u64,
    /// Usage less what the kernel could take, bytes.
    floor_bytes: u64,
    /// Usage then, bytes.
    usage_bytes: u64,
}

impl Stock {
    fn of(stats: &GroupStats, usage_bytes: u64, can_swap: bool) -> Stock {
        let anon_bytes = stats.lru_anon_bytes.filter(|_| can_swap);
        let evictable_bytes = stats.lru_file_bytes.unwrap_or(0) + anon_bytes.unwrap_or(0);
        Stock {
            evictable_bytes,
            floor_bytes: usage_bytes.saturating_sub(evictable_bytes),
            usage_bytes,
        }
    }
}

/// Where a job stands, by what the last step was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The limit is being looked at, for the first time.
    Begun,
    /// The line has been released.
    LineReleased,
    /// The limit is being looked at once more.
    Looked,
    /// `memory.high` is lifted so that the limit can give way at once.
    Opened { limit_bytes: u64 },
    /// The limit gives way at once.
    GivenWay,
    /// `memory.high` is lifted so that the limit can rise a step.
    Raising,
    /// The limit is being looked at, to rise from there.
    Measuring,
    /// Usage is being looked at.
    Weighing { limit_bytes: u64 },
    /// The limit rises a step.
    Raised { limit_bytes: u64, bytes: u64 },
    /// The killer is handed back.
    Refused { limit_bytes: u64 },
    /// The line is being held.
    Following,
    /// One step that nothing follows.
    Last,
}

/// What is being decided: see [`Limit::start`].
#[derive(Clone, Copy, Debug)]
struct Job {
    now: TimeMs,
    need: Need,
    marks: Watermarks,
    stage: Stage,
}

/// What is remembered between ticks.
#[derive(Debug)]
pub struct Limit {
    config: Config,
    version: CgroupVersion,
    /// Whether the line stands where it should.
    is_line_held: bool,
    /// When the kernel's lists were last read, and what they said.
    stock: Option<(TimeMs, Stock)>,
    /// The last raise, and how far it went.
    raised: Option<(TimeMs, u64)>,
    /// (v1) When what can't go was last near the limit, or tasks waited.
    pinched_at: Option<TimeMs>,
    nr_raises: u64,
    peak_bytes: u64,
    job: Option<Job>,
}

impl Limit {
    /// Nothing done yet.
    pub fn new(version: CgroupVersion, marks: &Watermarks, config: Config) -> Limit {
        Limit {
            config,
            version,
            is_line_held: false,
            stock: None,
            raised: None,
            pinched_at: None,
            nr_raises: 0,
            peak_bytes: marks.backstop_bytes,
            job: None,
        }
    }

    /// From now on another budget holds; what was learnt of the last one's limit says nothing of it.
    pub fn set_budget(&mut self, marks: &Watermarks) {
        self.peak_bytes = self.peak_bytes.max(marks.backstop_bytes);
        self.raised = None;
    }

    /// Whether the kernel holds usage below the budget by itself.
    pub fn is_line_held(&self) -> bool {
        self.is_line_held
    }

    /// How often the limit has risen.
    pub fn nr_raises(&self) -> u64 {
        self.nr_raises
    }

    /// How far the limit rose at most, bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Whether a fault that ended the program may come from the limit: see the module text.
    pub fn may_have_caused_fault(&self, now: TimeMs) -> bool {
        let is_recent = |then| now.since(then) <= RECENT_MS;
        self.pinched_at.is_some_and(is_recent)
    }

    /// Whether the kernel's counts are to be read now, which also brings them up to date: stale ones are what makes it
    /// find nothing to take. `None`: nobody needs them, because usage is far from the budget; `Some(false)`: those of the last
    /// reading will do.
    pub fn wants_counters(
        &mut self,
        now: TimeMs,
        marks: &Watermarks,
        usage_bytes: u64,
        is_under_oom: bool,
    ) -> Option<bool> {
        // Below both marks nothing is reclaimed, and what can't go is far from any limit ([`is_pinch`]).
        let near = marks.low_bytes.min(self.config.floor_bytes_max(marks));
        if usage_bytes <= near {
            self.stock = None;
        }
        if !is_under_oom && usage_bytes <= near {
            return None;
        }
        // What has come since the last look may be locked by now.
        let growth_bytes = marks.high_bytes - marks.low_bytes;
        let has_grown = |stock: Stock| usage_bytes > stock.usage_bytes + growth_bytes;
        self.stock = self.stock.filter(|(_, stock)| !has_grown(*stock));
        let is_fresh = |(then, _)| now.since(then) < self.config.counts_ms;
        let is_fresh = self.stock.is_some_and(is_fresh);
        Some(!is_fresh || is_under_oom)
    }

    /// Takes in the kernel's counts; `None`: they could not be read, and what was known stands. What is not known must not
    /// be taken for what can't go. `can_swap`: anon pages have somewhere to go.
    pub fn take_counters(
        &mut self,
        now: TimeMs,
        stats: Option<GroupStats>,
        usage_bytes: u64,
        can_swap: bool,
    ) {
        if let Some(stats) = stats {
            self.stock = Some((now, Stock::of(&stats, usage_bytes, can_swap)));
        }
    }

    /// Starts the work on the limit for one tick; returns the first step. The limit is raised if tasks wait or too little
    /// can be reclaimed. Else the kernel holds usage at the line, unless unreclaimable memory is too near.
    pub fn start(&mut self, now: TimeMs, need: Need, marks: &Watermarks) -> Step {
        self.is_line_held = false;
        self.job = Some(Job {
            now,
            need,
            marks: *marks,
            stage: Stage::Begun,
        });
        Step::LookAtLimit
    }

    /// What is to be done after a step. An answer that does not belong to it ends the job.
    pub fn next(&mut self, answer: Answer) -> Step {
        let Some(mut job) = self.job.take() else {
            return Step::Done(None);
        };
        let step = self.after(&mut job, answer);
        if !matches!(step, Step::Done(_)) {
            self.job = Some(job);
        }
        step
    }

    fn after(&mut self, job: &mut Job, answer: Answer) -> Step {
        let marks = job.marks;
        match (job.stage, answer) {
            (Stage::Begun, Answer::Limit(limit)) => {
                let limit_bytes = limit.unwrap_or(u64::MAX);
                let is_below = limit_bytes < marks.backstop_bytes;
                if self.is_v1() && is_below && self.is_pinch(&marks, limit_bytes) {
                    // What is locked has come near the line, and that may be all it has come near.
                    job.to(Stage::LineReleased, Step::ReleaseLine)
                } else {
                    self.judge(job, limit_bytes)
                }
            }
            (Stage::LineReleased, Answer::Done) => job.to(Stage::Looked, Step::LookAtLimit),
            (Stage::Looked, Answer::Limit(limit)) => self.judge(job, limit.unwrap_or(u64::MAX)),
            (Stage::Opened { limit_bytes }, Answer::Done) => {
                match self.config.most_bytes(&marks).checked_sub(limit_bytes) {
                    None | Some(0) => job.to(Stage::Raising, Step::ReleaseHigh),
                    Some(bytes) => job.to(Stage::GivenWay, Step::Raise { bytes }),
                }
            }
            (Stage::GivenWay, Answer::Raised(0)) => job.to(Stage::Raising, Step::ReleaseHigh),
            (Stage::GivenWay, Answer::Raised(_)) => {
                self.note_raise(self.config.most_bytes(&marks));
                Step::Done(None)
            }
            (Stage::Raising, Answer::Done) => job.to(Stage::Measuring, Step::LookAtLimit),
            (Stage::Measuring, Answer::Limit(limit)) => {
                let limit_bytes = limit.unwrap_or(u64::MAX);
                job.to(Stage::Weighing { limit_bytes }, Step::LookAtUsage)
            }
            (Stage::Weighing { limit_bytes }, Answer::Usage(usage_bytes)) => {
                self.raise(job, limit_bytes, usage_bytes)
            }
            (Stage::Raised { limit_bytes, .. }, Answer::Raised(0)) => job.refuse(limit_bytes),
            (Stage::Raised { limit_bytes, bytes }, Answer::Raised(_)) => {
                self.raised = Some((job.now, bytes));
                self.note_raise(limit_bytes.saturating_add(bytes));
                let is_young = job.need.standing == Standing::Thrashing;
                Step::Done(is_young.then_some(Trouble::Exceeded))
            }
            (Stage::Refused { limit_bytes }, Answer::Done) => {
                Step::Done(Some(job.refusal(limit_bytes)))
            }
            (Stage::Following, Answer::Line(line)) => {
                self.is_line_held = line == Line::Held;
                Step::Done(None)
            }
            _ => Step::Done(None),
        }
    }

    fn judge(&mut self, job: &mut Job, limit_bytes: u64) -> Step {
        let (need, marks) = (job.need, job.marks);
        let is_pinched = self.is_pinch(&marks, limit_bytes);
        if self.is_v1() && (need.is_under_oom || is_pinched) {
            self.pinched_at = Some(job.now);
        }
        let is_squeezed = match need.standing {
            Standing::Fine => false,
            // The kernel may still find something at the line; if not, tasks wait and that is told.
            Standing::NothingEvictable => need.usage_bytes > marks.urgent_bytes,
            Standing::Thrashing => need.usage_bytes > marks.high_bytes,
        };
        if is_pinched {
            // Where nothing can go a tight limit only makes system calls fail.
            return job.to(Stage::Opened { limit_bytes }, Step::ReleaseHigh);
        }
        if need.is_under_oom || is_squeezed {
            return job.to(Stage::Raising, Step::ReleaseHigh);
        }
        self.follow(job)
    }

    fn follow(&self, job: &mut Job) -> Step {
        let marks = &job.marks;
        if self.floor_bytes() > marks.budget_bytes {
            // Lower than it stands it would only have to be raised again.
            return job.to(Stage::Last, Step::ReleaseHigh);
        }
        // A line that usage is below costs nothing, so it stands before the program can outrun the next look:
        // brought down later it has to win against a program at full speed. On v1, where system calls fail at
        // it, not next to what can't go: the limit would be raised and brought down in turns.
        let is_safe = !self.is_v1() || !self.is_pinch(marks, marks.line_bytes);
        match is_safe {
            true => job.to(Stage::Following, Step::HoldLine),
            false => job.to(Stage::Last, Step::Settle),
        }
    }

    fn raise(&mut self, job: &mut Job, limit_bytes: u64, usage_bytes: u64) -> Step {
        let (need, marks, config) = (job.need, job.marks, self.config);
        let headroom = limit_bytes.saturating_sub(usage_bytes);
        let since_raise_ms = self.raised.map(|(then, _)| job.now.since(then));
        let is_settling = since_raise_ms.is_some_and(|ms| ms < STEP_SETTLES_MS);
        let is_room = headroom >= step_bytes(&marks) && !need.is_under_oom;
        if is_room || headroom > 0 && is_settling {
            return Step::Done(None);
        }
        let bytes = match self.raised {
            Some((then, bytes)) if job.now.since(then) < RECENT_MS => bytes * 2,
            // As far as two marks lie apart: the moment that needs it is short.
            _ => marks.high_bytes - marks.low_bytes,
        };
        let bytes = bytes.min(step_bytes(&marks));
        // Tasks that wait although there are pages that can go: the kernel found everything active at
        // that moment. That passes, and a kill would not help; a program that grows without end fills
        // swap first.
        let evictable_bytes = self.stock.map_or(0, |(_, stock)| stock.evictable_bytes);
        let is_moment = need.is_under_oom && evictable_bytes > step_bytes(&marks);
        match is_moment || limit_bytes.saturating_add(bytes) <= config.most_bytes(&marks) {
            true => job.to(Stage::Raised { limit_bytes, bytes }, Step::Raise { bytes }),
            false => job.refuse(limit_bytes),
        }
    }

    fn note_raise(&mut self, limit_bytes: u64) {
        self.nr_raises += 1;
        self.peak_bytes = self.peak_bytes.max(limit_bytes);
    }

    fn is_v1(&self) -> bool {
        self.version == CgroupVersion::V1
    }

    fn floor_bytes(&self) -> u64 {
        self.stock.map_or(0, |(_, stock)| stock.floor_bytes)
    }

    /// Whether what can't go takes up the budget and is near this limit: twice a step, because what locks its
    /// memory goes through one in some milliseconds.
    fn is_pinch(&self, marks: &Watermarks, limit_bytes: u64) -> bool {
        let floor_bytes = self.floor_bytes();
        floor_bytes > self.config.floor_bytes_max(marks)
            && floor_bytes.saturating_add(2 * step_bytes(marks)) > limit_bytes
    }
}

impl Job {
    fn to(&mut self, stage: Stage, step: Step) -> Step {
        self.stage = stage;
        step
    }

    fn refuse(&mut self, limit_bytes: u64) -> Step {
        match self.need.is_under_oom {
            true => self.to(Stage::Refused { limit_bytes }, Step::HandBackOom),
            false => Step::Done(Some(self.refusal(limit_bytes))),
        }
    }

    fn refusal(&self, limit_bytes: u64) -> Trouble {
        Trouble::Refused {
            limit_bytes,
            has_free_swap: self.need.has_free_swap,
        }
    }
}

impl Config {
    /// More that can't go takes up the budget.
    fn floor_bytes_max(&self, marks: &Watermarks) -> u64 {
        marks.budget_bytes - marks.budget_bytes / self.floor_share
    }

    /// As far as the limit gives way for what can't be evicted.
    fn most_bytes(&self, marks: &Watermarks) -> u64 {
        marks.budget_bytes + (marks.budget_bytes / self.raised_share).max(self.raised_bytes_min)
    }
}

/// From the budget to the backstop.
fn step_bytes(marks: &Watermarks) -> u64 {
    marks.backstop_bytes - marks.budget_bytes
}
