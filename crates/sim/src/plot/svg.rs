//! The few shapes a picture is made of, and frames with axes.
//!
//! **Owns** coordinates and text of SVG. **Does not own** what is drawn.

use std::fmt::{Display, Write};

/// Pixels.
pub(super) const WIDTH: i64 = 860;
pub(super) const PANEL_HEIGHT: i64 = 340;

/// Coordinates are in tenths of a pixel.
const SCALE: i64 = 10;

/// Most ticks of an axis, the one at 0 not counted.
const NR_TICKS_MAX: u64 = 6;

/// Where a text stands in respect to its point, and its colour.
const START_BLACK: &str = "text-anchor=\"start\" fill=\"#000000\"";
const MIDDLE_GREY: &str = "text-anchor=\"middle\" fill=\"#555555\"";
const END_GREY: &str = "text-anchor=\"end\" fill=\"#555555\"";

/// A picture being drawn.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

/// A point in tenths of a pixel.
pub type Point = (i64, i64);

impl Svg {
    /// An empty picture that is part of a page, with whatever else is said of it.
    pub fn new(width: u64, height: u64, attributes: impl Display) -> Svg {
        let mut svg = Svg {
            text: String::new(),
        };
        svg.add(format_args!(
            "<svg viewBox=\"0 0 {width} {height}\" {attributes}>"
        ));
        svg
    }

    /// A picture of so many pixels that stands for itself, on a ground.
    pub fn document(width: u64, height: u64, attributes: &str, ground: &str) -> Svg {
        let size = format!("width=\"{width}\" height=\"{height}\"");
        let name = "xmlns=\"http://www.w3.org/2000/svg\"";
        let mut svg = Svg::new(width, height, format_args!("{name} {size} {attributes}"));
        svg.add(format_args!("<rect {size} {ground}/>"));
        svg
    }

    pub(super) fn of_panels(nr_panels: usize) -> Svg {
        let height = PANEL_HEIGHT as u64 * nr_panels as u64;
        let font = "font-family=\"sans-serif\" font-size=\"12\"";
        Svg::document(WIDTH as u64, height, font, "fill=\"#ffffff\"")
    }

    /// The picture.
    pub fn finish(mut self) -> String {
        self.add("</svg>");
        self.text
    }

    pub(super) fn line(&mut self, from: Point, to: Point, style: &str) {
        self.add(format_args!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {style}/>",
            Pixels(from.0),
            Pixels(from.1),
            Pixels(to.0),
            Pixels(to.1)
        ));
    }

    /// A line through points.
    pub fn polyline(&mut self, points: &[Point], attributes: impl Display) {
        let points = listed(points);
        self.add(format_args!("<polyline {attributes} points=\"{points}\"/>"));
    }

    /// What is within points.
    pub fn area(&mut self, points: &[Point], attributes: impl Display) {
        let points = listed(points);
        self.add(format_args!("<polygon {attributes} points=\"{points}\"/>"));
    }

    pub(super) fn dot(&mut self, at: Point, colour: &str) {
        let (x, y) = (Pixels(at.0), Pixels(at.1));
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>"
        ));
    }

    /// A text from a point on, or where the attributes say.
    pub fn text(&mut self, at: Point, attributes: impl Display, text: &str) {
        let (x, y, text) = (Pixels(at.0), Pixels(at.1), escaped(text));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" {attributes}>{text}</text>"
        ));
    }

    /// Any element.
    pub fn add(&mut self, element: impl Display) {
        writeln!(self.text, "{element}").expect("a String takes everything");
    }
}

/// Tenths of a pixel, as pixels.
struct Pixels(i64);

impl Display for Pixels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, tenths) = (self.0.div_euclid(SCALE), self.0.rem_euclid(SCALE));
        match tenths {
            0 => write!(f, "{whole}"),
            tenths => write!(f, "{whole}.{tenths}"),
        }
    }
}

fn listed(points: &[Point]) -> String {
    let point = |(x, y): &Point| format!("{},{}", Pixels(*x), Pixels(*y));
    points.iter().map(point).collect::<Vec<_>>().join(" ")
}

/// A text as it stands in markup, in an attribute, too.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let text = text.replace('>', "&gt;").replace('"', "&quot;");
    text.replace('\'', "&#39;")
}

/// A panel's plane: from numbers to points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    left: i64,
    right: i64,
    top: i64,
    bottom: i64,
    x_max: u64,
    y_max: u64,
}

impl Frame {
    /// The panel with this number from the top, room for axes and a legend around it.
    pub(super) fn of_panel(number: i64, width: i64, height: i64) -> Frame {
        let top = number * height * SCALE;
        Frame {
            left: 80 * SCALE,
            right: (width - 190) * SCALE,
            top: top + 40 * SCALE,
            bottom: top + (height - 50) * SCALE,
            x_max: 1,
            y_max: 1,
        }
    }

    /// The frame, for numbers up to `x_max` and `y_max`.
    pub(super) fn spanning(self, x_max: u64, y_max: u64) -> Frame {
        Frame {
            x_max: x_max.max(1),
            y_max: y_max.max(1),
            ..self
        }
    }

