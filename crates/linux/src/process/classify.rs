//! From lines of `maps` and the kernel's flags to what reclaim may do with each mapping.
//!
//! **Owns** the rules. **Does not own** the reading (`maps`), nor the flags' source: the BPF walk
//! and `smaps` both give them; without flags what the name and the device tell has to do, and locked
//! mappings then show up as [`strata_lru::Verdict::Unevictable`] when they are tried.
//!
//! | what `/proc` shows | class |
//! |---|---|
//! | `[heap]`, `[stack]` | heap, stack |
//! | any other `[name]` but `[anon:..]` and `[anon_shmem:..]` | a gate (`vdso`, `vvar`, ...) |
//! | a device of tmpfs or of the kernel's own shmem mount (memfd, SysV, shared `/dev/zero`) | shmem |
//! | `/dev/zero` mapped privately, `[anon:..]`, no name | anon |
//! | anything else | file, private or shared |

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

use super::handle::first_of_space;
use super::maps::{Device, RawMapping};
use super::mountinfo::MountLine;
use super::vm_flags::VmFlags;
use super::{FilePart, Mapping, MappingClass, Unreclaimable};
use crate::addr::AddrRange;

/// Mappings whose pages belong to a driver.
const SPECIAL: VmFlags = VmFlags::PFNMAP.union(VmFlags::IO).union(VmFlags::MIXEDMAP);
/// Advice under which an access says nothing about the future (the kernel's `vma_has_recency`).
const NO_RECENCY: VmFlags = VmFlags::SEQ_READ.union(VmFlags::RAND_READ);

/// Devices behind which there is no disk: tmpfs mounts and hugetlbfs mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDevices {
    shmem: BTreeSet<Device>,
    hugetlb: BTreeSet<Device>,
}

impl MemoryDevices {
    /// Reads the mounts as process `pid` sees them, and learns the kernel's internal shmem mount
    /// (in no mount table) from a memory file of our own. Mounts hardly ever change: read once a
    /// process, or once for a tree.
    pub fn of_process(pid: i32) -> io::Result<MemoryDevices> {
        // A leader that has exited has no mounts any more (EINVAL); the other threads have.
        let read = |dir: &PathBuf| match std::fs::read(dir.join("mountinfo")) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Vec::new()),
            read => read,
        };
        let mounts = first_of_space(pid, read, Vec::is_empty)?;
        let mut devices = MemoryDevices::parse_mountinfo(&String::from_utf8_lossy(&mounts));
        let probe = memfd_create("strata-probe", MemfdFlags::CLOEXEC)?;
        let device = fstat(&probe)?.st_dev;
        devices.shmem.insert(Device {
            major: major(device),
            minor: minor(device),
        });
        Ok(devices)
    }

    /// Picks the tmpfs and hugetlbfs lines out of a `mountinfo` text (proc(5)).
    fn parse_mountinfo(text: &str) -> MemoryDevices {
        let mut devices = MemoryDevices::default();
        for line in text.lines() {
            let Some(mount) = MountLine::parse(line) else {
                continue;
            };
            match mount.file_system.as_str() {
                "tmpfs" => devices.shmem.insert(mount.device),
                "hugetlbfs" => devices.hugetlb.insert(mount.device),
                _ => continue,
            };
        }
        devices
    }
}

/// Classifies every mapping. `flags` are sorted by address as the kernel lists them and may come
/// from a slightly different moment, or be empty; a mapping takes those of the range that holds its
/// first byte.
pub fn classify(
    raw: &[RawMapping],
    flags: &[(AddrRange, VmFlags)],
    devices: &MemoryDevices,
) -> Vec<Mapping> {
    let mut next_flags = 0;
    raw.iter()
        .map(|mapping| {
            while flags
                .get(next_flags)
                .is_some_and(|(range, _)| range.end <= mapping.range.start)
            {
                next_flags += 1;
            }
            let own_flags = flags
                .get(next_flags)
                .filter(|(range, _)| range.contains(mapping.range.start))
                .map(|(_, flags)| *flags)
                .unwrap_or_default();
            classify_one(mapping, own_flags, devices)
        })
        .collect()
}

