//! Who acts on which group, so that two sessions never act on one.
//!
//! A session writes into its state which groups it acts on before it reads or changes anything in them,
//! and looks through the states of all others first, under the lock of the run directory. A session holds
//! its groups as long as its Strata runs, and as long as a value that it has changed is not put back.
//!
//! **Owns** the search for a session that is in the way, and how it is named. **Does not own** how groups
//! are told apart (`cgroup`), nor the waiting (`session`).
//!
//! **Invariants**
//! - H1: of two sessions that want one group, or a group and one in it, at the same moment one gets it.
//! - H2: what a session finds in a group, and journals as the original, is nobody else's value.

use std::fs;
use std::io;
use std::path::Path;

use strata_linux::cgroup::GroupMark;
use strata_linux::claim::{Claim, Holder, Life};

use super::state::State;

/// A command line is cut after so many characters.
const COMMAND_CHARS_MAX: usize = 120;

fn holder_of(directory: &Path, state: &State, group: &GroupMark) -> Holder {
    let session = directory.file_name().unwrap_or_default();
    let keeper = state.keeper.filter(|keeper| keeper.is_running());
    let life = match (state.owner.is_running(), keeper) {
        (true, _) => Life::Strata {
            pid: state.owner.pid,
            command: command_of(state.owner.pid),
        },
        (false, Some(keeper)) => Life::Keeper { pid: keeper.pid },
        (false, None) => Life::Nobody {
            directory: directory.to_owned(),
        },
    };
    Holder {
        session: session.to_string_lossy().into_owned(),
        group: group.path.clone(),
        life,
    }
}

/// The session in `run_dir`, other than the one at `own`, whose groups are in the way of `wanted`. The
/// caller holds the lock of the run directory.
pub(super) fn find_holder(
    run_dir: &Path,
    own: &Path,
    boot_id: &str,
    wanted: &GroupMark,
    claim: Claim,
) -> io::Result<Option<Holder>> {
    for entry in fs::read_dir(run_dir)?.flatten() {
        let directory = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory || directory.file_name() == own.file_name() {
            continue;
        }
        let state = match State::load(&directory) {
            Ok(Some(state)) => state,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!("{}: {error}", directory.display());
                continue;
            }
        };
        if state.boot_id != boot_id || !is_holding(&state) {
            continue;
        }
        if let Some(held) = state
            .groups
            .iter()
            .find(|held| is_in_the_way(held, wanted, claim))
        {
            return Ok(Some(holder_of(&directory, &state, held)));
        }
    }
    Ok(None)
}

fn is_holding(state: &State) -> bool {
    state.owner.is_running() || state.has_values_to_restore()
}

fn is_in_the_way(held: &GroupMark, wanted: &GroupMark, claim: Claim) -> bool {
    held.is_within(wanted) || (claim == Claim::Attach && wanted.is_within(held))
}

/// The command line of a process as one line of text.
pub(crate) fn command_of(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    one_line(&String::from_utf8_lossy(&line))
}

fn one_line(command: &str) -> String {
    let plain = |c: char| match c {
        '\0' => ' ',
        c if c.is_control() => '?',
        c => c,
    };
    let mut text: String = command.trim_end_matches('\0').chars().map(plain).collect();
    if let Some((at, _)) = text.char_indices().nth(COMMAND_CHARS_MAX) {
        text.truncate(at);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_becomes_one_short_line() {
        assert_eq!(one_line("strata\0run\0a\x1b[2J\nb\0"), "strata run a?[2J?b");
        let long = one_line(&"\u{e9}".repeat(500));
        assert_eq!(long.chars().count(), COMMAND_CHARS_MAX + 3);
    }
}
