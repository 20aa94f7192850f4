//! Page cache watched from census to census: how long ago was each page last read through a descriptor?
//!
//! The kernel counts reads of a page in its flags: none, `referenced`, `active`, both (MGLRU: `referenced`, `workingset` and a
//! count of up to three). The kernel's program remembers how far the count of each page was, and in which census it had last
//! changed: a page whose count grew was read between that census and the one before.
//!
//! ```text
//!   count grew, page is new or dirty    read since the census before
//!   count fell, or was full before      not known: read since then or before
//!   else                                not read
//! ```
//!
//! Reads of mapped memory do not show in these flags before the kernel reclaims. Mapped pages are left to walks. Writes are
//! not counted by the kernel: they show as long as the page is dirty.
//!
//! A watch with a budget looks at the same random sample of blocks every time: as many as the first census came to.
//!
//! **Owns** the sample, the times of censuses, and from which census on an age is told. **Does not own** comparing
//! (`bpf/census.bpf.c`), nor when censuses are taken (the caller).
//!
//! **Invariants**
//! - I1: an age is told only when the watch is as old. What is said to be read within it was read within
//!   [`CacheWatch::covered`]; what is said to be idle was found unread at two censuses at least that age apart.
//! - I2: 4 bytes are remembered of each page that is watched: of all memory in a whole watch, else of as many pages as one
//!   census can look at within the budget.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::places::Places;
use super::ranges::{self, BLOCK_PAGES, Range};
use super::take::{self, Extent, Remembering};
use super::{AccessError, Budget, Census, Taken, unavailable};
use crate::sys::bpf_census::{NR_AGES, NUMBERS_MAX};

/// The last of the ages: since the watch began.
pub const WHOLE_WATCH: usize = NR_AGES - 1;
/// No census is faster than this, nanoseconds a page.
const PAGE_NS_MIN: f64 = 12.0;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchQuestion {
    /// The pace of a census, and how much it may look at; `None`: all of memory, at once.
    pub budget: Option<Budget>,
    /// All of memory is looked at, at the budget's pace, however long it takes.
    pub is_whole: bool,
    /// Ages for which it is told what was read within them. The one after them is [`WHOLE_WATCH`].
    pub ages: [Duration; WHOLE_WATCH],
}

/// What one census of a watch is to tell beside sums by group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Sums by file.
    pub files: bool,
    /// Which pages were not read within this one of the ages, counted from 0.
    pub idle_for: Option<usize>,
    /// As fast as may be, whatever the budget says: what is read after the last look is not seen.
    pub is_urgent: bool,
}

/// Takes censuses that remember.
#[derive(Debug)]
pub struct CacheWatch {
    census: Census,
    question: WatchQuestion,
    ranges: Vec<Range>,
    /// Blocks looked at; all that there is room for until the first census has ended.
    blocks: Vec<u32>,
    clock: Clock,
}

impl CacheWatch {
    /// Sets up; looks at nothing yet.
    ///
    /// # Errors
    /// Those of [`Census::open`]; [`AccessError::Unavailable`] where `/proc/zoneinfo` can't be read.
    pub fn open(question: WatchQuestion) -> Result<CacheWatch, AccessError> {
        let fail = |error: io::Error| unavailable(error.to_string());
        let ranges = ranges::read().map_err(fail)?;
        let mut blocks = take::in_random_order(&ranges).map_err(fail)?;
        if let Some(budget) = question.budget.filter(|_| !question.is_whole) {
            let time_ns = budget.cpu_share * budget.within.as_nanos() as f64;
            let room = time_ns / PAGE_NS_MIN / BLOCK_PAGES as f64;
            blocks.truncate((room as usize).max(take::BLOCKS_MIN as usize));
        }
        Ok(CacheWatch {
            census: Census::open_with(blocks.len() as u32, false)?,
            question,
            ranges,
            blocks,
            clock: Clock::default(),
        })
    }

