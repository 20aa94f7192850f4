//! The mechanism's promises, on small traces and with every policy that is played.

use proptest::prelude::*;
use strata_lru::{Ageing, Config, KernelModel, MultiGen, Swappiness, TwoList, WalkStats};
use strata_trace::{Access, Freed, FreedPages, Generator, PageKey};

use super::*;
use crate::{
    groups::GroupSpec,
    outcome::GroupCounts,
    simulate::{NoProgress, Simulate},
    spec::PolicySpec,
    workload::WorkloadBuilder,
};

mod apps;
mod page_cache;
mod walks;

fn policies() -> Vec<KernelPolicy> {
    let models = KernelModel::ALL.iter();
    let multi_gen = models.map(|model| KernelPolicy::MultiGen(Config::of(*model)));
    let two_list = KernelPolicy::TwoList(Config::default());
    multi_gen.chain([two_list]).collect()
}

fn specs(texts: &[&str]) -> Vec<GroupSpec> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn access(space: u32, page: u64, backing: Backing, via: Via, op: Op) -> Access {
    Access {
        key: PageKey { space, page },
        backing,
        via,
        op,
        ..Access::default()
    }
}

fn read(page: u64) -> Access {
    access(0, page, Backing::File, Via::FileDescriptor, Op::Read)
}

fn load(page: u64) -> Access {
    access(0, page, Backing::File, Via::PageTable, Op::Read)
}

fn store(page: u64) -> Access {
    access(1, page, Backing::Anon, Via::PageTable, Op::Write)
}

fn replay(policy: &KernelPolicy, accesses: Vec<Access>, memory_pages: u32) -> Outcome {
    let workload = Workload::from_accesses("test", accesses).unwrap();
    let setup = Setup::with_memory(memory_pages);
    policy.run(&workload, &setup, &NoProgress).unwrap()
}

/// Anon and file pages of which a tenth is freed and taken anew, as other pages, in each interval.
fn churn() -> Workload {
    let mut builder = WorkloadBuilder::new("churn");
    let at = |time_us, page: u64| {
        let access = if page.is_multiple_of(2) {
            store(page)
        } else {
            load(page)
        };
        Access { time_us, ..access }
    };
    (0..400).for_each(|page| builder.push(at(1, page)).unwrap());
    for time in 2..100 {
        let first = (time - 2) * 40;
        for page in first..first + 40 {
            let (what, time_us) = (FreedPages::Page(at(1, page).key), time);
            builder.free(Freed { what, time_us });
        }
        (first + 40..first + 440).for_each(|page| builder.push(at(time, page)).unwrap());
    }
    builder.finish()
}

#[test]
fn a_program_that_frees_what_it_takes_needs_no_more_than_it_holds() {
    let workload = churn();
    assert_eq!(
        (workload.nr_pages(), workload.footprint_pages()),
        (4320, 400)
    );
    for policy in policies() {
        let run = |setup: Setup| policy.run(&workload, &setup, &NoProgress).unwrap();
        let outcome = run(Setup::with_memory(400));
        assert_eq!(outcome.nr_misses, 4320, "{policy:?}");
        assert_eq!(outcome.reclaim.unwrap().nr_stolen, [0, 0], "{policy:?}");
        // With less, what is freed in swap or out of lists leaves nothing inconsistent behind.
        let outcome = run(Setup::with_memory(300));
        assert!(outcome.nr_misses > 4320, "{policy:?}");
        let tiers = Some("25:75".parse().unwrap());
        let outcome = run(Setup {
            tiers: tiers.clone(),
            ..Setup::with_memory(500)
        });
        assert_eq!(outcome.nr_misses, 4320, "{policy:?}");
        let outcome = run(Setup {
            tiers,
            ..Setup::with_memory(300)
        });
        assert!(outcome.nr_misses > 4320, "{policy:?}");
    }
}

