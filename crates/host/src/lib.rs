//! What the product does with the mechanisms of Linux: it watches, reclaims, compares, tells and undoes.
//!
//! **Owns** looking without touching ([`observe`]), a run: the loop that ties a program to the engine ([`run`]), a command with and
//! without Strata in turns ([`compare`]), many groups at once ([`managed`]), what both share (`engine`), putting idle programs away ([`park`]), undoing it all after a crash ([`keeper`]), and what others may ask ([`remote`],
//! [`metrics`], [`doctor`]).
//! **Does not own** any mechanism of Linux (`strata-linux`), any decision about which page goes, when and how much (`strata-lru`,
//! `strata-control`), nor any text on a screen (that is the binary).
//!
//! **Invariants**
//! - I1: never writes to the memory of a managed process; what it takes can always be read back.
//! - I2: nothing is changed before it can be undone.
//! - I3: tried and applied are counted apart.
//! - I4: one bad process, mapping or page spoils nothing but itself.
#![deny(unsafe_code)]

pub mod compare;
pub mod doctor;
mod engine;
pub mod keeper;
pub mod managed;
pub mod metrics;
pub mod news;
pub mod observe;
mod pages;
pub mod park;
pub mod remote;
pub mod run;
mod sense;
#[cfg(test)]
mod test_mapping;
pub mod whole_file;
