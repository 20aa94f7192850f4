//! Page cache of a group that came to memory of late, and what had been there before.
//!
//! ```text
//!   take (each folio, in order) -> admitted: it stays; else it waits -> choose: what came last, by file
//!                               \                                          -> judge: which pages of them go
//!                                \-> was it in memory before? (the history)
//! ```
//!
//! **Owns** which newcomers stay, which wait, and the history. **Does not own** whether newcomers go and how much
//! (`admit_cache`), nor looking at them and dropping them.
//!
//! **Invariants**
//! - I1: what was admitted is never chosen.
//! - I2: a folio is chosen once, unless it is put back.
//! - I3: the history has at most a million parts of files, of up to 256 KiB each; at most as many folios wait. That is 200 MB where
//!   all of it is files of one page.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::{Arrival, FILE_PAGES_MAX, FOLIO_PAGES_MAX, FileId, PageFound};
use crate::sample::{CameIn, Distances, PAGE_BYTES};
use crate::strategy::admit_cache::{self, NEWCOMER_MS, SETTLED_MS};
use strata_lru::{TimeMs, mix};

/// Pages of a file that are remembered together.
const CHUNK_PAGES: u64 = u64::BITS as u64;
/// A chunk that comes again after so many pages of anything have come in comes anew: whether it stays is decided again.
const BURST_PAGES: u64 = 4 * CHUNK_PAGES;
const ALL_PERCENT: u64 = 100;
const PAGES_PER_MIB: u64 = (1 << 20) / PAGE_BYTES;
/// Parts of files that are remembered, at most.
const PARTS_MAX: usize = 1 << 20;
/// Folios that wait, at most.
const WAITING_MAX: usize = 1 << 20;
/// What came in is not told apart by time if nobody has looked for so long.
const STALE_MS: u64 = 2_000;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Chunk {
    device: u64,
    inode: u64,
    generation: u64,
    number: u64,
}

/// What is remembered of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Pages that came in, one bit each.
    pages: u64,
    /// When pages of it last came in, counted in pages of the group that had come in.
    at_pages: u64,
    /// How much else had come in when pages of it came in again, after a while; `None`: they came in only once so far.
    distance_pages: Option<u64>,
    /// Whether what came in last stays.
    is_admitted: bool,
}

/// A folio that came in and may go again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// What came in.
    pub arrival: Arrival,
    /// When it came in, to the precision of a look.
    at: TimeMs,
    /// It may go from then on.
    due: TimeMs,
    /// Whether a page of it had been in memory before.
    is_returned: bool,
}

impl Newcomer {
    /// What is to become of it, from the state that the kernel has it in. A page that had been in memory before comes as an
    /// active one where the kernel itself evicted it, so what counts is the mark of a read since.
    fn verdict(&self, found: &PageFound) -> Verdict {
        if found.is_busy {
            return Verdict::Stays;
        }
        match (found.is_referenced, found.nr_reads) {
            (false, 2..) if !self.is_returned => Verdict::Stays,
            (false, _) => Verdict::Unread,
            (true, 0 | 1) => Verdict::Goes,
            (true, _) if self.is_returned => Verdict::Goes,
            (true, _) => Verdict::Stays,
        }
    }
}

/// What is to become of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It was read once, or came back and was read since.
    Goes,
    /// Nobody has read it yet: readahead brought it.
    Unread,
    /// It was read more often, or is to be written.
    Stays,
}

/// What came in of late.
#[derive(Debug, Default)]
pub struct Newcomers {
    config: admit_cache::Config,
    history: HashMap<Chunk, Seen>,
    /// Chunks in the order in which pages of them came in, and when.
    order: VecDeque<(Chunk, u64)>,
    history_pages: u64,
    /// What came in, since the start.
    nr_in_pages: u64,
    nr_returned_pages: u64,
    /// Since the last look.
    distances: Distances,
    /// What may go first comes first.
    waiting: VecDeque<Newcomer>,
    waiting_pages: u64,
    /// As of the last look.
    told: (u64, u64),
    /// When the last look was.
    looked_at: TimeMs,
}

impl Newcomers {
    /// Nothing came in yet.
    pub fn new(config: admit_cache::Config) -> Newcomers {
        Newcomers {
            config,
            ..Newcomers::default()
        }
    }

    /// What came in is remembered until so much came in after it.
    pub fn remember(&mut self, history_bytes: u64) {
        self.history_pages = history_bytes / PAGE_BYTES;
    }

