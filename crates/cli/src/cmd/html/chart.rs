//! Pictures in a page: SVG without any text, which stands beside it as HTML and so stays readable on any screen.
//!
//! What a place says is in attributes, which the page's script reads: `data-x` names the axis of a plot; `data-n`, `data-u` and
//! `data-v` the name, unit and values of a series; `data-row` the row of a table; `data-t` a text.
//!
//! **Owns** the drawing. **Does not own** what is drawn.

use std::fmt::{Display, Write};

use strata_linux::units::Bytes;
use strata_sim::plot::svg::{Point, Svg};

use super::page::{Page, escaped, grouped};

/// Heights in a plot's own units.
const HEIGHT: u64 = 1000;
/// Labels below an axis.
const LABELS: usize = 5;
/// Colours of a heat map, and the share of a row up to which each stands, in thousandths.
const LEVELS: [u64; 7] = [20, 60, 150, 300, 500, 750, u64::MAX];

/// A line of a plot, or a row of a heat map.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// `b` for bytes, else the word behind a number.
    pub(super) unit: &'static str,
    /// By column; `None` where it is not known.
    pub(super) values: Vec<Option<u64>>,
}

impl Series {
    pub(super) fn new(
        name: impl Into<String>,
        unit: &'static str,
        values: impl IntoIterator<Item = impl Into<Option<u64>>>,
    ) -> Series {
        Series {
            name: name.into(),
            unit,
            values: values.into_iter().map(Into::into).collect(),
        }
    }

    fn most(&self) -> u64 {
        self.values.iter().flatten().copied().max().unwrap_or(0)
    }

    fn attributes(&self) -> String {
        let value = |value: &Option<u64>| value.map_or_else(String::new, |of| of.to_string());
        let values: Vec<String> = self.values.iter().map(value).collect();
        let (name, unit) = (escaped(&self.name), self.unit);
        format!(
            "data-n=\"{name}\" data-u=\"{unit}\" data-v=\"{}\"",
            values.join(",")
        )
    }
}

fn amount(value: u64, unit: &str) -> String {
    match unit {
        "b" => Bytes(value).to_string(),
        unit => format!("{} {unit}", grouped(value)).trim_end().to_owned(),
    }
}

/// Lines over columns. `axis` is the id of its labels.
pub(super) fn lines(page: &mut Page, axis: &str, labels: &[String], series: &[Series]) {
    let most = series.iter().map(Series::most).max().unwrap_or(0).max(1);
    let nr_columns = labels.len().max(1);
    let mut svg = picture(nr_columns as u64, HEIGHT, "");
    for (number, one) in (1..=4).cycle().zip(series) {
        let place = |(at, value): &(usize, u64)| {
            let y = HEIGHT - share(*value, most, HEIGHT - 20);
            (*at as i64 * 10 + 5, y as i64 * 10)
        };
        // A value that is not known breaks the line.
        let known: Vec<(usize, u64)> = one
            .values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| Some((at, (*value)?)))
            .collect();
        svg.add(format_args!("<g {}>", one.attributes()));
        for piece in known.chunk_by(|(at, _), (next, _)| at + 1 == *next) {
            let mut points: Vec<Point> = piece.iter().map(place).collect();
            if let [(x, y)] = points[..] {
                points.push((x + 6, y));
            }
            svg.polyline(&points, format_args!("class=s{number}"));
        }
        svg.add("</g>");
    }
    let svg = svg.finish();
    let unit = series.first().map_or("", |one| one.unit);
    let most = escaped(&amount(most, unit));
    legend(
        page,
        (1..=4)
            .cycle()
            .zip(series)
            .map(|(number, one)| (format!("s{number}"), one.name.as_str())),
    );
    page.html(&format!(
        "<div class=plot data-x=\"{axis}\" style=\"height:11rem\">{svg}<i class=cur></i><span class=max>{most}</span></div>\n"
    ));
    below(page, labels);
}

/// A picture that fills its place, and says nothing to who can't see it.
pub(super) fn picture(width: u64, height: u64, more: &str) -> Svg {
    let attributes = format_args!("preserveAspectRatio=\"none\" aria-hidden=\"true\" {more}");
    Svg::new(width, height, attributes)
}

/// What the colours mean.
pub(super) fn legend<'a>(
    page: &mut Page,
    entries: impl IntoIterator<Item = (impl Display, &'a str)>,
) {
    let entries = entries.into_iter();
    let entries: String = entries
        .map(|(class, name)| format!("<span><i class=\"{class}\"></i>{}</span>", escaped(name)))
        .collect();
    page.html(&format!("<p class=legend>{entries}</p>\n"));
}

/// Some of the labels, below a plot.
pub(super) fn below(page: &mut Page, labels: &[String]) {
    let last = labels.len().saturating_sub(1);
    let mut places: Vec<usize> = (0..LABELS).map(|at| at * last / (LABELS - 1)).collect();
    places.dedup();
    let labels: String = places
        .into_iter()
        .filter_map(|at| labels.get(at))
        .map(|label| format!("<span>{}</span>", escaped(label)))
        .collect();
    page.html(&format!("<div class=axis>{labels}</div>\n"));
}

/// A row of a heat map.
#[derive(Clone, Debug)]
pub(super) struct HeatRow {
    pub(super) series: Series,
    /// A value that is all of it.
    pub(super) all: u64,
    /// Colours: `l` used, `e` left, `f` came back.
    pub(super) colours: char,
}

