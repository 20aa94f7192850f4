//! Page cache that nobody has mapped and that was read once: it goes before anything else.
//!
//! ```text
//!   usage near the budget -> census, at a pace -> per file: how much lies idle, how much of what was dropped came back
//!   something has to go   -> drop from the file of which least came back
//! ```
//!
//! A page that was read once and not since the census before is *idle, read once*: a stream leaves such pages behind. One
//! that was read again goes only when the first kind does not suffice, and after a longer time. The kernel tells no refault of
//! dropped pages, so whoever drops them looks at each census which have come back. A file of which many come back is left to
//! the kernel until that is forgotten. Pages of a tier (how often they were read) stay, and of all tiers above it, while clearly
//! more of that tier comes back than of what was read once: that is the kernel's rule (MGLRU).
//!
//! The kernel takes both kinds from the same lists, and the active pages with them when a stream has grown long. Which
//! files are streams it does not ask: that is where this differs.
//!
//! **Owns** when a census is due, up to which tier pages may go, and how much is dropped of which file. **Does not own** which pages
//! those are (the oldest first, whoever carries it out), nor how much has to go (`pressure`).
//!
//! **Invariants** I1: nothing is dropped unless something has to go. I2: censuses of known files take at most [`Config::cpu_percent`]
//! of a processor, and come ever more seldom while they find nothing new. I3: of a file, no more is asked for than a census found
//! idle.

use crate::backoff::Backoff;
use crate::cache_moment::{Ask, Moment};
use crate::plan::Action;
use crate::sample::{CacheLook, CacheSample, FileCache, PAGE_BYTES, Reads};
use crate::tunables::config;
use std::cmp::Reverse;
use strata_lru::machine::FILE_BYTES_MIN;
use strata_lru::{Controller, Kind, TierGains, TimeMs};

config! {
    /// When page cache is looked at, and how much of it is dropped.
    "drop_cache"

    /// While usage is near the budget a census of the group's page cache comes this often. A page that one census
    /// finds read and the next finds unread since is idle, so a stream holds what it reads in twice this time.
    census_ms: u64 = 100, 20..=10_000, "ms";
    /// Censuses come more seldom where they would take more than this much of a processor.
    cpu_percent: u64 = 5, 1..=50, "percent of a processor";
    /// A file of which more than this share came back is left alone, as dropping its pages costs reads.
    returned_percent_max: u64 = 20, 1..=100, "percent of what was dropped";
    /// A file of which more than this share was read again is no stream: which of its pages go the kernel decides, until they
    /// were not read for long.
    reused_percent_max: u64 = 10, 1..=100, "percent of what is in memory";
    /// A page that readahead brought and that nobody has read yet goes after so long: a slow reader is seconds behind
    /// readahead.
    unread_idle_ms: u64 = 10_000, 1000..=600_000, "ms";
    /// A page that was read again goes after it was not read for so long, unless pages of its tier come back too often.
    again_idle_ms: u64 = 60_000, 1000..=86_400_000, "ms";
}

/// While censuses find nothing new, or only pages of files of which nothing that was read once is dropped, the next one comes
/// after a first pause of so long, which doubles each time, milliseconds: longer than [`Config::census_ms`], so that the first one
/// is a pause.
const VAIN_MS: u64 = 250;
/// So much has to have been dropped of a file before its share counts, bytes: of this, what the kernel reads ahead at once (128 KiB)
/// is less than the share that is tolerated.
const JUDGED_BYTES_MIN: u64 = 1 << 20;
/// What was dropped counts for so long, milliseconds; then the file is tried again. What comes back later lay unread for as long as
/// what goes by [`Config::again_idle_ms`].
pub const REMEMBERED_MS: u64 = 60_000;
/// At most so much is dropped at once, bytes, so that one step does not take long; the next tick has the rest.
const DROP_BYTES_MAX: u64 = 128 << 20;

/// A page is idle at the second census that finds it, at the earliest.
const CENSUSES_TO_IDLE: u64 = 2;
const ALL_PERCENT: u64 = 100;
/// Files of which pages are dropped at once, at most.
const DROPS_MAX: usize = 32;

