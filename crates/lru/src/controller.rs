//! The feedback controller: which kind, and up to which tier, is cheap to evict.
//!
//! Proportional and integral terms only. What is controlled is the refault rate
//! `refaulted / (evicted + protected)` of a tier or a kind, the set point is the rate of the first
//! tier or of the other kind. Tiers that refault more than the first are protected for a turn,
//! and the kind that refaults less is taken first. Rules 3.2; integers only,
//! 128 bits wide, so that no platform rounds differently.
//!
//! **Owns** the counters of the current period and their moving averages.
//! **Does not own** when a period ends (`multigen::ageing`) or what is counted.
//!
//! **Invariants**
//! - I1: before 64 base pages have refaulted nothing is protected: too few to judge by.
//! - I2: the first tier is always evictable.

use crate::{
    ids::{Kind, MAX_NR_TIERS},
    swappiness::Swappiness,
};

/// Refaults below this many base pages say nothing (rules 1.1 and 3.2).
const NR_REFAULTED_PAGES_MIN: u64 = 64;

/// At or below this only file folios are taken (rules 3.2).
const SWAPPINESS_FILE_FIRST: u8 = 1;

/// At or above this only anon folios are taken (rules 3.2).
const SWAPPINESS_ANON_FIRST: u8 = 200;

/// How the kind to take from is chosen (rules 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The kind with the older oldest generation; where they are the same, the kind whose first tier
    /// refaults less, swappiness aside.
    FirstTierUnweighed,
    /// Anon while its oldest generation is older; where they are the same, the kind whose first tier
    /// refaults less, weighed by swappiness. Its tiers are judged against the other kind's first.
    FirstTier,
    /// The kind that refaults less over all tiers, weighed by swappiness.
    AllTiers,
    /// The kind that refaults less over all tiers, weighed by swappiness; the other kind is tried in despair only.
    AllTiersOneKind,
}

impl Selection {
    /// Whether the other kind is tried when the chosen one gave nothing.
    pub(crate) fn falls_back(self, priority: u8) -> bool {
        self != Selection::AllTiersOneKind || priority == 0
    }
}

/// What the controller says of a kind to scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) kind: Kind,
    /// The last tier to take, where choosing the kind has told already.
    pub(crate) last_tier: Option<usize>,
}

/// Base pages of one kind and tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Moving average of what came back.
    pub(crate) avg_refaulted: u64,
    /// Moving average of what was let go.
    pub(crate) avg_total: u64,
    /// Pages that came back in this period.
    pub(crate) refaulted: u64,
    /// Pages that were evicted in this period.
    pub(crate) evicted: u64,
    /// Pages that were spared in this period.
    pub(crate) protected: u64,
}

/// A measured refault rate and the weight it is compared with.
#[derive(Clone, Copy, Debug)]
struct Position {
    refaulted: u64,
    total: u64,
    gain: u64,
}

impl Position {
    /// Whether `self` is cheap to evict when `set_point` is what is tolerated: few refaults, or
    /// `refaulted / total` in proportion to the gains.
    fn is_within(self, set_point: Position) -> bool {
        if self.refaulted < NR_REFAULTED_PAGES_MIN {
            return true;
        }
        let wide = u128::from;
        let left = wide(self.refaulted)
            .saturating_mul(wide(set_point.total) + wide(NR_REFAULTED_PAGES_MIN))
            .saturating_mul(wide(set_point.gain));
        let right = (wide(set_point.refaulted) + 1)
            .saturating_mul(wide(self.total))
            .saturating_mul(wide(self.gain));
        left <= right
    }
}

/// The controller of one lruvec, or of other memory that has kinds and tiers.
///
/// Tiers are numbered from 0 and lie below [`ReclaimStats::NR_TIERS`](crate::ReclaimStats::NR_TIERS); others panic.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    counters: [[Counters; MAX_NR_TIERS]; 2],
}

impl Controller {
    /// Folios of this tier left memory.
    pub fn evicted(&mut self, kind: Kind, tier: usize, nr_pages: u64) {
        self.counters[kind.index()][tier].evicted += nr_pages;
    }

    /// Folios of this tier were due and spared.
    pub fn protected(&mut self, kind: Kind, tier: usize, nr_pages: u64) {
        self.counters[kind.index()][tier].protected += nr_pages;
    }

