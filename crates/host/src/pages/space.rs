//! One address space under management, and what a walk of it tells the engine.
//!
//! **Owns** the tables of a space and the translation of a [`TableRecord`] into the engine's events:
//! appeared, accessed, gone. **Does not own** reading the tables (`access`) or choosing (`engine`).
//!
//! **Invariants**
//! - I1: every tracked page has exactly one folio, and that folio's place is this page.
//! - I2: nothing is said of a folio whose verdict is to come, but that it was accessed.

mod by_heat;
mod figures;
mod together;

use crate::pages::places::{Places, SpaceNo};
use crate::pages::table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;
use strata_control::prefetch::{Returns, WalkNo};
use strata_linux::access::is_multi_gen_on;
use strata_linux::access::{
    Bits512, NrEntries, TableRecord, TableShape, YoungPiece, entries_in, entries_of,
};
use strata_linux::addr::{
    AddrRange, TABLE_BYTES, TABLE_ENTRIES, TableNo, TableSpan, covering_spans,
};
use strata_linux::bits;
use strata_linux::process::{Mapping, MappingClass, Process};
use strata_lru::{
    AccessVia, Arrival, Cause, FolioId, GoneCause, GroupId, Heat, HeatPolicy, Kind, NodeId, Order,
    PastHeat, WalkStep,
};

/// All memory is taken for one node.
const NODE: NodeId = NodeId(0);

/// What one walk of one space found; base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkFindings {
    /// Present and reclaimable, by kind (anon, file).
    pub nr_resident_pages: [u64; 2],
    /// Accessed since the last walk, by kind.
    pub nr_young_pages: [u64; 2],
    /// New since the last walk.
    pub nr_appeared_pages: u64,
    /// New pages that are back after an eviction.
    pub nr_refaulted_pages: u64,
    /// Gone since the last walk, taken by the kernel.
    pub nr_reclaimed_pages: u64,
    /// Gone since the last walk, given back by the program.
    pub nr_freed_pages: u64,
    /// Present but locked, hugetlb or special.
    pub nr_unreclaimable_pages: u64,
    /// Present but not managed, because the folio table is full.
    pub nr_untracked_pages: u64,
}

impl WalkFindings {
    /// Adds another space's findings.
    pub fn add(&mut self, other: &WalkFindings) {
        for kind in Kind::ALL {
            self.nr_resident_pages[kind.index()] += other.nr_resident_pages[kind.index()];
            self.nr_young_pages[kind.index()] += other.nr_young_pages[kind.index()];
        }
        self.nr_appeared_pages += other.nr_appeared_pages;
        self.nr_refaulted_pages += other.nr_refaulted_pages;
        self.nr_reclaimed_pages += other.nr_reclaimed_pages;
        self.nr_freed_pages += other.nr_freed_pages;
        self.nr_unreclaimable_pages += other.nr_unreclaimable_pages;
        self.nr_untracked_pages += other.nr_untracked_pages;
    }
}

/// An address space and its pages.
#[derive(Debug)]
pub(crate) struct Space {
    /// The process it is read and reclaimed through.
    pub process: Arc<Process>,
    /// CPU time of the process at the last walk, to skip spaces that have not run; nanoseconds.
    pub cpu_ns_at_walk: Option<u64>,
    /// What the last walk found.
    pub findings: WalkFindings,
    /// Whether what is swapped out has to be waited for.
    pub is_swap_slow: bool,
    tables: BTreeMap<TableNo, Table>,
    epoch: u32,
    walk_no: WalkNo,
    returns: Returns,
    nr_recalled_used_pages: u64,
    /// Whether the last walk of the group left the space out.
    was_left_out: bool,
    /// Whether the kernel goes by generations: what was accessed between the last three walks lies in a young one.
    is_multi_gen: bool,
}

/// The engine's side of a walk: who is told.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub policy: &'a mut dyn HeatPolicy,
    pub group: GroupId,
    pub places: &'a mut Places,
}

impl Space {
    /// A space nothing is known of yet.
    pub(crate) fn new(process: Arc<Process>) -> Space {
        Space {
            process,
            cpu_ns_at_walk: None,
            findings: WalkFindings::default(),
            is_swap_slow: false,
            tables: BTreeMap::new(),
            epoch: 0,
            walk_no: WalkNo::NONE,
            returns: Returns::default(),
            nr_recalled_used_pages: 0,
            was_left_out: false,
            is_multi_gen: is_multi_gen_on(),
        }
    }

