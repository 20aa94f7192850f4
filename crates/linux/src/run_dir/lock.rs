//! Locks of the whole machine, as files of the run directory.
//!
//! Whoever can open a file can lock it, even for reading only. So a lock file is for its owner alone, and
//! one that others could open once is replaced, because they may hold it still. The file goes with the lock.
//!
//! **Owns** the lock files, how long one is waited for, and naming who has it. **Does not own** what a lock
//! protects.
//!
//! **Invariants**
//! - L1: a lock that is returned is of the file that is at its path at that moment, so two never have it.
//! - L2: nobody waits longer than [`LOCK_WAIT_MAX`].

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock, major, minor};

use super::mark::run_dir;
use super::trust::{self, Missing};

/// What is done under a lock takes milliseconds; loading a module and waiting for a device up to seconds.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(5);
const LOCK_MODE: u32 = 0o600;
const OPEN_TO_OTHERS: u32 = 0o077;
/// A replacement is put in place in microseconds; one that is older was left by somebody who died.
const REPLACEMENT_TIME_MAX: Duration = Duration::from_secs(5);

/// A lock that is held until this goes out of scope.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever waits for it finds that its file is gone, and makes another one.
        if let Err(error) = remove(&self.path) {
            tracing::debug!("{} stays: {error}", self.path.display());
        }
    }
}

/// Takes the machine-wide lock `.<name>.lock` of the run directory.
pub fn lock_run_dir(name: &str) -> io::Result<Lock> {
    lock_in(&run_dir(), name)
}

/// Takes the lock `.<name>.lock` of another directory, which is made if it is not there.
pub fn lock_in(directory: &Path, name: &str) -> io::Result<Lock> {
    lock_within(directory, name, LOCK_WAIT_MAX)
}

fn lock_within(directory: &Path, name: &str, limit: Duration) -> io::Result<Lock> {
    let path = directory.join(format!(".{name}.lock"));
    let deadline = Instant::now() + limit;
    loop {
        trust::check_directory(directory, Missing::Make)?;
        match try_lock(&path) {
            Ok(Some(_file)) => return Ok(Lock { path, _file }),
            Ok(None) => {}
            // The directory went meanwhile, with somebody else's last lock in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if Instant::now() > deadline {
            return Err(too_late(&path, limit));
        }
        thread::sleep(LOCK_POLL);
    }
}

/// `None`: somebody has it, or it has just been replaced.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = trust::open_file(path, options.mode(LOCK_MODE))?;
    let found = file.metadata()?;
    if found.mode() & OPEN_TO_OTHERS != 0 {
        replace(path)?;
        return Ok(None);
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    let is_in_place = fs::symlink_metadata(path)
        .is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
    Ok(is_in_place.then_some(file))
}

/// Puts a new file in the place of one that others can open.
fn replace(path: &Path) -> io::Result<()> {
    let fresh = path.with_extension("lock.new");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(LOCK_MODE);
    match options.open(&fresh) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Another Strata is just about it.
            if is_old(&fresh) {
                remove(&fresh)?;
            }
            return Ok(());
        }
        made => made?,
    };
    // Only one gets here at a time, so what is looked at now is not replaced by another one in between.
    let is_open = fs::symlink_metadata(path).is_ok_and(|now| now.mode() & OPEN_TO_OTHERS != 0);
    match is_open {
        true => fs::rename(&fresh, path),
        false => remove(&fresh),
    }
}

fn is_old(path: &Path) -> bool {
    let age = fs::symlink_metadata(path)
        .and_then(|found| found.modified())
        .map(|since| SystemTime::now().duration_since(since).unwrap_or_default());
    age.is_ok_and(|age| age > REPLACEMENT_TIME_MAX)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn too_late(path: &Path, limit: Duration) -> io::Error {
    let holder = fs::symlink_metadata(path)
        .ok()
        .and_then(|found| holder_of(&found));
    let who = match holder {
        Some(pid) => {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("process {pid} ({:?})", comm.trim_end())
        }
        None => "somebody".to_owned(),
    };
    let why = format!(
        "the lock {} has been held by {who} for {} s; look what that process does, or end it",
        path.display(),
        limit.as_secs()
    );
    io::Error::new(io::ErrorKind::TimedOut, why)
}

/// Who has a file locked.
pub(crate) fn holder_of(file: &Metadata) -> Option<i32> {
    holder_in(&fs::read_to_string("/proc/locks").ok()?, file)
}

/// Who has a file locked, from a line such as `3: FLOCK  ADVISORY  WRITE 4242 00:1a:1035 0 EOF`.
fn holder_in(locks: &str, file: &Metadata) -> Option<i32> {
    let (major, minor) = (major(file.dev()), minor(file.dev()));
    let wanted = format!("{major:02x}:{minor:02x}:{}", file.ino());
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_flock = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?;
        (is_flock && fields.next() == Some(&wanted)).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const SHORT: Duration = Duration::from_millis(60);

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join(".x.lock")
    }

    #[test]
    fn a_lock_is_for_its_owner_alone_and_one_has_it_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let lock = lock_in(dir.path(), "x").expect("free");
        let found = fs::metadata(path(&dir)).expect("there");
        assert_eq!(found.mode() & 0o7777, 0o600);
        let error = lock_within(dir.path(), "x", SHORT).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let text = error.to_string();
        let own = format!("process {}", std::process::id());
        assert!(text.contains(&own) && text.contains(".x.lock"), "{text}");
        drop(lock);
        assert!(!path(&dir).exists(), "its file goes with it");
        lock_within(dir.path(), "x", SHORT).expect("free again");
    }

    #[test]
    fn a_lock_that_is_a_link_makes_nothing_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("target");
        symlink(&target, path(&dir)).expect("a link");
        let error = lock_in(dir.path(), "x").expect_err("a link");
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(!target.exists());
    }

    #[test]
    fn old_locks_are_replaced_by_several_at_once_without_two_having_one() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(path(&dir), "").expect("made");
        fs::set_permissions(path(&dir), fs::Permissions::from_mode(0o644)).expect("mode");
        let inside = std::sync::atomic::AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _lock = lock_in(dir.path(), "x").expect("in turn");
                    use std::sync::atomic::Ordering::SeqCst;
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    thread::sleep(Duration::from_millis(3));
                    inside.fetch_sub(1, SeqCst);
                });
            }
        });
    }
}
