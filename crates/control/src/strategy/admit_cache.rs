//! Which page cache that comes in stays: in a load that memory is too small for, most newcomers go again at once.
//!
//! ```text
//!   usage near the budget   -> look at what came in, at a pace: how much of it had been in memory before
//!   much of it had been, all at about the same distance -> while something has to go, newcomers go
//! ```
//!
//! Files that are read again and again and do not fit push each other out: the kernel takes the pages that were read longest ago,
//! and in a loop these are the ones that are read next. A loop is known by its pages coming back after about as much else
//! came in as for all others. Keeping what is there and dropping what comes in keeps a part of the loop in memory. A share of
//! the newcomers stays, so that memory follows the load: pages that are read often come in often, and have more chances to stay.
//!
//! Where pages come back at any distance, as in reads by a Zipf law or all over a file, the kernel's order is as good, and
//! dropping costs more CPU time than it saves.
//!
//! Source: q-LRU (Garetto, Leonardi and Martina, "A unified approach to the performance analysis of caching systems", 2016)
//! and bimodal insertion (Qureshi et al., "Adaptive insertion policies for high performance caching", 2007). These admit when a
//! page comes in. Here a newcomer is in memory already, so it goes a moment later, after it was read.
//!
//! **Owns** when newcomers are looked at, whether they go, and how much. **Does not own** which of them stay and which go
//! (`page_cache::newcomers`), nor how much has to go (`pressure`).
//!
//! **Invariants** I1: nothing is dropped unless something has to go. I2: no more is asked for than the last look found.

use crate::cache_moment::{Ask, Moment};
use crate::plan::Action;
use crate::sample::CameIn;
use crate::tunables::config;
use strata_lru::TimeMs;

config! {
    /// Which page cache that comes in stays.
    "admit_cache"

    /// Newcomers go while more than this share of what comes in had been in memory before; until it is less than half of this.
    returned_percent_min: u64 = 30, 1..=100, "percent of what comes in";
    /// Newcomers go while the distances at which pages come back deviate from their mean by no more than this; until they
    /// deviate by half as much again. In a loop of always the same order it is next to nothing, in one of another order each time 41.
    deviation_percent_max: u64 = 55, 1..=1000, "percent of the mean";
    /// So much of what comes in stays all the same.
    admitted_percent: u64 = 12, 0..=100, "percent of what comes in";
    /// What came in is remembered until so many times the budget has come in after it.
    remembered_budgets: u64 = 4, 1..=64, "times the budget";
}

/// While usage is near the budget, what came in is looked at this often, milliseconds: more often than newcomers become old
/// enough to go.
const LOOK_MS: u64 = 20;
/// A newcomer goes after so long at the earliest, milliseconds, so that whoever wanted it has read it. One that nobody has read
/// by then waits again.
pub const NEWCOMER_MS: u64 = 50;
/// A page that has been in memory for so long is no newcomer any more, milliseconds: a slow reader is seconds behind readahead. A
/// loop of which too little came in for so long to tell is none any more either.
pub const SETTLED_MS: u64 = 10_000;
/// At most so much is dropped at once, bytes, so that one step does not take long; the next tick has the rest.
const DROP_BYTES_MAX: u64 = 64 << 20;
/// The share of what had been in memory is that of the last so much that came in, 1/n of the budget: enough that one file in many
/// does not decide, and little enough that a loop is noticed early in its second round.
const JUDGED_SHARE: u64 = 10;

const ALL_PERCENT: u64 = 100;

/// Says whether newcomers go.
#[derive(Debug, Default)]
pub(crate) struct AdmitCache {
    config: Config,
    looked_at: Option<TimeMs>,
    /// What came in of late. Sums are halved when they have grown too large; what may go is less what was asked to be dropped since.
    late: CameIn,
    /// Asked to be dropped and not answered yet, as far as it is expected to go.
    going_bytes: u64,
    /// When enough had come in to tell a loop.
    judged_at: TimeMs,
    /// Whether newcomers go.
    is_on: bool,
}

