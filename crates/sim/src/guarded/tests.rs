//! A played guard against a dumb model, and what it does to programs of a kind.

use super::*;
use crate::NoProgress;
use proptest::prelude::*;
use std::collections::BTreeMap;
use strata_trace::{Access, Backing, PageKey};

const SECOND: u64 = 1_000_000;

fn access(time_us: u64, page: u64) -> Access {
    Access {
        key: PageKey { space: 0, page },
        time_us,
        via: Via::PageTable,
        backing: Backing::Anon,
        ..Access::default()
    }
}

fn setup() -> GuardSetup {
    let promise = Promise {
        share_per_min: 0.002,
        min_age: Duration::from_secs(60),
        stall_share: STALL_SHARE,
    };
    GuardSetup {
        promise,
        walk_interval: promise.walk_interval(),
    }
}

fn play(accesses: impl IntoIterator<Item = Access>) -> Guarded {
    let workload = Workload::from_accesses("w", accesses).unwrap();
    guarded(
        &workload,
        &setup(),
        None,
        &CostModel::default(),
        &NoProgress,
    )
    .unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    /// Pages from a number on.
    Access(u32, u32),
    Free(u32),
    /// Seconds later.
    Walk(u64),
}

const NR_PAGES: u32 = 2000;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let access = (0..NR_PAGES, 1..600u32).prop_map(|(first, nr)| Step::Access(first, nr));
    let free = (0..NR_PAGES).prop_map(Step::Free);
    let walk = (1..30u64).prop_map(Step::Walk);
    prop::collection::vec(prop_oneof![2 => access, 1 => free, 4 => walk], 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_away_was_idle_and_with_what_is_in_memory_it_is_all_that_was_touched(steps in steps()) {
        // Two groups and both kinds; page numbers in the order of first access are the keys.
        let pages = (0..NR_PAGES).map(|page| Access {
            group: (page % 2) as u16,
            backing: if page % 3 == 0 { Backing::File } else { Backing::Anon },
            ..access(0, page.into())
        });
        let workload = Workload::from_accesses("w", pages).unwrap();
        let mut play = Play::new(&workload, setup().promise, steps.len() as u64);
        // When the walk was that found the last access; `None` until there is one.
        let mut touched: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        let (mut at_s, mut nr_faults, mut is_first) = (0, 0, true);
        for step in steps {
            match step {
                Step::Access(first, nr) => {
                    for page in first..(first + nr).min(NR_PAGES) {
                        let is_away = touched.contains_key(&page) && !play.memory.is_resident(PageId(page));
                        nr_faults += u64::from(is_away);
                        touched.insert(page, None);
                        play.access(PageId(page));
                    }
                }
                Step::Free(page) => {
                    touched.remove(&page);
                    play.memory.free(PageId(page));
                }
                Step::Walk(seconds) => {
                    at_s += seconds;
                    let resident = |play: &Play, page: &u32| play.memory.is_resident(PageId(*page));
                    let before: Vec<u32> =
                        touched.keys().copied().filter(|page| resident(&play, page)).collect();
                    touched.values_mut().for_each(|last| *last = Some(last.unwrap_or(at_s)));
                    play.walk(at_s * SECOND);
                    for page in before.iter().filter(|page| !resident(&play, page)) {
                        let standing = play.holders[*page as usize % 2].standing();
                        prop_assert_eq!(standing, Standing::Kept, "taken during a rest");
                        let idle_s = at_s - touched[page].unwrap_or(at_s);
                        prop_assert!(idle_s >= 60, "taken {} s after its last access", idle_s);
                        prop_assert!(!is_first);
                    }
                    is_first = false;
                    let mut nr_known = 0;
                    for group in 0..2 {
                        let away = play.ledger.nr_taken(GroupId(group)).total();
                        nr_known += play.memory.nr_resident(usize::from(group)) + away;
                    }
                    prop_assert_eq!(nr_known, touched.len() as u64);
                    play.ledger.validate().unwrap();
                }
            }
        }
        let told = play.sums.into_iter().map(|sums| sums.told(0, &CostModel::default()));
        let told: u64 = told
            .map(|group| group.faults[0] + group.faults[1] + group.faults_read_back)
            .sum();
        prop_assert_eq!(told, nr_faults);
    }
}

