//! A trace in memory: loaded once, replayed many times.
//!
//! A request is one 32-bit word, what it says of the page itself is kept once a page. A trace of
//! 12.7 million requests of 774,000 pages takes 51 MB + 19 MB, and 101 MB more if it has times.
//!
//! | bits of a request | field | meaning |
//! |---|---|---|
//! | 0..30 | page | dense number, in order of first appearance |
//! | 30 | op | 1 = write |
//! | 31 | via | 1 = through a page table, 0 = through a file descriptor |
//!
//! What a recording knows to be freed is kept beside the requests: which page, before which request.
//!
//! **Owns** the requests, the pages and their ends. **Does not own** the formats of traces (`strata-trace`).
//!
//! **Invariants**
//! - I1: pages are numbered 0.. in order of first appearance, so `distinct pages` is their number.
//! - I2: a page's backing and group are those of its first access, as in the kernel the first toucher is charged.
//! - I3: pages are freed in the order of requests, and only pages that were accessed are.

use std::collections::BTreeMap;

use strata_trace::{
    Access, AccessReader, BATCH_LEN, Backing, Freed, FreedPages, Op, PageKey, TraceError, Via,
};

use crate::intern::Interner;

const PAGE_BITS: u32 = 30;
/// What a space that has ended takes in its tree, at most.
const ENDED_BYTES: usize = 64;
const IS_WRITE: u32 = 1 << 30;
const IS_PAGE_TABLE: u32 = 1 << 31;

/// Dense number of a page of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

impl PageId {
    /// The number as an array position.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One request: which page, what, and through which path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(u32);

impl Request {
    fn new(page: u32, op: Op, via: Via) -> Request {
        let op = if op == Op::Write { IS_WRITE } else { 0 };
        let via = if via == Via::PageTable {
            IS_PAGE_TABLE
        } else {
            0
        };
        Request(page | op | via)
    }

    /// The page.
    pub fn page(self) -> PageId {
        PageId(self.0 & (IS_WRITE - 1))
    }

    /// Read or write.
    pub fn op(self) -> Op {
        if self.0 & IS_WRITE == 0 {
            Op::Read
        } else {
            Op::Write
        }
    }

    /// Through a mapping or a descriptor.
    pub fn via(self) -> Via {
        if self.0 & IS_PAGE_TABLE == 0 {
            Via::FileDescriptor
        } else {
            Via::PageTable
        }
    }
}

/// What is known of a page, from its first access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Space and number in the trace.
    pub key: PageKey,
    /// The group that is charged.
    pub group: u16,
    /// Anon, file, or code.
    pub backing: Backing,
}

/// A page that nobody needs from some request on: it leaves memory, and nothing of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageEnd {
    /// The page was freed before the request at this position.
    pub position: u32,
    /// The page.
    pub page: PageId,
}

/// Takes the pages that are freed before the request at `position` off the front of `ends`.
pub(crate) fn ends_before<'a>(ends: &mut &'a [PageEnd], position: usize) -> &'a [PageEnd] {
    let due = ends.partition_point(|end| end.position as usize <= position);
    let (due, later) = ends.split_at(due);
    *ends = later;
    due
}

/// Where the first of `ends` is, or `limit` if that comes before.
pub(crate) fn next_end(ends: &[PageEnd], limit: usize) -> usize {
    ends.first()
        .map_or(limit, |end| limit.min(end.position as usize))
}

/// A workload that can't be read or held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The trace can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// More requests than a 32-bit position can tell apart.
    #[error("more than {} requests: replay a part of the trace", u32::MAX)]
    TooLong,
    /// More than there may be.
    #[error(
        "{name}: more than the {bytes_max} bytes of --max-memory are needed to hold it, after {nr_requests} \
         requests of {nr_pages} pages: allow more, or replay a part of the trace"
    )]
    TooLarge {
        /// Name of the workload.
        name: String,
        /// What there may be.
        bytes_max: u64,
        /// What was read by then.
        nr_requests: usize,
        /// Distinct pages of these requests.
        nr_pages: usize,
    },
    /// More pages than a request can name.
    #[error("more than {} distinct pages: replay a part of the trace", 1u32 << PAGE_BITS)]
    TooManyPages,
}

