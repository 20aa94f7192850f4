//! A page as HTML: its frame, its texts and its tables.
//!
//! **Owns** how a text gets into a page. **Does not own** pictures (`chart`), nor what is told.
//!
//! **Invariants**
//! - I1: whatever comes from a file goes through [`escaped`]: it can't be markup, in text or in an attribute.
//! - I2: the page loads nothing: style and script stand in it, and it forbids the browser anything else.

use std::fmt::Write;

use strata_linux::plain;
use strata_linux::units::Bytes;
use strata_sim::plot::svg;
pub(super) use strata_sim::table::grouped;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Characters of a text at most: those of a path.
const TEXT_MAX: usize = 4096;
/// Rows of a table at most.
const ROWS_MAX: usize = 500;

/// A text as it stands in HTML, in an attribute, too; characters that can't be seen are shown as `?`. Past [`TEXT_MAX`] it is cut.
pub(super) fn escaped(text: &str) -> String {
    let text: String = plain::line(text).chars().take(TEXT_MAX).collect();
    svg::escaped(&text)
}

/// A time between two moments.
pub(super) fn span(us: u64) -> String {
    let of = |unit_us: u64, unit: &str| {
        let tenths = (u128::from(us) * 10 + u128::from(unit_us) / 2) / u128::from(unit_us);
        match tenths % 10 {
            0 => format!("{} {unit}", tenths / 10),
            rest => format!("{}.{rest} {unit}", tenths / 10),
        }
    };
    match us {
        0 => "0 s".to_owned(),
        1..1000 => format!("{us} us"),
        1000..1_000_000 => of(1000, "ms"),
        1_000_000..600_000_000 => of(1_000_000, "s"),
        600_000_000..36_000_000_000 => of(60_000_000, "min"),
        _ => of(3_600_000_000, "h"),
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    /// What it is exactly.
    title: Option<String>,
    /// The part of the page that it leads to.
    to: Option<String>,
    is_number: bool,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            ..Cell::default()
        }
    }

    pub(super) fn link(text: impl Into<String>, to: String) -> Cell {
        Cell {
            to: Some(to),
            ..Cell::text(text)
        }
    }

    pub(super) fn number(text: impl Into<String>) -> Cell {
        Cell {
            is_number: true,
            ..Cell::text(text)
        }
    }

    pub(super) fn bytes(bytes: u64) -> Cell {
        Cell {
            title: Some(format!("{} bytes", grouped(bytes))),
            ..Cell::number(Bytes(bytes).to_string())
        }
    }

    fn html(&self) -> String {
        let class = match self.is_number {
            true => "",
            false => " class=t",
        };
        let title = self.title.as_ref().map_or_else(String::new, |title| {
            format!(" title=\"{}\"", escaped(title))
        });
        let text = escaped(&self.text);
        let text = match &self.to {
            Some(to) => format!("<a href=\"#{to}\">{text}</a>"),
            None => text,
        };
        format!("<td{class}{title}>{text}</td>")
    }
}

/// A page that grows.
#[derive(Debug)]
pub(super) struct Page {
    title: String,
    nav: String,
    body: String,
    nr_axes: usize,
}

impl Page {
    /// Nothing but a heading and a line below it.
    pub(super) fn new(title: &str, below: &str) -> Page {
        let title = escaped(title);
        Page {
            body: format!("<h1>{title}</h1>\n<p class=dim>{}</p>\n", escaped(below)),
            title,
            nav: String::new(),
            nr_axes: 0,
        }
    }

    /// A part with a heading, which the bar on top leads to.
    pub(super) fn part(&mut self, id: &str, title: &str) {
        let _ = writeln!(self.nav, "<a href=\"#{id}\">{title}</a>");
        let _ = writeln!(self.body, "<h2 id=\"{id}\">{title}</h2>");
    }

    /// Whether there is such a part.
    pub(super) fn has_part(&self, id: &str) -> bool {
        self.nav.contains(&format!("<a href=\"#{id}\">"))
    }

