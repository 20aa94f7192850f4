//! Reading a group without touching it: nothing is opened for writing, nothing is journalled.
//!
//! **Owns** listing the groups of the hierarchy and their figures for those who only look.
//! **Does not own** limits or reclaim (`BudgetGroup`).
//!
//! **Invariants** I1: no write reaches a group through this type.

use super::error::CgroupError;
use super::file::{UNLIMITED, children, parse_number, read_text};
use super::mounts::{Mount, not_a_group, resolve};
use super::name;
use super::processes::processes_below;
use super::stats::{Charge, FileStats};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use strata_lru::machine::{CgroupVersion as Version, GroupStats};

/// A group that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReader {
    path: PathBuf,
    /// Below the mount, as `/proc/PID/cgroup` prints it.
    name: String,
    version: Version,
}

impl GroupReader {
    /// The group at `path`: a directory below the mount, or relative to the mount (with or without a
    /// leading `/`). The root is allowed.
    ///
    /// # Errors
    /// [`CgroupError::NotAGroup`]; [`CgroupError::NoMemoryController`] where none is mounted.
    pub fn open(path: &Path) -> Result<GroupReader, CgroupError> {
        let mount = Mount::find()?;
        let directory = resolve(&mount, path)?;
        if !directory.join("cgroup.procs").exists() {
            return Err(not_a_group(path, "it has no list of processes"));
        }
        Ok(GroupReader::at(&mount, directory))
    }

    /// The group of a process; `None` if it lies outside what is mounted.
    ///
    /// # Errors
    /// A process that is gone is [`CgroupError::Io`].
    pub fn of_process(pid: i32) -> Result<Option<GroupReader>, CgroupError> {
        let mount = Mount::find()?;
        let group = mount.group_of(Some(pid))?;
        Ok(group.map(|directory| GroupReader::at(&mount, directory)))
    }

    /// Every group that has processes in itself, parents before children, sorted by name.
    ///
    /// # Errors
    /// As [`GroupReader::every`].
    pub fn all() -> Result<Vec<GroupReader>, CgroupError> {
        let is_occupied = |group: &GroupReader| {
            read_text(&group.path.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty())
        };
        let mut groups = GroupReader::every()?;
        groups.retain(is_occupied);
        Ok(groups)
    }

    /// Every group, parents before children, sorted by name.
    ///
    /// # Errors
    /// [`CgroupError::NoMemoryController`] where none is mounted. A group that goes meanwhile is left out.
    pub fn every() -> Result<Vec<GroupReader>, CgroupError> {
        let mount = Mount::find()?;
        let mut found = Vec::new();
        let mut to_visit = vec![mount.point.clone()];
        while let Some(directory) = to_visit.pop() {
            to_visit.extend(children(&directory));
            found.push(GroupReader::at(&mount, directory));
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    pub(super) fn at(mount: &Mount, path: PathBuf) -> GroupReader {
        let inside = path.strip_prefix(&mount.point).unwrap_or(&path);
        GroupReader {
            name: name::shown(inside),
            version: mount.version,
            path,
        }
    }

    /// Path of the group below the mount, as `/proc/PID/cgroup` prints it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the hierarchy that counts memory.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Directory of the group.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number that the kernel knows it by: the inode of its directory.
    ///
    /// # Errors
    /// [`CgroupError::Gone`].
    pub fn id(&self) -> Result<u64, CgroupError> {
        let found = fs::metadata(&self.path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => CgroupError::Gone(self.path.clone()),
            _ => CgroupError::io("looking at", &self.path, source),
        })?;
        Ok(found.ino())
    }

    /// The processes in it and in the groups below, each once.
    ///
    /// # Errors
    /// [`CgroupError::Gone`].
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        processes_below(&self.path)
    }

    /// The processes in it, without those of the groups below.
    ///
    /// # Errors
    /// [`CgroupError::Gone`].
    pub fn own_processes(&self) -> Result<Vec<i32>, CgroupError> {
        let text = read_text(&self.path.join("cgroup.procs"))?;
        let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        // A v1 list may name one twice.
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Bytes charged now; `None` where the group has no such file (the root on v2).
    pub fn usage_bytes(&self) -> Option<u64> {
        self.number(match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        })
    }

