//! The group that a run manages: its programs, their pages, and walking them.
//!
//! **Owns** who the members are and when they were last looked for, who is out of pageout's reach, and what the last walk
//! showed. **Does not own** when a walk comes (`strata_control::walks`), nor what is done after one (`reclaim_loop`).
//!
//! **Invariants** I1: who is out of reach is a member.

use crate::pages::WalkFindings;
use crate::pages::WalkReport;
use crate::pages::members::Members;
use crate::pages::places::SpaceNo;
use crate::pages::tracker::Tracker;
use crate::pages::walk::{Thoroughness, Walker};
use crate::run::gauge::Gauge;
use crate::run::trace::{self, Recorder};
use std::collections::BTreeSet;
use strata_control::ProgramNo;
use strata_linux::access::{AccessError, ClearIntent, SourceInfo};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::Process;
use strata_lru::{GroupView, TimeMs};

/// How a group stood after the last walk that found anything.
#[derive(Debug)]
struct Seen {
    views: Vec<GroupView>,
    findings: WalkFindings,
}

/// The programs of a group and their pages.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) tracker: Tracker,
    members: Members,
    walker: Walker,
    members_refreshed: Option<TimeMs>,
    /// Spaces whose pages pageout can't take.
    out_of_reach: BTreeSet<SpaceNo>,
    seen: Option<Seen>,
    recorder: Recorder,
}

impl Group {
    /// Nothing looked at yet.
    pub(super) fn new(
        tracker: Tracker,
        members: Members,
        walker: Walker,
        recorder: Recorder,
    ) -> Group {
        Group {
            tracker,
            members,
            walker,
            members_refreshed: None,
            out_of_reach: BTreeSet::new(),
            seen: None,
            recorder,
        }
    }

    /// The members.
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// The programs, by number.
    pub(super) fn programs(&self) -> impl Iterator<Item = (ProgramNo, &Process)> {
        let spaces = self.tracker.spaces().iter();
        spaces.map(|(number, space)| (*number, space.process.as_ref()))
    }

    /// Whether members were looked for less than `pause_ms` ago.
    pub(super) fn are_members_fresh(&self, now: TimeMs, pause_ms: u64) -> bool {
        self.members_refreshed
            .is_some_and(|then| now.since(then) < pause_ms)
    }

    /// Looks who the members are; returns what can't be managed and why.
    pub(super) fn refresh_members(&mut self, now: TimeMs, gauge: &Gauge) -> Vec<String> {
        let listed = gauge.processes();
        let refusals = self.members.refresh(listed.as_deref(), &mut self.tracker);
        self.members_refreshed = Some(now);
        let spaces = self.tracker.spaces();
        self.out_of_reach.retain(|space| spaces.contains_key(space));
        self.recorder.note(|tick| {
            tick.sample.members = Some(trace::Members {
                programs: spaces.keys().map(|number| number.0).collect(),
                out_of_reach: self.out_of_reach.iter().map(|number| number.0).collect(),
            });
        });
        refusals
    }

    /// Pages of this space can't be taken one by one.
    pub(super) fn note_out_of_reach(&mut self, space: u32) {
        self.out_of_reach.insert(SpaceNo(space));
    }

    /// Whether there is a process whose pages pageout can't take.
    pub(super) fn is_out_of_reach(&self) -> bool {
        !self.out_of_reach.is_empty()
    }

    /// Visits every space; the caller ends the walk. Returns what went wrong.
    pub(super) fn visit(
        &mut self,
        intent: ClearIntent,
        thoroughness: Thoroughness,
    ) -> Vec<AccessError> {
        self.walker.visit(&mut self.tracker, intent, thoroughness)
    }

    /// The walker, for how walks can come and what they took.
    pub(super) fn walker(&mut self) -> &mut Walker {
        &mut self.walker
    }

    /// The sums of all walks so far.
    pub(super) fn walk_sums(&self) -> WalkReport {
        self.walker.sums()
    }

    /// CPU time and wall time of the last walk with its clearing, nanoseconds.
    pub(super) fn last_walk_ns(&self) -> (u64, u64) {
        self.walker.last_walk_ns()
    }

    /// Whether the last walk cleared what it saw.
    pub(super) fn has_cleared(&self) -> bool {
        self.walker.has_cleared()
    }

    /// Keeps what a walk found. A program that has ended has no pages any more, and what the report
    /// should tell is how they stood before.
    pub(super) fn remember(&mut self, now: TimeMs) {
        let findings = self.tracker.findings();
        if has_pages(&findings) {
            let views = self.tracker.view(now).unwrap_or_default();
            self.seen = Some(Seen { views, findings });
        }
    }

    /// What the last walk found; of a program that has ended, the last one that found anything.
    pub(super) fn findings(&self) -> WalkFindings {
        let now = self.tracker.findings();
        match &self.seen {
            Some(seen) if !has_pages(&now) => seen.findings,
            _ => now,
        }
    }

    /// The generations, oldest first.
    pub(super) fn view(&self, now: TimeMs) -> Vec<GroupView> {
        match &self.seen {
            Some(seen) if !has_pages(&self.tracker.findings()) => seen.views.clone(),
            _ => self.tracker.view(now).unwrap_or_default(),
        }
    }

    /// How the generations stood when the program was last looked at. In the time between its end and
    /// our notice of it, pageout may have found most of its pages gone.
    pub(super) fn view_before_the_end(&self, now: TimeMs) -> Vec<GroupView> {
        match &self.seen {
            Some(seen) => seen.views.clone(),
            None => self.view(now),
        }
    }

    /// Bytes of evicted pages that are not back.
    pub(super) fn evicted_bytes(&self) -> u64 {
        self.tracker.nr_shadow_pages() * PAGE_BYTES
    }

    /// Bytes that keeping track costs.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tracker.memory_bytes()
    }

    /// Who sees the accesses.
    pub(super) fn source_info(&mut self) -> SourceInfo {
        self.walker.source().info()
    }
}

fn has_pages(findings: &WalkFindings) -> bool {
    findings.nr_resident_pages.iter().any(|pages| *pages > 0)
}
