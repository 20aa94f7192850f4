//! The thread that takes censuses of page cache and drops pages of it, in virtual time.
//!
//! ```text
//!   TakeCensus      -> each page of known files in memory -> IdleTable -> what lies idle, by file
//!   LookAtNewcomers -> misses since the last look         -> Newcomers -> what came in
//!   Drop...         -> IdleTable, Newcomers choose        -> a range of a file at a time -> what is gone
//! ```
//!
//! Page cache is what of a file is in memory and no program has mapped. How often a page was read the played kernel's own flags
//! tell, as those of a live one do. Requests are done one after the other, as by the thread of a live run; what came of them the
//! loop hears at its next tick.
//!
//! **Owns** the requests and what one step does and costs. **Does not own** when a census comes and how much is dropped
//! (`strata_control::drop_cache`, `admit_cache`), which pages those are (`strata_control::page_cache`), nor the played kernel
//! (`mechanism`).
//!
//! **Invariants** I1: only clean pages that nobody has mapped are dropped. I2: where page cache is left to the kernel, nothing
//! here is kept.

mod files;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::VecDeque, ops::Range};

use strata_control::{
    Action, CacheLook, CameIn, Config, FileNo, PAGE_BYTES, Reads,
    page_cache::{
        Arrival, FILE_BYTES_MIN, FILES_MAX, FOLIO_PAGES_MAX, FileId, FileKey, IdleTable, NR_TIERS,
        Newcomer, Newcomers, PageFound, SEARCH_PAUSE_MS, TierCounts, Tried, Verdict,
    },
};
use strata_lru::TimeMs;

use self::files::Files;
use super::{
    prices,
    threads::{Slot, Took},
};
use crate::{
    mechanism::{Machine, PlaysKernel, bits::Bits, layout::Layout},
    workload::Workload,
};

/// Requests under way at most, as in a live run.
const IN_FLIGHT_MAX: usize = 64;
/// What came in and does not fit into the buffer of a live run is not told: 4 MiB, 56 bytes each.
const ARRIVALS_MAX: usize = (4 << 20) / 56;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheRequest {
    /// A census.
    Census,
    /// Dropping pages of a file that lie idle, at most so many bytes.
    Drop(FileNo, Reads, u64),
    /// A look at what came in; it is remembered until so many bytes came in after it.
    LookAtNewcomers(u64),
    /// Dropping what came in of late, at most so many bytes.
    DropNewcomers(u64),
}

impl CacheRequest {
    /// What an action of the loop asks for; `None`: it has nothing to do with page cache.
    pub(super) fn of(action: Action) -> Option<CacheRequest> {
        Some(match action {
            Action::TakeCensus => CacheRequest::Census,
            Action::DropReadOnce { file, bytes } => {
                CacheRequest::Drop(FileNo(file), Reads::Once, bytes)
            }
            Action::DropReadAgain { file, bytes } => {
                CacheRequest::Drop(FileNo(file), Reads::Again, bytes)
            }
            Action::LookAtNewcomers { history_bytes } => {
                CacheRequest::LookAtNewcomers(history_bytes)
            }
            Action::DropNewcomers { bytes } => CacheRequest::DropNewcomers(bytes),
            _ => return None,
        })
    }
}

/// What became of page cache; pages are base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Censuses.
    pub nr_censuses: u64,
    /// Dropped after they were read at most once.
    pub nr_once_pages: u64,
    /// Dropped after they were read again.
    pub nr_again_pages: u64,
    /// Dropped in a loop, a moment after they had come in.
    pub nr_newcomer_pages: u64,
    /// Chosen to be dropped, in memory, and left because they were dirty or mapped.
    pub nr_left_pages: u64,
    /// Dropped because they lay idle, and read again within a minute.
    pub nr_returned_pages: u64,
    /// Came in since the first census; not what came between two looks that lie 2 s or more apart, nor after the last.
    pub nr_in_pages: u64,
    /// Part of `nr_in_pages` that had been in memory before, as far as that is remembered.
    pub nr_in_again_pages: u64,
    /// Came in and found no room in the buffer: too many between two looks.
    pub nr_lost_pages: u64,
    /// What became of pages, by tier.
    pub tiers: [TierCounts; NR_TIERS],
}

impl CacheCounts {
    /// All that was dropped.
    pub fn nr_dropped_pages(&self) -> u64 {
        self.nr_once_pages + self.nr_again_pages + self.nr_newcomer_pages
    }
}

/// What is dropped for one request.
#[derive(Debug)]
struct Dropping {
    of: CacheRequest,
    /// What came in before.
    came_in: Option<CameIn>,
    ranges: VecDeque<(FileKey, Range<u64>)>,
    nr_gone_pages: u64,
}

