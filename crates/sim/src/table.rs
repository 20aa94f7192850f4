//! Tables for people: columns as wide as their widest cell, two spaces between them; digits in threes.
//!
//! **Owns** the spacing. **Does not own** what stands in the cells.

/// The lines of a table.
///
/// `head` has the titles with `|` between them. Cells stand at the right of their column; where `<` is in front of a title, at the
/// left. Spaces before a `<` stand before that column instead of two. Spaces in a title make its column as wide. Where no column has
/// a title there is no line of them.
///
/// ```
/// use strata_sim::table::aligned;
/// let row = |size: &str, name: &str| [size.to_owned(), name.to_owned()];
/// let text = aligned("   size|<name", [row("4 KiB", "a"), row("700 MiB", "b")]);
/// assert_eq!(text, "   size  name\n  4 KiB  a\n700 MiB  b\n");
/// ```
pub fn aligned<R: AsRef<[String]>>(head: &str, rows: impl IntoIterator<Item = R>) -> String {
    let columns: Vec<(Option<&str>, &str)> = head
        .split('|')
        .map(|title| match title.split_once('<') {
            Some((gap, title)) => (Some(gap), title),
            None => (None, title),
        })
        .collect();
    let titles: Vec<String> = columns.iter().map(|(_, of)| (*of).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(titles)
        .filter(|titles| titles.iter().any(|title| !title.is_empty()))
        .chain(rows.into_iter().map(|row| row.as_ref().to_vec()))
        .collect();
    let mut lines = vec![String::new(); rows.len()];
    for (at, (left, _)) in columns.iter().enumerate() {
        let widths = rows.iter().map(|row| row[at].chars().count());
        let width = widths.max().unwrap_or(0);
        let gap = match left.unwrap_or_default() {
            "" if at > 0 => "  ",
            gap => gap,
        };
        for (line, row) in lines.iter_mut().zip(&rows) {
            *line += &match left {
                Some(_) => format!("{gap}{:<width$}", row[at]),
                None => format!("{gap}{:>width$}", row[at]),
            };
        }
    }
    let lines = lines.iter().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// Digits in threes.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
