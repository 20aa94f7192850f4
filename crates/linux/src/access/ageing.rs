//! Ageing by the kernel's multi-generational LRU, at Strata's request: how accessed bits are cleared where MGLRU is on.
//!
//! A line `+ MEMCG NODE MAX_SEQ 1 1` written to debugfs `lru_gen` has the kernel walk the page tables of the group's
//! processes: each accessed page goes to a new youngest generation, its bit cleared. The kernel takes the lock of an address
//! space for reading and gives it up now and then, so nobody is held up. It ages that group alone, without groups below
//! it, and all members of it.
//!
//! At intervals of d all that was not accessed for 3 d lies in the oldest generation. From there eviction takes what has not
//! been touched ([`crate::actuator::Lever::FiveTouches`]).
//!
//! **Owns** asking. **Does not own** when (`pages::walk`), nor reading bits.
//!
//! **Invariants**
//! - I1: no group is aged but the one that was named and those below it.
//! - I2: nothing is aged where the kernel promises to keep a working set (`min_ttl_ms`): it might find nothing that it
//!   may take, and kill.

use crate::cgroup::GroupReader;
use crate::hold_up::{Call, timed};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use strata_lru::lru_gen::{ParseError, parse_plain};

/// The kernel's text about all groups, which takes commands as well.
const LRU_GEN: &str = "/sys/kernel/debug/lru_gen";
/// How young a working set the kernel promises to keep, milliseconds.
const MIN_TTL_MS: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";

/// Why the kernel can't be asked to age.
#[derive(Debug, thiserror::Error)]
pub enum AgeingError {
    /// The file can't be read or written.
    #[error("{LRU_GEN}: {0}; as root: mount -t debugfs none /sys/kernel/debug")]
    Io(#[from] io::Error),
    /// The kernel lists no such group.
    #[error("{LRU_GEN} does not list the group {0}")]
    NotListed(String),
    /// The kernel keeps a working set by itself.
    #[error(
        "{MIN_TTL_MS} is {0}: ageing might leave the kernel nothing that it may take, and it would kill"
    )]
    MinTtl(u64),
}

/// Asks the kernel to age one group and those below it.
#[derive(Debug)]
pub struct Ager {
    /// Name of the group as the kernel lists it.
    name: String,
    file: PathBuf,
}

impl Ager {
    /// Tries it once.
    ///
    /// # Errors
    /// [`AgeingError`].
    pub fn open(group: &GroupReader) -> Result<Ager, AgeingError> {
        let ager = Ager {
            name: group.name().to_owned(),
            file: PathBuf::from(LRU_GEN),
        };
        match ager.age()? {
            0 => Err(AgeingError::NotListed(ager.name)),
            _ => Ok(ager),
        }
    }

    /// Ages once; how many groups and nodes were aged.
    ///
    /// # Errors
    /// When the text can't be read, the kernel refuses a command, or it keeps a working set by itself.
    pub fn age(&self) -> Result<usize, AgeingError> {
        // It may be set at any time.
        let min_ttl_ms = fs::read_to_string(MIN_TTL_MS)?.trim().parse().unwrap_or(0);
        if min_ttl_ms > 0 {
            return Err(AgeingError::MinTtl(min_ttl_ms));
        }
        let text = fs::read_to_string(&self.file)?;
        let commands = commands(&text, Path::new(&self.name)).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().write(true).open(&self.file)?;
        for command in &commands {
            timed(Call::Ageing, || file.write_all(command.as_bytes())).0?;
        }
        Ok(commands.len())
    }
}

/// The commands that age the group and all below it once, one for each node.
fn commands(text: &str, group: &Path) -> Result<Vec<String>, ParseError> {
    let views = parse_plain(text)?.into_iter();
    let views = views.filter(|view| Path::new(&view.path).starts_with(group));
    Ok(views
        .filter_map(|view| {
            let newest = view.generations.iter().map(|of| of.seq.0).max()?;
            Some(format!("+ {} {} {newest} 1 1\n", view.group.0, view.node.0))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "memcg     1 /\n node     0\n          0        500         0         0 \n\
                        memcg    42 /strata-7\n node     0\n          3        900        10        20 \n\
                        \x20         4        100        30        40 \n node     1\n          6        900         0         0 \n\
                        memcg    43 /strata-7/child\n node     0\n          9          0         1         1 \n\
                        memcg    44 /strata-70\n node     0\n          1          0         1         1 \n";

    #[test]
    fn the_group_and_those_below_it_are_aged_on_each_node_from_their_youngest_generation() {
        let found = commands(TEXT, Path::new("/strata-7")).unwrap();
        assert_eq!(
            found,
            ["+ 42 0 4 1 1\n", "+ 42 1 6 1 1\n", "+ 43 0 9 1 1\n"]
        );
    }

    #[test]
    fn a_group_that_is_not_listed_is_not_aged() {
        assert_eq!(commands(TEXT, Path::new("/strata-8")), Ok(vec![]));
        assert_eq!(commands("", Path::new("/")), Ok(vec![]));
    }
}