/// A heat map. A click on it marks the row `row` of a table.
pub(super) fn heat(page: &mut Page, axis: &str, nr_columns: usize, row: &str, rows: &[HeatRow]) {
    let nr_rows = rows.len().max(1) as u64;
    let crisp = "shape-rendering=\"crispEdges\"";
    let mut svg = picture(nr_columns.max(1) as u64, nr_rows, crisp);
    for (y, of) in rows.iter().enumerate() {
        let mut paths = vec![String::new(); LEVELS.len()];
        let levels: Vec<Option<usize>> = of
            .series
            .values
            .iter()
            .map(|value| level((*value)?, of.all))
            .collect();
        let mut x = 0;
        for same in levels.chunk_by(|a, b| a == b) {
            if let Some(level) = same[0] {
                let _ = write!(paths[level], "M{x} {y}h{0}v1h-{0}z", same.len());
            }
            x += same.len();
        }
        svg.add(format_args!("<g {}>", of.series.attributes()));
        for (level, path) in (1..).zip(&paths).filter(|(_, path)| !path.is_empty()) {
            let class = match of.colours {
                'l' => format!("l{level}"),
                // Three are enough where most is nothing.
                other => format!("{other}{}", 1 + (level - 1) / 3),
            };
            svg.add(format_args!("<path class={class} d=\"{path}\"/>"));
        }
        svg.add("</g>");
    }
    let height_px = (rows.len() * 7).max(14);
    page.html(&format!(
        "<div class=\"plot heat\" data-x=\"{axis}\" data-row=\"{row}\" style=\"height:{height_px}px\">{}<i class=cur></i></div>",
        svg.finish(),
    ));
}

/// The colour of a value, `None` for nothing.
fn level(value: u64, all: u64) -> Option<usize> {
    let of = share(value, all.max(1), HEIGHT);
    (value > 0).then(|| LEVELS.iter().position(|end| of <= *end).unwrap_or(0))
}

/// A bar with parts: label, place that it leads to, parts.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) to: Option<String>,
    /// Bytes by part.
    pub(super) parts: Vec<u64>,
}

/// Bars beneath each other, all on one scale.
pub(super) fn bars(page: &mut Page, parts: &[&str], bars: &[Bar]) {
    let all = |bar: &Bar| {
        bar.parts
            .iter()
            .fold(0, |all: u64, part| all.saturating_add(*part))
    };
    let most = bars.iter().map(all).max().unwrap_or(0).max(1);
    let class = |number: usize| format!("s{}", number % 4 + 1);
    if parts.len() > 1 {
        legend(
            page,
            parts
                .iter()
                .enumerate()
                .map(|(number, name)| (class(number), *name)),
        );
    }
    for bar in bars {
        let name = escaped(&bar.name);
        let name = match &bar.to {
            Some(to) => format!("<a href=\"#{to}\">{name}</a>"),
            None => name,
        };
        let told: Vec<String> = parts
            .iter()
            .zip(&bar.parts)
            .map(|(part, bytes)| format!("{part}: {} ({} bytes)", Bytes(*bytes), grouped(*bytes)))
            .collect();
        let mut track = String::new();
        for (number, bytes) in bar
            .parts
            .iter()
            .enumerate()
            .filter(|(_, bytes)| **bytes > 0)
        {
            let permille = share(*bytes, most, HEIGHT);
            let _ = write!(
                track,
                "<i class={} style=\"width:{}.{}%\"></i>",
                class(number),
                permille / 10,
                permille % 10
            );
        }
        // Line breaks would not outlive being escaped.
        let told = told
            .iter()
            .map(|line| escaped(line))
            .collect::<Vec<_>>()
            .join("&#10;");
        page.html(&format!(
            "<div class=bar><span class=name>{name}</span><span class=track data-t=\"{told}\">{track}</span><span class=sum>{}</span></div>\n",
            Bytes(all(bar))
        ));
    }
}

/// So many of `HEIGHT` or another whole, rounded.
pub(super) fn share(value: u64, all: u64, whole: u64) -> u64 {
    let of = (u128::from(value) * u128::from(whole) + u128::from(all) / 2) / u128::from(all.max(1));
    u64::try_from(of).unwrap_or(u64::MAX).min(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_of_a_heat_map_are_one_shape() {
        let mut page = Page::new("t", "");
        let values = [[100; 100], [0; 100], [1; 100]].concat();
        let row = HeatRow {
            series: Series::new("a\"b", "b", values),
            all: 100,
            colours: 'l',
        };
        heat(&mut page, "x0", 300, "m0", &[row]);
        let html = page.finish();
        assert!(
            html.contains("<path class=l7 d=\"M0 0h100v1h-100z\"/>"),
            "{html}"
        );
        assert!(html.contains("<path class=l1 d=\"M200 0h100v1h-100z\"/>"));
        assert!(html.contains("data-n=\"a&quot;b\""));
    }

    #[test]
    fn a_gap_breaks_a_line() {
        let mut page = Page::new("t", "");
        let values = vec![Some(1), Some(2), None, Some(2), Some(1)];
        let series = Series {
            name: "away".to_owned(),
            unit: "b",
            values,
        };
        let labels: Vec<String> = (0..5).map(|at| format!("{at} h")).collect();
        lines(&mut page, "x0", &labels, &[series]);
        let html = page.finish();
        assert_eq!(html.matches("<polyline").count(), 2);
        assert!(html.contains("data-v=\"1,2,,2,1\""));
        assert!(html.contains("<div class=axis><span>0 h</span>"));
    }
}
