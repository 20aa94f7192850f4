//! The loop itself: what is read when, how much is to go, by whom, when walks come, and what is done beside.
//!
//! ```text
//!   reports of actuators -> hear
//!   usage               -> is_sharing? -> cpu_due -> take_cpu -> take_clocks   who has the processors
//!   free swap           -> take_free_swap                                      which kinds of pages can go
//!   usage, attempts     -> decide                                              how much, by whom; is it in vain
//!   a walk is possible? -> walk_pause_ms, may_look                             then begin_walk, end_walk
//!   what a walk showed  -> tell, prefetch                                      what is done beside reclaim
//! ```
//!
//! **Owns** the order in which a tick comes to its decisions, and what they have in common. **Does not own** any of the
//! judgements: each has a module. Nothing is read or done here.
//!
//! **Invariants** I1: in a dry run nothing is in vain, nothing is left to the programs, and nothing is marked or read ahead.

mod beside;
#[cfg(test)]
mod tests;

pub use beside::WalkLook;

use crate::backoff::Backoff;
use crate::cpu::{Clocks, Cpu, CpuDue, CpuSample};
use crate::pressure::{Pressure, Work};
use crate::processors::Processors;
use crate::reclaimer::{Event, Reclaimer, Turns};
use crate::sample::{ActuatorReport, CpuState, PAGE_BYTES};
use crate::stall::{self, Stall};
use crate::steering::{Abilities, Steering};
use crate::strategy::affinity::Affinity;
use crate::walks::Walks;
use crate::watermarks::Watermarks;
use serde::{Deserialize, Serialize};
use strata_lru::{Swappiness, TimeMs};

/// A batch for the pageout thread; larger ones would make look-around stale, smaller ones would pay
/// the re-reading of tables too often.
const PAGEOUT_BATCH_PAGES: u64 = 1024;
/// The kernel's own reclaim is asked in steps of at most this, so that one step never takes long.
const RECLAIM_BYTES_MAX: u64 = 32 << 20;
/// Where fewer pages come back in a second the kernel need not be told which are warm.
const TOLD_PAGES_PER_S_MIN: f64 = 100.0;
/// What pageout may take of a processor where it reclaims alone, percent.
const ALL_PERCENT: u32 = 100;
/// The kernel takes no anon pages while fewer than 64 pages of swap are free; neither does the engine. Bytes.
const SWAP_BYTES_MIN: u64 = 64 * PAGE_BYTES;
/// Free swap is read again after so long.
const SWAP_CHECK_MS: u64 = 100;
/// After the kernel found nothing to reclaim it is asked again after this, ...
const KERNEL_PAUSE_MS_MIN: u64 = 10;
/// ... then after twice as long each time, up to this.
const KERNEL_PAUSE_MS_MAX: u64 = 160;

/// Who may take the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actuator {
    /// The kernel's batched reclaim where it is told which pages are warm; else pageout, and the kernel's reclaim
    /// while pageout can't keep up.
    #[default]
    Auto,
    /// Exactly the pages the engine chose.
    Pageout,
    /// The kernel's batched reclaim ahead of the limit; the engine only watches.
    Reclaim,
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
    /// Whether the coldest pages go first.
    pub has_heat: bool,
    /// Whether pages can be taken one by one.
    pub has_pageout: bool,
    /// Whether the kernel can be asked to reclaim.
    pub has_kernel: bool,
    /// What can be done beside reclaim.
    pub abilities: Abilities,
    /// Processors of the machine.
    pub nr_processors: usize,
    /// Processors that the threads that reclaim may run on, if that is known.
    pub processors: Option<Processors>,
}

/// What has to go now, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaim {
    /// Isolate so many pages for the pageout thread, if it is free.
    pub pageout_pages: u64,
    /// Ask the kernel for so many bytes, if it is not at it already.
    pub kernel_bytes: u64,
    /// Look again after this, unless woken.
    pub wait_ms: u64,
}

/// What came of a tick's sample of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What has to go.
    pub asked: Reclaim,
    /// Whether everything is tried and next to nothing goes.
    pub is_stalled: bool,
    /// How long the next attempt has to wait, because attempts are in vain.
    pub stall_pause_ms: Option<u64>,
}

