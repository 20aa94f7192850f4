//! Page cache by file: what a census found, with names, chosen and in order.
//!
//! ```text
//!   one census     files          what is in memory, used as far as the kernel remembers
//!   several        FilesWatch     what was read meanwhile, and what lies idle
//! ```
//!
//! **Owns** which files are told and what of them. **Does not own** the census (`access::census`) nor how it is printed.
//!
//! **Invariants**
//! - I1: the total is of all files that were asked for, listed or not.
//! - I2: an estimate never says that more of a file is in memory than the file has, where its size is known.

mod watched;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ledger::OnNodes;
use strata_linux::access::AccessError;
use strata_linux::access::census::{
    Budget, Census, CensusCost, FileId, FileName, FileNames, FilePart, Identity, IdleEstimate,
    Question, Sums, Taken, size_at,
};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::{CgroupError, GroupNames, GroupReader};
use strata_linux::page_cache::{Dropped, Finder};
use strata_linux::plain;
use strata_linux::process::MachineMemory;
pub use watched::{Cold, FilesWatch, Watched};

/// A machine with this much memory or less is looked at as a whole: at some 17 ns a page of 4 KiB that takes less than a second
/// of one processor.
const WHOLE_MEMORY_BYTES_MAX: u64 = 200 << 30;

/// Whether all of this machine's memory can be looked at in less than a second of one processor.
pub fn is_whole_cheap() -> bool {
    MachineMemory::read().is_ok_and(|machine| machine.total_bytes <= WHOLE_MEMORY_BYTES_MAX)
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct FilesQuestion {
    /// Only what is charged to this group and those below it.
    pub group: Option<PathBuf>,
    /// Only files in this directory and below it.
    pub under: Option<PathBuf>,
    /// At most so many files, those with most in memory; after a watch, those with most that is idle.
    pub nr_files_max: Option<usize>,
    /// How much may be looked at; `None`: all of memory at once.
    pub budget: Option<Budget>,
    /// In a watch: the count of reads is reset of this share of the pages whose count is full, 0 to 1.
    pub reset_share: f64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The group can't be found.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The group was there when the census began, and is not any more.
    #[error(
        "the cgroup {} was removed while memory was looked at, so it is not known which page cache was charged to it, \
         and none was dropped; name files by --under DIR, or a cgroup above it",
        .0.display()
    )]
    GroupGone(PathBuf),
    /// The groups can't be looked through after the census.
    #[error(
        "which page cache is charged to the cgroup is not known, and none was dropped: {0}; try again"
    )]
    Groups(CgroupError),
    /// The directory can't be looked into.
    #[error("{}: {source}; name a directory that is there", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// No census can be taken here.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A census was begun and failed.
    #[error("the census of memory failed: {0}; try again")]
    Census(std::io::Error),
}

/// One file and one group that is charged for it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileRow {
    /// Its path. Where none is known: `MAJOR:MINOR:/place` in its file system, or `MAJOR:MINOR:inode NUMBER`.
    pub path: String,
    /// The group, as `/proc/PID/cgroup` has it; `-`: none is charged, `(removed)`: it is gone.
    pub group: String,
    /// In memory.
    pub cached_bytes: u64,
    /// Bytes in memory that were used again since they came, as far as the kernel remembers.
    pub used_bytes: u64,
    /// Bytes in memory that are to be written to the file.
    pub dirty_bytes: u64,
    /// Bytes in memory that a process has mapped.
    pub mapped_bytes: u64,
    /// In memory on each memory node, where there are several and all of memory was looked at, without a watch.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub nodes: OnNodes,
    /// When pages were last read; where there was a watch.
    #[serde(flatten)]
    pub recency: Option<Recency>,
    /// Whether a process has it open or mapped.
    pub is_open: bool,
    /// Whether the file is deleted: it has no name any more.
    pub is_deleted: bool,
}

/// When pages that nobody has mapped were last read through a descriptor. With mapped pages these are all in
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recency {
    /// During the watch; what came to memory meanwhile or is to be written, too.
    pub read_bytes: u64,
    /// During the watch or before: they had been read so often that the kernel does not count further, its count fell, or they
    /// were mapped.
    pub unknown_bytes: u64,
    /// Part of `unknown_bytes` that was not read during the watch, estimated from a sample of pages whose count was reset. `None`: no
    /// count was reset, or the sample is too small.
    pub unknown_idle: Option<IdleEstimate>,
    /// Before the watch.
    pub idle_bytes: u64,
}

impl Recency {
    /// Of this one of the watch's ages.
    fn new(sums: &Sums, age: usize) -> Recency {
        let of = |bytes: &[u64]| bytes.get(age).copied().unwrap_or_default();
        Recency {
            read_bytes: of(&sums.read_bytes),
            unknown_bytes: of(&sums.unknown_bytes),
            unknown_idle: sums.probed.idle_of_rest(age),
            idle_bytes: sums.idle_bytes(age),
        }
    }
}

