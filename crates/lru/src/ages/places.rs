//! What is mapped where: whose pages a mapping shows, and what may be concluded from its accessed bits.
//!
//! **Owns** the words, and the arithmetic from pages to entries of tables. **Does not own** what is in memory (`table`).

use crate::bits::{self, Bits, NR_ENTRIES};

/// Number of something that several spaces can map: a file, a piece of shared memory. The caller gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectNo(pub u64);

/// Number of a family: spaces that came of one another by fork without an exec, so that a page which several of them
/// map at one address is one page. The caller gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyNo(pub u32);

/// Whose pages a place shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The space's own, but for what it shares with its family.
    Private,
    /// An object's, from this page of it on; anonymous ones are copies and the space's own.
    Copied(ObjectNo, u64),
    /// An object's, from this page of it on.
    Shared(ObjectNo, u64),
}

/// What may be done with pages of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They have ages and may be taken.
    Ordinary,
    /// As ordinary ones, but those of a file are code, and may be spared for longer ([`super::Query::code_older_than`]).
    Code,
    /// As ordinary ones, but they stay on their memory node.
    Bound,
    /// They have ages, but can't be taken (locked).
    Kept,
    /// Who accesses them leaves no trace in the page table (a guest, a device): their age is unknown.
    Unseen,
}

/// A mapping, as far as ages are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of its first page: its address in pages.
    pub first_page: u64,
    /// One past its last page.
    pub end_page: u64,
    /// Whose pages it shows.
    pub home: Home,
    /// What may be done with them.
    pub standing: Standing,
}

/// The tables that pages `first..end` lie in, each with their entries.
pub(super) fn masks(first: u64, end: u64) -> impl Iterator<Item = (u64, Bits)> {
    let nr_entries = NR_ENTRIES as u64;
    let tables = if first < end {
        first / nr_entries..(end - 1) / nr_entries + 1
    } else {
        0..0
    };
    tables.map(move |table_no| (table_no, bits::entries(first, end, table_no)))
}

/// The entries of a table that lie in any place.
pub(super) fn covered(places: &[Place], table_no: u64) -> Bits {
    let start = table_no * NR_ENTRIES as u64;
    let first = places.partition_point(|place| place.end_page <= start);
    let touching = places[first..]
        .iter()
        .take_while(|place| place.first_page < start + NR_ENTRIES as u64);
    touching.fold(bits::NONE, |covered, place| {
        bits::or(
            covered,
            bits::entries(place.first_page, place.end_page, table_no),
        )
    })
}
