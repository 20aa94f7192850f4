//! Lines into a file, on a thread of its own: a disk may be slow, and the loop waits for nobody.
//!
//! **Owns** the file, its thread, and when a trace can't go on. **Does not own** what is in a line.
//!
//! **Invariants**
//! - I1: whoever writes never waits, but at the end, for [`END_WAIT_MAX`] at most.
//! - I2: the thread wakes about once a second, or each [`CHUNK_BYTES`]: a thread that ran at each tick would be one more
//!   that wants a processor, which the loop looks at.

use crate::whole_file;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use strata_control::trace::Turn;

/// Bytes of text that are handed over at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Less text is handed over after so long.
const CHUNK_TIME: Duration = Duration::from_secs(1);
/// Chunks that wait for the disk; more, and the trace ends.
const CHUNKS_MAX: usize = 256;
/// The end is not waited for any longer.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// A file that grows.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    lines: Vec<u8>,
    since: Instant,
    nr_bytes: u64,
    nr_bytes_max: u64,
    chunks: SyncSender<Vec<u8>>,
    /// The thread's last word.
    end: Receiver<io::Result<()>>,
}

impl Writer {
    /// Empties the file and starts the thread.
    pub(super) fn start(path: &Path, nr_bytes_max: u64) -> io::Result<Writer> {
        let file = whole_file::truncate(path)?;
        let (chunks, received) = sync_channel(CHUNKS_MAX);
        let (tell, end) = sync_channel(1);
        thread::Builder::new()
            .name("strata-trace".to_owned())
            .spawn(move || {
                // Nobody listens any more where the end was not waited for.
                let _ = tell.send(write_all(file, &received));
            })?;
        Ok(Writer {
            path: path.to_owned(),
            lines: Vec::new(),
            since: Instant::now(),
            nr_bytes: 0,
            nr_bytes_max,
            chunks,
            end,
        })
    }

    /// Writes a turn; returns why nothing more can be written.
    pub(super) fn write(&mut self, turn: &Turn) -> Option<String> {
        let nr_bytes_before = self.lines.len();
        if let Err(error) = serde_json::to_writer(&mut self.lines, turn) {
            return Some(self.trouble(&error));
        }
        self.lines.push(b'\n');
        self.nr_bytes += (self.lines.len() - nr_bytes_before) as u64;
        if self.nr_bytes > self.nr_bytes_max {
            self.lines.truncate(nr_bytes_before);
            let _sent = self.send();
            let most_mib = self.nr_bytes_max >> 20;
            return Some(self.trouble(&format_args!(
                "it would be larger than {most_mib} MiB; trace a shorter run"
            )));
        }
        let is_due = self.lines.len() >= CHUNK_BYTES || self.since.elapsed() >= CHUNK_TIME;
        match is_due {
            true => self.send(),
            false => None,
        }
    }

    fn send(&mut self) -> Option<String> {
        self.since = Instant::now();
        match self.chunks.try_send(std::mem::take(&mut self.lines)) {
            Ok(()) => None,
            Err(TrySendError::Full(_)) => {
                Some(self.trouble(&"the file takes it in too slowly; choose another place for it"))
            }
            Err(TrySendError::Disconnected(_)) => Some(self.last_word(END_WAIT_MAX)),
        }
    }

    /// Waits until all is written; returns what went wrong.
    pub(super) fn finish(mut self) -> Option<String> {
        if let Some(trouble) = self.send() {
            return Some(trouble);
        }
        let Writer {
            chunks, end, path, ..
        } = self;
        drop(chunks);
        match end.recv_timeout(END_WAIT_MAX) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(trouble(&path, &error)),
            Err(RecvTimeoutError::Timeout) => {
                Some(trouble(&path, &"its end could not be written in time"))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Some(trouble(&path, &"the thread that writes it has ended"))
            }
        }
    }

    fn last_word(&self, most: Duration) -> String {
        match self.end.recv_timeout(most) {
            Ok(Err(error)) => self.trouble(&error),
            _ => self.trouble(&"the thread that writes it has ended"),
        }
    }

    fn trouble(&self, why: &dyn std::fmt::Display) -> String {
        trouble(&self.path, why)
    }
}

fn trouble(path: &Path, why: &dyn std::fmt::Display) -> String {
    let path = path.display().to_string();
    let path = strata_linux::plain::line(&path);
    format!("the trace in {path} ends here, the run goes on: {why}")
}

fn write_all(mut file: File, chunks: &Receiver<Vec<u8>>) -> io::Result<()> {
    for chunk in chunks {
        file.write_all(&chunk)?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_trace_that_grows_too_large_ends_with_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut writer = Writer::start(&path, 1 << 10).unwrap();
        let trouble = (0..1000)
            .find_map(|_| writer.write(&Turn::default()))
            .expect("full");
        assert!(trouble.contains("larger than"), "{trouble}");
        assert_eq!(writer.finish(), None);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() <= 1 << 10 && text.len() > 900, "{}", text.len());
        for line in text.lines() {
            let read: Turn = serde_json::from_str(line).unwrap();
            assert_eq!(read, Turn::default());
        }
    }

    #[test]
    fn a_link_is_not_followed_and_what_it_leads_to_stays() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        let link = directory.path().join("link");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let refused = Writer::start(&link, 1 << 10).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_disk_that_fails_is_told_at_the_end_at_the_latest() {
        let mut writer = Writer::start(Path::new("/dev/full"), 1 << 20).unwrap();
        assert_eq!(writer.write(&Turn::default()), None, "it is on its way");
        let trouble = writer.finish().expect("it did not get there");
        assert!(trouble.contains("/dev/full") && trouble.contains("No space left"));
    }
}
