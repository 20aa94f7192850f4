//! The report of a run as a person reads it: in five seconds, top down.
//!
//! **Owns** the text. **Does not own** any number (`strata_host::run::Report`).
//!
//! **Invariants** I1: tried and applied stand apart. I2: what is not known is left out or said to be
//! unknown, never printed as 0. I3: every number has its unit.

mod compare;
mod evicted;
mod live;

use std::fmt::Display;

use strata_host::run::{ActuatorChoice, Ending, EvictionReport, PolicyChoice, Report, UsageReport};
use strata_linux::access::Grain;
use strata_linux::units::Bytes;
use strata_sim::table::grouped as count;

pub(crate) use compare::comparison;
pub(crate) use live::{budget, groups, order, status};

/// Base pages of this machine, for showing counts as sizes.
const PAGE_BYTES: u64 = strata_linux::addr::PAGE_BYTES;
/// From so many milliseconds on Strata's share of a processor is told.
const SHARE_MS_MIN: u64 = 1000;
/// Where the values begin, behind the longest label.
const LABEL_COLUMNS: usize = 14;

/// Lines of a label and a text; an empty label goes on with what is above.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, label: &str, text: impl Display) {
        self.0
            .push_str(&format!("  {label:<LABEL_COLUMNS$}{text}\n"));
    }
}

/// How much of a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What fits on a screen; of warnings those that have not been told during the run.
    Short,
    /// All of it, with conditions and limits in full sentences.
    Verbose,
}

/// The report, each line ended. `told` are the warnings that were printed during the run.
pub(crate) fn report(report: &Report, detail: Detail, told: &[String]) -> String {
    let mut lines = Lines(format!("strata: {}\n", headline(report)));
    budget_and_usage(&mut lines, report);
    working_set(&mut lines, report.working_set_bytes);
    method(&mut lines, report, detail);
    if report.is_dry_run {
        evicted::would_evict(&mut lines, report);
    } else {
        evictions(&mut lines, report, detail);
    }
    kernel(&mut lines, report, detail);
    if !report.is_dry_run {
        saved(&mut lines, report);
    }
    let_go(&mut lines, report);
    // Of a moment a share says nothing.
    let share = match report.usage.observed_ms {
        0..SHARE_MS_MIN => String::new(),
        _ => format!(" ({:.1} % of a processor)", report.strata_cpu_percent),
    };
    lines.add(
        "strata",
        format_args!(
            "{} of CPU time{share}, {} of memory, {} walks",
            seconds(report.strata_cpu_ms),
            Bytes(report.saved.strata_bytes),
            count(report.walks.nr_walks)
        ),
    );
    if detail == Detail::Verbose {
        let ms = |ns: u64| seconds(ns / 1_000_000);
        lines.add(
            "",
            format_args!(
                "of that: reclaim {}, pageout {}, walks {}, touches {}, the rest decides and clears accessed bits",
                ms(report.eviction.reclaim_cpu_ns),
                ms(report.eviction.pageout_cpu_ns),
                ms(report.walks.cost.wall_ns),
                ms(report.hold_up.calls.touch.total_ns),
            ),
        );
    }
    if report.hold_up.longest_us > 0 {
        lines.add(
            "held up",
            format_args!("{}, by calls that lock its memory", report.hold_up),
        );
    }
    access(&mut lines, report, detail);
    for warning in &report.warnings {
        if detail == Detail::Verbose || !told.contains(warning) {
            lines.add("warning", warning);
        }
    }
    lines.0
}

fn headline(report: &Report) -> String {
    let ending = match report.ending {
        Ending::Exited { code } => format!("exited with status {code}"),
        Ending::Signaled {
            is_oom_kill: true, ..
        } => "was killed by the kernel: out of memory".to_owned(),
        Ending::Signaled { signal, .. } => format!("was ended by signal {signal}"),
        Ending::Detached => "goes on without Strata".to_owned(),
        Ending::Gone => "has ended".to_owned(),
    };
    let dry = if report.is_dry_run {
        " (dry run: nothing was changed)"
    } else {
        ""
    };
    format!(
        "{} {ending} after {}{dry}",
        report.target,
        seconds(report.elapsed_ms)
    )
}

fn budget_and_usage(lines: &mut Lines, report: &Report) {
    let usage = &report.usage;
    let measured = match usage.measured_by {
        "rss" => "resident memory",
        _ => "charged to the cgroup",
    };
    lines.add(
        "budget",
        format_args!(
            "{}; usage: peak {}, mean {} ({measured})",
            Bytes(usage.budget_bytes),
            Bytes(usage.peak_bytes),
            Bytes(usage.mean_bytes)
        ),
    );
    if usage.observed_ms > 0 {
        above_budget(lines, usage);
    }
    if let Some(limit) = report.limit.filter(|limit| limit.nr_raises > 0) {
        lines.add(
            "hard limit",
            format_args!(
                "gave way {}, from {} to {}",
                times(limit.nr_raises),
                Bytes(limit.backstop_bytes),
                Bytes(limit.peak_bytes)
            ),
        );
    }
}