/// A trace in memory; see the module.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    name: String,
    requests: Vec<Request>,
    pages: Vec<Page>,
    /// Empty where the trace has no times.
    times_us: Vec<u64>,
    ends: Vec<PageEnd>,
    footprint_pages: u32,
    nr_groups: u16,
}

impl Workload {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// The reader's, and more requests or pages than the numbers hold.
    pub fn read(
        name: impl Into<String>,
        reader: &mut dyn AccessReader,
    ) -> Result<Workload, LoadError> {
        Workload::read_within(name, reader, u64::MAX)
    }

    /// Reads a trace to its end, if it can be held in so many bytes.
    ///
    /// # Errors
    /// As [`Workload::read`], and [`LoadError::TooLarge`] before more is taken.
    pub fn read_within(
        name: impl Into<String>,
        reader: &mut dyn AccessReader,
        bytes_max: u64,
    ) -> Result<Workload, LoadError> {
        let mut builder = WorkloadBuilder::new(name);
        let mut batch = Vec::with_capacity(BATCH_LEN);
        let mut freed = Vec::new();
        reader.take_freed(&mut freed);
        while reader.read_batch(&mut batch)? > 0 {
            if builder.bytes_with(batch.len()) > bytes_max {
                let workload = builder.workload;
                return Err(LoadError::TooLarge {
                    name: workload.name,
                    bytes_max,
                    nr_requests: workload.requests.len(),
                    nr_pages: workload.pages.len(),
                });
            }
            for access in &batch {
                builder.push(*access)?;
            }
            reader.take_freed(&mut freed);
            freed.drain(..).for_each(|freed| builder.free(freed));
        }
        Ok(builder.finish())
    }

    /// Loads accesses that can't fail to be read.
    ///
    /// # Errors
    /// More requests or pages than the numbers hold.
    pub fn from_accesses(
        name: impl Into<String>,
        accesses: impl IntoIterator<Item = Access>,
    ) -> Result<Workload, LoadError> {
        let mut builder = WorkloadBuilder::new(name);
        for access in accesses {
            builder.push(access)?;
        }
        Ok(builder.finish())
    }

    /// The name it goes by in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The requests in order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// All pages, by number.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// What is known of a page.
    pub fn page(&self, page: PageId) -> &Page {
        &self.pages[page.index()]
    }

    /// Requests, each counted.
    pub fn nr_requests(&self) -> u32 {
        self.requests.len() as u32
    }

    /// Distinct pages; an address that was freed and used again is another page.
    pub fn nr_pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The most pages in use at a time: what a run takes without a limit. All distinct pages, where
    /// none is known to be freed.
    pub fn footprint_pages(&self) -> u32 {
        self.footprint_pages
    }

    /// Pages of page cache that nobody had mapped, of the most pages in use at a time: those of files that were only accessed
    /// through descriptors by then.
    pub fn footprint_cache_pages(&self) -> u32 {
        self.most_used().1
    }

