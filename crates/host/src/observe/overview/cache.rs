//! The page cache of cgroups, and by file of those that are watched, from censuses that a thread of its own takes.
//!
//! **Owns** that thread. **Does not own** what is told of groups (`observe::cache`) and of files (`observe::files`).
//!
//! **Invariants**
//! - I1: one census is taken at a time, within the default share of a processor; none while nobody looks.
//! - I2: a look never waits for a census.

use super::super::cache::{CacheReport, by_group};
use super::super::files::{self, FilesError, FilesQuestion, FilesReport};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use strata_linux::access::census::{
    Budget, CacheWatch, FileNames, GroupNames, Taken, Wanted, WatchQuestion,
};
use strata_linux::process::thread_cpu_ns;

/// Files told of each cgroup, those with most in memory.
const FILES_MAX: usize = 256;
/// No census is taken when nobody has looked for so long: the screen is paused.
const UNWANTED_AFTER: Duration = Duration::from_secs(90);
/// How long until the thread sees that somebody looks again.
const UNWANTED_PAUSE: Duration = Duration::from_millis(500);
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

/// What the thread and the overview share.
#[derive(Debug)]
struct Shared {
    /// Cgroups of which the next census tells files.
    watched: Vec<PathBuf>,
    /// What the last census found, until it is taken in.
    found: Option<Result<Found, FilesError>>,
    /// When somebody last wanted to know.
    wanted_at: Instant,
    is_over: bool,
}

/// The thread that takes censuses. It ends with the census that it is at when this is dropped.
#[derive(Debug)]
pub(super) struct Censuses(Arc<Mutex<Shared>>);

impl Censuses {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Censuses> {
        let shared = Arc::new(Mutex::new(Shared {
            watched: Vec::new(),
            found: None,
            wanted_at: Instant::now(),
            is_over: false,
        }));
        let to_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("strata-census".to_owned())
            .spawn(move || run(&to_thread))?;
        Ok(Censuses(shared))
    }

    /// What a census has found since the last call. `watched` are the cgroups of which the next one tells files.
    pub(super) fn take(&self, watched: Vec<PathBuf>) -> Option<Result<Found, FilesError>> {
        let mut shared = lock(&self.0);
        shared.watched = watched;
        shared.wanted_at = Instant::now();
        shared.found.take()
    }
}

impl Drop for Censuses {
    fn drop(&mut self) {
        lock(&self.0).is_over = true;
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes censuses until nobody wants them.
fn run(shared: &Mutex<Shared>) {
    let budget = Budget::default();
    let question = WatchQuestion {
        budget: Some(budget),
        is_whole: false,
        ages: AGES,
        // A screen that is only looked at changes nothing.
        reset_share: 0.0,
    };
    let mut watch = match CacheWatch::open(question) {
        Ok(watch) => watch,
        Err(error) => {
            lock(shared).found = Some(Err(error.into()));
            return;
        }
    };
    loop {
        let (begun, cpu_before_ns) = (Instant::now(), thread_cpu_ns());
        let (groups, is_over, is_wanted) = {
            let shared = lock(shared);
            let is_wanted = shared.wanted_at.elapsed() < UNWANTED_AFTER;
            (shared.watched.clone(), shared.is_over, is_wanted)
        };
        if is_over {
            return;
        }
        if !is_wanted {
            thread::sleep(UNWANTED_PAUSE);
            continue;
        }
        let wanted = Wanted {
            files: !groups.is_empty(),
            ..Wanted::default()
        };
        let is_over = || lock(shared).is_over;
        let found = match watch.take(wanted, &is_over) {
            Ok(taken) => Ok(tell(&watch, &taken, groups)),
            Err(_) if is_over() => return,
            Err(error) => Err(FilesError::Census(error)),
        };
        lock(shared).found = Some(found);
        // Names of files are looked for beside the census's own budget.
        let cpu = Duration::from_nanos(thread_cpu_ns() - cpu_before_ns);
        let due = begun + budget.within.max(cpu.div_f64(budget.cpu_share));
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn tell(watch: &CacheWatch, taken: &Taken, groups: Vec<PathBuf>) -> Found {
    let reports = GroupNames::read().map(|names| {
        let sums = by_group(taken, &names).into_iter();
        sums.map(|(name, sums)| (name, CacheReport::new(watch, &AGES, taken, &sums)))
            .collect()
    });
    let file_names = (!groups.is_empty()).then(FileNames::read);
    let files = groups.into_iter().filter_map(|group| {
        let question = FilesQuestion {
            group: Some(group.clone()),
            nr_files_max: Some(FILES_MAX),
            ..FilesQuestion::default()
        };
        // A group may have gone meanwhile.
        let report =
            files::of_census(watch.census(), file_names.as_ref()?, &question, taken).ok()?;
        Some((group, report))
    });
    Found {
        groups: reports.unwrap_or_default(),
        files: files.collect(),
    }
}
