//! The page of one target: its figures, its ages as bars, its mappings, its history.
//!
//! **Owns** how the lines are shared out. **Does not own** the order of the mappings.

use ratatui::style::Style;
use strata_host::observe::ledger::KindBytes;
use strata_host::observe::overview::{AgesView, MappingView, NR_AGES, TargetView, WINDOWS_S};

use super::files;
use super::list::first_shown;
use super::parts::{BarShape, Canvas, Kind, MARK_COLUMNS, bold, faint, full_bytes, heading};
use crate::cmd::top::screen::{Order, Parts, Point, Screen, USED, mapping_name};
use crate::cmd::top::text::{self, NUMBER_COLUMNS, size, size_or_unknown};

/// Columns of the labels at the left.
const LABEL_COLUMNS: u16 = 9;
/// A bar is never wider than this, its gap included.
const PITCH_MAX: u16 = 8;
/// Lines of figures above the bars.
const FIGURE_LINES: u16 = 4;
/// Lines of the history, where there is room.
const HISTORY_LINES: u16 = 3;
/// Mappings that are shown before history gets its lines.
const MAPPING_LINES_MIN: u16 = 4;

/// Draws the target between two lines.
pub(super) fn draw(canvas: &mut Canvas<'_>, screen: &Screen, top: u16, bottom: u16) {
    let Some(target) = screen.shown() else {
        canvas.put(
            1,
            top + 1,
            u16::MAX,
            "it is gone; Esc goes back to the list",
            faint(),
        );
        return;
    };
    figures(canvas, target, top);
    let mut y = top + FIGURE_LINES;
    let Some(ages) = &target.ages else {
        canvas.put(1, y + 1, u16::MAX, "not watched; w watches it", faint());
        return;
    };
    let lines = bottom.saturating_sub(y);
    // Two kinds, each with a line of sizes below its bars, and the axis above.
    let bar_rows = match lines {
        0..14 => 1,
        14..26 => 2,
        _ => 3,
    };
    bars(canvas, ages, y, bar_rows);
    y += 1 + 2 * (bar_rows + 1);
    let left = bottom.saturating_sub(y);
    let history_lines = left
        .saturating_sub(MAPPING_LINES_MIN + 1)
        .min(HISTORY_LINES);
    let history_top = bottom.saturating_sub(history_lines);
    match screen.parts {
        Parts::Mappings => mappings(canvas, screen, ages, y, history_top),
        Parts::Files => files::draw(canvas, screen, target, y, history_top),
    }
    history(canvas, screen, &target.name, history_top, history_lines);
}

fn figures(canvas: &mut Canvas<'_>, target: &TargetView, y: u16) {
    let plain = Style::new();
    let label = |canvas: &mut Canvas<'_>, y: u16, text: &str| {
        canvas.put(1, y, LABEL_COLUMNS - 1, text, faint());
    };
    label(canvas, y, "resident");
    let resident = size_or_unknown(target.resident_bytes);
    let (anon, file) = (
        format!("  anon {}", size_or_unknown(target.anon_bytes)),
        format!("  file {}", size_or_unknown(target.file_bytes)),
    );
    let swap = size_or_unknown(target.swap_bytes);
    let rate = text::rate(target.refaults_per_s);
    let (anon_style, file_style) = (canvas.look.kind(Kind::Anon), canvas.look.kind(Kind::File));
    let parts = [
        (&*resident, bold()),
        (&*anon, anon_style),
        (&*file, file_style),
        ("    swap ", faint()),
        (&*swap, plain),
        ("    refaults ", faint()),
        (&*rate, plain),
        ("/s", plain),
    ];
    let mut x = canvas.line(LABEL_COLUMNS + 1, y, &parts);
    let ages = target.ages.as_ref();
    for (node, bytes) in ages.iter().flat_map(|ages| &ages.nodes) {
        let (of, bytes) = (format!("    node {node} "), size_or_unknown(Some(*bytes)));
        x = canvas.line(x, y, &[(&of, faint()), (&bytes, plain)]);
    }

    label(canvas, y + 1, "used");
    let mut x = LABEL_COLUMNS + 1;
    for (index, seconds) in WINDOWS_S.iter().enumerate() {
        let bytes = ages.and_then(|ages| ages.windows[index].bytes());
        let within = format!(" in {seconds}s    ");
        x = canvas.line(
            x,
            y + 1,
            &[(&size_or_unknown(bytes), bold()), (&within, faint())],
        );
    }
    let idle = size_or_unknown(ages.and_then(|ages| ages.idle_bytes));
    let since = ages.map_or_else(String::new, |ages| {
        format!(" for {}", text::span(ages.idle_after_ms))
    });
    canvas.line(
        x,
        y + 1,
        &[("idle ", faint()), (&idle, bold()), (&since, faint())],
    );

    label(canvas, y + 2, "budget");
    budget(canvas, target, LABEL_COLUMNS + 1, y + 2);
    who(canvas, target, y + 3);
}

