//! Accesses as CSV, for other tools and for eyes; `csv` reads it back.
//!
//! **Owns** the columns. **Does not own** reading them (`formats::table`).

use std::io::{self, Write};

use crate::access::{Access, Backing, Op, Via};

/// The first line: the columns of [`write_csv`].
pub const CSV_HEADER: &str = "time_us,group,space,page,size,op,via,backing";

/// Writes accesses, a line each, without a header.
///
/// # Errors
/// Those of `out`.
pub fn write_csv(accesses: &[Access], mut out: impl Write) -> io::Result<()> {
    for access in accesses {
        writeln!(
            out,
            "{},{},{},{},{},{},{},{}",
            access.time_us,
            access.group,
            access.key.space,
            access.key.page,
            access.size_bytes,
            access.op.name(),
            access.via.name(),
            access.backing.name(),
        )?;
    }
    Ok(())
}

strata_lru::named!(impl Op {
    Read = "read",
    Write = "write",
});

// As on the command line.
strata_lru::named!(impl Via {
    PageTable = "mmap",
    FileDescriptor = "fd",
});

strata_lru::named!(impl Backing {
    Anon = "anon",
    File = "file",
    Code = "code",
});
