//! A number in the control loop is a tunable, with its unit, its range and the reason for it, or it stands on the list
//! below with the reason why nobody may want another.
//!
//! Read from the sources: comments, strings, tests and what `config!` declares are left out. 0 and 1 are free, and so are
//! factors and divisors that say "twice", "half" or convert a unit.

use std::fs;
use std::path::Path;

/// Numbers that are no tunables: file, name or digits, and why.
const FIXED: &str = "\
backoff.rs TIMES_MAX: how a pause that doubles ends: no load tells it from twice or half as many
control/tick.rs ALL_PERCENT: 100 % is all of it
control/tick.rs SWAP_BYTES_MIN: the kernel's own bound, 64 pages
cpu/allowance.rs RECLAIM_PAGE_NS: a price, measured; docs/validation/steered.md has it too
cpu/allowance.rs WINDOW_MS: the promise of --cpu
cpu/allowance.rs PERCENT_MS_NS: converts a unit
cpu/contention.rs SAMPLE_MS: a pace of looking: from which load on a processor is taken are the tunables
cpu/contention.rs NR_SAMPLES: how long a moment is: from which load on a processor is taken are the tunables
cpu/demand.rs THREAD_US: a price, measured
cpu/demand.rs PROCESS_US: a price, measured
cpu/demand.rs PAUSE_MS: any number between a look that comes late and nobody looking would do
cpu/load.rs PAGEOUT_PAGE_US: a price, measured
cpu/load.rs AUTO_PAGEOUT_PAGES_PER_S: follows from the price and the tunable
cpu/load.rs ALL_PERCENT: 100 % is all of it
cpu/load.rs NR_RUNNING_MIN: any number below the share of a program that runs would do
drive.rs ISOLATE_TRIES: a bound on one tick: any number above the generations there are would do
guard.rs CODE_AGES: one age more, as the kernel gives code one more round
guard.rs EVEN_SWAPPINESS: the kernel's middle, at which it takes both kinds to cost alike
hazard.rs NR_AGES: the ages double from a minute to an hour, as long as a guard rests at most
hazard.rs ASSUMED_HAZARD: an assumption, which what is seen soon replaces
hazard.rs ASSUMED_SHARE: the assumption counts until as much was watched
hazard.rs 60.0: a hazard is of a minute
hazard.rs 600: any time far above a minute would do
hold_up.rs CALL_GOAL_NS: the promise that no program is held up for longer
hold_up.rs CLEARING_SHARE: the promise that programs are held up for no larger share
tiers.rs RESERVE_SHARE: what programs ask for in a second; no run has tiers
tiers.rs NR_KINDS: how many kinds of pages there are
tiers.rs STREAK_MIN: two walks tell what is used from what is passed through
tiers.rs MANY_SHARE: the kernel's own bound
tiers.rs FEW_SHARE: the kernel's own bound
quiet.rs CPU_SHARE_MAX: what a heartbeat takes at most; it says when a guard parks, and no run has it
quiet.rs USED_SHARE_MAX: what a timer touches at most; no run has it
last_resort.rs 2: twice what is to be free, so that what goes on does not make the host short at once
last_resort.rs 5: long enough for what is reclaimed to show
last_resort.rs 10: long enough for what was ended to be free; no load tells it from half or twice as much
limit.rs RECENT_MS: any number far above the time between two steps of one squeeze would do
limit.rs STEP_SETTLES_MS: how long tasks that were woken wait for a processor: the scheduler's, not ours
page_cache.rs SEARCH_PAUSE_MS: a bound on cost that no decision goes by: searches are held to 1 % of a processor
page_cache.rs FILES_MAX: a bound on the cost of a census
page_cache.rs NR_TIERS: the kernel's number of tiers
page_cache.rs FOLIO_PAGES_MAX: base pages of a huge folio
page_cache.rs FILE_PAGES_MAX: how many pages a file can have at most
page_cache/idle.rs RECLAIMED_PAGES_MAX: a bound on memory; counts of returns need no more
page_cache/idle/file.rs STEP_MS: the unit in which times are kept, so that they fit into 32 bits
page_cache/idle/file.rs READS_MASK: bits: the kernel counts at most five reads
page_cache/idle/file.rs IS_BUSY: a bit
page_cache/idle/file.rs IS_PROTECTED: a bit
page_cache/idle/file.rs TIER_MASK: bits: there are four tiers
page_cache/idle/file.rs IS_DROPPED: a bit
page_cache/idle/file.rs IS_RECLAIMED: a bit
page_cache/idle/file.rs IS_PLAYED: a bit
page_cache/idle/file.rs 8: bytes of a page, asserted when it is built
page_cache/idle/oldest.rs AGE_BITS: how exact ages are told, as those of the ledger; it bounds how many there are
page_cache/newcomers.rs CHUNK_PAGES: bits of a word
page_cache/newcomers.rs BURST_PAGES: any number above what readahead has under way would do
page_cache/newcomers.rs ALL_PERCENT: 100 % is all of it
page_cache/newcomers.rs PAGES_PER_MIB: converts a unit
page_cache/newcomers.rs PARTS_MAX: a bound on memory
page_cache/newcomers.rs WAITING_MAX: a bound on memory
page_cache/newcomers.rs STALE_MS: any number above the pause between two looks would do
page_cache/newcomers.rs 2: the second read is what makes a page active in the kernel
page_cache/tiers.rs HALVINGS_MAX: so many halvings leave nothing of any count
promise.rs NR_WALKS_WITHIN_AGE: what is told to be idle for so long is so to a sixth of it
promise.rs STALL_SHARE: what is promised where nothing is said; a rule can say another
promise.rs STALL_SHARE_MIN: a millisecond in a second is felt by nobody
promise.rs 2: there are two kinds; twice as old after a first break
promise.rs 4: how much older after breaks in a row: any number above that of a first break would do
promise.rs 6: a bound on doublings: 64 minutes are above the longest rest
promise.rs 0.9: a kept promise lets the age fall slowly; any pace far below that of a break would do
promise.rs 60: what is promised is promised for a minute
promise.rs 3600: a bound on how long nothing is tried
promise.rs NR_PAGES_PER_MIN_MIN: one fault a second is felt by nobody
promise.rs AIM: half of a bound is left to what nobody can foresee, as everywhere
promise.rs ENOUGH: any share near all of it would do: of ages that give as much the least is taken
promise.rs NR_BROKEN_MAX: any small number would do
sample.rs SHARE_OF_LAST: averages are faster or slower with every_ms, which is a tunable
sample.rs 64: bits of a word
sample.rs NR_MAX: the size of the C library's `cpu_set_t`
sample.rs PAGE_BYTES: the size of a base page
sample/cache.rs MIB: converts a unit
stall.rs ATTEMPTS_MIN: any number between a few and the hundred of a second would do; stall_ms is the tunable
stall.rs PROGRESS_BYTES: any number between noise and what a reclaim that works frees in a second would do
shortage.rs ROOM_SHARE: what a guard keeps free below a limit; no run has it
shortage.rs WAITING_PERCENT_MAX: when a guard's host is short; no run has it
shortage.rs WAITING_STEP: a bound on one step: the next look has the rest
strategy/admit_cache.rs ALL_PERCENT: 100 % is all of it
strategy/admit_cache.rs DROP_BYTES_MAX: a bound on one step: the next tick has the rest
strategy/admit_cache.rs JUDGED_SHARE: how much is enough to judge by; what a loop is are the tunables
strategy/admit_cache.rs LOOK_MS: any number below NEWCOMER_MS would do
strategy/admit_cache.rs NEWCOMER_MS: a bound from below: what was not read by then waits again
strategy/admit_cache.rs SETTLED_MS: a bound on how long newcomers wait to be read
strategy/drop_cache.rs ALL_PERCENT: 100 % is all of it
strategy/drop_cache.rs CENSUSES_TO_IDLE: what idle means: one census finds the page, the next finds it unread
strategy/drop_cache.rs DROPS_MAX: the length of a queue: the next tick has the rest
strategy/drop_cache.rs DROP_BYTES_MAX: a bound on one step: the next tick has the rest
strategy/drop_cache.rs FILE_BYTES_MIN: a bound on cost: less is not worth opening a file
strategy/drop_cache.rs JUDGED_BYTES_MIN: any number that one readahead is no large share of would do
strategy/drop_cache.rs REMEMBERED_MS: what comes back later was idle: again_idle_ms is the tunable
strategy/drop_cache.rs VAIN_MS: the first of pauses that double: how soon censuses come is census_ms
strategy/split_huge.rs COUNTED_WALK_MS: long enough for what is in use to be used: half or twice as long tells the same
strategy/split_huge.rs NR_PARTS: base pages of a huge page
strategy/split_huge.rs NR_AT_ONCE_MAX: a bound on one walk: the next one has the rest
strategy/split_huge.rs NR_TRIAL_WALKS: the first walk sees what the kernel mapped around, the second what is in use
swap_writes.rs SAVED_S: a bound on a burst: any number above the pause between two looks would do
trace/format.rs 2: kinds of pages: anon and file
trace/format.rs VERSION: of the format
walks.rs PAUSE_FACTOR: the promise that walks take a tenth of a processor at most
";
/// Factors and divisors that are words or units: twice, half, percent, milliseconds, microseconds, nanoseconds.
const WORDS: [f64; 5] = [2.0, 100.0, 1e3, 1e6, 1e9];

