//! One address space under management, and what a walk of it tells the engine.
//!
//! **Owns** the tables of a space and the translation of a [`TableRecord`] into the engine's events:
//! appeared, accessed, gone. **Does not own** reading the tables (`access`) or choosing (`engine`).
//!
//! **Invariants**
//! - I1: every tracked page has exactly one folio, and that folio's place is this page.
//! - I2: nothing is said of a folio whose verdict is to come, but that it was accessed.

mod figures;

use crate::pages::WalkFindings;
use crate::pages::places::{Places, SpaceSlot};
use crate::pages::table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;
use strata_linux::access::{TableRecord, TableShape};
use strata_linux::addr::{TABLE_BYTES, TableNo};
use strata_linux::process::{Mapping, MappingClass, Process};
use strata_lru::bits::{self, Bits};
use strata_lru::{AccessVia, Arrival, Cause, GoneCause, GroupId, NodeId, Policy};

/// All memory is taken for one node.
const NODE: NodeId = NodeId(0);

/// An address space and its pages.
#[derive(Debug)]
pub(crate) struct Space {
    /// The process it is read and reclaimed through.
    pub process: Arc<Process>,
    /// What the last walk found.
    pub findings: WalkFindings,
    tables: BTreeMap<TableNo, Table>,
    /// The mappings that the last walk found, by address.
    mappings: Arc<Vec<Mapping>>,
    epoch: u32,
    /// Whether the last walk of the group left the space out.
    was_left_out: bool,
}

/// The engine's side of a walk: who is told.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub policy: &'a mut dyn Policy,
    pub group: GroupId,
    pub places: &'a mut Places,
}

impl Space {
    /// A space nothing is known of yet.
    pub(crate) fn new(process: Arc<Process>) -> Space {
        Space {
            process,
            findings: WalkFindings::default(),
            tables: BTreeMap::new(),
            mappings: Arc::default(),
            epoch: 0,
            was_left_out: false,
        }
    }

    /// A walk begins over `mappings`, sorted by address.
    pub(crate) fn begin_walk(&mut self, mappings: Arc<Vec<Mapping>>) {
        self.epoch = self.epoch.wrapping_add(1);
        self.findings = WalkFindings::default();
        self.was_left_out = false;
        self.mappings = mappings;
    }

