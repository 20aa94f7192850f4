//! `recall`: has the kernel read pages in before the program asks for them.
//!
//! A program that comes back to memory it has not used for a while waits for its device once a page, or once a
//! few neighbours. `MADV_WILLNEED` reads many at a time and waits for none of them: the program then finds them in
//! the swap cache.
//!
//! **Owns** the thread, the request and the report. **Does not own** which pages, nor how far usage may rise
//! (`control`).
//!
//! **Invariants**
//! - R1: nothing is written and nothing is taken; a page that can't be had is passed over.
//! - R2: nobody waits for the thread, not even at the end.
//! - R3: usage is not brought above what is allowed at that moment: the thread waits until others have made room.
//! - R4: what was asked for more than [`STALE`] ago is left alone: the program has asked for it itself by now. So is
//!   everything while nothing is allowed, and memory that was replaced by exec.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::worker::Worker;
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up::{self, CallSize};
use crate::process::Process;
use crate::sys::madvise::{self, Advice, RANGES_MAX};

/// See R4.
const STALE: Duration = Duration::from_secs(2);
/// What was not in use so long ago may be by now.
const STALE_UNUSED: Duration = Duration::from_millis(100);
/// Most pages in one call, so that the thread notices in time that it is to stop.
const CALL_PAGES_MAX: u64 = 1024;
/// Ranges are cut into pieces of this size, so that little room is enough for one.
const PIECE_BYTES: u64 = 64 << 10;
/// What the first pages are expected to take each, nanoseconds.
const PAGE_NS: f64 = 5_000.0;
/// Where there is no room it is looked for again after this.
const PAUSE: Duration = Duration::from_millis(2);
/// Ranges of a process that are refused, each of which costs a call, until the rest is left alone.
const NR_REFUSED_MAX: u32 = 64;

/// Pages of one process, sorted by address.
#[derive(Debug)]
pub struct RecallPages {
    /// Number of the space, for the caller to know it again.
    pub space: u32,
    /// The process whose pages they are.
    pub process: Arc<Process>,
    /// In memory and not used any more: the kernel is to take these to make room.
    pub unused: Vec<AddrRange>,
    /// To be read in.
    pub wanted: Vec<AddrRange>,
}

impl RecallPages {
    /// Base pages to be read in.
    pub fn nr_wanted_pages(&self) -> u64 {
        nr_pages(&self.wanted)
    }
}

/// What became of a request.
#[derive(Debug, Default)]
pub struct RecallReport {
    /// Base pages the kernel was asked for.
    pub nr_asked_pages: u64,
    /// Pages that the kernel was not asked for after all, by space, sorted by address.
    pub left: Vec<(u32, Vec<AddrRange>)>,
    /// Spaces for which it may not be asked, the number of the process, and why.
    pub refused: Vec<(u32, i32, io::Error)>,
}

/// The thread; at most one request is outstanding.
#[derive(Debug)]
pub struct Recall {
    worker: Worker<(Instant, Vec<RecallPages>), RecallReport>,
    usage_max_bytes: Arc<AtomicU64>,
}

impl Recall {
    /// Starts the thread; `usage_bytes` is what the limit is held against, as it stands. Nothing is allowed yet.
    pub fn start(usage_bytes: impl Fn() -> Option<u64> + Send + 'static) -> io::Result<Recall> {
        let usage_max_bytes = Arc::new(AtomicU64::new(0));
        let allowed_bytes = Arc::clone(&usage_max_bytes);
        let worker = Worker::start(
            "strata-recall",
            1,
            move |(asked, pages): (Instant, Vec<RecallPages>), stop| {
                let allowed_bytes = || allowed_bytes.load(Ordering::Relaxed);
                let is_over = |process: &Process, stale: Duration| {
                    stop.is_set()
                        || allowed_bytes() == 0
                        || asked.elapsed() > stale
                        || !process.is_space_current()
                };
                let room_bytes =
                    || allowed_bytes().saturating_sub(usage_bytes().unwrap_or(u64::MAX));
                // All of them first: what is read in and not used yet would be taken before what is called cold later.
                for of in &pages {
                    let is_over = || is_over(&of.process, STALE_UNUSED);
                    // What stops it stops reading as well, and is told then.
                    let _made_room = ask(
                        &of.unused,
                        is_over,
                        || u64::MAX,
                        advise(&of.process, Advice::Cold),
                    );
                }
                let mut report = RecallReport::default();
                for of in &pages {
                    let is_over = || is_over(&of.process, STALE);
                    let call = advise(&of.process, Advice::WillNeed);
                    let asked = ask(&of.wanted, is_over, room_bytes, call);
                    report.nr_asked_pages += of.nr_wanted_pages() - nr_pages(&asked.left);
                    if !asked.left.is_empty() {
                        report.left.push((of.space, asked.left));
                    }
                    if let Some(error) = asked.error.filter(|_| of.process.is_space_current()) {
                        report.refused.push((of.space, of.process.pid(), error));
                    }
                }
                report
            },
        )?;
        Ok(Recall {
            worker,
            usage_max_bytes,
        })
    }

