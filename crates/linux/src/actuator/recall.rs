//! `recall`: has the kernel read pages in before the program asks for them.
//!
//! A program that comes back to memory it has not used for a while waits for its device once a page, or once a
//! few neighbours. `MADV_WILLNEED` reads many at a time and waits for none of them: the program then finds them in
//! the swap cache.
//!
//! **Owns** the thread and the request. **Does not own** which pages, nor how far usage may rise (the caller).
//!
//! **Invariants**
//! - R1: nothing is written and nothing is taken; a page that can't be had is passed over.
//! - R2: nobody waits for the thread, not even at the end.
//! - R3: no more is asked for than there is room for at that moment: the thread waits until others have made room.
//! - R4: what was asked for more than [`STALE`] ago is left alone: the program has asked for it itself by now. So is
//!   memory that was replaced by exec.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::worker::Worker;
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up::{self, CallSize};
use crate::process::Process;
use crate::sys::madvise::{self, Advice, RANGES_MAX};

/// See R4.
const STALE: Duration = Duration::from_secs(2);
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
    /// The process whose pages they are.
    pub process: Arc<Process>,
    /// To be read in.
    pub wanted: Vec<AddrRange>,
}

/// The thread; at most one request is outstanding.
#[derive(Debug)]
pub struct Recall {
    worker: Worker<(Instant, Vec<RecallPages>), ()>,
}

impl Recall {
    /// Starts the thread; `room_bytes` is how much may be read in at that moment.
    pub fn start(room_bytes: impl Fn() -> u64 + Send + 'static) -> io::Result<Recall> {
        let worker = Worker::start(
            "strata-recall",
            1,
            move |(asked, pages): (Instant, Vec<RecallPages>), stop| {
                let settled = pages
                    .iter()
                    .filter(|pages| pages.process.stalled().is_none());
                for RecallPages { process, wanted } in settled {
                    let is_over =
                        || stop.is_set() || asked.elapsed() > STALE || !process.is_space_current();
                    ask(wanted, is_over, &room_bytes, |ranges| {
                        madvise::advise(process.pidfd(), ranges, Advice::WillNeed)
                    });
                }
            },
        )?;
        Ok(Recall { worker })
    }

    /// Hands ranges over; false if the last ones are not done yet.
    pub fn try_submit(&mut self, pages: Vec<RecallPages>) -> bool {
        while self.worker.poll().is_some() {}
        self.worker.try_submit((Instant::now(), pages)).is_ok()
    }
}

/// Asks for all ranges through `call`, which returns the bytes of whole ranges up to the first that was refused, as
/// fast as there is room for them. Ranges that are not there any more are passed over; what else is refused, or a process
/// that has ended, ends it.
fn ask(
    ranges: &[AddrRange],
    is_over: impl Fn() -> bool,
    room_bytes: impl Fn() -> u64,
    mut call: impl FnMut(&[AddrRange]) -> io::Result<u64>,
) {
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
            // About the first range: not mapped any more, or of a kind that is not read ahead.
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOMEM | libc::EINVAL | libc::EBADF | libc::EAGAIN | libc::EINTR) => 0,
                _ => return,
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
        rest = &rest[nr_done + usize::from(is_cut)..];
    }
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

    /// What was taken when some were refused, as the kernel does it: with a short answer, or with an error if it is the first.
    fn taken(wanted: &[AddrRange], refused: &[u64], code: i32) -> (Vec<AddrRange>, Vec<u64>) {
        let (mut all, mut calls) = (Vec::new(), Vec::new());
        let call = |ranges: &[AddrRange]| {
            assert!(!ranges.is_empty() && ranges.len() <= RANGES_MAX);
            calls.push(bytes(ranges));
            let is_taken = |range: &&AddrRange| !refused.contains(&(range.start / PAGE_BYTES));
            let taken: Vec<AddrRange> = ranges.iter().take_while(is_taken).copied().collect();
            all.extend_from_slice(&taken);
            match taken.is_empty() {
                true => Err(Error::from_raw_os_error(code)),
                false => Ok(bytes(&taken)),
            }
        };
        ask(wanted, || false, || u64::MAX, call);
        (all, calls)
    }

    #[test]
    fn all_ranges_are_asked_for_in_calls_of_bounded_size() {
        let many = (0..2000).map(|n| range(n * 10, 1));
        let wanted: Vec<AddrRange> = many.chain([range(50_000, 4000)]).collect();
        let (all, calls) = taken(&wanted, &[], 0);
        assert_eq!(bytes(&all), bytes(&wanted));
        let is_bounded = |bytes: &u64| *bytes <= CALL_PAGES_MAX * PAGE_BYTES;
        assert!(calls.iter().all(is_bounded), "{calls:?}");
    }

    #[test]
    fn what_is_not_there_any_more_is_passed_over() {
        let wanted: Vec<AddrRange> = (0..100).map(|n| range(n * 10, 2)).collect();
        let refused = [0, 500, 510, 990];
        for code in [libc::ENOMEM, libc::EINVAL] {
            let (all, _) = taken(&wanted, &refused, code);
            let is_left = |range: &&AddrRange| !all.contains(range);
            let left = wanted.iter().filter(is_left).copied();
            assert!(left.eq(refused.map(|first_page| range(first_page, 2))));
        }
    }

    #[test]
    fn who_is_refused_everything_or_has_ended_is_soon_left_alone() {
        let wanted: Vec<AddrRange> = (0..10_000).map(|n| range(n * 10, 1)).collect();
        let all: Vec<u64> = (0..10_000).map(|n| n * 10).collect();
        for (code, nr_calls) in [
            (libc::EINVAL, NR_REFUSED_MAX as usize),
            (libc::ESRCH, 1),
            (libc::EPERM, 1),
        ] {
            let (taken, calls) = taken(&wanted, &all, code);
            assert!(taken.is_empty());
            assert_eq!(calls.len(), nr_calls, "{code}");
        }
    }

    #[test]
    fn when_it_is_over_nothing_more_is_asked_for() {
        let call = |_: &[AddrRange]| panic!("asked after the end");
        ask(&[range(0, 1)], || true, || u64::MAX, call);
    }

    #[test]
    fn no_more_is_asked_for_at_a_time_than_there_is_room() {
        let wanted = [range(0, 3000), range(5000, 10)];
        // Room comes and goes, and is used up by what is asked for.
        let (room, all) = (Cell::new(0u64), Cell::new(0u64));
        let is_made = || {
            room.set((room.get() + (300 << 10)).min(1 << 20));
            room.get()
        };
        ask(
            &wanted,
            || false,
            is_made,
            |ranges| {
                assert!(bytes(ranges) <= room.get());
                room.set(room.get() - bytes(ranges));
                all.set(all.get() + bytes(ranges));
                Ok(bytes(ranges))
            },
        );
        assert_eq!(all.get(), bytes(&wanted));
        let nr_looks = Cell::new(0);
        let is_over = || nr_looks.replace(nr_looks.get() + 1) == 3;
        ask(&wanted, is_over, || 0, |_| panic!("there is no room"));
    }
}
