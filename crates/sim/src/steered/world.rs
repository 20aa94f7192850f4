//! A run: requests, the loop and Strata's threads, in the order of virtual time.
//!
//! ```text
//!   before each request: whatever of the loop and the threads is due by then, the earliest first
//!   a request            hit: its time | fault: room is made (direct reclaim), the page comes in, time goes on
//! ```
//!
//! **Owns** the state of a run, the order of events, what a program pays, and what is counted. **Does not own** a
//! tick (`tick`), the limit (`limit`), nor what a step of a thread does (`threads`).
//!
//! **Invariants** I1: events come in the order of their times, of equal ones the loop first. I2: memory never holds more
//! than the limit, once a request is done, but for what was there when the limit came down.

use std::ops::Range;

use strata_control::{
    Actuator, Control, PAGE_BYTES, Reclaimer, Watermarks,
    limit::{Limit, Standing},
    trace::{Note, Recorder, Turn},
};
use strata_lru::machine::CgroupVersion;
use strata_lru::{Swappiness, TimeMs};
use strata_trace::{Backing, Via};

use super::{
    cache::CacheThread,
    pages::Pages,
    prices,
    threads::{Clearer, Kernel, PageOut, Slot, Took},
    timeline::Timeline,
};
use crate::{
    mechanism::{Machine, NR_SAMPLES, PlaysKernel},
    outcome::{Outcome, SteeringCounts},
    ratio::Ratio,
    simulate::{PROGRESS_REQUESTS, Progress, Setup, SimError, SteeredSetup},
    workload::{PageEnd, Request, Workload, ends_before},
};

/// A smaller budget is none to run in: the marks would lie within a batch of the kernel.
pub(super) const BUDGET_PAGES_MIN: u32 = 1024;
/// So often the limit is asked to give way before a program is killed.
const NR_RELIEFS_MAX: u32 = 64;

/// Who has something due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Loop,
    Kernel,
    PageOut,
    Clearer,
    Cache,
}

/// Where the limits stand, pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The hard one.
    pub(super) max_pages: u64,
    /// `memory.high`, on v2.
    pub(super) high_pages: Option<u64>,
}

impl Bounds {
    pub(super) fn lower_pages(self) -> u32 {
        let pages = self
            .high_pages
            .map_or(self.max_pages, |high| high.min(self.max_pages));
        u32::try_from(pages).unwrap_or(u32::MAX)
    }
}

/// What is kept from tick to tick, as for the host's loop.
#[derive(Debug, Default)]
pub(super) struct Looped {
    /// Attempts at taking pages, those of the kernel included, that were answered.
    pub(super) nr_attempts: u64,
    pub(super) kernel_freed_pages: u64,
    /// What the kernel was asked for, by all requests and by the last one, bytes.
    pub(super) asked_bytes: (u64, u64),
    pub(super) last_cleared_walk_ns: Option<u64>,
    /// When this tick began, nanoseconds.
    pub(super) at_ns: u64,
    /// What this tick's walks took, nanoseconds.
    pub(super) walked_ns: u64,
    pub(super) young: Vec<u32>,
}

/// All of a run.
#[derive(Debug)]
pub(crate) struct World<'w, P> {
    pub(super) machine: Machine<'w, P>,
    workload: &'w Workload,
    /// Pages that are freed later.
    ends: &'w [PageEnd],
    pub(super) setup: SteeredSetup,
    /// Balance of the kinds that was asked for.
    pub(super) swappiness: Swappiness,
    pub(super) has_swap: bool,
    pub(super) marks: Watermarks,
    pub(super) timeline: Timeline,
    pub(super) control: Control,
    pub(super) limit: Limit,
    pub(super) bounds: Bounds,
    pub(super) pages: Pages,
    pub(super) kernel: Kernel,
    pub(super) pageout: PageOut,
    pub(super) clearer: Clearer,
    pub(super) cache: CacheThread,
    pub(super) looped: Looped,
    pub(super) recorder: Recorder,
    /// Those that were not handed on yet.
    pub(super) turns: Vec<Turn>,
    loop_slot: Slot,
    pub(super) standing: Standing,
    /// The limit has given way as far as it may.
    pub(super) is_refused: bool,
    /// Strata's threads that work now, beside the loop.
    pub(super) nr_own_at_work: u64,
    /// Until then neither that changes nor anything is due.
    quiet_until_ns: u64,
    reclaimer_since: (u64, Option<Reclaimer>),
    /// When pageout last took pages, and what the programs had used of the processors by then.
    ran: (u64, u64),
    pub(super) counts: SteeringCounts,
}

