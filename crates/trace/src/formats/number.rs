//! Numbers and words of text formats, read from bytes without a detour through `str`.
//!
//! **Owns** what counts as a number. **Does not own** what it means.

use crate::error::Reason;

/// A decimal number.
pub(crate) fn decimal(what: &'static str, field: &[u8]) -> Result<u64, Reason> {
    try_decimal(field).ok_or_else(|| Reason::bad_value(what, "a number below 2^64", field))
}

/// As [`decimal`]; `None` for anything else.
pub(crate) fn try_decimal(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A hexadecimal number, with or without `0x` in front.
pub(crate) fn hexadecimal(what: &'static str, field: &[u8]) -> Result<u64, Reason> {
    try_hexadecimal(field)
        .ok_or_else(|| Reason::bad_value(what, "a hexadecimal number below 2^64", field))
}

/// As [`hexadecimal`]; `None` for anything else.
pub(crate) fn try_hexadecimal(field: &[u8]) -> Option<u64> {
    let digits = field
        .strip_prefix(b"0x")
        .or_else(|| field.strip_prefix(b"0X"))
        .unwrap_or(field);
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(16)?;
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    Some(value)
}

/// A decimal number, perhaps with a fraction, in millionths; digits past the sixth are dropped.
pub(crate) fn millionths(what: &'static str, field: &[u8]) -> Result<u128, Reason> {
    let bad = || Reason::bad_value(what, "a number", field);
    let (whole, fraction) = match memchr::memchr(b'.', field) {
        Some(dot) => (&field[..dot], &field[dot + 1..]),
        None => (field, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(bad());
    }
    let whole = match whole {
        [] => 0,
        digits => try_decimal(digits).ok_or_else(bad)?,
    };
    let mut millionths = 0_u128;
    for position in 0..6 {
        let digit = fraction
            .get(position)
            .map_or(0, |byte| byte.wrapping_sub(b'0'));
        millionths = millionths * 10 + u128::from(digit.min(10));
    }
    if fraction.iter().all(u8::is_ascii_digit) {
        Ok(u128::from(whole) * 1_000_000 + millionths)
    } else {
        Err(bad())
    }
}

/// Takes the next word off `rest`; empty at the end.
pub(crate) fn next_word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let start = rest
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())
        .unwrap_or(rest.len());
    let word = &rest[start..];
    let end = word
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(word.len());
    let (word, after) = word.split_at(end);
    *rest = after;
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_read_as_the_standard_library_reads_it(text in "[0-9]{0,24}|[0-9a-f]{0,18}|[ -~]{0,8}") {
            let bytes = text.as_bytes();
            let plain = !text.starts_with('+');
            prop_assert_eq!(try_decimal(bytes), text.parse().ok().filter(|_| plain));
            let hex = u64::from_str_radix(&text, 16).ok().filter(|_| plain);
            prop_assert_eq!(try_hexadecimal(format!("0x{text}").as_bytes()), hex);
            if !text.to_ascii_lowercase().starts_with("0x") {
                prop_assert_eq!(try_hexadecimal(bytes), hex);
            }
        }

        #[test]
        fn a_time_with_a_fraction_keeps_its_microseconds(whole in any::<u32>(), micros in 0..1_000_000_u32, more in "[0-9]{0,9}") {
            let expected = u128::from(whole) * 1_000_000 + u128::from(micros);
            let text = format!("{whole}.{micros:06}{more}");
            prop_assert_eq!(millionths("time", text.as_bytes()).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_number_is_refused_by_name() {
        for text in ["", ".", "1.x", "-1", "1e3", "1.2.3", "99999999999999999999"] {
            let reason = millionths("time", text.as_bytes()).unwrap_err();
            assert!(reason.to_string().starts_with("time must be"), "{reason}");
        }
        assert_eq!(millionths("time", b".5").unwrap(), 500_000);
        assert_eq!(millionths("time", b"7.").unwrap(), 7_000_000);
    }

    #[test]
    fn words_are_taken_off_one_by_one() {
        let mut rest: &[u8] = b"  ab \t c ";
        assert_eq!(next_word(&mut rest), b"ab");
        assert_eq!(next_word(&mut rest), b"c");
        assert_eq!(next_word(&mut rest), b"");
        assert_eq!(next_word(&mut rest), b"");
    }
}
