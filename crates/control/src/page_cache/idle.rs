//! What is known of a group's page cache, page by page, from census to census.
//!
//! ```text
//!   begin (files) -> see (each page of them in memory) -> end: what lies idle, by file
//!   choose: which pages go, read longest ago first -> note_dropped -> a page that is seen again has come back
//!                                          a dry run: play_dropped -> a page that is read again has come back
//! ```
//!
//! **Owns** when each page was last found read, which left memory between two censuses, and which of these came back. **Does not
//! own** taking a census, which tier a page has (`tiers`), how much is dropped of which file (`drop_cache`), nor dropping.
//!
//! **Invariants**
//! - I1: a page is chosen only if the last census saw it, clean and unread since the census before at least.
//! - I2: a file's number is never used for another one.
//! - I3: at most 4 KiB are kept of each 2 MiB of a file in which the group has a page, or from which one left within
//!   [`REMEMBERED_MS`] (or as long as is asked for), up to a number of pages that the kernel has reclaimed.
//! - I4: a page that leaves memory counts once: as dropped or as reclaimed, in the tier that the last census saw.
//! - I5: a page that is played to be dropped is in memory and was not read since, as of the last census. It counts as gone.

mod file;
mod oldest;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use self::file::{
    File, IS_BUSY, IS_DROPPED, IS_JOINED, IS_PLAYED, IS_PROTECTED, IS_RECLAIMED, Page, READS_MASK,
    TIER_MASK, age_ms, ms_in_steps, steps, told,
};

use super::tiers::{CountsByTier, TierCounts};
use super::{FILE_PAGES_MAX, FOLIO_PAGES_MAX, FileId, FileKey, NR_TIERS, PageFound, Tried};
use crate::sample::{CacheSample, FileCache, FileNo, PAGE_BYTES, Reads};
use crate::strategy::drop_cache::{self, REMEMBERED_MS};
use strata_lru::TimeMs;

/// So many pages that the kernel has reclaimed are remembered; of more, which come back is not told. It bounds the memory (8 MiB and
/// what their neighbours take) and the time of a census that they cost.
const RECLAIMED_PAGES_MAX: u64 = 1 << 20;

/// A file that can't be dropped is not tried for so long, or as long as what leaves memory is remembered.
const LEFT_MS: u64 = 600_000;

/// The page cache of a group.
#[derive(Debug, Default)]
pub struct IdleTable {
    config: drop_cache::Config,
    /// What left memory is remembered for so long.
    remembered_ms: u64,
    files: BTreeMap<FileNo, File>,
    numbers: HashMap<FileKey, FileNo>,
    next_number: u32,
    /// The census under way or the last one, 1 to 65,535, again and again.
    census: u16,
    now: TimeMs,
    nr_reads_max: u8,
    nr_new_pages: u64,
    /// Pages that the census under way or the last one found read again, by the time for which they had not been, milliseconds.
    read_again: BTreeMap<u64, u64>,
    /// Pages that were dropped and came back, in all.
    nr_returned_pages: u64,
    /// What became of pages, by tier.
    tiers: CountsByTier,
    /// The last tier of which pages may go, as of the last census.
    last_tier: usize,
    /// When that page was last read which was read last of those dropped since the last census, in steps.
    dropped_read_at: Option<u32>,
    /// Pages that a dry run plays to have been dropped.
    nr_played_pages: u64,
    /// Pages that the kernel has reclaimed and that are remembered, as of the last census.
    nr_reclaimed_pages: u64,
}

impl IdleTable {
    /// Nothing seen yet.
    pub fn new(config: drop_cache::Config) -> IdleTable {
        IdleTable {
            config,
            remembered_ms: REMEMBERED_MS,
            nr_reads_max: READS_MASK,
            last_tier: NR_TIERS - 1,
            ..IdleTable::default()
        }
    }

    /// What leaves memory is remembered for so long instead of [`REMEMBERED_MS`].
    #[must_use]
    pub fn remembering(self, remembered_ms: u64) -> IdleTable {
        IdleTable {
            remembered_ms,
            ..self
        }
    }

    /// A census of these files begins.
    pub fn begin(&mut self, now: TimeMs, files: impl IntoIterator<Item = FileId>) {
        self.now = now;
        self.census = self.census.checked_add(1).unwrap_or(1);
        self.nr_new_pages = 0;
        self.read_again.clear();
        self.know(&files.into_iter().map(|id| (id.key, id)).collect());
    }

