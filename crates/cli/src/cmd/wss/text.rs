//! What `strata wss` says to a person: a sentence, then tables.
//!
//! **Owns** the words. **Does not own** the figures.
//!
//! **Invariants** W1: nothing is claimed for a time longer than the watch.

use std::cmp::Ordering;
use std::fmt::Write;

use crate::duration;
use strata_host::observe::Subject;
use strata_host::observe::cache::CacheReport;
use strata_host::observe::ledger::{Figures, MappingReport, OnNodes, WorkingSetReport};
use strata_linux::access::Grain;
use strata_linux::plain;
use strata_linux::process::MappingClass;
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

/// Mappings listed; JSON has all.
const NR_MAPPINGS: usize = 16;

/// Who is watched; `name_of` knows the names of processes.
pub(super) fn target(subject: &Subject, name_of: impl Fn(i32) -> Option<String>) -> String {
    let named = |pid: &i32| match name_of(*pid) {
        Some(name) => format!("process {pid} ({})", plain::line(&name)),
        None => format!("process {pid}"),
    };
    match subject {
        Subject::Process(pid) => named(pid),
        Subject::Tree(pid) => format!("{} and its children", named(pid)),
        Subject::Processes(pids) => format!("{} processes", pids.len()),
        Subject::Cgroup(path) => format!("cgroup {}", plain::line(&path.to_string_lossy())),
    }
}

/// A time in seconds as people say it.
fn span(seconds: f64) -> String {
    duration::span((seconds * 1000.0).round().max(0.0) as u64)
}

/// The one sentence: how much is needed and how much is not, as far as the watch can tell.
pub(super) fn sentence(report: &WorkingSetReport) -> String {
    let figures = &report.figures;
    if figures.resident_bytes == 0 && report.cache.is_none() {
        return "no memory of it could be looked at\n".to_owned();
    }
    let resident = Bytes(figures.resident_bytes);
    let watched = span(report.watched_seconds);
    let (needed, within) = match figures.windows.last() {
        Some(longest) => (longest.accessed_bytes, span(longest.covered_seconds)),
        None => (0, watched.clone()),
    };
    let rest = match figures.untouched_bytes {
        0 => format!("nothing has lain untouched for the {watched} of the watch"),
        bytes => format!(
            "{} have not been touched for {watched} (the whole watch)",
            Bytes(bytes)
        ),
    };
    let sentence = format!(
        "about {} of {resident} are needed (used within {within}); {rest}\n",
        Bytes(needed)
    );
    let sentence = sentence + &on_nodes(&figures.nodes);
    match &report.cache {
        Some(cache) => {
            let longest = figures.windows.last();
            let window_seconds = longest.map_or(0.0, |window| window.seconds);
            sentence + &cache_sentence(cache, needed, window_seconds)
        }
        None => sentence,
    }
}

/// What page cache adds to what is needed, and how much of the charge nobody reads.
fn cache_sentence(cache: &CacheReport, needed: u64, window_seconds: f64) -> String {
    let whole_watch = cache.windows.last();
    let same = cache
        .windows
        .iter()
        .rfind(|found| found.seconds == window_seconds);
    let (Some(whole), Some(window)) = (whole_watch, same.or(whole_watch)) else {
        return String::new();
    };
    let idle = match whole.unknown_idle {
        None => Bytes(whole.idle_bytes).to_string(),
        Some(of_unknown) => format!("about {}", Bytes(whole.idle_bytes + of_unknown.idle_bytes)),
    };
    let idle = format!(
        "{idle} is page cache that nobody has read for {}",
        span(whole.covered_seconds)
    );
    let of_charge = match cache.charge {
        Some(charge) => format!(
            "of {} charged to the cgroup, {idle}",
            Bytes(charge.charged_bytes)
        ),
        None => idle,
    };
    let (used_bytes, unknown) = match (window.unknown_bytes, window.unknown_idle) {
        (0, _) => (0, String::new()),
        (bytes, None) => (
            0,
            format!(
                ", or up to {} more (read often, but when is not known)",
                Bytes(bytes)
            ),
        ),
        (bytes, Some(idle)) => (
            bytes - idle.idle_bytes.min(bytes),
            format!(", +-{},", Bytes(idle.error_bytes)),
        ),
    };
    format!(
        "about {}{unknown} with page cache that was read within {}; {of_charge}\n",
        Bytes(needed + window.read_bytes + used_bytes),
        span(window.covered_seconds)
    )
}

