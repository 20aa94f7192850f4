//! Memory cgroups, version 1 and 2, behind one interface.
//!
//! [`BudgetGroup`] is the group a budget is held in:
//!
//! ```text
//!   create(id)       strata-<id>: below our own group (v1), below the nearest ancestor that hands out
//!                    the controller (v2), or in a transient scope (systemd); removed at the end
//!   attach(path)     a group that is there already: never removed, every value put back
//!   of_process(pid)  the same, but only if nobody else lives in it; else `None`
//!
//!   set_budget_bytes  the limit goes to backstop_bytes(budget), or as low as usage allows;
//!   settle_limit      follows usage down to it, once a tick
//!   usage_bytes       cheap (one pread), as often as wanted
//!   reclaim(bytes)    the kernel frees ahead of the limit, in the calling thread
//!   hold_line         the limit (v1) or memory.high (v2) comes down to just below the budget while
//!                     nothing else keeps up
//!   watch_oom         v1: nobody is killed any more, tasks wait; on an event `relieve(step)` lets them
//!                     go on, `hand_back_oom` lets the kernel kill if nothing else is left
//!   usage_watch       v1: an event when usage crosses a threshold; v2 has none: poll usage (adaptively)
//!   restore, remove   undo
//! ```
//!
//! Dropping a group undoes nothing: call `remove`; after a crash the keeper does.
//! Methods but `remove` take `&self`: one thread may reclaim while another relieves. Each change is announced
//! to a [`Journal`] before it is made, so that the keeper can undo it.
//!
//! **Owns** making, limiting, reading, reclaiming from and removing the group.
//! **Does not own** when to do so (`control`), nor surviving our own death (`keeper`).
//!
//! **Invariants**
//! - C1: no limit is set below what is in use, but for the one step of `hold_line`: the kernel would
//!   reclaim or kill in the program's own allocations. `memory.max` never.
//! - C2: the limit of an attached group is never raised above what it was, nor any limit above what
//!   somebody else sets meanwhile, so that putting it back can't squeeze anybody.
//! - C3: nobody is moved out of a group, nor killed but by `kill`, which only a rule asks for.
//! - C4: (v1) with the OOM killer off, a system call that can't be charged fails with ENOMEM instead
//!   of waiting (only page faults wait), so relief has to come quickly.
//! - C5: what is put back at the end is put over values of ours only (see `written`).

mod around;
pub mod as_text;
mod brake;
mod error;
mod file;
mod freeze;
mod held;
mod identity;
mod ids;
mod kill;
mod limit;
mod line;
mod line_v2;
mod mounts;
mod name;
mod namespace;
mod place;
mod processes;
mod reader;
mod reclaim;
mod stats;
mod systemd;
mod watch;
mod written;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub use brake::Brake;
pub use error::{CgroupError, FoundLimit, Occupant, ReclaimError};
pub use file::MemoryLimit;
use file::{ControlFile, UNLIMITED, keyed_number, limit_file, lock, parse_number, read_text};
pub use freeze::{Freezer, HaltError, is_frozen, thaw};
pub use held::{Hold, hold};
pub use identity::GroupMark;
use identity::Place;
pub use ids::GroupNames;
pub use kill::kill;
use line_v2::HighLine;
use mounts::{Mount, not_a_group, resolve};
pub use namespace::join_first;
pub use place::{may_be_ours, remove_group};
use processes::is_all_below;
pub use processes::{is_inhabited, processes_below};
pub use reader::GroupReader;
pub use reclaim::{Amount, is_reclaimed_by_amount, reclaim_all, reclaim_from};
pub use stats::{Charge, FileStats};
pub use watch::{OomEvents, OomWatch, UsageWatch};
pub use written::{PutBack, put_back};
use written::{Written, located};

use crate::claim::{Claim, ClaimError};
use crate::undo::{Journal, Undo};
pub use strata_lru::machine::{CgroupVersion as Version, Line};
use strata_lru::machine::{GroupStats, LimitDistances};

/// How far below usage the line of v1 is brought in one step: twice as far after each success, half as far
/// after a failure.
const STEP_BYTES_MIN: u64 = 32 << 10;

