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
        let lruvec = &self.lruvecs[flags.lruvec()];
        FolioStanding {
            node: lruvec.node,
            order: flags.order(),
            is_isolated: flags.is_isolated(),
            is_referenced: flags.is_referenced(),
            is_workingset: flags.is_workingset(),
            recency: Recency::Generation {
                below_max: self.generation(folio).map(|seq| lruvec.max_seq - seq.0),
                is_saturated: self.counting.is_saturated(flags),
            },
        }
    }

    #[inline]
    fn node(&self, folio: FolioId) -> NodeId {
        self.lruvecs[self.flags(folio).lruvec()].node
    }

    fn add_node(&mut self, group: GroupId, node: NodeId) -> Result<(), PolicyError> {
        self.lruvec_of(group, node).map(|_| ())
    }

    fn begin_move(&mut self, folio: FolioId) -> bool {
        if self.flags(folio).is_isolated() {
            return false;
        }
        let flags = self.detach(folio);
        self.folios.flags[folio.index()] = flags.isolated();
        self.nr_isolated_folios += 1;
        true
    }

    fn end_move(&mut self, folio: FolioId, to: Option<NodeId>, was_active: bool) -> bool {
        let flags = self.flags(folio);
        assert!(flags.is_isolated(), "{folio:?} was not taken");
        self.nr_isolated_folios -= 1;
        if flags.is_gone() {
            self.release(folio);
            return false;
        }
        let group = self.lruvecs[flags.lruvec()].group;
        let mut flags = flags.with_generation(None);
        if let Some(node) = to {
            let lruvec = self.lruvec_of(group, node);
            flags = flags.with_lruvec(lruvec.expect("the group was given room on every node"));
        }
        let standing = match flags.kind() {
            _ if was_active => Standing::Active,
            Kind::Anon => Standing::Busy,
            Kind::File => Standing::Idle,
        };
        self.folios.flags[folio.index()] = flags;
        self.enter(folio, standing);
        true
    }
}
