//! Processes that came of one another by fork, without an exec, and which private pages they share.
//!
//! Such processes have one program at one place: their main stack began at the same, random address. A private page that
//! the kernel says several processes map is one page in all of the family that have it at that address.
//! `/proc/PID/pagemap` says it; it is asked when somebody came or went, and now and then, because a page that is written
//! becomes its writer's own.
//!
//! **Owns** who is a family and when it is looked at. **Does not own** what becomes of it (`strata_lru::ages`).
//!
//! **Limit**: where addresses are not random, two runs of one program that each forked are taken for one family.

use super::super::{Observer, SpaceId};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_ENTRIES, TableNo};
use strata_linux::process::{PagemapEntry, Process};
use strata_lru::SpaceNo;
use strata_lru::ages::{Bits, FamilyNo, Ledger};

/// Pauses between two looks at a family of which nobody came or went.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// A look may take this share of the time: one in so many parts.
const LOOK_SHARE: u32 = 200;

/// Where a program's main stack began, and which program it is.
type Origin = (u64, u64, u64);

#[derive(Debug)]
struct Family {
    no: FamilyNo,
    members: BTreeSet<SpaceId>,
    /// Somebody came or went since the last look.
    has_changed: bool,
    looked: Option<Instant>,
}

/// The families among the spaces of an observer.
#[derive(Debug, Default)]
pub(super) struct Families {
    families: BTreeMap<Origin, Family>,
    origins: BTreeMap<SpaceId, Origin>,
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
    pub(super) fn of(&mut self, space: SpaceId, process: Option<&Process>) -> FamilyNo {
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
                members: BTreeSet::new(),
                has_changed: false,
                looked: None,
            }
        });
        family.members.insert(space);
        family.has_changed = true;
        family.no
    }

    /// A space has ended.
    pub(super) fn ended(&mut self, space: SpaceId) {
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

    /// Looks which pages families share, where that may have changed.
    pub(super) fn look(&mut self, observer: &Observer, ledger: &mut Ledger) {
        let started = Instant::now();
        if self.rest_until.is_some_and(|until| started < until) {
            return;
        }
        let processes: BTreeMap<SpaceId, _> = observer.processes().collect();
        let mut nr_looks = 0;
        for family in self.families.values_mut() {
            let is_late = |looked: Instant| started.duration_since(looked) >= LOOK_INTERVAL;
            let is_due = family.has_changed || family.looked.is_none_or(is_late);
            let is_several = family.members.len() > 1 || family.looked.is_some();
            if !is_due || !is_several {
                continue;
            }
            for member in &family.members {
                if let Some(process) = processes.get(member) {
                    look_at(*member, process, ledger);
                    nr_looks += 1;
                }
            }
            family.has_changed = false;
            family.looked = Some(Instant::now());
        }
        if nr_looks > 0 {
            self.rest_until = Some(Instant::now() + started.elapsed() * LOOK_SHARE);
        }
    }
}

/// Notes which of the pages of a space are mapped by several. A process that ends meanwhile is gone at the next walk.
fn look_at(space: SpaceId, process: &Process, ledger: &mut Ledger) {
    let space = SpaceNo(space.0);
    let tables: Vec<u64> = ledger.tables(space).collect();
    let mut entries: Vec<PagemapEntry> = Vec::new();
    for table_no in tables {
        let start = TableNo(table_no).start();
        let range = AddrRange::new(start, start + TABLE_ENTRIES as u64 * PAGE_BYTES);
        if process.read_pagemap(range, &mut entries).is_err() {
            return;
        }
        let (mut known, mut several): (Bits, Bits) = ([0; 8], [0; 8]);
        for (index, entry) in entries.iter().enumerate().take(TABLE_ENTRIES) {
            if entry.is_present() && !entry.is_file_or_shmem() {
                known[index / 64] |= 1 << (index % 64);
                if !entry.is_exclusive() {
                    several[index / 64] |= 1 << (index % 64);
                }
            }
        }
        ledger.mapped_by_several(space, table_no, &known, &several);
    }
}
