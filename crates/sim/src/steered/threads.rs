//! Strata's threads that act, in virtual time: each works for as long as a step costs, then the step is done.
//!
//! ```text
//!   Kernel        asks the kernel: some 32 pages a step, until enough has gone or nothing goes
//!   PageOut       looks at the entries, takes the pages a call at a time, looks again, rests for its share
//!   Clearer       clears accessed bits, a piece within one table at a time
//! ```
//!
//! **Owns** what one step of each does to the played kernel and what it costs. **Does not own** what is asked of them
//! (`tick`), nor when a step is due (`world`).
//!
//! **Invariants** I1: a thread has at most one request; its answer stays until the loop has heard it.

use strata_lru::Verdict;

use super::prices;
use crate::{
    mechanism::{Machine, NR_RETRIES_MAX, PlaysKernel, bits::Bits, layout::NR_TABLE_ENTRIES},
    simulate::SimError,
};

/// Pages in one call of `MADV_PAGEOUT`: as many as are through in 1.5 ms.
const PAGE_OUT_CALL: usize = (1_500_000 / prices::PAGE_OUT_NS) as usize;
/// Touches that make a page active on the classic lists.
const NR_ACTIVATING: u32 = 2;
/// Most pages that a single dip asks for on v1.
const DIP_PAGES: u64 = 256;
/// Longest time of a single dip on v1, nanoseconds.
const DIP_NS_MAX: u64 = 50_000_000;
/// A request on v1 ends after the dip that passes this time, nanoseconds.
const REQUEST_NS_MAX: u64 = 500_000_000;

/// How long a thread works on a step and sleeps after it, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Took {
    pub(super) work_ns: u64,
    pub(super) sleep_ns: u64,
    /// Whether the request is done.
    pub(super) is_done: bool,
}

impl Took {
    /// The request is done.
    const DONE: Took = Took {
        work_ns: 0,
        sleep_ns: 0,
        is_done: true,
    };

    /// So long, with no rest after it.
    pub(super) fn work(work_ns: u64) -> Took {
        Took {
            work_ns,
            ..Took::default()
        }
    }
}

/// When a thread's step ends, and whether it works until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The next step is due then; `u64::MAX`: there is none.
    pub(super) next_ns: u64,
    pub(super) works_until_ns: u64,
    pub(super) cpu_ns: u64,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            next_ns: u64::MAX,
            works_until_ns: 0,
            cpu_ns: 0,
        }
    }
}

impl Slot {
    /// A request begins.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.next_ns = now_ns;
    }

    /// A step has begun that takes so long.
    pub(super) fn took(&mut self, now_ns: u64, took: Took) {
        self.works_until_ns = now_ns + took.work_ns;
        self.cpu_ns += took.work_ns;
        self.next_ns = match took.is_done {
            true => u64::MAX,
            false => self.works_until_ns + took.sleep_ns,
        };
    }
}

/// How far a request of the kernel may go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// `memory.reclaim`: until so many pages have gone.
    Pages,
    /// A dip on v1: usage goes no lower than this, pages.
    Floor(u64),
}

/// What became of a request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    Pages(u64),
    Outpaced,
    /// Usage was as low as a dip may go.
    AtFloor,
    Nothing,
}

/// What a request of the kernel came to, and took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reclaimed {
    pub(super) freed: Freed,
    pub(super) wall_ns: u64,
    pub(super) cpu_ns: u64,
}

/// Asks the kernel.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) slot: Slot,
    asked_pages: u64,
    /// Dips: where usage is to come down to; none of `memory.reclaim`.
    goal_pages: Option<u64>,
    /// Usage that this dip is to come down to.
    target_pages: u64,
    chunk_pages: u64,
    done_pages: u64,
    freed_pages: u64,
    started_ns: u64,
    started_cpu_ns: u64,
    dip_started_ns: u64,
    nr_in_vain: u32,
    pub(super) is_busy: bool,
    pub(super) answer: Option<Reclaimed>,
}

