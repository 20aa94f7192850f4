//! What both pages are made of: text that stays in its place, bars of ages, sparklines.
//!
//! **Owns** glyphs, colours, and clipping. **Does not own** where things stand.
//!
//! **Invariants**
//! - I1: nothing is drawn outside the area, whatever its size.
//! - I2: nothing is told by colour alone.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use strata_host::observe::ledger::KindBytes;
use strata_host::observe::overview::{AGE_STARTS_S, NR_AGES};

use crate::cmd::top::screen::{Order, Spot, Spots};
use crate::cmd::top::text;

/// Which kind of memory a bar is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Anon,
    File,
}

impl Kind {
    pub(super) fn of(self, bytes: KindBytes) -> u64 {
        match self {
            Kind::Anon => bytes.anon_bytes,
            Kind::File => bytes.file_bytes,
        }
    }
}

/// Characters things are drawn with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glyphs {
    /// An empty cell, and eight that are more and more full.
    levels: [char; 9],
    /// Nothing can be known here yet.
    unknown: char,
    pub(super) ellipsis: char,
    gauge_empty: char,
    gauge_limit: char,
}

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    has_colour: bool,
    pub(super) glyphs: Glyphs,
}

/// Which characters a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Unicode,
    Ascii,
}

/// Whether colours are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    On,
    Off,
}

