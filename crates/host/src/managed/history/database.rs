//! The file of a history: what is in it, and who may open it.
//!
//! docs/reference/history.md has the schema, for those who ask the database themselves.
//!
//! **Owns** the schema, its version, and what is said of a file that can't be used. **Does not own** rows.
//!
//! **Invariants** I1: a database of somebody else or of another version is left as it is. I2: a symbolic link is not
//! followed to write.

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strata_linux::rights;

/// Where a guard that acts keeps its history.
pub const HISTORY_PATH: &str = "/var/lib/strata/history.db";

/// Another process that writes is waited for so long.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Less room than this is none: the index of what is to be merged takes as much as a half of it at once.
const FREE_BYTES_MIN: u64 = 64 << 10;
/// Says in the head of the file whose it is: "STRA".
const APPLICATION: i64 = 0x5354_5241;
/// Of the schema.
const VERSION: i64 = 1;
const SCHEMA: &str = "
CREATE TABLE groups (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE figures (
    at_s INTEGER NOT NULL,
    span_s INTEGER NOT NULL,
    group_id INTEGER NOT NULL,
    resident_bytes INTEGER NOT NULL,
    used_lately_bytes INTEGER NOT NULL,
    away_bytes INTEGER NOT NULL,
    price_bytes INTEGER NOT NULL,
    age_anon_ms INTEGER NOT NULL,
    taken_bytes INTEGER NOT NULL,
    came_back_bytes INTEGER NOT NULL,
    cpu_ns INTEGER NOT NULL,
    PRIMARY KEY (at_s, span_s, group_id)
) STRICT, WITHOUT ROWID;
CREATE VIEW history AS
    SELECT datetime(at_s, 'unixepoch') AS utc, path, figures.*
    FROM figures JOIN groups ON groups.id = figures.group_id;
";

/// Why a history can't be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is none.
    #[error(
        "there is no history at {0}: a guard that acts keeps one; --history PATH names another"
    )]
    Missing(PathBuf),
    /// There is no place for it.
    #[error(
        "the directory of the history {path} can't be used: {source}; --history PATH names another place"
    )]
    Home {
        /// The file that was to be there.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not ours to read.
    #[error(
        "the history {path} can't be read: {source}; {}",
        rights::advice("the right to read it")
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is a database of another program.
    #[error("{0} is a database, but no history of strata; --history PATH names another file")]
    Foreign(PathBuf),
    /// It was written by another version.
    #[error(
        "the history {path} has version {version}, this strata knows {VERSION}: use the strata that wrote it, or move the file away"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Of its schema.
        version: i64,
    },
    /// It was no database ever, or is none any more.
    #[error("{0} is no database, or a damaged one: move it away, and a guard begins a new one")]
    Damaged(PathBuf),
    /// There is no more room.
    #[error(
        "the history {0} can't be used: its disk or its share of it is full; it goes on as soon as there is room"
    )]
    Full(PathBuf),
    /// Somebody reads for so long that what is new can't be merged.
    #[error("the history {0} can't grow: a process reads it without an end; end that one")]
    Held(PathBuf),
    /// Anything else.
    #[error("the history {path} can't be used: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl HistoryError {
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> HistoryError {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                HistoryError::Damaged(path)
            }
            Some(ErrorCode::DiskFull) => HistoryError::Full(path),
            // Where the index of what is to be merged can't grow SQLite does not say why.
            Some(ErrorCode::SystemIoFailure) if is_disk_full(&path) => HistoryError::Full(path),
            _ => HistoryError::Sqlite { path, source },
        }
    }
}

fn is_disk_full(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    let disk = rustix::fs::statvfs(folder);
    disk.is_ok_and(|disk| disk.f_bavail * disk.f_frsize < FREE_BYTES_MIN)
}

/// Opens the file to write; one that is not there is made, and so is its directory.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, HistoryError> {
    let home = |source| HistoryError::Home {
        path: path.to_owned(),
        source,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(home(io::ErrorKind::IsADirectory.into()));
    };
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(home(error)),
        _ => {}
    }
    // SQLite takes a link anywhere in the path for one, which that of a directory may be.
    let place = fs::canonicalize(folder).map_err(home)?.join(name);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(place, flags);
    let mut db = opened.map_err(|error| HistoryError::of(path, error))?;
    let is_new = check(&db, path)?;
    prepare(&mut db, is_new).map_err(|error| HistoryError::of(path, error))?;
    Ok(db)
}

fn prepare(db: &mut Connection, is_new: bool) -> rusqlite::Result<()> {
    // With a log a power failure takes the last minutes, never what was there; nothing waits for the disk.
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    if is_new {
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let nr_tables: i64 = change.query_row(NR_TABLES, [], |row| row.get(0))?;
        // Two may begin at once.
        if nr_tables == 0 {
            change.execute_batch(SCHEMA)?;
            change.pragma_update(None, "application_id", APPLICATION)?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
        change.commit()?;
    }
    Ok(())
}

/// Opens the file to read, beside a guard that writes.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, HistoryError> {
    match access(path, Access::READ_OK) {
        Err(Errno::NOENT) => return Err(HistoryError::Missing(path.to_owned())),
        Err(errno) => {
            return Err(HistoryError::Unreadable {
                path: path.to_owned(),
                source: errno.into(),
            });
        }
        Ok(()) => {}
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags);
    let fail = |error| HistoryError::of(path, error);
    let mut db = opened.map_err(fail)?;
    let mut checked = check(&db, path);
    let may_not_lock = |error: &HistoryError| {
        matches!(error, HistoryError::Sqlite { source, .. }
            if matches!(source.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)))
    };
    if checked.as_ref().is_err_and(may_not_lock) && !log_of(path).exists() {
        // Nobody writes, and the reader may not make the files by which readers and writers agree.
        let name = path.to_string_lossy().replace('%', "%25");
        let name = name.replace('?', "%3f").replace('#', "%23");
        let place = format!("file:{name}?immutable=1");
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        db = Connection::open_with_flags(place, flags).map_err(fail)?;
        checked = check(&db, path);
    }
    match checked? {
        true => Err(HistoryError::Foreign(path.to_owned())),
        false => Ok(db),
    }
}

/// The log beside the file: what is new and not merged yet.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

const NR_TABLES: &str = "SELECT count(*) FROM sqlite_schema";

/// Whether there is nothing in it yet; what is there has to be a history of this version.
fn check(db: &Connection, path: &Path) -> Result<bool, HistoryError> {
    let head = || -> rusqlite::Result<(i64, i64, i64)> {
        db.busy_timeout(BUSY_WAIT)?;
        let ask = |sql| db.query_row(sql, [], |row| row.get(0));
        let (application, version) = ("PRAGMA application_id", "PRAGMA user_version");
        Ok((ask(application)?, ask(version)?, ask(NR_TABLES)?))
    };
    match head().map_err(|error| HistoryError::of(path, error))? {
        (0, 0, 0) => Ok(true),
        (APPLICATION, VERSION, _) => Ok(false),
        (APPLICATION, version, _) => Err(HistoryError::Version {
            path: path.to_owned(),
            version,
        }),
        _ => Err(HistoryError::Foreign(path.to_owned())),
    }
}
