//! What sparing ageing and swapping saves when several groups share a node.
//!
//! Every other group has a hot set of anon and a warm one that is touched now and then; the others
//! read a stream of file pages once. One group alone does the work of all. All anon together is a
//! little more than the node holds. The background keeps a node of fixed size from overflowing, by the rules of the
//! model `v2022` and with each of its three ways (`docs/reference/RULES.md`, 5.2), and by the memcg LRU of
//! `v6.1` for comparison. Deterministic.
//!
//! ```text
//! cargo run --release -p strata-lru --example several_groups
//! ```
//!
//! What it says (excerpt; with one group all ways are the same, to the page):
//!
//! ```text
//! groups  origin      order                 ageing runs  swapped out  swapped in     scanned
//!      1  Background  rounds                         57        29952       29760      431680
//!      1  Background  rounds-sparing                 57        29952       29760      431680
//!      8  Background  rounds                        321       204672      199296      433408
//!      8  Background  rounds-sparing                362       194688      189312      442496
//!      8  Direct      rounds-sparing                316       209984      204608      436096
//!      8  Direct      rounds-sparing-both           362       194688      189312      442496
//! ```
//!
//! Sparing saves swapping where the node is short all the time, and pays with more walks there.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

use std::{collections::BTreeMap, error::Error};

use strata_lru::{
    Arrival, Cause, Config, EvictBatch, FolioId, GroupId, GroupOrder, Kind, MultiGen, NodeId,
    Order, Origin, Policy, Reclaim, Rules, Shadow, Step, TimeMs, Verdict,
};

/// Base pages of the node.
const CAPACITY_PAGES: u32 = 9 * 1024;
/// Groups, where there are several.
const NR_GROUPS: u16 = 8;
/// Rounds in which every group does its work once.
const NR_ROUNDS: u64 = 200;
/// Anon pages a group touches each round, and each eighth round.
const HOT_PAGES: u64 = 256;
const WARM_PAGES: u64 = 2 * 1024;
/// File pages a group reads each round, once.
const STREAM_PAGES: u64 = 256;

/// Where an anon page is.
enum Place {
    Resident(FolioId),
    Evicted(Option<Shadow>),
}

/// A node with groups, and the mechanism that plays the processor and the kernel.
struct Node {
    policy: MultiGen,
    origin: Origin,
    batch: EvictBatch,
    /// Anon pages by group and number.
    anon: BTreeMap<(GroupId, u64), Place>,
    /// What is in memory: its anon page, if it is one, and its accessed bit.
    resident: BTreeMap<FolioId, (Option<(GroupId, u64)>, bool)>,
    nr_swap_ins: u64,
    now: TimeMs,
}

impl Node {
    fn touch(&mut self, group: GroupId, number: u64) -> Result<(), Box<dyn Error>> {
        let page = (group, number);
        let shadow = match self.anon.get_mut(&page) {
            Some(Place::Resident(folio)) => {
                self.resident.entry(*folio).and_modify(|of| of.1 = true);
                return Ok(());
            }
            Some(Place::Evicted(shadow)) => {
                self.nr_swap_ins += 1;
                shadow.take()
            }
            None => None,
        };
        let folio = self.add(group, Kind::Anon, Cause::Fault, shadow)?;
        self.resident.insert(folio, (Some(page), true));
        self.anon.insert(page, Place::Resident(folio));
        Ok(())
    }

    fn read(&mut self, group: GroupId) -> Result<(), Box<dyn Error>> {
        let folio = self.add(group, Kind::File, Cause::Read, None)?;
        self.resident.insert(folio, (None, false));
        Ok(())
    }

    fn add(
        &mut self,
        group: GroupId,
        kind: Kind,
        cause: Cause,
        shadow: Option<Shadow>,
    ) -> Result<FolioId, Box<dyn Error>> {
        if self.policy.nr_folios() >= CAPACITY_PAGES {
            self.reclaim(CAPACITY_PAGES / 64)?;
        }
        let arrival = Arrival {
            group,
            node: NodeId(0),
            kind,
            order: Order::BASE,
            cause,
            shadow,
            is_exec: false,
        };
        Ok(self.policy.appeared(arrival)?)
    }

