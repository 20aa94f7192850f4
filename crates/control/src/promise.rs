//! A promise about a group: how much of what is taken of it may come back, and what that leaves to take.
//!
//! ```text
//!   look(at, footprint, came back)      after each walk: is the promise kept? which age counts as idle?
//!   room(kind, planned)                 how many pages of a kind may be taken now
//!   took(kind, pages)                   what was
//! ```
//!
//! The promise is a share of the group's footprint (what is in memory, and what is away by our hand) that may come back
//! within a minute. Three things keep it:
//! - **Age.** Only what was not accessed for [`Keeper::age`] may go; the age is found for each kind. What comes back
//!   beyond the promise doubles it at once, the second time in a row and later fourfold. A minute within half the promise
//!   lowers it by a tenth, down to [`Promise::min_age`].
//! - **Pace.** What was taken lately tells which share of it comes back. As much may go in a minute as would, at that
//!   share, use up what the promise leaves: little while nothing is known, and all once it is known to stay idle.
//! - **Rest.** A broken promise stops all taking for a minute, twice as long each time in a row, an hour at most.
//!
//! **Owns** the age, the pace and the rest of one group. **Does not own** which pages are old (`strata_lru::ages`), nor
//! how they go and how they are seen to come back (the host).
//!
//! **Invariants**
//! - I1: nothing is taken during a rest, nor when what came back within the minute has used up the promise.
//! - I2: an age is never below [`Promise::min_age`].
//! - I3: the same looks give the same decisions.

use std::collections::VecDeque;
use std::time::Duration;
use strata_lru::Kind;
use strata_lru::ages::NrPages;

/// What came back is judged over so long.
const WINDOW: Duration = Duration::from_secs(60);
/// The longest rest, and the age that no promise makes longer.
const REST_MAX: Duration = Duration::from_secs(3600);
/// So many pages a minute may come back to any group: one fault a second is felt by nobody.
const NR_PAGES_PER_MIN_MIN: u64 = 60;
/// What is known of pages that were taken counts less by a factor of e in so long.
const MEMORY: Duration = Duration::from_secs(600);
/// The share of what goes that is taken to come back while nothing is known: one page in twenty.
const RETURNING_AT_FIRST: f64 = 0.05;
/// The assumption counts as much as this share of the footprint, once taken.
const ASSUMED_SHARE: f64 = 0.05;
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

/// What is known of one kind of pages.
#[derive(Clone, Copy, Debug)]
struct Known {
    age: Duration,
    /// Pages taken of late, and those of them that came back; both fade.
    taken: f64,
    returned: f64,
}

/// Keeps the promise of one group.
#[derive(Clone, Debug)]
pub struct Keeper {
    promise: Promise,
    anon: Known,
    file: Known,
    /// What came back within [`WINDOW`], by the time that was seen.
    window: VecDeque<(Duration, NrPages)>,
    last_look: Option<Duration>,
    since_last: Duration,
    nr_footprint_pages: u64,
    rest_until: Option<Duration>,
    nr_broken_in_row: u32,
    /// The promise was broken for the second time in a row, and nobody has asked since.
    is_broken_again: bool,
    /// Tasks of the group wait for memory for too much of the time.
    is_stalled: bool,
    /// Since when the promise has been kept, with the age as it is.
    kept_since: Duration,
}

impl Keeper {
    /// Nothing is known yet: the age is the least there may be.
    pub fn new(promise: Promise) -> Keeper {
        let known = Known {
            age: promise.min_age,
            taken: 0.0,
            returned: 0.0,
        };
        Keeper {
            promise,
            anon: known,
            file: known,
            window: VecDeque::new(),
            last_look: None,
            since_last: Duration::ZERO,
            nr_footprint_pages: 0,
            rest_until: None,
            nr_broken_in_row: 0,
            is_broken_again: false,
            is_stalled: false,
            kept_since: Duration::ZERO,
        }
    }

    /// Something else is promised from now on.
    pub fn promise(&mut self, promise: Promise) {
        self.promise = promise;
        for known in [&mut self.anon, &mut self.file] {
            known.age = known.age.max(promise.min_age);
        }
    }

    /// Tasks of the group waited for memory for this share of the time since the last look, where the kernel tells. Where
    /// that is too much and something came back, the promise is broken whatever its amount.
    pub fn waited(&mut self, share: f64) {
        self.is_stalled = share > self.promise.stall_share.max(STALL_SHARE_MIN);
    }

