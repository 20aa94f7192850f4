//! The engine's operations one by one, for counting instructions.
//!
//! ```text
//! engine_op POLICY OPERATION COUNT    POLICY: multi-gen or two-list, and +distance or +distance=always
//!                                      OPERATION: read, touch, promote, appear, evict or refault
//! ```
//!
//! `scripts/bench/engine_ops.sh` runs it under callgrind twice and takes the difference, so that
//! everything that does not depend on COUNT falls out.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GoneCause, GroupId, Isolated, Kind,
    MultiGen, NodeId, Order, Policy, ReclaimRequest, Refault, Shadow, Swappiness, TimeMs, TwoList,
    Verdict,
};

/// Folios in memory before the operations begin.
const NR_FOLIOS: usize = 1 << 16;

/// The most operations: as many folios are evicted before any is refaulted.
const COUNT_MAX: usize = NR_FOLIOS / 2;

/// Base pages of a batch, the kernel's `SWAP_CLUSTER_MAX`.
const BATCH_PAGES: u64 = 32;

type Failure = Box<dyn std::error::Error>;

/// An engine with folios in it.
struct Bench {
    policy: Box<dyn Policy>,
    group: GroupId,
    folios: Vec<FolioId>,
    batch: EvictBatch,
    verdicts: Vec<Verdict>,
    shadows: Vec<Shadow>,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: engine_op POLICY OPERATION COUNT";
    let name = arguments.next().ok_or(usage)?;
    let operation = arguments.next().ok_or(usage)?;
    let count: usize = arguments.next().ok_or(usage)?.parse()?;
    if count > COUNT_MAX {
        return Err(format!("{count} operations: at most {COUNT_MAX}").into());
    }
    let mut bench = Bench::new(policy(&name)?)?;
    match operation.as_str() {
        "read" => bench.access(AccessVia::FileDescriptor, count),
        "touch" => bench.access(AccessVia::PageTable, count),
        "promote" => {
            // The first walk finds what the fault has set, the second what was used since.
            bench.access(AccessVia::PageTable, NR_FOLIOS);
            bench.age()?;
            bench.access(AccessVia::PageTable, count);
        }
        "appear" => {
            bench.free_half();
            bench.appear(count)?;
        }
        "evict" => bench.evict(count)?,
        "refault" => {
            bench.evict(COUNT_MAX)?;
            bench.refault(count)?;
        }
        other => return Err(format!("{other:?}: {usage}").into()),
    }
    println!("{name}: {count} times {operation}");
    Ok(())
}

fn policy(name: &str) -> Result<Box<dyn Policy>, Failure> {
    let (name, refault) = match name.split_once("+distance") {
        Some((name, "=always")) => (name, Refault::Distance),
        Some((name, "")) => (name, Refault::Trial),
        _ => (name, Refault::Window),
    };
    let config = Config {
        refault,
        ..Config::default()
    };
    Ok(match name {
        "multi-gen" => Box::new(MultiGen::new(config)?),
        "two-list" => Box::new(TwoList::new(config)?),
        other => return Err(format!("{other:?} is no policy").into()),
    })
}

impl Bench {
    fn new(mut policy: Box<dyn Policy>) -> Result<Bench, Failure> {
        let group = policy.add_group("/engine_op", TimeMs(0))?;
        let mut bench = Bench {
            policy,
            group,
            folios: Vec::with_capacity(2 * NR_FOLIOS),
            batch: EvictBatch::default(),
            verdicts: Vec::new(),
            shadows: Vec::with_capacity(NR_FOLIOS),
        };
        bench.appear(NR_FOLIOS)?;
        Ok(bench)
    }

    fn arrive(&mut self, shadow: Option<Shadow>) -> Result<(), Failure> {
        let arrival = Arrival {
            group: self.group,
            node: NodeId(0),
            kind: Kind::File,
            order: Order::BASE,
            cause: Cause::Fault,
            shadow,
            is_exec: false,
        };
        let folio = self.policy.appeared(arrival)?;
        self.folios.push(folio);
        Ok(())
    }

    fn appear(&mut self, count: usize) -> Result<(), Failure> {
        (0..count).try_for_each(|_| self.arrive(None))
    }

    fn refault(&mut self, count: usize) -> Result<(), Failure> {
        for at in 0..count {
            let shadow = *self.shadows.get(at).ok_or("fewer shadows than refaults")?;
            self.arrive(Some(shadow))?;
        }
        Ok(())
    }

    fn access(&mut self, via: AccessVia, count: usize) {
        for folio in self.folios.iter().take(count) {
            self.policy.accessed(*folio, via);
        }
    }

    fn age(&mut self) -> Result<(), Failure> {
        let swappiness = Swappiness::DEFAULT;
        Ok(self.policy.finish_walk(self.group, swappiness, TimeMs(0))?)
    }

    fn free_half(&mut self) {
        for folio in self.folios.drain(NR_FOLIOS / 2..) {
            self.policy.gone(folio, GoneCause::Freed);
        }
    }

    /// Evicts at least so many folios, batch by batch, walking when that is asked for; nothing was
    /// accessed, and every batch succeeds whole.
    fn evict(&mut self, count: usize) -> Result<(), Failure> {
        let mut nr_evicted = 0;
        while nr_evicted < count {
            let request = ReclaimRequest::new(self.group, BATCH_PAGES);
            match self.policy.isolate(request, TimeMs(0), &mut self.batch)? {
                Isolated::Pages(_) | Isolated::Again => {}
                Isolated::NeedsAgeing => self.age()?,
                other => return Err(format!("{other:?} after {nr_evicted} evictions").into()),
            }
            self.verdicts.clear();
            let nr_folios = self.batch.folios.len();
            self.verdicts.resize(nr_folios, Verdict::Evicted);
            self.policy.complete(&mut self.batch, &self.verdicts);
            self.shadows.extend(self.batch.shadows.iter().flatten());
            nr_evicted += nr_folios;
        }
        Ok(())
    }
}
