//! `u32le` `u32be` `u64le` `u64be` `tlb`: one number an access and nothing else.
//!
//! **Owns** the layouts: one number after the other, without a header. A `tlb` number is
//! `page << 1 | write`, 64 bits, little endian.

use super::run::{Run, Stamp};
use crate::access::Op;
use crate::error::Reason;

pub(crate) fn u32le(record: &[u8; 4], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    run.access.key.page = u64::from(u32::from_le_bytes(*record));
    Ok(())
}

pub(crate) fn u32be(record: &[u8; 4], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    run.access.key.page = u64::from(u32::from_be_bytes(*record));
    Ok(())
}

pub(crate) fn u64le(record: &[u8; 8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    run.access.key.page = u64::from_le_bytes(*record);
    Ok(())
}

pub(crate) fn u64be(record: &[u8; 8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    run.access.key.page = u64::from_be_bytes(*record);
    Ok(())
}

pub(crate) fn tlb(record: &[u8; 8], _: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    let word = u64::from_le_bytes(*record);
    run.access.key.page = word >> 1;
    if word & 1 == 1 {
        run.access.op = Op::Write;
    }
    Ok(())
}
