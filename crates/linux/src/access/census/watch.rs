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
//! A count that is full can be reset: of a sample of the pages whose count is full the kernel is made to forget what it counted
//! (`page_cache::CountReset`). From then on reads of these show, and the share that is read tells of the others. The kernel takes
//! such pages sooner, so it is done only where it is asked for.
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
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::{Duration, Instant};

use super::super::AccessError;
use super::open::unavailable;
use super::take::{self, Asked, Extent, FilesOf, Remembering};
use super::{Budget, Census, Taken};
use crate::nodes::ranges::{self, BLOCK_PAGES, Range};

use crate::access::probe;
use crate::page_cache::{CountReset, ResetReport};
use crate::sys::bpf_census::{NR_AGES, NUMBERS_MAX};

/// The last of the ages: since the watch began.
pub const WHOLE_WATCH: usize = NR_AGES - 1;
/// All folios, in the kernel program's measure of a share.
const PROBES_ALL: f64 = 65_536.0;
/// From this version of the kernel on `MADV_COLD` on all of a large folio leaves it whole.
const FOLIOS_STAY_WHOLE: (u32, u32) = (6, 10);
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
    /// The count of reads is to be reset of this share of the pages whose count is full, 0 to 1.
    pub reset_share: f64,
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
    /// Counts are reset, where the watch is asked for that; what it takes is part of the budget.
    pub resets: bool,
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
    probe_pages_max: u64,
    /// Chooses which counts are reset: another sample each time, as what was reset before is used less or more than the rest.
    probe_seed: u64,
    is_probe_of_groups: bool,
    /// Where counts are to be reset.
    counts: Option<CountReset>,
    reset_bytes: u64,
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
            // Before, the kernel takes a folio apart that it is to take for cold.
            probe_pages_max: match probe::kernel_version() >= Some(FOLIOS_STAY_WHOLE) {
                true => BLOCK_PAGES,
                false => 1,
            },
            probe_seed: RandomState::new().hash_one(0),
            is_probe_of_groups: false,
            counts: (question.reset_share > 0.0).then(CountReset::new),
            reset_bytes: 0,
        })
    }

    /// From now on counts are reset only of pages that are charged to these groups: inodes of their directories.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn reset_only_of(&mut self, group_ids: &[u64]) -> io::Result<()> {
        self.is_probe_of_groups = true;
        self.census.program.watch_groups(group_ids)
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
            rank_max: self.census.places.rank_max(),
            ages: std::array::from_fn(|index| self.clock.nr_censuses(self.age(index))),
            records_age: wanted.idle_for.map_or(0, |age| age as u64 + 1),
            probe_limit: (self.question.reset_share * PROBES_ALL) as u64,
            probe_pages_max: self.probe_pages_max,
            is_probe_of_groups: self.is_probe_of_groups,
            probe_seed: self.probe_seed,
            wants_full: wanted.resets && self.counts.is_some(),
            // Else reads since the last census may not have come to the pages' flags yet. It interrupts every processor, so it is
            // done only where that counts.
            is_drained: number == 1 || wanted.is_urgent || wanted.idle_for.is_some(),
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
        let asked = Asked {
            extent,
            wants_files: wanted.files,
            files_of: FilesOf::Everybody,
            remembering: Some(remembering),
        };
        let counts = &mut self.counts;
        let mut reset = |full: &[_]| counts.iter_mut().for_each(|counts| counts.reset(full));
        let taken = take::take(&self.census, &self.ranges, &asked, &mut reset, is_over);
        self.clock.end(Instant::now());
        self.reset_bytes += taken.as_ref().map_or(0, |taken| taken.reset_bytes);
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

    /// Which counts were reset, where that was asked for.
    pub fn resets(&self) -> Option<ResetReport> {
        let counts = self.counts.as_ref()?;
        Some(ResetReport {
            tried_bytes: counts.tried_bytes,
            reset_bytes: self.reset_bytes,
        })
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

/// When a census was.
#[derive(Clone, Copy, Debug)]
struct Moment {
    number: u64,
    begun: Instant,
    ended: Instant,
}

/// When censuses were, as far back as the kernel's program remembers. A census may last: what lies between two of them is the time
/// from the end of one to the begin of the other.
#[derive(Debug, Default)]
struct Clock {
    /// Up to the last one.
    moments: VecDeque<Moment>,
}

impl Clock {
    /// The next census begins now.
    fn tick(&mut self, now: Instant) {
        self.moments.push_back(Moment {
            number: self.number() + 1,
            begun: now,
            ended: now,
        });
        if self.moments.len() as u64 > NUMBERS_MAX {
            self.moments.pop_front();
        }
    }

    /// The last census ends now.
    fn end(&mut self, now: Instant) {
        if let Some(last) = self.moments.back_mut() {
            last.ended = now;
        }
    }

    /// Of the last census, from 1 on.
    fn number(&self) -> u64 {
        self.moments.back().map_or(0, |last| last.number)
    }

    /// The last census that was this long before the last one; without an age the first one.
    fn since(&self, age: Option<Duration>) -> Option<Moment> {
        let last = self.moments.back()?;
        let mut before = self.moments.iter().copied();
        before.next_back();
        match age {
            None => before.next(),
            Some(age) => before.rfind(|at| last.begun.saturating_duration_since(at.ended) >= age),
        }
    }

    /// How many censuses ago that was; 0: none was.
    fn nr_censuses(&self, age: Option<Duration>) -> u64 {
        let since = self.since(age);
        since.map_or(0, |at| self.number() - at.number)
    }

    fn covered(&self, age: Option<Duration>) -> Option<Duration> {
        let last = self.moments.back()?;
        self.since(age)
            .map(|at| last.begun.saturating_duration_since(at.ended))
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
