//! What the loop wants done: quantities, never pages.
//!
//! **Owns** the vocabulary. **Does not own** carrying anything out: whoever does resolves pages through the engine's order.

use serde::{Deserialize, Serialize};

/// One thing to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Take so many pages one by one, the coldest first.
    PageOut {
        /// Base pages.
        nr_pages: u64,
    },
    /// Ask the kernel to reclaim.
    Reclaim {
        /// At most so much, bytes.
        bytes: u64,
    },
    /// Have a census of the group's page cache taken.
    TakeCensus,
    /// Drop pages of a file that a census found idle and read once, what was read longest ago first.
    DropReadOnce {
        /// The number of the file in the sample.
        file: u32,
        /// At most so much, bytes.
        bytes: u64,
    },
    /// Drop pages of a file that a census found idle for long and read again, what was read longest ago first.
    DropReadAgain {
        /// The number of the file in the sample.
        file: u32,
        /// At most so much, bytes.
        bytes: u64,
    },
    /// Look at what came to page cache since the last look.
    LookAtNewcomers {
        /// What came in is remembered until so much came in after it, bytes.
        history_bytes: u64,
    },
    /// Drop page cache that came in of late and was read since. What came last goes first.
    DropNewcomers {
        /// At most so much, bytes.
        bytes: u64,
    },
    /// Pageout may take so much of a processor from now on.
    LimitPageout {
        /// Percent of one processor.
        percent_max: u32,
    },
}

/// Who reclaims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaimer {
    /// The pages that the engine chose, one by one.
    #[default]
    Pageout,
    /// The kernel, asked for bytes ahead of its limit.
    Kernel,
    /// The programs, by direct reclaim at the line; above the budget the kernel is asked as well.
    Programs,
}

/// What one tick has decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What is to be done, in this order.
    pub actions: Vec<Action>,
    /// How much has to go, by whom, and whether that is in vain.
    pub decision: Decision,
    /// How long until the next tick, unless woken, milliseconds.
    pub wait_ms: u64,
}

/// What has to go now, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaim {
    /// Isolate so many pages for the pageout thread, if it is free.
    pub pageout_pages: u64,
    /// Ask the kernel for so many bytes, if it is not at it already.
    pub kernel_bytes: u64,
    /// Look again after this, unless woken.
    pub wait_ms: u64,
}

/// What came of a tick's sample of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Who reclaims.
    pub reclaimer: Reclaimer,
    /// What has to go.
    pub asked: Reclaim,
    /// Whether everything is tried and next to nothing goes.
    pub is_stalled: bool,
    /// How long the next attempt has to wait, because attempts are in vain.
    pub stall_pause_ms: Option<u64>,
}

impl Decision {
    /// What is to be done now: nothing while attempts are in vain.
    pub fn reclaim(&self) -> Reclaim {
        match self.stall_pause_ms {
            None => self.asked,
            Some(wait_ms) => Reclaim {
                wait_ms,
                ..Reclaim::default()
            },
        }
    }
}
