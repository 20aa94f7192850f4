//! Page cache in a recording: whose it is, and writing what the censuses found.
//!
//! The kernel charges a page of page cache to the group of who read it first, and to no process. So page cache is told of a
//! group, and of processes only if nobody else is in their group.
//!
//! **Owns** which group is looked at, and in which walk a census is told. **Does not own** taking censuses (`census`), nor
//! comparing them (`files`).
//!
//! **Invariants**
//! - I1: a recording goes on without page cache where there can be none, and whoever records is told why, once.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_trace::TraceError;
use strata_trace::recording::WalkKind;

use super::census::{self, Censuses};
use super::files::{Files, ListedFile};
use super::{Recorder, micros};
use crate::observe::{Observer, own_pid};
use strata_linux::cgroup::{CgroupError, GroupReader};
use strata_linux::process::{Process, ProcessError};

/// How long the last census may take.
const LAST_WITHIN: Duration = Duration::from_secs(5);

/// What one census found, or why there is none and will be none.
type Listed = Result<Vec<ListedFile>, String>;

/// Whose page cache is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheGroup<'a> {
    /// That of the cgroup at this path and of those below it.
    At(&'a Path),
    /// That of the cgroup in which the recorded processes are, if they are alone there.
    OfMembers,
}

/// Why page cache can't be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCache {
    /// The group holds others.
    #[error(
        "process {other} is in cgroup {group}, too, and its page cache would be told with that of the target; name a \
         cgroup with --cgroup, or start the command in one of its own, for example with systemd-run --scope"
    )]
    Others {
        /// The group.
        group: String,
        /// One that is not recorded.
        other: i32,
    },
    /// The processes are in several groups, or in none, or have ended.
    #[error(
        "no cgroup is known that holds all recorded processes, and page cache belongs to cgroups; name one with --cgroup"
    )]
    NoCommonGroup,
    /// No such group, or no memory controller.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// No thread for censuses.
    #[error(
        "no thread can be started for its censuses: {0}; is the limit of threads reached (ulimit -u)?"
    )]
    Thread(#[source] io::Error),
}

impl CacheGroup<'_> {
    fn find(self, observer: &Observer) -> Result<GroupReader, NoCache> {
        if let CacheGroup::At(path) = self {
            return Ok(GroupReader::open(path)?);
        }
        let members: HashSet<i32> = observer
            .processes()
            .map(|(_, process)| process.pid())
            .collect();
        let groups = members
            .iter()
            .filter_map(|pid| GroupReader::of_process(*pid).ok().flatten());
        let mut groups: Vec<GroupReader> = groups.collect();
        // A group holds the processes of those below it, too.
        groups.sort_by_cached_key(|group| {
            let path = group.path();
            (path.components().count(), path.to_owned())
        });
        groups.dedup();
        let mut why = NoCache::NoCommonGroup;
        for group in groups {
            let Err(error) = ensure_alone(&group, &members) else {
                return Ok(group);
            };
            if matches!(why, NoCache::NoCommonGroup) {
                why = error;
            }
        }
        Err(why)
    }
}

/// Looks whether all these processes are in the group, and nobody else.
fn ensure_alone(group: &GroupReader, members: &HashSet<i32>) -> Result<(), NoCache> {
    let inside: HashSet<i32> = group.processes()?.into_iter().collect();
    let is_there = |pid| !matches!(Process::open(pid), Err(ProcessError::NotFound { .. }));
    let mut outside = members.difference(&inside);
    if outside.any(|pid| is_there(*pid)) {
        return Err(NoCache::NoCommonGroup);
    }
    let is_other = |pid: &i32| *pid != own_pid() && !descends(*pid, members);
    match inside.into_iter().filter(is_other).min() {
        None => Ok(()),
        Some(other) => Err(NoCache::Others {
            group: group.name().to_owned(),
            other,
        }),
    }
}

/// Whether the process is one of these, has one of them above it, or has ended. One that can't be looked at is somebody
/// else, and so is one outside of our pid namespace, which the kernel lists as 0.
fn descends(pid: i32, from: &HashSet<i32>) -> bool {
    let mut pid = pid;
    // Who takes part in a loop of parents changes while it is looked at.
    for _ in 0..from.len() + 100 {
        if from.contains(&pid) {
            return true;
        }
        let process = match Process::open(pid) {
            Ok(process) => process,
            Err(ProcessError::NotFound { .. }) => return true,
            Err(_) => return false,
        };
        match process.stat() {
            Err(_) => return !process.is_alive(),
            Ok(stat) if stat.ppid <= 1 => return false,
            Ok(stat) => pid = stat.ppid,
        }
    }
    false
}

