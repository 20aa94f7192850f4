//! Requests on tiers: hits, sweeps and promotion.
//!
//! **Owns** what comes up. **Does not own** where pages lie (`nodes`), what goes down (`reclaim`), or the rest of a replay (the
//! mechanism).

use strata_lru::{AccessVia, Cause, FolioId, Migrated, Policy, Tiering};
use strata_trace::{Op, Via};

use super::{super::Machine, nodes::FAST};
use crate::{simulate::SimError, workload::Request};

impl<P: Policy + ?Sized> Machine<'_, P> {
    pub(crate) fn access_on_tiers(
        &mut self,
        request: Request,
        position: usize,
    ) -> Result<(), SimError> {
        self.now = self.time(position);
        if self.now.since(self.tiers.swept_at) >= self.tiers.scan_period_ms {
            self.sweep();
        }
        let slot = self.layout.slot(request.page());
        let is_write = request.op() == Op::Write;
        let cause = match request.via() {
            Via::PageTable => Cause::Fault,
            Via::FileDescriptor => Cause::Read,
        };
        let found = self.memory.folio(slot);
        let folio = match found {
            Some(folio) => folio,
            None => self.fault(slot, request.page(), cause, position)?,
        };
        let node = self.tiers.node(slot);
        if found.is_some() {
            self.tiers.nr_hits[usize::from(node.0)] += 1;
        }
        if is_write {
            self.memory.dirty.set(slot);
        }
        let may_come_up = match request.via() {
            Via::PageTable => {
                self.memory.mapped.set(slot);
                self.memory.accessed.set(slot);
                self.tiers.hinted.take(slot) && self.hint_fault(folio)
            }
            Via::FileDescriptor => {
                // A read that goes on in the same page is not counted.
                let is_counted = is_write || self.last_read.replace(slot) != Some(slot);
                if is_counted {
                    self.policy.accessed(folio, AccessVia::FileDescriptor);
                }
                is_counted && node != FAST
            }
        };
        match may_come_up {
            true => self.promote(),
            false => Ok(()),
        }
    }

    pub(super) fn tiering(&mut self) -> &mut dyn Tiering {
        let tiering = self.policy.tiering();
        tiering.expect("the policy was made with tiers")
    }

    /// Makes every mapped page of a slower node fault at its next access.
    fn sweep(&mut self) {
        self.tiers.swept_at = self.now;
        for slot in 0..self.layout.nr_slots() {
            if self.memory.mapped.get(slot) && self.tiers.node(slot) != FAST {
                self.tiers.hinted.set(slot);
            }
        }
    }

    fn hint_fault(&mut self, folio: FolioId) -> bool {
        let latency_ms = self.now.since(self.tiers.swept_at);
        let (now, nr_free) = (self.now, self.nr_free_of(FAST));
        let tiering = self.tiering();
        tiering.tell_free(FAST, nr_free);
        tiering.hint_fault(folio, latency_ms, FAST, now)
    }

    /// Moves up what is queued, as far as there is room.
    fn promote(&mut self) -> Result<(), SimError> {
        let mut promotions = std::mem::take(&mut self.tiers.promotions);
        let (now, nr_free) = (self.now, self.nr_free_of(FAST));
        let tiering = self.tiering();
        tiering.tell_time(now);
        tiering.tell_free(FAST, nr_free);
        tiering.isolate_promotion(&mut promotions);
        let mut migrated = Vec::with_capacity(promotions.len());
        for promotion in &promotions {
            let slot = self.memory.slot(promotion.folio);
            migrated.push(if self.nr_free_of(promotion.to) > 0 {
                self.tiers.free(self.tiers.node(slot));
                self.tiers.enter(slot, promotion.to);
                Migrated::Moved
            } else {
                Migrated::Failed
            });
        }
        self.tiering().complete_promotion(&promotions, &migrated);
        self.tiers.promotions = promotions;
        self.keep_free(FAST)
    }

    /// Checks that pages lie where the policy has them, and neither node nor group holds more than it may.
    #[cfg(test)]
    pub(super) fn validate_nodes(&self) {
        self.validate().unwrap();
        let mut nr_used = vec![0; self.tiers.nodes.len()];
        for slot in 0..self.layout.nr_slots() {
            if self.memory.folio(slot).is_some() {
                nr_used[usize::from(self.tiers.node(slot).0)] += 1;
            }
        }
        let groups = self.groups.all();
        let views = groups.flat_map(|group| self.policy.view(group, self.now).unwrap());
        let views: Vec<_> = views.collect();
        for (number, (node, nr_used)) in self.tiers.nodes.iter().zip(nr_used).enumerate() {
            assert_eq!(node.nr_pages, node.nr_free + nr_used, "node {number}");
            let of_policy = views
                .iter()
                .filter(|view| usize::from(view.node.0) == number);
            let generations = of_policy.flat_map(|view| &view.generations);
            let nr_pages: u64 = generations
                .flat_map(|generation| generation.nr_pages.into_iter().flatten())
                .sum();
            assert_eq!(nr_pages, u64::from(nr_used), "node {number}");
        }
        for group in self.groups.all() {
            let over = self.policy.groups().over_max(group, 0).unwrap();
            assert_eq!(over, None, "{group:?}");
        }
    }
}