impl Kernel {
    /// Asks for so many pages; false while it is at it.
    pub(super) fn ask(
        &mut self,
        now_ns: u64,
        nr_pages: u64,
        usage_pages: u64,
        bound: Bound,
    ) -> bool {
        if self.is_busy {
            return false;
        }
        let slot = self.slot;
        *self = Kernel {
            slot,
            asked_pages: nr_pages,
            started_ns: now_ns,
            started_cpu_ns: slot.cpu_ns,
            dip_started_ns: now_ns,
            is_busy: true,
            ..Kernel::default()
        };
        if let Bound::Floor(floor_pages) = bound {
            let goal_pages = usage_pages.saturating_sub(nr_pages).max(floor_pages);
            self.goal_pages = Some(goal_pages);
            self.begin_dip(now_ns, usage_pages);
        }
        self.slot.begin(now_ns);
        true
    }

    fn begin_dip(&mut self, now_ns: u64, usage_pages: u64) {
        let goal_pages = self.goal_pages.unwrap_or(0);
        self.target_pages = usage_pages.saturating_sub(DIP_PAGES).max(goal_pages);
        self.chunk_pages = usage_pages.saturating_sub(self.target_pages);
        (self.dip_started_ns, self.nr_in_vain) = (now_ns, 0);
    }

    /// One step: what it has done is done when it begins.
    pub(super) fn step<P: PlaysKernel>(
        &mut self,
        now_ns: u64,
        machine: &mut Machine<'_, P>,
    ) -> Result<Took, SimError> {
        let is_over = match self.goal_pages {
            None => self.freed_pages >= self.asked_pages || self.nr_in_vain > NR_RETRIES_MAX,
            Some(goal_pages) => self.is_dipping_over(now_ns, machine, goal_pages),
        };
        if is_over {
            let is_outpaced = self.goal_pages.is_some() && self.nr_in_vain <= NR_RETRIES_MAX;
            let freed = match self.freed_pages {
                0 if is_outpaced && self.chunk_pages == 0 => Freed::AtFloor,
                0 if is_outpaced => Freed::Outpaced,
                0 => Freed::Nothing,
                pages => Freed::Pages(pages),
            };
            self.answer = Some(Reclaimed {
                freed,
                wall_ns: now_ns - self.started_ns,
                cpu_ns: self.slot.cpu_ns - self.started_cpu_ns,
            });
            return Ok(Took::DONE);
        }
        let before = machine.group_stats()?.nr_evicted_pages;
        let nr_freed = machine.shrink_once(strata_lru::TimeMs(now_ns / 1_000_000))?;
        let after = machine.group_stats()?.nr_evicted_pages;
        let by_kind = [after[0] - before[0], after[1] - before[1]];
        match nr_freed {
            0 => self.nr_in_vain += 1,
            _ => self.nr_in_vain = 0,
        }
        if self.goal_pages.is_none() {
            self.freed_pages += nr_freed;
        }
        Ok(Took::work(match nr_freed {
            0 => prices::RECLAIM_NS,
            _ => prices::of_kinds(by_kind, prices::RECLAIM_KINDS_NS),
        }))
    }

    /// Whether the request is over; begins the next dip where the last one is.
    fn is_dipping_over<P: PlaysKernel>(
        &mut self,
        now_ns: u64,
        machine: &Machine<'_, P>,
        goal_pages: u64,
    ) -> bool {
        let usage_pages = u64::from(machine.nr_used_pages());
        if self.chunk_pages == 0 {
            return true;
        }
        if usage_pages <= self.target_pages {
            // Usage was there at that moment, whatever it is by now.
            self.freed_pages += self.chunk_pages;
            self.done_pages += self.chunk_pages;
            let is_late = now_ns - self.started_ns > REQUEST_NS_MAX;
            if is_late || usage_pages <= goal_pages || self.done_pages >= self.asked_pages {
                return true;
            }
            self.begin_dip(now_ns, usage_pages);
            return false;
        }
        let is_refused = self.nr_in_vain > NR_RETRIES_MAX;
        is_refused || now_ns - self.dip_started_ns > DIP_NS_MAX
    }
}

