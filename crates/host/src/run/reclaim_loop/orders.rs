//! Orders from outside that take longer than a tick: the kernel's commands, and evicting so much now.
//!
//! ```text
//!   give -> [queue] -> a step a tick, in turns: a walk, or a batch for the pageout thread -> take_done
//! ```
//!
//! **Owns** the queue, whose turn it is and how much an order may take. **Does not own** its steps (`tick`), what a command
//! means (the engine), nor who is told.
//!
//! **Invariants**
//! - O1: an order's batch is alone on its way, so what it took can be told from the engine's counters.
//! - O2: an order ends: when it is met, at its first error, when batches in a row took nothing, or when
//!   whoever gave it has gone.
//! - O3: an order for bytes tries no more pages than were in memory when it was given: what comes back
//!   meanwhile is not taken again and again.

use crate::remote::ClientId;
use std::collections::VecDeque;
use strata_linux::addr::PAGE_BYTES;
use strata_lru::EvictPlan;
use strata_lru::lru_gen::{Command, CommandError};

/// Pages of one batch of an order for bytes.
const BATCH_PAGES: u64 = 1024;

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
pub(super) enum Want {
    Commands(VecDeque<Result<Command, CommandError>>),
    Pages(Quota),
}

/// How much of what was in memory an order may take, base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// To be taken.
    wanted_pages: u64,
    /// In memory when the order was given, so to be tried at most.
    present_pages: u64,
}

impl Quota {
    /// Of an order for so much, given when so much was in memory.
    pub(super) fn new(bytes: u64, usage_bytes: u64) -> Quota {
        let present_pages = usage_bytes.div_ceil(PAGE_BYTES);
        Quota {
            wanted_pages: bytes.div_ceil(PAGE_BYTES).min(present_pages),
            present_pages,
        }
    }

    /// Pages of the next batch; 0: the order is met, or has passed all there was.
    pub(super) fn next_batch(self, done: &Done) -> u64 {
        let wanted = self.wanted_pages.saturating_sub(done.nr_applied_pages);
        let untried = self.present_pages.saturating_sub(done.nr_tried_pages);
        wanted.min(untried).min(BATCH_PAGES)
    }
}

#[derive(Debug)]
pub(super) struct Order {
    pub(super) ticket: ClientId,
    pub(super) want: Want,
    pub(super) done: Done,
    /// The walk of a `+` command is under way.
    pub(super) is_walking: bool,
    /// A `-` command under way, and what had been taken when it began.
    pub(super) eviction: Option<(EvictPlan, u64)>,
    /// Tried and taken when the batch that is out was made.
    pub(super) before: Option<(u64, u64)>,
    pub(super) nr_fruitless: u32,
    pub(super) nr_waits: u32,
}

impl Order {
    /// Nothing done of it yet.
    pub(super) fn new(ticket: ClientId, want: Want) -> Order {
        Order {
            ticket,
            want,
            done: Done::default(),
            is_walking: false,
            eviction: None,
            before: None,
            nr_fruitless: 0,
            nr_waits: 0,
        }
    }
}

/// What became of an order, for whoever gave it.
pub(super) type Outcome = Result<Done, OrderError>;

/// The orders of a group; its ticket says who gave one.
#[derive(Debug, Default)]
pub(in super::super) struct Orders {
    pub(super) queue: VecDeque<Order>,
    pub(super) done: Vec<(ClientId, Outcome)>,
    /// How the walk ended that an order asked for last.
    pub(super) walked: Option<Result<(), CommandError>>,
}

impl Orders {
    /// Whoever gave these orders has gone; a batch that is out comes back all the same.
    pub(super) fn cancel(&mut self, ticket: ClientId) {
        self.queue.retain(|order| order.ticket != ticket);
    }

    /// Takes the order whose turn it is; put back, it is the last.
    pub(super) fn next(&mut self) -> Option<Order> {
        self.queue.pop_front()
    }

    pub(super) fn put_back(&mut self, order: Order) {
        self.queue.push_back(order);
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

    fn order(ticket: u64) -> Order {
        Order::new(ClientId(ticket), Want::Pages(Quota::new(MIB, MIB)))
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
            turns.push(next.ticket.0);
            orders.put_back(next);
        }
        assert_eq!(turns, [1, 2, 1, 1]);
        orders.cancel(ClientId(1));
        let left: Vec<u64> = orders.queue.iter().map(|order| order.ticket.0).collect();
        assert_eq!(left, [2]);
        assert!(orders.done.is_empty(), "nobody is there to be told");
    }
}
