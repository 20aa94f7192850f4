//! Orders from outside that take longer than a tick: the kernel's commands, and evicting so much now.
//!
//! ```text
//!   give -> [queue] -> a step a tick, in turns: a walk, or a batch for the pageout thread -> take_done
//! ```
//!
//! **Owns** the queue, whose turn it is and when an order is done. **Does not own** what a command means
//! (the engine), nor who is told.
//!
//! **Invariants**
//! - O1: an order's batch is alone on its way, so what it took can be told from the engine's counters.
//! - O2: an order ends: when it is met, at its first error, when batches in a row took nothing, or when
//!   whoever gave it has gone.
//! - O3: an order for bytes tries no more pages than were in memory when it was given: what comes back
//!   meanwhile is not taken again and again.

use super::ReclaimLoop;
use super::mechanism::{Turn, sure};
use crate::run::trace::{Answer, ChosenBy, WalkEnd};
use std::collections::VecDeque;
use strata_control::drive::{self, Mechanism as _};
use strata_control::limit::Standing;
use strata_linux::addr::PAGE_BYTES;
use strata_lru::lru_gen::{Command, CommandError, commands};
use strata_lru::{EvictPlan, Plan, TimeMs, WalkPlan};

/// Orders that wait for their turn.
const QUEUED_MAX: usize = 8;
/// Batches in a row that took nothing, after which an order is over: what is left is in use, shared or
/// locked.
const FRUITLESS_MAX: u32 = 4;
/// Pages of one batch of an order for bytes.
const BATCH_PAGES: u64 = 1024;
/// A step that had to wait (for the next walk to be allowed) is tried again after this.
const WAIT_MS: u64 = 20;
/// Waits in a row after which an order is over.
const WAITS_MAX: u32 = 250;

/// What an order came to; base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(in super::super) struct Done {
    /// Commands carried out.
    pub nr_commands: u64,
    /// Walks made.
    pub nr_walks: u64,
    /// Handed to the actuator; in a dry run, decided.
    pub nr_tried_pages: u64,
    /// Left memory.
    pub nr_applied_pages: u64,
}

/// Why an order was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum OrderError {
    /// As the kernel refuses it; what came before it is done.
    #[error("{0}")]
    Command(#[from] CommandError),
    /// Other orders are waiting already.
    #[error("too many orders are waiting; try again later")]
    Busy,
    /// Nobody of this run takes single pages.
    #[error(
        "pages can't be taken in this run: --actuator reclaim leaves the choice to the kernel; set \
         a smaller budget instead"
    )]
    NoPageout,
    /// Paused before or meanwhile.
    #[error("the run is paused; resume it first")]
    Paused,
}

impl OrderError {
    /// The name of the kernel's error, where there is one.
    pub(in super::super) fn errno(&self) -> Option<&'static str> {
        match self {
            OrderError::Command(error) => Some(error.errno().0),
            OrderError::Busy => Some("EBUSY"),
            OrderError::NoPageout | OrderError::Paused => None,
        }
    }
}

/// What is wanted.
#[derive(Debug)]
enum Want {
    Commands(VecDeque<Result<Command, CommandError>>),
    Pages(Quota),
}

/// How much of what was in memory an order may take, base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    /// To be taken.
    wanted_pages: u64,
    /// In memory when the order was given, so to be tried at most.
    present_pages: u64,
}

impl Quota {
    /// Of an order for so much, given when so much was in memory.
    fn new(bytes: u64, usage_bytes: u64) -> Quota {
        let present_pages = usage_bytes.div_ceil(PAGE_BYTES);
        Quota {
            wanted_pages: bytes.div_ceil(PAGE_BYTES).min(present_pages),
            present_pages,
        }
    }

    /// Pages of the next batch; 0: the order is met, or has passed all there was.
    fn next_batch(self, done: &Done) -> u64 {
        let wanted = self.wanted_pages.saturating_sub(done.nr_applied_pages);
        let untried = self.present_pages.saturating_sub(done.nr_tried_pages);
        wanted.min(untried).min(BATCH_PAGES)
    }
}

#[derive(Debug)]
struct Order<Ticket> {
    ticket: Ticket,
    want: Want,
    done: Done,
    /// A `-` command under way, and what had been taken when it began.
    eviction: Option<(EvictPlan, u64)>,
    /// Tried and taken when the batch that is out was made.
    before: Option<(u64, u64)>,
    nr_fruitless: u32,
    nr_waits: u32,
}

/// What became of an order, for whoever gave it.
type Outcome = Result<Done, OrderError>;

/// The orders of a group; `Ticket` names who gave one.
#[derive(Debug)]
pub(in super::super) struct Orders<Ticket> {
    queue: VecDeque<Order<Ticket>>,
    done: Vec<(Ticket, Outcome)>,
}

impl<Ticket> Default for Orders<Ticket> {
    fn default() -> Orders<Ticket> {
        Orders {
            queue: VecDeque::new(),
            done: Vec::new(),
        }
    }
}

