//! Page cache of a cgroup by when it was last read.
//!
//! **Owns** what is told of it. **Does not own** the thread and its pace (`engine::census`), what a census of a watch finds
//! (`access::census`), nor any text.
//!
//! **Invariants**
//! - I1: what is told is of the last census, which is taken when the watch ends.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::FilesError;
use crate::engine::census::{Censuses, Told};
use strata_linux::access::census::{
    Budget, CacheWatch, CensusCost, IdleEstimate, Kind, Sums, Taken, WHOLE_WATCH, Wanted,
    WatchQuestion,
};
use strata_linux::cgroup::{CgroupError, GroupNames, GroupReader};
use strata_linux::page_cache::ResetReport;

/// A census may look at as much as this allows: all of the memory of most machines.
const BUDGET: Budget = Budget {
    cpu_share: 0.25,
    within: Duration::from_secs(1),
};
/// Censuses of a long watch.
const NR_CENSUSES_MAX: u32 = 3000;
/// The last census takes no longer by far.
const LAST_WITHIN: Duration = Duration::from_secs(60);

/// Page cache of files, of one group and those below it.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct CacheReport {
    /// From the first census to the last.
    pub watched_seconds: f64,
    /// Share of memory that was looked at; figures are scaled up where it is less than 1.
    pub sampled_share: f64,
    /// In memory of files on disks, and charged to the group.
    pub cached_bytes: u64,
    /// Part of `cached_bytes` that a process has mapped.
    pub mapped_bytes: u64,
    /// Part of `cached_bytes` that is to be written.
    pub dirty_bytes: u64,
    /// What was read within each window that the watch was long enough for; the last is the whole watch.
    pub windows: Vec<CacheWindow>,
    /// Which counts of reads were reset, where asked for.
    pub resets: Option<ResetReport>,
    /// What is charged to the group, where asked for.
    #[serde(flatten)]
    pub charge: Option<Charge>,
    /// What the censuses cost.
    pub cost: CensusCost,
}

/// What is charged to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Charge {
    /// All of it.
    pub charged_bytes: u64,
    /// That without the kernel's list of inactive file pages: many tools call this the working set.
    pub less_inactive_file_bytes: u64,
}

/// Page cache that nobody has mapped, by when it was last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct CacheWindow {
    /// Length asked for.
    pub seconds: f64,
    /// What the bytes stand for: the time between two censuses, at least `seconds`.
    pub covered_seconds: f64,
    /// Read through a descriptor within the window, new in memory, or dirty.
    pub read_bytes: u64,
    /// Read within the window or before: the kernel's count of reads was full, or fell, or the page was mapped.
    pub unknown_bytes: u64,
    /// Part of `unknown_bytes` that was not read within the window, estimated from a sample of pages whose count was reset. `None`:
    /// no count was reset, or the sample is too small.
    pub unknown_idle: Option<IdleEstimate>,
    /// Not read within the window.
    pub idle_bytes: u64,
}

impl CacheReport {
    /// What the last census of a watch found.
    pub(super) fn new(
        watch: &CacheWatch,
        ages: &[Duration],
        taken: &Taken,
        sums: &Sums,
    ) -> CacheReport {
        let window = |age: usize| {
            let covered = watch.covered(age)?.as_secs_f64();
            Some(CacheWindow {
                seconds: ages.get(age).map_or(covered, Duration::as_secs_f64),
                covered_seconds: covered,
                read_bytes: sums.read_bytes.get(age).copied()?,
                unknown_bytes: sums.unknown_bytes.get(age).copied()?,
                unknown_idle: sums.probed.idle_of_rest(age),
                idle_bytes: sums.idle_bytes(age),
            })
        };
        CacheReport {
            watched_seconds: watch.covered(WHOLE_WATCH).unwrap_or_default().as_secs_f64(),
            sampled_share: taken.sampled_share,
            cached_bytes: sums.bytes,
            mapped_bytes: sums.mapped_bytes,
            dirty_bytes: sums.dirty_bytes,
            windows: (0..ages.len().min(WHOLE_WATCH))
                .chain([WHOLE_WATCH])
                .filter_map(window)
                .collect(),
            resets: watch.resets(),
            charge: None,
            cost: taken.cost,
        }
    }
}

