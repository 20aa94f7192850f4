//! What there is to be measured.
//!
//! **Owns** the table. **Does not own** the text format.

use super::{Metric, Sample};
use crate::run::{EvictionReport, Status, WalkReport};
use strata_linux::addr::PAGE_BYTES;

/// Every metric. `strata_eviction_*` tells tried from applied, as everything else here does.
pub const METRICS: &[Metric<Status>] = &[
    Metric {
        name: "strata_run_info",
        help: "What is run, who decides and who takes the pages; always 1.",
        read: |status| {
            let info = Sample::of(1.0)
                .with("target", status.target.clone())
                .with("policy", word(&status.policy))
                .with("actuator", word(&status.actuator))
                .with("measured_by", status.usage.measured_by);
            vec![info]
        },
    },
    Metric {
        name: "strata_uptime_seconds",
        help: "Time since the run began.",
        read: |status| vec![seconds(status.elapsed_ms)],
    },
    Metric {
        name: "strata_paused",
        help: "1 while nothing is taken because the run is paused.",
        read: |status| vec![flag(status.is_paused)],
    },
    Metric {
        name: "strata_dry_run",
        help: "1 while evictions are decided and not carried out.",
        read: |status| vec![flag(status.is_dry_run)],
    },
    Metric {
        name: "strata_processes",
        help: "Processes managed now.",
        read: |status| known(status.nr_processes, |count| Sample::of(count as f64)),
    },
    Metric {
        name: "strata_usage_bytes",
        help: "Memory in use, as of the last sample.",
        read: |status| known(status.usage_bytes, bytes),
    },
    Metric {
        name: "strata_usage_peak_bytes",
        help: "Highest sample of memory in use.",
        read: |status| vec![bytes(status.usage.peak_bytes)],
    },
    Metric {
        name: "strata_usage_samples_total",
        help: "Samples of memory in use.",
        read: |status| vec![Sample::of(status.usage.nr_samples as f64)],
    },
    Metric {
        name: "strata_budget_bytes",
        help: "Memory the program may use.",
        read: |status| vec![bytes(status.usage.budget_bytes)],
    },
    Metric {
        name: "strata_limit_bytes",
        help: "The kernel's hard limit as it stands.",
        read: |status| known(status.limit_bytes, bytes),
    },
    Metric {
        name: "strata_limit_raises_total",
        help: "How often the limit gave way rather than have the program killed or thrash.",
        read: |status| known(status.limit, |limit| Sample::of(limit.nr_raises as f64)),
    },
    Metric {
        name: "strata_above_budget_seconds_total",
        help: "Time above the budget.",
        read: |status| vec![seconds(status.usage.above_budget_ms)],
    },
    Metric {
        name: "strata_observed_seconds_total",
        help: "Time for which usage is known.",
        read: |status| vec![seconds(status.usage.observed_ms)],
    },
    Metric {
        name: "strata_working_set_bytes",
        help: "Memory accessed between the last two walks.",
        read: |status| known(status.working_set_bytes, bytes),
    },
    Metric {
        name: "strata_idle_bytes",
        help: "Memory certainly not accessed for at least so many seconds before the last walk.",
        read: |status| {
            let of = |idle: &crate::run::IdleReport| {
                bytes(idle.bytes).with("at_least_seconds", idle.at_least_seconds.to_string())
            };
            status.idle.iter().map(of).collect()
        },
    },
    Metric {
        name: "strata_generation_bytes",
        help: "Memory in a generation, counted from the youngest, which is 0.",
        read: |status| {
            let all = by_youth(status);
            let both = all.flat_map(|(youth, generation)| {
                let of = |kind, size| {
                    bytes(size)
                        .with("generation", youth.clone())
                        .with("kind", kind)
                };
                [
                    of("anon", generation.anon_bytes),
                    of("file", generation.file_bytes),
                ]
            });
            both.collect()
        },
    },
    Metric {
        name: "strata_generation_age_seconds",
        help: "Time since a generation was born, counted from the youngest, which is 0.",
        read: |status| {
            let all = by_youth(status);
            all.map(|(youth, generation)| seconds(generation.age_ms).with("generation", youth))
                .collect()
        },
    },
    Metric {
        name: "strata_eviction_tried_bytes_total",
        help: "Pages handed to the actuator to be taken.",
        read: |status| evicted(status, |of| of.nr_tried_pages),
    },
    Metric {
        name: "strata_eviction_applied_bytes_total",
        help: "Pages that left memory because exactly they were asked for.",
        read: |status| evicted(status, |of| of.nr_applied_pages),
    },
    Metric {
        name: "strata_eviction_kernel_chosen_bytes_total",
        help: "Pages that left memory by the kernel's choice.",
        read: |status| evicted(status, |of| of.nr_kernel_chosen_pages),
    },
    Metric {
        name: "strata_eviction_spared_bytes_total",
        help: "Pages that were chosen and did not go, by reason.",
        read: |status| {
            let reasons = status.eviction.iter().flat_map(spared);
            let of = |(reason, nr_pages)| pages(nr_pages).with("reason", reason);
            reasons.map(of).collect()
        },
    },
    Metric {
        name: "strata_reclaim_asked_bytes_total",
        help: "What the kernel was asked to reclaim ahead of the limit.",
        read: |status| known(status.eviction, |of| bytes(of.reclaim_asked_bytes)),
    },
    Metric {
        name: "strata_reclaim_freed_bytes_total",
        help: "What usage fell by while the kernel reclaimed as asked.",
        read: |status| known(status.eviction, |of| bytes(of.reclaim_freed_bytes)),
    },
    Metric {
        name: "strata_left_to_programs_seconds_total",
        help: "Time for which no processor was free and programs reclaimed in their own faults.",
        read: |status| known(status.eviction, |of| seconds(of.left_to_programs_ms)),
    },
    Metric {
        name: "strata_thrashing_total",
        help: "How often nothing older than the minimum time to live was left.",
        read: |status| known(status.eviction, |of| Sample::of(of.nr_thrashing as f64)),
    },
    Metric {
        name: "strata_split_bytes_total",
        help: "Huge pages that were to be split, because cold pages hid in them.",
        read: |status| evicted(status, |of| of.nr_split_pages),
    },
    Metric {
        name: "strata_refaulted_bytes_total",
        help: "Evicted pages that came back.",
        read: |status| evicted(status, |of| of.nr_refaulted_pages),
    },
    Metric {
        name: "strata_refaulted_recent_bytes_total",
        help: "Evicted pages that came back so soon that the working set was cut into.",
        read: |status| evicted(status, |of| of.nr_refaulted_recent_pages),
    },
    Metric {
        name: "strata_walks_total",
        help: "Walks over the page tables of the group.",
        read: |status| known(status.walks, |walks| Sample::of(walks.nr_walks as f64)),
    },
    Metric {
        name: "strata_walk_entries_total",
        help: "Page-table entries read by walks.",
        read: |status| {
            known(status.walks, |walks| {
                Sample::of(walks.cost.nr_entries as f64)
            })
        },
    },
    Metric {
        name: "strata_walk_seconds_total",
        help: "Time walks took, clearing accessed bits included.",
        read: |status| {
            let took =
                |walks: WalkReport| Sample::of((walks.cost.wall_ns + walks.clear_ns) as f64 / 1e9);
            known(status.walks, took)
        },
    },
    Metric {
        name: "strata_kernel_major_faults_total",
        help: "Major faults in the group, by the kernel's count.",
        read: |status| known(status.kernel.nr_major_faults, |of| Sample::of(of as f64)),
    },
    Metric {
        name: "strata_kernel_refaulted_bytes_total",
        help: "Pages that came back in the group, by the kernel's count.",
        read: |status| {
            let anon = status
                .kernel
                .nr_refaulted_anon_pages
                .map(|of| pages(of).with("kind", "anon"));
            let file = status
                .kernel
                .nr_refaulted_file_pages
                .map(|of| pages(of).with("kind", "file"));
            anon.into_iter().chain(file).collect()
        },
    },
    Metric {
        name: "strata_kernel_oom_kills_total",
        help: "Processes of the group killed for want of memory, by the kernel's count.",
        read: |status| known(status.kernel.nr_oom_kills, |of| Sample::of(of as f64)),
    },
    Metric {
        name: "strata_evicted_bytes",
        help: "Memory held out: swapped out, or file pages evicted and not back.",
        read: |status| vec![bytes(status.saved.evicted_bytes)],
    },
    Metric {
        name: "strata_zram_bytes",
        help: "Memory our zram device takes.",
        read: |status| vec![bytes(status.saved.zram_bytes)],
    },
    Metric {
        name: "strata_own_memory_bytes",
        help: "Resident memory of Strata and its keeper.",
        read: |status| vec![bytes(status.saved.strata_bytes)],
    },
    Metric {
        name: "strata_tracking_bytes",
        help: "Memory that keeping track of pages takes, part of strata_own_memory_bytes.",
        read: |status| known(status.tracking_bytes, bytes),
    },
    Metric {
        name: "strata_own_cpu_seconds_total",
        help: "CPU time of Strata and its keeper.",
        read: |status| vec![seconds(status.strata_cpu_ms)],
    },
];

