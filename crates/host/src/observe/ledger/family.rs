//! Processes that came of one another by fork, without an exec, and which private pages they share.
//!
//! Such processes have one program at one place: their main stack began at the same, random address. A private page that
//! the kernel says several processes map is one page in all of the family that have it at that address.
//! `/proc/PID/pagemap` says it; a walk asks when somebody came or went, and now and then, because a page that is written
//! becomes its writer's own.
//!
//! **Owns** who is a family and when it is looked at. **Does not own** what becomes of it (`strata_lru::ages`).
//!
//! **Limit**: where addresses are not random, two runs of one program that each forked are taken for one family.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use strata_linux::process::Process;
use strata_lru::SpaceNo;
use strata_lru::ages::FamilyNo;

/// Pauses between two looks at a family of which nobody came or went.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// A look may take this share of the time: one in so many parts.
const LOOK_SHARE: u32 = 200;

/// Where a program's main stack began, and which program it is.
type Origin = (u64, u64, u64);

#[derive(Debug, Default)]
struct Family {
    no: FamilyNo,
    members: BTreeSet<SpaceNo>,
    /// Somebody came or went since the last look.
    has_changed: bool,
    /// The walk under way tells of it.
    is_looked_at: bool,
    looked: Option<Instant>,
}

/// The families among the spaces of an observer.
#[derive(Debug, Default)]
pub(super) struct Families {
    families: BTreeMap<Origin, Family>,
    origins: BTreeMap<SpaceNo, Origin>,
    next_no: u32,
    rest_until: Option<Instant>,
}

fn origin_of(process: &Process) -> Option<Origin> {
    let stat = process.stat().ok()?;
    let program = std::fs::metadata(format!("/proc/{}/exe", process.pid())).ok()?;
    (stat.start_stack != 0).then_some((stat.start_stack, program.dev(), program.ino()))
}

impl Families {
    /// The family of a space that has appeared.
    pub(super) fn of(&mut self, space: SpaceNo, process: Option<&Process>) -> FamilyNo {
        let no = FamilyNo(self.next_no);
        let Some(origin) = process.and_then(origin_of) else {
            self.next_no += 1;
            return no;
        };
        self.origins.insert(space, origin);
        let next_no = &mut self.next_no;
        let family = self.families.entry(origin).or_insert_with(|| {
            *next_no += 1;
            Family {
                no,
                ..Family::default()
            }
        });
        family.members.insert(space);
        family.has_changed = true;
        family.no
    }

    /// A space has ended.
    pub(super) fn ended(&mut self, space: SpaceNo) {
        let Some(origin) = self.origins.remove(&space) else {
            return;
        };
        if let Some(family) = self.families.get_mut(&origin) {
            family.members.remove(&space);
            family.has_changed = true;
            if family.members.is_empty() {
                self.families.remove(&origin);
            }
        }
    }

    /// Whether a walk of this space is to tell which pages several processes map: somebody of its family came or went,
    /// or the last look was long ago.
    pub(super) fn is_due(&mut self, space: SpaceNo) -> bool {
        let now = Instant::now();
        if self.rest_until.is_some_and(|until| now < until) {
            return false;
        }
        let origin = self.origins.get(&space);
        let Some(family) = origin.and_then(|origin| self.families.get_mut(origin)) else {
            return false;
        };
        let is_late = |looked: Instant| now.duration_since(looked) >= LOOK_INTERVAL;
        let is_due = family.has_changed || family.looked.is_none_or(is_late);
        let is_several = family.members.len() > 1 || family.looked.is_some();
        family.is_looked_at |= is_due && is_several;
        is_due && is_several
    }

    /// A walk has ended that took so long to tell of those that were due.
    pub(super) fn end_walk(&mut self, took: Duration) {
        let now = Instant::now();
        for family in self
            .families
            .values_mut()
            .filter(|family| family.is_looked_at)
        {
            family.is_looked_at = false;
            family.has_changed = false;
            family.looked = Some(now);
        }
        if !took.is_zero() {
            self.rest_until = Some(now + took * LOOK_SHARE);
        }
    }
}
