//! How much more fits on the host without a broken promise: that is what a scheduler asks before it starts another group.
//!
//! What is available fits, down to where the host counts as short. So does what lies idle in groups, without the memory that it takes
//! in swap.
//!
//! **Owns** that sum, and how many more groups like the last ones it is. **Does not own** when the host is short
//! (`strata_control::shortage`), nor what counts as idle (`strata_control::guard`).

use std::cmp::Reverse;
use std::fmt;
use strata_linux::units::Bytes;

/// The next group is assumed to be like so many that came last.
const NR_LAST_GROUPS: usize = 10;
/// Less than a MiB is no group that anybody would start for its memory.
const GROUP_BYTES_MIN: u64 = 1 << 20;

/// Room on the host. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Room {
    /// What the kernel thinks new programs could have.
    pub available_bytes: u64,
    /// With less available the host is short.
    pub wanted_bytes: u64,
    /// Idle in groups and to be had within their promises, without what it takes in swap.
    pub idle_bytes: u64,
    /// What one of the last ten groups holds, with what is away of it; `None`: there is none.
    pub group_bytes: Option<u64>,
    /// What fits.
    pub room_bytes: u64,
    /// As many more groups like the last ten fit; `None`: there is none.
    pub nr_more_groups: Option<u64>,
}

impl Room {
    pub(super) fn new(
        available_bytes: u64,
        wanted_bytes: u64,
        idle_bytes: u64,
        group: Option<u64>,
    ) -> Room {
        let room_bytes = (available_bytes + idle_bytes).saturating_sub(wanted_bytes);
        Room {
            available_bytes,
            wanted_bytes,
            idle_bytes,
            group_bytes: group,
            room_bytes,
            nr_more_groups: group.map(|bytes| room_bytes / bytes.max(1)),
        }
    }

    /// This room at a later moment, with so much available then. What became available may be what was idle: it counts once.
    pub(super) fn with_available(&self, available_bytes: u64) -> Room {
        let Room {
            wanted_bytes,
            idle_bytes,
            group_bytes,
            ..
        } = *self;
        let come_bytes = available_bytes.saturating_sub(self.available_bytes);
        let idle_bytes = idle_bytes.saturating_sub(come_bytes);
        Room::new(available_bytes, wanted_bytes, idle_bytes, group_bytes)
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, idle) = (Bytes(self.room_bytes), Bytes(self.idle_bytes));
        write!(f, "room for {bytes}, of which {idle} lie idle in groups")?;
        if let (Some(nr_more), Some(bytes)) = (self.nr_more_groups, self.group_bytes) {
            let (plural, bytes) = (if nr_more == 1 { "" } else { "s" }, Bytes(bytes));
            write!(
                f,
                ": {nr_more} more group{plural} of {bytes}, as the last ones are"
            )?;
        }
        Ok(())
    }
}

/// What a group takes of memory. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    /// Groups that came later have a larger one.
    pub(super) number: u64,
    /// In memory, and what is away takes in swap.
    pub(super) bytes: u64,
}

/// What the last groups hold in the mean.
pub(super) fn of_last(mut groups: Vec<Footprint>) -> Option<u64> {
    groups.retain(|group| group.bytes >= GROUP_BYTES_MIN);
    groups.sort_by_key(|group| Reverse(group.number));
    groups.truncate(NR_LAST_GROUPS);
    let sum: u64 = groups.iter().map(|group| group.bytes).sum();
    sum.checked_div(groups.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn room_is_what_is_available_down_to_where_the_host_is_short_and_what_lies_idle() {
        let room_of = |available: u64, group: Option<u64>| {
            let group = group.map(|mib| mib * MIB);
            Room::new(available * MIB, 300 * MIB, 150 * MIB, group)
        };
        let room = room_of(900, Some(200));
        assert_eq!((room.room_bytes, room.nr_more_groups), (750 * MIB, Some(3)));
        let told = "room for 750 MiB, of which 150 MiB lie idle in groups: 3 more groups of 200 MiB, as the last ones are";
        assert_eq!(room.to_string(), told);
        let room = room_of(100, Some(200));
        assert_eq!((room.room_bytes, room.nr_more_groups), (0, Some(0)));
        assert_eq!(room_of(100, None).nr_more_groups, None);
    }

    #[test]
    fn what_was_idle_and_went_since_counts_once() {
        let room = Room::new(900 * MIB, 300 * MIB, 150 * MIB, None);
        let later = |mib: u64| {
            let room = room.with_available(mib * MIB);
            (room.room_bytes / MIB, room.idle_bytes / MIB)
        };
        assert_eq!(later(1000), (750, 50));
        assert_eq!(later(1200), (900, 0), "somebody ended");
        assert_eq!(later(800), (650, 150), "somebody grew");
    }

    #[test]
    fn the_next_group_is_assumed_to_be_like_the_last_ten_that_hold_anything() {
        let group = |(number, mib): (u64, u64)| Footprint {
            number,
            bytes: mib * MIB,
        };
        let all = |of: &[(u64, u64)]| of_last(of.iter().copied().map(group).collect());
        assert_eq!(all(&[]), None);
        assert_eq!(all(&[(0, 0), (1, 40), (2, 80)]), Some(60 * MIB));
        let many: Vec<(u64, u64)> = (0..20)
            .map(|n| (n, if n < 10 { 1000 } else { 10 }))
            .collect();
        assert_eq!(all(&many), Some(10 * MIB));
    }
}
