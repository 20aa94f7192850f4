//! What is in memory by age, in bytes and by mapping.
//!
//! **Owns** the bounds that are told, and which mappings are told as one. **Does not own** counting and its arithmetic
//! (`strata_lru::ages`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::MappingClass;
use strata_lru::ages::{self, NrPages};

/// Bounds of the idle histogram in seconds: powers of two from a second on, and the hour.
pub const IDLE_BOUNDS_S: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600];

strata_lru::counts! {
    /// Bytes by kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
    pub struct KindBytes {
        /// Anonymous memory: heap, stack, shared memory, written private pages of files.
        pub anon_bytes: u64,
        /// Pages of files.
        pub file_bytes: u64,
    }
}

impl KindBytes {
    /// Bytes of both kinds.
    pub fn total_bytes(self) -> u64 {
        self.anon_bytes + self.file_bytes
    }
}

impl From<NrPages> for KindBytes {
    fn from(nr_pages: NrPages) -> KindBytes {
        KindBytes {
            anon_bytes: nr_pages.anon * PAGE_BYTES,
            file_bytes: nr_pages.file * PAGE_BYTES,
        }
    }
}

/// Bytes in memory on each memory node, by the kernel's number; empty where there is but one, or where nobody tells.
pub type OnNodes = BTreeMap<u32, u64>;

/// Bytes in memory by the time of their last access: [`strata_lru::ages::Ages`] in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    pub(super) of: ages::Ages,
    pub(super) on_nodes: OnNodes,
}

impl Ages {
    /// All that is in memory, by memory node.
    pub fn on_nodes(&self) -> &OnNodes {
        &self.on_nodes
    }

    /// All that is in memory.
    pub fn resident(&self) -> KindBytes {
        self.of.resident().into()
    }

    /// What is in memory and may be accessed without a trace: its age is unknown.
    pub fn unknown(&self) -> KindBytes {
        self.of.unseen().into()
    }

    /// What is in memory and is known to be mapped by others, too.
    pub fn shared(&self) -> KindBytes {
        self.of.shared().into()
    }

    /// The working set of a window ([`ages::Ages::accessed_within`]).
    pub fn accessed_within(&self, window: Duration) -> KindBytes {
        self.of.accessed_within(window).into()
    }

    /// What has certainly not been accessed for so long ([`ages::Ages::idle_for`]).
    pub fn idle_for(&self, at_least: Duration) -> KindBytes {
        self.of.idle_for(at_least).into()
    }

    /// What was last used longer ago ([`ages::Ages::last_used_before`]).
    pub fn last_used_before(&self, age: Duration) -> KindBytes {
        self.of.last_used_before(age).into()
    }
}

/// The ages of what mappings of one name and class hold, in all spaces together.
#[derive(Clone, Debug)]
pub struct MappingAges {
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: Arc<str>,
    /// What the mappings are.
    pub class: MappingClass,
    /// Mappings taken together.
    pub nr_mappings: u64,
    /// Pages of these mappings, by age.
    pub ages: Ages,
}

/// Everything watched, at the last walk. A page counts once, however many spaces map it.
#[derive(Clone, Debug, Default)]
pub struct WatchedAges {
    /// Time between the first walk and the last: nothing is known of accesses before.
    pub watched: Duration,
    /// Time between the last walk and the one before.
    pub last_interval: Duration,
    /// All mappings together.
    pub total: Ages,
    /// By name and class, largest first; those without anything in memory are left out.
    pub mappings: Vec<MappingAges>,
}

impl WatchedAges {
    /// The time that the working set of a window really stands for, but for half an interval: less
    /// than the window where the watch was shorter, more where the last walk came so late that
    /// nothing is known of the window alone.
    pub fn covered(&self, window: Duration) -> Duration {
        if self.last_interval / 2 > window {
            self.last_interval
        } else {
            window.min(self.watched)
        }
    }

    /// The bounds of [`IDLE_BOUNDS_S`] that the watch was long enough to tell of.
    pub fn idle_bounds_s(&self) -> impl Iterator<Item = u64> + use<> {
        let watched = self.watched;
        IDLE_BOUNDS_S
            .into_iter()
            .filter(move |bound_s| Duration::from_secs(*bound_s) <= watched)
    }
}
