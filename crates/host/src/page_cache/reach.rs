//! Opening the very file that a census saw.
//!
//! **Owns** the way to a file and the proof that it is the one. **Does not own** what is done with it.
//!
//! **Invariants**
//! - I1: a file is opened for reading only after its device, inode and kind are known to be those meant, so no fifo, device
//!   or other file is ever opened.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs, open as open_file};
use rustix::io::Errno;

use super::Left;
use crate::access::census::FileId;
use crate::sys::page_cache::generation;

/// Magic numbers of file systems on which dropping exact ranges was tried.
const FILE_SYSTEMS: [u64; 2] = [0xef53, 0x5846_5342];

/// Opens the file at the first place where it is.
pub(super) fn open(file: &FileId, places: &[PathBuf]) -> Result<File, Left> {
    if file.is_disk {
        return Err(Left::NotRegular);
    }
    let mut why = Left::Unreachable;
    for place in places {
        match open_at(file, place) {
            Ok(found) => return Ok(found),
            Err(left) => why = left,
        }
    }
    Err(why)
}

fn open_at(file: &FileId, place: &Path) -> Result<File, Left> {
    // Links of /proc have to be followed; a link in a file's place leads to another file, which is found out below.
    let handle =
        open_file(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
    let found = fstat(&handle).map_err(refused)?;
    let device = (
        rustix::fs::major(found.st_dev),
        rustix::fs::minor(found.st_dev),
    );
    if (device.0, device.1, found.st_ino) != (file.device.major, file.device.minor, file.inode) {
        return Err(Left::Replaced);
    }
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Left::NotRegular);
    }
    let kind = fstatfs(&handle).map_err(refused)?;
    if !FILE_SYSTEMS.contains(&(kind.f_type as u64)) {
        return Err(Left::FileSystem);
    }
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOATIME | OFlags::NONBLOCK;
    let opened = open_file(link, flags, Mode::empty()).map_err(refused)?;
    match generation(opened.as_fd()) {
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
    use crate::process::Device;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn id_of(path: &Path) -> FileId {
        let found = fs::metadata(path).expect("it is there");
        let device = Device {
            major: rustix::fs::major(found.dev()),
            minor: rustix::fs::minor(found.dev()),
        };
        let generation = File::open(path)
            .ok()
            .and_then(|file| generation(file.as_fd()));
        FileId::for_tests(
            device,
            found.ino(),
            u64::from(generation.unwrap_or_default()),
        )
    }

    fn why(file: &FileId, path: &Path) -> Option<Left> {
        open(file, &[path.to_owned()]).err()
    }

    #[test]
    fn only_the_file_that_was_meant_is_opened() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("directory");
        let [path, other, link] = ["file", "other", "link"].map(|name| directory.path().join(name));
        fs::write(&path, "one").expect("written");
        let meant = id_of(&path);
        let on_disk = why(&meant, &path);
        if on_disk == Some(Left::FileSystem) {
            return;
        }
        assert_eq!(on_disk, None);
        fs::rename(&path, &other).expect("renamed");
        assert_eq!(why(&meant, &path), Some(Left::Replaced));
        assert_eq!(open(&meant, &[path.clone(), other.clone()]).err(), None);
        fs::write(&path, "two").expect("written");
        assert_eq!(why(&meant, &path), Some(Left::Replaced));
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert_eq!(why(&meant, &link), Some(Left::Replaced));
        let mut reused = meant;
        reused.generation += 1;
        assert_eq!(why(&reused, &other), Some(Left::Replaced));
        assert_eq!(why(&meant, Path::new("/dev/null")), Some(Left::Replaced));
        assert_eq!(open(&meant, &[]).err(), Some(Left::Unreachable));
    }

    #[test]
    fn a_file_in_memory_only_is_left() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
        assert_eq!(
            why(&id_of(file.path()), file.path()),
            Some(Left::FileSystem)
        );
    }
}
