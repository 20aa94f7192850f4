//! A promise about a group: how much of what is taken of it may come back, and what that leaves to take.
//!
//! ```text
//!   look(at, found)        after each walk: is the promise kept? which age counts as idle?
//!   room(kind, planned)    how many pages of a kind may be taken now
//! ```
//!
//! The promise is a share of the group's footprint (what is in memory, and what is away by our hand) that may come back
//! within a minute. Three things keep it:
//! - **Age.** Only what was not accessed for [`PromiseHolder::age`] may go. For each kind it is the age at which most can be away:
//!   the longer the age, the less is old enough, and the less of that is used again (`hazard`).
//! - **Amount.** So much may be away as would, at the rate at which idle memory of that age is used again, use up half of
//!   what the promise allows: little while nothing is known, and all once it is seen to stay idle.
//! - **Rest.** A broken promise stops all taking for a minute, twice as long each time in a row, an hour at most; and no age
//!   is below twice the one at which it was broken, the second time in a row and later four times. A minute within half the
//!   promise lowers that bound by a tenth, down to [`Promise::min_age`].
//!
//! **Owns** the age, the amount and the rest of one group. **Does not own** which pages are old (`strata_lru::ages`), nor
//! how they go and how they are seen to come back (the host).
//!
//! **Invariants**
//! - I1: nothing is taken during a rest, nor when what came back within the minute has used up the promise.
//! - I2: an age is never below [`Promise::min_age`].
//! - I3: the same looks give the same decisions.

use crate::hazard::{Hazards, MEMORY, Seen};
use std::collections::VecDeque;
use std::time::Duration;
use strata_lru::Kind;
use strata_lru::ages::NrPages;

/// Both kinds.
const KINDS: [Kind; 2] = [Kind::Anon, Kind::File];
/// What came back is judged over so long.
const WINDOW: Duration = Duration::from_secs(60);
/// The longest rest, and the age that no promise makes longer.
const REST_MAX: Duration = Duration::from_secs(3600);
/// So many pages a minute may come back to any group: one fault a second is felt by nobody.
const NR_PAGES_PER_MIN_MIN: u64 = 60;
/// The part of the promise that is made use of: as much is left to what nobody can foresee.
const AIM: f64 = 0.5;
/// An age is worth it that leaves this share of the most that any leaves: of those the least is taken.
const ENOUGH: f64 = 0.95;
/// Walks within the least age: what is told to be idle for so long is so to a sixth of it.
const NR_WALKS_WITHIN_AGE: u32 = 6;
/// Broken so often in a row, a promise can't be kept.
const NR_BROKEN_MAX: u32 = 4;
/// The share of time that tasks of a group may wait for memory where nothing else is said: one part in a hundred.
pub const STALL_SHARE: f64 = 0.01;
/// So much of the time tasks of any group may wait: a millisecond in a second is felt by nobody.
pub const STALL_SHARE_MIN: f64 = 0.001;

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The share of the footprint that may come back within a minute: 0.002 for 0.2 %.
    pub share_per_min: f64,
    /// Memory is never idle that was accessed within so long.
    pub min_age: Duration,
    /// The share of time that tasks of the group may wait for memory; 0.1 % always.
    pub stall_share: f64,
}

impl Promise {
    /// Time between two walks where they cost little.
    pub fn walk_interval(&self) -> Duration {
        walk_interval(self.min_age)
    }
}

/// Time between two walks that tell ages from there on apart.
pub fn walk_interval(min_age: Duration) -> Duration {
    min_age / NR_WALKS_WITHIN_AGE
}

/// How a group stands with its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is kept.
    Kept,
    /// It was broken: nothing is taken for a while.
    Resting,
    /// It was broken again and again: there seems to be no memory that stays idle.
    Unsettled,
}

