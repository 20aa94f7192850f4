//! The rules in which kernels differ, written out plainly once more: by the kernel's name.

use super::{Folio, Remembered, Window};
use crate::{ids::Kind, model::KernelModel, seam::Cause};

/// Kernels up to 6.13 have the workingset flag as a part of the count, and promote at once.
pub(super) fn is_v1(kernel: KernelModel) -> bool {
    use KernelModel::{V6_1, V2021, V2022};
    matches!(kernel, V2021 | V2022 | V6_1)
}

impl Folio {
    pub(super) fn forget(&mut self, kernel: KernelModel) {
        self.is_referenced = false;
        self.refs = 0;
        self.is_count_known = true;
        if is_v1(kernel) {
            self.is_workingset = false;
        }
    }

    pub(super) fn count(&mut self, kernel: KernelModel) {
        if !self.is_referenced {
            self.is_referenced = true;
            if !is_v1(kernel) {
                self.refs = 0;
            }
        } else if is_v1(kernel) && !self.is_workingset {
            self.is_workingset = true;
        } else if self.refs < 3 {
            self.refs += 1;
        } else {
            self.is_workingset = true;
        }
    }

    /// Whether a walk that finds it young makes it the youngest.
    pub(super) fn found_young(&mut self, kernel: KernelModel) -> bool {
        if is_v1(kernel) {
            if self.seq.is_some() {
                self.forget(kernel);
            } else {
                self.is_referenced = true;
            }
            return true;
        }
        let is_exec = kernel == KernelModel::V7_2 && self.is_exec;
        if !self.is_referenced && !self.is_workingset && !is_exec {
            self.is_referenced = true;
            return false;
        }
        self.is_workingset = true;
        self.forget(kernel);
        true
    }

    /// Whether the last look before its eviction promotes it, from 6.14 on.
    pub(super) fn is_young_at_last(&mut self, kernel: KernelModel) -> bool {
        let is_known = self.is_referenced || self.is_workingset;
        if kernel == KernelModel::V7_2 && self.is_exec {
            return true;
        }
        if !is_known {
            self.is_referenced = true;
            return false;
        }
        if kernel != KernelModel::V7_2 {
            self.is_workingset = true;
            self.forget(kernel);
        } else if self.is_referenced && self.refs > 0 {
            self.is_workingset = true;
        } else {
            self.count(kernel);
        }
        true
    }

    pub(super) fn refs_in_shadow(&self, kernel: KernelModel) -> u64 {
        match self.is_referenced || is_v1(kernel) {
            true => self.refs,
            false => 0,
        }
    }

    /// Gets back what it had when it left lately.
    pub(super) fn restore(&mut self, kernel: KernelModel, old: &Remembered, cause: Cause) {
        if !is_v1(kernel) {
            self.is_workingset = old.is_workingset;
            self.refs = if old.is_workingset { 0 } else { old.refs };
            return;
        }
        let enough = if kernel == KernelModel::V6_1 { 3 } else { 4 };
        if cause == Cause::Fault || old.refs + u64::from(old.is_workingset) >= enough {
            self.is_workingset = true;
            self.refs = 3;
        }
    }

    /// Whether somebody waits for it when it arrives; by 7.2 only for the working set, and anything
    /// else that is faulted in is counted.
    pub(super) fn is_awaited(&mut self, kernel: KernelModel, cause: Cause) -> bool {
        let is_fault = cause == Cause::Fault;
        if kernel != KernelModel::V7_2 || !is_fault {
            return is_fault;
        }
        if !self.is_workingset {
            self.count(kernel);
        }
        self.is_workingset
    }

    /// Whether eviction may spare it for what was counted.
    pub(super) fn is_warm(&self, kernel: KernelModel) -> bool {
        self.is_workingset || self.refs > 0 && (self.is_referenced || is_v1(kernel))
    }

    /// Whether eviction must spare it for what was counted.
    pub(super) fn is_saturated(&self, kernel: KernelModel) -> bool {
        let is_full = self.refs == 3 && self.is_workingset;
        match kernel {
            KernelModel::V2021 | KernelModel::V2022 => false,
            KernelModel::V6_1 => is_full,
            _ => is_full && self.is_referenced,
        }
    }

    /// Whether eviction steps over it because it waits to be written.
    pub(super) fn is_stepped_over(&self, kernel: KernelModel) -> bool {
        self.is_waiting && kernel != KernelModel::V7_2
    }
}

impl Window {
    pub(super) fn is_recent(&self, kernel: KernelModel, kind: Kind, min_seq: u64) -> bool {
        match is_v1(kernel) {
            true => self.min[kind.index()] == min_seq,
            false => self.max - min_seq < 4,
        }
    }

    /// The generation a folio enters.
    pub(super) fn entry(
        &self,
        kernel: KernelModel,
        folio: &Folio,
        is_active: bool,
        is_busy: bool,
    ) -> u64 {
        let (min, max) = (self.min[folio.kind.index()], self.max);
        let third = if min + 2 >= max { min } else { min + 1 };
        let seq = match (kernel, is_active, is_busy) {
            (_, true, _) if is_v1(kernel) || folio.is_workingset => max,
            (_, true, _) => max - 1,
            (KernelModel::V2022, false, true) => min + 1,
            (KernelModel::V2021, false, true) => min,
            (_, false, true) => max - 1,
            (KernelModel::V2021 | KernelModel::V2022, false, false) => min,
            (KernelModel::V6_1, false, false) => third,
            _ if folio.is_workingset => max - 2,
            _ => max - 3,
        };
        seq.max(min)
    }

    /// The generation of a folio that was due before it was written.
    pub(super) fn rotated(&self, kernel: KernelModel, kind: Kind) -> u64 {
        let min = self.min[kind.index()];
        match is_v1(kernel) {
            true => min,
            false => (self.max - 3).max(min),
        }
    }
}
