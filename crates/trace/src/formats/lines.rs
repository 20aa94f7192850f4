//! Traces made of lines of text.
//!
//! **Owns** walking over the lines. **Does not own** what is in one.

use std::fmt;

use super::run::{Run, Stamp};
use crate::access::Access;
use crate::error::{Reason, TraceError};
use crate::input::Input;
use crate::reader::{AccessReader, BATCH_LEN};

/// Understands the lines of one format.
pub(crate) trait ParseLine: fmt::Debug + Send {
    /// Fills in the request of a line that is not blank, or skips it.
    fn parse_line(&mut self, line: &[u8], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason>;
}

/// Reads a trace line by line.
#[derive(Debug)]
pub(crate) struct Lines<P> {
    input: Input,
    stamp: Stamp,
    parser: P,
    /// What did not fit the last batch.
    rest: Run,
}

impl<P: ParseLine> Lines<P> {
    pub(crate) fn new(input: Input, stamp: Stamp, parser: P) -> Self {
        let mut rest = stamp.run();
        rest.skip();
        Lines {
            input,
            stamp,
            parser,
            rest,
        }
    }
}

impl<P: ParseLine> AccessReader for Lines<P> {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        batch.clear();
        self.rest.hand_out(batch);
        while batch.len() < BATCH_LEN {
            let Some(line) = self.input.next_line()? else {
                break;
            };
            if line.is_empty() {
                continue;
            }
            let mut run = self.stamp.run();
            if let Err(reason) = self.parser.parse_line(line, &mut self.stamp, &mut run) {
                return Err(self.input.error(self.input.line(), reason));
            }
            if run.nr_pages == 1 {
                batch.push(run.access);
            } else {
                run.hand_out(batch);
                self.rest = run;
            }
        }
        Ok(batch.len())
    }
}
