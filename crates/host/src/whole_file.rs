//! Files that are replaced as a whole: whoever reads one sees the old text or the new one, never a part.
//!
//! The new text is written beside the file and renamed over it. A symbolic link is never followed, neither
//! to write nor to remove: in a directory that others may write to, a link that somebody else has put there
//! would decide which file is lost.
//!
//! **Owns** drafts, renaming, what a replaced file keeps (mode and owner), opening what is no file (devices, pipes), and reading
//! a file that has to be one. **Does not own** any text.
//!
//! **Invariants** I1: nothing here waits for somebody to read a pipe without a bound, neither to open nor to write.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use strata_linux::units::Bytes;
use tempfile::NamedTempFile;

/// What a file that is not there yet may be read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// Whom the umask lets.
    ByUmask,
    /// Everybody.
    Public,
}

/// A file that grows beside its place. Dropped before [`Draft::put`] it is removed.
#[derive(Debug)]
pub struct Draft {
    file: NamedTempFile,
    place: PathBuf,
}

impl Draft {
    /// Begins one beside `place`, with the mode and the owner of the file that is there.
    ///
    /// # Errors
    /// A symbolic link or anything but a regular file there is `InvalidInput`.
    pub fn beside(place: &Path, fresh: Fresh) -> io::Result<Draft> {
        let former = match fs::symlink_metadata(place) {
            Ok(found) if found.is_file() => Some(found),
            Ok(found) => return Err(no_file(place, &found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        let directory = place.parent().filter(|of| !of.as_os_str().is_empty());
        let draft = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(directory.unwrap_or_else(|| Path::new(".")))?;
        let mode = match (&former, fresh) {
            (Some(former), _) => {
                let (uid, gid) = (former.uid(), former.gid());
                let made = draft.as_file().metadata()?;
                if (made.uid(), made.gid()) != (uid, gid) {
                    // Before its mode: what is set for one owner must not hold for another.
                    fchown(draft.as_file(), Some(uid), Some(gid))?;
                }
                Some(former.mode() & 0o777)
            }
            (None, Fresh::Public) => Some(0o644),
            (None, Fresh::ByUmask) => None,
        };
        if let Some(mode) = mode {
            draft
                .as_file()
                .set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(Draft {
            file: draft,
            place: place.to_owned(),
        })
    }

    /// Where to write.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Puts it in its place; returns what can tell it from others there later.
    pub fn put(self) -> io::Result<FileId> {
        let file = self.file.persist(&self.place)?;
        Ok(FileId::of(&file.metadata()?))
    }
}

/// Names a file on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(found: &fs::Metadata) -> FileId {
        FileId {
            device: found.dev(),
            inode: found.ino(),
        }
    }

    /// Removes it, if it is still what lies there (a link may have got its number since).
    pub fn remove_from(self, place: &Path) -> io::Result<()> {
        match fs::symlink_metadata(place) {
            Ok(found) if found.is_file() && FileId::of(&found) == self => fs::remove_file(place),
            _ => Ok(()),
        }
    }
}

/// Replaces the file by one with this text.
///
/// # Errors
/// As [`Draft::beside`]; the former file is there then.
pub fn replace(place: &Path, text: &[u8], fresh: Fresh) -> io::Result<FileId> {
    let draft = Draft::beside(place, fresh)?;
    draft.file().write_all(text)?;
    draft.put()
}

/// Reads a text of so many bytes at most.
///
/// # Errors
/// A longer one, and what is no regular file, is `InvalidInput`.
pub fn read_text(place: &Path, bytes_max: u64) -> io::Result<String> {
    let mut options = File::options();
    // To open a pipe that nobody writes to would take for ever.
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(place)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(no_file(place, &found));
    }
    let mut text = String::new();
    let nr_bytes = file.take(bytes_max + 1).read_to_string(&mut text)?;
    if nr_bytes as u64 > bytes_max {
        let why = format!("it has more than {}", Bytes(bytes_max));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(text)
}

/// Opens a file that grows in its place, emptied; a device, a pipe or a descriptor of ours (`/dev/stdout`) as it is. Writes to it wait
/// until somebody reads.
///
/// # Errors
/// A symbolic link to a file, or to nothing, is `InvalidInput`; a pipe that nobody reads is as in [`open_stream`].
pub fn truncate(place: &Path) -> io::Result<File> {
    if is_stream(place) {
        let stream = open_stream(place)?;
        let flags = fcntl_getfl(&stream)?;
        fcntl_setfl(&stream, flags - OFlags::NONBLOCK)?;
        return Ok(stream);
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    let opened = options.custom_flags(libc::O_NOFOLLOW).open(place);
    opened.map_err(|error| match fs::symlink_metadata(place) {
        Ok(found) if found.is_symlink() => no_file(place, &found),
        _ => error,
    })
}

/// Whether what is there is written as it stands, and not replaced: a device, a pipe, or a descriptor of ours by whatever name.
pub fn is_stream(place: &Path) -> bool {
    fs::metadata(place)
        .is_ok_and(|found| !found.is_dir() && (!found.is_file() || is_descriptor(place)))
}

/// Opens what [`is_stream`], to be written to its end with [`write_within`].
///
/// # Errors
/// A pipe that nobody reads, and a socket, are `InvalidInput`.
pub fn open_stream(place: &Path) -> io::Result<File> {
    let mut options = File::options();
    // To open a pipe that nobody reads would take for ever.
    options.append(true).custom_flags(libc::O_NONBLOCK);
    options.open(place).map_err(|error| {
        if error.raw_os_error() != Some(libc::ENXIO) {
            return error;
        }
        let is_pipe = fs::metadata(place).is_ok_and(|found| found.file_type().is_fifo());
        let why = match is_pipe {
            true => "it is a pipe that nobody reads: start its reader first",
            false => "it is a socket or device that can't be opened by name",
        };
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

/// Writes all of it to what [`open_stream`] has opened.
///
/// # Errors
/// `TimedOut` where nobody takes it within `most`.
pub fn write_within(mut stream: &File, text: &[u8], most: Duration) -> io::Result<()> {
    let until = Instant::now() + most;
    let mut rest = text;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(nr_bytes) => rest = &rest[nr_bytes..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for_reader(stream, until).map_err(|error| match error.kind() {
                    io::ErrorKind::TimedOut => io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!(
                            "whoever should read it took {} of {} bytes in {} s",
                            text.len() - rest.len(),
                            text.len(),
                            most.as_secs()
                        ),
                    ),
                    _ => error,
                })?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until there is room in a pipe.
fn wait_for_reader(stream: &File, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&timeout)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether a path stands for an open descriptor, as `/dev/stdout` and `/proc/4242/fd/7` do.
fn is_descriptor(path: &Path) -> bool {
    let leads_there = |path: &Path| {
        let mut parts = path
            .components()
            .skip(1)
            .filter_map(|part| part.as_os_str().to_str());
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let directory = (parts.next(), parts.next(), parts.next());
        match directory {
            (Some("dev"), Some("fd"), Some(number)) => is_number(number) && parts.next().is_none(),
            (Some("proc"), Some(of), Some("fd")) => {
                (of == "self" || is_number(of))
                    && parts.next().is_some_and(is_number)
                    && parts.next().is_none()
            }
            _ => false,
        }
    };
    let is_in_dev = path.parent() == Some(Path::new("/dev"));
    path.is_absolute() && leads_there(path)
        || is_in_dev && fs::read_link(path).is_ok_and(|to| leads_there(&to))
}

fn no_file(place: &Path, found: &fs::Metadata) -> io::Error {
    let why = match fs::read_link(place) {
        Ok(target) if found.is_symlink() => {
            let target = target.display();
            format!(
                "it is a symbolic link to {target}, which is not followed; name the file itself"
            )
        }
        _ if found.is_dir() => "it is a directory".to_owned(),
        _ => "it is no regular file".to_owned(),
    };
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names_in(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root can give a file away.
        let is_given = std::os::unix::fs::chown(&path, Some(65534), Some(65534)).is_ok();
        replace(&path, b"new", Fresh::Public).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o7777, 0o640);
        if is_given {
            assert_eq!((found.uid(), found.gid()), (65534, 65534));
        }
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names_in(directory.path()), 1);
    }

    #[test]
    fn a_link_is_not_followed_and_what_it_leads_to_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, link) = (
            directory.path().join("victim"),
            directory.path().join("link"),
        );
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        truncate(&link).unwrap_err();
        let error = replace(&link, b"new", Fresh::ByUmask).unwrap_err();
        assert!(error.to_string().contains("victim"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(names_in(directory.path()), 2);
    }

    #[test]
    fn only_what_was_put_there_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, path) = (directory.path().join("victim"), directory.path().join("f"));
        fs::write(&victim, "precious").unwrap();
        let ours = replace(&path, b"x", Fresh::Public).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        ours.remove_from(&path).unwrap();
        assert!(victim.exists() && path.is_symlink());
        fs::remove_file(&path).unwrap();
        let ours = replace(&path, b"x", Fresh::Public).unwrap();
        ours.remove_from(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn descriptors_are_known_by_their_names() {
        for path in [
            "/dev/stdout",
            "/dev/stderr",
            "/dev/fd/1",
            "/proc/self/fd/1",
            "/proc/42/fd/1",
        ] {
            assert!(is_descriptor(Path::new(path)), "{path}");
        }
        for path in [
            "/dev/null",
            "/tmp/x",
            "/dev/stdout/x",
            "/proc/42/fd",
            "/proc/42/environ",
        ] {
            assert!(!is_descriptor(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_descriptor_that_is_a_file_is_written_on_from_its_end() {
        use std::os::fd::AsRawFd;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "before ").unwrap();
        let open = File::options().append(true).open(&path).unwrap();
        let name = format!("/proc/self/fd/{}", open.as_raw_fd());
        truncate(Path::new(&name))
            .unwrap()
            .write_all(b"after")
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before after");
    }

    #[test]
    fn what_is_no_file_or_too_long_is_not_read_and_nobody_waits_for_a_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        fs::write(&path, "a text").unwrap();
        assert_eq!(read_text(&path, 6).unwrap(), "a text");
        // A hole of terabytes is not read to its end.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for (place, why) in [
            (path.as_path(), "more than 1 KiB"),
            (&pipe, "no regular file"),
            (Path::new("/dev/zero"), "no regular file"),
            (directory.path(), "a directory"),
        ] {
            let error = read_text(place, 1 << 10).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_pipe_is_opened_only_with_a_reader_and_written_only_while_it_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        for opened in [open_stream(&path), truncate(&path)] {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("nobody reads"), "{error}");
        }
        let mut options = File::options();
        let reader = options.read(true).custom_flags(libc::O_NONBLOCK);
        let _reader = reader.open(&path).unwrap();
        let stream = open_stream(&path).unwrap();
        write_within(&stream, b"it fits", Duration::ZERO).unwrap();
        let much = vec![b'x'; 4 << 20];
        let error = write_within(&stream, &much, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("of 4194304 bytes"), "{error}");
    }
}
