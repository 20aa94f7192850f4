//! The rules in which kernels differ, each a value that can be chosen by itself.
//!
//! A kernel is a choice of one value for every rule (`model`); an ablation takes one rule from
//! another kernel: [`Rules::take`], or as text `placement=v6.1`. No code asks which kernel it is.
//!
//! **Owns** the rules' names and their values' types. **Does not own** which kernel has which value, choosing them by
//! text (`model`), or what a value does (`counting`, `controller`, `multigen`).

use crate::{
    controller::{Selection, TierGains},
    counting::{Counting, Encoding},
    ids::{MAX_NR_GENS, MAX_NR_TIERS},
    reclaim::{GroupRules, UnknownOrder},
    walk::WalkRules,
};

named! {
    /// A rule that kernels changed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Rule {
        /// Which generation a folio enters (1.6).
        Placement = "placement",
        /// How accesses are counted in a folio's flags (1.4).
        Counting = "counting",
        /// What a walk's finding a folio young does (1.5).
        Promotion = "promotion",
        /// When a walk is due (2.1).
        Ageing = "ageing",
        /// How far apart the windows of the kinds may be (1.2).
        Coupling = "coupling",
        /// Which kind is taken from (3.2).
        Selection = "selection",
        /// How tiers are weighed against the first (3.2).
        Gains = "gains",
        /// Who is spared when due, and where to (3.1).
        Protection = "protection",
        /// What happens to a folio that was tried and stayed (3.3).
        Survivors = "survivors",
        /// Which returns are recent, and what they give back (4.1).
        Refault = "refault",
        /// What happens to folios that wait for writeback (3.1, 3.3).
        Dirty = "dirty",
        /// Whether scanning ends with a walk or with enough reclaimed (2.1, 3.3).
        Aborting = "aborting",
        /// How many folios a pass looks at (3.1).
        Scanning = "scanning",
        /// What walks leave out (2.3 to 2.6).
        Walk = "walk",
        /// How reclaim goes when there are several groups (5).
        Groups = "groups",
        /// Whose age says that a working set would be taken (6).
        Thrashing = "thrashing",
        /// What the commands of the `lru_gen` text refuse (6).
        Commands = "commands",
    }
}

/// What an engine goes by: one value for each rule, and the numbers of generations and tiers.
///
/// ```
/// use strata_lru::{KernelModel, Rule, Rules};
///
/// let mut rules = Rules::from(KernelModel::V6_14);
/// rules.apply("placement", "v6.1")?;
/// rules.apply("nr_gens", "8")?;
/// let mut same = Rules::from(KernelModel::V6_14).take(Rule::Placement, KernelModel::V6_1);
/// same.nr_gens = 8;
/// assert_eq!(rules, same);
/// assert_eq!("v6.14,placement=v6.1,nr_gens=8".parse(), Ok(rules));
/// # Ok::<(), strata_lru::RulesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Most generations, [`Rules::NR_GENS_MIN`]..=[`Rules::NR_GENS_MAX`]; the kernel's 4 by default.
    pub nr_gens: u8,
    /// Tiers, 1..=[`Rules::NR_TIERS_MAX`]; the kernel's 4 by default.
    pub nr_tiers: u8,
    /// How reclaim goes when there are several groups.
    pub groups: GroupRules,
    pub(crate) placement: Placement,
    pub(crate) encoding: Encoding,
    pub(crate) promotion: Promotion,
    pub(crate) ageing: AgeingRule,
    pub(crate) coupling: Coupling,
    pub(crate) selection: Selection,
    pub(crate) gains: TierGains,
    pub(crate) protection: Protection,
    pub(crate) survivors: Survivors,
    pub(crate) refault: RefaultRule,
    pub(crate) dirty: Dirty,
    pub(crate) aborting: Aborting,
    pub(crate) scanning: Scanning,
    pub(crate) walk: WalkRules,
    pub(crate) thrashing: Thrashing,
    pub(crate) commands: CommandRule,
}

impl Rules {
    /// Fewest generations an engine can be given room for.
    pub const NR_GENS_MIN: u8 = 4;
    /// Most generations an engine can be given room for.
    pub const NR_GENS_MAX: u8 = MAX_NR_GENS as u8;
    /// Most tiers.
    pub const NR_TIERS_MAX: u8 = MAX_NR_TIERS as u8;

    /// How accesses are counted.
    pub(crate) fn counting(&self) -> Counting {
        Counting::new(self.encoding, self.nr_tiers)
    }
}

/// A name that is no kernel model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel model {0:?}: use v2021, v2022, v6.1, v6.14 or v7.2")]
pub struct UnknownModel(pub String);

/// A choice of rules that can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// No such rule.
    #[error("unknown rule {0:?}: use {known}, nr_gens, nr_tiers or group_order", known = Rule::NAMES.join(", "))]
    UnknownRule(String),
    /// No such kernel.
    #[error(transparent)]
    UnknownModel(#[from] UnknownModel),
    /// No such order of groups.
    #[error(transparent)]
    UnknownOrder(#[from] UnknownOrder),
    /// A number out of its bounds, or no number.
    #[error("{name} is {value:?}: use a number from {least} to {most}")]
    Number {
        /// Which number.
        name: String,
        /// What was given.
        value: String,
        /// The least it can be.
        least: u8,
        /// The most it can be.
        most: u8,
    },
    /// Neither a kernel's name in the first place nor `name=value`.
    #[error(
        "{0:?} is no change of a rule: write RULE=MODEL, nr_gens=N, nr_tiers=N or group_order=ORDER"
    )]
    NotAChange(String),
}

