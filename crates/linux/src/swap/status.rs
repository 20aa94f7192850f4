//! What the system's swap and memory look like: `/proc/swaps` and `/proc/meminfo`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

/// Undoes the octal escapes of blanks and backslashes in `/proc/swaps` and `/proc/PID/mountinfo`.
pub(crate) fn unescape(field: &str) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(decoded) => {
                out.push(decoded);
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Free swap of the whole system, bytes.
pub fn free_swap_bytes() -> io::Result<u64> {
    meminfo_bytes("SwapFree")
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
    meminfo_bytes("SwapTotal")
}

/// What could be allocated now without swapping, bytes.
pub fn available_memory_bytes() -> io::Result<u64> {
    meminfo_bytes("MemAvailable")
}

pub(super) fn meminfo_bytes(name: &str) -> io::Result<u64> {
    let text = meminfo_text()?;
    parse_meminfo(&text, name).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("/proc/meminfo has no {name}"),
        )
    })
}

/// Read through a descriptor that is kept: who has no other left must not take that for "no swap".
fn meminfo_text() -> io::Result<String> {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = match FILE.get() {
        Some(file) => file,
        None => {
            let opened = File::open("/proc/meminfo")?;
            FILE.get_or_init(|| opened)
        }
    };
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        match file.read_at(&mut part, text.len() as u64)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            count => text.extend_from_slice(&part[..count]),
        }
    }
}

fn parse_meminfo(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        let kib: u64 = value.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib * 1024)
    })
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

    #[test]
    fn a_name_of_meminfo_is_matched_whole() {
        let text = "SwapCached:  1 kB\nSwapTotal:  20 kB\nSwapFree:  8 kB\n";
        assert_eq!(parse_meminfo(text, "SwapFree"), Some(8 << 10));
        assert_eq!(parse_meminfo(text, "Swap"), None);
    }
}