/// What a walk found of a group.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    /// In memory.
    pub(crate) resident: NrPages,
    /// Taken, and not come back.
    pub(crate) away: NrPages,
    /// Taken, and in memory again.
    pub(crate) returned: NrPages,
    /// In memory, and not accessed for so long.
    pub(crate) idle_for: &'a dyn Fn(Duration) -> NrPages,
    /// In memory, accessed since the walk before, and not for so long before that.
    pub(crate) used_after: &'a dyn Fn(Duration) -> NrPages,
}

/// What is known of one kind of pages.
#[derive(Clone, Copy, Debug)]
struct Known {
    hazards: Hazards,
    /// No age is below.
    least: Duration,
    /// The age that counts as idle.
    age: Duration,
    /// The share of what is that old and in memory that is used within a minute, and of what is away.
    of_idle: f64,
    of_away: f64,
}

/// Keeps the promise of one group.
#[derive(Clone, Debug)]
pub struct PromiseHolder {
    promise: Promise,
    anon: Known,
    file: Known,
    /// What came back within [`WINDOW`], by the time that was seen.
    window: VecDeque<(Duration, NrPages)>,
    last_look: Option<Duration>,
    nr_footprint_pages: u64,
    away: NrPages,
    rest_until: Option<Duration>,
    nr_broken_in_row: u32,
    /// The promise was broken for the second time in a row, and nobody has asked since.
    is_broken_again: bool,
    /// Tasks of the group wait for memory for too much of the time.
    is_stalled: bool,
    /// Since when the promise has been kept, with the age as it is.
    kept_since: Duration,
}

impl PromiseHolder {
    /// Nothing is known yet: the age is the least there may be.
    pub fn new(promise: Promise) -> PromiseHolder {
        let hazards = Hazards::new();
        let known = Known {
            hazards,
            least: promise.min_age,
            age: promise.min_age,
            of_idle: hazards.of_idle(promise.min_age, promise.min_age, 0),
            of_away: 0.0,
        };
        PromiseHolder {
            promise,
            anon: known,
            file: known,
            window: VecDeque::new(),
            last_look: None,
            nr_footprint_pages: 0,
            away: NrPages::default(),
            rest_until: None,
            nr_broken_in_row: 0,
            is_broken_again: false,
            is_stalled: false,
            kept_since: Duration::ZERO,
        }
    }

    /// Something else is promised from now on.
    pub fn promise(&mut self, promise: Promise) {
        if promise.min_age != self.promise.min_age {
            // Evidence is of ages that double from the least.
            for known in [&mut self.anon, &mut self.file] {
                known.hazards = Hazards::new();
                known.least = known.least.max(promise.min_age);
                known.age = known.age.max(promise.min_age);
            }
        }
        self.promise = promise;
    }

    /// Tasks of the group waited for memory for this share of the time since the last look, where the kernel tells. Where
    /// that is too much and something came back, the promise is broken whatever its amount.
    pub fn waited(&mut self, share: f64) {
        self.is_stalled = share > self.promise.stall_share.max(STALL_SHARE_MIN);
    }

    /// A walk has ended at `at`, on a clock that does not go back, and found this.
    pub(crate) fn look(&mut self, at: Duration, found: &Found<'_>) {
        let passed = self
            .last_look
            .map_or(Duration::ZERO, |last| at.saturating_sub(last));
        self.last_look = Some(at);
        self.nr_footprint_pages = found.resident.total() + found.away.total();
        self.away = found.away;
        let min_age = self.promise.min_age;
        for kind in KINDS {
            let known = self.known_mut(kind);
            let seen = Seen {
                passed,
                idle_for: &|age| (found.idle_for)(age).of(kind),
                used_after: &|age| (found.used_after)(age).of(kind),
                away: (found.away.of(kind), found.returned.of(kind)),
            };
            known.hazards.see(min_age, &seen);
        }
        self.judge(at, found.returned);
        for kind in KINDS {
            self.find_age(kind, &|age| (found.idle_for)(age).of(kind));
        }
    }

