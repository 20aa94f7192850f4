//! What reclaim takes of the processors, by part, as profiles of a kernel tell it.
//!
//! **Owns** the table. **Does not own** the shares, nor the prices (`cost`).

use super::Record;
use crate::{
    cost::PARTS,
    ratio::Ratio,
    table::{aligned, grouped},
};

/// The shares of each run that was profiled, and its time beside that of the first: usual [lowest, highest].
pub(super) fn table(records: &[Record]) -> String {
    let row = |record: &Record| {
        let profile = record.profile.as_ref()?;
        let run = [
            record.policy.clone(),
            grouped(u64::from(record.memory_pages)),
        ];
        let shares = profile.shares.iter().map(|share| cell(*share, percent));
        let time = cell(profile.time_of_first, times);
        Some(run.into_iter().chain(shares).chain([time]).collect())
    };
    let rows: Vec<Vec<String>> = records.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = format!(
        "  <policy|memory|{}|time of the first's",
        PARTS.join(" %|") + " %"
    );
    let about =
        "shares of the processor time of reclaim; usual [lowest, highest] price of each thing";
    format!("\n  {about}\n{}", aligned(&head, rows))
}

fn cell([low, usual, high]: [Ratio; 3], text: fn(Ratio) -> String) -> String {
    match low == high {
        true => text(usual),
        false => format!("{} [{}, {}]", text(usual), text(low), text(high)),
    }
}

/// A tenth of a percent is a thousandth: shares are told in these, so that they add up.
fn percent(share: Ratio) -> String {
    let thousandths = share.millionths() / 1000;
    format!("{}.{}", thousandths / 10, thousandths % 10)
}

fn times(ratio: Ratio) -> String {
    let hundredths = ratio.millionths().saturating_add(5000) / 10_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
