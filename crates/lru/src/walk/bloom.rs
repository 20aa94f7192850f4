//! Which page tables were worth a visit: two Bloom filters a lruvec (rules 2.5).
//!
//! A walk visits the tables it finds in the filter of its own generation and notes those with many
//! young entries in the filter of the next, so what is hot pays for being looked at and the rest does
//! not. The filters take turns: number `seq % 2` belongs to the walk of generation `seq`.
//!
//! ```text
//!   walk of seq       reads filter seq % 2          fills filter (seq + 1) % 2
//!   eviction          fills filter max_seq % 2      (the next walk reads it)
//! ```
//!
//! The hash is ours: the finalizer of SplitMix64 (Steele, Lea and Flood 2014, with Stafford's
//! variant 13 of the constants) of the table's number; bits 34..49 of the result say one position
//! and bits 49..64 the other. A filter with 10,000 tables in it takes one stranger in five for its
//! own, one with 20,000 one in two.
//!
//! **Owns** the bitmaps and the hash. **Does not own** which table is dense (`walk`).
//!
//! **Invariants**
//! - I1: a filter never denies a table put into it since it was last cleared.
//! - I2: a filter that was never cleared for use denies nothing and remembers nothing; only clearing
//!   allocates, once a filter.

use crate::random::mix;

/// Positions in a filter: 4 KiB of bits.
const NR_BITS: u32 = 1 << 15;

const NR_WORDS: usize = (NR_BITS / u64::BITS) as usize;

/// A page table, by any number the mechanism gives it: the same table the same number, and no other
/// table of the group that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u64);

impl TableId {
    /// The two bits that stand for the table.
    fn positions(self) -> [u32; 2] {
        let high = (mix(self.0) >> 34) as u32;
        [high % NR_BITS, high / NR_BITS]
    }
}

type Filter = Box<[u64; NR_WORDS]>;

/// The two filters of a lruvec.
#[derive(Debug, Default)]
pub(crate) struct TableFilters {
    filters: [Option<Filter>; 2],
}

impl TableFilters {
    /// Empties the filter of a generation and takes it into use.
    pub(crate) fn clear(&mut self, seq: u64) {
        match &mut self.filters[index(seq)] {
            Some(filter) => filter.fill(0),
            unused => *unused = Some(Box::new([0; NR_WORDS])),
        }
    }

    /// Whether the filter of a generation knows the table; `None` if it is not in use yet.
    pub(crate) fn knows(&self, seq: u64, table: TableId) -> Option<bool> {
        let filter = self.filters[index(seq)].as_ref()?;
        let is_set = |bit: u32| filter[(bit / u64::BITS) as usize] >> (bit % u64::BITS) & 1 != 0;
        Some(table.positions().into_iter().all(is_set))
    }

    /// Puts a table into the filter of a generation, if that is in use.
    pub(crate) fn insert(&mut self, seq: u64, table: TableId) {
        if let Some(filter) = &mut self.filters[index(seq)] {
            for bit in table.positions() {
                filter[(bit / u64::BITS) as usize] |= 1 << (bit % u64::BITS);
            }
        }
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.filters.iter().flatten().count() * size_of::<[u64; NR_WORDS]>()) as u64
    }
}

fn index(seq: u64) -> usize {
    (seq % 2) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Clear(u64),
        Insert(u64, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let table = prop_oneof![0..64u64, any::<u64>()];
        prop_oneof![
            1 => (0..8u64).prop_map(Op::Clear),
            20 => (0..8u64, table).prop_map(|(seq, table)| Op::Insert(seq, table)),
        ]
    }

    proptest! {
        #[test]
        fn a_filter_never_denies_what_was_put_in_since_it_was_cleared(
            ops in proptest::collection::vec(op(), 1..300),
        ) {
            let mut filters = TableFilters::default();
            let mut model: [Option<BTreeSet<u64>>; 2] = [None, None];
            for op in ops {
                match op {
                    Op::Clear(seq) => {
                        filters.clear(seq);
                        model[(seq % 2) as usize] = Some(BTreeSet::new());
                    }
                    Op::Insert(seq, table) => {
                        filters.insert(seq, TableId(table));
                        if let Some(known) = &mut model[(seq % 2) as usize] {
                            known.insert(table);
                        }
                    }
                }
                for (seq, known) in (0u64..).zip(&model) {
                    for table in known.iter().flatten() {
                        prop_assert_eq!(filters.knows(seq, TableId(*table)), Some(true));
                    }
                    prop_assert_eq!(known.is_none(), filters.knows(seq, TableId(7)).is_none());
                }
            }
        }
    }

    /// Strangers taken for known ones, of a thousand.
    fn nr_false_positives_per_mille(nr_tables: u64) -> u64 {
        let mut filters = TableFilters::default();
        filters.clear(0);
        // Neighbouring numbers, as tables of one address space have them.
        for table in 0..nr_tables {
            filters.insert(0, TableId(table));
        }
        let strangers = nr_tables..nr_tables + 10_000;
        let taken = strangers.filter(|table| filters.knows(0, TableId(*table)) == Some(true));
        taken.count() as u64 / 10
    }

    #[test]
    fn ten_thousand_tables_hide_one_stranger_in_five_and_twenty_thousand_one_in_two() {
        assert!(nr_false_positives_per_mille(100) < 2);
        assert!((190..230).contains(&nr_false_positives_per_mille(10_000)));
        assert!((470..530).contains(&nr_false_positives_per_mille(20_000)));
    }

    #[test]
    fn a_filter_costs_nothing_until_a_walk_clears_it_and_then_4_kib() {
        let mut filters = TableFilters::default();
        filters.insert(0, TableId(1));
        assert_eq!(
            (filters.knows(0, TableId(1)), filters.memory_bytes()),
            (None, 0)
        );
        filters.clear(0);
        assert_eq!(filters.knows(0, TableId(1)), Some(false));
        assert_eq!(filters.memory_bytes(), 4096);
        filters.clear(2);
        filters.clear(1);
        assert_eq!(filters.memory_bytes(), 8192);
    }
}