impl<'w, P: PlaysKernel> World<'w, P> {
    /// Before the first request.
    ///
    /// # Errors
    /// A setup that can't be run.
    pub(crate) fn new(
        policy: P,
        has_swap: bool,
        workload: &'w Workload,
        setup: &Setup,
        steered: &SteeredSetup,
    ) -> Result<World<'w, P>, SimError> {
        if setup.memory_pages < BUDGET_PAGES_MIN {
            return Err(SimError::BudgetTooSmall {
                memory_pages: setup.memory_pages,
                least_pages: BUDGET_PAGES_MIN,
            });
        }
        // Without swap nothing anonymous can go, whatever the balance.
        let swappiness = match has_swap {
            true => setup.swappiness,
            false => Swappiness::FILE_ONLY,
        };
        let of_kernel = Setup {
            swappiness,
            ..setup.clone()
        };
        let machine = Machine::new(Box::new(policy), workload, &of_kernel)?;
        let config = &steered.config;
        let budget_bytes = u64::from(setup.memory_pages) * PAGE_BYTES;
        let marks = Watermarks::new(budget_bytes, &config.watermarks);
        let control = Control::new(
            strata_control::Setup {
                budget_bytes,
                actuator: steered.actuator,
                swappiness: setup.swappiness,
                min_ttl_ms: 0,
                is_dry_run: false,
                is_exact: false,
                has_pageout: steered.actuator != Actuator::Reclaim,
                has_kernel: steered.actuator != Actuator::Pageout,
                cpu_percent_max: None,
                nr_processors: steered.nr_processors as usize,
            },
            config,
        );
        let version = steered.hierarchy;
        let pages = Pages::new(workload, machine.layout())?;
        let cache = CacheThread::new(workload, machine.layout(), config, steered.drops_cache);
        let mut world = World {
            pages,
            machine,
            workload,
            ends: workload.ends(),
            setup: steered.clone(),
            swappiness,
            has_swap,
            marks,
            timeline: Timeline::new(workload, steered.nr_processors, steered.threads_per_program),
            control,
            limit: Limit::new(version, &marks, config.limit),
            bounds: Bounds {
                max_pages: marks.backstop_bytes / PAGE_BYTES,
                high_pages: None,
            },
            kernel: Kernel::default(),
            pageout: PageOut::new(),
            clearer: Clearer::default(),
            cache,
            looped: Looped::default(),
            recorder: match steered.is_traced {
                true => Recorder::recording(),
                false => Recorder::default(),
            },
            turns: Vec::new(),
            loop_slot: Slot::default(),
            standing: Standing::Fine,
            is_refused: false,
            nr_own_at_work: 0,
            quiet_until_ns: 0,
            reclaimer_since: (0, None),
            ran: (0, 0),
            counts: SteeringCounts::default(),
        };
        let backstop_pages = u32::try_from(world.bounds.max_pages).unwrap_or(u32::MAX);
        world.machine.set_limit_pages(backstop_pages);
        world.loop_slot.begin(0);
        world.recorder.note(|| Note::Marks(world.marks));
        Ok(world)
    }

    /// Replays everything.
    ///
    /// # Errors
    /// The policy refuses, or a kernel would kill.
    pub(crate) fn run(mut self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let nr_requests = self.workload.nr_requests();
        let sample_every = nr_requests.div_ceil(NR_SAMPLES).max(1);
        let step = (PROGRESS_REQUESTS as u32).min(sample_every);
        let mut position = 0;
        while position < nr_requests {
            let to_sample = sample_every - position % sample_every;
            let end = nr_requests.min(position + to_sample.min(step));
            self.replay(position..end)?;
            self.tell_trace(progress);
            progress.advance(u64::from(end - position));
            position = end;
            if position % sample_every == 0 {
                self.machine.sample(u64::from(position))?;
            }
        }
        self.finish(progress)
    }

    /// What all of Strata's threads have taken of the processors so far, nanoseconds.
    pub(super) fn own_cpu_ns(&self) -> u64 {
        self.slots().iter().map(|(_, slot)| slot.cpu_ns).sum()
    }

    /// Makes these requests, which are the next ones.
    pub(super) fn replay(&mut self, positions: Range<u32>) -> Result<(), SimError> {
        let workload = self.workload;
        let has_times = workload.has_times();
        for position in positions {
            for end in ends_before(&mut self.ends, position as usize) {
                self.machine.free(end.page)?;
                self.cache.forget(self.machine.layout().slot(end.page));
            }
            self.timeline.reach(position);
            if has_times && let Some(us) = workload.time_us(position) {
                let due_ns = us.saturating_mul(1000);
                self.catch_up(due_ns)?;
                self.timeline.sleep_until(due_ns);
            }
            if self.timeline.now_ns() >= self.quiet_until_ns {
                self.catch_up(self.timeline.now_ns())?;
            }
            self.request(workload.requests()[position as usize], position)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let now_ns = self.timeline.now_ns();
        self.note_reclaimer(now_ns, None);
        let kernel = self.machine.group_stats()?;
        let own_cpu_ns = self.own_cpu_ns();
        let counts = &mut self.counts;
        counts.time_ns = now_ns;
        counts.cpu_ns = own_cpu_ns;
        counts.nr_paged_out_pages = self.pageout.nr_evicted;
        let nr_reclaimed: u64 = kernel.nr_evicted_pages.iter().sum();
        counts.nr_reclaimed_ahead_pages = nr_reclaimed - counts.nr_reclaimed_in_faults_pages;
        counts.nr_limit_raises = self.limit.nr_raises();
        counts.limit_peak_pages = self.limit.peak_bytes() / PAGE_BYTES;
        counts.cache = self.cache.counts();
        let nr_requests = u64::from(self.workload.nr_requests());
        counts.refault_ratio = Ratio::of(counts.nr_refaults, nr_requests);
        let budget_pages = self.marks.budget_bytes / PAGE_BYTES;
        counts.peak_above_budget_pages = counts.peak_pages.saturating_sub(budget_pages);
        let counts = std::mem::take(&mut self.counts);
        self.end_trace(TimeMs(counts.time_ns / 1_000_000));
        self.tell_trace(progress);
        let mut outcome = self.machine.outcome()?;
        if let Some(reclaim) = &mut outcome.reclaim {
            for (all, paged_out) in reclaim
                .nr_stolen
                .iter_mut()
                .zip(kernel.nr_kernel_evicted_pages)
            {
                *all += paged_out;
            }
            reclaim.steering = Some(Box::new(counts));
        }
        Ok(outcome)
    }

    pub(super) fn usage_bytes(&self) -> u64 {
        u64::from(self.machine.nr_used_pages()) * PAGE_BYTES
    }

    fn request(&mut self, request: Request, position: u32) -> Result<(), SimError> {
        let now = self.timeline.now();
        let mut ns = prices::ACCESS_NS;
        let slot = self.machine.layout().slot(request.page());
        if !self.machine.is_in_memory(slot) {
            if self.machine.lacks_room() {
                ns += self.make_room()?;
            }
            let is_dropped = self.cache.note_miss(slot);
            let is_back = is_dropped || self.machine.entry(slot).is_swapped;
            self.counts.nr_refaults += u64::from(is_back);
            match self.machine.backing_at(slot) {
                Backing::File | Backing::Code => self.timeline.wait(prices::READ_NS),
                Backing::Anon if is_back => ns += prices::SWAP_IN_NS,
                Backing::Anon => ns += prices::ZERO_NS,
            }
            self.machine.take(request, position as usize, now)?;
            self.note_growth();
        } else {
            if request.via() == Via::PageTable && !self.machine.entry(slot).is_present {
                ns += prices::MINOR_NS;
            }
            self.machine.take(request, position as usize, now)?;
        }
        self.timeline.spend(ns, self.nr_own(), position);
        Ok(())
    }

    /// A page came in: usage may have passed a mark that wakes the loop (v1), and is at its highest, maybe.
    fn note_growth(&mut self) {
        let usage_pages = u64::from(self.machine.nr_used_pages());
        self.counts.peak_pages = self.counts.peak_pages.max(usage_pages);
        let wakes = [self.marks.approach_bytes, self.marks.high_bytes];
        let is_crossed = wakes
            .iter()
            .any(|bytes| bytes / PAGE_BYTES + 1 == usage_pages);
        let now_ns = self.timeline.now_ns();
        if is_crossed
            && self.setup.hierarchy == CgroupVersion::V1
            && self.loop_slot.next_ns > now_ns
        {
            self.loop_slot.next_ns = now_ns.max(self.loop_slot.works_until_ns);
            self.quiet_until_ns = 0;
        }
    }

    /// Reclaims as whoever faults does; the time it took.
    fn make_room(&mut self) -> Result<u64, SimError> {
        let now = self.timeline.now();
        let before = self.machine.group_stats()?.nr_evicted_pages;
        let mut nr_reliefs = 0;
        loop {
            match self.machine.make_room_now(now) {
                Ok(()) => break,
                Err(error @ SimError::OutOfMemory { .. }) => {
                    // Tasks wait: the limit gives way, or the killer decides.
                    self.is_refused = false;
                    let limit_pages = self.machine.limit_pages();
                    self.adjust_limit(now, self.standing, true)?;
                    nr_reliefs += 1;
                    let is_over = self.is_refused || nr_reliefs > NR_RELIEFS_MAX;
                    if is_over && self.machine.limit_pages() <= limit_pages {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let after = self.machine.group_stats()?.nr_evicted_pages;
        let by_kind = [after[0] - before[0], after[1] - before[1]];
        self.counts.nr_reclaimed_in_faults_pages += by_kind.iter().sum::<u64>();
        Ok(prices::of_kinds(by_kind, prices::DIRECT_KINDS_NS))
    }

    /// Strata's threads that work now, the loop among them.
    fn nr_own(&self) -> u64 {
        let is_looping = self.loop_slot.works_until_ns > self.timeline.now_ns();
        self.nr_own_at_work + u64::from(is_looping)
    }

    fn slots(&self) -> [(Who, &Slot); 5] {
        [
            (Who::Loop, &self.loop_slot),
            (Who::Kernel, &self.kernel.slot),
            (Who::PageOut, &self.pageout.slot),
            (Who::Clearer, &self.clearer.slot),
            (Who::Cache, &self.cache.slot),
        ]
    }

    /// Has everything happen that is due by then.
    fn catch_up(&mut self, until_ns: u64) -> Result<(), SimError> {
        loop {
            let slots = self.slots().map(|(who, slot)| (who, slot.next_ns));
            let due = slots.into_iter().min_by_key(|(_, at_ns)| *at_ns);
            let Some((who, at_ns)) = due.filter(|(_, at_ns)| *at_ns <= until_ns) else {
                break;
            };
            self.count_at_work(at_ns);
            self.happen(who, at_ns)?;
        }
        let now_ns = until_ns.max(self.timeline.now_ns());
        self.count_at_work(now_ns);
        let changes =
            self.slots()
                .into_iter()
                .map(|(_, slot)| match slot.works_until_ns > now_ns {
                    true => slot.works_until_ns.min(slot.next_ns),
                    false => slot.next_ns,
                });
        self.quiet_until_ns = changes.min().unwrap_or(u64::MAX);
        Ok(())
    }

    fn count_at_work(&mut self, now_ns: u64) {
        let own = self.slots();
        let at_work = own[1..]
            .iter()
            .filter(|(_, slot)| slot.works_until_ns > now_ns);
        self.nr_own_at_work = at_work.count() as u64;
    }

    fn happen(&mut self, who: Who, at_ns: u64) -> Result<(), SimError> {
        match who {
            Who::Loop => return self.loop_once(at_ns),
            Who::Kernel => {
                let took = self.kernel.step(at_ns, &mut self.machine)?;
                self.kernel.slot.took(at_ns, took);
            }
            Who::PageOut => {
                let (has_swap, running_percent) = (self.has_swap, self.running_percent(at_ns));
                let took = self
                    .pageout
                    .step(at_ns, &mut self.machine, has_swap, running_percent);
                self.pageout.slot.took(at_ns, took);
                if took.is_done {
                    // The loop is woken, unless it works.
                    let at_ns = at_ns.max(self.loop_slot.works_until_ns);
                    self.loop_slot.next_ns = self.loop_slot.next_ns.min(at_ns);
                }
            }
            Who::Clearer => {
                let took = self.clearer.step(at_ns, &mut self.machine);
                self.clearer.slot.took(at_ns, took);
            }
            Who::Cache => {
                let took = self.cache.step(at_ns, &mut self.machine);
                self.cache.slot.took(at_ns, took);
            }
        }
        Ok(())
    }

    /// For how much of the time since this was last asked programs ran, in hundredths.
    fn running_percent(&mut self, at_ns: u64) -> u64 {
        let now = (at_ns, self.timeline.cpu_ns());
        let before = std::mem::replace(&mut self.ran, now);
        let (passed_ns, ran_ns) = (now.0.saturating_sub(before.0), now.1 - before.1);
        match passed_ns {
            0 => 100,
            _ => (ran_ns * 100 / passed_ns).min(100),
        }
    }

    /// One round of the loop.
    fn loop_once(&mut self, at_ns: u64) -> Result<(), SimError> {
        let now = TimeMs(at_ns / 1_000_000);
        self.counts.nr_ticks += 1;
        self.recorder.turn(|turn| turn.now = now);
        self.adjust_limit(now, self.standing, false)?;
        let ticked = self.tick(at_ns)?;
        if std::mem::replace(&mut self.standing, ticked.standing) != ticked.standing {
            self.adjust_limit(now, self.standing, false)?;
        }
        self.end_turn(ticked.wait_ms);
        let took = Took {
            work_ns: ticked.work_ns,
            sleep_ns: ticked.wait_ms * 1_000_000,
            is_done: false,
        };
        self.loop_slot.took(at_ns, took);
        Ok(())
    }

    /// Counts how long who reclaims, from the low mark on.
    pub(super) fn count_reclaimer(&mut self, at_ns: u64, usage_bytes: u64) {
        let is_near = usage_bytes > self.marks.low_bytes;
        let now = is_near.then(|| self.control.reclaimer());
        self.note_reclaimer(at_ns, now);
    }

    fn note_reclaimer(&mut self, at_ns: u64, now: Option<Reclaimer>) {
        let (since_ns, who) = std::mem::replace(&mut self.reclaimer_since, (at_ns, now));
        let passed_ns = at_ns.saturating_sub(since_ns);
        match who {
            Some(Reclaimer::Pageout) => self.counts.pageout_ns += passed_ns,
            Some(Reclaimer::Kernel) => self.counts.kernel_ns += passed_ns,
            Some(Reclaimer::Programs) => self.counts.programs_ns += passed_ns,
            None => {}
        }
    }
}
