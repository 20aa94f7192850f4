//! What each turn of the loop read, what it decided, and what came of it: one line of JSON a turn.
//!
//! ```text
//!   whoever reads, decides or acts --note--> [the turn so far] --take--> a line
//! ```
//!
//! `strata run --trace` and `strata sim --steered --trace` write the same lines. A line is made of the loop's own types, as
//! `serde` writes them. Nothing here is ever asked for anything, so that a loop with a trace decides as one without.
//!
//! **Owns** the turn that is being recorded. **Does not own** what is noted when (whoever reads, decides or acts), nor files.
//!
//! **Invariants** I1: without a trace a note is one comparison. I2: no address and no number of a page, and no name of a file:
//! quantities only.

use crate::limit::{Answer, Need, Standing, Step};
use crate::plan::Plan;
use crate::sample::{GroupStats, Sample};
use crate::watermarks::Watermarks;
use serde::{Deserialize, Serialize, Serializer};
use std::cell::RefCell;
use std::rc::Rc;
pub use strata_lru::machine::ClearIntent;
use strata_lru::{Isolated, TimeMs};

/// One turn of the loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// Since the run began, milliseconds.
    pub now: TimeMs,
    /// What it read; `None` while paused, or where nobody decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// What it decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// What was heard and done, in order.
    pub notes: Vec<Note>,
    /// How eviction stands at the end.
    pub standing: Standing,
    /// The next turn comes after so long, unless something wakes the loop.
    pub wait_ms: u64,
}

/// What was heard or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "most are small, and a turn has a few"
)]
pub enum Note {
    /// The budget from here on, and the marks that follow from it.
    Marks(Watermarks),
    /// The limit is looked at.
    Limit {
        /// Why it may have to move.
        need: Need,
        /// Anon pages have somewhere to go and may go there.
        can_swap: bool,
    },
    /// The kernel's counts that were read for the limit; `None`: they could not be read.
    Counters(#[serde(serialize_with = "known")] Option<GroupStats>),
    /// A step at the limit, and what came of it; `None`: it failed.
    Step(Step, Option<Answer>),
    /// The engine was asked for the oldest pages.
    Isolate {
        /// Base pages wanted.
        nr_pages: u64,
        /// Its answer.
        answer: Isolated,
    },
    /// The kernel was to be asked to reclaim.
    AskKernel {
        /// At most so much.
        bytes: u64,
        /// The kernel was asked: not while it reclaims already, while it found nothing a moment ago, or in a dry run.
        is_taken: bool,
    },
    /// A walk was made.
    Walk {
        /// Programs that have not run were walked, too.
        is_thorough: bool,
        /// How accessed bits are cleared; `None`: not at all, because clearing has to rest.
        clear: Option<ClearIntent>,
        /// What it found and took.
        sample: WalkSample,
    },
    /// What became of one request for pageout.
    PagedOut {
        /// The kernel was asked to take, base pages.
        nr_tried_pages: u64,
        /// Left memory, base pages.
        nr_evicted_pages: u64,
        /// Wall time, throttling included.
        wall_ns: u64,
        /// CPU time of the thread.
        cpu_ns: u64,
    },
    /// What became of one request to the kernel.
    Reclaimed {
        /// Asked for.
        asked_bytes: u64,
        /// By how much usage fell; `None`: the reports of the sample say why not.
        freed_bytes: Option<u64>,
        /// Wall time.
        wall_ns: u64,
        /// CPU time of the thread.
        cpu_ns: u64,
    },
    /// Accessed bits were cleared on a thread of its own.
    Cleared {
        /// Wall time, pauses included.
        wall_ns: u64,
        /// Time for which the lock of the program's address space was held.
        held_ns: u64,
        /// Pieces of tables that were left as they were.
        nr_left_pieces: u64,
    },
}

/// What the kernel does not count is left out.
fn known<S: Serializer>(stats: &Option<GroupStats>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(stats) = stats else {
        return serializer.serialize_none();
    };
    let value = serde_json::to_value(stats).map_err(serde::ser::Error::custom)?;
    let fields = value.as_object().into_iter().flatten();
    serializer.collect_map(fields.filter(|(_, count)| !count.is_null()))
}

/// What a walk found and took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WalkSample {
    /// Programs walked.
    pub nr_spaces: u64,
    /// Programs left out because they had not run.
    pub nr_spaces_skipped: u64,
    /// Entries of page tables read.
    pub nr_entries: u64,
    /// CPU time of reading and of what was cleared at once.
    pub cpu_ns: u64,
    /// Wall time of the same.
    pub wall_ns: u64,
    /// All programs together.
    pub found: Found,
}

strata_lru::counts! {
    /// What a walk found; base pages.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Found {
        /// Present and reclaimable, by kind (anon, file).
        pub nr_resident_pages: [u64; 2],
        /// Accessed since the walk before, by kind.
        pub nr_young_pages: [u64; 2],
        /// New since the walk before.
        pub nr_appeared_pages: u64,
        /// New since the walk before, and back after an eviction.
        pub nr_refaulted_pages: u64,
        /// Gone since the walk before, taken by the kernel.
        pub nr_reclaimed_pages: u64,
        /// Gone since the walk before, given back by the program.
        pub nr_freed_pages: u64,
        /// Present but locked, hugetlb or special.
        pub nr_unreclaimable_pages: u64,
        /// Present but not managed, because the folio table is full.
        pub nr_untracked_pages: u64,
    }
}

/// Where whoever reads, decides or acts notes it. Clones note in the same turn.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Rc<RefCell<Turn>>>);

impl Recorder {
    /// One that takes notes; [`Recorder::default`] takes none.
    pub fn recording() -> Recorder {
        Recorder(Some(Rc::default()))
    }

    /// Adds to the turn so far, where there is a trace.
    pub fn turn(&self, into: impl FnOnce(&mut Turn)) {
        if let Some(turn) = &self.0 {
            into(&mut turn.borrow_mut());
        }
    }

    /// Adds what was heard or done, where there is a trace.
    pub fn note(&self, note: impl FnOnce() -> Note) {
        self.turn(|turn| turn.notes.push(note()));
    }

    /// The turn so far; the next begins. `None`: there is no trace.
    pub fn take(&self) -> Option<Turn> {
        Some(std::mem::take(&mut *self.0.as_ref()?.borrow_mut()))
    }
}
