//! What files are called: by those who have them open first, then by the kernel's directory entries.
//!
//! **Owns** the search. **Does not own** how a name is shown.
//!
//! **Invariants**
//! - I1: a path is given only if the file there is the one meant, or if a process has it open by that name. Else what is
//!   known is given: its place in its file system, or its number.
//! - I2: a file that is gone has no open file: its number may be another file's by now, and that one's name is not given.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};
use rustix::io::Errno;

use super::{Census, FileId};
use crate::process::mountinfo::{self, MountLine};
use crate::process::{Device, parse_maps, stalled};
use crate::sys::bpf_census::NameCall;

/// What the kernel appends to the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";
/// Links that are kept of a file, at most: whoever has it open may close it before its name is wanted.
const LINKS_MAX: usize = 4;

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
    open: OpenFiles,
    mounts: Vec<MountLine>,
}

/// What processes have open or mapped: its links in /proc, each of another process. There it can be opened again, whatever its
/// name is now.
type OpenFiles = HashMap<(Device, u64), Vec<PathBuf>>;

/// What the kernel says of a file, and the parts of its path, the last one first.
type Told = (NameCall, Vec<Vec<u8>>);

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
            note_descriptors(&process.path(), &mut open);
            note_mappings(&process.path(), &mut open);
        }
        FileNames {
            open,
            ..FileNames::of_mounts()
        }
    }

    /// Looks at what is mounted only: names are those that the kernel has in its directory entries.
    pub fn of_mounts() -> FileNames {
        FileNames {
            open: HashMap::new(),
            mounts: mountinfo::mounted_here(),
        }
    }

    /// The name of a file that a census found, and whether a process has it open or mapped; of a disk, whether it is mounted.
    pub fn look(&self, census: &Census, file: &FileId) -> (FileName, bool) {
        if file.is_disk {
            let name = disk_path(file.device).map_or(FileName::Unknown, FileName::Path);
            let is_mounted = self.mounts.iter().any(|mount| mount.device == file.device);
            return (name, is_mounted);
        }
        let (open, told) = self.open_name(census, file);
        let is_open = open.is_some();
        // Of several names the one may be removed by which a process has the file open.
        let is_removed = |name: &PathBuf| !file.is_deleted && is_marked_deleted(name);
        if open.as_ref().is_none_or(is_removed)
            && let by_kernel @ (FileName::Path(_) | FileName::Inside(_)) =
                self.name_by_kernel(file, told)
        {
            return (by_kernel, is_open);
        }
        let open = open.map(|name| FileName::Path(without_deleted(name)));
        (open.unwrap_or(FileName::Unknown), is_open)
    }

    /// The name of a file that a census found.
    pub fn name(&self, census: &Census, file: &FileId) -> FileName {
        self.look(census, file).0
    }

    /// What the file is called by a process that has it open, as that process sees it, with the kernel's mark if that name
    /// was removed. And what the kernel says of the file.
    fn open_name(&self, census: &Census, file: &FileId) -> (Option<PathBuf>, Option<Told>) {
        // In this order: as long as the kernel keeps the file, no other file has its number.
        let name = self.linked_name(file);
        let told = ask_kernel(census, file);
        let is_there = told.as_ref().is_some_and(|(call, _)| call.is_there != 0);
        (name.filter(|_| is_there), told)
    }

    /// The name at the first link that still leads to a file with this number.
    fn linked_name(&self, file: &FileId) -> Option<PathBuf> {
        self.links(file).iter().find_map(|link| {
            let name = fs::read_link(link).ok()?;
            match stat(link) {
                Ok(found) => (key_of(&found) == (file.device, file.inode)).then_some(name),
                // To follow the link of a mapping takes a right that reading it does not.
                Err(Errno::PERM | Errno::ACCESS) => Some(name),
                Err(_) => None,
            }
        })
    }

    fn links(&self, file: &FileId) -> &[PathBuf] {
        let links = self.open.get(&(file.device, file.inode));
        links.map_or(&[], Vec::as_slice)
    }

    /// Whether the file has no name any more; known of one that a process has open or mapped.
    pub fn is_unlinked(&self, file: &FileId) -> bool {
        let mut found = self.links(file).iter().flat_map(stat);
        found.any(|found| key_of(&found) == (file.device, file.inode) && found.stx_nlink == 0)
    }

    /// Where a file may be opened, best first. Who opens it has to look whether it is this file.
    pub fn places(&self, census: &Census, file: &FileId) -> Vec<PathBuf> {
        let path = match self.name_by_kernel(file, ask_kernel(census, file)) {
            FileName::Path(path) => Some(path),
            FileName::Inside(_) | FileName::Unknown => None,
        };
        self.links(file).iter().cloned().chain(path).collect()
    }

    /// Where the file's file system is mounted, the whole of it first.
    pub fn mounts(&self, file: &FileId) -> Vec<PathBuf> {
        mountinfo::with_handles(&self.mounts, file.device)
    }

    /// The path by which we can find the file ourselves: the one of a process may be of another mount namespace. A deleted
    /// file is told by its last one.
    pub fn path_here(&self, census: &Census, file: &FileId) -> Option<PathBuf> {
        if let FileName::Path(path) = self.name_by_kernel(file, ask_kernel(census, file)) {
            return Some(path);
        }
        let name = without_deleted(self.open_name(census, file).0?);
        (file.is_deleted || is_at(&name, file)).then_some(name)
    }

    fn name_by_kernel(&self, file: &FileId, told: Option<Told>) -> FileName {
        let Some((call, parts)) = told else {
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

fn ask_kernel(census: &Census, file: &FileId) -> Option<Told> {
    let mut call = NameCall {
        mapping: file.mapping,
        inode: file.inode,
        device: u64::from(file.device.major) << 20 | u64::from(file.device.minor),
        generation: file.generation,
        ..NameCall::default()
    };
    let parts = census.program.name(&mut call).ok()?;
    Some((call, parts))
}

/// Whether the file is at this path; a link to it is not.
pub fn is_at(path: &Path, file: &FileId) -> bool {
    found_at(path, file).is_some()
}

/// The size of the file, if it is a regular one and at this path.
pub fn size_at(path: &Path, file: &FileId) -> Option<u64> {
    let found = found_at(path, file).filter(Metadata::is_file)?;
    Some(found.len())
}

fn found_at(path: &Path, file: &FileId) -> Option<Metadata> {
    let found = fs::symlink_metadata(path).ok()?;
    ((Device::of(found.dev()), found.ino()) == (file.device, file.inode)).then_some(found)
}

/// The disk in /dev.
fn disk_path(device: Device) -> Option<PathBuf> {
    let link = format!("/sys/dev/block/{}:{}", device.major, device.minor);
    let name = fs::read_link(link).ok()?;
    Some(Path::new("/dev").join(name.file_name()?))
}

fn is_marked_deleted(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(DELETED)
}

fn without_deleted(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(name) => PathBuf::from(std::ffi::OsStr::from_bytes(name)),
        None => path,
    }
}

/// A file system on a network may be gone: it is not asked.
fn stat(path: &PathBuf) -> rustix::io::Result<Statx> {
    let (flags, wanted) = (AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
    statx(CWD, path, flags, wanted)
}

fn key_of(found: &Statx) -> (Device, u64) {
    let device = Device {
        major: found.stx_dev_major,
        minor: found.stx_dev_minor,
    };
    (device, found.stx_ino)
}

fn note_descriptors(process: &Path, open: &mut OpenFiles) {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten();
    for entry in entries.flatten() {
        let Ok(found) = stat(&entry.path()) else {
            continue;
        };
        // Pipes and sockets have no page cache.
        let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
        if kind.is_file() || kind.is_block_device() {
            note(process, key_of(&found), open, || entry.path());
        }
    }
}

fn note_mappings(process: &Path, open: &mut OpenFiles) {
    let pid = process
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    if pid.is_none_or(|pid| stalled(pid).is_some()) {
        return;
    }
    let Ok(text) = fs::read(process.join("maps")) else {
        return;
    };
    // A process that ends meanwhile may leave half a line.
    for mapping in parse_maps(&text).unwrap_or_default() {
        if mapping.inode != 0 {
            let (start, end) = (mapping.range.start, mapping.range.end);
            note(process, (mapping.device, mapping.inode), open, || {
                process.join(format!("map_files/{start:x}-{end:x}"))
            });
        }
    }
}

/// Keeps a link of a process, the first one of each. Processes come one after the other.
fn note(process: &Path, key: (Device, u64), open: &mut OpenFiles, link: impl FnOnce() -> PathBuf) {
    let links = open.entry(key).or_default();
    let has_one = links.last().is_some_and(|last| last.starts_with(process));
    if links.len() < LINKS_MAX && !has_one {
        links.push(link());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_deleted_file_is_no_part_of_its_name() {
        let name = |path: &str| without_deleted(path.into());
        assert_eq!(name("/tmp/x (deleted)"), PathBuf::from("/tmp/x"));
        assert_eq!(name("/tmp/x"), PathBuf::from("/tmp/x"));
    }

    #[test]
    fn an_open_file_whose_name_is_removed_is_unlinked() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let metadata = file.as_file().metadata().expect("it is there");
        let id = FileId::new(Device::of(metadata.dev()), metadata.ino(), 0, 0);
        let names = FileNames::read();
        assert!(is_at(file.path(), &id) && !names.is_unlinked(&id));
        fs::remove_file(file.path()).expect("it was there");
        assert!(!is_at(file.path(), &id) && names.is_unlinked(&id));
        assert!(!FileNames::of_mounts().is_unlinked(&id), "nothing is known");
    }

    #[test]
    fn our_own_open_files_and_program_are_found_by_name() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut names = FileNames::read();
        let id_of = |path: &Path| {
            let found = fs::metadata(path).expect("it is there");
            FileId::new(Device::of(found.dev()), found.ino(), 0, 0)
        };
        let path = file.path().canonicalize().expect("a path");
        let id = id_of(&path);
        assert_eq!(names.linked_name(&id), Some(path.clone()));
        let program = std::env::current_exe().expect("a program");
        assert!(!names.links(&id_of(&program)).is_empty());
        // Who had it open first has ended, and who comes next has another file open there now.
        let links = names.open.get_mut(&(id.device, id.inode));
        let gone = ["/proc/self/fd/999999", "/proc/self/exe"].map(PathBuf::from);
        links.expect("it is open").splice(0..0, gone);
        assert_eq!(names.linked_name(&id), Some(path));
        drop(file);
        assert_eq!(names.linked_name(&id), None);
    }

    #[test]
    fn a_file_has_a_few_links_each_of_another_process() {
        let key = |inode| (Device { major: 8, minor: 1 }, inode);
        let mut open = OpenFiles::new();
        for process in ["/proc/1", "/proc/12", "/proc/2", "/proc/3", "/proc/4"].map(Path::new) {
            for link in ["fd/3", "fd/4", "map_files/0-1000"] {
                note(process, key(7), &mut open, || process.join(link));
            }
        }
        note(Path::new("/proc/4"), key(8), &mut open, || {
            "/proc/4/fd/9".into()
        });
        let kept = [
            "/proc/1/fd/3",
            "/proc/12/fd/3",
            "/proc/2/fd/3",
            "/proc/3/fd/3",
        ];
        assert_eq!(open[&key(7)], kept.map(PathBuf::from));
        assert_eq!(open[&key(8)], [PathBuf::from("/proc/4/fd/9")]);
    }
}
