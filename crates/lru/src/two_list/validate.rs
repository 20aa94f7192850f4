//! Recounting: lists, sizes and isolated folios, counted again from the folios.
//!
//! **Owns** the check. **Does not own** anything it checks.

use super::{TwoList, lruvec::Counts, page::Half};
use crate::{folio::MAX_ORDER, ids::Kind};

impl TwoList {
    /// Recounts everything that is kept track of.
    pub(super) fn recount(&self) -> Result<(), String> {
        self.folios.validate()?;
        let mut nr_listed_folios = 0;
        for (number, lruvec) in self.lruvecs.iter().enumerate() {
            let mut counted = Counts::default();
            for (half, kind) in Half::ALL
                .into_iter()
                .flat_map(|half| Kind::ALL.map(|k| (half, k)))
            {
                self.lists.visit(&self.folios, lruvec.list(half, kind), |folio| {
                    let flags = self.flags(folio);
                    let place = (flags.half(), flags.kind(), flags.lruvec());
                    if place != (Some(half), kind, number) || flags.is_isolated() {
                        return Err(format!(
                            "{folio:?} with {flags:?} is on the {half:?} {kind} list of lruvec {number}"
                        ));
                    }
                    nr_listed_folios += 1;
                    counted[half.index()][kind.index()] += flags.nr_pages();
                    Ok(())
                })?;
            }
            if lruvec.nr_pages != counted {
                let kept = lruvec.nr_pages;
                return Err(format!("lruvec {number}: {counted:?} pages, kept {kept:?}"));
            }
        }
        let live = self.folios.flags.iter().filter(|flags| flags.is_live());
        let mut nr_isolated_folios = 0;
        let mut own_pages = Vec::new();
        for flags in live {
            if flags.is_gone() && !flags.is_isolated() || flags.order().0 > MAX_ORDER {
                return Err(format!("impossible flags {flags:?}"));
            }
            let group = usize::from(self.lruvecs[flags.lruvec()].group.0);
            if own_pages.len() <= group {
                own_pages.resize(group + 1, 0);
            }
            own_pages[group] += flags.nr_pages();
            nr_isolated_folios += u32::from(flags.is_isolated());
        }
        let owners = self.lruvecs.iter().map(|lruvec| lruvec.group);
        self.groups.validate(&own_pages, owners)?;
        let kept = (self.nr_isolated_folios, self.folios.nr_live());
        if kept != (nr_isolated_folios, nr_isolated_folios + nr_listed_folios) {
            return Err(format!(
                "{nr_listed_folios} listed, {nr_isolated_folios} isolated; kept isolated, live: {kept:?}"
            ));
        }
        Ok(())
    }
}
