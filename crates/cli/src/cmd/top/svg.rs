//! The screen as a picture, for documents.
//!
//! **Owns** the SVG. **Does not own** what is on the screen.
//!
//! Blocks are drawn as rectangles and each word at its own column, so that the picture does not depend on the
//! reader's fonts: letters of another width would push the right columns out of it.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use strata_sim::plot::svg::Svg;

/// Size of a cell, pixels.
const CELL_WIDTH: u32 = 9;
const CELL_HEIGHT: u32 = 18;
/// Around the screen, pixels.
const MARGIN: u32 = 12;
/// Of a line, where letters stand.
const BASELINE: u32 = 13;
const BACKGROUND: &str = "#14171c";
const FOREGROUND: &str = "#d7dae0";
const FAINT: &str = "#7d8590";

/// Draws the buffer.
pub(super) fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (
        u32::from(area.width) * CELL_WIDTH + 2 * MARGIN,
        u32::from(area.height) * CELL_HEIGHT + 2 * MARGIN,
    );
    let font = "font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\" font-size=\"15\"";
    let ground = format!("rx=\"6\" fill=\"{BACKGROUND}\"");
    let mut out = Svg::document(width.into(), height.into(), font, &ground);
    for row in 0..area.height {
        let y = MARGIN + u32::from(row) * CELL_HEIGHT;
        let cells: Vec<&Cell> = (0..area.width).map(|x| &buffer[(x, row)]).collect();
        let mut column = 0;
        for alike in cells.chunk_by(|a, b| shape(a) == shape(b) && paint(a) == paint(b)) {
            run(&mut out, alike, column, y);
            column += alike.len();
        }
    }
    out.finish()
}

/// Eighths of a block, or text.
fn shape(cell: &Cell) -> Option<u32> {
    let symbol = cell.symbol().chars().next()?;
    ('\u{2581}'..='\u{2588}')
        .contains(&symbol)
        .then(|| u32::from(symbol) - 0x2580)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Paint {
    text: &'static str,
    behind: Option<&'static str>,
    is_bold: bool,
}

fn paint(cell: &Cell) -> Paint {
    let colour = match cell.fg {
        Color::Cyan => "#4fb3d9",
        Color::Yellow => "#d9b24f",
        Color::Green => "#6cc26c",
        Color::Red => "#e5534b",
        _ if cell.modifier.contains(Modifier::DIM) => FAINT,
        _ => FOREGROUND,
    };
    let is_reversed = cell.modifier.contains(Modifier::REVERSED);
    Paint {
        text: if is_reversed { BACKGROUND } else { colour },
        behind: is_reversed.then_some(colour),
        is_bold: cell.modifier.contains(Modifier::BOLD),
    }
}

/// Cells that look alike.
fn run(out: &mut Svg, cells: &[&Cell], column: usize, y: u32) {
    let mut x = MARGIN + column as u32 * CELL_WIDTH;
    let width = cells.len() as u32 * CELL_WIDTH;
    let paint = paint(cells[0]);
    let mut rect = |top: u32, height: u32, fill: &str| {
        out.add(format_args!(
            "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
        ));
    };
    if let Some(behind) = paint.behind {
        rect(y, CELL_HEIGHT, behind);
    }
    if let Some(eighths) = shape(cells[0]) {
        let height = CELL_HEIGHT * eighths / 8;
        rect(y + CELL_HEIGHT - height, height, paint.text);
        return;
    }
    let weight = if paint.is_bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let is_blank = |cell: &Cell| cell.symbol().trim().is_empty();
    for word in cells.chunk_by(|a, b| is_blank(a) == is_blank(b)) {
        let width = word.len() as u32 * CELL_WIDTH;
        if !is_blank(word[0]) {
            let text: String = word.iter().map(|cell| cell.symbol()).collect();
            let at = (i64::from(x) * 10, i64::from(y + BASELINE) * 10);
            let attributes = format_args!(
                "textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{weight}",
                paint.text
            );
            out.text(at, attributes, &text);
        }
        x += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn every_word_stands_at_its_own_column_and_ends_within_the_picture() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
        buffer.set_string(1, 0, "TARGET  a     SIZE", Style::new());
        buffer.set_string(36, 0, "KEPT", Style::new());
        let picture = svg(&buffer);
        let number = |text: &str, name: &str| -> u32 {
            let value = text.split(&format!(" {name}=\"")).nth(1);
            let value = value.and_then(|rest| rest.split('"').next());
            value
                .and_then(|value| value.parse().ok())
                .expect("a number")
        };
        let width = number(&picture, "width");
        let words: Vec<(u32, u32)> = picture
            .lines()
            .filter(|line| line.starts_with("<text"))
            .map(|line| (number(line, "x"), number(line, "textLength")))
            .collect();
        let at = |column: u32| MARGIN + column * CELL_WIDTH;
        let starts: Vec<u32> = words.iter().map(|(x, _)| *x).collect();
        assert_eq!(starts, [at(1), at(9), at(15), at(36)], "{picture}");
        assert!(words.iter().all(|(x, length)| x + length + MARGIN <= width));
    }

    #[test]
    fn names_can_not_break_out_of_the_picture_and_blocks_are_rectangles() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 2));
        buffer.set_string(0, 0, "</text>&x", Style::new());
        buffer.set_string(
            0,
            1,
            "\u{2588}\u{2588}\u{2584}",
            Style::new().fg(Color::Cyan),
        );
        let picture = svg(&buffer);
        assert!(picture.contains("&lt;/text&gt;&amp;x"), "{picture}");
        assert_eq!(picture.matches("<text").count(), 1);
        let full = "width=\"18\" height=\"18\" fill=\"#4fb3d9\"";
        let half = "width=\"9\" height=\"9\" fill=\"#4fb3d9\"";
        assert!(
            picture.contains(full) && picture.contains(half),
            "{picture}"
        );
    }
}
