//! What there is to be measured of a guard: the host, and each group.
//!
//! **Owns** the table. **Does not own** the text format, nor any figure (`managed::status`).

use super::{Metric, Sample};
use crate::managed::{GroupStatus, Room, Status};
use crate::observe::ledger::Kinds;

/// Groups that have series, those of which most is away.
const GROUPS_MAX: usize = 500;

/// Every metric of a guard.
pub const GUARD_METRICS: &[Metric<Status>] = &[
    Metric {
        name: "strata_guard_acting",
        help: "1 where idle memory is taken, 0 where it is only told.",
        read: |status| vec![Sample::of(f64::from(u8::from(status.is_acting)))],
    },
    Metric {
        name: "strata_guard_groups",
        help: "Groups that are looked after.",
        read: |status| vec![Sample::of(status.groups.len() as f64)],
    },
    Metric {
        name: "strata_guard_given_back_bytes",
        help: "Taken and not come back, of all groups: gross, and net of what compressed swap and ages take.",
        read: |status| {
            let amounts = [
                ("gross", status.away_bytes),
                ("net", status.given_back_bytes),
            ];
            let sample = |(amount, bytes)| Sample::of(bytes as f64).with("amount", amount);
            amounts.map(sample).into()
        },
    },
    Metric {
        name: "strata_guard_price_bytes",
        help: "Memory that compressed swap and ages take.",
        read: |status| vec![Sample::of(status.price_bytes as f64)],
    },
    Metric {
        name: "strata_guard_available_bytes",
        help: "What the kernel thinks new programs could have, and the amount below which the host is short.",
        read: |status| {
            let of = |room: &Room| {
                let amounts = [
                    ("now", room.available_bytes),
                    ("short_below", room.wanted_bytes),
                ];
                amounts.map(|(amount, bytes)| Sample::of(bytes as f64).with("amount", amount))
            };
            status.room.iter().flat_map(of).collect()
        },
    },
    Metric {
        name: "strata_guard_room_bytes",
        help: "How much more fits on the host without a broken promise.",
        read: |status| of_room(status, |room| Some(room.room_bytes)),
    },
    Metric {
        name: "strata_guard_room_groups",
        help: "How many more groups like the last ten fit.",
        read: |status| of_room(status, |room| room.nr_more_groups),
    },
    Metric {
        name: "strata_guard_left_out_processes",
        help: "Processes that the last walk left out, because whoever asks them for their memory may wait for long.",
        read: |status| vec![Sample::of(status.nr_left_out_processes as f64)],
    },
    Metric {
        name: "strata_guard_walks_total",
        help: "Walks of page tables.",
        read: |status| vec![Sample::of(status.nr_walks as f64)],
    },
    Metric {
        name: "strata_guard_cpu_seconds_total",
        help: "Processor time of the guard.",
        read: |status| vec![Sample::of(status.cpu_ns as f64 / 1e9)],
    },
    Metric {
        name: "strata_guard_group_resident_bytes",
        help: "Memory of the group.",
        read: |status| of_groups(status, |group| group.resident_bytes),
    },
    Metric {
        name: "strata_guard_group_used_lately_bytes",
        help: "Memory of the group that was accessed within the age that counts as idle.",
        read: |status| of_groups(status, |group| group.used_lately_bytes),
    },
    Metric {
        name: "strata_guard_group_used_within_bytes",
        help: "Memory of the group that was accessed within so many seconds.",
        read: |status| {
            let of_group = |group: &GroupStatus| {
                let sample = |(seconds, bytes): (&u64, &u64)| {
                    let sample = Sample::of(*bytes as f64).with("cgroup", group.group.clone());
                    sample.with("within_seconds", seconds.to_string())
                };
                let samples = group.used_within_bytes.iter().map(sample);
                samples.collect::<Vec<Sample>>()
            };
            groups(status).flat_map(of_group).collect()
        },
    },
    Metric {
        name: "strata_guard_group_given_back_bytes",
        help: "Taken of the group and not come back, without the memory that swap takes for it.",
        read: |status| of_groups(status, |group| group.given_back_bytes),
    },
    Metric {
        name: "strata_guard_group_idle_bytes",
        help: "Memory of the group that was not accessed within that age.",
        read: |status| of_groups(status, |group| group.idle_bytes),
    },
    Metric {
        name: "strata_guard_group_could_give_bytes",
        help: "Idle memory of the group that can be taken.",
        read: |status| of_groups(status, |group| group.could_give_bytes),
    },
    Metric {
        name: "strata_guard_group_page_cache_bytes",
        help: "Page cache of the group that nobody maps, in all and what counts as idle; absent until a census has told.",
        read: |status| {
            let of_group = |group: &GroupStatus| {
                let part = |part, bytes: Option<u64>| {
                    let sample = Sample::of(bytes? as f64).with("part", part);
                    Some(sample.with("cgroup", group.group.clone()))
                };
                [
                    part("all", group.cache_bytes),
                    part("idle", group.idle_cache_bytes),
                ]
            };
            groups(status).flat_map(of_group).flatten().collect()
        },
    },
    Metric {
        name: "strata_guard_group_dropped_page_cache_bytes_total",
        help: "Page cache of the group that was dropped.",
        read: |status| of_groups(status, |group| group.dropped_cache_bytes),
    },
    Metric {
        name: "strata_guard_kind_bytes",
        help: "Memory of all groups by kind: in memory, of that used and idle, and away.",
        read: |status| of_kinds(&status.kinds).collect(),
    },
    Metric {
        name: "strata_guard_group_kind_bytes",
        help: "Memory of the group by kind: in memory, of that used and idle, and away; absent where there is none.",
        read: |status| {
            let of_group = |group: &GroupStatus| {
                let name = group.group.clone();
                let kinds = of_kinds(&group.kinds).filter(|sample| sample.value > 0.0);
                let samples = kinds.map(move |sample| sample.with("cgroup", name.clone()));
                samples.collect::<Vec<Sample>>()
            };
            groups(status).flat_map(of_group).collect()
        },
    },
    Metric {
        name: "strata_guard_group_gives_nothing",
        help: "1 where the group could give and nothing went of it for three minutes.",
        read: |status| of_groups(status, |group| u64::from(group.gives_nothing)),
    },
    Metric {
        name: "strata_guard_group_frozen",
        help: "1 where the group is stopped because the host is short of memory.",
        read: |status| of_groups(status, |group| u64::from(group.is_frozen)),
    },
    Metric {
        name: "strata_guard_group_slowed",
        help: "1 where the group is slowed because the host is short of memory.",
        read: |status| of_groups(status, |group| u64::from(group.is_slowed)),
    },
    Metric {
        name: "strata_guard_group_parked",
        help: "1 where the group is parked.",
        read: |status| of_groups(status, |group| u64::from(group.is_parked)),
    },
    Metric {
        name: "strata_guard_group_away_bytes",
        help: "Taken of the group and not come back.",
        read: |status| of_groups(status, |group| group.away_bytes),
    },
    Metric {
        name: "strata_guard_group_taken_bytes_total",
        help: "Taken of the group.",
        read: |status| of_groups(status, |group| group.taken_bytes),
    },
    Metric {
        name: "strata_guard_group_taken_by_amount_bytes_total",
        help: "Part of what was taken that the kernel chose, asked for an amount.",
        read: |status| of_groups(status, |group| group.taken_by_amount_bytes),
    },
    Metric {
        name: "strata_guard_group_came_back_bytes_total",
        help: "Taken of the group, and found in memory again.",
        read: |status| of_groups(status, |group| group.came_back_bytes),
    },
    Metric {
        name: "strata_guard_group_came_back_last_minute_bytes",
        help: "As much within the last minute.",
        read: |status| of_groups(status, |group| group.came_back_per_min_bytes),
    },
    Metric {
        name: "strata_guard_group_may_come_back_last_minute_bytes",
        help: "What may come back within a minute by the promise.",
        read: |status| of_groups(status, |group| group.allowed_per_min_bytes),
    },
    Metric {
        name: "strata_guard_group_promise_ratio",
        help: "Promise to the group: the share of it that may come back within a minute.",
        read: |status| {
            let sample = |group: &GroupStatus| {
                let share = group.promise_share_per_min?;
                Some(Sample::of(share).with("cgroup", group.group.clone()))
            };
            groups(status).filter_map(sample).collect()
        },
    },
    Metric {
        name: "strata_guard_group_idle_age_seconds",
        help: "How long memory was not accessed before it counts as idle.",
        read: |status| {
            let of_group = |group: &GroupStatus| {
                let kinds = [("anon", group.age_anon_ms), ("file", group.age_file_ms)];
                kinds.map(|(kind, age_ms)| {
                    Sample::of(age_ms as f64 / 1000.0)
                        .with("cgroup", group.group.clone())
                        .with("kind", kind)
                })
            };
            groups(status).flat_map(of_group).collect()
        },
    },
];

fn of_room(status: &Status, read: fn(&Room) -> Option<u64>) -> Vec<Sample> {
    let value = status.room.as_ref().and_then(read);
    value
        .map(|value| Sample::of(value as f64))
        .into_iter()
        .collect()
}

fn of_kinds(kinds: &Kinds) -> impl Iterator<Item = Sample> {
    kinds.iter().flat_map(|figures| {
        let parts = [
            ("resident", figures.resident_bytes),
            ("used", figures.used_bytes),
            ("idle", figures.idle_bytes),
            ("away", figures.away_bytes),
        ];
        parts.map(|(part, bytes)| {
            let sample = Sample::of(bytes as f64).with("kind", figures.kind.name());
            sample.with("part", part)
        })
    })
}

/// The groups that have series.
fn groups(status: &Status) -> impl Iterator<Item = &GroupStatus> {
    status.groups.iter().take(GROUPS_MAX)
}

fn of_groups(status: &Status, read: fn(&GroupStatus) -> u64) -> Vec<Sample> {
    let sample = |group| Sample::of(read(group) as f64).with("cgroup", group.group.clone());
    groups(status).map(sample).collect()
}