    fn reclaim(&mut self, nr_pages: u32) -> Result<(), Box<dyn Error>> {
        let goal = strata_lru::Goal::of_node(NodeId(0), nr_pages.into(), self.origin);
        let mut reclaim = Reclaim::new(goal);
        let mut batch = std::mem::take(&mut self.batch);
        loop {
            match reclaim.next(&mut self.policy, self.now, &mut batch)? {
                Step::Evict { .. } => {
                    let is_young = |folio| self.resident.get(folio).is_some_and(|of| of.1);
                    let verdict = |folio| match is_young(folio) {
                        true => Verdict::Referenced,
                        false => Verdict::Evicted,
                    };
                    let verdicts: Vec<Verdict> = batch.folios.iter().map(verdict).collect();
                    self.policy.complete(&mut batch, &verdicts);
                    reclaim.freed(self.note(&batch, &verdicts));
                }
                Step::Walk {
                    group, swappiness, ..
                } => {
                    self.walk(group);
                    self.policy.finish_walk(group, swappiness, self.now)?;
                }
                Step::Done(_) => break,
            }
        }
        self.batch = batch;
        Ok(())
    }

    /// Notes what left and what was looked at; base pages that left.
    fn note(&mut self, batch: &EvictBatch, verdicts: &[Verdict]) -> u64 {
        let mut nr_pages = 0;
        for ((folio, verdict), shadow) in batch.folios.iter().zip(verdicts).zip(&batch.shadows) {
            if *verdict != Verdict::Evicted {
                self.resident.entry(*folio).and_modify(|of| of.1 = false);
                continue;
            }
            nr_pages += 1;
            if let Some((Some(page), _)) = self.resident.remove(folio) {
                self.anon.insert(page, Place::Evicted(*shadow));
            }
        }
        nr_pages
    }

    fn walk(&mut self, group: GroupId) {
        for (folio, (page, is_young)) in &mut self.resident {
            if page.is_some_and(|of| of.0 == group) && std::mem::take(is_young) {
                self.policy
                    .accessed(*folio, strata_lru::AccessVia::PageTable);
            }
        }
    }
}

/// Ageing runs, pages swapped out, pages swapped in, pages scanned.
fn run(rules: &str, origin: Origin, nr_groups: u16) -> Result<[u64; 4], Box<dyn Error>> {
    let config = Config {
        rules: rules.parse::<Rules>()?,
        ..Config::default()
    };
    let mut node = Node {
        policy: MultiGen::new(config)?,
        origin,
        batch: EvictBatch::default(),
        anon: BTreeMap::new(),
        resident: BTreeMap::new(),
        nr_swap_ins: 0,
        now: TimeMs(0),
    };
    let mut groups = Vec::new();
    for number in 0..nr_groups {
        groups.push(node.policy.add_group(&format!("/{number}"), TimeMs(0))?);
    }
    for round in 0..NR_ROUNDS {
        node.now = TimeMs(round * 100);
        for work in 0..NR_GROUPS {
            let group = groups[usize::from(work % nr_groups)];
            let first = u64::from(work) * (HOT_PAGES + WARM_PAGES);
            if work % 2 == 1 {
                (0..STREAM_PAGES).try_for_each(|_| node.read(group))?;
                continue;
            }
            let nr_pages = match round % 8 {
                0 => HOT_PAGES + WARM_PAGES,
                _ => HOT_PAGES,
            };
            (first..first + nr_pages).try_for_each(|number| node.touch(group, number))?;
        }
    }
    let mut sum = [0, 0, node.nr_swap_ins, 0];
    for group in groups {
        let stats = node.policy.stats(group)?;
        sum[0] += stats.nr_ageing_runs;
        sum[1] += stats.nr_evicted_pages[Kind::Anon.index()];
        sum[3] += stats.nr_scanned_pages;
    }
    Ok(sum)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "groups  origin      order                 ageing runs  swapped out  swapped in     scanned"
    );
    for nr_groups in [1, NR_GROUPS] {
        for origin in [Origin::Background, Origin::Direct] {
            for order in GroupOrder::ALL {
                let rules = format!("v2022,group_order={order}");
                let [ageing, out, back, scanned] = run(&rules, origin, nr_groups)?;
                let (origin, order) = (format!("{origin:?}"), order.to_string());
                println!(
                    "{nr_groups:>6}  {origin:<10}  {order:<20}  {ageing:>11}  {out:>11}  {back:>10}  {scanned:>10}"
                );
            }
        }
    }
    Ok(())
}