const NUMBER_TYPES: [&str; 14] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64",
];

/// The rows of [`FIXED`].
fn fixed() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    FIXED.lines().map(|row| {
        let (place, why) = row.split_once(": ").expect("a reason");
        let (file, what) = place.split_once(' ').expect("a file and a name");
        (file, what, why)
    })
}

/// A number that stands in the code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    file: String,
    line: usize,
    /// Of a constant its name, else the digits.
    what: String,
}

/// A source with blanks in place of comments, strings, characters, tests and `config!`; lines stay where they are.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {");
    let signs: Vec<char> = text[..end.unwrap_or(text.len())].chars().collect();
    let mut code = String::new();
    let mut at = 0;
    let blank = |sign: char| if sign == '\n' { '\n' } else { ' ' };
    while at < signs.len() {
        let rest = &signs[at..];
        let nr_signs = if rest.starts_with(&['/', '/']) {
            rest.iter()
                .position(|sign| *sign == '\n')
                .unwrap_or(rest.len())
        } else if rest[0] == '"' {
            end_of_string(rest)
        } else if rest.len() > 2 && rest[0] == '\'' && (rest[2] == '\'' || rest[1] == '\\') {
            let close = rest.iter().skip(2).position(|sign| *sign == '\'');
            close.map_or(1, |close| close + 3)
        } else {
            code.push(rest[0]);
            at += 1;
            continue;
        };
        code.extend(rest[..nr_signs].iter().map(|sign| blank(*sign)));
        at += nr_signs;
    }
    without_declared(&code)
}

