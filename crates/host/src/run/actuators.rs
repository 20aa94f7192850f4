//! The threads that act for a run, who they may not act on, and what they have done.
//!
//! ```text
//!   pageout (batches wait their turn)   kernel   marker   deactivator   prefetcher   cache
//! ```
//!
//! **Owns** handing work over, hearing what became of it, and the counters of that. **Does not own** what is to be done
//! (`strata_control`), which pages those are (`pages`), nor how it is done (`actuator`).
//!
//! **Invariants**
//! - I1: nothing here waits for a thread but [`Actuators::finish`] and [`Actuators::wait_for_kernel`].
//! - I2: of a process that may not be touched, or may not be told about, nothing is asked again.

use crate::pages::places::SpaceNo;
use crate::run::report::{EvictionReport, PageCacheReport};
use crate::run::trace::names;
use crate::run::trace::{Recorder, Report};
use crate::run::would_evict::WouldEvict;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use strata_control::strategy::{Busy, Outcome};
use strata_control::{Abilities, ActuatorReport, CacheLook, FileNo, Lever, Reads};
use strata_linux::access::ListsSource;
use strata_linux::actuator::{
    Activate, CacheDone, CacheRequest, CacheThread, ColdPages, Deactivate, Pageout, PageoutReport,
    PageoutRequest, Recall, RecallPages, ShrinkOutcome, ShrinkThread, WarmPages,
};
use strata_linux::addr::AddrRange;
use strata_linux::cgroup::ReclaimError;
use strata_linux::rights;

/// The threads; `None` where a run has no use for one, or can't have it.
#[derive(Debug)]
pub(super) struct Threads {
    /// Takes pages one by one; none in a dry run and where only the kernel reclaims.
    pub pageout: Option<Pageout>,
    /// Asks the kernel to reclaim.
    pub kernel: Option<ShrinkThread>,
    /// Touches warm pages, and what that does.
    pub marker: Option<(Activate, Lever)>,
    /// Looks at the kernel's lists, and names cold pages.
    pub deactivator: Option<(ListsSource, Deactivate)>,
    /// Reads ahead.
    pub prefetcher: Option<Recall>,
    /// Looks at page cache, and drops it.
    pub cache: Option<CacheThread>,
    /// Plays that pages are taken, in a run that was started as a dry run.
    pub would_evict: Option<WouldEvict>,
}

/// What the threads have answered since they were last heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Batches of pageout that are back.
    pub pageout: Vec<PageoutReport>,
    /// What the loop is to know.
    pub reports: Vec<ActuatorReport>,
    /// Pages that were not read in after all, by space.
    pub not_prefetched: Vec<(u32, Vec<AddrRange>)>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Attempts at finding pages that were answered.
    pub nr_attempts: u64,
}

/// Everything that acts.
#[derive(Debug)]
pub(super) struct Actuators {
    threads: Threads,
    /// How the marking thread has pages spared, if there ever was one.
    lever: Option<Lever>,
    waiting: VecDeque<PageoutRequest>,
    /// Processes whose pages may not be marked, by number.
    unmarkable: BTreeSet<i32>,
    /// Processes of which no page may be named, by number.
    unnameable: BTreeSet<i32>,
    /// Spaces for which the kernel may not be asked to read.
    unreadable: BTreeSet<SpaceNo>,
    counters: EvictionReport,
    /// What was done with page cache, where it is looked at at all.
    page_cache: Option<PageCacheReport>,
    /// What censuses and looks have found that the loop was not told yet.
    cache_look: CacheLook,
    /// What was played since the last time the threads were heard.
    played: Vec<PageoutReport>,
    recorder: Recorder,
}

impl Actuators {
    /// Nothing done yet.
    pub(super) fn new(threads: Threads, recorder: Recorder) -> Actuators {
        Actuators {
            lever: threads.marker.as_ref().map(|(_, lever)| *lever),
            page_cache: threads.cache.as_ref().map(|_| PageCacheReport::default()),
            cache_look: CacheLook::default(),
            threads,
            waiting: VecDeque::new(),
            unmarkable: BTreeSet::new(),
            unnameable: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            counters: EvictionReport::default(),
            played: Vec::new(),
            recorder,
        }
    }

