//! Pages that are read through descriptors: what tiers are worth to those read several times, and that mapped pages hold their own
//! beside them.

use super::*;
use strata_lru::{Rule, Rules};

/// Rounds of the loads.
const NR_ROUNDS: u64 = 20;
/// Pages of each set of files.
const SET_PAGES: u64 = 1000;
/// Pages that are read side by side, so that two reads of a page do not come one after the other.
const BURST_PAGES: u64 = 8;

fn read_of(space: u32, page: u64) -> Access {
    access(space, page, Backing::File, Via::FileDescriptor, Op::Read)
}

/// Files of which each page is read once, twice or five times a round, and beside them a scan that reads each page once ever.
fn files_beside_a_scan() -> Vec<Access> {
    let mut accesses = Vec::new();
    let mut scanned = 0;
    for _ in 0..NR_ROUNDS {
        for first in (0..SET_PAGES).step_by(BURST_PAGES as usize) {
            for (space, nr_times) in [(1, 1), (2, 2), (3, 5)] {
                let burst = (first..first + BURST_PAGES).map(|page| read_of(space, page));
                accesses.extend((0..nr_times).flat_map(|_| burst.clone()));
            }
            accesses.extend((scanned..scanned + 4 * BURST_PAGES).map(|page| read_of(0, page)));
            scanned += 4 * BURST_PAGES;
        }
    }
    accesses
}

/// Misses in spaces 1 and 2, after the first round of many.
fn misses_by_space(policy: KernelPolicy, accesses: &[Access], memory_pages: u32) -> [u64; 2] {
    let workload = Workload::from_accesses("test", accesses.iter().copied()).unwrap();
    let setup = Setup::with_memory(memory_pages);
    match policy {
        KernelPolicy::MultiGen(config) => {
            let policy = MultiGen::new(config).unwrap();
            let machine = Machine::new(Box::new(policy), &workload, &setup);
            count_misses(machine.unwrap(), &workload)
        }
        KernelPolicy::TwoList(config) => {
            let policy = TwoList::new(config).unwrap();
            let machine = Machine::new(Box::new(policy), &workload, &setup);
            count_misses(machine.unwrap(), &workload)
        }
    }
}

fn count_misses<P: Policy>(mut machine: Machine<'_, P>, workload: &Workload) -> [u64; 2] {
    let mut misses = [0; 2];
    let warm = workload.nr_requests() / NR_ROUNDS as u32;
    for (request, position) in workload.requests().iter().zip(0_u32..) {
        let now = TimeMs(u64::from(position) / 1000);
        if !machine.is_in_memory(machine.layout().slot(request.page())) {
            machine.make_room_now(now).unwrap();
            let space = workload.page(request.page()).key.space as usize;
            misses[space - 1] += u64::from(position >= warm);
        }
        machine.take(*request, position as usize, now).unwrap();
    }
    misses
}

#[test]
fn tiers_keep_what_is_read_several_times_beside_a_scan() {
    let accesses = files_beside_a_scan();
    for model in KernelModel::ALL {
        let misses = |nr_tiers| misses_with(Rules::from(*model), nr_tiers, &accesses, 2000);
        // 1.21 times up to 2022, 1.15 in 6.1, 1.19 from 6.14 on.
        let (with_tiers, without) = (misses(4), misses(1));
        let least = with_tiers + with_tiers / 10;
        assert!(without >= least, "{model:?}: {without}, {with_tiers}");
    }
}

fn misses_with(mut rules: Rules, nr_tiers: u8, accesses: &[Access], memory_pages: u32) -> u64 {
    rules.nr_tiers = nr_tiers;
    let config = Config {
        rules,
        ..Config::default()
    };
    let policy = KernelPolicy::MultiGen(config);
    replay(&policy, accesses.to_vec(), memory_pages).nr_misses
}

/// The tiers alone: that a full count is spared in any case came later, and with fewer tiers fewer accesses are a full count.
#[test]
fn four_tiers_protect_better_than_two_and_one() {
    let zipf: Generator = "gen:zipf,pages=6000,accesses=300000".parse().unwrap();
    let accesses: Vec<Access> = zipf.collect();
    for model in [KernelModel::V2021, KernelModel::V2022, KernelModel::V6_1] {
        let rules = Rules::from(model).take(Rule::Protection, KernelModel::V2022);
        let [one, two, four] =
            [1, 2, 4].map(|nr_tiers| misses_with(rules, nr_tiers, &accesses, 1500));
        assert!(four < two && two < one, "{model:?}: {one}, {two}, {four}");
    }
}

/// Of 1000 pages a program has mapped each is used more than twice a round. Of a file of 3000 pages each is read once a round, or
/// several times. Memory has 3000 pages.
#[test]
fn a_page_used_through_a_mapping_is_not_displaced_by_what_is_read_again_and_again() {
    let models = KernelModel::ALL.iter();
    let kernels = models.map(|model| KernelPolicy::MultiGen(Config::of(*model)));
    let kernels: Vec<KernelPolicy> = kernels
        .chain([KernelPolicy::TwoList(Config::default())])
        .collect();
    for nr_reads in [1, 2, 5] {
        let mut accesses = Vec::new();
        let nr_bursts = 3 * SET_PAGES / BURST_PAGES;
        let nr_mapped = 6;
        for _ in 0..NR_ROUNDS {
            for number in 0..nr_bursts {
                let first = number * BURST_PAGES;
                let burst = (first..first + BURST_PAGES).map(|page| read_of(2, page));
                accesses.extend((0..nr_reads).flat_map(|_| burst.clone()));
                let used = number * nr_mapped..(number + 1) * nr_mapped;
                let load =
                    |page| access(1, page % SET_PAGES, Backing::File, Via::PageTable, Op::Read);
                accesses.extend(used.map(load));
            }
        }
        let nr_used = (NR_ROUNDS - 1) * nr_bursts * nr_mapped;
        for kernel in &kernels {
            let [mapped, read] = misses_by_space(kernel.clone(), &accesses, 3000);
            assert!(read >= 2 * mapped, "{kernel:?}: {mapped}, {read}");
            let percent = mapped * 100 / nr_used;
            // The classic lists make a page active that was read twice, and keep it as long as one that is mapped.
            let percent_max = match (kernel, nr_reads) {
                (_, 1) | (KernelPolicy::MultiGen(_), 2) => 0,
                (KernelPolicy::MultiGen(_), _) => 12,
                _ => 40,
            };
            assert!(
                percent <= percent_max,
                "{nr_reads}, {kernel:?}: {percent} %"
            );
        }
    }
}
