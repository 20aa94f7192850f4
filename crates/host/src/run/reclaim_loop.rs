//! Everything that works on one group: what has been heard of it, and what is told of it.
//!
//! ```text
//!   actuators -> hear -> sense -> control -> (plan) -> drive -> mechanism -> group, actuators
//! ```
//!
//! **Owns** hearing the actuators, putting a sample together, when huge pages are looked at, what goes on at rest, and the figures. **Does not own** a tick and orders from outside
//! (`tick`, `orders`), the decisions and the order in which a plan is carried out (`strata_control`), the pages (`group`),
//! the threads that act (`actuators`), nor sleeping, signals and the program (`session`), limits and swap (`arena`).
//!
//! **Invariants**
//! - I1: a tick never waits for an actuator: they have threads of their own.
//! - I2: below nine tenths of the budget no walk comes that nobody has ordered.

mod mechanism;
mod orders;
mod tick;

pub(super) use orders::OrderError;

use crate::pages::WalkReport;
use crate::pages::places::SpaceSlot;
use crate::pages::tracker::HugePage;
use crate::run::actuators::{Actuators, Threads};
use crate::run::gauge::Gauge;
use crate::run::group::Group;
use crate::run::overhead;
use crate::run::report::{self, EvictionReport, PageCacheReport, TierReport};
use crate::run::trace::Recorder;
use crate::sense;
use crate::sense::readings::Readings;
use orders::Orders;
use std::time::Duration;
use strata_control::cpu::{Clocks, CpuSample, Runnable};
use strata_control::limit::Standing;
use strata_control::split_huge::{self, COUNTED_WALK_MS, SplitHuge, Worth};
use strata_control::{ActuatorReport, Config, Control, Sample, Setup};
use strata_linux::actuator::{PageoutError, PageoutRequest};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::sys::own_memory;
use strata_lru::{TimeMs, WalkPlan};

/// Where usage is the sum over the members, they are looked for again after so long.
pub(super) const MEMBERS_PAUSE_MS: u64 = 100;
/// While paused.
const REST_MS: u64 = 1000;
/// The kernel's reclaim is waited for so long before Strata stops.
const RECLAIM_WAIT_MAX: Duration = Duration::from_secs(2);

/// What the session has seen before a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// When.
    pub now: TimeMs,
    /// In use, bytes.
    pub usage_bytes: u64,
    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    pub is_line_held: bool,
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

/// Splitting huge pages of which little is used.
#[derive(Debug)]
struct Splits {
    /// Evicted by whomever, as of the last walk.
    nr_gone_pages: u64,
    splitter: SplitHuge<HugePage>,
}

impl Splits {
    /// Nothing split yet.
    fn new(config: split_huge::Config) -> Splits {
        Splits {
            nr_gone_pages: 0,
            splitter: SplitHuge::new(config, Worth::UNDER_BUDGET),
        }
    }
}

/// Everything that works on one group.
#[derive(Debug)]
pub(super) struct ReclaimLoop {
    /// The root is the group; there are none below it.
    pub(super) control: Control,
    pub(super) group: Group,
    pub(super) actuators: Actuators,
    orders: Orders,
    splits: Splits,
    /// Attempts at taking pages, those of the kernel included, that were answered.
    nr_attempts: u64,
    /// What went wrong without stopping us, each once.
    pub(super) warnings: Vec<String>,
    news: Vec<String>,
    /// CPU time of the keeper as of the last second, nanoseconds.
    pub(super) keeper_cpu_ns: u64,
    recorder: Recorder,
    /// The last walk.
    walked_at: Option<TimeMs>,
    /// What the walk under way is for, where an order asked for it.
    ordered_walk: Option<WalkPlan>,
}

impl ReclaimLoop {
    /// Nothing done yet. Of `setup`, what the threads can do is filled in.
    pub(super) fn new(
        setup: Setup,
        config: Config,
        group: Group,
        threads: Threads,
        recorder: Recorder,
    ) -> ReclaimLoop {
        // What beginning needed, such as the types of the kernel, is not needed again.
        own_memory::give_back();
        let actuators = Actuators::new(threads, recorder.clone());
        let setup = Setup {
            has_pageout: actuators.threads.pageout.is_some(),
            has_kernel: actuators.threads.kernel.is_some(),
            ..setup
        };
        ReclaimLoop {
            control: Control::new(setup, &config),
            group,
            actuators,
            orders: Orders::default(),
            splits: Splits::new(config.split_huge),
            nr_attempts: 0,
            warnings: Vec::new(),
            news: Vec::new(),
            keeper_cpu_ns: 0,
            recorder,
            walked_at: None,
            ordered_walk: None,
        }
    }

    /// Whether decisions are carried out from now on.
    pub(super) fn set_dry_run(&mut self, is_dry_run: bool) {
        self.control.set_dry_run(is_dry_run);
        self.forget_splits();
    }

    /// Takes in answers and does nothing else: the run is paused.
    pub(super) fn rest(&mut self, now: TimeMs) -> Tick {
        self.hear_at_rest(now);
        self.control.rest(now);
        Tick {
            wait_ms: REST_MS,
            standing: Standing::Fine,
            is_stalled: false,
        }
    }

