//! Kernel models: what changed between kernels, as data.
//!
//! The multi-generational LRU has been reworked several times. A kernel is a value for each of the
//! rules (`rules`), so no rule asks which kernel it is.
//!
//! | model   | kernels | what is particular                                                     |
//! |---------|---------|------------------------------------------------------------------------|
//! | `v2021` | the letter that proposed it | a walk only when no third generation is left; the kind that refaults less, swappiness aside |
//! | `v2022` | 6.1 and 6.2; with `group_order=memcg-lru` 6.3 to 6.6 | a faulted page enters the youngest generation and any access promotes; walks by the sizes of generations |
//! | `v6.1`  | 6.1.y stable; with `group_order=memcg-lru,aborting=v6.14` 6.7 to 6.13 | the same, but pages read five times are spared and no new page enters the oldest of four generations |
//! | `v6.14` | 6.14 on | a faulted page enters the second youngest generation and is promoted the second time a walk finds it young |
//! | `v7.2`  | 7.2 on  | the same, but only a faulted page of the working set enters near the youngest; small passes, one kind at a time |
//!
//! Which group is taken from is a question of its own (`group_order`): the memcg LRU came with 6.3, between
//! two kernels of one model. A model has the order of the first kernel that it stands for.
//!
//! **Owns** the names of the kernels, and which value each has for each rule. **Does not own** any
//! behaviour.

use std::{fmt, str::FromStr};

use crate::{
    controller::{Selection, TierGains},
    counting::Encoding,
    reclaim::{GroupOrder, GroupRules, ScanBudget, Sparing},
    rules::{
        Aborting, AgeingRule, CommandRule, Coupling, Dirty, Faulted, ListEnd, Place, Placement,
        Promotion, Protection, Recency, RefaultRule, Restoration, Rules, Saturated, Scanning,
        Survivors, Thrashing,
    },
    walk::WalkRules,
};

/// A kernel whose behaviour is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelModel {
    /// The letter of 2021 that proposed generations.
    V2021,
    /// The series as merged into Linux 6.1, before its fixes of 2023; 6.3 to 6.6 with
    /// [`GroupOrder::MemcgLru`].
    V2022,
    /// Linux 6.1.y stable; 6.7 to 6.13 with [`GroupOrder::MemcgLru`] and the
    /// [`Rule::Aborting`](crate::Rule::Aborting) of 6.14.
    V6_1,
    /// Linux 6.14 and later, up to the rework of 7.2.
    #[default]
    V6_14,
    /// Linux 7.2.
    V7_2,
}

impl KernelModel {
    /// Every model, oldest kernel first.
    pub const ALL: &'static [KernelModel] = &[
        KernelModel::V2021,
        KernelModel::V2022,
        KernelModel::V6_1,
        KernelModel::V6_14,
        KernelModel::V7_2,
    ];

    /// Name of the model on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KernelModel::V2021 => "v2021",
            KernelModel::V2022 => "v2022",
            KernelModel::V6_1 => "v6.1",
            KernelModel::V6_14 => "v6.14",
            KernelModel::V7_2 => "v7.2",
        }
    }

    pub(crate) fn rules(self) -> &'static Rules {
        match self {
            KernelModel::V2021 => &V2021,
            KernelModel::V2022 => &V2022,
            KernelModel::V6_1 => &V6_1,
            KernelModel::V6_14 => &V6_14,
            KernelModel::V7_2 => &V7_2,
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
#[error("unknown kernel model {0:?}: use v2021, v2022, v6.1, v6.14 or v7.2")]
pub struct UnknownModel(pub String);

impl FromStr for KernelModel {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().copied().find(|model| model.name() == name);
        known.ok_or_else(|| UnknownModel(name.to_owned()))
    }
}

const V2021: Rules = Rules {
    placement: Placement {
        busy: Place::AboveOldest(0),
        ..V2022.placement
    },
    ageing: AgeingRule::WhenMust,
    coupling: Coupling::Free,
    selection: Selection::FirstTierUnweighed,
    groups: GroupRules {
        order: GroupOrder::Rounds(Sparing::Off),
        ..V2022.groups
    },
    ..V2022
};

