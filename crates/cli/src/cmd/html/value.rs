//! JSON that another command of Strata has printed: its values by path, and all of them as tables.
//!
//! The scalars of an object are a table of names and values, a list of objects is a table with a row each. A name ends in its unit.
//!
//! **Owns** how a value is found and shown. **Does not own** what the fields mean (`docs/reference/report.md`,
//! `docs/reference/observe.md`).
//!
//! **Invariants** I1: JSON of somebody hostile takes no more than its own size again, and its names are never markup.

use serde_json::{Map, Value};
use strata_linux::units::Bytes;

use super::page::{Cell, Page, escaped, grouped, span};

/// Rows that are looked at for the columns of a table, and columns that it has.
const COLUMNS_MAX: usize = 40;
/// Lists that are told, by their paths.
const LISTS_MAX: usize = 64;

/// The value at a path of keys.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, key| &value[*key])
}

/// A whole number at a path of keys.
pub(super) fn bytes_at(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path).as_u64()
}

/// A number at a path of keys.
pub(super) fn number_at(value: &Value, path: &[&str]) -> Option<f64> {
    at(value, path).as_f64().filter(|number| number.is_finite())
}

pub(super) fn text_at(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn card(value: &Value, path: &[&str]) -> String {
    at(value, path)
        .as_u64()
        .map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string())
}

/// A cell for a value: its name ends in its unit.
fn cell(key: &str, value: &Value) -> Cell {
    let whole = value.as_u64();
    match (value, whole) {
        (Value::Null, _) => Cell::text("-"),
        (Value::Bool(is), _) => Cell::text(if *is { "yes" } else { "no" }),
        (Value::String(text), _) => Cell::text(text.clone()),
        (_, Some(bytes)) if key.ends_with("bytes") => Cell::bytes(bytes),
        (_, Some(ms)) if key.ends_with("_ms") => Cell::number(span(ms.saturating_mul(1000))),
        (_, Some(us)) if key.ends_with("_us") => Cell::number(span(us)),
        (_, Some(ns)) if key.ends_with("_ns") => Cell::number(span(ns / 1000)),
        (_, Some(number)) => Cell::number(grouped(number)),
        (Value::Number(number), _) => Cell::number(number.to_string()),
        _ => Cell::text(""),
    }
}

/// The path of a key below a path.
fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// The scalars of an object, those of objects within by their path; what holds a list is told by `lists`.
fn scalars<'a>(path: &str, object: &'a Map<String, Value>, found: &mut Vec<(String, &'a Value)>) {
    for (key, value) in object {
        let path = below(path, key);
        match value {
            Value::Object(object) => scalars(&path, object, found),
            Value::Array(_) => {}
            scalar => found.push((path, scalar)),
        }
    }
}

/// The lists of an object, those within objects and within rows of lists by their path.
fn lists<'a>(
    path: &str,
    object: &'a Map<String, Value>,
    found: &mut Vec<(String, Vec<&'a Value>)>,
) {
    for (key, value) in object {
        let path = below(path, key);
        match value {
            Value::Object(object) => lists(&path, object, found),
            Value::Array(rows) if !rows.is_empty() => {
                let of_path = found.iter().position(|(known, _)| *known == path);
                match of_path {
                    Some(at) => found[at].1.extend(rows),
                    None if found.len() >= LISTS_MAX => {}
                    None => found.push((path.clone(), rows.iter().collect())),
                }
                for row in rows.iter().filter_map(Value::as_object) {
                    lists(&path, row, found);
                }
            }
            _ => {}
        }
    }
}

/// All figures of an object as tables.
pub(super) fn fields(page: &mut Page, value: &Value) {
    let Some(object) = value.as_object() else {
        return;
    };
    let mut found = Vec::new();
    scalars("", object, &mut found);
    let rows = found.iter().map(|(path, value)| {
        (
            String::new(),
            vec![Cell::text(path.clone()), cell(path, value)],
        )
    });
    page.table(&["figure", "value"], &rows.collect::<Vec<_>>());
    let mut found = Vec::new();
    lists("", object, &mut found);
    for (path, rows) in &found {
        page.html(&format!("<h3>{}</h3>\n", escaped(path)));
        let mut heads: Vec<String> = Vec::new();
        let rows: Vec<Vec<(String, &Value)>> = rows
            .iter()
            .map(|row| {
                let mut found = Vec::new();
                match row.as_object() {
                    Some(object) => scalars("", object, &mut found),
                    None => found.push((String::new(), *row)),
                }
                found
            })
            .collect();
        for (head, _) in rows.iter().take(COLUMNS_MAX).flatten() {
            if !heads.contains(head) && heads.len() < COLUMNS_MAX {
                heads.push(head.clone());
            }
        }
        // What a row is of comes first.
        let is_name = |head: &String| {
            let mut cells = rows.iter().flatten();
            cells.any(|(key, value)| key == head && value.is_string())
        };
        heads.sort_by_cached_key(|head| !is_name(head));
        let id = |row: usize| match path.as_str() {
            "groups" | "files" => format!("{path}-{row}"),
            _ => String::new(),
        };
        let cells = |row: &[(String, &Value)]| -> Vec<Cell> {
            let of = |head: &String| row.iter().find(|(key, _)| key == head);
            heads
                .iter()
                .map(|head| {
                    of(head).map_or_else(|| Cell::text("-"), |(key, value)| cell(key, value))
                })
                .collect()
        };
        let rows = rows
            .iter()
            .enumerate()
            .map(|(at, row)| (id(at), cells(row)));
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        page.table(&heads, &rows.collect::<Vec<_>>());
    }
}
