//! `strata top`: how old the memory of processes and cgroups is, on a screen or printed once.
//!
//! **Owns** the options, `--once`. **Does not own** the screen's state (`screen`), its look
//! (`draw`), the terminal (`live`, `terminal`), or any figure (`strata_host::observe::overview`).
//!
//! **Invariants** I1: it looks and never evicts. I2: without a terminal nothing is opened or walked, but for
//! `--once`.

mod column;
mod draw;
mod live;
mod screen;
mod svg;
mod table;
mod terminal;
mod text;

use std::ffi::OsString;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use strata_host::observe::Subject;
use strata_host::observe::overview::{IDLE_AFTER_S, Overview, Scope};
use strata_linux::access::AccessChoice;

use crate::args::{access_arg, at_least, parse_duration_ms, parse_percent, parse_pid};
use crate::failure::UsageError;
use crate::interrupt::Interrupt;
use crate::print;
use draw::{Charset, Colours, Look};
use live::Opens;
use screen::Screen;

/// How long everybody is watched before something is printed once.
const ONCE_WATCH_MS: u64 = 2000;
/// Walks closer together than this would never rest.
const INTERVAL_MIN: &str = "100ms";
/// Walks further apart than this tell of no window.
const INTERVAL_MAX_MS: u64 = 60_000;
/// The picture's size, cells.
const PICTURE_COLUMNS: u16 = 110;
const PICTURE_LINES: u16 = 32;

/// Shows what memory is used for, and how old the memory of processes and cgroups is
///
/// Without a target the screen lists every cgroup, below a line for the whole machine: its memory by kind, from the
/// kernel's counters, and by age. The page tables of all processes are walked, as often as --cpu allows. Walking clears
/// accessed bits, which the kernel's own reclaim uses too. Nothing is evicted or limited.
///
/// Of targets that are watched the screen has a line each: its size, a bar of its pages by the time since they
/// were last used, what was used within the last 1, 10 and 60 seconds, evicted pages that came back (RFLT),
/// swap, and its limit. In the bar anonymous memory is above files, and all targets have one axis. Enter shows
/// one target with its mappings and its history. h lists all keys.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// A process to watch, for example 4242; may be given again
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pid: Vec<i32>,

    /// A process to watch with all its descendants; may be given again
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    tree: Vec<i32>,

    /// A cgroup to watch, with the groups below: a path as /proc/PID/cgroup prints it, or a directory;
    /// may be given again
    #[arg(short, long, value_name = "PATH")]
    cgroup: Vec<PathBuf>,

    /// Time between two looks, for example 500ms or 2s
    ///
    /// DURATION is a number with a unit ms, s or m, from 100ms to 1m. The keys + and - change it.
    #[arg(
        short,
        long,
        value_name = "DURATION",
        default_value = "1s",
        value_parser = interval_arg,
        allow_hyphen_values = true
    )]
    interval: u64,

    /// Without a target: walk everybody for at most this share of a processor; 0% walks nobody
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = cpu_arg, allow_hyphen_values = true, conflicts_with_all = ["pid", "tree", "cgroup"])]
    cpu: f64,

    /// Print once instead of showing a screen
    #[arg(long)]
    once: bool,

    /// Watch for so long before printing, for example 1m
    ///
    /// The default is 2s without a target, and one interval with one. The column IDLE is what was not used for DURATION, or for a minute where DURATION is
    /// longer. Ctrl-C prints what is known by then.
    #[arg(
        long = "for",
        value_name = "DURATION",
        requires = "once",
        value_parser = parse_duration_ms,
        allow_hyphen_values = true
    )]
    watch_ms: Option<u64>,

    /// What is printed
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        requires = "once"
    )]
    format: OnceFormat,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// Without colours, as with NO_COLOR set
    #[arg(long)]
    no_color: bool,
}

/// A shape of what is printed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnceFormat {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
    /// A picture of the screen
    Svg,
}

/// Shows the screen until the user leaves it, or prints once.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !args.once {
        refuse_no_terminal()?;
    }
    let subjects: Vec<Subject> = std::iter::empty()
        .chain(args.pid.iter().map(|pid| Subject::Process(*pid)))
        .chain(args.tree.iter().map(|pid| Subject::Tree(*pid)))
        .chain(args.cgroup.iter().cloned().map(Subject::Cgroup))
        .collect();
    let opens = match subjects.len() {
        1 => Opens::TheOnlyTarget,
        _ => Opens::List,
    };
    let scope = match subjects.is_empty() {
        true => Scope::AllGroups,
        false => Scope::Chosen(subjects),
    };
    let is_of_all = matches!(scope, Scope::AllGroups);
    let mut overview = Overview::open(&scope, args.access)?;
    if is_of_all && args.cpu > 0.0 {
        // What is printed once is to be complete; it ends soon.
        let share = if args.once { 1.0 } else { args.cpu };
        if let Err(error) = overview.watch_everybody(share) {
            print::warning(&format!("ages are not told: {error}"));
        }
    }
    if args.once {
        return once(overview, args, opens);
    }
    let look = Look::new(
        charset(|name| std::env::var_os(name)),
        colours(args.no_color),
    );
    live::run(overview, args.interval, look, opens)
}

