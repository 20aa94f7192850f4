//! Stories of single moves and events, and the bins against a dumb model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MOVES: [Move; 4] = [Move::Head, Move::Tail, Move::Old, Move::Young];

fn lru(nr_groups: u16) -> MemcgLru {
    let mut lru = MemcgLru::new(7);
    (1..=nr_groups).for_each(|number| lru.add(GroupId(number)));
    lru
}

fn check(lru: &MemcgLru, nr_groups: u16) {
    lru.validate((1..=nr_groups).map(GroupId)).unwrap();
}

fn is_old(lru: &MemcgLru, group: GroupId) -> bool {
    lru.entry(group).place.map(|place| place.slot) == Some(lru.old_slot())
}

fn is_at_an_end(lru: &MemcgLru, group: GroupId) -> [bool; 2] {
    let entry = lru.entry(group);
    [entry.before == NONE, entry.after == NONE]
}

/// All groups of a walk, each put off by `by`.
fn walk(lru: &mut MemcgLru, mut by: impl FnMut(GroupId) -> Option<Move>) -> Vec<u16> {
    let mut walk = BinWalk::new(lru);
    let (mut visited, mut due) = (Vec::new(), None);
    while let Some(group) = walk.next(lru, due) {
        visited.push(group.0);
        due = by(group);
    }
    visited
}

#[test]
fn a_new_group_is_in_the_old_generation_and_bins_are_drawn() {
    let lru = lru(200);
    check(&lru, 200);
    assert!((1..=200).all(|number| is_old(&lru, GroupId(number))));
    let place = |number| lru.entry(GroupId(number)).place;
    let bins: std::collections::BTreeSet<usize> =
        (1..=200).filter_map(place).map(|of| of.bin).collect();
    assert_eq!(bins.len(), NR_BINS);
    assert_eq!(lru.segment(GroupId(1)), Some(Segment::Default));
    assert_eq!(lru.segment(GroupId(201)), None);
}

#[test]
fn a_walk_visits_every_group_of_the_old_generation_once() {
    let mut lru = lru(40);
    lru.rotate(GroupId(9), Move::Young);
    let mut visited = walk(&mut lru, |_| None);
    visited.sort_unstable();
    let expected: Vec<u16> = (1..=40).filter(|number| *number != 9).collect();
    assert_eq!(visited, expected);
}

#[test]
fn where_a_walk_begins_is_drawn() {
    let mut lru = lru(8 * 50);
    let firsts: std::collections::BTreeSet<usize> =
        (0..200).map(|_| BinWalk::new(&mut lru).bin).collect();
    assert_eq!(firsts.len(), NR_BINS);
}

#[test]
fn a_walk_survives_whatever_happens_to_groups_meanwhile() {
    let mut lru = lru(30);
    let mut walk = BinWalk::new(&mut lru);
    let first = walk.next(&mut lru, None).unwrap();
    lru.remove(first);
    let mut visited = vec![first];
    let second = walk.next(&mut lru, Some(Move::Young)).unwrap();
    visited.push(second);
    lru.rotate(second, Move::Old);
    while let Some(group) = walk.next(&mut lru, Some(Move::Young)) {
        visited.push(group);
    }
    visited.sort_unstable();
    visited.dedup();
    assert_eq!(visited.len(), 30);
}

#[test]
fn in_one_old_generation_a_group_that_is_put_off_is_visited_at_most_twice() {
    let mut lru = lru(60);
    let seq = lru.seq();
    let mut nr_visits = BTreeMap::new();
    // As `reclaim` does with whoever is protected or too small.
    while lru.seq() == seq {
        let mut bins = BinWalk::new(&mut lru);
        let mut due = None;
        while lru.seq() == seq
            && let Some(group) = bins.next(&mut lru, due)
        {
            *nr_visits.entry(group).or_insert(0) += 1;
            let is_put_off = lru.segment(group) == Some(Segment::Tail);
            due = Some(if is_put_off { Move::Young } else { Move::Tail });
        }
    }
    assert_eq!(nr_visits.len(), 60);
    assert!(nr_visits.values().all(|nr| *nr <= 2), "{nr_visits:?}");
}

#[test]
fn a_group_is_brought_forward_once() {
    let mut lru = lru(100);
    lru.bring_forward(GroupId(3));
    let place = lru.entry(GroupId(3)).place;
    assert!(is_at_an_end(&lru, GroupId(3))[0]);
    (0..20).for_each(|_| lru.bring_forward(GroupId(3)));
    assert_eq!(lru.entry(GroupId(3)).place, place);
    lru.bring_forward(GroupId(300));
    check(&lru, 100);
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let order = |seed| {
        let mut lru = MemcgLru::new(seed);
        (1..=50).for_each(|number| lru.add(GroupId(number)));
        walk(&mut lru, |_| Some(Move::Young))
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[derive(Clone, Debug)]
enum Op {
    Add(u16),
    Remove(u16),
    Rotate(u16, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..20u16).prop_map(Op::Add),
        1 => (1..20u16).prop_map(Op::Remove),
        8 => (1..20u16, 0..MOVES.len()).prop_map(|(group, by)| Op::Rotate(group, by)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The model: which generation each group is in, and its segment. Bins are the engine's affair.
    #[test]
    fn generations_and_segments_are_what_the_model_says(
        seed: u64,
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        let mut lru = MemcgLru::new(seed);
        let mut model: BTreeMap<u16, (u64, Segment)> = BTreeMap::new();
        let mut seq = 0;
        for op in ops {
            match op {
                Op::Add(number) if model.contains_key(&number) => continue,
                Op::Add(number) => {
                    lru.add(GroupId(number));
                    model.insert(number, (seq, Segment::Default));
                }
                Op::Remove(number) => {
                    if model.remove(&number).is_none() {
                        continue;
                    }
                    lru.remove(GroupId(number));
                }
                Op::Rotate(number, by) => {
                    lru.rotate(GroupId(number), MOVES[by]);
                    let Some((at, segment)) = model.get_mut(&number) else { continue };
                    (*at, *segment) = match MOVES[by] {
                        Move::Head => (*at, Segment::Head),
                        Move::Tail => (*at, Segment::Tail),
                        Move::Old => (seq, Segment::Default),
                        Move::Young => (seq + 1, Segment::Default),
                    };
                }
            }
            seq += u64::from(model.values().all(|of| of.0 != seq));
            prop_assert_eq!(lru.seq(), seq);
            lru.validate(model.keys().map(|number| GroupId(*number))).map_err(TestCaseError::fail)?;
            for (number, (at, segment)) in &model {
                let entry = lru.entry(GroupId(*number));
                prop_assert_eq!(entry.segment, *segment);
                prop_assert_eq!(entry.place.unwrap().slot as u64, at % 3);
            }
        }
    }
}