/// Drops what was read once.
#[derive(Debug)]
pub(crate) struct DropCache {
    config: Config,
    /// What the last census found, less what was asked to be dropped since.
    found: Option<CacheSample>,
    /// When the last census was asked for.
    asked_at: Option<TimeMs>,
    /// Asked to be dropped and not answered yet.
    going_bytes: u64,
    /// Whether what lay idle was enough when something last had to go.
    is_enough: bool,
    vain: Backoff,
}

impl DropCache {
    /// Nothing seen yet.
    pub(crate) fn new(config: Config) -> DropCache {
        DropCache {
            config,
            found: None,
            asked_at: None,
            going_bytes: 0,
            is_enough: false,
            vain: Backoff::new(VAIN_MS),
        }
    }

    /// Takes in what was seen, and says what is to be done.
    pub(crate) fn tick(&mut self, moment: Moment, look: CacheLook) -> Ask {
        if let Some(found) = look.found {
            self.take_census(moment.now, found);
        }
        if look.is_busy {
            return Ask {
                actions: Vec::new(),
                going_bytes: self.going(&moment),
            };
        }
        self.going_bytes = 0;
        if !moment.may_act {
            self.is_enough = false;
            return Ask::default();
        }
        let mut actions = match moment.excess_bytes {
            0 => {
                self.is_enough = false;
                Vec::new()
            }
            excess_bytes => self.drop(excess_bytes),
        };
        if actions.is_empty() && moment.is_near && self.is_census_due(moment.now) {
            self.asked_at = Some(moment.now);
            actions.push(Action::TakeCensus);
        }
        Ask {
            actions,
            going_bytes: self.going(&moment),
        }
    }

    fn take_census(&mut self, now: TimeMs, found: CacheSample) {
        let is_first = self.found.is_none();
        let mut streams = found
            .files
            .iter()
            .filter(|of| may_drop(of, Reads::Once, &self.config))
            .peekable();
        // New pages of files of which nothing that was read once is dropped are no reason to look again soon.
        let has_no_stream = !found.files.is_empty() && streams.peek().is_none();
        let is_new = found.new_bytes > 0 && !has_no_stream;
        let has_idle = streams.any(|of| of.once_idle_bytes > 0);
        match is_first || is_new || has_idle {
            true => self.vain.succeeded(),
            false => self.vain.failed(now),
        }
        self.found = Some(found);
    }

    /// How much of the excess is left to what is dropped: what is on its way, and all of it while the thread is busy if the last
    /// drop asked for enough. Nothing where it is urgent, as what is asked for may not go.
    fn going(&self, moment: &Moment) -> u64 {
        match (moment.is_urgent, self.is_enough) {
            (true, _) => 0,
            (false, true) => moment.excess_bytes,
            (false, false) => self.going_bytes.min(moment.excess_bytes),
        }
    }

    fn is_census_due(&self, now: TimeMs) -> bool {
        let cpu_ns = self.found.as_ref().map_or(0, |found| found.cpu_ns);
        let pace_ms = cpu_ns * ALL_PERCENT / self.config.cpu_percent / 1_000_000;
        let pause_ms = pace_ms.max(self.config.census_ms);
        let is_over = self.asked_at.is_none_or(|at| now.since(at) >= pause_ms);
        is_over && !self.vain.holds(now)
    }

    /// What is to be dropped of which file: first of all what was read once.
    fn drop(&mut self, excess_bytes: u64) -> Vec<Action> {
        let Some(found) = &mut self.found else {
            return Vec::new();
        };
        // What comes in until the next census finds it idle needs room, too.
        let ahead_bytes = found.new_bytes.saturating_mul(CENSUSES_TO_IDLE);
        let wanted_bytes = (excess_bytes + ahead_bytes).min(DROP_BYTES_MAX);
        let config = self.config;
        let files = found.files.iter_mut();
        let mut files: Vec<&mut FileCache> = files.collect();
        files.sort_by_key(|of| {
            let returned = percent(of.returned_bytes, of.dropped_bytes);
            (returned, Reverse(of.once_idle_bytes))
        });
        let mut actions = Vec::new();
        let mut all_bytes = 0;
        for (reads, wanted_bytes) in [(Reads::Once, wanted_bytes), (Reads::Again, excess_bytes)] {
            for file in files.iter_mut().filter(|of| may_drop(of, reads, &config)) {
                let idle_bytes = idle_bytes_mut(file, reads);
                let bytes = wanted_bytes.saturating_sub(all_bytes).min(*idle_bytes);
                let is_full = actions.len() >= DROPS_MAX;
                if bytes == 0 || *idle_bytes < FILE_BYTES_MIN || is_full {
                    continue;
                }
                *idle_bytes -= bytes;
                all_bytes += bytes;
                let number = file.file.0;
                actions.push(match reads {
                    Reads::Once => Action::DropReadOnce {
                        file: number,
                        bytes,
                    },
                    Reads::Again => Action::DropReadAgain {
                        file: number,
                        bytes,
                    },
                });
            }
        }
        self.going_bytes = all_bytes;
        self.is_enough = all_bytes >= excess_bytes;
        actions
    }
}