fn classify_one(raw: &RawMapping, flags: VmFlags, devices: &MemoryDevices) -> Mapping {
    let class = class_of(raw, devices);
    Mapping {
        range: raw.range,
        class,
        unreclaimable: unreclaimable(raw, flags, devices),
        is_exec_file: raw.perms.is_executable()
            && matches!(class, MappingClass::FilePrivate | MappingClass::FileShared),
        has_recency: !flags.intersects(NO_RECENCY),
        is_bound: flags.intersects(VmFlags::BOUND),
        is_supplied: flags.intersects(VmFlags::UFFD_MISSING),
        name: raw.name.clone(),
        file: (raw.inode != 0).then_some(FilePart {
            device: raw.device,
            inode: raw.inode,
            offset_bytes: raw.offset_bytes,
        }),
    }
}

fn class_of(raw: &RawMapping, devices: &MemoryDevices) -> MappingClass {
    let name = &*raw.name;
    if name == "[heap]" {
        MappingClass::Heap
    } else if name.starts_with("[stack") {
        MappingClass::Stack
    } else if name.starts_with("[anon_shmem:") {
        MappingClass::Shmem
    } else if raw.inode == 0 && raw.device == Device::default() {
        MappingClass::Anon
    } else if devices.shmem.contains(&raw.device) {
        MappingClass::Shmem
    } else if raw.perms.is_shared() {
        MappingClass::FileShared
    } else if name == "/dev/zero" {
        MappingClass::Anon
    } else {
        MappingClass::FilePrivate
    }
}

fn unreclaimable(
    raw: &RawMapping,
    flags: VmFlags,
    devices: &MemoryDevices,
) -> Option<Unreclaimable> {
    let name = &*raw.name;
    if is_gate(name) {
        Some(Unreclaimable::Gate)
    } else if flags.intersects(VmFlags::HUGETLB)
        || devices.hugetlb.contains(&raw.device)
        // Anonymous huge pages come from an internal mount that no table lists.
        || name == "/anon_hugepage (deleted)"
    {
        Some(Unreclaimable::Hugetlb)
    } else if flags.intersects(SPECIAL) || name.starts_with("anon_inode:") {
        Some(Unreclaimable::Special)
    } else if flags.intersects(VmFlags::LOCKED) {
        Some(Unreclaimable::Locked)
    } else if raw.perms.is_no_access() {
        Some(Unreclaimable::NoAccess)
    } else {
        None
    }
}

