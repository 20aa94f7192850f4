//! The lruvec of the classic LRU: two lists a kind, and what balances them (rules 8.5 to 8.8).
//!
//! ```text
//!   new ->  head  inactive  tail -> evicted          one pair of lists for anon, one for file
//!             ^        | used again
//!   deactivated        v
//!           tail  active    head
//! ```
//!
//! **Owns** sizes, costs, the clock of what left, and the arithmetic that decides how much of each
//! list is scanned. **Does not own** folios, lists or the order of scanning (`run`).
//!
//! **Invariants**
//! - I1: `nr_pages[half][kind]` is the sum of the sizes of the folios on that list.
//! - I2: after a cost is noted both together are at most a quarter of the lists, or were halved.

use super::page::Half;
use crate::{
    books::{Account, Booked, answered_by_fields, two_generations},
    distance::{Clock, Returns},
    ids::{Kind, TimeMs},
    list::ListId,
    seam::{GenerationView, OnePass},
    swappiness::Swappiness,
};

/// The priority of relaxed scanning.
pub(super) const PRIORITY_MAX: u8 = 12;

/// What writing or reading back one page costs, in pages scanned in vain (the kernel's cluster).
const COST_OF_IO: u64 = 32;

/// What is left of a list is looked at whole in a group that was removed, up to so many base pages.
const NR_LAST_PAGES: u64 = 32;

/// Swappiness at which nothing but anon is weighed.
const SWAPPINESS_RATIO_MAX: u64 = 200;

/// Base pages in one GiB, as a power of two: the unit of [`inactive_ratio`].
const GIB_ORDER: u32 = 18;

/// Which kinds a scan takes, and in what proportion.
#[derive(Clone, Copy, Debug)]
enum Balance {
    Only(Kind),
    /// All of both: desperate.
    Equal,
    /// In proportion to these weights.
    Weighed([u64; 2]),
}

/// What may be done to one lruvec in a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// Whether active folios of a kind may be deactivated.
    pub(super) may_deactivate: [bool; 2],
    /// Whether there is enough cold page cache to leave anon alone.
    pub(super) is_cache_enough: bool,
    /// Whether there is so little page cache that all of it would not do, and anon to take instead.
    pub(super) is_cache_tiny: bool,
}

/// What a scan goes by besides its lruvec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) swappiness: Swappiness,
    pub(super) priority: u8,
    /// The part of a list that is not protected, if the scan is one visit among several groups.
    pub(super) one_pass: Option<OnePass>,
    /// Whether the group was removed: it is scanned to the last page.
    pub(super) is_offline: bool,
}

/// Pages of the node that is short, all groups together.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePages {
    pub(super) nr_file: u64,
    pub(super) nr_inactive_anon: u64,
    /// Missing up to the high watermark.
    pub(super) nr_short: u64,
}

/// How much a scan looks at, in base pages by half and kind.
pub(super) type Counts = [[u64; 2]; 2];

/// Folios of one group on one node.
#[derive(Debug, Default)]
pub(crate) struct Lruvec {
    pub(super) nr_pages: Counts,
    /// What reclaiming a kind has cost lately.
    pub(super) cost: [u64; 2],
    pub(super) clock: Clock,
    /// Returns that were judged by distance.
    pub(super) nr_returns: Returns,
    /// Base pages that came back and were made active at once, by kind (`workingset_activate`).
    pub(super) nr_activated_refault_pages: [u64; 2],
    /// `nr_activated_refault_pages` when the last run ended, and those that question nothing.
    nr_seen_refault_pages: [u64; 2],
    pub(super) account: Account,
    birth: TimeMs,
}

impl Booked for Lruvec {
    type Shape = ();

    fn nr_lists((): ()) -> u32 {
        4
    }

    fn new(account: Account, (): (), now: TimeMs) -> Lruvec {
        Lruvec {
            account,
            birth: now,
            ..Lruvec::default()
        }
    }

    answered_by_fields!();

    fn list_of(&self, half: usize, kind: Kind) -> ListId {
        ListId(self.account.first_list.0 + (half * 2 + kind.index()) as u32)
    }

    fn generations(&self, now: TimeMs) -> Vec<GenerationView> {
        two_generations(self.nr_pages, now.since(self.birth))
    }
}

impl Lruvec {
    pub(super) fn list(&self, half: Half, kind: Kind) -> ListId {
        self.list_of(half.index(), kind)
    }

    pub(super) fn size(&self, half: Half, kind: Kind) -> u64 {
        self.nr_pages[half.index()][kind.index()]
    }

    /// Base pages on all four lists.
    pub(super) fn nr_listed_pages(&self) -> u64 {
        self.nr_pages.iter().flatten().sum()
    }

    /// Whether the inactive list of a kind is too short to judge folios by their time on it.
    pub(super) fn is_inactive_low(&self, kind: Kind) -> bool {
        let (inactive, active) = (
            self.size(Half::Inactive, kind),
            self.size(Half::Active, kind),
        );
        inactive.saturating_mul(inactive_ratio(inactive + active)) < active
    }