    /// Whether any page is accessed through a descriptor.
    pub fn has_descriptor_accesses(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.via() == Via::FileDescriptor)
    }

    /// Pages that are freed, in the order of requests.
    pub fn ends(&self) -> &[PageEnd] {
        &self.ends
    }

    /// Distinct pages by kind: anon, file.
    pub fn nr_pages_by_kind(&self) -> [u64; 2] {
        let nr_pages = self.pages.len() as u64;
        let is_anon = |page: &&Page| page.backing == Backing::Anon;
        let nr_anon = self.pages.iter().filter(is_anon).count() as u64;
        [nr_anon, nr_pages - nr_anon]
    }

    /// Largest group number plus one; 1 where the trace has no groups.
    pub fn nr_groups(&self) -> u16 {
        self.nr_groups
    }

    /// Whether requests have times.
    pub fn has_times(&self) -> bool {
        !self.times_us.is_empty()
    }

    /// When a request was made, in microseconds since the trace began; `None` without times.
    pub fn time_us(&self, position: u32) -> Option<u64> {
        self.times_us.get(position as usize).copied()
    }

    /// The workload with the requests in another order within their intervals, at whose
    /// beginnings pages are freed; pages are numbered anew.
    pub(crate) fn with_requests(&self, mut requests: Vec<Request>) -> Workload {
        let mut number_of = vec![u32::MAX; self.pages.len()];
        let mut pages = Vec::with_capacity(self.pages.len());
        for request in &mut requests {
            let page = request.page();
            let number = &mut number_of[page.index()];
            if *number == u32::MAX {
                *number = pages.len() as u32;
                pages.push(self.pages[page.index()]);
            }
            *request = Request::new(*number, request.op(), request.via());
        }
        let renumbered = |end: &PageEnd| PageEnd {
            page: PageId(number_of[end.page.index()]),
            ..*end
        };
        let mut ends: Vec<PageEnd> = self.ends.iter().map(renumbered).collect();
        ends.sort_unstable();
        Workload {
            name: self.name.clone(),
            requests,
            pages,
            times_us: self.times_us.clone(),
            ends,
            footprint_pages: self.footprint_pages,
            nr_groups: self.nr_groups,
        }
    }

    /// Bytes it takes.
    pub fn memory_bytes(&self) -> u64 {
        (self.requests.capacity() * size_of::<Request>()
            + self.pages.capacity() * size_of::<Page>()
            + self.times_us.capacity() * size_of::<u64>()
            + self.ends.capacity() * size_of::<PageEnd>()) as u64
    }
}

/// Takes accesses one by one, as a reader yields them.
#[derive(Debug)]
pub struct WorkloadBuilder {
    workload: Workload,
    interner: Interner,
    /// Page, and the time it was freed.
    freed: Vec<(u32, u64)>,
    /// When everything of a space was freed.
    ended_us: BTreeMap<u32, u64>,
}

impl WorkloadBuilder {
    /// Nothing yet, under a name.
    pub fn new(name: impl Into<String>) -> WorkloadBuilder {
        WorkloadBuilder {
            workload: Workload {
                name: name.into(),
                nr_groups: 1,
                ..Workload::default()
            },
            interner: Interner::new(),
            freed: Vec::new(),
            ended_us: BTreeMap::new(),
        }
    }

    /// Adds an access.
    ///
    /// # Errors
    /// More requests or pages than the numbers hold; what was added before stays.
    pub fn push(&mut self, access: Access) -> Result<(), LoadError> {
        let workload = &mut self.workload;
        if workload.requests.len() == u32::MAX as usize {
            return Err(LoadError::TooLong);
        }
        let (page, is_new) = self.interner.number(access.key);
        if is_new {
            if page >= 1 << PAGE_BITS {
                return Err(LoadError::TooManyPages);
            }
            workload.nr_groups = workload.nr_groups.max(access.group.saturating_add(1));
            workload.pages.push(Page {
                key: access.key,
                group: access.group,
                backing: access.backing,
            });
        }
        let position = workload.requests.len();
        workload
            .requests
            .push(Request::new(page, access.op, access.via));
        // Times are only kept once one differs from 0, what came before being 0.
        if access.time_us != 0 && workload.times_us.is_empty() {
            workload.times_us.resize(position, 0);
        }
        if access.time_us != 0 || !workload.times_us.is_empty() {
            workload.times_us.push(access.time_us);
        }
        Ok(())
    }

    /// Pages are freed before what is accessed at the same time. Those that were not accessed by now
    /// are none of this workload.
    pub fn free(&mut self, freed: Freed) {
        match freed.what {
            FreedPages::Page(key) => {
                let page = self.interner.known(key);
                self.freed.extend(page.map(|page| (page, freed.time_us)));
            }
            FreedPages::Space(space) => {
                self.ended_us.insert(space, freed.time_us);
            }
        }
    }

