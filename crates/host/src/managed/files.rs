//! Files that a rule gives a budget of their own, such as models and indexes that are mapped: what they hold beyond it goes, the
//! oldest first, promise or not, but for what was used within the least age.
//!
//! Looked at once after each walk, when what went after it is known. Of several budgets that fit a file the first is the file's. Pages that several processes map are not counted: they
//! can't go page by page.
//!
//! **Owns** how much of these files goes. **Does not own** which pages are oldest (`strata_control::oldest`), nor how they go
//! (`takes`).

use super::Managed;
use super::group::Asks;
use crate::observe::Observer;
use std::collections::BTreeSet;
use std::time::Duration;
use strata_control::oldest::{First, Holder, oldest};
use strata_linux::addr::PAGE_BYTES;

impl Managed {
    /// To be called once after each walk.
    pub(super) fn hold_files(&mut self, observer: &Observer) {
        if !self.config.is_acting {
            return;
        }
        let of_group = |(id, group): (_, &super::group::Group)| {
            let budgets = group.rule.files.iter();
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
            let Some(of) = self.groups.get(&group) else {
                continue;
            };
            let older_than = of.least_age(Asks::OfRule);
            let mut holder = Holder {
                nr_pages_max: u64::MAX,
                nr_anon_pages_max: 0,
                older_than: Duration::ZERO,
                spares_code: false,
                objects: Some(&files),
                cache: None,
                ..of.holder(group, true, Asks::OfRule)
            };
            let above_low = of.above_low_pages();
            let ledger = self.pages.ledger();
            let all = oldest(ledger, &[holder], First::Oldest, u64::MAX, 0);
            let over = all
                .nr_program_pages()
                .saturating_sub(budget.memory_bytes / PAGE_BYTES);
            holder.older_than = older_than;
            let over = over.min(above_low);
            let found = oldest(ledger, &[holder], First::Oldest, over, 0);
            self.take(&found, Asks::OfRule, &mut 0, observer);
        }
    }
}