fn end_of_string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn without_declared(code: &str) -> String {
    let mut left = code.to_owned();
    while let Some(start) = left.find("\nconfig! {") {
        let mut depth = 0;
        let of_block = left[start..].char_indices().find(|(_, sign)| {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            *sign == '}' && depth == 0
        });
        let end = of_block.map_or(left.len(), |(at, _)| start + at + 1);
        let blank: String = left[start..end]
            .chars()
            .filter(|sign| *sign == '\n')
            .collect();
        left.replace_range(start..end, &blank);
    }
    left
}

/// Names of constants that are numbers, with their lines.
fn constants(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut words = line.split(|sign: char| !(sign.is_alphanumeric() || sign == '_'));
        let is_one = words.any(|word| word == "const" || word == "static");
        let mut words = words.filter(|word| !word.is_empty());
        if let (true, Some(name), Some(kind)) = (is_one, words.next(), words.next())
            && NUMBER_TYPES.contains(&kind)
            && !line.contains(&format!("fn {name}"))
        {
            found.push((number + 1, name.to_owned()));
        }
    }
    found
}

/// Numbers that say something, with their lines.
fn literals(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let signs: Vec<char> = line.chars().collect();
        let mut at = 0;
        while at < signs.len() {
            let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
            let is_in_word = at > 0 && is_part(signs[at - 1]);
            if !signs[at].is_ascii_digit() || is_in_word {
                at += 1;
                continue;
            }
            let start = at;
            while at < signs.len()
                && (is_part(signs[at])
                    || signs[at] == '.' && signs.get(at + 1).is_some_and(char::is_ascii_digit))
            {
                at += 1;
            }
            let digits: String = signs[start..at].iter().collect();
            let before: String = signs[..start].iter().collect();
            let after: String = signs[at..].iter().collect();
            // `.0` is a part of a tuple, `0..` a range.
            let is_part_of_tuple = before.ends_with('.') && !before.ends_with("..");
            if !is_part_of_tuple && says_something(&digits, before.trim_end(), after.trim_start()) {
                found.push((number + 1, digits));
            }
        }
    }
    found
}

