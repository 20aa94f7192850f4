//! The options of a generator's name: `key=value` pieces.
//!
//! **Owns** splitting, bounds and complaints. **Does not own** which options there are.

use std::ops::RangeInclusive;

use super::{
    GeneratorError,
    zipf::{EXPONENT_HUNDREDTHS_MAX, USUAL_EXPONENT_HUNDREDTHS},
};

/// The most pages of one set: weights and shuffle take 12 bytes a page.
pub(super) const NR_PAGES_MAX: u64 = 1 << 27;

/// What followed the pattern.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    given: Vec<Given<'a>>,
    /// What anybody has asked for, in that order.
    asked: Vec<&'static str>,
}

#[derive(Debug)]
struct Given<'a> {
    key: &'a str,
    value: &'a str,
    /// Whether anybody asked for it.
    is_known: bool,
}

impl<'a> Options<'a> {
    /// Splits a name at its commas: the pattern, and its options.
    pub(crate) fn split(name: &'a str) -> Result<(&'a str, Options<'a>), GeneratorError> {
        let mut pieces = name.split(',');
        let pattern = pieces.next().unwrap_or_default();
        let mut given: Vec<Given<'_>> = Vec::new();
        for piece in pieces {
            let (key, value) = piece
                .split_once('=')
                .ok_or_else(|| GeneratorError::NotAnOption(piece.to_owned()))?;
            if given.iter().any(|other| other.key == key) {
                return Err(GeneratorError::GivenTwice(key.to_owned()));
            }
            let is_known = false;
            given.push(Given {
                key,
                value,
                is_known,
            });
        }
        let asked = Vec::new();
        Ok((pattern, Options { given, asked }))
    }

    /// What was given; patterns of a chain ask for the same.
    fn take(&mut self, key: &'static str) -> Option<&'a str> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        let given = self.given.iter_mut().find(|given| given.key == key)?;
        given.is_known = true;
        Some(given.value)
    }

    /// A whole number within bounds.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64, GeneratorError> {
        let Some(text) = self.take(key) else {
            return Ok(default);
        };
        let value = text.parse().ok().filter(|value| bounds.contains(value));
        value.ok_or_else(|| GeneratorError::BadNumber {
            key,
            value: text.to_owned(),
            least: *bounds.start(),
            most: *bounds.end(),
        })
    }

    /// A number with up to two decimals, as hundredths.
    pub(crate) fn hundredths(
        &mut self,
        key: &'static str,
        default: u32,
        most: u32,
    ) -> Result<u32, GeneratorError> {
        let Some(text) = self.take(key) else {
            return Ok(default);
        };
        let value = parse_hundredths(text).filter(|value| *value <= most);
        value.ok_or_else(|| GeneratorError::BadDecimal {
            key,
            value: text.to_owned(),
            most: most / 100,
        })
    }

    /// One word of a few.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>, GeneratorError> {
        let Some(text) = self.take(key) else {
            return Ok(None);
        };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        chosen
            .map(|(_, value)| Some(*value))
            .ok_or_else(|| GeneratorError::BadChoice {
                key,
                value: text.to_owned(),
                choices: names().join(", "),
            })
    }

    /// Complains of what nobody asked for.
    pub(crate) fn finish(self) -> Result<(), GeneratorError> {
        match self.given.iter().find(|given| !given.is_known) {
            None => Ok(()),
            Some(given) => Err(GeneratorError::UnknownOption {
                option: given.key.to_owned(),
                known: self.asked,
            }),
        }
    }
}

/// Pages of a set.
pub(super) fn pages(
    options: &mut Options<'_>,
    key: &'static str,
    default: u64,
) -> Result<u32, GeneratorError> {
    Ok(options.number(key, default, 1..=NR_PAGES_MAX)? as u32)
}

/// Of Zipf's law, in hundredths.
pub(super) fn exponent(options: &mut Options<'_>) -> Result<u32, GeneratorError> {
    options.hundredths(
        "exponent",
        USUAL_EXPONENT_HUNDREDTHS,
        EXPONENT_HUNDREDTHS_MAX,
    )
}

fn parse_hundredths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 2 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let decimals: u32 = format!("{decimals:0<2}").parse().ok()?;
    whole.checked_mul(100)?.checked_add(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_as_hundredths() {
        let read = ["1", "0.99", "1.5", "0.05", "12.00"].map(parse_hundredths);
        assert_eq!(read, [Some(100), Some(99), Some(150), Some(5), Some(1200)]);
        for text in ["", "-1", "0.999", "1e3", ".5", "99999999999"] {
            assert_eq!(parse_hundredths(text), None, "{text:?}");
        }
    }
}