    /// Is the promise kept?
    fn judge(&mut self, at: Duration, returned: NrPages) {
        self.window.push_back((at, returned));
        while self
            .window
            .front()
            .is_some_and(|(seen, _)| at.saturating_sub(*seen) >= WINDOW)
        {
            self.window.pop_front();
        }
        if self.is_resting() {
            return;
        }
        let came_back = self.came_back();
        let is_too_much = came_back.total() > self.allowed_pages();
        let is_stalled = self.is_stalled && returned.total() > 0;
        match is_too_much || is_stalled {
            true => self.broken(at, came_back),
            false if at.saturating_sub(self.kept_since) >= WINDOW => self.kept(at, came_back),
            false => {}
        }
    }

    /// What came back within the last minute.
    pub fn came_back(&self) -> NrPages {
        self.window.iter().map(|(_, nr_pages)| *nr_pages).sum()
    }

    /// Pages that may come back within a minute.
    pub fn allowed_pages(&self) -> u64 {
        let promised = self.nr_footprint_pages as f64 * self.promise.share_per_min;
        (promised as u64).max(NR_PAGES_PER_MIN_MIN)
    }

    /// How long a page of a kind has not been accessed before it counts as idle.
    pub fn age(&self, kind: Kind) -> Duration {
        self.known(kind).age
    }

    /// How the promise stands.
    pub fn standing(&self) -> Standing {
        match self.nr_broken_in_row {
            _ if !self.is_resting() => Standing::Kept,
            ..NR_BROKEN_MAX => Standing::Resting,
            NR_BROKEN_MAX.. => Standing::Unsettled,
        }
    }

    /// Whether what was taken last should be read back, before its program waits for it page by page: asked once, when the
    /// promise was broken for the second time in a row. Then so long ago is last.
    pub fn reads_back(&mut self) -> Option<Duration> {
        std::mem::take(&mut self.is_broken_again).then_some(MEMORY)
    }

    /// Nothing is to be taken now: what came back within the minute has used up the promise, or it rests.
    pub fn is_used_up(&self) -> bool {
        self.is_resting() || self.came_back().total() >= self.allowed_pages()
    }

    /// The kinds, first the one of which less is used again.
    pub fn order(&self) -> [Kind; 2] {
        match self.file.of_idle <= self.anon.of_idle {
            true => [Kind::File, Kind::Anon],
            false => [Kind::Anon, Kind::File],
        }
    }

    /// How many pages of a kind may be taken until the next look, beside those that went since the last one or are
    /// `planned` to go.
    pub fn room(&self, kind: Kind, planned: NrPages) -> u64 {
        if self.is_used_up() {
            return 0;
        }
        let planned: f64 = KINDS
            .into_iter()
            .map(|kind| planned.of(kind) as f64 * self.known(kind).of_idle)
            .sum();
        ((self.left() - planned).max(0.0) / self.known(kind).of_idle) as u64
    }

    /// What is made use of of the promise, less what is expected to come back of what is away: pages a minute.
    fn left(&self) -> f64 {
        let of_away = |kind| self.away.of(kind) as f64 * self.known(kind).of_away;
        let expected: f64 = KINDS.into_iter().map(of_away).sum();
        (self.allowed_pages() as f64 * AIM - expected).max(0.0)
    }

    /// Chooses the least age of those at which about as much can go as at any.
    fn find_age(&mut self, kind: Kind, idle_for: &dyn Fn(Duration) -> u64) {
        let (min_age, nr_group_pages) = (self.promise.min_age, self.nr_footprint_pages);
        // Where nothing is left the age is the one at which something can go first.
        let (left, nr_away) = (self.left().max(1.0), self.away.of(kind));
        let known = self.known_mut(kind);
        let longer = Hazards::ages(min_age).filter(|age| *age > known.least);
        let ages = std::iter::once(known.least).chain(longer);
        let mut gives: Vec<(Duration, f64, f64)> = Vec::new();
        for age in ages {
            let of_idle = known.hazards.of_idle(min_age, age, nr_group_pages);
            gives.push((age, of_idle, (idle_for(age) as f64).min(left / of_idle)));
        }
        let most = gives.iter().map(|gives| gives.2).fold(0.0, f64::max);
        let found = gives.into_iter().find(|gives| gives.2 >= most * ENOUGH);
        if let Some((age, of_idle, _)) = found {
            (known.age, known.of_idle) = (age, of_idle);
            known.of_away = known.hazards.of_away(of_idle, nr_away);
        }
    }

