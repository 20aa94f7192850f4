//! The arms of a comparison: which there are, in which order they run, and which is held against which.
//!
//! **Owns** the list of arms, their order in a round, and the base of each. **Does not own** a run (`arm`), nor the memory
//! that a run gets (`compare`).
//!
//! **Invariants** I1: no arm runs first in every round, unless its memory is the measure of the next arm's limit.

use std::fmt;

use serde::{Deserialize, Serialize};

use strata_linux::units::Bytes;

strata_lru::named! {
    /// Who acts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ArmKind {
        /// Nobody acts, and no limit is met.
        None = "none",
        /// The kernel, at its limit.
        Kernel = "kernel",
        /// Strata.
        Strata = "strata",
    }
}

/// One way in which the command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Who acts.
    #[serde(rename = "arm")]
    pub kind: ArmKind,
    /// Limit or budget; `None` without one.
    pub budget_bytes: Option<u64>,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.budget_bytes {
            Some(bytes) => write!(f, " {}", Bytes(bytes)),
            None => Ok(()),
        }
    }
}

/// What the limit of the kernel's arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelLimit {
    /// The budget of Strata's arm.
    #[default]
    Budget,
    /// The memory that Strata's arm of the same budget used just before: its mean usage once it was full.
    MeanOfStrata,
}

/// The arms: those without a limit once, the others for each budget.
pub(super) fn arms(kinds: &[ArmKind], budgets_bytes: &[u64]) -> Vec<Arm> {
    let is_limited = |kind: &&ArmKind| **kind != ArmKind::None;
    let without = kinds
        .iter()
        .filter(|kind| !is_limited(kind))
        .map(|kind| Arm {
            kind: *kind,
            budget_bytes: None,
        });
    let with = budgets_bytes.iter().flat_map(|bytes| {
        kinds.iter().filter(is_limited).map(|kind| Arm {
            kind: *kind,
            budget_bytes: Some(*bytes),
        })
    });
    without.chain(with).collect()
}

/// The order of the arms in a round: there, and back in the next. Where Strata's arm is the measure of the kernel's limit,
/// it runs just before the kernel's arm of the same budget in both directions.
pub(super) fn order(arms: &[Arm], round: u32, kernel_limit: KernelLimit) -> Vec<Arm> {
    let mut order = arms.to_vec();
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    if kernel_limit == KernelLimit::MeanOfStrata {
        for at in 1..order.len() {
            let (earlier, later) = (order[at - 1], order[at]);
            let are_twins = earlier.budget_bytes == later.budget_bytes;
            if are_twins && (earlier.kind, later.kind) == (ArmKind::Kernel, ArmKind::Strata) {
                order.swap(at - 1, at);
            }
        }
    }
    order
}

/// The arm that another is held against: at the same budget who does less, else the first.
pub(super) fn base_of(arms: &[Arm], arm: Arm) -> Option<Arm> {
    let of_kind = |kind| {
        let mut of_kind = arms.iter().copied().filter(move |other| other.kind == kind);
        of_kind.find(|other| kind == ArmKind::None || other.budget_bytes == arm.budget_bytes)
    };
    let first = arms.first().copied().filter(|first| *first != arm);
    let has_strata = arms.iter().any(|other| other.kind == ArmKind::Strata);
    match arm.kind {
        ArmKind::None => None,
        ArmKind::Kernel if has_strata => of_kind(ArmKind::None),
        ArmKind::Kernel => of_kind(ArmKind::None).or(first),
        ArmKind::Strata => of_kind(ArmKind::Kernel)
            .or_else(|| of_kind(ArmKind::None))
            .or(first),
    }
}