    /// Starts a walk over `mappings`, sorted by address.
    pub(crate) fn walk<'a>(
        &'a mut self,
        number: SpaceNo,
        mappings: &'a [Mapping],
        engine: Engine<'a>,
    ) -> SpaceWalk<'a> {
        self.epoch = self.epoch.wrapping_add(1);
        self.walk_no = self.walk_no.next();
        self.returns.fade();
        self.findings = WalkFindings::default();
        self.was_left_out = false;
        let step = engine.policy.begin_space_walk(engine.group, number);
        SpaceWalk {
            space: self,
            step,
            number,
            mappings,
            cursor: 0,
            engine,
            young: Vec::new(),
            nr_entries: [0; 2],
            told: bits::NONE,
            last_return: None,
        }
    }

    /// The tables in which pages were found.
    pub(crate) fn spans(&self) -> Vec<TableSpan> {
        let ranges = self.tables.keys().map(|table| {
            let start = table.start();
            AddrRange::new(start, start + TABLE_BYTES)
        });
        covering_spans(ranges)
    }

    /// After an ageing, which has the kernel forget some counts: leaves out what eviction would pass over anyway. `record`
    /// tells what it would not.
    pub(crate) fn leave_out_spared(&mut self, record: &TableRecord) {
        if let Some(table) = self.tables.get_mut(&record.table) {
            table.inactive = bits::and(table.inactive, record.inactive);
        }
    }

    /// A walk left the space out: it has not run.
    pub(crate) fn skip_walk(&mut self) {
        // What others saw was before it slept, and where its pages lie by now nobody has looked.
        for table in self.tables.values_mut() {
            table.take_seen();
            table.inactive = bits::NONE;
        }
        self.was_left_out = true;
    }

    /// The tables that are one huge page.
    pub(crate) fn huge(&self) -> impl Iterator<Item = (TableNo, FolioId)> {
        let huge = |(no, table): (&TableNo, &Table)| {
            (table.is_huge && bits::has(table.tracked, 0)).then(|| (*no, table.folio(0)))
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
    pub(crate) fn forget(&mut self, number: SpaceNo, engine: &mut Engine<'_>) {
        for (_, mut table) in std::mem::take(&mut self.tables) {
            for index in bits::ones(table.tracked) {
                let folio = table.folio(index);
                if !engine.places.is_in_flight(folio) {
                    engine.policy.gone(folio, GoneCause::Freed);
                }
            }
            table.tracked = bits::NONE;
        }
        engine.policy.space_ended(engine.group, number);
    }

    #[cfg(test)]
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.tables.values().try_for_each(Table::validate)
    }

    /// Visits every tracked page: its address and folio.
    #[cfg(test)]
    pub(crate) fn tracked(&self) -> impl Iterator<Item = (u64, FolioId)> {
        self.tables.iter().flat_map(|(no, table)| {
            bits::ones(table.tracked).map(|index| (no.entry_addr(index), table.folio(index)))
        })
    }

    /// Base pages that were evicted and are not back.
    pub(crate) fn nr_shadow_pages(&self) -> u64 {
        self.tables
            .values()
            .map(|table| {
                let scale = if table.is_huge {
                    TABLE_ENTRIES as u64
                } else {
                    1
                };
                bits::count(table.shadowed) * scale
            })
            .sum()
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.tables.values().map(Table::memory_bytes).sum()
    }
}

/// A walk in progress; records come in address order.
#[derive(Debug)]
pub(crate) struct SpaceWalk<'a> {
    space: &'a mut Space,
    step: WalkStep,
    number: SpaceNo,
    mappings: &'a [Mapping],
    cursor: usize,
    engine: Engine<'a>,
    young: Vec<YoungPiece>,
    nr_entries: NrEntries,
    /// Pages of this table that the engine was told are accessed.
    told: Bits512,
    /// The last page that was found to have come back.
    last_return: Option<u64>,
}