fn above_budget(lines: &mut Lines, usage: &UsageReport) {
    let (above, observed) = (seconds(usage.above_budget_ms), seconds(usage.observed_ms));
    let share = percent(usage.above_budget_ms, usage.observed_ms);
    lines.add(
        "above budget",
        format_args!("{above} of {observed} ({share})"),
    );
}

fn working_set(lines: &mut Lines, bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        let used = format!("{} used between the last two walks", Bytes(bytes));
        lines.add("working set", used);
    }
}

/// What left memory, and who chose it.
fn evicted(lines: &mut Lines, eviction: &EvictionReport) {
    let (chosen, of_kernel) = (eviction.nr_applied_pages, eviction.nr_kernel_chosen_pages);
    let all = pages(chosen.saturating_add(of_kernel));
    let (chosen, of_kernel) = (pages(chosen), pages(of_kernel));
    let tried = count(eviction.nr_tried_pages);
    lines.add("evicted", format_args!("{all} in all"));
    lines.add(
        "",
        format_args!("{chosen} chosen by Strata, of {tried} that it tried"),
    );
    lines.add("", format_args!("{of_kernel} chosen by the kernel"));
}

fn method(lines: &mut Lines, report: &Report, detail: Detail) {
    let asked = match (&report.policy, report.actuator) {
        (PolicyChoice::None, _) => "none",
        (_, ActuatorChoice::Auto) => "auto",
        (_, ActuatorChoice::Pageout) => "pageout",
        (_, ActuatorChoice::Reclaim) => "reclaim",
    };
    lines.add("method", format_args!("{asked} ({})", report.method));
    if detail == Detail::Verbose && report.policy != PolicyChoice::None {
        lines.add("", &report.actuator_reason);
    }
}

fn evictions(lines: &mut Lines, report: &Report, detail: Detail) {
    let eviction = &report.eviction;
    if report.policy == PolicyChoice::None {
        // Nobody asked or looked: what the kernel counted is all there is.
        let kernel = &report.kernel;
        let back = kernel.nr_refaulted_pages();
        let gone = kernel.nr_freed_pages.or(back);
        let known = |counted: Option<u64>, nr_pages| {
            counted.map_or_else(|| "unknown".to_owned(), |_| pages(nr_pages))
        };
        let gone = known(gone, eviction.nr_kernel_chosen_pages);
        lines.add("evicted", format_args!("{gone}, by the kernel alone"));
        lines.add("refaulted", known(back, eviction.nr_refaulted_pages));
        return;
    }
    evicted(lines, eviction);
    if eviction.reclaim_asked_bytes > 0 && detail == Detail::Verbose {
        lines.add(
            "",
            format_args!(
                "of {} asked for, the kernel freed {}",
                Bytes(eviction.reclaim_asked_bytes),
                Bytes(eviction.reclaim_freed_bytes)
            ),
        );
    }
    let kept = not_evicted(eviction);
    if !kept.is_empty() {
        lines.add("not evicted", format_args!("pages: {kept}"));
    }
    beside(lines, eviction);
    if let Some(cache) = &report.page_cache {
        evicted::page_cache(lines, cache);
        if detail == Detail::Verbose {
            evicted::cache_tiers(lines, cache);
        }
    }
    let soon = match eviction.nr_refaulted_recent_pages {
        0 => String::new(),
        nr_pages => format!(", {} of them soon after they went", count(nr_pages)),
    };
    let back = pages(eviction.nr_refaulted_pages);
    lines.add("refaulted", format_args!("{back} came back{soon}"));
    if detail == Detail::Verbose {
        evicted::tiers(lines, &report.tiers);
    }
    if eviction.nr_thrashing > 0 {
        lines.add(
            "thrashing",
            format_args!(
                "{} nothing older than --min-ttl was left",
                times(eviction.nr_thrashing)
            ),
        );
    }
}

/// What was done beside evicting; what was not done is left out.
fn beside(lines: &mut Lines, eviction: &EvictionReport) {
    if eviction.nr_split_pages > 0 {
        lines.add(
            "split",
            format_args!(
                "{} in huge pages of which little was used",
                pages(eviction.nr_split_pages)
            ),
        );
    }
    if eviction.left_to_programs_ms > 0 {
        lines.add(
            "own reclaim",
            format_args!(
                "for {} the program reclaimed in its own page faults: no processor was free",
                seconds(eviction.left_to_programs_ms)
            ),
        );
    }
}