    /// The walk tells of a table.
    pub(crate) fn record<'a>(
        &'a mut self,
        number: SpaceSlot,
        record: &TableRecord,
        engine: Engine<'a>,
    ) {
        self.found_by(number, engine).record(record);
    }

    /// The walk has told of all tables: those that it did not tell of hold nothing any more.
    pub(crate) fn end_walk<'a>(&'a mut self, number: SpaceSlot, engine: Engine<'a>) {
        let epoch = self.epoch;
        let tables = self.tables.iter();
        let stale = tables.filter(|(_, table)| table.epoch != epoch);
        let stale: Vec<TableNo> = stale.map(|(no, _)| *no).collect();
        let mut walk = self.found_by(number, engine);
        for no in stale {
            walk.record(&TableRecord::empty(no, TableShape::Pages));
        }
    }

    fn found_by<'a>(&'a mut self, number: SpaceSlot, engine: Engine<'a>) -> SpaceWalk<'a> {
        SpaceWalk {
            mappings: Arc::clone(&self.mappings),
            space: self,
            number,
            engine,
            seen: bits::NONE,
        }
    }

    /// A walk left the space out: it has not run.
    pub(crate) fn skip_walk(&mut self) {
        // What others saw was before it slept.
        for table in self.tables.values_mut() {
            table.take_seen();
        }
        self.was_left_out = true;
    }

    /// The tables that are one huge page.
    pub(crate) fn huge(&self) -> impl Iterator<Item = TableNo> {
        let huge = |(no, table): (&TableNo, &Table)| {
            (table.is_huge && bits::has(&table.tracked, 0)).then_some(*no)
        };
        self.tables.iter().filter_map(huge)
    }

    /// Base pages of a table that walks found accessed since [`Space::forget_uses`]; `None` where it is
    /// one huge page, or nothing is there, or the last walk left the space out.
    pub(crate) fn nr_used_pages(&self, table: TableNo) -> Option<u64> {
        let table = self.tables.get(&table).filter(|table| !table.is_huge)?;
        (!self.was_left_out).then(|| bits::count(table.used))
    }

    /// Counts uses anew.
    pub(crate) fn forget_uses(&mut self) {
        for table in self.tables.values_mut() {
            table.used = bits::NONE;
        }
    }

    /// The table that maps `addr`, if anything is known of it.
    pub(crate) fn table_mut(&mut self, addr: u64) -> Option<&mut Table> {
        self.tables.get_mut(&TableNo::containing(addr))
    }

    /// Every folio of the space is gone with it.
    pub(crate) fn forget(&mut self, engine: &mut Engine<'_>) {
        for (_, mut table) in std::mem::take(&mut self.tables) {
            for index in bits::ones(table.tracked) {
                let folio = table.folio(index);
                if !engine.places.is_in_flight(folio) {
                    engine.policy.gone(folio, GoneCause::Freed);
                }
            }
            table.tracked = bits::NONE;
        }
    }

    #[cfg(test)]
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.tables.values().try_for_each(Table::validate)
    }

    /// Visits every tracked page: its address and folio.
    #[cfg(test)]
    pub(crate) fn tracked(&self) -> impl Iterator<Item = (u64, strata_lru::FolioId)> {
        self.tables.iter().flat_map(|(no, table)| {
            bits::ones(table.tracked).map(|index| (no.entry_addr(index), table.folio(index)))
        })
    }

    /// Base pages that were evicted and are not back.
    pub(crate) fn nr_shadow_pages(&self) -> u64 {
        let of = |table: &Table| bits::count(table.shadowed) * table.order().nr_pages();
        self.tables.values().map(of).sum()
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.tables.values().map(Table::memory_bytes).sum()
    }
}

/// A walk in progress.
#[derive(Debug)]
struct SpaceWalk<'a> {
    space: &'a mut Space,
    number: SpaceSlot,
    mappings: Arc<Vec<Mapping>>,
    engine: Engine<'a>,
    /// Pages of the table at hand that somebody other than a walk found accessed.
    seen: Bits,
}

