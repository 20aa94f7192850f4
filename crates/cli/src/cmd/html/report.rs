//! The page of what other commands of Strata print as JSON.
//!
//! Every number of the JSON is shown in a table; what is worth a picture has one above.
//!
//! **Owns** which JSON is known, and its pictures. **Does not own** any figure, nor the tables (`value`) and what is told of a
//! history (`history`).

use serde_json::Value;
use strata_linux::units::Bytes;

use super::chart::{self, Bar, Series};
use super::page::{Page, grouped, span};
use super::value::{bytes_at, card, fields, list, number_at, text_at};
use super::{history, plan};
use crate::failure::UsageError;

/// Bars and rows of a picture.
const SHOWN_MAX: usize = 40;
/// Columns of a picture over time.
const COLUMNS_MAX: usize = 300;

strata_lru::named! {
    /// What was printed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Kind {
        Run = "A run within a budget",
        Guard = "What a guard gives back",
        Idle = "Who holds idle memory",
        Plan = "How much memory a recorded run needs",
        Promise = "What a guard would give back",
        History = "What a guard gave back",
        WorkingSet = "How much memory is needed",
        Files = "Which files fill the page cache",
    }
}

impl Kind {
    fn of(value: &Value) -> Option<Kind> {
        let kinds: [(Kind, &[&str]); 8] = [
            (Kind::Run, &["usage", "eviction"]),
            (Kind::Guard, &["is_acting", "groups"]),
            (Kind::Idle, &["safe_budget", "groups"]),
            (Kind::Plan, &["points", "footprint_bytes"]),
            (Kind::Promise, &["promise_share_per_min", "groups"]),
            (Kind::History, &["slots", "groups"]),
            (Kind::WorkingSet, &["windows", "untouched_bytes"]),
            (Kind::Files, &["files", "sampled_share"]),
        ];
        let has = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
        kinds
            .into_iter()
            .find(|(_, keys)| has(keys))
            .map(|(kind, _)| kind)
    }
}

/// The page of what was printed; the last of several lines counts, the others stand in pictures over time.
pub(super) fn page(name: &str, lines: &[Value]) -> Result<Page, UsageError> {
    let last = lines.last().unwrap_or(&Value::Null);
    let Some(kind) = Kind::of(last) else {
        return Err(UsageError(format!(
            "{name} is JSON, but none that has a page: give the report of strata run --report, or what guard status, guard history, \
             idle, wss, files or plan print with --format json"
        )));
    };
    let mut page = Page::new(kind.name(), name);
    match kind {
        Kind::Run => run(&mut page, last),
        Kind::Guard => guard(&mut page, lines, last),
        Kind::Idle => idle(&mut page, last),
        Kind::Plan => {
            page.part("budget", "Budget and slowdown");
            plan::curve(&mut page, last);
        }
        Kind::Promise => promise(&mut page, last),
        Kind::History => {
            let slots = list(&last["slots"]);
            history::over_time(&mut page, slots, &history::figures_over_time(slots));
        }
        Kind::WorkingSet => working_set(&mut page, last),
        Kind::Files => files(&mut page, last),
    }
    page.part("all", "All figures");
    fields(&mut page, last);
    Ok(page)
}

fn run(page: &mut Page, report: &Value) {
    let net = number_at(report, &["saved", "net_bytes"]).unwrap_or(0.0);
    let net = match net < 0.0 {
        true => format!("-{}", Bytes(-net as u64)),
        false => Bytes(net as u64).to_string(),
    };
    page.cards(&[
        ("budget", card(report, &["usage", "budget_bytes"])),
        ("usage at its peak", card(report, &["usage", "peak_bytes"])),
        ("working set", card(report, &["working_set_bytes"])),
        ("saved net, on average", net),
    ]);
    page.part("given", "Given back, and its price");
    let pages = |key: &str| {
        bytes_at(report, &["eviction", key])
            .unwrap_or(0)
            .saturating_mul(4096)
    };
    let bar = |name: &str, bytes: u64| Bar {
        name: name.to_owned(),
        to: None,
        parts: vec![bytes],
    };
    let evicted = pages("nr_applied_pages").saturating_add(pages("nr_kernel_chosen_pages"));
    let of = |key: &str| bytes_at(report, &["saved", key]).unwrap_or(0);
    let bars = [
        bar("evicted in all", evicted),
        bar("came back", pages("nr_refaulted_pages")),
        bar("out of memory, on average", of("evicted_bytes")),
        bar("compressed swap", of("zram_bytes")),
        bar("Strata itself", of("strata_bytes")),
    ];
    chart::bars(page, &["memory"], &bars);
    let generations = list(&report["generations"]);
    if !generations.is_empty() {
        page.part("ages", "How old the memory is");
        let youngest = generations.iter().rev().take(SHOWN_MAX);
        let bars = youngest.map(|of| {
            let name = format!("since {} or less", span_at(of, "age_ms"));
            bar_of(name, of, &["anon_bytes", "file_bytes"])
        });
        let bars: Vec<Bar> = bars.collect();
        chart::bars(page, &["anonymous memory", "mapped files"], &bars);
    }
}