fn idle_bytes_mut(of: &mut FileCache, reads: Reads) -> &mut u64 {
    match reads {
        Reads::Once => &mut of.once_idle_bytes,
        Reads::Again => &mut of.again_idle_bytes,
    }
}

/// The last tier of which pages may go, by what has left memory and come back of each. The first one always may.
pub(crate) fn last_tier(tiers: &Controller, nr_tiers: usize) -> usize {
    tiers.last_evictable_tier(Kind::File, TierGains::LATEST, nr_tiers)
}

/// How much of what was dropped came back.
fn percent(returned: u64, dropped: u64) -> u64 {
    returned.saturating_mul(ALL_PERCENT) / dropped.max(1)
}

/// Whether too much of what was dropped of a file came back, pages.
pub(crate) fn comes_back(nr_dropped_pages: u64, nr_returned_pages: u64, config: &Config) -> bool {
    let is_judged = nr_dropped_pages * PAGE_BYTES >= JUDGED_BYTES_MIN;
    is_judged && percent(nr_returned_pages, nr_dropped_pages) > config.returned_percent_max
}

/// Whether much of what is in memory of a file was read again: then what was read once so far may be, too.
fn is_reused(of: &FileCache, config: &Config) -> bool {
    of.reused_bytes.saturating_mul(ALL_PERCENT) > of.cached_bytes * config.reused_percent_max
}