/// Why what was tried did not go, most telling first; reasons that did not occur are left out.
fn not_evicted(eviction: &EvictionReport) -> String {
    let reasons = [
        (eviction.nr_referenced_pages, "used again"),
        (eviction.nr_busy_pages, "busy"),
        (eviction.nr_shared_pages, "shared"),
        (eviction.nr_dirty_pages, "dirty"),
        (eviction.nr_unevictable_pages, "unevictable"),
        (eviction.nr_gone_pages, "gone before"),
        (eviction.nr_not_tried_pages, "not tried"),
    ];
    evicted::told(&reasons, count)
}

fn kernel(lines: &mut Lines, report: &Report, detail: Detail) {
    let kernel = &report.kernel;
    let faults = kernel
        .nr_major_faults
        .map_or_else(|| "unknown".to_owned(), count);
    lines.add("major faults", faults);
    let costs = [
        (kernel.scanned_per_freed_page, "pages scanned by the kernel"),
        (
            report.walks.entries_per_freed_page,
            "page-table entries visited by walks",
        ),
    ];
    let told: Vec<String> = costs
        .iter()
        .filter_map(|(cost, what)| cost.map(|cost| format!("{cost:.1} {what}")))
        .collect();
    if !told.is_empty() && detail == Detail::Verbose {
        lines.add("cost", format_args!("{} per page freed", told.join(", ")));
    }
    if let Some(nr_kills @ 1..) = kernel.nr_oom_kills {
        lines.add("OOM kills", count(nr_kills));
    }
}

fn saved(lines: &mut Lines, report: &Report) {
    let saved = &report.saved;
    let sign = if saved.net_bytes < 0 { "-" } else { "" };
    lines.add(
        "saved net",
        format_args!(
            "{sign}{} on average: {} out of memory, less {} for compressed swap and {} for Strata",
            Bytes(saved.net_bytes.unsigned_abs()),
            Bytes(saved.evicted_bytes),
            Bytes(saved.zram_bytes),
            Bytes(saved.strata_bytes)
        ),
    );
    if saved.net_bytes < 0 {
        lines.add(
            "warning",
            "nothing was saved: what Strata and compressed swap took is more than what went out of memory",
        );
    }
}

fn let_go(lines: &mut Lines, report: &Report) {
    if report.ending != Ending::Detached || report.is_dry_run {
        return;
    }
    let let_go = report.let_go;
    let left = match let_go.swapped_bytes {
        None => "how much of its memory is still in swap is unknown".to_owned(),
        Some(0) => "nothing of its memory is in swap any more".to_owned(),
        Some(bytes) => format!("{} of its memory still in swap", Bytes(bytes)),
    };
    match let_go.brought_back_bytes {
        Some(bytes) => lines.add(
            "let go",
            format_args!("{} read back in; {left}", Bytes(bytes)),
        ),
        None if let_go.swapped_bytes.is_some_and(|bytes| bytes > 0) => {
            lines.add(
                "let go",
                format_args!("{left} (--bring-back reads that back in first)"),
            );
        }
        None => lines.add("let go", left),
    }
}

fn access(lines: &mut Lines, report: &Report, detail: Detail) {
    let Some(source) = &report.access else {
        lines.add("accesses", "not watched");
        return;
    };
    let grain = match source.grain {
        Grain::Page => "page by page",
        Grain::Mapping => "mapping by mapping",
    };
    // That figures are coarse is no detail.
    let is_told = detail == Detail::Verbose || source.grain == Grain::Mapping;
    let more = match is_told || source.blind_spots.is_empty() {
        true => "",
        false => "; --verbose says what that does not show",
    };
    lines.add(
        "accesses",
        format_args!("seen by {}, {grain}{more}", source.name),
    );
    if is_told {
        for blind_spot in &source.blind_spots {
            lines.add("", format_args!("limit: {blind_spot}"));
        }
    }
}

/// Milliseconds as a time a person grasps.
fn seconds(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        120_000..7_200_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// How often.
fn times(nr_times: u64) -> String {
    match nr_times {
        1 => "once".to_owned(),
        nr_times => format!("{} times", count(nr_times)),
    }
}

/// The memory that so many pages are, with their count.
fn pages(nr_pages: u64) -> String {
    format!(
        "{} ({} pages)",
        Bytes(nr_pages.saturating_mul(PAGE_BYTES)),
        count(nr_pages)
    )
}

#[cfg(test)]
mod tests;