    /// A paragraph.
    pub(super) fn say(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// The figures that are read first.
    pub(super) fn cards(&mut self, cards: &[(&str, String)]) {
        self.body.push_str("<div class=cards>");
        for (name, value) in cards {
            let (name, value) = (escaped(name), escaped(value));
            let _ = write!(self.body, "<div><b>{value}</b>{name}</div>");
        }
        self.body.push_str("</div>\n");
    }

    /// What is HTML already.
    pub(super) fn html(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// An axis that plots refer to by the id that is returned; a label a column.
    pub(super) fn axis(&mut self, labels: &[String]) -> String {
        let id = format!("x{}", self.nr_axes);
        self.nr_axes += 1;
        let labels: Vec<_> = labels.iter().map(|label| plain::line(label)).collect();
        // In a script nothing is markup but its end.
        let labels = serde_json::json!(labels)
            .to_string()
            .replace('<', "\\u003c");
        let _ = writeln!(
            self.body,
            "<script type=\"application/json\" id=\"{id}\">{labels}</script>"
        );
        id
    }

    /// A table; a row has an id or an empty one. Past [`ROWS_MAX`] rows are only counted.
    pub(super) fn table(&mut self, heads: &[&str], rows: &[(String, Vec<Cell>)]) {
        self.body.push_str("<div class=scroll><table><thead><tr>");
        for (at, head) in heads.iter().enumerate() {
            let is_number = rows
                .first()
                .is_some_and(|(_, cells)| cells.get(at).is_some_and(|cell| cell.is_number));
            let class = if is_number { "" } else { " class=t" };
            let _ = write!(self.body, "<th{class}>{}</th>", escaped(head));
        }
        self.body.push_str("</tr></thead><tbody>\n");
        for (id, cells) in rows.iter().take(ROWS_MAX) {
            let id = match id.as_str() {
                "" => String::new(),
                id => format!(" id=\"{id}\""),
            };
            let cells: String = cells.iter().map(Cell::html).collect();
            let _ = writeln!(self.body, "<tr{id}>{cells}</tr>");
        }
        self.body.push_str("</tbody></table></div>\n");
        if let Some(more @ 1..) = rows.len().checked_sub(ROWS_MAX) {
            self.say(&format!("{more} more rows are left out."));
        }
    }

    /// All of it.
    pub(super) fn finish(self) -> String {
        let Page {
            title, nav, body, ..
        } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"generator\" content=\"strata {}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>\n<nav>{nav}</nav>\n<main>\n{body}</main>\n\
             <div id=\"tip\" role=\"status\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body></html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_be_markup_or_an_order_to_the_browser() {
        let evil = "</script><script>alert(1)</script>\"' onload=x &\u{1b}[31m\u{202e}";
        let mut page = Page::new(evil, evil);
        page.say(evil);
        page.cards(&[(evil, evil.to_owned())]);
        page.axis(&[evil.to_owned()]);
        page.table(&[evil], &[(String::new(), vec![Cell::text(evil)])]);
        let html = page.finish();
        assert_eq!(html.matches("<script").count(), 2, "the axis and our own");
        assert_eq!(html.matches("</script>").count(), 2);
        assert!(!html.contains("alert(1)</script>") && !html.contains("\" onload"));
        assert!(!html.contains('\u{1b}') && !html.contains('\u{202e}'));
        assert_eq!(escaped("a<b>\"'&\n"), "a&lt;b&gt;&quot;&#39;&amp;?");
    }

    #[test]
    fn a_long_table_is_cut_and_says_so() {
        let rows = vec![(String::new(), vec![Cell::bytes(2048)]); ROWS_MAX + 3];
        let mut page = Page::new("t", "");
        page.table(&["size"], &rows);
        let html = page.finish();
        assert_eq!(html.matches("<tr>").count(), ROWS_MAX + 1);
        assert!(html.contains("3 more rows are left out"));
        assert!(html.contains("title=\"2,048 bytes\">2 KiB"));
    }

    #[test]
    fn spans_have_the_unit_that_fits() {
        let said = [
            0,
            7,
            1500,
            2_000_000,
            90_500_000,
            7_200_000_000,
            90_000_000_000,
        ]
        .map(span);
        assert_eq!(
            said,
            ["0 s", "7 us", "1.5 ms", "2 s", "90.5 s", "120 min", "25 h"]
        );
    }
}
