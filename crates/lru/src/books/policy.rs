//! What a policy answers from its books alone, or hands on to one of its parts, and an lruvec from its fields, the same for all of them.
//!
//! **Owns** the forwarding. **Does not own** any answer.

/// The functions of [`Policy`](crate::Policy) that need nothing but `self.books`, and those whose parts have one name in all policies.
macro_rules! answered_by_books {
    () => {
        fn deactivate(&mut self, folio: FolioId) {
            self.cool(folio);
        }

        fn set_write_state(&mut self, folio: FolioId, state: WriteState) {
            self.wait_for_writeback(folio, state);
        }

        fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
            if cause == GoneCause::Freed {
                self.judge.freed(folio);
            }
            self.leave(folio, cause)
        }

        fn kind(&self, folio: FolioId) -> Kind {
            self.books.flags(folio).kind()
        }

        fn order(&self, folio: FolioId) -> Order {
            self.books.flags(folio).order()
        }

        fn view(&self, group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError> {
            self.books.view(group, now)
        }

        fn stats(&self, group: GroupId) -> Result<ReclaimStats, PolicyError> {
            self.books.stats(group)
        }

        fn groups(&self) -> &GroupTree {
            &self.books.groups
        }

        fn groups_mut(&mut self) -> &mut GroupTree {
            &mut self.books.groups
        }

        fn set_limits(&mut self, group: GroupId, limits: Limits) -> Result<(), PolicyError> {
            self.books.groups.set_limits(group, limits)
        }

        fn swap_freed(&mut self, group: GroupId, nr_pages: u64) -> Result<(), PolicyError> {
            self.books.swap_freed(group, nr_pages)
        }

        fn nr_evictable_pages(
            &self,
            group: GroupId,
            node: Option<NodeId>,
            swappiness: Swappiness,
        ) -> Result<u64, PolicyError> {
            self.books.nr_evictable_pages(group, node, swappiness)
        }
    };
}

/// The functions of [`Booked`](super::Booked) that give `self.account` and `self.nr_pages`.
macro_rules! answered_by_fields {
    () => {
        fn account(&self) -> &Account {
            &self.account
        }

        fn account_mut(&mut self) -> &mut Account {
            &mut self.account
        }

        fn nr_pages(&self) -> &[[u64; 2]] {
            &self.nr_pages
        }

        fn nr_pages_mut(&mut self) -> &mut [[u64; 2]] {
            &mut self.nr_pages
        }
    };
}

pub(crate) use {answered_by_books, answered_by_fields};
