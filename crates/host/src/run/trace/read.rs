//! Reading a trace back.
//!
//! **Owns** the order of lines and what is wrong with a file. **Does not own** what a line says (`format`).
//!
//! **Invariants** I1: whatever the input is, it is taken whole or refused with the line and the reason.

use super::{End, FORMAT, Header, Line, Tick, VERSION};
use std::io::{self, BufRead, Read};

/// No line is longer than this.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A trace that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The first line.
    pub header: Header,
    /// All ticks, in order.
    pub ticks: Vec<Tick>,
    /// The last line; `None`: the trace or Strata was cut short.
    pub end: Option<End>,
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be read.
    #[error("line {line} of the trace can't be read: {source}")]
    Io {
        /// Counted from 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// A line is not understood.
    #[error("line {line} of the trace is not understood: {source}")]
    Format {
        /// Counted from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// A line has no end, or there are too many or too few of its kind.
    #[error("line {line} of the trace: {why}")]
    Order {
        /// Counted from 1.
        line: u64,
        /// Why.
        why: &'static str,
    },
    /// Another version of Strata has written the trace.
    #[error(
        "line 1 of the trace: it has version {found} of the format, and this version of Strata reads {VERSION}: \
         record it again, or read it with the Strata that wrote it"
    )]
    Version {
        /// Version of the trace.
        found: u32,
    },
}

/// Reads a whole trace.
///
/// # Errors
/// [`ReadError`] at the first line that is not as it should be.
pub fn read(mut input: impl BufRead) -> Result<Recorded, ReadError> {
    let mut recorded: Option<Recorded> = None;
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let most = LINE_BYTES_MAX + 1;
        let taken = input.by_ref().take(most).read_until(b'\n', &mut text);
        let nr_bytes = taken.map_err(|source| ReadError::Io { line, source })?;
        if nr_bytes == 0 {
            break;
        }
        let order = |why| ReadError::Order { line, why };
        if text.pop() != Some(b'\n') {
            return Err(order(match nr_bytes as u64 == most {
                true => "it is longer than a line can be",
                false => "it was cut off before its end",
            }));
        }
        if recorded.is_none() {
            check_version(&text)?;
        }
        let parsed =
            serde_json::from_slice(&text).map_err(|source| ReadError::Format { line, source })?;
        match (parsed, &mut recorded) {
            (Line::Header(header), None) => {
                recorded = Some(Recorded {
                    header: *header,
                    ticks: Vec::new(),
                    end: None,
                });
            }
            (_, None) => return Err(order("a header comes first")),
            (Line::Header(_), Some(_)) => return Err(order("there is one header only")),
            (_, Some(of)) if of.end.is_some() => return Err(order("nothing comes after the end")),
            (Line::Tick(tick), Some(of)) => of.ticks.push(*tick),
            (Line::End(end), Some(of)) => of.end = Some(*end),
        }
    }
    recorded.ok_or(ReadError::Order {
        line: 1,
        why: "there is none",
    })
}

/// A format of another version need not have the same fields.
fn check_version(text: &[u8]) -> Result<(), ReadError> {
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|source| ReadError::Format { line: 1, source })?;
    let header = &value["header"];
    if header["format"] != FORMAT {
        return Err(ReadError::Order {
            line: 1,
            why: "it is not the header of a trace of Strata's control loop",
        });
    }
    let found = header["version"].as_u64();
    let found = found.map_or(0, |found| u32::try_from(found).unwrap_or(u32::MAX));
    match found {
        VERSION => Ok(()),
        found => Err(ReadError::Version { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Line {
        Line::Header(Box::new(Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            ..Header::default()
        }))
    }

    fn text(lines: &[Line]) -> String {
        let line = |line: &Line| serde_json::to_string(line).unwrap() + "\n";
        lines.iter().map(line).collect()
    }

    fn refusal(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    fn tick() -> Line {
        Line::Tick(Box::default())
    }

    fn end() -> Line {
        Line::End(Box::default())
    }

    #[test]
    fn lines_come_in_their_order() {
        let whole = read(text(&[header(), tick(), tick(), end()]).as_bytes()).unwrap();
        assert_eq!((whole.ticks.len(), whole.end.is_some()), (2, true));
        let cut = read(text(&[header(), tick()]).as_bytes()).unwrap();
        assert_eq!((cut.ticks.len(), cut.end.is_some()), (1, false));
        let refused = |lines: &[Line]| refusal(&text(lines));
        assert!(refused(&[]).contains("line 1 of the trace: there is none"));
        assert!(refused(&[tick()]).contains("line 1") && refused(&[tick()]).contains("header"));
        assert!(refused(&[header(), tick(), header()]).contains("line 3"));
        assert!(refused(&[header(), end(), tick()]).contains("line 3"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let good = text(&[header(), tick()]);
        let refused = refusal(&format!("{good}{{\"tick\":{{\"now_ms\":-1}}}}\n"));
        assert!(
            refused.contains("line 3") && refused.contains("-1"),
            "{refused}"
        );
        let refused = refusal(&good.replace("now_ms", "then_ms"));
        assert!(
            refused.contains("line 2") && refused.contains("then_ms"),
            "{refused}"
        );
        let refused = refusal(good.trim_end());
        assert!(
            refused.contains("line 2") && refused.contains("cut off"),
            "{refused}"
        );
        let version = format!("\"version\":{VERSION}");
        for other in [VERSION + 1, VERSION - 1] {
            let text = good.replace(&version, &format!("\"version\":{other}"));
            assert!(refusal(&text).contains(&format!("version {other}")));
        }
        assert!(refusal("{\"version\":1}\n").contains("not the header"));
        assert!(refusal("\n").contains("line 1"));
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_is_read_whole() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        let refused = read(endless).unwrap_err().to_string();
        assert!(refused.contains("longer than a line can be"), "{refused}");
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(noise in proptest::collection::vec(any::<u8>(), 0..200), at in 0..400_usize) {
            let mut bytes = text(&[header(), tick(), end()]).into_bytes();
            let at = at.min(bytes.len());
            bytes.splice(at..at, noise);
            let _ = read(bytes.as_slice());
        }
    }
}
