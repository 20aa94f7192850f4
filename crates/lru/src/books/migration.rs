//! Folios that move between nodes (rules 7).
//!
//! A folio that moves is off its list meanwhile, as in an eviction batch, and enters the lruvec of
//! its group on the other node as it would enter any: by its flags, which move with it.
//!
//! **Owns** the change of lruvec, the same for every policy. **Does not own** where a folio enters there
//! ([`Mover`]), or who moves where ([`crate::tiering`]).

use super::{Booked, Bookkeeper, Books};
use crate::{
    error::PolicyError,
    folio::Flags,
    ids::{FolioId, GroupId, NodeId},
    policy::Policy,
    tiering::{FolioStanding, Movable, Recency},
};

/// A policy that keeps books and lets folios move: the part that depends on its order.
pub(crate) trait Mover: Bookkeeper + Policy {
    /// How recently a folio was used, as the policy tells it.
    fn recency(&self, folio: FolioId, flags: Flags) -> Recency;

    /// Puts a folio that moved, or could not, on a list of the lruvec that its flags name.
    fn enter_moved(&mut self, folio: FolioId, was_active: bool);

    /// A folio, of these flags still, is about to be moved down instead of evicted.
    fn go_down(&mut self, _folio: FolioId, _flags: Flags) {}
}

impl<L: Booked> Books<L> {
    fn node(&self, folio: FolioId) -> NodeId {
        self.lruvecs[self.flags(folio).lruvec()].account().node
    }

    /// Ends an isolation, on another node if `to` names one; `false` if the folio was gone meanwhile
    /// and is forgotten now, else it is on no list.
    fn change_node(&mut self, folio: FolioId, to: Option<NodeId>) -> bool {
        let flags = self.end_isolation(folio);
        if flags.is_gone() {
            self.release(folio);
            return false;
        }
        if let Some(node) = to {
            let group = self.lruvecs[flags.lruvec()].account().group;
            let lruvec = self.lruvec_of(group, node);
            let lruvec = lruvec.expect("the group was given room on every node");
            self.set_flags(folio, self.flags(folio).with_lruvec(lruvec));
        }
        true
    }
}

impl<P: Mover> Movable for P {
    fn standing(&self, folio: FolioId) -> FolioStanding {
        let flags = self.kept().flags(folio);
        FolioStanding {
            node: self.kept().node(folio),
            order: flags.order(),
            is_isolated: flags.is_isolated(),
            is_referenced: flags.is_referenced(),
            is_workingset: flags.is_workingset(),
            recency: self.recency(folio, flags),
        }
    }

    #[inline]
    fn node(&self, folio: FolioId) -> NodeId {
        self.kept().node(folio)
    }

    fn add_node(&mut self, group: GroupId, node: NodeId) -> Result<(), PolicyError> {
        self.books().lruvec_of(group, node).map(|_| ())
    }

    fn begin_move(&mut self, folio: FolioId) -> bool {
        if self.kept().flags(folio).is_isolated() {
            return false;
        }
        self.books().isolate(folio);
        true
    }

    fn end_move(&mut self, folio: FolioId, to: Option<NodeId>, was_active: bool) -> bool {
        let is_there = self.books().change_node(folio, to);
        if is_there {
            self.enter_moved(folio, was_active);
        }
        is_there
    }

    fn demoted(&mut self, folio: FolioId, to: NodeId) -> bool {
        let flags = self.kept().flags(folio);
        if !flags.is_gone() {
            self.go_down(folio, flags);
        }
        let is_there = self.books().change_node(folio, Some(to));
        if is_there {
            self.enter_moved(folio, false);
        }
        is_there
    }
}
