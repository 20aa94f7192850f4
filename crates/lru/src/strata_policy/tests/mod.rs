//! Stories of the policy of our own, on a mechanism of a few lines.

mod operations;
mod recency;

use super::{Strata, page::Part};
use crate::{
    config::Config,
    folio::Flags,
    ids::{FolioId, GroupId, Kind, NodeId, Order, TimeMs},
    policy::Policy,
    seam::{
        AccessVia, Ageing, Arrival, Cause, EvictBatch, GoneCause, Isolated, ReclaimRequest, Shadow,
        Verdict, by_kind,
    },
    swappiness::Swappiness,
};

/// Pages of one group, read through a descriptor, in so much memory.
struct Memory {
    policy: Strata,
    group: GroupId,
    nr_pages_max: usize,
    kind: Kind,
    resident: Vec<Option<FolioId>>,
    shadows: Vec<Option<Shadow>>,
    page_of: Vec<usize>,
    nr_misses: u64,
}

impl Memory {
    fn new(nr_pages_max: usize, nr_pages: usize) -> Memory {
        let mut policy = Strata::new(Config::default()).unwrap();
        let group = policy.add_group("/test", TimeMs(0)).unwrap();
        Memory {
            policy,
            group,
            nr_pages_max,
            kind: Kind::File,
            resident: vec![None; nr_pages],
            shadows: vec![None; nr_pages],
            page_of: Vec::new(),
            nr_misses: 0,
        }
    }

    fn nr_resident(&self) -> usize {
        self.policy.nr_folios() as usize
    }

    fn evict_one(&mut self) {
        let mut batch = EvictBatch::default();
        let request = ReclaimRequest::new(self.group, 1);
        let end = self.policy.isolate(request, TimeMs(0), &mut batch).unwrap();
        assert_eq!(end, Isolated::Pages(1));
        self.policy.complete(&mut batch, &[Verdict::Evicted]);
        let page = self.page_of[batch.folios[0].index()];
        self.resident[page] = None;
        self.shadows[page] = batch.shadows[0];
    }

    fn read(&mut self, page: usize) {
        if self.resident[page].is_none() {
            self.nr_misses += 1;
            if self.nr_resident() == self.nr_pages_max {
                self.evict_one();
            }
            let arrival = Arrival {
                group: self.group,
                node: NodeId(0),
                kind: self.kind,
                order: Order::BASE,
                cause: Cause::Read,
                shadow: self.shadows[page].take(),
                is_exec: false,
            };
            let folio = self.policy.appeared(arrival).unwrap();
            self.resident[page] = Some(folio);
            self.page_of
                .resize(self.page_of.len().max(folio.index() + 1), 0);
            self.page_of[folio.index()] = page;
        }
        let folio = self.resident[page].unwrap();
        self.policy.accessed(folio, AccessVia::FileDescriptor);
    }

    fn read_all(&mut self, pages: impl IntoIterator<Item = usize>) -> u64 {
        let before = self.nr_misses;
        pages.into_iter().for_each(|page| self.read(page));
        self.policy.validate().unwrap();
        self.nr_misses - before
    }

    fn flags(&self, page: usize) -> Flags {
        self.policy.flags(self.resident[page].unwrap())
    }

    fn nr_trial_pages(&self) -> u64 {
        self.policy.nr_trial_pages(self.group).unwrap()
    }
}

#[test]
fn a_further_access_that_comes_later_than_the_coldest_has_waited_proves_nothing() {
    let mut memory = Memory::new(100, 200);
    memory.read_all(0..101);
    // Everything proven is read after the page was, the coldest last.
    memory.read_all((0..75).rev());
    memory.read(90);
    assert!(!memory.flags(90).is_workingset());
}

/// Numbers that look random and are the same every time.
fn scrambled(nr: u64) -> impl Iterator<Item = usize> {
    (0..nr).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize)
}

#[test]
fn a_loop_somewhat_larger_than_memory_mostly_stays() {
    let mut memory = Memory::new(1000, 1200);
    memory.read_all(0..1200);
    let nr_misses = memory.read_all((0..10).flat_map(|_| 0..1200));
    // The least recently used page is always the next one: that order misses all 12000.
    assert!(nr_misses < 12_000 * 3 / 10, "{nr_misses} misses");
}

#[test]
fn a_scan_does_not_displace_what_is_in_use() {
    let mut memory = Memory::new(1000, 20_000);
    memory.read_all((0..20).flat_map(|_| 0..700));
    memory.read_all(1000..20_000);
    let nr_misses = memory.read_all(0..700);
    assert!(nr_misses < 70, "{nr_misses} of 700 were displaced");
}

#[test]
fn a_return_sooner_than_the_coldest_has_waited_is_proven() {
    let mut memory = Memory::new(100, 400);
    memory.read_all(0..100);
    // Page 200 leaves the trial, and comes back while nothing proven has been read.
    memory.read_all([200]);
    memory.read_all(300..330);
    assert!(memory.resident[200].is_none());
    memory.read_all([200]);
    assert_eq!(memory.flags(200).part(), Some(Part::Proven));
}