impl<W: Write> Recorder<W> {
    /// From now on page cache of the group is told, too; to be called after the first walk. Files at the places `own`, to
    /// which the recording is written, are left out.
    ///
    /// # Errors
    /// [`NoCache`]; the recording goes on without.
    pub fn watch_cache(
        &mut self,
        observer: &Observer,
        group: CacheGroup<'_>,
        own: Vec<PathBuf>,
    ) -> Result<(), NoCache> {
        let group = group.find(observer)?;
        let censuses = census::start(group, observer.numbers().clone(), own);
        self.censuses = Some(censuses.map_err(NoCache::Thread)?);
        Ok(())
    }

    /// Censuses of page cache that were told.
    pub fn nr_censuses(&self) -> u64 {
        self.nr_censuses
    }

    /// Why page cache is told no more, once.
    pub fn take_cache_trouble(&mut self) -> Option<String> {
        self.cache_trouble.take()
    }

    /// Has the last census taken and tells it. Page cache is not told after that.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn end_cache(&mut self) -> Result<(), TraceError> {
        let Some(censuses) = self.censuses.take() else {
            return Ok(());
        };
        // What is recorded ends now, however long the last census takes.
        let now_us = self.began.map_or(0, |began| micros(began.elapsed()));
        self.last_at_us = self.last_at_us.max(now_us);
        for listed in censuses.finish(LAST_WITHIN) {
            if listed.is_ok() && self.nr_censuses > 0 {
                self.writer
                    .begin_walk(WalkKind::Interval, self.last_at_us)?;
                self.nr_walks += 1;
            }
            self.tell_listed(listed)?;
        }
        Ok(())
    }

    /// Tells what censuses have found that have ended, in the walk that the writer is in.
    pub(super) fn tell_cache(&mut self) -> Result<(), TraceError> {
        while let Some(listed) = self.censuses.as_ref().and_then(Censuses::take) {
            self.tell_listed(listed)?;
        }
        Ok(())
    }

    fn tell_listed(&mut self, listed: Listed) -> Result<(), TraceError> {
        let listed = match listed {
            Ok(listed) => listed,
            Err(why) => {
                self.censuses = None;
                self.files = Files::default();
                self.cache_trouble = Some(why);
                return Ok(());
            }
        };
        if self.nr_censuses == 0 {
            // What is in memory was read at any time before.
            let at_us = self.last_at_us;
            self.writer.begin_walk(WalkKind::Baseline, at_us)?;
        }
        self.nr_censuses += 1;
        for file in listed {
            self.files.tell(&mut self.writer, file)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use strata_trace::recording::{About, FileName, NameKnown, RecordingInfo};
    use strata_trace::{OpenOptions, open_stream};

    use super::super::files::{FoundPages, Left};
    use super::*;

    fn listed(nr_reads: u32, name: Option<FileName>) -> Listed {
        let mut pages = FoundPages::default();
        pages.hold(0, 1, nr_reads, false);
        Ok(vec![ListedFile {
            file: 7,
            name,
            pages,
            left: Left::Kept,
            is_followed: true,
        }])
    }

    fn read(recording: Vec<u8>) -> RecordingInfo {
        let bytes = io::Cursor::new(recording);
        let opened = open_stream("t", bytes, None, &OpenOptions::default());
        let mut reader = opened.expect("a recording").reader;
        let mut batch = Vec::new();
        while reader.read_batch(&mut batch).expect("whole") > 0 {}
        reader.recording().expect("a recording").clone()
    }

    #[test]
    fn the_last_censuses_are_told_in_walks_that_count_and_a_failed_one_in_none() {
        let mut recorder = Recorder::new("r", Vec::new(), About::default()).expect("memory");
        let (send, found) = channel();
        let name = FileName {
            file: 7,
            group: "/app".to_owned(),
            known: NameKnown::Path,
            path: "/srv/data".to_owned(),
        };
        for listed in [listed(0, Some(name)), listed(1, None), Err("no".to_owned())] {
            send.send(listed).expect("somebody receives");
        }
        drop(send);
        recorder.censuses = Some(Censuses::sent(found));
        recorder.end_cache().expect("memory");
        assert_eq!((recorder.nr_censuses(), recorder.nr_walks()), (2, 1));
        assert_eq!(recorder.take_cache_trouble().as_deref(), Some("no"));
        let first = read(recorder.rotate(Vec::new()).expect("memory"));
        assert_eq!((first.nr_walks, first.files[&7].nr_accessed), (1, 1));
        let next = read(recorder.finish().expect("memory"));
        assert!(next.files.is_empty(), "nothing is known of it any more");
    }

    #[test]
    fn who_is_outside_of_our_namespace_is_somebody_else_and_who_has_ended_is_nobody() {
        let nobody = HashSet::new();
        assert!(!descends(0, &nobody));
        assert!(descends(i32::MAX, &nobody));
        assert!(!descends(own_pid(), &nobody));
        let above = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        assert!(descends(own_pid(), &HashSet::from([own_pid()])));
        assert!(above == 0 || descends(own_pid(), &HashSet::from([above])));
    }
}
