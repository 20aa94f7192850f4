//! Files that are replaced as a whole: whoever reads one sees the old text or the new one, never a part.
//!
//! The new text is written beside the file and renamed over it. A symbolic link is never followed, neither
//! to write nor to remove: in a directory that others may write to, a link that somebody else has put there
//! would decide which file is lost.
//!
//! **Owns** drafts, renaming, and what a replaced file keeps (mode and owner). **Does not own** any text.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Names that are tried for a draft: others may have put files there.
const DRAFTS_MAX: u32 = 16;

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
    file: File,
    path: PathBuf,
    place: PathBuf,
    is_put: bool,
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
        let (file, path) = create_beside(place)?;
        let draft = Draft {
            file,
            path,
            place: place.to_owned(),
            is_put: false,
        };
        let mode = match (&former, fresh) {
            (Some(former), _) => {
                let (uid, gid) = (former.uid(), former.gid());
                let made = draft.file.metadata()?;
                if (made.uid(), made.gid()) != (uid, gid) {
                    // Before its mode: what is set for one owner must not hold for another.
                    fchown(&draft.file, Some(uid), Some(gid))?;
                }
                Some(former.mode() & 0o777)
            }
            (None, Fresh::Public) => Some(0o644),
            (None, Fresh::ByUmask) => None,
        };
        if let Some(mode) = mode {
            draft
                .file
                .set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(draft)
    }

    /// Where to write.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts it in its place; returns what can tell it from others there later.
    pub fn put(mut self) -> io::Result<FileId> {
        let id = FileId::of(&self.file.metadata()?);
        fs::rename(&self.path, &self.place)?;
        self.is_put = true;
        Ok(id)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_put {
            // The failure that left it says enough.
            let _ = fs::remove_file(&self.path);
        }
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

/// Opens a file that grows in its place, emptied; a device or pipe as it is.
///
/// # Errors
/// A symbolic link to a file, or to nothing, is `InvalidInput`.
pub fn truncate(place: &Path) -> io::Result<File> {
    if fs::metadata(place).is_ok_and(|found| !found.is_file()) {
        return File::options().write(true).open(place);
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    let opened = options.custom_flags(libc::O_NOFOLLOW).open(place);
    opened.map_err(|error| match fs::symlink_metadata(place) {
        Ok(found) if found.is_symlink() => no_file(place, &found),
        _ => error,
    })
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

/// Never opens what is there already, whoever made it.
fn create_beside(place: &Path) -> io::Result<(File, PathBuf)> {
    let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut taken = io::ErrorKind::AlreadyExists.into();
    for attempt in 0..DRAFTS_MAX {
        let mut draft = OsString::from(".");
        draft.push(name);
        draft.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let path = place.with_file_name(draft);
        match File::create_new(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
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
    fn a_draft_never_writes_into_what_others_have_put_there() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, path) = (directory.path().join("victim"), directory.path().join("f"));
        fs::write(&victim, "precious").unwrap();
        let name = format!(".f.{}-0.tmp", std::process::id());
        symlink(&victim, directory.path().join(name)).unwrap();
        replace(&path, b"x", Fresh::Public).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