impl Look {
    pub(crate) fn new(charset: Charset, colours: Colours) -> Look {
        let glyphs = match charset {
            Charset::Unicode => Glyphs {
                levels: [
                    ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}',
                    '\u{2587}', '\u{2588}',
                ],
                unknown: '\u{b7}',
                ellipsis: '\u{2026}',
                gauge_empty: '\u{b7}',
                gauge_limit: '|',
            },
            Charset::Ascii => Glyphs {
                levels: [' ', '_', '_', '.', '-', '-', '=', '=', '#'],
                unknown: '~',
                ellipsis: '~',
                gauge_empty: '.',
                gauge_limit: '|',
            },
        };
        Look {
            has_colour: colours == Colours::On,
            glyphs,
        }
    }

    fn coloured(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(super) fn kind(self, kind: Kind) -> Style {
        self.coloured(match kind {
            Kind::Anon => Color::Cyan,
            Kind::File => Color::Yellow,
        })
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// The mark of the selected row stands in front of its name. Nothing else of the row looks otherwise: bars that are
/// reversed are read as their opposite.
pub(super) const MARK_COLUMNS: u16 = 1;
const MARK: &str = ">";

/// Labels, and what is not known.
pub(super) fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Names of columns.
pub(super) fn heading() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// The buffer, with text that can't leave it.
pub(crate) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub(super) look: Look,
    /// What can be clicked on, of what was drawn.
    pub(super) spots: Spots,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer, look: Look) -> Canvas<'a> {
        Canvas {
            buffer,
            look,
            spots: Spots::default(),
        }
    }

    /// Whole lines are this row.
    pub(super) fn row(&mut self, y: u16, lines: u16, row: usize) {
        let area = Rect::new(0, y, self.area().width, lines);
        self.spots.add(area, Spot::Row(row));
    }

    /// A click on this title orders rows.
    pub(super) fn title(&mut self, x: u16, y: u16, width: u16, order: Order) {
        self.spots
            .add(Rect::new(x, y, width, 1), Spot::Title(order));
    }

    pub(super) fn area(&self) -> Rect {
        self.buffer.area
    }

    /// Writes at most `width` columns; returns the column behind.
    pub(super) fn put(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.area();
        if x >= area.right() || y >= area.bottom() {
            return x;
        }
        let width = usize::from(width.min(area.right() - x));
        self.buffer.set_stringn(x, y, text, width, style).0
    }

    /// Writes at the right end of a column.
    pub(super) fn put_right(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let len = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        let indent = width.saturating_sub(len);
        self.put(x.saturating_add(indent), y, width - indent, text, style);
    }

    /// The name of a row, at most `width` columns, behind its mark.
    pub(super) fn name(&mut self, y: u16, width: u16, name: &str, style: Style, is_selected: bool) {
        let style = match is_selected {
            true => style.add_modifier(Modifier::BOLD),
            false => style,
        };
        if is_selected {
            self.put(0, y, MARK_COLUMNS, MARK, bold());
        }
        self.put(MARK_COLUMNS, y, width, name, style);
    }

    /// Changes how a line looks, whatever is written there.
    pub(super) fn restyle(&mut self, y: u16, style: Style) {
        let area = self.area();
        let line = Rect::new(area.x, y, area.width, 1).intersection(area);
        self.buffer.set_style(line, style);
    }

    /// Writes parts one behind the other on a line, each with its look.
    pub(super) fn line(&mut self, x: u16, y: u16, parts: &[(&str, Style)]) -> u16 {
        let right = self.area().right();
        parts.iter().fold(x, |x, (text, style)| {
            self.put(x, y, right.saturating_sub(x), text, *style)
        })
    }

    /// The bars of one kind over the axis of age, `rows` lines high, the lowest at `y + rows - 1`; each bar
    /// `bar_columns` wide, `pitch` columns from the next. A full bar is `full_bytes`.
    pub(super) fn ages(
        &mut self,
        at: (u16, u16),
        shape: BarShape,
        bars: &[KindBytes; NR_AGES],
        kind: Kind,
        nr_known: usize,
        full_bytes: u64,
    ) {
        let (x, y) = at;
        let style = self.look.kind(kind);
        for (index, bytes) in bars.iter().enumerate() {
            let x = x.saturating_add(index as u16 * shape.pitch);
            let height = eighths(kind.of(*bytes), full_bytes, shape.rows);
            for row in 0..shape.rows {
                let below = usize::from(shape.rows - 1 - row) * 8;
                let level = height.saturating_sub(below).min(8);
                let is_unknown = index >= nr_known && row + 1 == shape.rows;
                let (glyph, style) = match is_unknown {
                    true => (self.look.glyphs.unknown, faint()),
                    false => (self.look.glyphs.levels[level], style),
                };
                let text = glyph.to_string().repeat(usize::from(shape.columns));
                self.put(x, y.saturating_add(row), shape.columns, &text, style);
            }
        }
    }

    /// The starts of the bars, as many as there is room for.
    pub(super) fn axis(&mut self, x: u16, y: u16, pitch: u16, style: Style) {
        let end = x.saturating_add(pitch * NR_AGES as u16);
        let mut free_from = x;
        for (index, start_s) in AGE_STARTS_S.iter().enumerate() {
            let label = text::age(*start_s);
            // A bar too narrow for its label gets none, but the marks people know are tried first.
            let is_mark = matches!(*start_s, 0 | 8 | 64 | 3600) || (*start_s == 512 && pitch > 1);
            let width = label.len() as u16;
            let at = x.saturating_add(index as u16 * pitch);
            let at = at.min(end.saturating_sub(width));
            let has_room = at >= free_from && (pitch > width || is_mark);
            if has_room {
                self.put(at, y, width, &label, style);
                free_from = at.saturating_add(width + 1);
            }
        }
    }

    /// A line of `width` cells for values of time, the newest at the right.
    pub(super) fn sparkline(
        &mut self,
        x: u16,
        y: u16,
        width: u16,
        newest_first: impl Iterator<Item = Option<f64>>,
        full: f64,
        style: Style,
    ) {
        let columns = (x..x.saturating_add(width)).rev();
        for (x, value) in columns.zip(newest_first) {
            let (glyph, style) = match value {
                None => (self.look.glyphs.unknown, faint()),
                Some(value) => {
                    let share = if full > 0.0 { value / full } else { 0.0 };
                    let level = (share * 8.0).ceil().clamp(0.0, 8.0) as usize;
                    (self.look.glyphs.levels[level], style)
                }
            };
            self.put(x, y, 1, &glyph.to_string(), style);
        }
    }

    /// How full something is, with its limit as a mark; what is above stands behind the mark.
    pub(super) fn gauge(&mut self, x: u16, y: u16, width: u16, bytes: u64, limit_bytes: u64) {
        // A tenth of the width is left for what is above the limit.
        let room = width.saturating_sub(width / 10 + 1);
        let cells = |bytes: u64| -> u16 {
            let cells = u128::from(bytes) * u128::from(room) / u128::from(limit_bytes.max(1));
            u16::try_from(cells).unwrap_or(u16::MAX).min(width)
        };
        let nr_full = cells(bytes).max(u16::from(bytes > 0));
        for column in 0..width {
            let is_full = column < nr_full;
            let (glyph, style) = match (column.cmp(&room), is_full) {
                (std::cmp::Ordering::Equal, _) => (self.look.glyphs.gauge_limit, bold()),
                (std::cmp::Ordering::Less, true) => (self.look.glyphs.levels[8], self.look.good()),
                (std::cmp::Ordering::Less, false) => (self.look.glyphs.gauge_empty, faint()),
                (std::cmp::Ordering::Greater, true) => {
                    (self.look.glyphs.levels[8], self.look.bad())
                }
                (std::cmp::Ordering::Greater, false) => (' ', Style::new()),
            };
            self.put(x.saturating_add(column), y, 1, &glyph.to_string(), style);
        }
    }
}

