//! The tracker against a dumb model: what is tracked is what was last seen present.

mod choices;

use crate::observe::{Piece, Visitor};
use crate::pages::places::SpaceSlot;
use crate::pages::tracker::Tracker;
use crate::test_mapping::mapping;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use strata_control::split_huge::{self, SplitHuge, Worth};
use strata_linux::access::{TableRecord, TableShape};
use strata_linux::actuator::{PageoutReport, PageoutRequest};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TableNo};
use strata_linux::process::{Mapping, MappingClass, Process, Unreclaimable};
use strata_lru::bits::{self, Bits};
use strata_lru::{Config, Isolated, MultiGen, SpaceNo, Swappiness, TimeMs, Verdict};

/// Tables 0 and 1 are anon up to the middle of table 1; then a locked stretch, then a file to the
/// end of table 2.
fn mappings() -> Vec<Mapping> {
    vec![
        mapping(0, 512 + 256, MappingClass::Anon),
        Mapping {
            unreclaimable: Some(Unreclaimable::Locked),
            ..mapping(512 + 256, 512 + 272, MappingClass::Anon)
        },
        mapping(512 + 272, 3 * 512, MappingClass::FileShared),
    ]
}

fn is_reclaimable(addr: u64) -> bool {
    mappings()
        .iter()
        .any(|m| m.unreclaimable.is_none() && m.range.contains(addr))
}

fn record(table: u64, shape: TableShape, present: Bits, accessed: Bits) -> TableRecord {
    TableRecord {
        present,
        accessed: bits::and(accessed, present),
        swapped: bits::without(bits::run(0, 512), present),
        ..TableRecord::empty(TableNo(table), shape)
    }
}

fn new_tracker() -> (Tracker, SpaceSlot) {
    let policy = MultiGen::new(Config::default()).expect("the default configuration is valid");
    let mut tracker = Tracker::new(Box::new(policy), "/test", TimeMs(0)).expect("one group");
    let process = Arc::new(Process::open(std::process::id() as i32).expect("we are alive"));
    let space = appear(&mut tracker, &process);
    (tracker, space)
}

/// As long as no number is used twice, walks and the tracker give a space the same one.
fn as_walked(space: SpaceSlot) -> SpaceNo {
    SpaceNo(space.0)
}

fn appear(tracker: &mut Tracker, process: &Arc<Process>) -> SpaceSlot {
    let space = SpaceSlot(tracker.nr_seen_spaces as u32);
    tracker.appeared(as_walked(space), process);
    space
}

/// Tells that each run of a request fared like this; neighbours that fared alike are one.
fn settle(
    tracker: &mut Tracker,
    request: &PageoutRequest,
    accessed: Vec<(TableNo, Bits)>,
    verdict: impl Fn(usize) -> Verdict,
) {
    let mut runs: Vec<(AddrRange, Verdict)> = Vec::new();
    for (position, run) in request.runs.iter().enumerate() {
        match runs.last_mut() {
            Some((last, of)) if *of == verdict(position) && last.end == run.start => {
                last.end = run.end;
            }
            _ => runs.push((*run, verdict(position))),
        }
    }
    tracker.settle(&PageoutReport {
        space: request.space,
        runs,
        accessed,
        ..PageoutReport::default()
    });
}

/// A walk of a space that finds these tables.
fn walk_space<'a>(
    tracker: &mut Tracker,
    space: SpaceSlot,
    mappings: &[Mapping],
    tables: impl IntoIterator<Item = &'a TableRecord>,
) {
    let process = Arc::clone(&tracker.spaces()[&space].process);
    let space = as_walked(space);
    tracker.begin(space, &process, &Arc::new(mappings.to_vec()));
    for record in tables {
        tracker.piece(&Piece {
            space,
            mapping: &mappings[0],
            mapping_index: 0,
            record,
            mask: bits::run(0, 512),
            unseen: bits::NONE,
        });
    }
    tracker.end(space, true);
}

#[derive(Clone, Debug)]
enum Op {
    Walk(Vec<(u64, bool, Bits, Bits)>),
    Isolate(u64),
    Settle(Vec<u8>),
    Split,
}

