//! The screen: title, a page, what went wrong or which keys there are.
//!
//! ```text
//!   title            whose ages, how often, paused?
//!   page             list or detail
//!   message          only when there is one
//!   keys
//! ```
//!
//! **Owns** the frame around the pages. **Does not own** the state ([`Screen`]).
//!
//! **Invariants** I1: drawing reads the state and changes nothing. I2: no size of a terminal is an
//! error.

mod detail;
mod files;
mod help;
mod list;
mod parts;
#[cfg(test)]
mod tests;

pub(super) use parts::{Canvas, Charset, Colours, Look};

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::screen::{Page, Screen, Spots};
use super::text;
use parts::{bold, faint};

/// Less than this can't be read.
const COLUMNS_MIN: u16 = 40;
/// A narrower screen has no room for how long targets are held up.
const HOLD_UP_COLUMNS_MIN: u16 = 100;
const LINES_MIN: u16 = 8;
/// The name of a target in the title is not made shorter than this for what else is told.
const TITLE_NAME_COLUMNS_MIN: usize = 12;
/// What went wrong takes no more lines than this.
const MESSAGE_LINES_MAX: u16 = 3;
/// A narrower screen has no room for the source of ages beside the name of a target.
const SOURCE_COLUMNS_MIN: u16 = 60;

/// Draws everything; returns what can be clicked on.
pub(super) fn draw(buffer: &mut Buffer, screen: &Screen, look: Look) -> Spots {
    let mut canvas = Canvas::new(buffer, look);
    let area = canvas.area();
    if area.width < COLUMNS_MIN || area.height < LINES_MIN {
        let needs = format!("strata top needs {COLUMNS_MIN}x{LINES_MIN}");
        canvas.put(0, 0, area.width, &needs, Style::new());
        return canvas.spots;
    }
    title(&mut canvas, screen);
    let last = area.height - 1;
    keys(&mut canvas, screen, last);
    let bottom = match &screen.message {
        None => last,
        Some(message) => {
            let style = canvas.look.bad();
            let lines = help::broken(&text::clean(message), usize::from(area.width));
            let top = last - (lines.len() as u16).min(MESSAGE_LINES_MAX);
            for (line, y) in lines.iter().zip(top..last) {
                canvas.put(0, y, area.width, line, style);
            }
            top
        }
    };
    if screen.is_help_shown {
        help::draw(&mut canvas, screen, 1, bottom);
        return canvas.spots;
    }
    match screen.page {
        Page::List => list::draw(&mut canvas, screen, 1, bottom),
        Page::Detail(_) => detail::draw(&mut canvas, screen, 1, bottom),
    }
    canvas.spots
}

fn title(canvas: &mut Canvas<'_>, screen: &Screen) {
    let width = canvas.area().width;
    let snapshot = &screen.snapshot;
    let mut right = Vec::new();
    if screen.is_paused {
        right.push("PAUSED".to_owned());
    }
    if screen.is_mouse_off {
        right.push("mouse off".to_owned());
    }
    if let Some(source) = snapshot.source.filter(|_| width >= SOURCE_COLUMNS_MIN) {
        let ms = snapshot.walk_us as f64 / 1000.0;
        right.push(format!("{source} walk {ms:.1}ms"));
        if width >= HOLD_UP_COLUMNS_MIN {
            let hold_up = &snapshot.hold_up;
            let held_ms = hold_up.longest_us as f64 / 1000.0;
            right.push(format!(
                "held up {held_ms:.1}ms {:.1}%",
                hold_up.share_percent
            ));
        }
    }
    right.push(format!("every {}", text::time(screen.interval_ms)));
    let right = right.join("  ");
    let right_columns = right.len() as u16;
    canvas.put_right(0, 0, width, &right, faint());
    let room = width.saturating_sub(right_columns + 2);
    let after = canvas.put(0, 0, room, "strata top  ", bold());
    let left = match &screen.page {
        Page::List => {
            let nr_watched = snapshot.targets.iter().filter(|t| t.is_watched).count();
            let nr_targets = snapshot.targets.len();
            let noun = if nr_targets == 1 { "target" } else { "targets" };
            let watched = match nr_watched {
                0 => String::new(),
                _ => format!(", {nr_watched} watched"),
            };
            format!("{nr_targets} {noun}{watched}, by {}", screen.order.name())
        }
        Page::Detail(name) => {
            let suffix = screen.shown().map_or_else(String::new, |target| {
                let watched = target.ages.as_ref().map_or_else(String::new, |ages| {
                    format!("  watched {}", text::time(ages.watched_ms))
                });
                match target.is_over {
                    true => "  has ended".to_owned(),
                    false => watched,
                }
            });
            let room = usize::from(room.saturating_sub(after));
            // Who it is comes before for how long it was watched.
            let suffix = match room.saturating_sub(suffix.len()) {
                0..TITLE_NAME_COLUMNS_MIN => String::new(),
                _ => suffix,
            };
            let room = room.saturating_sub(suffix.len());
            let name = text::shorten(name, room, canvas.look.glyphs.ellipsis);
            format!("{name}{suffix}")
        }
    };
    canvas.put(after, 0, room.saturating_sub(after), &left, Style::new());
}

fn keys(canvas: &mut Canvas<'_>, screen: &Screen, y: u16) {
    let width = canvas.area().width;
    if screen.is_typing {
        let x = canvas.put(0, y, width, "filter: ", bold());
        let x = canvas.put(x, y, width, &format!("{}_", screen.filter), Style::new());
        canvas.put(x, y, width, "  Enter keeps it, Esc ends it", faint());
        return;
    }
    let page: &[(&str, &str)] = match screen.page {
        Page::List => &[("Enter", "open"), ("w", "watch"), ("v", "view")],
        Page::Detail(_) => &[("Esc", "back"), ("w", "watch"), ("v", "view")],
    };
    let common = [
        ("/", "filter"),
        ("s", "order"),
        ("p", "pause"),
        ("+-", "pace"),
    ];
    let last = [("h", "help"), ("q", "quit")];
    let columns = |keys: &[(&str, &str)]| -> usize {
        keys.iter()
            .map(|(key, what)| key.len() + what.len() + 3)
            .sum()
    };
    let mut shown = [page, &common].concat();
    // Help and the way out stay on the narrowest screen.
    while columns(&shown) + columns(&last) > usize::from(width) + 2 {
        shown.pop();
    }
    let mut x = 0;
    for (key, what) in shown.iter().chain(&last) {
        x = canvas.line(
            x,
            y,
            &[
                (key, bold()),
                (" ", Style::new()),
                (what, faint()),
                ("  ", Style::new()),
            ],
        );
    }
    if !screen.filter.is_empty() {
        let filter = format!("filter: {}", screen.filter);
        canvas.put(x, y, width.saturating_sub(x), &filter, bold());
    }
}
