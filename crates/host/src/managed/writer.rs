//! The thread that writes to a guard's session for its loop: the status, and which groups will have to go on. It reads there
//! what others ask of the guard.
//!
//! **Owns** that thread. **Does not own** what is written (`status`, `keeper`), nor who is frozen (`resort`).
//!
//! **Invariants**
//! - I1: nobody waits for the disk but the end, and that no longer than [`END_WAIT_MAX`].
//! - I2: what can't be taken up because the disk is slow is a status, which the next walk writes anew, a thaw to forget,
//!   which does no harm when it is done twice, or a freeze, which does not happen then.

use super::status::{self, Status};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use strata_linux::cgroup::Freezer;
use strata_linux::undo::Journal;

/// What may wait for the disk.
const NR_WAITING_MAX: usize = 8;
/// The end waits no longer for the disk.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Job {
    Status(Box<Status>),
    Record(Freezer, std::sync::mpsc::Sender<io::Result<()>>),
    Forget(Freezer),
    End,
}

/// What is handed over to be written.
#[derive(Clone, Debug)]
pub struct ToWrite(SyncSender<Job>);

impl ToWrite {
    /// Leaves a status where `strata guard status` finds it.
    pub(super) fn status(&self, status: Status) {
        if self.0.try_send(Job::Status(Box::new(status))).is_err() {
            tracing::debug!("the status before waits for the disk still; this one is not left");
        }
    }

    /// Records that a group is to go on. The answer comes when that is durable; `None`: the disk is too slow.
    pub(super) fn record(&self, freezer: &Freezer) -> Option<Receiver<io::Result<()>>> {
        let (sender, answer) = channel();
        let sent = self.0.try_send(Job::Record(freezer.clone(), sender));
        sent.is_ok().then_some(answer)
    }

    /// Forgets that a group is to go on: it does.
    pub(super) fn forget(&self, freezer: &Freezer) {
        if self.0.try_send(Job::Forget(freezer.clone())).is_err() {
            tracing::debug!("a thaw stays recorded: the disk is too slow");
        }
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: ToWrite,
    thread: JoinHandle<()>,
    /// How much others have asked to be moved down, bytes.
    asked: Receiver<u64>,
}

impl Writer {
    /// Starts it, for the session in this directory.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn start(journal: Journal, directory: PathBuf) -> io::Result<Writer> {
        let (jobs, received) = sync_channel(NR_WAITING_MAX);
        let (ask, asked) = channel();
        let work = move || {
            for job in received {
                match job {
                    Job::Status(status) => {
                        if let Err(error) = status.leave(&directory) {
                            tracing::debug!("the status is not left: {error}");
                        }
                        if let Some(bytes) = status::take_demand(&directory) {
                            // Whoever has asked is not told; the status is.
                            let _ended = ask.send(bytes);
                        }
                    }
                    // Whoever has asked may have ended.
                    Job::Record(freezer, answer) => drop(answer.send(freezer.record(&journal))),
                    Job::Forget(freezer) => {
                        if let Err(error) = freezer.forget(&journal) {
                            // Done twice it does no more than once.
                            tracing::debug!("a thaw stays recorded: {error}");
                        }
                    }
                    Job::End => break,
                }
            }
        };
        let thread = thread::Builder::new().name("strata-writer".to_owned());
        Ok(Writer {
            jobs: ToWrite(jobs),
            thread: thread.spawn(work)?,
            asked,
        })
    }

    /// How much others have asked to be moved down since this was last called, bytes.
    pub(super) fn asked_bytes(&self) -> u64 {
        self.asked.try_iter().sum()
    }

    /// For whoever has something to be written.
    pub(super) fn jobs(&self) -> &ToWrite {
        &self.jobs
    }

    /// Waits a little until all is written.
    pub(super) fn end(self) {
        if self.jobs.0.try_send(Job::End).is_err() {
            return;
        }
        let until = Instant::now() + END_WAIT_MAX;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
impl ToWrite {
    /// What is handed over is written nowhere.
    pub(super) fn nowhere() -> ToWrite {
        let writer = Writer::start(Journal::none(), PathBuf::from("/nowhere"));
        writer.expect("a thread").jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_disk_that_hangs() {
        // Nobody takes anything from this channel, as a thread that waits for a disk does not.
        let (jobs, _kept) = sync_channel(NR_WAITING_MAX);
        let jobs = ToWrite(jobs);
        let status = Status::of(true, Duration::ZERO, Duration::ZERO, 1, 0, 0, Vec::new());
        for _ in 0..=NR_WAITING_MAX {
            jobs.status(status.clone());
        }
        let thread = thread::spawn(|| {});
        let (_, asked) = channel();
        Writer {
            jobs,
            thread,
            asked,
        }
        .end();
    }

    #[test]
    fn what_others_ask_for_is_taken_once_and_garbage_is_not_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert_eq!(status::take_demand(path), None);
        status::demand_at(path, 5 << 20).expect("written");
        status::demand_at(path, 7 << 20).expect("the last one counts");
        assert_eq!(status::take_demand(path), Some(7 << 20));
        assert_eq!(status::take_demand(path), None, "once");
        std::fs::write(path.join("demote"), "x").expect("written");
        assert_eq!(status::take_demand(path), None);
        assert!(!path.join("demote").exists(), "and gone");
    }

    #[test]
    fn the_last_status_is_there_at_the_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let writer = Writer::start(Journal::none(), directory.path().to_owned()).expect("a thread");
        let status = Status::of(true, Duration::ZERO, Duration::ZERO, 7, 0, 0, Vec::new());
        writer.jobs().status(status.clone());
        writer.end();
        let text = std::fs::read(directory.path().join("status.json")).expect("a status");
        assert_eq!(
            serde_json::from_slice::<Status>(&text).expect("whole"),
            status
        );
    }
}