    /// What was done so far.
    pub(super) fn counters(&self) -> EvictionReport {
        self.counters
    }

    /// What was done with page cache; `None` where it is left to the kernel.
    pub(super) fn page_cache(&self) -> Option<&PageCacheReport> {
        self.page_cache.as_ref()
    }

    /// How pages are made to be spared; `None` where the kernel was told nothing.
    pub(super) fn lever(&self) -> Option<Lever> {
        self.lever
    }

    /// What would have been evicted, in a run that was started as a dry run.
    pub(super) fn would_evict(&self) -> Option<&WouldEvict> {
        self.threads.would_evict.as_ref()
    }

    /// Nothing could be taken because all of it is younger than `min_ttl`.
    pub(super) fn note_thrashing(&mut self) {
        self.counters.nr_thrashing += 1;
    }

    /// Pages that were read in ahead have been used.
    pub(super) fn note_prefetched_used(&mut self, nr_pages: u64) {
        self.counters.nr_recalled_used_pages += nr_pages;
    }

    /// Whether pages can be taken one by one.
    pub(super) fn has_pageout(&self) -> bool {
        self.threads.pageout.is_some()
    }

    /// Whether the kernel can be asked to reclaim.
    pub(super) fn has_kernel(&self) -> bool {
        self.threads.kernel.is_some()
    }

    /// What can be done beside reclaim.
    pub(super) fn abilities(&self) -> Abilities {
        Abilities {
            lever: self.threads.marker.as_ref().map(|(_, lever)| *lever),
            can_deactivate: self.threads.deactivator.is_some(),
            can_prefetch: self.threads.prefetcher.is_some(),
        }
    }

