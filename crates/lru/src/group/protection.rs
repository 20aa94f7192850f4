//! What `min` and `low` of a group come to: the effective protection of cgroup v2.
//!
//! A group can only be protected with what its parent is protected with. Below one parent:
//!
//! ```text
//!   claim of a child     = min(its usage, its own setting)
//!   claims <= parent's   : each child gets its claim
//!   claims >  parent's   : each child gets parent's * its claim / all claims
//!   and what nobody claimed:
//!                        + (parent's - all claims) * (usage - claim) / (parent's usage - all claims)
//! ```
//!
//! The group that reclaim starts from is not protected from itself, and its children have what they
//! are set to: nothing above can take it from them.
//!
//! Source: `Documentation/admin-guide/cgroup-v2.rst` (`memory.min`, `memory.low`,
//! `memory_recursiveprot`). The kernel uses the parent's value as it was computed last; here the way
//! down from the root of reclaim is computed each time, so nothing is ever stale.
//!
//! **Owns** the arithmetic. **Does not own** usage and claims (`tree`).
//!
//! **Invariants**
//! - I1: below any group other than the root of reclaim, the effective values of the children sum
//!   to no more than its own.

use super::limits::Protection;
use super::tree::{GroupTree, NR_LEVELS_MAX, ROOT};
use crate::ids::GroupId;

/// One child before its parent's protection is shared out; base pages.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// What the child is set to.
    setting: u64,
    usage: u64,
    parent_effective: u64,
    parent_usage: u64,
    /// The claims of all children of the parent, this one among them.
    claims: u64,
}

impl Share {
    fn effective(self) -> u64 {
        let claim = self.usage.min(self.setting);
        if self.claims > self.parent_effective {
            return part(self.parent_effective, claim, self.claims);
        }
        let unclaimed = self.parent_effective - self.claims;
        let unprotected = self.parent_usage.saturating_sub(self.claims);
        if unprotected == 0 {
            return claim;
        }
        claim + part(unclaimed, self.usage - claim, unprotected)
    }
}

/// `of * numerator / denominator`, rounded down; the denominator is not 0 and no smaller.
fn part(of: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(of) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(product).unwrap_or(of)
}

impl GroupTree {
    /// What a group is protected with when memory is reclaimed from `within` and all below it
    /// (`None`: from everybody). 0 for `within` itself, and for a group that is not below it.
    pub fn protection(&self, group: GroupId, within: Option<GroupId>) -> Protection {
        let root = within.unwrap_or(ROOT);
        let mut way = [0u16; NR_LEVELS_MAX + 1];
        let mut nr_levels = 0;
        let mut at = group;
        while at != root {
            let Some(parent) = self.parent_or_root(at) else {
                return Protection::default();
            };
            way[nr_levels] = at.0;
            nr_levels += 1;
            at = parent;
        }
        let mut effective = Protection::default();
        for (step, &number) in way[..nr_levels].iter().rev().enumerate() {
            let child = self.node(number);
            let (min_pages, low_pages) = (child.limits.min_pages, child.limits.low_pages);
            let usage_pages = child.usage_pages;
            let share = |setting, parent_effective, claims| Share {
                setting,
                usage: usage_pages,
                parent_effective,
                parent_usage: effective.usage_pages,
                claims,
            };
            effective = if step == 0 {
                Protection {
                    min_pages,
                    low_pages,
                    usage_pages,
                }
            } else {
                let claims = self.node(child.parent).claims;
                Protection {
                    min_pages: share(min_pages, effective.min_pages, claims.min_pages).effective(),
                    low_pages: share(low_pages, effective.low_pages, claims.low_pages).effective(),
                    usage_pages,
                }
            };
        }
        effective
    }
}
