//! Numbers and names that fit into columns.
//!
//! **Owns** the short forms. **Does not own** the columns.
//!
//! **Invariants** I1: a size, rate or age has at most five characters. I2: nothing made here has a
//! control character in it: names of files and cgroups are other people's.

use strata_host::observe::cache::CacheWindow;
use strata_host::observe::files::{FileRow, FilesReport};
use strata_host::observe::overview::{HostView, TargetView, WhoView};

/// Width of a size, rate or age.
pub(super) const NUMBER_COLUMNS: usize = 5;

/// Page cache that was not read for so many seconds is called cold.
pub(super) const COLD_AFTER_S: u64 = 60;

/// What is printed where a figure is not known.
pub(super) const UNKNOWN: &str = "-";

/// Bytes: `0`, `340K`, `1.3G`; powers of 1024, as in top(1).
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["", "K", "M", "G", "T", "P"];
    scaled(bytes as f64, 1024.0, &UNITS)
}

/// Bytes as [`size`] writes them, or [`UNKNOWN`].
pub(super) fn size_or_unknown(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), size)
}

/// Memory of the machine, the most important part first: `24G`, `available 22G`, ...
pub(super) fn host(host: &HostView) -> Vec<String> {
    let memory = &host.memory;
    let swapped_bytes = memory
        .swap_total_bytes
        .saturating_sub(memory.swap_free_bytes);
    let pressure = host.pressure_percent;
    let pressure = pressure.map(|percent| format!("waits for memory {percent:.1}%"));
    let parts = [
        ("available", memory.available_bytes),
        ("free", memory.free_bytes),
        ("anon", memory.anon_bytes),
        ("file", memory.file_bytes),
        ("mapped", memory.mapped_bytes),
        ("shmem", memory.shmem_bytes),
        ("dirty", memory.dirty_bytes),
    ];
    let parts = parts.map(|(name, bytes)| format!("{name} {}", size(bytes)));
    let swap = format!(
        "swap {} of {}",
        size(swapped_bytes),
        size(memory.swap_total_bytes)
    );
    let [available, free, rest @ ..] = parts;
    let first = [size(memory.total_bytes), available, free, swap];
    first.into_iter().chain(pressure).chain(rest).collect()
}

/// What the page cache of a cgroup comes to: `256M of 2 files, from 25 % of memory` where only a part was looked at.
pub(super) fn page_cache(report: &FilesReport) -> String {
    let (bytes, nr_files) = (size(report.total_bytes), report.nr_files);
    let noun = if nr_files == 1 { "file" } else { "files" };
    let all = format!("{bytes} of {nr_files} {noun}");
    match report.sampled_share < 1.0 {
        true => {
            let percent = 100.0 * report.sampled_share;
            format!("{all}, from {percent:.0} % of memory")
        }
        false => all,
    }
}

/// What is known of a cgroup's page cache within so many seconds; `None` until it was watched that long.
pub(super) fn cache_window(target: &TargetView, age_s: u64) -> Option<&CacheWindow> {
    let windows = &target.cache.as_ref()?.windows;
    let mut windows = windows
        .iter()
        .filter(|window| window.seconds == age_s as f64);
    // After a pause two censuses may be far apart.
    windows.find(|window| window.covered_seconds <= 2.0 * window.seconds)
}

/// The path of a file, and whether the file is deleted.
pub(super) fn file_name(file: &FileRow) -> String {
    let deleted = if file.is_deleted { " (deleted)" } else { "" };
    format!("{}{deleted}", file.path)
}

/// Whether a file is open.
pub(super) fn open(file: &FileRow) -> &'static str {
    if file.is_open { "yes" } else { "no" }
}

/// Events a second: `0`, `0.4`, `12`, `1.2k`.
pub(super) fn rate(per_s: Option<f64>) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    match per_s {
        None => UNKNOWN.to_owned(),
        Some(per_s) if per_s > 0.0 && per_s < 9.95 => {
            let text = format!("{per_s:.1}");
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        Some(per_s) => scaled(per_s, 1000.0, &UNITS),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // What would be rounded up to a whole step is one of the next unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    match unit {
        1.. if value < 9.95 => {
            let text = format!("{value:.1}");
            let whole = text.strip_suffix(".0").unwrap_or(&text);
            format!("{whole}{}", units[unit])
        }
        _ => format!("{value:.0}{}", units[unit]),
    }
}

/// A time: `0s`, `32s`, `8m`, `1h`; rounded down.
pub(super) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        _ => format!("{}h", (seconds / 3600).min(9999)),
    }
}

