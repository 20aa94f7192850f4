//! The options of a generator's name: `key=value` pieces, each used once.
//!
//! **Owns** splitting, bounds and complaints. **Does not own** which options there are.

use std::ops::RangeInclusive;

use super::GeneratorError;

/// What followed the pattern, as not yet asked for.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Splits a name at its commas: the pattern, and its options.
    pub(crate) fn split(name: &'a str) -> Result<(&'a str, Options<'a>), GeneratorError> {
        let mut pieces = name.split(',');
        let pattern = pieces.next().unwrap_or_default();
        let mut left: Vec<(&str, &str)> = Vec::new();
        for piece in pieces {
            let option = piece
                .split_once('=')
                .ok_or_else(|| GeneratorError::NotAnOption(piece.to_owned()))?;
            if left.iter().any(|(key, _)| *key == option.0) {
                return Err(GeneratorError::GivenTwice(option.0.to_owned()));
            }
            left.push(option);
        }
        Ok((pattern, Options { left }))
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let index = self.left.iter().position(|(name, _)| *name == key)?;
        Some(self.left.remove(index).1)
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
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) => Err(GeneratorError::UnknownOption((*key).to_owned())),
        }
    }
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
