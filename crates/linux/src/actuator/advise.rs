//! Advising ranges until each one was taken, refused or found missing.
//!
//! One `process_madvise` call takes many ranges and stops at the first one it refuses, without a
//! word about which or why: it only returns the bytes advised before. The refused range is then the
//! first of the next call, whose error is about it alone:
//!
//! | error | kernel says so when | what is done |
//! |---|---|---|
//! | EINVAL | the range touches a locked, hugetlb or PFN mapping; what lies behind it is not advised | halved until single pages are left |
//! | ENOMEM | part of the range is not mapped; the mapped rest *was* advised | counted, go on |
//! | EINTR, EAGAIN | interrupted before it started | again, a few times |
//! | EPERM, ESRCH, other | no capability, no process | everything stops |
//!
//! A call is as large as is through in time (`hold_up::CallSize`), so a long range may take several.
//!
//! **Owns** that loop. **Does not own** the call (`sys::madvise`), nor the verdicts.
//!
//! **Invariants**
//! - I1: a range that is refused spoils no page outside of it.
//! - I2: every call either advises something, or shortens the list, or is one of a bounded number of
//!   retries.

use std::io;
use std::time::Instant;

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up::{self, CallSize};
use crate::process::{Stalled, stalled};
use crate::sys::madvise::RANGES_MAX;

/// Most tries of a call that is interrupted.
const TRIES_MAX: u32 = 4;

/// Why nothing could be taken from a process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageoutError {
    /// The capability is missing.
    #[error(
        "the kernel does not let us take pages of process {0}: that needs CAP_SYS_NICE and the \
         right to trace it, even for one's own child; {advice}",
        advice = crate::rights::advice("one of them")
    )]
    NotPermitted(i32),
    /// The process has ended, or its first thread has exited: the kernel finds an address space only through
    /// the leader of a thread group.
    #[error("process {0} can't be asked for pages: it has ended, or its first thread has exited")]
    NoSpace(i32),
    /// A call for its memory might wait for long.
    #[error("{0}; its pages stay until the wait is over")]
    Stalled(Stalled),
    /// Any other failure.
    #[error("taking pages of process {pid} failed: {why}")]
    Failed {
        /// The process.
        pid: i32,
        /// The reason.
        why: String,
    },
}

/// What became of the ranges.
#[derive(Debug, Default)]
pub(super) struct Advised {
    /// Ranges of single pages the kernel can't reclaim, sorted.
    pub(super) refused: Vec<AddrRange>,
    /// Ranges that were not mapped throughout, sorted.
    pub(super) unmapped: Vec<AddrRange>,
    /// Ranges not tried because of `error`, and ranges given up after too many interruptions.
    pub(super) untried: Vec<AddrRange>,
    /// Why advising ended early.
    pub(super) error: Option<PageoutError>,
    /// Calls made.
    pub(super) nr_calls: u64,
    /// Ranges in them.
    pub(super) nr_ranges: u64,
}

/// Advises all `ranges` (sorted, disjoint, whole pages) through `call`, which takes at most
/// [`RANGES_MAX`] of them and returns the bytes it advised. `size` says how many pages that may be, and learns.
pub(super) fn advise(
    pid: i32,
    ranges: &[AddrRange],
    size: &mut CallSize,
    mut call: impl FnMut(&[AddrRange]) -> io::Result<u64>,
) -> Advised {
    let mut advised = Advised::default();
    if let Some(stalled) = stalled(pid) {
        advised.error = Some(PageoutError::Stalled(stalled));
        advised.untried = ranges.to_vec();
        return advised;
    }
    // Last first, so that the next range is at the end.
    let mut left: Vec<AddrRange> = ranges.iter().rev().copied().collect();
    let mut next: Vec<AddrRange> = Vec::with_capacity(RANGES_MAX);
    let mut nr_tries = 0;
    while !left.is_empty() {
        next.clear();
        if advised.nr_calls > 0 {
            hold_up::pause();
        }
        fill_call(&mut left, size.nr_pages(), &mut next);
        advised.nr_calls += 1;
        advised.nr_ranges += next.len() as u64;
        let called = Instant::now();
        let answer = call(&next);
        let took = called.elapsed();
        let error = match answer {
            Ok(bytes) => match consume(&mut left, bytes) {
                0 => io::Error::from_raw_os_error(libc::EINVAL),
                _ => {
                    size.learn(bytes / PAGE_BYTES, took);
                    nr_tries = 0;
                    continue;
                }
            },
            Err(error) => error,
        };
        // The error is about the first range.
        let Some(range) = left.pop() else { break };
        match error.raw_os_error() {
            Some(libc::EINVAL) => match halves(range) {
                Some((low, high)) => left.extend([high, low]),
                None => advised.refused.push(range),
            },
            Some(libc::ENOMEM) => advised.unmapped.push(range),
            Some(libc::EINTR | libc::EAGAIN) => {
                nr_tries += 1;
                if nr_tries < TRIES_MAX {
                    left.push(range);
                } else {
                    nr_tries = 0;
                    advised.untried.push(range);
                }
            }
            code => {
                left.push(range);
                advised.error = Some(match code {
                    Some(libc::EPERM | libc::EACCES) => PageoutError::NotPermitted(pid),
                    Some(libc::ESRCH) => PageoutError::NoSpace(pid),
                    _ => PageoutError::Failed {
                        pid,
                        why: error.to_string(),
                    },
                });
                break;
            }
        }
    }
    advised.untried.extend(left.into_iter().rev());
    advised
}

