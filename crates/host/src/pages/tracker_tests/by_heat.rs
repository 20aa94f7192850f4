//! What is chosen by heat: the warm pages that are kept, and the cold ones that are not tried after all.

use super::*;
use strata_lru::Heat;

/// One walk of table 0 with these pages in memory and accessed; the kernel has `inactive` on its
/// inactive lists.
fn look(
    tracker: &mut Tracker,
    mappings: &[Mapping],
    present: Bits512,
    accessed: Bits512,
    inactive: Bits512,
) {
    let space = *tracker.spaces().keys().next().expect("a space");
    let mut walk = tracker.walk_space(space, mappings).expect("it is there");
    walk.record(&TableRecord {
        inactive,
        ..record(0, TableShape::Pages, present, accessed)
    });
    walk.finish();
    let finished = tracker.finish_walk(Swappiness::DEFAULT, TimeMs(1));
    finished.expect("the group is there");
}

fn warm_addresses(tracker: &mut Tracker, percent: u32) -> Vec<u64> {
    let warm = tracker.take_warm(percent, TimeMs(1)).into_iter();
    warm.flat_map(|(_, pages)| pages).collect()
}

/// Many such walks, after each of which the warm half is chosen; returns the last choice.
fn look_often(
    nr_walks: u32,
    tracker: &mut Tracker,
    mappings: &[Mapping],
    pages: [Bits512; 3],
) -> Vec<u64> {
    let [present, accessed, inactive] = pages;
    let mut warm = Vec::new();
    for _ in 0..nr_walks {
        look(tracker, mappings, present, accessed, inactive);
        warm = warm_addresses(tracker, 50);
    }
    warm
}

#[test]
fn what_is_warm_and_inactive_is_named_and_nothing_else() {
    let (mut tracker, _) = new_tracker();
    let (all, used) = (bits::run(0, 100), bits::run(0, 40));
    let addr = |page: u64| page * PAGE_BYTES;
    let warm = look_often(
        10,
        &mut tracker,
        &mappings(),
        [all, used, bits::run(10, 100)],
    );
    assert_eq!(warm, (10..40).map(addr).collect::<Vec<u64>>());
    // All of those are equally hot, and they are more than a third.
    assert_eq!(warm_addresses(&mut tracker, 33), [0; 0]);
    // What is gone, and what has cooled down, is not named any more.
    let left = bits::run(20, 100);
    let warm = look_often(
        300,
        &mut tracker,
        &mappings(),
        [left, bits::run(30, 40), left],
    );
    assert_eq!(warm, (30..40).map(addr).collect::<Vec<u64>>());
}

/// With another set of hot pages every two seconds a program had 4 % more faults than without touches: what
/// had been hot kept the room of what was.
#[test]
fn where_other_pages_have_become_hot_none_are_named_until_heat_has_followed() {
    let (mut tracker, _) = new_tracker();
    let all = bits::run(0, 100);
    assert_eq!(
        look_often(1, &mut tracker, &mappings(), [all, bits::run(0, 40), all]),
        [0; 0]
    );
    let before = look_often(20, &mut tracker, &mappings(), [all, bits::run(0, 40), all]);
    assert_eq!(before.len(), 40);
    let used = bits::run(60, 100);
    let mut nr_named = Vec::new();
    for _ in 0..20 {
        let warm = look_often(1, &mut tracker, &mappings(), [all, used, all]);
        assert!(warm.is_empty() || warm[0] == 60 * PAGE_BYTES, "{warm:?}");
        nr_named.push(warm.len());
    }
    assert!(nr_named[..8].iter().all(|nr| *nr == 0), "{nr_named:?}");
    assert_eq!(nr_named.last(), Some(&40));
}

/// A program that waits for a moment uses nothing; its pages were left to the kernel just then.
#[test]
fn a_walk_in_which_nothing_was_used_changes_no_verdict() {
    let (mut tracker, _) = new_tracker();
    let (all, used) = (bits::run(0, 100), bits::run(0, 40));
    let mut walk =
        |nr_walks, used| look_often(nr_walks, &mut tracker, &mappings(), [all, used, all]);
    assert_eq!(walk(10, used).len(), 40);
    assert_eq!(walk(1, bits::NONE).len(), 40);
    assert_eq!(walk(1, bits::run(50, 100)), [0; 0]);
    assert_eq!(walk(1, bits::NONE), [0; 0]);
    // What was warm a minute ago is no forecast.
    assert_eq!(walk(1, used).len(), 40);
    tracker.forget_warm();
    assert_eq!(
        look_often(1, &mut tracker, &mappings(), [all, used, all]),
        [0; 0]
    );
}

