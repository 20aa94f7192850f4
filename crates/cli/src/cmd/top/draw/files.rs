//! The page cache of one cgroup, a line for each file.
//!
//! **Owns** the lines of files on the page of a target. **Does not own** the rest of that page (`detail`).

use ratatui::style::Style;
use strata_host::observe::overview::{TargetKind, TargetView};

use super::list::first_shown;
use super::parts::{Canvas, Kind, MARK_COLUMNS, faint, heading};
use crate::cmd::top::screen::Screen;
use crate::cmd::top::text::{self, NUMBER_COLUMNS, size};

/// Columns of a figure and the space before it.
const PITCH: u16 = NUMBER_COLUMNS as u16 + 1;
/// The figures of a file, of the same width each.
const TITLES: [&str; 4] = ["SIZE", "USED", "DIRTY", "OPEN"];

/// Draws the files between two lines, the titles in the first.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    screen: &Screen,
    target: &TargetView,
    y: u16,
    bottom: u16,
) {
    let name_columns = canvas
        .area()
        .width
        .saturating_sub(PITCH * TITLES.len() as u16);
    canvas.restyle(y, heading());
    let room = name_columns.saturating_sub(MARK_COLUMNS);
    canvas.put(MARK_COLUMNS, y, room, &title(target), heading());
    let figure = |canvas: &mut Canvas<'_>, index: usize, y: u16, text: &str, style: Style| {
        let x = name_columns + index as u16 * PITCH;
        canvas.put_right(x, y, PITCH, text, style);
    };
    for (index, title) in TITLES.into_iter().enumerate() {
        figure(canvas, index, y, title, heading());
    }
    if let Some(why) = why_none(target) {
        if y + 1 < bottom {
            canvas.put(MARK_COLUMNS, y + 1, u16::MAX, why, faint());
        }
        return;
    }
    let (rows, row) = (screen.files(), screen.part_row());
    let lines = bottom.saturating_sub(y + 1);
    let first = first_shown(&vec![1; rows.len()], row, lines);
    let shown = rows.iter().enumerate().skip(first).take(usize::from(lines));
    let room = name_columns.saturating_sub(MARK_COLUMNS + 1);
    for ((index, file), y) in shown.zip(y + 1..) {
        let ellipsis = canvas.look.glyphs.ellipsis;
        let name = text::shorten(&text::file_name(file), usize::from(room), ellipsis);
        let style = canvas.look.kind(Kind::File);
        canvas.name(y, room, &name, style, index == row);
        canvas.row(y, 1, index);
        let figures = [
            size(file.cached_bytes),
            size(file.used_bytes),
            size(file.dirty_bytes),
            text::open(file).to_owned(),
        ];
        for (index, text) in figures.iter().enumerate() {
            figure(canvas, index, y, text, Style::new());
        }
    }
}

fn title(target: &TargetView) -> String {
    match &target.files {
        Some(report) => format!("PAGE CACHE: {}", text::page_cache(report)),
        None => "PAGE CACHE".to_owned(),
    }
}

/// Why there is no list.
fn why_none(target: &TargetView) -> Option<&'static str> {
    match (&target.files, target.kind) {
        (Some(_), _) => None,
        (None, TargetKind::Cgroup) => Some("a census of page cache is being taken"),
        (None, _) => Some("page cache belongs to cgroups: open the cgroup"),
    }
}
