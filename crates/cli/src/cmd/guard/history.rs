//! `strata guard history`: what a guard gave back, what came back and what it cost; and the option by which one is kept.
//!
//! **Owns** the options, the tables and what stands in the plot. **Does not own** the figures
//! (`strata_host::managed::history`), nor the drawing (`strata_sim::plot`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::TypedValueParser;
use strata_host::managed::Status;
use strata_host::managed::history::{
    self, Account, By, Figures, GroupSum, HISTORY_PATH, History, Question,
};
use strata_linux::units::Bytes;
use strata_sim::plot::{Bars, stacked_bars};
use strata_sim::table::aligned;

use crate::args::{Format, at_least, one_of};
use crate::cmd::report_file::ReportFile;
use crate::duration::span;
use crate::print;

/// The place of no history.
const NOWHERE: &str = "none";
/// Up to so long a time is told by minute where nothing is said.
const BY_MINUTE_MAX_MS: u64 = 3 * 3600 * 1000;
/// Columns of the longest bar.
const BAR_COLUMNS: u64 = 24;
/// Groups that are told one by one.
const GROUPS_MAX: usize = 20;
/// Labels below a plot.
const LABELS_MAX: usize = 6;

/// What is asked of a history.
#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// A group's path, or a pattern such as '/system.slice/*'; the whole host by default
    group: Option<String>,

    /// How long ago it begins; 14 days are kept
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = at_least("1m"), allow_hyphen_values = true)]
    since: u64,

    /// How long a time is one line; hours by default, minutes up to --since 3h. What is older than a day is kept by hour
    #[arg(long, value_parser = by_arg())]
    by: Option<By>,

    /// The file in which a guard keeps it
    #[arg(long, value_name = "PATH", default_value = HISTORY_PATH)]
    history: PathBuf,

    /// How it is printed: JSON is one object
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// Also draw it as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn by_arg() -> impl TypedValueParser<Value = By> {
    one_of([
        ("minute", "A minute", By::Minute),
        ("hour", "An hour", By::Hour),
    ])
}

