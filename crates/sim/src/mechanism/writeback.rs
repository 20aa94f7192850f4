//! Writeback: dirty file pages are written in the order in which they became dirty.
//!
//! The kernel's flusher threads start when a tenth of memory is dirty, or when reclaim meets dirty
//! pages. So does this; writing takes no time here. Anon is not written ahead.
//!
//! **Owns** the order. **Does not own** the dirty bits (`memory`).
//!
//! **Invariants**
//! - I1: every dirty file page in memory is in the row; a page that was written or has left since
//!   it got in is passed over.

use std::collections::VecDeque;

/// Of so many pages of memory one may be dirty before the flusher starts (`dirty_background_ratio`).
const PAGES_PER_DIRTY: u32 = 10;

/// Dirty pages of files, the longest dirty first.
#[derive(Debug)]
pub(super) struct Writeback {
    row: VecDeque<u32>,
    nr_dirty_max: usize,
}

impl Writeback {
    /// Nothing dirty yet.
    pub(super) fn new(memory_pages: u32) -> Writeback {
        Writeback {
            row: VecDeque::new(),
            nr_dirty_max: (memory_pages / PAGES_PER_DIRTY) as usize,
        }
    }

    /// A page became dirty.
    pub(super) fn push(&mut self, slot: u32) {
        self.row.push_back(slot);
    }

    /// The next page to write, if it is time.
    pub(super) fn next_due(&mut self) -> Option<u32> {
        if self.row.len() <= self.nr_dirty_max {
            return None;
        }
        self.row.pop_front()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.row.capacity() * size_of::<u32>()) as u64
    }
}
