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

use crate::{counting::MAX_NR_TIERS, ids::Kind, seam::Swappiness};

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
    /// The same, and the other kind is not tried instead, but in despair.
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
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    avg_refaulted: u64,
    avg_total: u64,
    refaulted: u64,
    evicted: u64,
    protected: u64,
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

/// The controller of one lruvec.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controller {
    counters: [[Counters; MAX_NR_TIERS]; 2],
}

impl Controller {
    /// Folios of this tier left memory.
    pub(crate) fn evicted(&mut self, kind: Kind, tier: usize, nr_pages: u64) {
        self.counters[kind.index()][tier].evicted += nr_pages;
    }

    /// Folios of this tier were due and spared.
    pub(crate) fn protected(&mut self, kind: Kind, tier: usize, nr_pages: u64) {
        self.counters[kind.index()][tier].protected += nr_pages;
    }

    /// Folios that had this tier came back soon after they were evicted.
    pub(crate) fn refaulted(&mut self, kind: Kind, tier: usize, nr_pages: u64) {
        self.counters[kind.index()][tier].refaulted += nr_pages;
    }

    /// Ends a period of a kind: folds its counters into the averages, halving the past.
    pub(crate) fn carry_over(&mut self, kind: Kind) {
        for tier in &mut self.counters[kind.index()] {
            *tier = Counters {
                avg_refaulted: (tier.avg_refaulted + tier.refaulted) / 2,
                avg_total: (tier.avg_total + tier.evicted + tier.protected) / 2,
                ..Counters::default()
            };
        }
    }

    /// The last of `nr_tiers` that may be evicted; `gains` weigh the first tier and the tier judged.
    pub(crate) fn last_evictable_tier(
        &self,
        kind: Kind,
        gains: TierGains,
        nr_tiers: usize,
    ) -> usize {
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

#[cfg(test)]
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

/// Weights of the first tier (the set point) and of the tier judged against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierGains {
    pub(crate) first: u64,
    pub(crate) judged: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAINS: TierGains = TierGains {
        first: 2,
        judged: 3,
    };

    fn swappiness(value: u8) -> Swappiness {
        Swappiness::try_new(value).unwrap()
    }

    fn last_tier(controller: &Controller, kind: Kind) -> usize {
        controller.last_evictable_tier(kind, GAINS, 4)
    }

    fn kind_to_scan(controller: &Controller, value: u8) -> Kind {
        let choice = controller.choose(Selection::AllTiers, swappiness(value), [0, 0], 4);
        assert_eq!(choice.last_tier, None);
        choice.kind
    }

    #[test]
    fn few_refaults_protect_nothing() {
        let mut controller = Controller::default();
        controller.evicted(Kind::File, 1, 64);
        controller.refaulted(Kind::File, 1, 63);
        assert_eq!(last_tier(&controller, Kind::File), 3);
        controller.refaulted(Kind::File, 1, 1);
        assert_eq!(last_tier(&controller, Kind::File), 0);
    }

    #[test]
    fn a_tier_is_protected_when_it_refaults_more_than_one_and_a_half_times_the_first() {
        // First tier: 10 % of 10,000. The judged tier is let go up to 3/2 of that, floors aside.
        let mut controller = Controller::default();
        controller.evicted(Kind::Anon, 0, 10_000);
        controller.refaulted(Kind::Anon, 0, 1_000);
        controller.evicted(Kind::Anon, 3, 10_000);
        controller.refaulted(Kind::Anon, 3, 1_491);
        assert_eq!(last_tier(&controller, Kind::Anon), 3);
        // 1492 * 10064 * 2 = 30,030,976 > 1001 * 10000 * 3 = 30,030,000.
        controller.refaulted(Kind::Anon, 3, 1);
        assert_eq!(last_tier(&controller, Kind::Anon), 2);
    }

    #[test]
    fn protected_folios_count_as_let_go_so_that_protection_ends() {
        let mut controller = Controller::default();
        controller.evicted(Kind::File, 0, 1_000);
        controller.refaulted(Kind::File, 0, 100);
        controller.evicted(Kind::File, 2, 200);
        controller.refaulted(Kind::File, 2, 100);
        assert_eq!(last_tier(&controller, Kind::File), 1);
        controller.protected(Kind::File, 2, 600);
        assert_eq!(last_tier(&controller, Kind::File), 3);
    }

    #[test]
    fn a_period_carries_half_of_the_past_over() {
        let mut controller = Controller::default();
        controller.evicted(Kind::File, 0, 300);
        controller.protected(Kind::File, 0, 101);
        controller.refaulted(Kind::File, 0, 99);
        controller.carry_over(Kind::File);
        let first = controller.counters[Kind::File.index()][0];
        assert_eq!((first.avg_refaulted, first.avg_total), (49, 200));
        assert_eq!((first.refaulted, first.evicted, first.protected), (0, 0, 0));
        controller.carry_over(Kind::File);
        let first = controller.counters[Kind::File.index()][0];
        assert_eq!((first.avg_refaulted, first.avg_total), (24, 100));
    }

    #[test]
    fn the_ends_of_swappiness_choose_the_kind_alone() {
        let mut controller = Controller::default();
        controller.evicted(Kind::File, 0, 1_000);
        controller.refaulted(Kind::File, 0, 1_000);
        for (value, kind) in [
            (0, Kind::File),
            (1, Kind::File),
            (200, Kind::Anon),
            (201, Kind::Anon),
        ] {
            assert_eq!(kind_to_scan(&controller, value), kind, "swappiness {value}");
        }
    }

    #[test]
    fn the_kind_that_refaults_less_is_taken_weighed_by_swappiness() {
        let mut controller = Controller::default();
        // Both kinds lose 10,000; file comes back twice as often.
        for kind in Kind::ALL {
            controller.evicted(kind, 0, 10_000);
        }
        controller.refaulted(Kind::Anon, 0, 1_000);
        controller.refaulted(Kind::File, 3, 2_000);
        assert_eq!(kind_to_scan(&controller, 100), Kind::Anon);
        // 2000 * 10064 * s <= 1001 * 10000 * (200 - s) up to s = 66.
        assert_eq!(kind_to_scan(&controller, 66), Kind::File);
        assert_eq!(kind_to_scan(&controller, 67), Kind::Anon);
    }

    #[test]
    fn without_refaults_file_goes_first() {
        let controller = Controller::default();
        assert_eq!(kind_to_scan(&controller, 60), Kind::File);
        assert_eq!(kind_to_scan(&controller, 199), Kind::File);
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
}