#[test]
fn what_left_a_memory_ago_is_forgotten() {
    let mut memory = Memory::new(100, 1000);
    memory.read_all(0..100);
    memory.read_all([200]);
    memory.read_all(300..500);
    memory.read_all([200]);
    assert_eq!(memory.flags(200).part(), Some(Part::Trial));
    let stats = memory.policy.stats(memory.group).unwrap();
    assert_eq!(by_kind(stats.nr_refaulted_pages), [0, 1]);
    assert_eq!(by_kind(stats.nr_refaulted_recent_pages), [0, 0]);
}

#[test]
fn an_access_moves_no_folio() {
    let mut memory = Memory::new(100, 200);
    memory.read_all(0..120);
    let order = |memory: &Memory| {
        let mut order = Vec::new();
        for part in Part::ALL {
            let list = memory.policy.books.lruvecs[0].list(part);
            let seen =
                memory
                    .policy
                    .books
                    .lists
                    .visit(&memory.policy.books.folios, list, |folio| {
                        order.push(folio);
                        Ok(())
                    });
            seen.unwrap();
        }
        order
    };
    let before = order(&memory);
    for page in (0..120).rev() {
        if memory.resident[page].is_some() {
            memory.read(page);
        }
    }
    assert_eq!(order(&memory), before);
}

#[test]
fn the_first_access_after_an_arrival_is_the_arrival_itself() {
    let mut memory = Memory::new(10, 10);
    memory.read(0);
    assert_eq!(memory.flags(0).refs_field(), 0);
    (0..9).for_each(|_| memory.read(0));
    assert_eq!(memory.flags(0).refs_field(), 3);
}

#[test]
fn a_change_of_phase_makes_the_trial_longer() {
    let mut memory = Memory::new(1000, 6000);
    // Small numbers more often than large ones.
    let skewed = |n: usize, base: usize| base + n % (1 + n / 3000 % 3000);
    memory.read_all(scrambled(100_000).map(|n| skewed(n, 0)));
    let before = memory.nr_trial_pages();
    memory.read_all(scrambled(3000).map(|n| skewed(n, 3000)));
    let after = memory.nr_trial_pages();
    assert!(
        after > before * 5 / 4,
        "{before} pages before, {after} after"
    );
}

/// Misses of so many phases of a thousand pages, of which small numbers come up more often.
fn misses_of_phases(mut memory: Memory, nr_phases: usize) -> u64 {
    let skewed = |n: usize, base: usize| base + n % (1 + n / 3000 % 1000);
    let phases =
        (0..nr_phases).flat_map(|phase| scrambled(50_000).map(move |n| skewed(n, phase * 1000)));
    memory.read_all(phases)
}

/// A memory for so many phases in which something has come back before.
fn with_returns(nr_pages_max: usize, nr_phases: usize) -> Memory {
    let mut memory = Memory::new(nr_pages_max, nr_phases * 1000);
    memory.policy.books.lruvecs[0].recency.note_returned();
    memory
}

#[test]
fn phases_that_each_fit_are_changed_for_little_more_than_their_first_accesses() {
    let nr_misses = misses_of_phases(with_returns(1400, 6), 6);
    assert!(
        nr_misses < 6000 * 11 / 10,
        "{nr_misses} misses of 6000 pages"
    );
}

#[test]
fn the_coldest_has_waited_as_long_as_the_mean_says_whoever_is_next_to_go() {
    let mut memory = Memory::new(100, 200);
    memory.read_all(0..100);
    // Of the proven the next to go alone is in use.
    memory.read_all([0; 1000]);
    let coldest_age = memory.policy.coldest_age(0);
    assert!(coldest_age > 1000, "{coldest_age}");
}

#[test]
fn nobody_is_proven_by_an_age_that_the_coldest_need_not_have() {
    let mut memory = Memory::new(100, 200);
    memory.read_all(0..100);
    memory.read_all([0; 1000]);
    let certain = memory.policy.coldest_for_certain(0);
    let presumed = memory.policy.coldest_age(0);
    assert!(
        certain < presumed,
        "{certain} for certain, {presumed} presumed"
    );
}

#[test]
fn a_memory_that_has_only_just_filled_does_not_take_a_young_page_for_the_coldest() {
    let nr_misses = misses_of_phases(with_returns(1100, 2), 2);
    assert!(
        nr_misses < 2000 * 105 / 100,
        "{nr_misses} misses of 2000 pages"
    );
}

#[test]
fn a_loop_leaves_the_trial_short() {
    let mut memory = Memory::new(1000, 1200);
    memory.read_all((0..20).flat_map(|_| 0..1200));
    assert!(memory.nr_trial_pages() <= 20, "{}", memory.nr_trial_pages());
}

