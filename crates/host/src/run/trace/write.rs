//! Lines into a file, on a thread of its own: a disk may be slow, and the loop waits for nobody.
//!
//! **Owns** the file, and when a trace can't go on. **Does not own** the thread (`Worker`), nor what is in a line.
//!
//! **Invariants**
//! - I1: whoever writes never waits, but at the end, for some seconds at most.
//! - I2: the thread wakes about once a second, or each [`CHUNK_BYTES`]: a thread that ran at each tick would be one more
//!   that wants a processor, which the loop looks at.

use crate::whole_file;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strata_control::trace::Turn;
use strata_linux::actuator::Worker;

/// Bytes of text that are handed over at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Less text is handed over after so long.
const CHUNK_TIME: Duration = Duration::from_secs(1);
/// Chunks that wait for the disk; more, and the trace ends.
const CHUNKS_MAX: usize = 256;

/// A file that grows.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    lines: Vec<u8>,
    since: Instant,
    nr_bytes: u64,
    nr_bytes_max: u64,
    worker: Worker<Vec<u8>, io::Result<()>>,
}

impl Writer {
    /// Empties the file and starts the thread.
    pub(super) fn start(path: &Path, nr_bytes_max: u64) -> io::Result<Writer> {
        let mut file = Some(whole_file::truncate(path)?);
        let worker = Worker::start("strata-trace", CHUNKS_MAX, move |chunk: Vec<u8>, _| {
            let written = file.as_mut().map_or(Ok(()), |file| file.write_all(&chunk));
            // What comes after a hole is not written.
            file.take_if(|_| written.is_err());
            written
        })?;
        Ok(Writer {
            path: path.to_owned(),
            lines: Vec::new(),
            since: Instant::now(),
            nr_bytes: 0,
            nr_bytes_max,
            worker,
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
        let mut reports = std::iter::from_fn(|| self.worker.poll());
        if let Some(error) = reports.find_map(Result::err) {
            return Some(self.trouble(&error));
        }
        let sent = self.worker.try_submit(std::mem::take(&mut self.lines));
        let why = "the file takes it in too slowly; choose another place for it";
        sent.is_err().then(|| self.trouble(&why))
    }

    /// Waits until all is written; returns what went wrong.
    pub(super) fn finish(mut self) -> Option<String> {
        if let Some(trouble) = self.send() {
            return Some(trouble);
        }
        let nr_left = self.worker.nr_in_flight();
        let reports = self.worker.stop();
        let is_late = reports.len() < nr_left;
        match reports.into_iter().find_map(Result::err) {
            Some(error) => Some(self.trouble(&error)),
            None => is_late.then(|| self.trouble(&"its end could not be written in time")),
        }
    }

    fn trouble(&self, why: &dyn std::fmt::Display) -> String {
        let path = self.path.display().to_string();
        let path = strata_linux::plain::line(&path);
        format!("the trace in {path} ends here, the run goes on: {why}")
    }
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
