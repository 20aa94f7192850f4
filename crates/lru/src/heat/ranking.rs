//! Whether some folios go before the lists are looked at.
//!
//! **Owns** the answer's names. **Does not own** the ranking (`by_heat`).

/// Who goes before the lists are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// Nobody: folios go in the order of the lists.
    None,
    /// Who goes first is not known any more: walk all of the group's tables first.
    Due,
    /// Some folios; [`Policy::isolate`](crate::Policy::isolate) takes them.
    Left,
}