/// Which pages of a file may go.
fn may_drop(of: &FileCache, reads: Reads, config: &Config) -> bool {
    let (dropped, returned) = (of.dropped_bytes, of.returned_bytes);
    let comes_back = comes_back(dropped / PAGE_BYTES, returned / PAGE_BYTES, config);
    !comes_back && (reads == Reads::Again || !is_reused(of, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::FileNo;
    use crate::watermarks::Watermarks;

    const MIB: u64 = 1 << 20;

    fn file(number: u32, once_idle_mib: u64) -> FileCache {
        FileCache {
            file: FileNo(number),
            cached_bytes: 100 * MIB,
            once_idle_bytes: once_idle_mib * MIB,
            again_idle_bytes: 0,
            reused_bytes: 0,
            dropped_bytes: 0,
            returned_bytes: 0,
        }
    }

    fn returned(of: FileCache, dropped_mib: u64, returned_mib: u64) -> FileCache {
        FileCache {
            dropped_bytes: dropped_mib * MIB,
            returned_bytes: returned_mib * MIB,
            ..of
        }
    }

    struct Loop {
        marks: Watermarks,
        of: DropCache,
    }

    impl Loop {
        fn new() -> Loop {
            Loop {
                marks: Watermarks::new(320 * MIB, &crate::watermarks::Config::DEFAULT),
                of: DropCache::new(Config::DEFAULT),
            }
        }

        fn moment(&self, ms: u64, excess_mib: u64) -> Moment {
            let usage_bytes = self.marks.low_bytes + excess_mib * MIB;
            Moment {
                now: TimeMs(ms),
                is_near: usage_bytes > self.marks.approach_bytes,
                is_urgent: usage_bytes > self.marks.urgent_bytes,
                budget_bytes: self.marks.budget_bytes,
                excess_bytes: excess_mib * MIB,
                may_act: true,
            }
        }

        fn tick(&mut self, ms: u64, excess_mib: u64, look: CacheLook) -> Ask {
            self.of.tick(self.moment(ms, excess_mib), look)
        }

        fn find(&mut self, ms: u64, excess_mib: u64, new_mib: u64, files: Vec<FileCache>) -> Ask {
            let look = CacheLook {
                found: Some(sample(new_mib, files)),
                ..CacheLook::default()
            };
            self.tick(ms, excess_mib, look)
        }

        fn busy(&mut self, ms: u64, excess_mib: u64) -> Ask {
            let look = CacheLook {
                is_busy: true,
                ..CacheLook::default()
            };
            self.tick(ms, excess_mib, look)
        }

        /// When censuses are taken within ten seconds, each of which finds this.
        fn censuses(&mut self, from_ms: u64, found: &CacheSample) -> Vec<u64> {
            let mut at = Vec::new();
            for ms in (from_ms..from_ms + 10_000).step_by(5) {
                if self.tick(ms, 0, CacheLook::default()).actions == [Action::TakeCensus] {
                    at.push(ms);
                    let look = CacheLook {
                        found: Some(found.clone()),
                        ..CacheLook::default()
                    };
                    self.tick(ms, 0, look);
                }
            }
            at
        }
    }

    fn sample(new_mib: u64, files: Vec<FileCache>) -> CacheSample {
        CacheSample {
            cpu_ns: 1_000_000,
            new_bytes: new_mib * MIB,
            files,
        }
    }

    fn dropped(ask: &Ask) -> Vec<(u32, u64)> {
        let actions = ask.actions.iter();
        let drops = actions.filter_map(|action| match action {
            Action::DropReadOnce { file, bytes } | Action::DropReadAgain { file, bytes } => {
                Some((*file, bytes / MIB))
            }
            _ => None,
        });
        drops.collect()
    }

    #[test]
    fn without_pressure_nothing_is_dropped_and_far_from_the_budget_nobody_looks() {
        let mut of = Loop::new();
        of.marks.approach_bytes = of.marks.low_bytes + 1;
        assert_eq!(of.tick(0, 0, CacheLook::default()), Ask::default());
        of.marks.approach_bytes = 0;
        let ask = of.tick(5, 0, CacheLook::default());
        assert_eq!(ask.actions, [Action::TakeCensus]);
        assert_eq!(dropped(&of.find(10, 0, 4, vec![file(1, 50)])), []);
    }

    #[test]
    fn once_nothing_has_to_go_a_thread_that_is_busy_claims_nothing_of_what_has_to_go_next() {
        let mut of = Loop::new();
        assert_eq!(dropped(&of.find(0, 4, 0, vec![file(1, 50)])), [(1, 4)]);
        assert_eq!(of.busy(10, 2).going_bytes, 2 * MIB);
        of.tick(20, 0, CacheLook::default());
        assert_eq!(of.busy(30, 2).going_bytes, 0);
    }

    #[test]
    fn the_file_of_which_least_came_back_goes_first_and_one_that_comes_back_stays() {
        let mut of = Loop::new();
        let files = vec![
            returned(file(1, 50), 10, 1),
            file(2, 3),
            returned(file(3, 50), 10, 5),
        ];
        let ask = of.find(10, 4, 0, files);
        assert_eq!(dropped(&ask), [(2, 3), (1, 1)]);
        assert_eq!(ask.going_bytes, 4 * MIB, "nobody else has to take anything");
        let ask = of.find(200, 8, 0, vec![returned(file(3, 50), 10, 5)]);
        assert_eq!(dropped(&ask), []);
    }

    #[test]
    fn what_was_read_once_of_a_file_that_is_read_again_is_left_to_the_kernel() {
        let mut of = Loop::new();
        let mut reused = file(1, 50);
        reused.reused_bytes = 11 * MIB;
        assert_eq!(dropped(&of.find(10, 8, 0, vec![reused])), []);
        reused.again_idle_bytes = 5 * MIB;
        assert_eq!(dropped(&of.find(200, 8, 0, vec![reused])), [(1, 5)]);
    }

    #[test]
    fn few_pages_that_came_back_are_no_proof() {
        let mut of = Loop::new();
        let mut little = file(1, 50);
        (little.dropped_bytes, little.returned_bytes) = (MIB / 2, MIB / 2);
        assert_eq!(dropped(&of.find(10, 8, 0, vec![little])), [(1, 8)]);
    }

    #[test]
    fn room_is_made_for_what_streams_in_until_it_is_found_idle() {
        let mut of = Loop::new();
        assert_eq!(dropped(&of.find(10, 2, 6, vec![file(1, 50)])), [(1, 14)]);
    }

    #[test]
    fn what_was_read_again_goes_last_and_no_more_than_has_to_go() {
        let mut of = Loop::new();
        let mut both = file(1, 3);
        both.again_idle_bytes = 50 * MIB;
        let ask = of.find(10, 8, 20, vec![both]);
        let again = Action::DropReadAgain {
            file: 1,
            bytes: 5 * MIB,
        };
        assert_eq!(ask.actions[1..], [again]);
    }

    #[test]
    fn a_tier_stays_with_all_above_it_while_more_of_it_comes_back_than_of_what_was_read_once() {
        let mut tiers = Controller::default();
        assert_eq!(last_tier(&tiers, 4), 3, "nothing is known");
        // Of what was read once a tenth comes back. Up to half as much again is tolerated.
        for (tier, nr_refaulted) in [(0, 1000), (1, 1400), (2, 1600), (3, 0)] {
            tiers.evicted(Kind::File, tier, 10_000);
            tiers.refaulted(Kind::File, tier, nr_refaulted);
        }
        assert_eq!(last_tier(&tiers, 4), 1);
        tiers.refaulted(Kind::File, 1, 200);
        assert_eq!(last_tier(&tiers, 4), 0);
        // More of what was read once comes back, too: it is no better.
        tiers.refaulted(Kind::File, 0, 200);
        assert_eq!(last_tier(&tiers, 4), 3);
    }

    #[test]
    fn what_was_asked_for_is_not_asked_for_again_before_the_next_census() {
        let mut of = Loop::new();
        assert_eq!(dropped(&of.find(10, 8, 0, vec![file(1, 10)])), [(1, 8)]);
        assert_eq!(of.busy(15, 8).actions, []);
        assert_eq!(dropped(&of.tick(20, 8, CacheLook::default())), [(1, 2)]);
        assert_eq!(dropped(&of.tick(25, 8, CacheLook::default())), []);
    }

    #[test]
    fn others_reclaim_what_does_not_lie_idle_and_all_of_it_when_it_is_urgent() {
        let mut of = Loop::new();
        let ask = of.find(10, 4, 0, vec![file(1, 3)]);
        assert_eq!(ask.going_bytes, 3 * MIB);
        let ask = of.find(200, 4, 0, vec![file(1, 30)]);
        assert_eq!(ask.going_bytes, 4 * MIB);
        // Between two censuses nobody else takes anything, as long as usage is not near the limit.
        assert_eq!(of.busy(205, 5).going_bytes, 5 * MIB);
        assert_eq!(
            of.busy(210, 9).going_bytes,
            0,
            "what is asked for may not go"
        );
        assert_eq!(of.tick(215, 4, CacheLook::default()).going_bytes, 4 * MIB);
    }

    #[test]
    fn censuses_keep_their_pace_and_come_ever_more_seldom_while_nothing_is_new() {
        let mut of = Loop::new();
        assert_eq!(of.censuses(0, &sample(1, Vec::new())).len(), 100);
        let nothing = of.censuses(10_000, &sample(0, Vec::new()));
        assert_eq!(nothing.len(), 6, "250 ms, 500 ms, 1 s and so on apart");
    }

    #[test]
    fn new_pages_of_files_that_are_read_again_and_again_are_no_reason_to_look_soon() {
        let mut of = Loop::new();
        let mut reused = file(1, 50);
        reused.reused_bytes = 11 * MIB;
        let known = of.censuses(0, &sample(1, vec![reused]));
        assert_eq!(known.len(), 7, "250 ms, 500 ms, 1 s and so on apart");
        // The second one may be a stream.
        let new = of.censuses(20_000, &sample(1, vec![reused, file(2, 0)]));
        assert!(new.len() > 50, "{new:?}");
    }

    #[test]
    fn a_census_that_costs_much_comes_seldom() {
        let mut of = Loop::new();
        let dear = CacheSample {
            cpu_ns: 90_000_000,
            ..sample(1, Vec::new())
        };
        assert_eq!(of.censuses(0, &dear), [0, 1800, 3600, 5400, 7200, 9000]);
    }

    #[test]
    fn where_nothing_may_be_done_the_others_have_all_of_it() {
        let mut of = Loop::new();
        of.find(10, 4, 0, vec![file(1, 30)]);
        let moment = Moment {
            may_act: false,
            ..of.moment(20, 4)
        };
        assert_eq!(of.of.tick(moment, CacheLook::default()), Ask::default());
    }
}
