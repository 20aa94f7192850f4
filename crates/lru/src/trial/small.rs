//! One of the two that are tried in small: a policy, and memory for it to manage.
//!
//! Plays the kernel as simply as can be: when memory is full it reclaims by priorities, looks at what
//! was found accessed since, and lets the rest go. Nothing is ever dirty.
//!
//! **Owns** its policy, what is in its memory. **Does not own** pages' names, and where they are
//! (`pages`).
//!
//! **Invariants**
//! - I1: what its policy counts as in memory is what `pages` says is in it.
//! - I2: no more than it has room for, unless nothing could be had.

use super::pages::{PageNumber, Pages, Stay};
use crate::{
    ids::{FolioId, GroupId, NodeId, TimeMs},
    seam::{
        AccessVia, Ageing, Arrival, Cause, EvictBatch, GoneCause, Isolated, Origin, Policy,
        PolicyError, ReclaimRequest, Swappiness, Verdict,
    },
};

/// Nothing that is tried depends on time.
const NOW: TimeMs = TimeMs(0);

/// The kernel's scan priority when nothing presses.
const PRIORITY_RELAXED: u8 = 12;

/// Pages reclaimed at a time, as the kernel does; of a small memory a thirty-second.
const NR_RECLAIM_PAGES: u64 = 32;
const BATCHES_PER_MEMORY: u64 = 32;

/// Batches tried at one priority.
const NR_BATCHES_MAX: u32 = 64;

/// What happens to a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Came into the policy's memory; an access that found it there is heard of by itself.
    Brought(Cause),
    /// Was accessed, or found accessed.
    Accessed(AccessVia),
}

#[derive(Debug)]
pub(super) struct Small<P> {
    policy: P,
    group: Option<GroupId>,
    /// Which of a page's stays in small are here.
    side: usize,
    nr_pages: u64,
    /// Base pages; `None` while there was no pressure yet.
    nr_pages_max: Option<u64>,
    swappiness: Swappiness,
    /// By folio.
    pages: Vec<PageNumber>,
    batch: EvictBatch,
    verdicts: Vec<Verdict>,
}

impl<P: Policy> Small<P> {
    pub(super) fn new(mut policy: P, side: usize) -> Small<P> {
        // The first group of an empty policy: there is room for it.
        let group = policy.add_group("/", NOW).ok();
        Small {
            policy,
            group,
            side,
            nr_pages: 0,
            nr_pages_max: None,
            swappiness: Swappiness::DEFAULT,
            pages: Vec::new(),
            batch: EvictBatch::default(),
            verdicts: Vec::new(),
        }
    }

    pub(super) fn nr_pages_max(&self) -> Option<u64> {
        self.nr_pages_max
    }

    pub(super) fn set_room(&mut self, nr_pages_max: u64, swappiness: Swappiness) {
        self.nr_pages_max = Some(nr_pages_max);
        self.swappiness = swappiness;
    }

    /// Takes part in an event; whether the page had to be brought in for it.
    pub(super) fn hear(&mut self, pages: &mut Pages, page: PageNumber, event: Event) -> bool {
        let is_miss = !pages[page].small[self.side].is_in();
        if is_miss {
            let cause = match event {
                Event::Brought(cause) => cause,
                Event::Accessed(AccessVia::FileDescriptor) => Cause::Read,
                Event::Accessed(AccessVia::PageTable) => Cause::Fault,
            };
            // Without room even when pressed hardest, it stays out.
            let _ = self.bring(pages, page, cause);
        }
        if let (Event::Accessed(via), Stay::In(folio)) = (event, pages[page].small[self.side]) {
            match via {
                AccessVia::FileDescriptor => self.policy.accessed(folio, via),
                AccessVia::PageTable => pages[page].is_young[self.side] = true,
            }
        }
        is_miss
    }

    fn bring(
        &mut self,
        pages: &mut Pages,
        page: PageNumber,
        cause: Cause,
    ) -> Result<(), PolicyError> {
        let Some(group) = self.group else {
            return Ok(());
        };
        if let Some(nr_pages_max) = self.nr_pages_max
            && self.nr_pages >= nr_pages_max
        {
            self.reclaim(pages, group, nr_pages_max)?;
        }
        let of = &mut pages[page];
        let Stay::Out(shadow) = of.small[self.side] else {
            return Ok(());
        };
        let folio = self.policy.appeared(Arrival {
            group,
            node: NodeId::default(),
            kind: of.kind,
            order: of.order,
            cause,
            shadow,
            is_exec: false,
        })?;
        of.small[self.side] = Stay::In(folio);
        self.nr_pages += of.order.nr_pages();
        if self.pages.len() <= folio.index() {
            self.pages.resize(folio.index() + 1, page);
        }
        self.pages[folio.index()] = page;
        Ok(())
    }