    fn is_resting(&self) -> bool {
        let now = self.last_look.unwrap_or_default();
        self.rest_until.is_some_and(|until| now < until)
    }

    fn broken(&mut self, at: Duration, came_back: NrPages) {
        self.nr_broken_in_row += 1;
        self.is_broken_again = self.nr_broken_in_row == 2;
        let times = if self.nr_broken_in_row > 1 { 4 } else { 2 };
        for kind in KINDS {
            // A kind that kept to its half is not to blame.
            if came_back.of(kind) * 2 >= came_back.total() {
                let known = self.known_mut(kind);
                known.least = (known.age * times).min(REST_MAX.max(known.age));
            }
        }
        let doublings = (self.nr_broken_in_row - 1).min(6);
        self.rest_until = Some(at + (WINDOW * 2u32.pow(doublings)).min(REST_MAX));
        self.kept_since = self.rest_until.unwrap_or(at);
    }

    fn kept(&mut self, at: Duration, came_back: NrPages) {
        self.kept_since = at;
        self.nr_broken_in_row = 0;
        if came_back.total() * 2 <= self.allowed_pages() {
            let min_age = self.promise.min_age;
            for kind in KINDS {
                let known = self.known_mut(kind);
                known.least = known.least.mul_f64(0.9).max(min_age);
            }
        }
    }

    fn known(&self, kind: Kind) -> &Known {
        match kind {
            Kind::Anon => &self.anon,
            Kind::File => &self.file,
        }
    }

