//! The page of all targets: a line each, two where ages are known (anon above file).
//!
//! **Owns** which columns there are at which width. **Does not own** the order of the rows.

use ratatui::style::Style;
use strata_host::observe::overview::{NR_AGES, TargetKind, TargetView, WINDOWS_S};

use super::parts::{BarShape, Canvas, Kind, MARK_COLUMNS, faint, full_bytes, heading};
use crate::cmd::top::column::Column;
use crate::cmd::top::screen::{Order, Screen, USED, View};
use crate::cmd::top::text::{self, NUMBER_COLUMNS};

/// The name, its mark in front, is never narrower than this; columns go for it.
const NAME_COLUMNS_MIN: u16 = 14;
/// Bars get wider once the name has this much.
const NAME_COLUMNS_WIDE: u16 = 24;
/// A bar is never wider than this.
const BAR_COLUMNS_MAX: u16 = 4;

/// How wide it is.
fn width(column: Column) -> u16 {
    match column {
        // The letter of the kind, a space, and the bars.
        Column::Ages { bar_columns } => 2 + bar_columns * NR_AGES as u16,
        Column::Budget => 6,
        Column::Kept => 4,
        _ => NUMBER_COLUMNS as u16,
    }
}

/// By what a click on the title orders.
fn order(column: Column) -> Option<Order> {
    match column {
        Column::Resident => Some(Order::Resident),
        Column::Ages { .. } => Some(Order::Idle),
        Column::Window(USED) => Some(Order::Used),
        Column::Refaults => Some(Order::Refaults),
        Column::Swap => Some(Order::Swap),
        _ => None,
    }
}

fn title(column: Column) -> String {
    let title = match column {
        Column::Window(index) => return format!("{}s", WINDOWS_S[index]),
        Column::CacheRead(age_s) => return format!("{age_s}s"),
        Column::Resident => "SIZE",
        Column::Anon => "ANON",
        Column::File => "FILE",
        Column::Mapped => "MAP",
        Column::Shmem => "SHMEM",
        Column::Dirty => "DIRTY",
        Column::Inactive => "INACT",
        Column::Ages { .. } => "",
        Column::Idle => "IDLE",
        Column::Refaults => "RFLT",
        Column::CacheIdle => "COLD",
        Column::Swap => "SWAP",
        Column::Budget => "BUDGET",
        Column::Kept => "KEPT",
        Column::Given => "GIVEN",
        Column::Away => "AWAY",
        Column::Back => "BACK",
    };
    title.to_owned()
}

/// The columns of a view, each with how much it is needed: where there is no room, those needed least go.
fn of_view(view: View) -> Vec<(Column, u8)> {
    use Column::*;
    match view {
        View::Ages => vec![
            (Resident, 20),
            (Ages { bar_columns: 1 }, 8),
            (Window(0), 1),
            (Window(1), 7),
            (Window(2), 2),
            (Refaults, 5),
            (Swap, 3),
            (Budget, 6),
            (Kept, 4),
        ],
        View::Kinds => vec![
            (Resident, 20),
            (Anon, 13),
            (File, 12),
            (Mapped, 2),
            (Shmem, 6),
            (Dirty, 5),
            (Inactive, 11),
            (CacheRead(10), 3),
            (CacheRead(60), 7),
            (CacheIdle, 10),
            (Swap, 9),
            (Refaults, 4),
            (Budget, 8),
            (Kept, 1),
        ],
    }
}

/// Whether a guard looks after anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarded {
    Somebody,
    Nobody,
}

