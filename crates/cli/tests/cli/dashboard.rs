//! The Grafana dashboard and the alerts ask for nothing that there is not, and the documents name all there is.

use crate::support::prelude::*;

use strata_host::metrics::{GUARD_METRICS, METRICS};

/// Names of all metrics.
fn names() -> impl Iterator<Item = &'static str> {
    let of_guard = GUARD_METRICS.iter().map(|metric| metric.name);
    let of_run = METRICS.iter().map(|metric| metric.name);
    of_run.chain(of_guard)
}

/// Names of our metrics in a text.
fn named_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("strata_")).collect()
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
        let named = named_in(query);
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

#[test]
fn alerts_ask_for_metrics_that_there_are() {
    let rules = checkout().join("packaging/prometheus/strata.rules.yml");
    let text = fs::read_to_string(&rules).expect("the alerts");
    let declared: BTreeSet<&str> = names().collect();
    let asked = named_in(&text);
    let unknown: Vec<_> = asked.difference(&declared).collect();
    assert!(
        asked.len() >= 8 && unknown.is_empty(),
        "{unknown:?} of {asked:?}"
    );
    let promtool = match promtool() {
        Ok(promtool) => promtool,
        Err(why) => crate::skip!("{why}"),
    };
    let mut check = Command::new(promtool);
    let checked = check.args(["check", "rules"]).arg(rules).output();
    let checked = checked.expect("it runs");
    assert!(checked.status.success(), "{checked:?}");
}