impl TopArgs {
    fn names_nobody(&self) -> bool {
        self.pid.is_empty() && self.tree.is_empty() && self.cgroup.is_empty()
    }
}

fn once(mut overview: Overview, args: &TopArgs, opens: Opens) -> anyhow::Result<ExitCode> {
    let source = overview.source();
    for blind_spot in source.iter().flat_map(|source| &source.blind_spots) {
        print::note(&format!("what can't be seen: {blind_spot}"));
    }
    let interrupt = Interrupt::install()?;
    let interval = Duration::from_millis(args.interval);
    let default_ms = match (args.names_nobody(), args.cpu > 0.0) {
        (true, true) => ONCE_WATCH_MS.max(args.interval),
        _ => args.interval,
    };
    let watch = Duration::from_millis(args.watch_ms.unwrap_or(default_ms));
    overview.set_idle_after(watch.min(Duration::from_secs(IDLE_AFTER_S)));
    let until = Instant::now() + watch;
    let mut screen = Screen::new(args.interval);
    let mut troubles = Vec::new();
    let mut due = Instant::now();
    loop {
        let is_last = Instant::now() >= until;
        if is_last {
            overview.set_last();
        }
        let mut snapshot = overview.look();
        // Each is told once, at the look that meets it.
        snapshot
            .troubles
            .retain(|trouble| !troubles.contains(trouble));
        troubles.append(&mut snapshot.troubles);
        snapshot.troubles.clone_from(&troubles);
        screen.accept(snapshot);
        due = (due + interval).max(Instant::now());
        if is_last || overview.is_over() || interrupt.has_come() {
            break;
        }
        // The last look may come early, so that what was asked for is not exceeded.
        interrupt.nap_until(due.min(until), || false);
    }
    if let (Opens::TheOnlyTarget, Some(target)) = (opens, screen.snapshot.targets.first()) {
        let name = target.name.clone();
        screen.open(&name);
    }
    let text = match args.format {
        OnceFormat::Table => table::table(&screen.snapshot, &screen.rows(), print::columns()),
        OnceFormat::Json => serde_json::to_string(&screen.snapshot)? + "\n",
        OnceFormat::Svg => picture(&mut screen),
    };
    print::data(text)?;
    Ok(ExitCode::SUCCESS)
}

fn picture(screen: &mut Screen) -> String {
    screen.message = None;
    let mut buffer = Buffer::empty(Rect::new(0, 0, PICTURE_COLUMNS, PICTURE_LINES));
    let look = Look::new(Charset::Unicode, Colours::On);
    draw::draw(&mut buffer, screen, look);
    svg::svg(&buffer)
}

fn refuse_no_terminal() -> Result<(), UsageError> {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let why = match (stdout().is_terminal(), is_dumb) {
        (false, _) => "stdout is no terminal",
        (true, true) => "this terminal can't show a screen (TERM=dumb)",
        (true, false) => return Ok(()),
    };
    let remedy = "`strata top --once` prints a table, with `--format json` JSON";
    Err(UsageError(format!("{why}; {remedy}")))
}

/// By the environment, as locale(7) has it: the first of these that is set decides.
fn charset(variable: impl Fn(&str) -> Option<OsString>) -> Charset {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| {
        let value = variable(name)?;
        (!value.is_empty()).then(|| value.to_string_lossy().to_lowercase())
    });
    let is_utf8 = |value: &String| value.contains("utf-8") || value.contains("utf8");
    match set.as_ref().is_some_and(is_utf8) {
        true => Charset::Unicode,
        false => Charset::Ascii,
    }
}

/// Colours unless they are unwanted: no-color.org counts any value that is not empty.
fn colours(is_refused: bool) -> Colours {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match is_refused || no_color {
        true => Colours::Off,
        false => Colours::On,
    }
}

/// A share of a processor; none at all is allowed.
fn cpu_arg(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%') {
        "0" => Ok(0.0),
        _ => parse_percent(text),
    }
}

fn interval_arg(text: &str) -> Result<u64, String> {
    match at_least(INTERVAL_MIN)(text)? {
        ms if ms > INTERVAL_MAX_MS => Err("it must be at most 1m".to_owned()),
        ms => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_drawn_where_the_locale_has_them() {
        let of = |set: &[(&str, &str)]| {
            charset(|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(of(&[("LANG", "de_DE.UTF-8")]), Charset::Unicode);
        assert_eq!(of(&[("LANG", "C.utf8"), ("LC_ALL", "")]), Charset::Unicode);
        assert_eq!(of(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]), Charset::Ascii);
        assert_eq!(of(&[]), Charset::Ascii);
    }

    #[test]
    fn intervals_are_neither_restless_nor_blind() {
        assert_eq!(["100ms", "1m"].map(interval_arg), [Ok(100), Ok(60_000)]);
    }
}
