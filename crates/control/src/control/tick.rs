//! One tick: a sample in, a plan out.
//!
//! ```text
//!   due     -> what is to be read of the processors and of swap
//!   reports -> kernel_pause, walks, turns             what became of the last plans
//!   cpu     -> turns, and who runs where              who reclaims
//!   swap    -> swappiness                             which kinds of pages can go
//!   cache   -> admit_cache, drop_cache                what of it goes first
//!   usage   -> pressure, turns, stall                 how much, by whom; is it in vain
//! ```
//!
//! **Owns** the order in which a tick comes to its decisions. **Does not own** the judgements: each has a module.
//!
//! **Invariants** I1: the actions of a plan stand in the order in which they are to be done, reclaim last. I2: in a
//! dry run a plan says what would be done.

use super::Control;
use crate::cache_moment::{Ask, Moment};
use crate::cpu::CpuSample;
use crate::plan::Reclaimer;
use crate::plan::{Action, Decision, Plan, Reclaim};
use crate::pressure::Work;
use crate::reclaimer::Event;
use crate::sample::Actuator;
use crate::sample::{CacheLook, CpuDue, CpuState, Due, FreeSwap, PAGE_BYTES, Sample};
use crate::stall;
use strata_lru::{Swappiness, TimeMs};

/// What pageout may take of a processor where it reclaims alone, percent.
const ALL_PERCENT: u32 = 100;
/// The kernel takes no anon pages while fewer than 64 pages of swap are free; neither does the engine. Bytes.
pub(super) const SWAP_BYTES_MIN: u64 = 64 * PAGE_BYTES;

impl Control {
    /// What the next tick is to read, with so much in use.
    pub fn due(&self, now: TimeMs, usage_bytes: u64) -> Due {
        let is_sharing =
            self.setup.actuator == Actuator::Auto && usage_bytes > self.marks.low_bytes;
        let cpu = self.cpu.due(now);
        Due {
            is_sharing,
            cpu: match is_sharing {
                true => cpu,
                false => CpuDue::default(),
            },
            free_swap: self
                .swap_checked
                .is_none_or(|then| now.since(then) >= self.config.cpu.sampling.every_ms),
        }
    }

    /// Takes in what was read, and says what is to be done.
    pub fn tick(&mut self, sample: Sample) -> Plan {
        let now = sample.now;
        self.is_line_held = sample.is_line_held;
        self.allowance.sample(now, sample.own_cpu_ns);
        for report in sample.reports {
            self.hear(now, report);
        }
        let mut actions = match sample.cpu {
            Some(cpu) => self.share(now, cpu),
            None => {
                self.rest(now);
                Vec::new()
            }
        };
        if let Some(free_swap) = sample.free_swap {
            self.take_free_swap(now, free_swap);
        }
        self.take_usage(now, sample.usage_bytes);
        let cache = match sample.cache {
            Some(look) => self.drop_cache(now, sample.usage_bytes, look),
            None => Ask::default(),
        };
        let asked = self.reclaim(cache.going_bytes);
        let is_wanted = asked.pageout_pages > 0 || asked.kernel_bytes > 0;
        let is_stalled = !self.is_dry_run
            && self.stall.sample(stall::Sample {
                now,
                is_wanted,
                usage_bytes: sample.usage_bytes,
                nr_attempts: sample.nr_attempts,
                freed_bytes: sample.freed_bytes,
            });
        let decision = Decision {
            reclaimer: self.reclaimer(),
            asked,
            is_stalled,
            stall_pause_ms: (is_wanted && !self.is_dry_run)
                .then(|| self.stall.pause_ms(now))
                .flatten(),
        };
        actions.extend(cache.actions);
        let reclaim = decision.reclaim();
        if reclaim.kernel_bytes > 0 {
            actions.push(Action::Reclaim {
                bytes: reclaim.kernel_bytes,
            });
        }
        if reclaim.pageout_pages > 0 {
            actions.push(Action::PageOut {
                nr_pages: reclaim.pageout_pages,
            });
        }
        Plan {
            actions,
            decision,
            wait_ms: reclaim.wait_ms,
        }
    }

    /// Nobody looks at the processors for a while.
    pub fn rest(&mut self, now: TimeMs) {
        self.left_at = None;
        self.cpu_state = CpuState::Free;
        self.turns
            .transition(now, &self.marks, Event::Cpu(CpuState::Free));
    }

    /// Takes in what was read of the processors.
    fn share(&mut self, now: TimeMs, sample: CpuSample) -> Vec<Action> {
        self.take_cpu(now, sample);
        vec![Action::LimitPageout {
            percent_max: self.pageout_percent_max(),
        }]
    }

