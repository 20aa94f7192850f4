//! Arrays as a trace: one element an access.
//!
//! **Owns** reading them where they lie, and asking for signals meanwhile. **Does not own** what an array is made from (Python).

use std::io;
use std::time::Instant;

use pyo3::{PyErr, Python};
use strata_trace::{Access, AccessReader, BATCH_LEN, Backing, Op, PageKey, TraceError, Via};

use crate::apart::SIGNALS_EVERY;

/// Columns of accesses; those that are missing are 0 throughout.
#[derive(Debug)]
pub(crate) struct Arrays<'a> {
    page: &'a [u64],
    pub(crate) time_us: Option<&'a [u64]>,
    pub(crate) space: Option<&'a [u32]>,
    pub(crate) group: Option<&'a [u16]>,
    pub(crate) write: Option<&'a [bool]>,
    via: Via,
    backing: Backing,
    at: usize,
    asked: Instant,
    /// What a signal raised.
    pub(crate) raised: Option<PyErr>,
}

impl<'a> Arrays<'a> {
    /// Accesses of these pages, whose path and backing is the same.
    pub(crate) fn new(page: &'a [u64], via: Via, backing: Backing) -> Arrays<'a> {
        Arrays {
            page,
            time_us: None,
            space: None,
            group: None,
            write: None,
            via,
            backing,
            at: 0,
            asked: Instant::now(),
            raised: None,
        }
    }

    /// Refuses columns that do not have an element for each access.
    pub(crate) fn check(&self) -> Result<(), String> {
        let nr_accesses = self.page.len();
        let lengths = [
            ("time_us", self.time_us.map(<[u64]>::len)),
            ("space", self.space.map(<[u32]>::len)),
            ("group", self.group.map(<[u16]>::len)),
            ("write", self.write.map(<[bool]>::len)),
        ];
        let wrong = lengths.into_iter().find_map(|(name, length)| {
            let length = length.filter(|length| *length != nr_accesses)?;
            Some(format!(
                "{name} has {length} elements and page {nr_accesses}: give one an access"
            ))
        });
        wrong.map_or(Ok(()), Err)
    }
}

impl AccessReader for Arrays<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        if self.asked.elapsed() >= SIGNALS_EVERY {
            if let Err(raised) = Python::attach(|py| py.check_signals()) {
                self.raised = Some(raised);
                let error = io::Error::from(io::ErrorKind::Interrupted);
                return Err(TraceError::of_file("arrays", error));
            }
            self.asked = Instant::now();
        }
        let end = self.page.len().min(self.at + BATCH_LEN);
        batch.clear();
        batch.extend((self.at..end).map(|at| Access {
            key: PageKey {
                space: self.space.map_or(0, |space| space[at]),
                page: self.page[at],
            },
            time_us: self.time_us.map_or(0, |time_us| time_us[at]),
            size_bytes: 0,
            group: self.group.map_or(0, |group| group[at]),
            backing: self.backing,
            op: match self.write.is_some_and(|write| write[at]) {
                true => Op::Write,
                false => Op::Read,
            },
            via: self.via,
        }));
        self.at = end;
        Ok(batch.len())
    }
}
