//! The name of a group as text: a group's name is bytes, of which any but `/`, line breaks and zero are allowed.
//!
//! ```text
//!   /web/B\303\244r    bytes that are UTF-8         the letters they are
//!   /web/\377          a byte that is no text       /web/\xff
//!   /a\x2db            what systemd writes for -    as it is
//!   /\xff              four characters              /\x5cxff
//! ```
//!
//! **Owns** both directions. **Does not own** how a path is kept in a file (`as_text`), nor what is not to be seen of other text (`plain`).
//!
//! **Invariants** N1: two groups never have one name, and a name leads back to its group.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The name of what lies `inside` a mount, with a slash before it.
pub(crate) fn shown(inside: &Path) -> String {
    format!("/{}", text_of(inside))
}

pub(super) fn text_of(path: &Path) -> String {
    let mut text = String::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let is_plain = match first {
            b'\\' => escaped(rest).is_none(),
            byte => byte.is_ascii() && !is_escaped(*byte),
        };
        if is_plain {
            text.push(char::from(*first));
            rest = after;
        } else if let Some(valid) = first_char(rest).filter(|char| !char.is_ascii()) {
            text.push(valid);
            rest = &rest[valid.len_utf8()..];
        } else {
            // Writing to a String can't fail.
            let _ = write!(text, "\\x{first:02x}");
            rest = after;
        }
    }
    text
}

/// The path that a name stands for.
pub(super) fn path_of(shown: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = shown.as_os_str().as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match escaped(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The byte that an escape at the start of `text` stands for.
fn escaped(text: &[u8]) -> Option<u8> {
    let digits = text.get(..4)?.strip_prefix(b"\\x")?;
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let digits = std::str::from_utf8(digits).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (digits.bytes().all(|digit| is_digit(&digit)) && is_escaped(byte)).then_some(byte)
}

/// What is never written as it is, or not always. `\x2d` and others that stand for a letter are a name of systemd's.
fn is_escaped(byte: u8) -> bool {
    byte == b'\\' || byte.is_ascii_control() || !byte.is_ascii()
}

fn first_char(bytes: &[u8]) -> Option<char> {
    let valid = bytes.utf8_chunks().next()?.valid();
    valid.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn named(bytes: &[u8]) -> String {
        shown(Path::new(OsStr::from_bytes(bytes)))
    }

    #[test]
    fn ordinary_names_and_those_of_systemd_stay_as_they_are() {
        for name in [
            "",
            "system.slice/dev-disk-by\\x2duuid.swap",
            "a b",
            "back\\slash",
            "B\u{e4}r/\u{4e2d}",
        ] {
            assert_eq!(named(name.as_bytes()), format!("/{name}"));
        }
        assert_eq!(named(b"\xff/\xfe"), "/\\xff/\\xfe");
        assert_eq!(named(b"a\x1b[2J\x7f"), "/a\\x1b[2J\\x7f");
        assert_eq!(named(b"B\xc3"), "/B\\xc3");
        assert_eq!(named(b"\\xff"), "/\\x5cxff");
    }

    #[test]
    fn no_two_groups_have_one_name_and_each_name_leads_back() {
        let parts: [&[u8]; 12] = [
            b"\\", b"x", b"5", b"c", b"f", b"\xff", b"\xc3", b"\xa4", b"\x1b", b"X", b"2", b"d",
        ];
        let mut names = std::collections::BTreeMap::new();
        for number in 0..parts.len().pow(4) {
            let mut name = Vec::new();
            let mut left = number;
            for _ in 0..4 {
                name.extend_from_slice(parts[left % parts.len()]);
                left /= parts.len();
            }
            // What a literal escape begins with, too.
            for name in [name.clone(), [b"\\x5cx", name.as_slice()].concat()] {
                let text = named(&name);
                let back = path_of(Path::new(text.strip_prefix('/').expect("a slash")));
                assert_eq!(back.as_os_str().as_bytes(), name, "{text}");
                if let Some(other) = names.insert(text.clone(), name.clone()) {
                    assert_eq!(other, name, "{text}");
                }
            }
        }
    }
}