    /// Takes in what was read of the processors.
    pub(super) fn take_cpu(&mut self, now: TimeMs, sample: CpuSample) {
        self.cpu.sample(now, sample);
        let pages_per_s = self.cpu.refaulted_pages_per_s();
        let is_paid_for = self.allowance.affords_reclaim(pages_per_s);
        let state = match !is_paid_for || self.allowance.is_spent() {
            true => CpuState::Taken,
            false => self.cpu.state(),
        };
        self.cpu_state = match state {
            CpuState::Taken if !self.may_leave() => CpuState::Free,
            state => state,
        };
        self.turns
            .transition(now, &self.marks, Event::Cpu(self.cpu_state));
        self.note_left(now);
    }

    /// What pageout may take of a processor, percent.
    pub(super) fn pageout_percent_max(&self) -> u32 {
        match self.setup.has_kernel {
            true => self.cpu.pageout_percent_max(),
            false => ALL_PERCENT,
        }
    }

    /// Whether usage is held while the programs reclaim for themselves: without a line nothing would make them,
    /// and of `min_ttl` the kernel knows nothing.
    fn may_leave(&self) -> bool {
        self.is_line_held && self.setup.min_ttl_ms == 0 && !self.is_dry_run
    }

    /// Counts the time that is left to the programs.
    fn note_left(&mut self, now: TimeMs) {
        let since = self.left_at.take();
        if !self.is_left_to_programs() {
            return;
        }
        if since.is_none() {
            self.allowance.forget_walk();
        }
        // Walks look at programs that did not run, too, as after reclaim that was asked for.
        self.walks.kernel_took_pages();
        self.left_at = Some(now);
        self.left_to_programs_ms += since.map_or(0, |then| now.since(then));
    }

    /// Takes in how much swap is free.
    pub(super) fn take_free_swap(&mut self, now: TimeMs, free_swap: FreeSwap) {
        self.swap_checked = Some(now);
        let can_swap = match free_swap {
            FreeSwap::Bytes(bytes) => bytes >= SWAP_BYTES_MIN,
            FreeSwap::NotKnown => true,
        };
        self.swappiness = match Swappiness::try_new(0) {
            Some(never) if !can_swap => never,
            _ => self.setup.swappiness,
        };
    }

    /// Takes in how much is in use.
    pub(super) fn take_usage(&mut self, now: TimeMs, usage_bytes: u64) {
        self.pressure.sample(now, usage_bytes, &self.marks);
        self.turns
            .transition(now, &self.marks, Event::Usage(usage_bytes));
    }

    /// What is to be done with page cache. Also where reclaim is left to the programs: it spares them more than it takes.
    fn drop_cache(&mut self, now: TimeMs, usage_bytes: u64, look: CacheLook) -> Ask {
        let mut moment = Moment {
            now,
            excess_bytes: self.pressure.excess_bytes(&self.marks),
            budget_bytes: self.marks.budget_bytes,
            // What is played to be gone may be read again, or leave memory, whatever usage is.
            is_near: usage_bytes > self.marks.approach_bytes || self.has_played,
            is_urgent: usage_bytes > self.marks.urgent_bytes,
            // A run that was started as a dry run plays what is dropped.
            may_act: (!self.is_dry_run || self.setup.is_dry_run) && !self.allowance.is_spent(),
        };
        // Which newcomers would come in again can't be seen, as they are in memory all along.
        let of_newcomers = Moment {
            may_act: moment.may_act && !self.is_dry_run,
            ..moment
        };
        let newcomers = self
            .admit_cache
            .tick(&of_newcomers, look.came_in, look.is_busy);
        // In a loop what lies idle is what is kept for the next pass.
        moment.excess_bytes = match self.admit_cache.is_loop() {
            true => 0,
            false => moment.excess_bytes.saturating_sub(newcomers.going_bytes),
        };
        let mut ask = self.drop_cache.tick(moment, look);
        let is_drop = |action: &Action| {
            matches!(
                action,
                Action::DropReadOnce { .. } | Action::DropReadAgain { .. }
            )
        };
        self.has_played |= self.is_dry_run && ask.actions.iter().any(is_drop);
        ask.actions.splice(0..0, newcomers.actions);
        ask.going_bytes += newcomers.going_bytes;
        ask
    }

    /// What has to go, of which so much goes already.
    pub(super) fn reclaim(&mut self, going_bytes: u64) -> Reclaim {
        let work = match self.is_left_to_programs() {
            true => Work::Theirs,
            false => Work::Ours,
        };
        let ask = self.pressure.ask(&self.marks, work);
        let excess_bytes = ask.excess_bytes.saturating_sub(going_bytes);
        let excess_bytes = self.allowance.affordable_bytes(excess_bytes);
        let wait_ms = ask.wait_ms;
        match self.reclaimer() {
            Reclaimer::Pageout => Reclaim {
                pageout_pages: excess_bytes
                    .div_ceil(PAGE_BYTES)
                    .min(self.config.control.pageout_batch_pages),
                wait_ms,
                ..Reclaim::default()
            },
            // Pageout as well would only take the processor from it.
            Reclaimer::Kernel | Reclaimer::Programs => Reclaim {
                kernel_bytes: excess_bytes.min(self.config.control.reclaim_bytes_max),
                wait_ms,
                ..Reclaim::default()
            },
        }
    }
}
