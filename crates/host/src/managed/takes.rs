//! Pages on their way out: what was chosen, what the pageout thread works on, what went.
//!
//! **Owns** requests and whose pages they hold. **Does not own** the choice, nor the thread's work
//! (`strata_linux::actuator`).
//!
//! **Invariants**
//! - I1: every page that is told to have gone was in a request once.
//! - I2: what the thread has to do is bounded by pages, so that a thousand small processes are one turn's work, as a large
//!   one is.

use crate::observe::SpaceId;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use strata_linux::access::AccessSource;
use strata_linux::actuator::{PageTarget, Pageout, PageoutConfig, PageoutReport, PageoutRequest};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::Process;
use strata_lru::ages::Run;
use strata_lru::{GroupId, Kind, SpaceNo, Verdict};

/// Pages of one request: 32 MiB, which compressed swap takes within a tenth of a second.
const REQUEST_PAGES_MAX: usize = 8192;
/// Pages that the thread has at once, but for the last request: what it does within a second.
const PAGES_UNDER_WAY_MAX: usize = 4 * REQUEST_PAGES_MAX;
/// Requests that it has at once: each takes some tenths of a millisecond, however few pages it has.
const REQUESTS_UNDER_WAY_MAX: usize = 1024;

/// What went of one group and kind.
#[derive(Debug)]
pub(super) struct Went {
    pub(super) group: GroupId,
    pub(super) kind: Kind,
    pub(super) runs: Vec<Run>,
    pub(super) nr_pages: u64,
    /// What can't go.
    pub(super) stayed: Vec<Run>,
    /// Processor time of that.
    pub(super) cpu_ns: u64,
}

/// Whose pages a request holds.
#[derive(Debug)]
struct Sent {
    group: GroupId,
    kind: Kind,
    space: SpaceNo,
    pages: Vec<u64>,
}

/// Requests from their choice to their end.
#[derive(Debug)]
pub(super) struct Takes {
    pageout: Pageout,
    waiting: VecDeque<PageoutRequest>,
    /// Pages that the thread has.
    nr_pages_under_way: usize,
    sent: BTreeMap<u32, Sent>,
    next: u32,
}

impl Takes {
    /// Starts the thread, with a source of its own to read entries through.
    pub(super) fn start(source: Box<dyn AccessSource>) -> io::Result<Takes> {
        let config = PageoutConfig {
            in_flight_max: REQUESTS_UNDER_WAY_MAX,
            ..PageoutConfig::default()
        };
        Ok(Takes {
            pageout: Pageout::start_with(source, config)?,
            waiting: VecDeque::new(),
            nr_pages_under_way: 0,
            sent: BTreeMap::new(),
            next: 0,
        })
    }

    /// Whether pages are on their way out.
    pub(super) fn are_under_way(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whose pages the thread is at, where it stands still.
    pub(super) fn stuck(&mut self) -> Option<SpaceNo> {
        let is_stuck = self.pageout.stands_still();
        let mut sent = self.sent.values();
        sent.next().filter(|_| is_stuck).map(|sent| sent.space)
    }

    /// These are to go.
    pub(super) fn add(
        &mut self,
        group: GroupId,
        kind: Kind,
        runs: &[Run],
        processes: &BTreeMap<SpaceId, Arc<Process>>,
    ) {
        let mut of_space: BTreeMap<SpaceNo, Vec<u64>> = BTreeMap::new();
        for run in runs {
            let pages = of_space.entry(run.space).or_default();
            pages.extend(run.first_page..run.first_page + run.nr_pages);
        }
        for (space, pages) in of_space {
            let Some(process) = processes.get(&SpaceId(space.0)) else {
                continue;
            };
            for pages in pages.chunks(REQUEST_PAGES_MAX) {
                let number = self.next;
                self.next = self.next.wrapping_add(1);
                let target = |(token, page): (usize, &u64)| PageTarget {
                    token: token as u32,
                    addr: page * PAGE_BYTES,
                    order: 0,
                };
                self.waiting.push_back(PageoutRequest {
                    space: number,
                    process: Arc::clone(process),
                    pages: pages.iter().enumerate().map(target).collect(),
                    splits: Vec::new(),
                });
                let pages = pages.to_vec();
                let sent = Sent {
                    group,
                    kind,
                    space,
                    pages,
                };
                self.sent.insert(number, sent);
            }
        }
    }

    /// Hands over as much as the thread has room for.
    pub(super) fn hand_over(&mut self) {
        while self.nr_pages_under_way < PAGES_UNDER_WAY_MAX
            && let Some(request) = self.waiting.pop_front()
        {
            let nr_pages = request.pages.len();
            if let Err(request) = self.pageout.try_submit(request) {
                self.waiting.push_front(request);
                return;
            }
            self.nr_pages_under_way += nr_pages;
        }
    }

    /// What went since it was asked last; the thread gets more to do.
    pub(super) fn collect(&mut self) -> Vec<Went> {
        let mut went = Vec::new();
        while let Some(report) = self.pageout.poll() {
            went.extend(self.went(&report));
        }
        self.hand_over();
        went
    }

    /// Ends the thread. What it has not come to stays.
    pub(super) fn stop(&mut self) -> Vec<Went> {
        self.waiting.clear();
        let reports = self.pageout.stop();
        reports
            .iter()
            .filter_map(|report| self.went(report))
            .collect()
    }

    fn went(&mut self, report: &PageoutReport) -> Option<Went> {
        let sent = self.sent.remove(&report.space)?;
        self.nr_pages_under_way = self.nr_pages_under_way.saturating_sub(sent.pages.len());
        let runs_of = |is_meant: &dyn Fn(Verdict) -> bool| {
            let meant = report.results.iter();
            let meant = meant.filter(|(_, verdict)| is_meant(*verdict));
            let pages = meant.filter_map(|(token, _)| sent.pages.get(*token as usize).copied());
            runs(sent.space, pages)
        };
        let went = runs_of(&|verdict| verdict == Verdict::Evicted);
        Some(Went {
            group: sent.group,
            kind: sent.kind,
            nr_pages: went.iter().map(|run| run.nr_pages).sum(),
            runs: went,
            stayed: runs_of(&|verdict| stays(verdict, sent.kind)),
            cpu_ns: report.cpu_ns,
        })
    }
}

/// Whether a page is not to be tried again. A file's that is still in memory after all has other mappers.
fn stays(verdict: Verdict, kind: Kind) -> bool {
    match verdict {
        Verdict::Shared | Verdict::Unevictable => true,
        Verdict::Busy => kind == Kind::File,
        _ => false,
    }
}

/// Neighbouring pages as one.
fn runs(space: SpaceNo, pages: impl Iterator<Item = u64>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.first_page + run.nr_pages == page => run.nr_pages += 1,
            _ => runs.push(Run {
                space,
                first_page: page,
                nr_pages: 1,
                idle: std::time::Duration::ZERO,
            }),
        }
    }
    runs
}