    /// Readable when the pageout thread has an answer.
    pub(super) fn pageout_fd(&self) -> Option<BorrowedFd<'_>> {
        self.threads.pageout.as_ref().map(Pageout::completion_fd)
    }

    /// Threads of strategies that are at work.
    pub(super) fn busy(&self) -> Busy {
        let threads = &self.threads;
        let deactivator = threads.deactivator.as_ref();
        Busy {
            marking: threads.marker.as_ref().is_some_and(|(of, _)| of.is_busy()),
            deactivating: deactivator.is_some_and(|(_, thread)| thread.is_busy()),
            prefetching: threads.prefetcher.as_ref().is_some_and(Recall::is_busy),
        }
    }

    /// How many threads are at work.
    pub(super) fn nr_busy(&self) -> u32 {
        let busy = self.busy();
        let pageout = self.threads.pageout.as_ref();
        let kernel = self.threads.kernel.as_ref();
        let all = [
            kernel.is_some_and(ShrinkThread::is_busy),
            pageout.is_some_and(|of| of.nr_in_flight() > 0),
            busy.marking,
            busy.prefetching,
            busy.deactivating,
            self.threads
                .cache
                .as_ref()
                .is_some_and(CacheThread::is_busy),
        ];
        all.map(u32::from).iter().sum()
    }

    /// Hears what all threads have done.
    pub(super) fn hear(&mut self) -> Heard {
        let mut heard = Heard::default();
        self.hear_marker(&mut heard);
        self.hear_deactivator(&mut heard);
        self.hear_prefetcher(&mut heard);
        self.hear_cache(&mut heard);
        heard.pageout.append(&mut self.played);
        while let Some(report) = self.threads.pageout.as_mut().and_then(Pageout::poll) {
            self.recorder
                .note_report(|| Report::Pageout(names::pageout_report(&report)));
            heard.nr_attempts += 1;
            self.counters.pageout_cpu_ns += report.cpu_ns;
            heard.pageout.push(report);
        }
        while let Some(outcome) = self.threads.kernel.as_mut().and_then(ShrinkThread::poll) {
            self.hear_kernel(&outcome, &mut heard);
        }
        heard
    }

    fn hear_kernel(&mut self, outcome: &ShrinkOutcome, heard: &mut Heard) {
        self.recorder
            .note_report(|| Report::Reclaim(names::reclaim_report(outcome)));
        self.counters.reclaim_cpu_ns += outcome.cpu_ns;
        heard.reports.push(match &outcome.result {
            Ok(freed) => {
                heard.nr_attempts += 1;
                self.counters.reclaim_freed_bytes += freed;
                ActuatorReport::KernelFreed
            }
            Err(error) => {
                tracing::debug!("the kernel's reclaim: {error}");
                match error {
                    ReclaimError::Outpaced(_) => ActuatorReport::KernelOutpaced,
                    ReclaimError::AtFloor(_) => ActuatorReport::KernelAtFloor,
                    _ => {
                        heard.nr_attempts += 1;
                        ActuatorReport::KernelFoundNothing
                    }
                }
            }
        });
    }

    fn hear_marker(&mut self, heard: &mut Heard) {
        let Some(report) = self.threads.marker.as_mut().and_then(|(of, _)| of.poll()) else {
            return;
        };
        self.counters.nr_activated_pages += report.nr_touched_pages;
        self.recorder.note_report(|| Report::Touch {
            nr_pages: report.nr_touched_pages,
            nr_refused: report.refused.len() as u64,
        });
        for (pid, error) in report.refused {
            self.unmarkable.insert(pid);
            heard.warnings.push(format!(
                "warm pages of process {pid} can't be touched ({error}), so the kernel chooses among them by \
                 itself; {}, with kernel.yama.ptrace_scope below 3",
                rights::advice("CAP_SYS_PTRACE")
            ));
        }
    }

    fn hear_deactivator(&mut self, heard: &mut Heard) {
        let deactivator = self.threads.deactivator.as_mut();
        let Some(report) = deactivator.and_then(|(_, thread)| thread.poll()) else {
            return;
        };
        self.counters.nr_deactivated_pages += report.nr_named_pages;
        self.recorder.note_report(|| Report::Cold {
            nr_pages: report.nr_named_pages,
            nr_refused: report.refused.len() as u64,
        });
        for (pid, error) in report.refused {
            self.unnameable.insert(pid);
            heard.warnings.push(format!(
                "the kernel can't be told which pages of process {pid} are cold ({error}), so it chooses among them \
                 by itself; {}",
                rights::advice("CAP_SYS_NICE")
            ));
        }
    }

    fn hear_prefetcher(&mut self, heard: &mut Heard) {
        let Some(report) = self.threads.prefetcher.as_mut().and_then(Recall::poll) else {
            return;
        };
        self.counters.nr_recalled_pages += report.nr_asked_pages;
        let ranges = report.left.iter().flat_map(|(_, ranges)| ranges);
        let nr_left_pages = ranges.map(|range| range.nr_pages()).sum();
        self.recorder.note_report(|| Report::Recall {
            nr_pages: report.nr_asked_pages,
            nr_left_pages,
            nr_refused: report.refused.len() as u64,
        });
        heard.reports.push(ActuatorReport::NotPrefetched {
            nr_pages: nr_left_pages,
        });
        heard.not_prefetched = report.left;
        for (space, pid, error) in report.refused {
            self.unreadable.insert(SpaceNo(space));
            heard.warnings.push(format!(
                "the kernel can't be asked to read pages of process {pid} in ahead ({error}), so it waits for each; \
                 {}",
                rights::advice("CAP_SYS_NICE")
            ));
        }
    }

    fn hear_cache(&mut self, heard: &mut Heard) {
        let (Some(thread), Some(report)) = (&mut self.threads.cache, &mut self.page_cache) else {
            return;
        };
        let mut failure = None;
        while let Some(outcome) = thread.poll() {
            report.take_totals(&outcome.totals);
            if let Some(would_evict) = &self.threads.would_evict {
                would_evict.note_page_cache(outcome.totals.nr_played_pages);
            }
            match outcome.of {
                CacheDone::Census(Ok(sample)) => {
                    report.take_census(&sample);
                    self.cache_look.found = Some(sample);
                }
                CacheDone::Census(Err(error)) => failure = Some(error),
                CacheDone::Look(came_in) => self.cache_look.add(came_in),
                CacheDone::Dropped {
                    which,
                    dropped,
                    came_in,
                } => {
                    heard.nr_attempts += 1;
                    report.take_dropped(which, &dropped);
                    if let Some(came_in) = came_in {
                        self.cache_look.add(came_in);
                    }
                }
            }
        }
        if let Some(error) = failure {
            self.threads.cache = None;
            if let Some(would_evict) = &self.threads.would_evict {
                would_evict.note_page_cache(0);
            }
            heard.warnings.push(format!(
                "page cache that no program has mapped is left to the kernel: {error}"
            ));
        }
    }

    /// How it stands with page cache; `None` where it is left to the kernel.
    pub(super) fn look_at_cache(&mut self) -> Option<CacheLook> {
        let thread = self.threads.cache.as_ref()?;
        Some(CacheLook {
            is_busy: thread.is_busy(),
            ..std::mem::take(&mut self.cache_look)
        })
    }

    /// Has a census of the group's page cache taken.
    pub(super) fn take_census(&mut self) {
        self.ask_cache(CacheRequest::Census);
    }

    /// Has page cache of a file dropped.
    pub(super) fn drop_cache(&mut self, file: FileNo, reads: Reads, bytes: u64) {
        self.ask_cache(CacheRequest::Drop { file, reads, bytes });
    }

    /// Has what came to page cache looked at.
    pub(super) fn look_at_newcomers(&mut self, history_bytes: u64) {
        self.ask_cache(CacheRequest::LookAtNewcomers { history_bytes });
    }

    /// Has page cache dropped that came in of late.
    pub(super) fn drop_newcomers(&mut self, bytes: u64) {
        self.ask_cache(CacheRequest::DropNewcomers { bytes });
    }

    fn ask_cache(&mut self, request: CacheRequest) {
        if let Some(thread) = &mut self.threads.cache {
            // A file for which there is no room is offered again by the next census.
            let _is_taken = thread.try_submit(request);
        }
    }

    /// Hands requests to the pageout thread as far as it takes them; the others wait. Returns those that nobody will carry
    /// out.
    pub(super) fn page_out(
        &mut self,
        requests: Vec<PageoutRequest>,
        is_dry_run: bool,
    ) -> Vec<PageoutRequest> {
        self.waiting.extend(requests);
        let Some(pageout) = self.threads.pageout.as_mut().filter(|_| !is_dry_run) else {
            let untried = self.waiting.drain(..);
            let Some(would_evict) = &self.threads.would_evict else {
                return untried.collect();
            };
            self.played
                .extend(untried.map(|request| would_evict.take(&request)));
            return Vec::new();
        };
        while let Some(request) = self.waiting.pop_front() {
            if let Err(request) = pageout.try_submit(request) {
                self.waiting.push_front(request);
                break;
            }
        }
        Vec::new()
    }

    /// Asks the kernel for so many bytes; whether it was free to be asked.
    pub(super) fn ask_kernel(&mut self, bytes: u64) -> bool {
        let kernel = self.threads.kernel.as_mut();
        let is_taken = kernel.is_some_and(|of| of.try_submit(bytes));
        if is_taken {
            self.counters.reclaim_asked_bytes += bytes;
        }
        is_taken
    }

    /// Waits for the kernel's reclaim that is under way.
    pub(super) fn wait_for_kernel(&self, most: Duration) {
        if let Some(kernel) = &self.threads.kernel {
            kernel.wait(most);
        }
    }

    /// What pageout may take of a processor from now on, percent.
    pub(super) fn set_pageout_percent_max(&self, percent: u32) {
        if let Some(pageout) = &self.threads.pageout {
            pageout.set_cpu_percent_max(percent);
        }
    }

    /// Whether warm pages of each of these processes can be marked.
    pub(super) fn can_mark_all(&self, mut pids: impl Iterator<Item = i32>) -> bool {
        let can_mark = self.threads.marker.is_some();
        can_mark && (self.unmarkable.is_empty() || !pids.any(|pid| self.unmarkable.contains(&pid)))
    }

    /// Hands warm pages over to be marked.
    pub(super) fn mark(&mut self, mut pages: Vec<WarmPages>) -> Outcome {
        let Some((marker, _)) = &mut self.threads.marker else {
            return Outcome::default();
        };
        pages.retain(|(process, _)| !self.unmarkable.contains(&process.pid()));
        Outcome {
            nr_programs: pages.len() as u64,
            nr_pages: pages.iter().map(|(_, pages)| pages.len() as u64).sum(),
            is_taken: marker.try_submit(pages),
        }
    }

    /// Hands cold pages over to be named.
    pub(super) fn deactivate(&mut self, mut pages: Vec<ColdPages>) -> Outcome {
        let Some((_, thread)) = &mut self.threads.deactivator else {
            return Outcome::default();
        };
        let nr_programs = pages.len() as u64;
        pages.retain(|(process, _)| !self.unnameable.contains(&process.pid()));
        let ranges = pages.iter().flat_map(|(_, ranges)| ranges);
        let nr_pages = ranges.map(|range| range.nr_pages()).sum();
        Outcome {
            nr_programs,
            nr_pages,
            is_taken: nr_pages > 0 && thread.try_submit(pages),
        }
    }

    /// Where the kernel's lists are looked at.
    pub(super) fn lists(&mut self) -> Option<&mut ListsSource> {
        self.threads.deactivator.as_mut().map(|(lists, _)| lists)
    }

    /// Whether pages may be named from now on.
    pub(super) fn allow_deactivation(&self, is_allowed: bool) {
        if let Some((_, thread)) = &self.threads.deactivator {
            thread.allow(is_allowed);
        }
    }

    /// Spaces for which the kernel may not be asked to read, of those that are still there.
    pub(super) fn unreadable(&mut self, is_there: impl Fn(&SpaceNo) -> bool) -> &BTreeSet<SpaceNo> {
        self.unreadable.retain(is_there);
        &self.unreadable
    }

    /// Hands pages over to be read in.
    pub(super) fn prefetch(&mut self, pages: Vec<RecallPages>) -> Outcome {
        let Some(thread) = &mut self.threads.prefetcher else {
            return Outcome::default();
        };
        let nr_pages = pages.iter().map(RecallPages::nr_wanted_pages).sum();
        Outcome {
            nr_programs: pages.len() as u64,
            nr_pages,
            is_taken: nr_pages > 0 && thread.try_submit(pages),
        }
    }

    /// From now on usage may rise so far by reading ahead, bytes; 0: nothing is read.
    pub(super) fn allow_prefetch(&self, usage_bytes_max: u64) {
        if let Some(thread) = &self.threads.prefetcher {
            self.recorder
                .note(|tick| tick.plan.recall_max_bytes = Some(usage_bytes_max));
            thread.allow(usage_bytes_max);
        }
    }

    /// Warm pages can't be told apart by the kernel's lists: none is marked any more.
    pub(super) fn stop_marking(&mut self) {
        self.threads.marker = None;
    }

    /// Waits for the answers that are still out; returns the last ones of pageout.
    pub(super) fn finish(&mut self) -> Vec<PageoutReport> {
        self.waiting.clear();
        let reports = self.threads.pageout.as_mut().map(Pageout::stop);
        let mut reports: Vec<PageoutReport> = reports.into_iter().flatten().collect();
        reports.append(&mut self.played);
        for report in &reports {
            self.recorder
                .note_report(|| Report::Pageout(names::pageout_report(report)));
        }
        let last = self.threads.kernel.as_mut().and_then(ShrinkThread::stop);
        if let Some(outcome) = last {
            self.hear_kernel(&outcome, &mut Heard::default());
        }
        reports
    }
}
