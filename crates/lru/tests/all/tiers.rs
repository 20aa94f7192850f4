//! What tiers are for: pages read through descriptors are told apart by how often, without taking the
//! place of pages that are hot through page tables.
//!
//! A small mechanism over vectors of pages, and generators with fixed seeds.

use std::collections::BTreeMap;

use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GroupId, Isolated, KernelModel, Kind,
    MultiGen, NodeId, Order, Policy, ReclaimRequest, Rule, Rules, Shadow, TimeMs, Verdict,
};

/// Pages of a batch, as the kernel reclaims.
const NR_BATCH_PAGES: u64 = 32;

struct Memory {
    engine: MultiGen,
    group: GroupId,
    nr_pages_max: u32,
    folios: Vec<Option<FolioId>>,
    shadows: Vec<Option<Shadow>>,
    /// By page: the accessed bit of its page-table entry.
    accessed: Vec<bool>,
    /// By folio.
    pages: Vec<usize>,
    batch: EvictBatch,
    nr_misses: u64,
    /// Stands in for a clock.
    nr_walks: u64,
}

impl Memory {
    fn new(rules: Rules, nr_pages_max: u32, nr_pages: usize) -> Memory {
        let config = Config {
            rules,
            ..Config::default()
        };
        let mut engine = MultiGen::new(config).expect("the configuration is valid");
        let group = engine
            .add_group("/tiers", TimeMs(0))
            .expect("one group fits");
        Memory {
            engine,
            group,
            nr_pages_max,
            folios: vec![None; nr_pages],
            shadows: vec![None; nr_pages],
            accessed: vec![false; nr_pages],
            pages: Vec::new(),
            batch: EvictBatch::default(),
            nr_misses: 0,
            nr_walks: 0,
        }
    }

    /// Touches a page; whether it was in memory.
    fn touch(&mut self, page: usize, via: AccessVia) -> bool {
        let is_hit = self.folios[page].is_some();
        if !is_hit {
            self.nr_misses += 1;
            self.bring(page, via);
        }
        match (via, self.folios[page]) {
            (AccessVia::FileDescriptor, Some(folio)) => self.engine.accessed(folio, via),
            _ => self.accessed[page] = true,
        }
        while self.engine.nr_folios() > self.nr_pages_max {
            self.reclaim();
        }
        is_hit
    }

    fn bring(&mut self, page: usize, via: AccessVia) {
        let arrival = Arrival {
            group: self.group,
            node: NodeId(0),
            kind: Kind::File,
            order: Order::BASE,
            cause: match via {
                AccessVia::PageTable => Cause::Fault,
                AccessVia::FileDescriptor => Cause::Read,
            },
            shadow: self.shadows[page].take(),
            is_exec: false,
        };
        let folio = self.engine.appeared(arrival).expect("there is room");
        self.folios[page] = Some(folio);
        if self.pages.len() <= folio.index() {
            self.pages.resize(folio.index() + 1, 0);
        }
        self.pages[folio.index()] = page;
    }

    fn reclaim(&mut self) {
        let request = ReclaimRequest {
            priority: 11,
            ..ReclaimRequest::new(self.group, NR_BATCH_PAGES)
        };
        let now = TimeMs(self.nr_walks);
        let end = self
            .engine
            .isolate(request, now, &mut self.batch)
            .expect("the group exists");
        let looked_at: Vec<Verdict> = self
            .batch
            .folios
            .iter()
            .map(|folio| {
                let is_young = std::mem::take(&mut self.accessed[self.pages[folio.index()]]);
                if is_young {
                    Verdict::Referenced
                } else {
                    Verdict::Evicted
                }
            })
            .collect();
        self.engine.complete(&mut self.batch, &looked_at);
        for ((folio, verdict), shadow) in self
            .batch
            .folios
            .iter()
            .zip(looked_at)
            .zip(&self.batch.shadows)
        {
            if verdict == Verdict::Evicted {
                let page = self.pages[folio.index()];
                self.folios[page] = None;
                self.shadows[page] = *shadow;
            }
        }
        if end == Isolated::NeedsAgeing {
            self.walk();
        }
    }

