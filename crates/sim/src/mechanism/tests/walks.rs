//! What walks ask about and read: spaces that have run, tables in use.

use super::*;

/// Generations of a kernel that have played all of a workload, and their only group.
fn played<'w>(
    model: KernelModel,
    workload: &'w Workload,
    setup: &'w Setup,
) -> (Machine<'w, MultiGen>, GroupId) {
    let policy = MultiGen::new(Config::of(model)).unwrap();
    let mut machine = Machine::new(Box::new(policy), workload, setup).unwrap();
    let group = machine.groups.only().unwrap();
    for (number, request) in workload.requests().iter().enumerate() {
        machine.request(*request, number).unwrap();
    }
    (machine, group)
}

/// Ten spaces of so many pages, all in use once; ten walks, before each of which the first `nr_awake` are used
/// again. What these walks asked about.
fn walk_ten_spaces(model: KernelModel, nr_pages: u64, nr_awake: u32) -> WalkStats {
    let of = |space, page| access(space, page, Backing::Anon, Via::PageTable, Op::Read);
    let of_all = (0..10).flat_map(|space| (0..nr_pages).map(move |page| of(space, page)));
    let workload = Workload::from_accesses("ten spaces", of_all).unwrap();
    let setup = Setup::with_memory(workload.nr_pages());
    let (mut machine, group) = played(model, &workload, &setup);
    let requests = workload.requests();
    // New spaces are always walked. What follows is no fault of the last one.
    machine.walk(group, None, Swappiness::DEFAULT).unwrap();
    machine.spaces.faults(0, Cause::Fault);
    let before = machine.policy.walk_stats(group).unwrap();
    for _ in 0..10 {
        for request in &requests[..nr_awake as usize * nr_pages as usize] {
            machine.request(*request, 0).unwrap();
        }
        machine.walk(group, None, Swappiness::DEFAULT).unwrap();
    }
    let mut stats = machine.policy.walk_stats(group).unwrap();
    stats.nr_tables_seen -= before.nr_tables_seen;
    stats
}

#[test]
fn of_ten_spaces_of_which_nine_sleep_walks_ask_about_the_tables_of_one() {
    for model in KernelModel::ALL {
        let all = walk_ten_spaces(*model, 2048, 10).nr_tables_seen;
        let one = walk_ten_spaces(*model, 2048, 1).nr_tables_seen;
        assert_eq!((all, one), (400, 40), "{model}");
    }
}

#[test]
fn up_to_613_spaces_that_map_fewer_than_64_pages_are_passed_over() {
    for model in KernelModel::ALL {
        let passes_over = !matches!(model, KernelModel::V6_14 | KernelModel::V7_2);
        let [small, large] =
            [63, 64].map(|nr_pages| walk_ten_spaces(*model, nr_pages, 10).nr_tables_seen);
        assert_eq!(small == 0, passes_over, "{model}");
        assert!(large > 0, "{model}");
    }
}

/// Entries read by each of ten walks, before each of which all of `nr_hot` pages in a row are used, of so many mapped.
fn entries_a_walk(model: KernelModel, nr_hot: u64, nr_mapped: u64) -> Vec<u64> {
    let workload = Workload::from_accesses("hot", (0..nr_mapped).map(load)).unwrap();
    let setup = Setup::with_memory(workload.nr_pages());
    let (mut machine, group) = played(model, &workload, &setup);
    let requests = workload.requests();
    let mut nr_entries_before = 0;
    let walks = (0..12).map(|_| {
        for request in &requests[..nr_hot as usize] {
            machine.request(*request, 0).unwrap();
        }
        machine.walk(group, None, Swappiness::DEFAULT).unwrap();
        let nr_entries = machine.policy.walk_stats(group).unwrap().nr_entries_visited;
        nr_entries - std::mem::replace(&mut nr_entries_before, nr_entries)
    });
    // The first walk is of a new space and asks no filter; the second visits what was dense then.
    walks.skip(2).collect()
}

#[test]
fn a_walk_reads_as_much_as_is_hot_however_much_is_mapped() {
    for model in KernelModel::ALL {
        let of = |nr_mapped| entries_a_walk(*model, 2000, nr_mapped);
        let (few, many) = (of(20_000), of(80_000));
        assert_eq!(few, many, "{model}");
        // The four tables that hold them.
        assert!(
            few.iter().all(|nr_entries| *nr_entries == 2048),
            "{model}: {few:?}"
        );
        // Less is hot, less is read.
        let less = entries_a_walk(*model, 1000, 80_000);
        assert!(
            less.iter().all(|nr_entries| *nr_entries == 1024),
            "{model}: {less:?}"
        );
    }
}
