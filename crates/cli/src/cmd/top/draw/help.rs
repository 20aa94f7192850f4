//! The help: what the figures mean, and what keys and the mouse do.
//!
//! **Owns** its text, and how it is broken into lines. **Does not own** which part of it is shown (`screen`).
//!
//! **Invariants** I1: all of it can be read on the narrowest terminal.

use ratatui::style::Style;

use super::parts::{Canvas, faint};
use crate::cmd::top::screen::Screen;

const TEXT: [&str; 2] = [
    "How old is the memory of each target? A page's age is the time since it was last found used. The bars stand on one axis, \
     from \"used just now\" at the left to \"not used for an hour\" at the right; their height is the share of the target's \
     largest bar, anon (a) above file (f). Dots: not watched so long.",
    "SIZE in memory; 1s 10s 60s used within; IDLE not used for 60 s; RFLT evicted pages that came back, a second; SWAP swapped \
     out; BUDGET limit of the cgroup; KEPT whether SIZE is within it; AWAY, BACK taken by a guard, of it back within a minute. \
     By kind: ANON anonymous; FILE page cache, of it MAP mapped, SHMEM in memory only, DIRTY to be written; INACT what the \
     kernel takes for unused; COLD not read for 60 s. Nothing is evicted.",
];

/// Each from its [`KEY_COLUMNS`] on: what it does.
const KEYS: &str = "\
Enter    watch the target and show its mappings and history
up down  move; j k PgUp PgDn g G, too
Esc      back
w        begin or end watching one
/        filter by name
s        next order
p        pause
+ -      longer, shorter interval
v        by kind of memory or by age; of one target: mappings or page cache
mouse    wheel moves; a click selects, on a title sorts, again opens
m        mouse off and on; to select text without m, hold Shift
h ?      this help
q        quit";
const KEY_COLUMNS: usize = 9;
/// Two keys stand on a line where each has so much room.
const HALF_COLUMNS: usize = 39;

/// The help in lines of at most so many columns.
pub(super) fn lines(columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for text in TEXT {
        lines.extend(broken(text, columns));
        lines.push(String::new());
    }
    for (key, what) in KEYS.lines().map(|line| line.split_at(KEY_COLUMNS)) {
        let mut what = broken(what, columns.saturating_sub(KEY_COLUMNS)).into_iter();
        let cell = format!("{key}{}", what.next().unwrap_or_default());
        match lines.last_mut() {
            Some(half)
                if columns >= 2 * HALF_COLUMNS
                    && cell.len() <= HALF_COLUMNS
                    && (1..HALF_COLUMNS).contains(&half.len()) =>
            {
                *half = format!("{half:HALF_COLUMNS$}{cell}");
            }
            _ => lines.push(cell),
        }
        lines.extend(what.map(|rest| format!("{:KEY_COLUMNS$}{rest}", "")));
    }
    lines
}

/// A text in lines of at most so many columns, as long as no word is longer.
pub(super) fn broken(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Draws between two lines what fits, from the line on that was scrolled to.
pub(super) fn draw(canvas: &mut Canvas<'_>, screen: &Screen, top: u16, bottom: u16) {
    let width = canvas.area().width;
    let lines = lines(usize::from(width.saturating_sub(2)));
    let mut room = usize::from(bottom.saturating_sub(top));
    if lines.len() > room {
        room = room.saturating_sub(1);
        let more = "up and down scroll, other keys: back";
        canvas.put(1, bottom.saturating_sub(1), width, more, faint());
    }
    let first = screen.help_line.min(lines.len().saturating_sub(room));
    for (line, y) in lines[first..].iter().take(room).zip(top..) {
        canvas.put(1, y, width, line, Style::new());
    }
}