impl AdmitCache {
    /// Nothing seen yet.
    pub(crate) fn new(config: Config) -> AdmitCache {
        AdmitCache {
            config,
            ..AdmitCache::default()
        }
    }

    /// Whether newcomers go because files are read in a loop.
    pub(crate) fn is_loop(&self) -> bool {
        self.is_on
    }

    /// Takes in what came, and says what is to be done.
    pub(crate) fn tick(&mut self, moment: &Moment, came_in: Option<CameIn>, is_busy: bool) -> Ask {
        if let Some(came_in) = came_in {
            self.take(moment, came_in);
        }
        if moment.now.since(self.judged_at) >= SETTLED_MS {
            self.is_on = false;
        }
        if is_busy || !moment.may_act {
            return self.ask(moment, Vec::new());
        }
        self.going_bytes = 0;
        let wanted_bytes = match self.is_on {
            true => moment.excess_bytes.min(self.late.ripe_bytes),
            false => 0,
        };
        let bytes = wanted_bytes.min(DROP_BYTES_MAX);
        if bytes > 0 {
            self.late.ripe_bytes -= bytes;
            self.going_bytes = self.expected_bytes(bytes);
            return self.ask(moment, vec![Action::DropNewcomers { bytes }]);
        }
        let is_due = |at: TimeMs| moment.now.since(at) >= LOOK_MS;
        if moment.is_near && self.looked_at.is_none_or(is_due) {
            self.looked_at = Some(moment.now);
            let budget_bytes = moment.budget_bytes;
            let history_bytes = budget_bytes.saturating_mul(self.config.remembered_budgets);
            return self.ask(moment, vec![Action::LookAtNewcomers { history_bytes }]);
        }
        self.ask(moment, Vec::new())
    }

    /// How much of what is asked for will go, by what went of late.
    fn expected_bytes(&self, bytes: u64) -> u64 {
        match self.late.tried_bytes {
            0 => bytes,
            tried => {
                (u128::from(bytes) * u128::from(self.late.gone_bytes) / u128::from(tried)) as u64
            }
        }
    }

    fn ask(&self, moment: &Moment, actions: Vec<Action>) -> Ask {
        Ask {
            actions,
            going_bytes: match moment.is_urgent {
                true => 0,
                false => self.going_bytes.min(moment.excess_bytes),
            },
        }
    }

    fn take(&mut self, moment: &Moment, came_in: CameIn) {
        // What was asked for has gone or stayed by now.
        self.going_bytes = 0;
        self.late.ripe_bytes = came_in.ripe_bytes;
        self.late.tried_bytes += came_in.tried_bytes;
        self.late.gone_bytes += came_in.gone_bytes.min(came_in.tried_bytes);
        self.late.in_bytes += came_in.in_bytes;
        self.late.returned_bytes += came_in.returned_bytes.min(came_in.in_bytes);
        self.late.distances.add(came_in.distances);
        let budget_bytes = moment.budget_bytes;
        let judged_bytes = budget_bytes / JUDGED_SHARE;
        if self.late.in_bytes < judged_bytes / 2 {
            return;
        }
        self.judged_at = moment.now;
        self.is_on = self.judge(budget_bytes);
        while self.late.in_bytes > judged_bytes.max(1) {
            self.late.in_bytes /= 2;
            self.late.returned_bytes /= 2;
            self.late.tried_bytes /= 2;
            self.late.gone_bytes /= 2;
            self.late.distances.halve();
        }
    }

