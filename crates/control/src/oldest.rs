//! What goes of groups promise or not: the oldest, of whatever kind, pages of programs and page cache that nobody maps.
//!
//! A group that holds more than its rule says, a host that is short and a limit that is near ask alike.
//!
//! **Owns** the order. **Does not own** how much is asked for (`shortage`, or a rule), nor which pages of a group are its
//! oldest (`strata_lru::ages`, `page_cache`).
//!
//! **Invariants**
//! - I1: nothing goes that was accessed within its group's least age, but for page cache that was read once where that is asked for;
//!   and of no group more than it may give.
//! - I2: of what may go, is of the kind that goes first and of one priority and rest, none stays that is older than what goes.

use crate::guard::{Goes, code_age};
use crate::page_cache::{CacheAges, Idle};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use strata_lru::ages::{Candidates, Ledger, ObjectNo, Query, Run};
use strata_lru::{GroupId, Kind};

/// A group of which the oldest is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// Who it is.
    pub group: GroupId,
    /// Of groups of a lower one everything goes first, and of groups alike by age.
    pub priority: i32,
    /// It rests, for so long: of groups of one priority, of those that rested longest everything goes first.
    pub rest: Duration,
    /// The most pages of its programs.
    pub nr_pages_max: u64,
    /// The most of these that may be anonymous.
    pub nr_anon_pages_max: u64,
    /// What was accessed within so long stays.
    pub older_than: Duration,
    /// Code stays for longer than the rest.
    pub spares_code: bool,
    /// Pages of these alone; `None`: any.
    pub objects: Option<&'a BTreeSet<ObjectNo>>,
    /// Its page cache; `None`: none of it goes.
    pub cache: Option<CacheOf<'a>>,
}

/// Page cache of a group that nobody maps.
#[derive(Clone, Copy, Debug)]
pub struct CacheOf<'a> {
    /// How old it is, as of the last census.
    pub ages: &'a CacheAges,
    /// What was read once goes whatever its age.
    pub with_once: bool,
    /// Of what the census found this went already, the oldest, or can't go.
    pub nr_spent_pages: u64,
    /// The most that may go.
    pub nr_pages_max: u64,
}

/// Which kind goes before the other, whatever its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Neither.
    Oldest,
    /// Page cache that nobody maps.
    Cache,
    /// Pages of programs.
    Programs,
}

/// What goes.
#[derive(Clone, Debug, Default)]
pub struct Oldest {
    /// Pages of programs.
    pub goes: Vec<Goes>,
    /// Page cache: pages of each group, the oldest of it.
    pub cache: Vec<(GroupId, u64)>,
}

impl Oldest {
    /// Pages of programs.
    pub fn nr_program_pages(&self) -> u64 {
        self.goes.iter().map(|goes| goes.pages.nr_pages).sum()
    }
}

/// What is of one age.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Pages of a program, of the group and kind of this number.
    Program(usize, Run),
    /// So many pages of page cache, of the group of this number.
    Cache(usize, u64),
}

impl Piece {
    fn is_first(&self, first: First) -> bool {
        match (self, first) {
            (_, First::Oldest) => true,
            (Piece::Program(..), first) => first == First::Programs,
            (Piece::Cache(..), first) => first == First::Cache,
        }
    }
}

