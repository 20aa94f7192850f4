//! Which pages of a space were last used together with those that come back.
//!
//! Pages of files are left out: the kernel charges what it reads ahead of a file to whoever asks for it, which would
//! be us, and a program would have more memory than its budget.
//!
//! **Owns** finding them, and telling which of those that were asked for have been used. **Does not own** what
//! counts as together (`control::together`).
//!
//! **Invariants** I1: a page that was asked for and has not come back is found again after [`Space::forget_recalled`]
//! only.

use super::{Space, SpaceWalk};
use crate::pages::table::Table;
use std::sync::Arc;
use strata_control::prefetch::{self, WalkNo};
use strata_linux::access::Bits512;
use strata_linux::actuator::RecallPages;
use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TableNo};
use strata_linux::bits;

impl Space {
    /// Where the program has gone on to something else: absent pages that were last used when what comes back was,
    /// at most `nr_pages_max`, and as many that are in memory and were not used since the walk before.
    pub(crate) fn recall(
        &mut self,
        config: &prefetch::Config,
        number: u32,
        nr_pages_max: u64,
    ) -> Option<RecallPages> {
        let nr_used_pages = self.findings.nr_young_pages.iter().sum();
        let is_elsewhere = !self.was_left_out && self.returns.is_elsewhere(config, nr_used_pages);
        if !is_elsewhere || nr_pages_max == 0 {
            return None;
        }
        let mut out = vec![0; WalkNo::LIMIT];
        for table in self.tables.values().filter(|table| !table.is_huge) {
            for index in bits::ones(waiting(table)) {
                out[table.last_use(index).index()] += 1;
            }
        }
        let phase = self.returns.phase(config, self.walk_no, &out)?;
        let nr_pages_max = nr_pages_max.min(phase.nr_pages_max);
        let mut is_wanted = vec![false; WalkNo::LIMIT];
        let mut nr_found = 0;
        for walk in phase.walks {
            is_wanted[walk.index()] = nr_found < nr_pages_max;
            nr_found += u64::from(out[walk.index()]);
        }
        // A program that is elsewhere has no use for what the last walk did not find used.
        let is_unused = |walk| self.walk_no.since(walk).is_some_and(|age| age > 0);
        let (mut unused, mut wanted) = (Vec::new(), Vec::new());
        let (mut nr_unused_left, mut nr_wanted_left) = (nr_pages_max, nr_pages_max);
        for (no, table) in self.tables.iter_mut().filter(|(_, table)| !table.is_huge) {
            for index in bits::ones(table.tracked) {
                if nr_unused_left > 0 && is_unused(table.last_use(index)) {
                    nr_unused_left -= 1;
                    page_at(*no, index).append_to(&mut unused);
                }
            }
            for index in bits::ones(waiting(table)) {
                if nr_wanted_left > 0 && is_wanted[table.last_use(index).index()] {
                    nr_wanted_left -= 1;
                    bits::insert(&mut table.recalled, index);
                    page_at(*no, index).append_to(&mut wanted);
                }
            }
        }
        if wanted.is_empty() {
            return None;
        }
        self.returns.clear();
        Some(RecallPages {
            space: number,
            process: Arc::clone(&self.process),
            unused,
            wanted,
        })
    }

    /// Whatever was asked for may be again.
    pub(crate) fn forget_recalled(&mut self) {
        for table in self.tables.values_mut() {
            table.recalled = bits::NONE;
        }
    }

    /// Notes that these pages were not asked for after all.
    pub(crate) fn leave(&mut self, pages: &[AddrRange]) {
        let addresses = |range: &AddrRange| (range.start..range.end).step_by(PAGE_BYTES as usize);
        for addr in pages.iter().flat_map(addresses) {
            if let Some(table) = self.table_mut(addr).filter(|table| !table.is_huge) {
                bits::remove(
                    &mut table.recalled,
                    (addr % TABLE_BYTES / PAGE_BYTES) as usize,
                );
            }
        }
    }

    /// Of the pages that were asked for, how many were found used for the first time since the last call.
    pub(crate) fn take_recalled_used(&mut self) -> u64 {
        std::mem::take(&mut self.nr_recalled_used_pages)
    }
}

impl SpaceWalk<'_> {
    /// A page came back: as it was asked for, or as evidence of what else will, if it had to be waited for. Of pages
    /// in a row the first is all that was waited for, because the kernel reads on by itself.
    pub(crate) fn note_return(&mut self, no: TableNo, table: &mut Table, index: usize) {
        if bits::has(table.of_file, index) {
            return;
        }
        let addr = no.entry_addr(index);
        let is_in_row = self.last_return.replace(addr) == Some(addr.wrapping_sub(PAGE_BYTES));
        if bits::has(table.recalled, index) {
            bits::remove(&mut table.recalled, index);
            self.space.nr_recalled_used_pages += 1;
        } else if !is_in_row && self.space.is_swap_slow {
            self.space.returns.note(table.last_use(index));
        }
    }
}

fn page_at(table: TableNo, index: usize) -> AddrRange {
    let start = table.entry_addr(index);
    AddrRange::new(start, start + PAGE_BYTES)
}

/// Pages that are swapped out and have not been asked for.
fn waiting(table: &Table) -> Bits512 {
    bits::without(bits::without(table.shadowed, table.of_file), table.recalled)
}
