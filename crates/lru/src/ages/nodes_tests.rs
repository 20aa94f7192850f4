//! Which node a page is on, how steadily it is used, and what was moved.

use super::found_tests::{Found, tell};
use super::tests::{older_than, one_place, random, set};
use super::*;
use crate::ids::{NodeId, NodeSet};

const HERE: SpaceNo = SpaceNo(0);
const UPPER: NodeId = NodeId(0);
const LOWER: NodeId = NodeId(1);

/// What a dumb model knows of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    is_present: bool,
    node: Option<NodeId>,
    streak: u8,
    /// The moves since moves were last forgotten, and before.
    up: [bool; 2],
    down: [bool; 2],
}

/// A ledger and the model beside it.
struct Both {
    ledger: Ledger,
    model: Vec<Known>,
    at_s: u64,
}

impl Both {
    fn new() -> Both {
        let mut ledger = Ledger::new();
        ledger.appeared(HERE, GroupId(0), FamilyNo(0));
        Both {
            ledger,
            model: vec![Known::default(); NR_ENTRIES],
            at_s: 0,
        }
    }

    /// A walk finds pages like this: in memory, accessed, and the node.
    fn walk(&mut self, found: impl Fn(usize) -> (bool, bool, Option<NodeId>)) {
        let is_first = self.at_s == 0;
        self.ledger.start_walk(Duration::from_secs(self.at_s));
        self.at_s += 1;
        let pages = |index: u64| Found {
            is_present: found(index as usize).0,
            is_accessed: found(index as usize).1,
            is_anon: true,
            ..Found::default()
        };
        let pages: Vec<Found> = (0..NR_ENTRIES as u64).map(pages).collect();
        tell(&mut self.ledger, HERE, &one_place(), &pages, 1);
        let mut node = [[0; 8]; NODE_BITS];
        for index in 0..NR_ENTRIES {
            let number = found(index).2.map_or(15, |node| node.0);
            for (bit, plane) in node.iter_mut().enumerate() {
                if number >> bit & 1 != 0 {
                    set(plane, index);
                }
            }
        }
        self.ledger.placed(HERE, 0, &[u64::MAX; 8], &node);
        for (index, known) in self.model.iter_mut().enumerate() {
            let (is_present, is_accessed, node) = found(index);
            let was_present = std::mem::replace(&mut known.is_present, is_present);
            if !is_present || !was_present {
                *known = Known {
                    is_present,
                    ..Known::default()
                };
            }
            known.node = node.filter(|_| is_present);
            known.streak = match is_present && is_accessed && !is_first {
                true => (known.streak + 1).min(STREAK_MAX),
                false => 0,
            };
        }
    }

    fn moved(&mut self, first: usize, end: usize, to: NodeId, is_up: bool) {
        let run = Run {
            space: HERE,
            first_page: first as u64,
            nr_pages: (end - first) as u64,
            idle: Duration::ZERO,
        };
        let moved = self.ledger.migrated(&[run], to, is_up);
        let (mut nr_pages, mut nr_back) = (0, 0);
        for known in self.model[first..end]
            .iter_mut()
            .filter(|one| one.is_present)
        {
            nr_pages += 1;
            known.node = Some(to);
            let (way, other) = match is_up {
                true => (&mut known.up, &known.down),
                false => (&mut known.down, &known.up),
            };
            nr_back += u64::from(other[0] || other[1]);
            way[0] = true;
        }
        assert_eq!(
            (moved.nr_pages.anon, moved.nr_back_pages),
            (nr_pages, nr_back)
        );
    }

    fn forget(&mut self) {
        self.ledger.forget_moves();
        for known in &mut self.model {
            known.up = [false, known.up[0]];
            known.down = [false, known.down[0]];
        }
    }

    fn fitting(&self, on: On) -> u64 {
        let query = Query {
            on: Some(on),
            ..older_than(0, 0)
        };
        self.ledger.picker().candidates(&query).nr_fitting_pages
    }

    fn check(&self) {
        self.ledger.validate().unwrap();
        for (node, streak_min, moved) in (0..2)
            .flat_map(|node| (0..=STREAK_MAX).map(move |streak| (NodeId(node), streak)))
            .flat_map(|(node, streak)| {
                let ways = [Moved::Any, Moved::NotUp, Moved::NotBoth];
                ways.map(|moved| (node, streak, moved))
            })
        {
            let fits = |known: &&Known| {
                let (up, down) = (known.up[0] || known.up[1], known.down[0] || known.down[1]);
                let is_left_out = match moved {
                    Moved::Any => false,
                    Moved::NotUp => up,
                    Moved::NotBoth => up && down,
                };
                known.node == Some(node) && known.streak >= streak_min && !is_left_out
            };
            let expected = self.model.iter().filter(fits).count() as u64;
            let on = On {
                nodes: NodeSet::from_iter([node]),
                streak_min,
                moved,
                is_move: false,
            };
            assert_eq!(self.fitting(on), expected, "{on:?}");
        }
        for node in [UPPER, LOWER] {
            let on_node = self.model.iter().filter(|known| known.node == Some(node));
            let counted = self
                .ledger
                .count_on(NodeSet::from_iter([node]), 1, |_, _| Some(0));
            assert_eq!(counted.total.resident().anon, on_node.count() as u64);
        }
    }
}

#[test]
fn a_table_that_a_walk_did_not_tell_of_was_not_used_steadily() {
    let mut both = Both::new();
    for _ in 0..3 {
        both.walk(|_| (true, true, Some(LOWER)));
    }
    // The process sleeps for two walks, and its tables are not told of.
    both.ledger.start_walk(Duration::from_secs(10));
    both.ledger.start_walk(Duration::from_secs(11));
    both.at_s = 12;
    both.model.iter_mut().for_each(|known| known.streak = 0);
    both.walk(|_| (true, true, Some(LOWER)));
    both.check();
}

#[test]
fn any_history_of_walks_and_moves_is_as_a_dumb_model_has_it() {
    for seed in 1..40 {
        let mut state = seed;
        let mut both = Both::new();
        for _ in 0..30 {
            match random(&mut state) % 8 {
                0 => both.forget(),
                1 | 2 => {
                    let first = (random(&mut state) % 500) as usize;
                    let end = first + (random(&mut state) % 12) as usize;
                    let is_up = random(&mut state).is_multiple_of(2);
                    both.moved(first, end, if is_up { UPPER } else { LOWER }, is_up);
                }
                3 => {
                    let run = Run {
                        space: HERE,
                        first_page: random(&mut state) % 500,
                        nr_pages: 12,
                        idle: Duration::ZERO,
                    };
                    both.ledger.taken(&[run]);
                    let pages = run.first_page as usize..(run.first_page + 12) as usize;
                    for known in &mut both.model[pages] {
                        *known = Known::default();
                    }
                }
                _ => {
                    let seeds: Vec<u64> = (0..NR_ENTRIES).map(|_| random(&mut state)).collect();
                    both.walk(|index| {
                        let node = [Some(UPPER), Some(LOWER), Some(LOWER), None];
                        let seed = seeds[index] >> 8;
                        (
                            !seed.is_multiple_of(9),
                            !seed.is_multiple_of(3),
                            node[(seed >> 20) as usize % 4],
                        )
                    });
                }
            }
            both.check();
        }
    }
}
