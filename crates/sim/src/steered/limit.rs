//! The limit of the played kernel: what is decided of it, carried out.
//!
//! On v1 there is one limit, which stands at the line or above it. On v2 `memory.max` stands at the backstop and
//! `memory.high` at the line; a program that is above either reclaims before it goes on. In both the line can only be held
//! at once where usage is below it; until then the limit follows usage down.
//!
//! **Owns** carrying out the steps. **Does not own** which steps are taken (`strata_control::limit`), nor where the limits
//! stand (`world`).
//!
//! **Invariants** I1: the limit of the played kernel is the lower one of both.

use strata_control::{
    FreeSwap, GroupStats, PAGE_BYTES, Watermarks,
    drive::{Limits, hold_limit},
    limit::{Answer, Line, Need, Standing, Step, Trouble},
};
use strata_lru::machine::CgroupVersion;
use strata_lru::{Kind, TimeMs};

use super::world::{Bounds, World};
use crate::{
    mechanism::{Machine, PlaysKernel},
    simulate::SimError,
};

/// The limits of the played kernel, and what it counts.
struct PlayedLimits<'a, 'w, P> {
    machine: &'a Machine<'w, P>,
    bounds: &'a mut Bounds,
    marks: &'a Watermarks,
    hierarchy: CgroupVersion,
}

impl<P: PlaysKernel> Limits for PlayedLimits<'_, '_, P> {
    type Error = SimError;

    fn counters(&mut self) -> Result<Option<GroupStats>, SimError> {
        counters(self.machine).map(Some)
    }

    fn take_step(&mut self, step: Step) -> Result<Answer, SimError> {
        let backstop_pages = self.marks.backstop_bytes / PAGE_BYTES;
        let line_pages = self.marks.line_bytes / PAGE_BYTES;
        let usage_pages = u64::from(self.machine.nr_used_pages());
        let settled_pages = self.bounds.max_pages.min(backstop_pages.max(usage_pages));
        Ok(match step {
            Step::Done(_) => Answer::Done,
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
                self.bounds.max_pages = settled_pages;
                Answer::Done
            }
            Step::HoldLine => {
                let at_pages = line_pages.max(usage_pages);
                match self.hierarchy {
                    CgroupVersion::V1 => {
                        self.bounds.max_pages = self.bounds.max_pages.min(at_pages)
                    }
                    CgroupVersion::V2 => {
                        self.bounds.max_pages = settled_pages;
                        self.bounds.high_pages = Some(at_pages);
                    }
                }
                Answer::Line(match at_pages == line_pages {
                    true => Line::Held,
                    false => Line::Moving,
                })
            }
        })
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
        let need = Need {
            standing,
            is_under_oom,
            has_free_swap: self.has_swap,
            usage_bytes,
        };
        let mut limits = PlayedLimits {
            machine: &self.machine,
            bounds: &mut self.bounds,
            marks: &self.marks,
            hierarchy: self.setup.hierarchy,
        };
        let can_swap = self.has_swap && self.swappiness.get() > 0;
        let trouble = hold_limit(
            &mut self.limit,
            &mut limits,
            &self.recorder,
            now,
            need,
            &self.marks,
            can_swap,
        )?;
        if let Some(Trouble::Refused { .. }) = trouble {
            self.is_refused = true;
        }
        self.machine.set_limit_pages(self.bounds.lower_pages());
        Ok(())
    }

    pub(super) fn free_swap(&self) -> FreeSwap {
        match self.has_swap {
            true => FreeSwap::NotKnown,
            false => FreeSwap::Bytes(0),
        }
    }
}

/// What the kernel counts of the group.
pub(super) fn counters<P: PlaysKernel>(machine: &Machine<'_, P>) -> Result<GroupStats, SimError> {
    let [anon, file] = machine.list_pages()?;
    let stats = machine.group_stats()?;
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
