//! Ratios as decimals with six places, by integer arithmetic: the same text on any machine.
//!
//! **Owns** the rounding. **Does not own** where a ratio stands.

use std::fmt;

/// Places behind the point, as a power of ten.
const PARTS: u128 = 1_000_000;

/// A part of a whole, rounded to the nearest millionth, a half up; 0 of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u64);

impl Ratio {
    /// `part` of `whole`.
    pub fn of(part: u64, whole: u64) -> Ratio {
        let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
        let millionths = (part * PARTS * 2 + whole) / (2 * whole);
        Ratio(u64::try_from(millionths).unwrap_or(u64::MAX))
    }

    /// In percent with two places, to the nearest, a half up: `3.25 %`.
    pub fn percent(self) -> String {
        let hundredths = self.0.saturating_add(50) / 100;
        format!("{}.{:02} %", hundredths / 100, hundredths % 100)
    }

    /// Millionths.
    pub fn millionths(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = PARTS as u64;
        f.pad(&format!("{}.{:06}", self.0 / parts, self.0 % parts))
    }
}

impl serde::Serialize for Ratio {
    /// A number: the double nearest to the decimal, which is printed as that decimal again.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / PARTS as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_places_rounded_to_nearest() {
        for (part, whole, text) in [
            (3_018_886, 12_672_123, "0.238230"),
            (1, 3, "0.333333"),
            (2, 3, "0.666667"),
            (1, 2_000_000, "0.000001"),
            (1, 2_000_001, "0.000000"),
            (7, 7, "1.000000"),
            (5, 2, "2.500000"),
            (0, 0, "0.000000"),
            (u64::MAX, u64::MAX, "1.000000"),
        ] {
            assert_eq!(Ratio::of(part, whole).to_string(), text);
        }
    }

    #[test]
    fn json_has_the_same_decimals() {
        for millionths in
            (0..1_000_000)
                .step_by(997)
                .chain([1, 999_999, 1_000_000, 123_456_789_012])
        {
            let ratio = Ratio(millionths);
            let json = serde_json::to_string(&ratio).unwrap();
            let number = |text: &str| text.parse::<f64>().unwrap().to_bits();
            assert_eq!(number(&json), number(&ratio.to_string()), "{json}");
        }
    }
}