    /// How far usage may rise from now on; at 0 nothing is read, and what is left of a request is given up.
    pub fn allow(&self, usage_max_bytes: u64) {
        self.usage_max_bytes
            .store(usage_max_bytes, Ordering::Relaxed);
    }

    /// Hands ranges over; false if the last ones are not done and polled yet.
    pub fn try_submit(&mut self, pages: Vec<RecallPages>) -> bool {
        self.worker.try_submit((Instant::now(), pages)).is_ok()
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }

    /// Takes the report of the last request, if it is there.
    pub fn poll(&mut self) -> Option<RecallReport> {
        self.worker.poll()
    }
}

fn nr_pages(ranges: &[AddrRange]) -> u64 {
    ranges.iter().map(|range| range.nr_pages()).sum()
}

/// Advises the kernel on ranges of this process.
pub(super) fn advise(
    process: &Process,
    advice: Advice,
) -> impl FnMut(&[AddrRange]) -> io::Result<u64> {
    move |ranges| madvise::advise(process.pidfd(), ranges, advice)
}

/// What became of ranges.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What was not asked for, and what was refused, sorted.
    pub left: Vec<AddrRange>,
    /// Why asking ended early.
    pub error: Option<io::Error>,
}

/// Asks for all ranges through `call`, which returns the bytes of whole ranges up to the first that was refused, as
/// fast as there is room for them. Ranges that are not there any more are passed over, and a process that has ended
/// is no error.
pub(super) fn ask(
    ranges: &[AddrRange],
    is_over: impl Fn() -> bool,
    room_bytes: impl Fn() -> u64,
    mut call: impl FnMut(&[AddrRange]) -> io::Result<u64>,
) -> Asked {
    let mut asked = Asked::default();
    let mut size = CallSize::new(PAGE_NS, CALL_PAGES_MAX);
    let mut nr_refused = 0;
    let cut: Vec<AddrRange> = ranges.iter().flat_map(|range| pieces(*range)).collect();
    let mut rest = &cut[..];
    while !rest.is_empty() && !is_over() && nr_refused < NR_REFUSED_MAX {
        let room_bytes = room_bytes();
        let mut bytes_left = room_bytes.min(size.nr_pages() * PAGE_BYTES);
        if room_bytes < PIECE_BYTES {
            thread::sleep(PAUSE);
            continue;
        }
        let fits = |range: &&AddrRange| {
            let fits = range.len_bytes() <= bytes_left;
            bytes_left = bytes_left.saturating_sub(range.len_bytes());
            fits
        };
        // One piece is asked for however long its pages take.
        let nr_ranges = rest.iter().take(RANGES_MAX).take_while(fits).count().max(1);
        let called = Instant::now();
        let answer = call(&rest[..nr_ranges]);
        let took = called.elapsed();
        hold_up::pause();
        let mut done_bytes = match answer {
            Ok(bytes) => {
                size.learn(bytes / PAGE_BYTES, took);
                bytes
            }
            Err(error) => match error.raw_os_error() {
                // About the first range: not mapped any more, or of a kind that is not read ahead.
                Some(libc::ENOMEM | libc::EINVAL | libc::EBADF | libc::EAGAIN | libc::EINTR) => 0,
                code => {
                    asked.error = (code != Some(libc::ESRCH)).then_some(error);
                    break;
                }
            },
        };
        let is_done = |range: &&AddrRange| {
            let is_done = done_bytes >= range.len_bytes();
            done_bytes = done_bytes.saturating_sub(range.len_bytes());
            is_done
        };
        let nr_done = rest.iter().take_while(is_done).count();
        let is_cut = nr_done < nr_ranges;
        nr_refused += u32::from(is_cut);
        asked
            .left
            .extend(rest[nr_done..].iter().take(usize::from(is_cut)));
        rest = &rest[nr_done + usize::from(is_cut)..];
    }
    asked.left.extend(rest);
    asked
}

