//! Traces made of records of one size.
//!
//! **Owns** walking over the records. **Does not own** what is in one.

use std::fmt;

use super::run::{Run, Stamp};
use crate::access::Access;
use crate::error::{Position, Reason, TraceError};
use crate::input::Input;
use crate::reader::{AccessReader, BATCH_LEN};

/// Reads `N` bytes a record; `parse` fills in the request.
pub(crate) struct Records<P, const N: usize> {
    input: Input,
    stamp: Stamp,
    parse: P,
    /// What did not fit the last batch.
    rest: Run,
}

impl<P, const N: usize> Records<P, N>
where
    P: Fn(&[u8; N], &mut Stamp, &mut Run) -> Result<(), Reason> + Send,
{
    pub(crate) fn new(input: Input, stamp: Stamp, parse: P) -> Self {
        let mut rest = stamp.run();
        rest.skip();
        Records {
            input,
            stamp,
            parse,
            rest,
        }
    }
}

impl<P, const N: usize> fmt::Debug for Records<P, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

impl<P, const N: usize> AccessReader for Records<P, N>
where
    P: Fn(&[u8; N], &mut Stamp, &mut Run) -> Result<(), Reason> + Send,
{
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        batch.clear();
        self.rest.hand_out(batch);
        // A record may ask for nothing, and a batch of such would look like the end.
        while batch.is_empty() {
            if self.input.available().len() < N {
                self.input.fill()?;
            }
            let (records, rest) = self.input.available().as_chunks::<N>();
            if records.is_empty() {
                if rest.is_empty() {
                    break;
                }
                let at = Position::Byte(self.input.offset());
                return Err(self.input.error(at, Reason::Truncated("a record")));
            }
            let mut nr_parsed = 0;
            let mut failed = None;
            let empty = self.stamp.run();
            for record in records {
                if batch.len() == BATCH_LEN {
                    break;
                }
                nr_parsed += 1;
                let mut run = empty;
                if let Err(reason) = (self.parse)(record, &mut self.stamp, &mut run) {
                    failed = Some(reason);
                    break;
                }
                if run.nr_pages == 1 {
                    batch.push(run.access);
                } else {
                    run.hand_out(batch);
                    self.rest = run;
                }
            }
            let at = self.input.offset();
            self.input.consume(nr_parsed * N);
            if let Some(reason) = failed {
                let at = Position::Byte(at + (nr_parsed as u64 - 1) * N as u64);
                return Err(self.input.error(at, reason));
            }
        }
        Ok(batch.len())
    }
}
