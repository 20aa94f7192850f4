//! The one place that writes to stdout and stderr.
//!
//! **Owns** which stream a text goes to: data to stdout, everything said about the work to stderr,
//! each line of that with `strata:` in front, because the stream is shared with the program that is
//! run; that no name in a text can give a terminal orders; and that a journal is told how grave a line is. **Does not own** any text.
//!
//! **Invariants** P1: after [`hand_over`] nobody who says something waits for whoever reads stderr.

use std::error::Error;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use strata_linux::access::SourceInfo;
use strata_linux::plain;

use crate::args::Format;

/// Warnings of a kind that are told one by one; processes that end in the middle are normal.
const TOLD_MAX: u64 = 3;
/// What a terminal does before a table replaces the one before: cursor to the top, clear.
pub(crate) const CLEAR: &str = "\u{1b}[H\u{1b}[2J";
/// Characters of another program's command that a table has.
const COMMAND_CHARS_MAX: usize = 40;

/// Writes data to stdout, all of it, now.
///
/// # Errors
/// Those of the stream; a closed pipe is one of them and means that nobody wants more.
pub(crate) fn data(text: impl AsRef<[u8]>) -> io::Result<()> {
    let text = text.as_ref();
    let mut out = io::stdout().lock();
    match std::str::from_utf8(text) {
        Ok(text) => out.write_all(plain::lines(text).as_bytes())?,
        // The text of a trace, in whatever encoding it has.
        Err(_) => out.write_all(text)?,
    }
    out.flush()
}

/// Prints what was found as it was asked for: a text for people, or a line of JSON.
pub(crate) fn answer(
    format: Format,
    found: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    Ok(data(match format {
        Format::Text => text(),
        Format::Json => serde_json::to_string(found)? + "\n",
    })?)
}

/// Prints what was found as it was asked for, with JSON over several lines.
pub(crate) fn pretty_answer(
    format: Format,
    found: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let json = || serde_json::to_string_pretty(found);
    match format {
        Format::Text => Ok(data(text())?),
        Format::Json => Ok(data(json()? + "\n")?),
    }
}

/// Says what a source of accesses does not show.
pub(crate) fn limits(source: &SourceInfo) {
    for blind_spot in &source.blind_spots {
        note(&format!("a limit of {}: {blind_spot}", source.name));
    }
}

/// Columns of the terminal that stdout is; `None` if it is none.
pub(crate) fn columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = ratatui::crossterm::terminal::size().ok()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Lines that end where the terminal does.
pub(crate) fn cut(lines: &str, columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(usize::MAX);
    let cut = |line: &str| line.chars().take(columns).chain(['\n']).collect::<String>();
    lines.lines().map(cut).collect()
}

/// Another program's command as the end of a line: its arguments may be long, and JSON has more of them.
pub(crate) fn command(line: &str) -> String {
    match line.chars().count() {
        0..=COMMAND_CHARS_MAX => line.to_owned(),
        _ => {
            let begin = line.chars().take(COMMAND_CHARS_MAX - 3);
            begin.chain("...".chars()).collect()
        }
    }
}

/// Says something that is good to know.
pub(crate) fn note(text: &dyn Display) {
    say(5, "", text);
}

/// Says that something is not as it should be, although the work goes on.
pub(crate) fn warning(text: &dyn Display) {
    say(4, "warning: ", text);
}

/// Warnings of one kind: the first few are told each, the others as a number at the end.
#[derive(Debug)]
pub(crate) struct Few {
    in_all: &'static str,
    nr: u64,
}

impl Few {
    /// None yet; `in_all` is said at the end, with their number in place of `{nr}`.
    pub(crate) fn told(in_all: &'static str) -> Few {
        Few { in_all, nr: 0 }
    }

    /// Tells of one.
    pub(crate) fn warning(&mut self, text: &dyn Display) {
        self.nr += 1;
        if self.nr <= TOLD_MAX {
            warning(text);
        }
    }
}

impl Drop for Few {
    fn drop(&mut self) {
        if self.nr > TOLD_MAX {
            warning(&self.in_all.replace("{nr}", &self.nr.to_string()));
        }
    }
}

/// Says why the work ends.
pub(crate) fn error(text: &dyn Display) {
    say(3, "error: ", text);
}

