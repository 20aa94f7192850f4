//! Whether there is room for what a device holds: all of it comes back into memory when the device is taken down.
//!
//! ```text
//!   memory     what the device holds, and a margin, must be available
//!   each group what it has in swap, at most what the device holds, must fit below its limit: the kernel kills in a group that
//!              is at its limit, whatever room other swap has
//! ```
//!
//! No counter says in which device the pages of a group lie: what is not seen in another one (`whose`) is taken to be in this one.
//! While somebody takes swap down, what all devices hold may come back: then no group may be crowded that has a page in this one.
//!
//! **Owns** that decision, for all who take swap down. **Does not own** the taking down (`super`), nor when it is tried again.
//!
//! **Invariants** R1: a group counts with all groups below it, whether or not a process is in it; what can't be read of a group
//! with a limit counts as no room.

use std::path::Path;

use super::record::DeviceNumber;
use super::status::is_any_going;
use super::{SWAPOFF_MARGIN_BYTES, SwapError, swap_areas};
use crate::cgroup::{CgroupError, GroupReader};
use crate::process::MachineMemory;

/// What must stay free below a group's limit: each processor sets 256 KiB of it aside.
const GROUP_MARGIN_BYTES: u64 = 4 << 20;

/// A group with a limit.
#[derive(Clone, Debug)]
struct Limited {
    limit_bytes: u64,
    /// What it has in memory without page cache, which the kernel drops before it kills.
    kept_bytes: u64,
    /// What it has in swap, on whatever device; `None`: the kernel does not tell.
    swapped_bytes: Option<u64>,
}

/// Whether a device in use can be taken down now.
///
/// # Errors
/// [`SwapError::WontFit`], [`SwapError::GroupWontFit`].
pub(super) fn check(path: &Path, number: Option<DeviceNumber>) -> Result<(), SwapError> {
    let failed = |source| SwapError::io("swapoff", path)(source);
    let areas = swap_areas().map_err(failed)?;
    let own = areas.iter().find(|area| area.path == path);
    if own.is_none_or(|area| area.used_bytes == 0) {
        return Ok(());
    }
    let machine = MachineMemory::read().map_err(failed)?;
    let is_any_going = is_any_going(&areas, machine.swap_total_bytes);
    let coming = areas
        .iter()
        .filter(|area| area.path == path || is_any_going);
    let used_bytes: u64 = coming.map(|area| area.used_bytes).sum();
    let available_bytes = machine.available_bytes;
    if !fits(used_bytes, available_bytes) {
        return Err(SwapError::WontFit {
            path: path.to_owned(),
            used_bytes,
            available_bytes,
        });
    }
    let groups = match GroupReader::every() {
        Ok(groups) => groups,
        // Nobody has a limit.
        Err(CgroupError::NoMemoryController) => return Ok(()),
        Err(source) => {
            return Err(SwapError::Groups {
                path: path.to_owned(),
                source: Box::new(source),
            });
        }
    };
    for group in &groups {
        let Some(limited) = Limited::of(group) else {
            continue;
        };
        let Some((swapped_bytes, room_bytes)) = limited.crowded(used_bytes) else {
            continue;
        };
        let room_bytes = if is_any_going { 0 } else { room_bytes };
        let is_known = |number: &DeviceNumber| number.may_be_of(path, &areas);
        let number = number.filter(is_known).zip(limited.swapped_bytes);
        let most = number.and_then(|(number, all_bytes)| number.most_bytes(group, all_bytes));
        if most.is_none_or(|most_bytes| most_bytes > room_bytes) {
            return Err(SwapError::GroupWontFit {
                path: path.to_owned(),
                group: group.path().to_owned(),
                swapped_bytes,
                room_bytes,
            });
        }
    }
    Ok(())
}

impl Limited {
    /// `None`: it has no limit, or is gone.
    fn of(group: &GroupReader) -> Option<Limited> {
        let limit_bytes = group.budget_bytes()?;
        let stats = group.stats().ok();
        let usage_bytes = group.usage_bytes();
        if stats.is_none() && !group.path().exists() {
            return None;
        }
        let stats = stats.unwrap_or_default();
        let cache_bytes = stats.lru_file_bytes.unwrap_or(0);
        Some(Limited {
            limit_bytes,
            kept_bytes: usage_bytes.unwrap_or(u64::MAX).saturating_sub(cache_bytes),
            swapped_bytes: stats.swapped_out_bytes(),
        })
    }

    /// What may come back of it from a device that holds so much, and the room for that, where it is less.
    fn crowded(&self, used_bytes: u64) -> Option<(u64, u64)> {
        let room_bytes = self
            .limit_bytes
            .saturating_sub(self.kept_bytes)
            .saturating_sub(GROUP_MARGIN_BYTES);
        let back_bytes = self.swapped_bytes.unwrap_or(u64::MAX).min(used_bytes);
        (back_bytes > room_bytes).then_some((back_bytes, room_bytes))
    }
}

fn fits(used_bytes: u64, available_bytes: u64) -> bool {
    used_bytes.saturating_add(SWAPOFF_MARGIN_BYTES) <= available_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_swapped_out_must_fit_with_a_margin() {
        assert!(fits(1, SWAPOFF_MARGIN_BYTES + 1));
        assert!(!fits(2, SWAPOFF_MARGIN_BYTES + 1));
        assert!(!fits(u64::MAX, u64::MAX - 1));
    }

    #[test]
    fn what_comes_back_of_each_group_must_fit_below_its_limit() {
        let group = |limit_mib: u64, kept_mib: u64, swapped_mib: Option<u64>| Limited {
            limit_bytes: limit_mib * MIB,
            kept_bytes: kept_mib * MIB,
            swapped_bytes: swapped_mib.map(|mib| mib * MIB),
        };
        let crowds = |group: Limited, used_mib: u64| group.crowded(used_mib * MIB).is_some();
        assert!(crowds(group(16, 4, Some(64)), 128));
        assert!(!crowds(group(100, 4, Some(64)), 128));
        assert!(crowds(group(68, 4, Some(64)), 128), "a margin");
        // No more comes back than the device holds.
        assert!(!crowds(group(16, 4, Some(64)), 8));
        assert!(!crowds(group(16, 16, Some(0)), 128), "nothing of it comes");
        assert!(crowds(group(16, 4, None), 128), "as much as can be");
    }
}