/// The version of the hierarchy a group would be made in.
///
/// # Errors
/// [`CgroupError::NoMemoryController`] where there is none.
pub fn mounted_version() -> Result<Version, CgroupError> {
    Mount::find().map(|mount| mount.version)
}

/// The directory that hierarchy is mounted on.
///
/// # Errors
/// [`CgroupError::NoMemoryController`] where there is none.
pub fn mount_point() -> Result<PathBuf, CgroupError> {
    Mount::find().map(|mount| mount.point)
}

/// How a group came to be ours.
#[derive(Debug)]
enum Origin {
    Made,
    Scope(systemd::Anchor),
    Attached,
}

/// A memory cgroup that holds a budget.
#[derive(Debug)]
pub struct BudgetGroup {
    /// Directory in which the group was found or made; journalled, and shown. [`BudgetGroup::here`] is for files.
    path: PathBuf,
    place: Place,
    version: Version,
    origin: Origin,
    journal: Journal,
    usage: ControlFile,
    stat: ControlFile,
    limit: ControlFile,
    /// The file of the limit opened once more, for dips alone: a write holds its own until the kernel is through, and
    /// who moves, raises or reads the limit by that waits.
    dip_limit: ControlFile,
    /// `memory.reclaim` (v2).
    reclaim: Option<ControlFile>,
    /// `memory.high` (v2).
    high: Option<HighLine>,
    /// For `memory.reclaim`, where the kernel takes it.
    reclaim_swappiness: Mutex<Option<u8>>,
    /// The limit that should stand now; a dip returns to it.
    wanted_limit_bytes: AtomicU64,
    /// Where limit and line of a budget stand.
    distances: LimitDistances,
    /// How far the line goes down next.
    line_step_bytes: AtomicU64,
    /// `u64::MAX`: none.
    budget_bytes: AtomicU64,
    /// The limit found in an attached group, or set by somebody else since: never exceeded.
    ceiling_bytes: AtomicU64,
    /// What to write back, oldest first.
    changed: Mutex<Vec<Undo>>,
    /// What we wrote.
    written: Written,
    /// What the user should know, not yet fetched.
    news: Mutex<Vec<String>>,
}

impl BudgetGroup {
    /// Makes the group `strata-<id>`.
    ///
    /// On v2 it may land beside our own group instead of below it (only leaves may hold processes), or
    /// higher up, but never outside a limit that we are under.
    ///
    /// # Errors
    /// [`CgroupError::NoMemoryController`], [`CgroupError::NoDelegation`], [`CgroupError::LeavesLimit`],
    /// [`CgroupError::OutsideMount`], [`CgroupError::BadName`].
    pub fn create(id: &str, journal: &Journal) -> Result<BudgetGroup, CgroupError> {
        let name = place::group_name(id)?;
        let mount = Mount::find()?;
        let has_systemd = mount.version == Version::V2 && systemd::is_running();
        let scope = match has_systemd.then(|| systemd::make_scope(&mount, &name, journal)) {
            None => None,
            Some(Ok(scope)) => Some(scope),
            Some(Err(error)) => {
                tracing::warn!("{error}; making the group by hand");
                None
            }
        };
        let (path, origin) = match scope {
            Some((path, anchor)) => (path, Origin::Scope(anchor)),
            None => (place::make(&mount, &name, journal)?, Origin::Made),
        };
        let made = BudgetGroup::open(path.clone(), mount.version, origin, journal);
        if made.is_err() {
            // Nothing is in it yet; what is left is said by the error that matters.
            let _ = remove_group(&path);
        }
        made
    }

    /// Takes a group that is there: a directory below the mount, or a path relative to the mount
    /// (with or without a leading `/`, as `/proc/PID/cgroup` prints it).
    ///
    /// # Errors
    /// [`CgroupError::NotAGroup`], [`CgroupError::Held`].
    pub fn attach(path: &Path, journal: &Journal) -> Result<BudgetGroup, CgroupError> {
        let mount = Mount::find()?;
        let group = resolve(&mount, path)?;
        let not_a_group = |why: &str| not_a_group(path, why);
        if !group.join(limit_file(mount.version)).exists() {
            return Err(not_a_group(
                "it has no memory limit: the root, or the controller is not handed out to it",
            ));
        }
        if group == mount.point {
            return Err(not_a_group("it is the root, which holds the whole system"));
        }
        BudgetGroup::open(group, mount.version, Origin::Attached, journal)
    }

