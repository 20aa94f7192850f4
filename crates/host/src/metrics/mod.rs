//! The state of a run or a guard in Prometheus' text format.
//!
//! Two tables ([`METRICS`], [`GUARD_METRICS`]) say what there is: name, meaning, type, and how the samples
//! are read off a [`Status`] or a guard's status. The values exist already, so there is no registry and nothing to keep in step; that is
//! why this is a table and not a client library. Names and units follow Prometheus' conventions
//! (`promtool check metrics` is run over the text in a test): seconds and bytes, counters end in
//! `_total`.
//!
//! **Owns** names, units and text. **Does not own** counting (`run`, `managed`), nor how the text is fetched
//! (`remote`).
//!
//! **Invariants**
//! - M1: a metric that is not known in a run has no sample there, rather than 0.
//! - M2: the number of series is bounded whatever the program does, and however many cgroups there are.

mod guard;
mod table;

use crate::managed;
use crate::run::Status;
pub use guard::GUARD_METRICS;
use std::fmt::Write;
pub use table::METRICS;

/// One value, with the labels that tell it from others of its metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Sample {
    /// A value without labels of its own.
    pub(crate) fn of(value: f64) -> Sample {
        Sample {
            labels: Vec::new(),
            value,
        }
    }

    /// The sample with another label.
    pub(crate) fn with(mut self, label: &'static str, text: impl Into<String>) -> Sample {
        self.labels.push((label, text.into()));
        self
    }
}

/// One metric of a `T`.
#[derive(Debug)]
pub struct Metric<T> {
    /// Name of the metric.
    pub name: &'static str,
    /// What the metric says.
    pub help: &'static str,
    read: fn(&T) -> Vec<Sample>,
}

impl<T> Metric<T> {
    /// Whether the metric only grows, as its name says; others go up and down.
    pub fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
    }
}

/// The text of all metrics of a run; each sample has the run's name as a label: the one it was given, else its id.
pub fn render(status: &Status) -> String {
    let id = status.id.clone().unwrap_or_default();
    text_of(METRICS, status, Some(("name", id)))
}

/// The text of all metrics of a guard.
pub fn render_guard(status: &managed::Status) -> String {
    text_of(GUARD_METRICS, status, None)
}

/// The text of these metrics; each sample has the label, if there is one.
fn text_of<T>(metrics: &[Metric<T>], value: &T, label: Option<(&'static str, String)>) -> String {
    let mut text = String::new();
    for metric in metrics {
        let samples = (metric.read)(value);
        if samples.is_empty() {
            continue;
        }
        let (name, help) = (metric.name, metric.help);
        let kind = match metric.is_counter() {
            true => "counter",
            false => "gauge",
        };
        push(
            &mut text,
            format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"),
        );
        for sample in samples {
            let labels = label.clone().into_iter().chain(sample.labels);
            let labels: Vec<String> = labels
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(&value)))
                .collect();
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{{{}}}", labels.join(",")),
            };
            push(&mut text, format_args!("{name}{labels} {}\n", sample.value));
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece)
        .expect("writing to a string can't fail");
}

#[cfg(test)]
mod tests;
