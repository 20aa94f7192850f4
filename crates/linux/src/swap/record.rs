//! What is written down of a swap device of ours.
//!
//! **Owns** what a later start needs to know of one. **Does not own** making it or taking it down.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::SwapSpec;

/// The kernel's number of a device (swap type), by which entries of page tables name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNumber(pub(super) u64);

/// What must be known to take a device down, by us, the keeper or the next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapRecord {
    /// The device or file.
    pub path: PathBuf,
    /// The UUID in its header, 32 hex digits.
    pub uuid: String,
    /// What the device is made of.
    pub backing: Backing,
    /// The kernel's number of it; `None`: it is not started yet, or the number is not known.
    #[serde(default)]
    pub number: Option<DeviceNumber>,
}

impl SwapRecord {
    /// Whether the recorded swap is of the kind that a specification asks for, of whatever size; any is, where that asks for
    /// existing swap.
    pub fn is_as(&self, spec: &SwapSpec) -> bool {
        match (&self.backing, spec) {
            (_, SwapSpec::Existing) | (Backing::Zram { .. }, SwapSpec::Zram { .. }) => true,
            (Backing::File { .. }, SwapSpec::File { path, .. }) => {
                path.canonicalize().is_ok_and(|path| path == self.path)
            }
            _ => false,
        }
    }
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
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_as_asked_for_whatever_its_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("swap");
        std::fs::write(&file, "").expect("written");
        let record = |backing, path: &str| SwapRecord {
            path: PathBuf::from(path),
            uuid: String::new(),
            backing,
            number: None,
        };
        let spec = |text: &str| text.parse::<SwapSpec>().expect(text);
        let zram = Backing::Zram {
            index: 0,
            is_hot_added: true,
        };
        let zram = record(zram, "/dev/zram0");
        assert!(zram.is_as(&spec("zram:1G")) && zram.is_as(&spec("existing")));
        let own = file.canonicalize().expect("there");
        let own = own.to_str().expect("text");
        let at_own = format!("file:{own}:1G");
        assert!(!zram.is_as(&spec(&at_own)));
        let swap = record(Backing::File { inode: 1 }, own);
        assert!(swap.is_as(&spec(&at_own)));
        assert!(!swap.is_as(&spec("file:/elsewhere:1G")));
    }
}
