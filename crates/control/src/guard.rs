//! What goes of many groups under promises: the decision that follows a walk, live or played.
//!
//! ```text
//!   Walked       what the walk found of each group: for its look at its promise
//!   idle         what of a group counts as idle
//!   choose       what goes, of those groups first that have most of that
//! ```
//!
//! **Owns** the order of groups and kinds, and how much of each. **Does not own** when and how much a promise allows
//! (`promise`), what goes promise or not (`oldest`), which pages are oldest (`strata_lru::ages`), who walks and who takes
//! (the host, or the simulator).
//!
//! **Invariants**
//! - I1: no more goes of a kind than its holder has room for, nor more anonymous pages than there is room in swap.
//! - I2: the same ledger and holders give the same choice.

use crate::promise::{Found, PromiseHolder};
use std::cell::OnceCell;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::time::Duration;
use strata_lru::ages::{Aged, Ages, Candidates, Ledger, NrPages, On, Query};
use strata_lru::{GroupId, Kind};

/// Code goes at so many times the age of other pages: the kernel, too, has pages of executable files that were used go round
/// its list once more.
const CODE_AGES: u32 = 2;
/// The swappiness at which the kernel takes both kinds to cost alike.
const EVEN_SWAPPINESS: u8 = 100;

/// A group before the choice.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Who it is.
    pub group: GroupId,
    /// What keeps its promise.
    pub holder: &'a PromiseHolder,
    /// What of it counts as idle, as [`idle`] tells.
    pub idle: NrPages,
    /// What went since the walk.
    pub went: NrPages,
    /// The most that may go, whatever the promise has room for.
    pub nr_pages_max: u64,
    /// Which kind is offered first, if any at all.
    pub leaning: Leaning,
    /// Code stays for longer than the rest.
    pub spares_code: bool,
    /// Only what is on some memory nodes; `None`: wherever it is.
    pub on: Option<On>,
}

/// Which kind of pages of a group goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaning {
    /// That of which less comes back.
    #[default]
    ByReturns,
    /// Pages of files alone.
    FileOnly,
    /// Pages of files.
    FileFirst,
    /// Anonymous pages.
    AnonFirst,
}

impl Leaning {
    /// As the kernel's `swappiness` leans: 0 takes no anonymous memory, 200 takes it first.
    pub fn of(swappiness: Option<u8>) -> Leaning {
        match swappiness {
            None => Leaning::ByReturns,
            Some(0) => Leaning::FileOnly,
            Some(swappiness) => match swappiness.cmp(&EVEN_SWAPPINESS) {
                Ordering::Less => Leaning::FileFirst,
                Ordering::Equal => Leaning::ByReturns,
                Ordering::Greater => Leaning::AnonFirst,
            },
        }
    }

    fn kinds(self, holder: &PromiseHolder) -> Vec<Kind> {
        match self {
            Leaning::ByReturns => holder.order().to_vec(),
            Leaning::FileOnly => vec![Kind::File],
            Leaning::FileFirst => vec![Kind::File, Kind::Anon],
            Leaning::AnonFirst => vec![Kind::Anon, Kind::File],
        }
    }
}

/// What goes of one group and kind.
#[derive(Clone, Debug)]
pub struct Goes {
    /// Whose pages.
    pub group: GroupId,
    /// What they are.
    pub kind: Kind,
    /// The pages.
    pub pages: Candidates,
}

/// How much of a group could go, and how much does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Idle, and can be taken.
    pub could: NrPages,
    /// Part of that which goes now.
    pub planned: NrPages,
}

/// What is decided after a walk.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// What goes, in this order.
    pub goes: Vec<Goes>,
    /// The sums of every group.
    pub offers: BTreeMap<GroupId, Offer>,
}

/// What the last walk found of each group.
#[derive(Debug, Default)]
pub struct Walked {
    returned: BTreeMap<GroupId, NrPages>,
    mapped: BTreeMap<GroupId, Ages>,
    used_again: BTreeMap<GroupId, Vec<Aged>>,
}

impl Walked {
    /// Of all groups of a ledger.
    pub fn of(ledger: &Ledger) -> Walked {
        let mut walked = Walked {
            mapped: ledger.mapped(),
            ..Walked::default()
        };
        for refault in ledger.refaults() {
            let sum = walked.returned.entry(refault.group).or_default();
            *sum += NrPages::only(refault.kind, refault.nr_pages);
        }
        for used in ledger.used_again() {
            walked.used_again.entry(used.group).or_default().push(used);
        }
        walked
    }

    /// Of what was taken of a group, what is in memory again.
    pub fn returned(&self, group: GroupId) -> NrPages {
        self.returned.get(&group).copied().unwrap_or_default()
    }

