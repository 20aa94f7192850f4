//! Files watched for a while: censuses one after the other, then what was read meanwhile and what lies idle.
//!
//! **Owns** the pace of censuses and what is told of a watch. **Does not own** comparing them (`access::census`) nor
//! how what is idle is dropped (`page_cache`).
//!
//! It takes its censuses itself: `engine::census` rests by what a census took, whatever `--cpu` says, and waits for one that
//! nobody wants any more.
//!
//! **Invariants**
//! - I1: a watch that is broken off tells what was read until then; before its second census it tells nothing of that.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Chosen, FilesError, FilesQuestion, FilesReport, Recency, Telling};
use strata_linux::access::census::{
    Budget, CacheWatch, CensusCost, FileNames, Sums, WHOLE_WATCH, Wanted, WatchQuestion,
};
use strata_linux::page_cache::{Dropped, ResetReport};

/// Time between the begins of two censuses.
const INTERVAL: Duration = Duration::from_secs(10);
/// Censuses of a short watch: reads show before the kernel counts them down again.
const NR_CENSUSES_MIN: u32 = 3;
/// Censuses of a long watch.
const NR_CENSUSES_MAX: u32 = 3000;
/// How long a sleep may keep its caller waiting.
const NAP: Duration = Duration::from_millis(50);

/// What a watch found in all files.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Watched {
    /// From the first census to the last.
    pub seconds: f64,
    /// Censuses.
    pub nr_censuses: u64,
    /// Bytes mapped by a process: how often they are read can't be told by a census.
    pub mapped_bytes: u64,
    /// Which counts of reads were reset, where asked for.
    pub resets: Option<ResetReport>,
    /// The rest.
    #[serde(flatten)]
    pub recency: Recency,
}

/// What is to become of what was not read during a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cold {
    /// It stays.
    Stays,
    /// It stays, and it is told what would go.
    WouldGo,
    /// It is dropped.
    Goes,
}

/// A watch of page cache.
#[derive(Debug)]
pub struct FilesWatch {
    watch: CacheWatch,
    question: FilesQuestion,
    chosen: Chosen,
    length: Duration,
}

impl FilesWatch {
    /// Sets up. Where `is_whole`, all of memory is watched, at the pace of the question's budget; else as much as one census
    /// can look at within it.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn open(
        question: FilesQuestion,
        length: Duration,
        is_whole: bool,
    ) -> Result<FilesWatch, FilesError> {
        let chosen = Chosen::find(&question)?;
        let interval = interval(length);
        let budget = question.budget.map(|budget| Budget {
            within: budget.within.min(interval),
            ..budget
        });
        let watch = CacheWatch::open(WatchQuestion {
            budget,
            is_whole,
            ages: [length; WHOLE_WATCH],
            reset_share: question.reset_share,
        })?;
        Ok(FilesWatch {
            watch,
            question,
            chosen,
            length,
        })
    }

    /// Takes censuses for as long as the watch is to last, or until `is_over` says so. Returns what was found, and what became of idle
    /// pages of the files asked for unless they stay; then a watch that ended early returns `None`.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn run(
        mut self,
        cold: Cold,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<(FilesReport, Option<Dropped>)>, FilesError> {
        let wants_idle = cold != Cold::Stays;
        let mut cost = CensusCost::default();
        let mut nr_censuses = 0;
        let mut started = Instant::now();
        let mut next = started;
        while next < started + self.length && !is_over() {
            self.reset_only_of_chosen()?;
            let wanted = Wanted {
                resets: true,
                ..Wanted::default()
            };
            match self.watch.take(wanted, is_over) {
                Ok(taken) => cost.add(&taken.cost),
                Err(_) if is_over() => break,
                Err(error) => return Err(FilesError::Census(error)),
            }
            // The watch begins when all has been looked at once.
            if nr_censuses == 0 {
                started = Instant::now();
                next = started;
            }
            nr_censuses += 1;
            next = (next + interval(self.length)).max(Instant::now());
            let next = next.min(started + self.length);
            while Instant::now() < next && !is_over() {
                sleep(NAP.min(next.saturating_duration_since(Instant::now())));
            }
        }
        if wants_idle && is_over() {
            return Ok(None);
        }
        // Before the last census: between that and the drop nothing is seen.
        let names = FileNames::read();
        let wanted = Wanted {
            files: true,
            idle_for: wants_idle.then_some(WHOLE_WATCH),
            is_urgent: wants_idle || is_over(),
            resets: false,
        };
        let taken = self
            .watch
            .take(wanted, &|| false)
            .map_err(FilesError::Census)?;
        cost.add(&taken.cost);
        nr_censuses += 1;
        let covered = self.watch.covered(WHOLE_WATCH);
        let age = covered.map(|_| WHOLE_WATCH);
        let telling = Telling::new(self.watch.census(), &names, &self.chosen, &taken, age)?;
        let dropped = wants_idle.then(|| telling.drop_idle(&taken, cold == Cold::WouldGo));
        let all: Sums = telling.parts.iter().map(|part| part.sums).sum();
        let mut report = telling.report(&self.question, &taken);
        report.cost = cost;
        report.watched = covered.map(|covered| Watched {
            seconds: covered.as_secs_f64(),
            nr_censuses,
            mapped_bytes: all.mapped_bytes,
            resets: self.watch.resets(),
            recency: Recency::new(&all, WHOLE_WATCH),
        });
        Ok(Some((report, dropped)))
    }
}

impl FilesWatch {
    /// Counts of reads are reset of pages that are asked for.
    fn reset_only_of_chosen(&mut self) -> Result<(), FilesError> {
        if let Some(within) = self
            .chosen
            .within
            .as_ref()
            .filter(|_| self.question.reset_share > 0.0)
        {
            let ids = within.names()?.ids_within(&within.group);
            self.watch.reset_only_of(&ids).map_err(FilesError::Census)?;
        }
        Ok(())
    }
}

/// Time between two censuses: not so short that a long watch has more of them than are remembered.
fn interval(length: Duration) -> Duration {
    let at_most = INTERVAL.min(length / NR_CENSUSES_MIN);
    at_most.max(length / NR_CENSUSES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_watch_has_as_many_censuses_as_a_longer_one_needs() {
        assert_eq!(interval(Duration::from_secs(3)), Duration::from_secs(1));
        assert_eq!(interval(Duration::from_secs(3600)), INTERVAL);
        assert_eq!(
            interval(Duration::from_secs(86_400)),
            Duration::from_millis(28_800)
        );
    }
}
