//! The group that a run manages: its programs, their pages, and walking them.
//!
//! **Owns** when members were last looked for, who is out of pageout's reach, what the last walk showed, and sums of walks.
//! **Does not own** a walk (`observe`), when one comes (`strata_control::walks`), nor what is done after one (`reclaim_loop`).
//!
//! **Invariants** I1: who is out of reach is a member.

use crate::observe::Observer;
use crate::pages::places::SpaceSlot;
use crate::pages::tracker::Tracker;
use crate::pages::{WalkFindings, WalkReport};
use crate::run::gauge::Gauge;
use std::collections::BTreeSet;
use std::time::Duration;
use strata_control::ProgramNo;
use strata_control::drive::Visit;
use strata_control::trace::WalkSample;
use strata_linux::access::ClearIntent;
use strata_linux::process::Process;
use strata_lru::{GroupView, TimeMs};

/// A turn of the loop waits for the thread that walks for so long at most: most walks are over then.
const WALK_WAIT: Duration = Duration::from_millis(5);

/// How a group stood after the last walk that found anything.
#[derive(Debug)]
struct Seen {
    views: Vec<GroupView>,
    findings: WalkFindings,
}

/// A walk that is under way.
#[derive(Clone, Copy, Debug)]
struct Walking {
    is_thorough: bool,
    clear: Option<ClearIntent>,
}

/// The programs of a group and their pages.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) tracker: Tracker,
    pub(super) observer: Observer,
    walking: Option<Walking>,
    /// Of all walks so far; `last` and the ratio are for the reader to fill.
    pub(super) sums: WalkReport,
    /// When members were last looked for.
    pub(super) members_refreshed: Option<TimeMs>,
    /// Spaces whose pages pageout can't take.
    pub(super) out_of_reach: BTreeSet<SpaceSlot>,
    seen: Option<Seen>,
}

impl Group {
    /// Nothing looked at yet.
    pub(super) fn new(tracker: Tracker, observer: Observer) -> Group {
        Group {
            tracker,
            observer,
            walking: None,
            sums: WalkReport::default(),
            members_refreshed: None,
            out_of_reach: BTreeSet::new(),
            seen: None,
        }
    }

    /// The programs, by number.
    pub(super) fn programs(&self) -> impl Iterator<Item = (ProgramNo, &Process)> {
        let spaces = self.tracker.spaces().iter();
        spaces.map(|(number, space)| (ProgramNo(number.0), space.process.as_ref()))
    }

    /// Looks who the members are; returns what can't be managed and why.
    pub(super) fn refresh_members(&mut self, now: TimeMs, gauge: &Gauge) -> Vec<String> {
        self.list_members(gauge);
        let mut troubles = self.observer.look_for_members(&mut self.tracker);
        self.note_members(now);
        troubles.append(&mut self.tracker.take_refused());
        troubles
    }

    /// Tells the observer who belongs to the group, where there is one. One that can't be read has those that it had.
    fn list_members(&mut self, gauge: &Gauge) {
        if let Some(pids) = gauge.processes() {
            self.observer.set_processes(&pids);
        }
    }

    fn note_members(&mut self, now: TimeMs) {
        self.members_refreshed = Some(now);
        let spaces = self.tracker.spaces();
        self.out_of_reach.retain(|space| spaces.contains_key(space));
    }

    /// Whether there is a process whose pages pageout can't take.
    pub(super) fn is_out_of_reach(&self) -> bool {
        !self.out_of_reach.is_empty()
    }

    /// Whether a walk is under way.
    pub(super) fn is_walking(&self) -> bool {
        self.walking.is_some()
    }

    /// Looks who the members are and visits every space, also those that have not run if `is_thorough`; or goes on with that. The
    /// caller ends the walk. What went wrong is told, too.
    pub(super) fn visit(
        &mut self,
        now: TimeMs,
        gauge: &Gauge,
        intent: ClearIntent,
        is_thorough: bool,
    ) -> Option<(Visit, Vec<String>)> {
        let walking = match self.walking {
            Some(walking) => walking,
            None => {
                let clear = self.observer.rest().is_zero().then_some(intent);
                self.list_members(gauge);
                self.observer.set_intent(intent);
                self.observer.read_again(|_| is_thorough);
                self.observer.begin_walk(&mut self.tracker);
                self.note_members(now);
                *self.walking.insert(Walking { is_thorough, clear })
            }
        };
        let mut walked = self.observer.go_on(&mut self.tracker, WALK_WAIT)?;
        self.walking = None;
        walked.troubles.append(&mut self.tracker.take_refused());
        self.sums.nr_walks += 1;
        self.sums.nr_spaces += walked.nr_spaces;
        self.sums.nr_spaces_skipped += walked.nr_idle_spaces;
        self.sums.cost += walked.cost;
        self.sums.clear_ns += walked.clear_ns;
        self.sums.nr_left_pieces += walked.nr_left_pieces;
        let visit = Visit {
            sample: WalkSample {
                nr_spaces: walked.nr_spaces,
                nr_spaces_skipped: walked.nr_idle_spaces,
                nr_entries: walked.cost.nr_entries,
                cpu_ns: walked.cpu_ns,
                wall_ns: walked.wall_ns,
                found: self.tracker.findings(),
            },
            is_thorough: walking.is_thorough,
            clear: walking.clear,
        };
        Some((visit, walked.troubles))
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
            // The walk under way has not told all yet.
            Some(seen) if self.is_walking() || !has_pages(&now) => seen.findings,
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
}

fn has_pages(findings: &WalkFindings) -> bool {
    findings.nr_resident_pages.iter().any(|pages| *pages > 0)
}
