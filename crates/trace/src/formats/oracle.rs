//! `oracle-general` and `oracle-general-opns`: the binary formats of libCacheSim, packed, little
//! endian.
//!
//! **Owns** the layouts (libCacheSim, `oracleGeneralBin.h`):
//!
//! | field | offset in 24 bytes | offset in 27 bytes | |
//! |---|---|---|---|
//! | time | 0 | 0 | u32, seconds |
//! | id | 4 | 4 | u64 |
//! | size | 12 | 12 | u32, bytes |
//! | op | - | 16 | u8 |
//! | namespace | - | 17 | u16, becomes the group |
//! | next | 16 | 19 | i64, number of the next request of this id, -1 for none |
//!
//! The next request is not used: the simulator looks ahead by itself.

use super::run::{Run, Stamp};
use crate::access::Op;
use crate::error::Reason;

const US_PER_S: u64 = 1_000_000;

pub(crate) fn general(record: &[u8; 24], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    let (time, rest) = split::<4>(record);
    let (id, rest) = split::<8>(rest);
    let (size, _) = split::<4>(rest);
    common(time, id, size, stamp, run)
}

pub(crate) fn opns(record: &[u8; 27], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
    let (time, rest) = split::<4>(record);
    let (id, rest) = split::<8>(rest);
    let (size, rest) = split::<4>(rest);
    let (op, rest) = split::<1>(rest);
    let (namespace, _) = split::<2>(rest);
    common(time, id, size, stamp, run)?;
    run.access.group = u16::from_le_bytes(namespace);
    match op[0] {
        // nop, get, gets, read, and what the converter did not know
        0 | 1 | 2 | 12 | 255 => {}
        // set, add, cas, replace, append, prepend, incr, decr, write, update
        3..=8 | 10 | 11 | 13 | 14 => run.access.op = Op::Write,
        // delete
        9 => run.skip(),
        other => {
            let found = other.to_string();
            return Err(Reason::bad_value("op", "0 to 14 or 255", found.as_bytes()));
        }
    }
    Ok(())
}

fn common(
    time: [u8; 4],
    id: [u8; 8],
    size: [u8; 4],
    stamp: &mut Stamp,
    run: &mut Run,
) -> Result<(), Reason> {
    let time_s = u64::from(u32::from_le_bytes(time));
    run.access.time_us = stamp.since_first(time_s * US_PER_S);
    let size_bytes = u64::from(u32::from_le_bytes(size));
    stamp.set_id(run, u64::from_le_bytes(id), size_bytes)
}

/// The first `N` bytes and the rest.
fn split<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    let (head, rest) = bytes
        .split_first_chunk::<N>()
        .expect("a record is longer than its fields");
    (*head, rest)
}
