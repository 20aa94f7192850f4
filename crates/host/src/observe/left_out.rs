//! Processes that walks leave out, because whoever asks them for their memory may wait for long: each is told once. Who is left
//! out of one walk alone waited for a moment, as pages on their way elsewhere have anybody wait, and is not told.
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
pub(crate) struct LeftOuts {
    /// Those of the last walk, and whether they were told.
    pids: BTreeMap<i32, bool>,
    news: Vec<News>,
}

impl LeftOuts {
    /// A walk has left these out.
    pub(crate) fn look(&mut self, all: Vec<LeftOut>) {
        let before = std::mem::take(&mut self.pids);
        for left_out in all {
            let was_left_out = before.get(&left_out.pid).copied();
            if was_left_out == Some(false) {
                self.news.push(News::Warning(left_out.to_string()));
            }
            self.pids.insert(left_out.pid, was_left_out.is_some());
        }
        let were_told = before.iter().filter(|(_, is_told)| **is_told);
        for (pid, _) in were_told.filter(|(pid, _)| !self.pids.contains_key(pid)) {
            let told = format!("process {pid} is left out no more");
            self.news.push(News::Note(told));
        }
    }

    /// What is new since the last call.
    pub(crate) fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// How many the last walk left out.
    pub(crate) fn nr_processes(&self) -> u64 {
        self.pids.len() as u64
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
            all.look(vec![left_out(7)]);
            assert_eq!(
                (all.news(), all.nr_processes()),
                (vec![], 1),
                "for a moment"
            );
            all.look(Vec::new());
            assert_eq!((all.news(), all.nr_processes()), (vec![], 0));
        }
        for _ in 0..3 {
            all.look(vec![left_out(7)]);
        }
        let told = News::Warning("process 7 (db): its thread waits".to_owned());
        assert_eq!((all.news(), all.nr_processes()), (vec![told], 1));
        all.look(Vec::new());
        let told = News::Note("process 7 is left out no more".to_owned());
        assert_eq!((all.news(), all.nr_processes()), (vec![told], 0));
    }
}
