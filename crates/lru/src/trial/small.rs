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
//! - I2: what does not fit is not brought in, unless nothing could be had when pressed hardest.
//! - I3: a memory that shrinks does so for both, also where nothing is missed.

use super::pages::{PageNumber, Pages, Stay};
use crate::{
    error::PolicyError,
    ids::{FolioId, GroupId, NodeId, TimeMs},
    policy::Policy,
    seam::{
        AccessVia, Ageing, Arrival, Cause, EvictBatch, GoneCause, Isolated, ReclaimRequest, Verdict,
    },
    swappiness::Swappiness,
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

/// Memory for one that is tried in small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Base pages.
    pub(super) nr_pages: u64,
    pub(super) swappiness: Swappiness,
}

#[derive(Debug)]
pub(super) struct Small<P> {
    policy: P,
    group: GroupId,
    /// Which of a page's stays in small are here.
    side: usize,
    /// Base pages in its memory.
    nr_pages: u64,
    /// By folio; `None` while there is none of that number, as a page's may be another group's by then.
    pages: Vec<Option<PageNumber>>,
    batch: EvictBatch,
    verdicts: Vec<Verdict>,
}

impl<P: Policy> Small<P> {
    pub(super) fn new(mut policy: P, side: usize) -> Result<Small<P>, PolicyError> {
        let group = policy.add_group("/", NOW)?;
        Ok(Small {
            policy,
            group,
            side,
            nr_pages: 0,
            pages: Vec::new(),
            batch: EvictBatch::default(),
            verdicts: Vec::new(),
        })
    }

    /// Takes part in an event; whether the page had to be brought in for it.
    pub(super) fn hear(
        &mut self,
        pages: &mut Pages,
        page: PageNumber,
        event: Event,
        room: Room,
    ) -> bool {
        // The group has less than it had. Who misses nothing would keep the room of before for ever.
        if self.nr_pages > room.nr_pages {
            let _ = self.reclaim(pages, room, 0);
        }
        let is_miss = !pages[page].small[self.side].is_in();
        if is_miss {
            let cause = match event {
                Event::Brought(cause) => cause,
                Event::Accessed(AccessVia::FileDescriptor) => Cause::Read,
                Event::Accessed(AccessVia::PageTable) => Cause::Fault,
            };
            // Its own group and folios are all there can be errors about.
            let _ = self.bring(pages, page, cause, room);
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
        room: Room,
    ) -> Result<(), PolicyError> {
        let nr_coming = pages[page].order.nr_pages();
        if self.nr_pages + nr_coming > room.nr_pages {
            self.reclaim(pages, room, nr_coming)?;
        }
        let of = &mut pages[page];
        let Stay::Out(shadow) = of.small[self.side] else {
            return Ok(());
        };
        let folio = self.policy.appeared(Arrival {
            group: self.group,
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
            self.pages.resize(folio.index() + 1, None);
        }
        self.pages[folio.index()] = Some(page);
        Ok(())
    }

    /// Makes room for so many base pages, or a batch if that is more.
    fn reclaim(
        &mut self,
        pages: &mut Pages,
        room: Room,
        nr_coming: u64,
    ) -> Result<(), PolicyError> {
        let (group, swappiness) = (self.group, room.swappiness);
        let nr_batch = (room.nr_pages / BATCHES_PER_MEMORY).clamp(1, NR_RECLAIM_PAGES);
        let nr_wanted = nr_batch.max(nr_coming);
        let goal = self.nr_pages.min(room.nr_pages).saturating_sub(nr_wanted);
        for priority in (0..=PRIORITY_RELAXED).rev() {
            for _ in 0..NR_BATCHES_MAX {
                match self.policy.ageing(group, swappiness)? {
                    Ageing::NotDue => {}
                    Ageing::Preferred if priority == PRIORITY_RELAXED => {}
                    Ageing::Due if priority == PRIORITY_RELAXED => break,
                    Ageing::Preferred | Ageing::Due => self.walk(pages, swappiness)?,
                }
                let request = ReclaimRequest {
                    swappiness,
                    priority,
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

    fn walk(&mut self, pages: &mut Pages, swappiness: Swappiness) -> Result<(), PolicyError> {
        for (index, page) in self.pages.iter().enumerate() {
            let Some(page) = *page else {
                continue;
            };
            if std::mem::take(&mut pages[page].is_young[self.side]) {
                let folio = FolioId(index as u32);
                self.policy.accessed(folio, AccessVia::PageTable);
            }
        }
        self.policy.finish_walk(self.group, swappiness, NOW)
    }

    /// Tries what the policy handed out.
    fn try_batch(&mut self, pages: &mut Pages) {
        let (side, of_folio) = (self.side, &self.pages);
        let mut take_young = |folio: &FolioId| {
            let page = of_folio[folio.index()];
            page.is_some_and(|page| std::mem::take(&mut pages[page].is_young[side]))
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
            if self.verdicts[at] == Verdict::Evicted
                && let Some(page) = self.pages[folio.index()].take()
            {
                let page = &mut pages[page];
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
            self.pages[folio.index()] = None;
            self.nr_pages -= of.order.nr_pages();
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let numbers = self.pages.capacity() * size_of::<Option<PageNumber>>();
        self.policy.memory_bytes() + numbers as u64
    }

    pub(super) fn validate(&self, pages: &Pages, group: GroupId) -> Result<(), String> {
        let mut nr_pages = 0;
        for (number, page) in pages.of_group(group) {
            if let Stay::In(folio) = page.small[self.side] {
                nr_pages += page.order.nr_pages();
                if self.pages.get(folio.index()) != Some(&Some(number)) {
                    return Err(format!("{folio:?} in small is not {number:?}"));
                }
            }
        }
        let nr_here = self.pages.iter().flatten().count();
        let nr_in = pages
            .of_group(group)
            .filter(|(_, page)| page.small[self.side].is_in())
            .count();
        if nr_here != nr_in {
            return Err(format!(
                "{nr_here} folios in small have a page, not {nr_in}"
            ));
        }
        let charged = self.policy.groups().usage_pages(self.group);
        let charged = charged.map_err(|error| error.to_string())?;
        if (nr_pages, nr_pages) != (self.nr_pages, charged) {
            let counted = self.nr_pages;
            return Err(format!(
                "{nr_pages} pages are in small, not {counted}, or {charged} as charged"
            ));
        }
        self.policy.validate()
    }
}