/// A time of milliseconds, to two units: `250ms`, `1.5s`, `2m10s`, `3h05m`.
pub(super) fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..10 if ms % 1000 >= 100 => format!("{seconds}.{}s", ms % 1000 / 100),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A length of time in one unit: `300ms`, `20s`, `60s`.
pub(super) fn span(ms: u64) -> String {
    match ms.is_multiple_of(1000) {
        true => format!("{}s", ms / 1000),
        false => format!("{ms}ms"),
    }
}

/// A name without what a terminal would obey.
pub(super) fn clean(name: &str) -> String {
    strata_linux::plain::line(name).into_owned()
}

/// What runs, and whether it is parked.
pub(super) fn runs(who: &WhoView) -> Option<String> {
    let mark = if who.is_parked { "[parked] " } else { "" };
    let command = who.command.as_deref()?;
    Some(format!("{mark}{}", self::command(command)))
}

/// A command line without the directories of its program, which would fill the line.
pub(super) fn command(line: &str) -> String {
    let (program, rest) = line.split_once(' ').unwrap_or((line, ""));
    let name = program.rsplit('/').next().unwrap_or(program);
    // What ends in a slash is no program's path.
    let name = if name.is_empty() { program } else { name };
    clean(format!("{name} {rest}").trim_end())
}

/// A path or other name in at most `width` characters: whole directories are left out at the front, as
/// what is last says most; if even the last part is too long, its end goes.
pub(super) fn shorten(name: &str, width: usize, ellipsis: char) -> String {
    let name = clean(name);
    let nr_chars = name.chars().count();
    if nr_chars <= width {
        return name;
    }
    let Some(room) = width.checked_sub(1) else {
        return String::new();
    };
    let mut tails = name.match_indices('/').map(|(at, _)| &name[at..]);
    let fitting = tails.clone().find(|tail| tail.chars().count() <= room);
    if let Some(tail) = fitting.filter(|tail| tail.len() > 1) {
        return format!("{ellipsis}{tail}");
    }
    let last = tails
        .next_back()
        .filter(|tail| tail.len() > 1)
        .map_or(&*name, |tail| &tail[1..]);
    let cut: String = last.chars().take(room).collect();
    format!("{cut}{ellipsis}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_short_and_lose_little() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (4096, "4K"),
            (1536 << 10, "1.5M"),
            (1023 << 20, "1023M"),
            ((1 << 30) - 1, "1G"),
            (1365 << 20, "1.3G"),
            (u64::MAX, "16384P"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size_or_unknown(None), "-");
    }

    #[test]
    fn rates_below_ten_keep_a_decimal() {
        for (per_s, text) in [
            (0.0, "0"),
            (0.4, "0.4"),
            (2.0, "2"),
            (9.96, "10"),
            (999.0, "999"),
            (1234.0, "1.2k"),
            (45_678.0, "46k"),
        ] {
            assert_eq!(rate(Some(per_s)), text);
        }
    }

    #[test]
    fn times_have_their_unit() {
        assert_eq!(
            [0, 32, 64, 2048, 3600].map(age),
            ["0s", "32s", "1m", "34m", "1h"]
        );
        assert_eq!(
            [250, 1500, 2000, 61_000, 11_100_000].map(time),
            ["250ms", "1.5s", "2s", "1m01s", "3h05m"]
        );
    }

    #[test]
    fn a_command_line_begins_with_the_name_of_its_program() {
        for (line, text) in [
            (
                "/usr/bin/redis-server 127.0.0.1:6379",
                "redis-server 127.0.0.1:6379",
            ),
            ("node /srv/app.js", "node /srv/app.js"),
            ("/", "/"),
            ("", ""),
            ("a\u{1b}b /c", "a?b /c"),
        ] {
            assert_eq!(command(line), text);
        }
    }

    #[test]
    fn the_end_of_a_path_says_most() {
        let path = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(shorten(path, 40, '~'), path);
        assert_eq!(shorten(path, 30, '~'), "~/x86_64-linux-gnu/libc.so.6");
        assert_eq!(shorten(path, 12, '~'), "~/libc.so.6");
        assert_eq!(shorten(path, 8, '~'), "libc.so~");
        assert_eq!(shorten("[anon:arena of threads]", 10, '~'), "[anon:are~");
        assert_eq!(shorten("/a/", 1, '~'), "~");
        assert_eq!(shorten("ab", 0, '~'), "");
        assert_eq!(shorten("/\u{1b}[2Jx", 9, '~'), "/?[2Jx");
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_its_column(
            bytes in 0u64..1 << 60, per_s in 0f64..1e15, seconds: u64,
            name in "(/[a-z]{0,9}|\\PC){0,12}", width in 0usize..40,
        ) {
            for text in [size(bytes), rate(Some(per_s)), age(seconds)] {
                prop_assert!(text.len() <= NUMBER_COLUMNS, "{}", text);
            }
            prop_assert!(shorten(&name, width, '~').chars().count() <= width);
        }
    }
}
