//! Pages on their way out: what was chosen, what the pageout thread works on, what went. All of it is runs of addresses.
//!
//! **Owns** requests and whose pages they hold, and what is known of each group's huge pages. **Does not own** the choice, nor the thread's work
//! (`strata_linux::actuator`).
//!
//! **Invariants**
//! - I1: every page that is told to have gone was in a request once.
//! - I2: what the thread has to do is bounded by pages, so that a thousand small processes are one turn's work, as a large
//!   one is.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use strata_control::split_huge::{Config, Facts, SplitHuge, StaysWhole, Worth};
use strata_linux::access::AccessSource;
use strata_linux::actuator::{
    CpuBound, Pageout, PageoutReport, PageoutRequest, Unit, start_pageout,
};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableNo, in_parts};
use strata_linux::process::Process;
use strata_lru::ages::{HugePage, Ledger, Run};
use strata_lru::{GroupId, Kind, SpaceNo, TimeMs, Verdict};

/// Pages of one request: 32 MiB, which compressed swap takes within a tenth of a second.
const REQUEST_PAGES_MAX: u64 = 8192;
/// Pages that the thread has at once, but for the last request: what it does within a second.
const PAGES_UNDER_WAY_MAX: u64 = 4 * REQUEST_PAGES_MAX;
/// Requests that it has at once: each takes some tenths of a millisecond, however few pages it has.
const REQUESTS_UNDER_WAY_MAX: usize = 1024;

/// A thread that has done nothing for so long and waits in the kernel is held up by the process whose pages it is at.
const STANDSTILL: Duration = Duration::from_secs(10);

/// What went of one group and kind.
#[derive(Debug)]
pub(super) struct Went {
    pub(super) group: GroupId,
    pub(super) kind: Kind,
    pub(super) runs: Vec<Run>,
    pub(super) nr_pages: u64,
    /// What can't go.
    pub(super) stayed: Vec<Run>,
    /// Pages that were to go, and that the kernel keeps for now.
    pub(super) nr_refused_pages: u64,
    /// Processor time of that.
    pub(super) cpu_ns: u64,
}

/// Whose pages a request holds.
#[derive(Debug)]
struct Sent {
    group: GroupId,
    kind: Kind,
    space: SpaceNo,
    nr_pages: u64,
}

/// Requests from their choice to their end.
#[derive(Debug)]
pub(super) struct Takes {
    pageout: Pageout,
    waiting: VecDeque<PageoutRequest>,
    /// Pages that the thread has.
    nr_pages_under_way: u64,
    /// Whose pages are in the requests that the thread has and in those that wait: it answers in the order in which it is asked.
    sent: VecDeque<Sent>,
    /// Huge pages that are split, so that parts of them can go.
    pub(super) splits: Splits,
}

impl Takes {
    /// Starts the thread, with a source of its own to read entries through.
    pub(super) fn start(source: Box<dyn AccessSource>) -> io::Result<Takes> {
        Ok(Takes {
            pageout: start_pageout(source, REQUESTS_UNDER_WAY_MAX, CpuBound::default())?,
            waiting: VecDeque::new(),
            nr_pages_under_way: 0,
            sent: VecDeque::new(),
            splits: Splits::default(),
        })
    }