impl Decision {
    /// What is to be done now: nothing while attempts are in vain.
    pub fn reclaim(&self) -> Reclaim {
        match self.stall_pause_ms {
            None => self.asked,
            Some(wait_ms) => Reclaim {
                wait_ms,
                ..Reclaim::default()
            },
        }
    }
}

/// Who has the processors, and what follows at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTaken {
    /// As the loop takes it.
    pub state: CpuState,
    /// Whether it is left to the programs from now on: what was foretold says nothing of then.
    pub is_newly_left: bool,
}

/// The state between ticks.
#[derive(Debug)]
pub struct Control {
    setup: Setup,
    is_dry_run: bool,
    /// Who may do the work now.
    actuator: Actuator,
    marks: Watermarks,
    pressure: Pressure,
    turns: Turns,
    cpu: Cpu,
    affinity: Affinity,
    stall: Stall,
    kernel_pause: Backoff,
    swappiness: Swappiness,
    swap_checked: Option<TimeMs>,
    walks: Walks,
    steering: Steering,
    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    is_line_held: bool,
    /// When it was last found to be left to the programs, while it is.
    left_at: Option<TimeMs>,
    left_to_programs_ms: u64,
}

impl Control {
    /// Nothing seen yet.
    pub fn new(setup: Setup) -> Control {
        // With nobody to ask the kernel through, urgency must not take the work from pageout.
        let actuator = match (setup.actuator, setup.has_kernel) {
            (Actuator::Auto, false) => Actuator::Pageout,
            (actuator, _) => actuator,
        };
        Control {
            actuator,
            is_dry_run: setup.is_dry_run,
            marks: Watermarks::new(setup.budget_bytes),
            pressure: Pressure::default(),
            turns: Turns::default(),
            cpu: Cpu::new(setup.nr_processors),
            affinity: Affinity::new(setup.processors),
            stall: Stall::default(),
            kernel_pause: Backoff::new(KERNEL_PAUSE_MS_MIN, KERNEL_PAUSE_MS_MAX),
            swappiness: setup.swappiness,
            swap_checked: None,
            walks: Walks::default(),
            steering: Steering::new(setup.abilities),
            is_line_held: false,
            left_at: None,
            left_to_programs_ms: 0,
            setup,
        }
    }

