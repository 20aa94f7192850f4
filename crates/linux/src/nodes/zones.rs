//! How much of each node is free: `/proc/zoneinfo`.
//!
//! **Owns** the key names. **Does not own** what is made of it.

use std::collections::BTreeMap;

use crate::addr::PAGE_BYTES;

/// Memory of a node, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct NodeRoom {
    /// In use or free, without what the kernel keeps for itself.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// The kernel stops reclaiming from the node when so much is free (`high`, of all zones).
    pub watermark_bytes: u64,
}

/// By the kernel's number of the node.
pub(super) fn parse(zoneinfo: &str) -> BTreeMap<u32, NodeRoom> {
    let mut rooms: BTreeMap<u32, NodeRoom> = BTreeMap::new();
    let mut node = None;
    for line in zoneinfo.lines() {
        let mut words = line.split_ascii_whitespace();
        let (key, value) = (words.next(), words.next());
        if key == Some("Node") {
            node = value.and_then(|number| number.trim_end_matches(',').parse().ok());
            continue;
        }
        let Some(room) = node.map(|node| rooms.entry(node).or_default()) else {
            continue;
        };
        let bytes = |word: Option<&str>| -> u64 {
            let nr_pages = word.and_then(|word| word.parse().ok());
            nr_pages.unwrap_or(0) * PAGE_BYTES
        };
        match key {
            // "pages free 123": the first line of a zone.
            Some("pages") if value == Some("free") => room.free_bytes += bytes(words.next()),
            Some("high") => room.watermark_bytes += bytes(value),
            Some("managed") => room.total_bytes += bytes(value),
            _ => {}
        }
    }
    rooms.retain(|_, room| room.total_bytes > 0);
    rooms
}
