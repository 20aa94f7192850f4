//! How long a program waits for a page that is read back from swap: measured on pages of our own.
//!
//! **Owns** the measurement: pages are written, paged out, and touched one by one, out of order, so that no read ahead
//! helps. A touch counts where the kernel had to read (a major fault). **Does not own** what follows from it.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::process::Stat;
use crate::sys::fresh_pages::FreshPages;
use crate::sys::madvise::{Advice, advise};

/// 1 MiB, which a slow disk reads within a second or two.
const NR_PAGES: usize = 256;
/// Pages that go and come in a round of [`measure_refaults`]: 16 MiB.
const NR_ROUND_PAGES: usize = 4096;
/// Rounds of it while other pages go.
const NR_ROUNDS: usize = 8;
/// Each of its two parts ends after so long, as a slow disk takes seconds for a round.
const PART_TIME: Duration = Duration::from_secs(3);
/// From one page to the next that is touched: beyond what the kernel reads ahead, and no divisor of the pages there are.
const STRIDE: usize = 97;
/// Touches after which it is looked whether the kernel had to read for each, where a look after each would cost as much as a touch.
const NR_AT_A_TIME: usize = 16;
/// Pages that go at a time, as in the kernel's own reclaim.
const BATCH_PAGES: usize = 32;
/// Fewer reads than this tell nothing.
const READS_MIN: usize = 16;
/// The mean is that of the middle one of parts of so many reads, so that a processor lost to somebody else does not count.
const MEAN_READS: usize = 1024;

/// How long reads took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTimes {
    /// Half of them took no longer.
    pub median: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The mean, over a time in which the processor was not lost to somebody else.
    pub mean: Duration,
    /// How many were made.
    pub nr_reads: usize,
}

impl ReadTimes {
    /// Of reads in the order in which they were made; `None`: they are too few to tell anything.
    pub fn of(times: &[Duration]) -> Option<ReadTimes> {
        if times.len() < READS_MIN {
            return None;
        }
        let parts = times.chunks(MEAN_READS.min(times.len()));
        let whole = parts.filter(|part| part.len() == MEAN_READS.min(times.len()));
        let means = whole.map(|part| part.iter().sum::<Duration>() / part.len() as u32);
        let mut means: Vec<Duration> = means.collect();
        means.sort_unstable();
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        Some(ReadTimes {
            median: sorted[sorted.len() / 2],
            p99: sorted[sorted.len() * 99 / 100],
            mean: means[means.len() / 2],
            nr_reads: times.len(),
        })
    }
}

/// What it takes to read pages back from swap; `None` where none came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refaults {
    /// While nothing else happens.
    pub alone: Option<ReadTimes>,
    /// While the same thread has a page go for each that comes, many at a time, as at a limit.
    pub with_eviction: Option<ReadTimes>,
}

/// The time that a page takes to be read back, the median of many; `None` where none went to swap.
///
/// # Errors
/// There is no memory for it, or the kernel refuses to page it out.
pub fn measure_read() -> io::Result<Option<Duration>> {
    let pages = Pages::new(NR_PAGES)?;
    pages.page_out(0..NR_PAGES)?;
    let times = pages.touch(&(0..NR_PAGES), 1, PART_TIME, None)?;
    Ok(ReadTimes::of(&times).map(|times| times.median))
}

/// Measures reads of each kind, on 32 MiB of our own, within some seconds.
///
/// # Errors
/// There is no memory for it, or the kernel refuses to page it out.
pub fn measure_refaults() -> io::Result<Refaults> {
    let pages = Pages::new(2 * NR_ROUND_PAGES)?;
    let half = 0..NR_ROUND_PAGES;
    pages.page_out(half.clone())?;
    let alone = pages.touch(&half, NR_AT_A_TIME, PART_TIME, None)?;
    let alone = ReadTimes::of(&alone);
    if alone.is_none() {
        return Ok(Refaults::default());
    }
    Ok(Refaults {
        alone,
        with_eviction: pages.touch_in_turns()?,
    })
}

/// Memory of our own that goes and comes.
#[derive(Debug)]
struct Pages(FreshPages);

impl Pages {
    fn new(nr_pages: usize) -> io::Result<Pages> {
        let mut pages = FreshPages::new(nr_pages)?;
        pages.scribble();
        Ok(Pages(pages))
    }

