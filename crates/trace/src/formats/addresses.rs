//! `memsim` `ucsd` `lackey`: loads and stores by address, one a line.
//!
//! **Owns** the layouts:
//!
//! | format | line | example |
//! |---|---|---|
//! | `memsim` | hexadecimal address, `R` or `W` | `0041f7a0 R` |
//! | `ucsd` | `l` or `s`, address, instructions since the last | `s 0x1fffff50 1` |
//! | `lackey` | `I`, ` L`, ` S` or ` M`, address, size; `==` and `--` lines are valgrind's own | ` S 1fff000748,8` |
//!
//! An access that crosses into the next page is an access of both, whether sizes are asked for or
//! not: that is what the processor does. `M` loads and stores, and counts as one write.

use super::lines::ParseLine;
use super::number::{decimal, hexadecimal, next_word};
use super::run::{PAGE_BYTES, Run, Stamp};
use crate::access::Op;
use crate::error::Reason;

/// Lines of `memsim`.
#[derive(Debug)]
pub(crate) struct Memsim;

impl ParseLine for Memsim {
    fn parse_line(&mut self, line: &[u8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        let mut rest = line;
        let address = hexadecimal("address", next_word(&mut rest))?;
        run.access.op = match next_word(&mut rest) {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            other => return Err(Reason::bad_value("access", "R or W", other)),
        };
        run.access.key.page = address / PAGE_BYTES;
        Ok(())
    }
}

/// Lines of `ucsd`.
#[derive(Debug)]
pub(crate) struct Ucsd;

impl ParseLine for Ucsd {
    fn parse_line(&mut self, line: &[u8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        let mut rest = line;
        run.access.op = match next_word(&mut rest) {
            b"l" => Op::Read,
            b"s" => Op::Write,
            other => return Err(Reason::bad_value("access", "l or s", other)),
        };
        let address = hexadecimal("address", next_word(&mut rest))?;
        run.access.key.page = address / PAGE_BYTES;
        Ok(())
    }
}

/// Lines of `lackey`.
#[derive(Debug)]
pub(crate) struct Lackey;

impl ParseLine for Lackey {
    fn parse_line(&mut self, line: &[u8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        if line.starts_with(b"==") || line.starts_with(b"--") {
            run.skip();
            return Ok(());
        }
        let mut rest = line;
        let op = match next_word(&mut rest) {
            b"I" | b"L" => Op::Read,
            b"S" | b"M" => Op::Write,
            other => return Err(Reason::bad_value("access", "I, L, S or M", other)),
        };
        let word = next_word(&mut rest);
        let comma = memchr::memchr(b',', word)
            .ok_or_else(|| Reason::bad_value("address,size", "two numbers", word))?;
        let address = hexadecimal("address", &word[..comma])?;
        let size_bytes = decimal("size", &word[comma + 1..])?;
        run.set_bytes(address, size_bytes)?;
        run.access.op = op;
        run.access.size_bytes = u32::try_from(size_bytes).unwrap_or(u32::MAX);
        Ok(())
    }
}
