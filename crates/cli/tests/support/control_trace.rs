//! What holds of any trace of the control loop.
//!
//! **Owns** [`violations`]: what a trace says that no loop of Strata's does; `totals`: what its ticks come to. **Does not own** the format
//! (`strata_host::run::trace`), nor any trace.

mod totals;

use strata_host::run::ActuatorChoice;
use strata_host::run::trace::{
    Answer, ChosenBy, Counters, Header, LimitAction, LimitPlan, LimitSample, LineState, Marks,
    PolicyName, Processors, Recorded, Report, Request, Standing, StatReader, Tick, Who,
};

/// All that is wrong with a trace.
pub(crate) fn violations(recorded: &Recorded) -> Vec<String> {
    let mut check = Check::new(&recorded.header);
    check.header();
    let mut before: Option<&Tick> = None;
    for tick in &recorded.ticks {
        check.now_ms = tick.now_ms;
        check.tick(tick, before);
        before = Some(tick);
    }
    if let Some(end) = &recorded.end {
        check.now_ms = end.now_ms;
        check.end(end, recorded);
    }
    check.found
}

/// Requests of one actuator: how many are out, and how many may be.
#[derive(Default)]
struct Out {
    nr_requests: u64,
    nr_most: u64,
}

impl Out {
    fn at_most(nr_most: u64) -> Out {
        Out {
            nr_most,
            ..Out::default()
        }
    }

    fn ask(&mut self, is_taken: bool) -> bool {
        self.nr_requests += u64::from(is_taken);
        self.nr_requests <= self.nr_most
    }

    fn answer(&mut self) -> bool {
        let is_asked = self.nr_requests > 0;
        self.nr_requests = self.nr_requests.saturating_sub(1);
        is_asked
    }
}

struct Check<'a> {
    header: &'a Header,
    marks: Marks,
    is_dry_run: bool,
    is_paused: bool,
    now_ms: u64,
    reclaim: Out,
    pageout: Out,
    nr_folios_out: u64,
    nr_walks: u64,
    has_limit_counters: bool,
    members: Option<Vec<u32>>,
    found: Vec<String>,
}

