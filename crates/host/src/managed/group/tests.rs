//! What a group tells of itself.

use super::*;
use crate::engine::census::cache::GroupCache;
use crate::park::Keep;
use strata_linux::cgroup::mount_point;

const MIB: u64 = 1 << 20;
/// More than may come back to any group.
const NR_PAGES_BACK: u64 = 1000;

fn anon(nr_pages: u64) -> NrPages {
    NrPages {
        anon: nr_pages,
        file: 0,
    }
}

fn group_by(rule: &Rule) -> Group {
    let reader = GroupReader::open(&mount_point().expect("cgroups")).expect("a group");
    Group::new(&Chosen {
        reader,
        pids: Vec::new(),
        rule,
        came: 0,
    })
}

#[test]
fn a_group_that_stays_above_its_memory_is_told_once_and_by_what_keeps_it() {
    let rule = Rule {
        memory_bytes: Some(1),
        min_age: Duration::from_secs(5),
        ..Rule::default()
    };
    let mut group = group_by(&rule);
    let at = Duration::from_secs;
    group.resident = anon(1000);
    assert_eq!(group.stays_over(at(0), 1000, 0, None), None);
    assert_eq!(group.status().why_not_more, Some(WhyNotMore::InUse));
    let told = group.stays_over(at(9), 1000, 300, None);
    assert_eq!(told, None, "some of it goes");
    assert_eq!(group.status().why_not_more, None);
    assert_eq!(group.stays_over(at(10), 1000, 0, None), None);
    // A few pages that grow old now and then are no way down.
    let told = group.stays_over(at(20), 1000, 3, None);
    let Some(News::Warning(told)) = told else {
        panic!("{told:?}");
    };
    assert!(told.contains("used within its least age of 5s"), "{told}");
    assert_eq!(group.stays_over(at(40), 1000, 0, None), None, "once");
    let no_swap = Some(WhyNotMore::NoSwap);
    group.stays_over(at(41), 1000, 0, no_swap);
    assert_eq!(
        group.status().why_not_more,
        Some(WhyNotMore::InUse),
        "nothing is idle"
    );
    group.could = anon(1);
    group.stays_over(at(41), 1000, 0, no_swap);
    assert_eq!(group.status().why_not_more, no_swap);
}

#[test]
fn where_the_host_is_short_a_group_that_rests_goes_first_and_whole_but_for_what_its_rule_keeps() {
    let rule = Rule {
        min_age: Duration::from_secs(60),
        park_keep: Keep::Bytes(200 * PAGE_BYTES),
        ..Rule::default()
    };
    let mut group = group_by(&rule);
    (group.resident, group.protected_bytes) = (anon(1000), 0);
    let told = |group: &Group, asks| {
        let holder = group.holder(GroupId(1), true, asks);
        (holder.rest.as_secs(), holder.nr_pages_max)
    };
    for (rests_s, rest_s, most) in [(59, 0, 1000), (60, 60, 800)] {
        group.rests_for = Duration::from_secs(rests_s);
        assert_eq!(told(&group, Asks::OfHostNow), (rest_s, most));
        assert_eq!(told(&group, Asks::OfHostAhead), (0, 1000));
    }
    // What is in use of one that does nothing: what others use of it.
    group.rule.park_keep = Keep::WorkingSet;
    assert_eq!(told(&group, Asks::OfHostNow), (60, 1000));
    let older_than = group.holder(GroupId(1), true, Asks::OfHostNow).older_than;
    assert_eq!(older_than, rule.min_age_when_short);
    assert!(!older_than.is_zero(), "what was used just now stays");
}

#[test]
fn page_cache_that_was_read_once_goes_whatever_its_age_where_memory_is_short() {
    let mut group = group_by(&Rule::default());
    group.cache.found(GroupCache::default());
    let with_once = |asks| {
        let cache = group.holder(GroupId(1), true, asks).cache;
        cache.expect("a census has told").with_once
    };
    assert!(with_once(Asks::OfHostNow) && with_once(Asks::BelowLimit));
    assert!(!with_once(Asks::OfHostAhead) && !with_once(Asks::OfRule));
}

#[test]
fn why_a_group_gives_no_more_is_told_by_what_keeps_it_from_that() {
    let mut group = group_by(&Rule::default());
    group.idle = anon(100_000);
    let mut low = |resident| {
        group.resident = anon(resident);
        group.judge(anon(90_000), anon(0), None);
        group.why_not_more
    };
    assert_eq!(low(0), Some(WhyNotMore::Low), "all that is there stays");
    assert_eq!(low(100_000), Some(WhyNotMore::Pace), "nothing came back");
    let mut why = |could, planned, no_swap| {
        group.judge(anon(could), anon(planned), no_swap);
        group.why_not_more
    };
    let no_swap = Some(WhyNotMore::NoSwap);
    assert_eq!(why(90_000, 90_000, None), None);
    assert_eq!(why(90_000, 9_000, None), Some(WhyNotMore::Pace));
    assert_eq!(why(90_000, 0, no_swap), no_swap);
    assert_eq!(why(9_000, 9_000, None), Some(WhyNotMore::SharedOrLocked));
    group.away = anon(1_000_001);
    group.judge(anon(9_000), anon(9_000), None);
    assert_eq!(group.why_not_more, Some(WhyNotMore::AllAway));
    group.away = anon(0);
    group.took(Kind::Anon, 10, 9_000);
    let (none, walked) = (Ages::default(), Walked::default());
    group.look(Duration::ZERO, GroupId(1), &none, anon(0), &walked);
    group.judge(anon(9_000), anon(9_000), None);
    assert_eq!(group.why_not_more, Some(WhyNotMore::KernelKeeps));
    let back = anon(NR_PAGES_BACK);
    walked.look(
        &mut group.holder,
        Duration::ZERO,
        GroupId(1),
        Counted::without_cache(anon(0), anon(0), back),
    );
    group.judge(anon(9_000), anon(0), None);
    assert_eq!(group.why_not_more, Some(WhyNotMore::Promise));
}

#[test]
fn a_group_that_leaks_is_seen_to_grow_whoever_swaps_what_it_leaves_behind_and_one_that_is_swapped_is_not()
 {
    // 20 MiB a second, of which all but 100 MiB is in swap; and as much goes to swap of what holds still, and has a copy in memory still.
    let leaks = |second: u64| [100 * MIB, second * 20 * MIB, 0];
    let swapped = |second: u64| {
        [
            (2000 - second * 10) * MIB,
            second * 20 * MIB,
            second * 10 * MIB,
        ]
    };
    let growth_of = |held: &dyn Fn(u64) -> [u64; 3]| {
        let mut growth = Growth::default();
        for second in (0..60).step_by(5) {
            let [lru_anon, swap, swap_cached] = held(second).map(Some);
            let stats = GroupStats {
                lru_anon_bytes: lru_anon,
                swap_bytes: swap,
                swap_cached_bytes: swap_cached,
                ..GroupStats::default()
            };
            growth.look(
                Duration::from_secs(second),
                held_bytes(&stats).expect("told"),
            );
        }
        growth.steady_bytes_per_s()
    };
    assert_eq!((growth_of(&leaks), growth_of(&swapped)), (20 * MIB, 0));
}
