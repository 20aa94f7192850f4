//! The page of all targets: a line each, two where ages are known (anon above file).
//!
//! **Owns** which columns there are at which width. **Does not own** the order of the rows.

use ratatui::style::Style;
use strata_host::observe::overview::{NR_AGES, TargetKind, TargetView, WINDOWS_S};

use super::parts::{Align, BarShape, Canvas, Kind, MARK_COLUMNS, faint, full_bytes, heading};
use crate::cmd::top::screen::Screen;
use crate::cmd::top::text::{self, NUMBER_COLUMNS};

/// The name, its mark in front, is never narrower than this; columns go for it.
const NAME_COLUMNS_MIN: u16 = 14;
/// Bars get wider once the name has this much.
const NAME_COLUMNS_WIDE: u16 = 24;
/// A bar is never wider than this.
const BAR_COLUMNS_MAX: u16 = 4;

/// What stands in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Resident,
    Ages { bar_columns: u16 },
    Window(usize),
    Refaults,
    Swap,
    Budget,
    Kept,
}

impl Column {
    fn columns(self) -> u16 {
        match self {
            // The letter of the kind, a space, and the bars.
            Column::Ages { bar_columns } => 2 + bar_columns * NR_AGES as u16,
            Column::Budget => 6,
            Column::Kept => 4,
            Column::Resident | Column::Window(_) | Column::Refaults | Column::Swap => {
                NUMBER_COLUMNS as u16
            }
        }
    }

    fn title(self) -> String {
        match self {
            Column::Resident => "SIZE".to_owned(),
            Column::Ages { .. } => String::new(),
            Column::Window(index) => format!("{}s", WINDOWS_S[index]),
            Column::Refaults => "RFLT".to_owned(),
            Column::Swap => "SWAP".to_owned(),
            Column::Budget => "BUDGET".to_owned(),
            Column::Kept => "KEPT".to_owned(),
        }
    }
}

/// The columns behind the name that fit, and what is left for the name.
fn columns(width: u16) -> (Vec<Column>, u16) {
    let mut columns = vec![
        Column::Resident,
        Column::Ages { bar_columns: 1 },
        Column::Window(0),
        Column::Window(1),
        Column::Window(2),
        Column::Refaults,
        Column::Swap,
        Column::Budget,
        Column::Kept,
    ];
    let name = |columns: &[Column]| {
        let taken: u16 = columns.iter().map(|column| column.columns() + 1).sum();
        width.saturating_sub(taken)
    };
    // The least needed goes first.
    let dropped = [
        Column::Window(0),
        Column::Window(2),
        Column::Swap,
        Column::Kept,
        Column::Refaults,
        Column::Budget,
        Column::Window(1),
        Column::Ages { bar_columns: 1 },
        Column::Resident,
    ];
    for column in dropped {
        if name(&columns) < NAME_COLUMNS_MIN {
            columns.retain(|kept| *kept != column);
        }
    }
    for bar_columns in 2..=BAR_COLUMNS_MAX {
        let mut wider = columns.clone();
        for column in &mut wider {
            if matches!(column, Column::Ages { .. }) {
                *column = Column::Ages { bar_columns };
            }
        }
        if name(&wider) >= NAME_COLUMNS_WIDE {
            columns = wider;
        }
    }
    let left = name(&columns);
    (columns, left)
}

/// Lines a target takes.
fn height(target: &TargetView) -> u16 {
    if target.ages.is_some() { 2 } else { 1 }
}

/// Draws the list between two lines.
pub(super) fn draw(canvas: &mut Canvas<'_>, screen: &Screen, top: u16, bottom: u16) {
    let (columns, name_columns) = columns(canvas.area().width);
    head(canvas, &columns, name_columns, top);
    let rows = screen.rows();
    let row = screen.row();
    let first_line = top + 2;
    if rows.is_empty() {
        let why = match screen.snapshot.targets.is_empty() {
            true => "nothing seen yet",
            false => "the filter lets nothing through; Esc ends it",
        };
        canvas.put(1, first_line, u16::MAX, why, faint());
        return;
    }
    let mut y = first_line;
    let heights: Vec<u16> = rows.iter().map(|target| height(target)).collect();
    for index in first_shown(&heights, row, bottom.saturating_sub(first_line))..rows.len() {
        if y + heights[index] > bottom {
            break;
        }
        target(canvas, rows[index], &columns, name_columns, y, index == row);
        y += heights[index];
    }
}

/// The first row to draw so that `row` is on the screen.
pub(super) fn first_shown(heights: &[u16], row: usize, lines: u16) -> usize {
    let mut needed = 0;
    let mut first = row;
    for index in (0..=row.min(heights.len().saturating_sub(1))).rev() {
        needed += heights.get(index).copied().unwrap_or(0);
        if needed > lines {
            break;
        }
        first = index;
    }
    first
}

fn head(canvas: &mut Canvas<'_>, columns: &[Column], name_columns: u16, y: u16) {
    canvas.restyle(y + 1, heading());
    let room = name_columns.saturating_sub(MARK_COLUMNS);
    canvas.put_in(MARK_COLUMNS, y + 1, room, Align::Left, "TARGET", heading());
    let mut x = name_columns + 1;
    for column in columns {
        let width = column.columns();
        if let Column::Ages { bar_columns } = column {
            canvas.put(x, y, width, "not used for", faint());
            canvas.axis(x + 2, y + 1, *bar_columns, heading());
        }
        if *column == Column::Window(0) {
            canvas.put(x + 1, y, 17, "used in the last", faint());
        }
        canvas.put_in(x, y + 1, width, Align::Right, &column.title(), heading());
        x += width + 1;
    }
}

