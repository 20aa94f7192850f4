//! The coldest first: what `strata run` evicts by default, played on a trace.
//!
//! Generations know when a page was last accessed; heat (`strata_lru::Heat`) knows in how many of the
//! last walks. While pages have to go there is a walk every 250 ms of the trace's clock, each ranks the
//! coldest pages, and these are tried in that order. Where all that were ranked have been tried there
//! is a walk after 50 ms already; till then the generations choose.
//!
//! ```text
//!   reclaim --walk due?--> walk: heat of every page, twice as many ranked as went since the last one
//!      +----> take the coldest that are ranked --accessed since?--> spared
//!      +----> none left: as without heat (`reclaim`)
//! ```
//!
//! Simpler than a live run: a walk takes no time and reaches all processes, and the program goes no
//! slower for its refaults, so that there are not more walks for the same accesses.
//!
//! **Owns** the heat of each page, when there is a walk for it, and the ranking. **Does not own** what
//! becomes of pages that are tried (`reclaim`), or the moving average (`strata-lru`).
//!
//! **Invariants** I1: an access counts once in the walk after it, whoever has cleared its bit.

use std::collections::VecDeque;

use strata_lru::{
    Cheapest, Cost, FolioId, GroupId, HEAT_WALK_MS, HEAT_WALK_MS_MIN, Heat, NR_RANKED_PAGES_MIN,
    Order, Policy, Swappiness, TimeMs,
};

use super::{Machine, bits::Bits, layout::Layout};
use crate::simulate::SimError;

/// Between two walks at least this part of memory is expected to have to go.
const MEMORY_PER_EXCESS: u64 = 64;

/// Heat, and who is next.
#[derive(Debug)]
pub(super) struct ColdFirst {
    /// By slot, in memory or not.
    heats: Vec<Heat>,
    /// Accessed since the last walk, but the bit was cleared by a look.
    seen: Bits,
    ranked: VecDeque<FolioId>,
    nr_taken_pages: u64,
    walked_at: Option<TimeMs>,
}

impl ColdFirst {
    /// Nothing seen yet.
    pub(super) fn new(layout: &Layout) -> ColdFirst {
        ColdFirst {
            heats: vec![Heat::NONE; layout.nr_slots() as usize],
            seen: Bits::new(layout.nr_slots()),
            ranked: VecDeque::new(),
            nr_taken_pages: 0,
            walked_at: None,
        }
    }

    /// A page was found accessed, and its bit cleared.
    pub(super) fn note_accessed(&mut self, slot: u32) {
        self.seen.set(slot);
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let heats = self.heats.capacity() * size_of::<Heat>();
        let ranked = self.ranked.capacity() * size_of::<FolioId>();
        (heats + ranked) as u64 + self.seen.memory_bytes()
    }

    fn is_walk_due(&self, now: TimeMs) -> bool {
        let pause_ms = match self.ranked.is_empty() {
            true => HEAT_WALK_MS_MIN,
            false => HEAT_WALK_MS,
        };
        self.walked_at
            .is_none_or(|then| now.since(then) >= pause_ms)
    }
}

impl<P: Policy> Machine<'_, P> {
    /// Frees so many of the coldest pages, or as many as are ranked; how many.
    pub(super) fn reclaim_cold(&mut self, group: GroupId, goal: u64) -> Result<u64, SimError> {
        let Some(cold) = &self.cold else {
            return Ok(0);
        };
        if cold.is_walk_due(self.now) {
            self.walk_and_rank(group, self.setup.swappiness)?;
        }
        let mut nr_freed = 0;
        while nr_freed < goal {
            let Some(cold) = &mut self.cold else { break };
            let mut coldest = std::iter::from_fn(|| cold.ranked.pop_front());
            let nr_pages = self.policy.isolate_chosen(
                &mut coldest,
                goal - nr_freed,
                self.setup.swappiness,
                self.now,
                &mut self.batch,
            );
            if nr_pages == 0 {
                break;
            }
            cold.nr_taken_pages += nr_pages;
            nr_freed += self.try_batch();
        }
        Ok(nr_freed)
    }

    /// Walks every table, keeps the heat of all pages, begins a generation and ranks the coldest.
    pub(super) fn walk_and_rank(
        &mut self,
        group: GroupId,
        swappiness: Swappiness,
    ) -> Result<(), SimError> {
        if let Some(cold) = &mut self.cold {
            for (heat, slot) in cold.heats.iter_mut().zip(0..) {
                let is_accessed = self.memory.accessed.get(slot) || cold.seen.get(slot);
                *heat = heat.after_walk(is_accessed);
            }
            cold.seen.clear_all();
            cold.walked_at = Some(self.now);
        }
        for table in self.layout.tables() {
            self.visit(table);
        }
        self.policy.finish_walk(group, swappiness, self.now)?;
        self.rank(swappiness);
        Ok(())
    }

    /// Ranks twice as many pages as were taken since the last walk, and what is expected on top.
    fn rank(&mut self, swappiness: Swappiness) {
        let Some(cold) = &mut self.cold else { return };
        let (policy, memory) = (&self.policy, &self.memory);
        let excess = u64::from(self.setup.memory_pages) / MEMORY_PER_EXCESS;
        let nr_pages = 2 * (std::mem::take(&mut cold.nr_taken_pages) + excess);
        let mut cheapest = Cheapest::new(nr_pages.max(NR_RANKED_PAGES_MIN));
        let with_heat = cold.heats.iter().zip(0..);
        let resident = with_heat.filter_map(|(heat, slot)| {
            let folio = memory.folio(slot)?;
            Some((folio, heat.cost(policy.kind(folio), swappiness)))
        });
        let resident: Vec<(FolioId, Cost)> = resident.collect();
        for (_, cost) in &resident {
            cheapest.count(*cost, Order::BASE.nr_pages());
        }
        for (folio, cost) in resident {
            cheapest.offer(folio, cost);
        }
        cold.ranked = cheapest.into_folios().into();
    }
}

