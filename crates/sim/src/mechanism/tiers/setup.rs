//! How memory is divided into tiers, as people write it.
//!
//! ```text
//!   25:75                                 a quarter fast, the rest slow; what is mapped comes up
//!   25:25:50+page-cache=five-conditions   three tiers; unmapped page cache comes up too
//!   10:90+rate=100+scan=500               100 MiB of candidates a second, hint faults every 500 ms
//!   25:75+promote=off                     nothing comes up
//!   25:75+start=slow                      pages that are new lie on the slowest tier while it has room
//!   25:75+phases=12                       the time of each twelfth of the requests is told
//! ```
//!
//! **Owns** the syntax and its bounds. **Does not own** what the settings do (`strata-lru`).

use std::str::FromStr;

use strata_lru::{
    BadText, NodeConfig, NodeId, PromotionStrategy, TieringConfig, TieringError, Topology,
};

/// Abstract distance from a tier to the next.
const DISTANCE_STEP: u32 = 128;

/// Milliseconds between two sweeps that make mapped pages of slow tiers fault, by default (the
/// kernel's `scan_period_min`).
const SCAN_PERIOD_MS: u64 = 1000;

/// Most phases.
const NR_PHASES_MAX: u64 = 1000;

/// Most tiers.
const NR_TIERS_MAX: usize = 16;

/// Tiers of memory, fastest first, and what comes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSetup {
    shares_percent: Vec<u8>,
    is_promotion_on: bool,
    page_cache: PromotionStrategy,
    rate_limit_mib_per_s: Option<u64>,
    pub(super) scan_period_ms: u64,
    pub(super) start: Start,
    /// Parts of the run whose time is told; 0 tells none.
    pub(super) nr_phases: usize,
}

/// Where a page lies that was never in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Start {
    /// On the fastest tier that has room, as a page that comes back.
    #[default]
    Fast,
    /// On the slowest tier while it has room, as what was there before the trace began.
    Slow,
}

impl TierSetup {
    /// Base pages of each tier when there are `memory_pages`, which is at least their number: each
    /// its share rounded down, but at least one page; the slowest what is left.
    pub(super) fn nr_pages(&self, memory_pages: u32) -> Vec<u32> {
        let upper = &self.shares_percent[..self.nr_tiers() - 1];
        let mut left = memory_pages;
        let mut sizes = Vec::with_capacity(self.shares_percent.len());
        for (position, share) in upper.iter().enumerate() {
            let nr_below = (upper.len() - position) as u32;
            let share = u64::from(memory_pages) * u64::from(*share) / 100;
            let nr_pages = (share as u32).clamp(1, left - nr_below);
            left -= nr_pages;
            sizes.push(nr_pages);
        }
        sizes.push(left);
        sizes
    }

    /// Number of tiers.
    pub(super) fn nr_tiers(&self) -> usize {
        self.shares_percent.len()
    }

    /// The engine's settings for nodes of so many base pages; only the fastest has processors.
    pub(super) fn config(&self, nr_pages: &[u32]) -> Result<TieringConfig, TieringError> {
        let node = |(number, nr_pages): (u8, &u32)| NodeConfig {
            node: NodeId(number),
            nr_pages: u64::from(*nr_pages),
            abstract_distance: u32::from(number) * DISTANCE_STEP,
            has_cpu: number == 0,
        };
        let nodes = (0..).zip(nr_pages).map(node).collect();
        let mut config = TieringConfig::new(Topology::try_new(nodes)?);
        config.is_promotion_on = self.is_promotion_on;
        config.page_cache = self.page_cache;
        if let Some(rate) = self.rate_limit_mib_per_s {
            config.promote_rate_limit_mib_per_s = rate;
        }
        Ok(config)
    }
}

impl FromStr for TierSetup {
    type Err = BadText;

    fn from_str(text: &str) -> Result<TierSetup, BadText> {
        parse(text).map_err(|why| BadText::new("division into tiers", text, why))
    }
}

