//! What is asked for when a phase comes back, from tables as walks find them.

use super::*;

/// Three phases: who uses pages of one does not use those of the others.
const PHASES: [(usize, usize); 3] = [(0, 140), (150, 290), (300, 440)];

fn phase(number: usize) -> Bits512 {
    let (first, end) = PHASES[number];
    bits::run(first, end)
}

/// Every second page of a phase: pages that come back in a row tell nothing.
fn half(number: usize) -> Bits512 {
    let pages = bits::ones(phase(number)).filter(|index| index % 2 == 0);
    pages.fold(bits::NONE, |mut half, index| {
        bits::insert(&mut half, index);
        half
    })
}

/// A program that was in each phase for three walks; only the last is still in memory.
fn after_all_phases(is_swap_slow: bool) -> (Tracker, SpaceNo) {
    let (mut tracker, space) = new_tracker();
    tracker.set_swap_slow(is_swap_slow);
    for walk in 0..9 {
        let used = phase(walk / 3);
        walk_table(&mut tracker, space, used, used, 10 * walk as u64);
    }
    (tracker, space)
}

const CONFIG: prefetch::Config = prefetch::Config::DEFAULT;

fn recall(tracker: &mut Tracker, nr_pages_max: u64) -> Vec<RecallPages> {
    tracker.recall(&CONFIG, nr_pages_max, &BTreeSet::new())
}

fn pages(ranges: &[AddrRange]) -> Vec<usize> {
    let indices =
        |range: &AddrRange| (range.start / PAGE_BYTES) as usize..(range.end / PAGE_BYTES) as usize;
    ranges.iter().flat_map(indices).collect()
}

/// The program is back in this phase and has half of it.
fn comes_back(tracker: &mut Tracker, space: SpaceNo, number: usize) {
    let present = bits::or(phase(2), half(number));
    walk_table(tracker, space, present, half(number), 100);
}

#[test]
fn when_half_of_a_phase_has_come_back_the_rest_is_asked_for_once() {
    for number in [0, 1] {
        let (mut tracker, space) = after_all_phases(true);
        assert!(
            recall(&mut tracker, 1000).is_empty(),
            "nothing has come back"
        );
        comes_back(&mut tracker, space, number);
        let wanted = recall(&mut tracker, 1000);
        let rest: Vec<usize> = bits::ones(bits::without(phase(number), half(number))).collect();
        assert_eq!(pages(&wanted[0].wanted), rest);
        assert!(recall(&mut tracker, 1000).is_empty());
    }
}

#[test]
fn what_the_program_has_left_makes_room() {
    let (mut tracker, space) = after_all_phases(true);
    comes_back(&mut tracker, space, 0);
    let found = recall(&mut tracker, 1000);
    let left: Vec<usize> = bits::ones(phase(2)).collect();
    assert_eq!(pages(&found[0].unused), left);
}

#[test]
fn no_more_is_asked_for_than_there_is_room() {
    let (mut tracker, space) = after_all_phases(true);
    comes_back(&mut tracker, space, 1);
    let wanted = recall(&mut tracker, 7);
    assert_eq!(wanted[0].nr_wanted_pages(), 7);
}

#[test]
fn a_program_that_goes_on_with_what_it_has_is_not_in_another_phase() {
    let (mut tracker, space) = after_all_phases(true);
    let present = bits::or(phase(2), half(0));
    // It uses its own 140 pages and 70 others.
    walk_table(&mut tracker, space, present, present, 100);
    assert!(recall(&mut tracker, 1000).is_empty());
}

#[test]
fn what_comes_back_from_zram_is_not_waited_for() {
    let (mut tracker, space) = after_all_phases(false);
    comes_back(&mut tracker, space, 1);
    assert!(recall(&mut tracker, 1000).is_empty());
}

/// The kernel reads ahead by itself where pages are asked for one after the other.
#[test]
fn a_scan_is_left_to_the_kernel() {
    let (mut tracker, space) = after_all_phases(true);
    let scanned = bits::run(0, 100);
    walk_table(
        &mut tracker,
        space,
        bits::or(phase(2), scanned),
        scanned,
        100,
    );
    assert!(recall(&mut tracker, 1000).is_empty());
}

#[test]
fn what_was_asked_for_counts_once_when_it_is_used_and_is_no_evidence() {
    let (mut tracker, space) = after_all_phases(true);
    comes_back(&mut tracker, space, 1);
    // Of the 70 that are out 66 are asked for and come back, which would be enough to ask for the others.
    assert_eq!(recall(&mut tracker, 66)[0].nr_wanted_pages(), 66);
    let back = bits::without(phase(1), bits::run(280, 290));
    walk_table(&mut tracker, space, bits::or(phase(2), back), back, 110);
    assert_eq!(tracker.take_recalled_used(), 65);
    assert!(recall(&mut tracker, 1000).is_empty());
    walk_table(&mut tracker, space, bits::or(phase(2), back), back, 120);
    assert_eq!(tracker.take_recalled_used(), 0);
}

#[test]
fn what_was_not_asked_for_after_all_does_not_count_when_the_program_has_waited_for_it() {
    let (mut tracker, space) = after_all_phases(true);
    comes_back(&mut tracker, space, 1);
    let found = recall(&mut tracker, 1000);
    tracker.leave(space.0, &found[0].wanted);
    walk_table(
        &mut tracker,
        space,
        bits::or(phase(2), phase(1)),
        phase(1),
        110,
    );
    assert_eq!(tracker.take_recalled_used(), 0);
}

#[test]
fn a_space_that_the_last_walk_left_out_and_one_that_refuses_are_asked_for_nothing() {
    let (mut tracker, space) = after_all_phases(true);
    comes_back(&mut tracker, space, 1);
    let but = BTreeSet::from([space]);
    assert!(tracker.recall(&CONFIG, 1000, &but).is_empty());
    tracker.leave_out(space);
    assert!(recall(&mut tracker, 1000).is_empty());
}

#[test]
fn what_came_back_before_the_last_walk_says_nothing_of_now() {
    let (mut tracker, space) = after_all_phases(true);
    comes_back(&mut tracker, space, 0);
    walk_table(
        &mut tracker,
        space,
        bits::or(phase(2), half(0)),
        half(0),
        110,
    );
    assert!(recall(&mut tracker, 1000).is_empty());
}
