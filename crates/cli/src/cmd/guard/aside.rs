//! What a guard's loop has others do, because it may wait for an output, a listener or a disk.
//!
//! **Owns** these threads. **Does not own** any text (`print`), nor what rules mean (`rules_file`).
//!
//! **Invariants** I1: nothing here makes the loop wait; only the end waits for stdout, and not for long. I2: one thread at most
//! reads the rules, and what the file says at the last hang-up is read in the end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use strata_host::managed::measure_read_latency;

use super::rules_file::RulesFile;
use crate::print;

/// A thread that talks to somebody who may not listen.
#[derive(Debug)]
pub(super) struct Talker<T, E> {
    words: SyncSender<T>,
    thread: JoinHandle<E>,
}

impl<T: Send + 'static, E: Send + 'static> Talker<T, E> {
    /// Starts the thread; what is said while so many words wait is lost.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(super) fn start(
        name: &str,
        waiting_max: usize,
        talk: impl FnOnce(Receiver<T>) -> E + Send + 'static,
    ) -> io::Result<Talker<T, E>> {
        let (words, heard) = sync_channel(waiting_max);
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || talk(heard))?;
        Ok(Talker { words, thread })
    }

    /// Hands a word over. Returns whether the thread is there still.
    pub(super) fn say(&self, word: T) -> bool {
        !matches!(
            self.words.try_send(word),
            Err(TrySendError::Disconnected(_))
        )
    }

    /// Waits so long at most until all is said. Returns how that went, if it is over.
    pub(super) fn end(self, wait_max: Duration) -> Option<E> {
        drop(self.words);
        let until = Instant::now() + wait_max;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        self.thread.is_finished().then(|| self.thread.join().ok())?
    }
}

/// What the file says, and what a page takes to be read back from swap where its rules need that.
pub(super) type Read = anyhow::Result<(RulesFile, Option<Duration>)>;

/// The rules file, which is read again at each hang-up.
#[derive(Debug)]
pub(super) struct Rereading {
    path: PathBuf,
    under_way: Option<Receiver<Read>>,
    /// There was a hang-up since that began: what is read may be older than that.
    is_asked_again: bool,
}

impl Rereading {
    pub(super) fn of(path: &Path) -> Rereading {
        Rereading {
            path: path.to_owned(),
            under_way: None,
            is_asked_again: false,
        }
    }

    /// Begins to read, now or when what is under way is done. `known`: what a page takes to be read back.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn hang_up(&mut self, known: Option<Duration>) -> io::Result<()> {
        match self.under_way {
            Some(_) if self.is_asked_again => {
                print::note(&"the rules are being read still, and are read again after that");
            }
            Some(_) => self.is_asked_again = true,
            None => self.under_way = Some(start(self.path.clone(), known)?),
        }
        Ok(())
    }

    /// What the file says, once it is read.
    pub(super) fn read(&mut self, known: Option<Duration>) -> Option<Read> {
        let read = match self.under_way.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(error @ TryRecvError::Disconnected) => Err(error.into()),
            Ok(read) => read,
        };
        self.under_way = None;
        match std::mem::take(&mut self.is_asked_again) {
            true => Some(self.hang_up(known).map_err(Into::into).and(read)),
            false => Some(read),
        }
    }
}

fn start(path: PathBuf, known: Option<Duration>) -> io::Result<Receiver<Read>> {
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name("strata-rules".to_owned());
    thread.spawn(move || {
        let read = || {
            let file = RulesFile::read(&path)?;
            let latency = measure_read_latency(&file.rules, known)?;
            Ok((file, latency))
        };
        // The guard may have ended.
        let _unheard = sender.send(read());
    })?;
    Ok(receiver)
}
