//! What a guard's history says, as pictures: the database that a guard keeps, or what `guard history` prints of it.
//!
//! **Owns** the columns of time, and the pictures. **Does not own** the database (`strata_host::managed::history`).

use std::path::Path;

use serde_json::Value;
use strata_host::managed::history::{self, Account, By, Question};
use strata_linux::units::Bytes;

use super::chart::{self, HeatRow, Series};
use super::page::{Page, escaped};
use super::value::{bytes_at, card, fields, list, text_at};

/// Groups that have a picture.
const SHOWN_MAX: usize = 40;
/// Columns of a picture.
const COLUMNS_MAX: usize = 300;
/// Up to so long a history is told by minute.
const BY_MINUTE_MAX_S: u64 = 6 * 3600;

/// Time of a history, as far as it fits: the begin and length of a column, the labels.
pub(super) struct Slots {
    first_s: u64,
    by_s: u64,
    labels: Vec<String>,
}

/// The columns for slots of a history; none of an empty one.
pub(super) fn figures_over_time(slots: &[Value]) -> Option<Slots> {
    let at_s = |slot: &Value| bytes_at(slot, &["at_s"]);
    let (first_s, last_s) = (at_s(slots.first()?)?, at_s(slots.last()?)?);
    let pairs = slots.iter().zip(slots.iter().skip(1));
    let gaps = pairs.filter_map(|(one, next)| at_s(next)?.checked_sub(at_s(one)?));
    let slot_s = gaps.filter(|gap| *gap > 0).min().unwrap_or(60);
    let nr_slots = (last_s.saturating_sub(first_s) / slot_s).saturating_add(1);
    let by_s = slot_s.saturating_mul(nr_slots.div_ceil(COLUMNS_MAX as u64));
    let mut labels = vec![String::new(); (last_s.saturating_sub(first_s) / by_s + 1) as usize];
    for slot in slots {
        let column = at_s(slot)?.checked_sub(first_s)? / by_s;
        let label = labels.get_mut(column as usize)?;
        if label.is_empty() {
            *label = text_at(slot, "time");
        }
    }
    Some(Slots {
        first_s,
        by_s,
        labels,
    })
}

impl Slots {
    /// A figure by column: the mean of a column's slots, or their sum.
    fn series(&self, slots: &[Value], name: &str, key: &str, is_sum: bool) -> Series {
        let mut sums = vec![(0_u64, 0_u64); self.labels.len()];
        for slot in slots {
            let column = bytes_at(slot, &["at_s"]).and_then(|at_s| at_s.checked_sub(self.first_s));
            let column = column.and_then(|since_s| sums.get_mut((since_s / self.by_s) as usize));
            if let (Some((nr, sum)), Some(bytes)) = (column, bytes_at(slot, &[key])) {
                *nr += 1;
                *sum = sum.saturating_add(bytes);
            }
        }
        let of = |(nr, sum): (u64, u64)| match is_sum {
            true => (nr > 0).then_some(sum),
            false => sum.checked_div(nr),
        };
        Series::new(name, "b", sums.into_iter().map(of))
    }
}

pub(super) fn over_time(page: &mut Page, slots: &[Value], time: &Option<Slots>) -> Option<String> {
    let Some(time) = time else {
        page.say("No guard that keeps a history has looked at anything in that time.");
        return None;
    };
    let sum = |key: &str| {
        let bytes = slots.iter().filter_map(|slot| bytes_at(slot, &[key]));
        bytes.fold(0, u64::saturating_add)
    };
    page.cards(&[
        ("given back in all", Bytes(sum("taken_bytes")).to_string()),
        (
            "came back in all",
            Bytes(sum("came_back_bytes")).to_string(),
        ),
        (
            "away at the end",
            card(slots.last().unwrap_or(&Value::Null), &["away_bytes"]),
        ),
        (
            "what that takes",
            card(slots.last().unwrap_or(&Value::Null), &["price_bytes"]),
        ),
    ]);
    page.part("time", "Over time");
    let axis = page.axis(&time.labels);
    let means = [
        ("in memory", "resident_bytes"),
        ("used lately", "used_lately_bytes"),
        ("away", "away_bytes"),
        ("price", "price_bytes"),
    ];
    chart::lines(
        page,
        &axis,
        &time.labels,
        &means.map(|(name, key)| time.series(slots, name, key, false)),
    );
    page.say("What was given back in that time, and what came back:");
    let sums = [
        ("given back", "taken_bytes"),
        ("came back", "came_back_bytes"),
    ];
    chart::lines(
        page,
        &axis,
        &time.labels,
        &sums.map(|(name, key)| time.series(slots, name, key, true)),
    );
    Some(axis)
}

/// The page of a history that a guard keeps.
pub(super) fn kept(path: &Path, name: &str) -> anyhow::Result<Page> {
    let ask = |by, from_s, group| {
        let question = Question {
            from_s,
            to_s: i64::MAX as u64,
            by,
            group,
        };
        history::read(path, &question)
    };
    let by_hour = ask(By::Hour, 0, None)?;
    let ends = by_hour.slots.first().zip(by_hour.slots.last());
    let span_s = ends.map_or(0, |(first, last)| last.at_s.saturating_sub(first.at_s));
    let by = match span_s {
        ..BY_MINUTE_MAX_S => By::Minute,
        _ => By::Hour,
    };
    let account: Account = ask(by, 0, None)?;
    let value = serde_json::to_value(&account)?;
    let slots = list(&value["slots"]);
    let mut page = Page::new("What a guard gave back", name);
    let time = figures_over_time(slots);
    let axis = over_time(&mut page, slots, &time);
    if let (Some(time), Some(axis)) = (&time, axis) {
        page.part("groups", "Groups over time");
        page.say("Above what was away of a group; below, where there was any, what came back. Click for its numbers.");
        let colours = [("l7", "most that was away"), ("f3", "came back")];
        chart::legend(&mut page, colours);
        for (group, number) in account.groups.iter().take(SHOWN_MAX).zip(0..) {
            let of_group = serde_json::to_value(ask(by, 0, Some(&group.group))?)?;
            let of_group = list(&of_group["slots"]);
            let series = [
                (time.series(of_group, "away", "away_bytes", false), 'l'),
                (
                    time.series(of_group, "came back", "came_back_bytes", true),
                    'f',
                ),
            ];
            let rows = series.into_iter().map(|(series, colours)| HeatRow {
                all: series.values.iter().flatten().copied().max().unwrap_or(0),
                series,
                colours,
            });
            let who = escaped(&group.group);
            let away = Bytes(group.figures.away_bytes);
            page.html(&format!(
                "<figure id=\"g{number}\"><figcaption><a href=\"#groups-{number}\">{who}</a> <span>{away} away on average</span></figcaption>"
            ));
            chart::heat(
                &mut page,
                &axis,
                time.labels.len(),
                &format!("groups-{number}"),
                &rows.collect::<Vec<_>>(),
            );
            page.html("</figure>\n");
        }
        chart::below(&mut page, &time.labels);
    }
    page.part("all", "All figures");
    fields(&mut page, &value);
    Ok(page)
}
