//! One tick of the loop: hears what was done, reads, decides, works on orders, and has the plan carried out.
//!
//! **Owns** what comes before a plan, and the steps of orders. **Does not own** their queue (`orders`), the decisions and the
//! order in which a plan is carried out (`strata_control`), nor what is acted on (`mechanism`).

use super::mechanism::{Turn, sure};
use super::orders::{Order, OrderError, Outcome, Quota, Want};
use super::{Look, ReclaimLoop, Tick};
use crate::remote::ClientId;
use crate::run::gauge::Gauge;
use crate::sense::readings::Readings;
use std::collections::VecDeque;
use strata_control::Plan;
use strata_control::drive::{self, Mechanism as _};
use strata_control::limit::Standing;
use strata_lru::lru_gen::{Command, CommandError, Operation, commands};
use strata_lru::{Plan as CommandPlan, TimeMs};

/// Orders that wait for their turn.
const QUEUED_MAX: usize = 8;
/// Batches in a row that took nothing, after which an order is over: what is left is in use, shared or
/// locked.
const FRUITLESS_MAX: u32 = 4;
/// A step that had to wait (for the next walk to be allowed) is tried again after this.
const WAIT_MS: u64 = 20;
/// Waits in a row after which an order is over.
const WAITS_MAX: u32 = 250;

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
    /// Takes in answers, reads, decides, has it carried out, and walks if that is due.
    pub(in super::super) fn tick(
        &mut self,
        look: Look,
        gauge: &Gauge,
        readings: &mut Readings,
    ) -> Tick {
        let Look {
            now, usage_bytes, ..
        } = look;
        let reports = self.hear();
        let sample = self.sense(look, gauge, readings, reports);
        let plan = drive::decide(&mut self.control, &self.recorder, sample);
        let mut turn = Turn { of: self, gauge };
        let is_stalled = plan.decision.is_stalled;
        let order_wait_ms = turn.work_on_orders(now, usage_bytes);
        let plan = Plan {
            wait_ms: order_wait_ms.map_or(plan.wait_ms, |ms| ms.min(plan.wait_ms)),
            ..plan
        };
        let ticked = sure(drive::carry_out(&mut turn, now, usage_bytes, plan));
        self.send_splits();
        Tick {
            wait_ms: ticked.wait_ms,
            standing: ticked.standing,
            is_stalled,
        }
    }

    /// Takes the kernel's commands, as one write to `lru_gen`.
    pub(in super::super) fn order_commands(
        &mut self,
        ticket: ClientId,
        text: &str,
    ) -> Result<(), OrderError> {
        let all: VecDeque<_> = commands(text).collect();
        let takes_pages = |command: &Result<Command, _>| matches!(command, Ok(of) if matches!(of.operation, Operation::Evict { .. }));
        if all.iter().any(takes_pages) && !self.can_take() {
            return Err(OrderError::NoPageout);
        }
        self.order(ticket, Want::Commands(all))
    }

    /// Takes an order to evict so much of what is in memory, whatever the budget is.
    pub(in super::super) fn order_eviction(
        &mut self,
        ticket: ClientId,
        bytes: u64,
        usage_bytes: u64,
    ) -> Result<(), OrderError> {
        if !self.can_take() {
            return Err(OrderError::NoPageout);
        }
        self.order(ticket, Want::Pages(Quota::new(bytes, usage_bytes)))
    }

    fn order(&mut self, ticket: ClientId, want: Want) -> Result<(), OrderError> {
        if self.orders.queue.len() >= QUEUED_MAX {
            return Err(OrderError::Busy);
        }
        self.orders.put_back(Order::new(ticket, want));
        Ok(())
    }

    /// The orders that are over since the last call.
    pub(in super::super) fn take_done(&mut self) -> Vec<(ClientId, Outcome)> {
        std::mem::take(&mut self.orders.done)
    }

    /// Ends all orders, because the run is paused.
    pub(in super::super) fn cancel_orders(&mut self) {
        let cancelled = self.orders.queue.drain(..);
        let cancelled = cancelled.map(|order| (order.ticket, Err(OrderError::Paused)));
        self.orders.done.extend(cancelled);
    }

    /// Ends the orders of somebody who waits for them no more.
    pub(in super::super) fn cancel_orders_of(&mut self, ticket: ClientId) {
        self.orders.cancel(ticket);
    }

    fn can_take(&self) -> bool {
        self.actuators.threads.pageout.is_some() || self.control.is_dry_run()
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

    fn is_in_vain(&self, order: &Order) -> bool {
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

    fn step(&mut self, order: &mut Order, now: TimeMs, usage_bytes: u64) -> Step {
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
                self.of.page_out(requests);
                return Step::Again;
            }
            (order.eviction, order.before) = (None, None);
            order.done.nr_commands += 1;
            return Step::Again;
        }
        if order.is_walking {
            return match self.of.orders.walked.take() {
                None => Step::Later,
                Some(Err(error)) => Step::Over(Err(error.into())),
                Some(Ok(())) => {
                    order.is_walking = false;
                    order.done.nr_walks += 1;
                    order.done.nr_commands += 1;
                    Step::Again
                }
            };
        }
        let Want::Commands(left) = &mut order.want else {
            return Step::Over(Ok(order.done));
        };
        // A walk that has begun already would not tell what is asked for.
        if self.of.group.is_walking() {
            return Step::Later;
        }
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
        order: &mut Order,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<Step, CommandError> {
        let swappiness = self.control().swappiness();
        let command = command?;
        let generations = self.of.group.tracker.generations()?;
        match generations.plan(command, swappiness)? {
            CommandPlan::Done => order.done.nr_commands += 1,
            CommandPlan::Walk(plan) => {
                let is_thorough = plan.is_scan_forced;
                (self.of.ordered_walk, self.of.orders.walked) = (Some(plan), None);
                order.is_walking = true;
                sure(drive::walk(self, now, usage_bytes, is_thorough));
            }
            CommandPlan::Evict(plan) => {
                order.nr_fruitless = 0;
                order.eviction = Some((plan, order.done.nr_applied_pages));
            }
        }
        Ok(Step::Again)
    }
}
