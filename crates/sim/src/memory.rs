//! How much memory a run gets, as people write it.
//!
//! | text | meaning |
//! |---|---|
//! | `4096` | pages of 4 KiB |
//! | `64MiB`, `64M`, `1.5G`, `512KiB` | bytes, in powers of 1024, rounded to the nearest page |
//! | `10%`, `0.5%` | a share of the trace's footprint (the most pages in use at a time: all distinct ones unless it tells of freed pages), rounded to the nearest page |
//!
//! A half is rounded up, and no run has less than one page.
//!
//! **Owns** the texts and the rounding. **Does not own** what the memory is used for.

use std::{fmt, str::FromStr};

use strata_lru::BadText;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Parts of a percent that a share is kept in.
const PARTS_PER_PERCENT: u64 = 10_000;

/// Decimals that an amount in bytes may have.
const BYTE_DECIMALS: usize = 4;

/// Largest share, in percent.
const PERCENT_MAX: u64 = 1000;

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySize {
    /// Base pages.
    Pages(u32),
    /// Bytes.
    Bytes(u64),
    /// A share of the footprint, in millionths.
    Share(u64),
}

impl MemorySize {
    /// The shares of a miss-ratio curve (`--memory auto`), in percent times 100.
    pub const CURVE: [MemorySize; 16] = {
        const fn percent(hundredths: u64) -> MemorySize {
            MemorySize::Share(hundredths * PARTS_PER_PERCENT / 100)
        }
        [
            percent(50),
            percent(100),
            percent(200),
            percent(350),
            percent(500),
            percent(750),
            percent(1000),
            percent(1500),
            percent(2000),
            percent(3000),
            percent(4000),
            percent(5000),
            percent(6000),
            percent(7000),
            percent(8500),
            percent(10_000),
        ]
    };

    /// Pages of a trace with a footprint of so many; at least 1.
    pub fn pages(self, footprint_pages: u32) -> u32 {
        let pages = match self {
            MemorySize::Pages(pages) => u64::from(pages),
            MemorySize::Bytes(bytes) => nearest(u128::from(bytes), u128::from(PAGE_BYTES)),
            MemorySize::Share(millionths) => nearest(
                u128::from(footprint_pages) * u128::from(millionths),
                1_000_000,
            ),
        };
        u32::try_from(pages.max(1)).unwrap_or(u32::MAX)
    }
}

fn nearest(part: u128, whole: u128) -> u64 {
    u64::try_from((part + whole / 2) / whole).unwrap_or(u64::MAX)
}

impl FromStr for MemorySize {
    type Err = BadText;

    fn from_str(text: &str) -> Result<MemorySize, BadText> {
        let bad = |why: &str| BadText::new("amount of memory", text, why);
        let parsed = if let Some(percent) = text.strip_suffix('%') {
            let millionths =
                decimal(percent, 4).ok_or_else(|| bad("write a percentage as 10% or 0.5%"))?;
            if millionths > PERCENT_MAX * PARTS_PER_PERCENT {
                return Err(bad("more than 1000% of the footprint makes no difference"));
            }
            MemorySize::Share(millionths)
        } else if text.ends_with(|last: char| last.is_ascii_digit()) {
            if !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(bad("write a number of pages, such as 4096"));
            }
            let pages = text.parse();
            MemorySize::Pages(pages.map_err(|_| bad("that is more than 4294967295 pages"))?)
        } else {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
                "b" => 0,
                "k" | "kib" => 10,
                "m" | "mib" => 20,
                "g" | "gib" => 30,
                "t" | "tib" => 40,
                _ => return Err(bad("write pages (4096), bytes (64MiB) or a share (10%)")),
            };
            let number = decimal(digits, BYTE_DECIMALS);
            let number = number.ok_or_else(|| bad("write bytes as 64MiB, 1G or 1.5G"))?;
            let bytes = (u128::from(number) << shift) / 10u128.pow(BYTE_DECIMALS as u32);
            MemorySize::Bytes(u64::try_from(bytes).map_err(|_| bad("that is more than 16 EiB"))?)
        };
        match parsed {
            MemorySize::Pages(0) | MemorySize::Bytes(0) | MemorySize::Share(0) => {
                Err(bad("there has to be some"))
            }
            some => Ok(some),
        }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Pages(pages) => write!(f, "{pages}"),
            MemorySize::Bytes(bytes) => write!(f, "{bytes}B"),
            MemorySize::Share(millionths) => {
                let (whole, part) = (
                    millionths / PARTS_PER_PERCENT,
                    millionths % PARTS_PER_PERCENT,
                );
                let part = format!("{part:04}");
                match part.trim_end_matches('0') {
                    "" => write!(f, "{whole}%"),
                    part => write!(f, "{whole}.{part}%"),
                }
            }
        }
    }
}

/// A decimal number times ten to the `nr_decimals`; `None` if it is none or has more decimals.
fn decimal(text: &str, nr_decimals: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > nr_decimals {
        return None;
    }
    let scale = 10u64.pow(nr_decimals as u32);
    let part = part.parse::<u64>().ok()? * 10u64.pow((nr_decimals - part.len()) as u32);
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(scale)?
        .checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_bytes_and_shares_come_to_the_nearest_page() {
        for (text, pages) in [
            ("4096", 4096),
            ("64MiB", 16384),
            ("64M", 16384),
            ("1g", 262_144),
            ("1.5GiB", 393_216),
            ("0.25M", 64),
            ("6KiB", 2),
            ("5KiB", 1),
            ("1B", 1),
            ("1%", 490),
            ("10%", 4897),
            ("30%", 14692),
            ("0.5%", 245),
            ("0.0001%", 1),
            ("100%", 48974),
        ] {
            let size: MemorySize = text.parse().unwrap();
            assert_eq!(size.pages(48974), pages, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_a_reason() {
        for text in [
            "",
            "0",
            "0%",
            "0MiB",
            "-1",
            "1.5",
            "10 %",
            "%",
            ".5%",
            "5.%",
            "0.00001%",
            "1001%",
            "64XiB",
            "MiB",
            "4294967296",
            "99999999999T",
            "1.5.5G",
            "1.00001G",
        ] {
            let error = text.parse::<MemorySize>().unwrap_err();
            assert!(
                error.to_string().contains("no amount of memory: "),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for size in MemorySize::CURVE.into_iter().chain([
            MemorySize::Pages(7),
            MemorySize::Bytes(12345),
            MemorySize::Share(1),
        ]) {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        assert_eq!(
            MemorySize::CURVE.map(|size| size.to_string())[..4],
            ["0.5%", "1%", "2%", "3.5%"]
        );
    }
}
