//! What swapped-out memory takes in memory again: compressed swap lies in RAM.
//!
//! Swap belongs to the machine: the pages of any program go to the area of the highest priority, whoever made
//! it, and no counter says in which area the pages of one program are. So the pages of a program are taken to
//! be where pages go first, mixed with those of everybody else.
//!
//! **Owns** that reckoning. **Does not own** how much a program has swapped out.
//!
//! **Invariants** I1: nobody is charged for more than the areas take. I2: programs that have swapped out
//! everything there is are together charged for what all areas take.

use std::io;

use super::status::{is_zram, swap_areas, zram_index};
use super::zram;
use crate::process::MachineMemory;

/// An area, with the memory that what it holds takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    priority: i32,
    used_bytes: u64,
    memory_bytes: u64,
}

/// Memory that `swapped_bytes` of a program take while they are swapped out.
pub fn memory_of_swapped(swapped_bytes: u64) -> io::Result<u64> {
    Ok(match swapped_bytes {
        0 => 0,
        _ => memory_of(swapped_bytes, areas()?),
    })
}

fn areas() -> io::Result<Vec<Area>> {
    let areas = swap_areas()?;
    let on_disk = areas.iter().filter(|area| !is_zram(&area.path));
    let on_disk_bytes: u64 = on_disk.map(|area| area.used_bytes).sum();
    let zswap_bytes = MachineMemory::read()?.zswap_bytes;
    let area = |area: super::SwapArea| Area {
        priority: area.priority,
        used_bytes: area.used_bytes,
        memory_bytes: match zram_index(&area.path) {
            Some(index) => zram::memory_bytes(index).unwrap_or(0),
            None => share(zswap_bytes, area.used_bytes, on_disk_bytes),
        },
    };
    Ok(areas.into_iter().map(area).collect())
}

/// The areas of the highest priority are filled first, those of the same one alike.
fn memory_of(swapped_bytes: u64, mut areas: Vec<Area>) -> u64 {
    areas.sort_by_key(|area| std::cmp::Reverse(area.priority));
    let mut left_bytes = swapped_bytes;
    let mut memory_bytes = 0;
    for alike in areas.chunk_by(|a, b| a.priority == b.priority) {
        let used_bytes = alike.iter().map(|area| area.used_bytes).sum();
        let taken_bytes = alike.iter().map(|area| area.memory_bytes).sum();
        let part_bytes = left_bytes.min(used_bytes);
        memory_bytes += share(taken_bytes, part_bytes, used_bytes);
        left_bytes -= part_bytes;
    }
    memory_bytes
}

/// `whole * part / of`; nothing of nothing.
fn share(whole: u64, part: u64, of: u64) -> u64 {
    let share = u128::from(whole) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn area(priority: i32, used_mib: u64, memory_mib: u64) -> Area {
        Area {
            priority,
            used_bytes: used_mib * MIB,
            memory_bytes: memory_mib * MIB,
        }
    }

    #[test]
    fn pages_of_others_in_our_device_are_not_charged_to_our_program() {
        // A program that has 1 MiB in swap, in a device that others filled.
        assert_eq!(memory_of(MIB, vec![area(32767, 171, 85)]), MIB * 85 / 171);
        // Two devices of one priority are filled in turn.
        let two = || vec![area(32767, 100, 60), area(32767, 100, 20)];
        assert_eq!(memory_of(50 * MIB, two()), 20 * MIB);
        assert_eq!(memory_of(200 * MIB, two()), 80 * MIB);
    }

    #[test]
    fn what_is_used_first_is_charged_first_and_a_disk_costs_no_memory() {
        let areas = vec![area(-2, 4096, 0), area(100, 60, 30)];
        assert_eq!(memory_of(60 * MIB, areas.clone()), 30 * MIB);
        assert_eq!(memory_of(500 * MIB, areas), 30 * MIB);
        assert_eq!(memory_of(500 * MIB, vec![area(0, 4096, 0)]), 0);
        assert_eq!(memory_of(500 * MIB, Vec::new()), 0);
        // Emptied a moment ago, its memory not given back yet.
        assert_eq!(memory_of(MIB, vec![area(0, 0, 12)]), 0);
    }

    proptest! {
        #[test]
        fn nobody_pays_for_more_than_there_is_and_who_has_all_of_it_pays_for_all(
            kinds in prop::collection::vec((-3i32..3, 1u64..1 << 40, 0u64..1 << 40), 0..6),
            swapped_bytes: u64,
        ) {
            let areas: Vec<Area> = kinds
                .iter()
                .map(|&(priority, used_bytes, memory_bytes)| Area { priority, used_bytes, memory_bytes })
                .collect();
            let all: u64 = areas.iter().map(|area| area.memory_bytes).sum();
            prop_assert!(memory_of(swapped_bytes, areas.clone()) <= all);
            prop_assert_eq!(memory_of(u64::MAX, areas), all);
        }
    }
}
