//! The orders a recording is replayed in for a plan.
//!
//! **Owns** which they are, and what holding the recording in all of them takes. **Does not own** the orders
//! themselves (`crate::order`).

use crate::order::IntervalOrder;
use crate::workload::Workload;

/// The orders of expected, lowest and highest.
pub(super) const ORDERS: [IntervalOrder; 3] = [
    IntervalOrder::Shuffled(1),
    IntervalOrder::Best,
    IntervalOrder::Worst,
];

/// Bytes that a plan for the workload takes at most beside its replays: the workload in all orders.
pub fn plan_bytes(workload: &Workload) -> u64 {
    let copies = (1 + ORDERS.len() as u64) * workload.memory_bytes();
    copies + workload.reorder_bytes() - workload.memory_bytes()
}