const V2022: Rules = Rules {
    placement: Placement {
        busy: Place::AboveOldest(1),
        idle: Place::AboveOldest(0),
        idle_workingset: Place::AboveOldest(0),
        ..V6_1.placement
    },
    protection: Protection {
        saturated: Saturated::AsItsTier,
        ..V6_1.protection
    },
    refault: RefaultRule {
        restoration: Restoration::IfFull,
        ..V6_1.refault
    },
    ..V6_1
};

const V6_1: Rules = Rules {
    nr_gens: 4,
    nr_tiers: 4,
    placement: Placement {
        faulted: Faulted::Active,
        active: Place::BelowYoungest(0),
        active_workingset: Place::BelowYoungest(0),
        busy: Place::BelowYoungest(1),
        idle: Place::SecondOldestOfFour,
        idle_workingset: Place::SecondOldestOfFour,
        rotated: Place::AboveOldest(0),
    },
    encoding: Encoding::Workingset,
    promotion: Promotion::AtOnce,
    ageing: AgeingRule::BySizes,
    coupling: Coupling::Together,
    selection: Selection::FirstTier,
    gains: TierGains {
        first: 1,
        judged: 2,
    },
    protection: Protection {
        saturated: Saturated::Spared,
        spared_to: ListEnd::Old,
        is_merge_counted: false,
    },
    survivors: Survivors::Youngest,
    refault: RefaultRule {
        recency: Recency::SameOldest,
        restoration: Restoration::IfNearlyFull,
    },
    dirty: Dirty::SteppedOver,
    aborting: Aborting::WhenMet,
    scanning: Scanning {
        nr_folios_max: 4096,
        nr_isolate_pages: 64,
    },
    walk: WalkRules::V1,
    groups: GroupRules {
        order: GroupOrder::Rounds(Sparing::Ageing),
        budget: ScanBudget::ByPriority,
        is_size_first: true,
        has_initial_priority: false,
    },
    thrashing: Thrashing::OldestFile,
    commands: CommandRule::OldIsDone,
};

const V6_14: Rules = Rules {
    placement: Placement {
        faulted: Faulted::Active,
        active: Place::BelowYoungest(1),
        active_workingset: Place::BelowYoungest(0),
        busy: Place::BelowYoungest(1),
        idle: Place::AboveOldestPossible(0),
        idle_workingset: Place::AboveOldestPossible(1),
        rotated: Place::AboveOldestPossible(0),
    },
    encoding: Encoding::Referenced,
    promotion: Promotion::SecondTime,
    ageing: AgeingRule::ByWindow,
    coupling: Coupling::OneApart,
    selection: Selection::AllTiers,
    gains: TierGains::LATEST,
    protection: Protection {
        saturated: Saturated::SparedUncounted,
        spared_to: ListEnd::Young,
        is_merge_counted: true,
    },
    survivors: Survivors::Marked,
    refault: RefaultRule {
        recency: Recency::Window,
        restoration: Restoration::WhatItHad,
    },
    aborting: Aborting::AfterWalk,
    walk: WalkRules::V2,
    groups: GroupRules {
        order: GroupOrder::MemcgLru,
        is_size_first: false,
        has_initial_priority: true,
        ..V6_1.groups
    },
    thrashing: Thrashing::OldestEvictable,
    commands: CommandRule::AnyAges,
    ..V6_1
};

const V7_2: Rules = Rules {
    placement: Placement {
        faulted: Faulted::ActiveIfWorkingset,
        ..V6_14.placement
    },
    promotion: Promotion::SecondTimeUnlessExec,
    ageing: AgeingRule::ByWindowAtOnce,
    selection: Selection::AllTiersOneKind,
    survivors: Survivors::Counted,
    dirty: Dirty::Tried,
    aborting: Aborting::WhenMetOrWalked,
    scanning: Scanning {
        nr_folios_max: 64,
        nr_isolate_pages: 64,
    },
    walk: WalkRules::V3,
    groups: GroupRules {
        budget: ScanBudget::ExposedByPriority,
        ..V6_14.groups
    },
    ..V6_14
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
