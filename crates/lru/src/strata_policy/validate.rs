//! Recounting: lists, sizes and isolated folios, counted again from the folios.
//!
//! **Owns** what is checked of parts, ages and windows. **Does not own** anything it checks, or the recount
//! of lists and sizes ([`crate::books`]).

use super::{Strata, ages::Ages, page::Part};

impl Strata {
    /// Recounts everything that is kept track of.
    pub(super) fn recount(&self) -> Result<(), String> {
        self.books.recount(|lruvec, listed| {
            listed.is_in_place(lruvec)?;
            let flags = listed.flags;
            // One that passed the test is moved when eviction gets there.
            if flags.part() == Some(Part::Proven) && flags.home() == Part::Trial {
                return Err(format!("{listed:?} never passed the test"));
            }
            Ok(())
        })?;
        for (number, lruvec) in self.books.lruvecs.iter().enumerate() {
            lruvec
                .window
                .validate()
                .map_err(|error| format!("lruvec {number}: {error}"))?;
            let mut ages = Ages::default();
            let proven = lruvec.list(Part::Proven);
            self.books
                .lists
                .visit(&self.books.folios, proven, |folio| {
                    ages.add(self.age(folio), lruvec.nr_accesses);
                    Ok(())
                })?;
            lruvec
                .ages
                .validate(ages, lruvec.nr_accesses)
                .map_err(|error| format!("lruvec {number}: {error}"))?;
        }
        if self.stamps.len() < self.books.folios.flags.len() {
            return Err("a folio has no stamp".to_owned());
        }
        Ok(())
    }
}
