//! What tiering asks of a policy that it wraps.
//!
//! **Owns** the trait. **Does not own** its implementations (`books::migration` has what they share).

use super::FolioStanding;
use crate::{
    error::PolicyError,
    ids::{FolioId, GroupId, NodeId},
    policy::Policy,
};

/// What tiering asks of a policy beyond [`Policy`].
pub trait Movable: Policy {
    /// What the policy knows of a live folio.
    fn standing(&self, folio: FolioId) -> FolioStanding;

    /// The node a live folio is charged to.
    fn node(&self, folio: FolioId) -> NodeId;

    /// Makes room for a group's folios on a node.
    fn add_node(&mut self, group: GroupId, node: NodeId) -> Result<(), PolicyError>;

    /// Takes a folio off its list to be moved; `false` if it is isolated already.
    fn begin_move(&mut self, folio: FolioId) -> bool;

    /// Puts an isolated folio back, on another node if `to` names one; `was_active` as
    /// [`FolioStanding::is_active`] said before it was taken. `false` if the folio was gone
    /// meanwhile and is forgotten now.
    fn end_move(&mut self, folio: FolioId, to: Option<NodeId>, was_active: bool) -> bool;

    /// A folio of an eviction batch was moved down to a node, which counts as reclaimed. `false` if
    /// the folio was gone meanwhile and is forgotten now.
    fn demoted(&mut self, folio: FolioId, to: NodeId) -> bool {
        self.end_move(folio, Some(to), false)
    }
}
