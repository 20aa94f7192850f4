//! What happens to a folio unasked, and what the model makes of it.

use super::*;

impl Pair {
    pub(super) fn access(&mut self, id: FolioId, via: AccessVia) {
        self.engine.accessed(id, via);
        let folio = self.folios.get_mut(&id).unwrap();
        match via {
            AccessVia::PageTable => folio.is_young = true,
            AccessVia::FileDescriptor
                if folio.is_referenced && folio.half == Some(Half::Inactive) =>
            {
                folio.is_referenced = false;
                self.detach(id);
                self.activate(id);
            }
            AccessVia::FileDescriptor => folio.is_referenced = true,
        }
    }

    pub(super) fn hint(&mut self, id: FolioId) {
        self.engine.deactivate(id);
        let folio = self.folios.get_mut(&id).unwrap();
        (folio.is_referenced, folio.is_young) = (false, false);
        if folio.half == Some(Half::Active) {
            self.own_stats[folio.lruvec].nr_deactivated_pages += folio.nr_pages;
            self.detach(id);
            self.enter(id, Half::Inactive);
        }
    }

    pub(super) fn write(&mut self, id: FolioId, state: WriteState) {
        self.engine.set_write_state(id, state);
        let folio = self.folios.get_mut(&id).unwrap();
        let is_due = std::mem::take(&mut folio.is_to_rotate) && state == WriteState::Clean;
        if is_due && folio.half.is_some() {
            let (at, kind) = (folio.lruvec, folio.kind.index());
            self.own_stats[at].nr_rotated_pages += folio.nr_pages;
            self.detach(id);
            self.enter(id, Half::Inactive);
            let queue = &mut self.queues[at][Half::Inactive.index()][kind];
            queue.rotate_left(1);
        }
    }

    pub(super) fn gone(&mut self, id: FolioId, cause: GoneCause) -> Result<(), String> {
        let shadow = self.engine.gone(id, cause);
        if cause == GoneCause::Reclaimed {
            let folio = &self.folios[&id];
            let stats = &mut self.stats[folio.lruvec];
            stats.nr_kernel_evicted_pages[folio.kind.index()] += folio.nr_pages;
            self.bury(id, shadow)?;
        } else {
            check!(shadow.is_none(), "{id:?} was freed and left a shadow");
        }
        if self.folios[&id].half.is_some() {
            self.detach(id);
            self.folios.remove(&id);
        } else if let Some(folio) = self.folios.get_mut(&id) {
            folio.is_gone = true;
        }
        Ok(())
    }
}
