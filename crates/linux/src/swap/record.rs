//! What is written down of a swap device of ours.
//!
//! **Owns** what a later start needs to know of one. **Does not own** making it or taking it down.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What must be known to take a device down, by us, the keeper or the next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapRecord {
    /// The device or file.
    pub path: PathBuf,
    /// The UUID in its header, 32 hex digits.
    pub uuid: String,
    /// What the device is made of.
    pub backing: Backing,
}

/// What a device is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "backing", rename_all = "snake_case")]
pub enum Backing {
    /// `/dev/zram<index>`.
    Zram {
        /// Number of the zram device.
        index: u32,
        /// We added the device, so we remove it.
        is_hot_added: bool,
    },
    /// A file of ours.
    File {
        /// Inode of the file, so that another file at its path is not taken for it.
        inode: u64,
        /// The run asked for zswap to be on.
        is_zswap: bool,
    },
}
