//! What a run tells while it goes on.
//!
//! **Owns** the kinds. **Does not own** how they are shown.

/// Something the user should know now.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// How things are.
    Note(&'a str),
    /// Something is not as asked.
    Warning(&'a str),
    /// What became of another run, which had died: nothing of this one.
    OtherRun(&'a str),
}