/// Of two programs that do the same the one that waited for its pages looked colder, lost more of them and
/// waited the more.
#[test]
fn a_program_that_others_have_slowed_down_keeps_its_share() {
    let (mut tracker, fast) = new_tracker();
    let process = Arc::clone(&tracker.spaces()[&fast].process);
    let slow = tracker.add_space(process).expect("a number is free");
    let all = bits::run(0, 100);
    let mut walk = |number: SpaceNo, used: Bits512| {
        let mappings = mappings();
        let mut walk = tracker.walk_space(number, &mappings).expect("it is there");
        walk.record(&TableRecord {
            inactive: all,
            ..record(0, TableShape::Pages, all, used)
        });
        walk.finish();
    };
    // Both use pages ever less up to the 100th; one comes by half as often.
    for round in 0..60 {
        let used = |every: usize| {
            let mut used = bits::NONE;
            let pages = (0..100).filter(|page| round % ((page / 10 + 1) * every) == 0);
            pages.for_each(|page| bits::insert(&mut used, page));
            used
        };
        walk(fast, used(1));
        walk(slow, used(2));
    }
    let finished = tracker.finish_walk(Swappiness::DEFAULT, TimeMs(1));
    finished.expect("the group is there");
    tracker.rank(80, Swappiness::DEFAULT);
    let requests = tracker.isolate_cold(80, Swappiness::DEFAULT, TimeMs(2));
    let nr_pages = |number: SpaceNo| {
        let own = requests.iter().filter(|request| request.space == number.0);
        own.map(|request| request.pages.len()).sum::<usize>()
    };
    assert!(nr_pages(fast) >= 30, "{} of 80", nr_pages(fast));
    assert!(nr_pages(slow) >= 30, "{} of 80", nr_pages(slow));
}

/// Whoever touches a page that its program supplies itself, and that went meanwhile, waits for the program.
#[test]
fn pages_that_a_program_supplies_are_never_touched() {
    let (mut tracker, _) = new_tracker();
    let mut mappings = mappings();
    mappings[0].is_supplied = true;
    let (all, used) = (bits::run(0, 100), bits::run(0, 40));
    assert_eq!(
        look_often(10, &mut tracker, &mappings, [all, used, all]),
        [0; 0]
    );
    mappings[0].is_supplied = false;
    assert_eq!(
        look_often(1, &mut tracker, &mappings, [all, used, all]).len(),
        40
    );
}

/// A touch of a page that went while its program slept would bring it back.
#[test]
fn where_the_pages_of_a_sleeping_program_lie_is_not_known() {
    let (mut tracker, space) = new_tracker();
    let all = bits::run(0, 100);
    let warm = look_often(10, &mut tracker, &mappings(), [all, bits::run(0, 40), all]);
    assert_eq!(warm.len(), 40);
    tracker.leave_out(space);
    assert_eq!(warm_addresses(&mut tracker, 50), [0; 0]);
}

#[test]
fn how_well_the_last_walk_foretold_is_counted_over_pages_that_stayed() {
    let (mut tracker, _) = new_tracker();
    for _ in 0..10 {
        look(
            &mut tracker,
            &mappings(),
            bits::run(0, 100),
            bits::run(0, 40),
            bits::NONE,
        );
    }
    warm_addresses(&mut tracker, 50);
    // 20 of the warm ones are gone, 30 are new; 5 warm and 3 others were used, and all of the new.
    let used = bits::or(bits::run(35, 43), bits::run(100, 130));
    look(
        &mut tracker,
        &mappings(),
        bits::run(20, 130),
        used,
        bits::NONE,
    );
    let foretold = tracker.foretold();
    assert_eq!(
        (foretold.nr_warm_pages, foretold.nr_warm_used_pages),
        (20, 5)
    );
    assert_eq!(
        (foretold.nr_other_pages, foretold.nr_other_used_pages),
        (60, 3)
    );
}

/// The look before each batch reads whole tables; what it found in use was once tried all the same.
#[test]
fn what_a_batch_showed_to_be_in_use_is_not_tried_after_it() {
    let (mut tracker, space) = new_tracker();
    let all = bits::run(0, 300);
    look(&mut tracker, &mappings(), all, all, bits::NONE);
    look(&mut tracker, &mappings(), all, bits::NONE, bits::NONE);
    tracker.rank(300, Swappiness::DEFAULT);
    let first = tracker.isolate_cold(100, Swappiness::DEFAULT, TimeMs(2));
    let results = first[0]
        .pages
        .iter()
        .map(|page| (page.token, Verdict::Evicted));
    tracker.settle(&PageoutReport {
        space: space.0,
        results: results.collect(),
        accessed: vec![(TableNo(0), bits::run(120, 250))],
        ..PageoutReport::default()
    });
    let second = tracker.isolate_cold(300, Swappiness::DEFAULT, TimeMs(3));
    let pages = second[0].pages.iter().map(|page| page.addr / PAGE_BYTES);
    let expected: Vec<u64> = (100..120).chain(250..300).collect();
    assert_eq!(
        pages
            .collect::<BTreeSet<u64>>()
            .into_iter()
            .collect::<Vec<u64>>(),
        expected
    );
    assert_eq!(tracker.nr_ranked(), 0);
}