/// The name of a group, and the bar it has.
fn group_bars(
    page: &mut Page,
    groups: &[Value],
    names: &[&str],
    parts: impl Fn(&Value) -> Vec<u64>,
) {
    let bars: Vec<Bar> = groups
        .iter()
        .take(SHOWN_MAX)
        .zip(0..)
        .map(|(group, number)| Bar {
            name: text_at(group, "group"),
            to: Some(format!("groups-{number}")),
            parts: parts(group),
        })
        .collect();
    chart::bars(page, names, &bars);
    if let Some(more @ 1..) = groups.len().checked_sub(SHOWN_MAX) {
        page.say(&format!("{more} more groups stand in the table."));
    }
}

fn guard(page: &mut Page, lines: &[Value], last: &Value) {
    page.cards(&[
        ("in memory", card(last, &["resident_bytes"])),
        ("taken and not come back", card(last, &["away_bytes"])),
        ("what that takes", card(last, &["price_bytes"])),
        ("given back net", card(last, &["given_back_bytes"])),
    ]);
    if lines.len() > 1 {
        page.part("time", "Over time");
        let series = [
            ("in memory", "resident_bytes"),
            ("away", "away_bytes"),
            ("price", "price_bytes"),
        ];
        over_time(page, lines, "watched_ms", &series);
    }
    page.part("kinds", "Kinds of memory");
    let kinds = list(&last["kinds"]).iter().map(|of| {
        let bytes = |key: &str| bytes_at(of, &[key]).unwrap_or(0);
        let (used, idle) = (bytes("used_bytes"), bytes("idle_bytes"));
        let rest = bytes("resident_bytes").saturating_sub(used.saturating_add(idle));
        Bar {
            name: text_at(of, "kind"),
            to: None,
            parts: vec![used, idle, rest, bytes("away_bytes")],
        }
    });
    let names = ["used", "idle", "of no known age", "taken and not come back"];
    chart::bars(page, &names, &kinds.collect::<Vec<Bar>>());
    page.part("idle", "Groups");
    let names = ["used lately", "idle", "taken and not come back"];
    group_bars(page, list(&last["groups"]), &names, |group| {
        let parts = ["used_lately_bytes", "idle_bytes", "away_bytes"];
        parts
            .map(|key| bytes_at(group, &[key]).unwrap_or(0))
            .to_vec()
    });
}

fn idle(page: &mut Page, report: &Value) {
    page.cards(&[
        ("in memory", card(report, &["resident_bytes"])),
        ("idle", card(report, &["idle_bytes"])),
        ("idle means not used for", span_at(report, "age_ms")),
        (
            "a safe budget",
            card(report, &["safe_budget", "budget_bytes"]),
        ),
    ]);
    page.part("idle", "Groups by idle memory");
    let of = |group: &Value, path: &[&str]| bytes_at(group, path).unwrap_or(0);
    group_bars(
        page,
        list(&report["groups"]),
        &["idle, anonymous", "idle, files", "the rest in memory"],
        |group| {
            let idle = of(group, &["idle_bytes"]);
            let rest = of(group, &["resident_bytes"]).saturating_sub(idle);
            vec![
                of(group, &["idle", "anon_bytes"]),
                of(group, &["idle", "file_bytes"]),
                rest,
            ]
        },
    );
}

