//! The kernel's `lru_gen` text: what `/sys/kernel/debug/lru_gen` shows and takes (rules 6).
//!
//! ```text
//!   views  --format_plain-->  text  --parse_plain-->  views
//!   full views  --format_full-->  text
//!   text   --commands-->  Command  --MultiGen::plan-->  Plan  -->  a walk, or batches
//! ```
//!
//! **Owns** both text forms, to the byte, and the kernel's errors. **Does not own** what a command
//! does ([`MultiGen::plan`](crate::MultiGen::plan)) or where the text is read and written.

mod command;
mod full;
mod text;

pub use command::{Command, CommandError, commands};
pub use full::{FullGeneration, FullStyle, FullView, TierFigures, WalkFigures, format_full};
pub use text::{ParseError, format_plain, parse_plain};
