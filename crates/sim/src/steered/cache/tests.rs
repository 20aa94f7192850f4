//! Page cache under the loop, in counts: what loops, streams and reads all over a file come to beside the kernel alone, and what
//! holds at every moment.

use proptest::prelude::*;
use strata_lru::{Config as Engine, MultiGen, TwoList};
use strata_trace::{Access, Backing, Generator, Op, PageKey, Via};

use super::*;
use crate::{
    outcome::{Outcome, SteeringCounts},
    simulate::{NoProgress, Setup, Simulate, SteeredSetup},
    spec::PolicySpec,
    steered::world::{BUDGET_PAGES_MIN, World},
    workload::PageId,
};

const KERNELS: [&str; 3] = ["two-list", "mglru", "mglru:v6.1"];
/// 32 MiB.
const MEMORY_PAGES: u32 = 8192;

impl CacheThread {
    /// Recounts: what was dropped is not in memory, and a census finds what the machine has.
    pub(in crate::steered) fn validate<P: PlaysKernel>(
        &self,
        machine: &Machine<'_, P>,
    ) -> Result<(), String> {
        let mut table = IdleTable::new(strata_control::drop_cache::Config::DEFAULT);
        table.begin(TimeMs(0), self.files.all());
        let mut nr_cached = 0;
        for file in self.files.all() {
            for (index, slot) in self.files.pages(file.key) {
                if self.dropped.get(slot) && machine.is_in_memory(slot) {
                    return Err(format!("page {index} of {file:?} is gone and in memory"));
                }
                if let Some(found) = machine.page_found(file.key, index, slot) {
                    nr_cached += u64::from(!found.is_mapped);
                    table.see(found);
                }
            }
        }
        let sample = table.end(machine.nr_reads_max());
        let told_bytes: u64 = sample.files.iter().map(|file| file.cached_bytes).sum();
        match told_bytes == nr_cached * PAGE_BYTES {
            true => Ok(()),
            false => Err(format!("{nr_cached} pages, told {told_bytes} bytes")),
        }
    }
}

fn generated(name: &str) -> Workload {
    let accesses: Generator = name.parse().unwrap();
    Workload::from_accesses(name, accesses).unwrap()
}

fn run(policy: &str, workload: &Workload, steered: Option<SteeredSetup>) -> Outcome {
    let policy: PolicySpec = policy.parse().unwrap();
    let setup = Setup {
        steered,
        ..Setup::with_memory(MEMORY_PAGES)
    };
    policy.run(workload, &setup, &NoProgress).unwrap()
}

fn counts(outcome: &Outcome) -> (SteeringCounts, CacheCounts) {
    let reclaim = outcome.reclaim.as_ref().unwrap();
    let counts = reclaim.steering.as_deref().cloned().unwrap();
    let cache = counts.cache.clone().unwrap();
    (counts, cache)
}

/// Misses beside those of the kernel alone, and what became of page cache.
fn ratio(policy: &str, workload: &Workload) -> (f64, CacheCounts) {
    let alone = run(policy, workload, None).nr_misses;
    let outcome = run(policy, workload, Some(SteeredSetup::default()));
    let ratio = outcome.nr_misses as f64 / alone as f64;
    (ratio, counts(&outcome).1)
}

fn read(space: u32, page: u64) -> Access {
    Access {
        key: PageKey { space, page },
        via: Via::FileDescriptor,
        backing: Backing::File,
        ..Access::default()
    }
}

/// Reads of one file by a Zipf law, and after each fourth a page of another file, read once.
fn zipf_and_stream() -> Workload {
    let zipf: Generator = "gen:zipf,pages=24576,accesses=400000".parse().unwrap();
    let accesses = zipf.zip(0..).flat_map(|(access, at): (Access, u64)| {
        let streamed = (at % 4 == 0).then(|| read(1, at / 4));
        [Some(read(0, access.key.page)), streamed]
            .into_iter()
            .flatten()
    });
    Workload::from_accesses("stream", accesses).unwrap()
}

#[test]
fn a_file_in_a_loop_misses_far_less_than_under_the_kernel_alone() {
    for (load, ratio_max) in [
        ("gen:loop,pages=9830,accesses=137620", 0.5),
        ("gen:loop,pages=12288,accesses=172032", 0.65),
    ] {
        for kernel in KERNELS {
            let (ratio, cache) = ratio(kernel, &generated(load));
            assert!(ratio <= ratio_max, "{kernel} {load}: {ratio}");
            assert!(cache.newcomers_pages > 2 * cache.once_pages);
            assert!(cache.in_again_pages > cache.in_pages / 2);
            assert_eq!((cache.left_pages, cache.lost_pages), (0, 0));
        }
    }
}

#[test]
fn a_stream_goes_first_and_takes_nothing_from_what_is_read_again() {
    let load = zipf_and_stream();
    for kernel in KERNELS {
        let (ratio, cache) = ratio(kernel, &load);
        assert!(ratio <= 1.01, "{kernel}: {ratio}");
        assert!(cache.once_pages > 50_000, "{cache:?}");
        assert!(cache.returned_pages * 20 <= cache.once_pages);
        assert_eq!(cache.again_pages + cache.newcomers_pages, 0);
    }
}

#[test]
fn where_pages_come_back_at_any_distance_hardly_anything_changes() {
    let load = generated("gen:uniform,pages=24576,accesses=200000");
    for kernel in KERNELS {
        let (ratio, cache) = ratio(kernel, &load);
        assert!((0.98..=1.02).contains(&ratio), "{kernel}: {ratio}");
        assert_eq!(cache.newcomers_pages, 0);
        assert!(cache.once_pages * 20 < cache.in_pages, "{cache:?}");
    }
}