/// What is remembered is measured by what comes back, not by how often anyone looked.
#[test]
fn a_walk_counts_half_when_less_than_a_quarter_was_new_to_the_one_before() {
    let hottest = |nr_new_pages: usize| {
        let (mut tracker, _) = new_tracker();
        let before = bits::run(nr_new_pages, 100);
        look(&mut tracker, &mappings(), before, bits::NONE, bits::NONE);
        let all = bits::run(0, 100);
        look(&mut tracker, &mappings(), all, bits::NONE, bits::NONE);
        look(
            &mut tracker,
            &mappings(),
            all,
            bits::run(99, 100),
            bits::NONE,
        );
        tracker.hottest()
    };
    assert_eq!(hottest(25), Heat::NONE.after_walk(true));
    assert_eq!(hottest(24), Heat::NONE.after_short_walk(true));
    assert!(hottest(24) < hottest(25));
}

#[test]
fn of_the_active_pages_the_coldest_are_named_by_address() {
    let (mut tracker, _) = new_tracker();
    // 0 to 79 are active; of those 20 to 39 are used at every walk, 40 to 59 at every second one.
    let (all, inactive) = (bits::run(0, 100), bits::run(80, 100));
    for walk in 0..12 {
        let used = match walk % 2 {
            0 => bits::run(20, 60),
            _ => bits::run(20, 40),
        };
        look(&mut tracker, &mappings(), all, used, inactive);
        tracker.take_warm(50, TimeMs(1));
    }
    let addr = |page: u64| page * PAGE_BYTES;
    let named = |nr_pages| {
        let cold = tracker.coldest_active(nr_pages, Swappiness::DEFAULT);
        let ranges = cold.into_iter().flat_map(|(_, ranges)| ranges);
        ranges.collect::<Vec<AddrRange>>()
    };
    let never_used = [
        AddrRange::new(addr(0), addr(20)),
        AddrRange::new(addr(60), addr(80)),
    ];
    assert_eq!(named(40), never_used);
    let seldom_used = [
        AddrRange::new(addr(0), addr(20)),
        AddrRange::new(addr(40), addr(80)),
    ];
    assert_eq!(named(60), seldom_used);
    assert_eq!(named(0), []);
    // Another phase: what was cold is used.
    look(&mut tracker, &mappings(), all, bits::run(60, 80), inactive);
    tracker.take_warm(50, TimeMs(1));
    assert!(tracker.coldest_active(40, Swappiness::DEFAULT).is_empty());
}

/// Two programs that use a hundred pages each, the first ten at every walk and the last ten at every tenth. After so
/// many walks, of which each finds those of the second in memory that are below `nr_kept` or were just used.
fn alike(nr_walks: u64, nr_kept: usize) -> (Tracker, [Arc<Process>; 2]) {
    let (mut tracker, first) = new_tracker();
    let process = Arc::clone(&tracker.spaces()[&first].process);
    let other = Arc::new(Process::open(std::process::id() as i32).expect("we are alive"));
    let second = tracker
        .add_space(Arc::clone(&other))
        .expect("a number is free");
    for round in 1..=nr_walks {
        let mut used = bits::NONE;
        let pages = (0..100).filter(|page| round % (page / 10 + 1) == 0);
        pages.for_each(|page| bits::insert(&mut used, page as usize));
        let kept = bits::or(bits::run(0, nr_kept), used);
        for (space, present) in [(first, bits::run(0, 100)), (second, kept)] {
            let mappings = mappings();
            let mut walk = tracker.walk_space(space, &mappings).expect("it is there");
            walk.record(&record(0, TableShape::Pages, present, used));
            walk.finish();
        }
        let finished = tracker.finish_walk(Swappiness::DEFAULT, TimeMs(round));
        finished.expect("the group is there");
        tracker.take_warm(60, TimeMs(1));
    }
    (tracker, [process, other])
}

fn nr_named_pages(tracker: &Tracker, nr_pages: u64, process: &Arc<Process>) -> u64 {
    let cold = tracker.coldest_active(nr_pages, Swappiness::DEFAULT);
    let own = cold.iter().filter(|(of, _)| Arc::ptr_eq(of, process));
    own.flat_map(|(_, ranges)| ranges)
        .map(|range| range.nr_pages())
        .sum()
}