fn parse(text: &str) -> Result<TierSetup, String> {
    let mut pieces = text.split('+');
    let shares = pieces.next().unwrap_or_default().split(':').map(str::parse);
    let shares_percent: Vec<u8> = shares
        .collect::<Result<_, _>>()
        .map_err(|_| "write shares in percent, fastest first, such as 25:75".to_owned())?;
    if !(2..=NR_TIERS_MAX).contains(&shares_percent.len()) {
        return Err(format!("give 2 to {NR_TIERS_MAX} shares"));
    }
    let sum: u32 = shares_percent.iter().map(|share| u32::from(*share)).sum();
    if sum != 100 || shares_percent.contains(&0) {
        return Err(format!(
            "the shares come to {sum}: give whole percents above 0 that come to 100"
        ));
    }
    let mut setup = TierSetup {
        shares_percent,
        is_promotion_on: true,
        page_cache: PromotionStrategy::Never,
        rate_limit_mib_per_s: None,
        scan_period_ms: SCAN_PERIOD_MS,
        start: Start::Fast,
        nr_phases: 0,
    };
    for piece in pieces {
        let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
        let number = || {
            let parsed = value.parse::<u64>().ok().filter(|number| *number > 0);
            parsed.ok_or_else(|| format!("{key}={value:?}: give a whole number above 0"))
        };
        match (key, value) {
            ("promote", "on") => setup.is_promotion_on = true,
            ("promote", "off") => setup.is_promotion_on = false,
            ("start", "fast") => setup.start = Start::Fast,
            ("start", "slow") => setup.start = Start::Slow,
            ("page-cache", strategy) => {
                setup.page_cache = strategy
                    .parse()
                    .map_err(|error: strata_lru::UnknownStrategy| error.to_string())?;
            }
            ("rate", _) => setup.rate_limit_mib_per_s = Some(number()?),
            ("scan", _) => setup.scan_period_ms = number()?,
            ("phases", _) => setup.nr_phases = number()?.min(NR_PHASES_MAX) as usize,
            _ => {
                return Err(format!(
                    "no option {piece:?}: use promote=on|off, start=fast|slow, \
                     page-cache=STRATEGY, rate=MIB_PER_S, scan=MILLISECONDS or phases=N"
                ));
            }
        }
    }
    Ok(setup)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(text: &str) -> TierSetup {
        text.parse().unwrap()
    }

    #[test]
    fn shares_come_to_all_of_memory_and_no_tier_is_empty() {
        assert_eq!(tiers("25:75").nr_pages(1000), [250, 750]);
        assert_eq!(tiers("33:33:34").nr_pages(10), [3, 3, 4]);
        assert_eq!(tiers("1:1:98").nr_pages(3), [1, 1, 1]);
        assert_eq!(tiers("98:1:1").nr_pages(4), [2, 1, 1]);
    }

    #[test]
    fn options_reach_the_engine() {
        let setup = tiers("10:90+page-cache=refs+rate=7+scan=250+promote=off");
        let config = setup.config(&setup.nr_pages(100)).unwrap();
        assert_eq!(config.page_cache, PromotionStrategy::Refs);
        assert_eq!(config.promote_rate_limit_mib_per_s, 7);
        assert!(!config.is_promotion_on);
        assert_eq!((setup.scan_period_ms, setup.start), (250, Start::Fast));
        assert_eq!(tiers("10:90+start=slow").start, Start::Slow);
        let nodes = config.topology.nodes();
        assert_eq!((nodes[0].nr_pages, nodes[1].nr_pages), (10, 90));
        assert_eq!(config.topology.lower_nodes(NodeId(0)), [NodeId(1)]);
        let default = tiers("10:90").config(&[1, 1]).unwrap();
        assert_eq!(default.page_cache, PromotionStrategy::Never);
    }

    #[test]
    fn what_is_no_division_is_refused_with_what_would_be() {
        for (text, hint) in [
            ("", "25:75"),
            ("100", "2 to 16"),
            ("50:40", "come to 90"),
            ("0:100", "above 0"),
            ("50:50+rate=0", "above 0"),
            ("50:50+rate", "above 0"),
            ("50:50+page-cache=hot", "five-conditions"),
            ("50:50+promote=maybe", "promote=on|off"),
            ("50:50+start=middle", "start=fast|slow"),
            ("50:50+fast", "promote=on|off"),
        ] {
            let error = text.parse::<TierSetup>().unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
