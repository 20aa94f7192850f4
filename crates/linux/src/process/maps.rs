//! `/proc/PID/maps`: one line a mapping, parsed fast.
//!
//! The text is read in pieces, and the address space may change between two of them: a mapping that
//! grew or merged meanwhile can overlap the one before. [`parse_maps`] cuts such overlaps off, so
//! that what it returns is sorted and disjoint.
//!
//! **Owns** the line format (proc(5)) and nothing else. **Does not own** what a mapping is
//! (`classify`) or where the text comes from ([`super::Process::read_maps`]).
//!
//! **Invariants**
//! - I1: the result is sorted by address, without empty or overlapping ranges.
//! - I2: a line that can't be understood is an error that quotes it, never a guess.

use std::sync::Arc;

use crate::addr::AddrRange;
use crate::plain;

/// Access rights and sharing of a mapping, the `rwxp` column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Perms(u8);

impl Perms {
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const EXEC: u8 = 4;
    const SHARED: u8 = 8;

    /// Parses the four columns, e.g. `rw-p`; `None` if a column holds something else.
    pub fn parse(columns: [u8; 4]) -> Option<Perms> {
        let bit = |column: u8, set: u8, clear: u8, bit: u8| match column {
            c if c == set => Some(bit),
            c if c == clear => Some(0),
            _ => None,
        };
        Some(Perms(
            bit(columns[0], b'r', b'-', Self::READ)?
                | bit(columns[1], b'w', b'-', Self::WRITE)?
                | bit(columns[2], b'x', b'-', Self::EXEC)?
                | bit(columns[3], b's', b'p', Self::SHARED)?,
        ))
    }

    /// Whether the mapping may be executed.
    pub fn is_executable(self) -> bool {
        self.0 & Self::EXEC != 0
    }

    /// Whether writes are seen by every mapper.
    pub fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }

    /// Whether the mapping may be neither read, written nor executed.
    pub fn is_no_access(self) -> bool {
        self.0 & (Self::READ | Self::WRITE | Self::EXEC) == 0
    }
}

/// A device number as `/proc` prints it, `major:minor` in hex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// The device that `stat` gives this number.
    pub(crate) fn of(number: u64) -> Device {
        Device {
            major: rustix::fs::major(number),
            minor: rustix::fs::minor(number),
        }
    }
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMapping {
    /// Addresses, bytes.
    pub range: AddrRange,
    /// Rights and sharing.
    pub perms: Perms,
    /// Offset in the file, bytes.
    pub offset_bytes: u64,
    /// Device of the file, 0:0 without one.
    pub device: Device,
    /// Inode of the file, 0 without one.
    pub inode: u64,
    /// Path or `[name]` as printed, without control characters: a newline in a file name is `\012`, a deleted file ends
    /// in ` (deleted)`, bytes that are not UTF-8 are replaced. Neighbours share one allocation.
    pub name: Arc<str>,
}

/// A line of `/proc/PID/maps` that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't understand line {line_no} of maps: {line:?}")]
pub struct MapsError {
    /// Number of the line, from 1.
    pub line_no: usize,
    /// The line.
    pub line: String,
}

/// Parses a whole `maps` text. A last line without its newline is taken as it is.
pub fn parse_maps(text: &[u8]) -> Result<Vec<RawMapping>, MapsError> {
    // 64 bytes is a short line; too large a guess would double the peak for nothing.
    let mut mappings: Vec<RawMapping> = Vec::with_capacity(text.len() / 64);
    let empty: Arc<str> = Arc::from("");
    let mut last_name: (&[u8], Arc<str>) = (b"", Arc::clone(&empty));
    let mut floor = 0;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let Some((mut mapping, name)) = parse_line(line, &empty) else {
            return Err(MapsError {
                line_no: index + 1,
                line: String::from_utf8_lossy(line).into_owned(),
            });
        };
        if !name.is_empty() {
            if last_name.0 != name {
                last_name = (name, Arc::from(plain::line(&String::from_utf8_lossy(name))));
            }
            mapping.name = Arc::clone(&last_name.1);
        }
        let start = mapping.range.start.max(floor);
        mapping.offset_bytes = mapping
            .offset_bytes
            .wrapping_add(start - mapping.range.start);
        mapping.range = AddrRange::new(start, mapping.range.end);
        if !mapping.range.is_empty() {
            floor = mapping.range.end;
            mappings.push(mapping);
        }
    }
    Ok(mappings)
}

/// Parses a line into a mapping without its name, and the name.
fn parse_line<'a>(line: &'a [u8], empty: &Arc<str>) -> Option<(RawMapping, &'a [u8])> {
    let (start, rest) = hex_until(line, b'-')?;
    let (end, rest) = hex_until(rest, b' ')?;
    let (columns, rest) = rest.split_at_checked(4)?;
    let perms = Perms::parse(columns.try_into().ok()?)?;
    let (offset_bytes, rest) = hex_until(rest.strip_prefix(b" ")?, b' ')?;
    let (major, rest) = hex_until(rest, b':')?;
    let (minor, rest) = hex_until(rest, b' ')?;
    let inode_len = rest
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(rest.len());
    let (digits, rest) = rest.split_at(inode_len);
    let inode = parse_decimal(digits)?;
    let padding = rest.iter().take_while(|byte| **byte == b' ').count();
    let mapping = RawMapping {
        range: AddrRange::new(start, end),
        perms,
        offset_bytes,
        device: Device {
            major: u32::try_from(major).ok()?,
            minor: u32::try_from(minor).ok()?,
        },
        inode,
        name: Arc::clone(empty),
    };
    Some((mapping, &rest[padding..]))
}

