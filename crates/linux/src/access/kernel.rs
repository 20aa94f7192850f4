//! The kernel's own generations, where the kernel has them (MGLRU): read, not walked.
//!
//! `/sys/kernel/debug/lru_gen` lists all groups. Only the part of one group is parsed, into the same
//! views as ours.
//!
//! **Owns** reading those of a group. **Does not own** the text format (engine). Never mounts debugfs and never turns MGLRU on.

use crate::cgroup::GroupReader;
use std::fs;
use strata_lru::GroupView;
use strata_lru::lru_gen::{parse_plain, section_of};

/// Where the kernel lists them.
const LISTED: &str = "/sys/kernel/debug/lru_gen";

/// The generations that the kernel keeps of a group by node, oldest first; none where they can't be read.
pub fn kernel_generations(group: &GroupReader) -> Vec<GroupView> {
    let text = fs::read_to_string(LISTED).unwrap_or_default();
    views_of(&text, group.name())
}

fn views_of(text: &str, name: &str) -> Vec<GroupView> {
    let section = section_of(text, name);
    let views = section.and_then(|section| parse_plain(section).ok());
    views.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_text_that_lists_all_groups_one_is_read() {
        let own = "memcg     1 /a\n node     0\n          0          5          1           2 \n";
        let text = format!("memcg     7 /elsewhere\n{own}memcg     8 /b\n");
        let views = views_of(&text, "/a");
        assert_eq!(views.len(), 1, "{views:?}");
        assert_eq!(views[0].generations[0].nr_pages, [Some(1), Some(2)]);
        assert!(views_of(&text, "/not-listed").is_empty());
        assert!(views_of("memcg     1 /a\n what\n", "/a").is_empty());
    }
}
