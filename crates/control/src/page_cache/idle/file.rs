//! What is kept of a file's page cache: a few bytes of each page.
//!
//! ```text
//!   file -> chunk (512 pages) -> page: when last read, which census saw it, how it stands, how it left
//! ```
//!
//! **Owns** how that is packed. **Does not own** what follows from it (`idle`).
//!
//! **Invariants** I1: a page takes 8 bytes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::page_cache::{FOLIO_PAGES_MAX, FileId, NR_TIERS, tier_of};
use strata_lru::TimeMs;

/// Ages are told exact to a 64th, as those of the ledger of page tables are: then there are few of them.
const AGE_BITS: u32 = 6;
/// Times are kept in steps of so many milliseconds, so that 32 bits last for years.
const STEP_MS: u64 = 10;
/// Of a page in memory: reads that the kernel has counted.
pub(super) const READS_MASK: u8 = 7;
/// The page is to be written, is being written, or is locked.
pub(super) const IS_BUSY: u8 = 8;
/// The page counts as protected, and was not read since.
pub(super) const IS_PROTECTED: u8 = 16;
/// The page is of the same folio as the one before it.
pub(super) const IS_JOINED: u8 = 32;
/// Of a page that left memory: the tier that it had.
pub(super) const TIER_MASK: u8 = 3;
/// The page was dropped, and was not read since.
pub(super) const IS_DROPPED: u8 = 4;
/// The kernel has reclaimed the page, and it was not read since.
pub(super) const IS_RECLAIMED: u8 = 8;
/// A dry run plays that the page was dropped; it is in memory, and was not read since.
pub(super) const IS_PLAYED: u8 = 16;

/// One page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Page {
    /// When the page was last found read; of one that left memory, when that was. In steps.
    pub(super) at: u32,
    /// The census that last saw it; 0: the last one did not.
    pub(super) seen: u16,
    /// What it is in memory: `READS_MASK`, `IS_BUSY`, `IS_PROTECTED`, `IS_JOINED`.
    pub(super) state: u8,
    /// How it left memory before: `TIER_MASK`, and `IS_DROPPED`, `IS_RECLAIMED` or `IS_PLAYED`; 0: it did not, or has come back.
    pub(super) left: u8,
}

const _: () = assert!(size_of::<Page>() == 8, "see I1");
const _: () = assert!(NR_TIERS <= TIER_MASK as usize + 1);

impl Page {
    /// A page that has left memory.
    pub(super) fn gone(at: u32, tier: usize, how: u8) -> Page {
        Page {
            at,
            seen: 0,
            state: 0,
            left: tier as u8 | how,
        }
    }

    /// Tells if a dry run plays that the page was dropped, while it is in memory.
    pub(super) fn is_played(self) -> bool {
        self.left & IS_PLAYED != 0
    }

    pub(super) fn reads(self) -> u8 {
        self.state & READS_MASK
    }

    pub(super) fn tier(self) -> usize {
        tier_of(self.reads())
    }

    pub(super) fn is(self, flag: u8) -> bool {
        self.state & flag != 0
    }
}

/// The pages of one file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) id: FileId,
    /// The last census that looked at it, and the one before; 0: none did.
    pub(super) seen: u16,
    pub(super) seen_before: u16,
    /// Pages are kept together as those of a huge folio are, up to the last one that anything is kept of, or some more.
    pub(super) chunks: BTreeMap<u64, Vec<Page>>,
    /// None of its pages can be dropped until then.
    pub(super) left_until: Option<TimeMs>,
    /// That is so because it can't be reached.
    pub(super) is_unreachable: bool,
    /// When how many pages were dropped, and were read again.
    pub(super) dropped: VecDeque<(TimeMs, u64)>,
    pub(super) returned: VecDeque<(TimeMs, u64)>,
    /// When a page of it was last found to have been reclaimed.
    pub(super) reclaimed_at: Option<TimeMs>,
}

impl File {
    pub(super) fn new(id: FileId) -> File {
        File {
            id,
            ..File::default()
        }
    }

    /// Memory that its pages take here.
    pub(super) fn kept_bytes(&self) -> u64 {
        let nr_kept: usize = self.chunks.values().map(Vec::capacity).sum();
        (nr_kept * size_of::<Page>()) as u64
    }

    /// A census looks at it.
    pub(super) fn look(&mut self, census: u16) {
        if self.seen != census {
            (self.seen_before, self.seen) = (self.seen, census);
        }
    }

    pub(super) fn page_mut(&mut self, index: u64) -> &mut Page {
        let chunk = self.chunks.entry(index / FOLIO_PAGES_MAX).or_default();
        let at = (index % FOLIO_PAGES_MAX) as usize;
        if at >= chunk.len() {
            chunk.resize((at + 1).next_power_of_two(), Page::default());
        }
        &mut chunk[at]
    }

    /// What is kept of a page.
    pub(super) fn page(&self, index: u64) -> Page {
        let chunk = self.chunks.get(&(index / FOLIO_PAGES_MAX));
        let page = chunk.and_then(|chunk| chunk.get((index % FOLIO_PAGES_MAX) as usize));
        page.copied().unwrap_or_default()
    }

    /// The pages of a range that anything is kept of.
    pub(super) fn pages_within(&mut self, range: Range<u64>) -> impl Iterator<Item = &mut Page> {
        let first = range.start / FOLIO_PAGES_MAX;
        let end = range.end.div_ceil(FOLIO_PAGES_MAX).max(first);
        self.chunks
            .range_mut(first..end)
            .flat_map(move |(number, chunk)| {
                let pages = (number * FOLIO_PAGES_MAX..).zip(chunk.iter_mut());
                let range = range.clone();
                pages.filter_map(move |(index, page)| range.contains(&index).then_some(page))
            })
    }

    /// Tells if pages of the file have left memory of late.
    pub(super) fn has_left(&self, now: TimeMs, remembered_ms: u64) -> bool {
        let is_recent = |at| now.since(at) <= remembered_ms;
        !self.dropped.is_empty() || self.reclaimed_at.is_some_and(is_recent)
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, Page)> {
        self.chunks.iter().flat_map(|(number, chunk)| {
            let pages = chunk.iter().enumerate();
            pages.map(move |(at, page)| (number * FOLIO_PAGES_MAX + at as u64, *page))
        })
    }
}

/// A time in steps.
pub(super) fn steps(at: TimeMs) -> u32 {
    ms_in_steps(at.0)
}

/// So many milliseconds, in steps.
pub(super) fn ms_in_steps(ms: u64) -> u32 {
    u32::try_from(ms / STEP_MS).unwrap_or(u32::MAX)
}

/// For how long a page has not been read, or has been gone.
pub(super) fn age_ms(now: TimeMs, page: Page) -> u64 {
    u64::from(steps(now).saturating_sub(page.at)) * STEP_MS
}

/// The age as it is told: not more than it is.
pub(super) fn told(age_ms: u64) -> u64 {
    let shift = (u64::BITS - age_ms.leading_zeros()).saturating_sub(AGE_BITS);
    age_ms >> shift << shift
}
