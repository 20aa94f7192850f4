//! The lruvec: the folios of one group on one node, as a sliding window of generations.
//!
//! ```text
//!    min_seq[kind]                                   max_seq
//!        |                                              |
//!     +------+      +------+      +------+      +------+
//!     |oldest|      |      |      |active|      |active|     one list a kind in each
//!     +------+      +------+      +------+      +------+
//!        ^ eviction takes here       new pages enter near here ^
//! ```
//!
//! `max_seq` is shared by both kinds, each kind has a `min_seq` of its own. A generation's lists
//! and sizes are found at index `seq % nr_gens_max`.
//!
//! **Owns** the window, sizes, birth times, the controller's counters.
//! **Does not own** folios or lists, or when the window moves (`multigen::ageing`).
//!
//! **Invariants**
//! - I1: `2 <= max_seq - min_seq[kind] + 1 <= nr_gens_max` for each kind.
//! - I2: `nr_pages[gen][kind]` is the sum of the sizes of the folios whose flags word names that
//!   generation, whichever list they still are on.
//! - I3: births of the window never decrease from old to young.

use crate::{
    books::{Account, Booked, answered_by_fields, evictable},
    controller::Controller,
    distance::Distances,
    ids::{GenSeq, Kind, MAX_NR_GENS, MIN_NR_GENS, TimeMs},
    list::ListId,
    lru_gen::WalkFigures,
    seam::GenerationView,
    swappiness::Swappiness,
    walk::{WalkState, WalkStats},
};

/// Folios of one group on one node.
#[derive(Debug)]
pub(crate) struct Lruvec {
    pub(crate) max_seq: u64,
    pub(crate) min_seq: [u64; 2],
    /// Base pages by generation index and kind.
    pub(crate) nr_pages: [[u64; 2]; MAX_NR_GENS],
    pub(crate) account: Account,
    pub(crate) births: [TimeMs; MAX_NR_GENS],
    pub(crate) controller: Controller,
    /// Refault distances, where returns are judged by them or tried to be.
    pub(crate) distances: Distances,
    /// Room for so many generations, in sizes, births and lists.
    nr_gens_max: usize,
    /// Where the youngest generation is kept, so that the hot paths need no division.
    youngest: usize,
    pub(crate) walk: WalkState,
    /// What the walk before the youngest generation saw.
    pub(crate) last_walk: WalkFigures,
    /// What walks had seen in all when it was born.
    walked: WalkFigures,
    /// Whether an oldest generation of the kind was ever merged into the youngest unsorted.
    pub(crate) has_overlapped: [bool; 2],
}

impl Lruvec {
    /// Most generations there is room for.
    pub(crate) fn nr_gens_max(&self) -> usize {
        self.nr_gens_max
    }

    /// Index of the youngest generation.
    pub(crate) fn youngest_index(&self) -> usize {
        self.youngest
    }

    /// Where the sizes and the birth of a generation of the window are kept.
    pub(crate) fn generation_index(&self, seq: u64) -> usize {
        let below_max = (self.max_seq - seq) as usize;
        if below_max <= self.youngest {
            self.youngest - below_max
        } else {
            self.youngest + self.nr_gens_max - below_max
        }
    }

    /// The generation of the window that is kept at an index.
    pub(crate) fn seq_of_index(&self, index: usize) -> u64 {
        self.max_seq - self.age_of_index(index) as u64
    }

    /// How many generations younger than that at an index there are.
    pub(crate) fn age_of_index(&self, index: usize) -> usize {
        if index <= self.youngest {
            self.youngest - index
        } else {
            self.youngest + self.nr_gens_max - index
        }
    }

    /// Begins a youngest generation, born `now`. There must be room for it.
    pub(crate) fn begin_generation(&mut self, now: TimeMs) {
        let (so_far, before) = (figures(&self.walk.stats), self.walked);
        self.last_walk = WalkFigures {
            nr_entries: so_far.nr_entries - before.nr_entries,
            nr_young: so_far.nr_young - before.nr_young,
            nr_tables: so_far.nr_tables - before.nr_tables,
            nr_found: so_far.nr_found - before.nr_found,
            nr_added: so_far.nr_added - before.nr_added,
        };
        self.walked = so_far;
        self.max_seq += 1;
        self.youngest = (self.youngest + 1) % self.nr_gens_max;
        self.births[self.youngest] = now;
    }

    /// The list of a generation and kind.
    pub(crate) fn list(&self, generation: usize, kind: Kind) -> ListId {
        ListId(self.account.first_list.0 + (kind.index() * self.nr_gens_max + generation) as u32)
    }

    /// The list eviction takes from.
    pub(crate) fn oldest_list(&self, kind: Kind) -> ListId {
        self.list(self.oldest_index(kind), kind)
    }

    /// Index of the oldest generation of a kind.
    pub(crate) fn oldest_index(&self, kind: Kind) -> usize {
        self.generation_index(self.min_seq[kind.index()])
    }

