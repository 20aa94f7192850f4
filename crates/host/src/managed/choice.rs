//! Which groups of the host are looked after now, and who is in them.
//!
//! Groups on which a `run` acts, and those below, are left to it.
//!
//! **Owns** the look at the host's groups. **Does not own** which rule fits a group (`rules`).

use super::rules::{Candidate, Rule, Rules};
use crate::keeper::look_at;
use crate::remote;
use std::path::PathBuf;
use strata_linux::cgroup::GroupReader;

/// A group that is looked after.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub(super) reader: GroupReader,
    pub(super) pids: Vec<i32>,
    pub(super) rule: &'a Rule,
}

/// The groups with processes of their own for which a rule holds.
pub(super) fn choose(rules: &Rules) -> Vec<Chosen<'_>> {
    let groups = GroupReader::all().unwrap_or_else(|error| {
        tracing::debug!("{error}");
        Vec::new()
    });
    let held = held_groups();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut chosen = Vec::new();
    for reader in groups {
        if held.iter().any(|held| reader.path().starts_with(held)) {
            continue;
        }
        let mut pids = reader.own_processes().unwrap_or_default();
        let group = Candidate {
            path: reader.name(),
            pids: &pids,
        };
        let Some(rule) = (!pids.is_empty()).then(|| rules.of(&group)).flatten() else {
            continue;
        };
        pids.retain(|pid| *pid != own);
        if !pids.is_empty() {
            chosen.push(Chosen { reader, pids, rule });
        }
    }
    chosen
}

/// Groups that runs act on.
fn held_groups() -> Vec<PathBuf> {
    let running = remote::running().unwrap_or_default();
    let views = running.iter().filter_map(|run| look_at(&run.id));
    views.flat_map(|view| view.groups).collect()
}
