//! Telling the kernel which active pages to let go of first, while programs reclaim in their own faults.
//!
//! **Owns** when that is done and for which lists. **Does not own** what follows from how long they are
//! (`strata_control::list_balance`), which pages are cold (`tracker`), nor the naming (`actuator::Deactivate`).

use super::super::space::Space;
use super::super::trace::{ColdAsk, Report};
use super::Managed;
use crate::access::ListsSource;
use crate::actuator::Deactivate;
use crate::addr::PAGE_BYTES;
use std::collections::BTreeSet;
use strata_control::list_balance::{ListBalance, Reading};
use strata_lru::TimeMs;

/// Walks for it are so far apart at least.
const WALK_MS_MIN: u64 = 200;
/// Of usage so much has to be on the lists that are looked at, percent: less, and those of groups below count; ...
const SHARE_PERCENT_MIN: u64 = 75;
/// ... more, and they are not those of this group.
const SHARE_PERCENT_MAX: u64 = 110;
/// What heat foretold longer ago is not judged.
const JUDGED_MS_MAX: u64 = 2000;

/// The lists, the thread, and what is known of their use.
#[derive(Debug)]
pub(super) struct Deactivating {
    lists: ListsSource,
    thread: Deactivate,
    /// While it is done.
    deactivation: Option<ListBalance>,
    /// Processes of which no page may be named, by number.
    refused: BTreeSet<i32>,
}

impl Deactivating {
    /// Nothing looked at yet.
    pub(super) fn new((lists, thread): (ListsSource, Deactivate)) -> Deactivating {
        Deactivating {
            lists,
            thread,
            deactivation: None,
            refused: BTreeSet::new(),
        }
    }
}

impl Managed {
    /// Looks how long the kernel's lists are, and tells whether its counts are to be read.
    pub(in super::super) fn look_at_lists(&mut self, now: TimeMs, usage_bytes: u64) -> Reading {
        let may_hold = self.governor.is_left_to_programs() && self.is_heat_believed(now);
        let Some(of) = &mut self.deactivating else {
            return Reading::Paced;
        };
        let resident = |space: &&Space| space.findings.nr_resident_pages.iter().sum::<u64>();
        let largest = self.tracker.spaces().values().max_by_key(resident);
        let read = |space: &Space| {
            let lists = of.lists.read(&space.process);
            lists.unwrap_or_else(|error| {
                tracing::debug!(%error, "the kernel's lists can't be looked at");
                None
            })
        };
        let shares = usage_bytes * SHARE_PERCENT_MIN..=usage_bytes * SHARE_PERCENT_MAX;
        let found = largest.filter(|_| may_hold).and_then(read);
        let lists = found.filter(|lists| shares.contains(&(lists.nr_pages() * PAGE_BYTES * 100)));
        of.thread.allow(lists.is_some());
        self.recorder.note_limit(|sample, plan| {
            sample.lists = found.map(Into::into);
            sample.is_naming = of.thread.is_busy();
            plan.may_name = lists.is_some();
        });
        let Some(lists) = lists else {
            of.deactivation = None;
            return Reading::Paced;
        };
        let deactivation = of.deactivation.get_or_insert_default();
        let reading = deactivation.look(now, lists, of.thread.is_busy());
        // On v2 nothing but slowness holds usage at the line where the kernel finds nothing to take.
        match usage_bytes > self.governor.marks().budget {
            true => Reading::Due,
            false => reading,
        }
    }

    /// Nothing is named any more.
    pub(super) fn stop_naming(&mut self) {
        if let Some(of) = &mut self.deactivating {
            of.thread.allow(false);
            of.deactivation = None;
        }
    }

    /// Whether the thread is at work.
    pub(super) fn is_naming(&self) -> bool {
        let of = self.deactivating.as_ref();
        of.is_some_and(|of| of.thread.is_busy())
    }

    /// Whether the walk before this one is too long ago for what it foretold to be judged.
    pub(super) fn is_judgement_late(&self, now: TimeMs) -> bool {
        let is_late = |then| now.since(then) > JUDGED_MS_MAX;
        self.governor.is_left_to_programs() && self.last_walk.is_some_and(is_late)
    }

    /// The kernel's counts have been brought up to date.
    pub(in super::super) fn note_reading(&mut self) {
        let of = self.deactivating.as_mut();
        if let Some(deactivation) = of.and_then(|of| of.deactivation.as_mut()) {
            deactivation.note_reading();
        }
    }

    /// How far apart walks are to be because cold pages are to be named; `None` while none are.
    pub(super) fn cold_walk_ms(&self, now: TimeMs) -> Option<u64> {
        let of = self.deactivating.as_ref()?;
        let is_wanted = of.deactivation.as_ref()?.nr_wanted_pages().is_some();
        let is_free = !of.thread.is_busy() && self.is_heat_believed(now);
        (is_wanted && is_free).then_some(WALK_MS_MIN)
    }

    /// After a walk: names the coldest active pages.
    pub(super) fn name_cold(&mut self) {
        let Some(of) = &mut self.deactivating else {
            return;
        };
        let wanted = of.deactivation.as_ref();
        let Some(nr_pages) = wanted.and_then(ListBalance::nr_wanted_pages) else {
            return;
        };
        let mut cold = self
            .tracker
            .coldest_active(nr_pages, self.effective_swappiness);
        let nr_processes = cold.len();
        cold.retain(|(process, _)| !of.refused.contains(&process.pid()));
        let ranges = cold.iter().flat_map(|(_, ranges)| ranges);
        let nr_named = ranges.map(|range| range.nr_pages()).sum();
        let Some(deactivation) = &mut of.deactivation else {
            return;
        };
        let mut is_taken = false;
        if nr_named == 0 && nr_processes > 0 {
            deactivation.note_vain();
        } else if nr_named > 0 && of.thread.try_submit(cold) {
            is_taken = true;
            deactivation.note_named(nr_named);
        }
        let ask = ColdAsk {
            nr_wanted_pages: nr_pages,
            nr_pages: nr_named,
            nr_programs: nr_processes as u64,
            is_taken,
        };
        self.recorder.note(|tick| tick.plan.cold.push(ask));
    }

    /// Hears what the thread has done.
    pub(super) fn hear_of_cold(&mut self) {
        let Some(of) = &mut self.deactivating else {
            return;
        };
        let Some(report) = of.thread.poll() else {
            return;
        };
        self.eviction.nr_deactivated_pages += report.nr_named_pages;
        let noted = Report::Cold {
            nr_pages: report.nr_named_pages,
            nr_refused: report.refused.len() as u64,
        };
        self.recorder.note_report(|| noted);
        let mut warnings = Vec::new();
        for (pid, error) in report.refused {
            of.refused.insert(pid);
            warnings.push(format!(
                "the kernel can't be told which pages of process {pid} are cold ({error}), so it chooses among them \
                 by itself; run as root"
            ));
        }
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }
}