    /// Generations of a kind, 2..=[`Lruvec::nr_gens_max`].
    pub(crate) fn nr_gens(&self, kind: Kind) -> u64 {
        self.max_seq - self.min_seq[kind.index()] + 1
    }

    /// The generation a list of a kind is for, `None` if it is not of that kind.
    pub(crate) fn generation_of(&self, list: ListId, kind: Kind) -> Option<usize> {
        (0..self.nr_gens_max).find(|generation| self.list(*generation, kind) == list)
    }

    /// Base pages of the kinds that may be evicted.
    pub(crate) fn nr_evictable_pages(&self, swappiness: Swappiness) -> u64 {
        evictable(self, swappiness)
    }

    /// Base pages of a kind in all its generations.
    pub(crate) fn nr_pages_of(&self, kind: Kind) -> u64 {
        self.nr_pages.iter().map(|of| of[kind.index()]).sum()
    }

    /// Whether there is nothing of a kind.
    pub(crate) fn is_empty(&self, kind: Kind) -> bool {
        self.nr_pages.iter().all(|of| of[kind.index()] == 0)
    }

    /// The oldest generation among the kinds that may be evicted; every swappiness allows one.
    pub(crate) fn oldest_evictable_seq(&self, swappiness: Swappiness) -> GenSeq {
        let of = |kind: Kind| swappiness.allows(kind).then(|| self.min_seq[kind.index()]);
        let oldest = match (of(Kind::Anon), of(Kind::File)) {
            (Some(anon), Some(file)) => anon.min(file),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => self.max_seq,
        };
        GenSeq(oldest)
    }

    /// When a generation of the window was born.
    pub(crate) fn birth(&self, seq: GenSeq) -> TimeMs {
        self.births[self.generation_index(seq.0)]
    }

    /// Checks the window and the births.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.youngest as u64 != self.max_seq % self.nr_gens_max as u64 {
            let (kept, max_seq) = (self.youngest, self.max_seq);
            return Err(format!("the youngest of ..={max_seq} is kept at {kept}"));
        }
        for kind in Kind::ALL {
            let oldest = self.min_seq[kind.index()];
            let nr_gens = (self.max_seq + 1).saturating_sub(oldest);
            if !(MIN_NR_GENS..=self.nr_gens_max as u64).contains(&nr_gens) {
                return Err(format!(
                    "{kind} window {oldest}..={} out of 2..={}",
                    self.max_seq, self.nr_gens_max
                ));
            }
            let births = (oldest..=self.max_seq).map(|seq| self.birth(GenSeq(seq)));
            if !births.is_sorted() {
                return Err(format!("births not ascending: {:?}", self.births));
            }
        }
        Ok(())
    }
}

impl Booked for Lruvec {
    /// Most generations there is room for.
    type Shape = u8;

    fn nr_lists(nr_gens_max: u8) -> u32 {
        2 * u32::from(nr_gens_max)
    }

    /// As many generations as there is room for, born `now`, all empty (rules 1.2).
    fn new(account: Account, nr_gens_max: u8, now: TimeMs) -> Lruvec {
        let nr_gens_max = usize::from(nr_gens_max);
        Lruvec {
            max_seq: nr_gens_max as u64 - 1,
            min_seq: [0; 2],
            nr_pages: [[0; 2]; MAX_NR_GENS],
            account,
            births: [now; MAX_NR_GENS],
            controller: Controller::default(),
            distances: Distances::default(),
            nr_gens_max,
            youngest: nr_gens_max - 1,
            last_walk: WalkFigures::default(),
            walked: WalkFigures::default(),
            walk: WalkState::new(nr_gens_max as u64 - 1),
            has_overlapped: [false; 2],
        }
    }

    answered_by_fields!();

    fn list_of(&self, generation: usize, kind: Kind) -> ListId {
        self.list(generation, kind)
    }

    fn generations(&self, now: TimeMs) -> Vec<GenerationView> {
        let oldest = self.min_seq[0].min(self.min_seq[1]);
        let view = |seq| {
            let sizes = self.nr_pages[self.generation_index(seq)];
            let size =
                |kind: Kind| (seq >= self.min_seq[kind.index()]).then_some(sizes[kind.index()]);
            GenerationView {
                seq: GenSeq(seq),
                age_ms: now.since(self.birth(GenSeq(seq))),
                nr_pages: Kind::ALL.map(size),
            }
        };
        (oldest..=self.max_seq).map(view).collect()
    }
}

fn figures(stats: &WalkStats) -> WalkFigures {
    WalkFigures {
        nr_entries: stats.nr_entries_visited,
        nr_young: stats.nr_entries_young,
        nr_tables: stats.nr_tables_seen,
        nr_found: stats.nr_filter_hits,
        nr_added: stats.nr_tables_dense,
    }
}