    /// Bytes that are in use at most while so many more accesses come: what a vector has in reserve is
    /// not, as nothing was written there.
    fn bytes_with(&self, nr_more: usize) -> u64 {
        let Workload {
            requests,
            pages,
            times_us,
            ..
        } = &self.workload;
        let own = (requests.len() + nr_more) * size_of::<Request>()
            + (pages.len() + nr_more) * size_of::<Page>()
            + (times_us.len() + nr_more) * size_of::<u64>()
            // Ends are sorted out of what was freed once all is read.
            + self.freed.len() * (size_of::<(u32, u64)>() + size_of::<PageEnd>())
            + self.ended_us.len() * ENDED_BYTES;
        own as u64 + self.interner.bytes_with(nr_more)
    }

    /// The workload.
    pub fn finish(mut self) -> Workload {
        self.workload.ends = self.ends();
        self.workload.footprint_pages = match self.workload.ends.is_empty() {
            true => self.workload.nr_pages(),
            false => self.workload.most_used().0,
        };
        self.workload.requests.shrink_to_fit();
        self.workload.pages.shrink_to_fit();
        self.workload.times_us.shrink_to_fit();
        self.workload
    }
}

impl WorkloadBuilder {
    /// What was freed, by position.
    fn ends(&mut self) -> Vec<PageEnd> {
        let Workload {
            requests,
            pages,
            times_us,
            ..
        } = &self.workload;
        let mut freed = std::mem::take(&mut self.freed);
        if !self.ended_us.is_empty() {
            let of_space = |(page, of): (u32, &Page)| {
                let time_us = self.ended_us.get(&of.key.space)?;
                Some((page, *time_us))
            };
            freed.extend((0..).zip(pages).filter_map(of_space));
        }
        let end = |(page, time_us): (u32, u64)| {
            // Without times everything is accessed at 0.
            let position = match times_us.is_empty() {
                true if time_us == 0 => 0,
                true => requests.len(),
                false => times_us.partition_point(|time| *time < time_us),
            };
            let end = PageEnd {
                position: position as u32,
                page: PageId(page),
            };
            (position < requests.len()).then_some(end)
        };
        let mut ends: Vec<PageEnd> = freed.into_iter().filter_map(end).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

impl Workload {
    /// The most pages that were accessed and not freed yet at any time, and how many of them were pages of files that had only
    /// been accessed through descriptors.
    fn most_used(&self) -> (u32, u32) {
        let mut state = vec![State::Unused; self.pages.len()];
        let (mut nr_used, mut nr_cached) = (0_u32, 0_u32);
        let mut most = (0, 0);
        let mut ends = &self.ends[..];
        for (position, request) in self.requests.iter().enumerate() {
            for end in ends_before(&mut ends, position) {
                match std::mem::replace(&mut state[end.page.index()], State::Unused) {
                    State::Unused => continue,
                    State::Other => {}
                    State::Cached => nr_cached -= 1,
                }
                nr_used -= 1;
            }
            let is_cache =
                request.via() == Via::FileDescriptor && self.page(request.page()).backing.is_file();
            let state = &mut state[request.page().index()];
            match (*state, is_cache) {
                (State::Unused, true) => {
                    (nr_used, nr_cached) = (nr_used + 1, nr_cached + 1);
                    *state = State::Cached;
                }
                (State::Unused, false) => {
                    nr_used += 1;
                    *state = State::Other;
                }
                (State::Cached, false) => {
                    nr_cached -= 1;
                    *state = State::Other;
                }
                (State::Cached, true) | (State::Other, _) => {}
            }
            if nr_used > most.0 {
                most = (nr_used, nr_cached);
            }
        }
        most
    }
}

/// Whether a page is in use, and whether it is page cache that nobody has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    Cached,
    /// Mapped, or of no file.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(page: u64) -> Access {
        Access {
            key: PageKey { space: 1, page },
            ..Access::default()
        }
    }

