//! A walk of the whole group: every space that has run, once, then a new generation.
//!
//! ```text
//!   visit:  read a space -> clear it at once          (small)
//!                        -> hand it to the clearer     (large: piece by piece, on a thread of its own)
//! ```
//!
//! **Owns** the order of things in a walk, its clearing and its sums. **Does not own** when it happens
//! (`run`), the reading and the ways to clear (`access`) or the meaning of what is read (`space`).
//!
//! **Invariants**
//! - W1: a walk that comes before [`Walker::rest`] is over clears nothing.

use super::WalkReport;
use super::places::SpaceNo;
use super::tracker::Tracker;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_linux::access::{
    AccessError, AccessSource, ClearIntent, Cleared, Clearer, NrEntries, Progress, YoungPiece,
    clear_pieces,
};
use strata_linux::actuator::{ClearRequest, ClearThread};
use strata_linux::addr::{PAGE_BYTES, covering_spans};
use strata_linux::hold_up;
use strata_linux::process::{Mapping, MemoryDevices, Process, classify, thread_cpu_ns};

/// The spaces that a walk may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thoroughness {
    /// Spaces that have not run since the last walk: they can't have accessed anything.
    SkipIdle,
    /// None, because the kernel may have taken pages meanwhile.
    Everything,
}

/// Walks spaces and keeps the sums.
#[derive(Debug)]
pub(crate) struct Walker {
    source: Box<dyn AccessSource>,
    clearer: Clearer,
    /// Where what takes long is cleared while the owner goes on; `None`: the owner waits.
    thread: Option<ClearThread>,
    devices: MemoryDevices,
    sums: WalkReport,
    /// What the last walk found in memory.
    nr_entries: BTreeMap<SpaceNo, NrEntries>,
    /// What the clearing thread has done since the owner last took it.
    cleared: Vec<Cleared>,
    /// Whether the last walk cleared.
    has_cleared: bool,
    /// CPU and wall time of the last walk.
    last_walk_ns: (u64, u64),
    last_cleared_walk: Option<Instant>,
    /// How long clearing held the lock of one space since then, of the space where that was longest.
    held: Duration,
}

impl Walker {
    /// Nothing walked yet.
    pub(crate) fn new(source: Box<dyn AccessSource>, devices: MemoryDevices) -> Walker {
        Walker {
            clearer: Clearer::new(source.info().grain),
            source,
            thread: None,
            devices,
            sums: WalkReport::default(),
            nr_entries: BTreeMap::new(),
            cleared: Vec::new(),
            has_cleared: false,
            last_walk_ns: (0, 0),
            last_cleared_walk: None,
            held: Duration::ZERO,
        }
    }

    /// Has large spaces cleared on a thread from now on, so that the owner does not wait for it.
    pub(crate) fn clear_in_background(&mut self) -> io::Result<()> {
        self.thread = Some(ClearThread::start()?);
        Ok(())
    }

    /// What the clearing thread has done since the last call.
    pub(crate) fn take_cleared(&mut self) -> Vec<Cleared> {
        std::mem::take(&mut self.cleared)
    }

    /// Whether the last walk cleared what it saw.
    pub(crate) fn has_cleared(&self) -> bool {
        self.has_cleared
    }

    /// Who sees the accesses.
    pub(crate) fn source(&mut self) -> &mut dyn AccessSource {
        self.source.as_mut()
    }

    /// The sums so far; `last` and the ratio are for the caller to fill.
    pub(crate) fn sums(&self) -> WalkReport {
        self.sums
    }

    /// CPU time and wall time of the last walk with its clearing, nanoseconds.
    pub(crate) fn last_walk_ns(&self) -> (u64, u64) {
        self.last_walk_ns
    }

    /// How long the next walk has to be put off, so that clearing holds no program up for too much of the time. Takes
    /// in what the thread has done.
    pub(crate) fn rest(&mut self) -> Duration {
        if let Some(thread) = &mut self.thread {
            for (took, result) in thread.poll().into_iter().flatten() {
                self.cleared.push(took);
                self.held = self.held.max(Duration::from_nanos(took.all_held_ns()));
                self.sums.clear_ns += took.wall_ns;
                self.sums.nr_left_pieces += took.nr_left_pieces;
                if let Err(error) = result {
                    tracing::debug!(%error, "clearing accessed bits");
                }
            }
            if thread.is_busy() {
                return hold_up::PAUSE.max(Duration::from_millis(1));
            }
        }
        let Some(last) = self.last_cleared_walk else {
            return Duration::ZERO;
        };
        (last + self.pace()).saturating_duration_since(Instant::now())
    }

    /// How far apart walks that clear come at least, by what the last one took.
    pub(crate) fn pace(&self) -> Duration {
        hold_up::rest_after(self.held)
    }

