//! What is on each memory node, as a line.
//!
//! **Owns** the words. **Does not own** the figures (`strata_host::observe::ledger`).

use strata_host::observe::ledger::OnNodes;
use strata_linux::units::Bytes;

/// Nothing where there is one node.
pub(super) fn on_nodes(nodes: &OnNodes) -> String {
    let on = |(node, bytes): (&u32, &u64)| format!("{} on memory node {node}", Bytes(*bytes));
    let all: Vec<String> = nodes.iter().map(on).collect();
    match all.is_empty() {
        true => String::new(),
        false => all.join(", ") + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_nodes_are_several_it_is_told_what_is_on_each() {
        let text = on_nodes(&[(0, 900 << 20), (2, 400 << 20)].into());
        assert_eq!(text, "900 MiB on memory node 0, 400 MiB on memory node 2\n");
        assert_eq!(on_nodes(&OnNodes::new()), "");
    }
}
