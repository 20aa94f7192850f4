//! Page cache by file: what a census found, with names, chosen and in order.
//!
//! **Owns** which files are told and what of them. **Does not own** the census (`access::census`) nor how it is printed.
//!
//! **Invariants**
//! - I1: the total is of all files that were asked for, listed or not.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use crate::access::AccessError;
use crate::access::census::{
    Budget, Census, CensusCost, FileId, FileName, FileNames, FilePart, GroupNames, Question,
};
use crate::cgroup::{CgroupError, GroupReader};
use crate::plain;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct FilesQuestion {
    /// Only what is charged to this group and those below it.
    pub group: Option<PathBuf>,
    /// Only files in this directory and below it.
    pub under: Option<PathBuf>,
    /// At most so many files, those with most in memory.
    pub nr_files_max: Option<usize>,
    /// How much may be looked at; `None`: all of memory at once.
    pub budget: Option<Budget>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The group can't be found.
    #[error(transparent)]
    Group(#[from] CgroupError),
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
    /// Whether a process has it open or mapped.
    pub is_open: bool,
    /// Whether the file is deleted: it has no name any more.
    pub is_deleted: bool,
}

/// The answer.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FilesReport {
    /// Most in memory first.
    pub files: Vec<FileRow>,
    /// Files there are, listed or not; one that several groups are charged for counts for each.
    pub nr_files: u64,
    /// In memory of all files asked for.
    pub total_bytes: u64,
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
    FilesCensus::open()?.tell(question, &chosen)
}

/// Takes censuses, one after the other: what a census needs is set up once.
#[derive(Debug)]
pub struct FilesCensus {
    census: Census,
}

impl FilesCensus {
    /// Sets up.
    ///
    /// # Errors
    /// [`FilesError::Access`].
    pub fn open() -> Result<FilesCensus, FilesError> {
        Ok(FilesCensus {
            census: Census::open()?,
        })
    }

    /// Takes a census and tells of files.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn take(&mut self, question: &FilesQuestion) -> Result<FilesReport, FilesError> {
        let chosen = Chosen::find(question)?;
        self.tell(question, &chosen)
    }

    fn tell(
        &mut self,
        question: &FilesQuestion,
        chosen: &Chosen,
    ) -> Result<FilesReport, FilesError> {
        let census = &mut self.census;
        let Chosen { within, under } = chosen;
        let taken = census
            .take(&Question {
                wants_files: true,
                budget: question.budget,
            })
            .map_err(FilesError::Census)?;
        // Where there are no groups all is charged to none.
        let groups = GroupNames::read();
        let mut parts = merged(taken.files);
        if let Some(within) = within {
            let groups = groups.as_ref().ok();
            parts.retain(|part| groups.is_some_and(|names| names.is_within(part.group_id, within)));
        }
        let names = FileNames::read();
        if let Some(under) = under {
            let is_under = |file: &FileId| matches!(names.name(census, file), FileName::Path(path) if path.starts_with(under));
            parts.retain(|part| is_under(&part.file));
        }
        let total_bytes = parts.iter().map(|part| part.sums.bytes).sum();
        let nr_files = parts.len() as u64;
        parts.truncate(question.nr_files_max.unwrap_or(usize::MAX));
        let row = |part: &FilePart| FileRow {
            path: path_of(&part.file, names.name(census, &part.file)),
            group: group_of(part.group_id, groups.as_ref().ok()),
            cached_bytes: part.sums.bytes,
            used_bytes: part.sums.used_bytes,
            dirty_bytes: part.sums.dirty_bytes,
            is_open: names.is_open(&part.file),
            is_deleted: part.file.is_deleted,
        };
        let caches = taken
            .totals
            .iter()
            .filter(|total| total.kind.is_page_cache());
        Ok(FilesReport {
            files: parts.iter().map(row).collect(),
            nr_files,
            total_bytes,
            error_bytes: caches.map(|total| total.error_bytes).sum(),
            sampled_share: taken.sampled_share,
            lost_bytes: taken.lost_bytes,
            cost: taken.cost,
        })
    }
}

/// The group and the directory of a question, as they were found.
#[derive(Debug)]
struct Chosen {
    within: Option<GroupReader>,
    under: Option<PathBuf>,
}

impl Chosen {
    fn find(question: &FilesQuestion) -> Result<Chosen, FilesError> {
        let group = question.group.as_deref();
        Ok(Chosen {
            within: group.map(GroupReader::open).transpose()?,
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

/// One part for each file and group, most in memory first.
fn merged(mut parts: Vec<FilePart>) -> Vec<FilePart> {
    let key = |part: &FilePart| {
        let file = &part.file;
        let device = (file.device.major, file.device.minor);
        (device, file.inode, file.generation, part.group_id)
    };
    parts.sort_unstable_by_key(key);
    parts.dedup_by(|next, kept| {
        let is_same = key(next) == key(kept);
        if is_same {
            kept.sums.add(&next.sums);
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
