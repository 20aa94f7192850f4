//! Hold-ups: how long calls of Strata hold the lock of another program's address space.
//!
//! A program that maps or unmaps memory waits for that lock, and on kernels without a lock for each
//! mapping (before 6.4) a page fault waits for a writer of it, too. So every call that takes the lock is kept
//! short, calls are kept apart, and all of them together are kept to a small share of the time.
//!
//! A call that goes through all of an address space is made only where that is small: how small is measured once, on
//! this process.
//!
//! **Owns** the rule ([`CALL_MAX`], [`PAUSE`], [`CLEARING_SHARE`]) and the count of what this process did
//! ([`HoldUps`]). **Does not own** the calls (`sys`), nor when they come.
//!
//! **Invariants**
//! - I1: every call that takes the lock of another program goes through `timed`.
//! - I2: a call counts with all the time it took. The time that the lock was held is at most that.

use crate::addr::PAGE_BYTES;
use std::fmt;
use std::fs;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// A call that holds the lock for longer than this is followed by smaller ones.
pub const CALL_MAX: Duration = Duration::from_millis(2);
/// Calls are made so small that they are expected to take no longer than this.
pub const CALL_GOAL: Duration = Duration::from_nanos(strata_lru::machine::CALL_GOAL_NS);
/// Between two calls the lock is left alone for at least this long, or whoever wants it to write waits for many of
/// them: with 50 us the worst `mmap` of a program of 6 GiB took 0.2 ms, without a pause 12 to 16 ms.
pub const PAUSE: Duration = Duration::from_micros(50);
pub use strata_lru::machine::CLEARING_SHARE;

/// What a call takes for each page that it goes through, where that can't be measured; nanoseconds.
const ENTRY_NS: f64 = 68.0;
/// Times that the cost of an entry is measured.
const NR_TRIALS: usize = 5;
/// On so many pages the cost of an entry is measured.
const NR_TRIAL_PAGES: usize = 2048;
/// Pages that are not all in a processor's cache take at least this long.
const ENTRY_NS_MIN: f64 = 45.0;
/// A space with so few entries (32 MiB of base pages) is gone through at once wherever Strata runs: hardware is
/// through with it in time, and an emulated processor keeps no time.
const NR_ENTRIES_SMALL: u64 = 8192;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Reading `smaps` or `smaps_rollup`.
    Smaps,
    /// `clear_refs`: the only one that holds the lock for writing.
    ClearRefs,
    /// `MADV_COLD`.
    Cold,
    /// `process_vm_readv`. The kernel takes and drops the lock once for each range of such a call.
    Touch,
    /// `MADV_PAGEOUT`.
    Pageout,
    /// `MADV_WILLNEED`.
    ReadIn,
    /// `move_pages`.
    Move,
}

/// The calls of one kind, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CallSums {
    /// Calls.
    pub nr_calls: u64,
    /// The longest one, nanoseconds.
    pub longest_ns: u64,
    /// All of them, nanoseconds.
    pub total_ns: u64,
}

impl CallSums {
    const NONE: CallSums = CallSums {
        nr_calls: 0,
        longest_ns: 0,
        total_ns: 0,
    };

    fn add(&mut self, took_ns: u64) {
        self.nr_calls += 1;
        self.longest_ns = self.longest_ns.max(took_ns);
        self.total_ns += took_ns;
    }

    fn merge(&mut self, other: CallSums) {
        self.nr_calls += other.nr_calls;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.total_ns += other.total_ns;
    }

    /// Share of `time` that the calls took, percent.
    pub fn share_percent(&self, time: Duration) -> f64 {
        let time_ns = time.as_nanos() as f64;
        match time_ns > 0.0 {
            true => 100.0 * self.total_ns as f64 / time_ns,
            false => 0.0,
        }
    }
}

/// What this process did so far, by kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HoldUps {
    /// Summing up what a process uses, or its mappings do (`smaps`, `smaps_rollup`).
    pub smaps: CallSums,
    /// Clearing accessed bits with the lock held for writing (`clear_refs`).
    pub clear_refs: CallSums,
    /// Clearing accessed bits, and naming cold pages, range by range (`MADV_COLD`).
    pub cold: CallSums,
    /// Touching pages, so that the kernel keeps them (`process_vm_readv`).
    pub touch: CallSums,
    /// Taking pages (`MADV_PAGEOUT`).
    pub pageout: CallSums,
    /// Reading pages in (`MADV_WILLNEED`).
    pub read_in: CallSums,
    /// Moving pages to another memory node, and asking where they are (`move_pages`).
    pub moves: CallSums,
}