/// A batch on its way through `MADV_PAGEOUT`.
#[derive(Debug, Default)]
pub(super) struct PageOut {
    pub(super) slot: Slot,
    slots: Vec<u32>,
    verdicts: Vec<(u32, Verdict)>,
    /// Pages that are advised; `nr_advised` of them have been.
    candidates: Vec<usize>,
    nr_advised: usize,
    stage: Stage,
    started_ns: u64,
    started_cpu_ns: u64,
    /// What it may take of a processor.
    pub(super) percent_max: u32,
    pub(super) neighbours: Vec<u32>,
    pub(super) accessed: Vec<u32>,
    pub(super) nr_evicted: u64,
    /// When the batch came back.
    answered_ns: Option<u64>,
}

/// What became of a batch, and took.
#[derive(Debug)]
pub(super) struct PagedOut {
    pub(super) verdicts: Vec<(u32, Verdict)>,
    /// Pages the kernel was asked to take.
    pub(super) nr_tried_pages: u64,
    pub(super) wall_ns: u64,
    pub(super) cpu_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Look,
    Advise,
    Rest,
}

impl PageOut {
    /// No batch is out, and all of a processor may be taken.
    pub(super) fn new() -> PageOut {
        PageOut {
            percent_max: 100,
            ..PageOut::default()
        }
    }

    /// Hands a batch over, by slot.
    pub(super) fn submit(&mut self, now_ns: u64, slots: Vec<u32>) {
        self.slots = slots;
        self.verdicts.clear();
        self.candidates.clear();
        self.neighbours.clear();
        self.accessed.clear();
        (self.nr_advised, self.stage) = (0, Stage::Look);
        (self.started_ns, self.started_cpu_ns) = (now_ns, self.slot.cpu_ns);
        self.answered_ns = None;
        self.slot.begin(now_ns);
    }

    /// What became of the batch, once it is back.
    pub(super) fn take_answer(&mut self) -> Option<PagedOut> {
        let answered_ns = self.answered_ns.take()?;
        Some(PagedOut {
            verdicts: std::mem::take(&mut self.verdicts),
            nr_tried_pages: self.candidates.len() as u64,
            wall_ns: answered_ns - self.started_ns,
            cpu_ns: self.slot.cpu_ns - self.started_cpu_ns,
        })
    }

    /// One step, while programs run for so many hundredths of the time.
    pub(super) fn step<P: PlaysKernel>(
        &mut self,
        now_ns: u64,
        machine: &mut Machine<'_, P>,
        can_swap: bool,
        running_percent: u64,
    ) -> Took {
        match self.stage {
            Stage::Look => {
                self.stage = Stage::Advise;
                self.look(machine)
            }
            Stage::Advise if self.nr_advised < self.candidates.len() => {
                let end = (self.nr_advised + PAGE_OUT_CALL).min(self.candidates.len());
                for at in &self.candidates[self.nr_advised..end] {
                    let of = &mut self.verdicts[*at];
                    of.1 = machine.page_out(of.0, can_swap);
                    self.nr_evicted += u64::from(of.1 == Verdict::Evicted);
                }
                let nr_pages = (end - self.nr_advised) as u64;
                self.nr_advised = end;
                let interrupt_ns = prices::PAGE_OUT_NS - prices::PAGE_OUT_IDLE_NS;
                let page_ns = prices::PAGE_OUT_IDLE_NS + interrupt_ns * running_percent / 100;
                Took {
                    work_ns: nr_pages * page_ns,
                    sleep_ns: prices::PAUSE_NS,
                    is_done: false,
                }
            }
            Stage::Advise => {
                self.stage = Stage::Rest;
                self.judge(machine);
                let cpu_ns = self.slot.cpu_ns - self.started_cpu_ns;
                let due_ns = cpu_ns * 100 / u64::from(self.percent_max.max(1));
                let sleep_ns = (self.started_ns + due_ns).saturating_sub(now_ns);
                Took {
                    sleep_ns,
                    ..Took::default()
                }
            }
            Stage::Rest => {
                self.answered_ns = Some(now_ns);
                Took::DONE
            }
        }
    }