/// The columns behind the name that fit, and what is left for the name.
fn columns(width: u16, view: View, guarded: Guarded) -> (Vec<Column>, u16) {
    let mut needed = of_view(view);
    if guarded == Guarded::Somebody {
        // What a guard does is why its groups are looked at: of the rest only the size is needed more.
        needed.extend([(Column::Away, 19), (Column::Back, 18)]);
    }
    let mut columns: Vec<Column> = needed.iter().map(|(column, _)| *column).collect();
    let name = |columns: &[Column]| {
        let taken: u16 = columns.iter().map(|column| self::width(*column) + 1).sum();
        width.saturating_sub(taken)
    };
    needed.sort_by_key(|(_, needed)| *needed);
    for (column, _) in needed {
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
fn height(target: &TargetView, view: View) -> u16 {
    match view {
        View::Ages if target.ages.is_some() => 2,
        _ => 1,
    }
}

/// Draws the list between two lines.
pub(super) fn draw(canvas: &mut Canvas<'_>, screen: &Screen, top: u16, bottom: u16) {
    let view = screen.view();
    let mut targets = screen.snapshot.targets.iter();
    let guarded = match targets.any(|target| target.guard.is_some()) {
        true => Guarded::Somebody,
        false => Guarded::Nobody,
    };
    let (columns, name_columns) = columns(canvas.area().width, view, guarded);
    host(canvas, screen, top);
    let top = top + 1;
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
    let heights: Vec<u16> = rows.iter().map(|target| height(target, view)).collect();
    for index in first_shown(&heights, row, bottom.saturating_sub(first_line))..rows.len() {
        if y + heights[index] > bottom {
            break;
        }
        let at = Place {
            columns: &columns,
            name_columns,
            y,
        };
        target(canvas, rows[index], view, &at, index == row);
        canvas.row(y, heights[index], index);
        y += heights[index];
    }
}

/// The line of the whole machine: as many figures as fit.
fn host(canvas: &mut Canvas<'_>, screen: &Screen, y: u16) {
    let Some(host) = &screen.snapshot.host else {
        return;
    };
    let width = canvas.area().width;
    let mut x = canvas.put(MARK_COLUMNS, y, width, "host", faint());
    for part in text::host(host) {
        if x + 2 + part.len() as u16 > width {
            break;
        }
        x = canvas.put(x + 2, y, width, &part, Style::new());
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
    canvas.put(MARK_COLUMNS, y + 1, room, "TARGET", heading());
    canvas.title(0, y + 1, name_columns, Order::Name);
    let mut x = name_columns + 1;
    for column in columns {
        let width = width(*column);
        if let Column::Ages { bar_columns } = column {
            canvas.put(x, y, width, "not used for", faint());
            canvas.axis(x + 2, y + 1, *bar_columns, heading());
        }
        match column {
            Column::CacheRead(10) => canvas.put(x, y, 17, "cache read within", faint()),
            Column::CacheRead(_) if !columns.contains(&Column::CacheRead(10)) => {
                canvas.put(x, y, 10, "cache read", faint())
            }
            _ => x,
        };
        if *column == Column::Away {
            canvas.put(x, y, 11, "by a guard", faint());
        }
        if *column == Column::Window(0) {
            canvas.put(x + 1, y, 17, "used in the last", faint());
        }
        canvas.put_right(x, y + 1, width, &title(*column), heading());
        if let Some(order) = order(*column) {
            canvas.title(x, y + 1, width, order);
        }
        x += width + 1;
    }
}

/// Where a target stands.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    columns: &'a [Column],
    name_columns: u16,
    y: u16,
}

fn target(
    canvas: &mut Canvas<'_>,
    target: &TargetView,
    view: View,
    at: &Place<'_>,
    is_selected: bool,
) {
    let Place {
        columns,
        name_columns,
        y,
    } = *at;
    let ellipsis = canvas.look.glyphs.ellipsis;
    let room = name_columns.saturating_sub(MARK_COLUMNS);
    let name = text::shorten(&target.name, usize::from(room), ellipsis);
    canvas.name(y, room, &name, Style::new(), is_selected);
    if view == View::Kinds {
        let columns = name.chars().count() as u16 + 2;
        let command = text::runs(&target.who);
        let command = command
            .map(|command| text::clean(&command))
            .unwrap_or_default();
        canvas.put(
            MARK_COLUMNS + columns,
            y,
            room.saturating_sub(columns),
            &command,
            faint(),
        );
    }
    let is_told = height(target, view) > 1 && (is_selected || target.is_over);
    if let (true, Some(ages)) = (is_told, &target.ages) {
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
        let width = width(*column);
        let cell = column.cell(target);
        let style = match (column, target.budget) {
            _ if cell == text::UNKNOWN => faint(),
            (Column::Kept, Some(budget)) if budget.is_kept => canvas.look.good(),
            (Column::Kept, _) => canvas.look.bad(),
            _ => Style::new(),
        };
        match column {
            Column::Ages { bar_columns } => ages(canvas, target, *bar_columns, x, y, is_selected),
            _ => canvas.put_right(x, y, width, &cell, style),
        }
        x += width + 1;
    }
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
        let command = text::runs(&target.who);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_guard_has_done_goes_after_all_others_but_the_size() {
        for width in [40, 80, 200] {
            for view in [View::Ages, View::Kinds] {
                let (all, _) = columns(width, view, Guarded::Somebody);
                let has = |column| all.contains(&column);
                assert!(has(Column::Away) && has(Column::Back), "{width} {view:?}");
                let (all, _) = columns(width, view, Guarded::Nobody);
                let has = |column| all.contains(&column);
                assert!(!has(Column::Away) && !has(Column::Back), "{width} {view:?}");
            }
        }
    }

    #[test]
    fn at_80_columns_nothing_is_missing_and_wider_screens_get_wider_bars() {
        let (all, name) = columns(80, View::Ages, Guarded::Nobody);
        assert_eq!((all.len(), name), (9, 15));
        let (all, name) = columns(80, View::Kinds, Guarded::Nobody);
        assert_eq!((all.len(), name), (10, 19));
        assert_eq!(columns(100, View::Kinds, Guarded::Nobody).0.len(), 14);
        let bars = |width| {
            let (columns, _) = columns(width, View::Ages, Guarded::Nobody);
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
        fn columns_never_take_more_than_there_is(
            width in 0u16..400,
            view in prop::sample::select(vec![View::Ages, View::Kinds]),
            guarded in prop::sample::select(vec![Guarded::Somebody, Guarded::Nobody]),
        ) {
            let (columns, name) = columns(width, view, guarded);
            let taken: u16 = columns.iter().map(|column| super::width(*column) + 1).sum();
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
