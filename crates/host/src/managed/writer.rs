//! The thread that writes to a guard's session for its loop: the status, and what lets groups go on. It reads there what
//! others ask of the guard.
//!
//! **Owns** that thread. **Does not own** what is written (`status`, `keeper`), nor who is held back (`resort`).
//!
//! **Invariants**
//! - I1: nobody waits for the disk but the end, and that no longer than [`END_WAIT_MAX`].
//! - I2: what can't be taken up because the disk is slow is a status, which the next walk writes anew, an undo to
//!   forget, which does no harm when it is done twice, or a freeze, which does not happen then.
//! - I3: a status that can't be written is told once, and once when it can be again.

use super::status::{self, Status};
use crate::news::News;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use strata_linux::undo::{Journal, Undo};

/// What may wait for the disk.
const NR_WAITING_MAX: usize = 8;
/// The end waits no longer for the disk.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Job {
    Status(Box<Status>),
    Record(Undo, std::sync::mpsc::Sender<io::Result<()>>),
    Forget(Vec<Undo>),
    End,
}

/// What is handed over to be written.
#[derive(Clone, Debug)]
pub struct ToWrite(SyncSender<Job>);

impl ToWrite {
    /// Records what lets a group go on. The answer comes when that is durable; `None`: the disk is too slow.
    pub(super) fn record(&self, undo: Undo) -> Option<Receiver<io::Result<()>>> {
        let (sender, answer) = channel();
        let sent = self.0.try_send(Job::Record(undo, sender));
        sent.is_ok().then_some(answer)
    }

    /// Forgets what lets groups go on: they do.
    pub(super) fn forget(&self, done: Vec<Undo>) {
        if !done.is_empty() && self.0.try_send(Job::Forget(done)).is_err() {
            tracing::debug!("what is undone stays recorded: the disk is too slow");
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
    /// Whether a status could be written.
    written: Receiver<io::Result<()>>,
    /// It was told that the last one could not be.
    is_told: bool,
    news: Vec<News>,
}

impl Writer {
    /// Starts it, for the session in this directory.
    ///
    /// # Errors
    /// There can be no thread, or the status of a guard before stays.
    pub(super) fn start(journal: Journal, directory: PathBuf) -> io::Result<Writer> {
        status::forget(&directory)?;
        let (jobs, received) = sync_channel(NR_WAITING_MAX);
        let (ask, asked) = channel();
        let (tell, written) = channel();
        let work = move || {
            for job in received {
                match job {
                    Job::Status(status) => {
                        // The end does not ask how it went.
                        let _ended = tell.send(status.leave(&directory));
                        if let Some(bytes) = status::take_demand(&directory) {
                            // Whoever has asked is not told; the status is.
                            let _ended = ask.send(bytes);
                        }
                    }
                    // Whoever has asked may have ended.
                    Job::Record(undo, answer) => drop(answer.send(journal.record(&undo))),
                    Job::Forget(done) => {
                        let mut done = done.iter();
                        if let Err(error) = done.try_for_each(|undo| journal.forget(undo)) {
                            // Done twice it does no more than once.
                            tracing::debug!("what is undone stays recorded: {error}");
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
            written,
            is_told: false,
            news: Vec::new(),
        })
    }

    /// Leaves a status where `strata guard status` finds it.
    pub(super) fn status(&mut self, status: Status) {
        if self.jobs.0.try_send(Job::Status(Box::new(status))).is_err() {
            let why = "those before wait for the disk still";
            self.note(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
        }
    }

    /// What people are told since it was asked last.
    pub(super) fn news(&mut self) -> Vec<News> {
        while let Ok(written) = self.written.try_recv() {
            self.note(written);
        }
        std::mem::take(&mut self.news)
    }

    fn note(&mut self, written: io::Result<()>) {
        let news = match &written {
            Err(error) => News::Warning(format!(
                "the status can't be written, so strata guard status shows an old one: {error}"
            )),
            Ok(()) => News::Note("the status can be written again".to_owned()),
        };
        if std::mem::replace(&mut self.is_told, written.is_err()) != written.is_err() {
            self.news.push(news);
        }
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
mod tests {
    use super::*;

    impl ToWrite {
        /// What is handed over is written nowhere.
        pub(in crate::managed) fn nowhere() -> ToWrite {
            let writer = Writer::start(Journal::none(), PathBuf::from("/nowhere"));
            writer.expect("a thread").jobs
        }
    }

    fn status() -> Status {
        Status::of(true, Duration::ZERO, Duration::ZERO, 7, 0, 0, Vec::new())
    }

    #[test]
    fn nobody_waits_for_a_disk_that_hangs() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut writer =
            Writer::start(Journal::none(), directory.path().to_owned()).expect("a thread");
        // Nobody takes anything from this channel, as a thread that waits for a disk does not.
        let (jobs, _kept) = sync_channel(NR_WAITING_MAX);
        writer.jobs = ToWrite(jobs);
        for _ in 0..NR_WAITING_MAX {
            writer.status(status());
        }
        assert_eq!(writer.news(), []);
        for _ in 0..2 {
            writer.status(status());
        }
        assert!(matches!(&writer.news()[..], [News::Warning(_)]), "once");
        writer.end();
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
        let mut writer =
            Writer::start(Journal::none(), directory.path().to_owned()).expect("a thread");
        writer.status(status());
        writer.end();
        let text = std::fs::read(directory.path().join("status.json")).expect("a status");
        assert_eq!(
            serde_json::from_slice::<Status>(&text).expect("whole"),
            status()
        );
    }
}