fn known<T>(value: Option<T>, sample: impl FnOnce(T) -> Sample) -> Vec<Sample> {
    value.map(sample).into_iter().collect()
}

fn bytes(bytes: u64) -> Sample {
    Sample::of(bytes as f64)
}

fn pages(nr_pages: u64) -> Sample {
    bytes(nr_pages * PAGE_BYTES)
}

fn seconds(ms: u64) -> Sample {
    Sample::of(ms as f64 / 1000.0)
}

fn flag(is_set: bool) -> Sample {
    Sample::of(if is_set { 1.0 } else { 0.0 })
}

fn evicted(status: &Status, nr_pages: impl FnOnce(EvictionReport) -> u64) -> Vec<Sample> {
    known(status.eviction, |of| pages(nr_pages(of)))
}

fn spared(of: &EvictionReport) -> [(&'static str, u64); 7] {
    [
        ("referenced", of.nr_referenced_pages),
        ("busy", of.nr_busy_pages),
        ("shared", of.nr_shared_pages),
        ("dirty", of.nr_dirty_pages),
        ("unevictable", of.nr_unevictable_pages),
        ("gone", of.nr_gone_pages),
        ("not_tried", of.nr_not_tried_pages),
    ]
}

/// The generations by their position from the youngest: a number that is never out of bounds, as their
/// own would be.
fn by_youth(status: &Status) -> impl Iterator<Item = (String, &crate::run::GenerationReport)> {
    let youngest_first = status.generations.iter().rev().enumerate();
    youngest_first.map(|(youth, generation)| (youth.to_string(), generation))
}

/// The word a value is written as in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}
