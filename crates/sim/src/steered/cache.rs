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
//! **Owns** what one step does and costs. **Does not own** when a census comes and how much is dropped
//! (`strata_control::drop_cache`, `admit_cache`), which pages those are (`strata_control::page_cache`), the counts' names in
//! JSON (`outcome`), nor the played kernel (`mechanism`).
//!
//! **Invariants** I1: only clean pages that nobody has mapped are dropped. I2: where page cache is left to the kernel, nothing
//! here is kept.

mod files;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::VecDeque, ops::Range};

use strata_control::{
    CacheDrop, CacheLook, CacheRequest, CacheSample, Config, PAGE_BYTES, Reads,
    page_cache::{
        Arrival, FILE_BYTES_MIN, FILES_MAX, FileId, FileKey, IdleTable, Newcomers, SEARCH_PAUSE_MS,
        Tried,
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
    outcome::{CacheCounts, TierRecord},
    workload::Workload,
};

/// Requests under way at most, as in a live run.
const IN_FLIGHT_MAX: usize = 64;
/// What came in and does not fit into the buffer of a live run is not told: 4 MiB, 56 bytes each.
const ARRIVALS_MAX: usize = (4 << 20) / 56;

/// What the thread is at.
#[derive(Debug)]
struct Work {
    of: CacheRequest,
    /// What was found so far; the loop hears of it once all ranges were tried.
    look: CacheLook,
    ranges: VecDeque<(FileKey, Range<u64>)>,
    nr_gone_pages: u64,
}

/// The thread.
#[derive(Debug, Default)]
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
    work: Option<Work>,
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
            is_on,
            files,
            table: IdleTable::new(config.drop_cache),
            newcomers: Newcomers::new(config.admit_cache),
            dropped: Bits::new(if is_on { layout.nr_slots() } else { 0 }),
            ..CacheThread::default()
        }
    }

    /// What became of page cache; `None` where it is left to the kernel.
    pub(super) fn counts(&self) -> Option<CacheCounts> {
        let (in_bytes, again_bytes) = self.newcomers.totals_bytes();
        self.is_on.then(|| CacheCounts {
            returned_pages: self.table.nr_returned_pages(),
            tiers: (self.table.tiers().into_iter().zip(0..))
                .map(|(counts, tier)| TierRecord { tier, counts })
                .collect(),
            in_pages: in_bytes / PAGE_BYTES,
            in_again_pages: again_bytes / PAGE_BYTES,
            ..self.counts.clone()
        })
    }

    /// Dropped so far.
    pub(super) fn nr_dropped_pages(&self) -> u64 {
        self.counts.dropped_pages()
    }

    /// Attempts at dropping pages that have ended since this was last asked.
    pub(super) fn take_attempts(&mut self) -> u64 {
        std::mem::take(&mut self.nr_attempts)
    }

    /// How it stands; `None` where page cache is left to the kernel.
    pub(super) fn take_look(&mut self) -> Option<CacheLook> {
        let is_busy = !self.requests.is_empty() || self.work.is_some();
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
                false => self.counts.lost_pages += 1,
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
        let mut is_done = false;
        let mut work_ns = 0;
        match self.work.take() {
            Some(mut work) if !work.ranges.is_empty() => {
                work_ns = self.drop_range(now, machine, &mut work);
                self.work = Some(work);
            }
            ended => {
                if let Some(work) = ended {
                    self.end(now, work);
                }
                match self.requests.pop_front() {
                    Some(request) => work_ns = self.begin(now_ns, machine, request),
                    None => is_done = true,
                }
            }
        }
        Took {
            work_ns,
            is_done,
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
        let mut work = Work {
            of: request,
            look: CacheLook::default(),
            ranges: VecDeque::new(),
            nr_gone_pages: 0,
        };
        let work_ns = match request {
            CacheRequest::Census => {
                let sample = self.census(now_ns, machine);
                work.look.found.insert(sample).cpu_ns
            }
            CacheRequest::LookAtNewcomers(history_bytes) => {
                self.newcomers.remember(history_bytes);
                self.take_arrivals(now, &mut work.look)
            }
            CacheRequest::Drop(CacheDrop::File(number, reads, bytes)) => {
                if let Some(key) = self.table.file(number).map(|file| file.key) {
                    let ranges = self.table.choose(number, reads, bytes).into_iter();
                    work.ranges.extend(ranges.map(|range| (key, range)));
                }
                0
            }
            CacheRequest::Drop(CacheDrop::Newcomers(bytes)) => {
                let mut work_ns = self.take_arrivals(now, &mut work.look);
                for (FileId { key, .. }, newcomers) in self.newcomers.choose(now, bytes) {
                    work_ns += newcomers.len() as u64 * prices::CENSUS_NS;
                    let going = self.newcomers.judge(now, newcomers, |ranges| {
                        let pages = ranges.iter().flat_map(|range| {
                            range.clone().zip(self.files.slots(key, range.clone()))
                        });
                        pages
                            .filter_map(|(index, slot)| machine.page_found(key, index, slot))
                            .collect()
                    });
                    work.ranges
                        .extend(going.into_iter().map(|range| (key, range)));
                }
                work_ns
            }
        };
        self.work = Some(work);
        work_ns
    }

    fn census<P: PlaysKernel>(&mut self, now_ns: u64, machine: &Machine<'_, P>) -> CacheSample {
        if self.search_due_ns.is_none_or(|due_ns| now_ns >= due_ns) {
            self.search(machine);
            self.search_due_ns = Some(now_ns + SEARCH_PAUSE_MS * 1_000_000);
        }
        self.table
            .begin(TimeMs(now_ns / 1_000_000), self.known.iter().copied());
        let mut nr_pages = 0;
        for file in &self.known {
            for (index, slot) in self.files.pages(file.key) {
                if let Some(found) = machine.page_found(file.key, index, slot) {
                    nr_pages += u64::from(!found.is_mapped);
                    self.table.see(found);
                }
            }
        }
        let mut sample = self.table.end(machine.nr_reads_max());
        sample.cpu_ns = nr_pages * prices::CENSUS_NS;
        self.counts.censuses += 1;
        debug_assert_eq!(
            sample.files.iter().map(|of| of.cached_bytes).sum::<u64>(),
            nr_pages * PAGE_BYTES,
            "the table has what the census has told"
        );
        sample
    }

    /// Looks which files have so much in memory that censuses are to look at them.
    fn search<P: PlaysKernel>(&mut self, machine: &Machine<'_, P>) {
        let in_memory = |file: &FileId| {
            let pages = self.files.pages(file.key);
            pages.filter(|(_, slot)| machine.is_cached(*slot)).count() as u64
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
    fn take_arrivals(&mut self, now: TimeMs, look: &mut CacheLook) -> u64 {
        let work_ns = self.arrivals.len() as u64 * prices::ARRIVAL_NS;
        look.add(self.newcomers.take(now, self.arrivals.drain(..)));
        work_ns
    }

    /// One call that drops; what it takes.
    fn drop_range<P: PlaysKernel>(
        &mut self,
        now: TimeMs,
        machine: &mut Machine<'_, P>,
        work: &mut Work,
    ) -> u64 {
        let Some((file, range)) = work.ranges.pop_front() else {
            return 0;
        };
        let (mut nr_tried, mut nr_gone) = (0, 0);
        for slot in self.files.slots(file, range.clone()) {
            nr_tried += u64::from(machine.is_in_memory(slot));
            if machine.drop_page(slot) {
                nr_gone += 1;
                self.dropped.set(slot);
            }
        }
        work.nr_gone_pages += nr_gone;
        self.counts.left_pages += nr_tried - nr_gone;
        *match work.of {
            CacheRequest::Drop(CacheDrop::File(_, Reads::Once, _)) => &mut self.counts.once_pages,
            CacheRequest::Drop(CacheDrop::File(_, Reads::Again, _)) => &mut self.counts.again_pages,
            _ => &mut self.counts.newcomers_pages,
        } += nr_gone;
        if let CacheRequest::Drop(CacheDrop::File(number, ..)) = work.of {
            let tried = Tried {
                nr_tried_pages: nr_tried,
                nr_gone_pages: nr_gone,
            };
            self.table.note_dropped(now, number, &range, tried);
        } else if nr_gone > 0 {
            // Newcomers have counts of their own.
            self.table.note_counted(file, range);
        }
        prices::DROP_CALL_NS + nr_gone * prices::DROP_NS
    }

    /// All ranges were tried; the loop hears of it.
    fn end(&mut self, now: TimeMs, work: Work) {
        let Work { of, look, .. } = work;
        self.nr_attempts += u64::from(matches!(of, CacheRequest::Drop(_)));
        if look.found.is_some() {
            self.look.found = look.found;
        }
        if let Some(mut came_in) = look.came_in {
            if let CacheRequest::Drop(CacheDrop::Newcomers(bytes)) = of {
                came_in.tried_bytes = bytes;
                came_in.gone_bytes = (work.nr_gone_pages * PAGE_BYTES).min(bytes);
                came_in.ripe_bytes = self.newcomers.ripe_bytes(now);
            }
            self.look.add(came_in);
        }
    }
}
