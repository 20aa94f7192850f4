//! What goes of many groups under promises: the decision that follows a walk, live or played.
//!
//! ```text
//!   returned     what the walk found in memory again, by group: for each group's look at its promise
//!   idle         what of a group counts as idle
//!   choose       what goes, of those groups first that have most of that
//!   oldest       what goes where a group holds more than it may, or the host is short of memory
//! ```
//!
//! **Owns** the order of groups and kinds, and how much of each. **Does not own** when and how much a promise allows
//! (`promise`), which pages are oldest (`strata_lru::ages`), who walks and who takes (the host, or the simulator).
//!
//! **Invariants**
//! - I1: no more goes of a kind than its keeper has room for, nor more anonymous pages than there is room in swap.
//! - I2: the same ledger and keepers give the same choice.

use crate::promise::Keeper;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use strata_lru::ages::{Candidates, Ledger, NrPages, Query, Run};
use strata_lru::{GroupId, Kind};

/// A group before the choice.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Who it is.
    pub group: GroupId,
    /// What keeps its promise.
    pub keeper: &'a Keeper,
    /// What of it counts as idle, as [`idle`] tells.
    pub idle: NrPages,
    /// What went since the walk.
    pub went: NrPages,
    /// The most that may go, whatever the promise has room for.
    pub nr_pages_max: u64,
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

/// What the last walk found in memory again that was taken, by group.
pub fn returned(ledger: &Ledger) -> BTreeMap<GroupId, NrPages> {
    let mut returned: BTreeMap<GroupId, NrPages> = BTreeMap::new();
    for refault in ledger.refaults() {
        let sum = returned.entry(refault.group).or_default();
        *sum += NrPages::only(refault.kind, refault.nr_pages);
    }
    returned
}

