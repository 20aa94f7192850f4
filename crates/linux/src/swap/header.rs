//! The swap area's header: the first page, as `mkswap` writes it (layout of `linux/swap.h`, version 1).
//!
//! | bytes | what |
//! |---|---|
//! | 1024..1028 | version, 1 |
//! | 1028..1032 | number of the last page |
//! | 1032..1036 | number of bad pages, 0 |
//! | 1036..1052 | UUID |
//! | 1052..1068 | label |
//! | 4086..4096 | `SWAPSPACE2` |
//!
//! The UUID is how a device is recognised as ours after a crash.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::addr::PAGE_BYTES;

const VERSION_AT: usize = 1024;
const LAST_PAGE_AT: usize = 1028;
const UUID_AT: usize = 1036;
const LABEL_AT: usize = 1052;
const MAGIC_AT: usize = 4086;
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
const LABEL: &[u8; 6] = b"strata";

/// What the first page of a device says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FirstPage {
    /// Nothing was ever written to the page.
    Blank,
    /// A swap area with this UUID (lower-case hex).
    Swap(String),
    /// Something else.
    Other,
}

/// A fresh UUID as 32 hex digits.
pub(super) fn fresh_uuid() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim().replace('-', ""))
}

/// Writes the header of an area of `size_bytes` and waits until it is on the device.
pub(super) fn write(device: &File, size_bytes: u64, uuid: &str) -> io::Result<()> {
    let page = header_page(size_bytes, uuid)?;
    device.write_all_at(&page, 0)?;
    device.sync_all()
}

fn header_page(size_bytes: u64, uuid: &str) -> io::Result<Vec<u8>> {
    let last_page = u32::try_from((size_bytes / PAGE_BYTES).saturating_sub(1))
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "more than 2^32 pages"))?;
    let uuid = u128::from_str_radix(uuid, 16)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut page = vec![0; PAGE_BYTES as usize];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(VERSION_AT, &1u32.to_ne_bytes());
    put(LAST_PAGE_AT, &last_page.to_ne_bytes());
    put(UUID_AT, &uuid.to_be_bytes());
    put(LABEL_AT, LABEL);
    put(MAGIC_AT, MAGIC);
    Ok(page)
}

/// Reads the first page of a device or file.
pub(super) fn read(path: &Path) -> io::Result<FirstPage> {
    match first_page(path) {
        Ok(page) => Ok(parse(&page)),
        // Shorter than a page: made, but not filled yet.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(FirstPage::Blank),
        Err(error) => Err(error),
    }
}

/// Whether the file or device at a path is a swap area that a Strata made.
pub(super) fn is_of_strata(path: &Path) -> bool {
    first_page(path)
        .is_ok_and(|page| page[MAGIC_AT..] == *MAGIC && page[LABEL_AT..].starts_with(LABEL))
}

fn first_page(path: &Path) -> io::Result<Vec<u8>> {
    let mut page = vec![0; PAGE_BYTES as usize];
    let file = OpenOptions::new().read(true).open(path)?;
    file.read_exact_at(&mut page, 0)?;
    Ok(page)
}

fn parse(page: &[u8]) -> FirstPage {
    if page[MAGIC_AT..] == *MAGIC {
        let uuid = page[UUID_AT..UUID_AT + 16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        return FirstPage::Swap(uuid);
    }
    if page.iter().all(|&byte| byte == 0) {
        FirstPage::Blank
    } else {
        FirstPage::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_recognised_by_its_uuid() {
        let uuid = "00112233445566778899aabbccddeeff";
        let page = header_page(1 << 30, uuid).expect("fits");
        assert_eq!(parse(&page), FirstPage::Swap(uuid.to_owned()));
        assert_eq!(
            page[LAST_PAGE_AT..LAST_PAGE_AT + 4],
            262_143u32.to_ne_bytes()
        );
        assert_eq!(parse(&[0; 4096]), FirstPage::Blank);
        assert_eq!(parse(&[7; 4096]), FirstPage::Other);
        assert!(header_page(1 << 50, uuid).is_err());
    }

    #[test]
    fn uuids_are_32_hex_digits_and_differ() {
        let (one, two) = (fresh_uuid().expect("read"), fresh_uuid().expect("read"));
        assert_ne!(one, two);
        assert_eq!(one.len(), 32);
        assert!(u128::from_str_radix(&one, 16).is_ok());
    }
}
