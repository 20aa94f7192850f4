//! What reclaim takes of the processors, by part, as profiles of a kernel tell it.
//!
//! **Owns** the table. **Does not own** the shares, nor the prices (`cost`).

use super::{Record, section};
use crate::{cost::PARTS, ratio::Ratio};

/// The shares of each run that was profiled, and its time beside that of the first: usual [lowest, highest].
pub(super) fn table(records: &[Record]) -> String {
    let row = |record: &Record| {
        let profile = record.profile.as_ref()?;
        let shares = profile.shares.iter().map(|share| cell(*share, percent));
        let time = cell(profile.time_of_first, times);
        Some(record.row(shares.chain([time])))
    };
    let head = PARTS.join(" %|") + " %|time of the first's";
    let table = section(&head, records.iter().filter_map(row));
    if table.is_empty() {
        return table;
    }
    let about =
        "shares of the processor time of reclaim; usual [lowest, highest] price of each thing";
    format!("\n  {about}{table}")
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
