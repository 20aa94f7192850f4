//! Opening the very file that a census saw.
//!
//! **Owns** the way to a file and the proof that it is the one. **Does not own** what is done with it.
//!
//! **Invariants**
//! - I1: a file is opened for reading only after its device, inode and kind are known to be those meant, so no fifo, device
//!   or other file is ever opened.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs, open as open_file};
use rustix::io::Errno;

use crate::access::census::FileId;
use crate::process::Device;
use crate::sys::file_handle::{Handle, open_by_handle};
use crate::sys::page_cache::generation;

/// Why pages of a file are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// No path is known and no process has it open.
    Unreachable,
    /// The file is not there any more, or another one is at its path.
    Replaced,
    /// It is no regular file, but a disk, for example.
    NotRegular,
    /// It lies neither on ext4 nor on xfs nor on tmpfs.
    FileSystem,
    /// It can't be opened or asked for: a right is missing, or somebody has a lease on it.
    Refused,
    /// The pages were made dirty, mapped, or are being read.
    InUse,
}

/// Magic numbers of file systems on which dropping exact ranges was tried.
const FILE_SYSTEMS: [u64; 3] = [EXT4, XFS, TMPFS];
const EXT4: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
const TMPFS: u64 = 0x0102_1994;
/// A handle of these file systems: the inode's number, then its generation.
const INODE_AND_GENERATION: u8 = 1;
/// On xfs: the number has 64 bits.
const LONG_INODE: u8 = 0x80;

/// How a file may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways {
    /// Where it may be opened, best first.
    pub(super) places: Vec<PathBuf>,
    /// Where its file system is mounted, for the file's handle.
    pub(super) mounts: Vec<PathBuf>,
}

/// Opens the file at the first place where it is, or else by its handle.
pub(super) fn open(file: &FileId, ways: &Ways, mounts: &mut Mounts) -> Result<File, Left> {
    if file.is_disk {
        return Err(Left::NotRegular);
    }
    let mut why = Left::Unreachable;
    for place in &ways.places {
        // Links of /proc have to be followed; a link in a file's place leads to another file, which is found out below.
        let found = open_file(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        match found.map_err(refused).and_then(|at| open_found(file, &at)) {
            Ok(found) => return Ok(found),
            Err(left) => why = left,
        }
    }
    match mounts.open(file, &ways.mounts) {
        // Its paths were tried first: what was wrong with them tells more.
        Err(Left::Refused | Left::Unreachable) if !ways.places.is_empty() => Err(why),
        other => other,
    }
}

/// A directory of each file system, held open while files of it are opened by their handles. These file systems can't be
/// unmounted meanwhile.
#[derive(Debug, Default)]
pub struct Mounts {
    open: HashMap<Device, Option<(OwnedFd, u64)>>,
}

impl Mounts {
    /// Opens a file by its number in its file system: also one whose name the kernel has forgotten.
    fn open(&mut self, file: &FileId, mounts: &[PathBuf]) -> Result<File, Left> {
        let found = self.find(file, mounts)?;
        open_found(file, &found)
    }

    /// The file with this number and this generation, without any right to its content.
    pub(super) fn find(&mut self, file: &FileId, mounts: &[PathBuf]) -> Result<OwnedFd, Left> {
        let found = self.open.entry(file.device).or_insert_with(|| {
            let mut found = mounts.iter().filter_map(|mount| open_mount(file, mount));
            found.next()
        });
        let (mount, file_system) = found.as_ref().ok_or(Left::Unreachable)?;
        let handle = handle_of(file, *file_system).ok_or(Left::FileSystem)?;
        let found = open_by_handle(mount.as_fd(), &handle);
        found.map_err(|error| match error.raw_os_error() {
            Some(libc::ESTALE) => Left::Replaced,
            _ => Left::Refused,
        })
    }
}

/// A directory of the file's own file system; `None`: another one is mounted over it, or it is no directory.
fn open_mount(file: &FileId, mount: &Path) -> Option<(OwnedFd, u64)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOATIME;
    let found = open_file(mount, flags, Mode::empty()).ok()?;
    let device = fstat(&found).ok()?.st_dev;
    let kind = fstatfs(&found).ok()?;
    (Device::of(device) == file.device).then_some((found, kind.f_type as u64))
}

/// How a file system writes the handle of a file; `None`: it is not known.
fn handle_of(file: &FileId, file_system: u64) -> Option<Handle> {
    let mut bytes = [0; 12];
    let generation = u32::try_from(file.generation).ok()?.to_ne_bytes();
    let (kind, number) = match file_system {
        EXT4 => (
            INODE_AND_GENERATION,
            u32::try_from(file.inode).ok()?.to_ne_bytes().to_vec(),
        ),
        XFS => (
            INODE_AND_GENERATION | LONG_INODE,
            file.inode.to_ne_bytes().to_vec(),
        ),
        _ => return None,
    };
    let nr_bytes = number.len() + generation.len();
    bytes[..number.len()].copy_from_slice(&number);
    bytes[number.len()..nr_bytes].copy_from_slice(&generation);
    Some(Handle {
        kind,
        bytes,
        nr_bytes: nr_bytes as u32,
    })
}

