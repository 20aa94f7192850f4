//! The table of a guard, for people.
//!
//! **Owns** its columns and words. **Does not own** the figures (`strata_host::managed`).

use strata_host::managed::{GroupStatus, Status, TierStatus};
use strata_host::observe::ledger::NodeStatus;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

use crate::duration::span;
use crate::print;

/// Groups with less than this in memory and away are told as one line.
const ROW_BYTES_MIN: u64 = 1 << 20;

/// What is on each memory node, and what moved.
fn nodes_text(status: &Status, tiers: &TierStatus) -> String {
    let node = |of: &NodeStatus| {
        let speed = if of.is_upper { "fast" } else { "slow" };
        let (held, free, total) = (
            Bytes(of.resident_bytes),
            Bytes(of.free_bytes),
            Bytes(of.total_bytes),
        );
        format!(
            "node {} ({speed}): {held} of these groups, {free} free of {total}",
            of.node
        )
    };
    let nodes: Vec<String> = status.nodes.iter().map(node).collect();
    let pages = |nr_pages: u64| Bytes(nr_pages * PAGE_BYTES);
    let by = tiers.promoted_by_kernel.as_ref();
    let by = by.map_or_else(String::new, |by| format!(" (left to the kernel: {by})"));
    format!(
        "{}; {} went down, {} came up{by}\n",
        nodes.join(", "),
        pages(tiers.pgdemote_proactive),
        pages(tiers.pgpromote_success),
    )
}

/// For people; lines are cut at so many columns.
pub(super) fn table(status: &Status, columns: Option<usize>) -> String {
    let seconds = |ms: u64| span(ms.next_multiple_of(1000));
    let mut text = match status.is_acting {
        true => format!(
            "given back {} net: {} are away, for {} of swap and ages\n",
            Bytes(status.given_back_bytes),
            Bytes(status.away_bytes),
            Bytes(status.price_bytes),
        ),
        false => format!(
            "would give back: {}; nothing is taken without --promise, or with --dry-run\n",
            Bytes(
                status
                    .groups
                    .iter()
                    .map(|group| group.could_give_bytes)
                    .sum()
            ),
        ),
    };
    if let Some(swap) = &status.swap {
        let (path, used) = (swap.path.display(), Bytes(swap.used_bytes));
        text.push_str(&format!(
            "its swap {path} holds {used} of {}, of all programs, also what went before this guard began\n",
            Bytes(swap.size_bytes)
        ));
    }
    if let Some(room) = &status.room {
        let (available, wanted) = (Bytes(room.available_bytes), Bytes(room.wanted_bytes));
        text.push_str(&format!(
            "{room}\n{available} are available; the host is short below {wanted}\n"
        ));
    }
    if status.watched_ms < status.min_age_ms {
        text.push_str(&format!(
            "watched for {} so far: nothing can be known to be idle for {}\n",
            seconds(status.watched_ms),
            seconds(status.min_age_ms)
        ));
    }
    if let Some(tiers) = &status.tiers {
        text.push_str(&nodes_text(status, tiers));
    }
    let sum = |of: fn(&GroupStatus) -> u64| Bytes(status.groups.iter().map(of).sum());
    if status
        .groups
        .iter()
        .any(|group| group.cache_bytes.is_some())
    {
        text.push_str(&format!(
            "page cache that no process maps: {}, {} of it idle; {} dropped so far\n",
            sum(|group| group.cache_bytes.unwrap_or(0)),
            sum(|group| group.idle_cache_bytes.unwrap_or(0)),
            Bytes(status.dropped_cache_bytes),
        ));
    }
    for silence in status.silence() {
        text.push_str(&format!("{silence}\n"));
    }
    for fit in status.fits.iter().filter(|fit| fit.why_nobody.is_some()) {
        text.push_str(&format!("{fit}\n"));
    }
    let head = "  resident|      used|could give|      away|  back/min|   may/min|    promise|idle at|<why not more           |<group";
    let is_told = |group: &&GroupStatus| group.resident_bytes + group.away_bytes >= ROW_BYTES_MIN;
    let rows = status.groups.iter().filter(is_told).map(|group| {
        let bytes = |bytes: u64| Bytes(bytes).to_string();
        // A pod's path is long, and says no more than its uid and its container's id.
        let of_pod = group.name.as_ref().filter(|_| group.pod.is_some());
        [
            bytes(group.resident_bytes),
            bytes(group.used_lately_bytes),
            bytes(group.could_give_bytes),
            bytes(group.away_bytes),
            bytes(group.came_back_per_min_bytes),
            bytes(group.allowed_per_min_bytes),
            group.promise.clone().unwrap_or_else(|| "-".to_owned()),
            seconds(group.age_anon_ms),
            why_not_more(group).to_owned(),
            of_pod.unwrap_or(&group.group).to_owned(),
        ]
    });
    text.push('\n');
    text.push_str(&print::cut(&aligned(head, rows), columns));
    let nr_small = status.groups.iter().filter(|group| !is_told(group)).count();
    if nr_small > 0 {
        let limit = Bytes(ROW_BYTES_MIN);
        text.push_str(&format!("{nr_small} more with less than {limit} each\n"));
    }
    text
}

/// Why a group gives no more, in a few words.
fn why_not_more(group: &GroupStatus) -> &'static str {
    match group.why_not_more {
        _ if group.is_frozen => "frozen",
        _ if group.is_slowed => "slowed",
        None => "-",
        Some(why) => why.name(),
    }
}
