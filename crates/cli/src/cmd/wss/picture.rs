//! The plot of `strata wss`: working sets above, memory by idle time below.
//!
//! **Owns** which bar stands where. **Does not own** the drawing (`strata_sim::plot`).

use strata_host::observe::ledger::{IdleReport, WorkingSetReport};
use strata_sim::plot::{Bars, stacked_bars};

use super::text::span;

/// The picture as SVG.
pub(super) fn draw(report: &WorkingSetReport) -> String {
    let figures = &report.figures;
    let (unit_bytes, unit) = match figures.resident_bytes {
        bytes if bytes < 8 << 20 => (1 << 10, "KiB"),
        bytes if bytes < 16 << 30 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let parts =
        |anon_bytes: u64, file_bytes: u64| vec![anon_bytes / unit_bytes, file_bytes / unit_bytes];
    let mut used: Vec<_> = figures
        .windows
        .iter()
        .map(|w| (span(w.seconds), parts(w.anon_bytes, w.file_bytes)))
        .collect();
    let resident = parts(figures.anon_bytes, figures.file_bytes);
    used.push(("resident".to_owned(), resident));
    let bounds = classes(&figures.idle, figures.anon_bytes, figures.file_bytes);
    let idle = bounds
        .into_iter()
        .map(|(label, anon_bytes, file_bytes)| (label, parts(anon_bytes, file_bytes)));
    let panel = |title: String, x_name: &str, bars: Vec<(String, Vec<u64>)>| Bars {
        title,
        x_name: x_name.to_owned(),
        y_name: unit.to_owned(),
        parts: vec!["anon".to_owned(), "file".to_owned()],
        bars,
    };
    stacked_bars(&[
        panel(format!("{}: used within", report.target), "window", used),
        panel(
            format!(
                "not used since, watched for {}",
                span(report.watched_seconds)
            ),
            "idle at least",
            idle.collect(),
        ),
    ])
}

/// What lies between one bound and the next, with the label of the lower one: anon and file bytes.
fn classes(idle: &[IdleReport], anon_bytes: u64, file_bytes: u64) -> Vec<(String, u64, u64)> {
    let mut bounds = vec![("0".to_owned(), anon_bytes, file_bytes)];
    bounds.extend(idle.iter().map(|bound| {
        let label = span(bound.at_least_seconds as f64);
        (label, bound.anon_bytes, bound.file_bytes)
    }));
    for lower in 0..bounds.len().saturating_sub(1) {
        let (_, anon_above, file_above) = bounds[lower + 1];
        bounds[lower].1 = bounds[lower].1.saturating_sub(anon_above);
        bounds[lower].2 = bounds[lower].2.saturating_sub(file_above);
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::example;
    use super::*;

    #[test]
    fn classes_of_idle_memory_add_up_to_all_of_it() {
        let report = example();
        let figures = &report.figures;
        let classes = classes(&figures.idle, figures.anon_bytes, figures.file_bytes);
        let sum: u64 = classes.iter().map(|(_, anon, file)| anon + file).sum();
        assert_eq!(sum, figures.resident_bytes);
        assert_eq!(classes.len(), 1 + figures.idle.len());
    }

    #[test]
    fn both_panels_have_their_bars() {
        let svg = draw(&example());
        for text in ["resident", "window", "idle at least", "MiB", "1 min"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
        }
    }
}
