//! What a guard's loop has others do, because it may wait for an output or a disk: stdout, and the rules file.
//!
//! **Owns** these threads. **Does not own** any text (`print`), nor what rules mean (`rules_file`).
//!
//! **Invariants** I1: nothing here makes the loop wait; only the end waits for stdout, and not for long.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use strata_host::managed::measure_read_latency;

use super::rules_file::RulesFile;
use crate::print;

/// Texts that wait for whoever reads stdout; what comes beyond is lost.
const TEXTS_MAX: usize = 64;
/// The end waits no longer for whoever reads stdout.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// Writes to stdout.
#[derive(Debug)]
pub(super) struct Stdout {
    texts: SyncSender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl Stdout {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be none.
    pub(super) fn start() -> io::Result<Stdout> {
        let (texts, received) = sync_channel::<String>(TEXTS_MAX);
        let write = move || received.iter().try_for_each(print::data);
        let thread = thread::Builder::new().name("strata-stdout".to_owned());
        Ok(Stdout {
            texts,
            thread: thread.spawn(write)?,
        })
    }

    /// Hands a text over. Returns whether stdout can be written still.
    pub(super) fn say(&self, text: String) -> bool {
        !matches!(
            self.texts.try_send(text),
            Err(TrySendError::Disconnected(_))
        )
    }

    /// Waits a little until all is written.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) fn end(self) -> io::Result<()> {
        drop(self.texts);
        let until = Instant::now() + END_WAIT_MAX;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        match self.thread.is_finished() {
            true => self.thread.join().unwrap_or(Ok(())),
            false => Ok(()),
        }
    }
}

/// What the file says, and what a page takes to be read back from swap where its rules need that.
pub(super) type Read = anyhow::Result<(RulesFile, Option<Duration>)>;

/// Reads the rules again.
#[derive(Debug)]
pub(super) struct Rereading(Receiver<Read>);

impl Rereading {
    /// Begins to read.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn start(path: &Path, known: Option<Duration>) -> io::Result<Rereading> {
        let (sender, receiver) = channel();
        let path: PathBuf = path.to_owned();
        let thread = thread::Builder::new().name("strata-rules".to_owned());
        thread.spawn(move || {
            let read = || {
                let file = RulesFile::read(&path)?;
                let latency = measure_read_latency(&file.rules, known)?;
                Ok((file, latency))
            };
            // Whoever has asked again since does not wait for this.
            let _unheard = sender.send(read());
        })?;
        Ok(Rereading(receiver))
    }

    /// What the file says, once it is read.
    pub(super) fn read(&self) -> Option<Read> {
        self.0.try_recv().ok()
    }
}