/// How bars of ages are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct BarShape {
    /// Lines they may be high.
    pub(super) rows: u16,
    /// Columns of a bar.
    pub(super) columns: u16,
    /// Columns from one to the next.
    pub(super) pitch: u16,
}

/// Height of a bar in eighths of a line: something is never drawn as nothing.
fn eighths(bytes: u64, full_bytes: u64, rows: u16) -> usize {
    let full = usize::from(rows) * 8;
    let height = u128::from(bytes) * full as u128 / u128::from(full_bytes.max(1));
    let height = usize::try_from(height).unwrap_or(full).min(full);
    height.max(usize::from(bytes > 0))
}

/// The longest bar of either kind.
pub(super) fn full_bytes(bars: &[KindBytes; NR_AGES]) -> u64 {
    let both = bars.iter().flat_map(|bar| [bar.anon_bytes, bar.file_bytes]);
    both.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_never_drawn_as_nothing() {
        assert_eq!(eighths(0, 100, 2), 0);
        assert_eq!(eighths(1, 1 << 40, 2), 1);
        assert_eq!(eighths(50, 100, 2), 8);
        assert_eq!(eighths(u64::MAX, 1, 2), 16);
        assert_eq!(eighths(5, 0, 1), 8);
    }

    fn drawn(draw: impl FnOnce(&mut Canvas<'_>)) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
        let look = Look::new(Charset::Ascii, Colours::Off);
        draw(&mut Canvas::new(&mut buffer, look));
        let cells = buffer.content().iter().map(|cell| cell.symbol());
        cells.collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn what_is_above_the_limit_stands_behind_its_mark() {
        let gauge = |bytes| drawn(|canvas| canvas.gauge(0, 0, 10, bytes, 1000));
        assert_eq!(gauge(0), "........|");
        assert_eq!(gauge(1), "#.......|");
        assert_eq!(gauge(500), "####....|");
        assert_eq!(gauge(1000), "########|");
        assert_eq!(gauge(1300), "########|#");
        assert_eq!(gauge(u64::MAX), "########|#");
    }

    #[test]
    fn a_sparkline_ends_with_the_newest_and_leaves_gaps() {
        let newest_first = [Some(8.0), None, Some(0.0), Some(4.0)];
        let line = drawn(|canvas| {
            canvas.sparkline(0, 0, 6, newest_first.into_iter(), 8.0, Style::new());
        });
        assert_eq!(line, "  - ~#");
    }
}
