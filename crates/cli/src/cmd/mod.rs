//! The commands, a file a verb: arguments, and text out.

pub(crate) mod doctor;
