//! What all commands that look or act share: one room below them.
//!
//! **Owns** censuses of physical memory ([`census`]). **Does not own** who wants them, nor what follows.

pub(crate) mod census;