impl HoldUps {
    const NONE: HoldUps = HoldUps {
        smaps: CallSums::NONE,
        clear_refs: CallSums::NONE,
        cold: CallSums::NONE,
        touch: CallSums::NONE,
        pageout: CallSums::NONE,
        read_in: CallSums::NONE,
        moves: CallSums::NONE,
    };

    /// What this process did since it began.
    pub fn so_far() -> HoldUps {
        match DONE.lock() {
            Ok(done) => *done,
            // Sums are whole whatever the thread that held them did afterwards.
            Err(poisoned) => *poisoned.into_inner(),
        }
    }

    /// All kinds together.
    pub fn all(&self) -> CallSums {
        let mut all = CallSums::NONE;
        for sums in [
            self.smaps,
            self.clear_refs,
            self.cold,
            self.touch,
            self.pageout,
            self.read_in,
            self.moves,
        ] {
            all.merge(sums);
        }
        all
    }

    /// What reports tell of these calls, over so much time.
    pub fn report(self, time: Duration) -> HoldUpReport {
        let all = self.all();
        HoldUpReport {
            longest_us: all.longest_ns.div_ceil(1000),
            // More digits are noise.
            share_percent: (all.share_percent(time) * 1000.0).round() / 1000.0,
            calls: self,
        }
    }

    fn of_mut(&mut self, call: Call) -> &mut CallSums {
        match call {
            Call::Smaps => &mut self.smaps,
            Call::ClearRefs => &mut self.clear_refs,
            Call::Cold => &mut self.cold,
            Call::Touch => &mut self.touch,
            Call::Pageout => &mut self.pageout,
            Call::ReadIn => &mut self.read_in,
            Call::Move => &mut self.moves,
        }
    }
}

/// For how long programs were held up at most, as reports tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct HoldUpReport {
    /// The longest call, microseconds.
    pub longest_us: u64,
    /// All calls, as a share of the time, percent.
    pub share_percent: f64,
    /// The calls by kind.
    #[serde(flatten)]
    pub calls: HoldUps,
}

impl fmt::Display for HoldUpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.longest_us as f64 / 1000.0;
        write!(
            f,
            "{ms:.2} ms at the longest, {:.2} % of the time",
            self.share_percent
        )
    }
}

/// The calls of all threads of this process. Whoever shares a process shares the count, which is then an upper bound
/// for each target.
static DONE: Mutex<HoldUps> = Mutex::new(HoldUps::NONE);

/// Makes a call and counts how long it took; also returns that.
pub(crate) fn timed<T>(call: Call, make: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let result = make();
    let took = started.elapsed();
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    match DONE.lock() {
        Ok(mut done) => done.of_mut(call).add(took_ns),
        Err(poisoned) => poisoned.into_inner().of_mut(call).add(took_ns),
    }
    (result, took)
}

/// Leaves the lock alone for a moment between two calls.
pub(crate) fn pause() {
    std::thread::sleep(PAUSE);
}

/// How long after the begin of a walk whose clearing held the lock for so long the next one may begin.
pub fn rest_after(clearing: Duration) -> Duration {
    clearing.saturating_mul(CLEARING_SHARE)
}

/// What a call that goes through all of an address space (`clear_refs`, `smaps`) takes for each entry, nanoseconds:
/// `clear_refs` as measured on this process, whose own accessed bits nobody needs.
pub(crate) fn entry_ns() -> f64 {
    static MEASURED_NS: LazyLock<f64> = LazyLock::new(|| measured_entry_ns().unwrap_or(ENTRY_NS));
    *MEASURED_NS
}

/// What is to be thought of a call that went through so many entries in so much CPU time, nanoseconds: a small space is
/// taken for as quick as on hardware.
pub(crate) fn believed_ns(cpu_ns: u64, nr_entries: u64) -> u64 {
    match nr_entries <= NR_ENTRIES_SMALL {
        true => cpu_ns.min((nr_entries as f64 * ENTRY_NS) as u64),
        false => cpu_ns,
    }
}

/// The most entries that such a call may meet, where one takes so long.
pub(crate) fn entries_max(entry_ns: f64) -> u64 {
    let fitting = CALL_GOAL.as_nanos() as f64 / entry_ns;
    (fitting as u64).max(NR_ENTRIES_SMALL)
}

/// The most pages that a process may have in memory for a call that goes through all of them, on this machine.
pub fn pages_at_once() -> u64 {
    entries_max(entry_ns())
}