impl<'a> Check<'a> {
    fn new(header: &'a Header) -> Check<'a> {
        Check {
            header,
            marks: header.run.marks,
            is_dry_run: header.run.is_dry_run,
            is_paused: false,
            now_ms: 0,
            reclaim: Out::at_most(1),
            pageout: Out::at_most(u64::MAX),
            nr_folios_out: 0,
            nr_walks: 0,
            has_limit_counters: false,
            members: None,
            found: Vec::new(),
        }
    }

    fn hold(&mut self, holds: bool, what: &str) {
        if !holds {
            self.found.push(format!("at {} ms: {what}", self.now_ms));
        }
    }

    /// Whether a limit of ours stands behind the budget.
    fn has_limit(&self) -> bool {
        let run = &self.header.run;
        run.measured_by != "rss" && run.policy != PolicyName::None && !run.is_dry_run
    }

    /// Whether the loop chooses who reclaims.
    fn is_auto(&self) -> bool {
        let run = &self.header.run;
        run.actuator == ActuatorChoice::Auto && run.measured_by != "rss"
    }

    fn header(&mut self) {
        self.hold(
            self.header.nr_processors > 0 && self.header.page_bytes > 0,
            "no machine",
        );
        self.are_marks_in_order();
    }

    fn are_marks_in_order(&mut self) {
        let marks = self.marks;
        let order = [
            marks.low_bytes,
            marks.high_bytes,
            marks.urgent_bytes,
            marks.line_bytes,
            marks.budget_bytes,
            marks.backstop_bytes,
        ];
        self.hold(
            order.is_sorted_by(|a, b| a < b) && marks.approach_bytes < marks.budget_bytes,
            "the marks are not in order",
        );
    }

    fn tick(&mut self, tick: &Tick, before: Option<&Tick>) {
        self.nr_walks += tick.plan.walks.len() as u64;
        self.requests(&tick.requests);
        self.time(tick, before);
        self.reports(&tick.reports);
        self.limits(tick, before);
        self.counters(tick);
        self.who(tick);
        self.pages(tick);
        self.walks(tick);
        self.asks(tick);
        self.engine(tick, before);
    }

    fn requests(&mut self, requests: &[Request]) {
        for request in requests {
            match request {
                Request::SetBudget(marks) => {
                    self.marks = *marks;
                    self.are_marks_in_order();
                }
                Request::Pause => self.is_paused = true,
                Request::Resume => self.is_paused = false,
                Request::DryRun(is_on) => self.is_dry_run = *is_on,
                Request::Evict(_) | Request::Commands | Request::Stop => {}
            }
        }
    }

    fn time(&mut self, tick: &Tick, before: Option<&Tick>) {
        self.hold(
            tick.plan.is_paused == self.is_paused,
            "paused, and nobody asked",
        );
        let Some(before) = before else { return };
        self.hold(before.now_ms <= tick.now_ms, "time runs backwards");
        let due_ms = before.now_ms + before.plan.wait_ms;
        self.hold(
            tick.is_woken || tick.now_ms >= due_ms,
            "earlier than it was to be, and nothing woke it",
        );
    }

    fn reports(&mut self, reports: &[Report]) {
        for report in reports {
            let is_asked = match report {
                Report::Reclaim(of) => {
                    self.hold(
                        of.freed_bytes.is_some() != of.failure.is_some(),
                        "reclaim neither freed nor failed",
                    );
                    self.reclaim.answer()
                }
                Report::Clear { .. } => self.nr_walks > 0,
                Report::Pageout(of) => {
                    let v = of.verdicts;
                    let gone = [v.evicted, v.referenced, v.busy, v.shared];
                    let left = [v.dirty, v.unevictable, v.gone, v.not_tried];
                    let nr_folios: u64 = gone.into_iter().chain(left).sum();
                    self.hold(
                        nr_folios == of.nr_folios,
                        "not one verdict for each folio of a batch",
                    );
                    self.hold(
                        of.nr_folios <= self.nr_folios_out,
                        "verdicts on folios that were not sent",
                    );
                    self.nr_folios_out = self.nr_folios_out.saturating_sub(of.nr_folios);
                    self.pageout.answer()
                }
            };
            self.hold(is_asked, &format!("a report nobody asked for: {report:?}"));
        }
    }

    fn limits(&mut self, tick: &Tick, before: Option<&Tick>) {
        let (read, done) = (&tick.sample.limit, &tick.plan.limit);
        self.hold(read.len() == done.len(), "looks at the limit do not match");
        if tick.sample.usage_bytes.is_none() {
            self.hold(done.is_empty(), "the limit was changed without a group");
            return;
        }
        let before = before.map_or(Standing::Fine, |before| before.plan.standing);
        let looks: Vec<Standing> = done.iter().map(|look| look.standing).collect();
        // Anew where eviction does not stand as it did.
        let expected = match tick.plan.standing == before {
            true => vec![before],
            false => vec![before, tick.plan.standing],
        };
        self.hold(
            looks == expected,
            "the limit was not looked at as it should be",
        );
        for (read, done) in read.iter().zip(done) {
            self.limit(read, done);
        }
    }

    fn limit(&mut self, read: &LimitSample, done: &LimitPlan) {
        let is_held = done.actions.last() == Some(&LimitAction::HoldLine(LineState::Held));
        if self.has_limit() {
            self.hold(
                done.is_line_held == is_held,
                "the line is held, and was not, or the other way round",
            );
        }
        let most = self.marks.budget_bytes + (self.marks.budget_bytes / 4).max(64 << 20);
        let mut limit = read.limit_bytes.iter().flatten().next_back().copied();
        for action in &done.actions {
            if let LimitAction::Raise {
                raised_bytes,
                bytes,
                ..
            } = *action
            {
                self.hold(raised_bytes <= bytes, "it gave way further than it should");
                limit = limit.map(|limit| limit + raised_bytes);
                let is_far = limit.is_some_and(|limit| limit > most) && raised_bytes > 0;
                self.hold(
                    !is_far || read.is_under_oom,
                    "it gave way beyond its bound while no task waited",
                );
            }
        }
    }

    fn counters(&mut self, tick: &Tick) {
        let budget_bytes = self.marks.budget_bytes;
        let near = self.marks.low_bytes.min(budget_bytes - budget_bytes / 8);
        let by_limit = tick.sample.memory_stat.iter();
        let by_limit: Vec<Counters> = by_limit
            .filter(|reading| reading.by == StatReader::Limit)
            .map(|reading| reading.counters)
            .collect();
        if let Some(usage_bytes) = tick.sample.usage_bytes
            && self.has_limit()
        {
            let looks = tick.sample.limit.iter();
            let is_due: Vec<bool> = looks
                .filter(|read| read.is_under_oom || usage_bytes > near)
                .map(|read| read.is_under_oom)
                .collect();
            self.hold(
                is_due.len() == by_limit.len(),
                "near the budget each look at the limit needs counters, and no other does",
            );
            let kept = by_limit.iter().zip(&is_due);
            let is_late =
                |(counters, is_due): (&Counters, &bool)| *is_due && *counters == Counters::Kept;
            self.hold(
                !kept.into_iter().any(is_late),
                "counters that were due were not read",
            );
        }
        for reading in &tick.sample.memory_stat {
            match (reading.by, reading.counters) {
                (_, Counters::Kept) => self.hold(
                    self.has_limit_counters,
                    "counters are kept that never were read",
                ),
                (StatReader::Limit, _) => self.has_limit_counters = true,
                _ => {}
            }
        }
    }

    fn who(&mut self, tick: &Tick) {
        let plan = &tick.plan;
        let (Some(who), Some(usage_bytes)) = (plan.reclaimer, tick.sample.usage_bytes) else {
            let is_due = tick.sample.usage_bytes.is_some()
                && !self.is_paused
                && self.header.run.policy != PolicyName::None;
            self.hold(!is_due, "nobody was said to reclaim");
            return;
        };
        let marks = self.marks;
        let (pageout, kernel) = (who.pageout_pages > 0, who.reclaim_bytes > 0);
        self.hold(!(pageout && kernel), "two reclaim at once");
        let is_left = who.who == Who::Programs && usage_bytes <= marks.budget_bytes;
        self.hold(
            usage_bytes <= marks.high_bytes || pageout || kernel || is_left,
            "usage is above the high mark and nobody reclaims",
        );
        let least_bytes = 2 * marks.low_bytes - marks.high_bytes;
        self.hold(
            usage_bytes > least_bytes || !pageout && !kernel,
            "reclaim below all that is said to be held",
        );
        self.hold(
            !is_left || !pageout && !kernel,
            "the programs reclaim, and somebody else as well",
        );
        self.hold(
            plan.share.is_some() == (self.is_auto() && usage_bytes > marks.low_bytes),
            "the processors are shared where that decides nothing, or are not where it does",
        );
        let is_filled = plan
            .share
            .is_some_and(|share| share.processors == Processors::Taken);
        self.hold(
            is_filled == (who.who == Who::Programs),
            "programs reclaim that do not fill the processors, or do not although they do",
        );
        if let Some(pause_ms) = plan.stall_pause_ms {
            self.hold(
                plan.is_stalled && plan.wait_ms <= pause_ms,
                "an attempt waits that has no reason to",
            );
        } else if plan.standing == Standing::Fine {
            let wait_ms = plan.order_wait_ms.unwrap_or(u64::MAX).min(who.wait_ms);
            self.hold(
                plan.wait_ms == wait_ms,
                "the wait is another than was planned",
            );
        }
    }

    fn pages(&mut self, tick: &Tick) {
        let plan = &tick.plan;
        let who = plan.reclaimer.unwrap_or_default();
        let may_act = plan.stall_pause_ms.is_none();
        let is_all_young = tick.sample.is_all_young == Some(true);
        let asked = plan.reclaim.map(|ask| ask.bytes);
        let wanted =
            (may_act && who.reclaim_bytes > 0 && !is_all_young).then_some(who.reclaim_bytes);
        self.hold(
            asked == wanted,
            "the kernel was asked for other than was planned",
        );
        if let Some(ask) = plan.reclaim {
            let is_alone = self.reclaim.ask(ask.is_taken);
            self.hold(is_alone, "the kernel was asked while it was at it");
            self.hold(!(self.is_dry_run && ask.is_taken), "a dry run reclaims");
        }
        for batch in &plan.batches {
            self.hold(
                (batch.answer == Answer::Pages) == (batch.nr_sent_folios > 0)
                    || batch.by == ChosenBy::Command,
                "a batch of nothing, or an answer without pages",
            );
            let is_planned = may_act
                && who.pageout_pages > 0
                && batch.nr_wanted_pages == Some(who.pageout_pages);
            self.hold(
                is_planned || plan.order_wait_ms.is_some(),
                "pages were chosen that neither the plan nor an order wants",
            );
            if !self.is_dry_run {
                self.pageout.nr_requests += batch.nr_requests;
                self.nr_folios_out += batch.nr_sent_folios;
            }
        }
        for split in &plan.splits {
            self.hold(
                split.nr_huge_pages >= split.nr_requests && split.nr_requests > 0,
                "nothing to split",
            );
            self.pageout.nr_requests += split.nr_requests;
        }
    }

    fn walks(&mut self, tick: &Tick) {
        let (sample, plan) = (&tick.sample, &tick.plan);
        self.hold(
            sample.walks.len() == plan.walks.len(),
            "walks that found nothing, or were not made",
        );
        let nr_asked = plan.walk_asks.iter().filter(|ask| ask.may_come).count();
        self.hold(
            nr_asked <= plan.walks.len(),
            "a walk that was due was not made",
        );
        let is_rested = plan
            .walk_asks
            .iter()
            .all(|ask| !ask.may_come || ask.rest_us == 0);
        self.hold(is_rested, "a walk came while clearing had to rest");
        if let Some(members) = &sample.members {
            self.members = Some(members.programs.clone());
        }
        for walk in &sample.walks {
            let programs: Vec<u32> = walk.programs.iter().map(|of| of.program).collect();
            self.hold(
                self.members.as_ref() == Some(&programs),
                "a walk of others than the members",
            );
            for kind in 0..2 {
                let pages = walk.programs.iter();
                let nr_pages: u64 = pages.map(|of| of.nr_resident_pages[kind]).sum();
                self.hold(
                    nr_pages == walk.found.nr_resident_pages[kind]
                        && walk.found.nr_young_pages[kind] <= nr_pages,
                    "the pages of a walk do not add up",
                );
            }
        }
        self.hold(
            sample.huge.len() == plan.chosen_splits.len(),
            "looks at huge pages do not match",
        );
    }

    fn asks(&mut self, tick: &Tick) {
        for threads in tick.sample.threads.iter().flatten() {
            self.hold(
                threads.nr_busy_threads <= threads.nr_threads,
                "more threads are busy than there are",
            );
        }
    }

    fn engine(&mut self, tick: &Tick, before: Option<&Tick>) {
        let now = tick.sample.engine;
        self.hold(
            now.is_some() == tick.plan.reclaimer.is_some(),
            "a plan without a look at the engine, or the other way round",
        );
        if let (Some(now), Some(before)) = (now, before.and_then(|before| before.sample.engine)) {
            self.hold(
                now.nr_attempts >= before.nr_attempts
                    && now.freed_bytes >= before.freed_bytes
                    && now.nr_isolated_pages >= before.nr_isolated_pages
                    && now.nr_evicted_pages >= before.nr_evicted_pages,
                "what was done is undone",
            );
        }
    }
}
