//! What a kill does to a machine, and a cold start.
//!
//! **Owns** freeing what was killed, and replaying a start. **Does not own** who is killed and when (`killer`).

use strata_lru::{AccessVia, Kind, Policy};

use super::Machine;
use crate::{
    simulate::SimError,
    workload::{PageId, Request},
};

impl<P: Policy + ?Sized> Machine<'_, P> {
    /// Makes a request; an app that was killed starts before.
    pub(super) fn request_of_app(
        &mut self,
        request: Request,
        position: usize,
    ) -> Result<(), SimError> {
        let Some(killer) = &mut self.killer else {
            return self.request(request, position);
        };
        let nr_file_pages = self.nr_pages[Kind::File.index()];
        let number = self.workload.page(request.page()).group;
        let start = killer.runs(number.into(), position, nr_file_pages);
        self.groups.replayed(number, start.len() as u64);
        for request in &self.workload.requests()[start] {
            self.request_or_kill(*request, position)?;
        }
        self.request_or_kill(request, position)
    }

    fn request_or_kill(&mut self, request: Request, position: usize) -> Result<(), SimError> {
        self.request(request, position)?;
        if self.killer.as_ref().is_some_and(|killer| killer.is_due()) {
            self.kill()?;
        }
        Ok(())
    }

    /// Kills an app, if there is a killer and one to be killed.
    pub(super) fn kill(&mut self) -> Result<bool, SimError> {
        let nr_file_pages = self.nr_pages[Kind::File.index()];
        let killer = self.killer.as_mut();
        let Some(number) = killer.and_then(|killer| killer.kill(nr_file_pages)) else {
            return Ok(false);
        };
        for (page, of) in (0..).map(PageId).zip(self.workload.pages()) {
            match (usize::from(of.group) == number, of.backing.is_file()) {
                (true, false) => self.free(page)?,
                (true, true) => self.unmap(page),
                (false, _) => {}
            }
        }
        Ok(true)
    }

    /// Takes away the entry of a page, which counts as a read if it was accessed, as in the kernel.
    fn unmap(&mut self, page: PageId) {
        let slot = self.layout.slot(page);
        self.memory.mapped.clear(slot);
        if self.memory.accessed.take(slot)
            && let Some(folio) = self.memory.folio(slot)
        {
            self.policy.accessed(folio, AccessVia::FileDescriptor);
        }
    }
}
