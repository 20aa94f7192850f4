//! The one place that writes to stdout and stderr.
//!
//! **Owns** which stream a text goes to: data to stdout, everything said about the work to stderr,
//! each line of that with `strata:` in front, because the stream is shared with the program that is
//! run; and that no name in a text can give a terminal orders. **Does not own** any text.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use strata_host::plain;

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

/// Columns of the terminal that stdout is; `None` if it is none.
pub(crate) fn columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = ratatui::crossterm::terminal::size().ok()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// A line that ends where the terminal does.
pub(crate) fn cut(line: &str, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => line.chars().take(columns).collect(),
        None => line.to_owned(),
    }
}

/// Says something that is good to know.
pub(crate) fn note(text: &dyn Display) {
    say("", text);
}

/// Says that something is not as it should be, although the work goes on.
pub(crate) fn warning(text: &dyn Display) {
    say("warning: ", text);
}

/// Says why the work ends.
pub(crate) fn error(text: &dyn Display) {
    say("error: ", text);
}

fn say(label: &str, text: &dyn Display) {
    block(&format!("strata: {label}{text}\n"));
}

/// Writes lines to stderr in one piece, so that the program's own lines don't get between them.
pub(crate) fn block(text: &str) {
    // Where stderr itself can't be written there is nobody left to tell.
    let _ = io::stderr().lock().write_all(plain::lines(text).as_bytes());
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
mod tests {
    use super::*;

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
