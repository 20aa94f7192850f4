//! Walkers in any interleaving against a dumb model: sets instead of cursors and filters.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::walk::{
    LookAround, LookAroundBy, NextSpace, Scan, SpaceSlot, TableBit, TableId, TableScan, Walk,
};

/// Of 512 entries the fewest that make a table dense.
const NR_YOUNG_DENSE: u32 = 64;

/// One thing that happens to walks. Numbers pick among what exists, modulo.
#[derive(Clone, Debug)]
enum Op {
    Add,
    Gone(u8),
    Ran(u8),
    Begin {
        node: u8,
        scan: Scan,
    },
    Next(u8),
    Scan {
        walker: u8,
        table: u8,
        nr_young: u32,
    },
    Ask {
        walker: u8,
        table: u8,
    },
    LookAround {
        table: u8,
    },
    Finish(u8),
    WalkWithout,
}

fn op() -> impl Strategy<Value = Op> {
    let scan = prop_oneof![6 => Just(Scan::Filtered), 1 => Just(Scan::Forced)];
    prop_oneof![
        4 => Just(Op::Add),
        2 => any::<u8>().prop_map(Op::Gone),
        6 => any::<u8>().prop_map(Op::Ran),
        8 => (0..2u8, scan).prop_map(|(node, scan)| Op::Begin { node, scan }),
        30 => any::<u8>().prop_map(Op::Next),
        12 => (any::<u8>(), any::<u8>(), 0..=128u32)
            .prop_map(|(walker, table, nr_young)| Op::Scan { walker, table, nr_young }),
        12 => (any::<u8>(), any::<u8>()).prop_map(|(walker, table)| Op::Ask { walker, table }),
        3 => any::<u8>().prop_map(|table| Op::LookAround { table }),
        6 => any::<u8>().prop_map(Op::Finish),
        1 => Just(Op::WalkWithout),
    ]
}

/// The walks of one lruvec as somebody would do them by hand: sets instead of cursors.
#[derive(Debug, Default)]
struct NodeModel {
    /// Iterations ended and generations born.
    nr_ended: u64,
    nr_born: u64,
    /// Taken or passed over in this iteration.
    seen: BTreeSet<SpaceSlot>,
    /// Taken or passed over in any.
    known: BTreeSet<SpaceSlot>,
    has_run: BTreeSet<SpaceSlot>,
    /// Tables noted as dense, by parity of the generation; `None` before the filter is in use.
    dense: [Option<BTreeSet<u8>>; 2],
}

#[derive(Debug)]
struct Walker {
    walk: Walk,
    node: usize,
    nr_born: u64,
    is_forced: bool,
}

struct WalkPair {
    bench: Bench,
    row: Vec<SpaceSlot>,
    nodes: [NodeModel; 2],
    walkers: Vec<Walker>,
    neighbour: FolioId,
    nr_runs: u64,
}

fn pick<T>(from: &[T], number: u8) -> Option<usize> {
    (!from.is_empty()).then(|| usize::from(number) % from.len())
}

impl WalkPair {
    fn new() -> WalkPair {
        let mut bench = Bench::new();
        let neighbour = bench.appear(Kind::Anon, Cause::Fault);
        WalkPair {
            bench,
            row: Vec::new(),
            nodes: Default::default(),
            walkers: Vec::new(),
            neighbour,
            nr_runs: 0,
        }
    }

