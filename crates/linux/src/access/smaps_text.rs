//! Reading `/proc/PID/smaps`, as far as accesses and reclaim need it.
//!
//! **Owns** the text, and whether it may be asked for. **Does not own** what is made of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use super::AccessError;
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up::{self, Call, timed};
use crate::process::{Process, VmFlags};

/// What `smaps` says of one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SmapsEntry {
    pub(super) range: AddrRange,
    pub(super) rss_pages: u64,
    pub(super) referenced_pages: u64,
    pub(super) swap_pages: u64,
    pub(super) flags: VmFlags,
}

/// Reads all mappings of a process, by address. The kernel holds the lock of the address space while it goes through
/// the pages of a mapping, about as long as `clear_refs` would.
///
/// # Errors
/// [`AccessError::TooLarge`] where that would be too long.
pub(super) fn read(process: &Process) -> Result<Vec<SmapsEntry>, AccessError> {
    process
        .ensure_settled()
        .map_err(|stalled| AccessError::Stalled(stalled.to_string()))?;
    let pid = process.pid();
    let nr_pages = process.held_bytes().unwrap_or(0) / PAGE_BYTES;
    if nr_pages > hold_up::pages_at_once() {
        return Err(AccessError::TooLarge { pid, nr_pages });
    }
    let read = || {
        process
            .space_dir()
            .and_then(|dir| File::open(dir.join("smaps")))
            .and_then(|file| parse(BufReader::with_capacity(1 << 16, file)))
    };
    timed(Call::Smaps, read)
        .0
        .map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => AccessError::ProcessGone(pid),
            _ => AccessError::Io {
                what: "reading smaps",
                pid,
                source,
            },
        })
}

/// The flags of all mappings of a process.
pub(super) fn vm_flags(process: &Process) -> Result<Vec<(AddrRange, VmFlags)>, AccessError> {
    Ok(read(process)?.iter().map(|e| (e.range, e.flags)).collect())
}

fn parse(mut text: impl BufRead) -> io::Result<Vec<SmapsEntry>> {
    let mut entries: Vec<SmapsEntry> = Vec::new();
    // Names of mappings may hold any bytes.
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line)? > 0 {
        let shown = String::from_utf8_lossy(&line);
        if let Some(range) = parse_range(&shown) {
            entries.push(SmapsEntry {
                range,
                rss_pages: 0,
                referenced_pages: 0,
                swap_pages: 0,
                flags: VmFlags::default(),
            });
        } else if let (Some(entry), Some((key, value))) =
            (entries.last_mut(), shown.split_once(':'))
        {
            match key {
                "Rss" => entry.rss_pages = pages(value),
                "Referenced" => entry.referenced_pages = pages(value),
                "Swap" => entry.swap_pages = pages(value),
                "VmFlags" => entry.flags = VmFlags::from_smaps_names(value),
                _ => {}
            }
        }
        line.clear();
    }
    Ok(entries)
}

fn parse_range(line: &str) -> Option<AddrRange> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let parse = |digits| u64::from_str_radix(digits, 16).ok();
    Some(AddrRange::new(parse(start)?, parse(end)?))
}

/// Pages of a value like `  128 kB`.
fn pages(value: &str) -> u64 {
    let kib: Option<u64> = value
        .split_ascii_whitespace()
        .next()
        .and_then(|n| n.parse().ok());
    kib.unwrap_or(0) * 1024 / PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapping_is_read_with_its_counts_and_flags() {
        let text = b"7f00-7f03000 rw-p 00000000 00:00 0 \nSize: 12 kB\nRss:   8 kB\n\
            Referenced:   4 kB\nSwap: 4 kB\nVmFlags: rd wr lo \n\
            8000000-8001000 r--p 00000000 fe:00 3   /tmp/a-b: c\xff\nRss: 0 kB\nVmFlags: rd ht\n";
        let entries = parse(&text[..]).unwrap();
        assert_eq!(
            entries,
            [
                SmapsEntry {
                    range: AddrRange::new(0x7f00, 0x7f0_3000),
                    rss_pages: 2,
                    referenced_pages: 1,
                    swap_pages: 1,
                    flags: VmFlags::LOCKED,
                },
                SmapsEntry {
                    range: AddrRange::new(0x800_0000, 0x800_1000),
                    rss_pages: 0,
                    referenced_pages: 0,
                    swap_pages: 0,
                    flags: VmFlags::HUGETLB,
                },
            ]
        );
    }
}