/// What the thread is at.
#[derive(Debug, Default)]
enum Work {
    #[default]
    Nothing,
    /// Done; the loop has not heard of it.
    Found(CacheLook),
    Dropping(Dropping),
}

/// The thread.
#[derive(Debug)]
pub(super) struct CacheThread {
    pub(super) slot: Slot,
    is_on: bool,
    files: Files,
    table: IdleTable,
    newcomers: Newcomers,
    /// Files that censuses look at.
    known: Vec<FileId>,
    /// When all of memory is looked through for files again; none before the first census.
    search_due_ns: Option<u64>,
    /// What has come in and nobody has looked at.
    arrivals: Vec<Arrival>,
    requests: VecDeque<CacheRequest>,
    work: Work,
    /// What the loop has not heard of.
    look: CacheLook,
    nr_attempts: u64,
    /// Pages that are not in memory because they were dropped.
    dropped: Bits,
    counts: CacheCounts,
}

impl CacheThread {
    /// Nothing is known yet. `is_wanted`: page cache may be dropped, if the workload has any.
    pub(super) fn new(
        workload: &Workload,
        layout: &Layout,
        config: &Config,
        is_wanted: bool,
    ) -> CacheThread {
        let files = match is_wanted {
            true => Files::new(workload, layout),
            false => Files::default(),
        };
        let is_on = !files.is_empty();
        CacheThread {
            slot: Slot::default(),
            is_on,
            files,
            table: IdleTable::new(config.drop_cache),
            newcomers: Newcomers::new(config.admit_cache),
            known: Vec::new(),
            search_due_ns: None,
            arrivals: Vec::new(),
            requests: VecDeque::new(),
            work: Work::Nothing,
            look: CacheLook::default(),
            nr_attempts: 0,
            dropped: Bits::new(if is_on { layout.nr_slots() } else { 0 }),
            counts: CacheCounts::default(),
        }
    }

    /// What became of page cache; `None` where it is left to the kernel.
    pub(super) fn counts(&self) -> Option<CacheCounts> {
        let (in_bytes, again_bytes) = self.newcomers.totals_bytes();
        self.is_on.then(|| CacheCounts {
            nr_returned_pages: self.table.nr_returned_pages(),
            tiers: self.table.tiers(),
            nr_in_pages: in_bytes / PAGE_BYTES,
            nr_in_again_pages: again_bytes / PAGE_BYTES,
            ..self.counts
        })
    }

    /// Dropped so far.
    pub(super) fn nr_dropped_pages(&self) -> u64 {
        self.counts.nr_dropped_pages()
    }

    /// Attempts at dropping pages that have ended since this was last asked.
    pub(super) fn take_attempts(&mut self) -> u64 {
        std::mem::take(&mut self.nr_attempts)
    }

    /// How it stands; `None` where page cache is left to the kernel.
    pub(super) fn take_look(&mut self) -> Option<CacheLook> {
        let is_busy = !self.requests.is_empty() || !matches!(self.work, Work::Nothing);
        self.is_on.then(|| CacheLook {
            is_busy,
            ..std::mem::take(&mut self.look)
        })
    }

    /// Hands a request over. One for which there is no room is passed over: the loop asks again.
    pub(super) fn submit(&mut self, now_ns: u64, request: CacheRequest) {
        if !self.is_on || self.requests.len() >= IN_FLIGHT_MAX {
            return;
        }
        self.requests.push_back(request);
        if self.slot.next_ns == u64::MAX {
            self.slot.begin(now_ns);
        }
    }

    /// A page of a file comes to memory. Whether it was there before and was dropped.
    pub(super) fn note_miss(&mut self, slot: u32) -> bool {
        let Some((file, index)) = self.files.page_at(slot) else {
            return false;
        };
        // The kernel is asked to tell of them from the first census on.
        if self.search_due_ns.is_some() {
            match self.arrivals.len() < ARRIVALS_MAX {
                true => self.arrivals.push(Arrival {
                    file,
                    index,
                    nr_pages: 1,
                }),
                false => self.counts.nr_lost_pages += 1,
            }
        }
        self.dropped.take(slot)
    }

    /// A page is freed.
    pub(super) fn forget(&mut self, slot: u32) {
        if self.is_on {
            self.dropped.clear(slot);
            if let Some((file, index)) = self.files.page_at(slot) {
                self.table.freed(file.key, index..index + 1);
            }
        }
    }

