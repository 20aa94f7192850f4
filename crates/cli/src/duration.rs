//! Durations as people write them: `500ms`, `1s`, `1.5s`, `2m`, `1h`.
//!
//! **Owns** what is refused, and how a table for people tells a time. **Does not own** the units (`humantime`), or what a duration is used
//! for. A number without a unit is refused (the kernel counts such settings in milliseconds, people in seconds), except 0.

use std::time::Duration;

/// No duration above this is believed: 30 days.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A duration that can't be used, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; a duration is a number with a unit, such as 500ms, 1.5s, 2m or 1h (0 is 0)")]
pub(crate) struct DurationError {
    why: String,
}

/// Reads a duration in milliseconds, rounded down to one.
///
/// # Errors
/// [`DurationError`] for anything else, for what is not 0 but less than a millisecond, and above 30
/// days.
pub(crate) fn parse_duration_ms(text: &str) -> Result<u64, DurationError> {
    let fail = |why: &str| Err(DurationError { why: why.into() });
    let text = text.trim();
    // The library wants a digit before the point.
    let text = match text.strip_prefix('.') {
        Some(decimals) => format!("0.{decimals}"),
        None => text.to_owned(),
    };
    match humantime::parse_duration(&text) {
        _ if text.starts_with('-') => fail("it is negative"),
        Err(error) => fail(&error.to_string()),
        Ok(time) if time > DURATION_MAX => fail("it is absurdly long (more than 30 days)"),
        Ok(time) if !time.is_zero() && time.as_millis() == 0 => {
            fail("it is less than a millisecond")
        }
        Ok(time) => Ok(time.as_millis() as u64),
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
            ("720h", 2_592_000_000),
            ("1h 30min", 5_400_000),
            ("0.75h", 2_700_000),
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
        fn whole_milliseconds_come_back(ms in 0..=2_592_000_000u64) {
            prop_assert_eq!(parse_duration_ms(&format!("{ms}ms")), Ok(ms));
        }
    }
}
