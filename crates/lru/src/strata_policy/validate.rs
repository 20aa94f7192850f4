//! Recounting: lists, sizes and isolated folios, counted again from the folios.
//!
//! **Owns** the check. **Does not own** anything it checks.

use super::{Strata, page::Part};
use crate::folio::MAX_ORDER;

impl Strata {
    /// Recounts everything that is kept track of.
    pub(super) fn recount(&self) -> Result<(), String> {
        self.folios.validate()?;
        let mut nr_listed_folios = 0;
        let mut nr_isolated_pages = vec![0; self.lruvecs.len()];
        for (number, lruvec) in self.lruvecs.iter().enumerate() {
            let mut nr_pages = [[0; 2]; 2];
            for part in Part::ALL {
                self.lists.visit(&self.folios, lruvec.list(part), |folio| {
                    let flags = self.flags(folio);
                    let is_at_home = part == Part::Trial || flags.home() == part;
                    if (flags.part(), flags.lruvec()) != (Some(part), number)
                        || flags.is_isolated()
                        || !is_at_home
                    {
                        return Err(format!(
                            "{folio:?} with {flags:?} is on the {part:?} list of lruvec {number}"
                        ));
                    }
                    nr_listed_folios += 1;
                    nr_pages[part.index()][flags.kind().index()] += flags.nr_pages();
                    Ok(())
                })?;
            }
            if lruvec.nr_pages != nr_pages {
                let kept = lruvec.nr_pages;
                return Err(format!(
                    "lruvec {number}: {nr_pages:?} pages, kept {kept:?}"
                ));
            }
            lruvec
                .window
                .validate()
                .map_err(|error| format!("lruvec {number}: {error}"))?;
        }
        let mut nr_isolated_folios = 0;
        let mut own_pages = Vec::new();
        for flags in self.folios.flags.iter().filter(|flags| flags.is_live()) {
            if flags.is_gone() && !flags.is_isolated() || flags.order().0 > MAX_ORDER {
                return Err(format!("impossible flags {flags:?}"));
            }
            let group = usize::from(self.lruvecs[flags.lruvec()].group.0);
            if own_pages.len() <= group {
                own_pages.resize(group + 1, 0);
            }
            own_pages[group] += flags.nr_pages();
            if flags.is_isolated() {
                nr_isolated_folios += 1;
                nr_isolated_pages[flags.lruvec()] += flags.nr_pages();
            }
        }
        let owners = self.lruvecs.iter().map(|lruvec| lruvec.group);
        self.groups.validate(&own_pages, owners)?;
        if nr_listed_folios + nr_isolated_folios != self.folios.nr_live() {
            let live = self.folios.nr_live();
            return Err(format!(
                "{nr_listed_folios} listed + {nr_isolated_folios} isolated, {live} live"
            ));
        }
        for (number, (lruvec, counted)) in self.lruvecs.iter().zip(&nr_isolated_pages).enumerate() {
            if lruvec.nr_isolated_pages != *counted {
                let kept = lruvec.nr_isolated_pages;
                return Err(format!(
                    "lruvec {number}: {counted} isolated pages, kept {kept}"
                ));
            }
        }
        if self.stamps.len() < self.folios.flags.len() {
            return Err("a folio has no stamp".to_owned());
        }
        Ok(())
    }
}
