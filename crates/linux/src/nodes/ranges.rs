//! Which physical pages there may be, and on which memory node each is.
//!
//! **Owns** the ranges that `/proc/zoneinfo` tells. **Does not own** holes inside a zone: the census finds them.

use std::fs;
use std::io;

use crate::addr::TABLE_ENTRIES;

/// Pages of a block: 2 MiB, the size of the largest folio but hugetlb's.
pub(crate) const BLOCK_PAGES: u64 = TABLE_ENTRIES as u64;

/// Blocks one after the other on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// First block.
    pub(crate) first: u64,
    /// The block after the last one.
    pub(crate) end: u64,
    /// `None` where two nodes have pages in these blocks.
    pub(crate) node: Option<u32>,
}

impl Range {
    pub(crate) fn nr_blocks(&self) -> u64 {
        self.end - self.first
    }
}

/// All ranges of this machine: by address, disjoint.
pub(crate) fn read() -> io::Result<Vec<Range>> {
    let ranges = parse(&fs::read_to_string("/proc/zoneinfo")?);
    match ranges.is_empty() {
        true => Err(io::Error::other("/proc/zoneinfo names no memory")),
        false => Ok(ranges),
    }
}

pub(super) fn parse(zoneinfo: &str) -> Vec<Range> {
    let mut node = None;
    let mut nr_spanned = 0;
    let mut zones: Vec<Range> = Vec::new();
    for line in zoneinfo.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(number)) => {
                node = number.trim_end_matches(',').parse().ok();
                nr_spanned = 0;
            }
            (Some("spanned"), Some(number)) => nr_spanned = number.parse().unwrap_or(0),
            (Some("start_pfn:"), Some(number)) if nr_spanned > 0 => {
                let start: u64 = number.parse().unwrap_or(0);
                zones.push(Range {
                    first: start / BLOCK_PAGES,
                    end: (start + nr_spanned).div_ceil(BLOCK_PAGES),
                    node,
                });
                nr_spanned = 0;
            }
            _ => {}
        }
    }
    disjoint(&zones)
}

/// Cuts ranges at each other's ends; a part that two nodes have is of none.
fn disjoint(zones: &[Range]) -> Vec<Range> {
    let mut cuts: Vec<u64> = zones
        .iter()
        .flat_map(|zone| [zone.first, zone.end])
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut found: Vec<Range> = Vec::new();
    for piece in cuts.windows(2) {
        let (first, end) = (piece[0], piece[1]);
        let mut owners = zones
            .iter()
            .filter(|zone| zone.first <= first && end <= zone.end);
        let Some(owner) = owners.next() else {
            continue;
        };
        let is_shared = owners.any(|other| other.node != owner.node);
        let node = if is_shared { None } else { owner.node };
        match found.last_mut() {
            Some(last) if last.end == first && last.node == node => last.end = end,
            _ => found.push(Range { first, end, node }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(node: u32, spanned: u64, start: u64) -> String {
        format!(
            "Node {node}, zone   Normal\n  pages free  1\n        spanned  {spanned}\n  start_pfn:  {start}\n"
        )
    }

    #[test]
    fn zones_of_a_node_that_touch_are_one_range_and_empty_ones_are_none() {
        let text = zone(0, 4095, 1) + &zone(0, 4096, 4096) + &zone(0, 0, 0) + &zone(1, 512, 8192);
        let range = |first, end, node| Range {
            first,
            end,
            node: Some(node),
        };
        assert_eq!(parse(&text), [range(0, 16, 0), range(16, 17, 1)]);
        assert_eq!(parse("nonsense"), []);
    }

    #[test]
    fn what_lies_between_zones_is_left_out_and_what_two_nodes_have_is_of_none() {
        let text = zone(0, 512 * 8, 0) + &zone(1, 512 * 8, 512 * 6) + &zone(1, 512, 512 * 20);
        let range = |first, end, node| Range { first, end, node };
        let expected = [
            range(0, 6, Some(0)),
            range(6, 8, None),
            range(8, 14, Some(1)),
            range(20, 21, Some(1)),
        ];
        assert_eq!(parse(&text), expected);
    }
}