/// `level`: as in syslog(3).
fn say(level: u8, label: &str, text: &dyn Display) {
    let level = match leads_to_journal() {
        true => format!("<{level}>"),
        false => String::new(),
    };
    block(&format!("{level}strata: {label}{text}\n"));
}

/// Whether stderr is what systemd says leads to its journal (`JOURNAL_STREAM`, systemd.exec(5)).
fn leads_to_journal() -> bool {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    *IS_JOURNAL.get_or_init(|| {
        let told = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let stat = stderr.and_then(|stderr| stderr.metadata());
        stat.is_ok_and(|of| format!("{}:{}", of.dev(), of.ino()) == told)
    })
}

/// Writes lines to stderr in one piece, so that the program's own lines don't get between them.
pub(crate) fn block(text: &str) {
    bytes(plain::lines(text).as_bytes());
}

fn bytes(text: &[u8]) {
    match WRITER.get() {
        Some(writer) => writer.send(text.to_vec()),
        // Where stderr itself can't be written there is nobody left to tell.
        None => drop(io::stderr().lock().write_all(text)),
    }
}

/// Texts that wait for whoever reads stderr; what comes beyond is lost, and counted.
const TEXTS_MAX: usize = 1024;
/// The end waits no longer for whoever reads stderr.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

static WRITER: OnceLock<Writer> = OnceLock::new();

/// The thread that writes to stderr: a pipe that nobody reads holds up it alone.
#[derive(Debug)]
struct Writer {
    /// A text, or whom to tell that all before it is written.
    texts: SyncSender<Text>,
    nr_lost: AtomicU64,
}

#[derive(Debug)]
enum Text {
    Bytes(Vec<u8>),
    Mark(SyncSender<()>),
}

impl Writer {
    fn send(&self, text: Vec<u8>) {
        if self.texts.try_send(Text::Bytes(text)).is_err() {
            self.nr_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_texts(texts: &Receiver<Text>) {
    for text in texts {
        match text {
            Text::Bytes(bytes) => {
                let nr_lost = WRITER
                    .get()
                    .map_or(0, |of| of.nr_lost.swap(0, Ordering::Relaxed));
                let mut out = io::stderr().lock();
                let _ = out.write_all(&bytes);
                if nr_lost > 0 {
                    let _ = writeln!(
                        out,
                        "strata: {nr_lost} texts were lost here, because nobody read stderr"
                    );
                }
            }
            Text::Mark(done) => drop(done.try_send(())),
        }
    }
}

/// From now on a thread writes to stderr, and whoever says something does not wait for it.
pub(crate) fn hand_over() {
    let (texts, received) = sync_channel(TEXTS_MAX);
    let thread = thread::Builder::new().name("strata-stderr".to_owned());
    // Without a thread everything is said as before.
    if thread.spawn(move || write_texts(&received)).is_ok() {
        let nr_lost = AtomicU64::new(0);
        let _ = WRITER.set(Writer { texts, nr_lost });
    }
}

/// Waits a little until all that was said is written.
pub(crate) fn finish() {
    if let Some(writer) = WRITER.get() {
        let (done, is_done) = sync_channel(1);
        if writer.texts.try_send(Text::Mark(done)).is_ok() {
            let _ = is_done.recv_timeout(END_WAIT_MAX);
        }
    }
}

/// Stderr for whoever writes by itself.
#[derive(Debug)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        bytes(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An error with its causes in one line; a cause that the text before it quotes is not repeated.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Fails, and tells the whole text, where a part is not in it.
    #[track_caller]
    pub(crate) fn assert_has(text: &str, part: &str) {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }

    #[test]
    fn of_a_long_command_the_begin_is_told() {
        assert_eq!(command("sort -S 8M"), "sort -S 8M");
        let long = command(&"x".repeat(300));
        assert_eq!(
            (long.len(), long.ends_with("x...")),
            (COMMAND_CHARS_MAX, true)
        );
    }

    #[test]
    fn a_cause_is_told_once() {
        let io = || io::Error::from_raw_os_error(13);
        let quoted = anyhow::Error::new(io()).context(format!("reading x failed: {}", io()));
        assert_eq!(chain(quoted.as_ref()).matches("denied").count(), 1);
        let unquoted = anyhow::Error::new(io()).context("reading x failed");
        assert_eq!(
            chain(unquoted.as_ref()),
            "reading x failed: Permission denied (os error 13)"
        );
    }
}
