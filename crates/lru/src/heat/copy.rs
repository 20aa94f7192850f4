//! A copy of one group of a policy that goes by heat, to play its eviction out.
//!
//! **Owns** the copying of heat and ranks. **Does not own** the copy of the policy within.

use super::{
    ByHeat,
    by_heat::{Entry, OfGroup},
};
use crate::{
    eviction_order::{Part, PlayedOut},
    ids::{FolioId, GroupId, Kind},
    seam::PolicyError,
};

impl<P: PlayedOut> PlayedOut for ByHeat<P> {
    fn part(&self, group: GroupId, kind: Kind) -> Result<Part<ByHeat<P>>, PolicyError> {
        let Part {
            policy,
            group: copy,
            originals,
        } = self.policy.part(group, kind)?;
        let copied = |original: &Entry| Entry {
            group: copy,
            ..*original
        };
        let of_original = |folio: &FolioId| self.entry(*folio).map(copied);
        let mut entries: Vec<Option<Entry>> = originals.iter().map(of_original).collect();
        let mut part = OfGroup::default();
        if let Some(of) = self.groups.get(usize::from(group.0)) {
            // By original: its number in the copy.
            let mut numbers: Vec<Option<u32>> = vec![None; self.entries.len()];
            for (original, number) in originals.iter().zip(0..) {
                numbers[original.index()] = Some(number);
            }
            let is_ranked = |of: &&Entry| of.is_ranked && of.group == group;
            for folio in &of.ranked {
                let ranked = self.entry(*folio).filter(is_ranked);
                let number = match ranked.and_then(|_| numbers[folio.index()]) {
                    Some(number) => number,
                    // What was not copied keeps its rank under a number that no folio has there; what has
                    // left keeps its place, which tells that not all that were ranked have been tried.
                    None => {
                        entries.push(ranked.map(copied));
                        entries.len() as u32 - 1
                    }
                };
                part.ranked.push_back(FolioId(number));
            }
            part = of.ranked_as(part.ranked);
        }
        let mut groups = vec![OfGroup::default(); usize::from(copy.0)];
        groups.push(part);
        Ok(Part {
            policy: ByHeat {
                policy,
                entries,
                groups,
                nr_arrivals: self.nr_arrivals,
            },
            group: copy,
            originals,
        })
    }
}
