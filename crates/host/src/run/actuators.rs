//! The threads that act for a run, who they may not act on, and what they have done.
//!
//! ```text
//!   pageout   kernel   cache
//! ```
//!
//! **Owns** handing work over, hearing what became of it, and the counters of that. **Does not own** what is to be done
//! (`strata_control`), which pages those are (`pages`), nor how it is done (`actuator`).
//!
//! **Invariants** I1: nothing here waits for a thread but [`Actuators::finish`].

use crate::engine::census::cache::{self, CacheThread};
use crate::run::report::{EvictionReport, PageCacheReport};
use crate::run::trace::{Note, Recorder};
use crate::run::would_evict::WouldEvict;
use std::os::fd::BorrowedFd;
use strata_control::{ActuatorReport, CacheLook};
use strata_linux::actuator::{
    CpuBound, Pageout, PageoutReport, PageoutRequest, ShrinkOutcome, ShrinkThread,
};
use strata_linux::cgroup::ReclaimError;

/// The threads; `None` where a run has no use for one, or can't have it.
#[derive(Debug)]
pub(super) struct Threads {
    /// Takes pages one by one; none in a dry run and where only the kernel reclaims.
    pub pageout: Option<Pageout>,
    /// What that may take of a processor.
    pub pageout_bound: CpuBound,
    /// Asks the kernel to reclaim.
    pub kernel: Option<ShrinkThread>,
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
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Attempts at finding pages that were answered.
    pub nr_attempts: u64,
}

/// Everything that acts.
#[derive(Debug)]
pub(super) struct Actuators {
    pub(super) threads: Threads,
    /// What was done so far.
    pub(super) counters: EvictionReport,
    /// What the kernel was asked for last.
    asked_bytes: u64,
    /// What was done with page cache, where it is looked at at all.
    pub(super) page_cache: Option<PageCacheReport>,
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
            page_cache: threads.cache.as_ref().map(|_| PageCacheReport::default()),
            cache_look: CacheLook::default(),
            threads,
            counters: EvictionReport::default(),
            asked_bytes: 0,
            played: Vec::new(),
            recorder,
        }
    }

    /// Readable when the pageout thread has an answer.
    pub(super) fn pageout_fd(&self) -> Option<BorrowedFd<'_>> {
        self.threads.pageout.as_ref().map(Pageout::completion_fd)
    }

    /// How many threads are at work.
    pub(super) fn nr_busy(&self) -> u32 {
        let pageout = self.threads.pageout.as_ref();
        let kernel = self.threads.kernel.as_ref();
        let all = [
            kernel.is_some_and(ShrinkThread::is_busy),
            pageout.is_some_and(Pageout::is_busy),
            self.is_cache_busy(),
        ];
        all.map(u32::from).iter().sum()
    }

    /// Whether page cache is looked at or dropped.
    fn is_cache_busy(&self) -> bool {
        self.threads
            .cache
            .as_ref()
            .is_some_and(CacheThread::is_busy)
    }

    /// Hears what all threads have done.
    pub(super) fn hear(&mut self) -> Heard {
        let mut heard = Heard::default();
        self.hear_cache(&mut heard);
        heard.pageout.append(&mut self.played);
        while let Some(report) = self.threads.pageout.as_mut().and_then(Pageout::poll) {
            self.recorder.note(|| paged_out(&report));
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
        let asked_bytes = self.asked_bytes;
        self.recorder.note(|| Note::Reclaimed {
            asked_bytes,
            freed_bytes: outcome.result.as_ref().ok().copied(),
            wall_ns: outcome.wall_ns,
            cpu_ns: outcome.cpu_ns,
        });
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

    fn hear_cache(&mut self, heard: &mut Heard) {
        let (Some(thread), Some(report)) = (&mut self.threads.cache, &mut self.page_cache) else {
            return;
        };
        let mut failure = None;
        while let Some(outcome) = thread.poll() {
            report.take_totals(&outcome.totals, outcome.cpu_ns);
            if let Some(would_evict) = &self.threads.would_evict {
                would_evict.note_page_cache(outcome.totals.nr_played_pages);
            }
            match outcome.done {
                cache::Done::Census {
                    found: Ok(found), ..
                } => {
                    for of in found {
                        report.take_census(&of.sample);
                        self.cache_look.found = Some(of.sample);
                    }
                }
                cache::Done::Census {
                    found: Err(error), ..
                } => failure = Some(error),
                cache::Done::Look(came_in) => self.cache_look.add(came_in),
                cache::Done::Dropped {
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
                // A run asks for nothing of many groups.
                cache::Done::DroppedIdle { .. } => {}
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
        self.threads.cache.as_ref()?;
        Some(CacheLook {
            is_busy: self.is_cache_busy(),
            ..std::mem::take(&mut self.cache_look)
        })
    }

    /// Has page cache looked at or dropped.
    pub(super) fn ask_cache(&mut self, request: cache::Request) {
        if let Some(thread) = &mut self.threads.cache {
            // A file for which there is no room is offered again by the next census.
            let _is_taken = thread.try_submit(request);
        }
    }

    /// Hands requests to the pageout thread. Returns those that nobody will carry out.
    pub(super) fn page_out(
        &mut self,
        requests: Vec<PageoutRequest>,
        is_dry_run: bool,
    ) -> Vec<PageoutRequest> {
        let Some(pageout) = self.threads.pageout.as_mut().filter(|_| !is_dry_run) else {
            let Some(would_evict) = &self.threads.would_evict else {
                return requests;
            };
            let requests = requests.into_iter();
            self.played
                .extend(requests.map(|request| would_evict.take(&request)));
            return Vec::new();
        };
        let refused = |request| pageout.try_submit(request).err();
        requests.into_iter().filter_map(refused).collect()
    }

    /// Asks the kernel for so many bytes; whether it was free to be asked.
    pub(super) fn ask_kernel(&mut self, bytes: u64) -> bool {
        let kernel = self.threads.kernel.as_mut();
        let is_taken = kernel.is_some_and(|of| of.try_submit(bytes).is_ok());
        if is_taken {
            self.counters.reclaim_asked_bytes += bytes;
            self.asked_bytes = bytes;
        }
        is_taken
    }

    /// Waits for the answers that are still out; returns the last ones of pageout.
    pub(super) fn finish(&mut self) -> Vec<PageoutReport> {
        let reports = self.threads.pageout.as_mut().map(Pageout::stop);
        let mut reports: Vec<PageoutReport> = reports.into_iter().flatten().collect();
        reports.append(&mut self.played);
        for report in &reports {
            self.recorder.note(|| paged_out(report));
        }
        let last = self.threads.kernel.as_mut().map(ShrinkThread::stop);
        for outcome in last.into_iter().flatten() {
            self.hear_kernel(&outcome, &mut Heard::default());
        }
        reports
    }
}

fn paged_out(report: &PageoutReport) -> Note {
    Note::PagedOut {
        nr_tried_pages: report.nr_tried_pages,
        nr_evicted_pages: report.nr_evicted_pages,
        wall_ns: report.wall_ns,
        cpu_ns: report.cpu_ns,
    }
}
