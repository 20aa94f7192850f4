//! A machine that somebody else drives: a request at a time, at a time of the driver's, below a limit that moves.
//!
//! ```text
//!   lacks_room -> make_room_for   what a program does in its own fault
//!   take                          the request itself
//!   shrink                        reclaim that somebody asks for
//!   touch, cool, page_out, clear  what can be done to a page from outside
//!   entry                         what a walk of page tables sees
//! ```
//!
//! **Owns** what a driver may do. **Does not own** when it is done, nor what it costs (`steered`).
//!
//! **Invariants** I1: what a driver does to a page that is not there does nothing.

use std::ops::Range;

use strata_lru::machine::{FileKey, PageFound};
use strata_lru::{
    AccessVia, FolioId, GoneCause, GroupId, Kind, MultiGen, Policy, ReclaimStats, TimeMs, TwoList,
    Verdict,
};
use strata_trace::Backing;

use super::{Machine, layout::Layout, memory::Place};
use crate::{simulate::SimError, workload::Request};

/// What an active page of the classic lists counts for: two reads have made it active.
const NR_READS_ACTIVE: u32 = 2;

/// A page-table entry as a walk reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Whether the entry leads to a page in memory.
    pub(crate) is_present: bool,
    /// The accessed bit of the entry.
    pub(crate) is_accessed: bool,
    /// Whether the entry leads to a place in swap.
    pub(crate) is_swapped: bool,
}

