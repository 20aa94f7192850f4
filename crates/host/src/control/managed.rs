//! A managed group: one tick reads usage, walks if that is due, evicts if that is needed.
//!
//! **Owns** the order of a tick and the counters of what was done. **Does not own** sleeping, signals
//! or the program (`run`), nor limits and swap (`arena`).
//!
//! **Invariants**
//! - I1: a tick never waits for an actuator: pageout and shrink run on threads of their own.
//! - I2: no pressure and nobody looking means no walk.
//! - I3: walks take at most one tenth of one CPU.

mod cold;
mod deactivate;
mod figures;
mod obstacles;
mod orders;
mod reads;
mod recall;
#[cfg(test)]
mod replay;
mod rest;
mod share;
mod warm;

use cold::ColdFirst;
use deactivate::Deactivating;
use figures::Seen;
pub(super) use orders::OrderError;
use orders::Orders;
use recall::Recalling;
use share::Sharing;
use warm::Warm;

use super::ActuatorChoice;
use super::gauge::Gauge;
use super::governor::{Governor, Plan};
use super::members::Members;
use super::places::SpaceNo;
use super::report::{EvictionReport, WalkReport};
use super::running;
use super::trace::{Answer, ChosenBy, Recorder, Report, WalkAsk, WalkEnd};
use super::tracker::Tracker;
use super::walk::{Thoroughness, Walker};
use crate::access::{ClearIntent, ListsSource, SourceInfo};
use crate::actuator::{Activate, Deactivate, Pageout, PageoutRequest, Recall, ShrinkThread};
use crate::addr::PAGE_BYTES;
use crate::remote::ClientId as Ticket;
use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use strata_control::Backoff;
use strata_control::stall::{Sample, Stall};
use strata_lru::{HEAT_WALK_MS, Isolated, PolicyError, Swappiness, TimeMs};

/// What a page costs that pageout takes, walks, pages that were not to be had and flushes included: 30
/// to 35 by `strata_cpu_ms` over `nr_applied_pages` of `strata run --actuator pageout --memory 180M
/// --swap zram:512M -- zipf --size 300M --seconds 10` (`tests/programs`; Linux 6.18, 2-core VM).
const PAGEOUT_PAGE_US: u64 = 35;
/// Pages a second that pageout takes with its share from a program that runs all the time: what a plan takes for
/// chosen by heat.
pub const AUTO_PAGEOUT_PAGES_PER_S: u64 =
    1_000_000 * running::PERCENT_MIN as u64 / 100 / PAGEOUT_PAGE_US;
/// Walks pause for this many times what the last one took of a processor.
const WALK_PAUSE_FACTOR: u64 = 10;
/// Under pressure, but never more often than this.
const WALK_PAUSE_MS_MIN: u64 = 20;
/// Where the kernel chooses, clearing bits takes them from it: walk rarely.
const WALK_PAUSE_WATCH_MS: u64 = 10_000;
/// Near the budget, and while usage moves, a walk a second.
const WALK_PAUSE_APPROACH_MS: u64 = 1000;
/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;
/// The kernel's default scan priority.
const RELAXED_PRIORITY: u8 = 12;
/// The kernel forces swappiness to 0 below so many free swap pages; so do we.
const SWAP_BYTES_MIN: u64 = 64 * 4096;
/// Free swap is read again after so long.
const SWAP_CHECK_MS: u64 = 100;
/// After the kernel found nothing to reclaim it is asked again after this, ...
const SHRINK_PAUSE_MS_MIN: u64 = 10;
/// ... then after twice as long each time, up to this.
const SHRINK_PAUSE_MS_MAX: u64 = 160;
/// Where usage is the sum over the members, they are looked for again after so long.
pub(super) const MEMBERS_PAUSE_MS: u64 = 100;
/// Near the budget, while walks pause.
const MEMBERS_PAUSE_NEAR_MS: u64 = 1000;

/// How eviction stands after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing to report.
    Fine,
    /// Above the low mark and nothing evictable is left.
    NothingEvictable,
    /// Only pages younger than `min_ttl` are left.
    Thrashing,
}

/// What a tick came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    /// Look again after this, unless woken.
    pub wait_ms: u64,
    /// How eviction stands.
    pub standing: Standing,
    /// Everything is tried and next to nothing goes.
    pub is_stalled: bool,
}

