//! Which groups are looked after, and who is in them.
//!
//! Without patterns that is every group but those that a host lives by: the group of pid 1, of sshd and of Strata
//! itself. Groups on which a `run` acts, and those below, are left to it.
//!
//! **Owns** the choice. **Does not own** what is done with a group.

use crate::keeper::look_at;
use crate::remote;
use glob::Pattern;
use std::path::PathBuf;
use strata_linux::cgroup::GroupReader;

/// A pattern for groups that can't be understood.
#[derive(Debug, thiserror::Error)]
#[error("invalid pattern {text:?} for groups: {source}; for example /system.slice/*")]
pub struct ChoiceError {
    text: String,
    source: glob::PatternError,
}

/// Which groups are looked after.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    patterns: Vec<Pattern>,
}

impl Choice {
    /// Groups whose path below the mount fits one of the patterns; with none, all that a host does not live by.
    ///
    /// # Errors
    /// [`ChoiceError`].
    pub fn new(patterns: &[String]) -> Result<Choice, ChoiceError> {
        let patterns = patterns.iter().map(|text| {
            let pattern = format!("/{}", text.trim_start_matches('/'));
            Pattern::new(&pattern).map_err(|source| ChoiceError {
                text: text.clone(),
                source,
            })
        });
        let patterns = patterns.collect::<Result<_, _>>()?;
        Ok(Choice { patterns })
    }

    /// The groups with processes of their own that are chosen now, by path.
    pub(super) fn find(&self) -> Vec<(String, Vec<i32>)> {
        let groups = GroupReader::all().unwrap_or_else(|error| {
            tracing::debug!("{error}");
            Vec::new()
        });
        let held = held_groups();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut found = Vec::new();
        for group in groups {
            if held.iter().any(|held| group.path().starts_with(held)) {
                continue;
            }
            let mut pids = group.own_processes().unwrap_or_default();
            let is_chosen = match self.patterns.is_empty() {
                true => !pids.iter().any(|pid| is_vital(*pid, own)),
                false => self.patterns.iter().any(|one| one.matches(group.name())),
            };
            pids.retain(|pid| *pid != own);
            if is_chosen && !pids.is_empty() {
                found.push((group.name().to_owned(), pids));
            }
        }
        found
    }
}

fn is_vital(pid: i32, own: i32) -> bool {
    let is_sshd = || {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.trim_end() == "sshd")
    };
    pid == 1 || pid == own || is_sshd()
}

/// Groups that runs act on.
fn held_groups() -> Vec<PathBuf> {
    let running = remote::running().unwrap_or_default();
    let views = running.iter().filter_map(|run| look_at(&run.id));
    views.flat_map(|view| view.groups).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_a_path_below_the_mount_with_or_without_a_slash() {
        for text in ["/system.slice/*", "system.slice/*"] {
            let choice = Choice::new(&[text.to_owned()]).expect("a pattern");
            let fits = |name| choice.patterns[0].matches(name);
            assert!(fits("/system.slice/redis.service"));
            assert!(!fits("/user.slice/redis.service"));
        }
        let error = Choice::new(&["a[".to_owned()]).expect_err("no pattern");
        assert!(error.to_string().contains("\"a[\""), "{error}");
    }
}
