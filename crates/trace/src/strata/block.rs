//! The content of a block of accesses: columns of flags and of differences.
//!
//! **Owns** the encoding. A flags byte an access, then the pages of all accesses, then, only for
//! the accesses whose flags say that they differ from the access before: spaces, groups, sizes,
//! times. The access before the first has 0 in every field.
//!
//! | column | each | |
//! |---|---|---|
//! | flags | a byte | bit 0 write, 1 page table, 2 anon; differs: 3 space, 4 group, 5 size, 6 time; 7 code |
//! | page | signed varint | difference, modulo 2^64 |
//! | space | varint | the new value, below 2^32 |
//! | group | varint | the new value, below 2^16 |
//! | size | varint | the new value in bytes, below 2^32 |
//! | time | signed varint | difference in microseconds, modulo 2^64 |
//!
//! `varint` has the numbers.

use super::varint::{pop, pop_signed, push, push_signed};
use crate::access::{Access, Backing, Op, Via};

const WRITE: u8 = 1 << 0;
const PAGE_TABLE: u8 = 1 << 1;
const ANON: u8 = 1 << 2;
const SPACE: u8 = 1 << 3;
const GROUP: u8 = 1 << 4;
const SIZE: u8 = 1 << 5;
const TIME: u8 = 1 << 6;
const CODE: u8 = 1 << 7;

/// Appends the accesses to `content`.
pub(super) fn encode(accesses: &[Access], content: &mut Vec<u8>) {
    let pairs = || {
        let before = std::iter::once(Access::default()).chain(accesses.iter().copied());
        before.zip(accesses)
    };
    let flags_start = content.len();
    content.extend(pairs().map(|(before, access)| flags(&before, access)));
    for (before, access) in pairs() {
        push_signed(content, access.key.page.wrapping_sub(before.key.page));
    }
    let changed = |content: &[u8], index: usize, flag: u8| content[flags_start + index] & flag != 0;
    for (index, access) in accesses.iter().enumerate() {
        if changed(content, index, SPACE) {
            push(content, u64::from(access.key.space));
        }
    }
    for (index, access) in accesses.iter().enumerate() {
        if changed(content, index, GROUP) {
            push(content, u64::from(access.group));
        }
    }
    for (index, access) in accesses.iter().enumerate() {
        if changed(content, index, SIZE) {
            push(content, u64::from(access.size_bytes));
        }
    }
    for (index, (before, access)) in pairs().enumerate() {
        if changed(content, index, TIME) {
            push_signed(content, access.time_us.wrapping_sub(before.time_us));
        }
    }
}

fn flags(before: &Access, access: &Access) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(access.op == Op::Write, WRITE)
        | flag(access.via == Via::PageTable, PAGE_TABLE)
        | flag(access.backing == Backing::Anon, ANON)
        | flag(access.backing == Backing::Code, CODE)
        | flag(access.key.space != before.key.space, SPACE)
        | flag(access.group != before.group, GROUP)
        | flag(access.size_bytes != before.size_bytes, SIZE)
        | flag(access.time_us != before.time_us, TIME)
}

/// Replaces `accesses` by the `nr_records` accesses of `content`; `None` if that is not what it
/// holds, to the last byte.
pub(super) fn decode(content: &[u8], nr_records: usize, accesses: &mut Vec<Access>) -> Option<()> {
    accesses.clear();
    let (flags, mut rest) = content.split_at_checked(nr_records)?;
    let mut page = 0_u64;
    for flags in flags {
        page = page.wrapping_add(pop_signed(&mut rest)?);
        let mut access = Access::default();
        access.key.page = page;
        if flags & WRITE != 0 {
            access.op = Op::Write;
        }
        if flags & PAGE_TABLE != 0 {
            access.via = Via::PageTable;
        }
        access.backing = match (flags & ANON != 0, flags & CODE != 0) {
            (false, false) => Backing::File,
            (true, false) => Backing::Anon,
            (false, true) => Backing::Code,
            (true, true) => return None,
        };
        accesses.push(access);
    }
    let mut columns = Changes {
        accesses,
        flags,
        rest,
    };
    let (mut space, mut group, mut size_bytes, mut time_us) = (0, 0, 0, 0_u64);
    column(&mut columns, SPACE, |access, differs, rest| {
        if differs {
            space = u32::try_from(pop(rest)?).ok()?;
        }
        access.key.space = space;
        Some(())
    })?;
    column(&mut columns, GROUP, |access, differs, rest| {
        if differs {
            group = u16::try_from(pop(rest)?).ok()?;
        }
        access.group = group;
        Some(())
    })?;
    column(&mut columns, SIZE, |access, differs, rest| {
        if differs {
            size_bytes = u32::try_from(pop(rest)?).ok()?;
        }
        access.size_bytes = size_bytes;
        Some(())
    })?;
    column(&mut columns, TIME, |access, differs, rest| {
        if differs {
            time_us = time_us.wrapping_add(pop_signed(rest)?);
        }
        access.time_us = time_us;
        Some(())
    })?;
    columns.rest.is_empty().then_some(())
}

/// The columns that have an entry only for some accesses.
struct Changes<'a> {
    accesses: &'a mut [Access],
    flags: &'a [u8],
    rest: &'a [u8],
}

/// Walks one column; `set` is told whether the access has an entry of its own.
fn column(
    changes: &mut Changes<'_>,
    flag: u8,
    mut set: impl FnMut(&mut Access, bool, &mut &[u8]) -> Option<()>,
) -> Option<()> {
    // Whole columns are usually 0 throughout: those are not worth a walk over the accesses.
    if changes.flags.iter().fold(0, |all, flags| all | flags) & flag == 0 {
        return Some(());
    }
    for (access, flags) in changes.accesses.iter_mut().zip(changes.flags) {
        set(access, flags & flag != 0, &mut changes.rest)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_content_is_decoded_or_refused(content in prop::collection::vec(any::<u8>(), 0..200), nr_records in 0..40_usize) {
            let mut accesses = Vec::new();
            if decode(&content, nr_records, &mut accesses).is_some() {
                prop_assert_eq!(accesses.len(), nr_records);
            }
        }
    }
}