fn target(
    canvas: &mut Canvas<'_>,
    target: &TargetView,
    columns: &[Column],
    name_columns: u16,
    y: u16,
    is_selected: bool,
) {
    let ellipsis = canvas.look.glyphs.ellipsis;
    let room = name_columns.saturating_sub(MARK_COLUMNS);
    let name = text::shorten(&target.name, usize::from(room), ellipsis);
    canvas.name(y, room, &name, Style::new(), is_selected);
    if let (true, Some(ages)) = (is_selected || target.is_over, &target.ages) {
        let watched = match target.is_over {
            true => "has ended".to_owned(),
            false => format!("watched {}", text::time(ages.watched_ms)),
        };
        canvas.put(
            MARK_COLUMNS + 1,
            y + 1,
            room.saturating_sub(1),
            &watched,
            faint(),
        );
    }
    let mut x = name_columns + 1;
    for column in columns {
        let width = column.columns();
        match column {
            Column::Ages { bar_columns } => ages(canvas, target, *bar_columns, x, y, is_selected),
            Column::Kept => kept(canvas, target, x, y, width),
            Column::Budget => {
                let limit = target.budget.map(|budget| budget.limit_bytes);
                number(canvas, &text::size_or_unknown(limit), x, y, width);
            }
            Column::Resident => {
                number(
                    canvas,
                    &text::size_or_unknown(target.resident_bytes),
                    x,
                    y,
                    width,
                );
            }
            Column::Window(index) => {
                let ages = target.ages.as_ref();
                let bytes = ages.and_then(|ages| ages.windows[*index].bytes());
                number(canvas, &text::size_or_unknown(bytes), x, y, width);
            }
            Column::Refaults => number(canvas, &text::rate(target.refaults_per_s), x, y, width),
            Column::Swap => {
                number(
                    canvas,
                    &text::size_or_unknown(target.swap_bytes),
                    x,
                    y,
                    width,
                );
            }
        }
        x += width + 1;
    }
}

fn number(canvas: &mut Canvas<'_>, text: &str, x: u16, y: u16, width: u16) {
    let style = if text == text::UNKNOWN {
        faint()
    } else {
        Style::new()
    };
    canvas.put_in(x, y, width, Align::Right, text, style);
}

fn ages(
    canvas: &mut Canvas<'_>,
    target: &TargetView,
    bar_columns: u16,
    x: u16,
    y: u16,
    is_selected: bool,
) {
    let Some(ages) = &target.ages else {
        let inactive = target
            .inactive_bytes
            .filter(|_| target.kind == TargetKind::Cgroup);
        let hint = match inactive {
            _ if is_selected => Some("Enter: watch".to_owned()),
            Some(bytes) => Some(format!("{} inactive", text::size(bytes))),
            None => None,
        };
        let command = target.who.command.as_deref().map(text::command);
        let said: Vec<String> = hint.into_iter().chain(command).collect();
        let room = bar_columns * NR_AGES as u16;
        canvas.put(x + 2, y, room, &text::clean(&said.join("  ")), faint());
        return;
    };
    let shape = BarShape {
        rows: 1,
        columns: bar_columns,
        pitch: bar_columns,
    };
    let (full, nr_known) = (full_bytes(&ages.bars), ages.nr_known_bars());
    for (kind, letter, y) in [(Kind::Anon, "a", y), (Kind::File, "f", y + 1)] {
        canvas.put(x, y, 1, letter, faint());
        canvas.ages((x + 2, y), shape, &ages.bars, kind, nr_known, full);
    }
}

fn kept(canvas: &mut Canvas<'_>, target: &TargetView, x: u16, y: u16, width: u16) {
    let (text, style) = match target.budget {
        None => (text::UNKNOWN, faint()),
        Some(budget) if budget.is_kept => ("yes", canvas.look.good()),
        Some(_) => ("OVER", canvas.look.bad()),
    };
    canvas.put_in(x, y, width, Align::Right, text, style);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn at_80_columns_nothing_is_missing_and_wider_screens_get_wider_bars() {
        let (all, name) = columns(80);
        assert_eq!((all.len(), name), (9, 15));
        let bars = |width| {
            let (columns, _) = columns(width);
            columns.iter().find_map(|column| match column {
                Column::Ages { bar_columns } => Some(*bar_columns),
                _ => None,
            })
        };
        assert_eq!(
            [40, 80, 110, 120, 300].map(bars),
            [Some(1), Some(1), Some(2), Some(3), Some(4)]
        );
    }

    proptest! {
        #[test]
        fn columns_never_take_more_than_there_is(width in 0u16..400) {
            let (columns, name) = columns(width);
            let taken: u16 = columns.iter().map(|column| column.columns() + 1).sum();
            prop_assert!(taken + name <= width.max(taken));
            prop_assert!(columns.is_empty() || name >= NAME_COLUMNS_MIN);
        }

        #[test]
        fn the_selected_row_is_on_the_screen(
            heights in prop::collection::vec(1u16..3, 1..50), row: prop::sample::Index, lines in 2u16..40,
        ) {
            let row = row.index(heights.len());
            let first = first_shown(&heights, row, lines);
            prop_assert!(first <= row);
            prop_assert!(heights[first..=row].iter().sum::<u16>() <= lines);
            let one_more = first > 0 && heights[first - 1..=row].iter().sum::<u16>() <= lines;
            prop_assert!(!one_more, "the screen is used");
        }
    }
}
