//! Reading what lies in the run directory: what is not there is told apart from what may not be read.
//!
//! **Owns** that distinction, and the advice for a user without rights. **Does not own** what is read, nor the path in an error,
//! which whoever asks names.
//!
//! **Invariants** R1: only a kernel that says "no such file" makes it nothing; every other reason is an error.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::trust::{self, Missing};

/// Names of what is in a directory, in order; none where there is no such directory.
///
/// # Errors
/// The directory may not be read.
pub fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = || {
        let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
        entries.collect::<io::Result<Vec<OsString>>>()
    };
    let mut names = unless_absent(names())?.unwrap_or_default();
    names.sort();
    Ok(names)
}

/// What a file says that nobody else could have written; `None`: there is none.
///
/// # Errors
/// The file may not be read, or can't be trusted.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let read = || {
        trust::check_directory(path.parent().unwrap_or(path), Missing::Refuse)?;
        let mut text = Vec::new();
        trust::open_to_read(path)?.read_to_end(&mut text)?;
        Ok(text)
    };
    unless_absent(read())
}

fn unless_absent<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // What is not trusted says so itself, and is no error of the system.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
            let advice = crate::rights::advice("the right to read there");
            Err(io::Error::new(error.kind(), format!("{error}; {advice}")))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_nothing_and_what_can_not_be_read_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, gone) = (dir.path().join("file"), dir.path().join("gone/file"));
        fs::write(&file, "7").expect("written");
        assert_eq!(names(dir.path()).expect("read"), ["file"]);
        assert_eq!(read(&file).expect("read"), Some(b"7".to_vec()));
        assert!(names(&gone).expect("read").is_empty());
        assert_eq!(read(&gone).expect("read"), None);
        names(&file).expect_err("no directory");
        read(dir.path()).expect_err("no file");
        let denied = || Err(io::Error::from_raw_os_error(libc::EACCES));
        let error = unless_absent::<()>(denied()).expect_err("denied");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("root"), "{error}");
    }
}
