//! Lists of folios: circular, linked by index, each with a head of its own.
//!
//! A link holds a folio's index or, with the top bit set, a list's number. So a folio can be taken
//! out without knowing which list it is on: promotion by a walk changes a folio's generation and
//! leaves it where it is.
//!
//! ```text
//!   head  <->  youngest  <->  ...  <->  oldest  <->  (the same head)
//!           push_head here         tail() and push_tail here
//! ```
//!
//! **Owns** the heads and the meaning of links. **Does not own** the links themselves (the folio
//! table) or which folio belongs where.
//!
//! **Invariants**
//! - I1: `prev(next(x)) == x` for every folio on a list and every head.
//! - I2: a folio is on at most one list.

use crate::{
    folio::{FolioTable, LINK_IS_HEAD},
    ids::FolioId,
    rules::ListEnd,
};

/// Number of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListId(pub(crate) u32);

impl ListId {
    fn link(self) -> u32 {
        self.0 | LINK_IS_HEAD
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Head {
    youngest: u32,
    oldest: u32,
}

/// All list heads.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    heads: Vec<Head>,
}

impl Lists {
    /// Adds `count` empty lists and returns the number of the first.
    pub(crate) fn add(&mut self, count: u32) -> ListId {
        let first = self.heads.len() as u32;
        for number in first..first + count {
            let link = ListId(number).link();
            self.heads.push(Head {
                youngest: link,
                oldest: link,
            });
        }
        ListId(first)
    }

    pub(crate) fn is_empty(&self, list: ListId) -> bool {
        self.heads[list.index()].oldest == list.link()
    }

    /// The folio that has been on the list longest.
    pub(crate) fn tail(&self, list: ListId) -> Option<FolioId> {
        folio_of(self.heads[list.index()].oldest)
    }

    /// Puts a folio that is on no list at an end.
    pub(crate) fn push(
        &mut self,
        table: &mut FolioTable,
        list: ListId,
        end: ListEnd,
        folio: FolioId,
    ) {
        match end {
            ListEnd::Young => self.push_head(table, list, folio),
            ListEnd::Old => self.push_tail(table, list, folio),
        }
    }

    /// Puts a folio that is on no list at the young end.
    pub(crate) fn push_head(&mut self, table: &mut FolioTable, list: ListId, folio: FolioId) {
        let after = self.heads[list.index()].youngest;
        self.insert(table, list.link(), folio, after);
    }

    /// Puts a folio that is on no list at the old end.
    pub(crate) fn push_tail(&mut self, table: &mut FolioTable, list: ListId, folio: FolioId) {
        let before = self.heads[list.index()].oldest;
        self.insert(table, before, folio, list.link());
    }

    /// Takes a folio off whatever list it is on.
    pub(crate) fn remove(&mut self, table: &mut FolioTable, folio: FolioId) {
        let (before, after) = (table.prev[folio.index()], table.next[folio.index()]);
        self.set_next(table, before, after);
        self.set_prev(table, after, before);
    }

    /// Visits a list from the oldest folio to the youngest, checking the links on the way.
    pub(crate) fn visit(
        &self,
        table: &FolioTable,
        list: ListId,
        mut seen: impl FnMut(FolioId) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut after = list.link();
        let mut link = self.heads[list.index()].oldest;
        while let Some(folio) = folio_of(link) {
            let next = table.next.get(folio.index()).copied();
            if next != Some(after) {
                return Err(format!(
                    "{list:?}: next of {folio:?} is {next:?}, not {after}"
                ));
            }
            seen(folio)?;
            after = link;
            link = table.prev[folio.index()];
        }
        if link != list.link() || self.heads[list.index()].youngest != after {
            return Err(format!(
                "{list:?}: the old end does not lead to the young end"
            ));
        }
        Ok(())
    }

    /// Bytes allocated for the heads.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.heads.capacity() * size_of::<Head>()) as u64
    }

    fn insert(&mut self, table: &mut FolioTable, before: u32, folio: FolioId, after: u32) {
        table.prev[folio.index()] = before;
        table.next[folio.index()] = after;
        self.set_next(table, before, folio.0);
        self.set_prev(table, after, folio.0);
    }

    fn set_next(&mut self, table: &mut FolioTable, link: u32, to: u32) {
        match folio_of(link) {
            Some(folio) => table.next[folio.index()] = to,
            None => self.heads[(link & !LINK_IS_HEAD) as usize].youngest = to,
        }
    }

    fn set_prev(&mut self, table: &mut FolioTable, link: u32, to: u32) {
        match folio_of(link) {
            Some(folio) => table.prev[folio.index()] = to,
            None => self.heads[(link & !LINK_IS_HEAD) as usize].oldest = to,
        }
    }
}

fn folio_of(link: u32) -> Option<FolioId> {
    (link & LINK_IS_HEAD == 0).then_some(FolioId(link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        folio::Flags,
        ids::{Kind, Order},
    };

    fn oldest_first(lists: &Lists, table: &FolioTable, list: ListId) -> Vec<u32> {
        let mut order = Vec::new();
        lists
            .visit(table, list, |folio| {
                order.push(folio.0);
                Ok(())
            })
            .unwrap();
        order
    }

    #[test]
    fn a_folio_leaves_its_list_without_naming_it() {
        let mut table = FolioTable::new(16);
        let mut lists = Lists::default();
        let a = lists.add(2);
        let b = ListId(a.0 + 1);
        let flags = Flags::new(0, Kind::Anon, Order::BASE).with_generation(Some(0));
        let ids: Vec<FolioId> = (0..4).map(|_| table.allocate(flags).unwrap()).collect();
        lists.push_head(&mut table, a, ids[0]);
        lists.push_head(&mut table, a, ids[1]);
        lists.push_tail(&mut table, a, ids[2]);
        lists.push_head(&mut table, b, ids[3]);
        assert_eq!(oldest_first(&lists, &table, a), [2, 0, 1]);

        lists.remove(&mut table, ids[0]);
        lists.remove(&mut table, ids[3]);
        assert_eq!(oldest_first(&lists, &table, a), [2, 1]);
        assert!(lists.is_empty(b) && lists.tail(b).is_none());
        assert_eq!(lists.tail(a), Some(ids[2]));
    }

    #[test]
    fn a_broken_link_is_found() {
        let mut table = FolioTable::new(16);
        let mut lists = Lists::default();
        let list = lists.add(1);
        let flags = Flags::new(0, Kind::Anon, Order::BASE).with_generation(Some(0));
        for _ in 0..3 {
            let folio = table.allocate(flags).unwrap();
            lists.push_head(&mut table, list, folio);
        }
        table.next[1] = 1;
        assert!(lists.visit(&table, list, |_| Ok(())).is_err());
    }
}
