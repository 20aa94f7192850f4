//! What a space holds, by how lately it was used: the order in which it is put away, and, from the other end, read back.
//!
//! **Owns** that list. **Does not own** what may be taken of it: what several spaces map is in the list of each.

use super::places::Standing;
use super::table::Stamp;
use super::{Ledger, Run};
use crate::bits::{self, NR_ENTRIES};
use crate::ids::SpaceNo;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pages of a space that one walk was the last to tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// For how long they have certainly not been accessed.
    pub idle: Duration,
    /// The walk found the pages accessed; otherwise it only found them in memory.
    pub was_accessed: bool,
    /// The pages, by address within a place.
    pub runs: Vec<Run>,
}

impl Ledger {
    /// All that a space has in memory and whose age can be known, the oldest first.
    pub fn held(&self, space: SpaceNo) -> Vec<Generation> {
        let mut generations: BTreeMap<Stamp, Generation> = BTreeMap::new();
        let Some(of) = self.spaces.get(&space) else {
            return Vec::new();
        };
        let is_known = |place: &&super::Place| place.standing != Standing::Unseen;
        for place in of.places.iter().filter(is_known) {
            of.visit(place, &mut |table_no, table, mask| {
                let stamps = table.stamps();
                bits::ones(bits::and(table.present, *mask)).for_each(|index| {
                    let page = table_no * NR_ENTRIES as u64 + index as u64;
                    let stamp = stamps[index];
                    let idle = self.walks.age(stamp.number());
                    let generation = generations.entry(stamp).or_insert_with(|| Generation {
                        idle,
                        was_accessed: stamp.was_accessed(),
                        runs: Vec::new(),
                    });
                    match generation.runs.last_mut() {
                        Some(run) if run.first_page + run.nr_pages == page => run.nr_pages += 1,
                        _ => generation.runs.push(Run {
                            space,
                            first_page: page,
                            nr_pages: 1,
                            idle,
                        }),
                    }
                });
            });
        }
        generations.into_values().collect()
    }
}
