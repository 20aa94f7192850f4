//! How the kernel is made to spare a page.
//!
//! **Owns** the names of the ways. **Does not own** which one a kernel needs (`run::assemble`), nor any touching (`activate`).

/// A way to make the kernel spare a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lever {
    /// Two reads of a byte, which make a page active on the classic LRU.
    Activation,
}

impl Lever {
    /// Reads that one page takes.
    pub fn nr_touches(self) -> u64 {
        match self {
            Lever::Activation => 2,
        }
    }
}
