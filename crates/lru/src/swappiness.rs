//! Swappiness: how anon pages are weighed against file pages.
//!
//! **Owns** its range and its default. **Does not own** what is made of it (`controller`, the policies).

use crate::ids::Kind;

/// The kernel's swappiness: 0 never anon, 1..=199 a ratio, 200 anon first, 201 anon only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Swappiness(u8);

impl Swappiness {
    /// The kernel's default.
    pub const DEFAULT: Swappiness = Swappiness(60);
    /// File only.
    pub const FILE_ONLY: Swappiness = Swappiness(0);
    /// Anon only (`max`).
    pub const ANON_ONLY: Swappiness = Swappiness(201);

    /// `None` above 201.
    pub fn try_new(value: u8) -> Option<Swappiness> {
        (value <= 201).then_some(Swappiness(value))
    }

    /// The number, 0..=201.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Whether folios of this kind may be evicted at all.
    pub fn allows(self, kind: Kind) -> bool {
        match kind {
            Kind::Anon => self.0 > 0,
            Kind::File => self.0 <= 200,
        }
    }
}

impl Default for Swappiness {
    fn default() -> Self {
        Self::DEFAULT
    }
}
