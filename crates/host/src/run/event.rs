//! What a run tells while it goes on.
//!
//! **Owns** the two kinds. **Does not own** how they are shown.

/// Something the user should know now.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// How things are.
    Note(&'a str),
    /// Something is not as asked.
    Warning(&'a str),
}