    /// The census tells of pages.
    pub fn see(&mut self, found: PageFound) {
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
        let remembered = ms_in_steps(self.remembered_ms);
        let nr_reads = found.nr_reads.min(u32::from(READS_MASK)) as u8;
        let mut nr_returned = 0;
        for index in found.index..found.index + found.nr_pages {
            // Nothing is kept of what was mapped all along.
            if found.is_mapped && !file.chunks.contains_key(&(index / FOLIO_PAGES_MAX)) {
                continue;
            }
            let page = file.page_mut(index);
            let is_known = page.seen == seen_before && seen_before != 0;
            let is_twice = page.seen == self.census;
            if is_twice {
                continue;
            }
            let was_read = !is_known || nr_reads != page.reads() || found.is_busy;
            let is_played = page.is_played();
            // The kernel lets counts fall without a read.
            let is_read_again = !is_known || nr_reads > page.reads() || found.is_busy;
            if is_played && !is_read_again && !found.is_mapped {
                page.seen = self.census;
                page.state = nr_reads;
                continue;
            }
            if is_known && !is_played && (is_read_again || found.is_mapped) {
                let idle_ms = told(age_ms(self.now, *page));
                *self.read_again.entry(idle_ms).or_default() += 1;
            }
            let mut left = page.left;
            if left != 0 && (nr_reads > 0 || found.is_mapped || is_played) {
                if now.saturating_sub(page.at) <= remembered {
                    self.tiers.refaulted(usize::from(left & TIER_MASK), 1);
                    nr_returned += u64::from(left & IS_RECLAIMED == 0);
                }
                left = 0;
            }
            if found.is_mapped {
                *page = Page::default();
                continue;
            }
            // When the pages of a file came that was found just now nobody knows.
            self.nr_new_pages += u64::from(is_played || !is_known && !is_new);
            *page = Page {
                at: if was_read { now } else { page.at },
                seen: self.census,
                state: nr_reads
                    | if found.is_busy { IS_BUSY } else { 0 }
                    | if index > found.index { IS_JOINED } else { 0 }
                    | if was_read {
                        0
                    } else {
                        page.state & IS_PROTECTED
                    },
                left,
            };
        }
        if nr_returned > 0 {
            self.nr_returned_pages += nr_returned;
            file.returned.push_back((self.now, nr_returned));
        }
    }

    /// Pages of a file were truncated or freed: they did not have to go, and if they come they do not come back. What the census under
    /// way has seen is in memory all the same: a deleted file that is open has pages, and a large folio may reach past the end.
    pub fn forget(&mut self, file: FileKey, pages: Range<u64>) {
        let census = self.census;
        self.change(file, pages, |page| {
            if page.seen != census {
                *page = Page::default();
            }
        });
    }

    /// Pages of a file are in memory no more and did not have to go, as known for certain between two censuses.
    pub fn freed(&mut self, file: FileKey, pages: Range<u64>) {
        self.change(file, pages, |page| *page = Page::default());
    }

    /// Pages of a file have been dropped in a way that is counted elsewhere. What is in memory of them is new to the next census.
    pub fn note_counted(&mut self, file: FileKey, pages: Range<u64>) {
        self.change(file, pages, |page| page.seen = 0);
    }

    /// What lies behind the ends of files was truncated.
    pub fn truncate(&mut self, nr_pages_of: &HashMap<FileKey, u64>) {
        let known = |key: &FileKey| Some((*key, *nr_pages_of.get(key)?));
        let ends: Vec<(FileKey, u64)> = self.numbers.keys().filter_map(known).collect();
        for (file, nr_pages) in ends {
            self.forget(file, nr_pages..FILE_PAGES_MAX);
        }
    }

    fn change(&mut self, file: FileKey, pages: Range<u64>, change: impl FnMut(&mut Page)) {
        let number = self.numbers.get(&file);
        if let Some(file) = number.and_then(|number| self.files.get_mut(number)) {
            file.pages_within(pages).for_each(change);
        }
    }

    /// The census has ended: what lies idle. What it cost is for the caller to fill in.
    pub fn end(&mut self, nr_reads_max: u32) -> CacheSample {
        self.nr_reads_max = nr_reads_max.min(u32::from(READS_MASK)) as u8;
        self.tiers.pass(self.now);
        self.last_tier = self.tiers.last_tier();
        let files = self.sum_up();
        CacheSample {
            cpu_ns: 0,
            new_bytes: self.nr_new_pages * PAGE_BYTES,
            files,
        }
    }

