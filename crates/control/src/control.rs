//! The loop itself: what is read when, how much is to go, by whom, when walks come, and what is done beside.
//!
//! ```text
//!   due -> (sample) -> tick -> (plan)                    how much is to go, by whom
//!   walk_pause_ms, may_look -> begin_walk, end_walk      when a walk comes
//! ```
//!
//! **Owns** what is kept between ticks, and what several judgements have in common. **Does not own** any of the
//! judgements: each has a module. Nothing is read or done here.
//!
//! **Invariants** I1: in a dry run no stall is reported, and reclaim is never left to the programs.

#[cfg(test)]
pub(crate) mod tests;
mod tick;
#[cfg(test)]
mod tick_tests;
mod walking;

use crate::backoff::Backoff;
use crate::config::Config;
use crate::cpu::Cpu;
use crate::cpu::allowance::Allowance;
use crate::plan::Reclaimer;
use crate::pressure::Pressure;
use crate::reclaimer::{Event, Turns};
use crate::sample::{Actuator, ActuatorReport, CpuState};
use crate::stall::Stall;
use crate::strategy::admit_cache::AdmitCache;
use crate::strategy::drop_cache::DropCache;
use crate::walks::Walks;
use crate::watermarks::Watermarks;
use strata_lru::{Swappiness, TimeMs};

/// The state that decides when a walk is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalkLook {
    /// In use, bytes.
    pub usage_bytes: u64,
    /// Whether what was split has to be seen.
    pub is_splitting: bool,
    /// Whether pageout is to take pages.
    pub is_pageout_wanted: bool,
    /// Whether the engine wants a new generation.
    pub is_ageing_due: bool,
}

/// What was asked for, and what a run has to do it with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The promise, bytes.
    pub budget_bytes: u64,
    /// Who may take the pages.
    pub actuator: Actuator,
    /// How anon pages are weighed against file pages while anon pages have somewhere to go.
    pub swappiness: Swappiness,
    /// A working set younger than this is not taken; milliseconds, 0 is off.
    pub min_ttl_ms: u64,
    /// Decisions are not carried out.
    pub is_dry_run: bool,
    /// Whether exact choice of pages was asked for, by a policy or `min_ttl`; else `auto` leaves the choice to the kernel.
    pub is_exact: bool,
    /// Whether pages can be taken one by one.
    pub has_pageout: bool,
    /// Whether the kernel can be asked to reclaim.
    pub has_kernel: bool,
    /// What Strata may take, percent of one processor; `None`: as much as it needs.
    pub cpu_percent_max: Option<u32>,
    /// Processors of the machine.
    pub nr_processors: usize,
}

/// The state between ticks.
#[derive(Debug)]
pub struct Control {
    config: Config,
    setup: Setup,
    is_dry_run: bool,
    /// Page cache was asked to go in the dry run.
    has_played: bool,
    /// Who may do the work now.
    actuator: Actuator,
    marks: Watermarks,
    pressure: Pressure,
    turns: Turns,
    cpu: Cpu,
    allowance: Allowance,
    /// Whether a processor is free for Strata; `Free`, too, where the programs can't be left to reclaim for themselves.
    cpu_state: CpuState,
    stall: Stall,
    kernel_pause: Backoff,
    swappiness: Swappiness,
    swap_checked: Option<TimeMs>,
    walks: Walks,
    admit_cache: AdmitCache,
    drop_cache: DropCache,
    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    is_line_held: bool,
    /// When reclaim was last found to be left to the programs, while it is.
    left_at: Option<TimeMs>,
    left_to_programs_ms: u64,
}

impl Control {
    /// Nothing seen yet.
    pub fn new(setup: Setup, config: &Config) -> Control {
        // With nobody to ask the kernel through, urgency must not take the work from pageout.
        let actuator = match (setup.actuator, setup.has_kernel) {
            (Actuator::Auto, false) => Actuator::Pageout,
            (actuator, _) => actuator,
        };
        Control {
            config: *config,
            actuator,
            is_dry_run: setup.is_dry_run,
            has_played: false,
            marks: Watermarks::new(setup.budget_bytes, &config.watermarks),
            pressure: Pressure::new(config.pressure, config.limit.counts_ms),
            turns: Turns::new(config.reclaimer),
            cpu: Cpu::new(setup.nr_processors, &config.cpu),
            allowance: Allowance::new(setup.cpu_percent_max, config.cpu.allowance),
            cpu_state: CpuState::default(),
            stall: Stall::new(config.stall),
            kernel_pause: Backoff::new(config.control.kernel_pause_ms),
            swappiness: setup.swappiness,
            swap_checked: None,
            walks: Walks::new(config.walks),
            admit_cache: AdmitCache::new(config.admit_cache),
            drop_cache: DropCache::new(config.drop_cache),
            is_line_held: false,
            left_at: None,
            left_to_programs_ms: 0,
            setup,
        }
    }

