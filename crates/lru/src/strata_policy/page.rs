//! The flags word of a folio as the policy of our own reads it.
//!
//! The word is the folio table's ([`crate::folio`]); three of its fields mean something else here:
//!
//! | field      | meaning here                                                                    |
//! |------------|---------------------------------------------------------------------------------|
//! | generation | 0 on no list, 1 on trial, 2 proven                                              |
//! | referenced | its first access has been seen; of a fault or a read that is the arrival itself |
//! | refs       | accesses seen after the first, or after the hand last passed; saturates at 3    |
//! | workingset | has passed the test: is proven, or will be when eviction gets there             |
//!
//! **Owns** that meaning. **Does not own** the layout.

use crate::folio::Flags;

/// Which of the two lists of its lruvec a folio is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Has yet to be accessed again soon enough.
    Trial = 0,
    /// Was accessed again while the coldest proven folio was not.
    Proven = 1,
}

impl Part {
    pub(super) const ALL: [Part; 2] = [Part::Trial, Part::Proven];

    /// Position in a `[_; 2]` indexed by part.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// Accesses that are told apart: more of them made no list last longer.
const REFS_MAX: u32 = 3;

const _: () = assert!(REFS_MAX <= Flags::REFS_FIELD_MAX);

impl Flags {
    /// The list it is on, `None` while isolated.
    pub(super) fn part(self) -> Option<Part> {
        self.generation().map(|index| Part::ALL[index.min(1)])
    }

    /// The list it belongs to, on a list or not.
    pub(super) fn home(self) -> Part {
        if self.is_workingset() {
            Part::Proven
        } else {
            Part::Trial
        }
    }

    /// One more access counted.
    pub(super) fn with_one_more_ref(self) -> Flags {
        self.with_refs_field((self.refs_field() + 1).min(REFS_MAX))
    }
}
