//! The page cache of cgroups, and by file of those that are watched, from censuses that a thread of its own takes.
//!
//! **Owns** that thread. **Does not own** what is told of groups (`observe::cache`) and of files (`observe::files`).
//!
//! **Invariants**
//! - I1: one census is taken at a time, within the default share of a processor; none while nobody takes in what the last
//!   one found.
//! - I2: a look never waits for a census.

use super::super::cache::{CacheReport, by_group};
use super::super::files::{self, FilesError, FilesQuestion, FilesReport};
use crate::access::census::{Budget, CacheWatch, GroupNames, Taken, Wanted, WatchQuestion};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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

/// The thread that takes censuses. It ends with the census that it is at when this is dropped.
#[derive(Debug)]
pub(super) struct Censuses {
    watched: Arc<Mutex<Vec<PathBuf>>>,
    found: Receiver<Result<Found, FilesError>>,
}

impl Censuses {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Censuses> {
        let watched = Arc::new(Mutex::new(Vec::new()));
        let (answers, found) = sync_channel(1);
        let to_thread = Arc::clone(&watched);
        thread::Builder::new()
            .name("strata-census".to_owned())
            .spawn(move || run(&to_thread, &answers))?;
        Ok(Censuses { watched, found })
    }

    /// What a census has found since the last call. `watched` are the cgroups of which the next one tells files.
    pub(super) fn take(&mut self, watched: Vec<PathBuf>) -> Option<Result<Found, FilesError>> {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
        self.found.try_recv().ok()
    }
}

/// Takes censuses until nobody wants them.
fn run(watched: &Mutex<Vec<PathBuf>>, answers: &SyncSender<Result<Found, FilesError>>) {
    let budget = Budget::default();
    let mut watch = match CacheWatch::open(WatchQuestion {
        budget: Some(budget),
        is_whole: false,
        ages: AGES,
    }) {
        Ok(watch) => watch,
        Err(error) => {
            // Nobody may be left to hear it.
            let _ = answers.send(Err(error.into()));
            return;
        }
    };
    loop {
        let begun = Instant::now();
        let groups = watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let wanted = Wanted {
            files: !groups.is_empty(),
            idle_for: None,
        };
        let taken = watch.take(wanted).map_err(FilesError::Census);
        let found = taken.map(|taken| tell(&watch, &taken, groups));
        if answers.send(found).is_err() {
            return;
        }
        thread::sleep((begun + budget.within).saturating_duration_since(Instant::now()));
    }
}

fn tell(watch: &CacheWatch, taken: &Taken, groups: Vec<PathBuf>) -> Found {
    let reports = GroupNames::read().map(|names| {
        let sums = by_group(taken, &names).into_iter();
        sums.map(|(name, sums)| (name, CacheReport::new(watch, &AGES, taken, &sums)))
            .collect()
    });
    let files = groups.into_iter().filter_map(|group| {
        let question = FilesQuestion {
            group: Some(group.clone()),
            nr_files_max: Some(FILES_MAX),
            ..FilesQuestion::default()
        };
        // A group may have gone meanwhile.
        let report = files::of_census(watch.census(), &question, taken).ok()?;
        Some((group, report))
    });
    Found {
        groups: reports.unwrap_or_default(),
        files: files.collect(),
    }
}
