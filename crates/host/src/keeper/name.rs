//! Names that people give to a run.
//!
//! A name is the run's directory below the run directory, so that there can be only one of it, and all else that
//! says which run it is (control socket, metrics, cgroup) is called by it too.
//!
//! **Owns** what may be a name. **Does not own** who has which (`session`).
//!
//! **Invariants** N1: a name is never a pid nor anything that Strata itself puts into the run directory.

use std::fmt;
use std::str::FromStr;

use strata_linux::run_dir::{GUARD_DIR, PARK_DIR, PARKED_DIR, is_no_run};

/// Longest name: with the path around it a socket's address still fits.
const NAME_BYTES_MAX: usize = 64;

/// A name for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName(String);

/// A text that can't be a run's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't be a run's name: a name begins with a letter and has up to {NAME_BYTES_MAX} letters, digits and \
     - _ . (and is not {PARKED_DIR}, {PARK_DIR} or {GUARD_DIR}), such as web or db-2"
)]
pub struct BadSessionName(String);

impl FromStr for SessionName {
    type Err = BadSessionName;

    fn from_str(text: &str) -> Result<SessionName, BadSessionName> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.len() <= NAME_BYTES_MAX
            && text.chars().all(is_part)
            && !is_no_run(text.as_ref());
        match is_name {
            true => Ok(SessionName(text.to_owned())),
            false => Err(BadSessionName(text.to_owned())),
        }
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_word_and_nothing_that_means_something_else() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for text in ["web", "W", "db-2", "a.b_c", longest.as_str()] {
            let name: Result<SessionName, _> = text.parse();
            assert_eq!(name.map(|name| name.to_string()), Ok(text.to_owned()));
        }
        let too_long = "a".repeat(NAME_BYTES_MAX + 1);
        let bad = [
            "",
            "4242",
            "4242-1",
            ".",
            "..",
            ".sessions.lock",
            "-web",
            "_web",
            "we b",
            "we/b",
            "../web",
            "web\n",
            "web\u{1b}[2J",
            "w\u{e9}b",
            "parked",
            "park",
            "guard",
            too_long.as_str(),
        ];
        for text in bad {
            assert!(text.parse::<SessionName>().is_err(), "{text:?}");
        }
    }
}
