//! Pages that several spaces of one group map, and nobody else: they go to another node, each once.

use super::model_tests::{Identity, Model, Whole};
use super::steps_tests::NR_GROUPS;
use super::tests::older_than;
use super::*;
use crate::ids::{NodeId, NodeSet};
use proptest::prelude::*;

impl Model {
    /// Of pages older than this, those that may go are given, once each, and no others.
    pub(super) fn check_shared(&self, ledger: &Ledger, older_s: u64) -> Result<(), TestCaseError> {
        let wholes = self.wholes();
        let may_go = |identity: &Identity, whole: &Whole| {
            let stands = |(space, number): &(u8, u64)| {
                let place = self.place_of(*space, *number).unwrap();
                matches!(place.standing, Standing::Ordinary | Standing::Code)
            };
            let is_theirs = match identity {
                Identity::Own(..) => false,
                Identity::Family(..) => true,
                // Somebody else was found to map it.
                Identity::Object(..) => !whole.is_several,
            };
            is_theirs
                && whole.mappers.len() > 1
                && whole.groups.len() == 1
                && !whole.is_unseen
                && whole.mappers.iter().all(stands)
                && self.now_s() - whole.youngest.at_s >= older_s
        };
        for group in 0..NR_GROUPS {
            let query = Query {
                on: Some(On {
                    nodes: NodeSet::from_iter([NodeId(0)]),
                    streak_min: 0,
                    moved: Moved::Any,
                    is_move: true,
                }),
                ..older_than(group, older_s)
            };
            let given = ledger.picker().candidates(&query).shared;
            let mut given: Vec<((u8, u64), usize)> = given
                .iter()
                .flat_map(|(run, nr_mappings)| {
                    let pages = run.first_page..run.first_page + run.nr_pages;
                    pages.map(|page| ((run.space.0 as u8, page), usize::from(*nr_mappings)))
                })
                .collect();
            let of_group = |(_, whole): &(&Identity, &Whole)| whole.groups.contains(&group);
            for (identity, whole) in wholes.iter().filter(of_group) {
                let of_whole = |(page, _): &((u8, u64), usize)| whole.mappers.contains(page);
                let told = given.iter().filter(|page| of_whole(page));
                let told: Vec<usize> = told.map(|(_, nr_mappings)| *nr_mappings).collect();
                let wanted = may_go(identity, whole).then_some(whole.mappers.len());
                prop_assert_eq!(told, Vec::from_iter(wanted), "{:?}", whole);
                given.retain(|page| !of_whole(page));
            }
            prop_assert_eq!(given, []);
        }
        Ok(())
    }
}