impl Charge {
    fn read(group: &GroupReader) -> Option<Charge> {
        let (_, files) = group.stats_and_files().ok()?;
        let charged_bytes = group.usage_bytes()?;
        Some(Charge {
            charged_bytes,
            less_inactive_file_bytes: charged_bytes.saturating_sub(files.inactive_bytes?),
        })
    }
}

/// Page cache of files of each group, those below it included.
pub(super) fn by_group(taken: &Taken, names: &GroupNames) -> BTreeMap<String, Sums> {
    let mut groups: BTreeMap<String, Sums> = BTreeMap::new();
    for part in taken.groups.iter().filter(|part| part.kind == Kind::File) {
        let Some(name) = names.get(part.group_id) else {
            continue;
        };
        for group in Path::new(name).ancestors() {
            let name = group.to_string_lossy().into_owned();
            *groups.entry(name).or_default() += part.sums;
        }
    }
    groups
}

/// A watch of one group's page cache.
#[derive(Debug)]
pub struct GroupCache {
    censuses: Censuses<(), Option<CacheReport>, FilesError>,
    /// What came of the first census.
    begun: Option<Result<Option<CacheReport>, FilesError>>,
}

impl GroupCache {
    /// Takes the first census. At most [`WHOLE_WATCH`] windows are told; the longest ones where there are more. Of the group's pages
    /// whose count of reads is full, the count of this share is reset, 0 to 1.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(group: &Path, windows: &[Duration], reset_share: f64) -> io::Result<GroupCache> {
        let mut ages = windows.to_vec();
        ages.sort_unstable();
        let ages = ages.split_off(ages.len().saturating_sub(WHOLE_WATCH));
        // A long watch has no more censuses than are remembered.
        let least = ages.last().copied().unwrap_or_default() / NR_CENSUSES_MAX;
        let group = group.to_owned();
        let censuses = Censuses::start(least, move || watch(group, ages, reset_share))?;
        // Where there can be none, `finish` says why.
        let begun = censuses.wait();
        Ok(GroupCache { censuses, begun })
    }

    /// Takes the last census.
    ///
    /// # Errors
    /// [`FilesError`]: no census can be taken here; the group is gone.
    pub fn finish(self) -> Result<CacheReport, FilesError> {
        if let Some(Err(error)) = self.begun {
            return Err(error);
        }
        let ended = || FilesError::Census(io::Error::other("its thread panicked, or hangs"));
        let last = self.censuses.finish(LAST_WITHIN).pop();
        last.unwrap_or_else(|| Err(ended()))?.ok_or_else(ended)
    }
}

/// What a census tells; the last one has the report.
type Look = Result<Told<Option<CacheReport>>, FilesError>;

/// Takes censuses of a group; the last one tells.
fn watch(
    path: PathBuf,
    ages: Vec<Duration>,
    reset_share: f64,
) -> Result<impl FnMut(&(), bool) -> Look, FilesError> {
    let group = GroupReader::open(&path)?;
    // Fewer than there is room for: the longest stands in for the rest.
    let longest = ages.last().copied().unwrap_or_default();
    let mut watch = CacheWatch::open(WatchQuestion {
        budget: Some(BUDGET),
        is_whole: false,
        ages: std::array::from_fn(|index| ages.get(index).copied().unwrap_or(longest)),
        reset_share,
    })?;
    let mut cost = CensusCost::default();
    Ok(move |_: &(), is_over: bool| {
        let wanted = Wanted {
            is_urgent: is_over,
            resets: !is_over,
            ..Wanted::default()
        };
        if reset_share > 0.0 && !is_over {
            let ids = GroupNames::read()?.ids_within(&group);
            watch.reset_only_of(&ids).map_err(FilesError::Census)?;
        }
        let taken = watch.take(wanted, &|| false).map_err(FilesError::Census)?;
        let is_first = cost.nr_calls == 0;
        cost.add(&taken.cost);
        let told = |found| Told {
            found,
            cpu_ns: taken.cost.cpu_ns,
        };
        if !is_over {
            // Nobody waits for the second one.
            return Ok(told(is_first.then_some(None)));
        }
        let names = GroupNames::read()?;
        if names.id_of(&group).is_none() {
            return Err(CgroupError::Gone(group.path().to_owned()).into());
        }
        let sums = by_group(&taken, &names)
            .remove(group.name())
            .unwrap_or_default();
        let report = CacheReport {
            charge: Charge::read(&group),
            cost,
            ..CacheReport::new(&watch, &ages, &taken, &sums)
        };
        Ok(told(Some(Some(report))))
    })
}
