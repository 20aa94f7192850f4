//! Which pages of which file lie idle, as ranges.
//!
//! **Owns** the ranges. **Does not own** what idle means (`watch`), nor what is done about it.
//!
//! **Invariants**
//! - I1: ranges of a file and group are in order and apart from each other.

use std::collections::HashMap;
use std::ops::Range;

use super::FilePart;
use crate::addr::FILE_PAGES_MAX;
use crate::sys::bpf_census::RawRecord;

/// Pages by number in their file, for each file and group that is charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleRanges {
    ranges: HashMap<(u64, u64), Vec<Range<u64>>>,
}

impl IdleRanges {
    /// Idle pages of a file that one group is charged for: clean, not mapped, not locked in memory.
    pub fn of(&self, part: &FilePart) -> &[Range<u64>] {
        let found = self.ranges.get(&(part.file.mapping, part.memcg));
        found.map_or(&[], Vec::as_slice)
    }

    pub(super) fn add(&mut self, record: &RawRecord) {
        // The struct may have changed while it was copied; no file has as many pages.
        if record.index.saturating_add(record.nr_pages) > FILE_PAGES_MAX {
            return;
        }
        let ranges = self
            .ranges
            .entry((record.mapping, record.memcg))
            .or_default();
        let end = record.index.saturating_add(record.nr_pages);
        match ranges.last_mut() {
            // Files are often in memory in the order of their pages.
            Some(last) if last.end == record.index => last.end = end,
            _ => ranges.push(record.index..end),
        }
    }

    /// In order, ranges that touch as one.
    pub(super) fn joined(mut self) -> IdleRanges {
        for ranges in self.ranges.values_mut() {
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup_by(|next, kept| {
                let do_touch = next.start <= kept.end;
                if do_touch {
                    kept.end = kept.end.max(next.end);
                }
                do_touch
            });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one_and_groups_are_kept_apart() {
        let mut idle = IdleRanges::default();
        for (memcg, index, nr_pages) in [
            (1, 8, 4),
            (1, 12, 1),
            (2, 13, 1),
            (1, 0, 8),
            (1, 20, 1),
            (1, 20, 1),
        ] {
            idle.add(&RawRecord {
                mapping: 7,
                memcg,
                index,
                nr_pages,
                ..RawRecord::default()
            });
        }
        idle.add(&RawRecord {
            mapping: 7,
            memcg: 1,
            index: u64::MAX - 1,
            nr_pages: 4,
            ..RawRecord::default()
        });
        let idle = idle.joined();
        assert_eq!(idle.ranges[&(7, 1)], [0..13, 20..21]);
        assert_eq!(
            idle.ranges[&(7, 2)].as_slice(),
            std::slice::from_ref(&(13..14))
        );
    }
}
