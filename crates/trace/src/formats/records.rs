//! Traces made of records of one size.
//!
//! **Owns** walking over the records. **Does not own** what is in one.

use std::fmt;

use super::Stamp;
use crate::access::Access;
use crate::error::{Position, Reason, TraceError};
use crate::input::Input;
use crate::reader::{AccessReader, BATCH_LEN};

/// Reads `N` bytes a record; `parse` fills in what the record says.
pub(crate) struct Records<P, const N: usize> {
    input: Input,
    stamp: Stamp,
    parse: P,
}

impl<P, const N: usize> Records<P, N>
where
    P: Fn(&[u8; N], &mut Access) + Send,
{
    pub(crate) fn new(input: Input, stamp: Stamp, parse: P) -> Self {
        Records {
            input,
            stamp,
            parse,
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
    P: Fn(&[u8; N], &mut Access) + Send,
{
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        batch.clear();
        if self.input.available().len() < N {
            self.input.fill()?;
        }
        let (records, rest) = self.input.available().as_chunks::<N>();
        if records.is_empty() && !rest.is_empty() {
            let at = Position::Byte(self.input.offset());
            return Err(self.input.error(at, Reason::Truncated("a record")));
        }
        let empty = self.stamp.access();
        batch.extend(records.iter().take(BATCH_LEN).map(|record| {
            let mut access = empty;
            (self.parse)(record, &mut access);
            access
        }));
        self.input.consume(batch.len() * N);
        Ok(batch.len())
    }
}
