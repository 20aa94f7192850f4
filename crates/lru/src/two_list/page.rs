//! The flags word of a folio as the two lists read it.
//!
//! The word is the folio table's ([`crate::folio`]); two of its fields mean something else here:
//!
//! | field      | meaning here                                                                |
//! |------------|-----------------------------------------------------------------------------|
//! | generation | 0 on no list, 1 on the inactive list, 2 on the active list                  |
//! | refs bit 0 | young: a walk found the accessed bit set and cleared it; as good as the bit |
//!
//! **Owns** that meaning. **Does not own** the layout.

use crate::folio::Flags;

const YOUNG: u32 = 1;

/// Which of the two lists of its kind a folio is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// Eviction takes from here.
    Inactive = 0,
    /// Seen used again; has to be deactivated first.
    Active = 1,
}

impl Half {
    pub(super) const ALL: [Half; 2] = [Half::Inactive, Half::Active];

    /// Position in a `[_; 2]` indexed by half.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl Flags {
    /// The list it is on, `None` while isolated.
    pub(super) fn half(self) -> Option<Half> {
        self.generation().map(|index| Half::ALL[index.min(1)])
    }

    pub(super) fn is_young(self) -> bool {
        self.refs_field() & YOUNG != 0
    }

    pub(super) fn with_young(self) -> Flags {
        self.with_refs_field(self.refs_field() | YOUNG)
    }

    pub(super) fn without_young(self) -> Flags {
        self.with_refs_field(self.refs_field() & !YOUNG)
    }
}