#[test]
fn pages_freed_in_swap_give_its_room_back() {
    // Without that swap would be full after a while, and the group out of memory.
    let workload = churn();
    let policy = KernelPolicy::MultiGen(Config::default());
    let setup = Setup {
        groups: specs(&["a:max=300,swap.max=200"]),
        ..Setup::with_memory(1000)
    };
    let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
    let group = &outcome.reclaim.unwrap().groups[0];
    assert!(group.nr_swapped <= 200 && group.nr_held <= 300, "{group:?}");
    assert!(group.nr_stolen[0] > 400, "more than swap holds: {group:?}");
}

#[test]
fn a_page_that_was_only_read_is_mapped_by_a_fault_that_is_no_miss() {
    for policy in policies() {
        let outcome = replay(&policy, vec![read(1), load(1), load(1), read(1)], 10);
        assert_eq!(outcome.nr_misses, 1);
    }
}

#[test]
fn dirty_file_pages_are_written_before_they_go_and_anon_when_it_goes() {
    for policy in policies() {
        let write = |page| access(0, page, Backing::File, Via::FileDescriptor, Op::Write);
        let outcome = replay(&policy, (0..5000).map(write).collect(), 1000);
        let reclaim = outcome.reclaim.unwrap();
        assert!(reclaim.nr_stolen[1] >= 4000);
        assert!(reclaim.nr_written >= reclaim.nr_stolen[1], "{reclaim:?}");
        assert!(
            reclaim.nr_written <= 5000,
            "each was written once: {reclaim:?}"
        );
        let outcome = replay(&policy, (0..5000).map(store).collect(), 1000);
        let reclaim = outcome.reclaim.unwrap();
        assert_eq!(reclaim.nr_written, reclaim.nr_stolen[0], "{reclaim:?}");
    }
}

#[test]
fn anon_without_swap_runs_out_of_memory_and_says_so() {
    let workload = Workload::from_accesses("test", (0..300).map(store)).unwrap();
    for policy in policies() {
        let setup = Setup {
            swappiness: Swappiness::try_new(0).unwrap(),
            ..Setup::with_memory(200)
        };
        let error = policy.run(&workload, &setup, &NoProgress).unwrap_err();
        assert!(matches!(
            error,
            SimError::OutOfMemory {
                memory_pages: 200,
                swappiness: 0
            }
        ));
    }
}

/// Runs a generated trace of several groups; what became of each.
fn grouped(trace: &str, policy: &str, groups: &[&str], memory_pages: u32) -> Vec<GroupCounts> {
    let setup = Setup {
        swappiness: Swappiness::try_new(150).unwrap(),
        groups: specs(groups),
        background: Some("2%".parse().unwrap()),
        ..Setup::with_memory(memory_pages)
    };
    outcome_of(trace, policy, &setup).groups
}

fn outcome_of(trace: &str, policy: &str, setup: &Setup) -> Reclaim {
    let accesses: Generator = trace.parse().unwrap();
    let workload = Workload::from_accesses("test", accesses).unwrap();
    let policy: PolicySpec = policy.parse().unwrap();
    let outcome = policy.run(&workload, setup, &NoProgress).unwrap();
    *outcome.reclaim.unwrap()
}

const THREE: &str = "gen:mixed,anon=2000,file=1000,accesses=60000,groups=3,turn=50";