/// The difference that some pages of ours make to the call: what it takes besides does not grow with a program.
fn measured_entry_ns() -> Option<f64> {
    let fastest = || {
        let trials = (0..NR_TRIALS).map(|_| {
            let started = Instant::now();
            fs::write("/proc/self/clear_refs", "1").ok()?;
            Some(started.elapsed())
        });
        trials.collect::<Option<Vec<_>>>()?.into_iter().min()
    };
    // One byte a page: all of them are in memory.
    let mut pages = vec![0u8; NR_TRIAL_PAGES * PAGE_BYTES as usize];
    pages
        .iter_mut()
        .step_by(PAGE_BYTES as usize)
        .for_each(|byte| *byte = 1);
    let with_pages = fastest()?;
    std::hint::black_box(&pages);
    drop(pages);
    let without = fastest()?;
    let entry_ns = with_pages.saturating_sub(without).as_nanos() as f64 / NR_TRIAL_PAGES as f64;
    // Huge pages would make it look quick, and a busy machine slow.
    Some(entry_ns.max(ENTRY_NS_MIN))
}

/// How many pages one call may ask for, learnt from how long calls took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSize {
    page_ns: f64,
    pages_max: u64,
}

impl CallSize {
    /// `page_ns` is what a page is expected to take, `pages_max` the most in one call however little it takes.
    pub(crate) fn new(page_ns: f64, pages_max: u64) -> CallSize {
        CallSize { page_ns, pages_max }
    }

    /// The most pages of the next call; at least one.
    pub(crate) fn nr_pages(&self) -> u64 {
        let fitting = CALL_GOAL.as_nanos() as f64 / self.page_ns.max(1.0);
        (fitting as u64).clamp(1, self.pages_max)
    }

    /// Learns from a call: at once where it took longer than expected, slowly where it took less.
    pub(crate) fn learn(&mut self, nr_pages: u64, took: Duration) {
        if nr_pages == 0 {
            return;
        }
        let page_ns = took.as_nanos() as f64 / nr_pages as f64;
        let weight = if page_ns > self.page_ns { 0.5 } else { 0.1 };
        self.page_ns += (page_ns - self.page_ns) * weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_by_kind_with_its_longest() {
        let before = HoldUps::so_far().read_in;
        let (answer, took) = timed(Call::ReadIn, || {
            std::thread::sleep(Duration::from_millis(3));
            7
        });
        let after = HoldUps::so_far().read_in;
        assert_eq!(answer, 7);
        assert!(took >= Duration::from_millis(3));
        assert!(after.nr_calls > before.nr_calls && after.longest_ns >= 3_000_000);
        assert!(after.total_ns >= before.total_ns + 3_000_000);
        assert!(HoldUps::so_far().all().longest_ns >= after.longest_ns);
    }

    #[test]
    fn clearing_takes_half_a_percent_of_the_time_at_most() {
        let held = Duration::from_millis(5);
        let share = held.as_secs_f64() / rest_after(held).as_secs_f64();
        assert!((share - 0.005).abs() < 1e-9, "{share}");
        let sums = CallSums {
            nr_calls: 1,
            longest_ns: 5_000_000,
            total_ns: 5_000_000,
        };
        assert!((sums.share_percent(rest_after(held)) - 0.5).abs() < 1e-9);
        assert_eq!(CallSums::NONE.share_percent(Duration::ZERO), 0.0);
    }

    #[test]
    fn what_an_entry_takes_is_measured_here() {
        let entry_ns = measured_entry_ns().expect("own accessed bits can be cleared");
        assert!(
            entry_ns.is_finite() && entry_ns >= ENTRY_NS_MIN,
            "{entry_ns}"
        );
        assert_eq!(entries_max(50.0), 30_000);
        assert_eq!(entries_max(1e9), NR_ENTRIES_SMALL);
        assert!(pages_at_once() >= NR_ENTRIES_SMALL);
    }

    #[test]
    fn an_emulated_processor_is_believed_slow_only_for_large_spaces() {
        assert_eq!(believed_ns(1_000_000, 1000), 68_000);
        assert_eq!(believed_ns(10_000, 1000), 10_000);
        assert_eq!(believed_ns(10_000_000, NR_ENTRIES_SMALL + 1), 10_000_000);
    }

    #[test]
    fn calls_shrink_at_once_where_pages_take_long_and_grow_slowly() {
        let mut size = CallSize::new(6_000.0, 512);
        assert_eq!(size.nr_pages(), 250);
        // Every page interrupts the processor that runs the program: 27 us each.
        for _ in 0..6 {
            let nr_pages = size.nr_pages();
            size.learn(nr_pages, Duration::from_micros(27 * nr_pages));
        }
        assert!((50..70).contains(&size.nr_pages()), "{}", size.nr_pages());
        let small = size.nr_pages();
        size.learn(small, Duration::from_micros(small));
        assert!(size.nr_pages() < small * 2);
        size.learn(0, Duration::from_secs(1));
        for _ in 0..200 {
            size.learn(512, Duration::from_micros(1));
        }
        assert_eq!(size.nr_pages(), 512);
        size.learn(1, Duration::from_secs(10));
        assert_eq!(size.nr_pages(), 1);
    }
}
