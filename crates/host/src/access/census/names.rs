//! What files are called: by those who have them open first, then by the kernel's directory entries.
//!
//! **Owns** the search. **Does not own** how a name is shown.
//!
//! **Invariants**
//! - I1: a path is given only if the file there is the one meant, or if a process has it open by that name. Else what is
//!   known is given: its place in its file system, or its number.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use super::{Census, FileId};
use crate::process::{Device, parse_maps};
use crate::swap::unescape;
use crate::sys::bpf_census::NameCall;

/// What the kernel appends to the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// A file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName {
    /// At this path.
    Path(PathBuf),
    /// At this place in its file system, which is mounted nowhere that we can see, or hidden by another mount.
    Inside(PathBuf),
    /// The kernel has forgotten it.
    Unknown,
}

/// Finds names.
#[derive(Debug)]
pub struct FileNames {
    open: HashMap<(Device, u64), OpenFile>,
    mounts: Vec<Mount>,
}

/// What a process has open or mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenFile {
    /// As that process sees it.
    name: PathBuf,
    /// In /proc, where it can be opened again, whatever its name is now.
    link: PathBuf,
}

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    device: Device,
    root: PathBuf,
    point: PathBuf,
}

impl FileNames {
    /// Looks at what every process has open or mapped, and at what is mounted.
    pub fn read() -> FileNames {
        let mut open = HashMap::new();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = processes.filter(|entry| {
            let name = entry.file_name();
            name.as_bytes().iter().all(u8::is_ascii_digit)
        });
        for process in processes {
            note_descriptors(&process.path().join("fd"), &mut open);
            note_mappings(&process.path(), &mut open);
        }
        FileNames {
            open,
            ..FileNames::of_mounts()
        }
    }

    /// Looks at what is mounted only: names are those that the kernel has in its directory entries.
    pub fn of_mounts() -> FileNames {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        FileNames {
            open: HashMap::new(),
            mounts: text.lines().filter_map(parse_mount).collect(),
        }
    }

    /// Whether a process has it open or mapped; of a disk, whether it is mounted.
    pub fn is_open(&self, file: &FileId) -> bool {
        if file.is_disk {
            return self.mounts.iter().any(|mount| mount.device == file.device);
        }
        self.open.contains_key(&(file.device, file.inode))
    }

    /// The name of a file that a census found.
    pub fn name(&self, census: &Census, file: &FileId) -> FileName {
        if file.is_disk {
            return disk_path(file.device).map_or(FileName::Unknown, FileName::Path);
        }
        if let Some(open) = self.open.get(&(file.device, file.inode)) {
            return FileName::Path(open.name.clone());
        }
        self.name_by_kernel(census, file)
    }

    /// Where a file may be opened, best first. Who opens it has to look whether it is this file.
    pub fn places(&self, census: &Census, file: &FileId) -> Vec<PathBuf> {
        let open = self.open.get(&(file.device, file.inode));
        let link = open.map(|open| open.link.clone());
        let path = match self.name_by_kernel(census, file) {
            FileName::Path(path) => Some(path),
            FileName::Inside(_) | FileName::Unknown => None,
        };
        link.into_iter().chain(path).collect()
    }

    /// Where the file's file system is mounted, if nothing else is mounted over it: the whole of it first.
    pub fn mounts(&self, file: &FileId) -> Vec<PathBuf> {
        let all = self.mounts.iter();
        let mut all: Vec<&Mount> = all.filter(|mount| mount.device == file.device).collect();
        all.sort_by_key(|mount| mount.root != Path::new("/"));
        all.into_iter().map(|mount| mount.point.clone()).collect()
    }

    /// The path by which we can find the file ourselves: the one of a process may be of another mount namespace. A deleted
    /// file is told by its last one.
    pub fn path_here(&self, census: &Census, file: &FileId) -> Option<PathBuf> {
        if let FileName::Path(path) = self.name_by_kernel(census, file) {
            return Some(path);
        }
        let open = self.open.get(&(file.device, file.inode))?;
        let is_it = is_at(&open.name, file);
        (file.is_deleted || is_it).then(|| open.name.clone())
    }

    fn name_by_kernel(&self, census: &Census, file: &FileId) -> FileName {
        let mut call = NameCall {
            mapping: file.mapping,
            inode: file.inode,
            device: u64::from(file.device.major) << 20 | u64::from(file.device.minor),
            generation: file.generation,
            ..NameCall::default()
        };
        let Ok(parts) = census.program.name(&mut call) else {
            return FileName::Unknown;
        };
        if parts.is_empty() || call.is_complete == 0 {
            return FileName::Unknown;
        }
        let mut inside = PathBuf::from("/");
        for part in parts.into_iter().rev() {
            inside.push(std::ffi::OsString::from_vec(part));
        }
        self.path_of(file, &inside)
            .map_or(FileName::Inside(inside), FileName::Path)
    }