    fn forget(&mut self, space: SpaceSlot) {
        self.row.retain(|of| *of != space);
        for node in &mut self.nodes {
            node.seen.remove(&space);
            node.known.remove(&space);
            node.has_run.remove(&space);
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let engine = &mut self.bench.engine;
        match *op {
            Op::Add => self.row.push(engine.space_added(self.bench.group).unwrap()),
            Op::Gone(number) => {
                if let Some(at) = pick(&self.row, number) {
                    engine.space_gone(self.row[at]);
                    self.forget(self.row[at]);
                }
            }
            Op::Ran(number) => {
                if let Some(at) = pick(&self.row, number) {
                    engine.space_ran(self.row[at]);
                    for node in &mut self.nodes {
                        node.has_run.insert(self.row[at]);
                    }
                }
            }
            Op::Begin { node, scan } => {
                let swappiness = self.bench.swappiness;
                let walk = engine.begin_walk(self.bench.group, NodeId(node), swappiness, scan);
                let node = usize::from(node);
                self.walkers.push(Walker {
                    walk: walk.unwrap(),
                    node,
                    nr_born: self.nodes[node].nr_born,
                    is_forced: scan == Scan::Forced,
                });
            }
            Op::Next(number) => {
                if let Some(at) = pick(&self.walkers, number) {
                    let expected = self.next_by_hand(at);
                    let next = self.bench.engine.next_space(&mut self.walkers[at].walk);
                    prop_assert_eq!(next, expected);
                }
            }
            Op::Scan {
                walker,
                table,
                nr_young,
            } => {
                if let Some(at) = pick(&self.walkers, walker) {
                    let walker = &self.walkers[at];
                    let nr_entries = 512;
                    let read = TableScan::Read {
                        nr_entries,
                        nr_young,
                    };
                    engine.scanned(&walker.walk, TableId(table.into()), read);
                    let next = &mut self.nodes[walker.node].dense[parity(walker.nr_born + 1)];
                    if nr_young >= NR_YOUNG_DENSE {
                        next.iter_mut().for_each(|dense| _ = dense.insert(table));
                    }
                }
            }
            Op::Ask { walker, table } => {
                if let Some(at) = pick(&self.walkers, walker) {
                    let walker = &self.walkers[at];
                    let bit = TableBit::Set;
                    let is_due = engine.should_scan(&walker.walk, TableId(table.into()), bit);
                    let dense = &self.nodes[walker.node].dense[parity(walker.nr_born)];
                    let is_known = dense.as_ref().is_none_or(|dense| dense.contains(&table));
                    // A filter may take a stranger for its own, never the other way round.
                    prop_assert!(is_due || !is_known && !walker.is_forced);
                }
            }
            Op::LookAround { table } => {
                engine.looked_around(LookAround {
                    folio: self.neighbour,
                    table: TableId(table.into()),
                    nr_entries: 8,
                    young: &[],
                    by: LookAroundBy::Walker,
                });
                let node = &mut self.nodes[0];
                let current = &mut node.dense[parity(node.nr_born)];
                current.iter_mut().for_each(|dense| _ = dense.insert(table));
            }
            Op::Finish(number) => {
                if let Some(at) = pick(&self.walkers, number) {
                    let walker = self.walkers.swap_remove(at);
                    let node = &mut self.nodes[walker.node];
                    let is_last = walker.walk.has_ended && node.nr_born == walker.nr_born;
                    let has_made = engine.finish(walker.walk, self.bench.now);
                    prop_assert_eq!(has_made, is_last);
                    node.nr_born += u64::from(is_last);
                    self.nr_runs += u64::from(is_last);
                    // An iteration nobody finished would stop all that follow.
                    prop_assert!(node.nr_ended <= node.nr_born + 1);
                }
            }
            Op::WalkWithout => {
                let (group, swappiness) = (self.bench.group, self.bench.swappiness);
                engine
                    .finish_walk(group, swappiness, self.bench.now)
                    .unwrap();
                self.nr_runs += 1;
                for node in &mut self.nodes {
                    if node.nr_ended == node.nr_born {
                        node.nr_ended += 1;
                        node.seen.clear();
                        node.known.clear();
                    }
                    node.nr_born += 1;
                }
            }
        }
        prop_assert_eq!(self.bench.stats().nr_ageing_runs, self.nr_runs);
        self.bench.engine.validate().map_err(TestCaseError::fail)
    }

    fn next_by_hand(&mut self, at: usize) -> NextSpace {
        let walker = &mut self.walkers[at];
        let node = &mut self.nodes[walker.node];
        if walker.nr_born < node.nr_ended {
            return NextSpace::Over;
        }
        let is_first = node.seen.is_empty();
        for space in &self.row {
            if !node.seen.insert(*space) {
                continue;
            }
            walker.is_forced |= node.known.insert(*space);
            let has_run = node.has_run.remove(space);
            if has_run || walker.is_forced {
                if is_first {
                    node.dense[parity(walker.nr_born + 1)] = Some(BTreeSet::new());
                }
                return NextSpace::Space(*space);
            }
        }
        node.seen.clear();
        node.nr_ended += 1;
        NextSpace::End
    }
}

/// Which filter: the generations begin at 3.
fn parity(nr_born: u64) -> usize {
    ((3 + nr_born) % 2) as usize
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_interleaving_of_walkers_takes_each_space_once_and_forgets_no_dense_table(
        ops in proptest::collection::vec(op(), 1..400),
    ) {
        let mut pair = WalkPair::new();
        // The second node exists from the start, as the model has it.
        pair.bench.engine.books.lruvec_of(pair.bench.group, NodeId(1)).unwrap();
        for op in &ops {
            pair.apply(op)?;
        }
    }
}
