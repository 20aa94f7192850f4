//! Files that a rule gives a budget of their own, such as models and indexes that are mapped: what they hold beyond it goes, the
//! oldest first, promise or not.
//!
//! Looked at once after each walk, when what went after it is known. Of several budgets that fit a file the first is the file's. Pages that several processes map are not counted: they
//! can't go page by page.
//!
//! **Owns** how much of these files goes. **Does not own** which pages are oldest (`strata_control::guard`), nor how they go
//! (`takes`).

use super::Managed;
use crate::observe::Observer;
use std::collections::BTreeSet;
use std::time::Duration;
use strata_control::guard::{self, Holder};
use strata_linux::addr::PAGE_BYTES;

impl Managed {
    pub(super) fn hold_files(&mut self, observer: &Observer) {
        if !std::mem::take(&mut self.are_files_due) || !self.config.is_acting {
            return;
        }
        let of_group = |(id, group): (_, &super::group::Group)| {
            let budgets = group.rule().files.iter();
            budgets
                .map(|budget| (id, budget.clone()))
                .collect::<Vec<_>>()
        };
        let groups = self.groups.iter().map(|(id, group)| (*id, group));
        let budgets: Vec<_> = groups.flat_map(of_group).collect();
        let mut budgeted = BTreeSet::new();
        for (group, budget) in budgets {
            let mut files = self.pages.files_of(group, |path| budget.path.matches(path));
            files.retain(|file| budgeted.insert((group, *file)));
            let holder = Holder {
                group,
                nr_pages_max: u64::MAX,
                nr_anon_pages_max: 0,
                older_than: Duration::ZERO,
                spares_code: false,
                objects: Some(&files),
            };
            let all = guard::oldest(self.pages.ledger(), &[holder], u64::MAX, 0);
            let nr_held: u64 = all.iter().map(|goes| goes.pages.nr_pages).sum();
            let above_low = self.groups.get(&group).map_or(0, |of| of.above_low_pages());
            let over = nr_held.saturating_sub(budget.memory_bytes / PAGE_BYTES);
            let over = over.min(above_low);
            if over > 0 {
                self.take_oldest(&[holder], over, &mut 0, observer);
            }
        }
    }
}
