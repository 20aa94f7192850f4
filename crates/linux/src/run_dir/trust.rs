//! Whether what lies in the run directory can be believed.
//!
//! Root carries out what a state file says, and creates lock files. So nobody but root and ourselves may
//! have had a hand in them: not as owner, not by writing, and not by putting a link where we look.
//!
//! **Owns** what is checked, of each directory on the way and of each file. **Does not own** which files
//! there are (`state`, `lock`).
//!
//! **Invariants**
//! - T1: nothing is made, opened or read below a directory before each directory on the way to it was
//!   found to be ours or root's, and out of the reach of others.
//! - T2: the last part of a path is never followed if it is a link.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Mode of a run directory that we make.
const RUN_DIR_MODE: u32 = 0o755;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// As many links as the kernel follows.
const LINKS_MAX: u32 = 40;

/// What becomes of a directory that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The missing directory is made, for us to write.
    Make,
    /// A missing directory is an error.
    Refuse,
}

/// Checks every directory on the way to `path`, links resolved, and `path` itself.
pub fn check_directory(path: &Path, missing: Missing) -> io::Result<()> {
    let mut at = PathBuf::from("/");
    let mut ahead = parts(&std::path::absolute(path)?);
    let mut nr_links = 0;
    check_reach(&at, &fs::symlink_metadata(&at)?, Way::Through)?;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(part);
        let found = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Make => {
                match DirBuilder::new().mode(RUN_DIR_MODE).create(&next) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => fs::symlink_metadata(&next)?,
                }
            }
            found => found?,
        };
        check_owner(&next, &found)?;
        if found.is_symlink() {
            nr_links += 1;
            if nr_links > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            ahead.extend(parts(&target));
            continue;
        }
        if !found.is_dir() {
            return Err(refusal(&next, "is not a directory"));
        }
        let way = match ahead.is_empty() {
            true => Way::End,
            false => Way::Through,
        };
        check_reach(&next, &found, way)?;
        at = next;
    }
    Ok(())
}

/// Opens a file in a directory that was checked; it has to be ours, and no link.
pub fn open_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Not blocking, should somebody have put a pipe there.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file =
        options
            .custom_flags(flags)
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP) => refusal(path, "is a symbolic link"),
                _ => error,
            })?;
    let found = file.metadata()?;
    check_owner(path, &found)?;
    match found.is_file() {
        true => Ok(file),
        false => Err(refusal(path, "is not a plain file")),
    }
}

/// Opens a file whose content is believed: nobody else may write it.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let file = open_file(path, OpenOptions::new().read(true))?;
    check_reach(path, &file.metadata()?, Way::End)?;
    Ok(file)
}

/// What a directory is on the way to what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A part of it: in one like `/tmp` others can write, but not remove or rename what is ours.
    Through,
    /// The end of the way.
    End,
}

fn check_owner(path: &Path, found: &Metadata) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    match found.uid() {
        uid if uid == 0 || uid == own => Ok(()),
        uid => Err(refusal(path, &format!("belongs to user {uid}"))),
    }
}

fn check_reach(path: &Path, found: &Metadata, way: Way) -> io::Result<()> {
    let is_out_of_reach = found.mode() & WRITABLE_BY_OTHERS == 0
        || (way == Way::Through && found.mode() & STICKY != 0);
    match is_out_of_reach {
        true => Ok(()),
        false => {
            let mode = found.mode() & 0o7777;
            Err(refusal(
                path,
                &format!("can be written by others (mode {mode:04o})"),
            ))
        }
    }
}

fn refusal(path: &Path, what: &str) -> io::Error {
    let why = format!(
        "{} {what}, so what is there can't be trusted",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    }

    #[track_caller]
    fn refused(path: &Path, missing: Missing) -> String {
        check_directory(path, missing)
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused_and_so_is_one_in_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("run");
        check_directory(&run, Missing::Make).expect("made");
        assert_eq!(fs::metadata(&run).expect("there").mode() & 0o7777, 0o755);
        mode(&run, 0o757);
        assert!(refused(&run, Missing::Refuse).contains("mode 0757"));
        assert!(refused(&run.join("1"), Missing::Make).contains("mode 0757"));
        assert!(!run.join("1").exists(), "made where others can write");
        // As in /tmp what is ours is safe there, but anybody can add to what is looked through.
        mode(&run, 0o1777);
        assert!(refused(&run, Missing::Refuse).contains("mode 1777"));
        check_directory(&run.join("1"), Missing::Make).expect("made");
    }

    #[test]
    fn a_link_is_followed_where_nobody_else_could_have_put_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (real, open) = (dir.path().join("real"), dir.path().join("open"));
        for path in [&real, &open] {
            fs::create_dir(path).expect("made");
        }
        symlink("real", dir.path().join("good")).expect("a link");
        check_directory(&dir.path().join("good/1"), Missing::Make).expect("followed");
        assert!(real.join("1").is_dir());
        mode(&open, 0o777);
        symlink(&open, dir.path().join("bad")).expect("a link");
        let bad = dir.path().join("bad/../bad/1");
        assert!(refused(&bad, Missing::Make).contains("mode 0777"));
        symlink("loop", dir.path().join("loop")).expect("a link");
        assert!(check_directory(&dir.path().join("loop"), Missing::Make).is_err());
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let (theirs, file) = (dir.path().join("theirs"), dir.path().join("file"));
        fs::create_dir(&theirs).expect("made");
        fs::write(&file, "{}").expect("written");
        // Only root can give files away.
        if chown(&theirs, Some(65534), None).is_err() || chown(&file, Some(65534), None).is_err() {
            assert!(!rustix::process::geteuid().is_root());
            return;
        }
        assert!(refused(&theirs.join("run"), Missing::Make).contains("belongs to user 65534"));
        assert!(!theirs.join("run").exists());
        let error = open_to_read(&file).expect_err("refused");
        assert!(
            error.to_string().contains("belongs to user 65534"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_a_link_a_pipe_or_writable_by_others_is_not_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "{}").expect("written");
        symlink("file", at("link")).expect("a link");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        open_to_read(&at("file")).expect("ours");
        for (name, why) in [("link", "symbolic link"), ("pipe", "not a plain file")] {
            let error = open_to_read(&at(name)).expect_err(name);
            assert!(error.to_string().contains(why), "{error}");
        }
        mode(&at("file"), 0o666);
        let error = open_to_read(&at("file")).expect_err("writable");
        assert!(error.to_string().contains("mode 0666"), "{error}");
    }
}
