//! The Grafana dashboard asks for nothing that there is not, and the documents name all there is.

use crate::support::prelude::*;

use strata_host::metrics::{GUARD_METRICS, METRICS};

/// Names of all metrics.
fn names() -> impl Iterator<Item = &'static str> {
    let of_guard = GUARD_METRICS.iter().map(|metric| metric.name);
    let of_run = METRICS.iter().map(|metric| metric.name);
    of_run.chain(of_guard)
}

fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner.as_str().filter(|_| name == key) {
                    Some(text) => found.push(text),
                    None => strings(inner, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, key, found)),
        _ => {}
    }
}

#[test]
fn every_metric_of_the_dashboard_exists_and_counters_are_shown_as_rates() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana-dashboard.json");
    let text = fs::read_to_string(path).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut queries = Vec::new();
    strings(&dashboard, "expr", &mut queries);
    assert!(queries.len() >= 10, "{queries:?}");
    let declared: BTreeSet<&str> = names().collect();
    for query in queries {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: Vec<&str> = words.filter(|word| word.starts_with("strata_")).collect();
        assert!(!named.is_empty(), "{query} shows nothing of ours");
        for name in named {
            assert!(declared.contains(name), "{name} in {query}");
            let is_rate = query.contains("rate(") || query.contains("increase(");
            assert!(
                !name.ends_with("_total") || is_rate,
                "{query}: of a counter only the rate tells"
            );
        }
    }
}

#[test]
fn every_metric_is_explained_in_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let text = fs::read_to_string(path).expect("the list of metrics");
    let silent: Vec<&str> = names()
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(
        silent.is_empty(),
        "not in docs/reference/metrics.md: {silent:?}"
    );
}
