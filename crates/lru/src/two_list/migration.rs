//! Folios that move between nodes (rules 7).
//!
//! **Owns** the change of lruvec. **Does not own** who moves where ([`crate::tiering`]).

use super::{TwoList, page::Half};
use crate::{
    ids::{FolioId, GroupId, NodeId},
    seam::PolicyError,
    tiering::{FolioStanding, Movable, Recency},
};

impl Movable for TwoList {
    fn standing(&self, folio: FolioId) -> FolioStanding {
        let flags = self.flags(folio);
        FolioStanding {
            node: self.books.lruvecs[flags.lruvec()].account.node,
            order: flags.order(),
            is_isolated: flags.is_isolated(),
            is_referenced: flags.is_referenced(),
            is_workingset: flags.is_workingset(),
            recency: Recency::List {
                is_active: flags.half() == Some(Half::Active),
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
        if let Some(node) = to {
            let group = self.books.lruvecs[flags.lruvec()].account.group;
            let lruvec = self.books.lruvec_of(group, node);
            let lruvec = lruvec.expect("the group was given room on every node");
            self.books.set_flags(folio, flags.with_lruvec(lruvec));
        }
        let half = match was_active {
            true => Half::Active,
            false => Half::Inactive,
        };
        self.enter(folio, half);
        true
    }

    fn demoted(&mut self, folio: FolioId, to: NodeId) -> bool {
        let flags = self.flags(folio);
        let is_there = self.end_move(folio, Some(to), false);
        if is_there {
            self.reclaimed(flags.lruvec(), flags.nr_pages());
        }
        is_there
    }
}
