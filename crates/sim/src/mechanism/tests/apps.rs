//! Apps, and who is killed.

use super::*;
use crate::memory::MemorySize;

/// An access of an app, which has a space for its heap and one for its file.
fn of_app(group: u16, page: u64, backing: Backing) -> Access {
    let space = 2 * u32::from(group) + u32::from(backing.is_file());
    let of = access(space, page, backing, Via::PageTable, Op::Read);
    Access { group, ..of }
}

fn heap(group: u16) -> impl Iterator<Item = Access> {
    (0..20).map(move |page| of_app(group, page, Backing::Anon))
}

/// A file that does not fit is read round and round.
fn file(group: u16) -> impl Iterator<Item = Access> {
    (0..600).map(move |at| of_app(group, at % 120, Backing::File))
}

fn killing(groups: &[&str], kill_at: Option<MemorySize>) -> Setup {
    Setup {
        groups: specs(groups),
        kill_at,
        ..Setup::with_memory(100)
    }
}

#[test]
fn apps_behind_are_killed_when_much_comes_back_and_start_anew() {
    let then = [of_app(0, 3, Backing::Anon), of_app(2, 3, Backing::File)];
    let accesses = heap(1).chain(heap(0)).chain(file(2)).chain(then);
    let workload = Workload::from_accesses("apps", accesses).unwrap();
    for policy in policies() {
        let run = |kill_at| {
            let outcome = policy.run(&workload, &killing(&[], kill_at), &NoProgress);
            let outcome = outcome.unwrap();
            let apps = outcome.reclaim.unwrap().apps;
            (
                apps.map(|of| (of.nr_kills, of.nr_cold_starts)),
                outcome.nr_accesses,
            )
        };
        let nr_requests = u64::from(workload.nr_requests());
        assert_eq!(run(None), (None, nr_requests), "{policy:?}");
        // The two others go, and of them app 0 starts anew: its 20 pages are touched before the one that is asked for.
        let few = Some(MemorySize::Pages(30));
        assert_eq!(run(few), (Some((2, 1)), nr_requests + 20), "{policy:?}");
        let many = Some(MemorySize::Pages(1000));
        assert_eq!(run(many), (Some((0, 0)), nr_requests), "{policy:?}");
    }
}

#[test]
fn the_app_that_was_in_front_longest_ago_is_killed_and_leaves_its_files_in_memory() {
    let file = |group| (0..15).map(move |page| of_app(group, page, Backing::File));
    let more = (0..600).map(|at| of_app(2, at % 95, Backing::Anon));
    let accesses = heap(1).chain(heap(0)).chain(file(0)).chain(more);
    let workload = Workload::from_accesses("apps", accesses).unwrap();
    let config = Config::of(KernelModel::V6_1);
    let setup = killing(&[], Some(MemorySize::Pages(30)));
    let policy = MultiGen::new(config).unwrap();
    let mut machine = Machine::new(Box::new(policy), &workload, &setup).unwrap();
    for (request, position) in workload.requests()[..56].iter().zip(0..) {
        machine.request_of_app(*request, position).unwrap();
    }
    assert!(machine.kill().unwrap());
    assert_eq!(machine.nr_pages, [21, 15], "app 1, which was the first");
    assert!(machine.kill().unwrap());
    assert!(!machine.kill().unwrap(), "the other one is in front");
    assert_eq!(machine.nr_pages, [1, 15]);
    machine.validate().unwrap();
}

#[test]
fn where_nothing_can_be_evicted_an_app_is_killed_instead_of_all() {
    let more = (0..90).map(|page| of_app(2, page, Backing::Anon));
    let accesses = heap(0).chain(heap(1)).chain(more);
    let workload = Workload::from_accesses("apps", accesses).unwrap();
    let groups = ["phone:swap.max=0", "phone/a", "phone/b", "phone/c"];
    for policy in policies() {
        let run = |kill_at| policy.run(&workload, &killing(&groups, kill_at), &NoProgress);
        assert!(run(None).is_err(), "{policy:?}");
        let outcome = run(Some(MemorySize::Pages(1000))).unwrap();
        let nr_kills = outcome.reclaim.unwrap().apps.unwrap().nr_kills;
        // 130 pages are 30 too many, and an app has 20.
        assert_eq!(nr_kills, 2, "{policy:?}");
    }
}

#[test]
fn what_a_policy_keeps_says_how_many_apps_are_killed() {
    let trace = "gen:apps,heap=300,code=100,files=100,turn=800,accesses=300000";
    let accesses: Generator = trace.parse().unwrap();
    let workload = Workload::from_accesses("apps", accesses).unwrap();
    let nr_kills = |policy: &str, memory_pages| {
        let setup = Setup {
            kill_at: Some("5%".parse().unwrap()),
            ..Setup::with_memory(memory_pages)
        };
        let policy: PolicySpec = policy.parse().unwrap();
        let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
        let apps = outcome.reclaim.unwrap().apps.unwrap();
        assert!(apps.nr_cold_starts <= apps.nr_kills);
        apps.nr_kills
    };
    let [lists, generations] = ["two-list", "mglru"].map(|policy| nr_kills(policy, 4500));
    assert!(
        0 < generations && generations < lists,
        "{generations} {lists}"
    );
    for (policy, with_less) in [("two-list", lists), ("mglru", generations)] {
        assert!(nr_kills(policy, 9000) < with_less, "{policy}");
    }
}
