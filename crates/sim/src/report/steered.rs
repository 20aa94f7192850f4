//! What the control loop did in a steered run, for people.
//!
//! **Owns** the tables. **Does not own** the counts, nor the names of their fields (`outcome`).

use super::{Record, section};
use crate::{outcome::SteeringCounts, ratio::Ratio, table::grouped};

/// Parts of 1000, with two decimals.
fn per_thousand(ratio: Ratio) -> String {
    let hundredths = ratio.millionths().saturating_add(5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

const WHO: &str = "faults/1000|time|pageout|the kernel|programs|Strata, CPU|above budget";
const PAGES: &str = "paged out|reclaimed ahead|in faults";

const CACHE: &str = "read once|read again|newcomers|came back|came in|came in again";

/// Cells of a run; `None` where it has none.
type Cells = Option<Vec<String>>;

/// Who reclaimed for how long and what became of pages, a line a run that was steered.
pub(super) fn table(records: &[Record]) -> String {
    let of_each = |head, cells: fn(&SteeringCounts) -> Cells| {
        let row = |record: &Record| {
            let steered = record.reclaim.as_ref()?.counts.steering.as_deref()?;
            Some(record.row(cells(steered)?))
        };
        section(head, records.iter().filter_map(row))
    };
    let caches = of_each(CACHE, cached);
    let about = match caches.is_empty() {
        true => "",
        false => "\npage cache that was dropped, by how it was read, and that came in",
    };
    of_each(WHO, who) + &of_each(PAGES, pages) + about + &caches
}

fn who(of: &SteeringCounts) -> Cells {
    let ms = |ns: u64| format!("{} ms", grouped(ns / 1_000_000));
    Some(vec![
        per_thousand(of.refault_ratio),
        ms(of.time_ns),
        ms(of.pageout_ns),
        ms(of.kernel_ns),
        ms(of.programs_ns),
        ms(of.cpu_ns),
        grouped(of.peak_above_budget_pages),
    ])
}

fn cached(of: &SteeringCounts) -> Cells {
    let of = of.cache.as_ref()?;
    let pages = [
        of.once_pages,
        of.again_pages,
        of.newcomers_pages,
        of.returned_pages,
        of.in_pages,
        of.in_again_pages,
    ];
    Some(pages.map(grouped).to_vec())
}

fn pages(of: &SteeringCounts) -> Cells {
    let pages = [
        of.nr_paged_out_pages,
        of.nr_reclaimed_ahead_pages,
        of.nr_reclaimed_in_faults_pages,
    ];
    Some(pages.map(grouped).to_vec())
}
