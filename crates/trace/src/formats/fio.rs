//! `fio`: I/O logs of the Flexible I/O tester, versions 2 and 3.
//!
//! **Owns** the layout (fio's manual, "Trace file format"):
//!
//! ```text
//! fio version 2 iolog              fio version 3 iolog
//! FILE add|open|close              TIME FILE add|open|close
//! FILE read|write|... OFFSET BYTES TIME FILE read|write|... OFFSET BYTES
//! FILE wait MICROSECONDS
//! ```
//!
//! TIME is in microseconds since the run began. Files are numbered in the order they are first
//! named. Actions that access no page (`sync`, `datasync`, `trim`, ...) are passed over.

use std::collections::HashMap;

use super::lines::ParseLine;
use super::number::{decimal, next_word};
use super::run::{Run, Stamp};
use crate::access::Op;
use crate::error::Reason;

/// First line of version 2.
pub(crate) const FIRST_LINE_V2: &[u8] = b"fio version 2 iolog";
/// First line of version 3.
pub(crate) const FIRST_LINE_V3: &[u8] = b"fio version 3 iolog";
/// Most files of a log, so that names can't fill the memory.
const FILES_MAX: usize = 16 << 10;
/// Longest name of a file: Linux has no longer path.
const NAME_BYTES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

/// Lines of `fio`.
#[derive(Debug, Default)]
pub(crate) struct Fio {
    /// `None` before the first line.
    version: Option<Version>,
    files: HashMap<Box<[u8]>, u32>,
    waited_us: u64,
}

impl Fio {
    fn space(&mut self, name: &[u8]) -> Result<u32, Reason> {
        if let Some(space) = self.files.get(name) {
            return Ok(*space);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Reason::bad_value(
                "file",
                "a name of at most 4096 bytes",
                name,
            ));
        }
        if self.files.len() == FILES_MAX {
            return Err(Reason::TooManyFiles(FILES_MAX));
        }
        let space = self.files.len() as u32;
        self.files.insert(name.into(), space);
        Ok(space)
    }
}

impl ParseLine for Fio {
    fn parse_line(&mut self, line: &[u8], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        let Some(version) = self.version else {
            self.version = Some(match line.trim_ascii_end() {
                FIRST_LINE_V2 => Version::V2,
                FIRST_LINE_V3 => Version::V3,
                other => {
                    return Err(Reason::NotThisFormat {
                        format: "fio",
                        why: format!(
                            "it begins with {}, not with `fio version 2 iolog` or 3",
                            Reason::quoted(other)
                        ),
                    });
                }
            });
            run.skip();
            return Ok(());
        };
        let mut rest = line;
        let time_us = match version {
            Version::V2 => self.waited_us,
            Version::V3 => decimal("time", next_word(&mut rest))?,
        };
        let file = next_word(&mut rest);
        let op = match next_word(&mut rest) {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"wait" if version == Version::V2 => {
                let wait_us = decimal("wait", next_word(&mut rest))?;
                self.waited_us = self.waited_us.saturating_add(wait_us);
                run.skip();
                return Ok(());
            }
            b"add" | b"open" => {
                self.space(file)?;
                run.skip();
                return Ok(());
            }
            b"close" | b"sync" | b"datasync" | b"sync_file_range" | b"trim" => {
                run.skip();
                return Ok(());
            }
            other => {
                let expected = "one that fio knows (read, write, sync, ...)";
                return Err(Reason::bad_value("action", expected, other));
            }
        };
        let offset = decimal("offset", next_word(&mut rest))?;
        let nr_bytes = decimal("length", next_word(&mut rest))?;
        stamp.set_address(run, offset, nr_bytes)?;
        run.access.key.space = self.space(file)?;
        run.access.op = op;
        run.access.time_us = time_us;
        Ok(())
    }
}
