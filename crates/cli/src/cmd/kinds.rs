//! The table of what groups hold by kind, for people.
//!
//! **Owns** its columns and words. **Does not own** the figures (`strata_host::observe`).

use strata_host::observe::ledger::{KindFigures, Kinds};
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

use crate::print;

/// Kinds with less than this in memory and away are left out.
const ROW_BYTES_MIN: u64 = 1 << 20;

/// Each group by kind, after what all hold together; lines are cut at so many columns.
pub(super) fn table<'a>(
    all: &Kinds,
    groups: impl Iterator<Item = (&'a str, &'a Kinds)>,
    columns: Option<usize>,
) -> String {
    let head = "  resident|      used|      idle|      away|<kind       |<stays because                |<group";
    let of_all = all.iter().map(|kind| ("all groups", kind));
    let of_groups = groups.flat_map(|(name, kinds)| kinds.iter().map(move |kind| (name, kind)));
    let is_told =
        |(_, kind): &(&str, &KindFigures)| kind.resident_bytes + kind.away_bytes >= ROW_BYTES_MIN;
    let rows = of_all.chain(of_groups).filter(is_told).map(|(name, kind)| {
        let bytes = |bytes: u64| Bytes(bytes).to_string();
        [
            bytes(kind.resident_bytes),
            bytes(kind.used_bytes),
            bytes(kind.idle_bytes),
            bytes(kind.away_bytes),
            kind.kind.name().replace('_', " "),
            kind.stays_because.as_deref().unwrap_or("-").to_owned(),
            name.to_owned(),
        ]
    });
    print::cut(&aligned(head, rows), columns)
}
