//! `vscsi`: what `vscsiStats` of VMware records of a virtual disk, versions 1 and 2, little endian.
//!
//! **Owns** the layouts:
//!
//! | field | v1 (32 bytes) | v2 (40 bytes) | |
//! |---|---|---|---|
//! | serial number | 0 | 4 | u32 |
//! | length | 4 | 8 | u32, bytes |
//! | scatter-gather entries | 8 | 12 | u32 |
//! | command | 12 | 0 | u16, SCSI operation code |
//! | version | 14 | 2 | u16, the high byte is 1 or 2 |
//! | block | 16 | 16 | u64, of 512 bytes |
//! | time | 24 | 24 | u64, microseconds |
//! | response time | - | 32 | u64, microseconds |

use super::run::{Run, Stamp};
use crate::access::Op;
use crate::error::Reason;

/// Bytes of a record of version 1.
pub(crate) const V1_BYTES: usize = 32;
/// Bytes of a record of version 2.
pub(crate) const V2_BYTES: usize = 40;

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// The version that the first two records (one, if there is only one) agree on.
pub(crate) fn version(content: &[u8]) -> Option<Version> {
    let agree = |record_bytes: usize, at: usize, version: u8| {
        let mut records = content.chunks_exact(record_bytes).take(2).peekable();
        records.peek().is_some() && records.all(|record| record[at] == version)
    };
    if agree(V2_BYTES, 3, 2) {
        Some(Version::V2)
    } else if agree(V1_BYTES, 15, 1) {
        Some(Version::V1)
    } else {
        None
    }
}

pub(crate) fn v1(record: &[u8; V1_BYTES], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    check_version(record[15], 1)?;
    request(record, 4, 12, stamp, run)
}

pub(crate) fn v2(record: &[u8; V2_BYTES], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    check_version(record[3], 2)?;
    request(record, 8, 0, stamp, run)
}

fn check_version(found: u8, expected: u8) -> Result<(), Reason> {
    if found == expected {
        return Ok(());
    }
    let found = found.to_string();
    Err(Reason::bad_value(
        "version",
        "that of the first record",
        found.as_bytes(),
    ))
}

fn request(
    record: &[u8],
    length_at: usize,
    command_at: usize,
    stamp: &mut Stamp,
    run: &mut Run,
) -> Result<(), Reason> {
    let field = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let size_bytes = field(length_at) & u64::from(u32::MAX);
    let command = field(command_at) as u8;
    run.access.time_us = stamp.since_first(field(24));
    stamp.set_id(run, field(16), size_bytes)?;
    if is_scsi_write(command) {
        run.access.op = Op::Write;
    }
    Ok(())
}

/// Whether a SCSI operation code writes: WRITE(6), (10), (12), (16).
pub(crate) fn is_scsi_write(code: u8) -> bool {
    matches!(code, 0x0a | 0x2a | 0xaa | 0x8a)
}
