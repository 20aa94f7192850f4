//! A copy of what one group's eviction goes by, to play it out beside the real books.
//!
//! ```text
//!   books:  folios of all groups, every list      excerpt:  folios of one group, its lists alone
//!           folio 7, 12, 40 ...        ------->             folio 0, 1, 2 ...   originals: 7, 12, 40 ...
//! ```
//!
//! **Owns** the copying. **Does not own** what is played on it (`crate::eviction_order`), or what else
//! of a policy decides.
//!
//! **Invariants**
//! - I1: the books that are copied from do not change.
//! - I2: lists, flags and sizes of the kinds copied are those of the group, in the same order; what is
//!   isolated is in no list there either.

use super::{Account, Booked, Books};
use crate::{
    error::PolicyError,
    folio::{FolioTable, MAX_FOLIOS},
    group::{GroupTree, ROOT},
    ids::{FolioId, GroupId, Kind},
    list::{ListId, Lists},
};

/// The books of one group alone.
#[derive(Debug)]
pub(crate) struct Excerpt<L: Booked> {
    pub(crate) books: Books<L>,
    /// The group, as it is called there.
    pub(crate) group: GroupId,
    /// By folio there: the folio it was copied from.
    pub(crate) originals: Vec<FolioId>,
}

impl<L: Booked> Books<L> {
    /// Copies a group with its lists of these kinds. Sizes are copied of both kinds; a policy with both
    /// kinds on one list asks for both.
    pub(crate) fn excerpt(
        &self,
        group: GroupId,
        kinds: &[Kind],
    ) -> Result<Excerpt<L>, PolicyError> {
        let of = self.group(group)?;
        let mut groups = GroupTree::new(self.groups.sharing());
        let copy = groups.add(ROOT, "")?;
        // What is isolated is charged, too: the group is there as long as the real one.
        groups.charge(copy, self.groups.usage_pages(group)?);
        if of.is_offline() {
            groups.take_offline(copy)?;
        }
        let mut excerpt = Excerpt {
            books: Books {
                folios: FolioTable::new(MAX_FOLIOS),
                lists: Lists::default(),
                lruvecs: Vec::new(),
                groups,
                memcg_lrus: Vec::new(),
                memcg_seed: None,
                shape: self.shape,
                now: self.now,
            },
            group: copy,
            originals: Vec::new(),
        };
        for number in &of.lruvecs {
            excerpt.add_lruvec(self, usize::from(*number), kinds)?;
        }
        Ok(excerpt)
    }
}

impl<L: Booked> Excerpt<L> {
    fn add_lruvec(
        &mut self,
        from: &Books<L>,
        number: usize,
        kinds: &[Kind],
    ) -> Result<(), PolicyError> {
        let original = &from.lruvecs[number];
        let nr_lists = L::nr_lists(from.shape);
        let copy = self.books.groups.add_lruvec(self.group)?;
        let first_list = self.books.lists.add(nr_lists);
        self.books.lruvecs.push(original.copied(Account {
            group: self.group,
            first_list,
            ..original.account().clone()
        }));
        for offset in 0..nr_lists {
            let list = ListId(original.account().first_list.0 + offset);
            let mut oldest_first = from.lists.oldest_first(&from.folios, list).peekable();
            let is_wanted = |folio: &FolioId| kinds.contains(&from.flags(*folio).kind());
            if !oldest_first.peek().is_some_and(is_wanted) {
                continue;
            }
            for original in oldest_first {
                let flags = from.flags(original).with_lruvec(copy);
                let books = &mut self.books;
                let folio = books.folios.allocate(flags);
                let folio = folio.ok_or(PolicyError::TableFull(MAX_FOLIOS))?;
                let list = ListId(first_list.0 + offset);
                books.lists.push_head(&mut books.folios, list, folio);
                self.originals.push(original);
            }
        }
        Ok(())
    }
}