    /// Visits every space; the caller ends the walk. One space's failure spoils only that space.
    /// Returns the failures.
    pub(crate) fn visit(
        &mut self,
        tracker: &mut Tracker,
        intent: ClearIntent,
        thoroughness: Thoroughness,
    ) -> Vec<AccessError> {
        let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
        let is_rested = self.rest().is_zero();
        self.has_cleared = is_rested;
        if is_rested {
            self.last_cleared_walk = Some(start);
            self.held = Duration::ZERO;
        }
        let mut failures = Vec::new();
        let mut later = Vec::new();
        let numbers: Vec<SpaceNo> = tracker.spaces().keys().copied().collect();
        self.nr_entries.retain(|number, _| numbers.contains(number));
        for number in numbers {
            let clear = is_rested.then_some(intent);
            let Err(error) = self.visit_space(tracker, number, clear, thoroughness, &mut later)
            else {
                continue;
            };
            // Ending and exec in the middle of a walk are normal; the next refresh tells of them.
            let is_over = tracker
                .spaces()
                .get(&number)
                .is_none_or(|space| !space.process.is_space_current());
            if !is_over {
                failures.push(error);
            }
        }
        if !later.is_empty() {
            self.clear_later(later, &mut failures);
        }
        self.sums.nr_walks += 1;
        let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_walk_ns = (thread_cpu_ns() - cpu_start, wall_ns);
        failures
    }

    fn visit_space(
        &mut self,
        tracker: &mut Tracker,
        number: SpaceNo,
        clear: Option<ClearIntent>,
        thoroughness: Thoroughness,
        later: &mut Vec<ClearRequest>,
    ) -> Result<(), AccessError> {
        let Some(space) = tracker.space_mut(number) else {
            return Ok(());
        };
        let process = Arc::clone(&space.process);
        let cpu_ns = process.cpu_ns().ok();
        let has_run = cpu_ns.is_none() || cpu_ns != space.cpu_ns_at_walk;
        if thoroughness == Thoroughness::SkipIdle && !has_run {
            self.sums.nr_spaces_skipped += 1;
            tracker.leave_out(number);
            return Ok(());
        }
        let mappings = self.mappings(&process)?;
        let spans = covering_spans(
            mappings
                .iter()
                .filter(|mapping| mapping.is_worth_reading())
                .map(|mapping| mapping.range),
        );
        // Of a space that was not walked yet it is not known how much of it are huge pages.
        let held_pages = || process.held_bytes().unwrap_or(0) / PAGE_BYTES;
        let known = self.nr_entries.get(&number).copied();
        let expected = known.unwrap_or_else(|| [held_pages(), 0]);
        let has_to_restore =
            clear == Some(ClearIntent::Watch) && self.clearer.has_to_restore(expected);
        let sees_inactive = self.source.see_inactive(has_to_restore);
        let Some(mut walk) = tracker.walk_space(number, &mappings) else {
            return Ok(());
        };
        let cost = self
            .source
            .read(&process, &spans, &mut |record| walk.record(record))?;
        let (mut young, nr_entries) = walk.finish();
        self.nr_entries.insert(number, nr_entries);
        self.sums.nr_spaces += 1;
        self.sums.cost.add(cost);
        if let Some(space) = tracker.space_mut(number) {
            // What was not cleared will be found accessed once more.
            space.cpu_ns_at_walk = cpu_ns.filter(|_| clear.is_some());
        }
        let Some(intent) = clear else {
            return Ok(());
        };
        if intent == ClearIntent::Pageout {
            young.iter_mut().for_each(YoungPiece::restore_nothing);
        } else if !sees_inactive && self.clearer.has_to_restore(nr_entries) {
            // It has grown since it was looked at, and nothing was noted to be restored: cleared next time.
            if let Some(space) = tracker.space_mut(number) {
                space.cpu_ns_at_walk = None;
            }
            return Ok(());
        }
        let cleared = match self.clearer.clear(&process, &young, nr_entries, intent)? {
            Progress::Done(cleared) => cleared,
            Progress::PiecesLeft(cleared) => {
                young.retain(|piece| self.clearer.is_for_pieces(piece));
                later.push((process, young));
                cleared
            }
        };
        self.count(cleared);
        Ok(())
    }

    fn clear_later(&mut self, later: Vec<ClearRequest>, failures: &mut Vec<AccessError>) {
        if let Some(thread) = &mut self.thread {
            // It is idle: else there is a rest, and nothing is cleared.
            let _is_taken = thread.try_submit(later);
            return;
        }
        for (process, young) in later {
            let mut cleared = Cleared::default();
            let result = clear_pieces(&process, young.iter(), || false, &mut cleared);
            self.count(cleared);
            failures.extend(result.err().filter(|_| process.is_space_current()));
        }
    }

    fn count(&mut self, cleared: Cleared) {
        self.held = self.held.max(Duration::from_nanos(cleared.all_held_ns()));
        self.sums.clear_ns += cleared.wall_ns;
        self.sums.nr_left_pieces += cleared.nr_left_pieces;
    }

    fn mappings(&mut self, process: &Process) -> Result<Vec<Mapping>, AccessError> {
        let flags = self.source.vm_flags(process)?;
        let raw = process.read_maps().map_err(|source| AccessError::Io {
            what: "reading the mappings",
            pid: process.pid(),
            source,
        })?;
        Ok(classify(&raw, &flags, &self.devices))
    }
}
