//! Memory of the whole machine: `/proc/meminfo`, the counters of `/proc/vmstat`, `/proc/pressure/memory`, and whether
//! MGLRU is on.
//!
//! **Owns** the key names. **Does not own** what is done about a full machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use super::keyed::keyed_bytes;

/// Whether MGLRU is on: a mask, 0 is off.
const LRU_GEN_ENABLED: &str = "/sys/kernel/mm/lru_gen/enabled";

/// Totals of `/proc/meminfo`, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MachineMemory {
    /// All usable memory.
    pub total_bytes: u64,
    /// What can't be reclaimed: locked memory, and huge pages that are set aside.
    #[serde(skip)]
    pub locked_bytes: u64,
    /// What the kernel thinks new programs could have without swapping.
    pub available_bytes: u64,
    /// Unused.
    pub free_bytes: u64,
    /// Anonymous memory of programs.
    pub anon_bytes: u64,
    /// Page cache: of files, of disks, and of files that are in memory only.
    pub file_bytes: u64,
    /// Page cache that a process maps, part of `file_bytes`.
    pub mapped_bytes: u64,
    /// Page cache of files that are in memory only (tmpfs, memfd, shared memory), part of `file_bytes`.
    pub shmem_bytes: u64,
    /// Page cache that is to be written to its file, part of `file_bytes`.
    pub dirty_bytes: u64,
    /// All swap.
    pub swap_total_bytes: u64,
    /// Unused swap.
    pub swap_free_bytes: u64,
    /// What compressed swap in front of all areas takes (zswap); 0 where it is off, or the kernel does not say (before 5.19).
    #[serde(skip)]
    pub zswap_bytes: u64,
}

impl MachineMemory {
    /// Reads the figures of this moment.
    pub fn read() -> io::Result<MachineMemory> {
        Ok(Self::parse(&meminfo_text()?))
    }

    fn parse(text: &str) -> MachineMemory {
        let bytes = |name| keyed_bytes(text, name).unwrap_or(0);
        MachineMemory {
            total_bytes: bytes("MemTotal"),
            locked_bytes: bytes("Unevictable") + bytes("Hugetlb"),
            available_bytes: bytes("MemAvailable"),
            free_bytes: bytes("MemFree"),
            anon_bytes: bytes("AnonPages"),
            file_bytes: bytes("Cached") + bytes("Buffers"),
            mapped_bytes: bytes("Mapped"),
            shmem_bytes: bytes("Shmem"),
            dirty_bytes: bytes("Dirty"),
            swap_total_bytes: bytes("SwapTotal"),
            swap_free_bytes: bytes("SwapFree"),
            zswap_bytes: bytes("Zswap"),
        }
    }
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

/// Share of the last ten seconds in which at least one task of the machine waited for memory, percent; `None` where the
/// kernel has no PSI.
pub fn memory_pressure_percent() -> Option<f64> {
    parse_pressure(&std::fs::read_to_string("/proc/pressure/memory").ok()?)
}

fn parse_pressure(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = some.split_ascii_whitespace();
    fields.find_map(|field| field.strip_prefix("avg10=")?.parse().ok())
}

/// Whether the kernel reclaims by generations; else it is the classic LRU.
pub fn is_multi_gen_on() -> bool {
    std::fs::read_to_string(LRU_GEN_ENABLED).is_ok_and(|text| lru_gen_mask(&text) != Some(0))
}

/// The bits of [`LRU_GEN_ENABLED`].
fn lru_gen_mask(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_that_of_some_tasks_in_the_last_ten_seconds() {
        let text = "some avg10=1.25 avg60=0.50 avg300=0.10 total=12345\n\
                    full avg10=0.75 avg60=0.25 avg300=0.05 total=6789\n";
        assert_eq!(parse_pressure(text), Some(1.25));
        assert_eq!(parse_pressure("full avg10=0.75\n"), None);
        assert_eq!(parse_pressure("some total=1\n"), None);
    }

    #[test]
    fn meminfo_is_read_by_its_keys() {
        let text = "MemTotal:  100 kB\nMemFree: 3 kB\nMemAvailable: 40 kB\nBuffers: 1 kB\nCached: 20 kB\n\
                    SwapCached: 77 kB\nSwapTotal: 9 kB\nSwapFree: 8 kB\nDirty: 2 kB\nAnonPages: 30 kB\n\
                    Mapped: 5 kB\nShmem: 4 kB\nShmemHugePages: 99 kB\nUnevictable: 6 kB\nMlocked: 5 kB\nHugePages_Total: 1\nHugetlb: 7 kB\n";
        let memory = MachineMemory::parse(text);
        assert_eq!(memory.total_bytes, 100 * 1024);
        assert_eq!(memory.locked_bytes, 13 * 1024);
        assert_eq!(memory.available_bytes, 40 * 1024);
        assert_eq!(memory.free_bytes, 3 * 1024);
        assert_eq!(memory.swap_total_bytes, 9 * 1024);
        assert_eq!(memory.swap_free_bytes, 8 * 1024);
        assert_eq!(memory.anon_bytes, 30 * 1024);
        assert_eq!(memory.file_bytes, 21 * 1024);
        assert_eq!(memory.mapped_bytes, 5 * 1024);
        assert_eq!(memory.shmem_bytes, 4 * 1024);
        assert_eq!(memory.dirty_bytes, 2 * 1024);
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = MachineMemory::read().unwrap();
        assert!(memory.total_bytes >= memory.available_bytes && memory.total_bytes > 0);
    }
}
