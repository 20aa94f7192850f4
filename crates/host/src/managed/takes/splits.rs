//! Huge pages of which little is used, of groups that nobody is short of: split, so that the rest is seen to be idle and goes.
//!
//! **Owns** what is known of each group's huge pages. **Does not own** when splitting is worth it (`strata_control::split_huge`),
//! nor the splitting (`takes`).
//!
//! **Invariants** I1: nothing is split of a group of which nothing is to go.

use std::collections::BTreeMap;
use std::time::Duration;
use strata_control::split_huge::{Config, Facts, SplitHuge, Worth};
use strata_lru::ages::{HugePage, Ledger};
use strata_lru::{GroupId, TimeMs};

/// A group in which huge pages are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// What is not used for so long is idle.
    pub(crate) min_age: Duration,
    pub(crate) nr_resident_pages: u64,
    /// Its promise has room, and so has swap.
    pub(crate) may_give: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    of_group: BTreeMap<GroupId, (Worth, SplitHuge<HugePage>)>,
}

impl Splits {
    /// To be called after each walk: what to split now, of each group.
    pub(crate) fn after_walk(
        &mut self,
        at: Duration,
        ledger: &Ledger,
        groups: &BTreeMap<GroupId, Looked>,
    ) -> BTreeMap<GroupId, Vec<HugePage>> {
        self.of_group.retain(|id, _| groups.contains_key(id));
        let huge = ledger.huge_in_use(|id| groups.get(&id).map(|looked| looked.min_age));
        let now = TimeMs(at.as_millis() as u64);
        let mut chosen = BTreeMap::new();
        for (id, looked) in groups {
            let worth = Worth::of_idle(looked.min_age.as_millis() as u64);
            let huge = huge.get(id).map_or(&[][..], Vec::as_slice);
            let known = self.of_group.get(id).is_some_and(|(of, _)| *of == worth);
            if !known {
                // Most groups have none.
                self.of_group.remove(id);
                if huge.is_empty() {
                    continue;
                }
            }
            let splitter = || (worth, SplitHuge::new(Config::DEFAULT, worth));
            let (_, splitter) = self.of_group.entry(*id).or_insert_with(splitter);
            let facts = Facts {
                are_pages_going: looked.may_give,
                nr_resident_pages: looked.nr_resident_pages,
                huge,
            };
            let used = |page| ledger.nr_used_parts(page, looked.min_age);
            let now_split = splitter.after_walk(now, facts, used).unwrap_or_default();
            if !now_split.is_empty() {
                chosen.insert(*id, now_split);
            }
        }
        chosen
    }
}