fn open_found(file: &FileId, handle: &OwnedFd) -> Result<File, Left> {
    let found = fstat(handle).map_err(refused)?;
    if (Device::of(found.st_dev), found.st_ino) != (file.device, file.inode) {
        return Err(Left::Replaced);
    }
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Left::NotRegular);
    }
    let kind = fstatfs(handle).map_err(refused)?.f_type as u64;
    if !FILE_SYSTEMS.contains(&kind) {
        return Err(Left::FileSystem);
    }
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOATIME | OFlags::NONBLOCK;
    let opened = open_file(link, flags, Mode::empty()).map_err(refused)?;
    match generation(opened.as_fd()) {
        // It does not tell, and hands out a number once.
        None if kind == TMPFS => Ok(File::from(opened)),
        Some(generation) if u64::from(generation) == file.generation => Ok(File::from(opened)),
        Some(_) => Err(Left::Replaced),
        None => Err(Left::Refused),
    }
}

fn refused(errno: Errno) -> Left {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::SRCH => Left::Replaced,
        _ => Left::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::census::FileNames;
    use crate::page_cache::{Standing, standing};
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    fn id_of(path: &Path) -> FileId {
        let found = fs::metadata(path).expect("it is there");
        let generation = generation_at(path).unwrap_or_default();
        FileId::new(
            Device::of(found.dev()),
            found.ino(),
            u64::from(generation),
            0,
        )
    }

    fn generation_at(path: &Path) -> Option<u32> {
        let file = File::open(path).ok()?;
        generation(file.as_fd())
    }

    fn at(places: &[&Path]) -> Ways {
        Ways {
            places: places.iter().map(|place| place.to_path_buf()).collect(),
            mounts: Vec::new(),
        }
    }

    fn why(file: &FileId, path: &Path) -> Option<Left> {
        open(file, &at(&[path]), &mut Mounts::default()).err()
    }

    #[test]
    fn a_deleted_file_is_told_from_one_that_is_there() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("directory");
        let [path, other] = ["file", "other"].map(|name| directory.path().join(name));
        fs::write(&path, [1; 5000]).expect("written");
        let file = id_of(&path);
        let mounted = FileNames::of_mounts().mounts(&file);
        let look = || standing(&file, &mounted, &mut Mounts::default());
        // Not on this file system, or not without root.
        if look() == Standing::Unknown {
            return;
        }
        assert_eq!(look(), Standing::There(5000));
        fs::rename(&path, &other).expect("renamed");
        assert_eq!(look(), Standing::There(5000));
        let open = File::open(&other).expect("opened");
        fs::remove_file(&other).expect("removed");
        assert_eq!(look(), Standing::There(5000), "somebody has it open");
        drop(open);
        assert_eq!(look(), Standing::Deleted);
    }

    #[test]
    fn only_the_file_that_was_meant_is_opened() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("directory");
        let mut mounts = Mounts::default();
        let [path, other, link] = ["file", "other", "link"].map(|name| directory.path().join(name));
        fs::write(&path, "one").expect("written");
        let meant = id_of(&path);
        if generation_at(&path).is_none() {
            return;
        }
        assert_eq!(why(&meant, &path), None);
        fs::rename(&path, &other).expect("renamed");
        assert_eq!(why(&meant, &path), Some(Left::Replaced));
        assert_eq!(open(&meant, &at(&[&path, &other]), &mut mounts).err(), None);
        fs::write(&path, "two").expect("written");
        assert_eq!(why(&meant, &path), Some(Left::Replaced));
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert_eq!(why(&meant, &link), Some(Left::Replaced));
        let mut reused = meant;
        reused.generation += 1;
        assert_eq!(why(&reused, &other), Some(Left::Replaced));
        assert_eq!(why(&meant, Path::new("/dev/null")), Some(Left::Replaced));
        assert_eq!(
            open(&meant, &at(&[]), &mut mounts).err(),
            Some(Left::Unreachable)
        );
    }

    #[test]
    fn a_file_is_opened_by_its_handle_whatever_its_name_is() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("directory");
        let mut mounts = Mounts::default();
        let [path, other] = ["file", "other"].map(|name| directory.path().join(name));
        fs::write(&path, "one").expect("written");
        let meant = id_of(&path);
        let ways = Ways {
            places: vec![path.clone()],
            mounts: vec![PathBuf::from("/proc"), directory.path().to_owned()],
        };
        if generation_at(&path).is_none() {
            return;
        }
        fs::rename(&path, &other).expect("renamed");
        let mut opened = open(&meant, &ways, &mut mounts).expect("opened");
        let mut text = String::new();
        opened.read_to_string(&mut text).expect("read");
        assert_eq!(text, "one");
        let mut reused = meant;
        reused.generation += 1;
        assert_eq!(
            open(&reused, &ways, &mut mounts).err(),
            Some(Left::Replaced)
        );
        drop(opened);
        fs::remove_file(&other).expect("removed");
        assert_eq!(open(&meant, &ways, &mut mounts).err(), Some(Left::Replaced));
    }

    #[test]
    fn a_file_in_memory_only_is_opened_and_one_of_the_kernels_own_is_left() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
        assert_eq!(why(&id_of(file.path()), file.path()), None);
        let of_kernel = Path::new("/proc/self/status");
        assert_eq!(why(&id_of(of_kernel), of_kernel), Some(Left::FileSystem));
    }
}
