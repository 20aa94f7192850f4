//! What is known of a group's page cache, page by page, from census to census.
//!
//! ```text
//!   begin (files) -> see (each page of them in memory) -> end: what lies idle, by file
//!   choose: which pages go, read longest ago first -> note_dropped -> a page that is seen again has come back
//! ```
//!
//! **Owns** when each page was last found read, and which came back after they were dropped. **Does not own** taking a census,
//! how much is dropped of which file (`strata_control::drop_cache`), nor dropping.
//!
//! **Invariants**
//! - I1: a page is chosen only if the last census saw it, clean and unread since the census before at least.
//! - I2: a file's number is never used for another one.
//! - I3: 4 KiB are kept of each 2 MiB of a file in which the group has a page.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use strata_control::{CacheSample, FileCache, FileNo, Reads, drop_cache};
use strata_lru::TimeMs;

use crate::access::census::{FileId, FileKey, PageFound};
use crate::addr::{FILE_PAGES_MAX, PAGE_BYTES, TABLE_ENTRIES};

/// Pages that are kept together.
const CHUNK_PAGES: u64 = TABLE_ENTRIES as u64;
/// Times are kept in steps of so many milliseconds, so that 32 bits last for years.
const STEP_MS: u64 = 10;
/// The page is to be written, is being written, or is locked.
const IS_BUSY: u8 = 8;
/// The page was dropped, and was not read since.
const IS_DROPPED: u8 = 16;
/// Reads that the kernel has counted.
const READS_MASK: u8 = 7;

/// One page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// When the page was last found read; of one that is dropped, when that was. In steps.
    at: u32,
    /// The census that last saw it; 0: the last one did not.
    seen: u16,
    state: u8,
}

impl Page {
    fn reads(self) -> u8 {
        self.state & READS_MASK
    }

    fn is(self, flag: u8) -> bool {
        self.state & flag != 0
    }
}

/// The pages of one file.
#[derive(Debug)]
struct File {
    id: FileId,
    /// The last census that looked at it, and the one before; 0: none did.
    seen: u16,
    seen_before: u16,
    chunks: BTreeMap<u64, Box<[Page; TABLE_ENTRIES]>>,
    /// None of its pages can be dropped until then.
    left_until: Option<TimeMs>,
    /// When how many pages were dropped, and were read again.
    dropped: VecDeque<(TimeMs, u64)>,
    returned: VecDeque<(TimeMs, u64)>,
}

impl File {
    fn new(id: FileId) -> File {
        File {
            id,
            seen: 0,
            seen_before: 0,
            chunks: BTreeMap::new(),
            left_until: None,
            dropped: VecDeque::new(),
            returned: VecDeque::new(),
        }
    }

    /// A census looks at it.
    fn look(&mut self, census: u16) {
        if self.seen != census {
            (self.seen_before, self.seen) = (self.seen, census);
        }
    }

    fn page_mut(&mut self, index: u64) -> &mut Page {
        let chunk = self.chunks.entry(index / CHUNK_PAGES);
        let chunk = chunk.or_insert_with(|| Box::new([Page::default(); TABLE_ENTRIES]));
        &mut chunk[(index % CHUNK_PAGES) as usize]
    }

    fn pages(&self) -> impl Iterator<Item = (u64, Page)> {
        self.chunks.iter().flat_map(|(number, chunk)| {
            let pages = chunk.iter().enumerate();
            pages.map(move |(at, page)| (number * CHUNK_PAGES + at as u64, *page))
        })
    }
}

/// The page cache of a group.
#[derive(Debug)]
pub(crate) struct CacheTable {
    config: drop_cache::Config,
    files: BTreeMap<FileNo, File>,
    numbers: HashMap<FileKey, FileNo>,
    next_number: u32,
    /// The census under way or the last one, 1 to 65,535, again and again.
    census: u16,
    now: TimeMs,
    nr_reads_max: u8,
    nr_new_pages: u64,
    /// Pages that came back, in all.
    nr_returned_pages: u64,
}

impl CacheTable {
    /// Nothing seen yet.
    pub(crate) fn new(config: drop_cache::Config) -> CacheTable {
        CacheTable {
            config,
            files: BTreeMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            census: 0,
            now: TimeMs(0),
            nr_reads_max: READS_MASK,
            nr_new_pages: 0,
            nr_returned_pages: 0,
        }
    }

    /// A census of these files begins.
    pub(crate) fn begin(&mut self, now: TimeMs, files: &BTreeMap<FileKey, FileId>) {
        self.now = now;
        self.census = self.census.checked_add(1).unwrap_or(1);
        self.nr_new_pages = 0;
        self.know(files);
    }