/// Whether the name is one the kernel gives to what it maps itself.
fn is_gate(name: &str) -> bool {
    name.starts_with('[')
        && !["[heap]", "[stack", "[anon:", "[anon_shmem:"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::maps::parse_maps;

    const MOUNTS: &str = "\
22 28 0:20 / /proc rw,nosuid - proc proc rw
25 28 0:23 / /dev/shm rw shared:2 - tmpfs tmpfs rw,size=1k
26 28 0:6 / /dev rw - devtmpfs devtmpfs rw
27 28 0:30 / /dev/hugepages rw - hugetlbfs hugetlbfs rw
28 1 254:0 / / rw - ext4 /dev/vda rw
29 1 0:99 / /odd\\040name rw master:1 propagate_from:2 - tmpfs none rw
";

    fn classes(text: &str, flags: &[(AddrRange, VmFlags)]) -> Vec<Mapping> {
        let devices = MemoryDevices::parse_mountinfo(MOUNTS);
        classify(&parse_maps(text.as_bytes()).unwrap(), flags, &devices)
    }

    #[test]
    fn every_kind_of_line_gets_its_class() {
        use MappingClass::{Anon, FilePrivate, FileShared, Heap, Shmem, Stack};
        let cases = [
            ("rw-p 0 00:00 0", Anon),
            ("rw-p 0 00:00 0 [anon:arena]", Anon),
            ("rw-p 0 00:06 5 /dev/zero", Anon),
            ("rw-p 0 00:00 0 [heap]", Heap),
            ("rw-p 0 00:00 0 [stack]", Stack),
            ("r-xp 0 fe:00 9 /usr/bin/x", FilePrivate),
            ("rw-s 0 fe:00 9 /var/x (deleted)", FileShared),
            ("rw-s 0 00:06 9 /dev/mem", FileShared),
            ("rw-s 0 00:17 3 /dev/shm/x", Shmem),
            ("rw-p 0 00:17 3 /dev/shm/x", Shmem),
            ("rw-s 0 00:63 3 /odd name/x", Shmem),
            ("rw-s 0 00:17 4 /dev/zero (deleted)", Shmem),
        ];
        for (line, class) in cases {
            let mapping = &classes(&format!("1000-2000 {line}"), &[])[0];
            assert_eq!(mapping.class, class, "{line}");
            assert_eq!(mapping.unreclaimable, None, "{line}");
        }
    }

    #[test]
    fn what_can_not_be_taken_is_named_with_its_reason() {
        use Unreclaimable::{Gate, Hugetlb, Locked, NoAccess, Special};
        let none = VmFlags::default();
        let cases = [
            ("r-xp 0 00:00 0 [vdso]", none, Gate),
            ("r--p 0 00:00 0 [vvar_vclock]", VmFlags::PFNMAP, Gate),
            ("--xp 0 00:00 0 [vsyscall]", none, Gate),
            ("rw-p 0 00:10 5 /anon_hugepage (deleted)", none, Hugetlb),
            ("rw-s 0 00:1e 5 /dev/hugepages/x", none, Hugetlb),
            ("rw-p 0 00:00 0", VmFlags::HUGETLB, Hugetlb),
            ("rw-s 0 00:06 5 /dev/mem", VmFlags::IO, Special),
            ("rw-s 0 00:06 5 /dev/gpu", VmFlags::MIXEDMAP, Special),
            ("rw-s 0 00:0e 5 anon_inode:[perf_event]", none, Special),
            ("rw-p 0 00:00 0", VmFlags::LOCKED, Locked),
            ("---p 0 00:00 0", none, NoAccess),
        ];
        for (line, flags, reason) in cases {
            let mapping = &classes(
                &format!("1000-2000 {line}"),
                &[(AddrRange::new(0x1000, 0x2000), flags)],
            )[0];
            assert_eq!(mapping.unreclaimable, Some(reason), "{line}");
        }
    }

    #[test]
    fn flags_find_their_mapping_although_both_lists_have_holes() {
        let text = "1000-2000 rw-p 0 00:00 0\n3000-9000 rw-p 0 00:00 0\na000-b000 rw-p 0 00:00 0";
        let flags = [
            (AddrRange::new(0, 0x1000), VmFlags::HUGETLB),
            (AddrRange::new(0x2000, 0x4000), VmFlags::LOCKED),
            (AddrRange::new(0x4000, 0x5000), VmFlags::IO),
            (AddrRange::new(0xa000, 0xb000), VmFlags::SEQ_READ),
        ];
        let mappings = classes(text, &flags);
        assert_eq!(mappings[0].unreclaimable, None);
        assert_eq!(mappings[1].unreclaimable, Some(Unreclaimable::Locked));
        assert_eq!(mappings[2].unreclaimable, None);
        let recency: Vec<bool> = mappings.iter().map(|m| m.has_recency).collect();
        assert_eq!(recency, [true, true, false]);
    }

    #[test]
    fn only_executable_files_count_as_program_text() {
        let exec = |line: &str| classes(&format!("1000-2000 {line}"), &[])[0].is_exec_file;
        assert!(exec("r-xp 0 fe:00 9 /usr/bin/x"));
        assert!(!exec("r--p 0 fe:00 9 /usr/bin/x"));
        assert!(!exec("rwxp 0 00:00 0"));
        assert!(!exec("r-xp 0 00:00 0 [vdso]"));
    }
}