    /// Where a file of a file system can be reached.
    fn path_of(&self, file: &FileId, inside: &Path) -> Option<PathBuf> {
        let mounts = self
            .mounts
            .iter()
            .filter(|mount| mount.device == file.device);
        let mut candidates = mounts.filter_map(|mount| {
            let below = inside.strip_prefix(&mount.root).ok()?;
            Some(mount.point.join(below))
        });
        candidates.find(|path| is_at(path, file))
    }
}

/// Whether the file is at this path.
fn is_at(path: &Path, file: &FileId) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|found| (device_of(&found), found.ino()) == (file.device, file.inode))
}

/// The disk in /dev.
fn disk_path(device: Device) -> Option<PathBuf> {
    let link = format!("/sys/dev/block/{}:{}", device.major, device.minor);
    let name = fs::read_link(link).ok()?;
    Some(Path::new("/dev").join(name.file_name()?))
}

fn device_of(metadata: &Metadata) -> Device {
    Device {
        major: rustix::fs::major(metadata.dev()),
        minor: rustix::fs::minor(metadata.dev()),
    }
}

fn without_deleted(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(name) => PathBuf::from(std::ffi::OsStr::from_bytes(name)),
        None => path,
    }
}

fn note_descriptors(directory: &Path, open: &mut HashMap<(Device, u64), OpenFile>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A file system on a network may be gone: it is not asked.
        let (flags, wanted) = (AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
        let Ok(found) = statx(CWD, entry.path(), flags, wanted) else {
            continue;
        };
        // Pipes and sockets have no page cache.
        let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
        if !kind.is_file() && !kind.is_block_device() {
            continue;
        }
        let device = Device {
            major: found.stx_dev_major,
            minor: found.stx_dev_minor,
        };
        if let Ok(path) = fs::read_link(entry.path()) {
            let file = OpenFile {
                name: without_deleted(path),
                link: entry.path(),
            };
            open.insert((device, found.stx_ino), file);
        }
    }
}

fn note_mappings(process: &Path, open: &mut HashMap<(Device, u64), OpenFile>) {
    let Ok(text) = fs::read(process.join("maps")) else {
        return;
    };
    // A process that ends meanwhile may leave half a line.
    for mapping in parse_maps(&text).unwrap_or_default() {
        if mapping.inode != 0 {
            let file = || OpenFile {
                name: without_deleted(unescape(&mapping.name)),
                link: process.join(format!(
                    "map_files/{:x}-{:x}",
                    mapping.range.start, mapping.range.end
                )),
            };
            open.entry((mapping.device, mapping.inode))
                .or_insert_with(file);
        }
    }
}

/// `36 35 98:0 /root /mount/point options ... - type source super,options`
fn parse_mount(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    Some(Mount {
        device: Device {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        },
        root: unescape(fields.next()?),
        point: unescape(fields.next()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_blanks_in_their_names() {
        let line =
            r"36 35 259:2 /data /mnt/my\040disk rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw";
        let expected = Mount {
            device: Device {
                major: 259,
                minor: 2,
            },
            root: "/data".into(),
            point: "/mnt/my disk".into(),
        };
        assert_eq!(parse_mount(line), Some(expected));
        assert_eq!(parse_mount("nonsense"), None);
    }

    #[test]
    fn the_mark_of_a_deleted_file_is_no_part_of_its_name() {
        let name = |path: &str| without_deleted(path.into());
        assert_eq!(name("/tmp/x (deleted)"), PathBuf::from("/tmp/x"));
        assert_eq!(name("/tmp/x"), PathBuf::from("/tmp/x"));
    }

    #[test]
    fn our_own_open_files_and_program_are_found_by_name() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let names = FileNames::read();
        let key_of = |path: &Path| {
            let found = fs::metadata(path).expect("it is there");
            (device_of(&found), found.ino())
        };
        let path = file.path().canonicalize().expect("a path");
        let found = names.open.get(&key_of(&path)).expect("it is open");
        assert_eq!(found.name, path);
        assert_eq!(key_of(&found.link), key_of(&path));
        let program = std::env::current_exe().expect("a program");
        assert!(names.open.contains_key(&key_of(&program)));
    }
}
