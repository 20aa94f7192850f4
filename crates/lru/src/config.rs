//! How an engine is set up: one struct, checked once.
//!
//! **Owns** the settings, their defaults and bounds. **Does not own** their effect.

use crate::{folio::MAX_FOLIOS, model::KernelModel, rules::Rules};

/// How the return of an evicted folio is judged (rules 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Refault {
    /// As the kernel does. [`MultiGen`](crate::MultiGen) asks whether it left within the last
    /// generations, [`TwoList`](crate::TwoList) whether no more left since than is active.
    #[default]
    Window,
    /// By refault distance: what was evicted since it left, against what memory holds now.
    Distance,
    /// By the test that the 2023 series words: what was evicted since it left, against what is inactive.
    Series,
    /// As the kernel does, or by distance in groups where a trial in small says that this misses less
    /// (`trial`).
    Trial,
}

/// What `min_ttl_ms` keeps (rules 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MinTtl {
    /// As in the kernel: reclaim ends, and a kernel kills, when nothing anywhere is older. As long as any
    /// group has something older, all are taken from, down to what is young.
    #[default]
    AllTogether,
    /// Each group on each node keeps what is younger, whatever others have.
    EachByItself,
}

/// Settings of [`MultiGen`](crate::MultiGen) and [`TwoList`](crate::TwoList).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What to go by: a kernel's rules, or those with some changed. Default: `v6.14`.
    pub rules: Rules,
    /// Generations younger than this many milliseconds are kept, as `min_ttl` says; 0 = off.
    /// Default: 0. The two lists have no such promise.
    pub min_ttl_ms: u64,
    /// When what is younger than `min_ttl_ms` is kept. Default: as in the kernel.
    pub min_ttl: MinTtl,
    /// The most folios the table may hold, 1..=[`Config::NR_FOLIOS_LIMIT`]. Default: the limit.
    pub nr_folios_max: u32,
    /// How refaults are judged. Default: `Window`.
    pub refault: Refault,
    /// Whether anon can be swapped out at all: if not, it takes no part in refault distances.
    /// Default: true.
    pub has_swap: bool,
    /// What decides the draws of the memcg LRU. Default: 0.
    pub seed: u64,
}

impl Config {
    /// The most folios any engine can hold.
    pub const NR_FOLIOS_LIMIT: u32 = MAX_FOLIOS;

    /// The defaults, with the rules of a kernel.
    pub fn of(model: KernelModel) -> Config {
        Config {
            rules: model.into(),
            ..Config::default()
        }
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Rules {
            nr_gens, nr_tiers, ..
        } = self.rules;
        if !(Rules::NR_GENS_MIN..=Rules::NR_GENS_MAX).contains(&nr_gens) {
            return Err(ConfigError::NrGens(nr_gens));
        }
        if !(1..=Rules::NR_TIERS_MAX).contains(&nr_tiers) {
            return Err(ConfigError::NrTiers(nr_tiers));
        }
        if !(1..=Self::NR_FOLIOS_LIMIT).contains(&self.nr_folios_max) {
            return Err(ConfigError::NrFoliosMax(self.nr_folios_max));
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            rules: Rules::default(),
            min_ttl_ms: 0,
            min_ttl: MinTtl::default(),
            nr_folios_max: Self::NR_FOLIOS_LIMIT,
            refault: Refault::default(),
            has_swap: true,
            seed: 0,
        }
    }
}

/// A setting out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `nr_folios_max` is 0 or too large.
    #[error("nr_folios_max is {0}: choose 1 to {limit}", limit = MAX_FOLIOS)]
    NrFoliosMax(u32),
    /// `rules.nr_gens` is too small or too large.
    #[error("nr_gens is {0}: choose {least} to {most}", least = Rules::NR_GENS_MIN, most = Rules::NR_GENS_MAX)]
    NrGens(u8),
    /// `rules.nr_tiers` is 0 or too large.
    #[error("nr_tiers is {0}: choose 1 to {most}", most = Rules::NR_TIERS_MAX)]
    NrTiers(u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_the_bounds_are_held() {
        assert_eq!(Config::default().validate(), Ok(()));
        for nr_folios_max in [0, Config::NR_FOLIOS_LIMIT + 1] {
            let config = Config {
                nr_folios_max,
                ..Config::default()
            };
            assert_eq!(
                config.validate(),
                Err(ConfigError::NrFoliosMax(nr_folios_max))
            );
        }
        let with = |nr_gens, nr_tiers| Config {
            rules: Rules {
                nr_gens,
                nr_tiers,
                ..Rules::default()
            },
            ..Config::default()
        };
        assert_eq!(with(4, 1).validate(), Ok(()));
        assert_eq!(with(16, 5).validate(), Ok(()));
        assert_eq!(with(3, 4).validate(), Err(ConfigError::NrGens(3)));
        assert_eq!(with(17, 4).validate(), Err(ConfigError::NrGens(17)));
        assert_eq!(with(4, 0).validate(), Err(ConfigError::NrTiers(0)));
        assert_eq!(with(4, 6).validate(), Err(ConfigError::NrTiers(6)));
    }
}
