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
//! **Owns** the names of the kernels, which value each has for each rule, and choosing rules by text. **Does not own** any
//! behaviour.

use std::{ops::RangeInclusive, str::FromStr};

use crate::{
    controller::{Selection, TierGains},
    counting::Encoding,
    reclaim::{GroupOrder, GroupRules, ScanBudget, Sparing},
    rules::{
        Aborting, AgeingRule, CommandRule, Coupling, Dirty, Faulted, ListEnd, Place, Placement,
        Promotion, Protection, Recency, RefaultRule, Restoration, Rule, Rules, RulesError,
        Saturated, Scanning, Survivors, Thrashing, UnknownModel,
    },
    walk::WalkRules,
};

named! {
    /// A kernel whose behaviour is followed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum KernelModel or UnknownModel {
        /// The letter of 2021 that proposed generations.
        V2021 = "v2021",
        /// The series as merged into Linux 6.1, before its fixes of 2023; 6.3 to 6.6 with
        /// [`GroupOrder::MemcgLru`].
        V2022 = "v2022",
        /// Linux 6.1.y stable; 6.7 to 6.13 with [`GroupOrder::MemcgLru`] and the
        /// [`Rule::Aborting`](crate::Rule::Aborting) of 6.14.
        V6_1 = "v6.1",
        /// Linux 6.14 and later, up to the rework of 7.2.
        #[default]
        V6_14 = "v6.14",
        /// Linux 7.2.
        V7_2 = "v7.2",
    }
}

impl KernelModel {
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

impl Rules {
    /// The rules with one of them as in another kernel.
    #[must_use]
    pub fn take(mut self, rule: Rule, model: KernelModel) -> Rules {
        let other = model.rules();
        match rule {
            Rule::Placement => self.placement = other.placement,
            Rule::Counting => self.encoding = other.encoding,
            Rule::Promotion => self.promotion = other.promotion,
            Rule::Ageing => self.ageing = other.ageing,
            Rule::Coupling => self.coupling = other.coupling,
            Rule::Selection => self.selection = other.selection,
            Rule::Gains => self.gains = other.gains,
            Rule::Protection => self.protection = other.protection,
            Rule::Survivors => self.survivors = other.survivors,
            Rule::Refault => self.refault = other.refault,
            Rule::Dirty => self.dirty = other.dirty,
            Rule::Aborting => self.aborting = other.aborting,
            Rule::Scanning => self.scanning = other.scanning,
            Rule::Walk => self.walk = other.walk,
            Rule::Groups => self.groups = other.groups,
            Rule::Thrashing => self.thrashing = other.thrashing,
            Rule::Commands => self.commands = other.commands,
        }
        self
    }

    /// Changes one rule by its name to a kernel's by its name, one of the numbers `nr_gens` and
    /// `nr_tiers`, or `group_order` to a [`GroupOrder`](crate::GroupOrder). Nothing is changed on error.
    pub fn apply(&mut self, name: &str, value: &str) -> Result<(), RulesError> {
        let number = |range: RangeInclusive<u8>| {
            let number = value.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| RulesError::Number {
                name: name.to_owned(),
                value: value.to_owned(),
                least: *range.start(),
                most: *range.end(),
            })
        };
        match name {
            "nr_gens" => self.nr_gens = number(Self::NR_GENS_MIN..=Self::NR_GENS_MAX)?,
            "nr_tiers" => self.nr_tiers = number(1..=Self::NR_TIERS_MAX)?,
            "group_order" => self.groups.order = value.parse()?,
            _ => {
                let known = Rule::ALL.iter().copied().find(|rule| rule.name() == name);
                let rule = known.ok_or_else(|| RulesError::UnknownRule(name.to_owned()))?;
                *self = self.take(rule, value.parse()?);
            }
        }
        Ok(())
    }
}

impl Default for Rules {
    fn default() -> Self {
        KernelModel::default().into()
    }
}

impl From<KernelModel> for Rules {
    fn from(model: KernelModel) -> Rules {
        *model.rules()
    }
}

/// Reads a kernel's name and changes to it: `v6.14,placement=v6.1,nr_gens=8`. Without a name the
/// default kernel is meant.
impl FromStr for Rules {
    type Err = RulesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rules = Rules::default();
        for (position, piece) in text.split(',').enumerate() {
            match piece.split_once('=') {
                Some((name, value)) => rules.apply(name, value)?,
                None if position == 0 => rules = piece.parse::<KernelModel>()?.into(),
                None => return Err(RulesError::NotAChange(piece.to_owned())),
            }
        }
        Ok(rules)
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
    fn every_rule_is_taken_alone_and_all_of_them_make_the_other_kernel() {
        for (of, other) in [
            (KernelModel::V6_14, KernelModel::V2022),
            (KernelModel::V2021, KernelModel::V7_2),
        ] {
            let mut rules = Rules::from(of);
            for rule in Rule::ALL {
                rules.apply(rule.name(), other.name()).unwrap();
                assert_eq!(rules.take(*rule, other), rules);
            }
            assert_eq!(rules, Rules::from(other));
        }
    }

    #[test]
    fn every_rule_differs_between_some_kernels() {
        for rule in Rule::ALL {
            let base = Rules::from(KernelModel::V6_14);
            let differs = |model: &KernelModel| base.take(*rule, *model) != base;
            assert!(KernelModel::ALL.iter().any(differs), "{}", rule.name());
        }
    }

    #[test]
    fn what_can_not_be_chosen_is_named_with_what_can() {
        let error = |text: &str| text.parse::<Rules>().unwrap_err().to_string();
        let unknown = error("v6.14,colour=v6.1");
        assert!(
            unknown.contains("\"colour\"") && unknown.contains("placement, "),
            "{unknown}"
        );
        assert!(error("v6.14,placement=v5").contains("v2021"));
        assert!(error("v5").contains("v7.2"));
        assert_eq!(
            error("v6.1,nr_gens=17"),
            "nr_gens is \"17\": use a number from 4 to 16"
        );
        assert_eq!(
            error("nr_tiers=0"),
            "nr_tiers is \"0\": use a number from 1 to 5"
        );
        assert!(error("v6.1,v6.14").contains("no change"));
        assert!("nr_tiers=5,nr_gens=4".parse::<Rules>().is_ok());
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let mut rules = Rules::default();
        assert!(rules.apply("nr_gens", "3").is_err());
        assert!(rules.apply("placement", "6.1").is_err());
        assert_eq!(rules, Rules::default());
    }
}