    /// Takes in what has come since the last look, in the order in which it came, and says what may go now. After 2 s or more
    /// without a look it is passed over and counts nowhere: nobody knows when it came, and much of it may be missing. The first
    /// look follows on time 0.
    pub fn take(&mut self, now: TimeMs, came: impl IntoIterator<Item = Arrival>) -> CameIn {
        if now.since(self.looked_at) < STALE_MS {
            for arrival in came {
                self.arrive(now, arrival);
            }
        }
        self.looked_at = now;
        self.look(now)
    }

    /// A folio came in.
    fn arrive(&mut self, now: TimeMs, arrival: Arrival) {
        let end = arrival.index.saturating_add(arrival.nr_pages);
        // The struct may have changed while it was copied; no file has as many pages.
        if arrival.nr_pages == 0 || end > FILE_PAGES_MAX {
            return;
        }
        let mut nr_returned = 0;
        let mut is_admitted = false;
        let mut at = arrival.index;
        while at < end {
            let number = at / CHUNK_PAGES;
            let next = end.min((number + 1) * CHUNK_PAGES);
            let chunk = Chunk {
                device: arrival.file.device,
                inode: arrival.file.inode,
                generation: arrival.file.generation,
                number,
            };
            let (returned, stays) = self.note(chunk, bits(at % CHUNK_PAGES, next - at));
            nr_returned += returned;
            // The first part decides for a large folio.
            is_admitted = if at == arrival.index {
                stays
            } else {
                is_admitted
            };
            at = next;
        }
        self.nr_returned_pages += nr_returned;
        if !is_admitted && self.waiting.len() < WAITING_MAX {
            self.waiting_pages += arrival.nr_pages;
            self.waiting.push_back(Newcomer {
                arrival,
                at: now,
                due: due(now),
                is_returned: nr_returned > 0,
            });
        }
        self.forget();
    }

    /// Pages of a chunk came in: how many of them had been in memory before, and whether they stay.
    fn note(&mut self, chunk: Chunk, pages: u64) -> (u64, bool) {
        let (now, percent) = (self.nr_in_pages, self.config.admitted_percent);
        self.nr_in_pages += u64::from(pages.count_ones());
        let seen = self.history.entry(chunk).or_default();
        // The pages of a chunk come in one after the other, with others in between.
        if seen.pages == 0 || now.saturating_sub(seen.at_pages) > BURST_PAGES {
            seen.is_admitted =
                mix(chunk.inode ^ mix(chunk.number ^ mix(now))) % ALL_PERCENT < percent;
            seen.distance_pages = (seen.pages != 0).then(|| now.saturating_sub(seen.at_pages));
        }
        let returned = (seen.pages & pages).count_ones();
        if let Some(distance_pages) = seen.distance_pages {
            let distance_mib = distance_pages / PAGES_PER_MIB;
            self.distances.note(u64::from(returned), distance_mib);
        }
        seen.pages |= pages;
        seen.at_pages = self.nr_in_pages;
        let stays = seen.is_admitted;
        match self.order.back_mut() {
            Some((last, at)) if *last == chunk => *at = self.nr_in_pages,
            _ => self.order.push_back((chunk, self.nr_in_pages)),
        }
        (u64::from(returned), stays)
    }

    fn forget(&mut self) {
        while let Some((chunk, at)) = self.order.front() {
            if self.nr_in_pages - at <= self.history_pages && self.order.len() <= PARTS_MAX {
                break;
            }
            if self
                .history
                .get(chunk)
                .is_some_and(|seen| seen.at_pages == *at)
            {
                self.history.remove(chunk);
            }
            self.order.pop_front();
        }
    }

    /// What came in since the last look, and what may go now.
    fn look(&mut self, now: TimeMs) -> CameIn {
        while let Some(first) = self.waiting.front() {
            if now.since(first.at) < SETTLED_MS {
                break;
            }
            self.waiting_pages -= first.arrival.nr_pages;
            self.waiting.pop_front();
        }
        let (nr_in, nr_returned) = self.told;
        self.told = (self.nr_in_pages, self.nr_returned_pages);
        CameIn {
            in_bytes: (self.nr_in_pages - nr_in) * PAGE_BYTES,
            returned_bytes: (self.nr_returned_pages - nr_returned) * PAGE_BYTES,
            ripe_bytes: self.ripe_bytes(now),
            distances: std::mem::take(&mut self.distances),
            ..CameIn::default()
        }
    }

