//! Stories of single rules, and the tree against a dumb model.

mod model;

use super::{
    limits::{GroupEvent, GroupEvents, Limits, Protection},
    tree::{GroupTree, NR_LEVELS_MAX, ROOT},
};
use crate::{
    error::PolicyError,
    ids::{GroupId, NodeId},
};

fn tree() -> GroupTree {
    GroupTree::new()
}

/// Recounts a tree without lruvecs.
fn validate(tree: &GroupTree, own_pages: &[u64]) -> Result<(), String> {
    tree.validate(own_pages, std::iter::empty())
}

fn protected(min_pages: u64, low_pages: u64) -> Limits {
    Limits {
        min_pages,
        low_pages,
        ..Limits::NONE
    }
}

// Usage.

#[test]
fn the_nearest_limit_that_would_be_crossed_is_the_one_to_reclaim_for() {
    let mut tree = tree();
    let parent = tree.add(ROOT, "/p").unwrap();
    let child = tree.add(parent, "/p/c").unwrap();
    let limits = |max_pages, high_pages| Limits {
        max_pages,
        high_pages,
        ..Limits::NONE
    };
    tree.set_limits(parent, limits(100, 50)).unwrap();
    tree.charge(child, 90);
    let over = |tree: &GroupTree, new| {
        let excess = tree.over_max(child, new).unwrap();
        excess.map(|of| (of.group, of.nr_pages))
    };
    assert_eq!(over(&tree, 10), None);
    assert_eq!(over(&tree, 12), Some((parent, 2)));
    tree.set_limits(child, limits(91, Limits::MAX)).unwrap();
    assert_eq!(over(&tree, 12), Some((child, 11)));
    let high = tree.over_high(child).unwrap().unwrap();
    assert_eq!((high.group, high.nr_pages), (parent, 40));
}

#[test]
fn swap_may_run_out_at_any_level() {
    let mut tree = tree();
    let parent = tree.add(ROOT, "/p").unwrap();
    let child = tree.add(parent, "/p/c").unwrap();
    assert_eq!(tree.swap_room_pages(child), Ok(Limits::MAX));
    let limits = |swap_max_pages| Limits {
        swap_max_pages,
        ..Limits::NONE
    };
    tree.set_limits(parent, limits(30)).unwrap();
    tree.set_limits(child, limits(100)).unwrap();
    tree.charge_swap(child, 20);
    assert_eq!(tree.swap_room_pages(child), Ok(10));
    tree.charge_swap(parent, 10);
    assert_eq!(
        (tree.swap_room_pages(child), tree.swap_pages(parent)),
        (Ok(0), Ok(30))
    );
    tree.uncharge_swap(child, 5);
    assert_eq!(tree.swap_room_pages(child), Ok(5));
    tree.uncharge_swap(child, 100);
    assert_eq!(
        tree.swap_pages(parent),
        Ok(10),
        "a child gives back no more than it has"
    );
    validate(&tree, &[]).unwrap();
}

#[test]
fn events_count_for_the_group_alone_and_for_all_above_it() {
    let mut tree = tree();
    let parent = tree.add(ROOT, "/p").unwrap();
    let child = tree.add(parent, "/p/c").unwrap();
    for event in [GroupEvent::Low, GroupEvent::Max, GroupEvent::Max] {
        tree.count(child, event);
    }
    tree.count(parent, GroupEvent::High);
    let events = |nr_low, nr_high, nr_max| GroupEvents {
        nr_low,
        nr_high,
        nr_max,
    };
    assert_eq!(tree.events(child), Ok(events(1, 0, 2)));
    assert_eq!(tree.events(parent), Ok(events(1, 1, 2)));
    assert_eq!(tree.events_local(parent), Ok(events(0, 1, 0)));
}

// Protection.

#[test]
fn the_root_of_reclaim_is_not_protected_from_itself_and_cuts_off_what_is_above() {
    let mut tree = tree();
    let top = tree.add(ROOT, "/t").unwrap();
    let middle = tree.add(top, "/t/m").unwrap();
    let low = tree.add(middle, "/t/m/l").unwrap();
    for group in [middle, low] {
        tree.set_limits(group, protected(70, 70)).unwrap();
    }
    tree.charge(low, 100);
    let min_pages = |group, within| tree.protection(group, within).min_pages;
    assert_eq!(min_pages(low, None), 0, "the top passes nothing on");
    assert_eq!(min_pages(low, Some(middle)), 70);
    assert_eq!(min_pages(middle, Some(middle)), 0);
    assert_eq!(min_pages(middle, Some(low)), 0, "not below it");
}

