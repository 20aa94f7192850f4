//! Lines of a report on what was evicted: page cache, tiers, and what a dry run would have evicted.
//!
//! **Owns** the words. **Does not own** any figure.

use strata_host::run::{PageCacheReport, Report, TierReport};
use strata_linux::units::Bytes;

use super::{Lines, PAGE_BYTES, pages};

/// Amounts of which there are any, each with its word.
pub(super) fn told(amounts: &[(u64, &str)], show: impl Fn(u64) -> String) -> String {
    let amounts = amounts.iter().filter(|(amount, _)| *amount > 0);
    let told: Vec<String> = amounts
        .map(|(amount, word)| format!("{} {word}", show(*amount)))
        .collect();
    told.join(", ")
}

fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// What a dry run answers, in a sentence.
pub(super) fn would_evict(lines: &mut Lines, report: &Report) {
    let Some(would) = &report.would_evict else {
        lines.add("would evict", "unknown: the kernel chooses");
        return;
    };
    let size = |nr_pages: u64| Bytes(nr_pages.saturating_mul(PAGE_BYTES));
    if would.nr_pages == 0 {
        lines.add("would evict", "nothing: usage stayed within the budget");
        return;
    }
    let shares = would.shares.iter();
    let shares = shares.map(|share| format!("{} {}", size(share.nr_pages), share.name));
    let shares: Vec<String> = shares.collect();
    lines.add(
        "would evict",
        format_args!("{}: {}", size(would.nr_pages), shares.join(", ")),
    );
    let cache = report.page_cache.as_ref();
    let nr_cache_pages = cache.map_or(0, |of| of.returned_bytes / PAGE_BYTES);
    let nr_refaulted_pages = report
        .eviction
        .nr_refaulted_pages
        .saturating_add(nr_cache_pages);
    if nr_refaulted_pages > 0 {
        lines.add(
            "",
            format_args!(
                "{} would have come back: the program used them again",
                pages(nr_refaulted_pages)
            ),
        );
    }
}

/// Page cache that was dropped, and what came in.
pub(super) fn page_cache(lines: &mut Lines, cache: &PageCacheReport) {
    if cache.dropped_bytes() == 0 {
        return;
    }
    let dropped = Bytes(cache.dropped_bytes());
    let (came, again) = (Bytes(cache.in_bytes), Bytes(cache.in_again_bytes));
    let kinds = [
        (cache.once.dropped_bytes, "read once"),
        (cache.again.dropped_bytes, "read again, long ago"),
        (cache.newcomers.dropped_bytes, "just come in, in a loop"),
    ];
    let kinds = told(&kinds, size);
    lines.add(
        "page cache",
        format_args!(
            "{dropped} dropped ({kinds}); {came} came in, {again} of it not for the first time"
        ),
    );
}

/// What became of page cache by tier; tiers of which nothing is to be said are left out.
pub(super) fn cache_tiers(lines: &mut Lines, cache: &PageCacheReport) {
    for of in &cache.tiers {
        let fates = [
            (of.dropped_bytes, "dropped"),
            (of.reclaimed_bytes, "gone without Strata"),
            (of.refaulted_bytes, "came back"),
            (of.protected_bytes, "protected"),
        ];
        let fates = told(&fates, size);
        if !fates.is_empty() {
            lines.add(
                "",
                format_args!("page cache in tier {}: {}", of.tier, fates),
            );
        }
    }
}

/// What became of mapped pages by kind and tier; those of which nothing is to be said are left out.
pub(super) fn tiers(lines: &mut Lines, tiers: &[TierReport]) {
    for of in tiers {
        let fates = [
            (of.nr_evicted_pages, "evicted"),
            (of.nr_refaulted_pages, "came back"),
            (of.nr_protected_pages, "protected"),
        ];
        let fates = told(&fates, pages);
        if !fates.is_empty() {
            lines.add(
                "",
                format_args!("{} in tier {}: {}", of.kind, of.tier, fates),
            );
        }
    }
}