    /// Whether pages are on their way out.
    pub(super) fn are_under_way(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whose pages the thread is at, where it stands still, and their group.
    pub(super) fn stuck(&mut self) -> Option<(SpaceNo, GroupId)> {
        let is_stuck = self.pageout.stands_still(STANDSTILL);
        let first = self.sent.front().filter(|_| is_stuck);
        first.map(|sent| (sent.space, sent.group))
    }

    /// These are to go.
    pub(super) fn add(
        &mut self,
        group: GroupId,
        kind: Kind,
        runs: &[Run],
        processes: &BTreeMap<SpaceNo, Arc<Process>>,
    ) {
        let mut of_space: BTreeMap<SpaceNo, Vec<AddrRange>> = BTreeMap::new();
        for run in runs {
            let range = AddrRange::of_pages(run.first_page, run.nr_pages);
            of_space.entry(run.space).or_default().push(range);
        }
        for (space, mut ranges) in of_space {
            let Some(process) = processes.get(&space) else {
                continue;
            };
            ranges.sort_unstable();
            for runs in in_parts(&ranges, REQUEST_PAGES_MAX) {
                self.request(group, kind, space, process, runs, Vec::new());
            }
        }
    }

    /// These are to be split.
    pub(super) fn split(
        &mut self,
        group: GroupId,
        huge: &[HugePage],
        processes: &BTreeMap<SpaceNo, Arc<Process>>,
    ) {
        let mut of_space: BTreeMap<SpaceNo, Vec<TableNo>> = BTreeMap::new();
        for (space, table_no) in huge {
            of_space.entry(*space).or_default().push(TableNo(*table_no));
        }
        for (space, splits) in of_space {
            if let Some(process) = processes.get(&space) {
                self.request(group, Kind::Anon, space, process, Vec::new(), splits);
            }
        }
    }

    fn request(
        &mut self,
        group: GroupId,
        kind: Kind,
        space: SpaceNo,
        process: &Arc<Process>,
        runs: Vec<AddrRange>,
        splits: Vec<TableNo>,
    ) {
        self.sent.push_back(Sent {
            group,
            kind,
            space,
            nr_pages: runs.iter().map(|range| range.nr_pages()).sum(),
        });
        self.waiting.push_back(PageoutRequest {
            space: space.0,
            process: Arc::clone(process),
            runs,
            unit: Unit::Page,
            splits,
        });
    }

    /// Hands over as much as the thread has room for.
    pub(super) fn hand_over(&mut self) {
        while self.nr_pages_under_way < PAGES_UNDER_WAY_MAX
            && let Some(request) = self.waiting.pop_front()
        {
            let nr_pages = (self.sent.get(self.pageout.nr_in_flight())).map_or(0, |of| of.nr_pages);
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
        let sent = self.sent.pop_front()?;
        self.nr_pages_under_way = self.nr_pages_under_way.saturating_sub(sent.nr_pages);
        let runs_of = |is_meant: &dyn Fn(Verdict) -> bool| -> Vec<Run> {
            let meant = report.runs.iter();
            let meant = meant.filter(|(_, verdict)| is_meant(*verdict));
            let run = |(range, _): &(AddrRange, Verdict)| Run {
                space: sent.space,
                first_page: range.start / PAGE_BYTES,
                nr_pages: range.nr_pages(),
                idle: Duration::ZERO,
            };
            meant.map(run).collect()
        };
        let runs = runs_of(&|verdict| verdict == Verdict::Evicted);
        Some(Went {
            group: sent.group,
            kind: sent.kind,
            nr_pages: nr_pages(&runs),
            runs,
            stayed: runs_of(&|verdict| stays(verdict, sent.kind)),
            nr_refused_pages: nr_pages(&runs_of(&|verdict| is_refused(verdict, sent.kind))),
            cpu_ns: report.cpu_ns,
        })
    }
}

fn nr_pages(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.nr_pages).sum()
}

/// Whether a page is not to be tried again. A file's that is still in memory after all has other mappers.
fn stays(verdict: Verdict, kind: Kind) -> bool {
    match verdict {
        Verdict::Shared | Verdict::Unevictable => true,
        Verdict::Busy => kind == Kind::File,
        _ => false,
    }
}

/// Whether a page stays for now, though nobody has used it and nothing is known against it.
fn is_refused(verdict: Verdict, kind: Kind) -> bool {
    match verdict {
        Verdict::Busy | Verdict::Dirty | Verdict::NotTried => !stays(verdict, kind),
        _ => false,
    }
}

/// A group in which huge pages are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    /// What is not used for so long is idle.
    pub(super) min_age: Duration,
    pub(super) nr_resident_pages: u64,
    /// Its promise has room, and so has swap.
    pub(super) may_give: bool,
}

/// Huge pages of which little is used, of groups that nobody is short of: split, so that the rest is seen to be idle and goes. Nothing is
/// split of a group of which nothing is to go.
#[derive(Debug, Default)]
pub(super) struct Splits {
    of_group: BTreeMap<GroupId, (Worth, SplitHuge<HugePage>)>,
}

impl Splits {
    /// Why huge pages of a group that are in use stay whole.
    pub(super) fn why_whole(&self, id: GroupId) -> Option<StaysWhole> {
        self.of_group.get(&id)?.1.why_whole()
    }

    /// To be called after each walk: what to split now, of each group.
    pub(super) fn after_walk(
        &mut self,
        at: Duration,
        ledger: &Ledger,
        groups: &BTreeMap<GroupId, Looked>,
    ) -> BTreeMap<GroupId, Vec<HugePage>> {
        self.of_group.retain(|id, _| groups.contains_key(id));
        let huge = ledger.huge_in_use(|id| groups.get(&id).map(|looked| looked.min_age));
        let now = TimeMs(at.as_millis() as u64);
        let mut chosen = BTreeMap::new();
        for (id, looked) in groups {
            let worth = Worth::of_idle(looked.min_age.as_millis() as u64);
            let huge = huge.get(id).map_or(&[][..], Vec::as_slice);
            let known = self.of_group.get(id).is_some_and(|(of, _)| *of == worth);
            if !known {
                // Most groups have none.
                self.of_group.remove(id);
                if huge.is_empty() {
                    continue;
                }
            }
            let splitter = || (worth, SplitHuge::new(Config::DEFAULT, worth));
            let (_, splitter) = self.of_group.entry(*id).or_insert_with(splitter);
            let facts = Facts {
                are_pages_going: looked.may_give,
                nr_resident_pages: looked.nr_resident_pages,
                huge,
            };
            let used = |page| ledger.nr_used_parts(page, looked.min_age);
            let now_split = splitter.after_walk(now, facts, used).unwrap_or_default();
            if !now_split.is_empty() {
                chosen.insert(*id, now_split);
            }
        }
        chosen
    }
}