/// The oldest of these groups, of those of the lowest priority first; so many pages, of which so many may be anonymous.
pub fn oldest(
    ledger: &Ledger,
    holders: &[Holder<'_>],
    first: First,
    nr_pages: u64,
    nr_anon_pages_max: u64,
) -> Oldest {
    let mut found = Oldest::default();
    let mut in_order = Vec::new();
    let mut add = |holder: &Holder<'_>, age: Duration, piece: Piece| {
        let (rest, age) = (Reverse(holder.rest), Reverse(age));
        let key = (!piece.is_first(first), holder.priority, rest, age);
        in_order.push((key, piece));
    };
    let picker = ledger.picker();
    for holder in holders {
        for (kind, most) in [
            (Kind::Anon, nr_anon_pages_max.min(holder.nr_anon_pages_max)),
            (Kind::File, u64::MAX),
        ] {
            let pages = picker.candidates(&Query {
                group: holder.group,
                kind: Some(kind),
                older_than: holder.older_than,
                code_older_than: code_age(holder.older_than, holder.spares_code),
                objects: holder.objects,
                on: None,
                nr_pages_max: nr_pages.min(most).min(holder.nr_pages_max),
            });
            let number = found.goes.len();
            for run in &pages.runs {
                add(holder, run.idle, Piece::Program(number, *run));
            }
            found.goes.push(Goes {
                group: holder.group,
                kind,
                pages: Candidates::default(),
            });
        }
    }
    for (number, holder) in holders.iter().enumerate() {
        found.cache.push((holder.group, 0));
        let Some(cache) = holder.cache else {
            continue;
        };
        let mut nr_spent = cache.nr_spent_pages;
        let idle = Idle {
            older_than: holder.older_than,
            with_once: cache.with_once,
        };
        let ages = cache.ages.ages.iter();
        for of in ages.filter(|of| idle.has(of.age_ms, of.is_once)) {
            let nr_left = of.nr_pages.saturating_sub(nr_spent);
            nr_spent = nr_spent.saturating_sub(of.nr_pages);
            let age = Duration::from_millis(of.age_ms);
            add(holder, age, Piece::Cache(number, nr_left));
        }
    }
    in_order.sort_by_key(|(key, _)| *key);
    let pieces = in_order.into_iter().map(|(_, piece)| piece);
    share_out(&mut found, holders, pieces, nr_pages, nr_anon_pages_max);
    found
}

