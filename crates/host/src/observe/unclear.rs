//! Pages of one space whose accessed bits clearing leaves set, because several processes map them.
//!
//! Advice on a range skips them, so they would be found accessed at every walk, and advised on in vain. They are known by
//! their bits right after clearing, and by what `/proc/PID/pagemap` says of who maps them. From then on they are told as
//! unseen, and left out of clearing for a while, in case the others have gone.
//!
//! **Owns** which pages these are, and when they are tried again. **Does not own** clearing, nor what is made of them.
//!
//! **Invariants**
//! - I1: a page is one of them only as long as walks find it accessed.

use std::collections::BTreeMap;
use std::io;
use strata_linux::access::YoungPiece;
use strata_linux::addr::{PAGE_BYTES, TableNo};
use strata_linux::process::{PagemapEntry, Process};
use strata_lru::bits::{self, Bits};

/// For so many walks pages are left out of clearing at first.
const NR_RESTS_MIN: u64 = 16;
/// After each time in vain it is twice as long, up to so many walks.
const NR_RESTS_MAX: u64 = 1024;

#[derive(Clone, Copy, Debug)]
struct Kept {
    pages: Bits,
    /// From this walk on they are tried again.
    retry_at: u64,
    nr_rests: u64,
    told_in: u64,
}

/// Such pages of a space, by table.
#[derive(Debug, Default)]
pub(super) struct Unclear {
    tables: BTreeMap<TableNo, Kept>,
    walk: u64,
}

/// What a walk found accessed of one mapping in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Pages whose bits tell nothing.
    pub(super) unseen: Bits,
    /// Pages that are to be cleared.
    pub(super) to_clear: Bits,
}

impl Unclear {
    /// A walk begins after which bits are cleared.
    pub(super) fn begin_walk(&mut self) {
        self.walk += 1;
    }

    /// Divides what a walk found accessed within a part of a table.
    pub(super) fn split(&mut self, table: TableNo, mask: Bits, accessed: Bits) -> Split {
        let Some(kept) = self.tables.get_mut(&table) else {
            return Split {
                unseen: bits::NONE,
                to_clear: accessed,
            };
        };
        let unseen = bits::and(kept.pages, accessed);
        kept.pages = bits::or(bits::without(kept.pages, mask), unseen);
        kept.told_in = self.walk;
        let to_clear = match self.walk < kept.retry_at {
            true => bits::without(accessed, unseen),
            false => accessed,
        };
        Split { unseen, to_clear }
    }

    /// A part of a table is cleared in a way that leaves nothing.
    pub(super) fn forget(&mut self, table: TableNo, mask: Bits) {
        if let Some(kept) = self.tables.get_mut(&table) {
            kept.pages = bits::without(kept.pages, mask);
        }
    }

    /// Takes in what is still accessed in the table of a piece right after clearing.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn look_at(
        &mut self,
        process: &Process,
        piece: &YoungPiece,
        accessed: Bits,
    ) -> io::Result<()> {
        let table = TableNo::containing(piece.range.start);
        let tried = table.covered_by(piece.range);
        let still = bits::and(accessed, tried);
        let mut several = bits::NONE;
        if !bits::is_empty(still) {
            let mut entries: Vec<PagemapEntry> = Vec::new();
            process.read_pagemap(piece.range, &mut entries)?;
            let first = ((piece.range.start - table.start()) / PAGE_BYTES) as usize;
            for (offset, entry) in entries.iter().enumerate() {
                if entry.is_present() && !entry.is_exclusive() {
                    bits::insert(&mut several, first + offset);
                }
            }
        }
        self.note(table, tried, bits::and(still, several));
        Ok(())
    }

    fn note(&mut self, table: TableNo, tried: Bits, left: Bits) {
        let Some(kept) = self.tables.get_mut(&table) else {
            if !bits::is_empty(left) {
                let kept = Kept {
                    pages: left,
                    retry_at: self.walk + NR_RESTS_MIN,
                    nr_rests: NR_RESTS_MIN,
                    told_in: self.walk,
                };
                self.tables.insert(table, kept);
            }
            return;
        };
        kept.pages = bits::or(bits::without(kept.pages, tried), left);
        if kept.retry_at <= self.walk && !bits::is_empty(left) {
            kept.nr_rests = (kept.nr_rests * 2).min(NR_RESTS_MAX);
            kept.retry_at = self.walk + kept.nr_rests;
        }
    }

    /// The walk has ended and told of every table.
    pub(super) fn end_walk(&mut self) {
        let walk = self.walk;
        self.tables
            .retain(|_, kept| kept.told_in == walk && !bits::is_empty(kept.pages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableNo = TableNo(7);

    /// A walk that finds these accessed, and clears all but those of several mappers. Returns what it told as unseen, and
    /// how many pages it tried to clear.
    fn walk(unclear: &mut Unclear, accessed: Bits, several: Bits) -> (Bits, u64) {
        unclear.begin_walk();
        let all = bits::run(0, 512);
        let split = unclear.split(TABLE, all, accessed);
        if !bits::is_empty(split.to_clear) {
            unclear.note(TABLE, split.to_clear, bits::and(split.to_clear, several));
        }
        unclear.end_walk();
        (split.unseen, bits::count(split.to_clear))
    }

    #[test]
    fn what_stays_accessed_is_told_as_unseen_and_tried_again_ever_more_rarely() {
        let mut unclear = Unclear::default();
        let (accessed, several) = (bits::run(0, 100), bits::run(0, 60));
        assert_eq!(walk(&mut unclear, accessed, several), (bits::NONE, 100));
        let tried_in = |unclear: &mut Unclear, nr_walks| {
            let tried = (1..=nr_walks).map(|nth| (nth, walk(unclear, accessed, several)));
            let tried = tried.inspect(|(_, (unseen, _))| assert_eq!(*unseen, several));
            let tried = tried.filter(|(_, (_, nr_tried))| *nr_tried == 100);
            tried.map(|(nth, _)| nth).collect::<Vec<_>>()
        };
        assert_eq!(tried_in(&mut unclear, 150), [16, 48, 112]);
        assert_eq!(tried_in(&mut unclear, 10_000).len(), 11, "it has an end");
    }

    #[test]
    fn what_the_others_gave_up_is_seen_again() {
        let mut unclear = Unclear::default();
        let pages = bits::run(0, 60);
        walk(&mut unclear, pages, pages);
        for _ in 1..NR_RESTS_MIN {
            assert_eq!(walk(&mut unclear, pages, bits::NONE), (pages, 0));
        }
        assert_eq!(walk(&mut unclear, pages, bits::NONE), (pages, 60));
        assert_eq!(walk(&mut unclear, pages, bits::NONE), (bits::NONE, 60));
        assert!(unclear.tables.is_empty());
    }

    #[test]
    fn a_page_that_is_found_without_an_access_is_none_of_them() {
        let mut unclear = Unclear::default();
        let pages = bits::run(0, 60);
        walk(&mut unclear, pages, pages);
        assert_eq!(
            walk(&mut unclear, bits::run(0, 20), pages).0,
            bits::run(0, 20)
        );
        assert_eq!(walk(&mut unclear, pages, pages).0, bits::run(0, 20));
    }
}
