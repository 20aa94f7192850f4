//! A copy of one group of a policy that goes by heat, to play its eviction out.
//!
//! **Owns** the copying of heat and ranks. **Does not own** the copy of the policy within.

use super::{
    ByHeat,
    by_heat::OfGroup,
    folios::{Folio, Folios, Marks},
    owners::Owners,
};
use crate::{
    error::PolicyError,
    eviction_order::{Part, PlayedOut},
    ids::{FolioId, GroupId, Kind, SpaceNo},
};

impl<P: PlayedOut> PlayedOut for ByHeat<P> {
    fn part(&self, group: GroupId, kind: Kind) -> Result<Part<ByHeat<P>>, PolicyError> {
        let Part {
            policy,
            group: copy,
            originals,
        } = self.policy.part(group, kind)?;
        // Whose folios these are does not matter any more once they are ranked.
        let mut owners = Owners::default();
        let owner = owners.number(copy, SpaceNo::default());
        let mut folios = Folios::default();
        let mut put = |number: u32, folio: Folio| {
            folios.put(FolioId(number), folio);
            owners.came(owner);
        };
        for (original, number) in originals.iter().zip(0..) {
            if self.folios.owner(*original).is_some() {
                put(number, self.folios.copy(*original, owner));
            }
        }
        let mut part = OfGroup::default();
        if let Some(of) = self.group(group) {
            // By original: its number in the copy.
            let mut numbers: Vec<Option<u32>> = vec![None; self.folios.len()];
            for (original, number) in originals.iter().zip(0..) {
                numbers[original.index()] = Some(number);
            }
            let mut next = originals.len() as u32;
            for (folio, kind) in &of.ranked {
                let is_ranked = self.folios.marks(*folio).has(Marks::RANKED)
                    && self
                        .folios
                        .owner(*folio)
                        .is_some_and(|of| self.owners.get(of).group == group);
                let copied = numbers[folio.index()].filter(|_| is_ranked);
                let number = copied.unwrap_or_else(|| {
                    // What was not copied keeps its rank under a number that no folio has there; what has
                    // left keeps its place, which tells that not all that were ranked have been tried.
                    if is_ranked {
                        put(next, self.folios.copy(*folio, owner));
                    }
                    next += 1;
                    next - 1
                });
                part.ranked.push_back((FolioId(number), *kind));
            }
            part = of.ranked_as(part.ranked);
        }
        let mut groups = vec![OfGroup::default(); usize::from(copy.0)];
        groups.push(part);
        Ok(Part {
            policy: ByHeat {
                policy,
                ranks: self.ranks,
                folios,
                owners,
                groups,
                nr_arrivals: self.nr_arrivals,
                has_heat: self.has_heat,
                hints: Vec::new(),
            },
            group: copy,
            originals,
        })
    }
}
