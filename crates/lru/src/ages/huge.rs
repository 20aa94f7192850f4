//! Huge pages: which are in use, and how much is of those that were split.
//!
//! One accessed bit stands for all 512 base pages of a huge page, so a page in use makes all of them look used.
//!
//! **Owns** both answers. **Does not own** which are split, nor why (`strata_control::split_huge`).
//!
//! **Invariants** I1: what several spaces map, what can't be seen, and what has a page out of memory is no huge page here.

use super::Ledger;
use super::table::Table;
use crate::bits::{self, Bits, NONE};
use crate::ids::{GroupId, SpaceNo};
use std::collections::BTreeMap;
use std::time::Duration;

/// A huge page: its space and the number of its table.
pub type HugePage = (SpaceNo, u64);

impl Ledger {
    /// Anonymous huge pages of each group that were accessed within what is asked for it, in order; `None`: it is not asked about.
    pub fn huge_in_use(
        &self,
        within: impl Fn(GroupId) -> Option<Duration>,
    ) -> BTreeMap<GroupId, Vec<HugePage>> {
        let mut found: BTreeMap<GroupId, Vec<HugePage>> = BTreeMap::new();
        for (no, space) in &self.spaces {
            let Some(within) = within(space.group) else {
                continue;
            };
            let used = space.tables.iter().filter(|(_, table)| {
                is_whole(table) && self.nr_used(table, &[1, 0, 0, 0, 0, 0, 0, 0], within) > 0
            });
            let used = used.map(|(table_no, _)| (*no, *table_no));
            found.entry(space.group).or_default().extend(used);
        }
        found
    }

    /// Base pages that were accessed within so long where a huge page was split; `None`: it is still huge, or gone.
    pub fn nr_used_parts(&self, (space, table_no): HugePage, within: Duration) -> Option<u64> {
        let table = self.spaces.get(&space)?.tables.get(&table_no)?;
        let is_there = !table.is_huge && table.present != NONE;
        is_there.then(|| self.nr_used(table, &table.present, within))
    }

    fn nr_used(&self, table: &Table, pages: &Bits, within: Duration) -> u64 {
        let (stamps, mut nr_used) = (table.stamps(), 0);
        bits::ones(*pages).for_each(|index| {
            let is_used = self.walks.age(stamps[index].number()) < within;
            nr_used += u64::from(is_used);
        });
        nr_used
    }
}

fn is_whole(table: &Table) -> bool {
    let (all, none) = ([u64::MAX; 8], NONE);
    table.is_huge
        && (table.present, table.anon) == (all, all)
        && (table.several, table.unseen) == (none, none)
}
