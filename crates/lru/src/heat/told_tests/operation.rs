//! What may happen, in any order.

use proptest::prelude::*;

use super::{NR_PAGES, NR_SPACES};
use crate::{ids::Kind, seam::GoneCause};

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// What a walk finds of each page of a space: a bit each for what comes or goes, and for what was accessed.
    Walk {
        space: usize,
        moves: u32,
        accessed: u32,
        cause: GoneCause,
        fails: bool,
    },
    /// So many walks of the group leave a space out.
    LeaveOut(usize, u32),
    /// A page was found accessed by somebody else.
    Note(usize),
    FinishLook,
    FinishWalk,
    Rank(u64),
    Isolate(u64),
    Complete(u64),
    TakeWarm(u32),
    /// So many pages of a kind are offered.
    Offer(Kind, u64),
    /// Whoever reclaims is told.
    Hinted,
    ForgetWarm,
    /// The coldest of pages of which some are on the active list.
    Coldest(u64, u64),
    End(usize),
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let cause = prop_oneof![3 => Just(GoneCause::Reclaimed), 1 => Just(GoneCause::Freed)];
    // Few of the pages move in most walks.
    let moves = prop_oneof![3 => (any::<u32>(), any::<u32>()).prop_map(|(a, b)| a & b & 0x1111), 1 => any::<u32>()];
    let fails = prop::bool::weighted(0.1);
    let walk = (0..NR_SPACES, moves, any::<u32>(), cause, fails);
    let walk = walk.prop_map(|(space, moves, accessed, cause, fails)| Operation::Walk {
        space,
        moves,
        accessed,
        cause,
        fails,
    });
    prop_oneof![
        12 => walk,
        2 => (0..NR_SPACES, 1..40u32).prop_map(|(space, nr_walks)| Operation::LeaveOut(space, nr_walks)),
        3 => (0..NR_SPACES * NR_PAGES).prop_map(Operation::Note),
        3 => Just(Operation::FinishLook),
        1 => Just(Operation::FinishWalk),
        3 => (1..5000u64).prop_map(Operation::Rank),
        3 => (1..2000u64).prop_map(Operation::Isolate),
        4 => any::<u64>().prop_map(Operation::Complete),
        3 => (0..100u32).prop_map(Operation::TakeWarm),
        1 => Just(Operation::ForgetWarm),
        3 => (0..2usize, 0..2000u64).prop_map(|(kind, nr)| Operation::Offer(Kind::ALL[kind], nr)),
        4 => Just(Operation::Hinted),
        3 => (0..40u64, any::<u64>()).prop_map(|(nr, active)| Operation::Coldest(nr, active)),
        1 => (0..NR_SPACES).prop_map(Operation::End),
    ]
}