impl<P: Policy + ?Sized> Machine<'_, P> {
    /// Where pages lie.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Pages in memory.
    pub(crate) fn nr_used_pages(&self) -> u32 {
        self.nr_pages[0] + self.nr_pages[1]
    }

    /// Pages that may be in memory.
    pub(crate) fn limit_pages(&self) -> u32 {
        self.limit_pages
    }

    /// From now on so many pages may be in memory; what is there already stays until somebody reclaims.
    pub(crate) fn set_limit_pages(&mut self, limit_pages: u32) {
        self.limit_pages = limit_pages;
    }

    /// Counters of the only group.
    pub(crate) fn group_stats(&self) -> Result<ReclaimStats, SimError> {
        Ok(self.policy.stats(self.only_group())?)
    }

    /// Pages of the only group by kind and half, `[kind][inactive, active]`; of generations the two youngest are active.
    pub(crate) fn list_pages(&self) -> Result<[[u64; 2]; 2], SimError> {
        let mut pages = [[0; 2]; 2];
        for view in self.policy.view(self.only_group(), self.now)? {
            let nr_active = (view.generations.len() / 2).min(2);
            let nr_inactive = view.generations.len() - nr_active;
            for (number, generation) in view.generations.iter().enumerate() {
                let half = usize::from(number >= nr_inactive);
                for kind in Kind::ALL.map(Kind::index) {
                    pages[kind][half] += generation.nr_pages[kind].unwrap_or(0);
                }
            }
        }
        Ok(pages)
    }

    fn only_group(&self) -> GroupId {
        self.groups.only().unwrap_or(GroupId(0))
    }

    /// Whether a page can't be charged before something has gone.
    pub(crate) fn lacks_room(&self) -> bool {
        self.nr_free_pages() == 0
    }

    /// Reclaims as a fault does until a page can be charged.
    ///
    /// # Errors
    /// [`SimError::OutOfMemory`]: nothing can go.
    pub(crate) fn make_room_now(&mut self, now: TimeMs) -> Result<(), SimError> {
        self.set_time(now);
        let group = self.only_group();
        self.make_room(group)
    }

    /// Makes a request; its page has room.
    ///
    /// # Errors
    /// The policy refuses.
    pub(crate) fn take(
        &mut self,
        request: Request,
        position: usize,
        now: TimeMs,
    ) -> Result<(), SimError> {
        self.driven_at = Some(now);
        self.request(request, position)
    }

    /// Reclaims once because somebody asks for it: some 32 pages, or fewer; the pages freed.
    ///
    /// # Errors
    /// The policy refuses.
    pub(crate) fn shrink_once(&mut self, now: TimeMs) -> Result<u64, SimError> {
        self.set_time(now);
        let group = self.only_group();
        self.reclaim(group)
    }

    fn set_time(&mut self, now: TimeMs) {
        self.now = now;
        self.driven_at = Some(now);
    }

    /// What a walk reads.
    pub(crate) fn entry(&self, slot: u32) -> Entry {
        if self.memory.mapped.get(slot) {
            return Entry {
                is_present: true,
                is_accessed: self.memory.accessed.get(slot),
                is_swapped: false,
            };
        }
        Entry {
            is_swapped: matches!(self.memory.place(slot), Place::Absent(Some(_))),
            ..Entry::default()
        }
    }

    /// What is at a slot, anon or file.
    pub(crate) fn kind_at(&self, slot: u32) -> Kind {
        super::kind_of(self.backing_at(slot))
    }

    /// What the page at a slot is made of.
    pub(crate) fn backing_at(&self, slot: u32) -> Backing {
        self.workload.page(self.layout.page(slot)).backing
    }

    /// Whether no entry of these slots is mapped.
    pub(crate) fn is_unmapped(&self, slots: Range<u32>) -> bool {
        self.memory.mapped.is_clear(slots.start, slots.end)
    }

    /// Clears an accessed bit, and says nothing of it to the policy.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.memory.accessed.clear(slot);
    }

    fn mapped(&self, slot: u32) -> Option<FolioId> {
        let folio = self.memory.folio(slot);
        folio.filter(|_| self.memory.mapped.get(slot))
    }

    /// Asks for a mapped page as another process does that reads it, so many times: no accessed bit is set.
    pub(crate) fn touch(&mut self, slot: u32, nr_times: u32) {
        if let Some(folio) = self.mapped(slot) {
            for _ in 0..nr_times {
                self.policy.accessed(folio, AccessVia::FileDescriptor);
            }
        }
    }

    /// `MADV_COLD` of a mapped page.
    pub(crate) fn cool(&mut self, slot: u32) {
        if let Some(folio) = self.mapped(slot) {
            self.memory.accessed.clear(slot);
            self.policy.deactivate(folio);
        }
    }

    /// `MADV_PAGEOUT` of a mapped page, which looks at no accessed bit.
    pub(crate) fn page_out(&mut self, slot: u32, can_swap: bool) -> Verdict {
        let Some(folio) = self.mapped(slot) else {
            return Verdict::Gone;
        };
        let kind = self.kind_at(slot);
        match (kind, self.memory.dirty.get(slot)) {
            (Kind::Anon, _) if !can_swap => return Verdict::Busy,
            (Kind::File, true) => {
                self.write(slot);
                return Verdict::Dirty;
            }
            (Kind::Anon, true) => self.counts.nr_written += 1,
            (_, false) => {}
        }
        let shadow = self.policy.gone(folio, GoneCause::Reclaimed);
        self.nr_pages[kind.index()] -= 1;
        self.memory.leave(slot, shadow);
        Verdict::Evicted
    }

    /// Whether the page of a slot is in memory.
    pub(crate) fn is_in_memory(&self, slot: u32) -> bool {
        self.memory.folio(slot).is_some()
    }

    /// `posix_fadvise(POSIX_FADV_DONTNEED)` of a page of a file: whether it is gone. A page that is dirty or mapped stays. The
    /// kernel remembers nothing of one that goes.
    pub(crate) fn drop_page(&mut self, slot: u32) -> bool {
        let Some(folio) = self.memory.folio(slot).filter(|_| self.is_droppable(slot)) else {
            return false;
        };
        self.policy.gone(folio, GoneCause::Freed);
        self.nr_pages[Kind::File.index()] -= 1;
        self.memory.leave(slot, None);
        true
    }

    fn is_droppable(&self, slot: u32) -> bool {
        let memory = &self.memory;
        self.kind_at(slot) == Kind::File
            && ![&memory.mapped, &memory.dirty, &memory.isolated]
                .iter()
                .any(|of| of.get(slot))
    }

    /// Recounts: the policy, and that it has in memory what is in memory here.
    #[cfg(test)]
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.policy.validate()?;
        let slots = 0..self.layout.nr_slots();
        let nr_resident = slots
            .filter(|slot| self.memory.folio(*slot).is_some())
            .count();
        match nr_resident as u32 == self.nr_used_pages() {
            true => Ok(()),
            false => Err(format!(
                "{nr_resident} pages in memory, {} counted",
                self.nr_used_pages()
            )),
        }
    }
}