    /// A walk has ended at `at`, on a clock that does not go back: the group's footprint, and what the walk found in
    /// memory again.
    pub fn look(&mut self, at: Duration, nr_footprint_pages: u64, returned: NrPages) {
        self.since_last = match self.last_look {
            Some(last) => at.saturating_sub(last),
            None => Duration::ZERO,
        };
        self.last_look = Some(at);
        self.nr_footprint_pages = nr_footprint_pages;
        let fading = (-self.since_last.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        for kind in [Kind::Anon, Kind::File] {
            let known = self.known_mut(kind);
            known.taken *= fading;
            known.returned = (known.returned + returned.of(kind) as f64) * fading;
        }
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

    /// The kinds, first the one of which less comes back.
    pub fn order(&self) -> [Kind; 2] {
        match self.returning(Kind::File) <= self.returning(Kind::Anon) {
            true => [Kind::File, Kind::Anon],
            false => [Kind::Anon, Kind::File],
        }
    }

    /// How many pages of a kind may be taken until the next look, beside those that are `planned` to be.
    pub fn room(&self, kind: Kind, planned: NrPages) -> u64 {
        if self.is_resting() {
            return 0;
        }
        let left = self
            .allowed_pages()
            .saturating_sub(self.came_back().total());
        let passed = self.since_last.min(WINDOW).as_secs_f64() / WINDOW.as_secs_f64();
        let spent: f64 = [Kind::Anon, Kind::File]
            .into_iter()
            .map(|kind| planned.of(kind) as f64 * self.returning(kind))
            .sum();
        ((left as f64 * passed - spent).max(0.0) / self.returning(kind)) as u64
    }

    /// So many pages were taken.
    pub fn took(&mut self, kind: Kind, nr_pages: u64) {
        self.known_mut(kind).taken += nr_pages as f64;
    }

    /// The share of what is taken that has to be expected to come back.
    fn returning(&self, kind: Kind) -> f64 {
        let assumed = (self.nr_footprint_pages as f64 * ASSUMED_SHARE).max(1.0);
        let known = self.known(kind);
        let returned = known.returned + assumed * RETURNING_AT_FIRST;
        (returned / (known.taken + assumed)).min(1.0)
    }

    fn is_resting(&self) -> bool {
        let now = self.last_look.unwrap_or_default();
        self.rest_until.is_some_and(|until| now < until)
    }

    fn broken(&mut self, at: Duration, came_back: NrPages) {
        self.nr_broken_in_row += 1;
        self.is_broken_again = self.nr_broken_in_row == 2;
        let times = if self.nr_broken_in_row > 1 { 4 } else { 2 };
        for kind in [Kind::Anon, Kind::File] {
            // A kind that kept to its half is not to blame.
            if came_back.of(kind) * 2 >= came_back.total() {
                let known = self.known_mut(kind);
                known.age = (known.age * times).min(REST_MAX.max(known.age));
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
            for kind in [Kind::Anon, Kind::File] {
                let known = self.known_mut(kind);
                known.age = known.age.mul_f64(0.9).max(min_age);
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

    fn keeper() -> Keeper {
        Keeper::new(Promise {
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

    /// Looks every ten seconds at a group of which all that is taken stays away; seconds until so much is gone.
    fn seconds_to_take(nr_pages: u64) -> u64 {
        let mut keeper = keeper();
        let mut taken = 0;
        for at_s in (0..3600).step_by(10) {
            keeper.look(Duration::from_secs(at_s), FOOTPRINT, NrPages::default());
            let room = keeper.room(Kind::Anon, NrPages::default());
            let step = room.min(nr_pages - taken);
            keeper.took(Kind::Anon, step);
            taken += step;
            if taken == nr_pages {
                return at_s;
            }
        }
        panic!("{taken} pages in an hour");
    }

    #[test]
    fn what_stays_idle_goes_faster_and_faster() {
        let (little, much) = (seconds_to_take(4_000), seconds_to_take(70_000));
        assert!((30..=90).contains(&little), "{little}");
        assert!((180..=360).contains(&much), "{much}");
    }

    #[test]
    fn a_broken_promise_stops_at_once_and_doubles_the_age_then_fourfold() {
        let mut keeper = keeper();
        let at = Duration::from_secs;
        keeper.look(at(0), FOOTPRINT, NrPages::default());
        keeper.look(at(10), FOOTPRINT, anon(200));
        assert_eq!(keeper.standing(), Standing::Kept, "as much as is allowed");
        keeper.look(at(20), FOOTPRINT, anon(1));
        assert_eq!(keeper.standing(), Standing::Resting);
        assert_eq!(keeper.age(Kind::Anon), at(120));
        assert_eq!(keeper.age(Kind::File), at(60), "files are not to blame");
        assert_eq!(keeper.room(Kind::Anon, NrPages::default()), 0);
        assert_eq!(keeper.reads_back(), None, "the first time");
        // What comes back during the rest is judged at its end only, by the last minute.
        keeper.look(at(30), FOOTPRINT, anon(5_000));
        assert_eq!(keeper.age(Kind::Anon), at(120));
        keeper.look(at(80), FOOTPRINT, anon(0));
        assert_eq!(keeper.standing(), Standing::Resting);
        assert_eq!(keeper.age(Kind::Anon), at(480), "twice in a row");
        assert!(keeper.reads_back().is_some());
        assert_eq!(keeper.reads_back(), None, "once");
        keeper.look(at(200), FOOTPRINT, anon(0));
        assert_eq!(keeper.standing(), Standing::Kept);
    }

    #[test]
    fn a_group_whose_tasks_wait_for_what_comes_back_breaks_the_promise_with_little() {
        let at = Duration::from_secs;
        let standing = |share, nr_pages| {
            let mut keeper = keeper();
            keeper.look(at(0), FOOTPRINT, NrPages::default());
            keeper.waited(share);
            keeper.look(at(10), FOOTPRINT, anon(nr_pages));
            keeper.standing()
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
            let mut keeper = keeper();
            keeper.promise(Promise {
                stall_share,
                ..keeper.promise
            });
            keeper.look(Duration::ZERO, FOOTPRINT, NrPages::default());
            keeper.waited(share);
            keeper.look(Duration::from_secs(10), FOOTPRINT, anon(1));
            keeper.standing()
        };
        assert_eq!(standing(0.05, 0.05), Standing::Kept);
        assert_eq!(standing(0.05, 0.06), Standing::Resting);
        assert_eq!(standing(0.0001, 0.001), Standing::Kept);
        assert_eq!(standing(0.0001, 0.002), Standing::Resting);
    }

    #[test]
    fn a_group_that_never_settles_is_told_and_left_alone_for_longer_each_time() {
        let mut keeper = keeper();
        let mut nr_taking = 0;
        for at_s in (0..24 * 3600).step_by(10) {
            keeper.look(Duration::from_secs(at_s), FOOTPRINT, anon(1_000));
            nr_taking += u32::from(keeper.room(Kind::Anon, NrPages::default()) > 0);
        }
        assert_eq!(keeper.standing(), Standing::Unsettled);
        assert_eq!(nr_taking, 0);
        assert_eq!(keeper.age(Kind::Anon), REST_MAX);
    }

    #[test]
    fn after_a_quiet_time_the_age_falls_back_to_the_least() {
        let mut keeper = keeper();
        keeper.look(Duration::ZERO, FOOTPRINT, anon(1_000));
        assert_eq!(keeper.age(Kind::Anon), Duration::from_secs(120));
        for at_s in (10..3600).step_by(10) {
            keeper.look(Duration::from_secs(at_s), FOOTPRINT, NrPages::default());
        }
        assert_eq!(keeper.age(Kind::Anon), Duration::from_secs(60));
        assert_eq!(keeper.standing(), Standing::Kept);
    }

    #[test]
    fn the_kind_of_which_less_comes_back_gives_first() {
        let mut keeper = keeper();
        keeper.look(Duration::ZERO, FOOTPRINT, NrPages::default());
        keeper.took(Kind::Anon, 1_000);
        keeper.took(Kind::File, 1_000);
        let returned = NrPages { anon: 0, file: 100 };
        keeper.look(Duration::from_secs(10), FOOTPRINT, returned);
        assert_eq!(keeper.order(), [Kind::Anon, Kind::File]);
        let room = |planned| keeper.room(Kind::File, planned);
        assert!(room(NrPages::default()) > room(anon(200)));
    }

    #[test]
    fn a_small_group_may_have_a_fault_a_second() {
        let mut keeper = keeper();
        keeper.look(Duration::ZERO, 100, NrPages::default());
        assert_eq!(keeper.allowed_pages(), 60);
    }

    proptest! {
        #[test]
        fn nothing_goes_while_the_promise_is_used_up_and_no_age_is_below_the_least(
            looks in prop::collection::vec((1u64..100, 0u64..200_000, 0u64..500, 0u64..500), 1..200)
        ) {
            let mut keeper = keeper();
            let mut at = Duration::ZERO;
            let mut seen: Vec<(Duration, u64)> = Vec::new();
            for (seconds, footprint, anon, file) in looks {
                at += Duration::from_secs(seconds);
                keeper.look(at, footprint, NrPages { anon, file });
                seen.push((at, anon + file));
                let within = seen.iter().filter(|(seen, _)| at - *seen < WINDOW);
                let came_back: u64 = within.map(|(_, nr)| nr).sum();
                prop_assert_eq!(keeper.came_back().total(), came_back);
                for kind in [Kind::Anon, Kind::File] {
                    prop_assert!(keeper.age(kind) >= Duration::from_secs(60));
                    let room = keeper.room(kind, NrPages::default());
                    let is_used_up = came_back >= keeper.allowed_pages();
                    prop_assert!(room == 0 || !is_used_up && keeper.standing() == Standing::Kept);
                    keeper.took(kind, room / 2);
                }
            }
        }
    }
}