    /// What may go now.
    pub fn ripe_bytes(&self, now: TimeMs) -> u64 {
        // What is not ripe came last, and is little.
        let newest = self.waiting.iter().rev();
        let unripe = newest.take_while(|newcomer| newcomer.due > now);
        let unripe_pages: u64 = unripe.map(|newcomer| newcomer.arrival.nr_pages).sum();
        (self.waiting_pages - unripe_pages) * PAGE_BYTES
    }

    /// Takes newcomers that may go off the list, those that came last, by file: so many bytes or a folio more. In a loop what
    /// came first is what is read next.
    pub fn choose(&mut self, now: TimeMs, bytes: u64) -> Vec<(FileId, Vec<Newcomer>)> {
        let mut by_file: Vec<(FileId, Vec<Newcomer>)> = Vec::new();
        let mut places: HashMap<FileId, usize> = HashMap::new();
        let mut nr_pages = 0;
        let nr_ripe = self.waiting.partition_point(|newcomer| newcomer.due <= now);
        let mut unripe = self.waiting.split_off(nr_ripe);
        while nr_pages * PAGE_BYTES < bytes {
            let Some(newcomer) = self.waiting.pop_back() else {
                break;
            };
            nr_pages += newcomer.arrival.nr_pages;
            let file = newcomer.arrival.file;
            let place = *places.entry(file).or_insert_with(|| {
                by_file.push((file, Vec::new()));
                by_file.len() - 1
            });
            if let Some((_, newcomers)) = by_file.get_mut(place) {
                newcomers.push(newcomer);
            }
        }
        self.waiting_pages -= nr_pages;
        self.waiting.append(&mut unripe);
        by_file
    }

    /// Which pages of newcomers of one file go, as ranges in order, by how they stand just now. A range ends where a folio may.
    /// `standing` looks at ranges in order, and may tell of pages beside them. What is mapped stays. What is not told is charged to others
    /// or gone. What nobody has read yet waits again.
    pub fn judge(
        &mut self,
        now: TimeMs,
        mut newcomers: Vec<Newcomer>,
        standing: impl FnOnce(&[Range<u64>]) -> Vec<PageFound>,
    ) -> Vec<Range<u64>> {
        newcomers.sort_by_key(|newcomer| newcomer.arrival.index);
        let arrivals = newcomers.iter().map(|newcomer| &newcomer.arrival);
        let ranges = arrivals.map(|of| of.index..of.index + of.nr_pages);
        let found = standing(&ranges.collect::<Vec<_>>()).into_iter();
        let found: HashMap<u64, PageFound> = found.map(|page| (page.index, page)).collect();
        let mut going: Vec<Range<u64>> = Vec::new();
        for newcomer in newcomers {
            let page = found.get(&newcomer.arrival.index);
            let Some(page) = page.filter(|page| !page.is_mapped) else {
                continue;
            };
            let (index, end) = (page.index, page.index + page.nr_pages);
            match newcomer.verdict(page) {
                Verdict::Goes => match going.last_mut() {
                    Some(last) if last.end >= index && !index.is_multiple_of(FOLIO_PAGES_MAX) => {
                        last.end = last.end.max(end);
                    }
                    _ => going.push(index..end),
                },
                Verdict::Unread => self.put_back(now, newcomer),
                Verdict::Stays => {}
            }
        }
        going
    }

    /// A newcomer that nobody has read yet waits again, until it has been in memory for so long that it is none any more.
    fn put_back(&mut self, now: TimeMs, newcomer: Newcomer) {
        if now.since(newcomer.at) < SETTLED_MS {
            self.waiting_pages += newcomer.arrival.nr_pages;
            let due = due(now);
            self.waiting.push_back(Newcomer { due, ..newcomer });
        }
    }

    /// All that came in and what of it had been in memory before, bytes since the start. What was passed over is in neither, nor
    /// what came after the last look.
    pub fn totals_bytes(&self) -> (u64, u64) {
        (
            self.nr_in_pages * PAGE_BYTES,
            self.nr_returned_pages * PAGE_BYTES,
        )
    }
}

/// When it may go that came now, or waits again from now on.
fn due(now: TimeMs) -> TimeMs {
    TimeMs(now.0 + NEWCOMER_MS)
}

/// So many bits from this one on.
fn bits(first: u64, nr: u64) -> u64 {
    let all = u64::MAX >> (CHUNK_PAGES - nr.clamp(1, CHUNK_PAGES));
    all << first
}

#[cfg(test)]
mod tests;