fn promise(page: &mut Page, report: &Value) {
    for (group, number) in list(&report["groups"]).iter().take(SHOWN_MAX).zip(0..) {
        page.part(
            &format!("group-{number}"),
            &format!("Group {number} over time"),
        );
        let series = [
            ("in memory", "resident_bytes"),
            ("away", "away_bytes"),
            ("came back within a minute", "came_back_per_min_bytes"),
        ];
        over_time(page, list(&group["over_time"]), "at_ms", &series);
    }
}

fn working_set(page: &mut Page, report: &Value) {
    page.cards(&[
        ("in memory", card(report, &["resident_bytes"])),
        (
            "never used in the watch",
            card(report, &["untouched_bytes"]),
        ),
    ]);
    page.part("used", "Used within");
    let seconds =
        |of: &Value, key: &str| span((number_at(of, &[key]).unwrap_or(0.0).max(0.0) * 1e6) as u64);
    let bars = |key: &str, of_list: &str| -> Vec<Bar> {
        let bars = list(&report[of_list]).iter().take(SHOWN_MAX);
        let parts = ["anon_bytes", "file_bytes"];
        bars.map(|of| bar_of(seconds(of, key), of, &parts))
            .collect()
    };
    let parts = ["anonymous memory", "files"];
    chart::bars(page, &parts, &bars("seconds", "windows"));
    page.part("unused", "Not used for at least");
    chart::bars(page, &parts, &bars("at_least_seconds", "idle"));
}

fn files(page: &mut Page, report: &Value) {
    page.part("files", "Files in page cache");
    page.cards(&[
        ("page cache", card(report, &["total_bytes"])),
        (
            "files",
            bytes_at(report, &["nr_files"]).map_or_else(|| "-".to_owned(), grouped),
        ),
    ]);
    // Only a watch tells what is idle.
    let (key, parts) = match report["watched"].is_null() {
        true => (
            "used_bytes",
            ["mapped, or read again since it came", "read once"],
        ),
        false => (
            "idle_bytes",
            ["idle: not read in the watch", "the rest in page cache"],
        ),
    };
    let of = |file: &Value, key: &str| bytes_at(file, &[key]).unwrap_or(0);
    let bars = list(&report["files"]).iter().take(SHOWN_MAX).zip(0..);
    let bars = bars.map(|(file, number)| Bar {
        name: text_at(file, "path"),
        to: Some(format!("files-{number}")),
        parts: vec![
            of(file, key),
            of(file, "cached_bytes").saturating_sub(of(file, key)),
        ],
    });
    chart::bars(page, &parts, &bars.collect::<Vec<_>>());
}

/// Tells the page cache of the same host on a page of something else.
pub(super) fn add_files(page: &mut Page, name: &str, lines: &[Value]) -> Result<(), UsageError> {
    let report = lines.last().unwrap_or(&Value::Null);
    if Kind::of(report) != Some(Kind::Files) {
        let hint = "give what strata files --format json prints";
        return Err(UsageError(format!("{name} tells no files: {hint}")));
    }
    if page.has_part("files") {
        return Err(UsageError(
            "--files is for a page of something else than files".to_owned(),
        ));
    }
    files(page, report);
    page.part("all-files", "All figures of files");
    page.say(name);
    fields(page, report);
    Ok(())
}

/// Lines over time, as many moments as a picture has columns, the last included.
fn over_time(page: &mut Page, moments: &[Value], time: &str, series: &[(&str, &str)]) {
    let step = moments.len().div_ceil(COLUMNS_MAX).max(1);
    let skipped = (moments.len().saturating_sub(1)) % step;
    let moments = || moments.iter().skip(skipped).step_by(step);
    let labels: Vec<String> = moments().map(|of| span_at(of, time)).collect();
    let series = series.iter().map(|(name, key)| {
        let values = moments().map(|of| bytes_at(of, &[key]));
        Series::new(*name, "b", values)
    });
    let axis = page.axis(&labels);
    chart::lines(page, &axis, &labels, &series.collect::<Vec<_>>());
}

/// Milliseconds as a time.
fn span_at(value: &Value, key: &str) -> String {
    span(bytes_at(value, &[key]).unwrap_or(0).saturating_mul(1000))
}

/// A bar of what was found under each key, none of what is not known.
fn bar_of(name: String, of: &Value, keys: &[&str]) -> Bar {
    let parts = keys.iter().map(|key| bytes_at(of, &[key]).unwrap_or(0));
    Bar {
        name,
        to: None,
        parts: parts.collect(),
    }
}
