//! What people are told of what was done with whole groups.

/// One thing that was done, or could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A group was stopped, goes on, is parked or works again.
    Note(String),
    /// A group was ended, or something could not be done.
    Warning(String),
}
