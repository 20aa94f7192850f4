//! What the system's swap looks like: `/proc/swaps` and `/proc/meminfo`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::MachineMemory;
use crate::process::mountinfo::unescape;

/// One line of `/proc/swaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// The device or file.
    pub path: PathBuf,
    /// Capacity.
    pub size_bytes: u64,
    /// In use.
    pub used_bytes: u64,
    /// Higher is used first.
    pub priority: i32,
}

/// All active swap areas.
pub fn swap_areas() -> io::Result<Vec<SwapArea>> {
    Ok(parse_swaps(&fs::read_to_string("/proc/swaps")?))
}

/// Whether the page that goes to swap next goes to a disk: the area of the highest priority that has room is no compressed
/// memory.
pub fn is_on_disk(areas: &[SwapArea]) -> bool {
    let with_room = areas
        .iter()
        .filter(|area| area.used_bytes < area.size_bytes);
    let first = with_room.max_by_key(|area| area.priority);
    first.is_some_and(|area| !is_zram(&area.path))
}

/// Whether one of all areas is being taken down: it is listed until it is empty, and the machine's total counts no more of it than
/// what is still there.
pub(super) fn is_any_going(areas: &[SwapArea], total_bytes: u64) -> bool {
    let listed_bytes: u64 = areas.iter().map(|area| area.size_bytes).sum();
    listed_bytes > total_bytes
}

pub(super) fn is_zram(path: &Path) -> bool {
    zram_index(path).is_some()
}

/// The number of a zram device.
pub(super) fn zram_index(path: &Path) -> Option<u32> {
    let number = path.to_str()?.strip_prefix("/dev/zram")?;
    number.parse().ok()
}

pub(super) fn area_at(path: &Path) -> io::Result<Option<SwapArea>> {
    Ok(swap_areas()?.into_iter().find(|area| area.path == path))
}

fn parse_swaps(text: &str) -> Vec<SwapArea> {
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let path = unescape(fields.next()?);
            let _kind = fields.next()?;
            let mut number = || fields.next()?.parse::<i64>().ok();
            Some(SwapArea {
                path,
                size_bytes: number()?.max(0) as u64 * 1024,
                used_bytes: number()?.max(0) as u64 * 1024,
                priority: number()? as i32,
            })
        })
        .collect()
}

/// Free swap of the whole system, bytes.
pub fn free_swap_bytes() -> io::Result<u64> {
    Ok(MachineMemory::read()?.swap_free_bytes)
}

/// Free swap of the whole system, bytes; `None` where that can't be read.
pub fn known_free_swap_bytes() -> Option<u64> {
    free_swap_bytes()
        .inspect_err(|error| tracing::debug!("free swap is not known: {error}"))
        .ok()
}

/// Whether less swap than this is free. Where that can't be read nobody may take it for none.
pub fn is_swap_below(bytes: u64) -> bool {
    known_free_swap_bytes().is_some_and(|free_bytes| free_bytes < bytes)
}

/// Swap of the whole system, bytes.
pub fn total_swap_bytes() -> io::Result<u64> {
    Ok(MachineMemory::read()?.swap_total_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_with_odd_names_are_read() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram0                              partition\t524284\t\t12\t\t32767\n\
                    /a\\040b\\134c file 1024 0 -2\n";
        let areas = parse_swaps(text);
        assert_eq!(areas.len(), 2);
        assert_eq!(areas[0].used_bytes, 12 << 10);
        assert_eq!(areas[0].priority, 32767);
        assert_eq!(areas[1].path, Path::new("/a b\\c"));
        assert_eq!(areas[1].priority, -2);
    }
}