/// What of a group counts as idle: each kind by its own age. `idle_for` tells what was not accessed for so long.
pub fn idle(keeper: &Keeper, idle_for: impl Fn(Duration) -> NrPages) -> NrPages {
    NrPages {
        anon: idle_for(keeper.age(Kind::Anon)).anon,
        file: idle_for(keeper.age(Kind::File)).file,
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
        for kind in member.keeper.order() {
            // Where a group has nothing old its pages are not gone through once more.
            if member.idle.of(kind) == 0 {
                continue;
            }
            let left = member.nr_pages_max.saturating_sub(offer.planned.total());
            let mut spent = member.went;
            spent += offer.planned;
            let room = member.keeper.room(kind, spent).min(left);
            let picker = picker.get_or_init(|| ledger.picker());
            let pages = picker.candidates(&Query {
                group: member.group,
                kind: Some(kind),
                older_than: member.keeper.age(kind),
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

/// A group of which the oldest pages are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// Who it is.
    pub group: GroupId,
    /// The most of it.
    pub nr_pages_max: u64,
    /// What was accessed within so long stays.
    pub older_than: Duration,
}

/// The oldest pages of all these groups, whoever has them and whatever they are; so many, of which so many may be
/// anonymous.
pub fn oldest(
    ledger: &Ledger,
    holders: &[Holder],
    nr_pages: u64,
    nr_anon_pages_max: u64,
) -> Vec<Goes> {
    let kinds = [(Kind::Anon, nr_anon_pages_max), (Kind::File, u64::MAX)];
    let picker = ledger.picker();
    let mut goes: Vec<Goes> = Vec::new();
    let mut by_age: Vec<(usize, Run)> = Vec::new();
    for holder in holders {
        for (kind, most) in kinds {
            let found = picker.candidates(&Query {
                group: holder.group,
                kind: Some(kind),
                older_than: holder.older_than,
                nr_pages_max: nr_pages.min(most).min(holder.nr_pages_max),
            });
            by_age.extend(found.runs.iter().map(|run| (goes.len(), *run)));
            goes.push(Goes {
                group: holder.group,
                kind,
                pages: Candidates::default(),
            });
        }
    }
    by_age.sort_by_key(|(_, run)| Reverse(run.idle));
    let mut left = nr_pages;
    let mut left_of_group: BTreeMap<GroupId, u64> = BTreeMap::new();
    left_of_group.extend(holders.iter().map(|of| (of.group, of.nr_pages_max)));
    let mut left_anon = nr_anon_pages_max;
    for (number, mut run) in by_age {
        let goes = &mut goes[number];
        let Some(left_of_group) = left_of_group.get_mut(&goes.group) else {
            continue;
        };
        run.nr_pages = run.nr_pages.min(left).min(*left_of_group);
        if goes.kind == Kind::Anon {
            run.nr_pages = run.nr_pages.min(left_anon);
            left_anon -= run.nr_pages;
        }
        if run.nr_pages > 0 {
            left -= run.nr_pages;
            *left_of_group -= run.nr_pages;
            goes.pages.nr_pages += run.nr_pages;
            goes.pages.runs.push(run);
        }
    }
    goes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Promise;
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
    fn the_group_with_most_idle_gives_first_and_the_next_what_swap_has_room_for() {
        let ledger = ledger();
        let mut keeper = Keeper::new(Promise {
            share_per_min: 0.002,
            min_age: MINUTE,
        });
        // Large enough that the promise is no bound here.
        keeper.look(Duration::ZERO, 1_000_000, NrPages::default());
        keeper.look(MINUTE, 1_000_000, NrPages::default());
        let ages = ledger.count(2, |space, _| Some(space.0 as usize)).parts;
        let member = |number: u16| Member {
            group: GroupId(number),
            keeper: &keeper,
            idle: idle(&keeper, |age| ages[usize::from(number)].idle_for(age)),
            went: NrPages::default(),
            nr_pages_max: if number == 1 { 500 } else { u64::MAX },
        };
        let choice = choose(&ledger, [0, 1].map(member), 600);
        let went = |goes: &Goes| (goes.group.0, goes.kind, goes.pages.nr_pages);
        let goes: Vec<_> = choice.goes.iter().map(went).collect();
        assert_eq!(goes, [(1, Kind::Anon, 500), (0, Kind::Anon, 100)]);
        let offer = choice.offers[&GroupId(0)];
        assert_eq!((offer.could.anon, offer.planned.anon), (256, 100));
    }

    #[test]
    fn of_what_groups_hold_the_oldest_goes_whoever_has_it() {
        // Of the second group half is accessed again, late.
        let mut ledger = ledger();
        ledger.start_walk(MINUTE * 20);
        ledger.begin(
            SpaceNo(1),
            [Place {
                first_page: 0,
                end_page: 512,
                home: Home::Private,
                standing: Standing::Ordinary,
            }],
        );
        let all = [u64::MAX; 8];
        let accessed = std::array::from_fn(|word| u64::from(word < 4) * u64::MAX);
        let told = Told {
            mask: all,
            resident: all,
            accessed,
            anon: all,
            empty: Bits::default(),
            unseen: Bits::default(),
        };
        ledger.told(SpaceNo(1), 0, &told);
        ledger.end(SpaceNo(1), true);
        let holder = |number: u16, nr_pages_max| Holder {
            group: GroupId(number),
            nr_pages_max,
            older_than: Duration::ZERO,
        };
        let nr_anon = |holders: &[Holder], most, anon| -> Vec<u64> {
            let goes = oldest(&ledger, holders, most, anon);
            let anon = goes.iter().filter(|goes| goes.kind == Kind::Anon);
            anon.map(|goes| goes.pages.nr_pages).collect()
        };
        let both = [holder(0, u64::MAX), holder(1, u64::MAX)];
        assert_eq!(
            nr_anon(&both, 512, u64::MAX),
            [256, 256],
            "what is in use stays"
        );
        assert_eq!(nr_anon(&both, 600, u64::MAX), [256, 344]);
        assert_eq!(
            nr_anon(&[holder(0, 100), holder(1, 150)], 512, u64::MAX),
            [100, 150]
        );
        assert_eq!(
            nr_anon(&both, 512, 60).iter().sum::<u64>(),
            60,
            "swap has no more room"
        );
    }
}