#[test]
fn limits_of_a_tree_hold_at_every_level_and_protection_goes_first() {
    // Protection is shared out from above: what `top` has not, `a` has not from outside of `top`.
    let groups = [
        "top:max=3000,min=1500",
        "top/a:min=1500",
        "top/b:swap.max=100",
        "c",
    ];
    for policy in [
        "mglru",
        "mglru:v6.1",
        "mglru:v7.2",
        "mglru:v2022",
        "two-list",
    ] {
        let counts = grouped(THREE, policy, &groups, 4000);
        let [top, a, b, c] = &counts[..] else {
            panic!("{policy}: {counts:?}")
        };
        assert!(top.nr_held <= 3000 && top.events.nr_max > 0, "{policy}");
        assert_eq!(top.nr_misses, a.nr_misses + b.nr_misses, "{policy}");
        assert_eq!(top.nr_held, a.nr_held + b.nr_held, "{policy}");
        // A batch may go below.
        assert!(a.nr_held >= 1500 - 64, "{policy}: {a:?}");
        assert!(
            b.nr_swapped <= 100 && c.nr_swapped > 100,
            "{policy}: {counts:?}"
        );
        for of in [a, b, c] {
            let nr_stolen: u64 = of.nr_stolen.iter().sum();
            assert_eq!(of.nr_misses - nr_stolen, of.nr_held, "{policy}: {of:?}");
        }
        assert!(a.nr_misses < b.nr_misses, "{policy}: {counts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Memory is never overdrawn, a page in memory is never missed, and everything adds up.
    #[test]
    fn whatever_is_replayed_adds_up(
        requests in proptest::collection::vec((0..3_u32, 0..400_u64, any::<bool>()), 1..3000),
        memory_pages in 1..300_u32,
        swappiness in 1..=200_u8,
        policy in 0..policies().len(),
    ) {
        let accesses = requests.iter().map(|&(kind, page, is_write)| {
            let op = if is_write { Op::Write } else { Op::Read };
            match kind {
                0 => access(0, page, Backing::Anon, Via::PageTable, op),
                1 => access(1, page * 37, Backing::File, Via::PageTable, op),
                _ => access(1, page * 37, Backing::File, Via::FileDescriptor, op),
            }
        });
        let workload = Workload::from_accesses("test", accesses).unwrap();
        let setup = Setup {
            swappiness: Swappiness::try_new(swappiness).unwrap(),
            ..Setup::with_memory(memory_pages)
        };
        let policy = &policies()[policy];
        let replayed = match policy {
            KernelPolicy::MultiGen(config) => {
                let engine = MultiGen::new(config.clone()).unwrap();
                replay_checked(engine, &workload, &setup)
            }
            KernelPolicy::TwoList(config) => {
                let engine = TwoList::new(config.clone()).unwrap();
                replay_checked(engine, &workload, &setup)
            }
        };
        let (nr_misses, nr_pages) = replayed?;
        let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
        prop_assert_eq!(outcome.nr_misses, nr_misses, "the same twice");
        let stolen: u64 = outcome.reclaim.unwrap().nr_stolen.iter().sum();
        prop_assert_eq!(nr_misses - stolen, u64::from(nr_pages));
    }
}

/// Replays request by request, looking at everything on the way; misses, and pages in memory then.
fn replay_checked<P: Policy>(
    policy: P,
    workload: &Workload,
    setup: &Setup,
) -> Result<(u64, u32), TestCaseError> {
    let mut machine = Machine::new(Box::new(policy), workload, setup).unwrap();
    for (request, position) in workload.requests().iter().zip(0..) {
        let slot = machine.layout.slot(request.page());
        let was_in = machine.memory.folio(slot).is_some();
        let nr_misses = machine.counts.nr_misses;
        machine.request(*request, position).unwrap();
        prop_assert_eq!(machine.counts.nr_misses - nr_misses, u64::from(!was_in));
        let nr_pages = machine.nr_pages[0] + machine.nr_pages[1];
        prop_assert!(nr_pages <= setup.memory_pages);
        if position % 64 == 0 {
            machine.policy.validate().map_err(TestCaseError::fail)?;
            let views = machine
                .policy
                .view(machine.groups.of(0), machine.now)
                .unwrap();
            let generations = views.iter().flat_map(|view| &view.generations);
            let nr_listed: u64 = generations.flat_map(|of| of.nr_pages).flatten().sum();
            prop_assert_eq!(nr_listed, u64::from(nr_pages));
            let slots = 0..machine.layout.nr_slots();
            let nr_in = slots.filter(|slot| machine.memory.folio(*slot).is_some());
            prop_assert_eq!(nr_in.count() as u32, nr_pages);
        }
    }
    let nr_pages = machine.nr_pages[0] + machine.nr_pages[1];
    Ok((machine.counts.nr_misses, nr_pages))
}

#[test]
fn by_72_a_full_group_is_walked_at_the_most_relaxed_priority() {
    for model in KernelModel::ALL {
        let workload = Workload::from_accesses("test", (0..100).map(load)).unwrap();
        let setup = Setup::with_memory(1000);
        let engine = MultiGen::new(Config::of(*model)).unwrap();
        let mut machine = Machine::new(Box::new(engine), &workload, &setup).unwrap();
        for (request, at) in workload.requests().iter().zip(0..) {
            machine.request(*request, at).unwrap();
        }
        let group = machine.groups.only().unwrap();
        let nr_walks = |machine: &Machine<'_, MultiGen>| {
            let stats = machine.policy.stats(group).unwrap();
            stats.nr_ageing_runs
        };
        // All hot, by any kernel: then the older generations are dropped one by one.
        for slot in 0..machine.layout.nr_slots() {
            let folio = machine.memory.folio(slot).unwrap();
            machine.policy.accessed(folio, AccessVia::PageTable);
            machine.policy.accessed(folio, AccessVia::PageTable);
        }
        while machine.policy.ageing(group, Swappiness::DEFAULT).unwrap() != Ageing::Due {
            machine.take_batch(group, 12).unwrap();
        }
        assert_eq!(machine.nr_pages, [0, 100], "{model}");
        let before = nr_walks(&machine);
        machine.shrink(group, 12, 32).unwrap();
        let is_walked = nr_walks(&machine) > before;
        assert_eq!(is_walked, *model == KernelModel::V7_2, "{model}");
    }
}

#[test]
fn min_ttl_group_by_group_spares_a_group_that_another_ones_scan_would_cut_into() {
    // 800 mapped pages round and round in 200 ms, and beside them a page a millisecond read once.
    let of_hot = |at: u64| Access {
        time_us: 250 * at,
        ..store(at % 800)
    };
    let of_scan = |at: u64| Access {
        time_us: 1000 * at,
        group: 1,
        ..read(at)
    };
    let hot = (0..40_000).map(of_hot);
    let mut accesses: Vec<Access> = hot.chain((0..10_000).map(of_scan)).collect();
    accesses.sort_by_key(|access| access.time_us);
    let workload = Workload::from_accesses("hot and scan", accesses).unwrap();
    let nr_hot_misses = |policy: &str| {
        let policy: PolicySpec = policy.parse().unwrap();
        let setup = Setup {
            groups: specs(&["hot", "scan"]),
            ..Setup::with_memory(1000)
        };
        let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
        outcome.reclaim.unwrap().groups[0].nr_misses
    };
    for (model, percent) in [("v6.1", 90), ("v6.14", 98)] {
        let [off, kernels, ours] = ["", "+min-ttl=100", "+min-ttl-each=100"]
            .map(|option| nr_hot_misses(&format!("mglru:{model}{option}")));
        // What the scan has read is older than 100 ms soon, so the kernel's keeps nothing.
        assert_eq!(kernels, off, "{model}");
        assert!(ours * 100 < off * percent, "{model}: {ours} of {off}");
    }
}

#[test]
fn mappings_are_looked_up_of_mapped_pages_alone_and_lists_make_active_what_is_read_again() {
    for policy in policies() {
        let of = |via: fn(u64) -> Access| {
            let accesses = (0..20_000).map(|at| via(at * at % 3001)).collect();
            *replay(&policy, accesses, 600).reclaim.unwrap()
        };
        let (mapped, unmapped) = (of(load), of(read));
        // Each page that went was unmapped, after it was asked for once.
        assert!(
            mapped.nr_rmap_walks >= 2 * mapped.nr_stolen[1],
            "{policy:?}"
        );
        assert_eq!(unmapped.nr_rmap_walks, 0, "{policy:?}");
        let has_lists = matches!(policy, KernelPolicy::TwoList(_));
        assert_eq!(unmapped.nr_activated_by_access > 0, has_lists, "{policy:?}");
        assert_eq!(unmapped.nr_checked > 0, has_lists, "{policy:?}");
        assert_eq!(mapped.nr_activated_by_access, 0, "{policy:?}");
        assert_eq!(mapped.nr_ptes_young > 0, !has_lists, "{policy:?}");
    }
}