    /// One step: a request begins, a range of it is dropped, or its end is told.
    pub(super) fn step<P: PlaysKernel>(
        &mut self,
        now_ns: u64,
        machine: &mut Machine<'_, P>,
    ) -> Took {
        let now = TimeMs(now_ns / 1_000_000);
        let work_ns = match std::mem::take(&mut self.work) {
            Work::Nothing => 0,
            Work::Found(look) => {
                self.tell(look);
                0
            }
            Work::Dropping(mut of) => match of.ranges.pop_front() {
                Some((file, range)) => {
                    let work_ns = self.drop_range(now, machine, &mut of, file, &range);
                    self.work = Work::Dropping(of);
                    work_ns
                }
                None => {
                    self.end(now, of);
                    0
                }
            },
        };
        let work_ns = match &self.work {
            Work::Nothing => match self.requests.pop_front() {
                Some(request) => self.begin(now_ns, machine, request),
                None => {
                    return Took {
                        is_done: true,
                        ..Took::default()
                    };
                }
            },
            _ => work_ns,
        };
        Took {
            work_ns,
            ..Took::default()
        }
    }

    /// A request begins; what it takes until the first range is dropped.
    fn begin<P: PlaysKernel>(
        &mut self,
        now_ns: u64,
        machine: &Machine<'_, P>,
        request: CacheRequest,
    ) -> u64 {
        let now = TimeMs(now_ns / 1_000_000);
        match request {
            CacheRequest::Census => self.census(now_ns, machine),
            CacheRequest::LookAtNewcomers(history_bytes) => {
                self.newcomers.remember(history_bytes);
                let (came_in, work_ns) = self.take_arrivals(now);
                let mut look = CacheLook::default();
                look.add(came_in);
                self.work = Work::Found(look);
                work_ns
            }
            CacheRequest::Drop(number, reads, bytes) => {
                let ranges = match self.table.file(number).map(|file| file.key) {
                    Some(key) => {
                        let ranges = self.table.choose(number, reads, bytes).into_iter();
                        ranges.map(|range| (key, range)).collect()
                    }
                    None => VecDeque::new(),
                };
                self.work = Work::Dropping(Dropping {
                    of: request,
                    came_in: None,
                    ranges,
                    nr_gone_pages: 0,
                });
                0
            }
            CacheRequest::DropNewcomers(bytes) => {
                let (came_in, mut work_ns) = self.take_arrivals(now);
                let mut ranges = VecDeque::new();
                for (file, newcomers) in self.newcomers.choose(now, bytes) {
                    work_ns += newcomers.len() as u64 * prices::CENSUS_NS;
                    self.judge(now, machine, file.key, newcomers, &mut ranges);
                }
                self.work = Work::Dropping(Dropping {
                    of: request,
                    came_in: Some(came_in),
                    ranges,
                    nr_gone_pages: 0,
                });
                work_ns
            }
        }
    }

    fn census<P: PlaysKernel>(&mut self, now_ns: u64, machine: &Machine<'_, P>) -> u64 {
        if self.search_due_ns.is_none_or(|due_ns| now_ns >= due_ns) {
            self.search(machine);
            self.search_due_ns = Some(now_ns + SEARCH_PAUSE_MS * 1_000_000);
        }
        self.table
            .begin(TimeMs(now_ns / 1_000_000), self.known.iter().copied());
        let mut nr_pages = 0;
        for file in &self.known {
            for (index, slot) in self.files.pages(file.key) {
                let Some(found) = found_at(machine, file.key, index, slot) else {
                    continue;
                };
                nr_pages += u64::from(!found.is_mapped);
                self.table.see(found);
            }
        }
        let mut sample = self.table.end(machine.nr_reads_max());
        sample.cpu_ns = nr_pages * prices::CENSUS_NS;
        self.counts.nr_censuses += 1;
        debug_assert_eq!(
            sample.files.iter().map(|of| of.cached_bytes).sum::<u64>(),
            nr_pages * PAGE_BYTES,
            "the table has what the census has told"
        );
        let work_ns = sample.cpu_ns;
        self.work = Work::Found(CacheLook {
            found: Some(sample),
            ..CacheLook::default()
        });
        work_ns
    }

    /// Looks which files have so much in memory that censuses are to look at them.
    fn search<P: PlaysKernel>(&mut self, machine: &Machine<'_, P>) {
        let in_memory = |file: &FileId| {
            let pages = self.files.pages(file.key);
            pages
                .filter(|(_, slot)| machine.cached(*slot).is_some())
                .count() as u64
        };
        let files = self.files.all().map(|file| (in_memory(&file), file));
        let mut files: Vec<(u64, FileId)> = files
            .filter(|(nr_pages, _)| nr_pages * PAGE_BYTES >= FILE_BYTES_MIN)
            .collect();
        files.sort_by_key(|(nr_pages, _)| Reverse(*nr_pages));
        files.truncate(FILES_MAX);
        self.known = files.into_iter().map(|(_, file)| file).collect();
    }

