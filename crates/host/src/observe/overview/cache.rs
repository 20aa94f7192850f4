//! The page cache of watched cgroups by file, from censuses that a thread of its own takes.
//!
//! **Owns** that thread, and for whom a census is due. **Does not own** what a census finds (`observe::files`).
//!
//! **Invariants**
//! - I1: one census is taken at a time, within the default share of a processor.
//! - I2: a look never waits for a census.

use super::super::files::{FilesCensus, FilesError, FilesQuestion, FilesReport};
use crate::access::census::Budget;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Files told of each cgroup, those with most in memory.
const FILES_MAX: usize = 256;
/// A cgroup is looked at again this long after the census before has ended.
const REST: Duration = Duration::from_secs(10);

/// What a census found of a cgroup.
type Answer = Result<FilesReport, FilesError>;

/// The thread that takes censuses. It ends with the census that it is at when this is dropped.
#[derive(Debug)]
pub(super) struct Censuses {
    orders: SyncSender<PathBuf>,
    answers: Receiver<(PathBuf, Answer)>,
    is_busy: bool,
}

impl Censuses {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Censuses> {
        let (orders, groups) = sync_channel::<PathBuf>(1);
        let (found, answers) = sync_channel(1);
        thread::Builder::new()
            .name("strata-census".to_owned())
            .spawn(move || {
                let mut census = None;
                for group in groups {
                    let answer = take(&mut census, &question(&group));
                    if found.send((group, answer)).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Censuses {
            orders,
            answers,
            is_busy: false,
        })
    }

    /// What the census that has ended since the last call found, and of which cgroup.
    pub(super) fn take(&mut self) -> Option<(PathBuf, Answer)> {
        let answer = self.answers.try_recv().ok()?;
        self.is_busy = false;
        Some(answer)
    }

    /// Begins a census for the first of these cgroups that is due, unless one is being taken. Each comes with the time of
    /// its last census; the one that waits longest comes first.
    pub(super) fn begin<'a>(
        &mut self,
        groups: impl Iterator<Item = (&'a Path, Option<Instant>)>,
        now: Instant,
    ) {
        if self.is_busy {
            return;
        }
        if let Some(group) = due(groups, now) {
            self.is_busy = self.orders.try_send(group.to_owned()).is_ok();
        }
    }
}

/// Takes a census, and sets up first if that was not done.
fn take(census: &mut Option<FilesCensus>, question: &FilesQuestion) -> Answer {
    match census {
        Some(census) => census.take(question),
        None => census.insert(FilesCensus::open()?).take(question),
    }
}

fn question(group: &Path) -> FilesQuestion {
    FilesQuestion {
        group: Some(group.to_owned()),
        nr_files_max: Some(FILES_MAX),
        budget: Some(Budget::default()),
        ..FilesQuestion::default()
    }
}

fn due<'a>(
    groups: impl Iterator<Item = (&'a Path, Option<Instant>)>,
    now: Instant,
) -> Option<&'a Path> {
    let is_due =
        |at: &Option<Instant>| at.is_none_or(|at| now.saturating_duration_since(at) >= REST);
    let due = groups.filter(|(_, at)| is_due(at));
    due.min_by_key(|(_, at)| *at).map(|(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_never_looked_at_comes_first_then_who_waits_longest_and_nobody_too_soon() {
        let start = Instant::now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let due_at = |seconds, times: [Option<Instant>; 3]| {
            let groups = ["/a", "/b", "/c"].map(Path::new);
            due(
                groups.into_iter().zip(times),
                start + Duration::from_secs(seconds),
            )
        };
        assert_eq!(due_at(20, [at(1), None, at(0)]), Some(Path::new("/b")));
        assert_eq!(due_at(20, [at(1), at(2), at(0)]), Some(Path::new("/c")));
        assert_eq!(due_at(20, [at(11), at(12), at(13)]), None);
    }
}