    /// How long some task of the group has waited for memory in all, microseconds; `None` where the kernel does not tell
    /// (v1, or no PSI).
    pub fn waited_us(&self) -> Option<u64> {
        let text = read_text(&self.path.join("memory.pressure")).ok()?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.rsplit_once("total=")?.1.trim().parse().ok()
    }

    /// The hard limit, bytes; `None` without one.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.number(match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        })
        .filter(|&bytes| bytes < UNLIMITED)
    }

    /// How far usage may rise before the group, or one above it, meets its limit; `None` without a limit.
    pub fn room_bytes(&self) -> Option<u64> {
        let rooms = self.limited().filter_map(|(group, budget_bytes)| {
            Some(budget_bytes.saturating_sub(group.usage_bytes()?))
        });
        rooms.min()
    }

    /// The group and those above it that have a limit to keep ([`budget_bytes`](GroupReader::budget_bytes)), with that limit; the
    /// nearest first.
    pub fn limited(&self) -> impl Iterator<Item = (GroupReader, u64)> {
        let above = self.path.ancestors();
        let groups = above.take_while(|path| path.join("cgroup.procs").exists());
        groups.filter_map(|path| {
            let group = GroupReader {
                path: path.to_owned(),
                ..self.clone()
            };
            let budget_bytes = group.budget_bytes()?;
            Some((group, budget_bytes))
        })
    }

    /// The lowest limit the group has to keep, bytes: the hard one, and on v2 the one above which the
    /// kernel throttles; `None` without one.
    pub fn budget_bytes(&self) -> Option<u64> {
        let high_bytes = match self.version {
            Version::V1 => None,
            Version::V2 => self
                .number("memory.high")
                .filter(|&bytes| bytes < UNLIMITED),
        };
        self.limit_bytes().into_iter().chain(high_bytes).min()
    }

    /// What the kernel is asked not to reclaim of the group, bytes: the larger one of `memory.low` and `memory.min`; 0 on v1. What
    /// groups above allow of it is not looked at.
    pub fn protected_bytes(&self) -> u64 {
        let number = |name| match self.version {
            Version::V1 => None,
            Version::V2 => self.number(name),
        };
        number("memory.low").max(number("memory.min")).unwrap_or(0)
    }

    /// The counters, those of the groups below included.
    ///
    /// # Errors
    /// [`CgroupError::Gone`].
    pub fn stats(&self) -> Result<GroupStats, CgroupError> {
        Ok(self.stats_and_files()?.0)
    }

    /// The counters and the parts of the page cache, those of the groups below included, at one moment.
    ///
    /// # Errors
    /// [`CgroupError::Gone`].
    pub fn stats_and_files(&self) -> Result<(GroupStats, FileStats), CgroupError> {
        let text = read_text(&self.path.join("memory.stat"))?;
        let mut stats = super::stats::parse(&text, self.version);
        if self.version == Version::V2 {
            stats.swap_bytes = self.number("memory.swap.current");
        }
        Ok((stats, super::stats::parse_file(&text, self.version)))
    }

    /// What the group itself is charged, without the groups below. `None` of the root on v2, and of a group that is gone.
    pub fn charge(&self) -> Option<Charge> {
        let is_charged = self.version == Version::V1 || self.path.join("memory.current").exists();
        let text = read_text(&self.path.join("memory.stat")).ok();
        let mut charge = super::stats::parse_charge(&text.filter(|_| is_charged)?, self.version);
        if self.version == Version::V1 {
            let of = |path: &Path| {
                let text = read_text(&path.join("memory.kmem.usage_in_bytes")).ok()?;
                parse_number(&text)
            };
            let below = fs::read_dir(&self.path).into_iter().flatten().flatten();
            let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let below_bytes: u64 = below.filter_map(|entry| of(&entry.path())).sum();
            charge.kernel_bytes = of(&self.path).unwrap_or(0).saturating_sub(below_bytes);
        }
        Some(charge)
    }

    fn number(&self, file: &str) -> Option<u64> {
        parse_number(&read_text(&self.path.join(file)).ok()?)
    }
}