/// Everything that works on one group.
#[derive(Debug)]
pub(super) struct Managed {
    tracker: Tracker,
    members: Members,
    walker: Walker,
    governor: Governor,
    sharing: Sharing,
    stall: Stall,
    /// Requests and attempts at finding pages that were answered.
    nr_attempts: u64,
    pageout: Option<Pageout>,
    shrink: Option<ShrinkThread>,
    shrink_backoff: Backoff,
    waiting: VecDeque<PageoutRequest>,
    actuator: ActuatorChoice,
    swappiness: Swappiness,
    min_ttl_ms: u64,
    effective_swappiness: Swappiness,
    swap_checked: Option<TimeMs>,
    last_walk: Option<TimeMs>,
    /// When a generation was last born.
    aged: Option<TimeMs>,
    members_refreshed: Option<TimeMs>,
    usage_at_walk: u64,
    /// Whether what the last walk found warm has still to be touched.
    is_touching_due: bool,
    seen: Option<Seen>,
    kernel_took_pages: bool,
    is_dry_run: bool,
    eviction: EvictionReport,
    /// Spaces whose pages pageout can't take.
    out_of_reach: BTreeSet<SpaceNo>,
    /// `None` where the generations decide alone.
    cold: Option<ColdFirst>,
    /// `None` where the kernel can't be told which pages are warm.
    warm: Option<Warm>,
    /// `None` where the kernel's lists can't be looked at, or it can't be told what is cold.
    deactivating: Option<Deactivating>,
    /// `None` where nothing is read in ahead.
    recalling: Option<Recalling>,
    orders: Orders<Ticket>,
    warnings: Vec<String>,
    news: Vec<String>,
    recorder: Recorder,
}

/// What [`Managed`] is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub tracker: Tracker,
    pub members: Members,
    pub walker: Walker,
    pub governor: Governor,
    /// `None` in a dry run and where only the kernel reclaims.
    pub pageout: Option<Pageout>,
    /// `None` where the kernel can't be asked.
    pub shrink: Option<ShrinkThread>,
    pub actuator: ActuatorChoice,
    pub swappiness: Swappiness,
    pub min_ttl_ms: u64,
    pub is_dry_run: bool,
    /// Whether the coldest go first, before the generations are asked.
    pub has_heat: bool,
    /// `None` where touching would not help.
    pub activate: Option<Activate>,
    /// `None` where the kernel's lists can't be looked at, or naming cold pages would not help.
    pub deactivate: Option<(ListsSource, Deactivate)>,
    /// `None` where nothing is to be read in ahead.
    pub recall: Option<Recall>,
    pub recorder: Recorder,
}

impl Managed {
    /// Nothing done yet.
    pub(super) fn new(mut parts: Parts) -> Managed {
        parts.walker.record_in(parts.recorder.clone());
        Managed {
            tracker: parts.tracker,
            members: parts.members,
            walker: parts.walker,
            stall: Stall::default(),
            nr_attempts: 0,
            governor: parts.governor,
            sharing: Sharing::new(),
            recorder: parts.recorder,
            pageout: parts.pageout,
            shrink: parts.shrink,
            shrink_backoff: Backoff::new(SHRINK_PAUSE_MS_MIN, SHRINK_PAUSE_MS_MAX),
            waiting: VecDeque::new(),
            actuator: parts.actuator,
            swappiness: parts.swappiness,
            min_ttl_ms: parts.min_ttl_ms,
            effective_swappiness: parts.swappiness,
            swap_checked: None,
            last_walk: None,
            aged: None,
            members_refreshed: None,
            usage_at_walk: 0,
            is_touching_due: false,
            seen: None,
            kernel_took_pages: false,
            is_dry_run: parts.is_dry_run,
            eviction: EvictionReport::default(),
            out_of_reach: BTreeSet::new(),
            cold: parts.has_heat.then(ColdFirst::new),
            warm: parts.activate.map(Warm::new),
            deactivating: parts.deactivate.map(Deactivating::new),
            recalling: parts.recall.map(Recalling::new),
            orders: Orders::default(),
            warnings: Vec::new(),
            news: Vec::new(),
        }
    }