/// A policy that a kernel can be played by.
pub(crate) trait PlaysKernel: Policy {
    /// Tells if the policy has active and inactive lists, which a touch and `MADV_COLD` move pages between.
    const HAS_LISTS: bool;

    /// Whether a folio is on an inactive list, where there are any.
    fn is_inactive(&self, _: FolioId) -> bool {
        false
    }

    /// Reads through descriptors that a folio's flags tell.
    fn nr_reads(&self, folio: FolioId) -> u32;

    /// The most reads that flags can tell.
    fn nr_reads_max(&self) -> u32;

    /// Whether a folio has the mark of an access.
    fn is_referenced(&self, folio: FolioId) -> bool;
}

impl PlaysKernel for TwoList {
    const HAS_LISTS: bool = true;

    fn is_inactive(&self, folio: FolioId) -> bool {
        self.is_active(folio) == Some(false)
    }

    fn nr_reads(&self, folio: FolioId) -> u32 {
        let active = match self.is_active(folio) {
            Some(true) => NR_READS_ACTIVE,
            _ => 0,
        };
        active + u32::from(TwoList::is_referenced(self, folio))
    }

    fn nr_reads_max(&self) -> u32 {
        NR_READS_ACTIVE + 1
    }

    fn is_referenced(&self, folio: FolioId) -> bool {
        TwoList::is_referenced(self, folio)
    }
}

impl PlaysKernel for MultiGen {
    const HAS_LISTS: bool = false;

    fn nr_reads(&self, folio: FolioId) -> u32 {
        self.nr_counted(folio)
    }

    fn nr_reads_max(&self) -> u32 {
        self.nr_counted_max()
    }

    fn is_referenced(&self, folio: FolioId) -> bool {
        MultiGen::is_referenced(self, folio)
    }
}

impl<P: PlaysKernel> Machine<'_, P> {
    /// Whether the page of a slot is page cache: in memory, and no program has mapped it.
    pub(crate) fn is_cached(&self, slot: u32) -> bool {
        let is_file = self.kind_at(slot) == Kind::File;
        is_file && self.is_in_memory(slot) && !self.memory.mapped.get(slot)
    }

    /// What a census sees at a slot, which is this page of a file: page cache, or a page that a program has mapped.
    pub(crate) fn page_found(&self, file: FileKey, index: u64, slot: u32) -> Option<PageFound> {
        let folio = self.memory.folio(slot)?;
        let is_cached = self.is_cached(slot);
        Some(PageFound {
            file,
            index,
            nr_pages: 1,
            nr_reads: if is_cached {
                self.policy.nr_reads(folio)
            } else {
                0
            },
            is_busy: is_cached && self.memory.dirty.get(slot),
            is_referenced: is_cached && self.policy.is_referenced(folio),
            is_mapped: !is_cached,
        })
    }

    /// The most reads of a page that the kernel's flags can tell.
    pub(crate) fn nr_reads_max(&self) -> u32 {
        self.policy.nr_reads_max()
    }

    /// Whether the page of a slot is on an inactive list.
    pub(crate) fn is_inactive(&self, slot: u32) -> bool {
        let folio = self.memory.folio(slot);
        folio.is_some_and(|folio| self.policy.is_inactive(folio))
    }
}