    /// Whether what came in of late is that of a loop.
    fn judge(&self, budget_bytes: u64) -> bool {
        let percent =
            self.late.returned_bytes.saturating_mul(ALL_PERCENT) / self.late.in_bytes.max(1);
        let percent_min = self.config.returned_percent_min;
        let deviation_percent = self.late.distances.deviation_percent();
        let deviation_percent_max = self.config.deviation_percent_max;
        match self.is_on {
            true => {
                percent >= percent_min / 2
                    && deviation_percent <= deviation_percent_max + deviation_percent_max / 2
            }
            // What comes back sooner would have stayed in memory, had nobody thrown it away: a file is written anew, for
            // example.
            false => {
                percent >= percent_min
                    && deviation_percent <= deviation_percent_max
                    && self.late.distances.mean_bytes() >= budget_bytes / 2
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Distances;
    use crate::watermarks::Watermarks;

    const MIB: u64 = 1 << 20;

    struct Loop {
        marks: Watermarks,
        of: AdmitCache,
        now: TimeMs,
        distances: Distances,
    }

    impl Loop {
        fn new() -> Loop {
            Loop {
                marks: Watermarks::new(400 * MIB, &crate::watermarks::Config::DEFAULT),
                of: AdmitCache::new(Config::DEFAULT),
                now: TimeMs(0),
                distances: {
                    let mut steady = Distances::default();
                    steady.note(256, 480);
                    steady
                },
            }
        }

        fn at(&mut self, usage_bytes: u64, excess_mib: u64, came_in: Option<CameIn>) -> Ask {
            self.now.0 += 10;
            let moment = Moment {
                now: self.now,
                is_near: usage_bytes > self.marks.approach_bytes,
                is_urgent: usage_bytes > self.marks.urgent_bytes,
                budget_bytes: self.marks.budget_bytes,
                excess_bytes: excess_mib * MIB,
                may_act: true,
            };
            self.of.tick(&moment, came_in, false)
        }

        /// A look has found this; so much has to go.
        fn find(&mut self, came_in: [u64; 3], excess_mib: u64) -> Ask {
            let [in_bytes, returned_bytes, ripe_bytes] = came_in.map(|mib| mib * MIB);
            let came_in = CameIn {
                in_bytes,
                returned_bytes,
                ripe_bytes,
                distances: self.distances,
                ..CameIn::default()
            };
            self.at(self.marks.high_bytes, excess_mib, Some(came_in))
        }
    }

    fn dropped_mib(ask: &Ask) -> u64 {
        let dropped = ask.actions.iter().map(|action| match action {
            Action::DropNewcomers { bytes } => bytes / MIB,
            _ => 0,
        });
        dropped.sum()
    }

    #[test]
    fn newcomers_go_while_much_of_what_comes_in_had_been_in_memory_before() {
        let mut of = Loop::new();
        assert_eq!(dropped_mib(&of.find([50, 0, 50], 10)), 0, "a first pass");
        let ask = of.find([50, 50, 60], 10);
        assert_eq!((dropped_mib(&ask), ask.going_bytes), (10, 10 * MIB));
        // Less than before, but more than half of what it takes to begin.
        assert_eq!(dropped_mib(&of.find([400, 80, 60], 10)), 10);
        assert_eq!(dropped_mib(&of.find([400, 20, 60], 10)), 0);
    }

    /// Pages that come back at these distances, in turns.
    fn at_distances(distances_mib: impl IntoIterator<Item = u64>) -> Loop {
        let mut of = Loop::new();
        of.distances = Distances::default();
        for distance_mib in distances_mib {
            of.distances.note(256, distance_mib);
        }
        of
    }

    #[test]
    fn newcomers_go_in_a_loop_of_any_order_and_not_where_pages_come_back_at_any_distance() {
        let steady = || at_distances((0..100).map(|at| 480 + at % 8));
        assert_eq!(dropped_mib(&steady().find([50, 50, 60], 10)), 10);
        // Another order each time: the place in one pass less the one in the pass before.
        let shuffled =
            (0..100).flat_map(|at| (0..100).map(move |before| 500 + 5 * at - 5 * before));
        assert_eq!(
            dropped_mib(&at_distances(shuffled).find([50, 50, 60], 10)),
            10
        );
        // Steady, and so soon that the kernel can't have evicted them: somebody else throws them away.
        let soon = (0..100).map(|at| 20 + at % 2);
        assert_eq!(dropped_mib(&at_distances(soon).find([50, 50, 60], 10)), 0);
        // As likely at any time, as in reads all over a file.
        let any = (1..400).map(|at| (-500.0 * (f64::from(at) / 400.0).ln()) as u64);
        assert_eq!(dropped_mib(&at_distances(any).find([50, 50, 60], 10)), 0);
    }

    #[test]
    fn little_that_comes_in_decides_nothing() {
        let mut of = Loop::new();
        assert_eq!(dropped_mib(&of.find([10, 10, 10], 10)), 0);
        assert_eq!(dropped_mib(&of.find([15, 15, 10], 10)), 10);
    }

    #[test]
    fn no_more_goes_than_has_to_and_than_was_found() {
        let mut of = Loop::new();
        assert_eq!(dropped_mib(&of.find([50, 50, 60], 0)), 0);
        assert_eq!(dropped_mib(&of.find([50, 50, 6], 10)), 6);
        // They are on their way; what is left of the excess is for others.
        let usage_bytes = of.marks.high_bytes;
        let ask = of.at(usage_bytes, 4, None);
        assert_eq!((dropped_mib(&ask), ask.going_bytes), (0, 0));
    }

    #[test]
    fn no_more_is_claimed_than_went_of_what_was_asked_for_of_late() {
        let mut of = Loop::new();
        of.find([50, 50, 60], 0);
        let tried = CameIn {
            tried_bytes: 40 * MIB,
            gone_bytes: 10 * MIB,
            ripe_bytes: 60 * MIB,
            ..CameIn::default()
        };
        let usage_bytes = of.marks.high_bytes;
        let ask = of.at(usage_bytes, 20, Some(tried));
        assert_eq!((dropped_mib(&ask), ask.going_bytes), (20, 5 * MIB));
    }

    #[test]
    fn a_loop_is_over_once_nothing_has_come_in_for_long() {
        let mut of = Loop::new();
        of.find([50, 50, 60], 0);
        assert!(of.of.is_loop());
        of.now.0 += SETTLED_MS;
        let usage_bytes = of.marks.high_bytes;
        assert_eq!(dropped_mib(&of.at(usage_bytes, 10, None)), 0);
        assert!(!of.of.is_loop());
    }

    #[test]
    fn others_take_all_that_has_to_go_where_it_is_urgent() {
        let mut of = Loop::new();
        of.find([50, 50, 60], 0);
        let usage_bytes = of.marks.urgent_bytes + MIB;
        let ask = of.at(usage_bytes, 10, None);
        assert_eq!((dropped_mib(&ask), ask.going_bytes), (10, 0));
    }

    #[test]
    fn looks_come_at_a_pace_and_near_the_budget_only() {
        let mut of = Loop::new();
        let near_bytes = of.marks.approach_bytes + MIB;
        let asked = |ask: Ask| ask.actions.len();
        assert_eq!(asked(of.at(of.marks.approach_bytes, 0, None)), 0);
        let asked: Vec<usize> = (0..6).map(|_| asked(of.at(near_bytes, 0, None))).collect();
        assert_eq!(asked, [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn nothing_is_asked_of_a_thread_that_is_busy_nor_in_a_dry_run() {
        let mut of = Loop::new();
        of.find([50, 50, 60], 0);
        let mut moment = Moment {
            now: TimeMs(1000),
            is_near: of.marks.high_bytes > of.marks.approach_bytes,
            is_urgent: of.marks.high_bytes > of.marks.urgent_bytes,
            budget_bytes: of.marks.budget_bytes,
            excess_bytes: MIB,
            may_act: true,
        };
        assert!(of.of.tick(&moment, None, true).actions.is_empty());
        moment.may_act = false;
        assert!(of.of.tick(&moment, None, false).actions.is_empty());
    }
}
