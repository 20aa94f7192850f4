//! What holds a group back: its freezer (`freeze`), or, to slow it, `memory.high` just above what it uses (v2) and the freezer
//! in turns (v1).
//!
//! Above `memory.high` tasks of the group reclaim what they charge beyond, or wait; nobody else does.
//!
//! **Owns** the limit that slows, and what is written down before a group is held back. **Does not own** the writes of the
//! freezer (`freeze`), nor who is held back, when, and how long a turn is.
//!
//! **Invariants**
//! - B1: whoever holds a group back has recorded [`Brake::undo`] before.
//! - B2: `memory.high` is set above what the group uses, and never above what stood there.
//! - B3: no call waits for the kernel's reclaim longer than [`WRITE_TIME_MAX`].
//! - B4: what somebody else sets or freezes meanwhile is left to them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CgroupError;
use super::file::{parse_number, read_text, write_back};
use super::freeze::{Freezer, HaltError, spared, thaw};
use super::reader::GroupReader;
use super::written::{PutBack, put_back};
use crate::sys::deadline::Deadline;
use crate::undo::Undo;
use strata_lru::machine::CgroupVersion as Version;

/// So much may be charged between the look at what the group uses and the write, which would wait for the kernel's reclaim
/// below that: what processors charge ahead, and a few thousand page faults.
const SLACK_BYTES: u64 = 4 << 20;

/// A write of `memory.high` takes no longer. It is set first, and stays where the reclaim that follows is given up.
const WRITE_TIME_MAX: Duration = Duration::from_millis(4);

/// What holds a group back.
#[derive(Debug)]
pub enum Brake {
    /// It is stopped.
    Freezer(Freezer),
    /// It is stopped and goes on, by turns.
    Turns {
        /// By this.
        freezer: Freezer,
        /// The group is stopped now.
        is_stopped: bool,
    },
    /// It is throttled where it grows.
    High {
        /// `memory.high`.
        file: PathBuf,
        /// What stood there.
        found: String,
        /// What was set; 0: nothing yet.
        set_bytes: u64,
    },
}

impl Brake {
    /// What stops a group.
    ///
    /// # Errors
    /// There is nothing, or the group is not one to hold back.
    pub fn to_freeze(group: &GroupReader) -> Result<Brake, HaltError> {
        Freezer::of(group).map(Brake::Freezer)
    }

    /// What slows a group.
    ///
    /// # Errors
    /// As [`Brake::to_freeze`].
    pub fn to_slow(group: &GroupReader) -> Result<Brake, HaltError> {
        if group.version() == Version::V1 {
            return Ok(Brake::Turns {
                freezer: Freezer::of(group)?,
                is_stopped: false,
            });
        }
        spared(group)?;
        let file = group.path().join("memory.high");
        Ok(Brake::High {
            found: read_text(&file)?.trim().to_owned(),
            set_bytes: 0,
            file,
        })
    }

    /// Whether the group stands still until the brake ends, rather than grows slowly or by turns.
    pub fn is_to_freeze(&self) -> bool {
        matches!(self, Brake::Freezer(_))
    }

    /// What lets the group go on as before.
    pub fn undo(&self) -> Undo {
        match self {
            Brake::Freezer(freezer) | Brake::Turns { freezer, .. } => freezer.undo(),
            Brake::High { file, found, .. } => Undo::RestoreFile {
                path: file.clone(),
                value: found.clone(),
            },
        }
    }

    /// The control file.
    pub fn file(&self) -> &Path {
        match self {
            Brake::Freezer(freezer) | Brake::Turns { freezer, .. } => freezer.file(),
            Brake::High { file, .. } => file,
        }
    }

    /// Holds the group back, after [`Brake::undo`] was recorded.
    ///
    /// # Errors
    /// It can't be held back; [`Brake::end`] is due.
    pub fn begin(&mut self) -> Result<(), HaltError> {
        match self {
            Brake::Freezer(freezer) => freezer.stop()?,
            // The first turn comes at the next look.
            Brake::Turns { .. } => {}
            Brake::High {
                file,
                found,
                set_bytes,
            } => {
                let usage = read_text(&file.with_file_name("memory.current"))?;
                let usage_bytes = parse_number(&usage).unwrap_or(u64::MAX);
                let high_bytes = usage_bytes.saturating_add(SLACK_BYTES);
                let stands = read_text(file)?;
                let is_below = parse_number(&stands).is_some_and(|stands| stands > high_bytes);
                if stands.trim() != *found || !is_below {
                    return Err(HaltError::Throttled(file.clone()));
                }
                *set_bytes = high_bytes;
                // What the group charges meanwhile the kernel would reclaim here, for as long as the group grows.
                let _deadline = Deadline::for_this_thread(WRITE_TIME_MAX)
                    .map_err(|source| CgroupError::io("bounding a change of", &*file, source))?;
                write_back(file, &high_bytes.to_string())?;
            }
        }
        Ok(())
    }

    /// The next turn begins, where the group is slowed by turns: it goes on, or stops, if it may be stopped still.
    ///
    /// # Errors
    /// It can't be written.
    pub fn turn(&mut self, group: &GroupReader) -> Result<(), CgroupError> {
        let Brake::Turns {
            freezer,
            is_stopped,
        } = self
        else {
            return Ok(());
        };
        if *is_stopped {
            thaw(freezer.file())?;
            *is_stopped = false;
        } else if Freezer::of(group).is_ok_and(|found| found == *freezer) {
            // Also where only some could be stopped.
            *is_stopped = true;
            freezer.stop()?;
        }
        Ok(())
    }

    /// Lets the group go on as before. Returns what is to be told: what somebody else has set stays.
    ///
    /// # Errors
    /// It can't be written.
    pub fn end(&self) -> Result<Option<String>, CgroupError> {
        match self {
            Brake::Freezer(freezer)
            | Brake::Turns {
                freezer,
                is_stopped: true,
            } => thaw(freezer.file())?,
            Brake::Turns { .. } | Brake::High { set_bytes: 0, .. } => {}
            Brake::High {
                file,
                found,
                set_bytes,
            } => match put_back(None, file, found, &[*set_bytes])? {
                PutBack::Done => {}
                PutBack::Left(told) => return Ok(Some(told)),
            },
        }
        Ok(None)
    }
}