    /// Takes the group of a process if only the process and its descendants are in it.
    ///
    /// # Errors
    /// As [`BudgetGroup::attach`]; a process that is gone is [`CgroupError::Io`].
    pub fn of_process(pid: i32, journal: &Journal) -> Result<Option<BudgetGroup>, CgroupError> {
        let mount = Mount::find()?;
        let Some(group) = mount.group_of(Some(pid))? else {
            return Ok(None);
        };
        let has_limit = group.join(limit_file(mount.version)).exists();
        if group == mount.point || !has_limit {
            return Ok(None);
        }
        if !is_all_below(pid, &processes_below(&group)?) {
            return Ok(None);
        }
        BudgetGroup::open(group, mount.version, Origin::Attached, journal).map(Some)
    }

    fn open(
        path: PathBuf,
        version: Version,
        origin: Origin,
        journal: &Journal,
    ) -> Result<BudgetGroup, CgroupError> {
        let mark =
            GroupMark::of(&path).map_err(|source| CgroupError::io("looking at", &path, source))?;
        if matches!(origin, Origin::Attached) && journal.is_kept() && is_own(&path)? {
            return Err(CgroupError::OwnGroup(path));
        }
        let claim = match origin {
            Origin::Attached => Claim::Attach,
            Origin::Made | Origin::Scope(_) => Claim::Make,
        };
        // Before anything is read that will be put back: what stands there while another session holds the
        // group is that session's.
        journal.claim(&mark, claim).map_err(|error| match error {
            ClaimError::Held(holder) => CgroupError::Held {
                path: path.clone(),
                holder,
            },
            ClaimError::Io(source) => CgroupError::Journal {
                path: path.clone(),
                source,
            },
        })?;
        let limit = ControlFile::open_read_write(path.join(limit_file(version)))?;
        let dip_limit = ControlFile::open_write(limit.path.clone())?;
        let found_bytes = limit.read_number()?;
        let (usage, reclaim) = match version {
            Version::V1 => ("memory.usage_in_bytes", None),
            // Kernels before 5.19 lack it: then the limit alone holds the budget.
            Version::V2 => (
                "memory.current",
                ControlFile::open_write(path.join("memory.reclaim")).ok(),
            ),
        };
        Ok(BudgetGroup {
            usage: ControlFile::open_read(path.join(usage))?,
            stat: ControlFile::open_read(path.join("memory.stat"))?,
            limit,
            dip_limit,
            reclaim,
            high: match version {
                Version::V1 => None,
                Version::V2 => HighLine::open(&path),
            },
            reclaim_swappiness: Mutex::new(None),
            wanted_limit_bytes: AtomicU64::new(found_bytes),
            distances: LimitDistances::DEFAULT,
            line_step_bytes: AtomicU64::new(STEP_BYTES_MIN),
            budget_bytes: AtomicU64::new(u64::MAX),
            ceiling_bytes: AtomicU64::new(match origin {
                Origin::Attached => found_bytes,
                Origin::Made | Origin::Scope(_) => u64::MAX,
            }),
            changed: Mutex::new(Vec::new()),
            place: Place::new(mark),
            written: Written::default(),
            news: Mutex::new(Vec::new()),
            path,
            version,
            origin,
            journal: journal.clone(),
        })
    }

    /// Limit and line of a budget stand as this has it from now on.
    pub fn set_distances(&mut self, distances: LimitDistances) {
        self.distances = distances;
    }

    /// Directory of the group, as it was called when the group was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Directory of the group as it is called now.
    fn here(&self) -> PathBuf {
        self.place.here()
    }

