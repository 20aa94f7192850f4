//! Kernel models: what changed between kernels, as data.
//!
//! The multi-generational LRU has been reworked several times. What differs between kernels is
//! named here and looked up by the rules, so that no rule asks which kernel it is. Built now:
//!
//! | model   | kernels | what is particular                                                    |
//! |---------|---------|------------------------------------------------------------------------|
//! | `v6.14` | 6.14 on | a faulted page enters the second youngest generation and is promoted the second time a walk finds it young |
//!
//! `v2021`, `v2022`, `v6.1` and `v7.2` get a constant each; a rule they need that is not a number
//! yet becomes a field here.
//!
//! **Owns** the numbers in which kernels differ, and their names. **Does not own** any behaviour.

use std::{fmt, str::FromStr};

use crate::{controller::TierGains, walk::WalkRules};

/// A kernel whose behaviour is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelModel {
    /// Linux 6.14 and later, up to the rework of 7.2.
    #[default]
    V6_14,
}

impl KernelModel {
    /// Every model, oldest kernel first.
    pub const ALL: &'static [KernelModel] = &[KernelModel::V6_14];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.rules().name
    }

    pub(crate) fn rules(self) -> &'static Model {
        match self {
            KernelModel::V6_14 => &V6_14,
        }
    }
}

impl fmt::Display for KernelModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no kernel model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel model {0:?}: use v6.14")]
pub struct UnknownModel(pub String);

impl FromStr for KernelModel {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().copied().find(|model| model.name() == name);
        known.ok_or_else(|| UnknownModel(name.to_owned()))
    }
}

/// How far below the youngest generation a folio enters, by what is known of it (rules 1.6).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Somebody waits for it.
    pub(crate) active: u64,
    /// Somebody waits for it and it belongs to the working set.
    pub(crate) active_workingset: u64,
    /// Can't be dropped at once: fresh anon, or waiting to be written.
    pub(crate) busy: u64,
    /// Nobody waits for it and it can be dropped.
    pub(crate) idle: u64,
    /// The same, but it belongs to the working set.
    pub(crate) idle_workingset: u64,
}

/// The numbers of one kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) entry: Entry,
    /// Weights of the tiers (rules 3.2).
    pub(crate) tier_gains: TierGains,
    /// Folios looked at in one pass over a list before it is left (rules 3.1).
    pub(crate) nr_scan_folios_max: u32,
    /// Base pages after which a pass is content (rules 3.1).
    pub(crate) nr_isolate_pages: u64,
    /// Generations back to which a refault is recent (rules 4.1).
    pub(crate) nr_recent_gens: u64,
    /// What walks leave out (rules 2.3 to 2.6).
    pub(crate) walk: WalkRules,
}

const V6_14: Model = Model {
    name: "v6.14",
    entry: Entry {
        active: 1,
        active_workingset: 0,
        busy: 1,
        idle: 3,
        idle_workingset: 2,
    },
    tier_gains: TierGains {
        first: 2,
        judged: 3,
    },
    nr_scan_folios_max: 4096,
    nr_isolate_pages: 64,
    nr_recent_gens: 4,
    walk: WalkRules::V2,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_found_by_its_name() {
        for model in KernelModel::ALL {
            assert_eq!(model.name().parse(), Ok(*model));
        }
        assert_eq!(
            "v6".parse::<KernelModel>(),
            Err(UnknownModel("v6".to_owned()))
        );
    }
}
