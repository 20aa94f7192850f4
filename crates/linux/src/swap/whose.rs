//! How much of a group may lie in one swap device.
//!
//! An entry of a page table names the device by a number, which the kernel tells nobody. It gives a new device the lowest number
//! that is free, and lists devices by their numbers: so a device that was just started has as many before it in the list as its
//! number is.
//!
//! **Owns** how that number is learned, and counting by it. **Does not own** what follows from it (`room`).
//!
//! **Invariants**
//! - W1: a number is known only where no other device went while the device was started. One that comes does not matter: whatever
//!   is before the new device in the list had a lower number when it was started.
//! - W2: what of a group is not seen in another device is taken to be in this one.

use std::collections::HashSet;
use std::path::Path;

use super::record::DeviceNumber;
use super::status::SwapArea;
use crate::addr::PAGE_BYTES;
use crate::cgroup::GroupReader;
use crate::process::Process;

/// Of a group that has more in swap no page is looked at: it would take too long.
const COUNTED_BYTES_MAX: u64 = 4 << 30;
/// Nor of one whose processes have a larger address space: to read 128 MiB of `pagemap` takes some tenths of a second.
const SPACE_BYTES_MAX: u64 = 64 << 30;

impl DeviceNumber {
    /// Of the device at `path`, by what was in use just before it was started and just after.
    pub(super) fn of_new(
        path: &Path,
        before: &[SwapArea],
        after: &[SwapArea],
    ) -> Option<DeviceNumber> {
        let place = after.iter().position(|area| area.path == path)?;
        let is_there = |old: &SwapArea| after.iter().any(|area| area.path == old.path);
        before
            .iter()
            .all(is_there)
            .then_some(DeviceNumber(place as u64))
    }

    /// Whether the device at `path` may have it still: somebody may have taken it down and started it again.
    pub(super) fn may_be_of(self, path: &Path, areas: &[SwapArea]) -> bool {
        let place = areas.iter().position(|area| area.path == path);
        place.is_some_and(|place| place as u64 <= self.0)
    }

    /// The most of `swapped_bytes`, what the group has in swap, that can lie in the device; `None`: that can't be told.
    pub(super) fn most_bytes(self, group: &GroupReader, swapped_bytes: u64) -> Option<u64> {
        if swapped_bytes > COUNTED_BYTES_MAX {
            return None;
        }
        let mut space_bytes = 0;
        // A page that several processes map counts once.
        let mut places = HashSet::new();
        let mut entries = Vec::new();
        for pid in group.processes().ok()? {
            let process = Process::open(pid).ok()?;
            if process.swapped_bytes().ok()? == 0 {
                continue;
            }
            for mapping in process.read_maps().ok()? {
                space_bytes += mapping.range.len_bytes();
                if space_bytes > SPACE_BYTES_MAX {
                    return None;
                }
                process.read_pagemap(mapping.range, &mut entries).ok()?;
                places.extend(entries.iter().filter_map(|entry| entry.swap_place()));
            }
        }
        self.most(swapped_bytes, places)
    }

    fn most(self, swapped_bytes: u64, places: HashSet<(u64, u64)>) -> Option<u64> {
        let seen_bytes = places.len() as u64 * PAGE_BYTES;
        // A group at its limit swaps while it is read, so that up to an eighth more is seen than was counted. What is more than that
        // is charged to another group.
        let is_all_its_own = seen_bytes <= swapped_bytes + swapped_bytes / 8;
        let elsewhere = places.iter().filter(|(device, _)| *device != self.0);
        let elsewhere_bytes = elsewhere.count() as u64 * PAGE_BYTES;
        is_all_its_own.then(|| seen_bytes.max(swapped_bytes) - elsewhere_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_new_device_has_the_lowest_free_number_unless_another_goes() {
        let areas = |names: &[&str]| {
            let area = |name: &&str| SwapArea {
                path: PathBuf::from(name),
                size_bytes: 1,
                used_bytes: 0,
                priority: 0,
            };
            names.iter().map(area).collect::<Vec<_>>()
        };
        let number = |before: &[&str], after: &[&str]| {
            DeviceNumber::of_new(Path::new("new"), &areas(before), &areas(after))
        };
        assert_eq!(number(&[], &["new"]), Some(DeviceNumber(0)));
        // Number 1 was free.
        let filled = number(&["a", "b"], &["a", "new", "b"]);
        assert_eq!(filled, Some(DeviceNumber(1)));
        assert_eq!(number(&["a", "b"], &["b", "new"]), None);
        // One that came first has the lower number, one that came later a higher one.
        assert_eq!(
            number(&["b"], &["a", "b", "new", "c"]),
            Some(DeviceNumber(2))
        );
        assert_eq!(number(&["a"], &["a"]), None);
        let may_be = |place| DeviceNumber(place).may_be_of(Path::new("b"), &areas(&["a", "b"]));
        assert_eq!([0, 1, 2].map(may_be), [false, true, true]);
    }

    #[test]
    fn what_is_seen_in_no_other_device_may_be_in_this_one() {
        let own = DeviceNumber(1);
        let places = |of: &[(u64, u64)]| of.iter().copied().collect::<HashSet<_>>();
        let most = |pages: u64, of: &[(u64, u64)]| own.most(pages * PAGE_BYTES, places(of));
        assert_eq!(most(3, &[(0, 7), (0, 8), (2, 7)]), Some(0));
        assert_eq!(most(3, &[(0, 7), (1, 7)]), Some(2 * PAGE_BYTES), "unseen");
        assert_eq!(most(1, &[(0, 7), (0, 8)]), None, "another group's");
        let swapped_meanwhile: Vec<_> = (0..9).map(|page| (page % 2, page)).collect();
        assert_eq!(most(8, &swapped_meanwhile), Some(4 * PAGE_BYTES));
    }
}