#[test]
fn a_program_that_went_idle_is_given_back_wholly_and_nothing_comes_back() {
    let filled = (0..20_000).map(|page| access(0, page));
    let alive = (1..1800).map(|second| access(second * SECOND, 0));
    let played = play(filled.chain(alive));
    let group = &played.groups[0];
    assert_eq!(group.at_end.resident_bytes, 4096, "{group:?}");
    assert_eq!(group.at_end.away_bytes, 19_999 * 4096);
    assert_eq!((group.came_back_bytes, group.faults[0]), (0, 0));
    assert_eq!(group.at_end.age_anon_ms, 60_000);
}

#[test]
fn code_stays_for_twice_the_age_of_other_files() {
    let of = |backing, first: u64| {
        (first..first + 1000).map(move |page| Access {
            backing,
            ..access(0, page)
        })
    };
    // Code and the rest in turn, so that they share page tables.
    let both = || {
        let (code, file) = (of(Backing::Code, 0), of(Backing::File, 1000));
        code.zip(file).flat_map(|(code, file)| [code, file])
    };
    for (end, nr_left_pages) in [(100, 1001), (300, 1)] {
        let alive = (1..end).map(|second| access(second * SECOND, 5000));
        let played = play(both().chain(alive));
        let group = &played.groups[0];
        assert_eq!(group.at_end.resident_bytes, nr_left_pages * 4096, "{end} s");
    }
}

#[test]
fn a_program_that_comes_round_just_after_the_least_age_is_left_alone_once_that_is_seen() {
    let rounds =
        (0..96).flat_map(|round| (0..20_000).map(move |page| access(round * 75 * SECOND, page)));
    let played = play(rounds);
    let group = &played.groups[0];
    let ages = group.over_time.iter().map(|moment| moment.age_anon_ms);
    assert!(ages.max() > Some(75_000), "{group:?}");
    assert!(group.resting_ms > 0);
    assert!(
        group.resident_mean_bytes * 100 > group.footprint_mean_bytes * 95,
        "{group:?}"
    );
    // A round would bring back everything; in two hours there are a few tries.
    assert!(
        group.came_back_bytes < group.footprint_mean_bytes,
        "{group:?}"
    );
}

#[test]
fn what_was_freed_is_neither_in_memory_nor_away() {
    let mut builder = crate::WorkloadBuilder::new("w");
    (0..5000).for_each(|page| builder.push(access(0, page)).unwrap());
    for page in 1000..5000 {
        builder.free(strata_trace::Freed {
            what: strata_trace::FreedPages::Page(PageKey { space: 0, page }),
            time_us: 600 * SECOND,
        });
    }
    (0..5).for_each(|page| builder.push(access(600 * SECOND + 5, page)).unwrap());
    let workload = builder.finish();
    let recorded = Recorded {
        end_us: 700 * SECOND,
        step_us: SECOND,
        busy_us: SECOND,
    };
    let cost = CostModel::default();
    let played = guarded(&workload, &setup(), Some(recorded), &cost, &NoProgress).unwrap();
    let end = played.groups[0].at_end;
    assert_eq!(end.resident_bytes + end.away_bytes, 1000 * 4096);
    assert_eq!(played.slowdown.unwrap().millionths(), 5 * 5);
}

#[test]
fn the_same_trace_gives_the_same_bytes_and_what_is_not_mapped_is_refused() {
    let accesses = || (0..60_000).map(|at| access(at * 20_000, at * 7 % 3000 / (1 + at / 20_000)));
    assert_eq!(
        play(accesses()).json().unwrap(),
        play(accesses()).json().unwrap()
    );
    let unmapped = Workload::from_accesses("w", [Access::default()]).unwrap();
    let refused = guarded(
        &unmapped,
        &setup(),
        None,
        &CostModel::default(),
        &NoProgress,
    );
    assert!(matches!(refused, Err(GuardError::NothingMapped { .. })));
}
