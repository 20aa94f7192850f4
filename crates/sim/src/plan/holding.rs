//! How much of a budget is in memory while pages have to go.
//!
//! **Owns** the two ways to say it, and finding the budget of which enough is held. **Does not own** what
//! a holder really holds: it says that itself (`strata run`: `strata_control::Held`).
//!
//! **Invariants** I1: of a budget of at least one page at least one is held, and never more than all.

use serde::Serialize;
use std::str::FromStr;
use strata_control::{Config, Held};

use crate::memory::{MemorySize, PAGE_BYTES};

/// A figure, and the span it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span<T> {
    /// As far as is known.
    pub expected: T,
    /// The least of what was tried.
    pub lowest: T,
    /// The most.
    pub highest: T,
}

impl<T: Copy> Span<T> {
    /// One figure, known exactly.
    pub fn all(figure: T) -> Span<T> {
        Span::from([figure; 3])
    }

    /// Each figure turned into another.
    pub(super) fn map<U>(self, turn: impl Fn(T) -> U) -> Span<U> {
        Span::from([self.expected, self.lowest, self.highest].map(turn))
    }
}

impl<T> From<[T; 3]> for Span<T> {
    fn from([expected, lowest, highest]: [T; 3]) -> Span<T> {
        Span {
            expected,
            lowest,
            highest,
        }
    }
}

/// The least that may be said to be held, in millionths of the budget.
pub const SHARE_HELD_MIN: u64 = 100_000;

/// How much of a budget is in memory while pages have to go.
#[derive(Clone, Copy, Debug)]
pub enum Holding {
    /// So many millionths of it, from [`SHARE_HELD_MIN`] to a million.
    Share(u64),
    /// As its holder says.
    By {
        /// Name of the holder, which stands in the plan.
        name: &'static str,
        /// Bytes held of a budget in bytes; none of the three may fall as the budget grows.
        of: fn(u64) -> Span<u64>,
    },
}

impl Holding {
    /// All of a budget, as where the kernel's limit alone holds it.
    pub const ALL: Holding = Holding::Share(1_000_000);

    /// What `strata run` holds of a budget.
    pub const STRATA: Holding = Holding::By {
        name: "strata",
        of: |budget_bytes| {
            let held = Held::of(budget_bytes, &Config::default().watermarks);
            Span {
                expected: held.middle_bytes,
                lowest: held.least_bytes,
                highest: held.most_bytes,
            }
        },
    };

    /// Pages held of a budget in pages, at least 1.
    pub(super) fn pages(self, budget: u32) -> Span<u32> {
        let budget_bytes = u64::from(budget) * PAGE_BYTES;
        let bytes = match self {
            Holding::Share(millionths) => {
                let held = u128::from(budget_bytes) * u128::from(millionths) / 1_000_000;
                Span::all(u64::try_from(held).unwrap_or(u64::MAX))
            }
            Holding::By { of, .. } => of(budget_bytes),
        };
        bytes.map(|bytes| {
            u32::try_from((bytes / PAGE_BYTES).clamp(1, u64::from(budget))).unwrap_or(1)
        })
    }

    /// The smallest budget that holds so many pages for certain; `None` if none of 16 TiB does.
    pub(super) fn budget_of(self, pages: u32) -> Option<u32> {
        let (mut too_few, mut enough) = (pages.saturating_sub(1), u32::MAX);
        if self.pages(enough).lowest < pages {
            return None;
        }
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            match self.pages(middle).lowest >= pages {
                true => enough = middle,
                false => too_few = middle,
            }
        }
        Some(enough)
    }
}

/// A text that says nothing of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is strata, or a percentage from 10% to 100% such as 97.5%")]
pub struct BadHolding;

impl FromStr for Holding {
    type Err = BadHolding;

    /// Reads `strata` or a percentage of the budget.
    fn from_str(text: &str) -> Result<Holding, BadHolding> {
        if text == "strata" {
            return Ok(Holding::STRATA);
        }
        match text.parse() {
            Ok(MemorySize::Share(share)) if (SHARE_HELD_MIN..=1_000_000).contains(&share) => {
                Ok(Holding::Share(share))
            }
            _ => Err(BadHolding),
        }
    }
}

impl std::fmt::Display for Holding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Holding::Share(millionths) => write!(f, "{}", MemorySize::Share(millionths)),
            Holding::By { name, .. } => f.write_str(name),
        }
    }
}