/// Everything, each line ended.
pub(super) fn report(report: &WorkingSetReport) -> String {
    let mut text = sentence(report);
    let seen_by = match report.source.grain {
        Grain::Page => report.source.name.to_owned(),
        Grain::Mapping => format!("{}: sums of mappings, not pages", report.source.name),
    };
    let _ = writeln!(
        text,
        "\n{}\nwatched for {}, a walk every {} ({seen_by})\n",
        report.target,
        span(report.watched_seconds),
        span(report.walk_seconds()),
    );
    sizes(&mut text, &report.figures);
    if let Some(cache) = &report.cache {
        page_cache(&mut text, cache);
    }
    text.push_str(&beside(&report.figures));
    mappings(&mut text, &report.mappings);
    let cost = &report.cost;
    let nr_walks = cost.nr_walks.max(1) as f64;
    let _ = writeln!(
        text,
        "\nwatching took {:.1} ms a walk, {:.1} ms of it to clear accessed bits, and {} of memory",
        cost.walking_ms / nr_walks,
        cost.clearing_ms / nr_walks,
        Bytes(cost.stamps_bytes)
    );
    let _ = writeln!(
        text,
        "the target was held up {}, all its processes together",
        cost.hold_up
    );
    if report.walk_seconds() > report.interval_seconds * 1.5 {
        let _ = writeln!(
            text,
            "walks came every {} and not every {}, so that clearing accessed bits does not hold the target up for \
             more than 0.5 % of the time",
            span(report.walk_seconds()),
            span(report.interval_seconds)
        );
    }
    text
}

/// Windows and idle times of all together.
fn sizes(text: &mut String, figures: &Figures) {
    let row = |label: String, sizes: [u64; 3]| {
        let [total, anon, file] = sizes.map(|bytes| Bytes(bytes).to_string());
        let share = share(sizes[0], figures.resident_bytes);
        [label, total, anon, file, share]
    };
    let all = [
        figures.resident_bytes,
        figures.anon_bytes,
        figures.file_bytes,
    ];
    let used = figures.windows.iter().map(|window| {
        // Where the watch ended early it tells a lower bound, where it came late an upper one.
        let bound = match window.covered_seconds.partial_cmp(&window.seconds) {
            Some(Ordering::Less) => " >=",
            Some(Ordering::Greater) => " <=",
            _ => "",
        };
        let label = format!("used within {}{bound}", span(window.seconds));
        let used = [window.accessed_bytes, window.anon_bytes, window.file_bytes];
        row(label, used)
    });
    let idle = figures.idle.iter().map(|idle| {
        let label = format!("idle for {}", span(idle.at_least_seconds as f64));
        row(label, [idle.bytes, idle.anon_bytes, idle.file_bytes])
    });
    let rows = std::iter::once(row("resident".to_owned(), all));
    let head = "<                    |    total|     anon|     file|  share";
    text.push_str(&aligned(head, rows.chain(used).chain(idle)));
}

