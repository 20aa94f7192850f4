//! What `--swap` takes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::process::MachineMemory;
use crate::units::{Bytes, SizeError, parse_size};

/// Smaller than this no swap device makes sense: the header and a page would be most of it.
pub const SWAP_MIN_BYTES: u64 = 1 << 20;

/// Sizes that are proposed are whole multiples of this.
const PROPOSED_STEP_BYTES: u64 = 64 << 20;

/// The size of a device for so much memory, with half as much again for what grows meanwhile.
pub fn device_bytes_for(out_bytes: u64) -> u64 {
    out_bytes
        .saturating_add(out_bytes / 2)
        .max(1)
        .next_multiple_of(PROPOSED_STEP_BYTES)
}

/// The swap that a run wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SwapSpec {
    /// What the machine has already.
    #[default]
    Existing,
    /// A compressed device in memory.
    Zram {
        /// Capacity before compression, and the most memory that the device may take.
        size_bytes: u64,
        /// One of those the device offers; `None`: its default.
        algorithm: Option<String>,
    },
    /// A new file.
    File {
        /// Where; must not exist.
        path: PathBuf,
        /// Size of the file.
        size_bytes: u64,
    },
}

/// A `--swap` that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid swap {text:?}: {why}; accepted are existing, zram:SIZE[,ALGORITHM] and \
     file:PATH:SIZE, for example zram:2G,lz4 or zram:25% (of memory)"
)]
pub struct SwapSpecError {
    /// What was given.
    pub text: String,
    /// What is wrong with the text.
    pub why: String,
}

impl FromStr for SwapSpec {
    type Err = SwapSpecError;

    fn from_str(text: &str) -> Result<SwapSpec, SwapSpecError> {
        parse(text).map_err(|why| SwapSpecError {
            text: text.to_owned(),
            why,
        })
    }
}

fn parse(text: &str) -> Result<SwapSpec, String> {
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (text, None),
    };
    match (kind, rest) {
        ("existing", None) => Ok(SwapSpec::Existing),
        ("existing", Some(_)) => Err("existing takes nothing after it".to_owned()),
        ("zram", Some(rest)) => {
            let (size, algorithm) = match rest.split_once(',') {
                Some((_, "")) => return Err("the algorithm is empty".to_owned()),
                Some((size, algorithm)) => (size, Some(algorithm.to_owned())),
                None => (rest, None),
            };
            Ok(SwapSpec::Zram {
                size_bytes: parse_swap_size(size)?,
                algorithm,
            })
        }
        ("file", Some(rest)) => {
            let (path, size_bytes) = parse_path_and_size(rest)?;
            Ok(SwapSpec::File { path, size_bytes })
        }
        ("zram", None) => Err("the size is missing".to_owned()),
        ("file", None) => Err("the path and the size are missing".to_owned()),
        _ => Err("the kind is unknown".to_owned()),
    }
}

fn parse_swap_size(text: &str) -> Result<u64, String> {
    let bytes = match text.strip_suffix('%') {
        Some(percent) => share_of_memory(percent)
            .ok_or_else(|| format!("size {text:?}: a share of memory is 1% to 400%"))?,
        None => {
            parse_size(text).map_err(|SizeError { why, .. }| format!("size {text:?}: {why}"))?
        }
    };
    if bytes < SWAP_MIN_BYTES {
        return Err(format!(
            "size {text:?}: it is less than {}",
            Bytes(SWAP_MIN_BYTES)
        ));
    }
    Ok(bytes)
}

/// So many percent of the machine's memory.
fn share_of_memory(percent: &str) -> Option<u64> {
    let percent: u64 = percent.parse().ok().filter(|one| (1..=400).contains(one))?;
    let memory = MachineMemory::read().ok()?;
    Some(memory.total_bytes / 100 * percent)
}

/// The size is after the last colon, so that a path may hold colons.
fn parse_path_and_size(rest: &str) -> Result<(PathBuf, u64), String> {
    let Some((path, size)) = rest.rsplit_once(':') else {
        return Err("the size is missing".to_owned());
    };
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    Ok((Path::new(path).to_owned(), parse_swap_size(size)?))
}

impl fmt::Display for SwapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwapSpec::Existing => f.write_str("existing"),
            SwapSpec::Zram {
                size_bytes,
                algorithm: Some(algorithm),
            } => write!(f, "zram:{size_bytes},{algorithm}"),
            SwapSpec::Zram { size_bytes, .. } => write!(f, "zram:{size_bytes}"),
            SwapSpec::File { path, size_bytes } => {
                write!(f, "file:{}:{size_bytes}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_understood_and_prints_back() {
        for (text, spec) in [
            ("existing", SwapSpec::Existing),
            (
                "zram:2G",
                SwapSpec::Zram {
                    size_bytes: 2 << 30,
                    algorithm: None,
                },
            ),
            (
                "zram:512M,lzo-rle",
                SwapSpec::Zram {
                    size_bytes: 512 << 20,
                    algorithm: Some("lzo-rle".to_owned()),
                },
            ),
            (
                "file:/var/swap:with:colons:1.5GiB",
                SwapSpec::File {
                    path: PathBuf::from("/var/swap:with:colons"),
                    size_bytes: 3 << 29,
                },
            ),
            (
                "file:relative/file:64M",
                SwapSpec::File {
                    path: PathBuf::from("relative/file"),
                    size_bytes: 64 << 20,
                },
            ),
        ] {
            let parsed: SwapSpec = text.parse().expect(text);
            assert_eq!(parsed, spec);
            assert_eq!(parsed.to_string().parse(), Ok(spec));
        }
    }

    #[test]
    fn a_share_is_of_the_machines_memory() {
        let size_of = |text: &str| match text.parse() {
            Ok(SwapSpec::Zram { size_bytes, .. }) => size_bytes,
            other => panic!("{text}: {other:?}"),
        };
        let total_bytes = MachineMemory::read().expect("told").total_bytes;
        let quarter = size_of("zram:25%,lz4");
        assert!(
            quarter.abs_diff(total_bytes / 4) < 100,
            "{quarter} of {total_bytes}"
        );
        assert_eq!(size_of("zram:50%"), 2 * quarter);
    }
}