    /// Folios that had this tier came back soon after they were evicted.
    pub fn refaulted(&mut self, kind: Kind, tier: usize, nr_pages: u64) {
        self.counters[kind.index()][tier].refaulted += nr_pages;
    }

    /// What is counted of a kind and tier.
    pub(crate) fn counters(&self, kind: Kind, tier: usize) -> Counters {
        self.counters[kind.index()][tier]
    }

    /// Ends a period of a kind: folds its counters into the averages, halving the past.
    pub fn carry_over(&mut self, kind: Kind) {
        for tier in &mut self.counters[kind.index()] {
            *tier = Counters {
                avg_refaulted: (tier.avg_refaulted + tier.refaulted) / 2,
                avg_total: (tier.avg_total + tier.evicted + tier.protected) / 2,
                ..Counters::default()
            };
        }
    }

    /// The last of `nr_tiers` that may be evicted; `gains` weigh the first tier and the tier judged.
    pub fn last_evictable_tier(&self, kind: Kind, gains: TierGains, nr_tiers: usize) -> usize {
        let set_point = self.position(kind, 0, gains.first);
        self.last_tier_within(set_point, kind, gains.judged, nr_tiers)
    }

    /// The kind to take from, by swappiness, the oldest generations and which refaults less.
    pub(crate) fn choose(
        &self,
        selection: Selection,
        swappiness: Swappiness,
        min_seq: [u64; 2],
        nr_tiers: usize,
    ) -> Choice {
        let weight = swappiness.get();
        let of = |kind| Choice {
            kind,
            last_tier: None,
        };
        if !swappiness.allows(Kind::Anon) {
            return of(Kind::File);
        }
        if !swappiness.allows(Kind::File) {
            return of(Kind::Anon);
        }
        let [anon_seq, file_seq] = min_seq;
        match selection {
            Selection::FirstTierUnweighed if anon_seq < file_seq => return of(Kind::Anon),
            Selection::FirstTierUnweighed if file_seq < anon_seq => return of(Kind::File),
            Selection::FirstTierUnweighed => {
                let (anon, file) = (self.counted(Kind::Anon, 0), self.counted(Kind::File, 0));
                return of(lower_rate(anon, file));
            }
            Selection::FirstTier if anon_seq < file_seq => return of(Kind::Anon),
            Selection::FirstTier | Selection::AllTiers | Selection::AllTiersOneKind => {}
        }
        if weight <= SWAPPINESS_FILE_FIRST {
            return of(Kind::File);
        }
        if weight >= SWAPPINESS_ANON_FIRST {
            return of(Kind::Anon);
        }
        let gains = [u64::from(weight), u64::from(SWAPPINESS_ANON_FIRST - weight)];
        let at = |kind: Kind| {
            let gain = gains[kind.index()];
            match selection {
                Selection::FirstTier => self.position(kind, 0, gain),
                _ => self.overall(kind, gain),
            }
        };
        let (kind, other) = match at(Kind::File).is_within(at(Kind::Anon)) {
            true => (Kind::File, Kind::Anon),
            false => (Kind::Anon, Kind::File),
        };
        // Swappiness speaks for the tiers too: how dear the other kind's first tier is decides.
        let last_tier = (selection == Selection::FirstTier)
            .then(|| self.last_tier_within(at(other), kind, gains[kind.index()], nr_tiers));
        Choice { kind, last_tier }
    }

    fn last_tier_within(
        &self,
        set_point: Position,
        kind: Kind,
        gain: u64,
        nr_tiers: usize,
    ) -> usize {
        (1..nr_tiers)
            .find(|&tier| !self.position(kind, tier, gain).is_within(set_point))
            .unwrap_or(nr_tiers)
            - 1
    }

    /// Refaulted and total of a tier.
    fn counted(&self, kind: Kind, tier: usize) -> [u64; 2] {
        let at = self.position(kind, tier, 1);
        [at.refaulted, at.total]
    }

    fn position(&self, kind: Kind, tier: usize, gain: u64) -> Position {
        let of = self.counters[kind.index()][tier];
        Position {
            refaulted: of.avg_refaulted + of.refaulted,
            total: of.avg_total + of.evicted + of.protected,
            gain,
        }
    }

