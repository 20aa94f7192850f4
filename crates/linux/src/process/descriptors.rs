//! Open files: how many this process may have, and how they are shared out.
//!
//! Each process that is watched takes a descriptor or two, so a thousand of them are more than the usual
//! soft limit of 1,024. Strata takes what the hard limit allows; the command it starts gets the limit
//! that Strata was started with, because programs that use `select` go by it.
//!
//! Descriptors are given out lowest number first, so the number of a new one tells how many there are.
//!
//! **Owns** the limit of this process and what a new descriptor's number means. **Does not own** any
//! descriptor.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept free for what opens a file for a moment, clients and metrics.
const RESERVED: u64 = 64;

/// The limit at the start, once it was raised.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// How a new descriptor may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// As many as wanted.
    Plenty,
    /// One for each process, no more.
    Scarce,
    /// None: the rest is for others.
    Full,
}

/// Raises the soft limit to the hard one, once, for the rest of this process.
pub fn raise_limit() {
    let found = getrlimit(Resource::Nofile);
    if INHERITED.set(found).is_err() || found.current == found.maximum {
        return;
    }
    let raised = Rlimit {
        current: found.maximum,
        maximum: found.maximum,
    };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!("the limit on open files stays: {errno}");
    }
}

/// What a command started by this process is to have: soft and hard.
pub(super) fn inherited() -> Option<(u64, u64)> {
    let found = INHERITED.get()?;
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    Some((number(found.current), number(found.maximum)))
}

/// The most descriptors this process may have.
pub(super) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What is left when a new descriptor has this number.
pub(super) fn room(number: u64, limit: u64) -> Room {
    if number.saturating_add(RESERVED) >= limit {
        Room::Full
    } else if number >= limit / 2 {
        Room::Scarce
    } else {
        Room::Plenty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_get_scarce_at_half_the_limit_and_some_are_always_left() {
        assert_eq!(room(100, 1024), Room::Plenty);
        assert_eq!(room(512, 1024), Room::Scarce);
        assert_eq!(room(959, 1024), Room::Scarce);
        assert_eq!(room(960, 1024), Room::Full);
        assert_eq!(room(3, 64), Room::Full);
        assert_eq!(room(1 << 20, u64::MAX), Room::Plenty);
    }
}