/// Puts the next ranges of `left` (last first) into one call of at most so many pages; one that is longer is cut.
fn fill_call(left: &mut Vec<AddrRange>, nr_pages_max: u64, next: &mut Vec<AddrRange>) {
    if let Some(range) = left.pop() {
        let first_end = range.end.min(range.start + nr_pages_max * PAGE_BYTES);
        if first_end < range.end {
            left.push(AddrRange::new(first_end, range.end));
        }
        left.push(AddrRange::new(range.start, first_end));
    }
    let mut nr_pages = 0;
    for range in left.iter().rev().take(RANGES_MAX) {
        nr_pages += range.nr_pages();
        if nr_pages > nr_pages_max && !next.is_empty() {
            break;
        }
        next.push(*range);
    }
}

/// Drops the ranges that `bytes` cover in full; returns how many.
fn consume(left: &mut Vec<AddrRange>, mut bytes: u64) -> usize {
    let mut nr_ranges = 0;
    while let Some(range) = left.last()
        && range.len_bytes() <= bytes
        && bytes > 0
    {
        bytes -= range.len_bytes();
        left.pop();
        nr_ranges += 1;
    }
    nr_ranges
}

/// Cuts a range at the page in its middle; `None` for a single page.
fn halves(range: AddrRange) -> Option<(AddrRange, AddrRange)> {
    let nr_pages = range.len_bytes() / PAGE_BYTES;
    if nr_pages < 2 {
        return None;
    }
    let middle = range.start + nr_pages / 2 * PAGE_BYTES;
    Some((
        AddrRange::new(range.start, middle),
        AddrRange::new(middle, range.end),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// As many pages a call as there may be.
    fn large() -> CallSize {
        CallSize::new(1.0, 512)
    }

    /// What lies at a page of the model.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Page {
        Good,
        Locked,
        Hole,
    }

    fn pages(range: &AddrRange) -> impl Iterator<Item = u64> {
        (range.start / PAGE_BYTES)..(range.end / PAGE_BYTES)
    }

    /// One range as the kernel treats it.
    fn kernel_range(
        space: &[Page],
        range: &AddrRange,
        taken: &mut BTreeSet<u64>,
    ) -> Result<(), i32> {
        let mut result = Ok(());
        for page in pages(range) {
            match space[page as usize] {
                Page::Good => {
                    taken.insert(page);
                }
                Page::Hole => result = Err(libc::ENOMEM),
                Page::Locked => return Err(libc::EINVAL),
            }
        }
        result
    }

    fn kernel_call(
        space: &[Page],
        ranges: &[AddrRange],
        taken: &mut BTreeSet<u64>,
    ) -> io::Result<u64> {
        assert!(ranges.len() <= RANGES_MAX);
        let mut bytes = 0;
        for range in ranges {
            match kernel_range(space, range, taken) {
                Ok(()) => bytes += range.len_bytes(),
                Err(_) if bytes > 0 => break,
                Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(bytes)
    }

    proptest! {
        #[test]
        fn every_good_page_is_advised_whatever_lies_beside_it(
            space in prop::collection::vec(
                prop_oneof![8 => Just(Page::Good), 1 => Just(Page::Locked), 1 => Just(Page::Hole)], 1..200),
            cuts in prop::collection::btree_set(0u64..200, 0..40),
        ) {
            let bounds: Vec<u64> = cuts.into_iter().filter(|cut| *cut <= space.len() as u64).collect();
            let ranges: Vec<AddrRange> = bounds
                .windows(2)
                .step_by(2)
                .map(|pair| AddrRange::new(pair[0] * PAGE_BYTES, pair[1] * PAGE_BYTES))
                .collect();
            let space = &space[..];
            let mut taken = BTreeSet::new();
            let advised = advise(1, &ranges, &mut large(), |call| kernel_call(space, call, &mut taken));
            let asked: BTreeSet<u64> = ranges.iter().flat_map(pages).collect();
            let of_kind = |kind| asked.iter().copied().filter(move |page| space[*page as usize] == kind);
            prop_assert_eq!(taken, of_kind(Page::Good).collect::<BTreeSet<_>>());
            let refused: Vec<u64> = advised.refused.iter().flat_map(pages).collect();
            prop_assert_eq!(refused, of_kind(Page::Locked).collect::<Vec<_>>());
            let unmapped: BTreeSet<u64> = advised.unmapped.iter().flat_map(pages).collect();
            prop_assert!(of_kind(Page::Hole).all(|page| unmapped.contains(&page)));
            prop_assert!(advised.untried.is_empty() && advised.error.is_none());
            // Halving costs at most two calls a bad page and level.
            prop_assert!(advised.nr_calls <= 4 + ranges.len() as u64 + 18 * asked.len() as u64);
        }
    }

    #[test]
    fn a_missing_capability_stops_at_once_and_is_named() {
        let ranges = [AddrRange::of_pages(0, 1), AddrRange::of_pages(4, 2)];
        let advised = advise(7, &ranges, &mut large(), |_| {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!(advised.error, Some(PageoutError::NotPermitted(7)));
        assert_eq!(advised.untried, ranges);
        assert_eq!(advised.nr_calls, 1);
    }

    #[test]
    fn who_lacks_the_right_is_told_to_be_root_unless_they_are() {
        let told = PageoutError::NotPermitted(7).to_string();
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(told.contains("run as root"), !is_root, "{told}");
        assert!(told.contains("CAP_SYS_NICE"), "{told}");
    }

    #[test]
    fn a_process_that_dies_half_way_leaves_the_rest_untried() {
        let ranges: Vec<AddrRange> = (0..1000).map(|i| AddrRange::of_pages(i * 2, 1)).collect();
        let mut nr_calls = 0;
        let advised = advise(7, &ranges, &mut large(), |call| {
            nr_calls += 1;
            match nr_calls {
                1 => Ok(call.iter().map(|range| range.len_bytes()).sum()),
                _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
        assert_eq!(advised.error, Some(PageoutError::NoSpace(7)));
        assert_eq!(advised.untried, ranges[RANGES_MAX..]);
    }

    #[test]
    fn interruptions_are_tried_again_but_not_for_ever() {
        let ranges = [AddrRange::of_pages(0, 1), AddrRange::of_pages(4, 2)];
        let mut nr_calls = 0;
        let advised = advise(7, &ranges, &mut large(), |_| {
            nr_calls += 1;
            Err(io::Error::from_raw_os_error(libc::EINTR))
        });
        assert_eq!(advised.untried, ranges);
        assert_eq!((advised.error, nr_calls), (None, 2 * TRIES_MAX));
    }

    #[test]
    fn one_call_is_as_large_as_is_through_in_time() {
        let mut sizes = Vec::new();
        let ranges = [
            AddrRange::of_pages(0, 600),
            AddrRange::of_pages(700, 100),
            AddrRange::of_pages(1000, 300),
            AddrRange::of_pages(2000, 1),
        ];
        let advised = advise(7, &ranges, &mut large(), |call| {
            let nr_pages: u64 = call.iter().map(|range| range.nr_pages()).sum();
            sizes.push(nr_pages);
            Ok(nr_pages * PAGE_BYTES)
        });
        // How many follow depends on how long the first one took.
        assert_eq!(sizes[0], 512);
        assert!(sizes.iter().all(|nr_pages| *nr_pages <= 512), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<u64>(), 1001);
        assert_eq!(advised.nr_calls, sizes.len() as u64);
        // Where each page takes long a call has few.
        let mut slow = CallSize::new(30_000.0, 512);
        let mut most = 0;
        advise(7, &ranges, &mut slow, |call| {
            let nr_pages = call.iter().map(|range| range.nr_pages()).sum();
            most = most.max(nr_pages);
            Ok(nr_pages * PAGE_BYTES)
        });
        assert!((50..512).contains(&most), "{most}");
    }
}
