//! Who acts on a group: what a mechanism says before it changes anything in one, and why it may be refused.
//!
//! **Owns** the words for it. **Does not own** the search for a session that is in the way (whoever keeps the [`Journal`]'s
//! notes), nor how groups are told apart (`cgroup`).
//!
//! [`Journal`]: crate::undo::Journal

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What a session wants with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// To change values in a group that was there: nobody else may act on it, on one it lies in or on one
    /// that lies in it.
    Attach,
    /// To change values in a group just made for a command: its values are nobody's but ours, so it may
    /// lie in a group that somebody else acts on.
    Make,
}

/// Why a group can't be acted on.
#[derive(Debug)]
pub enum ClaimError {
    /// Another session holds the group.
    Held(Holder),
    /// What the others do, or this session is about to do, can't be read or written.
    Io(io::Error),
}

/// A session that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the session.
    pub session: String,
    /// The group it acts on.
    pub group: PathBuf,
    /// Who is there to put its values back.
    pub life: Life,
}

/// Who is there to put a session's values back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// The Strata of the session runs.
    Strata {
        /// Its process id.
        pid: i32,
        /// Its command line, as one line.
        command: String,
    },
    /// Only the keeper of the session runs.
    Keeper {
        /// Its process id.
        pid: i32,
    },
    /// A session of another run directory, which this one can't name, or a process that locks the group as one does.
    Elsewhere {
        /// The process, where it can be seen.
        pid: Option<i32>,
        /// Its command line, as one line.
        command: String,
    },
    /// Nobody of the session runs.
    Nobody {
        /// Where the session's state lies.
        directory: PathBuf,
    },
}

impl Holder {
    /// Whether the session's Strata runs, so that waiting a moment is in vain.
    pub fn is_running(&self) -> bool {
        matches!(self.life, Life::Strata { .. } | Life::Elsewhere { .. })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (session, group) = (&self.session, self.group.display());
        match &self.life {
            Life::Strata { pid, command } => write!(
                f,
                "session {session} (pid {pid}: {command}) holds {group}; end that run first, or give it \
                 another budget (`strata ctl --id {session} set-budget SIZE`)"
            ),
            Life::Keeper { pid } => write!(
                f,
                "session {session} has died and its keeper (pid {pid}) has not put the limits of {group} \
                 back yet; it may be stopped (`kill -CONT {pid}`)"
            ),
            Life::Elsewhere { pid, command } => {
                match pid {
                    Some(pid) => write!(f, "process {pid} ({command})")?,
                    None => write!(f, "somebody")?,
                }
                write!(
                    f,
                    " holds {group}: a control file of it is locked, as by a Strata whose run directory is another one \
                     (STRATA_RUN_DIR); end that first"
                )
            }
            Life::Nobody { directory } => write!(
                f,
                "session {session} has died and the limits of {group} could not be put back yet; see {}",
                directory.display()
            ),
        }
    }
}