    fn page_out(&self, pages: Range<usize>) -> io::Result<()> {
        let start = self.0.addresses(1)[0];
        let address = |page: usize| start + page as u64 * PAGE_BYTES;
        let range = AddrRange::new(address(pages.start), address(pages.end));
        let own = pidfd_open(getpid(), PidfdFlags::empty())?;
        advise(own.as_fd(), &[range], Advice::Pageout)?;
        Ok(())
    }

    /// Half of the pages go and the others come, in turns.
    fn touch_in_turns(&self) -> io::Result<Option<ReadTimes>> {
        let halves = [0..NR_ROUND_PAGES, NR_ROUND_PAGES..2 * NR_ROUND_PAGES];
        self.page_out(halves[1].clone())?;
        let (begun, mut times) = (Instant::now(), Vec::new());
        for nth in 0..NR_ROUNDS {
            let [goes, comes] = [&halves[nth % 2], &halves[1 - nth % 2]];
            let left = PART_TIME.saturating_sub(begun.elapsed());
            times.extend(self.touch(comes, NR_AT_A_TIME, left, Some(goes))?);
            if begun.elapsed() >= PART_TIME {
                break;
            }
        }
        Ok(ReadTimes::of(&times))
    }

    /// Touches each page once, but no longer than `most`; as many of `goes` are paged out by whoever touches, many
    /// at a time. After each `nr_at_a_time` touches it is looked whether the kernel had to read for all of them; else none of them
    /// counts. Returns how long each took that counts.
    fn touch(
        &self,
        pages: &Range<usize>,
        nr_at_a_time: usize,
        most: Duration,
        goes: Option<&Range<usize>>,
    ) -> io::Result<Vec<Duration>> {
        let (begun, mut times) = (Instant::now(), Vec::new());
        for first in (0..pages.len()).step_by(nr_at_a_time) {
            let (before, nr_before) = (major_faults()?, times.len());
            for nth in first..(first + nr_at_a_time).min(pages.len()) {
                let page = pages.start + nth * STRIDE % pages.len();
                let touched = Instant::now();
                if let Some(goes) = goes.filter(|_| nth.is_multiple_of(BATCH_PAGES)) {
                    let batch = goes.start + nth;
                    self.page_out(batch..(batch + BATCH_PAGES).min(goes.end))?;
                }
                self.0.touch(page);
                times.push(touched.elapsed());
            }
            if major_faults()? - before < (times.len() - nr_before) as u64 {
                times.truncate(nr_before);
            }
            if begun.elapsed() >= most {
                break;
            }
        }
        Ok(times)
    }
}

/// Of this thread, so far.
fn major_faults() -> io::Result<u64> {
    let stat = Stat::parse(&fs::read_to_string("/proc/thread-self/stat")?);
    let stat = stat.ok_or_else(|| io::Error::other("/proc/thread-self/stat tells no faults"))?;
    Ok(stat.nr_major_faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::total_swap_bytes;

    #[test]
    fn without_swap_nothing_is_read_back_and_no_time_is_told() {
        let told = measure_read().expect("measured");
        let refaults = measure_refaults().expect("measured");
        if total_swap_bytes().expect("meminfo") == 0 {
            assert_eq!((told, refaults), (None, Refaults::default()));
        }
    }

    #[test]
    fn a_few_long_waits_are_in_the_p99_and_neither_in_the_median_nor_in_the_mean() {
        let us = Duration::from_micros;
        assert_eq!(ReadTimes::of(&[us(5); READS_MIN - 1]), None);
        let mut times = vec![us(5); 3 * MEAN_READS];
        times[..100].fill(us(10_000));
        let told = ReadTimes::of(&times).expect("enough");
        assert_eq!((told.median, told.mean), (us(5), us(5)));
        assert_eq!((told.p99, told.nr_reads), (us(10_000), 3 * MEAN_READS));
        // Where they come again and again they count.
        let times: Vec<Duration> = (0..3000).map(|nth| us(5 + 95 * (nth % 2))).collect();
        assert_eq!(
            ReadTimes::of(&times).expect("enough").mean,
            us(52) + us(1) / 2
        );
    }
}
