//! What walks leave out, and what they never leave out.

use super::*;
use crate::walk::{NextSpace, Scan, SpaceSlot, TableBit, TableId, TableScan, Walk, WalkRules};

/// Of 512 entries the fewest that make a table dense.
const NR_YOUNG_DENSE: u32 = 64;

impl Bench {
    fn add_spaces(&mut self, count: usize) -> Vec<SpaceSlot> {
        let add = |_| self.engine.space_added(self.group).unwrap();
        (0..count).map(add).collect()
    }

    fn begin(&mut self, scan: Scan) -> Walk {
        let begun = self
            .engine
            .begin_walk(self.group, NodeId(0), self.swappiness, scan);
        begun.unwrap()
    }

    /// What one walker is handed until nothing is left, and whether it made a generation.
    fn walk_alone(&mut self, scan: Scan) -> (Vec<SpaceSlot>, bool) {
        let mut walk = self.begin(scan);
        let mut spaces = Vec::new();
        while let NextSpace::Space(space) = self.engine.next_space(&mut walk) {
            spaces.push(space);
        }
        let has_ended = self.engine.finish(walk, self.now);
        self.engine.validate().unwrap();
        (spaces, has_ended)
    }

    fn asked(&mut self, walk: &Walk, table: u64) -> bool {
        self.engine.should_scan(walk, TableId(table), TableBit::Set)
    }

    fn scan(&mut self, walk: &Walk, table: u64, nr_young: u32) {
        let read = TableScan::Read {
            nr_entries: 512,
            nr_young,
        };
        self.engine.scanned(walk, TableId(table), read);
    }

    fn with_walk_rules(walk: WalkRules) -> Bench {
        let mut bench = Bench::new();
        bench.engine.rules.walk = walk;
        bench
    }
}

#[test]
fn a_table_with_one_young_entry_in_eight_is_visited_by_the_next_walk_and_others_are_not() {
    let mut bench = Bench::new();
    let space = bench.add_spaces(1)[0];
    let mut first = bench.begin(Scan::Filtered);
    bench.engine.next_space(&mut first);
    assert!(
        bench.asked(&first, 1) && bench.asked(&first, 2),
        "the space is new"
    );
    bench.scan(&first, 1, NR_YOUNG_DENSE);
    bench.scan(&first, 2, NR_YOUNG_DENSE - 1);
    bench.engine.next_space(&mut first);
    bench.engine.finish(first, bench.now);

    bench.engine.space_ran(space);
    let mut second = bench.begin(Scan::Filtered);
    bench.engine.next_space(&mut second);
    assert!(bench.asked(&second, 1));
    assert!(!bench.asked(&second, 2));
    bench.scan(&second, 1, 0);
    bench.engine.next_space(&mut second);
    bench.engine.finish(second, bench.now);

    bench.engine.space_ran(space);
    let mut third = bench.begin(Scan::Filtered);
    bench.engine.next_space(&mut third);
    assert!(!bench.asked(&third, 1), "it was visited for nothing");
    let stats = bench.engine.walk_stats(bench.group).unwrap();
    let asked = (
        stats.nr_tables_seen,
        stats.nr_tables_filtered,
        stats.nr_filter_hits,
    );
    assert_eq!(asked, (5, 2, 1));
    assert_eq!(stats.nr_tables_dense, 1);
    assert_eq!(
        (stats.nr_entries_visited, stats.nr_entries_young),
        (1536, 127)
    );
}

#[test]
fn a_table_whose_own_bit_is_clear_is_left_out_unless_the_walk_is_forced() {
    let clear = |bench: &mut Bench, scan| {
        let walk = bench.begin(scan);
        bench.engine.should_scan(&walk, TableId(1), TableBit::Clear)
    };
    let mut bench = Bench::new();
    assert!(!clear(&mut bench, Scan::Filtered));
    assert!(clear(&mut bench, Scan::Forced));
    let walk = bench.begin(Scan::Filtered);
    assert!(
        bench
            .engine
            .should_scan(&walk, TableId(1), TableBit::Unknown)
    );
    let mut older = Bench::with_walk_rules(WalkRules::V1);
    assert!(
        !clear(&mut older, Scan::Forced),
        "before 6.14 it is left out all the same"
    );
}

#[test]
fn before_6_14_a_space_of_fewer_than_64_evictable_pages_is_not_worth_a_walk() {
    let mut bench = Bench::with_walk_rules(WalkRules::V1);
    let spaces = bench.add_spaces(3);
    bench.engine.space_sized(spaces[0], [63, 0]);
    bench.engine.space_sized(spaces[1], [60, 4]);
    assert_eq!(bench.walk_alone(Scan::Forced).0, spaces[1..]);
    bench.swappiness = Swappiness::try_new(0).unwrap();
    assert_eq!(bench.walk_alone(Scan::Forced).0, spaces[2..]);
    let mut newer = Bench::new();
    let space = newer.add_spaces(1)[0];
    newer.engine.space_sized(space, [1, 0]);
    assert_eq!(newer.walk_alone(Scan::Filtered).0, [space]);
}

#[test]
fn a_contended_table_counts_as_visited_and_by_the_model_as_dense() {
    for (rules, is_dense) in [(WalkRules::V2, false), (WalkRules::V3, true)] {
        let mut bench = Bench::with_walk_rules(rules);
        let space = bench.add_spaces(1)[0];
        let mut walk = bench.begin(Scan::Filtered);
        bench.engine.next_space(&mut walk);
        bench
            .engine
            .scanned(&walk, TableId(3), TableScan::Contended);
        bench.engine.next_space(&mut walk);
        bench.engine.finish(walk, bench.now);
        bench.engine.space_ran(space);
        let walk = bench.begin(Scan::Filtered);
        assert_eq!(bench.asked(&walk, 3), is_dense);
        let stats = bench.engine.walk_stats(bench.group).unwrap();
        assert_eq!(stats.nr_entries_visited, 0);
    }
}
