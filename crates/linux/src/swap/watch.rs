//! Whether swap is being taken down, by whomever: all that was in it comes back into memory, though nobody uses it.
//!
//! A device stays in `/proc/swaps` until it is empty, which may take minutes.
//!
//! **Owns** the comparison of two looks. **Does not own** what follows from it.
//!
//! **Invariants** I1: what can't be read tells nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::status::{SwapArea, is_any_going, swap_areas, total_swap_bytes};

/// A device that loses half of what it holds from one look to the next, this much at least, may have been taken down and set up
/// again in between.
const LOSS_BYTES_MIN: u64 = 1 << 20;

/// What was in use at the last look.
#[derive(Debug, Default)]
pub struct SwapWatch {
    areas: BTreeMap<PathBuf, SwapArea>,
}

impl SwapWatch {
    /// Remembers what is in use now.
    pub fn start() -> SwapWatch {
        let mut watch = SwapWatch::default();
        watch.has_shrunk();
        watch
    }

    /// Whether swap was taken down since the last look, or is being taken down.
    pub fn has_shrunk(&mut self) -> bool {
        match (swap_areas(), total_swap_bytes()) {
            (Ok(areas), Ok(total_bytes)) => self.compare(areas, total_bytes),
            (Err(error), _) | (_, Err(error)) => {
                tracing::debug!("swap is not known: {error}");
                false
            }
        }
    }

    fn compare(&mut self, areas: Vec<SwapArea>, total_bytes: u64) -> bool {
        let is_any_going = is_any_going(&areas, total_bytes);
        let now: BTreeMap<PathBuf, SwapArea> = areas
            .into_iter()
            .map(|area| (area.path.clone(), area))
            .collect();
        let before = std::mem::replace(&mut self.areas, now);
        let has_lost = |before: &SwapArea| match self.areas.get(&before.path) {
            Some(now) if now.size_bytes == before.size_bytes => {
                let loss_bytes = before.used_bytes.saturating_sub(now.used_bytes);
                loss_bytes >= LOSS_BYTES_MIN && loss_bytes > now.used_bytes
            }
            _ => before.used_bytes > 0,
        };
        is_any_going || before.values().any(has_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn areas(all: &[(&str, u64, u64)]) -> Vec<SwapArea> {
        let area = |&(path, size_mib, used_mib): &(&str, u64, u64)| SwapArea {
            path: PathBuf::from(path),
            size_bytes: size_mib * MIB,
            used_bytes: used_mib * MIB,
            priority: 0,
        };
        all.iter().map(area).collect()
    }

    #[test]
    fn swap_shrinks_while_a_device_is_taken_down_and_when_it_is_gone() {
        let mut watch = SwapWatch::default();
        let two = [("/a", 100, 60), ("/b", 50, 1)];
        assert!(!watch.compare(areas(&two), 150 * MIB), "both are new");
        assert!(!watch.compare(areas(&[("/a", 100, 70), two[1]]), 150 * MIB));
        // As the kernel shows it: forty of a hundred are no swap any more.
        assert!(watch.compare(areas(&two), 110 * MIB), "on its way");
        assert!(watch.compare(areas(&two[1..]), 50 * MIB), "gone");
        assert!(!watch.compare(areas(&two[1..]), 50 * MIB), "told once");
        assert!(watch.compare(areas(&[("/b", 70, 0)]), 70 * MIB), "another");
    }

    #[test]
    fn a_device_that_was_set_up_anew_between_two_looks_has_lost_what_it_held() {
        let mut watch = SwapWatch::default();
        let after = |watch: &mut SwapWatch, used_mib| {
            watch.compare(areas(&[("/a", 100, used_mib)]), 100 * MIB)
        };
        assert!(!after(&mut watch, 60));
        assert!(!after(&mut watch, 40), "programs that have ended");
        assert!(after(&mut watch, 3));
        assert!(!after(&mut watch, 90));
    }
}