/// The answer.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FilesReport {
    /// Most in memory first; where there was a watch, most idle first.
    pub files: Vec<FileRow>,
    /// Files there are, listed or not; one that several groups are charged for counts for each.
    pub nr_files: u64,
    /// In memory of all files asked for.
    pub total_bytes: u64,
    /// Of all files asked for; where there was a watch.
    pub watched: Option<Watched>,
    /// Half of the interval that holds the page cache of the whole machine 95 times of 100; 0 where all was looked at.
    pub error_bytes: u64,
    /// Share of memory that was looked at.
    pub sampled_share: f64,
    /// Bytes in memory of files that there was no room to list; not in `total_bytes`.
    pub lost_bytes: u64,
    /// What it cost.
    pub cost: CensusCost,
}

/// Takes a census and tells of files.
///
/// # Errors
/// [`FilesError`].
pub fn files(question: &FilesQuestion) -> Result<FilesReport, FilesError> {
    // What was asked wrongly is said before what can't be done here.
    let chosen = Chosen::find(question)?;
    let mut census = Census::open()?;
    let taken = census
        .take(&Question {
            wants_files: true,
            budget: question.budget,
        })
        .map_err(FilesError::Census)?;
    let names = FileNames::read();
    Ok(Telling::new(&census, &names, &chosen, &taken, None)?.report(question, &taken))
}

/// What one census found of files.
///
/// # Errors
/// [`FilesError::Group`], [`FilesError::GroupGone`], [`FilesError::Groups`] and [`FilesError::Directory`].
pub(super) fn of_census(
    census: &Census,
    names: &FileNames,
    question: &FilesQuestion,
    taken: &Taken,
) -> Result<FilesReport, FilesError> {
    let chosen = Chosen::find(question)?;
    Ok(Telling::new(census, names, &chosen, taken, None)?.report(question, taken))
}

/// What one census found of the files that were asked for.
#[derive(Debug)]
struct Telling<'a> {
    census: &'a Census,
    groups: Option<GroupNames>,
    names: &'a FileNames,
    parts: Vec<FilePart>,
    /// Which of the ages of a watch.
    age: Option<usize>,
}

impl<'a> Telling<'a> {
    fn new(
        census: &'a Census,
        names: &'a FileNames,
        chosen: &Chosen,
        taken: &Taken,
        age: Option<usize>,
    ) -> Result<Telling<'a>, FilesError> {
        let mut parts = taken.files.clone();
        let groups = match &chosen.within {
            Some(within) => {
                let names = within.names()?;
                parts.retain(|part| names.is_within(part.group_id, &within.group));
                Some(names)
            }
            // Where there are no groups all is charged to none.
            None => GroupNames::read().ok(),
        };
        if let Some(under) = &chosen.under {
            let path = |file: &FileId| names.path_here(census, file);
            parts.retain(|part| path(&part.file).is_some_and(|path| path.starts_with(under)));
        }
        Ok(Telling {
            census,
            groups,
            names,
            parts,
            age,
        })
    }

    /// Drops pages of these files that were not read within the age, or only counts what would be tried.
    fn drop_idle(&self, taken: &Taken, is_dry_run: bool) -> Dropped {
        let mut dropped = Dropped::default();
        let mut finder = Finder::default();
        for part in &self.parts {
            let ranges = taken.idle.of(part);
            if !ranges.is_empty() {
                let census = self.census;
                let of_file =
                    finder.drop_ranges(census, &part.file, ranges, is_dry_run, &mut |_, _| {});
                dropped.add(&of_file);
            }
        }
        dropped
    }

    fn report(self, question: &FilesQuestion, taken: &Taken) -> FilesReport {
        let recency = |sums: &Sums| self.age.map(|age| Recency::new(sums, age));
        let on_nodes = by_node(&self.parts);
        let mut parts = merged(self.parts);
        if self.age.is_some() {
            parts.sort_by_key(|part| Reverse(recency(&part.sums).map(|found| found.idle_bytes)));
        }
        let total_bytes = parts.iter().map(|part| part.sums.bytes).sum();
        let nr_files = parts.len() as u64;
        parts.truncate(question.nr_files_max.unwrap_or(usize::MAX));
        let row = |part: &FilePart| {
            let (name, is_open) = self.names.look(self.census, &part.file);
            let most_bytes = match &name {
                FileName::Path(path) if taken.sampled_share < 1.0 => size_at(path, &part.file)
                    .map_or(u64::MAX, |bytes| bytes.next_multiple_of(PAGE_BYTES)),
                _ => u64::MAX,
            };
            let bytes = |bytes: u64| bytes.min(most_bytes);
            FileRow {
                path: path_of(&part.file, name),
                group: group_of(part.group_id, self.groups.as_ref()),
                cached_bytes: bytes(part.sums.bytes),
                used_bytes: bytes(part.sums.used_bytes),
                dirty_bytes: bytes(part.sums.dirty_bytes),
                mapped_bytes: bytes(part.sums.mapped_bytes),
                nodes: on_nodes.get(&key(part)).cloned().unwrap_or_default(),
                recency: recency(&part.sums),
                is_open,
                is_deleted: part.file.is_deleted,
            }
        };
        let caches = taken
            .totals
            .iter()
            .filter(|total| total.kind.is_page_cache());
        FilesReport {
            files: parts.iter().map(row).collect(),
            nr_files,
            total_bytes,
            watched: None,
            error_bytes: caches.map(|total| total.error_bytes).sum(),
            sampled_share: taken.sampled_share,
            lost_bytes: taken.lost_bytes,
            cost: taken.cost,
        }
    }
}

