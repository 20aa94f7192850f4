//! Bars of parts upon each other, for figures that come in classes.
//!
//! **Owns** the bars. **Does not own** axes (`svg`), nor what the figures are.

use super::COLOURS;
use super::svg::{Frame, PANEL_HEIGHT, Svg, WIDTH, short};

/// A panel of stacked bars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bars {
    /// What is above the panel.
    pub title: String,
    /// Below the x axis.
    pub x_name: String,
    /// Beside the y axis: the unit of the parts.
    pub y_name: String,
    /// Names of the parts, from the bottom up.
    pub parts: Vec<String>,
    /// A label and the parts of each bar, as many as there are names; missing ones are 0.
    pub bars: Vec<(String, Vec<u64>)>,
}

/// Draws panels below each other as one SVG picture; the same panels give the same bytes.
///
/// ```
/// use strata_sim::plot::{Bars, stacked_bars};
/// let svg = stacked_bars(&[Bars {
///     title: "memory by age".into(),
///     parts: vec!["anon".into(), "file".into()],
///     bars: vec![("1 s".into(), vec![40, 2]), ("2 s".into(), vec![7, 30])],
///     ..Bars::default()
/// }]);
/// assert!(svg.starts_with("<svg ") && svg.contains(">2 s</text>"));
/// ```
pub fn stacked_bars(panels: &[Bars]) -> String {
    let mut svg = Svg::of_panels(panels.len());
    for (number, panel) in panels.iter().enumerate() {
        let frame = Frame::of_panel(number as i64, WIDTH, PANEL_HEIGHT);
        draw(&mut svg, frame, panel);
    }
    svg.finish()
}

fn draw(svg: &mut Svg, frame: Frame, panel: &Bars) {
    let height = |parts: &[u64]| {
        parts
            .iter()
            .fold(0u64, |sum, part| sum.saturating_add(*part))
    };
    let most = panel.bars.iter().map(|(_, parts)| height(parts)).max();
    // Each bar has ten steps of the axis, two of them air.
    let frame = frame.spanning(10 * panel.bars.len() as u64, most.unwrap_or_default());
    frame.outline(svg, &panel.title, [&panel.x_name, &panel.y_name], short);
    for (number, (label, parts)) in (0u64..).zip(&panel.bars) {
        let (left, right) = (10 * number + 1, 10 * number + 9);
        let mut below = 0u64;
        for (part, colour) in parts.iter().zip(COLOURS) {
            let above = below.saturating_add(*part);
            let corners = [(left, below), (left, above), (right, above), (right, below)];
            let corners = corners.map(|(x, y)| frame.at(x, y));
            svg.area(&corners, format_args!("fill=\"{colour}\""));
            below = above;
        }
        frame.x_label(svg, 10 * number + 5, label);
    }
    for (number, (part, colour)) in panel.parts.iter().zip(COLOURS).enumerate() {
        frame.legend(svg, number, colour, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_has_its_label_and_its_parts_in_order() {
        let bar = |label: &str, parts: &[u64]| (label.to_owned(), parts.to_vec());
        let panel = Bars {
            title: "a < b".into(),
            x_name: "age".into(),
            y_name: "MiB".into(),
            parts: vec!["anon".into(), "file".into()],
            bars: vec![bar("1 s", &[30, 10]), bar("2 s", &[0, u64::MAX])],
        };
        let svg = stacked_bars(&[panel.clone(), Bars::default()]);
        assert_eq!(svg.matches("<polygon").count(), 4);
        for text in ["a &lt; b", "age", "MiB", "anon", "file", "1 s", "2 s"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
        }
        assert_eq!(svg, stacked_bars(&[panel, Bars::default()]));
    }
}