    /// What a scan at this priority may do (rules 8.6).
    pub(super) fn control(
        &self,
        priority: u8,
        is_forced: bool,
        node: Option<NodePages>,
    ) -> Control {
        let activated = self.nr_activated_refault_pages;
        let may_deactivate = Kind::ALL.map(|kind| {
            let has_learnt = activated[kind.index()] != self.nr_seen_refault_pages[kind.index()];
            is_forced || has_learnt || self.is_inactive_low(kind)
        });
        let cold_cache = self.size(Half::Inactive, Kind::File) >> priority;
        let is_tiny = |node: NodePages| {
            node.nr_file <= node.nr_short && node.nr_inactive_anon >> priority > 0
        };
        Control {
            is_cache_tiny: !may_deactivate[Kind::Anon.index()] && node.is_some_and(is_tiny),
            may_deactivate,
            is_cache_enough: cold_cache > 0 && !may_deactivate[Kind::File.index()],
        }
    }

    /// How much of each list a scan looks at (rules 8.7).
    pub(super) fn scan_counts(&self, control: Control, demand: Demand) -> Counts {
        let exposed = |nr_pages| match demand.one_pass {
            Some(of) => of.protection.exposed(nr_pages, of.is_low_ignored),
            None => nr_pages,
        };
        let balance = self.balance(control, demand);
        Half::ALL.map(|half| {
            Kind::ALL.map(|kind| {
                let size = self.size(half, kind);
                let by_priority = exposed(size) >> demand.priority;
                let nr_pages = match by_priority {
                    0 if demand.is_offline => size.min(NR_LAST_PAGES),
                    some => some,
                };
                match balance {
                    Balance::Only(only) => nr_pages * u64::from(kind == only),
                    Balance::Equal => nr_pages,
                    Balance::Weighed(weights) => {
                        share(nr_pages, weights[kind.index()], weights, demand.is_offline)
                    }
                }
            })
        })
    }

    fn balance(&self, control: Control, demand: Demand) -> Balance {
        let swappiness = demand.swappiness;
        if !swappiness.allows(Kind::File) {
            return Balance::Only(Kind::Anon);
        }
        if !swappiness.allows(Kind::Anon) {
            return Balance::Only(Kind::File);
        }
        if demand.priority == 0 {
            return Balance::Equal;
        }
        if control.is_cache_tiny {
            return Balance::Only(Kind::Anon);
        }
        if control.is_cache_enough {
            return Balance::Only(Kind::File);
        }
        let [anon, file] = self.cost;
        let total = anon + file;
        let (anon, file) = (total + anon, total + file);
        let both = anon + file + 1;
        let swappiness = u64::from(swappiness.get());
        Balance::Weighed([
            swappiness * both / (anon + 1),
            (SWAPPINESS_RATIO_MAX - swappiness) * both / (file + 1),
        ])
    }

    /// Reclaiming a kind cost this much; the past is halved before it grows old (rules 8.8).
    pub(super) fn note_cost(&mut self, kind: Kind, nr_io_pages: u64, nr_rotated_pages: u64) {
        self.cost[kind.index()] += nr_io_pages * COST_OF_IO + nr_rotated_pages;
        if self.cost[0] + self.cost[1] > self.nr_listed_pages() / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }

    /// A run ended: refaults from now on say that the active list is to be questioned.
    pub(super) fn see_refaults(&mut self) {
        self.nr_seen_refault_pages = self.nr_activated_refault_pages;
    }

    /// A return was made active by chance: that says nothing of what is active.
    pub(super) fn see_chance(&mut self, kind: Kind, nr_pages: u64) {
        self.nr_seen_refault_pages[kind.index()] += nr_pages;
    }

    /// `nr_pages` that were left alone or let go make everything else older.
    pub(super) fn age_nonresident(&mut self, nr_pages: u64) {
        self.clock.advance(nr_pages);
    }
}

/// `weight` parts of the sum of `weights`, rounded down or up; the sum is never 0 between swappiness 1
/// and 200.
fn share(nr_pages: u64, weight: u64, weights: [u64; 2], is_rounded_up: bool) -> u64 {
    let wide = u128::from;
    let whole = (wide(weights[0]) + wide(weights[1])).max(1);
    let part = wide(nr_pages) * wide(weight);
    let part = match is_rounded_up {
        true => part.div_ceil(whole),
        false => part / whole,
    };
    u64::try_from(part).unwrap_or(nr_pages)
}

/// How many times the inactive list the active one may be, by the size of both in base pages:
/// `sqrt(10 * GiB)`, 1 below a GiB (rules 8.5).
fn inactive_ratio(nr_pages: u64) -> u64 {
    match nr_pages >> GIB_ORDER {
        0 => 1,
        nr_gib => (10 * nr_gib).isqrt(),
    }
}