    #[test]
    fn pages_are_numbered_as_they_come_up_and_belong_to_who_came_first() {
        let first = Access {
            group: 2,
            backing: Backing::Anon,
            ..access(900)
        };
        let workload =
            Workload::from_accesses("w", [first, access(7), access(900), access(1 << 60)]).unwrap();
        let pages: Vec<u32> = workload.requests().iter().map(|r| r.page().0).collect();
        assert_eq!(pages, [0, 1, 0, 2]);
        let page = workload.page(PageId(0));
        assert_eq!((page.group, page.backing), (2, Backing::Anon));
        assert_eq!((workload.nr_pages(), workload.nr_groups()), (3, 3));
    }

    #[test]
    fn pages_that_are_freed_do_not_count_twice_in_the_footprint() {
        let at = |time_us, page| Access {
            time_us,
            ..access(page)
        };
        let free = |time_us, page| Freed {
            what: FreedPages::Page(PageKey { space: 1, page }),
            time_us,
        };
        // Ten pages, of which two are freed and taken anew as others in each of five intervals.
        let mut builder = WorkloadBuilder::new("w");
        (0..10).for_each(|page| builder.push(at(1, page)).unwrap());
        for time in 0..5 {
            for page in [2 * time, 2 * time + 1] {
                builder.push(at(time + 2, 10 + page)).unwrap();
                builder.free(free(time + 2, page));
            }
        }
        builder.free(free(3, 999));
        let workload = builder.finish();
        assert_eq!((workload.nr_pages(), workload.footprint_pages()), (20, 10));
        let positions: Vec<u32> = workload.ends().iter().map(|end| end.position).collect();
        assert_eq!(positions, [10, 10, 12, 12, 14, 14, 16, 16, 18, 18]);
        let reordered = workload.in_order(crate::IntervalOrder::Worst);
        assert_eq!(reordered.footprint_pages(), 10);
        for (before, after) in workload.ends().iter().zip(reordered.ends()) {
            assert_eq!(before.position, after.position);
        }
    }

    #[test]
    fn page_cache_in_the_footprint_is_what_was_there_when_most_was_in_use() {
        let of = |time_us, space, page| Access {
            key: PageKey { space, page },
            time_us,
            via: match space {
                9 => Via::FileDescriptor,
                _ => Via::PageTable,
            },
            ..Access::default()
        };
        let mut builder = WorkloadBuilder::new("w");
        (0..5).for_each(|page| builder.push(of(1, 9, page)).unwrap());
        (0..8).for_each(|page| builder.push(of(1, 0, page)).unwrap());
        // Three pages of the file are cut off, then it grows by less than that.
        for page in 0..3 {
            builder.free(Freed {
                what: FreedPages::Page(PageKey { space: 9, page }),
                time_us: 2,
            });
        }
        (5..7).for_each(|page| builder.push(of(2, 9, page)).unwrap());
        let workload = builder.finish();
        assert_eq!(
            (workload.footprint_pages(), workload.footprint_cache_pages()),
            (13, 5)
        );
        assert!(workload.has_descriptor_accesses());
    }

    #[test]
    fn what_a_process_had_is_freed_when_it_ends() {
        let of = |space, time_us, page| Access {
            key: PageKey { space, page },
            time_us,
            ..Access::default()
        };
        let mut builder = WorkloadBuilder::new("w");
        for space in 0..5 {
            let time_us = u64::from(space) + 1;
            (0..8).for_each(|page| builder.push(of(space, time_us, page)).unwrap());
            builder.free(Freed {
                what: FreedPages::Space(space),
                time_us: time_us + 1,
            });
        }
        let workload = builder.finish();
        assert_eq!((workload.nr_pages(), workload.footprint_pages()), (40, 8));
    }

    #[test]
    fn times_are_kept_from_the_first_that_is_not_zero() {
        let at = |time_us| Access {
            time_us,
            ..access(1)
        };
        let without = Workload::from_accesses("w", [at(0), at(0)]).unwrap();
        assert!(!without.has_times() && without.time_us(0).is_none());
        let with = Workload::from_accesses("w", [at(0), at(5), at(0)]).unwrap();
        let times: Vec<_> = (0..4).map(|position| with.time_us(position)).collect();
        assert_eq!(times, [Some(0), Some(5), Some(0), None]);
    }
}