/// The group and the directory of a question, as they were found.
#[derive(Debug)]
struct Chosen {
    within: Option<Within>,
    under: Option<PathBuf>,
}

/// A group, and its number as it was found: one made anew at the same path has another.
#[derive(Debug)]
struct Within {
    group: GroupReader,
    id: u64,
}

impl Within {
    fn open(path: &Path) -> Result<Within, CgroupError> {
        let group = GroupReader::open(path)?;
        let id = group.id()?;
        Ok(Within { group, id })
    }

    /// The names of all groups, if this one is still there.
    fn names(&self) -> Result<GroupNames, FilesError> {
        let path = self.group.path();
        let names = GroupNames::read().map_err(FilesError::Groups)?;
        match self.group.id() {
            Ok(id) if id == self.id && names.get(id).is_some() => Ok(names),
            // It was there all the time, so a directory above it can't be listed.
            Ok(id) if id == self.id => Err(FilesError::Groups(CgroupError::Io {
                what: "listing what is above",
                path: path.to_owned(),
                source: std::io::ErrorKind::PermissionDenied.into(),
            })),
            Ok(_) | Err(CgroupError::Gone(_)) => Err(FilesError::GroupGone(path.to_owned())),
            Err(error) => Err(FilesError::Groups(error)),
        }
    }
}

impl Chosen {
    fn find(question: &FilesQuestion) -> Result<Chosen, FilesError> {
        let group = question.group.as_deref();
        Ok(Chosen {
            within: group.map(Within::open).transpose()?,
            under: question.under.as_deref().map(directory).transpose()?,
        })
    }
}

/// The directory by the name that files in it have.
fn directory(path: &Path) -> Result<PathBuf, FilesError> {
    let fail = |source| FilesError::Directory {
        path: path.to_owned(),
        source,
    };
    let found = path.canonicalize().map_err(fail)?;
    // Tells what a file is not.
    std::fs::read_dir(&found).map_err(fail)?;
    Ok(found)
}

/// What is one row: the file, and the group.
type Key = (Identity, u64);

fn key(part: &FilePart) -> Key {
    (part.file.identity(), part.group_id)
}

/// Bytes of each row by memory node, where they are told apart.
fn by_node(parts: &[FilePart]) -> BTreeMap<Key, OnNodes> {
    let mut on_nodes: BTreeMap<Key, OnNodes> = BTreeMap::new();
    for part in parts {
        if let Some(node) = part.node {
            let of_row = on_nodes.entry(key(part)).or_default();
            *of_row.entry(node).or_default() += part.sums.bytes;
        }
    }
    on_nodes
}

/// One part for each file and group, most in memory first.
fn merged(mut parts: Vec<FilePart>) -> Vec<FilePart> {
    parts.sort_unstable_by_key(key);
    parts.dedup_by(|next, kept| {
        let is_same = key(next) == key(kept);
        if is_same {
            kept.sums += next.sums;
        }
        is_same
    });
    parts.retain(|part| part.sums.bytes > 0);
    parts.sort_by_key(|part| Reverse(part.sums.bytes));
    parts
}

fn path_of(file: &FileId, name: FileName) -> String {
    let (major, minor) = (file.device.major, file.device.minor);
    let path = match name {
        FileName::Path(path) => path.display().to_string(),
        FileName::Inside(place) => format!("{major}:{minor}:{}", place.display()),
        FileName::Unknown => format!("{major}:{minor}:inode {}", file.inode),
    };
    plain::line(&path).into_owned()
}

fn group_of(id: u64, groups: Option<&GroupNames>) -> String {
    match (id, groups.and_then(|groups| groups.get(id))) {
        (0, _) => "-".to_owned(),
        (_, Some(name)) => plain::line(name).into_owned(),
        (_, None) => "(removed)".to_owned(),
    }
}
