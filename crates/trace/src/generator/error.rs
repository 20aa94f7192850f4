//! Why a name makes no trace.
//!
//! **Owns** the complaints, and the names they list. **Does not own** what a name means (`mod`, `options`).

use crate::suggest::did_you_mean;

/// The most patterns, one after the other.
pub(super) const NR_STRETCHES_MAX: usize = 64;

/// So many of the patterns can be joined with others by `-`; the rest stands alone.
pub(super) const NR_JOINED_PATTERNS: usize = 6;

/// The patterns of `gen:`, those that can be joined first.
pub(super) const PATTERNS: [&str; 12] = [
    "uniform",
    "zipf",
    "hotscan",
    "loop",
    "phases",
    "scan",
    "mixed",
    "mixed-groups",
    "replicas",
    "sparse",
    "apps",
    "code",
];

/// A name that makes no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// Neither `gen:` nor `oracle:`.
    #[error("{0:?} names no generator: use gen:PATTERN or oracle:MODE/PATTERN")]
    NotAGenerator(String),
    /// No such pattern.
    #[error(
        "unknown pattern {0:?}: {meant}use {known}",
        meant = did_you_mean(.0, PATTERNS),
        known = PATTERNS.join(", ")
    )]
    UnknownPattern(String),
    /// Several spaces, or pages that lie apart, are no sequence.
    #[error(
        "{0} can't be one of several patterns: use uniform, zipf, hotscan, loop, phases or scan"
    )]
    NotJoined(&'static str),
    /// More patterns are joined than may be.
    #[error("{0} patterns are too many: join at most {NR_STRETCHES_MAX}")]
    TooManyPatterns(usize),
    /// No such sequence.
    #[error(
        "unknown oracle sequence {0:?}: use fdread/, mmapread/ or anon/ with uniform, zipf, hotscan, loop, phase or mixed, or mixed/mixed"
    )]
    UnknownOracle(String),
    /// A piece that is not `key=value`.
    #[error("{0:?} is no option: write key=value")]
    NotAnOption(String),
    /// An option that the pattern does not have.
    #[error(
        "the pattern has no option {option:?}: {meant}use {known}",
        meant = did_you_mean(option, known.iter().copied()),
        known = known.join(", ")
    )]
    UnknownOption {
        /// What was given.
        option: String,
        /// What the pattern has.
        known: Vec<&'static str>,
    },
    /// An option is given twice.
    #[error("option {0:?} is given twice")]
    GivenTwice(String),
    /// Not a number, or out of bounds.
    #[error("{key}={value} is out of bounds: choose {least} to {most}")]
    BadNumber {
        /// The option.
        key: &'static str,
        /// The value given.
        value: String,
        /// Least allowed.
        least: u64,
        /// Most allowed.
        most: u64,
    },
    /// Not a decimal number, or out of bounds.
    #[error("{key}={value} is out of bounds: choose 0 to {most}, with up to two decimals")]
    BadDecimal {
        /// The option.
        key: &'static str,
        /// The value given.
        value: String,
        /// Most allowed.
        most: u32,
    },
    /// The tables of the generator alone would take more memory than there may be.
    #[error(
        "takes {needed_bytes} bytes for its tables, more than the {bytes_max} of --max-memory: choose \
         fewer pages or groups, or allow more"
    )]
    TooLarge {
        /// What they would take.
        needed_bytes: u64,
        /// What there may be.
        bytes_max: u64,
    },
    /// Not one of the words.
    #[error("{key}={value} is unknown: choose one of {choices}")]
    BadChoice {
        /// The option.
        key: &'static str,
        /// The value given.
        value: String,
        /// What there is.
        choices: String,
    },
}