    /// Before: what was accessed since the walk is spared, and what is accessed around it is told.
    fn look<P: PlaysKernel>(&mut self, machine: &Machine<'_, P>) -> Took {
        let layout = machine.layout();
        let mut tables: Vec<u32> = self.slots.iter().map(|slot| layout.table(*slot)).collect();
        tables.dedup();
        for table in &tables {
            let accessed = layout.slots_of(*table);
            let accessed = accessed.filter(|slot| machine.entry(*slot).is_accessed);
            self.accessed.extend(accessed);
        }
        for slot in &self.slots {
            let entry = machine.entry(*slot);
            let verdict = match (entry.is_present, entry.is_accessed) {
                (false, _) => Verdict::Gone,
                (true, true) => {
                    let window = layout.window(*slot);
                    let around = window.filter(|of| of != slot && machine.entry(*of).is_accessed);
                    self.neighbours.extend(around);
                    Verdict::Referenced
                }
                (true, false) => {
                    self.candidates.push(self.verdicts.len());
                    Verdict::NotTried
                }
            };
            self.verdicts.push((*slot, verdict));
        }
        let nr_entries = tables.len() as u64 * u64::from(NR_TABLE_ENTRIES);
        Took::work(2 * nr_entries * prices::WALK_NS)
    }

    /// Afterwards: what is back already was in use.
    fn judge<P: PlaysKernel>(&mut self, machine: &Machine<'_, P>) {
        for at in &self.candidates {
            let of = &mut self.verdicts[*at];
            if of.1 == Verdict::Evicted && machine.entry(of.0).is_present {
                of.1 = Verdict::Referenced;
            }
        }
    }
}

/// A stretch of one table whose bits are cleared: from the first page that was found accessed to the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Clears piece by piece.
#[derive(Debug, Default)]
pub(super) struct Clearer {
    pub(super) slot: Slot,
    pieces: Vec<Piece>,
    nr_done: usize,
    /// Pages that are to be active afterwards.
    restore: Option<Bits>,
    started_ns: u64,
    pub(super) is_busy: bool,
    /// How long its calls held the lock since the last walk that cleared.
    pub(super) held_ns: u64,
    /// What the last request took and how long it held the lock, once it is done.
    pub(super) answer: Option<(u64, u64)>,
}

impl Clearer {
    /// Hands pieces over. `restore`: pages that are to be active afterwards.
    pub(super) fn submit(&mut self, now_ns: u64, pieces: Vec<Piece>, restore: Option<Bits>) {
        (self.pieces, self.nr_done, self.restore) = (pieces, 0, restore);
        self.started_ns = now_ns;
        self.is_busy = true;
        self.slot.begin(now_ns);
    }

    /// One piece.
    pub(super) fn step<P: PlaysKernel>(
        &mut self,
        now_ns: u64,
        machine: &mut Machine<'_, P>,
    ) -> Took {
        let Some(piece) = self.pieces.get(self.nr_done).copied() else {
            self.is_busy = false;
            self.answer = Some((now_ns - self.started_ns, self.held_ns));
            return Took::DONE;
        };
        self.nr_done += 1;
        let slots = piece.first..piece.last + 1;
        slots.clone().for_each(|slot| machine.cool(slot));
        let mut work_ns = prices::CLEAR_PIECE_NS + slots.len() as u64 * prices::CLEAR_PAGE_NS;
        let mut sleep_ns = prices::PAUSE_NS;
        if let Some(restore) = &self.restore {
            let there = slots.filter(|slot| restore.get(*slot) && machine.entry(*slot).is_present);
            let there: Vec<u32> = there.collect();
            there
                .iter()
                .for_each(|slot| machine.touch(*slot, NR_ACTIVATING));
            // A run of pages is one call that goes through its entries as clearing does; single pages are one call together.
            let runs = there
                .chunk_by(|a, b| a + 1 == *b)
                .filter(|run| run.len() > 1);
            let lengths: Vec<u64> = runs.map(|run| run.len() as u64).collect();
            let nr_in_runs: u64 = lengths.iter().sum();
            let nr_single = there.len() as u64 - nr_in_runs;
            work_ns += nr_in_runs * prices::CLEAR_PAGE_NS;
            work_ns += (nr_single + lengths.len() as u64) * prices::TOUCH_NS;
            sleep_ns += (lengths.len() as u64 + 1) * prices::PAUSE_NS;
        }
        self.held_ns += work_ns;
        Took {
            work_ns,
            sleep_ns,
            is_done: false,
        }
    }
}
