//! What there is to be measured of the whole machine: memory by cgroup, by kind and by age.
//!
//! **Owns** the table. **Does not own** the text format, nor any figure (`observe::overview`).

use super::{Metric, Sample};
use crate::observe::cache::{CacheReport, CacheWindow};
use crate::observe::overview::{HostView, Snapshot, TargetKind, TargetView};
use std::cmp::Reverse;

/// Cgroups that have series, those with most memory.
const CGROUPS_MAX: usize = 500;

/// Every metric of the machine.
pub const HOST_METRICS: &[Metric<Snapshot>] = &[
    Metric {
        name: "strata_host_memory_bytes",
        help: "Memory of the machine by kind; kinds overlap.",
        read: |snapshot| {
            of_host(snapshot, |host| {
                let memory = &host.memory;
                let kinds = [
                    ("total", memory.total_bytes),
                    ("available", memory.available_bytes),
                    ("free", memory.free_bytes),
                    ("anon", memory.anon_bytes),
                    ("file", memory.file_bytes),
                    ("mapped", memory.mapped_bytes),
                    ("shmem", memory.shmem_bytes),
                    ("dirty", memory.dirty_bytes),
                ];
                let sample = |(kind, bytes)| Sample::of(bytes as f64).with("kind", kind);
                kinds.map(sample).into()
            })
        },
    },
    Metric {
        name: "strata_host_swap_bytes",
        help: "Swap of the machine that is in use, and that is free.",
        read: |snapshot| {
            of_host(snapshot, |host| {
                let (total, free) = (host.memory.swap_total_bytes, host.memory.swap_free_bytes);
                let states = [("used", total.saturating_sub(free)), ("free", free)];
                let sample = |(state, bytes)| Sample::of(bytes as f64).with("state", state);
                states.map(sample).into()
            })
        },
    },
    Metric {
        name: "strata_host_memory_pressure_ratio",
        help: "Share of the last ten seconds in which at least one task waited for memory.",
        read: |snapshot| {
            of_host(snapshot, |host| {
                let share = host.pressure_percent.map(|percent| percent / 100.0);
                share.map(Sample::of).into_iter().collect()
            })
        },
    },
    Metric {
        name: "strata_cgroup_charged_bytes",
        help: "Memory charged to the cgroup, groups below it included.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.resident_bytes),
    },
    Metric {
        name: "strata_cgroup_limit_bytes",
        help: "Lowest limit of the cgroup.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| Some(cgroup.budget?.limit_bytes)),
    },
    Metric {
        name: "strata_cgroup_anon_bytes",
        help: "Anonymous memory of the cgroup.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.anon_bytes),
    },
    Metric {
        name: "strata_cgroup_file_bytes",
        help: "Page cache of the cgroup, shared memory included.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.file_bytes),
    },
    Metric {
        name: "strata_cgroup_mapped_bytes",
        help: "Page cache of the cgroup that a process maps.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.mapped_bytes),
    },
    Metric {
        name: "strata_cgroup_shmem_bytes",
        help: "Page cache of the cgroup that is in memory only.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.shmem_bytes),
    },
    Metric {
        name: "strata_cgroup_dirty_bytes",
        help: "Page cache of the cgroup that is to be written.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.dirty_bytes),
    },
    Metric {
        name: "strata_cgroup_inactive_bytes",
        help: "Memory of the cgroup that the kernel takes for unused lately.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.inactive_bytes),
    },
    Metric {
        name: "strata_cgroup_swap_bytes",
        help: "Memory of the cgroup that is swapped out.",
        read: |snapshot| of_cgroups(snapshot, |cgroup| cgroup.swap_bytes),
    },
    Metric {
        name: "strata_cgroup_cache_bytes",
        help: "Page cache of files on disks that nobody has mapped, by use within so many seconds: read, idle, or unknown.",
        read: |snapshot| {
            let of_one = |cgroup: &TargetView| {
                let windows = cgroup.cache.as_ref().map_or(&[][..], told);
                let samples = windows.iter().flat_map(of_window);
                samples
                    .map(|sample| sample.with("cgroup", cgroup.name.clone()))
                    .collect::<Vec<Sample>>()
            };
            cgroups(snapshot).into_iter().flat_map(of_one).collect()
        },
    },
    Metric {
        name: "strata_census_memory_ratio",
        help: "Share of memory that a census looks at; figures of page cache by use are scaled up from it.",
        read: |snapshot| {
            let shares = cgroups(snapshot).into_iter();
            let mut shares = shares.filter_map(|cgroup| Some(cgroup.cache.as_ref()?.sampled_share));
            shares.next().map(Sample::of).into_iter().collect()
        },
    },
];