impl SpaceWalk<'_> {
    /// Takes in one table.
    pub(crate) fn record(&mut self, record: &TableRecord) {
        let start = record.table.start();
        while self
            .mappings
            .get(self.cursor)
            .is_some_and(|m| m.range.end <= start)
        {
            self.cursor += 1;
        }
        let mut table = self
            .space
            .tables
            .remove(&record.table)
            .unwrap_or_else(Table::new);
        let accessed = bits::or(record.accessed, table.take_seen());
        self.told = bits::NONE;
        self.apply(record, &mut table);
        let young = bits::and(accessed, record.present);
        let untold = bits::without(bits::and(young, table.tracked), self.told);
        for index in bits::ones(untold) {
            self.engine.policy.note_young(&[table.folio(index)]);
        }
        table.cool(self.step);
        table.used = bits::or(table.used, young);
        table.used_at(self.space.walk_no, young);
        table.epoch = self.space.epoch;
        if !table.is_empty() {
            self.space.tables.insert(record.table, table);
        }
    }

    /// Ends the walk: tables that were not reported hold nothing any more. Returns what was found young, by address,
    /// and what is in memory. Where records told which pages are inactive, the others are to be restored.
    pub(crate) fn finish(mut self) -> (Vec<YoungPiece>, NrEntries) {
        let epoch = self.space.epoch;
        let stale: Vec<TableNo> = self
            .space
            .tables
            .iter()
            .filter(|(_, table)| table.epoch != epoch)
            .map(|(&no, _)| no)
            .collect();
        self.cursor = 0;
        for no in stale {
            self.record(&TableRecord::empty(no, TableShape::Pages));
        }
        let nr_resident_pages = self.space.findings.nr_resident_pages.iter().sum();
        self.engine.policy.end_space_walk(
            self.engine.group,
            self.number,
            self.space.findings.nr_appeared_pages,
            nr_resident_pages,
        );
        (std::mem::take(&mut self.young), self.nr_entries)
    }

    fn apply(&mut self, record: &TableRecord, table: &mut Table) {
        let is_huge = record.shape == TableShape::Huge;
        let anything = !bits::is_empty(record.present);
        (table.inactive, table.of_file) = (bits::NONE, bits::NONE);
        let idle = bits::without(record.present, record.accessed);
        let was_idle = std::mem::replace(&mut table.idle, idle);
        let record = &match self.space.is_multi_gen {
            true => TableRecord {
                inactive: bits::and(was_idle, idle),
                ..*record
            },
            false => *record,
        };
        if anything && is_huge != table.is_huge {
            if self.any_in_flight(table) {
                return;
            }
            self.drop_pages(table, table.tracked, GoneCause::Freed);
            table.change_shape(is_huge);
        }
        let mut covered = bits::NONE;
        let mut at = self.cursor;
        while let Some(mapping) = self.mappings.get(at) {
            if mapping.range.start >= record.table.start() + TABLE_BYTES {
                break;
            }
            let mask = if table.is_huge {
                bits::run(0, 1)
            } else {
                bits::entries(mapping.range, record.table)
            };
            if mapping.unreclaimable.is_some() {
                let present = bits::and(record.present, mask);
                let scale = if table.is_huge {
                    Order::PMD.nr_pages()
                } else {
                    1
                };
                self.space.findings.nr_unreclaimable_pages += bits::count(present) * scale;
            } else {
                covered = bits::or(covered, mask);
                self.apply_mapping(record, table, mapping, mask);
            }
            at += 1;
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
        table.recalled = bits::and(table.recalled, table.shadowed);
    }

    fn apply_mapping(
        &mut self,
        record: &TableRecord,
        table: &mut Table,
        mapping: &Mapping,
        mask: Bits512,
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
        if matches!(
            mapping.class,
            MappingClass::FilePrivate | MappingClass::FileShared
        ) {
            table.of_file = bits::or(table.of_file, mask);
        }
        if !mapping.is_supplied {
            table.inactive = bits::or(table.inactive, bits::and(record.inactive, mask));
        }
        for index in bits::ones(bits::without(present, table.tracked)) {
            self.appear(record, table, mapping, index);
        }

        let order = if table.is_huge {
            Order::PMD
        } else {
            Order::BASE
        };
        let accessed = bits::and(record.accessed, mask);
        if mapping.has_recency {
            self.told = bits::or(self.told, accessed);
        }
        for index in bits::ones(bits::and(present, table.tracked)) {
            let folio = table.folio(index);
            let kind = self.engine.policy.kind(folio).index();
            self.space.findings.nr_resident_pages[kind] += order.nr_pages();
            if bits::has(accessed, index) {
                self.space.findings.nr_young_pages[kind] += order.nr_pages();
                if mapping.has_recency {
                    self.engine.policy.accessed(folio, AccessVia::PageTable);
                }
            }
        }
        self.nr_entries[entries_of(mapping.class)] += entries_in(record, mask);
        let young = bits::and(accessed, present);
        let found = YoungPiece::found(record, mapping, young, true);
        self.young.extend(found);
    }

    fn appear(&mut self, record: &TableRecord, table: &mut Table, mapping: &Mapping, index: usize) {
        let order = if table.is_huge {
            Order::PMD
        } else {
            Order::BASE
        };
        let is_accessed = bits::has(record.accessed, index);
        let (shadow, past) = (table.shadow(index), table.past(index));
        let arrival = Arrival {
            group: self.engine.group,
            node: NODE,
            kind: mapping.class.kind_of_page(bits::has(record.dirty, index)),
            order,
            cause: if is_accessed && mapping.has_recency {
                Cause::Fault
            } else {
                Cause::Prefetch
            },
            shadow,
            is_exec: mapping.is_exec_file,
            space: self.number,
            heat: PastHeat::kept(past),
        };
        match self.engine.policy.appeared(arrival) {
            Ok(folio) => {
                table.track(index, folio);
                if past > Heat::NONE {
                    table.forget_past(index);
                }
                let addr = record.table.entry_addr(index);
                self.engine.places.put(folio, addr);
                self.space.findings.nr_appeared_pages += order.nr_pages();
                if shadow.is_some() {
                    self.note_return(record.table, table, index);
                    self.space.findings.nr_refaulted_pages += order.nr_pages();
                }
            }
            Err(_) => self.space.findings.nr_untracked_pages += order.nr_pages(),
        }
    }

    fn drop_pages(&mut self, table: &mut Table, pages: Bits512, cause: GoneCause) {
        let order = if table.is_huge {
            Order::PMD
        } else {
            Order::BASE
        };
        for index in bits::ones(pages) {
            let folio = table.folio(index);
            if self.engine.places.is_in_flight(folio) {
                continue;
            }
            // Whoever frees pages and takes them anew uses them as before.
            let heat = self.engine.policy.heat(folio);
            let left = self.engine.policy.gone(folio, cause);
            let shadow = left.map(|(shadow, _)| shadow);
            table.untrack(index, shadow, heat);
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