/// Reads hex digits up to `stop`; returns the number and what follows `stop`.
fn hex_until(text: &[u8], stop: u8) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    for (index, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ if *byte == stop && (1..=16).contains(&index) => {
                return Some((value, &text[index + 1..]));
            }
            _ => return None,
        };
        value = (value << 4) | u64::from(digit);
    }
    None
}

/// Reads a decimal number that fills `digits`.
fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obvious parser: split at spaces, let std do the numbers.
    fn naive(line: &str) -> RawMapping {
        let mut fields = line.splitn(6, ' ');
        let mut next = || fields.next().unwrap();
        let (start, end) = next().split_once('-').unwrap();
        let hex = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
        let range = AddrRange::new(hex(start), hex(end));
        let perms = Perms::parse(next().as_bytes().try_into().unwrap()).unwrap();
        let offset_bytes = hex(next());
        let (major, minor) = next().split_once(':').unwrap();
        let device = Device {
            major: hex(major) as u32,
            minor: hex(minor) as u32,
        };
        let inode = next().parse().unwrap();
        RawMapping {
            range,
            perms,
            offset_bytes,
            device,
            inode,
            name: Arc::from(fields.next().unwrap_or("").trim_start_matches(' ')),
        }
    }

    /// Prints as the kernel does: padded to column 73 when there is a name.
    fn print(mapping: &RawMapping, perms: &str) -> String {
        let head = format!(
            "{:08x}-{:08x} {perms} {:08x} {:02x}:{:02x} {} ",
            mapping.range.start,
            mapping.range.end,
            mapping.offset_bytes,
            mapping.device.major,
            mapping.device.minor,
            mapping.inode
        );
        if mapping.name.is_empty() {
            head
        } else {
            format!("{head:<73}{}", mapping.name)
        }
    }

    prop_compose! {
        fn any_line()(
            gap_pages in 0u64..1 << 20,
            nr_pages in 1u64..1 << 20,
            perms in "[r-][w-][x-][ps]",
            offset_bytes in any::<u64>(),
            major in 0u32..4096,
            minor in 0u32..1 << 20,
            inode in any::<u64>(),
            // Names never start with a space here: the kernel's padding could not be told from it.
            name in prop_oneof![
                Just(String::new()),
                Just("[heap]".to_owned()),
                "/[ -~]{0,40}",
                "/[a-z]{1,9}( \\(deleted\\))?",
                Just("/a\\012b\u{e4}".to_owned()),
            ],
        ) -> (u64, u64, String, RawMapping) {
            let mapping = RawMapping {
                range: AddrRange::new(0, 0),
                perms: Perms::parse(perms.as_bytes().try_into().unwrap()).unwrap(),
                offset_bytes,
                device: Device { major, minor },
                inode,
                name: Arc::from(name),
            };
            (gap_pages, nr_pages, perms, mapping)
        }
    }

    proptest! {
        #[test]
        fn the_fast_parser_agrees_with_the_obvious_one(lines in prop::collection::vec(any_line(), 0..40)) {
            let mut text = String::new();
            let mut expected = Vec::new();
            let mut at = 0;
            for (gap_pages, nr_pages, perms, mut mapping) in lines {
                mapping.range = AddrRange::new(at + gap_pages * 4096, at + (gap_pages + nr_pages) * 4096);
                at = mapping.range.end;
                let line = print(&mapping, &perms);
                prop_assert_eq!(&naive(&line), &mapping);
                text.push_str(&line);
                text.push('\n');
                expected.push(mapping);
            }
            prop_assert_eq!(parse_maps(text.as_bytes()).unwrap(), expected);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(parse_maps(&text));
        }
    }

    #[test]
    fn a_mapping_that_grew_between_two_reads_is_cut_where_the_last_one_ended() {
        let text = b"1000-3000 rw-p 00000000 00:00 0 \n2000-5000 rw-p 00001000 08:01 7 /f\n\
                     2000-4000 rw-p 00000000 00:00 0 \n";
        let mappings = parse_maps(text).unwrap();
        assert_eq!(mappings.len(), 2);
        assert_eq!(mappings[1].range, AddrRange::new(0x3000, 0x5000));
        assert_eq!(mappings[1].offset_bytes, 0x2000);
    }

    #[test]
    fn names_stay_as_printed_and_neighbours_share_them() {
        let text = b"1000-2000 r--p 00000000 08:01 7                          /a b\\012c (deleted)\n\
                     2000-3000 r-xp 00001000 08:01 7                          /a b\\012c (deleted)\n\
                     3000-4000 rw-p 00001000 08:01 8                          /\xff";
        let mappings = parse_maps(text).unwrap();
        assert_eq!(&*mappings[0].name, "/a b\\012c (deleted)");
        assert!(Arc::ptr_eq(&mappings[0].name, &mappings[1].name));
        assert_eq!(&*mappings[2].name, "/\u{fffd}");
    }

    #[test]
    fn a_line_from_another_world_is_quoted_in_the_error() {
        let error = parse_maps(b"1000-2000 rw-p 0 00:00 0\nhello\n").unwrap_err();
        assert_eq!(error.line_no, 2);
        assert!(error.to_string().contains("\"hello\""), "{error}");
        for bad in [
            "1000 rw-p 0 0:0 0",
            "1000-2000 rwzp 0 0:0 0",
            "1000-2000 rw-p 0 0:0 x",
            "10000000000000000-2 rw-p 0 0:0 0",
            "1000-2000 rw-p 0 0:0 99999999999999999999",
        ] {
            assert!(parse_maps(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