    /// Waits for the reclaim that is under way, so that no limit is in motion.
    pub(super) fn wait_for_kernel(&mut self, now: TimeMs) {
        if let Some(kernel) = &self.actuators.threads.kernel {
            kernel.wait(RECLAIM_WAIT_MAX);
        }
        self.hear_at_rest(now);
    }

    /// Waits for the answers that are still out, so that the counters are final.
    pub(super) fn finish(&mut self, now: TimeMs) {
        self.control.rest(now);
        self.hear_at_rest(now);
        for report in self.actuators.finish() {
            self.group.tracker.settle(&report);
        }
    }

    /// Hears what the actuators have done where no tick follows.
    fn hear_at_rest(&mut self, now: TimeMs) {
        for report in self.hear() {
            self.control.hear(now, report);
        }
    }

    /// Hears what the actuators have done: what the next sample is to say of it.
    fn hear(&mut self) -> Vec<ActuatorReport> {
        let heard = self.actuators.hear();
        self.nr_attempts += heard.nr_attempts;
        let mut obstacles = Vec::new();
        for report in heard.pageout {
            self.group.tracker.settle(&report);
            obstacles.extend(report.error.map(|error| (report.space, error)));
        }
        for (space, obstacle) in obstacles {
            self.meet_obstacle(space, &obstacle);
        }
        heard
            .warnings
            .into_iter()
            .for_each(|warning| self.warn(warning));
        heard.reports
    }

    /// Where no page of a space can be taken one by one the kernel is left to do it, if it may be asked.
    fn meet_obstacle(&mut self, space: u32, obstacle: &PageoutError) {
        let is_lasting = matches!(
            obstacle,
            PageoutError::NoSpace(_) | PageoutError::NotPermitted(_)
        );
        let mut text = format!("pageout: {obstacle}");
        if is_lasting {
            self.group.out_of_reach.insert(SpaceSlot(space));
            if self.control.set_out_of_reach(true) {
                text += "; the kernel's reclaim does the work";
            }
        }
        if !self.warnings.contains(&text) {
            self.news.push(text.clone());
        }
        self.warn(text);
    }

    /// Looks who the members are, unless that was done less than `pause_ms` ago. Where usage is the sum
    /// over them this comes first: members nobody looked for use nothing, and then nobody would look.
    pub(super) fn refresh_members_if_due(&mut self, now: TimeMs, gauge: &Gauge, pause_ms: u64) {
        let is_due = |then| now.since(then) >= pause_ms;
        if self.group.members_refreshed.is_none_or(is_due) {
            self.refresh_members(now, gauge);
        }
    }

    fn refresh_members(&mut self, now: TimeMs, gauge: &Gauge) {
        let troubles = self.group.refresh_members(now, gauge);
        self.heed_members(troubles);
    }

    /// Members were looked for: tells what was in the way.
    fn heed_members(&mut self, troubles: Vec<String>) {
        troubles.into_iter().for_each(|trouble| self.warn(trouble));
        // Pageout goes on once nobody is left whose pages it can't take.
        if !self.group.is_out_of_reach() {
            self.control.set_out_of_reach(false);
        }
    }

    /// Whether a walk is due for a policy that asks for none: it learns what is new, and what was used, from walks alone.
    fn is_lists_walk_due(&mut self, now: TimeMs) -> bool {
        let is_due = |then| now.since(then) >= COUNTED_WALK_MS;
        !self.group.tracker.has_generations() && self.walked_at.is_none_or(is_due)
    }

