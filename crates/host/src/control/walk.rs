//! A walk of the whole group: every space that has run, once, then a new generation.
//!
//! **Owns** the order of things in a walk and its sums. **Does not own** when it happens
//! (`managed`), the reading (`access`) or the meaning of what is read (`space`).

use super::places::SpaceNo;
use super::report::WalkReport;
use super::tracker::Tracker;
use crate::access::{AccessError, AccessSource, ClearIntent};
use crate::addr::{AddrRange, covering_spans};
use crate::process::{Mapping, MemoryDevices, Process, classify, thread_cpu_ns};
use std::sync::Arc;
use std::time::Instant;

/// Which spaces a walk may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thoroughness {
    /// Those that have not run since the last walk: they can't have accessed anything.
    SkipIdle,
    /// None, because the kernel may have taken pages meanwhile.
    Everything,
}

/// Walks spaces and keeps the sums.
#[derive(Debug)]
pub(super) struct Walker {
    source: Box<dyn AccessSource>,
    devices: MemoryDevices,
    sums: WalkReport,
    /// CPU and wall time of the last walk.
    last_walk_ns: (u64, u64),
}

impl Walker {
    /// Nothing walked yet.
    pub(super) fn new(source: Box<dyn AccessSource>, devices: MemoryDevices) -> Walker {
        Walker {
            source,
            devices,
            sums: WalkReport::default(),
            last_walk_ns: (0, 0),
        }
    }

    /// Who sees the accesses.
    pub(super) fn source(&mut self) -> &mut dyn AccessSource {
        self.source.as_mut()
    }

    /// The sums so far; `last` and the ratio are for the caller to fill.
    pub(super) fn sums(&self) -> WalkReport {
        self.sums
    }

    /// CPU time and wall time of the last walk with its clearing, nanoseconds.
    pub(super) fn last_walk_ns(&self) -> (u64, u64) {
        self.last_walk_ns
    }

    /// Visits every space; the caller ends the walk. One space's failure spoils only that space.
    /// Returns the failures.
    pub(super) fn visit(
        &mut self,
        tracker: &mut Tracker,
        intent: ClearIntent,
        thoroughness: Thoroughness,
    ) -> Vec<AccessError> {
        let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
        let mut failures = Vec::new();
        let numbers: Vec<SpaceNo> = tracker.spaces().keys().copied().collect();
        for number in numbers {
            let Err(error) = self.visit_space(tracker, number, intent, thoroughness) else {
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
        self.sums.nr_walks += 1;
        let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_walk_ns = (thread_cpu_ns() - cpu_start, wall_ns);
        failures
    }

    fn visit_space(
        &mut self,
        tracker: &mut Tracker,
        number: SpaceNo,
        intent: ClearIntent,
        thoroughness: Thoroughness,
    ) -> Result<(), AccessError> {
        let Some(space) = tracker.space_mut(number) else {
            return Ok(());
        };
        let process = Arc::clone(&space.process);
        let cpu_ns = process.cpu_ns().ok();
        let has_run = cpu_ns.is_none() || cpu_ns != space.cpu_ns_at_walk;
        if thoroughness == Thoroughness::SkipIdle && !has_run {
            self.sums.nr_spaces_skipped += 1;
            space.skip_walk();
            return Ok(());
        }
        let mappings = self.mappings(&process)?;
        let spans = covering_spans(
            mappings
                .iter()
                .filter(|mapping| mapping.is_worth_reading())
                .map(|mapping| mapping.range),
        );
        let Some(mut walk) = tracker.walk_space(number, &mappings) else {
            return Ok(());
        };
        let cost = self
            .source
            .read(&process, &spans, &mut |record| walk.record(record))?;
        let young: Vec<AddrRange> = walk.finish();
        self.sums.nr_spaces += 1;
        self.sums.cost.nr_tables += cost.nr_tables;
        self.sums.cost.nr_entries += cost.nr_entries;
        self.sums.cost.nr_runs += cost.nr_runs;
        self.sums.cost.wall_ns += cost.wall_ns;
        if let Some(space) = tracker.space_mut(number) {
            space.cpu_ns_at_walk = cpu_ns;
            let resident = space.findings.nr_resident_pages.iter().sum();
            self.sums.clear_ns += self.source.clear(&process, &young, resident, intent)?;
        }
        Ok(())
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
