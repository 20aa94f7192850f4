//! What heat tells of the pages of one space.
//!
//! **Owns** visiting pages by heat, and which are warm. **Does not own** heat (`strata_lru::Heat`), how spaces
//! compare (`tracker::by_heat`), nor whether a forecast holds (`strata_control::mark_accessed`).
//!
//! **Invariants** I1: no page is returned to be touched where heat did not foretell what was used last.

use super::Space;
use crate::access::Bits512;
use crate::addr::TABLE_ENTRIES;
use crate::bits;
use crate::pages::table::Table;
use strata_lru::{FolioId, Heat, HeatScale};

impl Space {
    /// Visits every folio of the space that is not set aside, with its heat.
    pub(crate) fn for_each_heat(&self, mut seen: impl FnMut(FolioId, Heat)) {
        for table in self.tables.values() {
            for index in bits::ones(table.rankable()) {
                let heat = table.heat(index).after_idle_walks(self.nr_idle_walks);
                seen(table.folio(index), heat);
            }
        }
    }

    /// Visits the heat of all that was used not too long ago, in memory or not, and how many base pages it is of.
    pub(crate) fn for_each_used_heat(&self, mut seen: impl FnMut(Heat, u64)) {
        for table in self.tables.values() {
            let nr_pages = match table.is_huge {
                true => TABLE_ENTRIES as u64,
                false => 1,
            };
            for index in bits::ones(bits::or(table.tracked, table.shadowed)) {
                let heat = table.heat(index).after_idle_walks(self.nr_idle_walks);
                if heat > Heat::NONE {
                    seen(heat, nr_pages);
                }
            }
        }
    }

    /// Whether heat tells which of its pages are cold. Who has used nothing has none that are wanted.
    pub(crate) fn is_told_apart(&self) -> bool {
        !self.foretold.has_uses() || self.last_foretold.is_some_and(|of| of.tells_apart())
    }

    /// Visits every base page that the kernel had on its active lists at the last walk, with its heat.
    pub(crate) fn for_each_active_heat(&self, mut seen: impl FnMut(FolioId, Heat)) {
        for (table, active) in self.active() {
            for index in bits::ones(active) {
                let heat = table.heat(index).after_idle_walks(self.nr_idle_walks);
                seen(table.folio(index), heat);
            }
        }
    }

    /// How many those are.
    pub(crate) fn nr_active_pages(&self) -> u64 {
        self.active().map(|(_, active)| bits::count(active)).sum()
    }

    fn active(&self) -> impl Iterator<Item = (&Table, Bits512)> {
        let tables = self.tables.values();
        let seen = tables.filter(|table| !table.is_huge && table.epoch == self.epoch);
        seen.map(|table| (table, bits::without(table.rankable(), table.inactive)))
    }

    /// Visits the heat of every base page that may be kept warm.
    pub(crate) fn for_each_base_heat(&self, mut seen: impl FnMut(Heat)) {
        for table in self.tables.values().filter(|table| !table.is_huge) {
            for index in bits::ones(table.tracked) {
                seen(table.heat(index).after_idle_walks(self.nr_idle_walks));
            }
        }
    }

    /// Takes base pages that `scale` makes hotter than this for warm from now on, and returns those of them
    /// that the kernel had on its inactive lists at the last walk, by address; none where those of before
    /// were not the ones used, as where another phase has begun or everything is used once.
    pub(crate) fn take_warm(&mut self, lukewarm: Heat, scale: HeatScale) -> Vec<u64> {
        // Who has used nothing, as while it waited, shows nothing.
        if self.foretold.has_uses() {
            self.last_foretold = Some(self.foretold);
        }
        let is_foretold = self.last_foretold.is_some_and(|of| of.holds());
        let mut found = Vec::new();
        let epoch = self.epoch;
        for (no, table) in self.tables.iter_mut().filter(|(_, table)| !table.is_huge) {
            table.warm = bits::NONE;
            for index in bits::ones(table.tracked) {
                let heat = table.heat(index).after_idle_walks(self.nr_idle_walks);
                if heat.scaled(scale) > lukewarm {
                    bits::insert(&mut table.warm, index);
                }
            }
            // The walk may have failed before it came here.
            if table.epoch != epoch || !is_foretold {
                continue;
            }
            let endangered = bits::and(table.warm, table.inactive);
            found.extend(bits::ones(endangered).map(|index| no.entry_addr(index)));
        }
        found
    }

    /// Takes nothing for warm: what was is not so any more by the time of the next walk that asks.
    pub(crate) fn forget_warm(&mut self) {
        self.last_foretold = None;
        for table in self.tables.values_mut() {
            table.warm = bits::NONE;
        }
    }
}