impl<Ticket: PartialEq> Orders<Ticket> {
    /// Whoever gave these orders has gone; a batch that is out comes back all the same.
    fn cancel(&mut self, ticket: &Ticket) {
        self.queue.retain(|order| order.ticket != *ticket);
    }

    /// Takes the order whose turn it is; put back, it is the last.
    fn next(&mut self) -> Option<Order<Ticket>> {
        self.queue.pop_front()
    }

    fn put_back(&mut self, order: Order<Ticket>) {
        self.queue.push_back(order);
    }
}

/// How an order goes on after a step.
enum Step {
    /// A batch is out, or a walk was made: again at the next tick.
    Again,
    /// Not possible at this moment.
    Later,
    /// Over.
    Over(Outcome),
}

impl ReclaimLoop {
    /// Takes the kernel's commands, as one write to `lru_gen`.
    pub(in super::super) fn order_commands(
        &mut self,
        ticket: super::Ticket,
        text: &str,
    ) -> Result<(), OrderError> {
        let all: VecDeque<_> = commands(text).collect();
        let takes_pages =
            |command: &Result<Command, _>| matches!(command, Ok(Command::Evict { .. }));
        if all.iter().any(takes_pages) && !self.can_take() {
            return Err(OrderError::NoPageout);
        }
        self.order(ticket, Want::Commands(all))
    }

    /// Takes an order to evict so much of what is in memory, whatever the budget is.
    pub(in super::super) fn order_eviction(
        &mut self,
        ticket: super::Ticket,
        bytes: u64,
        usage_bytes: u64,
    ) -> Result<(), OrderError> {
        if !self.can_take() {
            return Err(OrderError::NoPageout);
        }
        self.order(ticket, Want::Pages(Quota::new(bytes, usage_bytes)))
    }

    fn order(&mut self, ticket: super::Ticket, want: Want) -> Result<(), OrderError> {
        if self.orders.queue.len() >= QUEUED_MAX {
            return Err(OrderError::Busy);
        }
        self.orders.queue.push_back(Order {
            ticket,
            want,
            done: Done::default(),
            eviction: None,
            before: None,
            nr_fruitless: 0,
            nr_waits: 0,
        });
        Ok(())
    }

    /// The orders that are over since the last call.
    pub(in super::super) fn take_done(&mut self) -> Vec<(super::Ticket, Outcome)> {
        std::mem::take(&mut self.orders.done)
    }

    /// Ends all orders, because the run is paused.
    pub(in super::super) fn cancel_orders(&mut self) {
        let cancelled = self.orders.queue.drain(..);
        let cancelled = cancelled.map(|order| (order.ticket, Err(OrderError::Paused)));
        self.orders.done.extend(cancelled);
    }

    /// Ends the orders of somebody who waits for them no more.
    pub(in super::super) fn cancel_orders_of(&mut self, ticket: super::Ticket) {
        self.orders.cancel(&ticket);
    }

    fn can_take(&self) -> bool {
        self.actuators.has_pageout() || self.control.is_dry_run()
    }

    /// Counts what the batch that is back has come to, for the order it was of.
    fn settle_orders(&mut self) {
        let (tried_now, taken_now) = self.tried_and_taken();
        let mut orders = self.orders.queue.iter_mut();
        let Some((order, (tried, taken))) = orders.find_map(|order| {
            let before = order.before.take()?;
            Some((order, before))
        }) else {
            return;
        };
        order.done.nr_tried_pages += tried_now - tried;
        order.done.nr_applied_pages += taken_now - taken;
        order.nr_fruitless = match taken_now > taken {
            true => 0,
            false => order.nr_fruitless + 1,
        };
    }

    fn tried_and_taken(&self) -> (u64, u64) {
        let stats = self.group.tracker.stats().unwrap_or_default();
        (stats.nr_isolated_pages, stats.nr_evicted_pages.iter().sum())
    }

    fn is_in_vain(&self, order: &Order<super::Ticket>) -> bool {
        // A dry run puts all of a batch back, and would find the same again.
        let most = if self.control.is_dry_run() {
            1
        } else {
            FRUITLESS_MAX
        };
        order.nr_fruitless >= most
    }
}

