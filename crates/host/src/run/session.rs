//! `run`: start or attach, hold the budget, pass signals on, undo, report.
//!
//! **Owns** the order of a run and the loop that sleeps until something happens, and the answers to
//! those who ask meanwhile (`answers`), stopping (`stops`), a look at the limit (`limit`), and what others do to the budget (`surroundings`). **Does not own** a tick (`reclaim_loop`), the limits and swap (`arena`), or the program's memory (nobody here does).
//!
//! ```text
//!   access sources -> recover -> arena (session, swap, group, limit, keeper) -> program -> loop
//!   -> undo -> report
//! ```

mod answers;
mod begin;
mod limit;
mod stops;
mod surroundings;

pub use begin::run;

use crate::remote::RemoteServer;
use crate::run::arena::Arena;
use crate::run::charges::Charges;
use crate::run::config::{AtDetach, RunConfig};
use crate::run::departure::{self, Departure};
use crate::run::error::{RunError, io_error};
use crate::run::event::Event;
use crate::run::gauge::Gauge;
use crate::run::overhead;
use crate::run::program::Program;
use crate::run::reclaim_loop::{Look, MEMBERS_PAUSE_MS, ReclaimLoop};
use crate::run::report::{
    self, Ending, LetGoReport, LimitReport, ProgramReport, REPORT_VERSION, Report,
};
use crate::run::savings::{Savings, Swapped};
use crate::run::strays::Strays;
use crate::run::trace::{Note, Recorder, Trace};
use crate::run::usage::UsageMeter;
use crate::run::would_evict::WouldEvict;
use crate::sense::readings::Readings;
use std::time::{Duration, Instant};
use strata_control::limit::{Limit, Standing};
use strata_control::{GroupStats, Watermarks};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::hold_up::HoldUps;
use strata_linux::process::ProcessTree;
use strata_linux::process::job::Job;
use strata_linux::process::launch::WaitStatus;
use strata_linux::process::signals::{Signals, Wish};
use strata_linux::ready::is_any_readable;
use strata_lru::{GroupView, TimeMs};

/// Less than this no process can start in.
const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// Swap, zram and our own memory are read this often.
const SAVINGS_MS: u64 = 1000;

/// What is told while swapped-out memory is read back, which may take a while.
const BRINGING_BACK: &str =
    "the limits are lifted; reading back in what is in swap: one more signal ends that";

/// Whether the kernel sends this signal to a program whose memory it could not bring in.
fn is_fault(signal: i32) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS)
}

/// A run in progress.
struct Session<'a> {
    config: &'a RunConfig,
    events: &'a mut dyn FnMut(Event<'_>),
    marks: Watermarks,
    arena: Arena<'a>,
    program: Program,
    managed: Option<ReclaimLoop>,
    signals: Signals,
    job: Job,
    meter: UsageMeter,
    started: Instant,
    stats_at_start: GroupStats,
    savings: Savings,
    charges: Charges,
    strays: Strays,
    limit: Limit,
    standing: Standing,
    remote: Option<RemoteServer>,
    is_paused: bool,
    is_dry_run: bool,
    warnings: Vec<String>,
    last_savings: Option<TimeMs>,
    is_floor_told: bool,
    has_ended: bool,
    trace: Trace,
    recorder: Recorder,
}

