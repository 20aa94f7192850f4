//! Accesses through descriptors, for counting instructions: with tiers, without, and with the
//! promotion of page cache on.
//!
//! ```text
//! fd_access POLICY NODE ACCESSES     POLICY: plain, tiered, or a promotion strategy
//!                                    NODE: 0 is fast, 1 is slow
//! ```
//!
//! `scripts/bench/tiering_cost.sh` runs it under callgrind and takes a run without accesses away.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

use strata_lru::{
    AccessVia, Arrival, Cause, Config, FolioId, Kind, MultiGen, NodeConfig, NodeId, Order, Policy,
    PromotionStrategy, TieringConfig, TimeMs, Topology, tiered,
};

const NR_FOLIOS: usize = 1 << 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fd_access plain|tiered|STRATEGY NODE ACCESSES";
    let which = arguments.next().ok_or(usage)?;
    let node = NodeId(arguments.next().ok_or(usage)?.parse()?);
    let nr_accesses: usize = arguments.next().ok_or(usage)?.parse()?;
    let mut policy = policy(&which)?;
    let group = policy.add_group("/fd_access", TimeMs(0))?;
    let arrival = Arrival {
        group,
        node,
        kind: Kind::File,
        order: Order::BASE,
        cause: Cause::Read,
        shadow: None,
        is_exec: false,
    };
    let mut folios: Vec<FolioId> = Vec::with_capacity(NR_FOLIOS);
    for _ in 0..NR_FOLIOS {
        folios.push(policy.appeared(arrival)?);
    }
    for folio in folios.iter().cycle().take(nr_accesses) {
        policy.accessed(*folio, AccessVia::FileDescriptor);
    }
    println!("{which}: {nr_accesses} accesses to {NR_FOLIOS} folios of {node:?}");
    Ok(())
}

fn policy(which: &str) -> Result<Box<dyn Policy>, Box<dyn std::error::Error>> {
    let engine = MultiGen::new(Config::default())?;
    if which == "plain" {
        return Ok(Box::new(engine));
    }
    let node = |number: u8| NodeConfig {
        node: NodeId(number),
        nr_pages: 1 << 20,
        abstract_distance: 512 + 512 * u32::from(number),
        has_cpu: number == 0,
    };
    let topology = Topology::try_new(vec![node(0), node(1)])?;
    let page_cache = match which {
        "tiered" => PromotionStrategy::Never,
        strategy => strategy.parse()?,
    };
    let config = TieringConfig {
        page_cache,
        ..TieringConfig::new(topology)
    };
    Ok(tiered(engine, config)?)
}