    /// Takes the next census. [`Sums::read_bytes`](super::Sums::read_bytes) is filled in for the ages that are told.
    ///
    /// # Errors
    /// Those of the kernel, and [`io::ErrorKind::Interrupted`] when `is_over` has said that nobody wants the census any
    /// more. The watch goes on with the next one.
    pub fn take(&mut self, wanted: Wanted, is_over: &dyn Fn() -> bool) -> io::Result<Taken> {
        self.clock.tick(Instant::now());
        let number = self.clock.number();
        let remembering = Remembering {
            number,
            rank_max: rank_max(&self.census.places),
            ages: std::array::from_fn(|index| self.clock.nr_censuses(self.age(index))),
            records_age: wanted.idle_for.map_or(0, |age| age as u64 + 1),
        };
        let extent = match self.question.budget {
            None => Extent::Whole,
            Some(budget) => Extent::Blocks {
                numbers: &self.blocks,
                budget: match wanted.is_urgent {
                    true => Budget {
                        cpu_share: 1.0,
                        ..budget
                    },
                    false => budget,
                },
                are_fixed: self.question.is_whole || number > 1,
            },
        };
        let (census, ranges) = (&self.census, &self.ranges);
        let taken = take::take(
            census,
            ranges,
            &extent,
            wanted.files,
            Some(remembering),
            false,
            is_over,
        );
        match (&taken, number) {
            (Ok(taken), 1) => {
                let nr_looked = taken.nr_looked_pages / BLOCK_PAGES;
                self.blocks.truncate(nr_looked as usize);
            }
            // Nothing is chosen and little is remembered: the next one is the first again.
            (Err(_), 1) => self.clock = Clock::default(),
            _ => {}
        }
        taken
    }

    /// How much time lies between the two censuses that tell what was read within this one of the ages, counted from 0: at
    /// least the age. `None`: the watch is not as old.
    pub fn covered(&self, age: usize) -> Option<Duration> {
        self.clock.covered(self.age(age))
    }

    /// How long; `None`: since the watch began.
    fn age(&self, index: usize) -> Option<Duration> {
        self.question.ages.get(index).copied()
    }

    /// Who takes the censuses, for names of files.
    pub fn census(&self) -> &Census {
        &self.census
    }
}

/// Into how many steps the kernel divides its count of reads.
pub(super) fn rank_max(places: &Places) -> u64 {
    match (places.has_generations, places.refs_flags) {
        (false, _) => 3,
        // Without the count's place only the first read shows.
        (true, 0) => 1,
        (true, _) => 5,
    }
}

/// When censuses began, as far back as the kernel's program remembers.
#[derive(Debug, Default)]
struct Clock {
    /// Number and time, up to the last one.
    begun: VecDeque<(u64, Instant)>,
}

impl Clock {
    /// The next census begins now.
    fn tick(&mut self, now: Instant) {
        self.begun.push_back((self.number() + 1, now));
        if self.begun.len() as u64 > NUMBERS_MAX {
            self.begun.pop_front();
        }
    }

    /// Of the last census, from 1 on.
    fn number(&self) -> u64 {
        self.begun.back().map_or(0, |(number, _)| *number)
    }

    /// The last census that was this long ago; without an age the first one.
    fn since(&self, age: Option<Duration>) -> Option<(u64, Instant)> {
        let (last, now) = *self.begun.back()?;
        let mut before = self
            .begun
            .iter()
            .copied()
            .filter(|(number, _)| *number < last);
        match age {
            None => before.next(),
            Some(age) => before.rfind(|(_, at)| now - *at >= age),
        }
    }

    /// How many censuses ago that was; 0: none was.
    fn nr_censuses(&self, age: Option<Duration>) -> u64 {
        let since = self.since(age);
        since.map_or(0, |(number, _)| self.number() - number)
    }

    fn covered(&self, age: Option<Duration>) -> Option<Duration> {
        let (_, now) = self.begun.back()?;
        self.since(age).map(|(_, at)| *now - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ticked(times_s: impl IntoIterator<Item = u32>) -> Clock {
        let start = Instant::now();
        let mut clock = Clock::default();
        for at_s in times_s {
            clock.tick(start + at_s * SECOND);
        }
        clock
    }

    #[test]
    fn an_age_is_told_from_the_last_census_that_was_as_long_ago() {
        let clock = ticked([0, 5, 10, 16]);
        let told = |age: Option<u32>| {
            let age = age.map(|age| age * SECOND);
            (clock.nr_censuses(age), clock.covered(age))
        };
        assert_eq!(
            told(Some(10)),
            (2, Some(11 * SECOND)),
            "since the one at 5 s"
        );
        assert_eq!(told(Some(16)), (3, Some(16 * SECOND)));
        assert_eq!(told(Some(60)), (0, None));
        assert_eq!(told(None), (3, Some(16 * SECOND)));
    }

    #[test]
    fn one_census_tells_of_no_age() {
        let clock = ticked([0]);
        assert_eq!(
            (clock.nr_censuses(Some(Duration::ZERO)), clock.covered(None)),
            (0, None)
        );
        assert_eq!(Clock::default().covered(None), None);
    }

    #[test]
    fn the_first_census_is_the_first_that_the_kernel_remembers() {
        let clock = ticked(0..10_000);
        let nr_censuses = clock.nr_censuses(None);
        assert!(nr_censuses < NUMBERS_MAX, "{nr_censuses}");
        assert_eq!(clock.covered(None), Some(nr_censuses as u32 * SECOND));
        assert_eq!(clock.covered(Some(5000 * SECOND)), None);
    }
}