    fn known_mut(&mut self, kind: Kind) -> &mut Known {
        match kind {
            Kind::Anon => &mut self.anon,
            Kind::File => &mut self.file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FOOTPRINT: u64 = 100_000;

    fn holder() -> PromiseHolder {
        PromiseHolder::new(Promise {
            share_per_min: 0.002,
            min_age: Duration::from_secs(60),
            stall_share: STALL_SHARE,
        })
    }

    fn anon(nr_pages: u64) -> NrPages {
        NrPages {
            anon: nr_pages,
            file: 0,
        }
    }

    /// A walk of a group of which nothing is idle and this came back.
    fn look(holder: &mut PromiseHolder, at: Duration, returned: NrPages) {
        holder.look(
            at,
            &Found {
                resident: anon(FOOTPRINT),
                away: NrPages::default(),
                returned,
                idle_for: &|_| NrPages::default(),
                used_after: &|_| NrPages::default(),
            },
        );
    }

    /// Looks every ten seconds at a group of which 70,000 pages have been idle since the beginning, and of these so many are
    /// used again in ten seconds while they are in memory; what is away by a time, and the age then.
    fn away_after(seconds: u64, nr_used: u64) -> (u64, Duration) {
        let mut holder = holder();
        let (mut away, mut too_young) = (0, 0);
        for at_s in (0..=seconds).step_by(10) {
            let at = Duration::from_secs(at_s);
            let if_old = |age, nr_pages| anon(if age <= at { nr_pages } else { 0 });
            let is_used = |age| age < Duration::from_secs(120);
            // What was taken too young comes back as it is used again in memory.
            let returned = nr_used * too_young / 70_000;
            (away, too_young) = (away - returned, too_young - returned);
            let idle = 70_000 - away;
            holder.look(
                at,
                &Found {
                    resident: anon(FOOTPRINT - away),
                    away: anon(away),
                    returned: anon(returned),
                    idle_for: &|age| if_old(age, idle),
                    used_after: &|age| if_old(age, if is_used(age) { nr_used } else { 0 }),
                },
            );
            if holder.age(Kind::Anon) <= at {
                let room = holder.room(Kind::Anon, NrPages::default()).min(idle);
                away += room;
                if is_used(holder.age(Kind::Anon)) {
                    too_young += room;
                }
            }
        }
        (away, holder.age(Kind::Anon))
    }

    #[test]
    fn what_is_seen_to_stay_idle_goes_a_minute_after_it_counts_as_idle_and_all_of_it_in_three() {
        assert_eq!(away_after(50, 0).0, 0);
        let at_first = away_after(60, 0).0;
        assert!((1_500..=2_500).contains(&at_first), "{at_first}");
        let later = away_after(120, 0).0;
        assert!((15_000..=40_000).contains(&later), "{later}");
        let (all, age) = away_after(300, 0);
        assert_eq!((all, age), (70_000, Duration::from_secs(60)));
    }

    #[test]
    fn an_age_at_which_idle_memory_is_used_again_is_not_enough_before_anything_was_taken() {
        let early = away_after(110, 700).0;
        assert!((1_000..=2_500).contains(&early), "{early}");
        for seconds in [200, 600] {
            let (away, age) = away_after(seconds, 700);
            assert_eq!(age, Duration::from_secs(120));
            assert!(away > 5 * early, "{away}");
        }
    }

    #[test]
    fn a_broken_promise_stops_at_once_and_doubles_the_age_then_fourfold() {
        let mut holder = holder();
        let at = Duration::from_secs;
        look(&mut holder, at(0), NrPages::default());
        look(&mut holder, at(10), anon(200));
        assert_eq!(holder.standing(), Standing::Kept, "as much as is allowed");
        look(&mut holder, at(20), anon(1));
        assert_eq!(holder.standing(), Standing::Resting);
        assert_eq!(holder.age(Kind::Anon), at(120));
        assert_eq!(holder.age(Kind::File), at(60), "files are not to blame");
        assert_eq!(holder.room(Kind::Anon, NrPages::default()), 0);
        assert_eq!(holder.reads_back(), None, "the first time");
        // What comes back during the rest is judged at its end only, by the last minute.
        look(&mut holder, at(30), anon(5_000));
        assert_eq!(holder.age(Kind::Anon), at(120));
        look(&mut holder, at(80), anon(0));
        assert_eq!(holder.standing(), Standing::Resting);
        assert_eq!(holder.age(Kind::Anon), at(480), "twice in a row");
        assert!(holder.reads_back().is_some());
        assert_eq!(holder.reads_back(), None, "once");
        look(&mut holder, at(200), anon(0));
        assert_eq!(holder.standing(), Standing::Kept);
    }

    #[test]
    fn a_group_whose_tasks_wait_for_what_comes_back_breaks_the_promise_with_little() {
        let at = Duration::from_secs;
        let standing = |share, nr_pages| {
            let mut holder = holder();
            look(&mut holder, at(0), NrPages::default());
            holder.waited(share);
            look(&mut holder, at(10), anon(nr_pages));
            holder.standing()
        };
        assert_eq!(standing(0.02, 1), Standing::Resting);
        assert_eq!(standing(0.01, 1), Standing::Kept);
        assert_eq!(
            standing(0.5, 0),
            Standing::Kept,
            "it waits for something else"
        );
    }

    #[test]
    fn how_long_tasks_may_wait_is_promised_and_a_thousandth_always_allowed() {
        let standing = |stall_share, share| {
            let mut holder = holder();
            holder.promise(Promise {
                stall_share,
                ..holder.promise
            });
            look(&mut holder, Duration::ZERO, NrPages::default());
            holder.waited(share);
            look(&mut holder, Duration::from_secs(10), anon(1));
            holder.standing()
        };
        assert_eq!(standing(0.05, 0.05), Standing::Kept);
        assert_eq!(standing(0.05, 0.06), Standing::Resting);
        assert_eq!(standing(0.0001, 0.001), Standing::Kept);
        assert_eq!(standing(0.0001, 0.002), Standing::Resting);
    }

    #[test]
    fn a_group_that_never_settles_is_told_and_left_alone_for_longer_each_time() {
        let mut holder = holder();
        let mut nr_taking = 0;
        for at_s in (0..24 * 3600).step_by(10) {
            look(&mut holder, Duration::from_secs(at_s), anon(1_000));
            nr_taking += u32::from(holder.room(Kind::Anon, NrPages::default()) > 0);
        }
        assert_eq!(holder.standing(), Standing::Unsettled);
        assert_eq!(nr_taking, 0);
        assert_eq!(holder.age(Kind::Anon), REST_MAX);
    }

    #[test]
    fn after_a_quiet_time_the_age_falls_back_to_the_least() {
        let mut holder = holder();
        look(&mut holder, Duration::ZERO, anon(1_000));
        assert_eq!(holder.age(Kind::Anon), Duration::from_secs(120));
        for at_s in (10..3600).step_by(10) {
            look(&mut holder, Duration::from_secs(at_s), NrPages::default());
        }
        assert_eq!(holder.age(Kind::Anon), Duration::from_secs(60));
        assert_eq!(holder.standing(), Standing::Kept);
    }

    #[test]
    fn the_kind_of_which_less_is_used_again_gives_first() {
        let mut holder = holder();
        let found = Found {
            resident: NrPages {
                anon: FOOTPRINT,
                file: FOOTPRINT,
            },
            away: NrPages::default(),
            returned: NrPages::default(),
            idle_for: &|_| NrPages {
                anon: 50_000,
                file: 50_000,
            },
            used_after: &|_| NrPages {
                anon: 0,
                file: 5_000,
            },
        };
        holder.look(Duration::ZERO, &found);
        holder.look(Duration::from_secs(10), &found);
        assert_eq!(holder.order(), [Kind::Anon, Kind::File]);
        let room = |planned| holder.room(Kind::File, planned);
        assert!(room(NrPages::default()) > room(anon(200)));
    }

    #[test]
    fn a_small_group_may_have_a_fault_a_second() {
        let holder = holder();
        assert_eq!(holder.allowed_pages(), 60);
    }

    proptest! {
        #[test]
        fn nothing_goes_while_the_promise_is_used_up_and_no_age_is_below_the_least(
            looks in prop::collection::vec((1u64..100, 0u64..200_000, 0u64..500, 0u64..500), 1..200)
        ) {
            let mut holder = holder();
            let mut at = Duration::ZERO;
            let mut seen: Vec<(Duration, u64)> = Vec::new();
            let mut away = NrPages::default();
            for (seconds, footprint, anon, file) in looks {
                at += Duration::from_secs(seconds);
                let returned = NrPages { anon, file };
                holder.look(at, &Found {
                    resident: NrPages::only(Kind::Anon, footprint),
                    away,
                    returned,
                    idle_for: &|age| NrPages::only(Kind::Anon, if age <= at { footprint / 2 } else { 0 }),
                    used_after: &|_| returned,
                });
                seen.push((at, anon + file));
                let within = seen.iter().filter(|(seen, _)| at - *seen < WINDOW);
                let came_back: u64 = within.map(|(_, nr)| nr).sum();
                prop_assert_eq!(holder.came_back().total(), came_back);
                for kind in KINDS {
                    prop_assert!(holder.age(kind) >= Duration::from_secs(60));
                    let room = holder.room(kind, NrPages::default());
                    let is_used_up = came_back >= holder.allowed_pages();
                    prop_assert!(room == 0 || !is_used_up && holder.standing() == Standing::Kept);
                    away += NrPages::only(kind, room / 2);
                }
            }
        }
    }
}
