//! The text follows the format, and every metric shows a value that a run counts.

use super::*;
use crate::run::{
    ActuatorChoice, EvictionReport, GenerationReport, IdleReport, KernelReport, LimitReport,
    PolicyChoice, SavedReport, UsageReport, WalkFindings, WalkReport,
};
use std::collections::{BTreeMap, BTreeSet};
use strata_linux::access::WalkCost;

/// A run of which everything is known; each number is another one.
fn full() -> Status {
    let mut last = 0;
    let mut next = || {
        last += 1;
        last * 1000
    };
    Status {
        id: Some("4242".to_owned()),
        target: "redis-server \"a\\b\"\n".to_owned(),
        pid: Some(4243),
        elapsed_ms: next(),
        is_paused: true,
        is_dry_run: true,
        policy: "mglru".parse::<PolicyChoice>().unwrap(),
        actuator: ActuatorChoice::Auto,
        usage_bytes: Some(next()),
        limit_bytes: Some(next()),
        usage: UsageReport {
            budget_bytes: next(),
            peak_bytes: next(),
            mean_bytes: next(),
            nr_samples: next(),
            above_budget_ms: next(),
            observed_ms: next(),
            measured_by: "cgroup_v2",
        },
        limit: Some(LimitReport {
            backstop_bytes: next(),
            peak_bytes: next(),
            nr_raises: next(),
        }),
        working_set_bytes: Some(next()),
        idle: vec![IdleReport {
            at_least_seconds: 10,
            bytes: next(),
        }],
        generations: vec![GenerationReport {
            seq: next(),
            age_ms: next(),
            anon_bytes: next(),
            file_bytes: next(),
        }],
        eviction: Some(EvictionReport {
            nr_tried_pages: next(),
            nr_applied_pages: next(),
            nr_kernel_chosen_pages: next(),
            nr_referenced_pages: next(),
            nr_busy_pages: next(),
            nr_shared_pages: next(),
            nr_dirty_pages: next(),
            nr_unevictable_pages: next(),
            nr_gone_pages: next(),
            nr_not_tried_pages: next(),
            nr_split_pages: next(),
            nr_refaulted_pages: next(),
            nr_refaulted_recent_pages: next(),
            reclaim_asked_bytes: next(),
            reclaim_freed_bytes: next(),
            reclaim_cpu_ns: 0,
            pageout_cpu_ns: 0,
            left_to_programs_ms: next() * 1000,
            nr_thrashing: next(),
        }),
        walks: Some(WalkReport {
            nr_walks: next(),
            nr_spaces: next(),
            nr_spaces_skipped: next(),
            cost: WalkCost {
                nr_entries: next(),
                wall_ns: next() * 1_000_000,
                ..WalkCost::default()
            },
            clear_ns: next() * 1_000_000,
            nr_left_pieces: next(),
            last: WalkFindings::default(),
            entries_per_freed_page: None,
        }),
        kernel: KernelReport {
            nr_major_faults: Some(next()),
            nr_refaulted_anon_pages: Some(next()),
            nr_refaulted_file_pages: Some(next()),
            nr_oom_kills: Some(next()),
            ..KernelReport::default()
        },
        saved: SavedReport {
            evicted_bytes: next(),
            zram_bytes: next(),
            strata_bytes: next(),
            net_bytes: 0,
        },
        tracking_bytes: Some(next()),
        strata_cpu_ms: next(),
        nr_processes: Some(next()),
        warnings: Vec::new(),
    }
}

/// A run of which next to nothing is known.
fn bare() -> Status {
    Status {
        id: None,
        usage_bytes: None,
        limit_bytes: None,
        limit: None,
        working_set_bytes: None,
        idle: Vec::new(),
        generations: Vec::new(),
        eviction: None,
        walks: None,
        kernel: KernelReport::default(),
        tracking_bytes: None,
        nr_processes: None,
        ..full()
    }
}

/// Name and value of every sample.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

#[test]
fn every_declared_metric_shows_a_value_of_its_own() {
    let samples = samples(&render(&full()));
    let mut seen = BTreeSet::new();
    for metric in METRICS {
        let of = |(name, value): (&String, &f64)| {
            let is_its = name.split('{').next() == Some(metric.name);
            is_its.then_some(*value)
        };
        let values: Vec<f64> = samples.iter().filter_map(of).collect();
        assert!(!values.is_empty(), "{} is never shown", metric.name);
        for value in values {
            assert!(value > 0.0, "{} is never counted", metric.name);
            let is_flag = value == 1.0 && !metric.is_counter();
            assert!(
                is_flag || seen.insert(value.to_bits()),
                "{} shows what another metric shows",
                metric.name
            );
        }
    }
}

#[test]
fn what_is_not_known_is_not_shown() {
    let text = render(&bare());
    for absent in [
        "strata_limit_bytes",
        "strata_eviction",
        "strata_walk",
        "strata_idle",
        "strata_kernel",
    ] {
        assert!(!text.contains(absent), "{absent} in:\n{text}");
    }
    assert!(
        text.contains("strata_budget_bytes{name=\"\"} 4000\n"),
        "{text}"
    );
}

#[test]
fn names_and_units_follow_the_conventions() {
    let mut names = BTreeSet::new();
    let runs = METRICS.iter().map(|m| (m.name, m.help));
    let guards = GUARD_METRICS.iter().map(|m| (m.name, m.help));
    for (name, help) in runs.chain(guards) {
        assert!(names.insert(name), "{name} twice");
        assert!(name.starts_with("strata_"), "{name}");
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{name}"
        );
        assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
        for unit in ["_ms", "_ns", "_pages", "_kib", "_mib", "_percent"] {
            assert!(!name.contains(unit), "{name}: seconds, bytes or a count");
        }
    }
}

#[test]
fn labels_are_escaped() {
    let text = render(&full());
    let escaped = r#"target="redis-server \"a\\b\"\n""#;
    assert!(text.contains(escaped), "{text}");
    let is_sample = |line: &str| line.starts_with('#') || line.starts_with("strata_");
    assert!(text.lines().all(is_sample), "{text}");
}
