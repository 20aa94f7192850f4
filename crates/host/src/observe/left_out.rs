//! Processes that walks leave out, because whoever asks them for their memory may wait for long: each is told once. Who is left
//! out of one walk alone waited for a moment, as pages on their way elsewhere have anybody wait, and is not told. That some may
//! not be read is told once for all.
//!
//! **Owns** who was told. **Does not own** who is left out (`Observer`).

use crate::news::News;
use std::collections::BTreeMap;
use std::fmt;

/// A process that a walk left out: whoever asked it for its memory might wait for long, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The process.
    pub pid: i32,
    /// Its command name.
    pub comm: String,
    /// What it was left out for.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}): {}", self.pid, self.comm, self.why)
    }
}

/// Who is left out, and what is new of it.
#[derive(Debug, Default)]
pub(super) struct LeftOuts {
    /// Those of the last walk, and whether they were told.
    pids: BTreeMap<i32, bool>,
    /// It was told that some may not be read.
    has_told_refused: bool,
}

impl LeftOuts {
    /// A walk has left these out: what is new.
    pub(super) fn look(&mut self, all: &[LeftOut]) -> Vec<News> {
        let before = std::mem::take(&mut self.pids);
        let mut news = Vec::new();
        for left_out in all {
            let was_left_out = before.get(&left_out.pid).copied();
            if was_left_out == Some(false) {
                news.push(News::Warning(left_out.to_string()));
            }
            self.pids.insert(left_out.pid, was_left_out.is_some());
        }
        let were_told = before.iter().filter(|(_, is_told)| **is_told);
        for (pid, _) in were_told.filter(|(pid, _)| !self.pids.contains_key(pid)) {
            let told = format!("process {pid} is left out no more");
            news.push(News::Note(told));
        }
        news
    }

    /// These may not be read: what is new, which is told of the first ones.
    pub(super) fn look_at_refused(&mut self, all: &[String]) -> Option<News> {
        let first = all.first().filter(|_| !self.has_told_refused)?;
        self.has_told_refused = true;
        let others = match all.len() {
            1 => String::new(),
            nr => format!("; and so it is with {} more", nr - 1),
        };
        Some(News::Warning(format!("{first}{others}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_left_out_is_told_once_and_once_more_when_that_is_over() {
        let left_out = |pid| LeftOut {
            pid,
            comm: "db".to_owned(),
            why: "its thread waits".to_owned(),
        };
        let mut all = LeftOuts::default();
        for _ in 0..2 {
            assert_eq!(all.look(&[left_out(7)]), [], "for a moment");
            assert_eq!(all.look(&[]), []);
        }
        assert_eq!(all.look(&[left_out(7)]), []);
        let told = News::Warning("process 7 (db): its thread waits".to_owned());
        assert_eq!(all.look(&[left_out(7)]), [told]);
        assert_eq!(all.look(&[left_out(7)]), []);
        let told = News::Note("process 7 is left out no more".to_owned());
        assert_eq!(all.look(&[]), [told]);
    }

    #[test]
    fn that_processes_may_not_be_read_is_told_once() {
        let mut all = LeftOuts::default();
        let refused = |pid| format!("process {pid} can't be read");
        assert_eq!(all.look_at_refused(&[]), None);
        let told = "process 7 can't be read; and so it is with 2 more";
        let told = Some(News::Warning(told.to_owned()));
        assert_eq!(all.look_at_refused(&[7, 8, 9].map(refused)), told);
        assert_eq!(all.look_at_refused(&[refused(10)]), None);
    }
}
