//! Control files: kept open or read once, and the words in them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_lru::machine::CgroupVersion as Version;

use super::error::CgroupError;

/// Most control files of a group fit; `memory.stat` has some 2 KiB.
const READ_BYTES_MAX: usize = 16 << 10;
/// v1 prints a number near `i64::MAX` for "no limit"; nothing real comes near it.
pub(super) const UNLIMITED: u64 = 1 << 62;

/// A limit on memory as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The file.
    pub file: PathBuf,
    /// Value of the limit.
    pub bytes: u64,
}

/// The groups right below one, as far as they can be listed.
pub(super) fn children(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_group).map(|entry| entry.path())
}

/// One control file, opened once and read from its start each time.
#[derive(Debug)]
pub(super) struct ControlFile {
    pub(super) path: PathBuf,
    file: File,
}

impl ControlFile {
    pub(super) fn open_read(path: PathBuf) -> Result<ControlFile, CgroupError> {
        Self::open(path, OpenOptions::new().read(true))
    }

    pub(super) fn open_write(path: PathBuf) -> Result<ControlFile, CgroupError> {
        Self::open(path, OpenOptions::new().write(true))
    }

    pub(super) fn open_read_write(path: PathBuf) -> Result<ControlFile, CgroupError> {
        Self::open(path, OpenOptions::new().read(true).write(true))
    }

    fn open(path: PathBuf, options: &OpenOptions) -> Result<ControlFile, CgroupError> {
        match options.open(&path) {
            Ok(file) => Ok(ControlFile { path, file }),
            Err(source) => Err(CgroupError::io("opening", &path, source)),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Reads the whole file.
    pub(super) fn read(&self) -> Result<String, CgroupError> {
        let mut text = vec![0; READ_BYTES_MAX];
        let mut filled = 0;
        loop {
            match self.file.read_at(&mut text[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(CgroupError::io("reading", &self.path, source)),
            }
        }
        text.truncate(filled);
        String::from_utf8(text).map_err(|_| self.garbled())
    }

    /// Reads a file that holds one number, or `max`; allocates nothing.
    pub(super) fn read_number(&self) -> Result<u64, CgroupError> {
        let mut text = [0; 32];
        let count = self
            .file
            .read_at(&mut text, 0)
            .map_err(|source| CgroupError::io("reading", &self.path, source))?;
        std::str::from_utf8(&text[..count])
            .ok()
            .and_then(parse_number)
            .ok_or_else(|| self.garbled())
    }

    /// Writes a value; the caller tells errors apart.
    pub(super) fn write(&self, value: &str) -> io::Result<()> {
        // One write is one command to the kernel: never split, never appended.
        self.file.write_at(value.as_bytes(), 0).map(|_| ())
    }

    fn garbled(&self) -> CgroupError {
        CgroupError::Io {
            what: "reading",
            path: self.path.clone(),
            source: io::Error::new(io::ErrorKind::InvalidData, "not what a control file holds"),
        }
    }
}

/// A number, or `u64::MAX` for `max`.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The number behind a name in a file of `name value` lines.
pub(super) fn keyed_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// The file of the hard limit.
pub(super) fn limit_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    }
}

/// A poisoned list of changes is still the list of changes.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a small control file that is seldom needed.
pub(super) fn read_text(path: &Path) -> Result<String, CgroupError> {
    fs::read_to_string(path).map_err(|source| CgroupError::io("reading", path, source))
}

/// File systems whose files are settings of the kernel (`linux/magic.h`): cgroup v1, v2, sysfs.
const CONTROL_FILE_SYSTEMS: [u64; 3] = [0x0027_e0eb, 0x6367_7270, 0x6265_6572];

/// Writes what a journal says into the file that it names, if that is a control file.
pub(super) fn write_back(path: &Path, value: &str) -> Result<(), CgroupError> {
    let failed = |source| CgroupError::io("writing", path, source);
    // Looked at before it is opened, too: to open a device can do something.
    let directory = path.parent().unwrap_or(path);
    let kind = rustix::fs::statfs(directory).map_err(|errno| failed(errno.into()))?;
    if !is_control(kind.f_type as u64) {
        return Err(CgroupError::NotOurs(path.to_owned()));
    }
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let kind = rustix::fs::fstatfs(&file).map_err(|errno| failed(errno.into()))?;
    if !is_control(kind.f_type as u64) {
        return Err(CgroupError::NotOurs(path.to_owned()));
    }
    file.write_at(value.as_bytes(), 0)
        .map(|_| ())
        .map_err(failed)
}

fn is_control(file_system: u64) -> bool {
    CONTROL_FILE_SYSTEMS.contains(&(file_system & 0xffff_ffff))
}

/// Whether a directory lies where groups do; one that is gone did.
pub(super) fn is_among_groups(path: &Path) -> bool {
    match rustix::fs::statfs(path) {
        Ok(kind) => is_control(kind.f_type as u64),
        Err(errno) => errno == rustix::io::Errno::NOENT,
    }
}

/// Writes a control file that is seldom needed.
pub(super) fn write_text(path: &Path, value: &str) -> Result<(), CgroupError> {
    // Not `fs::write`: that would create a missing file.
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.write_at(value.as_bytes(), 0))
        .map(|_| ())
        .map_err(|source| CgroupError::io("writing", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_journal_says_is_written_into_control_files_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("memory.max");
        fs::write(&file, "mine").expect("written");
        let error = write_back(&file, "max").expect_err("no control file");
        assert!(matches!(error, CgroupError::NotOurs(_)), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("read"), "mine");
        assert!(!is_among_groups(dir.path()));
        let gone = dir.path().join("gone/memory.max");
        let error = write_back(&gone, "max").expect_err("gone");
        assert!(matches!(error, CgroupError::Gone(_)), "{error}");
        // sysfs is everywhere; what is written there is what stands there.
        let error = write_back(Path::new("/sys/kernel/no-such-file"), "1").expect_err("not there");
        assert!(!matches!(error, CgroupError::NotOurs(_)), "{error}");
    }
}