    /// Version of cgroups that the group is of.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the group was there before Strata.
    pub fn is_attached(&self) -> bool {
        matches!(self.origin, Origin::Attached)
    }

    /// Path of the group below the mount, as `/proc/PID/cgroup` prints it.
    pub fn name(&self) -> String {
        let mount = Mount::known_point().unwrap_or_else(|| Path::new(""));
        let inside = self.path.strip_prefix(mount).unwrap_or(&self.path);
        name::shown(inside)
    }

    /// `cgroup.procs` opened for writing, to be inherited over a fork: a child that writes `0` to it
    /// before exec is in the group with all it will ever allocate.
    pub fn join_file(&self) -> Result<OwnedFd, CgroupError> {
        let path = self.here().join("cgroup.procs");
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .map(OwnedFd::from)
            .map_err(|source| CgroupError::io("opening", &path, source))
    }

    /// The processes in it and in the groups below, each once.
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        processes_below(&self.here())
    }

    /// Whether anybody is in the group or in the groups below.
    pub fn is_inhabited(&self) -> Result<bool, CgroupError> {
        is_inhabited(&self.here())
    }

    /// Bytes charged now. One `pread`, no allocation.
    pub fn usage_bytes(&self) -> Result<u64, CgroupError> {
        self.usage.read_number()
    }

    /// The counters; some 30 us.
    ///
    /// Reading them makes the kernel bring them up to date, for itself too. Seen on 6.18: under a limit
    /// it decides from counts that may be seconds old whether active pages must be deactivated. After
    /// fast growth it can find none to take for a while although every page could go, and that is an
    /// out-of-memory moment with swap nearly empty.
    pub fn stats(&self) -> Result<GroupStats, CgroupError> {
        let mut stats = stats::parse(&self.stat.read()?, self.version);
        stats.nr_oom_kills = self.oom_kills()?;
        if self.version == Version::V2 {
            stats.swap_bytes = self.swap_bytes();
        }
        Ok(stats)
    }

    /// What is charged of swap now, by counters that the kernel keeps up to date without being asked; `None` where it has none.
    /// On v1 what is in memory as well is not part of it.
    pub fn swap_bytes(&self) -> Option<u64> {
        let here = self.here();
        let read = |file: &str| parse_number(&fs::read_to_string(here.join(file)).ok()?);
        match self.version {
            Version::V1 => {
                let with_memory_bytes = read("memory.memsw.usage_in_bytes")?;
                Some(with_memory_bytes.saturating_sub(self.usage_bytes().ok()?))
            }
            Version::V2 => read("memory.swap.current"),
        }
    }

    /// Processes of the group killed for want of memory; `None` where the kernel does not count.
    pub fn oom_kills(&self) -> Result<Option<u64>, CgroupError> {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = read_text(&self.here().join(file))?;
        Ok(keyed_number(&text, "oom_kill"))
    }

    /// Whether tasks wait for memory at the limit (v1 with the OOM killer off).
    pub fn is_under_oom(&self) -> Result<bool, CgroupError> {
        if self.version == Version::V2 {
            return Ok(false);
        }
        let text = read_text(&self.here().join("memory.oom_control"))?;
        Ok(keyed_number(&text, "under_oom") == Some(1))
    }

    /// What the user should know and was not told yet: that somebody else has set a limit meanwhile.
    pub fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.news))
    }

    /// Puts every changed value back, the last one first, but what somebody else has changed since: that
    /// is left, and told. Goes through all of them and returns the first failure; a group that is gone needs
    /// nothing.
    pub fn restore(&self) -> Result<(), CgroupError> {
        let mut first_error = None;
        let mut changed = lock(&self.changed);
        while let Some(undo) = changed.pop() {
            let Undo::RestoreFile { path, value } = &undo else {
                continue;
            };
            match put_back(Some(&self.place.mark), path, value, &self.written.of(path)) {
                Ok(done) => {
                    self.forget(&undo);
                    // A group of ours goes, and with it the value.
                    if let (PutBack::Left(said), true) = (done, self.is_attached()) {
                        lock(&self.news).push(said);
                    }
                }
                Err(error) => {
                    tracing::warn!("{error}");
                    first_error.get_or_insert(error);
                }
            }
        }
        self.budget_bytes.store(u64::MAX, Ordering::SeqCst);
        if let Some(high) = &self.high {
            high.forget();
        }
        if let Ok(limit) = self.limit.read_number() {
            self.wanted_limit_bytes.store(limit, Ordering::SeqCst);
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Puts every value back and, if the group is ours, removes it, waiting up to 2 s for processes
    /// that have just ended. May be called again after a failure.
    ///
    /// # Errors
    /// [`CgroupError::StillInhabited`] names who is still in it; nobody is killed.
    pub fn remove(&mut self) -> Result<(), CgroupError> {
        self.restore()?;
        match &mut self.origin {
            Origin::Attached => return Ok(()),
            Origin::Made => remove_marked(&self.place.mark)?,
            Origin::Scope(anchor) => {
                remove_marked(&self.place.mark)?;
                anchor.release();
            }
        }
        self.forget(&Undo::RemoveGroup {
            path: self.path.clone(),
        });
        Ok(())
    }

    fn forget(&self, undo: &Undo) {
        if let Err(error) = self.journal.forget(undo) {
            // Harmless: carried out again it finds nothing to do.
            tracing::debug!("journal: {error}");
        }
    }

    /// Before a write: remembers the value, also for the keeper.
    fn note_written(&self, file: &Path, value: u64) -> Result<(), CgroupError> {
        let keep = |values: &[u64]| self.journal.note_written(file, values);
        self.written
            .note(file, value, keep)
            .map_err(|source| CgroupError::Journal {
                path: self.path.clone(),
                source,
            })
    }

    /// Whether somebody else has written what was `found` in a file: neither one of our values nor the
    /// original.
    fn is_foreign(&self, file: &Path, found: u64) -> bool {
        self.written.is_foreign(file, found)
            && !lock(&self.changed).iter().any(|undo| {
                matches!(undo, Undo::RestoreFile { path, value }
                    if path == file && written::value_of(value) == written::value_of(&found.to_string()))
            })
    }

    /// Takes what somebody else has written for the value to put back, and tells.
    fn adopt(&self, file: &Path, found: u64) -> Result<(), CgroupError> {
        let former = {
            let mut changed = lock(&self.changed);
            let is_it =
                |undo: &Undo| matches!(undo, Undo::RestoreFile { path, .. } if path == file);
            let at = changed.iter().position(is_it);
            at.map(|at| changed.remove(at))
        };
        // Nothing of ours stands there now, so a death in between has nothing to undo.
        if let Some(former) = former {
            self.forget(&former);
        }
        lock(&self.news).push(written::told(file, found));
        self.note_original(file, || Ok(self.limit_text(found)))
    }

    /// Before the first change of a file: remembers and journals what it held.
    fn note_original(
        &self,
        file: &Path,
        original: impl FnOnce() -> Result<String, CgroupError>,
    ) -> Result<(), CgroupError> {
        let mut changed = lock(&self.changed);
        let is_known = changed
            .iter()
            .any(|undo| matches!(undo, Undo::RestoreFile { path, .. } if path == file));
        if is_known {
            return Ok(());
        }
        let undo = Undo::RestoreFile {
            path: file.to_owned(),
            value: original()?,
        };
        self.journal
            .record(&undo)
            .map_err(|source| CgroupError::Journal {
                path: self.path.clone(),
                source,
            })?;
        changed.push(undo);
        Ok(())
    }
}

/// Removes a group of ours wherever it is now.
pub fn remove_marked(mark: &GroupMark) -> Result<(), CgroupError> {
    match located(Some(mark), &mark.path)? {
        Some(here) => remove_group(&here),
        // Another group has come to be there.
        None if mark.path.exists() => Ok(()),
        None => remove_group(&mark.path),
    }
}

/// Whether the calling process is in the group at the path, or in a group below it.
fn is_own(group: &Path) -> Result<bool, CgroupError> {
    let own = Mount::find()?.group_of(None)?;
    Ok(own.is_some_and(|own| own.starts_with(group)))
}