/// The line below the figures: who it is, as far as that is known.
fn who(canvas: &mut Canvas<'_>, target: &TargetView, y: u16) {
    let who = &target.who;
    let name = who.label.name();
    let command = text::runs(who);
    let known = [&who.user, &name, &command].into_iter().flatten();
    let known: Vec<String> = known.map(|text| text::clean(text)).collect();
    if !known.is_empty() {
        canvas.put(1, y, LABEL_COLUMNS - 1, "who", faint());
        canvas.put(
            LABEL_COLUMNS + 1,
            y,
            u16::MAX,
            &known.join("  "),
            Style::new(),
        );
    }
}

fn budget(canvas: &mut Canvas<'_>, target: &TargetView, x: u16, y: u16) {
    let Some(budget) = target.budget else {
        canvas.put(x, y, u16::MAX, "none", faint());
        return;
    };
    let width = canvas.area().width.saturating_sub(x).min(100) / 2;
    canvas.gauge(x, y, width, budget.charged_bytes, budget.limit_bytes);
    let difference = size(budget.limit_bytes.abs_diff(budget.charged_bytes));
    let (said, style) = match budget.is_kept {
        true => (format!("kept, {difference} free"), canvas.look.good()),
        false => (format!("OVER by {difference}"), canvas.look.bad()),
    };
    let amount = format!(
        " {} of {}  ",
        size(budget.charged_bytes),
        size(budget.limit_bytes)
    );
    canvas.line(x + width, y, &[(&amount, Style::new()), (&said, style)]);
}

fn bars(canvas: &mut Canvas<'_>, ages: &AgesView, y: u16, rows: u16) {
    let width = canvas.area().width.saturating_sub(LABEL_COLUMNS);
    let pitch = (width / NR_AGES as u16).clamp(1, PITCH_MAX);
    // The first column of a bar stays free where there is room, so that sizes below don't touch.
    let gap = u16::from(pitch > 1);
    let shape = BarShape {
        rows,
        columns: pitch - gap,
        pitch,
    };
    let x = LABEL_COLUMNS + gap;
    canvas.put(1, y, LABEL_COLUMNS - 1, "not used", faint());
    canvas.axis(x, y, pitch, faint());
    let (full, nr_known) = (full_bytes(&ages.bars), ages.nr_known_bars());
    for (kind, name, y) in [
        (Kind::Anon, "anon", y + 1),
        (Kind::File, "file", y + 2 + rows),
    ] {
        let style = canvas.look.kind(kind);
        canvas.put(1, y + rows - 1, LABEL_COLUMNS - 1, name, style);
        canvas.ages((x, y), shape, &ages.bars, kind, nr_known, full);
        if pitch < NUMBER_COLUMNS as u16 {
            continue;
        }
        for (index, bar) in ages.bars.iter().enumerate().take(nr_known) {
            let bytes = kind.of(*bar);
            if bytes > 0 {
                let x = x + index as u16 * pitch;
                canvas.put(x, y + rows, pitch, &size(bytes), Style::new());
            }
        }
    }
}