    fn reclaim(
        &mut self,
        pages: &mut Pages,
        group: GroupId,
        nr_pages_max: u64,
    ) -> Result<(), PolicyError> {
        let nr_wanted = (nr_pages_max / BATCHES_PER_MEMORY).clamp(1, NR_RECLAIM_PAGES);
        let goal = self.nr_pages.min(nr_pages_max).saturating_sub(nr_wanted);
        for priority in (0..=PRIORITY_RELAXED).rev() {
            for _ in 0..NR_BATCHES_MAX {
                match self.policy.ageing(group, self.swappiness)? {
                    Ageing::NotDue => {}
                    Ageing::Preferred if priority == PRIORITY_RELAXED => {}
                    Ageing::Due if priority == PRIORITY_RELAXED => break,
                    Ageing::Preferred | Ageing::Due => self.walk(pages, group)?,
                }
                let request = ReclaimRequest {
                    swappiness: self.swappiness,
                    priority,
                    origin: Origin::Direct,
                    nr_passes_max: 1,
                    ..ReclaimRequest::new(group, 2 * nr_wanted)
                };
                let end = self.policy.isolate(request, NOW, &mut self.batch)?;
                let is_vain = self.batch.is_empty();
                self.try_batch(pages);
                if self.nr_pages <= goal {
                    return Ok(());
                }
                if is_vain && end != Isolated::Again {
                    break;
                }
            }
        }
        Ok(())
    }

    fn walk(&mut self, pages: &mut Pages, group: GroupId) -> Result<(), PolicyError> {
        for (index, page) in self.pages.iter().enumerate() {
            let (folio, page) = (FolioId(index as u32), &mut pages[*page]);
            let is_here = page.small[self.side] == Stay::In(folio);
            if is_here && std::mem::take(&mut page.is_young[self.side]) {
                self.policy.accessed(folio, AccessVia::PageTable);
            }
        }
        self.policy.finish_walk(group, self.swappiness, NOW)
    }

    /// Tries what the policy handed out.
    fn try_batch(&mut self, pages: &mut Pages) {
        let (side, of_folio) = (self.side, &self.pages);
        let mut take_young = |folio: &FolioId| {
            let page = &mut pages[of_folio[folio.index()]];
            std::mem::take(&mut page.is_young[side])
        };
        let batch = &mut self.batch;
        self.verdicts.clear();
        let verdicts = batch.folios.iter().map(|folio| match take_young(folio) {
            true => Verdict::Referenced,
            false => Verdict::Evicted,
        });
        self.verdicts.extend(verdicts);
        batch.young.clear();
        batch.young.extend(batch.to_check.iter().map(take_young));
        self.policy.complete(batch, &self.verdicts);
        for (at, folio) in batch.folios.iter().enumerate() {
            if self.verdicts[at] == Verdict::Evicted {
                let page = &mut pages[self.pages[folio.index()]];
                page.small[side] = Stay::Out(batch.shadows[at]);
                self.nr_pages -= page.order.nr_pages();
            }
        }
    }

    /// Nobody needs a page any more.
    pub(super) fn freed(&mut self, pages: &mut Pages, page: PageNumber) {
        let of = &mut pages[page];
        of.is_young[self.side] = false;
        let stay = std::mem::replace(&mut of.small[self.side], Stay::Out(None));
        if let Stay::In(folio) = stay {
            self.policy.gone(folio, GoneCause::Freed);
            self.nr_pages -= of.order.nr_pages();
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let numbers = self.pages.capacity() * size_of::<PageNumber>();
        self.policy.memory_bytes() + numbers as u64
    }

    pub(super) fn validate(&self, pages: &Pages, group: GroupId) -> Result<(), String> {
        let mut nr_pages = 0;
        for (number, page) in pages.of_group(group) {
            if let Stay::In(folio) = page.small[self.side] {
                nr_pages += page.order.nr_pages();
                if self.pages.get(folio.index()) != Some(&number) {
                    return Err(format!("{folio:?} in small is not {number:?}"));
                }
            }
        }
        if nr_pages != self.nr_pages {
            let counted = self.nr_pages;
            return Err(format!("{nr_pages} pages are in small, not {counted}"));
        }
        self.policy.validate()
    }
}