#[test]
fn above_its_protection_a_group_is_pressed_in_proportion_to_the_overage() {
    let protection = |usage_pages| Protection {
        min_pages: 100,
        low_pages: 500,
        usage_pages,
    };
    assert_eq!(protection(999).exposed(1000, false), 500);
    assert_eq!(protection(999).exposed(1000, true), 900);
    assert_eq!(protection(510).exposed(10_000, false), 10_000 - 9784);
    assert_eq!(protection(400).exposed(20_000, false), 40);
    assert_eq!(
        protection(400).exposed(1000, false),
        Protection::NR_SCAN_PAGES_MIN
    );
    assert_eq!(Protection::default().exposed(7, false), 7);
}

// Births, deaths, order.

#[test]
fn what_a_removed_group_refuses_is_named_and_its_number_is_used_again() {
    let mut tree = tree();
    let parent = tree.add(ROOT, "/p").unwrap();
    let child = tree.add(parent, "/p/c").unwrap();
    let busy = Err(PolicyError::GroupBusy(parent));
    assert_eq!(tree.take_offline(parent), busy);
    tree.take_offline(child).unwrap();
    let offline = PolicyError::GroupOffline(child);
    assert_eq!(tree.take_offline(child), Err(offline.clone()));
    assert_eq!(tree.add(child, "/p/c/d"), Err(offline));
    tree.take_offline(parent).unwrap();
    for (group, above) in [(child, parent), (parent, ROOT)] {
        assert_eq!(tree.forget(group).0, above);
    }
    assert_eq!(tree.usage_pages(child), Err(PolicyError::NoGroup(child)));
    validate(&tree, &[]).unwrap();
    let next = tree.add(ROOT, "/n");
    assert_eq!(next, Ok(child), "the number that is free for longest");
}

#[test]
fn numbers_of_lruvecs_are_used_again_after_their_group() {
    let mut tree = tree();
    let [a, b] = ["/a", "/b"].map(|path| tree.add(ROOT, path).unwrap());
    assert_eq!(
        [a, b, a].map(|group| tree.add_lruvec(group).unwrap()),
        [0, 1, 2]
    );
    let owners = |owners: [GroupId; 3]| owners.into_iter();
    tree.validate(&[], owners([a, b, a])).unwrap();
    assert!(tree.validate(&[], owners([a, a, a])).is_err());
    tree.take_offline(a).unwrap();
    assert_eq!(tree.forget(a), (ROOT, vec![0, 2]));
    tree.validate(&[], owners([ROOT, b, ROOT])).unwrap();
    assert_eq!(
        [b, b, b].map(|group| tree.add_lruvec(group).unwrap()),
        [0, 2, 3]
    );
    assert_eq!(tree.add_lruvec(a), Err(PolicyError::NoGroup(a)));
}

#[test]
fn groups_lie_at_most_so_deep() {
    let mut tree = tree();
    let mut parent = ROOT;
    for _ in 0..NR_LEVELS_MAX {
        parent = tree.add(parent, "/x").unwrap();
    }
    tree.set_limits(parent, protected(1, 1)).unwrap();
    assert_eq!(tree.protection(parent, None).min_pages, 0);
    assert_eq!(
        tree.add(parent, "/x"),
        Err(PolicyError::GroupTooDeep(NR_LEVELS_MAX))
    );
}

/// `/1`, `/1/2`, `/1/2/3`, `/1/4`, `/5`.
fn five() -> GroupTree {
    let mut tree = tree();
    for parent in [0, 1, 2, 1, 0] {
        tree.add(GroupId(parent), "").unwrap();
    }
    tree
}

#[test]
fn parents_are_visited_before_their_children_and_children_in_order_of_birth() {
    let tree = five();
    let numbers: Vec<u16> = tree.ids().map(|id| id.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(tree.before_in_walk(GroupId(5)), GroupId(4));
    assert_eq!(tree.before_in_walk(GroupId(4)), GroupId(3));
    assert_eq!(tree.before_in_walk(GroupId(3)), GroupId(2));
}

#[test]
fn a_partial_walk_goes_on_where_the_last_one_left_off() {
    let mut tree = five();
    let mut next = |top: u16, node: u8| {
        let at = tree.advance_cursor(GroupId(top), NodeId(node));
        at.map(|of| of.0)
    };
    assert_eq!([next(1, 0), next(1, 0)], [Some(1), Some(2)]);
    assert_eq!(next(1, 3), Some(1), "each node has a walk of its own");
    assert_eq!(
        [next(1, 0), next(1, 0), next(1, 0)],
        [Some(3), Some(4), None]
    );
    assert_eq!(next(1, 0), Some(1));
    assert_eq!(next(0, 0), Some(0));
}

#[test]
fn a_partial_walk_survives_the_group_it_left_off_at() {
    let mut tree = five();
    for _ in 0..3 {
        tree.advance_cursor(GroupId(1), NodeId(0));
    }
    assert_eq!(tree.cursor(GroupId(1), NodeId(0)), Some(GroupId(3)));
    tree.take_offline(GroupId(3)).unwrap();
    tree.forget(GroupId(3));
    assert_eq!(tree.advance_cursor(GroupId(1), NodeId(0)), Some(GroupId(4)));
}
