//! The page cache of cgroups, and by file of those that are watched.
//!
//! **Owns** what is asked of censuses. **Does not own** the thread and its pace (`engine::census`), what is told of groups
//! (`observe::cache`) and of files (`observe::files`).
//!
//! **Invariants**
//! - I1: a look never waits for a census.

use super::super::cache::{CacheReport, by_group};
use super::super::files::{self, FilesError, FilesQuestion, FilesReport};
use crate::engine::census::{self, Told};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use strata_linux::access::census::{Budget, CacheWatch, FileNames, Taken, Wanted, WatchQuestion};
use strata_linux::cgroup::GroupNames;
use strata_linux::process::thread_cpu_ns;

/// Files told of each cgroup, those with most in memory.
const FILES_MAX: usize = 256;
/// Ages for which it is told what was read since.
const AGES: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
];

/// What a census found.
#[derive(Debug)]
pub(super) struct Found {
    /// Of cgroups by name; those without page cache are left out.
    pub(super) groups: BTreeMap<String, CacheReport>,
    /// By file, of the watched cgroups that were there.
    pub(super) files: Vec<(PathBuf, FilesReport)>,
}

/// Takes censuses; asked for are the cgroups of which files are told. That one census failed ends nothing.
pub(super) type Censuses = census::Censuses<Vec<PathBuf>, Result<Found, FilesError>, FilesError>;

/// Starts the thread.
pub(super) fn start() -> io::Result<Censuses> {
    let budget = Budget::default();
    census::Censuses::start(budget.within, move || {
        let mut watch = CacheWatch::open(WatchQuestion {
            budget: Some(budget),
            is_whole: false,
            ages: AGES,
            // A screen that is only looked at changes nothing.
            reset_share: 0.0,
        })?;
        Ok(move |groups: &Vec<PathBuf>, is_over| {
            let before_ns = thread_cpu_ns();
            let wanted = Wanted {
                files: !groups.is_empty(),
                ..Wanted::default()
            };
            let taken = watch.take(wanted, &|| is_over);
            let found = taken.map(|taken| tell(&watch, &taken, groups));
            Ok(Told {
                found: Some(found.map_err(FilesError::Census)),
                // Names of files are looked for beside the census's own budget.
                cpu_ns: thread_cpu_ns() - before_ns,
            })
        })
    })
}

fn tell(watch: &CacheWatch, taken: &Taken, groups: &[PathBuf]) -> Found {
    let reports = GroupNames::read().map(|names| {
        let sums = by_group(taken, &names).into_iter();
        sums.map(|(name, sums)| (name, CacheReport::new(watch, &AGES, taken, &sums)))
            .collect()
    });
    let file_names = (!groups.is_empty()).then(FileNames::read);
    let files = groups.iter().filter_map(|group| {
        let question = FilesQuestion {
            group: Some(group.clone()),
            nr_files_max: Some(FILES_MAX),
            ..FilesQuestion::default()
        };
        // A group may have gone meanwhile.
        let report =
            files::of_census(watch.census(), file_names.as_ref()?, &question, taken).ok()?;
        Some((group.clone(), report))
    });
    Found {
        groups: reports.unwrap_or_default(),
        files: files.collect(),
    }
}
