//! Recounting: everything the engine keeps track of, counted again from the folios.
//!
//! **Owns** the check. **Does not own** anything it checks.

use super::MultiGen;
use crate::{
    folio::MAX_ORDER,
    group::ROOT,
    ids::{FolioId, Kind},
    lruvec::MAX_NR_GENS,
};

impl MultiGen {
    /// Recounts lists, sizes, windows, flags, isolated folios and free slots.
    pub(super) fn recount(&self) -> Result<(), String> {
        self.folios.validate()?;
        self.spaces.validate()?;
        let mut nr_listed_folios = 0;
        let mut nr_pages = vec![[[0u64; 2]; MAX_NR_GENS]; self.lruvecs.len()];
        for (number, lruvec) in self.lruvecs.iter().enumerate() {
            lruvec
                .validate()
                .and_then(|()| {
                    let nr_spaces = self.spaces.row(lruvec.group).len();
                    lruvec.walk.cursor.validate(nr_spaces, lruvec.max_seq)
                })
                .map_err(|error| format!("lruvec {number}: {error}"))?;
            for kind in Kind::ALL {
                for generation in 0..lruvec.nr_gens_max() {
                    self.lists
                        .visit(&self.folios, lruvec.list(generation, kind), |folio| {
                            nr_listed_folios += 1;
                            self.check_listed(folio, number, kind, generation)
                        })?;
                }
            }
        }
        let mut nr_isolated_folios = 0;
        let mut own_pages = Vec::new();
        for (slot, flags) in self
            .folios
            .flags
            .iter()
            .enumerate()
            .filter(|of| of.1.is_live())
        {
            let is_in_ring = flags
                .generation()
                .is_none_or(|generation| generation < usize::from(self.rules.nr_gens));
            let is_countable = flags.refs_field() <= self.counting.field_max();
            if !is_in_ring || !is_countable || flags.order().0 > MAX_ORDER {
                return Err(format!("folio {slot} has impossible flags {flags:?}"));
            }
            let group = usize::from(self.lruvecs[flags.lruvec()].group.0);
            if own_pages.len() <= group {
                own_pages.resize(group + 1, 0);
            }
            own_pages[group] += flags.nr_pages();
            nr_isolated_folios += u32::from(flags.is_isolated());
            if let Some(generation) = flags.generation() {
                nr_pages[flags.lruvec()][generation][flags.kind().index()] += flags.nr_pages();
            }
        }
        if nr_isolated_folios != self.nr_isolated_folios {
            let counted = self.nr_isolated_folios;
            return Err(format!(
                "{nr_isolated_folios} isolated folios, counted {counted}"
            ));
        }
        if nr_listed_folios + nr_isolated_folios != self.folios.nr_live() {
            let live = self.folios.nr_live();
            return Err(format!(
                "{nr_listed_folios} listed + {nr_isolated_folios} isolated, {live} live"
            ));
        }
        let owners = self.lruvecs.iter().map(|lruvec| lruvec.group);
        self.groups.validate(&own_pages, owners)?;
        for (node, lru) in self.memcg_lrus.iter().enumerate() {
            let of_node = self
                .lruvecs
                .iter()
                .filter(|of| usize::from(of.node.0) == node);
            let groups = of_node.map(|of| of.group).filter(|group| *group != ROOT);
            lru.validate(groups)
                .map_err(|error| format!("memcg LRU of node {node}: {error}"))?;
        }
        for (number, (lruvec, counted)) in self.lruvecs.iter().zip(&nr_pages).enumerate() {
            if lruvec.nr_pages != *counted {
                let kept = lruvec.nr_pages;
                return Err(format!("lruvec {number}: {counted:?} pages, kept {kept:?}"));
            }
        }
        Ok(())
    }

    fn check_listed(
        &self,
        folio: FolioId,
        number: usize,
        kind: Kind,
        list_generation: usize,
    ) -> Result<(), String> {
        let flags = self.flags(folio);
        let lruvec = &self.lruvecs[number];
        let Some(generation) = flags.generation() else {
            return Err(format!("{folio:?} is on a list and in no generation"));
        };
        if flags.lruvec() != number || flags.kind() != kind {
            return Err(format!(
                "{folio:?} with {flags:?} is on a {kind} list of lruvec {number}"
            ));
        }
        let age = |index: usize| lruvec.age_of_index(index);
        let is_in_window = (age(list_generation) as u64) < lruvec.nr_gens(kind);
        let is_sorted_up = age(generation) <= age(list_generation);
        let is_in_place = is_in_window && is_sorted_up;
        if !lruvec.has_overlapped[kind.index()] && !is_in_place {
            return Err(format!(
                "{folio:?} of generation index {generation} is on list {list_generation} \
                 of {kind} {}..={}",
                lruvec.min_seq[kind.index()],
                lruvec.max_seq
            ));
        }
        Ok(())
    }
}
