//! What is told of a guard that was played.
//!
//! **Owns** the figures and the names of their fields, which `docs/reference/sim.md` explains. **Does not own** what is
//! counted (`guarded`).
//!
//! **Invariants**
//! - I1: no more than [`NR_MOMENTS_MAX`] moments are kept of a group.

use crate::cost::CostModel;
use crate::memory::PAGE_BYTES;
use crate::outcome::by_kind;
use crate::ratio::Ratio;
use crate::report::json;
use serde::Serialize;
use std::time::Duration;
use strata_control::guard::Offer;
use strata_control::promise::{PromiseHolder, Standing};
use strata_lru::ages::NrPages;
use strata_lru::{AddUp, Kind};

/// Moments of a group that are told.
pub(super) const NR_MOMENTS_MAX: u64 = 120;

/// What a guard came to on a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guarded {
    /// The trace, as it was given.
    pub trace: String,
    /// The share of the footprint that may come back within a minute.
    pub promise_share_per_min: f64,
    /// Memory is never idle that was accessed within so long, milliseconds.
    pub min_age_ms: u64,
    /// Time between two walks, milliseconds.
    pub walk_interval_ms: u64,
    /// From the first access to the end, milliseconds.
    pub duration_ms: u64,
    /// Walks.
    pub nr_walks: u64,
    /// Accesses through descriptors, which a guard does not see.
    pub nr_unmapped_accesses: u32,
    /// CPU time that the recorded processes used, microseconds; of recordings only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    /// What the faults of all groups cost, of that time; of recordings only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Ratio>,
    /// The groups of the trace, by number.
    pub groups: Vec<GuardedGroup>,
}

/// What became of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardedGroup {
    /// Its number in the trace.
    pub group: u16,
    /// In memory and away, on average.
    pub footprint_mean_bytes: u64,
    /// In memory, on average.
    pub resident_mean_bytes: u64,
    /// Taken and not come back, on average.
    pub away_mean_bytes: u64,
    /// Taken, in all.
    #[serde(serialize_with = "by_kind")]
    pub taken_bytes: [u64; 2],
    /// Taken, and found in memory again by a walk, in all.
    pub came_back_bytes: u64,
    /// Found in memory again within the minute in which that was most.
    pub came_back_worst_min_bytes: u64,
    /// Share of the footprint that came back within the minute in which that was most.
    pub came_back_worst_min: Ratio,
    /// How long nothing was taken because the promise was broken, milliseconds.
    pub resting_ms: u64,
    /// Accesses that found their page away, and waited for it.
    #[serde(serialize_with = "by_kind")]
    pub faults: [u64; 2],
    /// Accesses that found their page read back ahead, after the promise was broken twice in a row: they wait for nothing.
    pub faults_read_back: u64,
    /// What the faults cost, nanoseconds.
    pub fault_ns: u64,
    /// The last walk.
    pub at_end: Moment,
    /// From the first walk to the last, evenly spaced.
    pub over_time: Vec<Moment>,
}

/// A group after a walk, and after what was taken then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Since the beginning, milliseconds.
    pub at_ms: u64,
    /// In memory.
    pub resident_bytes: u64,
    /// Taken and not come back.
    pub away_bytes: u64,
    /// Part of that which is in swap.
    pub away_anon_bytes: u64,
    /// Still in memory, but as idle as what was taken.
    pub could_give_bytes: u64,
    /// Taken, and found in memory again within the last minute.
    pub came_back_per_min_bytes: u64,
    /// What may come back within a minute.
    pub allowed_per_min_bytes: u64,
    /// How long anonymous memory was not accessed before it counts as idle, milliseconds.
    pub age_anon_ms: u64,
    /// As much for pages of files.
    pub age_file_ms: u64,
}

impl Guarded {
    /// All of it as one JSON object, indented, with a newline at its end.
    ///
    /// # Errors
    /// None that can happen: it holds nothing that JSON lacks.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        json(self)
    }
}

pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What is summed up of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// What is told of it, but for the means and what faults cost.
    told: GuardedGroup,
    nr_looks: u64,
    /// Summed over walks.
    nr_resident_pages: u64,
    nr_away_pages: u64,
}

impl Sums {
    pub(super) fn fault(&mut self, kind: Kind, is_near: bool) {
        match is_near {
            true => self.told.faults_read_back += 1,
            false => self.told.faults[kind.index()] += 1,
        }
    }

    pub(super) fn came_back(&mut self, returned: NrPages) {
        self.told.came_back_bytes += returned.total() * PAGE_BYTES;
    }

    pub(super) fn took(&mut self, taken: NrPages) {
        let taken = [taken.anon, taken.file].map(|nr_pages| nr_pages * PAGE_BYTES);
        self.told.taken_bytes.add_up(&taken);
    }

    /// How it stands after a walk and what was taken then.
    pub(super) fn look(
        &mut self,
        at: Duration,
        holder: &PromiseHolder,
        nr_resident_pages: u64,
        away: NrPages,
        offer: Offer,
    ) {
        self.nr_looks += 1;
        self.nr_resident_pages += nr_resident_pages;
        self.nr_away_pages += away.total();
        let came_back = holder.came_back().total();
        let footprint = nr_resident_pages + away.total();
        let at_ms = ms(at);
        let left = offer.could.total() - offer.planned.total();
        let told = &mut self.told;
        let worst_bytes = &mut told.came_back_worst_min_bytes;
        *worst_bytes = (*worst_bytes).max(came_back * PAGE_BYTES);
        let worst = &mut told.came_back_worst_min;
        *worst = (*worst).max(Ratio::of(came_back, footprint));
        if holder.standing() != Standing::Kept {
            told.resting_ms += at_ms - told.at_end.at_ms;
        }
        told.at_end = Moment {
            at_ms,
            resident_bytes: nr_resident_pages * PAGE_BYTES,
            away_bytes: away.total() * PAGE_BYTES,
            away_anon_bytes: away.anon * PAGE_BYTES,
            could_give_bytes: left * PAGE_BYTES,
            came_back_per_min_bytes: came_back * PAGE_BYTES,
            allowed_per_min_bytes: holder.allowed_pages() * PAGE_BYTES,
            age_anon_ms: ms(holder.age(Kind::Anon)),
            age_file_ms: ms(holder.age(Kind::File)),
        };
    }

    pub(super) fn keep_moment(&mut self) {
        self.told.over_time.push(self.told.at_end);
    }

    pub(super) fn told(self, group: u16, cost: &CostModel) -> GuardedGroup {
        let mean = |sum: u64| sum / self.nr_looks.max(1) * PAGE_BYTES;
        let (resident, away) = (mean(self.nr_resident_pages), mean(self.nr_away_pages));
        let [nr_anon, nr_file] = self.told.faults;
        GuardedGroup {
            group,
            footprint_mean_bytes: resident + away,
            resident_mean_bytes: resident,
            away_mean_bytes: away,
            fault_ns: cost.refaults_ns(nr_anon, nr_file),
            ..self.told
        }
    }
}
