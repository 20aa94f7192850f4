//! Recounting: everything the engine keeps track of, counted again from the folios.
//!
//! **Owns** what is checked of generations and walks. **Does not own** anything it checks, or the
//! recount of lists and sizes ([`crate::books`]).

use super::MultiGen;
use crate::{books::Listed, lruvec::Lruvec};

impl MultiGen {
    /// Recounts lists, sizes, windows, flags, isolated folios and free slots.
    pub(super) fn recount(&self) -> Result<(), String> {
        self.books.recount(check_listed)?;
        self.spaces.validate()?;
        for (number, lruvec) in self.books.lruvecs.iter().enumerate() {
            let nr_spaces = self.spaces.row(lruvec.account.group).len();
            let cursor = &lruvec.walk.cursor;
            lruvec
                .validate()
                .and_then(|()| cursor.validate(nr_spaces, lruvec.max_seq))
                .map_err(|error| format!("lruvec {number}: {error}"))?;
        }
        let nr_gens = usize::from(self.rules.nr_gens);
        for flags in self.books.folios.flags.iter().filter(|of| of.is_live()) {
            let is_in_ring = flags.generation().is_none_or(|index| index < nr_gens);
            let is_countable = flags.refs_field() <= self.counting.field_max();
            if !is_in_ring || !is_countable {
                return Err(format!("impossible flags {flags:?}"));
            }
        }
        Ok(())
    }
}

/// A folio is on a list of its kind within the window, never on one younger than its generation.
fn check_listed(lruvec: &Lruvec, listed: Listed) -> Result<(), String> {
    let kind = listed.flags.kind();
    let list_generation = lruvec.generation_of(listed.list, kind);
    let Some(list_generation) = list_generation else {
        return Err(format!("{listed:?} is on no {kind} list"));
    };
    let age = |index: usize| lruvec.age_of_index(index);
    let is_in_window = (age(list_generation) as u64) < lruvec.nr_gens(kind);
    let is_sorted_up = age(listed.generation) <= age(list_generation);
    if lruvec.has_overlapped[kind.index()] || is_in_window && is_sorted_up {
        return Ok(());
    }
    Err(format!(
        "{listed:?} is on list {list_generation} of {kind} {}..={}",
        lruvec.min_seq[kind.index()],
        lruvec.max_seq
    ))
}
