//! `lis` `lirs`: block numbers, the formats of the ARC and LIRS papers.
//!
//! **Owns** the layouts:
//!
//! | format | line | example |
//! |---|---|---|
//! | `lis` | first block, number of blocks, ignored, number of the request | `110765 64 0 0` |
//! | `lirs` | a block; lines that begin with `*` are marks | `2819` |

use super::lines::ParseLine;
use super::number::{decimal, next_word};
use super::run::{Run, Stamp};
use crate::error::Reason;

/// Lines of `lis`.
#[derive(Debug)]
pub(crate) struct Lis;

impl ParseLine for Lis {
    fn parse_line(&mut self, line: &[u8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        let mut rest = line;
        let first = decimal("first block", next_word(&mut rest))?;
        let nr_blocks = decimal("number of blocks", next_word(&mut rest))?;
        decimal("third column", next_word(&mut rest))?;
        decimal("number of the request", next_word(&mut rest))?;
        run.set_pages(first, nr_blocks)
    }
}

/// Lines of `lirs`.
#[derive(Debug)]
pub(crate) struct Lirs;

impl ParseLine for Lirs {
    fn parse_line(&mut self, line: &[u8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        let mut rest = line;
        let word = next_word(&mut rest);
        if word.is_empty() || word.starts_with(b"*") {
            run.skip();
            return Ok(());
        }
        run.access.key.page = decimal("block", word)?;
        match next_word(&mut rest) {
            b"" => Ok(()),
            more => Err(Reason::bad_value("a line", "one number", more)),
        }
    }
}
