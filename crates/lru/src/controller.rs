//! The feedback controller: which kind, and up to which tier, is cheap to evict.
//!
//! Proportional and integral terms only. What is controlled is the refault rate
//! `refaulted / (evicted + protected)` of a tier or a kind, the set point is the rate of the first
//! tier or of the other kind. Tiers that refault more than the first are protected for a turn,
//! and the kind that refaults less is taken first. Rules 3.2, model `v6.14`; integers only,
//! 128 bits wide, so that no platform rounds differently.
//!
//! **Owns** the counters of the current period and their moving averages.
//! **Does not own** when a period ends (`multigen::ageing`) or what is counted.
//!
//! **Invariants**
//! - I1: before 64 base pages have refaulted nothing is protected: too few to judge by.
//! - I2: the first tier is always evictable.

use crate::{ids::Kind, seam::Swappiness};

/// Tiers: folios accessed 0-1, 2, 3-4 and 5+ times through file descriptors; the last also holds
/// the workingset seen through page tables (rules 1.4).
pub(crate) const NR_TIERS: usize = 4;

/// The last tier.
pub(crate) const WORKINGSET_TIER: usize = NR_TIERS - 1;

/// Refaults below this many base pages say nothing (rules 1.1 and 3.2).
const NR_REFAULTED_PAGES_MIN: u64 = 64;

/// At or below this only file folios are taken (rules 3.2).
const SWAPPINESS_FILE_FIRST: u8 = 1;

/// At or above this only anon folios are taken (rules 3.2).
const SWAPPINESS_ANON_FIRST: u8 = 200;

/// The tier of a folio with this many accesses counted (rules 1.4).
pub(crate) fn tier_of(refs: u32, is_workingset: bool) -> usize {
    if is_workingset {
        WORKINGSET_TIER
    } else {
        refs.next_power_of_two().trailing_zeros() as usize
    }
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
    /// Whether `self` is cheap to evict when `set_point` is what is tolerated.
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
    counters: [[Counters; NR_TIERS]; 2],
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

    /// The last tier that may be evicted; `gains` weigh the first tier and the tier judged.
    pub(crate) fn last_evictable_tier(&self, kind: Kind, gains: TierGains) -> usize {
        let set_point = self.position(kind, 0, gains.first);
        (1..NR_TIERS)
            .find(|&tier| !self.position(kind, tier, gains.judged).is_within(set_point))
            .map_or(WORKINGSET_TIER, |protected| protected - 1)
    }

    /// The kind to take from, by swappiness and by which refaults less over all tiers.
    pub(crate) fn kind_to_scan(&self, swappiness: Swappiness) -> Kind {
        let weight = swappiness.get();
        if weight <= SWAPPINESS_FILE_FIRST {
            return Kind::File;
        }
        if weight >= SWAPPINESS_ANON_FIRST {
            return Kind::Anon;
        }
        let anon = self.overall(Kind::Anon, u64::from(weight));
        let file = self.overall(Kind::File, u64::from(SWAPPINESS_ANON_FIRST - weight));
        if file.is_within(anon) {
            Kind::File
        } else {
            Kind::Anon
        }
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
        (0..NR_TIERS)
            .map(|tier| self.position(kind, tier, gain))
            .fold(none, |sum, of| Position {
                refaulted: sum.refaulted + of.refaulted,
                total: sum.total + of.total,
                gain,
            })
    }
}

#[cfg(test)]
impl Controller {
    /// Moving averages of what was let go, by tier.
    pub(crate) fn average_total(&self, kind: Kind) -> [u64; NR_TIERS] {
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

    #[test]
    fn accesses_through_descriptors_double_from_tier_to_tier() {
        let tiers: Vec<usize> = (0..=4).map(|refs| tier_of(refs, false)).collect();
        assert_eq!(tiers, [0, 0, 1, 2, 2]);
        assert_eq!(tier_of(0, true), 3);
        assert_eq!(tier_of(4, true), 3);
    }

    #[test]
    fn few_refaults_protect_nothing() {
        let mut controller = Controller::default();
        controller.evicted(Kind::File, 1, 64);
        controller.refaulted(Kind::File, 1, 63);
        assert_eq!(controller.last_evictable_tier(Kind::File, GAINS), 3);
        controller.refaulted(Kind::File, 1, 1);
        assert_eq!(controller.last_evictable_tier(Kind::File, GAINS), 0);
    }

    #[test]
    fn a_tier_is_protected_when_it_refaults_more_than_one_and_a_half_times_the_first() {
        // First tier: 10 % of 10,000. The judged tier is let go up to 3/2 of that, floors aside.
        let mut controller = Controller::default();
        controller.evicted(Kind::Anon, 0, 10_000);
        controller.refaulted(Kind::Anon, 0, 1_000);
        controller.evicted(Kind::Anon, 3, 10_000);
        controller.refaulted(Kind::Anon, 3, 1_491);
        assert_eq!(controller.last_evictable_tier(Kind::Anon, GAINS), 3);
        // 1492 * 10064 * 2 = 30,030,976 > 1001 * 10000 * 3 = 30,030,000.
        controller.refaulted(Kind::Anon, 3, 1);
        assert_eq!(controller.last_evictable_tier(Kind::Anon, GAINS), 2);
    }

    #[test]
    fn protected_folios_count_as_let_go_so_that_protection_ends() {
        let mut controller = Controller::default();
        controller.evicted(Kind::File, 0, 1_000);
        controller.refaulted(Kind::File, 0, 100);
        controller.evicted(Kind::File, 2, 200);
        controller.refaulted(Kind::File, 2, 100);
        assert_eq!(controller.last_evictable_tier(Kind::File, GAINS), 1);
        controller.protected(Kind::File, 2, 600);
        assert_eq!(controller.last_evictable_tier(Kind::File, GAINS), 3);
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
            assert_eq!(
                controller.kind_to_scan(swappiness(value)),
                kind,
                "swappiness {value}"
            );
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
        assert_eq!(controller.kind_to_scan(swappiness(100)), Kind::Anon);
        // 2000 * 10064 * s <= 1001 * 10000 * (200 - s) up to s = 66.
        assert_eq!(controller.kind_to_scan(swappiness(66)), Kind::File);
        assert_eq!(controller.kind_to_scan(swappiness(67)), Kind::Anon);
    }

    #[test]
    fn without_refaults_file_goes_first() {
        let controller = Controller::default();
        assert_eq!(controller.kind_to_scan(Swappiness::DEFAULT), Kind::File);
        assert_eq!(controller.kind_to_scan(swappiness(199)), Kind::File);
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
