//! Sizes as people write them: `512M`, `2G`, `1.5GiB`.
//!
//! **Owns** the one size parser and printer of the workspace. **Does not own** what a size is used
//! for. Suffixes are powers of 1024, as in cgroup and systemd files.

use std::fmt;

/// No size above this is believed: 1 PiB.
pub const SIZE_MAX_BYTES: u64 = 1 << 50;

/// A size that can't be used, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid size {text:?}: {why}; a size is a number with an optional suffix K, M, G or T \
     (powers of 1024), such as 512M, 2G or 1.5GiB"
)]
pub struct SizeError {
    /// What was given.
    pub text: String,
    /// What is wrong with the text.
    pub why: &'static str,
}

/// Reads a size in bytes: digits, at most one decimal point, and a suffix `B`, `K`, `KB`, `KiB`, ...,
/// `T` in any case (powers of 1024). The result is rounded down to a byte.
///
/// # Errors
/// [`SizeError`] for anything else, for zero, and above [`SIZE_MAX_BYTES`].
///
/// ```
/// use strata_linux::units::parse_size;
/// assert_eq!(parse_size("512M"), Ok(512 << 20));
/// assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
/// assert!(parse_size("0").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let fail = |why| {
        Err(SizeError {
            text: text.to_owned(),
            why,
        })
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return fail("it is empty");
    }
    if trimmed.starts_with('-') {
        return fail("it is negative");
    }
    let digits_end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(digits_end);
    let Some(shift) = suffix_shift(suffix.trim_start()) else {
        return fail(if number.is_empty() {
            "it does not start with a number"
        } else {
            "the suffix is unknown"
        });
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return fail("it has no digits");
    }
    if fraction.contains('.') {
        return fail("it has more than one decimal point");
    }
    if fraction.len() > 12 {
        return fail("it has too many decimal places");
    }
    let whole = match whole {
        "" => 0,
        digits => match digits.parse::<u128>() {
            Ok(whole) if whole <= u128::from(SIZE_MAX_BYTES) => whole,
            _ => return fail("it is absurdly large (more than 1 PiB)"),
        },
    };
    let fraction_scale = 10u128.pow(fraction.len() as u32);
    let fraction = fraction.parse::<u128>().unwrap_or(0);
    let bytes = (whole << shift) + (fraction << shift) / fraction_scale;
    match u64::try_from(bytes) {
        Ok(0) => fail("it is zero"),
        Ok(bytes) if bytes <= SIZE_MAX_BYTES => Ok(bytes),
        _ => fail("it is absurdly large (more than 1 PiB)"),
    }
}

fn suffix_shift(suffix: &str) -> Option<u32> {
    match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        _ => None,
    }
}

/// Prints bytes for people: at most one decimal, `KiB` to `TiB`. What has four digits and a decimal is told in the next
/// unit; a whole number of a unit, which somebody may have asked for, is told as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        let has_four_digits =
            |value: f64| value >= 1024.0 || value >= 999.95 && value.fract() != 0.0;
        while has_four_digits(value) && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let tenths = (value * 10.0).round() as u64;
        match tenths % 10 {
            0 => write!(f, "{} {}", tenths / 10, UNITS[unit]),
            tenth => write!(f, "{}.{tenth} {}", tenths / 10, UNITS[unit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_people_write_are_understood() {
        for (text, bytes) in [
            ("4096", 4096),
            ("1b", 1),
            ("64k", 64 << 10),
            ("64KiB", 64 << 10),
            ("512M", 512 << 20),
            ("512mb", 512 << 20),
            (" 2G ", 2 << 30),
            ("2 GiB", 2 << 30),
            ("1.5GiB", 3 << 29),
            (".5M", 1 << 19),
            ("1.M", 1 << 20),
            ("0.1K", 102),
            ("1T", 1 << 40),
            ("1024T", 1 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn printing_is_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1_037_209, "1 MiB"),
            (1000 << 20, "1000 MiB"),
            ((1000 << 20) + 4096, "1 GiB"),
            (512 << 20, "512 MiB"),
            (3 << 29, "1.5 GiB"),
            (1 << 50, "1024 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_size(&text);
        }

        #[test]
        fn whole_numbers_come_back(bytes in 1..=SIZE_MAX_BYTES) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }

        #[test]
        fn what_is_printed_can_be_read_back_within_a_tenth(bytes in 1..=SIZE_MAX_BYTES) {
            let again = parse_size(&Bytes(bytes).to_string()).unwrap();
            prop_assert!(again.abs_diff(bytes) <= bytes / 10);
        }
    }
}