    /// Takes in what came since the last look; what that takes.
    fn take_arrivals(&mut self, now: TimeMs) -> (CameIn, u64) {
        let work_ns = self.arrivals.len() as u64 * prices::ARRIVAL_NS;
        (self.newcomers.take(now, self.arrivals.drain(..)), work_ns)
    }

    /// Looks at newcomers of one file: those that go, as ranges; those that nobody has read yet wait again.
    fn judge<P: PlaysKernel>(
        &mut self,
        now: TimeMs,
        machine: &Machine<'_, P>,
        file: FileKey,
        mut newcomers: Vec<Newcomer>,
        ranges: &mut VecDeque<(FileKey, Range<u64>)>,
    ) {
        newcomers.sort_by_key(|newcomer| newcomer.arrival.index);
        let mut going: Vec<Range<u64>> = Vec::new();
        for newcomer in newcomers {
            let index = newcomer.arrival.index;
            let mut slots = self.files.slots(file, index..index + 1);
            let found = slots.find_map(|slot| found_at(machine, file, index, slot));
            match found
                .filter(|found| !found.is_mapped)
                .map(|found| newcomer.verdict(&found))
            {
                Some(Verdict::Goes) => match going.last_mut() {
                    Some(last) if last.end >= index && index % FOLIO_PAGES_MAX != 0 => {
                        last.end = last.end.max(index + 1);
                    }
                    _ => going.push(index..index + 1),
                },
                Some(Verdict::Unread) => self.newcomers.put_back(now, newcomer),
                Some(Verdict::Stays) | None => {}
            }
        }
        ranges.extend(going.into_iter().map(|range| (file, range)));
    }

    /// One call that drops; what it takes.
    fn drop_range<P: PlaysKernel>(
        &mut self,
        now: TimeMs,
        machine: &mut Machine<'_, P>,
        of: &mut Dropping,
        file: FileKey,
        range: &Range<u64>,
    ) -> u64 {
        let (mut nr_tried, mut nr_gone) = (0, 0);
        for slot in self.files.slots(file, range.clone()) {
            nr_tried += u64::from(machine.is_in_memory(slot));
            if machine.drop_page(slot) {
                nr_gone += 1;
                self.dropped.set(slot);
            }
        }
        of.nr_gone_pages += nr_gone;
        self.counts.nr_left_pages += nr_tried - nr_gone;
        *match of.of {
            CacheRequest::Drop(_, Reads::Once, _) => &mut self.counts.nr_once_pages,
            CacheRequest::Drop(_, Reads::Again, _) => &mut self.counts.nr_again_pages,
            _ => &mut self.counts.nr_newcomer_pages,
        } += nr_gone;
        if let CacheRequest::Drop(number, ..) = of.of {
            let tried = Tried {
                nr_tried_pages: nr_tried,
                nr_gone_pages: nr_gone,
            };
            self.table.note_dropped(now, number, range, tried);
        } else if nr_gone > 0 {
            // Newcomers have counts of their own.
            self.table.note_counted(file, range.clone());
        }
        prices::DROP_CALL_NS + nr_gone * prices::DROP_NS
    }

    /// All ranges were tried.
    fn end(&mut self, now: TimeMs, of: Dropping) {
        self.nr_attempts += 1;
        if let (CacheRequest::DropNewcomers(bytes), Some(came_in)) = (of.of, of.came_in) {
            self.look.add(CameIn {
                tried_bytes: bytes,
                gone_bytes: (of.nr_gone_pages * PAGE_BYTES).min(bytes),
                ripe_bytes: self.newcomers.ripe_bytes(now),
                ..came_in
            });
        }
    }

    fn tell(&mut self, look: CacheLook) {
        if look.found.is_some() {
            self.look.found = look.found;
        }
        if let Some(came_in) = look.came_in {
            self.look.add(came_in);
        }
    }
}

/// What a census sees at a slot: page cache, or a page of a file that a program has mapped.
fn found_at<P: PlaysKernel>(
    machine: &Machine<'_, P>,
    file: FileKey,
    index: u64,
    slot: u32,
) -> Option<PageFound> {
    let cached = machine.cached(slot);
    let is_there = cached.is_some() || machine.is_in_memory(slot);
    is_there.then(|| PageFound {
        file,
        index,
        nr_pages: 1,
        nr_reads: cached.map_or(0, |of| of.nr_reads),
        is_busy: cached.is_some_and(|of| of.is_dirty),
        is_referenced: cached.is_some_and(|of| of.is_referenced),
        is_mapped: cached.is_none(),
    })
}
