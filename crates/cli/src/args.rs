//! How the values of options are read, and the choices that several verbs share.
//!
//! **Owns** these parsers, and what is said of a value that is wrong. **Does not own** a verb's own options (`cmd`).

use std::net::SocketAddr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use strata_host::run::ActuatorChoice;
use strata_linux::access::AccessChoice;
use strata_linux::swap::SwapSpec;
use strata_linux::units::parse_size;
use strata_sim::MemorySize;

use crate::duration;

/// Shortest time between two walks: below it watching would cost more than it shows.
pub(crate) const INTERVAL_MIN: &str = "10ms";

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, and for tools that know the kernel's format
    Text,
    /// One JSON object a line
    Json,
}

/// Reads [`Format`] where the text is called a table.
pub(crate) fn table_or_json() -> impl TypedValueParser<Value = Format> {
    one_of([
        ("table", "Lines for people", Format::Text),
        ("json", "One JSON object", Format::Json),
    ])
}

/// How accesses are seen.
pub(crate) fn access_arg() -> impl TypedValueParser<Value = AccessChoice> {
    one_of([
        ("auto", "bpf where it works, else smaps", AccessChoice::Auto),
        (
            "bpf",
            "Read the page tables through BPF: every page, exactly; needs root",
            AccessChoice::Bpf,
        ),
        (
            "smaps",
            "Ask the kernel for sums per mapping: coarse and slow, but needs no privilege",
            AccessChoice::Smaps,
        ),
    ])
}

/// Who takes the pages.
pub(crate) fn actuator_arg() -> impl TypedValueParser<Value = ActuatorChoice> {
    one_of([
        (
            "auto",
            "The kernel's own reclaim, asked for ahead of the limit; with a policy or --min-ttl page by page, as far as that \
             keeps up",
            ActuatorChoice::Auto,
        ),
        (
            "pageout",
            "Exactly the pages Strata decided on, page by page (MADV_PAGEOUT)",
            ActuatorChoice::Pageout,
        ),
        (
            "reclaim",
            "The kernel's own reclaim, asked for ahead of the limit; the kernel chooses the pages",
            ActuatorChoice::Reclaim,
        ),
    ])
}

/// Reads one of these words, each of which the help explains.
pub(crate) fn one_of<T, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let shown = words.map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(shown).map(move |word| {
        let mut values = words.iter().filter(|(known, ..)| *known == word);
        values.next().expect("clap accepts no other word").2
    })
}

/// Reads a process id; clap puts the option's name and the text before the reason.
pub(crate) fn parse_pid(text: &str) -> Result<i32, String> {
    refuse_option(text)?;
    match text.parse::<i64>() {
        Ok(pid) if i32::try_from(pid).is_ok_and(|pid| pid > 0) => Ok(pid as i32),
        _ => Err(format!("a process id is a number from 1 to {}", i32::MAX)),
    }
}

/// Reads a duration in milliseconds.
pub(crate) fn parse_duration_ms(text: &str) -> Result<u64, String> {
    refuse_option(text)?;
    duration::parse_duration_ms(text).map_err(|error| error.to_string())
}

/// Reads a duration of at least so much.
pub(crate) fn at_least(
    least: &'static str,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| match parse_duration_ms(text)? {
        ms if ms < parse_duration_ms(least)? => Err(format!("it must be at least {least}")),
        ms => Ok(ms),
    }
}

/// Reads the least age that memory may be idle at, in milliseconds: shorter ages say more of walks than of programs.
pub(crate) fn min_age_arg(text: &str) -> Result<u64, String> {
    at_least("5 s")(text)
}

/// Reads an address of this machine and a port.
pub(crate) fn loopback_arg(text: &str) -> Result<SocketAddr, String> {
    refuse_option(text)?;
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "it is an address and a port, such as 127.0.0.1:9464".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(
            "metrics are only answered on a loopback address, such as 127.0.0.1:9464; to have them \
             elsewhere, put an exporter or a proxy that asks who is there in front"
                .to_owned(),
        ),
    }
}

/// What is pasted behind a command for it to make a swap device of so many bytes.
pub(crate) fn swap_option(bytes: u64) -> String {
    format!(" --swap zram:{}M", bytes >> 20)
}

/// Reads a percentage as a share: 0.01 for 1%.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    refuse_option(text)?;
    let number = text.strip_suffix('%').unwrap_or_default();
    match number.parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage of at least 0.01% and at most 100%, for example 1%".to_owned()),
    }
}

/// Values may begin with a hyphen (so that `-1G` is told to be negative, not to be an unknown
/// option); what looks like the next option is a forgotten value all the same.
pub(crate) fn refuse_option(text: &str) -> Result<(), String> {
    let letters = text.trim_start_matches('-');
    if text.starts_with('-') && letters.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("this is an option; the value is missing before it".to_owned());
    }
    Ok(())
}

/// Reads an amount of memory in bytes.
pub(crate) fn size_arg(text: &str) -> Result<u64, String> {
    refuse_option(text)?;
    // clap has named the option and quoted the text; the error would do so again.
    parse_size(text).map_err(|error| {
        format!(
            "{}; a size is a number with an optional suffix K, M, G or T (powers of 1024), such \
             as 512M, 2G or 1.5GiB",
            error.why
        )
    })
}

/// Reads where anonymous memory goes.
pub(crate) fn swap_arg(text: &str) -> Result<SwapSpec, String> {
    refuse_option(text)?;
    text.parse::<SwapSpec>().map_err(|error| {
        format!(
            "{}; accepted are existing, zram:SIZE[,ALGORITHM] and file:PATH:SIZE, \
             for example zram:2G,lz4",
            error.why
        )
    })
}

/// Reads an amount of simulated memory, and refuses what looks like the next option.
pub(crate) fn memory_size_arg(text: &str) -> Result<MemorySize, String> {
    refuse_option(text)?;
    text.parse().map_err(|error| format!("{error}"))
}

/// Reads `0.2%/min`: a share of a group within a minute.
pub(crate) fn promise_arg(text: &str) -> Result<f64, String> {
    refuse_option(text)?;
    let share = text.strip_suffix("/min").map(parse_percent);
    share.and_then(Result::ok).ok_or_else(|| {
        "a promise is the percentage that may come back within a minute, 0.01%/min to 100%/min, for example 0.2%/min"
            .to_owned()
    })
}

/// An id is a name in the run directory and never leads out of it.
pub(crate) fn id_arg(text: &str) -> Result<String, String> {
    refuse_option(text)?;
    let is_name = !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0']);
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("an id is a name in /run/strata, such as 4242".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is refused stands in `tests/refused.txt`.
    #[test]
    fn values_are_read_in_the_units_that_people_write() {
        assert_eq!(promise_arg("0.2%/min"), Ok(0.002), "within a minute");
        assert_eq!(["1%", "100%"].map(parse_percent), [Ok(0.01), Ok(1.0)]);
        assert_eq!(parse_pid("4242"), Ok(4242));
        assert_eq!(at_least("10ms")("10ms"), Ok(10));
        assert_eq!(at_least("1s")("5s"), Ok(5000));
    }
}