fn share_out(
    found: &mut Oldest,
    holders: &[Holder<'_>],
    pieces: impl Iterator<Item = Piece>,
    nr_pages: u64,
    nr_anon_pages_max: u64,
) {
    let (mut left, mut left_anon) = (nr_pages, nr_anon_pages_max);
    let mut left_of_group: BTreeMap<GroupId, u64> = BTreeMap::new();
    left_of_group.extend(holders.iter().map(|of| (of.group, of.nr_pages_max)));
    for piece in pieces {
        match piece {
            Piece::Program(number, mut run) => {
                let goes = &mut found.goes[number];
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
            Piece::Cache(number, nr_old) => {
                let (_, share) = &mut found.cache[number];
                let most = holders[number].cache.map_or(0, |cache| cache.nr_pages_max);
                let nr_goes = nr_old.min(left).min(most.saturating_sub(*share));
                *share += nr_goes;
                left -= nr_goes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_cache::CacheAge;
    use strata_lru::SpaceNo;
    use strata_lru::ages::{Bits, FamilyNo, Home, Place, Standing, Told};

    const MINUTE: Duration = Duration::from_secs(60);

    /// A walk of a space of so many words of pages, anonymous or of a file, of which so many are accessed.
    fn walk(ledger: &mut Ledger, space: u32, places: &[Place], nr_words: usize, nr_used: usize) {
        let first = |nr_words| std::array::from_fn(|word| u64::from(word < nr_words) * u64::MAX);
        let (resident, accessed): (Bits, Bits) = (first(nr_words), first(nr_used));
        let is_anon = places.iter().all(|place| place.home == Home::Private);
        ledger.begin(SpaceNo(space), places.iter().copied());
        let told = Told {
            mask: [u64::MAX; 8],
            resident,
            accessed,
            anon: if is_anon { resident } else { [0; 8] },
            empty: [0; 8],
            unseen: [0; 8],
        };
        ledger.told(SpaceNo(space), 0, &told);
        ledger.end(SpaceNo(space), true);
    }

    fn place(first_page: u64, nr_pages: u64, home: Home, standing: Standing) -> Place {
        Place {
            first_page,
            end_page: first_page + nr_pages,
            home,
            standing,
        }
    }

    /// Two groups: one of 256 anonymous pages that was used twenty minutes ago; one of 512, of which half is used now.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new();
        for (minutes, nr_used) in [(0, 0), (1, 0), (20, 4)] {
            ledger.start_walk(MINUTE * minutes);
            for (number, nr_words) in [(0, 4), (1, 8)] {
                if minutes == 0 {
                    let group = GroupId(number as u16);
                    ledger.appeared(SpaceNo(number), group, FamilyNo(number));
                }
                let all = place(0, 512, Home::Private, Standing::Ordinary);
                walk(
                    &mut ledger,
                    number,
                    &[all],
                    nr_words,
                    nr_used * number as usize,
                );
            }
        }
        ledger
    }

    fn holder(number: u16, nr_pages_max: u64) -> Holder<'static> {
        Holder {
            group: GroupId(number),
            priority: 0,
            rest: Duration::ZERO,
            nr_pages_max,
            nr_anon_pages_max: u64::MAX,
            older_than: Duration::ZERO,
            spares_code: true,
            objects: None,
            cache: None,
        }
    }

    fn nr_anon(found: &Oldest) -> Vec<u64> {
        let anon = found.goes.iter().filter(|goes| goes.kind == Kind::Anon);
        anon.map(|goes| goes.pages.nr_pages).collect()
    }

    #[test]
    fn of_what_groups_hold_the_oldest_goes_whoever_has_it() {
        let ledger = ledger();
        let nr_anon = |holders: &[Holder<'_>], most, anon| {
            nr_anon(&oldest(&ledger, holders, First::Oldest, most, anon))
        };
        let both = [holder(0, u64::MAX), holder(1, u64::MAX)];
        let spared = Holder {
            nr_anon_pages_max: 0,
            ..both[0]
        };
        assert_eq!(nr_anon(&[spared], 600, 600), [0], "files alone");
        assert_eq!(
            nr_anon(&both, 512, u64::MAX),
            [256, 256],
            "what is in use stays"
        );
        assert_eq!(nr_anon(&both, 600, u64::MAX), [256, 344]);
        let few = [holder(0, 100), holder(1, 150)];
        assert_eq!(nr_anon(&few, 512, u64::MAX), [100, 150]);
        assert_eq!(
            nr_anon(&both, 512, 60).iter().sum::<u64>(),
            60,
            "swap has no more room"
        );
    }

    fn ages(all: &[(u64, u64)]) -> CacheAges {
        let age = |&(minutes, nr_pages)| CacheAge {
            age_ms: minutes * 60_000,
            nr_pages,
            ..CacheAge::default()
        };
        CacheAges {
            ages: all.iter().map(age).collect(),
            ..CacheAges::default()
        }
    }

    fn with_cache(number: u16, ages: &CacheAges, nr_spent_pages: u64, most: u64) -> Holder<'_> {
        Holder {
            older_than: MINUTE,
            cache: Some(CacheOf {
                ages,
                with_once: false,
                nr_spent_pages,
                nr_pages_max: most,
            }),
            ..holder(number, u64::MAX)
        }
    }

    #[test]
    fn page_cache_and_pages_of_programs_go_by_age_alike_unless_one_of_them_is_to_be_first() {
        let ledger = ledger();
        let cache = ages(&[(60, 100), (5, 100), (0, 100)]);
        let holders = [with_cache(0, &cache, 0, u64::MAX)];
        let went = |first, nr_pages| {
            let found = oldest(&ledger, &holders, first, nr_pages, u64::MAX);
            (found.nr_program_pages(), found.cache[0].1)
        };
        assert_eq!(went(First::Oldest, 50), (0, 50));
        assert_eq!(went(First::Oldest, 300), (200, 100));
        assert_eq!(went(First::Oldest, 400), (256, 144));
        assert_eq!(went(First::Cache, 300), (100, 200));
        assert_eq!(went(First::Programs, 300), (256, 44));
        assert_eq!(went(First::Oldest, 9000), (256, 200), "what is young stays");
    }

    #[test]
    fn page_cache_that_was_read_once_goes_whatever_its_age_where_that_is_asked_for() {
        let ledger = ledger();
        let mut cache = ages(&[(60, 100), (0, 50), (0, 100)]);
        cache.ages[2].is_once = true;
        let went = |with_once, nr_spent_pages| {
            let mut holder = with_cache(0, &cache, nr_spent_pages, u64::MAX);
            holder
                .cache
                .iter_mut()
                .for_each(|of| of.with_once = with_once);
            let found = oldest(&ledger, &[holder], First::Cache, 300, u64::MAX);
            (found.nr_program_pages(), found.cache[0].1)
        };
        assert_eq!(went(false, 0), (200, 100));
        assert_eq!(went(true, 0), (100, 200));
        assert_eq!(went(true, 150), (250, 50), "what went does not go again");
    }

    #[test]
    fn of_a_group_of_a_lower_priority_all_goes_first_but_page_cache_goes_before_programs() {
        let ledger = ledger();
        let cache = ages(&[(60, 100)]);
        // Half of the second group's pages are in use.
        let went = |priorities: [i32; 2], first, nr_pages| {
            let [old, young] = priorities;
            let holders = [
                Holder {
                    priority: old,
                    ..with_cache(0, &cache, 0, u64::MAX)
                },
                Holder {
                    priority: young,
                    ..holder(1, u64::MAX)
                },
            ];
            let found = oldest(&ledger, &holders, first, nr_pages, u64::MAX);
            (nr_anon(&found), found.cache[0].1)
        };
        assert_eq!(went([0, 0], First::Programs, 300), (vec![256, 44], 0));
        assert_eq!(went([0, -1], First::Programs, 400), (vec![0, 400], 0));
        assert_eq!(went([1, 0], First::Cache, 300), (vec![0, 200], 100));
        assert_eq!(went([0, 1], First::Cache, 300), (vec![200, 0], 100));
        assert_eq!(went([0, -1], First::Oldest, 520), (vec![0, 512], 8));
    }

    #[test]
    fn who_rests_goes_whole_before_others_and_who_rested_for_longer_first() {
        let ledger = ledger();
        let went = |rests: [u64; 2], nr_pages| {
            let holders = [0, 1].map(|number| Holder {
                rest: Duration::from_secs(rests[usize::from(number)]),
                ..holder(number, 500)
            });
            nr_anon(&oldest(
                &ledger,
                &holders,
                First::Oldest,
                nr_pages,
                u64::MAX,
            ))
        };
        assert_eq!(went([0, 0], 300), [256, 44]);
        assert_eq!(went([0, 60], 300), [0, 300], "also what it used last");
        assert_eq!(went([0, 60], 600), [100, 500], "but for what it keeps");
        assert_eq!(went([90, 60], 300), [256, 44]);
    }

    #[test]
    fn of_two_groups_the_one_whose_page_cache_is_older_gives_and_none_more_than_it_may() {
        let ledger = Ledger::new();
        let (old, young) = (ages(&[(9, 100), (3, 50)]), ages(&[(2, 100), (0, 500)]));
        let shares = |spent, most, nr_pages| {
            let both = [
                with_cache(0, &old, spent, most),
                with_cache(1, &young, 0, 1000),
            ];
            let found = oldest(&ledger, &both, First::Oldest, nr_pages, 0);
            found.cache.iter().map(|of| of.1).collect::<Vec<_>>()
        };
        assert_eq!(shares(0, 1000, 120), [120, 0]);
        assert_eq!(shares(0, 1000, 200), [150, 50]);
        assert_eq!(shares(0, 1000, 9000), [150, 100], "what is young stays");
        assert_eq!(shares(120, 1000, 50), [30, 20]);
        assert_eq!(shares(0, 10, 50), [10, 40]);
    }

    #[test]
    fn code_goes_at_twice_the_age_where_it_is_spared() {
        let mut ledger = Ledger::new();
        ledger.appeared(SpaceNo(0), GroupId(0), FamilyNo(0));
        let of_file = |first_page, standing| {
            let home = Home::Copied(ObjectNo(first_page), 0);
            place(first_page, 64, home, standing)
        };
        let places = [of_file(0, Standing::Ordinary), of_file(64, Standing::Code)];
        let mut goes_at = [None; 2];
        for minutes in 0..5 {
            ledger.start_walk(MINUTE * minutes);
            walk(&mut ledger, 0, &places, 2, if minutes == 1 { 2 } else { 0 });
            for (number, spares_code) in [(0, false), (1, true)] {
                let holder = Holder {
                    older_than: MINUTE,
                    spares_code,
                    ..holder(0, u64::MAX)
                };
                let found = oldest(&ledger, &[holder], First::Oldest, u64::MAX, 0);
                if found.nr_program_pages() == 128 && minutes > 1 && goes_at[number].is_none() {
                    goes_at[number] = Some(minutes - 1);
                }
            }
        }
        assert_eq!(goes_at, [Some(1), Some(2)], "minutes after the last access");
    }
}