    /// What went wrong since the last call and changes how the run goes on.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            tracing::warn!("{warning}");
            self.warnings.push(warning);
        }
    }

    /// Counters of eviction.
    pub(super) fn eviction_report(&self) -> EvictionReport {
        let tracker = &self.group.tracker;
        let mut report = EvictionReport {
            left_to_programs_ms: self.control.left_to_programs_ms(),
            nr_split_pages: tracker.nr_split_pages,
            ..self.actuators.counters
        };
        if let Ok(stats) = tracker.stats() {
            report.nr_tried_pages = stats.nr_isolated_pages;
            report.nr_applied_pages = stats.nr_evicted_pages.iter().sum();
            report.nr_kernel_chosen_pages = stats.nr_kernel_evicted_pages.iter().sum();
            report.nr_refaulted_pages = stats.nr_refaulted_pages.iter().flatten().sum();
            report.nr_refaulted_recent_pages =
                stats.nr_refaulted_recent_pages.iter().flatten().sum();
            [
                report.nr_referenced_pages,
                report.nr_busy_pages,
                report.nr_shared_pages,
                report.nr_dirty_pages,
                report.nr_unevictable_pages,
                report.nr_gone_pages,
                report.nr_not_tried_pages,
            ] = stats.nr_rejected_pages;
            report.nr_tried_pages -= report.nr_not_tried_pages.min(report.nr_tried_pages);
        }
        report
    }

    /// What became of mapped pages, by kind and tier.
    pub(super) fn tiers_report(&self) -> Vec<TierReport> {
        report::tiers(&self.group.tracker.stats().unwrap_or_default())
    }

    /// Counters of walks.
    pub(super) fn walk_report(&self) -> WalkReport {
        let mut report = self.group.sums;
        report.last = self.group.findings();
        report
    }

    /// Reads what is due. `reports`: what became of the last plans.
    fn sense(
        &mut self,
        look: Look,
        gauge: &Gauge,
        readings: &mut Readings,
        reports: Vec<ActuatorReport>,
    ) -> Sample {
        let Look {
            now,
            usage_bytes,
            is_line_held,
        } = look;
        let due = self.control.due(now, usage_bytes);
        let cpu = due.is_sharing.then(|| CpuSample {
            threads: (due.cpu.threads).then(|| sense::cpu::threads(self.group.programs())),
            runnable: due.cpu.runnable.then(|| self.read_runnable()).flatten(),
            clocks: due.cpu.clocks.then(|| self.read_clocks(gauge, readings)),
        });
        Sample {
            now,
            usage_bytes,
            is_line_held,
            reports,
            nr_attempts: self.nr_attempts,
            freed_bytes: self.freed_bytes(),
            cpu,
            free_swap: due.free_swap.then(|| readings.free_swap()),
            cache: self.actuators.look_at_cache(),
            own_cpu_ns: overhead::cpu_ns() + self.keeper_cpu_ns,
        }
    }

    /// Threads that are runnable; `None` where that is not told.
    fn read_runnable(&self) -> Option<Runnable> {
        let nr_threads = sense::cpu::nr_runnable()?;
        // This thread is one of them.
        let nr_own_threads = 1 + self.actuators.nr_busy();
        Some(Runnable {
            nr_threads,
            nr_own_threads,
        })
    }

    /// What the programs have used of the processors, and what has come back; 0 where that is not told.
    fn read_clocks(&self, gauge: &Gauge, readings: &mut Readings) -> Clocks {
        let cpu_ns = sense::cpu::clocks(self.group.programs());
        let stats = gauge.group().and_then(|group| readings.counters(group));
        let kinds = stats.map(|stats| [stats.nr_refault_anon_pages, stats.nr_refault_file_pages]);
        Clocks {
            cpu_ns,
            nr_refaulted_pages: kinds.into_iter().flatten().flatten().sum(),
        }
    }

    /// Freed by pageout, by the kernel when asked, and by dropping page cache. What the kernel took by itself does not count.
    fn freed_bytes(&self) -> u64 {
        let stats = self.group.tracker.stats().unwrap_or_default();
        let nr_pages: u64 = stats.nr_evicted_pages.iter().sum();
        let dropped = self
            .actuators
            .page_cache
            .as_ref()
            .map_or(0, PageCacheReport::dropped_bytes);
        nr_pages * PAGE_BYTES + self.actuators.counters.reclaim_freed_bytes + dropped
    }

    /// Hands requests to the pageout thread; in a dry run they are over at once.
    fn page_out(&mut self, requests: Vec<PageoutRequest>) {
        let is_dry_run = self.control.is_dry_run();
        for _ in self.actuators.page_out(requests, is_dry_run) {
            self.group.tracker.request_done();
        }
    }

    /// Whether all pages are younger than `min_ttl`.
    fn is_all_young(&self, now: TimeMs) -> bool {
        let min_ttl_ms = self.control.min_ttl_ms();
        let Ok(views) = self.group.tracker.view(now) else {
            return false;
        };
        let has_pages = |pages: Option<u64>| pages.unwrap_or(0) > 0;
        let mut generations = views.iter().flat_map(|view| &view.generations);
        generations.all(|generation| {
            generation.age_ms < min_ttl_ms || !generation.nr_pages.into_iter().any(has_pages)
        })
    }

    /// Chooses huge pages to be split, after a walk.
    fn choose_splits(&mut self, now: TimeMs) {
        if self.actuators.threads.pageout.is_none() || self.control.is_dry_run() {
            return;
        }
        let stats = self.group.tracker.stats().unwrap_or_default();
        let by_whom = [stats.nr_evicted_pages, stats.nr_kernel_evicted_pages];
        let nr_gone_pages = by_whom.iter().flatten().sum();
        let are_pages_going = nr_gone_pages > self.splits.nr_gone_pages;
        self.splits.nr_gone_pages = nr_gone_pages;
        self.group
            .tracker
            .choose_splits(&mut self.splits.splitter, are_pages_going, now);
    }

    /// Has the huge pages split that were chosen, unless a batch is out.
    fn send_splits(&mut self) {
        let requests = self.group.tracker.send_splits();
        self.page_out(requests);
    }

    /// Nothing is to be split any more, and what was split is not looked at.
    fn forget_splits(&mut self) {
        self.group.tracker.forget_splits();
        self.splits.splitter =
            SplitHuge::new(self.control.config().split_huge, Worth::UNDER_BUDGET);
    }
}
