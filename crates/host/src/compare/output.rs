//! What the command says: numbers found by regular expressions, and its last lines for a message.
//!
//! **Owns** going through the output line by line as it comes. **Does not own** the pipe.
//!
//! **Invariants** I1: of a longer output no more is kept than the last lines. I2: the last match wins, in the order in
//! which lines came.

use std::fmt;
use std::str::FromStr;

use regex::bytes::Regex;

use super::figures::Said;

/// A longer line is looked at in pieces of this.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes at the end of the output that are kept for a message.
const TAIL_BYTES: usize = 2 << 10;

/// A regular expression with one group, which is a number.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// Why a text is no such expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text is no regular expression at all.
    #[error("it is no regular expression: {0}")]
    Syntax(String),
    /// The expression has no group, or several.
    #[error(
        "it has {nr_groups} groups; put one pair of parentheses around the number, as in \
         '([0-9.]+) requests per second', and (?:...) around anything else"
    )]
    Groups {
        /// How many groups the expression has.
        nr_groups: usize,
    },
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let regex = Regex::new(text).map_err(|error| {
            // The library draws where it went wrong over several lines; the last one says it.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            PatternError::Syntax(last.trim_start_matches("error: ").to_owned())
        })?;
        match regex.captures_len() - 1 {
            1 => Ok(Pattern(regex)),
            nr_groups => Err(PatternError::Groups { nr_groups }),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Pattern {
    /// The number in the last match of a line.
    fn find(&self, line: &[u8]) -> Option<f64> {
        let last = self.0.captures_iter(line).last()?;
        number(last.get(1)?.as_bytes())
    }
}

/// A number as programs print it: digits may stand in threes.
fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    digits.trim().parse().ok().filter(|n: &f64| n.is_finite())
}

/// The output of one run.
#[derive(Debug)]
pub(super) struct Output<'a> {
    throughput: Option<&'a Pattern>,
    operations: Option<&'a Pattern>,
    line: Vec<u8>,
    tail: Vec<u8>,
    said: Said,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        throughput: Option<&'a Pattern>,
        operations: Option<&'a Pattern>,
    ) -> Output<'a> {
        Output {
            throughput,
            operations,
            line: Vec::new(),
            tail: Vec::new(),
            said: Said::default(),
        }
    }

    /// Takes in what came.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        // Cut now and then, not at every line.
        if self.tail.len() > 16 * TAIL_BYTES {
            self.cut_tail();
        }
        if self.throughput.is_none() && self.operations.is_none() {
            return;
        }
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(piece);
            let is_whole = matches!(piece.last(), Some(b'\n' | b'\r'));
            if is_whole || self.line.len() >= LINE_BYTES_MAX {
                self.look();
            }
        }
    }

    /// The numbers, when nothing more comes.
    pub(super) fn finish(&mut self) -> Said {
        self.look();
        self.cut_tail();
        self.said
    }

    /// Last lines of the output; at most a few.
    pub(super) fn last_lines(&self, nr_lines: usize) -> String {
        let text = String::from_utf8_lossy(&self.tail);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(nr_lines)..].join("\n")
    }

    fn look(&mut self) {
        let find = |pattern: Option<&Pattern>| pattern.and_then(|of| of.find(&self.line));
        let (throughput, operations) = (find(self.throughput), find(self.operations));
        self.said.throughput_per_s = throughput.or(self.said.throughput_per_s);
        self.said.nr_operations = operations.or(self.said.nr_operations);
        self.line.clear();
    }

    fn cut_tail(&mut self) {
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().expect("a pattern")
    }

    #[test]
    fn the_last_match_wins_wherever_the_output_is_cut() {
        let ops = pattern(r#""ops":([0-9]+)"#);
        let rate = pattern("([0-9.]+) per second");
        let text = b"{\"ops\":12}\n1.5 per second\nnoise \xff\n{\"ops\":34} 2,5\n7.25 per second";
        for cut in 0..text.len() {
            let mut output = Output::new(Some(&rate), Some(&ops));
            output.feed(&text[..cut]);
            output.feed(&text[cut..]);
            let said = output.finish();
            assert_eq!(said.nr_operations, Some(34.0), "cut at {cut}");
            assert_eq!(said.throughput_per_s, Some(7.25), "cut at {cut}");
        }
    }

    #[test]
    fn what_does_not_match_is_unknown_and_not_zero() {
        let rate = pattern("rate ([^ ]+)");
        let mut output = Output::new(Some(&rate), None);
        output.feed(b"nothing\nrate many\nrate inf\n");
        assert_eq!(output.finish(), Said::default());
        output.feed(b"rate 1,234,567 rate 2_000\n");
        assert_eq!(output.finish().throughput_per_s, Some(2000.0));
    }

    #[test]
    fn exactly_one_group_is_wanted() {
        assert!("ops ([0-9]+)".parse::<Pattern>().is_ok());
        assert!("(?:a|b) ([0-9]+)".parse::<Pattern>().is_ok());
        let groups = |text: &str| match text.parse::<Pattern>() {
            Err(PatternError::Groups { nr_groups }) => nr_groups,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!((groups("ops"), groups("(a) (b)")), (0, 2));
        let broken = "ops ([0-9".parse::<Pattern>().expect_err("broken");
        assert!(!broken.to_string().contains('\n'), "{broken}");
    }

    #[test]
    fn of_a_long_output_the_last_lines_are_kept() {
        let mut output = Output::new(None, None);
        for number in 0..100_000 {
            output.feed(format!("line {number}\n\n").as_bytes());
        }
        output.finish();
        assert_eq!(output.last_lines(2), "line 99998\nline 99999");
        assert!(output.tail.len() <= TAIL_BYTES);
    }
}