fn says_something(digits: &str, before: &str, after: &str) -> bool {
    let plain = digits.replace('_', "");
    let plain = NUMBER_TYPES.iter().fold(plain.as_str(), |plain, kind| {
        plain.strip_suffix(kind).unwrap_or(plain)
    });
    let Ok(value) = plain.parse::<f64>() else {
        return true;
    };
    let before = before.strip_suffix('=').unwrap_or(before);
    let is_factor = before.ends_with(['*', '/']) || after.starts_with('*');
    let is_word = WORDS.contains(&value) && is_factor;
    !(value == 0.0 || value == 1.0 || is_word)
}

/// Numbers of a source that are no tunables. What a constant is made of is told by its name.
fn found(file: &str, text: &str) -> Vec<Found> {
    let code = code(text);
    let constants = constants(&code);
    let is_constant = |line: usize| constants.iter().any(|(of, _)| *of == line);
    let literals = literals(&code)
        .into_iter()
        .filter(|(line, _)| !is_constant(*line));
    let all = constants.iter().cloned().chain(literals);
    let named = all.map(|(line, what)| Found {
        file: file.to_owned(),
        line,
        what,
    });
    named.collect()
}

fn sources(root: &Path, below: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(root.join(below)).expect("readable").flatten() {
        let path = below.join(entry.file_name());
        let name = path.to_string_lossy().into_owned();
        if entry.path().is_dir() {
            // What tests are made of has numbers of its own.
            if entry.file_name() != "tests" {
                sources(root, &path, into);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            into.push((name, fs::read_to_string(entry.path()).expect("UTF-8 text")));
        }
    }
}

#[test]
fn every_number_is_a_tunable_or_has_a_reason_not_to_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts = Vec::new();
    sources(&root, Path::new(""), &mut texts);
    assert!(texts.len() > 20, "the sources are found");
    let all: Vec<Found> = texts
        .iter()
        .flat_map(|(file, text)| found(file, text))
        .collect();
    let is_fixed =
        |one: &&Found| fixed().any(|(file, what, _)| (file, what) == (&one.file, &one.what));
    let strays: Vec<String> = all
        .iter()
        .filter(|one| !is_fixed(one))
        .map(|one| format!("crates/control/src/{}:{}: {}", one.file, one.line, one.what))
        .collect();
    assert!(
        strays.is_empty(),
        "make each a field of the module's `config!`, or say in this test why it is none:\n{}",
        strays.join("\n")
    );
    for (file, what, why) in fixed() {
        let is_there = |one: &Found| (one.file.as_str(), one.what.as_str()) == (file, what);
        assert!(
            all.iter().any(is_there),
            "{file} has no {what} any more ({why})"
        );
    }
}

#[test]
fn numbers_are_found_wherever_they_stand() {
    let what = |text: &str| -> Vec<String> {
        let found = found("of.rs", text);
        found
            .into_iter()
            .map(|one| format!("{}: {}", one.line, one.what))
            .collect()
    };
    assert_eq!(
        what("/// Why.\nconst WAIT_MS: u64 = 5 << 10;\n"),
        ["2: WAIT_MS"]
    );
    assert_eq!(
        what("    pub(super) const SHARE: f64 = 1.0 / 3.0;"),
        ["1: SHARE"]
    );
    assert_eq!(what("Backoff::new(10, 160)"), ["1: 10", "1: 160"]);
    assert_eq!(what("Backoff::new(2, 1000)"), ["1: 2", "1: 1000"]);
    assert_eq!(
        what("let a = b * 3 / 4;\n\nlet c = d.max(0.01);"),
        ["1: 3", "1: 4", "3: 0.01"]
    );
    assert_eq!(
        what("a << 20 | 0x1f | 7u64"),
        ["1: 20", "1: 0x1f", "1: 7u64"]
    );
    assert_eq!(what("const NAMES: [&str; 3] = NAMED;"), ["1: 3"]);
    for free in [
        "let half = all / 2 + 2 * self.0.1 - 1;",
        "nr_pages *= 2; ns / 1_000_000; 1e9 * x; share * 100 >= 0",
        "for n in 0..count {}",
        "// 17 of them\nlet c = '7'; let s = \"18 \\\" 19\"; let v = u64::MAX;",
        "\nconfig! {\n  a: u64 = 5, 1..=9, \"ms\";\n}\n",
        "const fn of(count: u64) {}",
        "#[cfg(test)]\nmod tests {\n    const A: u64 = 5;\n}",
    ] {
        assert_eq!(what(free), Vec::<String>::new(), "{free}");
    }
    assert_eq!(what("\nconfig! {\n  a: u64 = 5;\n}\nlet b = 6;"), ["5: 6"]);
}