    fn overall(&self, kind: Kind, gain: u64) -> Position {
        let none = Position {
            refaulted: 0,
            total: 0,
            gain,
        };
        (0..MAX_NR_TIERS)
            .map(|tier| self.position(kind, tier, gain))
            .fold(none, |sum, of| Position {
                refaulted: sum.refaulted + of.refaulted,
                total: sum.total + of.total,
                gain,
            })
    }
}

/// The kind with the lower of two rates `[refaulted, total]`; file if neither is lower.
fn lower_rate(anon: [u64; 2], file: [u64; 2]) -> Kind {
    let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
    if times(anon[0], file[1].max(1)) < times(file[0], anon[1].max(1)) {
        Kind::Anon
    } else {
        Kind::File
    }
}

/// Weights of the first tier (the set point) and of the tier judged against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierGains {
    /// Of the first tier.
    pub first: u64,
    /// Of the tier that is judged.
    pub judged: u64,
}

impl TierGains {
    /// Those of Linux since 6.14.
    pub const LATEST: TierGains = TierGains {
        first: 2,
        judged: 3,
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Controller {
        /// What was spared in this period, by tier.
        pub(crate) fn protected_of(&self, kind: Kind) -> [u64; MAX_NR_TIERS] {
            self.counters[kind.index()].map(|tier| tier.protected)
        }

        /// Moving averages of what was let go, by tier.
        pub(crate) fn average_total(&self, kind: Kind) -> [u64; MAX_NR_TIERS] {
            self.counters[kind.index()].map(|tier| tier.avg_total)
        }
    }

    fn swappiness(value: u8) -> Swappiness {
        Swappiness::try_new(value).unwrap()
    }

    #[test]
    fn counters_at_their_largest_do_not_overflow() {
        let huge = Position {
            refaulted: u64::MAX,
            total: u64::MAX,
            gain: 200,
        };
        assert!(huge.is_within(huge));
    }

    // The same decisions from a plain copy of the counters, in arithmetic that can't overflow.

    type Plain = [[Counters; MAX_NR_TIERS]; 2];

    /// A product of three factors as base-2^32 digits, least first.
    fn product(factors: [u128; 3]) -> Vec<u64> {
        let split = |number: u128| -> Vec<u64> {
            let digit = |n| (number >> (32 * n)) as u64 & 0xffff_ffff;
            (0..4).map(digit).collect()
        };
        let times = |a: &[u64], b: &[u64]| -> Vec<u64> {
            let mut product = vec![0; a.len() + b.len()];
            for (i, x) in a.iter().enumerate() {
                let mut carry = 0;
                for (j, y) in b.iter().enumerate() {
                    let sum = product[i + j] + x * y + carry;
                    product[i + j] = sum & 0xffff_ffff;
                    carry = sum >> 32;
                }
                product[i + b.len()] += carry;
            }
            product
        };
        let [a, b, c] = factors.map(split);
        times(&times(&a, &b), &c)
    }

    fn is_at_most(left: [u128; 3], right: [u128; 3]) -> bool {
        let (left, right) = (product(left), product(right));
        left.iter().rev().le(right.iter().rev())
    }

    /// `[refaulted, total, gain]` of the tiers in `range`.
    fn plain_position(
        plain: &Plain,
        kind: Kind,
        range: std::ops::Range<usize>,
        gain: u64,
    ) -> [u128; 3] {
        let of = &plain[kind.index()][range];
        let refaulted = of
            .iter()
            .map(|of| u128::from(of.avg_refaulted + of.refaulted));
        let total = of
            .iter()
            .map(|of| u128::from(of.avg_total + of.evicted + of.protected));
        [refaulted.sum(), total.sum(), gain.into()]
    }

    fn is_cheap(set_point: [u128; 3], judged: [u128; 3]) -> bool {
        let ([sp, sp_total, sp_gain], [pv, pv_total, pv_gain]) = (set_point, judged);
        pv < 64 || is_at_most([pv, sp_total + 64, sp_gain], [sp + 1, pv_total, pv_gain])
    }

    fn plain_last_tier(
        plain: &Plain,
        set_point: [u128; 3],
        kind: Kind,
        gain: u64,
        nr_tiers: usize,
    ) -> usize {
        let mut last = 0;
        while last + 1 < nr_tiers
            && is_cheap(
                set_point,
                plain_position(plain, kind, last + 1..last + 2, gain),
            )
        {
            last += 1;
        }
        last
    }

    fn plain_choice(
        plain: &Plain,
        selection: Selection,
        swappiness: u8,
        [anon, file]: [u64; 2],
        nr_tiers: usize,
    ) -> (Kind, Option<usize>) {
        let is_v1 = selection == Selection::FirstTier;
        let is_2021 = selection == Selection::FirstTierUnweighed;
        match swappiness {
            0 => return (Kind::File, None),
            201 => return (Kind::Anon, None),
            _ if (is_v1 || is_2021) && anon < file => return (Kind::Anon, None),
            _ if is_2021 && file < anon => return (Kind::File, None),
            _ if is_2021 => {
                let [a, a_total, _] = plain_position(plain, Kind::Anon, 0..1, 1);
                let [f, f_total, _] = plain_position(plain, Kind::File, 0..1, 1);
                let is_file = is_at_most([f, a_total.max(1), 1], [a, f_total.max(1), 1]);
                return (if is_file { Kind::File } else { Kind::Anon }, None);
            }
            1 => return (Kind::File, None),
            200 => return (Kind::Anon, None),
            _ => {}
        }
        let gains = [u64::from(swappiness), 200 - u64::from(swappiness)];
        let range = if is_v1 { 0..1 } else { 0..MAX_NR_TIERS };
        let at = |kind: Kind| plain_position(plain, kind, range.clone(), gains[kind.index()]);
        let kind = match is_cheap(at(Kind::Anon), at(Kind::File)) {
            true => Kind::File,
            false => Kind::Anon,
        };
        let last = is_v1.then(|| {
            let gain = gains[kind.index()];
            plain_last_tier(plain, at(kind.other()), kind, gain, nr_tiers)
        });
        (kind, last)
    }

    fn count() -> impl Strategy<Value = u64> {
        // 60 events of 2^50 base pages (4 EiB each): their products with 200 fit 128 bits.
        prop_oneof![0..200u64, 0..100_000u64, 0..1u64 << 50, Just(64), Just(63)]
    }

    proptest! {
        #[test]
        fn every_decision_is_that_of_a_plain_controller_in_wide_arithmetic(
            events in proptest::collection::vec(
                (0..4u8, any::<bool>(), 0..MAX_NR_TIERS, count()), 1..60),
            first_gain in 1..4u64,
            judged_gain in 1..4u64,
            nr_tiers in 1..=MAX_NR_TIERS,
            value in 0..=201u8,
            min_seq in [0..2u64, 0..2u64],
        ) {
            let mut controller = Controller::default();
            let mut plain = Plain::default();
            let gains = TierGains { first: first_gain, judged: judged_gain };
            for (event, is_file, tier, nr_pages) in events {
                let kind = if is_file { Kind::File } else { Kind::Anon };
                let tier = tier.min(nr_tiers - 1);
                let of = &mut plain[kind.index()];
                match event {
                    0 => {
                        controller.evicted(kind, tier, nr_pages);
                        of[tier].evicted += nr_pages;
                    }
                    1 => {
                        controller.protected(kind, tier, nr_pages);
                        of[tier].protected += nr_pages;
                    }
                    2 => {
                        controller.refaulted(kind, tier, nr_pages);
                        of[tier].refaulted += nr_pages;
                    }
                    _ => {
                        controller.carry_over(kind);
                        for of in of {
                            *of = Counters {
                                avg_refaulted: (of.avg_refaulted + of.refaulted) / 2,
                                avg_total: (of.avg_total + of.protected + of.evicted) / 2,
                                ..Counters::default()
                            };
                        }
                    }
                }
                for kind in Kind::ALL {
                    let set_point = plain_position(&plain, kind, 0..1, first_gain);
                    let last = plain_last_tier(&plain, set_point, kind, judged_gain, nr_tiers);
                    prop_assert_eq!(controller.last_evictable_tier(kind, gains, nr_tiers), last);
                }
                for selection in [
                    Selection::FirstTierUnweighed,
                    Selection::FirstTier,
                    Selection::AllTiers,
                    Selection::AllTiersOneKind,
                ] {
                    let choice = controller.choose(selection, swappiness(value), min_seq, nr_tiers);
                    let expected = plain_choice(&plain, selection, value, min_seq, nr_tiers);
                    prop_assert_eq!((choice.kind, choice.last_tier), expected);
                }
            }
            prop_assert_eq!(controller.counters, plain);
        }
    }
}