    /// Has a group's holder look at its promise.
    pub fn look(
        &self,
        holder: &mut PromiseHolder,
        at: Duration,
        group: GroupId,
        counted: Counted<'_>,
    ) {
        let mapped = self.mapped.get(&group);
        let of_cache = |nr_pages| NrPages::only(Kind::File, nr_pages);
        let idle_for = |age| {
            let mapped = mapped.map_or_else(NrPages::default, |ages| ages.idle_for(age));
            let cache = of_cache((counted.cache_idle_for)(age));
            [mapped, cache].into_iter().sum()
        };
        let used_again = self.used_again.get(&group).map_or(&[][..], Vec::as_slice);
        let used_after = |age| {
            let used = used_again.iter().filter(|used| used.idle >= age);
            let of_mapped = used.map(|used| NrPages::only(used.kind, used.nr_pages));
            let of_cache = of_cache((counted.cache_used_after)(age));
            of_mapped.chain([of_cache]).sum()
        };
        holder.look(
            at,
            &Found {
                resident: counted.resident,
                away: counted.away,
                returned: counted.returned,
                idle_for: &idle_for,
                used_after: &used_after,
            },
        );
    }
}

/// What is counted of a group between two looks.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    /// In memory.
    pub resident: NrPages,
    /// Taken, and not come back.
    pub away: NrPages,
    /// Taken, and in memory again.
    pub returned: NrPages,
    /// Page cache that nobody maps and that was not read for so long, pages.
    pub cache_idle_for: &'a dyn Fn(Duration) -> u64,
    /// Page cache that nobody maps and that was read again since the last look, and not for so long before that, pages.
    pub cache_used_after: &'a dyn Fn(Duration) -> u64,
}

impl std::fmt::Debug for Counted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counted")
            .field("resident", &self.resident)
            .field("away", &self.away)
            .field("returned", &self.returned)
            .finish_non_exhaustive()
    }
}

impl Counted<'static> {
    /// Of a group that has no page cache but what is mapped.
    pub fn without_cache(resident: NrPages, away: NrPages, returned: NrPages) -> Counted<'static> {
        Counted {
            resident,
            away,
            returned,
            cache_idle_for: &|_| 0,
            cache_used_after: &|_| 0,
        }
    }
}

/// What of a group counts as idle: each kind by its own age. `idle_for` tells what was not accessed for so long.
pub fn idle(holder: &PromiseHolder, idle_for: impl Fn(Duration) -> NrPages) -> NrPages {
    NrPages {
        anon: idle_for(holder.age(Kind::Anon)).anon,
        file: idle_for(holder.age(Kind::File)).file,
    }
}

/// Chooses what goes of each group, those first that have most idle; `swap_room_pages` is what may go to swap in all.
pub fn choose<'a>(
    ledger: &Ledger,
    members: impl IntoIterator<Item = Member<'a>>,
    swap_room_pages: u64,
) -> Choice {
    let mut choice = Choice::default();
    let mut swap_room_pages = swap_room_pages;
    // Where nothing is old nobody is asked.
    let picker = OnceCell::new();
    let mut members: Vec<Member<'_>> = members.into_iter().collect();
    members.sort_by_key(|member| Reverse(member.idle.total()));
    for member in members {
        let mut offer = Offer::default();
        for kind in member.leaning.kinds(member.holder) {
            // Where a group has nothing old its pages are not gone through once more.
            if member.idle.of(kind) == 0 {
                continue;
            }
            let left = member.nr_pages_max.saturating_sub(offer.planned.total());
            let mut spent = member.went;
            spent += offer.planned;
            let room = member.holder.room(kind, spent).min(left);
            let picker = picker.get_or_init(|| ledger.picker());
            let pages = picker.candidates(&Query {
                group: member.group,
                kind: Some(kind),
                older_than: member.holder.age(kind),
                code_older_than: code_age(member.holder.age(kind), member.spares_code),
                objects: None,
                on: member.on,
                nr_pages_max: match kind {
                    Kind::Anon => room.min(swap_room_pages),
                    Kind::File => room,
                },
            });
            offer.planned += NrPages::only(kind, pages.nr_pages);
            offer.could += NrPages::only(kind, pages.nr_fitting_pages);
            if kind == Kind::Anon {
                swap_room_pages -= pages.nr_pages;
            }
            choice.goes.push(Goes {
                group: member.group,
                kind,
                pages,
            });
        }
        choice.offers.insert(member.group, offer);
    }
    choice
}