    fn walk(&mut self) {
        for (page, folio) in self.folios.iter().enumerate() {
            if let Some(folio) = folio
                && std::mem::take(&mut self.accessed[page])
            {
                self.engine.accessed(*folio, AccessVia::PageTable);
            }
        }
        self.nr_walks += 1;
        let request = ReclaimRequest::new(self.group, 0);
        self.engine
            .finish_walk(self.group, request.swappiness, TimeMs(self.nr_walks))
            .expect("the group exists");
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Ranks from 0, the k-th with a weight of 1 / (k + 1).
struct Zipf {
    cumulative: Vec<u64>,
}

impl Zipf {
    fn new(nr_ranks: u64) -> Zipf {
        let mut sum = 0;
        let weight = |rank| {
            sum += 1_000_000_000 / (rank + 1);
            sum
        };
        Zipf {
            cumulative: (0..nr_ranks).map(weight).collect(),
        }
    }

    fn rank(&self, random: &mut Random) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(1);
        let draw = random.next() % total;
        self.cumulative.partition_point(|below| *below <= draw)
    }
}

/// Four times as many pages as memory holds.
const NR_PAGES: usize = 6000;
const NR_PAGES_MAX: u32 = 1500;
const NR_READS: usize = 300_000;

/// Scatters ranks over pages, differently for each phase.
fn page_of(rank: usize, phase: usize) -> usize {
    (rank * 4001 + phase * 2711) % NR_PAGES
}

/// Misses of `nr_phases` phases of zipf reads through descriptors, each with hot pages of its own.
fn misses_of_reads(rules: Rules, nr_phases: usize) -> u64 {
    let mut memory = Memory::new(rules, NR_PAGES_MAX, NR_PAGES);
    let (zipf, mut random) = (Zipf::new(NR_PAGES as u64), Random(1));
    for read in 0..NR_READS {
        let phase = read * nr_phases / NR_READS;
        let page = page_of(zipf.rank(&mut random), phase);
        memory.touch(page, AccessVia::FileDescriptor);
    }
    memory.engine.validate().expect("the books are right");
    memory.nr_misses
}

/// The tiers alone: that a full count is spared in any case came later, and with fewer tiers fewer
/// accesses are a full count.
#[test]
fn four_tiers_protect_better_than_two_and_one() {
    for kernel in KernelModel::ALL {
        for nr_phases in [1, 2] {
            let [one, two, four] = [1, 2, 4].map(|nr_tiers| {
                let mut rules = Rules::from(*kernel).take(Rule::Protection, KernelModel::V2022);
                rules.nr_tiers = nr_tiers;
                misses_of_reads(rules, nr_phases)
            });
            assert!(
                four < two && four < one,
                "{kernel}, {nr_phases} phases: {one}, {two}, {four} misses"
            );
        }
    }
}

/// What the least recently used order would have done with the same touches.
#[derive(Default)]
struct Lru {
    touched_at: BTreeMap<usize, u64>,
    by_time: BTreeMap<u64, usize>,
    now: u64,
}

impl Lru {
    fn touch(&mut self, page: usize) -> bool {
        self.now += 1;
        let before = self.touched_at.insert(page, self.now);
        if let Some(before) = before {
            self.by_time.remove(&before);
        }
        self.by_time.insert(self.now, page);
        if self.touched_at.len() > NR_PAGES_MAX as usize
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.touched_at.remove(&oldest);
        }
        before.is_some()
    }
}

/// Misses of hot mapped pages, in memory and by LRU, beside pages each read eight times in a row, as
/// often as can be counted; `nr_read` of those for each touch of a hot one. The first touches, which
/// bring the hot pages in, do not count.
fn hot_misses(kernel: KernelModel, nr_read: usize) -> (u64, u64, u64) {
    const NR_HOT: u64 = 500;
    const NR_TOUCHES: u64 = 60_000;
    const NR_TOUCHES_FIRST: u64 = 10_000;
    let mut memory = Memory::new(kernel.into(), NR_PAGES_MAX, NR_PAGES);
    let (mut lru, mut random) = (Lru::default(), Random(2));
    let (mut of_memory, mut of_lru) = (0, 0);
    for touch in 0..NR_TOUCHES {
        let page = (random.next() % NR_HOT) as usize;
        let is_counted = touch >= NR_TOUCHES_FIRST;
        let is_hit = memory.touch(page, AccessVia::PageTable);
        of_memory += u64::from(is_counted && !is_hit);
        of_lru += u64::from(is_counted & !lru.touch(page));
        for _ in 0..nr_read {
            let page = (NR_HOT + random.next() % (NR_PAGES as u64 - NR_HOT)) as usize;
            lru.touch(page);
            for _ in 0..8 {
                memory.touch(page, AccessVia::FileDescriptor);
            }
        }
    }
    memory.engine.validate().expect("the books are right");
    (of_memory, of_lru, NR_TOUCHES - NR_TOUCHES_FIRST)
}

/// The claim of the letters of 2021 and 2022, whose kernels spare nothing for a full count.
#[test]
fn pages_hot_through_page_tables_are_not_displaced_by_pages_read_again_and_again() {
    for kernel in [KernelModel::V2021, KernelModel::V2022] {
        let (misses, by_lru, nr_touches) = hot_misses(kernel, 4);
        assert!(
            misses * 100 <= nr_touches,
            "{kernel}: {misses} of {nr_touches}"
        );
        assert!(by_lru * 3 > nr_touches, "LRU too keeps them: {by_lru}");
    }
}

/// Since pages with a full count are spared, and from 6.14 on pages found young twice share the last
/// tier with them, the claim holds with less force: no more is lost than by recency.
#[test]
fn in_every_kernel_pages_hot_through_page_tables_fare_as_well_as_by_recency() {
    for kernel in KernelModel::ALL {
        let (misses, by_lru, _) = hot_misses(*kernel, 1);
        assert!(
            misses * 10 <= by_lru * 11,
            "{kernel}: {misses}, LRU {by_lru}"
        );
    }
}