    /// From now on another budget holds.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.marks = Watermarks::new(budget_bytes, &self.config.watermarks);
        self.pressure.hurry();
    }

    /// Begins (`true`) or ends (`false`) a dry run: plans are made but not carried out.
    pub fn set_dry_run(&mut self, is_dry_run: bool) {
        self.is_dry_run = is_dry_run;
    }

    /// Whether there are programs whose pages pageout can't take: the kernel does the work then, if it may be asked.
    /// Returns whether it does now.
    pub fn set_out_of_reach(&mut self, is_out_of_reach: bool) -> bool {
        if !self.setup.has_kernel {
            return false;
        }
        let is_kernels = is_out_of_reach && self.setup.actuator == Actuator::Auto;
        self.actuator = match is_kernels {
            true => Actuator::Reclaim,
            false => self.setup.actuator,
        };
        is_kernels
    }

    /// What the judgements are made by.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The marks in force.
    pub fn marks(&self) -> &Watermarks {
        &self.marks
    }

    /// The swappiness in force: the one of the setup, or 0 while swap has too little room for anon pages.
    pub fn swappiness(&self) -> Swappiness {
        self.swappiness
    }

    /// Whether decisions are not carried out.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// A working set younger than this is not taken; milliseconds, 0 is off.
    pub fn min_ttl_ms(&self) -> u64 {
        self.setup.min_ttl_ms
    }

    /// For how long reclaim was left to the programs, milliseconds.
    pub fn left_to_programs_ms(&self) -> u64 {
        self.left_to_programs_ms
    }

    /// Takes in what became of an action.
    pub fn hear(&mut self, now: TimeMs, report: ActuatorReport) {
        match report {
            ActuatorReport::KernelFreed => {
                self.walks.kernel_took_pages();
                self.kernel_pause.succeeded();
            }
            ActuatorReport::KernelOutpaced => self.walks.kernel_took_pages(),
            ActuatorReport::KernelAtFloor => self.pressure.settle(),
            ActuatorReport::KernelFoundNothing => {
                self.walks.kernel_took_pages();
                self.kernel_pause.failed(now);
                self.turns
                    .transition(now, &self.marks, Event::KernelFoundNothing);
            }
        }
    }

    /// What Strata has taken of the processors, and may take.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Whether the kernel may be asked to reclaim now.
    pub fn may_ask_kernel(&self, now: TimeMs) -> bool {
        !self.is_dry_run && !self.kernel_pause.holds(now)
    }

    /// Waits longer: nothing can be reclaimed for now. Milliseconds.
    pub fn back_off(&mut self) -> u64 {
        self.pressure.back_off()
    }

    /// Who reclaims.
    pub fn reclaimer(&self) -> Reclaimer {
        match self.actuator {
            // Nobody has asked for exact choice: the kernel chooses well, and its batches cost less.
            Actuator::Auto if !self.setup.is_exact => match self.turns.reclaimer() {
                Reclaimer::Programs => Reclaimer::Programs,
                Reclaimer::Pageout | Reclaimer::Kernel => Reclaimer::Kernel,
            },
            Actuator::Auto => self.turns.reclaimer(),
            Actuator::Pageout => Reclaimer::Pageout,
            Actuator::Reclaim => Reclaimer::Kernel,
        }
    }

    /// Whether the programs reclaim in their own faults.
    pub fn is_left_to_programs(&self) -> bool {
        self.reclaimer() == Reclaimer::Programs
    }

    /// Whether the kernel chooses what goes, all the time or as long as the programs reclaim for themselves.
    pub(crate) fn is_by_amount(&self) -> bool {
        let is_exact = match self.actuator {
            Actuator::Auto => self.setup.is_exact,
            Actuator::Pageout => true,
            Actuator::Reclaim => false,
        };
        !is_exact || self.is_left_to_programs()
    }

    /// Whether accessed bits are to be cleared so that pageout sees accesses: else so that the lists that the kernel goes by
    /// stay as they are.
    pub fn is_clearing_for_pageout(&self) -> bool {
        self.reclaimer() == Reclaimer::Pageout && self.setup.has_pageout
    }
}
