//! Walks of one target, or of everybody at once, within a share of a processor, for an overview of all groups.
//!
//! One walk over all processes tells of each group and program: a page counts once in each of them.
//!
//! **Owns** when everybody is walked, and which spaces a target has. **Does not own** ages (`ledger`).
//!
//! **Invariants**
//! - I1: all walks together take no more than the share of the time since the overview was opened, and [`BURST_NS`].

use super::super::ledger::{AgedPages, WatchedAges};
use super::super::{Observer, Subject, SubjectError};
use super::snapshot::{AgesView, Snapshot};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strata_linux::access::AccessChoice;
use strata_linux::process::thread_cpu_ns;
use strata_lru::SpaceNo;

/// Processor time that may be taken at once, so that ages are known soon.
const BURST_NS: f64 = 200e6;
/// How often everybody is counted at a walk: groups lie in groups, and a page is counted for each of them.
const NR_COUNTS_MAX: usize = 16;
/// Watched for less than a minute, memory is idle after this time.
const IDLE_AFTER_MIN: Duration = Duration::from_secs(10);

/// The walks of one target.
#[derive(Debug)]
pub(super) struct TargetWatch {
    pub(super) observer: Observer,
    pages: AgedPages,
    /// What the last walk told.
    ages: Option<AgesView>,
}

impl TargetWatch {
    pub(super) fn open(
        subject: &Subject,
        access: AccessChoice,
    ) -> Result<TargetWatch, SubjectError> {
        Ok(TargetWatch {
            observer: Observer::open(subject, access)?,
            pages: AgedPages::new(),
            ages: None,
        })
    }

    /// Walks, unless that would hold the target up too often: then it tells what it told last.
    pub(super) fn walk(&mut self, idle_after: Duration, snapshot: &mut Snapshot) -> AgesView {
        snapshot.source = Some(self.observer.info().name);
        if let Some(ages) = &self.ages
            && !self.observer.rest().is_zero()
        {
            return ages.clone();
        }
        self.observe(snapshot);
        let ages = AgesView::new(&self.pages.ages(), idle_after);
        self.ages = Some(ages.clone());
        ages
    }

    /// Walks, and returns what the thread that walks has taken of a processor.
    fn observe(&mut self, snapshot: &mut Snapshot) -> u64 {
        let walked = self.pages.observe(&mut self.observer);
        snapshot.walk_us += walked.wall_ns / 1000;
        snapshot.troubles.extend(walked.troubles);
        walked.cpu_ns
    }
}

/// A target: who it is, and whether its mappings are asked for.
pub(super) struct Asked<'a> {
    pub(super) name: &'a str,
    pub(super) pids: &'a [i32],
    pub(super) is_detailed: bool,
}

/// The walks of everybody.
#[derive(Debug)]
pub(super) struct Everybody {
    pub(super) watch: TargetWatch,
    opened: Instant,
    cpu_share: f64,
    spent_ns: u64,
}

impl Everybody {
    pub(super) fn open(access: AccessChoice, cpu_share: f64) -> Result<Everybody, SubjectError> {
        let subject = Subject::Cgroup(PathBuf::from("/"));
        Ok(Everybody {
            watch: TargetWatch::open(&subject, access)?,
            opened: Instant::now(),
            cpu_share,
            spent_ns: 0,
        })
    }

    fn is_due(&self) -> bool {
        let may_ns = BURST_NS + self.opened.elapsed().as_nanos() as f64 * self.cpu_share;
        // Of who was held up lately a walk clears nothing: what it used since counts as used now.
        (self.spent_ns as f64) < may_ns
    }

    /// Walks, where it is time to, and tells the ages of each target by its name.
    pub(super) fn look(
        &mut self,
        targets: &[Asked<'_>],
        idle_after: Duration,
        snapshot: &mut Snapshot,
    ) -> Option<BTreeMap<String, AgesView>> {
        if !self.is_due() {
            return None;
        }
        let before_ns = thread_cpu_ns();
        let walked_ns = self.watch.observe(snapshot);
        let watched = self.watch.pages.ledger().watched();
        let idle_after = match watched < idle_after {
            true => idle_after.min(IDLE_AFTER_MIN),
            false => idle_after,
        };
        let views = self.count(targets, idle_after);
        self.spent_ns += walked_ns + thread_cpu_ns().saturating_sub(before_ns);
        Some(views)
    }

    fn count(&self, targets: &[Asked<'_>], idle_after: Duration) -> BTreeMap<String, AgesView> {
        let TargetWatch {
            observer, pages, ..
        } = &self.watch;
        let of_pid: BTreeMap<i32, SpaceNo> = observer
            .processes()
            .map(|(space, process)| (process.pid(), space))
            .collect();
        let spaces_of = |target: &Asked<'_>| -> Vec<SpaceNo> {
            let spaces = target.pids.iter().filter_map(|pid| of_pid.get(pid));
            spaces.copied().collect()
        };
        let mut views = BTreeMap::new();
        for (parts, of_space) in in_rounds(targets.iter().map(spaces_of)) {
            let (ages, _) = pages.count(parts.len(), |space| of_space.get(&space).copied());
            for (number, ages) in parts.iter().zip(ages) {
                let Some(target) = targets.get(*number) else {
                    continue;
                };
                let watched = match target.is_detailed {
                    true => {
                        let part = parts.iter().position(|other| other == number);
                        pages.ages_of(|space| of_space.get(&space).copied() == part)
                    }
                    false => WatchedAges {
                        watched: pages.ledger().watched(),
                        last_interval: pages.ledger().last_interval(),
                        total: ages,
                        mappings: Vec::new(),
                    },
                };
                let view = AgesView::new(&watched, idle_after);
                views.insert(target.name.to_owned(), view);
            }
        }
        views
    }
}

/// Numbers of targets that have no space in common, and the part of each space among them.
type Round = (Vec<usize>, BTreeMap<SpaceNo, usize>);

/// Parts targets so that no two of a round have a space in common. Those without a space are in none.
fn in_rounds(targets: impl Iterator<Item = Vec<SpaceNo>>) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    for (number, spaces) in targets.enumerate() {
        if spaces.is_empty() {
            continue;
        }
        let is_free =
            |(_, of_space): &&mut Round| spaces.iter().all(|space| !of_space.contains_key(space));
        let nr_rounds = rounds.len();
        let round = match rounds.iter_mut().find(is_free) {
            Some(round) => round,
            None if nr_rounds == NR_COUNTS_MAX => continue,
            None => {
                rounds.push(Round::default());
                &mut rounds[nr_rounds]
            }
        };
        let part = round.0.len();
        round.0.push(number);
        round
            .1
            .extend(spaces.into_iter().map(|space| (space, part)));
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_in_groups_are_counted_one_after_the_other_and_neighbours_at_once() {
        let spaces = |numbers: &[u32]| numbers.iter().copied().map(SpaceNo).collect::<Vec<_>>();
        let targets = [
            spaces(&[1, 2, 3]),
            spaces(&[1]),
            spaces(&[2, 3]),
            spaces(&[3]),
            spaces(&[]),
        ];
        let rounds = in_rounds(targets.into_iter());
        let numbers: Vec<Vec<usize>> = rounds.iter().map(|(numbers, _)| numbers.clone()).collect();
        assert_eq!(numbers, [vec![0], vec![1, 2], vec![3]]);
        assert_eq!(rounds[1].1.get(&SpaceNo(3)), Some(&1));
        let many = (0..100).map(|_| spaces(&[7]));
        assert_eq!(in_rounds(many).len(), NR_COUNTS_MAX);
    }
}
