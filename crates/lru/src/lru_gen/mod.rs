//! The kernel's `lru_gen` text: what `/sys/kernel/debug/lru_gen` shows and takes (rules 6).
//!
//! ```text
//!   views  --format_plain-->  text  --parse_plain-->  views
//!   full views  --format_full-->  text
//!   text   --commands-->  Command  --LruGen::plan-->  Plan  -->  a walk, or batches
//! ```
//!
//! **Owns** both text forms, to the byte, and the kernel's errors. **Does not own** what a command
//! does ([`LruGen::plan`]) or where the text is read and written.

mod command;
mod full;
mod plan;
mod text;

use crate::{
    error::PolicyError,
    ids::{GroupId, NodeId, TimeMs},
    seam::EvictBatch,
    swappiness::Swappiness,
    walk::TableId,
};

pub use command::{Command, CommandError, Operation, commands};
pub use full::{FullGeneration, FullStyle, FullView, TierFigures, WalkFigures, format_full};
pub use plan::{EvictPlan, Plan, WalkPlan};
pub use text::{ParseError, format_plain, parse_plain, section_of};

/// What was read by a walk that leaves nothing out, and so asks no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// A page table.
    Table {
        /// Which.
        table: TableId,
        /// Entries looked at, absent ones included.
        nr_entries: u32,
        /// Entries that were young.
        nr_young: u32,
    },
    /// A huge page: an entry without a table.
    HugePage {
        /// Whether the entry's accessed bit was set.
        is_young: bool,
    },
}

/// What stands behind the kernel's interface beside [`Policy`](crate::Policy): a policy with generations.
pub trait LruGen {
    /// Checks a command against the groups and their windows; `own_swappiness` is the group's.
    fn plan(&self, command: Command, own_swappiness: Swappiness) -> Result<Plan, CommandError>;

    /// Ends the walk of a plan; an error if another walk ended since it was made.
    fn finish_planned_walk(&mut self, plan: &WalkPlan, now: TimeMs) -> Result<(), CommandError>;

    /// Fills the next batch of a plan, which has freed `nr_freed_pages` so far; `false` when it is
    /// done: the generations are gone, the target is met, or nothing more can be had.
    fn isolate_planned(
        &mut self,
        plan: &EvictPlan,
        nr_freed_pages: u64,
        batch: &mut EvictBatch,
    ) -> bool;

    /// A walk that ends by [`Policy::finish_walk`](crate::Policy::finish_walk) read something of a group
    /// on a node; the full text tells of it. What was dense counts as found by the next walk. Of a group
    /// that is not there nothing is told.
    fn walked(&mut self, group: GroupId, node: NodeId, walked: Walked);

    /// The group's generations with all that the controller and the walks know of them, by node.
    fn full_view(&self, group: GroupId, now: TimeMs) -> Result<Vec<FullView>, PolicyError>;
}