    /// From now on another budget holds.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.marks = Watermarks::new(budget_bytes);
        self.pressure.hurry();
    }

    /// Whether decisions are carried out from now on.
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

    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    pub fn set_line_held(&mut self, is_line_held: bool) {
        self.is_line_held = is_line_held;
    }

    /// The marks in force.
    pub fn marks(&self) -> &Watermarks {
        &self.marks
    }

    /// Balance of anon and file pages in force; pages of either kind.
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

    /// What the run can do beside reclaim.
    pub fn abilities(&self) -> Abilities {
        self.steering.abilities()
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
            ActuatorReport::KernelFoundNothing => {
                self.walks.kernel_took_pages();
                self.kernel_pause.failed(now);
                self.turns
                    .transition(now, &self.marks, Event::KernelFoundNothing);
            }
            ActuatorReport::NotPrefetched { nr_pages } => self.steering.leave_prefetched(nr_pages),
        }
    }

    /// Whether it matters who has the processors, with so much in use.
    pub fn is_sharing(&self, usage_bytes: u64) -> bool {
        self.setup.actuator == Actuator::Auto && usage_bytes > self.marks.low_bytes
    }

    /// What is due to be read of the processors.
    pub fn cpu_due(&self, now: TimeMs) -> CpuDue {
        self.cpu.due(now)
    }

    /// What is known of the processors.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Nobody looks at the processors for now, because usage is low.
    pub fn relax(&mut self, now: TimeMs) {
        // Of what comes back nobody is told meanwhile.
        if !self.cpu.is_load_fresh(now) {
            self.turns
                .transition(now, &self.marks, Event::BeyondPageout(false));
        }
        self.rest(now);
    }

    /// Nobody looks at the processors for a while.
    pub fn rest(&mut self, now: TimeMs) {
        self.left_at = None;
        self.turns
            .transition(now, &self.marks, Event::Cpu(CpuState::Free));
    }

    /// Takes in what was read of the processors, but for clocks. `can_mark_all`: warm pages of every program can be marked.
    pub fn take_cpu(&mut self, now: TimeMs, sample: CpuSample, can_mark_all: bool) -> CpuTaken {
        self.cpu.sample(now, sample);
        let state = match self.cpu.state() {
            CpuState::Saturated if !self.may_leave() => CpuState::Free,
            CpuState::Contended if self.is_kernel_to_choose(now, can_mark_all) => CpuState::Free,
            state => state,
        };
        self.turns.transition(now, &self.marks, Event::Cpu(state));
        CpuTaken {
            state,
            is_newly_left: self.note_left(now),
        }
    }

    /// Takes in what the programs have used and what has come back.
    pub fn take_clocks(&mut self, now: TimeMs, clocks: Clocks, can_mark_all: bool) {
        let sample = CpuSample {
            clocks: Some(clocks),
            ..CpuSample::default()
        };
        self.cpu.sample(now, sample);
        let is_beyond = self.cpu.is_beyond_pageout() || self.is_kernel_to_choose(now, can_mark_all);
        self.turns
            .transition(now, &self.marks, Event::BeyondPageout(is_beyond));
    }

    /// What pageout may take of a processor, percent.
    pub fn pageout_percent_max(&self, state: CpuState) -> u32 {
        match state == CpuState::Contended || !self.setup.has_kernel {
            true => ALL_PERCENT,
            false => self.cpu.pageout_percent_max(),
        }
    }

    /// Where the threads that reclaim are to run from now on, if that changes. `taken`: processors that busy threads of the
    /// programs run on; `None`: they may run anywhere.
    pub fn move_threads(&mut self, taken: Option<Processors>) -> Option<Processors> {
        match taken {
            Some(taken) => self.affinity.avoid(taken),
            None => self.affinity.widen(),
        }
    }

    /// Where the threads that reclaim are to run.
    pub fn processors(&self) -> Processors {
        self.affinity.current()
    }

    /// The threads that reclaim can't be moved.
    pub fn give_up_moving(&mut self) {
        self.affinity.give_up();
    }

    /// Whether the kernel, told which pages are warm, chooses no worse than pageout, and takes pages in batches. Of
    /// `min_ttl` it knows nothing.
    pub fn is_kernel_told(&self, can_mark_all: bool) -> bool {
        let can_mark = self.steering.abilities().can_mark && !self.is_dry_run;
        can_mark && can_mark_all && self.setup.min_ttl_ms == 0
    }

    /// How far usage may rise by reading ahead, bytes: above it nothing but reclaim that helps in need would make room.
    pub fn prefetch_bytes_max(&self) -> u64 {
        let may_read = !self.is_dry_run && !self.is_left_to_programs();
        match may_read {
            true => self.marks.urgent_bytes,
            false => 0,
        }
    }

    /// Whether free swap is to be read.
    pub fn is_swap_due(&self, now: TimeMs) -> bool {
        self.swap_checked
            .is_none_or(|then| now.since(then) >= SWAP_CHECK_MS)
    }

    /// Takes in how much swap is free, bytes; `None`: that is not known, and nobody may take it for none.
    pub fn take_free_swap(&mut self, now: TimeMs, free_bytes: Option<u64>) {
        self.swap_checked = Some(now);
        let can_swap = free_bytes.is_none_or(|free_bytes| free_bytes >= SWAP_BYTES_MIN);
        self.swappiness = match Swappiness::try_new(0) {
            Some(never) if !can_swap => never,
            _ => self.setup.swappiness,
        };
    }

    /// Takes in how much is used, and what attempts have brought since the start; says what has to go.
    pub fn decide(
        &mut self,
        now: TimeMs,
        usage_bytes: u64,
        nr_attempts: u64,
        freed_bytes: u64,
    ) -> Decision {
        let asked = self.reclaim(now, usage_bytes);
        let is_wanted = asked.pageout_pages > 0 || asked.kernel_bytes > 0;
        let sample = stall::Sample {
            now,
            is_wanted,
            usage_bytes,
            nr_attempts,
            freed_bytes,
        };
        let is_stalled = !self.is_dry_run && self.stall.sample(sample);
        let stall_pause_ms = is_wanted.then(|| self.stall.pause_ms(now)).flatten();
        Decision {
            asked,
            is_stalled,
            stall_pause_ms,
        }
    }

    fn reclaim(&mut self, now: TimeMs, usage_bytes: u64) -> Reclaim {
        self.pressure.sample(now, usage_bytes, &self.marks);
        self.turns
            .transition(now, &self.marks, Event::Usage(usage_bytes));
        let work = match self.is_left_to_programs() {
            true => Work::Theirs,
            false => Work::Ours,
        };
        let ask = self.pressure.ask(&self.marks, work);
        let pages = ask.excess_bytes.div_ceil(PAGE_BYTES);
        let pageout_pages = pages.min(PAGEOUT_BATCH_PAGES);
        let kernel_bytes = ask.excess_bytes.min(RECLAIM_BYTES_MAX);
        let wait_ms = ask.wait_ms;
        match self.reclaimer() {
            Reclaimer::Pageout => Reclaim {
                pageout_pages,
                wait_ms,
                ..Reclaim::default()
            },
            // Pageout as well would only take the processor from it.
            Reclaimer::Kernel | Reclaimer::Programs => Reclaim {
                kernel_bytes,
                wait_ms,
                ..Reclaim::default()
            },
        }
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
            Actuator::Auto => self.turns.reclaimer(),
            Actuator::Pageout => Reclaimer::Pageout,
            Actuator::Reclaim => Reclaimer::Kernel,
        }
    }

    /// Whether the kernel chooses the pages by turns, and so may be told about them.
    pub fn is_kernels_turn(&self) -> bool {
        self.actuator == Actuator::Auto && self.turns.reclaimer() == Reclaimer::Kernel
    }

    /// Whether the programs reclaim in their own faults.
    pub fn is_left_to_programs(&self) -> bool {
        self.reclaimer() == Reclaimer::Programs
    }

    /// Whether accessed bits are to be cleared so that pageout sees accesses: else so that the lists that the kernel goes by
    /// stay as they are.
    pub fn is_clearing_for_pageout(&self) -> bool {
        let is_kernels_choice = self.is_kernels_turn() || self.is_left_to_programs();
        let may_page_out = self.setup.actuator != Actuator::Reclaim && self.setup.has_pageout;
        !is_kernels_choice && may_page_out
    }

    /// Whether the kernel, told which pages are warm, is to choose all that goes. While hardly anything comes back it
    /// is pageout, which goes down to the low mark, where the kernel may stop above it; and while the kernel finds nothing.
    fn is_kernel_to_choose(&self, now: TimeMs, can_mark_all: bool) -> bool {
        let is_coming_back = self.cpu.refaulted_pages_per_s() >= TOLD_PAGES_PER_S_MIN;
        is_coming_back && self.is_kernel_told(can_mark_all) && !self.kernel_pause.holds(now)
    }

    /// Whether usage is held while the programs reclaim for themselves: without a line nothing would make them,
    /// and of `min_ttl` the kernel knows nothing.
    fn may_leave(&self) -> bool {
        self.is_line_held && self.setup.min_ttl_ms == 0 && !self.is_dry_run
    }

    /// Counts the time that is left to the programs; whether that begins now.
    fn note_left(&mut self, now: TimeMs) -> bool {
        let since = self.left_at.take();
        if !self.is_left_to_programs() {
            return false;
        }
        // Walks look at programs that did not run, too, as after reclaim that was asked for.
        self.walks.kernel_took_pages();
        self.left_at = Some(now);
        self.left_to_programs_ms += since.map_or(0, |then| now.since(then));
        since.is_none() && self.steering.forget_forecast()
    }
}