#[test]
fn the_ends_of_swappiness_spare_a_kind_whatever_its_use() {
    for (value, taken) in [(0, Kind::File), (201, Kind::Anon)] {
        let mut memory = Memory::new(100, 100);
        for page in 0..100 {
            memory.kind = Kind::ALL[page % 2];
            memory.read(page);
        }
        let mut batch = EvictBatch::default();
        let request = ReclaimRequest {
            swappiness: Swappiness::try_new(value).unwrap(),
            ..ReclaimRequest::new(memory.group, 100)
        };
        let end = memory
            .policy
            .isolate(request, TimeMs(0), &mut batch)
            .unwrap();
        assert_eq!(end, Isolated::Pages(50));
        let kinds = batch.folios.iter().map(|folio| memory.policy.kind(*folio));
        assert!(kinds.into_iter().all(|kind| kind == taken));
        memory.policy.complete(&mut batch, &[Verdict::NotTried; 50]);
        memory.policy.validate().unwrap();
    }
}

#[test]
fn a_page_found_accessed_when_it_should_go_stays() {
    let mut memory = Memory::new(10, 20);
    memory.read_all(0..10);
    let mut batch = EvictBatch::default();
    let request = ReclaimRequest::new(memory.group, 2);
    memory
        .policy
        .isolate(request, TimeMs(0), &mut batch)
        .unwrap();
    let tried = batch.folios.clone();
    memory
        .policy
        .complete(&mut batch, &[Verdict::Referenced, Verdict::Evicted]);
    assert_eq!((batch.shadows[0], batch.shadows[1].is_some()), (None, true));
    assert!(memory.policy.is_proven(tried[0]).is_some());
    let stats = memory.policy.stats(memory.group).unwrap();
    assert_eq!((stats.nr_isolated_pages, stats.nr_young_pages), (2, 1));
    assert_eq!(stats.nr_evicted_pages, [0, 1]);
    assert_eq!(stats.nr_rejected_pages, [1, 0, 0, 0, 0, 0, 0]);
    memory.policy.validate().unwrap();
}

#[test]
fn a_folio_that_is_gone_while_isolated_keeps_its_id_until_the_batch_is_completed() {
    let mut memory = Memory::new(10, 20);
    memory.read_all(0..10);
    let mut batch = EvictBatch::default();
    let request = ReclaimRequest::new(memory.group, 1);
    memory
        .policy
        .isolate(request, TimeMs(0), &mut batch)
        .unwrap();
    assert_eq!(memory.policy.gone(batch.folios[0], GoneCause::Freed), None);
    assert_eq!(memory.nr_resident(), 10);
    memory.policy.complete(&mut batch, &[Verdict::Evicted]);
    assert_eq!((batch.shadows[0], memory.nr_resident()), (None, 9));
    memory.policy.validate().unwrap();
}

#[test]
fn a_folio_costs_sixteen_bytes() {
    let mut memory = Memory::new(100_000, 100_000);
    memory.read_all(0..100_000);
    let nr_bytes = memory.policy.memory_bytes();
    assert!(nr_bytes < 100_000 * 18 + 10_000, "{nr_bytes} bytes");
}

#[test]
fn each_node_learns_from_what_goes_down_and_what_comes_up() {
    use crate::tiering::Movable;

    let mut policy = Strata::new(Config::default()).unwrap();
    let group = policy.add_group("/test", TimeMs(0)).unwrap();
    let (fast, slow) = (NodeId(0), NodeId(1));
    policy.add_node(group, slow).unwrap();
    for _ in 0..8 {
        policy
            .appeared(Arrival {
                group,
                node: fast,
                kind: Kind::Anon,
                order: Order::BASE,
                cause: Cause::Fault,
                shadow: None,
                is_exec: false,
            })
            .unwrap();
    }
    let mut batch = EvictBatch::default();
    policy
        .isolate(ReclaimRequest::new(group, 1), TimeMs(0), &mut batch)
        .unwrap();
    let folio = batch.folios[0];
    let was_proven = policy.flags(folio).is_workingset();
    assert!(!policy.books.lruvecs[0].has_overflowed());
    assert!(policy.demoted(folio, slow));
    policy.validate().unwrap();
    assert!(
        policy.books.lruvecs[0].has_overflowed(),
        "it left the fast node"
    );
    assert_eq!((policy.node(folio), policy.age(folio)), (slow, 0));

    assert!(policy.begin_move(folio) && !policy.begin_move(folio));
    assert!(policy.end_move(folio, None, false), "there was no room");
    assert!(!policy.books.lruvecs[0].recency.has_any_returned());
    assert!(policy.begin_move(folio) && policy.end_move(folio, Some(fast), true));
    policy.validate().unwrap();
    assert!(
        policy.books.lruvecs[0].recency.has_any_returned(),
        "it is back"
    );
    assert_eq!(policy.node(folio), fast);
    assert_eq!(policy.is_proven(folio), Some(was_proven));
}
