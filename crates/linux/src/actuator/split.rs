//! Splitting huge pages, so that their parts can be told apart and taken one by one.
//!
//! The kernel splits a huge page when it is asked to reclaim a part of it. Of anonymous memory the
//! part that was named goes and the rest stays mapped, page by page; of a file no entry is left, and
//! what is in use comes back by minor faults, nothing being read.
//!
//! **Owns** which part is named. **Does not own** which pages are split (`control`).
//!
//! **Invariants** I1: at most one base page of each is taken. I2: what is not huge any more is left
//! alone.

use super::observe::Tables;
use crate::access::TableShape;
use crate::addr::{AddrRange, PAGE_BYTES, TableNo};

/// What to ask the kernel to reclaim: one base page of each of `huge` (sorted) that is still huge.
pub(super) fn parts(tables: &Tables, huge: &[TableNo]) -> Vec<AddrRange> {
    let is_huge = |no: &&TableNo| {
        tables
            .get(**no)
            .is_some_and(|record| record.shape == TableShape::Huge)
    };
    huge.iter()
        .filter(is_huge)
        .map(|no| AddrRange::new(no.start(), no.start() + PAGE_BYTES))
        .collect()
}