fn bits512() -> impl Strategy<Value = Bits> {
    prop_oneof![
        Just(bits::NONE),
        Just(bits::run(0, 512)),
        prop::array::uniform8(any::<u64>()),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let table = (0..3u64, prop::bool::weighted(0.1), bits512(), bits512());
    prop_oneof![
        3 => prop::collection::vec(table, 0..4).prop_map(Op::Walk),
        2 => (1..300u64).prop_map(Op::Isolate),
        2 => prop::collection::vec(0..6u8, 1..20).prop_map(Op::Settle),
        1 => Just(Op::Split),
    ]
}

/// What a walk of the tables shows, by address; a huge table is one page at its start.
fn seen(tables: &BTreeMap<u64, TableRecord>) -> BTreeSet<u64> {
    let mut pages = BTreeSet::new();
    for record in tables.values() {
        match record.shape {
            TableShape::Huge => {
                let start = record.table.start();
                if bits::has(&record.present, 0) && is_reclaimable(start) {
                    pages.insert(start);
                }
            }
            TableShape::Pages => pages.extend(
                bits::ones(record.present)
                    .map(|index| record.table.entry_addr(index))
                    .filter(|&addr| is_reclaimable(addr)),
            ),
        }
    }
    pages
}

const VERDICTS: [Verdict; 6] = [
    Verdict::Evicted,
    Verdict::Referenced,
    Verdict::Busy,
    Verdict::Shared,
    Verdict::Gone,
    Verdict::NotTried,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_walk_leaves_tracked_what_it_saw_present(ops in prop::collection::vec(op(), 1..30)) {
        let (mut tracker, space) = new_tracker();
        let mappings = mappings();
        let mut now = 0;
        let mut out: Vec<PageoutRequest> = Vec::new();
        for op in ops {
            now += 10;
            match op {
                Op::Walk(tables) => {
                    let mut shown = BTreeMap::new();
                    for (table, is_huge, present, accessed) in tables {
                        // A huge page lies within one mapping, so only table 0 can hold one.
                        let is_huge = is_huge && table == 0;
                        let full = bits::run(0, 512);
                        let (shape, present) =
                            if is_huge { (TableShape::Huge, full) } else { (TableShape::Pages, present) };
                        shown.insert(table, record(table, shape, present, accessed));
                    }
                    walk_space(&mut tracker, space, &mappings, shown.values());
                    tracker.finish_walk(Swappiness::DEFAULT, TimeMs(now)).expect("the group is there");
                    if out.is_empty() {
                        let tracked: BTreeSet<u64> =
                            tracker.spaces()[&space].tracked().map(|(addr, _)| addr).collect();
                        prop_assert_eq!(tracked, seen(&shown));
                    }
                }
                Op::Isolate(nr_pages) if out.is_empty() => {
                    let (answer, requests) = tracker
                        .isolate(nr_pages, Swappiness::DEFAULT, 12, TimeMs(now))
                        .expect("the group is there");
                    prop_assert_eq!(requests.len(), usize::from(matches!(answer, Isolated::Pages(_))));
                    out = requests;
                }
                Op::Settle(choices) if !out.is_empty() => {
                    for request in out.drain(..) {
                        settle(&mut tracker, &request, Vec::new(), |i| VERDICTS[usize::from(choices[i % choices.len()])]);
                    }
                }
                Op::Split => {
                    tracker.forget_splits();
                    tracker.choose_splits(&mut SplitHuge::new(split_huge::Config::DEFAULT, Worth::UNDER_BUDGET), true, TimeMs(now));
                    let requests = tracker.send_splits();
                    prop_assert!(out.is_empty() || requests.is_empty());
                    for request in requests {
                        prop_assert!(request.runs.is_empty() && tracker.is_batch_out());
                        prop_assert_eq!(request.splits, [TableNo(0)]);
                        tracker.settle(&PageoutReport { space: space.0, ..PageoutReport::default() });
                        prop_assert!(!tracker.is_batch_out());
                    }
                }
                Op::Isolate(_) | Op::Settle(_) => {}
            }
            tracker.validate().map_err(TestCaseError::fail)?;
        }
    }
}

/// A walk that finds one table of small pages.
fn walk_table(tracker: &mut Tracker, space: SpaceSlot, present: Bits, accessed: Bits, now_ms: u64) {
    let found = record(0, TableShape::Pages, present, accessed);
    walk_space(tracker, space, &mappings(), [&found]);
    tracker
        .finish_walk(Swappiness::DEFAULT, TimeMs(now_ms))
        .expect("the group is there");
}

#[test]
fn the_full_text_tells_what_the_last_walk_read() {
    let (mut tracker, space) = new_tracker();
    let mut walk = |accessed, now| {
        let all = bits::run(0, 512);
        let found = [
            record(0, TableShape::Pages, all, accessed),
            // 16 entries of it are locked.
            record(1, TableShape::Pages, bits::run(0, 8), bits::NONE),
            record(2, TableShape::Huge, all, all),
        ];
        walk_space(&mut tracker, space, &mappings(), &found);
        let now = TimeMs(now);
        let finished = tracker.finish_walk(Swappiness::DEFAULT, now);
        finished.expect("the group is there");
        let text = tracker.full_text(now).expect("the group is there");
        text.lines().last().unwrap_or_default().trim().to_owned()
    };
    let hot = bits::run(0, 64);
    assert_eq!(walk(hot, 1), "1009T         65Y          0F          1A");
    assert_eq!(
        walk(bits::run(0, 9), 2),
        "1009T         10Y          1F          0A"
    );
    assert_eq!(walk(hot, 3), "1009T         65Y          0F          1A");
}

#[test]
fn an_evicted_page_that_returns_is_a_refault() {
    let (mut tracker, space) = new_tracker();
    let walk = |tracker: &mut Tracker, present, accessed, now| {
        walk_table(tracker, space, present, accessed, now);
    };
    for round in 0..3 {
        walk(
            &mut tracker,
            bits::run(0, 100),
            bits::run(0, 50),
            round * 10,
        );
    }
    let (answer, requests) = tracker
        .isolate(64, Swappiness::DEFAULT, 12, TimeMs(40))
        .expect("the group is there");
    assert!(matches!(answer, Isolated::Pages(n) if n > 0), "{answer:?}");
    let runs = &requests[0].runs;
    let cold = runs.iter().all(|run| run.start >= 50 * PAGE_BYTES);
    assert!(cold, "only pages never accessed again are old");
    let goes = |position: usize| position % 3 != 1;
    settle(
        &mut tracker,
        &requests[0],
        Vec::new(),
        |position| match goes(position) {
            true => Verdict::Evicted,
            false => Verdict::Busy,
        },
    );
    let tracked: BTreeSet<u64> = (tracker.spaces()[&space].tracked())
        .map(|(addr, _)| addr)
        .collect();
    for (position, run) in runs.iter().enumerate() {
        assert_ne!(tracked.contains(&run.start), goes(position), "{run}");
    }
    let evicted = (0..runs.len()).filter(|position| goes(*position)).count() as u64;
    assert_eq!(tracker.nr_shadow_pages(), evicted);
    walk(&mut tracker, bits::run(0, 100), bits::run(0, 100), 50);
    assert_eq!(tracker.findings().nr_refaulted_pages, evicted);
    assert_eq!(tracker.nr_shadow_pages(), 0);
}

/// The kernel's scans clear accessed bits of pages they keep: by the next walk a page in use looked as if
/// it were not. What is read before each batch is seen before that.
#[test]
fn what_was_seen_accessed_before_a_batch_counts_at_the_next_walk() {
    let (mut tracker, space) = new_tracker();
    let all = bits::run(0, 100);
    let used = bits::run(0, 50);
    let mut now = 0;
    let mut walk = |tracker: &mut Tracker, accessed| {
        now += 10;
        walk_table(tracker, space, all, accessed, now);
    };
    let see = |tracker: &mut Tracker, accessed| {
        tracker.settle(&PageoutReport {
            space: space.0,
            accessed: vec![(TableNo(0), accessed), (TableNo(7), all)],
            ..PageoutReport::default()
        });
    };
    walk(&mut tracker, bits::NONE);
    for _ in 0..4 {
        see(&mut tracker, used);
        walk(&mut tracker, bits::NONE);
    }
    let isolated = tracker.isolate(50, Swappiness::DEFAULT, 12, TimeMs(1000));
    let (_, requests) = isolated.expect("the group is there");
    let is_idle = |run: &AddrRange| run.start >= 50 * PAGE_BYTES;
    assert!(requests[0].runs.iter().all(is_idle), "{requests:?}");
    tracker.validate().expect("the engine adds up");
}

#[test]
fn a_space_that_ends_while_its_batch_is_out_is_forgotten_whole() {
    let (mut tracker, space) = new_tracker();
    for round in 0..3 {
        walk_table(&mut tracker, space, bits::run(0, 100), bits::NONE, round);
    }
    let (_, requests) = tracker
        .isolate(32, Swappiness::DEFAULT, 12, TimeMs(9))
        .expect("the group is there");
    tracker.ended(as_walked(space));
    settle(&mut tracker, &requests[0], Vec::new(), |_| Verdict::Busy);
    tracker.validate().expect("nothing is left over");
    assert_eq!(
        tracker
            .stats()
            .expect("the group is there")
            .nr_evicted_pages,
        [0, 0]
    );
}

#[test]
fn a_huge_page_that_is_chosen_twice_is_split_once_and_its_parts_are_looked_at() {
    let (mut tracker, space) = new_tracker();
    let all = bits::run(0, 512);
    let walk = |tracker: &mut Tracker, shape, accessed, now| {
        let found = [
            record(0, shape, all, accessed),
            record(1, TableShape::Pages, bits::run(0, 8), bits::NONE),
        ];
        walk_space(tracker, space, &mappings(), &found);
        let finished = tracker.finish_walk(Swappiness::DEFAULT, TimeMs(now));
        finished.expect("the group is there");
    };
    for now in 0..20 {
        walk(&mut tracker, TableShape::Huge, bits::run(0, 1), now);
    }
    tracker.choose_splits(
        &mut SplitHuge::new(split_huge::Config::DEFAULT, Worth::UNDER_BUDGET),
        true,
        TimeMs(20),
    );
    // A batch was out for longer than from one choice to the next: chosen twice, split once.
    tracker.choose_splits(
        &mut SplitHuge::new(split_huge::Config::DEFAULT, Worth::UNDER_BUDGET),
        true,
        TimeMs(20),
    );
    assert_eq!(tracker.send_splits()[0].splits, [TableNo(0)]);
    assert_eq!(tracker.nr_split_pages, 512);
    tracker.request_done();
    walk(&mut tracker, TableShape::Pages, bits::run(100, 150), 20);
    assert_eq!(tracker.spaces()[&space].nr_used_pages(TableNo(0)), Some(50));
}

/// The allocations that grow with pages are three: the engine, the way there and the way back.
#[test]
fn keeping_track_takes_few_bytes_a_page() {
    const NR_TABLES: u64 = 128;
    let (mut tracker, space) = new_tracker();
    let mut mappings = mappings();
    mappings.truncate(1);
    mappings[0].range = AddrRange::new(0, NR_TABLES * TABLE_BYTES);
    let mut walk = |present| {
        let tables = (0..NR_TABLES).map(|no| record(no, TableShape::Pages, present, present));
        let tables: Vec<TableRecord> = tables.collect();
        walk_space(&mut tracker, space, &mappings, &tables);
        let finished = tracker.finish_walk(Swappiness::DEFAULT, TimeMs(1));
        finished.expect("the group is there");
        tracker.memory_bytes() as f64 / (NR_TABLES * 512) as f64
    };
    let all_present = walk(bits::run(0, 512));
    let half_away = walk([0x5555_5555_5555_5555; 8]);
    println!("{all_present:.2} bytes a page, {half_away:.2} where half are away");
    assert!(all_present <= 30.0, "{all_present}");
    assert!(half_away <= 30.0, "{half_away}");
}
