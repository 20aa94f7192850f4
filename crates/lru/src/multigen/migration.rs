//! Folios that move between nodes (rules 7).
//!
//! A folio that moves is off its list meanwhile, as in an eviction batch, and enters the lruvec of
//! its group on the other node as it would enter any: by its flags, which move with it.
//!
//! **Owns** the change of lruvec. **Does not own** who moves where ([`crate::tiering`]).

use super::{MultiGen, placement::Standing};
use crate::{
    ids::{FolioId, GroupId, Kind, NodeId},
    seam::PolicyError,
    tiering::{FolioStanding, Movable, Recency},
};

impl Movable for MultiGen {
    fn standing(&self, folio: FolioId) -> FolioStanding {
        let flags = self.flags(folio);
        let lruvec = &self.books.lruvecs[flags.lruvec()];
        FolioStanding {
            node: lruvec.account.node,
            order: flags.order(),
            is_isolated: flags.is_isolated(),
            is_referenced: flags.is_referenced(),
            is_workingset: flags.is_workingset(),
            recency: Recency::Generation {
                below_max: self.generation(folio).map(|seq| lruvec.max_seq - seq.0),
                is_saturated: self.counting.is_saturated(flags),
                goes_to_field: self.counting.goes_to_field(flags),
            },
        }
    }

    #[inline]
    fn node(&self, folio: FolioId) -> NodeId {
        self.books.lruvecs[self.flags(folio).lruvec()].account.node
    }

    fn add_node(&mut self, group: GroupId, node: NodeId) -> Result<(), PolicyError> {
        self.books.lruvec_of(group, node).map(|_| ())
    }

    fn begin_move(&mut self, folio: FolioId) -> bool {
        if self.flags(folio).is_isolated() {
            return false;
        }
        self.books.isolate(folio);
        true
    }

    fn end_move(&mut self, folio: FolioId, to: Option<NodeId>, was_active: bool) -> bool {
        let flags = self.books.end_isolation(folio);
        if flags.is_gone() {
            self.books.release(folio);
            return false;
        }
        let group = self.books.lruvecs[flags.lruvec()].account.group;
        let mut flags = flags.with_generation(None);
        if let Some(node) = to {
            let lruvec = self.books.lruvec_of(group, node);
            flags = flags.with_lruvec(lruvec.expect("the group was given room on every node"));
        }
        let standing = match flags.kind() {
            _ if was_active => Standing::Active,
            Kind::Anon => Standing::Busy,
            Kind::File => Standing::Idle,
        };
        self.books.set_flags(folio, flags);
        self.enter(folio, standing);
        true
    }
}
