//! `u32le` `u32be` `u64le` `u64be`: keys and nothing else.
//!
//! **Owns** the layout: one key after the other, without a header.

use crate::access::Access;

pub(crate) fn u32le(record: &[u8; 4], access: &mut Access) {
    access.key.page = u64::from(u32::from_le_bytes(*record));
}

pub(crate) fn u32be(record: &[u8; 4], access: &mut Access) {
    access.key.page = u64::from(u32::from_be_bytes(*record));
}

pub(crate) fn u64le(record: &[u8; 8], access: &mut Access) {
    access.key.page = u64::from_le_bytes(*record);
}

pub(crate) fn u64be(record: &[u8; 8], access: &mut Access) {
    access.key.page = u64::from_be_bytes(*record);
}