fn of_host(snapshot: &Snapshot, read: impl Fn(&HostView) -> Vec<Sample>) -> Vec<Sample> {
    snapshot.host.as_ref().map(read).unwrap_or_default()
}

/// The cgroups that have series.
fn cgroups(snapshot: &Snapshot) -> Vec<&TargetView> {
    let is_group = |target: &&TargetView| target.kind == TargetKind::Cgroup && !target.is_over;
    let mut cgroups: Vec<&TargetView> = snapshot.targets.iter().filter(is_group).collect();
    // Those with as much memory keep the order of their names.
    cgroups.sort_by_key(|cgroup| Reverse(cgroup.resident_bytes));
    cgroups.truncate(CGROUPS_MAX);
    cgroups
}

fn of_cgroups(snapshot: &Snapshot, read: impl Fn(&TargetView) -> Option<u64>) -> Vec<Sample> {
    let sample = |cgroup: &TargetView| {
        let sample = Sample::of(read(cgroup)? as f64);
        Some(sample.with("cgroup", cgroup.name.clone()))
    };
    cgroups(snapshot).into_iter().filter_map(sample).collect()
}

/// All windows but the whole watch, whose length would make a new series each time.
fn told(cache: &CacheReport) -> &[CacheWindow] {
    let nr_told = cache.windows.len().saturating_sub(1);
    cache.windows.get(..nr_told).unwrap_or_default()
}

fn of_window(window: &CacheWindow) -> [Sample; 3] {
    let uses = [
        ("read", window.read_bytes),
        ("idle", window.idle_bytes),
        ("unknown", window.unknown_bytes),
    ];
    uses.map(|(of_use, bytes)| {
        Sample::of(bytes as f64)
            .with("use", of_use)
            .with("within_seconds", window.seconds.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::super::render_host;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn cgroup(number: u64) -> TargetView {
        let window = |seconds: f64| CacheWindow {
            seconds,
            covered_seconds: seconds,
            read_bytes: MIB,
            unknown_bytes: 2 * MIB,
            unknown_idle: None,
            idle_bytes: 3 * MIB,
        };
        TargetView {
            resident_bytes: Some(number * MIB),
            cache: Some(CacheReport {
                sampled_share: 0.5,
                windows: vec![window(10.0), window(12.3)],
                ..CacheReport::default()
            }),
            ..TargetView::of_cgroup(&format!("/app-{number}"))
        }
    }

    fn text(nr_cgroups: u64) -> String {
        render_host(&Snapshot {
            host: Some(HostView::default()),
            targets: (1..=nr_cgroups).map(cgroup).collect(),
            ..Snapshot::default()
        })
    }

    #[test]
    fn memory_is_told_by_cgroup_kind_and_age() {
        let text = text(1);
        for line in [
            "strata_host_memory_bytes{kind=\"total\"} 0\n",
            "strata_cgroup_charged_bytes{cgroup=\"/app-1\"} 1048576\n",
            "strata_cgroup_cache_bytes{use=\"idle\",within_seconds=\"10\",cgroup=\"/app-1\"} 3145728\n",
            "strata_census_memory_ratio 0.5\n",
        ] {
            assert!(text.contains(line), "no {line}in {text}");
        }
        assert!(!text.contains("12.3"), "{text}");
        assert!(
            !text.contains("strata_cgroup_limit_bytes"),
            "what is not known has no sample: {text}"
        );
    }

    #[test]
    fn the_number_of_series_is_bounded_and_the_largest_cgroups_have_them() {
        let text = text(CGROUPS_MAX as u64 + 10);
        let nr_series = text.matches("strata_cgroup_charged_bytes{").count();
        assert_eq!(nr_series, CGROUPS_MAX);
        assert!(
            text.contains("\"/app-510\"") && !text.contains("\"/app-10\""),
            "{text}"
        );
    }
}