#[cfg(test)]
mod tests {
    use strata_trace::{Access, Backing, PageKey, Via};

    use crate::{NoProgress, PolicySpec, Setup, SimError, Simulate, Workload};

    const NR_HOT: u64 = 6000;
    const NR_SCANNED: u64 = 600;

    /// Every 50 ms an eighth of the hot pages, each time others, and the next of 60,000 more in turn.
    fn hot_beside_a_scan() -> Workload {
        let access = |time: u64, page| Access {
            key: PageKey { space: 0, page },
            time_us: time * 50_000,
            backing: Backing::Anon,
            via: Via::PageTable,
            ..Access::default()
        };
        let of_interval = |time: u64| {
            let mixed = move |page: u64| (page << 20 ^ time).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let hot = (0..NR_HOT).filter(move |page| mixed(mixed(*page)) >> 61 == 0);
            let scan = (0..NR_SCANNED).map(move |n| NR_HOT + (time * NR_SCANNED + n) % 60_000);
            hot.chain(scan).map(move |page| access(time + 1, page))
        };
        Workload::from_accesses("hot", (0..200).flat_map(of_interval)).unwrap()
    }

    fn misses(policy: &str, workload: &Workload, memory_pages: u32) -> u64 {
        let policy: PolicySpec = policy.parse().unwrap();
        let setup = Setup::with_memory(memory_pages);
        policy.run(workload, &setup, &NoProgress).unwrap().nr_misses
    }

    #[test]
    fn what_is_wanted_again_and_again_outlives_what_passes_through() {
        let workload = hot_beside_a_scan();
        // Nothing of the scan is there any more when it comes round.
        let nr_scanned = 200 * NR_SCANNED;
        let [by_heat, by_recency] = ["mglru+heat", "lru"].map(|policy| {
            let nr_misses = misses(policy, &workload, 10_000);
            nr_misses.saturating_sub(nr_scanned + NR_HOT)
        });
        assert!(by_heat < by_recency / 2, "{by_heat} against {by_recency}");
    }

    #[test]
    fn without_times_it_still_evicts() {
        let access = |at: u64| Access {
            key: PageKey {
                space: 0,
                page: at % 1000,
            },
            via: Via::PageTable,
            ..Access::default()
        };
        let workload = Workload::from_accesses("loop", (0..10_000).map(access)).unwrap();
        assert!(misses("mglru+heat", &workload, 700) > 1000);
    }

    #[test]
    fn neither_tiers_nor_groups_are_played() {
        let (workload, policy) = (hot_beside_a_scan(), "mglru+heat");
        let policy: PolicySpec = policy.parse().unwrap();
        let tiers = Setup {
            tiers: Some("25:75".parse().unwrap()),
            ..Setup::with_memory(700)
        };
        let groups = Setup {
            groups: vec!["a:max=300".parse().unwrap()],
            ..Setup::with_memory(700)
        };
        let run = |setup| policy.run(&workload, &setup, &NoProgress).unwrap_err();
        assert_eq!(run(tiers), SimError::NoTiers("mglru+heat"));
        assert_eq!(run(groups), SimError::NoGroups);
    }
}
