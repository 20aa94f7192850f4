//! What may happen to the ledger and its model, at random.

use crate::ids::Kind;
use proptest::prelude::*;

pub(super) const NR_SPACES: u8 = 4;
pub(super) const NR_GROUPS: u16 = 2;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Seconds passed; of each space how pages look (by a seed), the place that is missing, and tables told before the
    /// walk broke off. And groups that were reclaimed from by amount before.
    Walk(u64, Vec<(u8, u64, usize, usize)>, Vec<u16>),
    Appear(u8, u16, u8),
    Move(u8, u16),
    End(u8),
    /// Pages of a space that turn out to be mapped by several, or not to be.
    Several(u8, u64),
    /// Group, kind, age, most pages, and every how many of them is not taken.
    Take(u16, Option<Kind>, u64, u64, usize),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let space = 0..NR_SPACES;
    let group = 0..NR_GROUPS;
    let asked = prop::collection::vec(group.clone(), 0..2);
    let kind = prop_oneof![Just(None), Just(Some(Kind::Anon)), Just(Some(Kind::File))];
    let nr_tables = prop_oneof![4 => Just(3usize), 1 => 0usize..3];
    let look = (space.clone(), any::<u64>(), 0usize..12, nr_tables);
    prop_oneof![
        8 => (1u64..100, prop::collection::vec(look, 0..4), asked)
            .prop_map(|(s, v, a)| Step::Walk(s, v, a)),
        2 => (space.clone(), group.clone(), 0u8..2).prop_map(|(s, g, f)| Step::Appear(s, g, f)),
        1 => (space.clone(), group.clone()).prop_map(|(s, g)| Step::Move(s, g)),
        1 => space.clone().prop_map(Step::End),
        3 => (space, any::<u64>()).prop_map(|(s, seed)| Step::Several(s, seed)),
        4 => (group, kind, 0u64..150, 0u64..800, 1usize..5)
            .prop_map(|(g, k, s, max, nth)| Step::Take(g, k, s, max, nth)),
    ]
}
