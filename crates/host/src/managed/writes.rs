//! How much a guard writes to swap a second.
//!
//! **Owns** where that is bounded: on a disk, which wears and for which others wait. **Does not own** the reckoning
//! (`strata_control::swap_writes`).

use std::time::Duration;
use strata_control::swap_writes::SwapWrites;
use strata_linux::swap::{SwapArea, is_on_disk, swap_areas};

/// What goes to a disk a second where nothing is said: 10 MiB, a tenth of what the slowest disk writes.
const DISK_BYTES_PER_S: u64 = 10 << 20;

/// What bounds writes to swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwapWriteBound {
    /// 10 MiB a second where swap lies on a disk, nothing where it is compressed memory.
    #[default]
    OnDisk,
    /// Nothing, wherever it lies.
    Unbounded,
    /// So many bytes a second, wherever it lies.
    BytesPerSec(u64),
}

/// What may be written now.
#[derive(Debug)]
pub(super) struct Writes {
    bound: SwapWriteBound,
    bucket: SwapWrites,
    /// More would go, and waits for the rate.
    pub(super) hold_up: bool,
}

impl Writes {
    pub(super) fn new(bound: SwapWriteBound) -> Writes {
        let bytes_per_s = match bound {
            SwapWriteBound::BytesPerSec(bytes) => bytes,
            SwapWriteBound::OnDisk | SwapWriteBound::Unbounded => DISK_BYTES_PER_S,
        };
        Writes {
            bound,
            bucket: SwapWrites::new(bytes_per_s),
            hold_up: false,
        }
    }

    /// Pages that may go to swap at `at`; `None`: as many as there is room for.
    pub(super) fn room_pages(&mut self, at: Duration) -> Option<u64> {
        self.room_of(at, || swap_areas().unwrap_or_default())
    }

    fn room_of(&mut self, at: Duration, areas: impl FnOnce() -> Vec<SwapArea>) -> Option<u64> {
        let is_bounded = match self.bound {
            SwapWriteBound::Unbounded => false,
            SwapWriteBound::BytesPerSec(_) => true,
            SwapWriteBound::OnDisk => is_on_disk(&areas()),
        };
        // The bucket fills whether or not it counts now.
        let room = self.bucket.room_pages(at);
        is_bounded.then_some(room)
    }

    /// So many pages are on their way.
    pub(super) fn spend(&mut self, nr_pages: u64) {
        self.bucket.spend(nr_pages);
    }

    /// So many of them did not go.
    pub(super) fn refund(&mut self, nr_pages: u64) {
        self.bucket.refund(nr_pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn area(path: &str, priority: i32, used_bytes: u64) -> SwapArea {
        SwapArea {
            path: PathBuf::from(path),
            size_bytes: 1 << 30,
            used_bytes,
            priority,
        }
    }

    fn room(bound: SwapWriteBound, areas: &[SwapArea]) -> Option<u64> {
        Writes::new(bound).room_of(Duration::ZERO, || areas.to_vec())
    }

    #[test]
    fn what_goes_to_a_disk_is_bounded_and_what_stays_in_memory_is_not() {
        let pages = |bytes: u64| Some(bytes / 4096);
        let on_disk = SwapWriteBound::OnDisk;
        let zram = area("/dev/zram0", 100, 0);
        let full = area("/dev/zram0", 100, 1 << 30);
        let disk = area("/dev/sda2", -2, 0);
        assert_eq!(room(on_disk, &[]), None);
        assert_eq!(room(on_disk, std::slice::from_ref(&zram)), None);
        assert_eq!(room(on_disk, &[disk.clone(), zram.clone()]), None, "first");
        assert_eq!(room(on_disk, &[full, disk.clone()]), pages(10 << 20));
        assert_eq!(room(SwapWriteBound::Unbounded, &[disk]), None);
        let asked = SwapWriteBound::BytesPerSec(1 << 20);
        assert_eq!(room(asked, &[zram]), pages(1 << 20), "asked for");
    }
}
