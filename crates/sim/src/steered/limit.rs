//! The limit of the played kernel: what is decided of it, carried out.
//!
//! On v1 there is one limit, which stands at the line or above it. On v2 `memory.max` stands at the backstop and
//! `memory.high` at the line; a program that is above either reclaims before it goes on. In both the line can only be held
//! at once where usage is below it; until then the limit follows usage down.
//!
//! **Owns** where the limits stand, and carrying out the steps. **Does not own** which steps are taken
//! (`strata_control::limit`).
//!
//! **Invariants** I1: the limit of the played kernel is the lower one of both.

use strata_control::{
    GroupStats, PAGE_BYTES,
    limit::{Answer, Need, Standing, Step, Trouble},
};
use strata_lru::{Kind, Swappiness, TimeMs};

use super::{Hierarchy, world::World};
use crate::{mechanism::PlaysKernel, simulate::SimError};

/// Where the limits stand, pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The hard one.
    pub(super) max_pages: u64,
    /// `memory.high`, on v2.
    pub(super) high_pages: Option<u64>,
}

impl Bounds {
    fn lower_pages(self) -> u32 {
        let pages = self
            .high_pages
            .map_or(self.max_pages, |high| high.min(self.max_pages));
        u32::try_from(pages).unwrap_or(u32::MAX)
    }
}

impl<P: PlaysKernel> World<'_, P> {
    pub(super) fn adjust_limit(
        &mut self,
        now: TimeMs,
        standing: Standing,
        is_under_oom: bool,
    ) -> Result<(), SimError> {
        let usage_bytes = self.usage_bytes();
        let reading = self.look_at_lists(now, usage_bytes)?;
        self.limit
            .set_left(self.control.is_left_to_programs(), reading);
        let can_swap = self.has_swap && self.swappiness.get() > 0;
        let wanted =
            self.limit
                .wants_counters(now, &self.marks, usage_bytes, can_swap, is_under_oom);
        if wanted == Some(true) {
            let stats = self.counters()?;
            self.limit
                .take_counters(now, Some(stats), usage_bytes, can_swap, is_under_oom);
            self.control.note_reading();
        }
        let need = Need {
            standing,
            is_under_oom,
            has_free_swap: self.has_swap,
            usage_bytes,
        };
        let mut step = self.limit.start(now, need, &self.marks);
        while let Some(answer) = self.carry_out_step(step) {
            step = self.limit.next(answer);
        }
        if let Step::Done(Some(Trouble::Refused { .. })) = step {
            self.is_refused = true;
        }
        self.machine.set_limit_pages(self.bounds.lower_pages());
        self.lean(now);
        Ok(())
    }

    /// What came of a step; `None`: nothing follows.
    fn carry_out_step(&mut self, step: Step) -> Option<Answer> {
        let backstop_pages = self.marks.backstop_bytes / PAGE_BYTES;
        let line_pages = self.marks.line_bytes / PAGE_BYTES;
        let usage_pages = u64::from(self.machine.nr_used_pages());
        Some(match step {
            Step::Done(_) => return None,
            Step::LookAtLimit => Answer::Limit(Some(self.bounds.max_pages * PAGE_BYTES)),
            Step::LookAtUsage => Answer::Usage(usage_pages * PAGE_BYTES),
            Step::ReleaseLine => {
                self.bounds.max_pages = self.bounds.max_pages.max(backstop_pages);
                Answer::Done
            }
            Step::ReleaseHigh => {
                self.bounds.high_pages = None;
                Answer::Done
            }
            Step::Raise { bytes } => {
                self.bounds.max_pages += bytes / PAGE_BYTES;
                Answer::Raised(bytes / PAGE_BYTES * PAGE_BYTES)
            }
            Step::HandBackOom => Answer::Done,
            Step::Settle => {
                let lowest = backstop_pages.max(usage_pages);
                self.bounds.max_pages = self.bounds.max_pages.min(lowest);
                Answer::Done
            }
            Step::HoldLine => {
                let at_pages = line_pages.max(usage_pages);
                match self.setup.hierarchy {
                    Hierarchy::V1 => self.bounds.max_pages = self.bounds.max_pages.min(at_pages),
                    Hierarchy::V2 => {
                        let lowest = backstop_pages.max(usage_pages);
                        self.bounds.max_pages = self.bounds.max_pages.min(lowest);
                        self.bounds.high_pages = Some(at_pages);
                    }
                }
                Answer::Line {
                    is_held: at_pages == line_pages,
                }
            }
        })
    }

    /// What the kernel counts of the group.
    fn counters(&self) -> Result<GroupStats, SimError> {
        let [anon, file] = self.machine.list_pages()?;
        let stats = self.machine.group_stats()?;
        let bytes = |pages: [u64; 2]| Some((pages[0] + pages[1]) * PAGE_BYTES);
        let refaulted = |kind: Kind| Some(stats.nr_refaulted_pages[kind.index()].iter().sum());
        Ok(GroupStats {
            anon_bytes: bytes(anon),
            file_bytes: bytes(file),
            lru_anon_bytes: bytes(anon),
            lru_file_bytes: bytes(file),
            inactive_bytes: Some((anon[0] + file[0]) * PAGE_BYTES),
            nr_pgscan_pages: Some(stats.nr_scanned_pages),
            nr_pgsteal_pages: Some(stats.nr_evicted_pages.iter().sum()),
            nr_refault_anon_pages: refaulted(Kind::Anon),
            nr_refault_file_pages: refaulted(Kind::File),
            ..GroupStats::default()
        })
    }

    /// The kernel's balance of anon and file pages, where Strata may change it.
    fn lean(&mut self, now: TimeMs) {
        let is_ahead = !self.control.is_left_to_programs();
        let lists = self.limit.pressing_counters().filter(|_| is_ahead);
        let changed = self.bias.change(now, lists);
        if let Some(swappiness) = changed.and_then(Swappiness::try_new) {
            match self.setup.hierarchy {
                Hierarchy::V1 => self.machine.set_swappiness(swappiness),
                // It goes with each request of ours.
                Hierarchy::V2 => self.asked_swappiness = swappiness,
            }
        }
    }
}