    /// The census tells of pages.
    pub(crate) fn see(&mut self, found: PageFound) {
        // The struct may have changed while it was copied; no file has as many pages.
        if found.index.saturating_add(found.nr_pages) > FILE_PAGES_MAX {
            return;
        }
        if let Some(number) = self.numbers.get(&found.file) {
            self.see_of(*number, found);
        }
    }

    fn see_of(&mut self, number: FileNo, found: PageFound) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let is_new = file.seen_before == 0;
        let seen_before = file.seen_before;
        let now = steps(self.now);
        let remembered = (self.config.remembered_ms / STEP_MS) as u32;
        let nr_reads = found.nr_reads.min(u32::from(READS_MASK)) as u8;
        let mut nr_returned = 0;
        for index in found.index..found.index + found.nr_pages {
            let page = file.page_mut(index);
            let is_known = page.seen == seen_before && seen_before != 0;
            let is_twice = page.seen == self.census;
            if is_twice {
                continue;
            }
            let was_read = !is_known || nr_reads != page.reads() || found.is_busy;
            // When the pages of a file came that was found just now nobody knows.
            self.nr_new_pages += u64::from(!is_known && !is_new);
            let mut is_dropped = page.is(IS_DROPPED);
            if is_dropped && nr_reads > 0 {
                is_dropped = false;
                nr_returned += u64::from(now.saturating_sub(page.at) <= remembered);
            }
            *page = Page {
                at: if was_read { now } else { page.at },
                seen: self.census,
                state: nr_reads
                    | if found.is_busy { IS_BUSY } else { 0 }
                    | if is_dropped { IS_DROPPED } else { 0 },
            };
        }
        if nr_returned > 0 {
            self.nr_returned_pages += nr_returned;
            file.returned.push_back((self.now, nr_returned));
        }
    }

    /// The census has ended: what lies idle. What it cost is for the caller to fill in.
    pub(crate) fn end(&mut self, nr_reads_max: u32) -> CacheSample {
        self.nr_reads_max = nr_reads_max.min(u32::from(READS_MASK)) as u8;
        let files = self.sum_up();
        CacheSample {
            cpu_ns: 0,
            new_bytes: self.nr_new_pages * PAGE_BYTES,
            files,
        }
    }

    /// Takes in which files there are, and forgets others, unless it counts what was dropped of them.
    fn know(&mut self, files: &BTreeMap<FileKey, FileId>) {
        let (known, numbers) = (&mut self.files, &mut self.numbers);
        numbers.retain(|key, number| {
            let Some(file) = known.get(number) else {
                return false;
            };
            // The kernel may have given the struct to another file.
            let stays = match files.get(key) {
                Some(id) => file.id.is_same(id),
                None => !file.dropped.is_empty(),
            };
            if !stays {
                known.remove(number);
            }
            stays
        });
        for (key, id) in files {
            let number = *numbers.entry(*key).or_insert_with(|| {
                self.next_number += 1;
                FileNo(self.next_number - 1)
            });
            let file = known.entry(number).or_insert_with(|| File::new(*id));
            file.look(self.census);
        }
    }

    fn sum_up(&mut self) -> Vec<FileCache> {
        let (now, config) = (self.now, self.config);
        let mut sums = Vec::with_capacity(self.files.len());
        for (number, file) in &mut self.files {
            let is_left = file.left_until.is_some_and(|until| now < until);
            let mut sum = FileCache {
                file: *number,
                cached_bytes: 0,
                once_idle_bytes: 0,
                reused_bytes: 0,
                again_idle_bytes: 0,
                dropped_bytes: 0,
                returned_bytes: 0,
            };
            let seen = file.seen;
            file.chunks.retain(|_, chunk| {
                let mut is_empty = true;
                for page in chunk.iter_mut() {
                    if page.seen != seen || seen == 0 {
                        let is_forgotten = age_ms(now, *page) > config.remembered_ms;
                        let is_dropped = page.is(IS_DROPPED) && !is_forgotten;
                        *page = Page {
                            at: page.at,
                            seen: 0,
                            state: if is_dropped { IS_DROPPED } else { 0 },
                        };
                        is_empty &= !is_dropped;
                        continue;
                    }
                    is_empty = false;
                    sum.cached_bytes += PAGE_BYTES;
                    if page.reads() > 1 {
                        sum.reused_bytes += PAGE_BYTES;
                    }
                    match reads_of_idle(*page, now, self.nr_reads_max, &config) {
                        Some(Reads::Once) => sum.once_idle_bytes += PAGE_BYTES,
                        Some(Reads::Again) => sum.again_idle_bytes += PAGE_BYTES,
                        None => {}
                    }
                }
                !is_empty
            });
            for (list, bytes) in [
                (&mut file.dropped, &mut sum.dropped_bytes),
                (&mut file.returned, &mut sum.returned_bytes),
            ] {
                let is_old = |(at, _): &(TimeMs, u64)| now.since(*at) > config.remembered_ms;
                while list.front().is_some_and(is_old) {
                    list.pop_front();
                }
                *bytes = list.iter().map(|(_, nr_pages)| nr_pages).sum::<u64>() * PAGE_BYTES;
            }
            if is_left {
                (sum.once_idle_bytes, sum.again_idle_bytes) = (0, 0);
            }
            if sum.cached_bytes > 0 && file.seen == self.census {
                sums.push(sum);
            }
        }
        sums
    }

    /// Which file has this number.
    pub(crate) fn file(&self, number: FileNo) -> Option<&FileId> {
        self.files.get(&number).map(|file| &file.id)
    }

    /// Idle pages of a file, those read longest ago first, as ranges in order: at most so many bytes.
    pub(crate) fn choose(&self, number: FileNo, reads: Reads, bytes: u64) -> Vec<Range<u64>> {
        let Some(file) = self.files.get(&number).filter(|of| of.seen == self.census) else {
            return Vec::new();
        };
        let is_wanted = |page: Page| {
            let idle = reads_of_idle(page, self.now, self.nr_reads_max, &self.config);
            page.seen == self.census && idle == Some(reads)
        };
        let idle = file.pages().filter(|(_, page)| is_wanted(*page));
        let mut idle: Vec<(u32, u64)> = idle.map(|(index, page)| (page.at, index)).collect();
        idle.sort_unstable();
        idle.truncate((bytes / PAGE_BYTES) as usize);
        let mut indices: Vec<u64> = idle.into_iter().map(|(_, index)| index).collect();
        indices.sort_unstable();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for index in indices {
            // A range ends where a folio may, so that what becomes of one tells nothing of another.
            let is_apart = index % CHUNK_PAGES == 0;
            match ranges.last_mut() {
                Some(last) if last.end == index && !is_apart => last.end += 1,
                _ => ranges.push(index..index + 1),
            }
        }
        ranges
    }

    /// No page of a file can be dropped for now.
    pub(crate) fn leave(&mut self, now: TimeMs, number: FileNo) {
        if let Some(file) = self.files.get_mut(&number) {
            file.left_until = Some(TimeMs(now.0 + self.config.remembered_ms));
        }
    }

    /// These pages have been tried, and this many of them are gone.
    pub(crate) fn note_dropped(
        &mut self,
        now: TimeMs,
        number: FileNo,
        tried: &Range<u64>,
        nr_gone_pages: u64,
    ) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        for index in tried.clone() {
            let page = file.page_mut(index);
            // Where some are left, somebody uses them, and which those are the next census tells.
            page.seen = 0;
            if nr_gone_pages == tried.end - tried.start {
                *page = Page {
                    at: steps(now),
                    seen: 0,
                    state: IS_DROPPED,
                };
            }
        }
        if nr_gone_pages > 0 {
            file.dropped.push_back((now, nr_gone_pages));
        }
    }

    /// Pages that were read again after they had been dropped, in all.
    pub(crate) fn nr_returned_pages(&self) -> u64 {
        self.nr_returned_pages
    }
}

/// How often a page that the last census saw was read, if it may go.
fn reads_of_idle(
    page: Page,
    now: TimeMs,
    nr_reads_max: u8,
    config: &drop_cache::Config,
) -> Option<Reads> {
    if page.is(IS_BUSY) || page.at >= steps(now) {
        return None;
    }
    match page.reads() {
        // Whoever reads a page as often as can be counted is not seen any more.
        reads if reads >= nr_reads_max => None,
        0 => (age_ms(now, page) >= config.unread_idle_ms).then_some(Reads::Once),
        1 => Some(Reads::Once),
        _ => (age_ms(now, page) >= config.again_idle_ms).then_some(Reads::Again),
    }
}

fn steps(at: TimeMs) -> u32 {
    u32::try_from(at.0 / STEP_MS).unwrap_or(u32::MAX)
}

fn age_ms(now: TimeMs, page: Page) -> u64 {
    u64::from(steps(now).saturating_sub(page.at)) * STEP_MS
}

#[cfg(test)]
mod tests;