/// Page cache of the cgroup that nobody has mapped, by when it was read.
fn page_cache(text: &mut String, cache: &CacheReport) {
    let _ = writeln!(
        text,
        "\npage cache {}, of which mapped {}, dirty {}",
        Bytes(cache.cached_bytes),
        Bytes(cache.mapped_bytes),
        Bytes(cache.dirty_bytes)
    );
    let rows = cache.windows.iter().map(|window| {
        let [read, unknown, idle] = [window.read_bytes, window.unknown_bytes, window.idle_bytes]
            .map(|bytes| Bytes(bytes).to_string());
        let label = format!("within {}", span(window.covered_seconds));
        let estimate = window.unknown_idle.map(|of_unknown| {
            format!(
                "({} +-{} of unknown not read, by a sample whose counts were reset)",
                Bytes(of_unknown.idle_bytes),
                Bytes(of_unknown.error_bytes)
            )
        });
        [label, read, unknown, idle, estimate.unwrap_or_default()]
    });
    if !cache.windows.is_empty() {
        let head = "<not mapped          |     read|  unknown| not read|<";
        text.push_str(&aligned(head, rows));
    }
    if let Some(charge) = cache.charge {
        let _ = writeln!(
            text,
            "usage - inactive_file, which other tools call the working set: {}",
            Bytes(charge.less_inactive_file_bytes)
        );
    }
    if cache.sampled_share < 1.0 {
        let _ = writeln!(
            text,
            "page cache is estimated from {:.0} % of memory",
            cache.sampled_share * 100.0
        );
    }
}

/// What is shared, and what can't be seen: a paragraph for each that there is.
fn beside(figures: &Figures) -> String {
    let told = [
        (
            figures.shared_bytes,
            "of it are mapped by processes that were not watched, too",
        ),
        (
            figures.unknown_bytes,
            "whose use can't be seen (memory of guests, and pages whose accessed bits can't be cleared without holding \
             the target up): neither used nor idle above",
        ),
    ];
    let told = told.into_iter().filter(|(bytes, _)| *bytes > 0);
    told.map(|(bytes, what)| format!("\n{} {what}\n", Bytes(bytes)))
        .collect()
}

/// What is on each memory node; nothing where there is one node.
fn on_nodes(nodes: &OnNodes) -> String {
    let on = |(node, bytes): (&u32, &u64)| format!("{} on memory node {node}", Bytes(*bytes));
    let all: Vec<String> = nodes.iter().map(on).collect();
    match all.is_empty() {
        true => String::new(),
        false => all.join(", ") + "\n",
    }
}

/// The largest mappings: which of them is cold.
fn mappings(text: &mut String, mappings: &[MappingReport]) {
    let Some(first) = mappings.first() else {
        return;
    };
    let windows = first.figures.windows.iter();
    let windows = windows.map(|window| format!("|{:>8}", span(window.seconds)));
    let head = format!(
        "  resident{}|untouched|<mapping",
        windows.collect::<String>()
    );
    let rows = mappings.iter().take(NR_MAPPINGS).map(|mapping| {
        let figures = &mapping.figures;
        let used = figures.windows.iter().map(|window| window.accessed_bytes);
        let sizes = std::iter::once(figures.resident_bytes)
            .chain(used)
            .chain([figures.untouched_bytes]);
        let cells = sizes.map(|bytes| Bytes(bytes).to_string());
        cells.chain([name(mapping)]).collect::<Vec<_>>()
    });
    let _ = write!(text, "\n{}", aligned(&head, rows));
    if mappings.len() > NR_MAPPINGS {
        let rest = &mappings[NR_MAPPINGS..];
        let bytes = rest
            .iter()
            .map(|mapping| mapping.figures.resident_bytes)
            .sum();
        let _ = writeln!(
            text,
            "{:>10}  in {} more",
            Bytes(bytes).to_string(),
            rest.len()
        );
    }
}