/// A generation, told from one end of the window (rules 1.6). Never outside of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// So many below the youngest.
    BelowYoungest(u64),
    /// So many above the oldest that there is.
    AboveOldest(u64),
    /// So many above the oldest that there could be.
    AboveOldestPossible(u64),
    /// The second oldest if that leaves two younger ones, else the oldest.
    SecondOldestOfFour,
}

/// Which faulted folios somebody is taken to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faulted {
    /// All.
    Active,
    /// Folios of the working set; the others are counted as accessed once.
    ActiveIfWorkingset,
}

/// Where a folio enters, by how it stands (rules 1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) faulted: Faulted,
    /// Somebody waits for it.
    pub(crate) active: Place,
    /// Somebody waits for it and it belongs to the working set.
    pub(crate) active_workingset: Place,
    /// Can't be dropped at once: fresh anon, or waiting to be written.
    pub(crate) busy: Place,
    /// Nobody waits for it and it can be dropped.
    pub(crate) idle: Place,
    /// Nobody waits for it, it can be dropped, and it belongs to the working set.
    pub(crate) idle_workingset: Place,
    /// Written after it was due: as old as can be, at the old end.
    pub(crate) rotated: Place,
}

/// What a walk's finding a folio young does (rules 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promotion {
    /// Promotes it, and forgets what was counted.
    AtOnce,
    /// Marks it the first time, promotes it to the working set the second time.
    SecondTime,
    /// As [`Promotion::SecondTime`], but what is mapped executable from a file is promoted at once.
    SecondTimeUnlessExec,
}

/// When a walk is due (rules 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgeingRule {
    /// When only the two youngest generations are left.
    WhenMust,
    /// With one more, as soon as the youngest is larger than a half or the oldest smaller than a
    /// quarter of all.
    BySizes,
    /// With one more, as soon as relaxed scanning did not do.
    ByWindow,
    /// As [`AgeingRule::ByWindow`]; what is due is walked while scanning is relaxed, too.
    ByWindowAtOnce,
}

/// How far apart the windows of the kinds may be while both can be evicted (rules 1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coupling {
    /// As far as they get.
    Free,
    /// Neither drops a generation before the other can.
    Together,
    /// Neither runs ahead to the last two generations while the other is more than one behind.
    OneApart,
}

/// Whether a folio that has counted all it can is spared when it is due (rules 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saturated {
    /// As its tier.
    AsItsTier,
    /// Always, and the controller hears of it.
    Spared,
    /// Always, and the controller does not hear of it.
    SparedUncounted,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    /// Reached last by eviction.
    Young,
    /// Reached first by eviction.
    Old,
}

/// Who is spared when due, and where to (rules 2.2 and 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    pub(crate) saturated: Saturated,
    /// Where in the next generation's list a spared folio goes.
    pub(crate) spared_to: ListEnd,
    /// Whether folios of a generation merged into the next count as spared.
    pub(crate) is_merge_counted: bool,
}

/// What happens to a folio that was tried and stayed (rules 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survivors {
    /// The folio forgets its accesses and enters as if faulted in, unless it waits to be written.
    Youngest,
    /// The folio enters where it stands but never the oldest generation. Found young it is marked, and the
    /// second time belongs to the working set.
    Marked,
    /// As [`Survivors::Marked`], but found young the second time it is counted, and belongs to the working set when
    /// it was counted before.
    Counted,
}

/// Which returns are recent (rules 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recency {
    /// The oldest generation is still the one it left from.
    SameOldest,
    /// Fewer generations were born since than fit the window.
    Window,
}

/// What a recent return gives back (rules 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restoration {
    /// A full count if it was full or the folio is faulted in.
    IfFull,
    /// A full count if it was full, or all but, or the folio is faulted in.
    IfNearlyFull,
    /// The workingset flag, else the refs.
    WhatItHad,
}

/// Which returns are recent, and what they give back (rules 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefaultRule {
    pub(crate) recency: Recency,
    pub(crate) restoration: Restoration,
}

/// What happens to a folio that is due while it waits for writeback (rules 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirty {
    /// The folio is stepped over, into the next generation.
    SteppedOver,
    /// The folio is tried like any other, and enters a younger generation when it stays.
    Tried,
}

/// When scanning at one priority ends early (rules 2.1 and 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborting {
    /// After a walk, and never because a group has given enough.
    AfterWalk,
    /// As soon as enough was reclaimed; a walk ends nothing.
    WhenMet,
    /// As [`Aborting::WhenMet`]. Where memory as a whole is short, and not that of a group, a group that had to be
    /// walked gives one batch more.
    WhenMetOrWalked,
}

/// How many folios a pass looks at (rules 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanning {
    /// Folios looked at in one pass over a list before it is left.
    pub(crate) nr_folios_max: u32,
    /// Base pages after which a pass is content.
    pub(crate) nr_isolate_pages: u64,
}

/// Whose age says that a working set would be taken (rules 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thrashing {
    /// The age of the oldest file generation, and never while scanning is relaxed.
    OldestFile,
    /// The age of the oldest generation that may be evicted.
    OldestEvictable,
}

/// What the commands refuse (rules 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandRule {
    /// `+` of an older generation does nothing, and without force none is merged for it; swappiness
    /// ends at 200.
    OldIsDone,
    /// `+` of any generation ages once; swappiness ends at 201.
    AnyAges,
}