/// A range in pieces that fit into a call.
fn pieces(range: AddrRange) -> impl Iterator<Item = AddrRange> {
    let starts = (range.start..range.end).step_by(PIECE_BYTES as usize);
    starts.map(move |start| AddrRange::new(start, range.end.min(start + PIECE_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::Error;

    fn range(first_page: u64, nr_pages: u64) -> AddrRange {
        AddrRange::new(
            first_page * PAGE_BYTES,
            (first_page + nr_pages) * PAGE_BYTES,
        )
    }

    fn bytes(ranges: &[AddrRange]) -> u64 {
        ranges.iter().map(|range| range.len_bytes()).sum()
    }

    /// Refuses ranges that begin at one of these pages, as the kernel does: with a short answer, or with an
    /// error if it is the first.
    fn refusing(
        refused: &[u64],
        calls: &mut Vec<Vec<AddrRange>>,
        ranges: &[AddrRange],
        code: i32,
    ) -> io::Result<u64> {
        calls.push(ranges.to_vec());
        let is_taken = |range: &&AddrRange| !refused.contains(&(range.start / PAGE_BYTES));
        let taken: Vec<AddrRange> = ranges.iter().take_while(is_taken).copied().collect();
        match taken.is_empty() {
            true => Err(Error::from_raw_os_error(code)),
            false => Ok(bytes(&taken)),
        }
    }

    #[test]
    fn all_ranges_are_asked_for_in_calls_of_bounded_size() {
        let wanted: Vec<AddrRange> = (0..2000)
            .map(|n| range(n * 10, 1))
            .chain([range(50_000, 4000)])
            .collect();
        let mut calls = Vec::new();
        let asked = ask(
            &wanted,
            || false,
            || u64::MAX,
            |ranges| refusing(&[], &mut calls, ranges, 0),
        );
        assert!(asked.left.is_empty() && asked.error.is_none());
        assert_eq!(
            calls.iter().map(|call| bytes(call)).sum::<u64>(),
            bytes(&wanted)
        );
        for call in &calls {
            assert!(
                !call.is_empty()
                    && call.len() <= RANGES_MAX
                    && bytes(call) <= CALL_PAGES_MAX * PAGE_BYTES
            );
        }
    }

    #[test]
    fn what_is_not_there_any_more_is_passed_over() {
        let wanted: Vec<AddrRange> = (0..100).map(|n| range(n * 10, 2)).collect();
        for code in [libc::ENOMEM, libc::EINVAL] {
            let mut calls = Vec::new();
            let refused = [0, 500, 510, 990];
            let asked = ask(
                &wanted,
                || false,
                || u64::MAX,
                |ranges| refusing(&refused, &mut calls, ranges, code),
            );
            let left = refused.map(|first_page| range(first_page, 2));
            assert_eq!(asked.left, left);
        }
    }

    #[test]
    fn who_is_refused_everything_is_soon_left_alone() {
        let wanted: Vec<AddrRange> = (0..10_000).map(|n| range(n * 10, 1)).collect();
        let mut nr_calls = 0;
        let asked = ask(
            &wanted,
            || false,
            || u64::MAX,
            |_| {
                nr_calls += 1;
                Err(Error::from_raw_os_error(libc::EINVAL))
            },
        );
        assert_eq!((asked.left, nr_calls), (wanted, NR_REFUSED_MAX));
    }

    #[test]
    fn a_process_that_has_ended_is_no_error_and_a_missing_right_is() {
        let wanted = [range(0, 1), range(10, 1)];
        let asked = ask(
            &wanted,
            || false,
            || u64::MAX,
            |_| Err(Error::from_raw_os_error(libc::ESRCH)),
        );
        assert!(asked.left == wanted && asked.error.is_none());
        let asked = ask(
            &wanted,
            || false,
            || u64::MAX,
            |_| Err(Error::from_raw_os_error(libc::EPERM)),
        );
        assert_eq!(asked.error.unwrap().raw_os_error(), Some(libc::EPERM));
        assert_eq!(asked.left, wanted);
    }

    #[test]
    fn when_it_is_over_nothing_more_is_asked_for() {
        let asked = ask(
            &[range(0, 1)],
            || true,
            || u64::MAX,
            |_| panic!("asked after the end"),
        );
        assert_eq!(asked.left, [range(0, 1)]);
    }

    #[test]
    fn no_more_is_asked_for_at_a_time_than_there_is_room() {
        let wanted = [range(0, 3000), range(5000, 10)];
        // Room comes and goes, and is used up by what is asked for.
        let room = Cell::new(0u64);
        let is_made = || {
            room.set((room.get() + (300 << 10)).min(1 << 20));
            room.get()
        };
        let asked = ask(
            &wanted,
            || false,
            is_made,
            |ranges| {
                assert!(bytes(ranges) <= room.get());
                room.set(room.get() - bytes(ranges));
                Ok(bytes(ranges))
            },
        );
        assert!(asked.left.is_empty() && asked.error.is_none());
        let nr_looks = Cell::new(0);
        let is_over = || nr_looks.replace(nr_looks.get() + 1) == 3;
        let asked = ask(&wanted, is_over, || 0, |_| panic!("there is no room"));
        assert_eq!(bytes(&asked.left), bytes(&wanted));
    }
}