#[test]
fn without_pressure_nothing_is_looked_at_and_nothing_is_dropped() {
    let load = generated("gen:loop,pages=6000,accesses=100000");
    for kernel in KERNELS {
        let outcome = run(kernel, &load, Some(SteeredSetup::default()));
        assert_eq!(outcome.nr_misses, 6000);
        let cache = counts(&outcome).1;
        assert_eq!(
            (cache.censuses, cache.in_pages, cache.lost_pages),
            (0, 0, 0)
        );
        assert_eq!(cache.dropped_pages() + cache.left_pages, 0);
    }
}

#[test]
fn where_page_cache_is_left_to_the_kernel_or_there_is_none_nothing_is_told_of_it() {
    let cached = generated("gen:loop,pages=9830,accesses=40000");
    let mapped = generated("gen:loop,pages=9830,accesses=40000,via=mmap");
    for (load, drops_cache) in [(&cached, false), (&mapped, true)] {
        let steered = SteeredSetup {
            drops_cache,
            ..SteeredSetup::default()
        };
        let reclaim = run("two-list", load, Some(steered)).reclaim.unwrap();
        assert_eq!(reclaim.steering.unwrap().cache, None);
    }
}

#[test]
fn a_page_that_comes_back_after_it_was_dropped_counts_as_one_that_was_there_before() {
    let load = generated("gen:loop,pages=9830,accesses=98300");
    for kernel in KERNELS {
        let outcome = run(kernel, &load, Some(SteeredSetup::default()));
        let (counts, cache) = counts(&outcome);
        assert_eq!(counts.nr_refaults, outcome.nr_misses - 9830);
        assert!(cache.returned_pages <= cache.once_pages + cache.again_pages);
        assert!(cache.dropped_pages() > 0);
    }
}

#[test]
fn a_dirty_page_and_a_mapped_one_stay() {
    let write = Access {
        op: Op::Write,
        ..read(0, 0)
    };
    let load = Access {
        via: Via::PageTable,
        ..read(0, 2)
    };
    let workload =
        Workload::from_accesses("test", [write, read(0, 1), read(0, 2), load, read(0, 3)]).unwrap();
    let setup = Setup::with_memory(100);
    let kernel = TwoList::new(Engine::default()).unwrap();
    let mut machine = Machine::new(Box::new(kernel), &workload, &setup).unwrap();
    for (request, position) in workload.requests()[..4].iter().zip(0..) {
        machine.take(*request, position, TimeMs(0)).unwrap();
    }
    let slot = |page| machine.layout().slot(PageId(page));
    let slots = [0, 1, 2, 3].map(slot);
    let gone = slots.map(|slot| machine.drop_page(slot));
    assert_eq!(gone, [false, true, false, false], "3 is not in memory");
    assert_eq!(machine.nr_used_pages(), 2);
    assert!(!machine.is_in_memory(slots[1]));
    assert!(
        !machine.entry(slots[1]).is_swapped,
        "the kernel remembers nothing"
    );
    machine.validate().unwrap();
}

#[test]
fn what_goes_was_written_before() {
    let load = generated("gen:loop,pages=9830,accesses=137620,writes=100");
    for kernel in KERNELS {
        let outcome = run(kernel, &load, Some(SteeredSetup::default()));
        let (_, cache) = counts(&outcome);
        let reclaim = outcome.reclaim.unwrap();
        let nr_gone = reclaim.nr_stolen.iter().sum::<u64>() + cache.dropped_pages();
        assert!(cache.dropped_pages() > 0, "{cache:?}");
        assert!(reclaim.nr_written >= nr_gone, "{kernel}: {nr_gone}");
    }
}

/// Replays in parts, and recounts after each.
fn recount<P: PlaysKernel>(policy: P, workload: &Workload) {
    let setup = Setup::with_memory(BUDGET_PAGES_MIN);
    let steered = SteeredSetup::default();
    let mut world = World::new(policy, true, workload, &setup, &steered).unwrap();
    for first in (0..workload.nr_requests()).step_by(499) {
        let end = (first + 499).min(workload.nr_requests());
        world.replay(first..end).unwrap();
        world.machine.validate().unwrap();
        world.cache.validate(&world.machine).unwrap();
    }
    let nr_resident = u64::from(world.machine.nr_used_pages());
    let outcome = world.finish(&NoProgress).unwrap();
    let nr_dropped = counts(&outcome).1.dropped_pages();
    let nr_stolen: u64 = outcome.reclaim.unwrap().nr_stolen.iter().sum();
    assert_eq!(outcome.nr_misses, nr_resident + nr_stolen + nr_dropped);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn what_came_in_is_there_or_was_evicted_or_dropped(
        parts in prop::collection::vec((0u32..3, 0u64..2000, 50u64..1500, 0u32..10, 1u32..4), 3..25)
    ) {
        let mut accesses = Vec::new();
        for (space, first, nr_pages, kind, times) in parts {
            for _ in 0..times {
                accesses.extend((first..first + nr_pages).map(|page| Access {
                    op: if kind == 0 { Op::Write } else { Op::Read },
                    via: if kind == 1 { Via::PageTable } else { Via::FileDescriptor },
                    ..read(space, page)
                }));
            }
        }
        accesses.push(read(0, 0));
        let workload = Workload::from_accesses("test", accesses).unwrap();
        recount(TwoList::new(Engine::default()).unwrap(), &workload);
        recount(MultiGen::new(Engine::default()).unwrap(), &workload);
    }
}
