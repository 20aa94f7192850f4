//! Which pages of a space were last used together with those that come back.
//!
//! **Owns** finding them, and telling which of those that were asked for have been used. **Does not own** what
//! counts as together (`control::together`).
//!
//! **Invariants** I1: a page is found once, until [`Space::forget_recalled`].

use super::super::table::Table;
use super::super::together::{AGE_MIN, WalkNo};
use super::{Space, SpaceWalk};
use crate::access::Bits512;
use crate::actuator::RecallPages;
use crate::addr::{AddrRange, PAGE_BYTES, TableNo};
use crate::bits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Space {
    /// Where the program has gone on to something else: absent pages that were last used when what comes back was,
    /// at most `nr_pages_max`, and what is in memory and was not used lately.
    pub(in super::super) fn recall(&mut self, nr_pages_max: u64) -> Option<RecallPages> {
        if !self
            .returns
            .is_elsewhere(self.findings.nr_young_pages.iter().sum())
        {
            return None;
        }
        let mut out: BTreeMap<WalkNo, u32> = BTreeMap::new();
        for table in self.tables.values().filter(|table| !table.is_huge) {
            for index in bits::ones(waiting(table, self.is_swap_slow)) {
                *out.entry(table.last_use(index)).or_default() += 1;
            }
        }
        let phase = self.returns.phase(self.walk_no, &out)?;
        self.returns.clear();
        let nr_pages_max = nr_pages_max.min(phase.nr_pages_max);
        let mut nr_pages_left = nr_pages_max;
        let walks = phase.walks.into_iter().take_while(|walk| {
            let is_room = nr_pages_left > 0;
            let nr_pages = out.get(walk).copied().unwrap_or(0);
            nr_pages_left = nr_pages_left.saturating_sub(u64::from(nr_pages));
            is_room
        });
        let walks: BTreeSet<WalkNo> = walks.collect();
        let is_swap_slow = self.is_swap_slow;
        let (mut unused, mut wanted) = (Vec::new(), Vec::new());
        let is_unused = |walk| self.walk_no.since(walk).is_none_or(|age| age >= AGE_MIN);
        let mut nr_pages_left = nr_pages_max;
        for (no, table) in self.tables.iter_mut().filter(|(_, table)| !table.is_huge) {
            for index in bits::ones(table.tracked) {
                if is_unused(table.last_use(index)) {
                    page_at(*no, index).append_to(&mut unused);
                }
            }
            for index in bits::ones(waiting(table, is_swap_slow)) {
                if nr_pages_left > 0 && walks.contains(&table.last_use(index)) {
                    nr_pages_left -= 1;
                    bits::insert(&mut table.recalled, index);
                    page_at(*no, index).append_to(&mut wanted);
                }
            }
        }
        (!wanted.is_empty()).then(|| RecallPages {
            process: Arc::clone(&self.process),
            unused,
            wanted,
        })
    }

    /// Of the pages that were recalled, how many the last walk found used for the first time.
    pub(in super::super) fn nr_recalled_used_pages(&self) -> u64 {
        self.nr_recalled_used_pages
    }

    /// File pages that had come back when the last walk came by.
    pub(in super::super) fn nr_file_returns(&self) -> u64 {
        self.nr_file_returns
    }

    /// Whatever was recalled may be again.
    pub(in super::super) fn forget_recalled(&mut self) {
        for table in self.tables.values_mut() {
            table.recalled = bits::NONE;
        }
    }
}

impl SpaceWalk<'_> {
    /// A page came back: as it was asked for, or as evidence of what else will, if it had to be waited for. A file
    /// page that was not used came because it lies beside another; and of pages in a row the first is all that was
    /// waited for, because the kernel reads on by itself.
    pub(super) fn note_return(
        &mut self,
        no: TableNo,
        table: &mut Table,
        index: usize,
        is_accessed: bool,
    ) {
        let is_of_file = bits::has(table.of_file, index);
        let is_used = is_accessed || !is_of_file;
        let addr = no.entry_addr(index);
        let is_in_row = self.last_return.replace(addr) == Some(addr.wrapping_sub(PAGE_BYTES));
        if bits::has(table.recalled, index) {
            bits::remove(&mut table.recalled, index);
            self.space.nr_recalled_used_pages += u64::from(is_used);
        } else if is_used && !is_in_row && (is_of_file || self.space.is_swap_slow) {
            self.space.returns.note(table.last_use(index));
            self.space.nr_file_returns += u64::from(is_of_file);
        }
    }
}

fn page_at(table: TableNo, index: usize) -> AddrRange {
    let start = table.entry_addr(index);
    AddrRange::new(start, start + PAGE_BYTES)
}

/// Pages that were evicted and wait on a device, and have not been asked for.
fn waiting(table: &Table, is_swap_slow: bool) -> Bits512 {
    let absent = bits::without(table.shadowed, table.recalled);
    match is_swap_slow {
        true => absent,
        false => bits::and(absent, table.of_file),
    }
}
