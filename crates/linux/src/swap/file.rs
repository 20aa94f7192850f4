//! A swap file of our own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, IFlags, fallocate, fstatfs, ioctl_getflags, ioctl_setflags};

use super::{Backing, SwapError, SwapRecord, SwapSpec, header, start, status};
use crate::addr::PAGE_BYTES;
use crate::undo::Journal;

/// File systems that can't hold a swap file (`linux/magic.h`), so that we say so before filling one.
const UNFIT: [(u64, &str); 8] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x794c_7630, "overlayfs"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x2fc1_2fc1, "zfs"),
    (0x7371_7368, "squashfs"),
    (0x6a65_6a63, "virtiofs"),
];
const BTRFS_MAGIC: u64 = 0x9123_683e;
const ZERO_CHUNK_BYTES: usize = 1 << 20;

pub(super) fn create(
    path: &Path,
    size_bytes: u64,
    journal: &Journal,
) -> Result<SwapRecord, SwapError> {
    let size_bytes = size_bytes - size_bytes % PAGE_BYTES;
    let path = absolute(path)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => SwapError::Exists(path.clone()),
            _ => SwapError::io("making", &path)(source),
        })?;
    // Up to here a crash leaves an empty file; from here on it is in the journal.
    let inode = match file.metadata() {
        Ok(metadata) => metadata.ino(),
        Err(source) => return Err(SwapError::io("reading", &path)(source)),
    };
    let record = SwapRecord {
        uuid: header::fresh_uuid().map_err(SwapError::Journal)?,
        path,
        backing: Backing::File { inode },
        number: None,
    };
    start(record, journal, |record| {
        check_filesystem(&file, &record.path)?;
        fill(&file, size_bytes).map_err(SwapError::io("allocating", &record.path))?;
        header::write(&file, size_bytes, &record.uuid)
            .map_err(SwapError::io("writing the swap header of", &record.path))
    })
}

/// The path as the kernel prints it in `/proc/swaps`, whatever our directory is later.
fn absolute(path: &Path) -> Result<PathBuf, SwapError> {
    let missing = || SwapError::io("making", path)(io::ErrorKind::InvalidInput.into());
    let name = path.file_name().ok_or_else(missing)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent = parent
        .canonicalize()
        .map_err(SwapError::io("finding the directory of", path))?;
    Ok(parent.join(name))
}

fn check_filesystem(file: &File, path: &Path) -> Result<(), SwapError> {
    let magic = fstatfs(file)
        .map_err(|errno| SwapError::io("reading the file system of", path)(errno.into()))?
        .f_type as u64
        & 0xffff_ffff;
    if let Some((_, name)) = UNFIT.iter().find(|(unfit, _)| *unfit == magic) {
        return Err(SwapError::Filesystem {
            path: path.to_owned(),
            filesystem: (*name).to_owned(),
        });
    }
    if magic == BTRFS_MAGIC {
        // Swap files must not be copied on write there; only an empty file can be switched.
        ioctl_getflags(file)
            .and_then(|flags| ioctl_setflags(file, flags | IFlags::NOCOW))
            .map_err(|errno| SwapError::io("setting no-copy-on-write of", path)(errno.into()))?;
    }
    Ok(())
}

/// Allocates every block: a swap file must have no holes.
fn fill(file: &File, size_bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size_bytes) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno.into()),
    }
    let zeros = vec![0; ZERO_CHUNK_BYTES];
    let mut left = size_bytes;
    let mut file = file;
    while left > 0 {
        let count = left.min(ZERO_CHUNK_BYTES as u64) as usize;
        file.write_all(&zeros[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// Removes the swap file that a specification names, if a Strata made it and nobody swaps to it: a reboot has left it, and what
/// is in it is of no use to anybody.
pub fn remove_stale(spec: &SwapSpec) -> Result<(), SwapError> {
    let SwapSpec::File { path, .. } = spec else {
        return Ok(());
    };
    let path = absolute(path)?;
    let swaps = Path::new("/proc/swaps");
    let area = status::area_at(&path).map_err(SwapError::io("reading", swaps))?;
    match path.symlink_metadata() {
        Ok(file) if file.is_file() && area.is_none() && header::is_of_strata(&path) => {
            remove(&path, file.ino())
        }
        _ => Ok(()),
    }
}

/// Deletes the file if it is still the one we made.
pub(super) fn remove(path: &Path, inode: u64) -> Result<(), SwapError> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.ino() == inode && metadata.is_file() => std::fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(SwapError::io("removing", path)(source))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_a_strata_made_is_stale() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("swap");
        let spec = SwapSpec::File {
            path: path.clone(),
            size_bytes: 1 << 20,
        };
        remove_stale(&spec).expect("nothing is there");
        std::fs::write(&path, vec![0; 8192]).expect("written");
        remove_stale(&spec).expect("another's");
        assert!(path.exists());
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        let uuid = header::fresh_uuid().expect("read");
        header::write(&file, 8192, &uuid).expect("written");
        remove_stale(&spec).expect("removed");
        assert!(!path.exists());
    }
}
