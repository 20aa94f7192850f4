//! `auto` near the budget: who reclaims, with how much of a processor, and on which.
//!
//! **Owns** asking those who know: who has the processors (`crowd`), how many this group's programs want
//! (`demand`) and how much of the time they run (`running`). **Does not own** what follows (`governor`, the
//! throttle, `apart`).

use super::super::apart::Apart;
use super::super::crowd::{Crowd, Room};
use super::super::demand::{Demand, Threads};
use super::super::places::SpaceNo;
use super::super::running::Running;
use super::super::trace::{Counters, ProgramCpu, Recorder, Share, StatReader};
use super::{Gauge, Managed};
use crate::actuator::{Pageout, ShrinkThread};
use crate::control::ActuatorChoice;
use crate::process::Processors;
use std::collections::BTreeMap;
use strata_lru::TimeMs;

/// Where fewer pages come back in a second the kernel need not be told which are warm.
pub(super) const TOLD_PAGES_PER_S_MIN: f64 = 100.0;
/// Where nobody else reclaims.
pub(super) const ALL_PERCENT: u32 = 100;

/// What is known of who has the processors.
#[derive(Debug)]
pub(super) struct Sharing {
    crowd: Crowd,
    demand: Demand,
    running: Running,
    apart: Apart,
    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    is_line_held: bool,
    /// When the programs were last found to fill all processors, while they do.
    left_at: Option<TimeMs>,
}

impl Sharing {
    /// Nothing seen yet.
    pub(super) fn new() -> Sharing {
        let nr_processors = std::thread::available_parallelism().map_or(1, usize::from);
        Sharing {
            crowd: Crowd::new(nr_processors),
            demand: Demand::default(),
            running: Running::default(),
            apart: Apart::new(),
            is_line_held: false,
            left_at: None,
        }
    }

    /// Pages that come back in a second, on average.
    pub(super) fn refaulted_pages_per_s(&self) -> f64 {
        self.running.refaulted_pages_per_s()
    }

    /// The same, unless nobody has looked for a while.
    pub(super) fn refaulted_pages_per_s_at(&self, now: TimeMs) -> f64 {
        self.running.refaulted_pages_per_s_at(now)
    }
}

impl Managed {
    /// Looks who runs, and gives pageout its share.
    pub(super) fn share_processors(&mut self, now: TimeMs, gauge: &Gauge, usage_bytes: u64) {
        if self.actuator != ActuatorChoice::Auto || usage_bytes <= self.governor.marks().low {
            // Of what comes back nobody is told meanwhile.
            if !self.sharing.running.is_fresh(now) {
                self.governor.set_beyond_pageout(false);
            }
            self.forget_room();
            return;
        }
        let is_new = self.look_at_threads(now);
        let room = self.look_for_room(now);
        if is_new {
            self.keep_apart(room);
        }
        self.governor.set_room(room);
        self.note_left(now);
        // What comes back is told by the same file that brings the kernel's counts up to date.
        if room != Room::Filled && self.sharing.running.is_due(now) {
            let spaces = self.tracker.spaces().iter();
            let cpu_ns = spaces.filter_map(|(no, space)| Some((*no, space.process.cpu_ns().ok()?)));
            let cpu_ns: BTreeMap<SpaceNo, u64> = cpu_ns.collect();
            let nr_refaulted_pages = nr_refaulted_pages(gauge, &self.recorder);
            self.recorder.note(|tick| {
                let cpu = cpu_ns.iter().map(|(number, cpu_ns)| ProgramCpu {
                    program: number.0,
                    cpu_ns: *cpu_ns,
                });
                tick.sample.cpu = Some(cpu.collect());
            });
            self.sharing.running.sample(now, cpu_ns, nr_refaulted_pages);
            let is_beyond = self.sharing.running.is_beyond_pageout();
            self.governor
                .set_beyond_pageout(is_beyond || self.is_kernel_to_choose(now));
        }
        let pageout_percent_max = match room == Room::Crowded || self.shrink.is_none() {
            true => ALL_PERCENT,
            false => self.sharing.running.pageout_percent_max(),
        };
        if let Some(pageout) = &self.pageout {
            pageout.set_cpu_percent_max(pageout_percent_max);
        }
        let wanted = self.sharing.demand.wanted();
        let share = Share {
            room: room.into(),
            wanted_processors: wanted.all,
            wanted_most_processors: wanted.most,
            wanted_threads: wanted.nr_threads,
            refaulted_pages_per_s: self.sharing.running.refaulted_pages_per_s(),
            pageout_percent_max,
        };
        self.recorder.note(|tick| tick.plan.share = Some(share));
    }

    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    pub(in super::super) fn set_line_held(&mut self, is_line_held: bool) {
        self.sharing.is_line_held = is_line_held;
    }

    /// Whether the programs reclaim in their own faults.
    pub(in super::super) fn is_left_to_programs(&self) -> bool {
        self.governor.is_left_to_programs()
    }