/// Of two Zipf loads that filled both processors one ended with all it used and 3,500 thousand operations a second,
/// the other with 440: each was measured by what it still had in memory, so who had little kept little.
#[test]
fn of_two_programs_alike_the_one_with_more_in_memory_gives_first() {
    let (tracker, [has_all, has_little]) = alike(121, 40);
    assert_eq!(nr_named_pages(&tracker, 50, &has_all), 50);
    assert_eq!(nr_named_pages(&tracker, 50, &has_little), 0);
    // Both have all there is: each gives half.
    let (tracker, [one, other]) = alike(121, 100);
    let nr_named = [&one, &other].map(|of| nr_named_pages(&tracker, 80, of));
    assert_eq!(nr_named, [40, 40]);
}

/// A program with other hot pages than before kept all it had on the active list, and the one beside it paid for both.
#[test]
fn nobody_gives_active_pages_while_one_of_them_does_not_show_which_are_cold() {
    let (mut tracker, [steady, changed]) = alike(121, 100);
    assert!(nr_named_pages(&tracker, 20, &changed) > 0);
    let spaces: Vec<SpaceNo> = tracker.spaces().keys().copied().collect();
    let walk = |tracker: &mut Tracker, space, present, used| {
        let mappings = mappings();
        let mut walk = tracker.walk_space(space, &mappings).expect("it is there");
        walk.record(&record(0, TableShape::Pages, present, used));
        walk.finish();
    };
    let (all, before) = (bits::run(0, 100), bits::run(0, 20));
    walk(&mut tracker, spaces[0], all, before);
    walk(&mut tracker, spaces[1], all, bits::run(70, 100));
    tracker.take_warm(60, TimeMs(1));
    assert_eq!(nr_named_pages(&tracker, 20, &steady), 0);
    assert_eq!(nr_named_pages(&tracker, 20, &changed), 0);
    // It has next to nothing any more.
    walk(&mut tracker, spaces[0], all, before);
    walk(
        &mut tracker,
        spaces[1],
        bits::run(70, 75),
        bits::run(70, 75),
    );
    tracker.take_warm(60, TimeMs(1));
    assert_eq!(nr_named_pages(&tracker, 20, &steady), 20);
}

/// After a pause nothing had been taken for warm, and that the others were not all used was taken for a forecast.
#[test]
fn what_was_forgotten_names_nothing_until_another_walk_has_foretold_something() {
    let (mut tracker, _) = new_tracker();
    let (all, used) = (bits::run(0, 100), bits::run(0, 40));
    look_often(20, &mut tracker, &mappings(), [all, used, bits::NONE]);
    let nr_named = |tracker: &Tracker| tracker.coldest_active(20, Swappiness::DEFAULT).len();
    assert_eq!(nr_named(&tracker), 1);
    tracker.forget_warm();
    look_often(1, &mut tracker, &mappings(), [all, used, bits::NONE]);
    assert_eq!(nr_named(&tracker), 0);
    look_often(1, &mut tracker, &mappings(), [all, used, bits::NONE]);
    assert_eq!(nr_named(&tracker), 1);
}

/// The two lists keep no ages and know no heat: all but the first 40 % of their order are kept, and what goes then is counted.
#[test]
fn without_heat_the_policys_order_says_what_is_kept() {
    let spec: strata_lru::EngineSpec = "two-list".parse().unwrap();
    let policy = spec.policy().told().unwrap();
    let mut tracker = Tracker::new(policy, "/", TimeMs(0)).unwrap();
    let own = Process::open(std::process::id() as i32).unwrap();
    let space = tracker.add_space(Arc::new(own)).unwrap();
    assert!(!tracker.has_heat() && !tracker.has_generations());
    let (all, hot) = (bits::run(0, 100), bits::run(0, 60));
    let mut kept = Vec::new();
    // What is used is spared once, so the others come first in the order.
    for _ in 0..4 {
        look(&mut tracker, &mappings(), all, hot, all);
        kept = warm_addresses(&mut tracker, 60);
        tracker.hinted(TimeMs(1));
    }
    let addr = |page: u64| page * PAGE_BYTES;
    assert_eq!(kept, (0..60).map(addr).collect::<Vec<u64>>());
    tracker.rank(50, Swappiness::DEFAULT);
    assert_eq!(tracker.nr_ranked(), 0, "nothing is ever ranked");
    tracker.take_warm(60, TimeMs(1));
    tracker.hinted(TimeMs(1));
    let left = bits::without(all, bits::run(50, 100));
    let swapped = bits::run(50, 100);
    let table = mappings();
    let mut walk = tracker.walk_space(space, &table).unwrap();
    walk.record(&TableRecord {
        swapped,
        ..record(0, TableShape::Pages, left, bits::NONE)
    });
    walk.finish();
    tracker.finish_look();
    let counts = tracker.hint_counts()[0];
    let gone = (counts.nr_gone_pages, counts.nr_gone_offered_pages);
    assert_eq!(gone, (50, 40), "60 to 99 were offered");
    tracker.validate().unwrap();
}
