//! What must be undone, written down before it is done.
//!
//! **Owns** the vocabulary ([`Undo`]) and the handle through which groups and swap devices announce
//! a change ([`Journal`]). **Does not own** where it is kept (`session`) or how it is carried out
//! (`undo`).
//!
//! **Invariants**
//! - J1: a step is recorded before the change it undoes is made, so that a crash in between leaves a
//!   step that finds nothing to do.
//! - J2: carrying a step out twice does no more than once.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cgroup::{GroupMark, as_text};
use crate::claim::{Claim, ClaimError};
use crate::run_dir::ProcessMark;
use crate::swap::SwapRecord;

/// One change that has to be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "snake_case")]
pub enum Undo {
    /// Write `value` back into a control file; due at once when Strata is gone.
    RestoreFile {
        /// The control file.
        #[serde(with = "as_text")]
        path: PathBuf,
        /// What the file held before the first change.
        value: String,
    },
    /// Remove a group of ours; due when the program has ended.
    RemoveGroup {
        /// The group's directory.
        #[serde(with = "as_text")]
        path: PathBuf,
    },
    /// Let the processes of a group go on; due at once.
    Thaw {
        /// The control file that stopped them.
        #[serde(with = "as_text")]
        path: PathBuf,
    },
    /// Let a process go on that a signal has stopped; due at once.
    GoOn {
        /// The process.
        process: ProcessMark,
    },
    /// Take a swap device of ours down; due when the program has ended.
    Swap(SwapRecord),
}

/// Where steps are written.
pub trait JournalSink: Send + Sync + fmt::Debug {
    /// Makes the step durable. A second [`Undo::RestoreFile`] of the same path is dropped: the first
    /// one holds the original value.
    fn record(&self, undo: &Undo) -> io::Result<()>;

    /// Forgets a step that was carried out.
    fn forget(&self, undo: &Undo) -> io::Result<()>;

    /// Keeps the values written last into a control file: only over one of them an original is put back.
    fn note_written(&self, file: &Path, values: &[u64]) -> io::Result<()>;
    /// Says that this session is about to act on a group.
    fn claim(&self, group: &GroupMark, claim: Claim) -> Result<(), ClaimError>;
}

/// A handle on the journal of a session; clones write to the same one.
#[derive(Clone, Debug)]
pub struct Journal(Option<Arc<dyn JournalSink>>);

impl Journal {
    /// A journal that keeps nothing: whoever uses it must undo everything without help.
    pub fn none() -> Journal {
        Journal(None)
    }

    /// A journal kept by `sink`.
    pub fn new(sink: Arc<dyn JournalSink>) -> Journal {
        Journal(Some(sink))
    }

    /// Whether anything is kept: whoever acts needs that, and who only looks does not.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Records a step (see [`JournalSink::record`]).
    pub fn record(&self, undo: &Undo) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |sink| sink.record(undo))
    }

    /// Forgets a step (see [`JournalSink::forget`]).
    pub fn forget(&self, undo: &Undo) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |sink| sink.forget(undo))
    }

    /// Keeps values (see [`JournalSink::note_written`]).
    pub fn note_written(&self, file: &Path, values: &[u64]) -> io::Result<()> {
        let keep = |sink: &Arc<dyn JournalSink>| sink.note_written(file, values);
        self.0.as_ref().map_or(Ok(()), keep)
    }

    /// Claims a group (see [`JournalSink::claim`]). A journal that keeps nothing claims nothing, so it
    /// does for those who only look.
    pub fn claim(&self, group: &GroupMark, claim: Claim) -> Result<(), ClaimError> {
        let sink = self.0.as_ref();
        sink.map_or(Ok(()), |sink| sink.claim(group, claim))
    }
}