impl Turn<'_> {
    /// Does the next step of the order whose turn it is; `None` without one, else the longest time to wait for
    /// the next, milliseconds.
    pub(super) fn work_on_orders(&mut self, now: TimeMs, usage_bytes: u64) -> Option<u64> {
        // A batch of the loop's, or the one before: told by its descriptor when it is back.
        if self.of.orders.queue.is_empty() || self.of.group.tracker.is_batch_out() {
            return None;
        }
        self.of.settle_orders();
        let mut order = self.of.orders.next()?;
        let wait_ms = match self.step(&mut order, now, usage_bytes) {
            Step::Over(outcome) => {
                self.of.orders.done.push((order.ticket, outcome));
                return Some(0);
            }
            Step::Again => 0,
            Step::Later => WAIT_MS,
        };
        self.of.orders.put_back(order);
        Some(wait_ms)
    }

    fn step(&mut self, order: &mut Order<super::Ticket>, now: TimeMs, usage_bytes: u64) -> Step {
        if let Want::Pages(quota) = order.want {
            let nr_pages = quota.next_batch(&order.done);
            if nr_pages == 0 || self.of.is_in_vain(order) {
                return Step::Over(Ok(order.done));
            }
            let before = self.of.tried_and_taken();
            let standing = sure(drive::evict(self, now, usage_bytes, nr_pages));
            if self.of.tried_and_taken().0 > before.0 {
                (order.before, order.nr_waits) = (Some(before), 0);
                return Step::Again;
            }
            order.nr_waits += 1;
            return match standing {
                Standing::Fine if order.nr_waits <= WAITS_MAX => Step::Later,
                _ => Step::Over(Ok(order.done)),
            };
        }
        if let Some((plan, taken_before)) = order.eviction {
            let nr_freed = order.done.nr_applied_pages - taken_before;
            order.before = Some(self.of.tried_and_taken());
            let requests = match self.of.is_in_vain(order) {
                true => None,
                false => self.of.group.tracker.isolate_planned(&plan, nr_freed),
            };
            if let Some(requests) = requests {
                drive::note_batch(
                    self,
                    ChosenBy::Command,
                    None,
                    Answer::Pages,
                    Some(&requests),
                );
                self.of.page_out(requests);
                return Step::Again;
            }
            (order.eviction, order.before) = (None, None);
            order.done.nr_commands += 1;
            return Step::Again;
        }
        let Want::Commands(left) = &mut order.want else {
            return Step::Over(Ok(order.done));
        };
        match left.pop_front() {
            None => Step::Over(Ok(order.done)),
            Some(command) => self
                .begin(command, order, now, usage_bytes)
                .unwrap_or_else(|error| Step::Over(Err(error.into()))),
        }
    }

    fn begin(
        &mut self,
        command: Result<Command, CommandError>,
        order: &mut Order<super::Ticket>,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<Step, CommandError> {
        let swappiness = self.control().swappiness();
        match self.of.group.tracker.plan(command?, swappiness)? {
            Plan::Done => order.done.nr_commands += 1,
            Plan::Walk(plan) => {
                self.walk_as_planned(&plan, now, usage_bytes)?;
                order.done.nr_walks += 1;
                order.done.nr_commands += 1;
            }
            Plan::Evict(plan) => {
                order.nr_fruitless = 0;
                order.eviction = Some((plan, order.done.nr_applied_pages));
            }
        }
        Ok(Step::Again)
    }

    fn walk_as_planned(
        &mut self,
        plan: &WalkPlan,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<(), CommandError> {
        sure(drive::look(self, now, plan.is_scan_forced));
        drive::note_walk_end(self, WalkEnd::Command);
        self.of.group.tracker.finish_planned_walk(plan, now)?;
        drive::after_walk(self, now, usage_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MIB_PAGES: u64 = MIB / PAGE_BYTES;

    fn done(nr_tried_pages: u64, nr_applied_pages: u64) -> Done {
        Done {
            nr_tried_pages,
            nr_applied_pages,
            ..Done::default()
        }
    }

    #[test]
    fn no_order_asks_for_more_than_was_in_memory() {
        let quota = Quota::new(1 << 40, 120 * MIB);
        let mut so_far = done(0, 0);
        // The program brings everything back at once, so usage never falls.
        for _ in 0..1000 {
            let batch = quota.next_batch(&so_far);
            so_far.nr_tried_pages += batch;
            so_far.nr_applied_pages += batch;
        }
        assert_eq!(so_far.nr_applied_pages, 120 * MIB_PAGES);
    }

    #[test]
    fn pages_that_do_not_go_are_not_tried_again() {
        let quota = Quota::new(8 * MIB, 16 * MIB);
        assert_eq!(quota.next_batch(&done(0, 0)), BATCH_PAGES);
        assert_eq!(quota.next_batch(&done(15 * MIB_PAGES, 100)), MIB_PAGES);
        assert_eq!(quota.next_batch(&done(16 * MIB_PAGES, 100)), 0);
        assert_eq!(quota.next_batch(&done(9 * MIB_PAGES, 8 * MIB_PAGES)), 0);
    }

    fn order(ticket: u32) -> Order<u32> {
        Order {
            ticket,
            want: Want::Pages(Quota::new(MIB, MIB)),
            done: Done::default(),
            eviction: None,
            before: None,
            nr_fruitless: 0,
            nr_waits: 0,
        }
    }

    #[test]
    fn orders_take_turns_until_whoever_gave_them_has_gone() {
        let mut orders = Orders::default();
        for ticket in [1, 2, 1] {
            orders.put_back(order(ticket));
        }
        let mut turns = Vec::new();
        for _ in 0..4 {
            let next = orders.next().expect("one");
            turns.push(next.ticket);
            orders.put_back(next);
        }
        assert_eq!(turns, [1, 2, 1, 1]);
        orders.cancel(&1);
        let left: Vec<u32> = orders.queue.iter().map(|order| order.ticket).collect();
        assert_eq!(left, [2]);
        assert!(orders.done.is_empty(), "nobody is there to be told");
    }
}