    /// The descriptor that turns readable when the pageout thread has an answer.
    pub(super) fn pageout_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pageout.as_ref().map(Pageout::completion_fd)
    }

    /// Reads usage, takes in answers, walks and evicts as due.
    pub(super) fn tick(&mut self, now: TimeMs, gauge: &Gauge, usage_bytes: u64) -> Tick {
        self.take_answers(now);
        self.share_processors(now, gauge, usage_bytes);
        let mut plan = self.governor.plan(now, usage_bytes);
        self.note_reclaimer(&plan);
        // Above it nothing but reclaim that helps in need would make room.
        let may_read = !self.is_dry_run && !self.governor.is_left_to_programs();
        self.allow_recall(may_read.then(|| self.governor.marks().urgent));
        self.refresh_swappiness(now);
        let is_wanted = plan.pageout_pages > 0 || plan.shrink_bytes > 0;
        let sample = Sample {
            now,
            is_wanted,
            usage_bytes,
            nr_attempts: self.nr_attempts,
            freed_bytes: self.freed_bytes(),
        };
        let is_stalled = !self.is_dry_run && self.stall.sample(sample);
        let stall_pause_ms = is_wanted.then(|| self.stall.pause_ms(now)).flatten();
        self.note_stall(sample, is_stalled, stall_pause_ms);
        if let Some(pause_ms) = stall_pause_ms {
            plan = Plan {
                wait_ms: pause_ms,
                ..Plan::default()
            };
        }
        let order_wait_ms = self.work_on_orders(now, gauge, usage_bytes);
        self.recorder
            .note(|tick| tick.plan.order_wait_ms = order_wait_ms);
        plan.wait_ms = order_wait_ms.map_or(plan.wait_ms, |wait_ms| wait_ms.min(plan.wait_ms));
        let mut standing = Standing::Fine;
        if plan.shrink_bytes > 0 {
            if self.is_all_young(now) {
                self.eviction.nr_thrashing += 1;
                standing = Standing::Thrashing;
            } else {
                self.ask_kernel(now, &plan);
            }
        }
        if plan.pageout_pages > 0 && !self.tracker.is_batch_out() {
            standing = self.evict(now, gauge, plan.pageout_pages, usage_bytes);
            if standing != Standing::Fine {
                plan.wait_ms = self.governor.back_off();
            }
        }
        // Takes in what the clearing thread has done.
        self.walker.rest();
        self.touch_when_cleared(now);
        self.walk_if_due(now, gauge, &plan, usage_bytes);
        self.send_splits();
        Tick {
            wait_ms: plan.wait_ms,
            standing,
            is_stalled,
        }
    }

    /// From now on another budget holds.
    pub(super) fn set_budget(&mut self, budget_bytes: u64) {
        self.governor.set_budget(budget_bytes);
    }

    /// Whether decisions are carried out from now on.
    pub(super) fn set_dry_run(&mut self, is_dry_run: bool) {
        self.is_dry_run = is_dry_run;
        self.forget_splits();
    }

    /// The generations and their figures in the kernel's full text.
    pub(super) fn full_text(&mut self, now: TimeMs) -> Result<String, PolicyError> {
        self.tracker.full_text(now)
    }

    fn take_answers(&mut self, now: TimeMs) {
        self.hear_of_warm();
        self.hear_of_cold();
        self.hear_of_recall();
        let mut obstacles = Vec::new();
        if let Some(pageout) = &mut self.pageout {
            while let Some(report) = pageout.poll() {
                self.nr_attempts += 1;
                self.recorder
                    .note_report(|| Report::Pageout((&report).into()));
                self.tracker.settle(&report);
                obstacles.extend(report.error.map(|error| (report.space, error)));
            }
        }
        for (space, obstacle) in obstacles {
            self.meet_obstacle(space, &obstacle);
        }
        self.submit_waiting();
        if let Some(shrink) = &mut self.shrink {
            while let Some(outcome) = shrink.poll() {
                self.kernel_took_pages = true;
                self.recorder
                    .note_report(|| Report::Reclaim((&outcome).into()));
                match outcome.result {
                    Ok(freed) => {
                        self.nr_attempts += 1;
                        self.eviction.reclaim_freed_bytes += freed;
                        self.shrink_backoff.succeeded();
                    }
                    Err(error) => {
                        // Pages did go, but as many came back, or usage is as low as the kernel may
                        // bring it: no proof that none can go.
                        let is_proof = error.kind() != ErrorKind::WouldBlock;
                        tracing::debug!("the kernel's reclaim: {error}");
                        if is_proof {
                            self.nr_attempts += 1;
                            self.shrink_backoff.failed(now);
                            self.governor.kernel_is_done();
                        }
                    }
                }
            }
        }
    }

    /// What went wrong since the last call and changes how the run goes on.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn submit_waiting(&mut self) {
        while let Some(request) = self.waiting.pop_front() {
            let Some(pageout) = self.pageout.as_mut().filter(|_| !self.is_dry_run) else {
                self.tracker.request_done();
                continue;
            };
            if let Err(request) = pageout.try_submit(request) {
                self.waiting.push_front(request);
                break;
            }
        }
    }

    fn evict(&mut self, now: TimeMs, gauge: &Gauge, nr_pages: u64, usage_bytes: u64) -> Standing {
        self.nr_attempts += 1;
        if self.evict_cold(now, gauge, nr_pages, usage_bytes) {
            return Standing::Fine;
        }
        let mut has_walked = false;
        for _ in 0..ISOLATE_TRIES {
            let swappiness = self.effective_swappiness;
            let isolated = self
                .tracker
                .isolate(nr_pages, swappiness, RELAXED_PRIORITY, now);
            let (answer, requests) = match isolated {
                Ok(isolated) => isolated,
                Err(error) => {
                    self.note_batch(ChosenBy::Generations, Some(nr_pages), Answer::Failed, &[]);
                    self.warn(format!("eviction stopped: {error}"));
                    return Standing::NothingEvictable;
                }
            };
            self.note_batch(
                ChosenBy::Generations,
                Some(nr_pages),
                answer.into(),
                &requests,
            );
            match answer {
                Isolated::Pages(_) => {
                    self.waiting.extend(requests);
                    self.submit_waiting();
                    return Standing::Fine;
                }
                Isolated::Again => {}
                // What appeared since the last walk is not known yet, so "empty" may be stale too.
                Isolated::NeedsAgeing | Isolated::Empty if !has_walked => {
                    // Also where it would clear nothing: what is new is found, and what is old was not used since
                    // something was cleared.
                    let may_walk = self.may_walk(now, WALK_PAUSE_MS_MIN)
                        || self.may_look(now, WALK_PAUSE_APPROACH_MS);
                    if !may_walk {
                        return Standing::Fine;
                    }
                    self.walk(now, gauge, usage_bytes);
                    has_walked = true;
                }
                Isolated::NeedsAgeing => return Standing::Fine,
                Isolated::Empty => return Standing::NothingEvictable,
                Isolated::Thrashing => {
                    self.eviction.nr_thrashing += 1;
                    return Standing::Thrashing;
                }
            }
        }
        Standing::Fine
    }

    fn walk_if_due(&mut self, now: TimeMs, gauge: &Gauge, plan: &Plan, usage_bytes: u64) {
        if usage_bytes < self.governor.marks().approach {
            return;
        }
        let warm_walk_ms = self.warm_walk_ms(now);
        let pause_ms = match (self.actuator, plan.pageout_pages > 0, warm_walk_ms) {
            (_, _, Some(pause_ms)) if self.is_splitting() => pause_ms.min(HEAT_WALK_MS),
            (_, _, Some(pause_ms)) => pause_ms,
            (ActuatorChoice::Reclaim, ..) => WALK_PAUSE_WATCH_MS,
            (_, false, _) if self.is_splitting() => HEAT_WALK_MS,
            _ if self.governor.is_left_to_programs() => WALK_PAUSE_WATCH_MS,
            (_, true, _) if self.cold.is_some() => HEAT_WALK_MS,
            (_, true, _) => match self.is_ageing_due() {
                true => WALK_PAUSE_MS_MIN,
                false => return,
            },
            (_, false, _) => WALK_PAUSE_APPROACH_MS,
        };
        let pause_ms = pause_ms.min(self.recall_walk_ms(now).unwrap_or(pause_ms));
        if usage_bytes == self.usage_at_walk {
            return;
        }
        if self.may_walk(now, pause_ms) {
            self.walk(now, gauge, usage_bytes);
        } else {
            // A walk of many processes may be followed by a long pause.
            self.refresh_members_if_due(now, gauge, MEMBERS_PAUSE_NEAR_MS);
        }
    }

    fn may_walk(&mut self, now: TimeMs, pause_ms: u64) -> bool {
        // Sooner it would not clear, and what was used since would not be told from what was used before.
        let rest = self.walker.rest();
        let may_come = rest.is_zero() && self.may_look(now, pause_ms);
        let ask = WalkAsk {
            pause_ms,
            rest_us: u64::try_from(rest.as_micros()).unwrap_or(u64::MAX),
            may_come,
        };
        self.recorder.note(|tick| tick.plan.walk_asks.push(ask));
        may_come
    }

    fn may_look(&self, now: TimeMs, pause_ms: u64) -> bool {
        let (cpu_ns, wall_ns) = self.walker.last_walk_ns();
        // Where a walk waits, for a processor or a lock, there is a time without any before the next.
        let own_pause_ms = (cpu_ns * WALK_PAUSE_FACTOR).max(wall_ns * 2) / 1_000_000;
        self.last_walk
            .is_none_or(|then| now.since(then) >= pause_ms.max(own_pause_ms))
    }

    /// Looks who the members are, unless that was done less than `pause_ms` ago. Where usage is the sum
    /// over them this comes first: members nobody looked for use nothing, and then nobody would look.
    pub(super) fn refresh_members_if_due(&mut self, now: TimeMs, gauge: &Gauge, pause_ms: u64) {
        let is_fresh = self
            .members_refreshed
            .is_some_and(|then| now.since(then) < pause_ms);
        if !is_fresh {
            self.refresh_members(now, gauge);
        }
    }

    fn refresh_members(&mut self, now: TimeMs, gauge: &Gauge) {
        let listed = gauge.processes();
        for refusal in self.members.refresh(listed.as_deref(), &mut self.tracker) {
            self.warn(refusal);
        }
        self.members_refreshed = Some(now);
        self.forget_obstacles();
        self.note_members();
    }

    /// Looks at the members and walks them all.
    pub(super) fn walk(&mut self, now: TimeMs, gauge: &Gauge, usage_bytes: u64) {
        self.look(gauge, now, Thoroughness::SkipIdle);
        let is_young = |then| now.since(then) < WALK_PAUSE_APPROACH_MS;
        if self.warm_walk_ms(now).is_some() && self.aged.is_some_and(is_young) {
            self.tracker.finish_look();
            self.note_walk_end(WalkEnd::Look);
        } else {
            self.age(now);
        }
        self.after_walk(now, usage_bytes);
    }

    fn age(&mut self, now: TimeMs) {
        self.aged = Some(now);
        if let Err(error) = self.tracker.finish_walk(self.effective_swappiness, now) {
            self.warn(format!("ageing failed: {error}"));
        }
    }

    fn look(&mut self, gauge: &Gauge, now: TimeMs, thoroughness: Thoroughness) {
        self.refresh_members(now, gauge);
        self.look_for_warm(now);
        self.look_for_slow_swap();
        let thoroughness = match std::mem::take(&mut self.kernel_took_pages) {
            true => Thoroughness::Everything,
            false => thoroughness,
        };
        let intent = self.clear_intent();
        let before = self.walker.sums();
        for failure in self.walker.visit(&mut self.tracker, intent, thoroughness) {
            self.warn(failure.to_string());
        }
        let is_thorough = thoroughness == Thoroughness::Everything;
        self.note_walk(before, intent, is_thorough);
    }

    /// How accessed bits are cleared: the hints of pageout touch the lists that the kernel goes by.
    fn clear_intent(&self) -> ClearIntent {
        match self.actuator {
            _ if self.governor.is_kernels_choice() => ClearIntent::Watch,
            ActuatorChoice::Pageout | ActuatorChoice::Auto if self.pageout.is_some() => {
                ClearIntent::Pageout
            }
            _ => ClearIntent::Watch,
        }
    }

    fn after_walk(&mut self, now: TimeMs, usage_bytes: u64) {
        self.rank(now, usage_bytes);
        self.is_touching_due = true;
        self.touch_when_cleared(now);
        self.recall(now);
        self.last_walk = Some(now);
        self.usage_at_walk = usage_bytes;
        self.remember(now);
    }

    /// Touches what the last walk found warm, as soon as clearing does not move pages any more.
    fn touch_when_cleared(&mut self, now: TimeMs) {
        if self.is_touching_due && !self.walker.is_clearing() {
            self.is_touching_due = false;
            self.touch_warm(now);
        }
        let is_clearing = self.walker.is_clearing();
        self.recorder
            .note(|tick| tick.sample.is_clearing = is_clearing);
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            tracing::warn!("{warning}");
            self.warnings.push(warning);
        }
    }

    /// Waits for the answers that are still out, so that the counters are final.
    pub(super) fn finish(&mut self) {
        self.forget_room();
        self.allow_recall(None);
        self.waiting.clear();
        self.stop_naming();
        self.hear_of_warm();
        self.hear_of_cold();
        self.hear_of_recall();
        if let Some(pageout) = &mut self.pageout {
            for report in pageout.stop() {
                self.recorder
                    .note_report(|| Report::Pageout((&report).into()));
                self.tracker.settle(&report);
            }
        }
        let last = self.shrink.as_mut().and_then(ShrinkThread::stop);
        let last = last.map(|outcome| Report::Reclaim((&outcome).into()));
        self.recorder.note(|tick| tick.reports.extend(last));
    }

    /// Who sees the accesses.
    pub(super) fn source_info(&mut self) -> SourceInfo {
        self.walker.source().info()
    }
}
