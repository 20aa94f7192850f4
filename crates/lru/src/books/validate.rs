//! Recounting: everything the books say, counted again from the folios.
//!
//! **Owns** the check. **Does not own** anything it checks.

use super::{Booked, Books};
use crate::{
    folio::{Flags, MAX_ORDER},
    group::ROOT,
    list::ListId,
};

/// A folio found on a list, for the policy to say whether it belongs there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) flags: Flags,
    pub(crate) generation: usize,
    pub(crate) list: ListId,
}

/// What is counted of one lruvec.
#[derive(Clone, Debug, Default)]
struct Counted {
    nr_pages: Vec<[u64; 2]>,
    nr_isolated_pages: u64,
}

impl<L: Booked> Books<L> {
    /// Recounts lists, sizes, isolated folios, charges and free slots. `check` is asked of each folio
    /// on a list, with its lruvec.
    pub(crate) fn recount(
        &self,
        check: impl Fn(&L, Listed) -> Result<(), String>,
    ) -> Result<(), String> {
        self.folios.validate()?;
        let nr_listed_folios = self.visit_lists(check)?;
        let mut counted = vec![Counted::default(); self.lruvecs.len()];
        for (of, lruvec) in counted.iter_mut().zip(&self.lruvecs) {
            of.nr_pages.resize(lruvec.nr_pages().len(), [0; 2]);
        }
        let mut nr_isolated_folios = 0;
        let mut own_pages = Vec::new();
        for flags in self.folios.flags.iter().filter(|flags| flags.is_live()) {
            let of_lruvec = &mut counted[flags.lruvec()];
            if flags.order().0 > MAX_ORDER {
                return Err(format!("impossible flags {flags:?}"));
            }
            match flags.generation() {
                Some(generation) => match of_lruvec.nr_pages.get_mut(generation) {
                    Some(sizes) => sizes[flags.kind().index()] += flags.nr_pages(),
                    None => return Err(format!("no generation index {generation}: {flags:?}")),
                },
                None => {
                    nr_isolated_folios += 1;
                    of_lruvec.nr_isolated_pages += flags.nr_pages();
                }
            }
            let group = usize::from(self.lruvecs[flags.lruvec()].account().group.0);
            if own_pages.len() <= group {
                own_pages.resize(group + 1, 0);
            }
            own_pages[group] += flags.nr_pages();
        }
        if nr_listed_folios + nr_isolated_folios != self.folios.nr_live() {
            let live = self.folios.nr_live();
            return Err(format!(
                "{nr_listed_folios} listed + {nr_isolated_folios} isolated, {live} live"
            ));
        }
        let owners = self.lruvecs.iter().map(|lruvec| lruvec.account().group);
        self.groups.validate(&own_pages, owners)?;
        for (number, (lruvec, counted)) in self.lruvecs.iter().zip(&counted).enumerate() {
            let nr_isolated_pages = lruvec.account().nr_isolated_pages;
            if lruvec.nr_pages() != counted.nr_pages
                || nr_isolated_pages != counted.nr_isolated_pages
            {
                let kept = (lruvec.nr_pages(), nr_isolated_pages);
                return Err(format!("lruvec {number}: {counted:?}, kept {kept:?}"));
            }
        }
        self.check_memcg_lrus()
    }

    /// Walks all lists; the folios on them.
    fn visit_lists(&self, check: impl Fn(&L, Listed) -> Result<(), String>) -> Result<u32, String> {
        let mut nr_listed_folios = 0;
        for (number, lruvec) in self.lruvecs.iter().enumerate() {
            let first = lruvec.account().first_list.0;
            for list in (first..first + L::nr_lists(self.shape)).map(ListId) {
                self.lists.visit(&self.folios, list, |folio| {
                    nr_listed_folios += 1;
                    let flags = self.flags(folio);
                    match flags.generation() {
                        Some(generation) if flags.lruvec() == number => {
                            let listed = Listed {
                                flags,
                                generation,
                                list,
                            };
                            check(lruvec, listed).map_err(|error| format!("{folio:?}: {error}"))
                        }
                        _ => Err(format!(
                            "{folio:?} with {flags:?} is on {list:?} of lruvec {number}"
                        )),
                    }
                })?;
            }
        }
        Ok(nr_listed_folios)
    }

    fn check_memcg_lrus(&self) -> Result<(), String> {
        for (node, lru) in self.memcg_lrus.iter().enumerate() {
            let accounts = self.lruvecs.iter().map(Booked::account);
            let of_node = accounts.filter(|of| usize::from(of.node.0) == node);
            let groups = of_node.map(|of| of.group).filter(|group| *group != ROOT);
            lru.validate(groups)
                .map_err(|error| format!("memcg LRU of node {node}: {error}"))?;
        }
        Ok(())
    }
}

impl Listed {
    /// Checks that the folio is on the very list that its flags name.
    pub(crate) fn is_in_place(self, lruvec: &impl Booked) -> Result<(), String> {
        if lruvec.list_of(self.generation, self.flags.kind()) == self.list {
            return Ok(());
        }
        Err(format!("{self:?} is not where its flags say"))
    }
}
