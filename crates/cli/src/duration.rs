//! Durations as people write them: `500ms`, `1s`, `1.5s`, `2m`, `1h`.
//!
//! **Owns** the parser, and how a table for people tells one. **Does not own** what a duration is used for. A number without a unit is
//! refused (the kernel counts such settings in milliseconds, people in seconds), except 0.

/// No duration above this is believed: 30 days.
const DURATION_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// More decimal places than this mean nothing in milliseconds.
const DECIMALS_MAX: usize = 9;

/// A duration that can't be used, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{why}; a duration is a number with a unit ms, s, m or h, such as 500ms, 1s or 2m (0 is 0)"
)]
pub(crate) struct DurationError {
    why: &'static str,
}

/// Reads a duration in milliseconds, rounded down to one.
///
/// # Errors
/// [`DurationError`] for anything else, for what is not 0 but less than a millisecond, and above 30
/// days.
pub(crate) fn parse_duration_ms(text: &str) -> Result<u64, DurationError> {
    let fail = |why| Err(DurationError { why });
    let text = text.trim();
    if text.is_empty() {
        return fail("it is empty");
    }
    if text.starts_with('-') {
        return fail("it is negative");
    }
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && decimals.is_empty() {
        return fail("it does not start with a number");
    }
    if decimals.contains('.') {
        return fail("it has more than one decimal point");
    }
    if decimals.len() > DECIMALS_MAX {
        return fail("it has too many decimal places");
    }
    let is_zero = number.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let unit_ms = match unit.trim_start() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "" if is_zero => 1,
        "" => return fail("the unit is missing"),
        _ => return fail("the unit is unknown"),
    };
    let whole = match whole {
        "" => 0,
        digits => match digits.parse::<u64>() {
            Ok(whole) if whole <= DURATION_MAX_MS => whole,
            _ => return fail("it is absurdly long (more than 30 days)"),
        },
    };
    // At most nine digits: it fits, and so does the product with an hour.
    let scale = 10u64.pow(decimals.len() as u32);
    let decimals = decimals.parse::<u64>().unwrap_or(0);
    match whole * unit_ms + decimals * unit_ms / scale {
        0 if !is_zero => fail("it is less than a millisecond"),
        ms if ms > DURATION_MAX_MS => fail("it is absurdly long (more than 30 days)"),
        ms => Ok(ms),
    }
}

/// A time as people say it: `0 s`, `250 ms`, `1.5 s`, `90 s`, `10 min`, `2 h`.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0 => "0 s".to_owned(),
        1..1000 => format!("{ms} ms"),
        ms if ms.is_multiple_of(3_600_000) => format!("{} h", ms / 3_600_000),
        ms if ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
        ms if ms < 60_000 && !ms.is_multiple_of(1000) => {
            // Tenths, without the one that says nothing.
            match (ms + 50) / 100 {
                tenths if tenths.is_multiple_of(10) => format!("{} s", tenths / 10),
                tenths => format!("{}.{} s", tenths / 10, tenths % 10),
            }
        }
        ms => format!("{} s", (ms + 500) / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_have_a_unit_that_people_read() {
        for (ms, text) in [
            (0, "0 s"),
            (250, "250 ms"),
            (1500, "1.5 s"),
            (90_000, "90 s"),
            (600_000, "10 min"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn durations_people_write_are_understood() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("1s", 1000),
            (" 1.5s ", 1500),
            (".25s", 250),
            ("2m", 120_000),
            ("2min", 120_000),
            ("1 h", 3_600_000),
            ("720h", DURATION_MAX_MS),
            ("0.999999999h", 3_599_999),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", near in "[0-9.]{0,25}(ms|s|m|min|h)?") {
            let _ = parse_duration_ms(&text);
            let _ = parse_duration_ms(&near);
        }

        #[test]
        fn whole_milliseconds_come_back(ms in 0..=DURATION_MAX_MS) {
            prop_assert_eq!(parse_duration_ms(&format!("{ms}ms")), Ok(ms));
        }
    }
}
