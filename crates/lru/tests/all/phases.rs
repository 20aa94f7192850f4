//! Which pages are idle, as generations, the two lists and the ledger tell it, where a program turns from one part
//! of its memory to the next.
//!
//! A program of four parts uses each for [`NR_WALKS_A_PHASE`] walks, and walks find what it used. Asked for as much
//! as lies idle, a policy that knows ages gives the part that was used longest ago.

use std::time::Duration;

use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GroupId, Isolated, Kind, MultiGen,
    NodeId, Order, Policy, ReclaimRequest, Rules, SpaceNo, Swappiness, TimeMs, TwoList, Verdict,
    ages::{Bits, FamilyNo, Home, Ledger, NR_ENTRIES, Place, Query, Standing, Told},
};

const NR_PARTS: usize = 4;
const NR_PART_PAGES: usize = NR_ENTRIES;
const NR_WALKS_A_PHASE: usize = 4;
const NR_WALKS: usize = 13;

/// In which order the program turns to its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// As memory came.
    Phased,
    Receding,
}

/// The parts in use since the walk before. At a walk the program has turned already, so that one in four finds two.
fn parts_of(turn: Turn, walk: usize) -> Vec<usize> {
    if walk == 0 {
        return Vec::new();
    }
    let phases = (walk - 1) / NR_WALKS_A_PHASE..=walk / NR_WALKS_A_PHASE;
    let part = |phase| match turn {
        Turn::Phased => phase,
        Turn::Receding => NR_PARTS - 1 - phase,
    };
    phases.map(part).collect()
}

fn now(walk: usize) -> u64 {
    500 * walk as u64
}

/// Pages of each part among the first `NR_PART_PAGES` that a policy gives.
fn given_by(mut policy: impl Policy, turn: Turn) -> [usize; NR_PARTS] {
    let group = policy
        .add_group("/program", TimeMs(0))
        .expect("a group fits");
    let arrival = Arrival {
        group,
        node: NodeId(0),
        kind: Kind::Anon,
        order: Order::BASE,
        cause: Cause::Fault,
        shadow: None,
        is_exec: false,
    };
    let folios: Vec<FolioId> = (0..NR_PARTS * NR_PART_PAGES)
        .map(|_| policy.appeared(arrival).expect("room for a folio"))
        .collect();
    let part_pages = |part: usize| part * NR_PART_PAGES..(part + 1) * NR_PART_PAGES;
    for walk in 0..NR_WALKS {
        for part in parts_of(turn, walk) {
            for folio in &folios[part_pages(part)] {
                policy.accessed(*folio, AccessVia::PageTable);
            }
        }
        let now = TimeMs(now(walk));
        policy
            .finish_walk(group, Swappiness::DEFAULT, now)
            .expect("the group is there");
    }
    let mut given = [0; NR_PARTS];
    let mut batch = EvictBatch::default();
    for _ in 0..10_000 {
        let nr_left = NR_PART_PAGES - given.iter().sum::<usize>();
        if nr_left == 0 {
            break;
        }
        let request = ReclaimRequest::new(group, nr_left as u64);
        let now = TimeMs(now(NR_WALKS));
        if policy
            .isolate(request, now, &mut batch)
            .expect("the group is there")
            == Isolated::NeedsAgeing
        {
            policy
                .finish_walk(group, Swappiness::DEFAULT, now)
                .expect("the group is there");
        }
        let verdicts = vec![Verdict::Evicted; batch.folios.len()];
        policy.complete(&mut batch, &verdicts);
        for folio in &batch.folios {
            let page = folios
                .iter()
                .position(|of| of == folio)
                .expect("a folio of ours");
            given[page / NR_PART_PAGES] += 1;
        }
    }
    given
}

/// Pages of each part that the ledger has as not accessed for so long.
fn idle_by_the_ledger(turn: Turn, older_than: Duration) -> [usize; NR_PARTS] {
    let (space, group) = (SpaceNo(0), GroupId(0));
    let mut ledger = Ledger::new();
    ledger.appeared(space, group, FamilyNo(0));
    let place = Place {
        first_page: 0,
        end_page: (NR_PARTS * NR_PART_PAGES) as u64,
        home: Home::Private,
        standing: Standing::Ordinary,
    };
    let all = [u64::MAX; NR_ENTRIES / 64];
    for walk in 0..NR_WALKS {
        ledger.start_walk(Duration::from_millis(now(walk)));
        ledger.begin(space, [place]);
        let used = parts_of(turn, walk);
        for part in 0..NR_PARTS {
            let told = Told {
                mask: all,
                resident: all,
                accessed: if used.contains(&part) {
                    all
                } else {
                    Bits::default()
                },
                anon: all,
                empty: Bits::default(),
                unseen: Bits::default(),
            };
            ledger.told(space, part as u64, &told);
        }
        ledger.end(space, true);
    }
    let found = ledger.picker().candidates(&Query {
        group,
        kind: None,
        older_than,
        code_older_than: older_than,
        objects: None,
        on: None,
        nr_pages_max: u64::MAX,
    });
    let mut idle = [0; NR_PARTS];
    for run in found.runs {
        for page in run.first_page..run.first_page + run.nr_pages {
            idle[page as usize / NR_PART_PAGES] += 1;
        }
    }
    idle
}

fn by_generations(rules: &str, turn: Turn) -> [usize; NR_PARTS] {
    let rules: Rules = rules.parse().expect("rules");
    let config = Config {
        rules,
        ..Config::default()
    };
    given_by(MultiGen::new(config).expect("a valid config"), turn)
}

/// All of one part.
fn whole(part: usize) -> [usize; NR_PARTS] {
    let mut pages = [0; NR_PARTS];
    pages[part] = NR_PART_PAGES;
    pages
}

#[test]
fn the_ledger_has_the_part_as_idle_that_was_used_longest_ago() {
    let window = Duration::from_secs(3);
    assert_eq!(idle_by_the_ledger(Turn::Phased, window), whole(0));
    assert_eq!(idle_by_the_ledger(Turn::Receding, window), whole(3));
}

#[test]
fn generations_give_the_part_that_has_just_come_into_use_as_one_observation_does_not_promote() {
    for rules in ["v6.14", "v7.2", "v6.14,nr_gens=16"] {
        assert_eq!(by_generations(rules, Turn::Phased), whole(3), "{rules}");
    }
    // Where any observation promotes, four generations can't tell the rest apart: what is older than
    // they reach is merged, the youngest of it to the old end. With sixteen they can.
    let merged = by_generations("v6.14,promotion=v6.1", Turn::Phased);
    assert_eq!(merged, whole(1));
    for turn in [Turn::Phased, Turn::Receding] {
        let idle = idle_by_the_ledger(turn, Duration::from_secs(3));
        for rules in ["v6.14,promotion=v6.1,nr_gens=16", "v6.1,nr_gens=16"] {
            assert_eq!(by_generations(rules, turn), idle, "{turn:?}, {rules}");
        }
    }
}

#[test]
fn the_two_lists_give_what_came_first_of_what_is_not_in_use() {
    let given = |turn| given_by(TwoList::new(Config::default()).unwrap(), turn);
    assert_eq!(given(Turn::Phased), whole(0));
    // Right in the one and wrong in the other: the order is that in which memory came.
    assert_eq!(given(Turn::Receding), whole(0));
}
