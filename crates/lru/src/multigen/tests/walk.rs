//! What walks leave out, and what they never leave out.

use super::*;
use crate::walk::{NextSpace, Scan, SpaceId, TableBit, TableId, TableScan, Walk, WalkRules};

/// Of 512 entries the fewest that make a table dense.
const NR_YOUNG_DENSE: u32 = 64;

impl Bench {
    fn add_spaces(&mut self, count: usize) -> Vec<SpaceId> {
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
    fn walk_alone(&mut self, scan: Scan) -> (Vec<SpaceId>, bool) {
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
fn a_new_space_is_always_walked_and_then_only_if_it_has_run() {
    let mut bench = Bench::new();
    let spaces = bench.add_spaces(3);
    assert_eq!(bench.walk_alone(Scan::Filtered), (spaces.clone(), true));
    assert_eq!(bench.walk_alone(Scan::Filtered), (vec![], true));
    bench.engine.space_ran(spaces[1]);
    let late = bench.add_spaces(1)[0];
    let walked = bench.walk_alone(Scan::Filtered);
    assert_eq!(walked, (vec![spaces[1], late], true));
    assert_eq!(bench.walk_alone(Scan::Filtered), (vec![], true));
    let all = [spaces, vec![late]].concat();
    assert_eq!(bench.walk_alone(Scan::Forced), (all, true));
    assert_eq!(
        bench.engine.walk_stats(bench.group).unwrap().nr_spaces_idle,
        9
    );
}

#[test]
fn walkers_share_the_spaces_and_only_the_one_at_the_end_makes_a_generation() {
    let mut bench = Bench::new();
    let spaces = bench.add_spaces(3);
    let (mut one, mut two) = (bench.begin(Scan::Filtered), bench.begin(Scan::Filtered));
    assert_eq!(
        bench.engine.next_space(&mut one),
        NextSpace::Space(spaces[0])
    );
    assert_eq!(
        bench.engine.next_space(&mut two),
        NextSpace::Space(spaces[1])
    );
    assert_eq!(
        bench.engine.next_space(&mut two),
        NextSpace::Space(spaces[2])
    );
    assert_eq!(bench.engine.next_space(&mut two), NextSpace::End);
    assert_eq!(bench.engine.next_space(&mut one), NextSpace::Over);
    assert!(
        !bench.engine.is_over(&one),
        "the generation is not born yet"
    );
    assert!(bench.engine.finish(two, TimeMs(9)));
    assert!(bench.engine.is_over(&one));
    assert!(!bench.engine.finish(one, TimeMs(9)));
    assert_eq!((bench.window().0, bench.stats().nr_ageing_runs), (4, 1));
}

#[test]
fn a_generation_made_without_a_walk_makes_every_space_new() {
    let mut bench = Bench::new();
    let spaces = bench.add_spaces(2);
    bench.walk_alone(Scan::Filtered);
    let mut lost = bench.begin(Scan::Filtered);
    bench.walk();
    assert_eq!(bench.engine.next_space(&mut lost), NextSpace::Over);
    assert!(!bench.engine.finish(lost, bench.now));
    assert_eq!(bench.walk_alone(Scan::Filtered), (spaces, true));
}

#[test]
fn each_node_walks_the_spaces_by_itself() {
    let mut bench = Bench::new();
    let space = bench.add_spaces(1)[0];
    bench.walk_alone(Scan::Filtered);
    bench.walk_alone(Scan::Filtered);
    bench.engine.space_ran(space);
    bench.walk_alone(Scan::Filtered);
    let begun = bench
        .engine
        .begin_walk(bench.group, NodeId(200), bench.swappiness, Scan::Filtered);
    let mut walk = begun.unwrap();
    assert_eq!(bench.engine.next_space(&mut walk), NextSpace::Space(space));
    assert_eq!(bench.engine.next_space(&mut walk), NextSpace::End);
    assert!(bench.engine.finish(walk, bench.now));
    let views = bench.engine.view(bench.group, bench.now).unwrap();
    let youngest = views.iter().map(|of| of.generations.last().unwrap().seq.0);
    assert!(youngest.eq([6, 4]));
}

#[test]
fn a_space_that_is_gone_or_moved_is_not_handed_out() {
    let mut bench = Bench::new();
    let spaces = bench.add_spaces(4);
    let other = bench.engine.add_group("/other", TimeMs(0)).unwrap();
    let mut walk = bench.begin(Scan::Filtered);
    assert_eq!(
        bench.engine.next_space(&mut walk),
        NextSpace::Space(spaces[0])
    );
    bench.engine.space_gone(spaces[0]);
    bench.engine.space_moved(spaces[2], other).unwrap();
    assert_eq!(
        bench.engine.next_space(&mut walk),
        NextSpace::Space(spaces[1])
    );
    assert_eq!(
        bench.engine.next_space(&mut walk),
        NextSpace::Space(spaces[3])
    );
    assert_eq!(bench.engine.next_space(&mut walk), NextSpace::End);
    bench.engine.validate().unwrap();
    assert_eq!(bench.add_spaces(1), [spaces[0]], "the number is used again");
    let unknown = bench.engine.space_added(GroupId(77));
    assert_eq!(unknown, Err(PolicyError::NoGroup(GroupId(77))));
    let walk = bench
        .engine
        .begin_walk(other, NodeId(0), bench.swappiness, Scan::Filtered);
    let next = bench.engine.next_space(&mut walk.unwrap());
    assert_eq!(next, NextSpace::Space(spaces[2]));
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
    assert_eq!((stats.nr_tables_scanned, stats.nr_tables_dense), (3, 1));
    assert_eq!(
        (stats.nr_entries_visited, stats.nr_entries_young),
        (1536, 127)
    );
}

#[test]
fn a_forced_walk_and_a_new_space_ask_no_filter() {
    let mut bench = Bench::new();
    let space = bench.add_spaces(1)[0];
    for _ in 0..3 {
        bench.engine.space_ran(space);
        bench.walk_alone(Scan::Filtered);
    }
    bench.engine.space_ran(space);
    let filtered = bench.begin(Scan::Filtered);
    assert!(!bench.asked(&filtered, 5));
    let forced = bench.begin(Scan::Forced);
    assert!(bench.asked(&forced, 5));
    let late = bench.add_spaces(1)[0];
    let mut walk = bench.begin(Scan::Filtered);
    assert_eq!(bench.engine.next_space(&mut walk), NextSpace::Space(space));
    assert!(!bench.asked(&walk, 5));
    assert_eq!(bench.engine.next_space(&mut walk), NextSpace::Space(late));
    assert!(bench.asked(&walk, 5));
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
fn while_every_space_is_idle_the_filter_keeps_what_it_knows() {
    let mut bench = Bench::new();
    let space = bench.add_spaces(1)[0];
    bench.walk_alone(Scan::Filtered);
    bench.engine.space_ran(space);
    let mut walk = bench.begin(Scan::Filtered);
    bench.engine.next_space(&mut walk);
    bench.scan(&walk, 1, 512);
    bench.engine.next_space(&mut walk);
    bench.engine.finish(walk, bench.now);
    bench.walk_alone(Scan::Filtered);
    bench.walk_alone(Scan::Filtered);
    bench.engine.space_ran(space);
    let walk = bench.begin(Scan::Filtered);
    assert!(bench.asked(&walk, 1));
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
    let stats = bench.engine.walk_stats(bench.group).unwrap();
    assert_eq!(stats.nr_spaces_small, 3);
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
        assert_eq!((stats.nr_tables_scanned, stats.nr_entries_visited), (1, 0));
    }
}
