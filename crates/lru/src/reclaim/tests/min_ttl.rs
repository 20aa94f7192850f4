//! What `min_ttl` keeps: all together as in the kernel, or each group by itself.

use super::*;
use crate::config::MinTtl;

#[test]
fn a_working_set_younger_than_min_ttl_ends_a_reclaim_as_thrashing() {
    let config = Config {
        min_ttl_ms: 1000,
        ..Config::of(KernelModel::V6_14)
    };
    let mut world = World::new(MultiGen::new(config).unwrap());
    let group = world.group(None);
    world.read(group, 5000);
    let outcome = world.reclaim(of_node(64, Origin::Direct));
    assert_eq!((outcome.end, outcome.nr_freed_pages), (End::Thrashing, 0));
    world.now = TimeMs(1001);
    assert_eq!(world.reclaim(of_node(64, Origin::Direct)).end, End::Met);
}

/// A group with something old and one that is young all through, under pressure on the node.
fn old_and_young(model: KernelModel, min_ttl: MinTtl) -> (World<MultiGen>, [GroupId; 2]) {
    let config = Config {
        min_ttl_ms: 1000,
        min_ttl,
        ..Config::of(model)
    };
    let mut world = World::new(MultiGen::new(config).unwrap());
    let old = world.group(None);
    world.read(old, 50_000);
    world.now = TimeMs(5000);
    let young = world.group(None);
    world.read(young, 50_000);
    (world, [old, young])
}

#[test]
fn as_long_as_any_group_has_something_old_min_ttl_keeps_nothing_in_the_others() {
    for model in KernelModel::ALL {
        let (mut world, [old, young]) = old_and_young(*model, MinTtl::AllTogether);
        let outcome = world.reclaim(of_node(60_000, Origin::Background));
        assert_eq!(outcome.end, End::Met, "{model}");
        assert!(
            world.taken(young)[1] > 0 && world.taken(old)[1] > 0,
            "{model}"
        );
        // Once none has, everything is kept: here a kernel kills.
        let nr_left = world.usage(old);
        let all = ReclaimRequest {
            priority: 0,
            ..ReclaimRequest::new(old, nr_left)
        };
        world
            .policy
            .isolate(all, world.now, &mut world.batch)
            .unwrap();
        world.complete(Verdict::Evicted);
        assert_eq!(world.usage(old), 0, "{model}");
        // Up to 6.13 not while scanning is relaxed.
        let outcome = world.reclaim(of_node(1 << 20, Origin::Background));
        let nr_kept = world.usage(young);
        assert!(
            nr_kept > 0 && outcome.nr_freed_pages < 50_000,
            "{model}: {outcome:?}"
        );
        let outcome = world.reclaim(Goal::of_group(young, 32));
        assert_eq!(outcome.end, End::Met, "{model}: a limit is not asked");
    }
}

#[test]
fn under_the_option_each_group_keeps_what_is_younger_than_min_ttl() {
    for model in [KernelModel::V6_14, KernelModel::V7_2] {
        let (mut world, [old, young]) = old_and_young(model, MinTtl::EachByItself);
        let outcome = world.reclaim(of_node(10_000, Origin::Background));
        assert_eq!(outcome.end, End::Met, "{model}");
        assert_eq!(world.taken(young), [0, 0], "{model}");
        assert!(world.taken(old)[1] >= 10_000, "{model}");
        let outcome = world.reclaim(Goal::of_group(young, 32));
        assert_eq!(outcome.end, End::Thrashing, "{model}");
    }
}