fn name(mapping: &MappingReport) -> String {
    let class = match mapping.class {
        MappingClass::Anon => "[anon]",
        MappingClass::Heap => "[heap]",
        MappingClass::Stack => "[stack]",
        MappingClass::FilePrivate => "private file",
        MappingClass::FileShared => "shared file",
        MappingClass::Shmem => "shared memory",
    };
    let name = plain::line(&mapping.name);
    let name = match (mapping.class, &*name) {
        (MappingClass::Heap | MappingClass::Stack, _) | (_, "") => class.to_owned(),
        // The kernel's name for it says what it is.
        (MappingClass::Anon, name) => name.to_owned(),
        (_, name) => format!("{name} ({class})"),
    };
    match mapping.nr_mappings {
        1 => name,
        nr_mappings => format!("{name} x {nr_mappings}"),
    }
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::observe::cache::{CacheWindow, Charge};
    use strata_host::observe::ledger::{IdleReport, WatchCost, WindowReport};
    use strata_linux::access::SourceInfo;
    use strata_linux::access::census::IdleEstimate;

    const MIB: u64 = 1 << 20;

    fn figures(anon_mib: u64, file_mib: u64, used_mib: u64) -> Figures {
        let window = |seconds: f64| WindowReport {
            seconds,
            covered_seconds: seconds,
            accessed_bytes: used_mib * MIB,
            anon_bytes: used_mib * MIB,
            file_bytes: 0,
            cache_bytes: None,
        };
        let idle_mib = anon_mib + file_mib - used_mib;
        Figures {
            resident_bytes: (anon_mib + file_mib) * MIB,
            anon_bytes: anon_mib * MIB,
            file_bytes: file_mib * MIB,
            windows: vec![window(1.0), window(60.0)],
            idle: vec![IdleReport {
                at_least_seconds: 32,
                bytes: idle_mib * MIB,
                anon_bytes: (anon_mib - used_mib) * MIB,
                file_bytes: file_mib * MIB,
            }],
            untouched_bytes: idle_mib * MIB,
            shared_bytes: 0,
            unknown_bytes: 0,
            nodes: [].into(),
        }
    }

    /// A process of 1300 MiB of which 412 MiB are used.
    fn example() -> WorkingSetReport {
        let mapping = |name: &str, class, nr_mappings| MappingReport {
            name: name.to_owned(),
            class,
            nr_mappings,
            figures: figures(500, 100, 7),
        };
        WorkingSetReport {
            target: "process 42 (server)".to_owned(),
            source: SourceInfo {
                name: "bpf",
                grain: Grain::Page,
                blind_spots: Vec::new(),
            },
            watched_seconds: 60.0004,
            interval_seconds: 1.0,
            figures: figures(1200, 100, 412),
            mappings: vec![
                mapping("[heap]", MappingClass::Heap, 1),
                mapping("/usr/lib/x.so", MappingClass::FilePrivate, 4),
                mapping("", MappingClass::Anon, 20),
            ],
            cache: None,
            cost: WatchCost::default(),
        }
    }

    #[test]
    fn where_memory_nodes_are_several_it_is_told_what_is_on_each() {
        let text = on_nodes(&[(0, 900 << 20), (2, 400 << 20)].into());
        assert_eq!(text, "900 MiB on memory node 0, 400 MiB on memory node 2\n");
        assert_eq!(on_nodes(&OnNodes::new()), "");
    }

    #[test]
    fn one_sentence_says_what_is_needed_and_what_is_not() {
        assert_eq!(
            sentence(&example()),
            "about 412 MiB of 1.3 GiB are needed (used within 1 min); 888 MiB have not been touched \
             for 1 min (the whole watch)\n"
        );
    }

    #[test]
    fn a_watch_that_ended_early_claims_no_more_than_it_saw() {
        let mut short = example();
        short.watched_seconds = 12.0;
        short.figures.windows[1].covered_seconds = 12.0;
        short.figures.untouched_bytes = 0;
        let said = sentence(&short);
        assert!(said.contains("within 12 s"), "{said}");
        assert!(
            said.contains("nothing has lain untouched for the 12 s"),
            "{said}"
        );
        assert!(report(&short).contains("used within 1 min >="));
    }

    #[test]
    fn a_walk_that_came_late_is_said_to_stand_for_more_than_the_window() {
        let mut late = example();
        late.figures.windows[0].covered_seconds = 90.0;
        assert!(report(&late).contains("used within 1 s <= "));
    }

    #[test]
    fn tables_name_sizes_windows_and_mappings() {
        let text = report(&example());
        for part in [
            "process 42 (server)\nwatched for 1 min, a walk every 1 s (bpf)\n",
            "resident                1.3 GiB    1.2 GiB    100 MiB  100.0 %\n",
            "used within 1 min       412 MiB    412 MiB        0 B   31.7 %\n",
            "idle for 32 s           888 MiB    788 MiB    100 MiB   68.3 %\n",
            "  resident       1 s     1 min  untouched  mapping\n",
            "   600 MiB     7 MiB     7 MiB    593 MiB  [heap]\n",
            "  /usr/lib/x.so (private file) x 4\n",
            "  [anon] x 20\n",
        ] {
            assert!(text.contains(part), "{part:?} in:\n{text}");
        }
        let long = text.lines().find(|line| line.len() > 120);
        assert_eq!(long, None);
    }

    #[test]
    fn many_mappings_are_summed_up_and_odd_names_cannot_move_the_cursor() {
        let mut many = example();
        let mut odd = many.mappings[1].clone();
        odd.name = "/tmp/a\x1b[2Jb".to_owned();
        many.mappings = vec![odd; NR_MAPPINGS + 3];
        let text = report(&many);
        assert!(text.contains("   1.8 GiB  in 3 more\n"), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn spans_are_said_as_people_say_them() {
        let said = [
            0.25, 1.0, 1.5, 1.04, 59.96, 60.0, 90.0, 600.0, 601.2, 2048.0, 3600.0,
        ]
        .map(span);
        assert_eq!(
            said,
            [
                "250 ms", "1 s", "1.5 s", "1 s", "60 s", "1 min", "90 s", "10 min", "601 s",
                "2048 s", "1 h"
            ]
        );
    }

    #[test]
    fn page_cache_adds_to_what_is_needed_and_what_nobody_reads_is_told() {
        let mut report = example();
        report.set_cache(CacheReport {
            watched_seconds: 62.0,
            sampled_share: 1.0,
            cached_bytes: 1500 * MIB,
            mapped_bytes: 100 * MIB,
            windows: vec![
                CacheWindow {
                    seconds: 60.0,
                    covered_seconds: 61.0,
                    read_bytes: 88 * MIB,
                    unknown_bytes: 0,
                    unknown_idle: None,
                    idle_bytes: 1312 * MIB,
                },
                CacheWindow {
                    seconds: 62.0,
                    covered_seconds: 62.0,
                    read_bytes: 88 * MIB,
                    unknown_bytes: 12 * MIB,
                    unknown_idle: None,
                    idle_bytes: 1300 * MIB,
                },
            ],
            charge: Some(Charge {
                charged_bytes: 2700 * MIB,
                less_inactive_file_bytes: 2000 * MIB,
            }),
            ..CacheReport::default()
        });
        assert_eq!(
            report.figures.windows[0].cache_bytes, None,
            "1 s was not told"
        );
        assert_eq!(report.figures.windows[1].cache_bytes, Some(88 * MIB));
        let text = super::report(&report);
        let sentence = "about 500 MiB with page cache that was read within 61 s; of 2.6 GiB charged to the cgroup, 1.3 GiB is page cache that nobody has read for 62 s\n";
        assert!(text.contains(sentence), "{text}");
        assert!(text.contains("the working set: 2 GiB\n"), "{text}");
        assert!(!text.contains("estimated"), "{text}");
        let Some(cache) = &mut report.cache else {
            unreachable!("it was set");
        };
        for window in &mut cache.windows {
            window.unknown_bytes = 12 * MIB;
            window.unknown_idle = Some(IdleEstimate {
                idle_bytes: 9 * MIB,
                error_bytes: MIB,
            });
        }
        let text = super::report(&report);
        for part in [
            "about 503 MiB, +-1 MiB, with page cache that was read within 61 s; ",
            ", about 1.3 GiB is page cache that nobody has read",
            "  (9 MiB +-1 MiB of unknown not read, by a sample",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