fn mappings(canvas: &mut Canvas<'_>, screen: &Screen, ages: &AgesView, y: u16, bottom: u16) {
    let width = canvas.area().width;
    // Size, used, idle: a column and a space each; the bars and a space.
    let numbers = 3 * (NUMBER_COLUMNS as u16 + 1);
    let bar_columns = match width {
        0..60 => 0,
        60..110 => 1,
        110..140 => 2,
        _ => 3,
    };
    let bars = bar_columns * NR_AGES as u16 + 1;
    let name_columns = width.saturating_sub(numbers + bars);
    let title = format!("MAPPING by {}", screen.mapping_order.name());
    canvas.restyle(y, heading());
    let room = name_columns.saturating_sub(MARK_COLUMNS + 1);
    canvas.put(MARK_COLUMNS, y, room, &title, heading());
    canvas.title(0, y, name_columns, Order::Name);
    let used_title = format!("{}s", WINDOWS_S[USED]);
    let titles = [
        ("SIZE", Order::Resident),
        (&*used_title, Order::Used),
        ("IDLE", Order::Idle),
    ];
    for ((title, order), nth) in titles.into_iter().zip(0..) {
        let width = NUMBER_COLUMNS as u16;
        let x = name_columns + nth * (width + 1);
        canvas.put_right(x, y, width, title, heading());
        canvas.title(x, y, width, order);
    }
    if bar_columns > 0 {
        canvas.axis(name_columns + numbers, y, bar_columns, heading());
    }
    let rows = screen.mappings();
    let row = screen.part_row();
    let lines = bottom.saturating_sub(y + 1);
    let first = first_shown(&vec![1; rows.len()], row, lines);
    let shown = rows.iter().enumerate().skip(first).take(usize::from(lines));
    for ((index, row_of), y) in shown.zip(y + 1..) {
        let at = MappingLine {
            name_columns,
            numbers,
            bar_columns,
            y,
            is_selected: index == row,
        };
        mapping(canvas, row_of, ages, at);
        canvas.row(y, 1, index);
    }
}

/// Where the parts of a mapping stand.
#[derive(Clone, Copy, Debug)]
struct MappingLine {
    name_columns: u16,
    numbers: u16,
    bar_columns: u16,
    y: u16,
    is_selected: bool,
}

fn mapping(canvas: &mut Canvas<'_>, mapping: &MappingView, ages: &AgesView, at: MappingLine) {
    let ellipsis = canvas.look.glyphs.ellipsis;
    let room = at.name_columns.saturating_sub(MARK_COLUMNS + 1);
    let name = text::shorten(mapping_name(mapping), usize::from(room), ellipsis);
    let kind = main_kind(mapping.resident);
    let style = canvas.look.kind(kind);
    canvas.name(at.y, room, &name, style, at.is_selected);
    let figures = [
        Some(mapping.resident.total_bytes()),
        mapping.windows[USED].bytes(),
        mapping.idle_bytes,
    ];
    for (index, bytes) in figures.into_iter().enumerate() {
        let x = at.name_columns + index as u16 * (NUMBER_COLUMNS as u16 + 1);
        let text = size_or_unknown(bytes);
        canvas.put_right(x, at.y, NUMBER_COLUMNS as u16, &text, Style::new());
    }
    // One line for both kinds: nearly every mapping is of one.
    let both = mapping.bars.map(|bar| match kind {
        Kind::Anon => KindBytes {
            anon_bytes: bar.total_bytes(),
            file_bytes: 0,
        },
        Kind::File => KindBytes {
            anon_bytes: 0,
            file_bytes: bar.total_bytes(),
        },
    });
    let shape = BarShape {
        rows: 1,
        columns: at.bar_columns,
        pitch: at.bar_columns,
    };
    let x = at.name_columns + at.numbers;
    canvas.ages(
        (x, at.y),
        shape,
        &both,
        kind,
        ages.nr_known_bars(),
        full_bytes(&both),
    );
}

fn main_kind(resident: KindBytes) -> Kind {
    match resident.anon_bytes >= resident.file_bytes {
        true => Kind::Anon,
        false => Kind::File,
    }
}

fn history(canvas: &mut Canvas<'_>, screen: &Screen, name: &str, y: u16, lines: u16) {
    type Value = fn(&Point) -> Option<f64>;
    let used = format!("used {}s", WINDOWS_S[USED]);
    let series: [(&str, Value); 3] = [
        (&used, |point| point.used_bytes.map(|bytes| bytes as f64)),
        ("refaults", |point| point.refaults_per_s),
        ("resident", |point| {
            point.resident_bytes.map(|bytes| bytes as f64)
        }),
    ];
    for ((label, value), y) in series.into_iter().zip(y..y + lines) {
        let most = screen.history(name).filter_map(value).fold(0.0, f64::max);
        let most_text = match label {
            "refaults" => format!("{}/s", text::rate(Some(most))),
            _ => size(most as u64),
        };
        let end = format!(" up to {most_text}");
        let end_columns = end.len() as u16 + 1;
        canvas.put(1, y, LABEL_COLUMNS - 1, label, faint());
        let x = LABEL_COLUMNS + 1;
        let width = canvas.area().width.saturating_sub(x + end_columns);
        let newest_first = screen.history(name).rev().map(value);
        canvas.sparkline(x, y, width, newest_first, most, Style::new());
        canvas.put(x + width, y, end_columns, &end, faint());
    }
}
