//! What eviction sees beside a folio that it found young.

use super::*;
use crate::walk::{LookAround, LookAroundBy, NextSpace, Scan, TableBit, TableId, WalkRules};

impl Bench {
    fn look_around(&mut self, folio: FolioId, young: &[FolioId], by: LookAroundBy) {
        self.engine.looked_around(LookAround {
            folio,
            table: TableId(1),
            nr_entries: 64,
            young,
            by,
        });
        self.engine.validate().unwrap();
    }

    /// Whether the next walk, unforced, would visit the table of the look-around.
    fn is_table_known(&mut self) -> bool {
        let space = self.engine.space_added(self.group).unwrap();
        let begun = self
            .engine
            .begin_walk(self.group, NodeId(0), self.swappiness, Scan::Filtered);
        let walk = begun.unwrap();
        self.engine.space_gone(space);
        self.engine.should_scan(&walk, TableId(1), TableBit::Set)
    }

    /// Walks of an empty space until both filters are in use.
    fn use_filters(&mut self) {
        let space = self.engine.space_added(self.group).unwrap();
        for _ in 0..2 {
            self.engine.space_ran(space);
            let begun =
                self.engine
                    .begin_walk(self.group, NodeId(0), self.swappiness, Scan::Filtered);
            let mut walk = begun.unwrap();
            while self.engine.next_space(&mut walk) != NextSpace::End {}
            self.engine.finish(walk, self.now);
        }
        self.engine.space_gone(space);
    }
}

#[test]
fn neighbours_found_young_twice_are_promoted_before_eviction_gets_to_them() {
    for by in [LookAroundBy::Walker, LookAroundBy::Reclaimer] {
        let mut bench = Bench::new();
        let folios = bench.appear_many(3, Kind::Anon, Cause::Prefetch);
        bench.look_around(folios[0], &folios[1..], by);
        assert_eq!((bench.seq(folios[0]), bench.seq(folios[1])), (0, 0));
        bench.look_around(folios[0], &folios[1..], by);
        assert_eq!((bench.seq(folios[0]), bench.seq(folios[1])), (0, 3));
        assert_eq!(bench.stats().nr_promoted_pages, 2);
        let stats = bench.engine.walk_stats(bench.group).unwrap();
        assert_eq!(stats.nr_look_around_entries, 128);
    }
}

#[test]
fn with_a_walk_neighbours_stay_on_their_list_and_without_one_they_are_moved() {
    for (by, list_index) in [(LookAroundBy::Walker, 0), (LookAroundBy::Reclaimer, 3)] {
        let mut bench = Bench::new();
        let folios = bench.appear_many(2, Kind::Anon, Cause::Prefetch);
        bench.young(folios[1]);
        bench.look_around(folios[0], &folios[1..], by);
        assert_eq!(bench.seq(folios[1]), 3);
        let list = bench.engine.books.lruvecs[0].list(list_index, Kind::Anon);
        bench
            .engine
            .books
            .lists
            .remove(&mut bench.engine.books.folios, folios[0]);
        assert_eq!(bench.engine.books.lists.tail(list), Some(folios[1]));
    }
}

#[test]
fn a_dense_neighbourhood_is_visited_by_the_next_walk() {
    // One entry in eight: seven neighbours and the folio itself.
    for (rules, nr_neighbours, is_known) in [
        (WalkRules::V2, 7, true),
        (WalkRules::V2, 6, false),
        (WalkRules::V1, 8, true),
        (WalkRules::V1, 7, false),
    ] {
        let mut bench = Bench::new();
        bench.engine.rules.walk = rules;
        bench.use_filters();
        assert!(!bench.is_table_known());
        let folios = bench.appear_many(nr_neighbours + 1, Kind::Anon, Cause::Prefetch);
        bench.look_around(folios[0], &folios[1..], LookAroundBy::Reclaimer);
        assert_eq!(bench.is_table_known(), is_known);
    }
}

#[test]
fn neighbours_of_other_groups_and_nodes_are_left_alone() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    let elsewhere = Arrival {
        node: NodeId(1),
        ..bench.arrival(Kind::Anon, Cause::Fault)
    };
    let stranger = bench.engine.appeared(elsewhere).unwrap();
    let young_before = bench.stats().nr_young_pages;
    bench.look_around(folio, &[stranger; 2], LookAroundBy::Reclaimer);
    assert_eq!(bench.stats().nr_young_pages, young_before);
    assert!(!bench.engine.flags(stranger).is_referenced());
}

#[test]
fn a_huge_folio_mapped_by_many_entries_was_accessed_once() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    let huge = Arrival {
        order: Order(4),
        ..bench.arrival(Kind::Anon, Cause::Fault)
    };
    let huge = bench.engine.appeared(huge).unwrap();
    bench.look_around(folio, &[huge; 16], LookAroundBy::Reclaimer);
    assert_eq!((bench.seq(huge), bench.stats().nr_young_pages), (2, 16));
}