impl SpaceWalk<'_> {
    /// Takes in one table.
    fn record(&mut self, record: &TableRecord) {
        let mut table = self
            .space
            .tables
            .remove(&record.table)
            .unwrap_or_else(Table::new);
        self.seen = bits::and(table.take_seen(), record.present);
        self.apply(record, &mut table);
        let young = bits::or(record.accessed, self.seen);
        table.used = bits::or(table.used, young);
        table.epoch = self.space.epoch;
        if !table.is_empty() {
            self.space.tables.insert(record.table, table);
        }
    }

    fn apply(&mut self, record: &TableRecord, table: &mut Table) {
        let is_huge = record.shape == TableShape::Huge;
        let anything = !bits::is_empty(record.present);
        if anything && is_huge != table.is_huge {
            if self.any_in_flight(table) {
                return;
            }
            self.drop_pages(table, table.tracked, GoneCause::Freed);
            table.change_shape(is_huge);
        }
        let mut covered = bits::NONE;
        let mappings = Arc::clone(&self.mappings);
        let (start, end) = (record.table.start(), record.table.start() + TABLE_BYTES);
        let first = mappings.partition_point(|mapping| mapping.range.end <= start);
        let touching = mappings[first..].iter();
        for mapping in touching.take_while(|mapping| mapping.range.start < end) {
            let mask = if table.is_huge {
                bits::run(0, 1)
            } else {
                record.table.covered_by(mapping.range)
            };
            if mapping.unreclaimable.is_some() {
                let present = bits::and(record.present, mask);
                self.space.findings.nr_unreclaimable_pages +=
                    bits::count(present) * table.order().nr_pages();
            } else {
                covered = bits::or(covered, mask);
                self.apply_mapping(record, table, mapping, mask);
            }
        }
        self.drop_pages(
            table,
            bits::without(table.tracked, covered),
            GoneCause::Freed,
        );
        let walked = figures::walked(self.number, record, covered);
        if let (Some(walked), Some(generations)) = (walked, self.engine.policy.lru_gen()) {
            generations.walked(self.engine.group, NODE, walked);
        }
        table.shadowed = bits::and(table.shadowed, covered);
    }

    fn apply_mapping(
        &mut self,
        record: &TableRecord,
        table: &mut Table,
        mapping: &Mapping,
        mask: Bits,
    ) {
        let held = bits::or(record.present, bits::or(record.protnone, record.migrating));
        let lost = bits::without(bits::and(table.tracked, mask), held);
        let may_be_refilled = keeps_backing(mapping.class);
        let reclaimed = if may_be_refilled {
            lost
        } else {
            bits::and(lost, record.swapped)
        };
        self.drop_pages(table, reclaimed, GoneCause::Reclaimed);
        self.drop_pages(table, bits::without(lost, reclaimed), GoneCause::Freed);
        if !may_be_refilled {
            let stale = bits::without(bits::and(table.shadowed, mask), held);
            table.shadowed = bits::without(table.shadowed, bits::without(stale, record.swapped));
        }

        let present = bits::and(record.present, mask);
        for index in bits::ones(bits::without(present, table.tracked)) {
            self.appear(record, table, mapping, index);
        }

        let order = table.order();
        let accessed = bits::and(bits::or(record.accessed, self.seen), mask);
        for index in bits::ones(bits::and(present, table.tracked)) {
            let folio = table.folio(index);
            let kind = self.engine.policy.kind(folio).index();
            self.space.findings.nr_resident_pages[kind] += order.nr_pages();
            if bits::has(&accessed, index) {
                self.space.findings.nr_young_pages[kind] += order.nr_pages();
                if mapping.has_recency {
                    self.engine.policy.accessed(folio, AccessVia::PageTable);
                }
            }
        }
    }

    fn appear(&mut self, record: &TableRecord, table: &mut Table, mapping: &Mapping, index: usize) {
        let order = table.order();
        let is_accessed = bits::has(&record.accessed, index);
        let shadow = table.shadow(index);
        let arrival = Arrival {
            group: self.engine.group,
            node: NODE,
            kind: mapping.class.kind_of_page(bits::has(&record.dirty, index)),
            order,
            cause: if is_accessed && mapping.has_recency {
                Cause::Fault
            } else {
                Cause::Prefetch
            },
            shadow,
            is_exec: mapping.is_exec_file,
        };
        match self.engine.policy.appeared(arrival) {
            Ok(folio) => {
                table.track(index, folio);
                let addr = record.table.entry_addr(index);
                self.engine.places.put(folio, self.number, addr);
                self.space.findings.nr_appeared_pages += order.nr_pages();
                if shadow.is_some() {
                    self.space.findings.nr_refaulted_pages += order.nr_pages();
                }
            }
            Err(_) => self.space.findings.nr_untracked_pages += order.nr_pages(),
        }
    }

    fn drop_pages(&mut self, table: &mut Table, pages: Bits, cause: GoneCause) {
        let order = table.order();
        for index in bits::ones(pages) {
            let folio = table.folio(index);
            if self.engine.places.is_in_flight(folio) {
                continue;
            }
            let shadow = self.engine.policy.gone(folio, cause);
            table.untrack(index, shadow);
            match cause {
                GoneCause::Reclaimed => {
                    self.space.findings.nr_reclaimed_pages += order.nr_pages();
                }
                GoneCause::Freed => self.space.findings.nr_freed_pages += order.nr_pages(),
            }
        }
    }

    fn any_in_flight(&self, table: &Table) -> bool {
        bits::ones(table.tracked).any(|index| self.engine.places.is_in_flight(table.folio(index)))
    }
}

/// Whether an absent page of such a mapping may still be held elsewhere (page cache, tmpfs), so that
/// its absence says "reclaimed" and not "freed".
fn keeps_backing(class: MappingClass) -> bool {
    match class {
        MappingClass::FilePrivate | MappingClass::FileShared | MappingClass::Shmem => true,
        MappingClass::Anon | MappingClass::Heap | MappingClass::Stack => false,
    }
}
