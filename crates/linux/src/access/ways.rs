//! How who only looks clears the accessed bits of an address space.
//!
//! **Owns** which way a mapping goes. **Does not own** clearing (`clear`).

use crate::process::{Mapping, MappingClass};
use strata_lru::Kind;

/// Where entries of a mapping of this class count in [`NrEntries`](super::NrEntries).
pub fn entries_of(class: MappingClass) -> usize {
    match class {
        MappingClass::Anon | MappingClass::Heap | MappingClass::Stack => Kind::Anon.index(),
        MappingClass::FilePrivate | MappingClass::FileShared | MappingClass::Shmem => {
            Kind::File.index()
        }
    }
}

/// The ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By `clear_refs`: the whole space at once, or all of its mappings with or without a file.
    Refs,
    /// Piece by piece, which leaves what several processes map.
    Pieces,
    /// It can't be cleared.
    Left,
}

/// How the mappings of one space are cleared by who only looks, as far as its size is known before the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    pub(super) is_at_once: bool,
    /// Of mappings without and with a file, as [`entries_of`] has them.
    pub(super) fit: [bool; 2],
    pub(super) has_leader: bool,
    pub(super) is_multi_gen: bool,
}

impl Ways {
    /// Whether one call clears all of the space.
    pub fn is_at_once(&self) -> bool {
        self.is_at_once
    }

    /// Whether pages that are cleared piece by piece have to be put back on the kernel's active lists.
    pub fn has_to_restore(&self) -> bool {
        !self.is_at_once && !self.is_multi_gen && self.fit.contains(&false)
    }

    /// How a mapping is cleared.
    pub fn of(&self, mapping: &Mapping) -> Way {
        if self.is_at_once || self.fit[entries_of(mapping.class)] {
            return Way::Refs;
        }
        let is_advised = !self.is_multi_gen || mapping.class.kind_of_page(false) == Kind::Anon;
        let is_refused = mapping.unreclaimable.is_some() || !self.has_leader;
        match is_advised && !is_refused {
            true => Way::Pieces,
            false => Way::Left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{AddrRange, TABLE_BYTES};
    use crate::process::Unreclaimable;

    #[test]
    fn who_only_looks_clears_at_once_what_is_small_by_itself() {
        let ways = |nr_entries: [u64; 2], is_multi_gen| {
            let fits = |nr_entries| nr_entries <= 30_000;
            Ways {
                is_at_once: fits(nr_entries.iter().sum()),
                fit: nr_entries.map(fits),
                has_leader: true,
                is_multi_gen,
            }
        };
        let mapping = |class, unreclaimable| Mapping {
            range: AddrRange::new(0, TABLE_BYTES),
            class,
            unreclaimable,
            is_exec_file: false,
            is_bound: false,
            has_recency: true,
            is_supplied: false,
            name: "".into(),
            file: None,
        };
        let [anon, shmem, file] = [
            MappingClass::Anon,
            MappingClass::Shmem,
            MappingClass::FileShared,
        ]
        .map(|class| mapping(class, None));
        let locked = mapping(MappingClass::Anon, Some(Unreclaimable::Locked));
        let told = |ways: Ways| [&anon, &shmem, &file, &locked].map(|mapping| ways.of(mapping));
        let (large, small) = (1 << 20, 20_000);
        use Way::{Left, Pieces, Refs};
        assert_eq!(told(ways([1, 1], true)), [Refs; 4]);
        assert_eq!(told(ways([small, small], false)), [Refs; 4]);
        let of_files_large = [Refs, Pieces, Pieces, Refs];
        assert_eq!(told(ways([small, large], false)), of_files_large);
        assert_eq!(told(ways([small, large], true)), [Refs, Pieces, Left, Refs]);
        assert_eq!(told(ways([large, small], true)), [Pieces, Refs, Refs, Left]);
        assert!(!ways([small, small], false).has_to_restore());
        assert!(ways([small, large], false).has_to_restore());
    }
}
