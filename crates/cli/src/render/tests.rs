//! The human report against its golden text.

use strata_host::access::{SourceInfo, WalkCost};
use strata_host::control::{
    KernelReport, REPORT_VERSION, SavedReport, UsageReport, WalkFindings, WalkReport,
};

use super::*;

const MIB: u64 = 1 << 20;

fn example() -> Report {
    Report {
        version: REPORT_VERSION,
        target: "redis-server --port 0".to_owned(),
        ending: Ending::Exited { code: 0 },
        elapsed_ms: 60_000,
        is_dry_run: false,
        policy: PolicyChoice::Mglru,
        actuator: ActuatorChoice::Pageout,
        actuator_reason: "pageout was asked for".to_owned(),
        access: Some(SourceInfo {
            name: "bpf",
            grain: Grain::Page,
            blind_spots: vec!["what is read through descriptors".to_owned()],
        }),
        usage: UsageReport {
            budget_bytes: 300 * MIB,
            peak_bytes: 303 * MIB,
            mean_bytes: 291 * MIB,
            nr_samples: 600,
            above_budget_ms: 300,
            observed_ms: 60_000,
            measured_by: "cgroup_v2",
        },
        working_set_bytes: Some(120 * MIB),
        generations: vec![GenerationReport {
            seq: 7,
            age_ms: 61_234,
            anon_bytes: 100 * MIB,
            file_bytes: 0,
        }],
        eviction: EvictionReport {
            nr_tried_pages: 60_000,
            nr_applied_pages: 51_200,
            nr_referenced_pages: 8_800,
            nr_refaulted_pages: 2_560,
            nr_refaulted_recent_pages: 1_000,
            ..EvictionReport::default()
        },
        walks: WalkReport {
            nr_walks: 12,
            nr_spaces: 12,
            nr_spaces_skipped: 0,
            cost: WalkCost::default(),
            clear_ns: 1,
            last: WalkFindings::default(),
            entries_per_freed_page: Some(2.5),
        },
        kernel: KernelReport {
            nr_major_faults: Some(2_600),
            ..KernelReport::default()
        },
        saved: SavedReport {
            evicted_bytes: 200 * MIB,
            zram_bytes: 60 * MIB,
            strata_bytes: 10 * MIB,
            net_bytes: 130 * MIB as i64,
        },
        tracking_bytes: 3 * MIB,
        strata_cpu_ms: 900,
        strata_cpu_percent: 1.5,
        nr_processes: 1,
        warnings: vec!["something to know".to_owned()],
    }
}

fn line<'a>(text: &'a str, label: &str) -> &'a str {
    text.lines()
        .find(|line| line.trim_start().starts_with(label))
        .unwrap_or_else(|| panic!("no line {label:?} in:\n{text}"))
}

#[test]
fn the_report_tells_the_budget_and_how_it_was_kept() {
    let text = report(&example());
    assert_eq!(
        line(&text, "budget"),
        "  budget        300 MiB (cgroup_v2): peak 303 MiB, mean 291 MiB"
    );
    assert_eq!(
        line(&text, "above budget"),
        "  above budget  300 ms of 60.0 s (0.5 %)"
    );
    assert!(line(&text, "saved").contains("130 MiB net"));
    assert!(text.contains("something to know"));
}

#[test]
fn tried_and_applied_stand_apart() {
    let text = report(&example());
    let evicted = line(&text, "evicted");
    assert!(
        evicted.contains("51,200") && evicted.contains("60,000 tried"),
        "{evicted}"
    );
    assert!(line(&text, "not evicted").contains("8,800"));
}

#[test]
fn what_is_not_known_is_never_0() {
    let mut unknown = example();
    unknown.working_set_bytes = None;
    unknown.kernel = KernelReport::default();
    let text = report(&unknown);
    assert!(!text.contains("working set"), "{text}");
    assert_eq!(line(&text, "major faults"), "  major faults  unknown");
}

#[test]
fn a_death_by_the_out_of_memory_killer_is_named() {
    let mut killed = example();
    killed.ending = Ending::Signaled {
        signal: 9,
        is_oom_kill: true,
    };
    let text = report(&killed);
    assert!(
        text.lines()
            .next()
            .is_some_and(|head| head.to_lowercase().contains("memory")),
        "{text}"
    );
}

/// Paths of all fields, `a.b` for objects and `a[].b` for lists of objects.
fn paths(prefix: &str, value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let path = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                paths(&path, value, into);
            }
        }
        serde_json::Value::Array(items) if items.first().is_some_and(|item| item.is_object()) => {
            paths(&format!("{prefix}[]"), &items[0], into);
        }
        _ => {
            into.insert(prefix.to_owned());
        }
    }
}

#[test]
fn every_field_of_the_report_is_documented_and_nothing_else_is() {
    let mut written = std::collections::BTreeSet::new();
    let endings = [
        Ending::Exited { code: 0 },
        Ending::Signaled {
            signal: 9,
            is_oom_kill: false,
        },
        Ending::Detached,
    ];
    for ending in endings {
        let report = Report {
            ending,
            ..example()
        };
        let value = serde_json::to_value(&report).expect("a report is plain data");
        paths("", &value, &mut written);
    }
    let page = include_str!("../../../../docs/report.md");
    let documented: std::collections::BTreeSet<String> = page
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| `")?
                .split('`')
                .next()
                .map(str::to_owned)
        })
        // The object as a whole, which may be null.
        .filter(|path| path != "access")
        .collect();
    assert_eq!(written, documented);
}