    /// The point of a pair of numbers.
    pub(super) fn at(&self, x: u64, y: u64) -> Point {
        let part = |number: u64, most: u64, len: i64| {
            let scaled = u128::from(number.min(most)) * len as u128 / u128::from(most);
            i64::try_from(scaled).unwrap_or(len)
        };
        let x = self.left + part(x, self.x_max, self.right - self.left);
        let y = self.bottom - part(y, self.y_max, self.bottom - self.top);
        (x, y)
    }

    /// Title, axes, ticks and their labels; `y_label` words a number of the y axis.
    pub(super) fn draw(
        &self,
        svg: &mut Svg,
        title: &str,
        names: [&str; 2],
        y_label: impl Fn(u64) -> String,
    ) {
        self.outline(svg, title, names, y_label);
        for x in ticks(self.x_max) {
            let (at, y) = self.at(x, 0);
            svg.line((at, y), (at, y + 5 * SCALE), "stroke=\"#555555\"");
            self.x_label(svg, x, &short(x));
        }
    }

    /// A label below the x axis.
    pub(super) fn x_label(&self, svg: &mut Svg, x: u64, label: &str) {
        let (at, y) = self.at(x, 0);
        svg.text((at, y + 18 * SCALE), MIDDLE_GREY, label);
    }

    /// Draws title, axes and the ticks of the y axis. The x axis has no numbers: [`Frame::x_label`] puts words there.
    pub(super) fn outline(
        &self,
        svg: &mut Svg,
        title: &str,
        [x_name, y_name]: [&str; 2],
        y_label: impl Fn(u64) -> String,
    ) {
        svg.text((self.left, self.top - 20 * SCALE), START_BLACK, title);
        svg.text((self.left, self.top - 6 * SCALE), END_GREY, y_name);
        for y in ticks(self.y_max) {
            let (x, at) = self.at(0, y);
            svg.line((x, at), (self.right, at), "stroke=\"#dddddd\"");
            svg.text((x - 6 * SCALE, at + 4 * SCALE), END_GREY, &y_label(y));
        }
        let middle = (self.left + self.right) / 2;
        svg.text((middle, self.bottom + 36 * SCALE), MIDDLE_GREY, x_name);
        svg.line(
            (self.left, self.bottom),
            (self.right, self.bottom),
            "stroke=\"#555555\"",
        );
    }

    /// A line of the legend beside the frame.
    pub(super) fn legend(&self, svg: &mut Svg, number: usize, colour: &str, text: &str) {
        let y = self.top + (10 + 18 * number as i64) * SCALE;
        let (from, to) = (self.right + 8 * SCALE, self.right + 20 * SCALE);
        let style = format!("stroke=\"{colour}\" stroke-width=\"6\"");
        svg.line((from, y - 4 * SCALE), (to, y - 4 * SCALE), &style);
        svg.text((self.right + 24 * SCALE, y), START_BLACK, text);
    }
}

/// Round numbers from 0 to `most`: steps of 1, 2 or 5 times a power of ten.
fn ticks(most: u64) -> impl Iterator<Item = u64> {
    let steps = (0..20).flat_map(|power| [1, 2, 5].map(|factor| 10u64.pow(power.min(18)) * factor));
    let mut enough = steps.filter(move |step| most / step <= NR_TICKS_MAX);
    let step = enough.next().unwrap_or_else(|| most.max(1));
    (0..=most / step).map(move |number| number * step)
}

/// A number with as few digits as a tick needs.
pub(super) fn short(number: u64) -> String {
    match number {
        n if n > 0 && n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n > 0 && n.is_multiple_of(100_000) && n > 1_000_000 => {
            format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000)
        }
        n if n > 0 && n.is_multiple_of(1000) => format!("{}k", n / 1000),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        for (most, expected) in [
            (0, vec![0]),
            (1, vec![0, 1]),
            (7, vec![0, 2, 4, 6]),
            (100, vec![0, 20, 40, 60, 80, 100]),
            (773_770, vec![0, 200_000, 400_000, 600_000]),
        ] {
            assert_eq!(ticks(most).collect::<Vec<_>>(), expected, "{most}");
        }
        assert!(ticks(u64::MAX).count() <= 1 + NR_TICKS_MAX as usize);
    }

    #[test]
    fn points_stay_inside_and_begin_at_the_corner() {
        let frame = Frame::of_panel(1, 860, 340).spanning(1000, u64::MAX);
        assert_eq!(frame.at(0, 0), (frame.left, frame.bottom));
        assert_eq!(frame.at(1000, u64::MAX), (frame.right, frame.top));
        assert_eq!(frame.at(u64::MAX, 0).0, frame.right);
    }

    #[test]
    fn labels_are_short_and_markup_is_escaped() {
        let labels = [0, 7, 5000, 200_000, 1_500_000, 3_000_000].map(short);
        assert_eq!(labels, ["0", "7", "5k", "200k", "1.5M", "3M"]);
        assert_eq!(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
        assert_eq!(
            (Pixels(-5).to_string(), Pixels(123).to_string()),
            ("-1.5".into(), "12.3".into())
        );
    }
}