/// The age at which code goes where others go at this one.
pub(crate) fn code_age(age: Duration, is_spared: bool) -> Duration {
    age * if is_spared { CODE_AGES } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::{Promise, STALL_SHARE};
    use strata_lru::SpaceNo;
    use strata_lru::ages::{Bits, FamilyNo, Home, Place, Standing, Told};

    const MINUTE: Duration = Duration::from_secs(60);

    /// Two groups, of which the second has twice as many anonymous pages; none was accessed for two minutes.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new();
        for walk in 0..3 {
            ledger.start_walk(MINUTE * walk);
            for (number, nr_words) in [(0, 4), (1, 8)] {
                let (space, group) = (SpaceNo(number), GroupId(number as u16));
                if walk == 0 {
                    ledger.appeared(space, group, FamilyNo(number));
                }
                let place = Place {
                    first_page: 0,
                    end_page: 512,
                    home: Home::Private,
                    standing: Standing::Ordinary,
                };
                ledger.begin(space, [place]);
                let resident = std::array::from_fn(|word| u64::from(word < nr_words) * u64::MAX);
                let told = Told {
                    mask: [u64::MAX; 8],
                    resident,
                    accessed: Bits::default(),
                    anon: resident,
                    empty: Bits::default(),
                    unseen: Bits::default(),
                };
                ledger.told(space, 0, &told);
                ledger.end(space, true);
            }
        }
        ledger
    }

    #[test]
    fn idle_page_cache_shows_that_it_stays_so_as_mapped_pages_do_and_what_is_read_again_the_contrary()
     {
        let promise = Promise {
            share_per_min: 0.01,
            min_age: MINUTE,
            stall_share: STALL_SHARE,
        };
        let footprint = NrPages::only(Kind::File, 20_000);
        let none = NrPages::default();
        let room_after = |nr_idle: u64, nr_used: u64| {
            let mut holder = PromiseHolder::new(promise);
            for look in 0..5 {
                let counted = Counted {
                    cache_idle_for: &|age| if age <= 2 * MINUTE { nr_idle } else { 0 },
                    cache_used_after: &|_| nr_used,
                    ..Counted::without_cache(footprint, none, none)
                };
                Walked::default().look(&mut holder, MINUTE * look, GroupId(0), counted);
            }
            holder.room(Kind::File, none)
        };
        let unknown = room_after(0, 0);
        assert!(
            unknown <= 2_000,
            "one in twenty is assumed to be used: {unknown}"
        );
        assert!(room_after(16_000, 0) > 16_000, "all may go");
        assert!(
            room_after(16_000, 1_600) < unknown,
            "a tenth is used each minute"
        );
    }

    #[test]
    fn the_group_with_most_idle_gives_first_and_the_next_what_swap_has_room_for() {
        let ledger = ledger();
        let mut holder = PromiseHolder::new(Promise {
            share_per_min: 0.002,
            min_age: MINUTE,
            stall_share: STALL_SHARE,
        });
        // Large enough that the promise is no bound here.
        let resident = NrPages::only(Kind::Anon, 1_000_000);
        let none = NrPages::default();
        let walked = Walked::default();
        walked.look(
            &mut holder,
            Duration::ZERO,
            GroupId(0),
            Counted::without_cache(resident, none, none),
        );
        let ages = ledger.count(2, |space, _| Some(space.0 as usize)).parts;
        let member = |number: u16| Member {
            group: GroupId(number),
            holder: &holder,
            idle: idle(&holder, |age| ages[usize::from(number)].idle_for(age)),
            went: NrPages::default(),
            nr_pages_max: if number == 1 { 500 } else { u64::MAX },
            leaning: Leaning::ByReturns,
            spares_code: true,
            on: None,
        };
        let choice = choose(&ledger, [0, 1].map(member), 600);
        let went = |goes: &Goes| (goes.group.0, goes.kind, goes.pages.nr_pages);
        let goes: Vec<_> = choice.goes.iter().map(went).collect();
        assert_eq!(goes, [(1, Kind::Anon, 500), (0, Kind::Anon, 100)]);
        let offer = choice.offers[&GroupId(0)];
        assert_eq!((offer.could.anon, offer.planned.anon), (256, 100));
        let leaning = Leaning::FileOnly;
        let of_files = [0, 1].map(member).map(|of| Member { leaning, ..of });
        let choice = choose(&ledger, of_files, 600);
        let is_anon = |goes: &Goes| goes.kind == Kind::Anon;
        assert!(!choice.goes.iter().any(is_anon), "none of it is offered");
    }

    #[test]
    fn swappiness_leans_as_the_kernels_does() {
        let leaning = [None, Some(0), Some(1), Some(100), Some(101), Some(200)].map(Leaning::of);
        assert_eq!(
            leaning,
            [
                Leaning::ByReturns,
                Leaning::FileOnly,
                Leaning::FileFirst,
                Leaning::ByReturns,
                Leaning::AnonFirst,
                Leaning::AnonFirst
            ]
        );
    }
}
