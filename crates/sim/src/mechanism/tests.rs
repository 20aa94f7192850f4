//! The mechanism's promises, on small traces and with every policy that is played.

use proptest::prelude::*;
use strata_lru::{Ageing, Config, KernelModel, Swappiness};
use strata_trace::{Access, Freed, FreedPages, Generator, PageKey};

use super::*;
use crate::{
    baseline::Baseline, groups::GroupSpec, outcome::GroupCounts, simulate::NoProgress,
    spec::PolicySpec, workload::WorkloadBuilder,
};

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
fn what_fits_is_missed_once_a_page() {
    for policy in policies() {
        let accesses = (0..10).flat_map(|_| (0..100).flat_map(|page| [read(page), store(page)]));
        let outcome = replay(&policy, accesses.collect(), 200);
        assert_eq!((outcome.nr_misses, outcome.nr_accesses), (200, 2000));
        assert_eq!(outcome.reclaim.unwrap().nr_stolen, [0, 0]);
    }
}

#[test]
fn a_page_that_was_only_read_is_mapped_by_a_fault_that_is_no_miss() {
    for policy in policies() {
        let outcome = replay(&policy, vec![read(1), load(1), load(1), read(1)], 10);
        assert_eq!(outcome.nr_misses, 1);
    }
}

#[test]
fn accessed_pages_outlive_idle_ones() {
    // 2000 pages are loaded all the time, 20,000 once.
    let rounds = (0..40).flat_map(|round| {
        let once = (0..500).map(move |page| load(4096 + 500 * round + page));
        (0..2000).map(load).chain(once)
    });
    let workload = Workload::from_accesses("test", rounds).unwrap();
    let setup = Setup::with_memory(4096);
    let nr_read_back = |policy: &dyn Simulate| {
        let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
        outcome.nr_misses - 22_000
    };
    let fifo = nr_read_back(&Baseline::Fifo);
    for policy in policies() {
        let kept = nr_read_back(&policy);
        assert!(
            kept * 2 < fifo,
            "{policy:?}: {kept}, first in, first out: {fifo}"
        );
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

/// Two groups of 3000 pages each, in memory for 4000: whoever is protected keeps all of its pages.
#[test]
fn a_protected_group_keeps_its_pages_and_the_other_pays() {
    let of_group = |group: u16, access: Access| Access {
        key: PageKey {
            space: u32::from(group),
            ..access.key
        },
        group,
        ..access
    };
    let turn = |page| [of_group(0, load(page)), of_group(1, load(page))];
    let accesses = (0..10).flat_map(|_| (0..3000).flat_map(turn));
    let workload = Workload::from_accesses("test", accesses).unwrap();
    for policy in policies() {
        let misses = |groups: &[&str]| {
            let setup = Setup {
                groups: specs(groups),
                ..Setup::with_memory(4000)
            };
            let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
            let reclaim = outcome.reclaim.unwrap();
            let nr_stolen: u64 = reclaim.nr_stolen.iter().sum();
            let last = reclaim.samples.last().unwrap();
            let nr_held: u64 = last.generations.iter().flat_map(|of| of.nr_pages).sum();
            assert_eq!(outcome.nr_misses - nr_stolen, nr_held, "{policy:?}");
            assert!(nr_held <= 4000);
            outcome.nr_misses
        };
        // Group 0 misses each page once; group 1 has 1000 pages of memory for a loop of 3000.
        let with = misses(&["a:min=3000", "b"]);
        assert!((6000..=33_500).contains(&with), "{policy:?}: {with}");
        assert!(with < misses(&["a", "b"]), "{policy:?}");
    }
}

#[test]
fn a_group_never_has_more_than_its_own_limit() {
    let accesses = (0..4).flat_map(|_| (0..2000).map(load));
    let workload = Workload::from_accesses("test", accesses).unwrap();
    for policy in policies() {
        let setup = Setup {
            groups: specs(&["a:max=1500"]),
            ..Setup::with_memory(4000)
        };
        let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
        let nr_stolen: u64 = outcome.reclaim.unwrap().nr_stolen.iter().sum();
        assert!(
            nr_stolen > 0 && outcome.nr_misses - nr_stolen <= 1500,
            "{policy:?}"
        );
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

#[test]
fn a_group_above_high_is_brought_down_and_may_stand_above_it() {
    for policy in ["mglru", "two-list"] {
        let counts = grouped(THREE, policy, &["a:high=1000", "b", "c"], 9000);
        assert!(counts[0].events.nr_high > 0 && counts[0].nr_held <= 1032);
        assert!(counts[1].nr_stolen == [0, 0], "{policy}: {counts:?}");
    }
}

#[test]
fn sparing_is_for_whom_it_was_asked_and_nothing_where_there_is_one_group() {
    let with = |order: &str, trace, groups: &[&str], background: Option<&str>| {
        let setup = Setup {
            groups: specs(groups),
            background: background.map(|of| of.parse().unwrap()),
            ..Setup::with_memory(3000)
        };
        outcome_of(trace, &format!("mglru:v2022+group_order={order}"), &setup)
    };
    let one = "gen:mixed,anon=1500,file=3000,accesses=40000";
    for background in [None, Some("2%")] {
        let off = with("rounds", one, &["a"], background);
        assert_eq!(off, with("rounds-sparing", one, &["a"], background));
        assert_eq!(off, with("rounds-sparing-both", one, &["a"], background));
    }
    let three = |order, background| with(order, THREE, &["a", "b", "c"], background);
    let direct = |order| three(order, None);
    assert!(direct("rounds") == direct("rounds-sparing"));
    assert!(direct("rounds") != direct("rounds-sparing-both"));
    let background = |order| three(order, Some("2%"));
    let (off, spared) = (background("rounds"), background("rounds-sparing"));
    // Ageing runs and pages swapped out are told for both.
    let of = |reclaim: &Reclaim| (reclaim.nr_stolen[0], reclaim.nr_ageing_runs);
    assert!(of(&spared) < of(&off), "{:?}, {:?}", of(&spared), of(&off));
}

/// While the first group runs alone there is nobody to spare for; then there is, one page at a time.
#[test]
fn groups_that_run_one_after_another_do_not_starve_whoever_reclaims() {
    let trace = "gen:mixed,anon=2000,file=1000,accesses=40000,groups=3,turn=4000";
    for order in ["rounds", "rounds-sparing", "rounds-sparing-both"] {
        let setup = Setup {
            groups: specs(&["a", "b", "c"]),
            ..Setup::with_memory(3000)
        };
        outcome_of(trace, &format!("mglru:v2022+group_order={order}"), &setup);
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
                replay_checked(engine, Driver::Mechanism, &workload, &setup)
            }
            KernelPolicy::TwoList(config) => {
                let engine = TwoList::new(config.clone()).unwrap();
                replay_checked(engine, Driver::Policy, &workload, &setup)
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
    driver: Driver,
    workload: &Workload,
    setup: &Setup,
) -> Result<(u64, u32), TestCaseError> {
    let mut machine = Machine::new(policy, driver, workload, setup).unwrap();
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
        let mut machine = Machine::new(engine, Driver::Mechanism, &workload, &setup).unwrap();
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
