//! Values of a guard as people write them, on the command line and in its rules.
//!
//! **Owns** their units and what is said of wrong ones. **Does not own** keys (`rules_file`) and options, nor what
//! they mean (`strata_host::managed`).

use std::collections::BTreeSet;

use strata_host::managed::{Free, Promised, SwapWriteBound, WhenShort};
use strata_linux::nodes::{self, Nodes};
use strata_linux::units::parse_size;

use crate::args::{parse_percent, promise_arg, refuse_option};

/// Less a second than this would take hours for anything: 64 KiB.
const WRITES_BYTES_MIN: u64 = 64 << 10;

/// Reads what is promised: `0.2%/min`, or `slowdown 1%`.
pub(super) fn promised_arg(text: &str) -> Result<Promised, String> {
    match text.strip_prefix("slowdown ") {
        None => promise_arg(text).map(Promised::ComesBack).map_err(|why| {
            format!("{why}; or the share of time that may be lost, for example 'slowdown 1%'")
        }),
        Some(share) => parse_percent(share.trim_start())
            .map(Promised::Slowdown)
            .map_err(|why| format!("a slowdown is {why}")),
    }
}

/// Reads how much may be written to swap a second: `10M/s`, or `none`.
pub(super) fn swap_writes_arg(text: &str) -> Result<SwapWriteBound, String> {
    refuse_option(text)?;
    if text == "none" {
        return Ok(SwapWriteBound::Unbounded);
    }
    let bytes = text.strip_suffix("/s").map(parse_size);
    match bytes.and_then(Result::ok) {
        Some(bytes) if bytes >= WRITES_BYTES_MIN => Ok(SwapWriteBound::BytesPerSec(bytes)),
        Some(_) => Err("it must be at least 64K/s, or none for any amount".to_owned()),
        None => Err("it is a size a second, for example 10M/s, or none for any amount".to_owned()),
    }
}

/// Reads how much of the host's memory is to be available: `auto`, `5%`, or `none` where that is left to the kernel.
pub(super) fn free_arg(text: &str) -> Result<Free, String> {
    match text {
        "auto" => Ok(Free::Auto),
        "none" => Ok(Free::Any),
        share => parse_percent(share)
            .map(Free::Share)
            .map_err(|why| format!("{why}; or auto, or none where that is left to the kernel")),
    }
}

/// Reads what may be done with a group where the host stays short of memory.
pub(super) fn when_short_arg(text: &str) -> Result<WhenShort, String> {
    match text {
        "none" => Ok(WhenShort::None),
        "slow" => Ok(WhenShort::Slow),
        "freeze" => Ok(WhenShort::Freeze),
        "freeze-newest" => Ok(WhenShort::FreezeNewest),
        "kill" => Ok(WhenShort::Kill),
        _ => Err("when_short is none, slow, freeze, freeze-newest or kill".to_owned()),
    }
}

/// Reads how much may come up to fast memory a second: `64M/s`.
pub(super) fn promote_arg(text: &str) -> Result<u64, String> {
    let bytes = text.strip_suffix("/s").map(parse_size);
    match bytes.and_then(Result::ok) {
        Some(bytes) if bytes >= WRITES_BYTES_MIN => Ok(bytes),
        Some(_) => Err("it must be at least 64K/s".to_owned()),
        None => Err("it is a size a second, for example 64M/s".to_owned()),
    }
}

/// Reads which memory nodes are the fast ones: `0` or `0,2-3`. They must be there.
pub(super) fn upper_arg(text: &str) -> Result<BTreeSet<u32>, String> {
    let upper = nodes::parse_list(text).filter(|upper| !upper.is_empty());
    let upper = upper.ok_or("it is a list of memory nodes, for example 0 or 0,2-3")?;
    match Nodes::read().and_then(|nodes| nodes.with_upper(&upper)) {
        Ok(_) => Ok(upper),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_nodes_are_a_list_of_nodes_that_are_there_and_not_all_of_them() {
        for wrong in ["", "x"] {
            let told = upper_arg(wrong).expect_err(wrong);
            assert!(told.contains("a list of memory nodes"), "{told}");
        }
        assert_eq!(promote_arg("64M/s"), Ok(64 << 20));
        assert!(promote_arg("64M").is_err() && promote_arg("1K/s").is_err());
    }

    #[test]
    fn a_promise_is_what_comes_back_or_the_time_that_is_lost() {
        assert_eq!(promised_arg("0.2%/min"), Ok(Promised::ComesBack(0.002)));
        assert_eq!(promised_arg("slowdown 1%"), Ok(Promised::Slowdown(0.01)));
        for wrong in ["slowdown", "slowdown 1", "slowdown 0%", "1%", "--cpu"] {
            assert!(promised_arg(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn writes_to_swap_are_a_size_a_second_or_any_amount() {
        let bound = |bytes| Ok(SwapWriteBound::BytesPerSec(bytes));
        assert_eq!(swap_writes_arg("10M/s"), bound(10 << 20));
        assert_eq!(swap_writes_arg("none"), Ok(SwapWriteBound::Unbounded));
        for wrong in ["10M", "0/s", "1K/s", "/s", "--cpu"] {
            assert!(swap_writes_arg(wrong).is_err(), "{wrong}");
        }
    }
}
