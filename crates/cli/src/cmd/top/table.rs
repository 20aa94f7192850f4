//! What `--once` prints for people: lines that can be cut and sorted by other tools.
//!
//! **Owns** the text. **Does not own** the figures.
//!
//! **Invariants** I1: a column is a column in every line: no cell is empty or has a space in it, but the
//! last one, the name.

use strata_host::observe::idle::KindBytes;
use strata_host::observe::overview::{AGE_STARTS_S, AgesView, Snapshot, TargetView, WINDOWS_S};

use super::screen::mapping_name;
use super::text::{self, UNKNOWN, size_or_unknown};

/// Targets in the order given; of each that is watched, ages and mappings below.
pub(super) fn table(snapshot: &Snapshot, rows: &[&TargetView]) -> String {
    let mut text = targets(rows);
    for target in rows {
        if let Some(ages) = &target.ages {
            let (name, watched) = (text::clean(&target.name), text::time(ages.watched_ms));
            text.push_str(&format!("\n{name}: by time not used, watched {watched}\n"));
            text.push_str(&bars(ages));
            text.push_str(&format!("\n{name}: by mapping\n"));
            text.push_str(&mappings(ages));
        }
    }
    if snapshot.source.is_some() {
        text.push_str(&format!("\nheld up {}\n", snapshot.hold_up));
    }
    for trouble in &snapshot.troubles {
        text.push_str(&format!("\nnot seen: {}\n", text::clean(trouble)));
    }
    text
}

fn targets(rows: &[&TargetView]) -> String {
    let titles = [
        "SIZE", "ANON", "FILE", "INACT", "SWAP", "RFLT/s", "BUDGET", "KEPT",
    ];
    let titles = titles.map(str::to_owned).into_iter();
    let head: Vec<String> = titles
        .chain(WINDOWS_S.map(|seconds| format!("{seconds}s")))
        .chain(["IDLE".to_owned(), "TARGET".to_owned()])
        .collect();
    let body = rows.iter().map(|target| {
        let budget = target.budget;
        let kept = budget.map_or(UNKNOWN, |budget| match budget.is_kept {
            true => "yes",
            false => "OVER",
        });
        let ages = target.ages.as_ref();
        let mut cells = vec![
            size_or_unknown(target.resident_bytes),
            size_or_unknown(target.anon_bytes),
            size_or_unknown(target.file_bytes),
            size_or_unknown(target.inactive_bytes),
            size_or_unknown(target.swap_bytes),
            text::rate(target.refaults_per_s),
            size_or_unknown(budget.map(|budget| budget.limit_bytes)),
            kept.to_owned(),
        ];
        let window = |index: usize| ages.and_then(|ages| ages.windows[index].bytes());
        cells.extend((0..WINDOWS_S.len()).map(|index| size_or_unknown(window(index))));
        cells.push(size_or_unknown(ages.and_then(|ages| ages.idle_bytes)));
        cells.push(text::clean(&target.name));
        cells
    });
    aligned(head, body)
}

fn bars(ages: &AgesView) -> String {
    let head = ["FROM", "ANON", "FILE"].map(str::to_owned).to_vec();
    let known = AGE_STARTS_S
        .iter()
        .zip(&ages.bars)
        .take(ages.nr_known_bars());
    let body = known.map(|(start_s, bar): (&u64, &KindBytes)| {
        vec![
            text::age(*start_s),
            text::size(bar.anon_bytes),
            text::size(bar.file_bytes),
        ]
    });
    aligned(head, body)
}

fn mappings(ages: &AgesView) -> String {
    let head: Vec<String> = std::iter::once("SIZE".to_owned())
        .chain(WINDOWS_S.map(|seconds| format!("{seconds}s")))
        .chain(["IDLE".to_owned(), "MAPPING".to_owned()])
        .collect();
    let body = ages.mappings.iter().map(|mapping| {
        let mut cells = vec![text::size(mapping.resident.total_bytes())];
        cells.extend(
            mapping
                .windows
                .map(|window| size_or_unknown(window.bytes())),
        );
        cells.push(size_or_unknown(mapping.idle_bytes));
        cells.push(text::clean(mapping_name(mapping)));
        cells
    });
    aligned(head, body)
}

/// Numbers to the right, what is last to the left.
fn aligned(head: Vec<String>, body: impl Iterator<Item = Vec<String>>) -> String {
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(body).collect();
    let last = lines[0].len() - 1;
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].len())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..last).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("{cell:>width$}  "));
        }
        text.push_str(&line[last]);
        text.push('\n');
    }
    text
}