    /// Whether it was time to.
    fn look_at_threads(&mut self, now: TimeMs) -> bool {
        let is_due = self.sharing.demand.is_due(now);
        if is_due {
            let spaces = self.tracker.spaces().iter();
            let programs = spaces.filter_map(|(no, space)| {
                let threads = Threads {
                    wanted_ns: space.process.wanted_ns().ok()?,
                    processors: space.process.processors().unwrap_or_default(),
                };
                Some((*no, threads))
            });
            self.sharing
                .demand
                .sample(now, programs.collect(), &self.recorder);
        }
        is_due
    }

    /// The threads that reclaim leave the processors to the programs' busy ones, unless pageout works in a crowd on all.
    fn keep_apart(&mut self, room: Room) {
        if room != Room::Free {
            self.widen();
            return;
        }
        let busy = self.sharing.demand.busy().iter();
        let taken: Processors = busy
            .filter_map(|(space, tid)| {
                self.tracker
                    .spaces()
                    .get(space)?
                    .process
                    .processor_of(*tid)
                    .ok()
            })
            .collect();
        let ours = [
            self.pageout.as_ref().and_then(Pageout::tid),
            self.shrink.as_ref().and_then(ShrinkThread::tid),
        ];
        let before = self.sharing.apart.current();
        self.sharing.apart.keep(taken, ours.into_iter().flatten());
        self.recorder
            .note(|tick| tick.sample.busy_processors = Some(taken.numbers().unwrap_or_default()));
        self.note_where(before);
    }

    fn widen(&mut self) {
        let before = self.sharing.apart.current();
        self.sharing.apart.widen();
        self.note_where(before);
    }

    fn note_where(&self, before: Processors) {
        let now = self.sharing.apart.current();
        if now != before {
            self.recorder
                .note(|tick| tick.plan.reclaim_on = Some(now.numbers().unwrap_or_default()));
        }
    }

    fn look_for_room(&mut self, now: TimeMs) -> Room {
        let is_shrinking = self.shrink.as_ref().is_some_and(ShrinkThread::is_busy);
        let is_at_pageout = self
            .pageout
            .as_ref()
            .is_some_and(|of| of.nr_in_flight() > 0);
        let others = [
            is_shrinking,
            is_at_pageout,
            self.is_touching(),
            self.is_recalling(),
            self.is_naming(),
        ];
        let nr_own = 1 + others.map(u32::from).iter().sum::<u32>();
        let wanted = self.sharing.demand.wanted();
        let room = self.sharing.crowd.look(now, nr_own, wanted, &self.recorder);
        match room {
            Room::Filled if !self.may_leave() => Room::Free,
            Room::Crowded if self.is_kernel_to_choose(now) => Room::Free,
            room => room,
        }
    }

    /// Whether the kernel, told which pages are warm, is to choose all that goes. While hardly anything comes back it
    /// is pageout, which goes down to the low mark, where the kernel may stop above it; and while the kernel finds nothing.
    fn is_kernel_to_choose(&self, now: TimeMs) -> bool {
        let is_coming_back = self.sharing.running.refaulted_pages_per_s() >= TOLD_PAGES_PER_S_MIN;
        is_coming_back && self.is_kernel_told() && !self.shrink_backoff.holds(now)
    }

    /// Nobody looks for a while.
    pub(super) fn forget_room(&mut self) {
        self.sharing.left_at = None;
        self.widen();
        self.governor.set_room(Room::Free);
    }

    /// Whether usage is held while the programs reclaim for themselves: without a line nothing would make them,
    /// and of `min_ttl` the kernel knows nothing.
    fn may_leave(&self) -> bool {
        self.sharing.is_line_held && self.min_ttl_ms == 0 && !self.is_dry_run
    }

    /// Counts the time, and forgets what will be stale when it is over.
    fn note_left(&mut self, now: TimeMs) {
        let since = self.sharing.left_at.take();
        if !self.governor.is_left_to_programs() {
            return;
        }
        // Walks look at programs that did not run, too, as after reclaim that we asked for.
        self.kernel_took_pages = true;
        match since {
            Some(then) => self.eviction.left_to_programs_ms += now.since(then),
            None => self.forget_warm(),
        }
        self.sharing.left_at = Some(now);
    }
}

/// Pages of the group that came back so far; 0 where that is not told.
fn nr_refaulted_pages(gauge: &Gauge, recorder: &Recorder) -> u64 {
    let stats = gauge.group().map(|group| group.stats().ok());
    if let Some(stats) = stats {
        let counters = stats.map_or(Counters::Failed, Counters::Fresh);
        recorder.note_counters(StatReader::Refaults, counters);
    }
    let stats = stats.flatten();
    let kinds = stats.map(|stats| [stats.nr_refault_anon_pages, stats.nr_refault_file_pages]);
    kinds.into_iter().flatten().flatten().sum()
}