impl Session<'_> {
    fn now(&self) -> TimeMs {
        TimeMs(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn hold(mut self) -> Result<Report, RunError> {
        self.look_for_tighter_limit();
        self.recorder.note(|| Note::Marks(self.marks));
        let mut wait_ms = 0;
        loop {
            self.sleep(wait_ms)?;
            for wish in self.signals.take(self.arena.keeper_pid()) {
                match wish {
                    Wish::Woken => self.warn(stops::WOKEN.to_owned()),
                    Wish::PassOn(signal) => self.program.signal(signal),
                    Wish::End(_) => return Ok(self.finish(Ending::Detached)),
                    Wish::Suspend => self.asked_to_stop(),
                    Wish::Child => {}
                }
            }
            while let Some(status) = self.program.poll() {
                match status {
                    WaitStatus::Exited(code) => return Ok(self.finish(Ending::Exited { code })),
                    WaitStatus::Signaled { signal, .. } => {
                        let is_oom_kill = signal == 9 && self.arena.nr_oom_kills() > 0;
                        if is_fault(signal) && self.limit.may_have_caused_fault(self.now()) {
                            self.warn(format!(
                                "signal {signal} came when nothing more could be reclaimed: at the \
                                 limit of a cgroup v1 the kernel fails system calls (UFFDIO_COPY \
                                 too) with ENOMEM and may end a program so; a larger budget is \
                                 needed"
                            ));
                        }
                        return Ok(self.finish(Ending::Signaled {
                            signal,
                            is_oom_kill,
                        }));
                    }
                    WaitStatus::Stopped(_) | WaitStatus::Continued => self.note_stop(status),
                }
            }
            self.answer();
            wait_ms = self.tick();
            self.end_turn(wait_ms);
            if self.has_ended || self.program.has_exited() {
                return Ok(self.finish(Ending::Gone));
            }
        }
    }

    /// Sleeps until the time is up or something happens.
    fn sleep(&self, wait_ms: u64) -> Result<(), RunError> {
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.program.end_fd());
        fds.extend(self.arena.event_fds());
        fds.extend(
            self.managed
                .as_ref()
                .and_then(|of| of.actuators.pageout_fd()),
        );
        fds.extend(self.remote.as_ref().map(RemoteServer::fd));
        self.arena.beat(wait_ms);
        is_any_readable(&fds, Duration::from_millis(wait_ms))
            .map_err(io_error("waiting for events"))?;
        Ok(())
    }

    fn tick(&mut self) -> u64 {
        let now = self.now();
        self.recorder.turn(|turn| turn.now = now);
        if let (Gauge::Tree, Some(managed)) = (&self.arena.gauge, &mut self.managed) {
            managed.refresh_members_if_due(now, &self.arena.gauge, MEMBERS_PAUSE_MS);
        }
        if let Some(news) = self.arena.tend_keeper() {
            self.warn(news);
        }
        self.heed_keeper();
        self.arena.take_thresholds();
        let usage = match self.usage_bytes() {
            Ok(usage) => usage,
            Err(error) => {
                // The group was deleted under us: go on without a budget until the program ends.
                self.has_ended = self.program.has_ended(&self.arena.gauge);
                self.look_around(now);
                self.warn(format!("usage can't be read any more: {error}"));
                return SAVINGS_MS;
            }
        };
        self.meter.sample(now, usage);
        // A dry run takes nothing. It goes on as if what it has decided on were gone, so that it decides on as much as a
        // run would take.
        let usage = usage.saturating_sub(self.would_evict().map_or(0, WouldEvict::bytes));
        let mut readings = self.readings();
        // First, because tasks may be waiting and a walk can take a while.
        self.adjust_limit(now, usage, &mut readings);
        self.arena.expect_growth(usage);
        let mut wait_ms = SAVINGS_MS;
        let mut is_stalled = false;
        if let Some(managed) = &mut self.managed {
            let tick = match self.is_paused {
                true => managed.rest(now),
                false => {
                    let look = Look {
                        now,
                        usage_bytes: usage,
                        is_line_held: self.limit.is_line_held(),
                    };
                    managed.tick(look, &self.arena.gauge, &mut readings)
                }
            };
            wait_ms = tick.wait_ms;
            is_stalled = tick.is_stalled;
            for news in managed.take_news() {
                self.warn(news);
            }
            if std::mem::replace(&mut self.standing, tick.standing) != tick.standing {
                // What reclaim changed has to be seen.
                let mut readings = self.readings();
                self.adjust_limit(now, usage, &mut readings);
            }
        }
        let is_in_vain = is_stalled || self.standing == Standing::NothingEvictable;
        if is_in_vain && usage > self.marks.budget_bytes {
            self.tell_floor(usage);
        }
        if self
            .last_savings
            .is_none_or(|then| now.since(then) >= SAVINGS_MS)
        {
            self.last_savings = Some(now);
            self.has_ended = self.program.has_ended(&self.arena.gauge);
            let managed = self.managed.as_ref();
            let shadows = managed.map(|of| of.group.tracker.nr_shadow_pages() * PAGE_BYTES);
            let counters = self.arena.kernel_counters();
            let kernel = report::kernel(&self.stats_at_start, &counters);
            let back_bytes = kernel.nr_refaulted_pages().unwrap_or(0) * PAGE_BYTES;
            let swapped = self.swapped(counters);
            let keeper_bytes = self.arena.keeper_pid().map_or(0, overhead::rss_bytes_of);
            self.savings
                .sample(keeper_bytes, swapped, shadows, back_bytes);
            if let Some(managed) = &mut self.managed {
                managed.keeper_cpu_ns = self.arena.keeper_cpu_ns();
            }
            self.look_around(now);
        }
        wait_ms
    }

    /// Writes the turn.
    fn end_turn(&mut self, wait_ms: u64) {
        let standing = self.standing;
        self.recorder
            .turn(|turn| (turn.wait_ms, turn.standing) = (wait_ms, standing));
        if let Some(trouble) = self.trace.end_turn() {
            self.warn(trouble);
        }
    }

    /// What became of the limit behind the budget, if there is one.
    fn limit_report(&self) -> Option<LimitReport> {
        self.arena.watched_group().map(|_| LimitReport {
            backstop_bytes: self.marks.backstop_bytes,
            peak_bytes: self.limit.peak_bytes(),
            nr_raises: self.limit.nr_raises(),
        })
    }

    fn usage_bytes(&self) -> Result<u64, strata_linux::cgroup::CgroupError> {
        let tree = match (&self.arena.gauge, &self.managed) {
            (Gauge::Tree, None) => return Ok(self.program.rss_bytes()),
            (_, Some(managed)) => managed.group.observer.tree(),
            (_, None) => &ProcessTree::of_list(),
        };
        (self.arena.gauge).usage_bytes(tree, self.marks.budget_bytes)
    }

    /// What is played in a run that was started as a dry run.
    fn would_evict(&self) -> Option<&WouldEvict> {
        self.managed
            .as_ref()?
            .actuators
            .threads
            .would_evict
            .as_ref()
    }

    /// Nothing read yet; in a dry run the free swap is that of the run.
    fn readings(&self) -> Readings {
        self.would_evict().map_or_else(Readings::default, |of| {
            Readings::with_free_swap(of.free_swap())
        })
    }

    /// What the target has in swap: by the group's counters, or by the processes' own where there is no group.
    fn swapped(&self, mut counters: GroupStats) -> Swapped {
        // The other counters may be kept from half a minute ago.
        let charged_bytes = self.arena.gauge.group().and_then(|of| of.swap_bytes());
        counters.swap_bytes = charged_bytes.or(counters.swap_bytes);
        if let (Some(in_swap_bytes), Some(out_bytes)) =
            (counters.swap_bytes, counters.swapped_out_bytes())
        {
            return Swapped {
                in_swap_bytes,
                out_bytes,
            };
        }
        let tree = self
            .managed
            .as_ref()
            .map(|managed| managed.group.observer.tree());
        let bytes = tree.and_then(|tree| departure::swapped_bytes(tree.processes()));
        Swapped {
            in_swap_bytes: bytes.unwrap_or(0),
            out_bytes: bytes.unwrap_or(0),
        }
    }

    fn tell_floor(&mut self, usage_bytes: u64) {
        if std::mem::replace(&mut self.is_floor_told, true) {
            return;
        }
        let is_out_of_reach = self
            .managed
            .as_ref()
            .is_some_and(|of| of.group.is_out_of_reach());
        let why = if is_out_of_reach {
            "Strata can't take the pages of every process (see the warning before)"
        } else if self.arena.is_enough_swap(self.readings().free_swap()) {
            "the rest is locked, shared, in use or the kernel's own"
        } else {
            "there is no free swap or next to none, so only file pages can be taken (see --swap)"
        };
        self.warn(format!(
            "the budget of {} MiB is below what the program can't give up: about {} MiB are left and {why}",
            self.marks.budget_bytes >> 20,
            usage_bytes.div_ceil(1 << 20),
        ));
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            (self.events)(Event::Warning(&warning));
            self.warnings.push(warning);
        }
    }

    fn finish(mut self, ending: Ending) -> Report {
        let now = self.now();
        // First, before anything is joined or waited for.
        self.arena.put_limits_back();
        let mut views = Vec::new();
        if let Some(managed) = &mut self.managed {
            managed.finish(now);
            for warning in &managed.warnings {
                if !self.warnings.contains(warning) {
                    self.warnings.push(warning.clone());
                }
            }
            views = match ending {
                Ending::Detached => managed.group.view(now),
                _ => managed.group.view_before_the_end(now),
            };
        }
        let report = self.report(now, ending.clone(), &views);
        let keeper_cpu_ns = self.arena.keeper_cpu_ns();
        let departure = (ending == Ending::Detached && !self.config.dry_run).then(|| {
            let managed = self.managed.as_ref();
            let tree = managed.map(|managed| managed.group.observer.tree());
            Departure::from(&self.arena.gauge, tree, self.program.root())
        });
        for warning in self.arena.undo() {
            self.warn(warning);
        }
        if let Some(trouble) = self.remote.take().and_then(RemoteServer::stop) {
            self.warn(trouble);
        }
        let let_go = departure.map(|departure| {
            if self.config.at_detach == AtDetach::BringBack {
                (self.events)(Event::Note(BRINGING_BACK));
            }
            let signals = &mut self.signals;
            let mut is_told = false;
            let mut is_over = || {
                let wishes = signals.take(None);
                is_told |= wishes.iter().any(|wish| matches!(wish, Wish::End(_)));
                is_told
            };
            departure.leave(self.config.at_detach, &mut is_over)
        });
        self.recorder.turn(|turn| turn.now = now);
        let trouble = std::mem::take(&mut self.trace).finish();
        trouble.into_iter().for_each(|of| self.warn(of));
        let strata_cpu_ms = (overhead::cpu_ns() + keeper_cpu_ns) / 1_000_000;
        Report {
            hold_up: HoldUps::so_far().report(Duration::from_millis(now.0)),
            let_go: let_go.unwrap_or_default(),
            strata_cpu_ms,
            strata_cpu_percent: percent_of(strata_cpu_ms, report.usage.observed_ms),
            keeper: self.arena.keeper_report,
            warnings: self.warnings,
            ..report
        }
    }

    /// How the run stands, as its report says it. The generations are these.
    fn report(&mut self, now: TimeMs, ending: Ending, views: &[GroupView]) -> Report {
        let config = self.config;
        let has_group = self.arena.gauge.group().is_some();
        let usage = self.meter.report(now);
        let counters = self.arena.kernel_counters();
        let kernel = report::kernel(&self.stats_at_start, &counters);
        let managed = self.managed.as_ref();
        let walks = managed.map(ReclaimLoop::walk_report).unwrap_or_default();
        let seen = managed.map(ReclaimLoop::eviction_report);
        // A dry run evicts nothing, whatever the kernel does meanwhile.
        let eviction = match (config.dry_run, seen.unwrap_or_default()) {
            (true, seen) => report::told(seen),
            (false, seen) => report::counted(seen, &kernel, self.savings.gone_bytes()),
        };
        let strata_cpu_ms = (overhead::cpu_ns() + self.arena.keeper_cpu_ns()) / 1_000_000;
        Report {
            version: REPORT_VERSION,
            target: self.program.describe(&config.target),
            ending,
            elapsed_ms: now.0,
            is_dry_run: config.dry_run,
            policy: config.policy.clone(),
            actuator: config.actuator,
            method: report::method(&config.policy, config.actuator, has_group, config.is_exact),
            actuator_reason: report::actuator_reason(config.actuator, has_group, config.is_exact),
            access: managed.map(|of| of.group.observer.info()),
            program: self.program.used().map(ProgramReport::new),
            limit: self.limit_report(),
            working_set_bytes: (walks.nr_walks > 1)
                .then(|| walks.last.nr_young_pages.iter().sum::<u64>() * PAGE_BYTES),
            generations: report::generations(views),
            eviction,
            tiers: managed.map_or_else(Vec::new, ReclaimLoop::tiers_report),
            page_cache: managed.and_then(|of| of.actuators.page_cache.clone()),
            would_evict: self.would_evict().map(WouldEvict::report),
            walks: report::walks(walks, &eviction),
            hold_up: HoldUps::so_far().report(Duration::from_millis(now.0)),
            kernel,
            saved: self.savings.report(),
            let_go: LetGoReport::default(),
            tracking_bytes: managed.map_or(0, |of| of.group.tracker.memory_bytes()),
            strata_cpu_ms,
            strata_cpu_cap_percent: config.cpu_percent_max,
            strata_cpu_worst_percent: managed
                .map(|of| of.control.allowance().worst_window_percent()),
            strata_cpu_percent: percent_of(strata_cpu_ms, usage.observed_ms),
            usage,
            nr_processes: managed.map_or(0, |of| of.group.tracker.nr_seen_spaces),
            keeper: None,
            warnings: self.warnings.clone(),
        }
    }
}

fn percent_of(cpu_ms: u64, ms: u64) -> f64 {
    cpu_ms as f64 * 100.0 / ms.max(1) as f64
}