    /// Takes in which files there are, and forgets others, unless pages have left them of late.
    fn know(&mut self, files: &BTreeMap<FileKey, FileId>) {
        let (now, remembered_ms) = (self.now, self.remembered_ms);
        let (known, numbers) = (&mut self.files, &mut self.numbers);
        numbers.retain(|key, number| {
            let Some(file) = known.get(number) else {
                return false;
            };
            // The kernel may have given the struct to another file.
            let stays = match files.get(key) {
                Some(id) => file.id.is_same(id),
                None => file.has_left(now, remembered_ms),
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

    fn rule(&self) -> Rule {
        Rule {
            now: self.now,
            nr_reads_max: self.nr_reads_max,
            last_tier: self.last_tier,
            config: self.config,
        }
    }

    fn sum_up(&mut self) -> Vec<FileCache> {
        let (now, rule, remembered_ms) = (self.now, self.rule(), self.remembered_ms);
        let (census, dropped_read_at) = (self.census, self.dropped_read_at.take());
        let mut sums = Vec::with_capacity(self.files.len());
        self.nr_played_pages = 0;
        let nr_reclaimed_before = std::mem::take(&mut self.nr_reclaimed_pages);
        for (number, file) in &mut self.files {
            let is_left = file.left_until.is_some_and(|until| now < until);
            let mut sum = FileCache {
                file: *number,
                ..FileCache::default()
            };
            let seen = file.seen;
            file.chunks.retain(|_, chunk| {
                let mut is_empty = true;
                for page in chunk.iter_mut() {
                    if page.is_played() {
                        if page.seen == census {
                            self.nr_played_pages += 1;
                        } else {
                            // It has left memory, or nobody looks any more: from now on it is as if dropped.
                            *page =
                                Page::gone(page.at, usize::from(page.left & TIER_MASK), IS_DROPPED);
                        }
                        is_empty = false;
                        continue;
                    }
                    if page.seen != seen || seen == 0 {
                        let was_there = page.seen != 0;
                        if was_there {
                            let tier = page.tier();
                            self.tiers.reclaimed(tier, 1);
                            let is_room = nr_reclaimed_before < RECLAIMED_PAGES_MAX;
                            // What readahead brought and nobody read is as gone as it was before.
                            *page = match page.left {
                                0 if !is_room => Page::default(),
                                0 => Page::gone(steps(now), tier, IS_RECLAIMED),
                                _ => Page { seen: 0, ..*page },
                            };
                            if page.left != 0 {
                                file.reclaimed_at = Some(now);
                            }
                        } else if age_ms(now, *page) > remembered_ms {
                            *page = Page::default();
                        }
                        self.nr_reclaimed_pages += u64::from(page.left & IS_RECLAIMED != 0);
                        is_empty &= page.left == 0;
                        continue;
                    }
                    is_empty = false;
                    sum.cached_bytes += PAGE_BYTES;
                    if page.reads() > 1 {
                        sum.reused_bytes += PAGE_BYTES;
                    }
                    let is_older = dropped_read_at.is_some_and(|at| page.at <= at);
                    if is_older && seen == census && is_protected(*page, self.nr_reads_max) {
                        self.tiers.protected(page.tier(), 1);
                        page.state |= IS_PROTECTED;
                    }
                    match rule.reads_of_idle(*page) {
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
                let is_old = |(at, _): &(TimeMs, u64)| now.since(*at) > remembered_ms;
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
    pub fn file(&self, number: FileNo) -> Option<&FileId> {
        self.files.get(&number).map(|file| &file.id)
    }

    /// Idle pages of a file, those read longest ago first, as ranges in order: at most so many bytes, and what else the last folio has.
    pub fn choose(&self, number: FileNo, reads: Reads, bytes: u64) -> Vec<Range<u64>> {
        let Some(file) = self.files.get(&number).filter(|of| of.seen == self.census) else {
            return Vec::new();
        };
        let rule = self.rule();
        let is_wanted = |page: Page| {
            let idle = rule.reads_of_idle(page);
            page.seen == self.census && !page.is_played() && idle == Some(reads)
        };
        let idle = file.pages().filter(|(_, page)| is_wanted(*page));
        let mut idle: Vec<(u64, Page)> = idle.collect();
        idle.sort_unstable_by_key(|(index, page)| (page.at, *index));
        let nr_wanted = ((bytes / PAGE_BYTES) as usize).min(idle.len());
        let goes_on = |both: &&[(u64, Page)]| both[1].1.is(IS_JOINED) && both[0].0 + 1 == both[1].0;
        let nr_joined = match nr_wanted {
            0 => 0,
            _ => idle[nr_wanted - 1..].windows(2).take_while(goes_on).count(),
        };
        idle.truncate(nr_wanted + nr_joined);
        idle.sort_unstable_by_key(|(index, _)| *index);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut tier_before = None;
        for (index, page) in idle {
            add_page(&mut ranges, index, page.tier(), &mut tier_before);
        }
        ranges
    }

    /// No page of a file can be dropped for now, as it can't be reached or for something else. Many such files may be there, and to try
    /// each costs time.
    pub fn leave(&mut self, now: TimeMs, number: FileNo, is_unreachable: bool) {
        if let Some(file) = self.files.get_mut(&number) {
            file.is_unreachable = is_unreachable;
            file.left_until = Some(TimeMs(now.0 + self.remembered_ms.min(LEFT_MS)));
        }
    }

    /// A range that was [chosen](IdleTable::choose) has been tried. Unless all of it is gone by that, which of its pages come back is
    /// not told. A range of which nothing was in memory any more is left to the next census.
    pub fn note_dropped(&mut self, now: TimeMs, number: FileNo, range: &Range<u64>, tried: Tried) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let nr_pages = range.end - range.start;
        let Tried {
            nr_tried_pages,
            nr_gone_pages,
        } = tried;
        if nr_tried_pages == 0 {
            return;
        }
        let tier = file.page_mut(range.start).tier();
        for index in range.clone() {
            let page = file.page_mut(index);
            if nr_gone_pages == nr_pages {
                self.dropped_read_at = self.dropped_read_at.max(Some(page.at));
                *page = Page::gone(steps(now), tier, IS_DROPPED);
            }
            // Where some are left, somebody uses them, and which those are the next census tells.
            page.seen = 0;
        }
        if nr_gone_pages > 0 {
            self.tiers.dropped(tier, nr_gone_pages);
            file.dropped.push_back((now, nr_gone_pages));
        }
        // The others went between the census and the attempt.
        let nr_reclaimed_pages = nr_pages - nr_tried_pages.min(nr_pages);
        self.tiers.reclaimed(tier, nr_reclaimed_pages);
    }

    /// Plays that a range that was [chosen](IdleTable::choose) has been dropped: its pages count as gone until they are read again.
    /// None of them counts in [`TierCounts::nr_dropped_pages`].
    pub fn play_dropped(&mut self, now: TimeMs, number: FileNo, range: &Range<u64>) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let mut nr_pages = 0;
        for page in file.pages_within(range.clone()) {
            if page.seen != self.census || page.is_played() {
                continue;
            }
            nr_pages += 1;
            self.tiers.played(page.tier(), 1);
            self.dropped_read_at = self.dropped_read_at.max(Some(page.at));
            page.left = page.tier() as u8 | IS_PLAYED;
            page.at = steps(now);
        }
        if nr_pages > 0 {
            file.dropped.push_back((now, nr_pages));
        }
        self.nr_played_pages += nr_pages;
    }

    /// Pages that are in memory, and that a dry run plays to have been dropped.
    pub fn nr_played_pages(&self) -> u64 {
        self.nr_played_pages
    }

    /// What became of pages since the start, by tier.
    pub fn tiers(&self) -> [TierCounts; NR_TIERS] {
        self.tiers.counts()
    }

    /// Pages that were read again after they had been dropped, in all.
    pub fn nr_returned_pages(&self) -> u64 {
        self.nr_returned_pages
    }
}

/// Adds the next page of a file. A range ends where a folio may, so that what becomes of one tells nothing of another, and has pages
/// of one tier.
fn add_page(
    ranges: &mut Vec<Range<u64>>,
    index: u64,
    tier: usize,
    tier_before: &mut Option<usize>,
) {
    let is_of_another = tier_before.replace(tier) != Some(tier);
    let is_apart = index.is_multiple_of(FOLIO_PAGES_MAX) || is_of_another;
    match ranges.last_mut() {
        Some(last) if last.end == index && !is_apart => last.end += 1,
        _ => ranges.push(index..index + 1),
    }
}

/// Whether a page that was read longer ago than others that went stays for its tier, and does not count so yet.
fn is_protected(page: Page, nr_reads_max: u8) -> bool {
    let is_clean = !page.is(IS_BUSY) && !page.is(IS_PROTECTED);
    is_clean && page.tier() > 0 && page.reads() < nr_reads_max
}

/// What pages are judged by.
#[derive(Clone, Copy, Debug)]
struct Rule {
    now: TimeMs,
    nr_reads_max: u8,
    last_tier: usize,
    config: drop_cache::Config,
}

impl Rule {
    /// How often a page that the last census saw was read, if it may go.
    fn reads_of_idle(&self, page: Page) -> Option<Reads> {
        if page.is(IS_BUSY) || page.at >= steps(self.now) || page.tier() > self.last_tier {
            return None;
        }
        let is_old = |idle_ms: u64| age_ms(self.now, page) >= idle_ms;
        match page.reads() {
            // Whoever reads a page as often as can be counted is not seen any more.
            reads if reads >= self.nr_reads_max => None,
            0 => is_old(self.config.unread_idle_ms).then_some(Reads::Once),
            1 => Some(Reads::Once),
            _ => is_old(self.config.again_idle_ms).then_some(Reads::Again),
        }
    }
}

#[cfg(test)]
mod tests;