/// Prints what a history says.
pub(super) fn show(args: &HistoryArgs) -> anyhow::Result<ExitCode> {
    let place = args.svg.clone().map(ReportFile::try_place).transpose()?;
    // The second that is now is part of it.
    let to_s = unix_s() + 1;
    let by = args.by.unwrap_or(match args.since {
        ..=BY_MINUTE_MAX_MS => By::Minute,
        _ => By::Hour,
    });
    let question = Question {
        from_s: to_s.saturating_sub(args.since / 1000),
        to_s,
        by,
        group: args.group.as_deref(),
    };
    let account = history::read(&args.history, &question)?;
    print::answer(args.format, &account, || text(&account, print::columns()))?;
    if let Some(place) = place {
        place.write_text(&picture(&account))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A history that a guard keeps, or none.
#[derive(Debug)]
pub(super) struct Keeping(Option<History>);

impl Keeping {
    /// Begins one where it was asked for, or where guards that act keep theirs.
    pub(super) fn start(asked: Option<&Path>, is_acting: bool) -> Keeping {
        let path = asked.or_else(|| is_acting.then_some(Path::new(HISTORY_PATH)));
        let path = path.filter(|path| *path != Path::new(NOWHERE));
        Keeping(path.and_then(|path| {
            let started = History::start(path);
            let told = |error: &std::io::Error| {
                print::warning(&format_args!("no history is kept: {error}"))
            };
            started.inspect_err(told).ok()
        }))
    }

    pub(super) fn look(&mut self, status: &Status) {
        let news = self.0.as_mut().and_then(|of| of.look(unix_s(), status));
        news.iter().for_each(|news| print::warning(news));
    }

    pub(super) fn end(mut self, status: &Status) {
        self.look(status);
        let news = self.0.map(History::end).unwrap_or_default();
        news.iter().for_each(|news| print::warning(news));
    }
}

fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// For people; lines are cut at so many columns.
fn text(account: &Account, columns: Option<usize>) -> String {
    let slots = &account.slots;
    let Some(last) = slots.last() else {
        return "no guard that keeps a history has looked at that in that time\n".to_owned();
    };
    let sum = |of: fn(&Figures) -> u64| slots.iter().map(|slot| of(&slot.figures)).sum::<u64>();
    let (taken, back) = (sum(|of| of.taken_bytes), sum(|of| of.came_back_bytes));
    let all = sum_of(&account.groups);
    let (unit, of_slot) = match account.by_s {
        // A minute is told as of its last look.
        ..3600 => ("minute", ""),
        _ => ("hour", "mean "),
    };
    let text = format!(
        "given back {}, of which {} came back ({:.1} %)\n{} were away on average, for {} of swap and ages; in the last {unit} told {}\n\n",
        Bytes(taken),
        Bytes(back),
        100.0 * back as f64 / taken.max(1) as f64,
        Bytes(all.away_bytes),
        Bytes(all.price_bytes),
        Bytes(last.figures.away_bytes),
    );
    let heads = |first: &str, mean: &str, last: &str| {
        let [used, away, price] = ["used", "away", "price"].map(|name| format!("{mean}{name}"));
        format!("{first:>16}|{used:>10}|{away:>10}|given back| came back|{price:>10}|{last}")
    };
    let cells = |first: String, of: &Figures, age: String, last: String| {
        let [used, away, given, back, price] = [
            of.used_lately_bytes,
            of.away_bytes,
            of.taken_bytes,
            of.came_back_bytes,
            of.price_bytes,
        ]
        .map(|bytes| Bytes(bytes).to_string());
        [first, used, away, given, back, price, age, last]
    };
    let most = slots.iter().map(|slot| slot.figures.away_bytes).max();
    let rows = slots.iter().map(|slot| {
        let of = &slot.figures;
        let share = u128::from(of.away_bytes) * u128::from(BAR_COLUMNS);
        let bar = "#".repeat(share.div_ceil(u128::from(most.unwrap_or(0).max(1))) as usize);
        let cpu = match of.cpu_ns {
            0 => "-".to_owned(),
            ns => format!("{:.1} s", ns as f64 / 1e9),
        };
        cells(slot.time.clone(), of, cpu, bar)
    });
    let mut tables = aligned(&heads("time", of_slot, "    cpu|<away"), rows) + "\n";
    let (told, more) = account
        .groups
        .split_at(account.groups.len().min(GROUPS_MAX));
    let rest = (!more.is_empty()).then(|| GroupSum {
        group: format!("{} more", more.len()),
        figures: sum_of(more),
    });
    let rows = told.iter().chain(&rest).map(|of| {
        let resident = Bytes(of.figures.resident_bytes).to_string();
        let age = span(of.figures.age_anon_ms.next_multiple_of(1000));
        let who = of.group.clone();
        cells(resident, &of.figures, age, who)
    });
    let head = heads("mean resident", "mean ", "idle at|<group");
    tables += &aligned(&head, rows);
    text + &print::cut(&tables, columns)
}

/// Groups together.
fn sum_of(groups: &[GroupSum]) -> Figures {
    let add = |sum: Figures, of: &GroupSum| Figures {
        resident_bytes: sum.resident_bytes + of.figures.resident_bytes,
        used_lately_bytes: sum.used_lately_bytes + of.figures.used_lately_bytes,
        away_bytes: sum.away_bytes + of.figures.away_bytes,
        price_bytes: sum.price_bytes + of.figures.price_bytes,
        age_anon_ms: sum.age_anon_ms.max(of.figures.age_anon_ms),
        taken_bytes: sum.taken_bytes + of.figures.taken_bytes,
        came_back_bytes: sum.came_back_bytes + of.figures.came_back_bytes,
        cpu_ns: sum.cpu_ns + of.figures.cpu_ns,
    };
    groups.iter().fold(Figures::default(), add)
}

/// The picture as SVG: times in which no guard ran are gaps.
fn picture(account: &Account) -> String {
    let slots = &account.slots;
    let most = slots
        .iter()
        .map(|slot| slot.figures.away_bytes.max(slot.figures.taken_bytes))
        .max();
    let (unit_bytes, unit) = match most.unwrap_or(0) {
        bytes if bytes < 8 << 20 => (1 << 10, "KiB"),
        bytes if bytes < 16 << 30 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let ends = slots
        .first()
        .map(|slot| slot.at_s)
        .zip(slots.last().map(|slot| slot.at_s));
    let nr_bars = ends.map_or(0, |(first_s, last_s)| (last_s - first_s) / account.by_s + 1);
    let label_each = (nr_bars as usize).div_ceil(LABELS_MAX).max(1);
    let panel = |title: &str, parts: &[&str], of: &dyn Fn(&Figures) -> Vec<u64>| {
        let mut bars = vec![(String::new(), Vec::new()); nr_bars as usize];
        for slot in slots {
            let at = ((slot.at_s - slots[0].at_s) / account.by_s) as usize;
            let label = match at % label_each {
                // Without the year.
                0 => slot.time.get(5..).unwrap_or_default(),
                _ => "",
            };
            let parts = of(&slot.figures)
                .into_iter()
                .map(|bytes| bytes / unit_bytes);
            bars[at] = (label.to_owned(), parts.collect());
        }
        Bars {
            title: title.to_owned(),
            x_name: "local time".to_owned(),
            y_name: unit.to_owned(),
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            bars,
        }
    };
    stacked_bars(&[
        panel("away", &["price", "net"], &|of| {
            let price = of.price_bytes.min(of.away_bytes);
            vec![price, of.away_bytes - price]
        }),
        panel("given back", &["given back"], &|of| vec![of.taken_bytes]),
        panel("came back", &["came back"], &|of| vec![of.came_back_bytes]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::tests::assert_has;
    use strata_host::managed::history::Slot;

    fn account() -> Account {
        let figures = |away_mib: u64| Figures {
            away_bytes: away_mib << 20,
            taken_bytes: 4 << 20,
            came_back_bytes: 1 << 20,
            price_bytes: 1 << 20,
            ..Figures::default()
        };
        let slot = |at_s: u64, time: &str, away_mib| Slot {
            at_s,
            time: time.to_owned(),
            figures: figures(away_mib),
        };
        Account {
            from_s: 0,
            to_s: 10 * 3600,
            by_s: 3600,
            slots: vec![
                slot(3600, "2026-01-01 01:00", 48),
                slot(4 * 3600, "2026-01-01 04:00", 96),
            ],
            groups: vec![GroupSum {
                group: r"/a\x2db".to_owned(),
                figures: figures(72),
            }],
        }
    }

    #[test]
    fn a_history_is_read_at_a_glance() {
        let text = text(&account(), None);
        assert!(
            text.starts_with("given back 8 MiB, of which 2 MiB came back (25.0 %)\n"),
            "{text}"
        );
        // What stands for all the time is called a mean, and adds up with those that are not told one by one.
        assert_has(&text, "72 MiB were away on average");
        assert_eq!(text.matches("mean away").count(), 2, "{text}");
        let bar = |time: &str| {
            let line = text
                .lines()
                .find(|line| line.contains(time))
                .expect("a line");
            line.matches('#').count()
        };
        assert_eq!((bar("01:00"), bar("04:00")), (12, 24));
        // As a rule names it, and as it can be pasted.
        assert!(text.ends_with(" /a\\x2db\n"), "{text}");
    }

    #[test]
    fn groups_that_are_not_told_one_by_one_are_told_together() {
        let mut account = account();
        let [group] = &account.groups[..] else {
            panic!("a group");
        };
        account.groups = vec![group.clone(); GROUPS_MAX + 2];
        let text = text(&account, None);
        assert_has(&text, "1.5 GiB were away on average");
        let rest = text.lines().last().expect("a line");
        assert!(
            rest.ends_with("2 more") && rest.contains("144 MiB"),
            "{rest}"
        );
    }

    #[test]
    fn times_in_which_no_guard_ran_are_gaps_of_the_picture() {
        let svg = picture(&account());
        assert_eq!(svg.matches("<polygon").count(), 2 * (2 + 1 + 1));
        for text in [
            "away",
            "given back",
            "came back",
            "MiB",
            "01-01 01:00",
            "01-01 04:00",
        ] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
        }
        let none = Account {
            slots: Vec::new(),
            ..account()
        };
        assert!(picture(&none).starts_with("<svg "));
    }
}
