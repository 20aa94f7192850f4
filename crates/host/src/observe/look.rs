//! One walk of one address space: its mappings, its tables, and the clearing of its accessed bits.
//!
//! **Owns** the order of that. **Does not own** on which thread it happens (`walker`), which spaces are walked and when
//! (`observe`), cutting tables at the borders of mappings (`pieces`), or the ways to clear (`strata_linux::access`).
//!
//! **Invariants**
//! - I1: nothing is asked of a process with a thread that stalls its address space
//!   ([`strata_linux::process::Stalled`]).
//! - I2: a table is read once, however many mappings share it.

use super::pieces::{Found, Listener, Pieces, Visitor, accessed, chunks};
use super::unclear::Unclear;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_linux::access::{
    AccessError, AccessSource, ClearIntent, Cleared, Clearer, NrEntries, WalkCost, YoungPiece,
    clear_pieces,
};
use strata_linux::addr::{
    AddrRange, PAGE_BYTES, TABLE_BYTES, TABLE_ENTRIES, TableNo, TableSpan, covering_spans,
};
use strata_linux::process::{
    Mapping, MemoryDevices, PagemapEntry, Process, classify, thread_cpu_ns,
};
use strata_lru::bits::{self, Bits};
use strata_lru::{NodeId, SpaceNo};

/// What is to be walked, and how.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) id: SpaceNo,
    pub(super) process: Arc<Process>,
    /// What the last walk found in memory; `None`: it was not walked yet.
    pub(super) known: Option<NrEntries>,
    /// Whether its bits may be cleared.
    pub(super) is_rested: bool,
    /// The listener is told which pages several processes map.
    pub(super) wants_mappers: bool,
    /// What follows for the pages that are found accessed.
    pub(super) intent: ClearIntent,
    pub(super) unclear: Unclear,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) unclear: Unclear,
    /// All tables were read.
    pub(super) is_whole: bool,
    /// What is in memory.
    pub(super) outcome: Result<NrEntries, AccessError>,
    pub(super) cost: WalkCost,
    pub(super) cleared: Cleared,
    pub(super) nr_left_pieces: u64,
    pub(super) nr_resting_pages: u64,
    pub(super) mappers: Duration,
    pub(super) cpu_ns: u64,
}

/// What the thread that walks is asked.
#[derive(Debug)]
pub(super) enum Ask {
    /// To walk a space.
    Look(Look),
    /// To tell from the next look on which of these nodes pages are on.
    SeeNodes(Vec<(u64, u64, NodeId)>),
}

/// What it takes to walk a space.
#[derive(Debug)]
pub(super) struct Looker {
    source: Box<dyn AccessSource>,
    clearer: Clearer,
    devices: MemoryDevices,
}

/// Nobody is told.
struct Nobody;

impl Visitor for Nobody {}

impl Looker {
    pub(super) fn new(source: Box<dyn AccessSource>, devices: MemoryDevices) -> Looker {
        Looker {
            clearer: Clearer::new(source.info().grain),
            source,
            devices,
        }
    }

    /// Does what is asked; a look has an outcome.
    pub(super) fn carry_out(&mut self, ask: Ask, listener: &mut dyn Listener) -> Option<Looked> {
        match ask {
            Ask::Look(look) => Some(self.look(look, listener)),
            Ask::SeeNodes(ranges) => {
                self.source.see_nodes(&ranges);
                None
            }
        }
    }

    /// Walks a space and clears its accessed bits, if it is rested.
    fn look(&mut self, mut look: Look, listener: &mut dyn Listener) -> Looked {
        let cpu_before_ns = thread_cpu_ns();
        let mut looked = Looked {
            unclear: std::mem::take(&mut look.unclear),
            is_whole: false,
            outcome: Ok([0; 2]),
            cost: WalkCost::default(),
            cleared: Cleared::default(),
            nr_left_pieces: 0,
            nr_resting_pages: 0,
            mappers: Duration::ZERO,
            cpu_ns: 0,
        };
        looked.outcome = self.walk(&look, listener, &mut looked);
        looked.cpu_ns = thread_cpu_ns().saturating_sub(cpu_before_ns);
        looked
    }

    fn walk(
        &mut self,
        asked: &Look,
        listener: &mut dyn Listener,
        looked: &mut Looked,
    ) -> Result<NrEntries, AccessError> {
        let (process, is_rested) = (&*asked.process, asked.is_rested);
        let flags = self.source.vm_flags(process)?;
        listener.note_progress();
        let raw = process
            .read_maps()
            .map_err(io_error(process, "reading the mappings"))?;
        listener.note_progress();
        let mappings = Arc::new(classify(&raw, &flags, &self.devices));
        let ranges = mappings
            .iter()
            .filter(|mapping| mapping.is_worth_reading())
            .map(|mapping| mapping.range);
        let spans = covering_spans(ranges);
        let expected = match asked.known {
            Some(nr_entries) => nr_entries,
            None => self.count_entries(process, &mappings, &spans, listener)?,
        };
        let ways = self.clearer.ways(process, expected);
        let is_at_once = ways.is_at_once();
        let is_watched = asked.intent == ClearIntent::Watch;
        let is_restoring = is_rested && is_watched && ways.has_to_restore();
        if is_rested {
            looked.unclear.begin_walk();
        }
        let sees_inactive = self.source.see_inactive(is_restoring);
        listener.mappings(Arc::clone(&mappings));
        let mut pieces = Pieces {
            space: asked.id,
            mappings: &mappings,
            cursor: 0,
            sees_inactive,
            ways,
            unclear: &mut looked.unclear,
            found: Found::default(),
        };
        let chunks = match is_at_once {
            true => vec![spans],
            false => chunks(&spans),
        };
        let mut tables = Vec::new();
        let mut outcome = Ok(());
        for chunk in chunks {
            let read = self.source.read(process, &chunk, &mut |record| {
                if asked.wants_mappers {
                    tables.push(record.table);
                }
                pieces.split(record, listener);
            });
            match read {
                Ok(cost) => looked.cost += cost,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            if is_at_once || !is_rested {
                continue;
            }
            let young = std::mem::take(&mut pieces.found.young);
            let is_over = || {
                listener.note_progress();
                listener.is_over()
            };
            outcome = clear_pieces(process, young.iter(), is_over, &mut looked.cleared)
                .and_then(|()| look_again(&mut *self.source, process, &young, pieces.unclear));
            self.source.see_inactive(is_restoring);
            if outcome.is_err() {
                break;
            }
        }
        looked.is_whole = outcome.is_ok();
        let found = pieces.found;
        let nr_entries = found.nr_entries;
        looked.nr_left_pieces = found.nr_left_pieces;
        looked.nr_resting_pages = found.nr_resting_pages;
        outcome?;
        looked.unclear.end_walk();
        if is_rested {
            self.clear(asked, &found, is_at_once, &mut looked.cleared)?;
        }
        looked.nr_left_pieces += looked.cleared.nr_left_pieces;
        let started = Instant::now();
        tell_mappers(asked, &tables, listener);
        looked.mappers = started.elapsed();
        Ok(nr_entries)
    }

    /// Clears what was not cleared with its chunk.
    fn clear(
        &mut self,
        asked: &Look,
        found: &Found,
        is_at_once: bool,
        cleared: &mut Cleared,
    ) -> Result<(), AccessError> {
        let (process, intent) = (&*asked.process, asked.intent);
        let nr_entries = found.nr_entries;
        if is_at_once {
            // It has grown since, and nothing was noted to be restored: cleared next time.
            if intent == ClearIntent::Watch && self.clearer.has_to_restore(nr_entries) {
                return Ok(());
            }
            let took = self
                .clearer
                .clear_all(process, &found.young, nr_entries, intent)?;
            *cleared += took;
            return Ok(());
        }
        let parts = found.nr_part_pieces.into_iter().enumerate();
        let mut parts = parts.filter(|(_, nr_pieces)| *nr_pieces > 0);
        parts.try_for_each(|(part, nr_pieces)| {
            self.clearer
                .clear_part(process, part, nr_pieces, nr_entries, cleared)
        })
    }

    /// Counts what a space that was not walked yet has in its tables.
    fn count_entries(
        &mut self,
        process: &Process,
        mappings: &[Mapping],
        spans: &[TableSpan],
        listener: &dyn Listener,
    ) -> Result<NrEntries, AccessError> {
        let nr_pages = process.held_bytes().unwrap_or(0) / PAGE_BYTES;
        if self.clearer.is_at_once([nr_pages, 0]) {
            return Ok([nr_pages, 0]);
        }
        let mut counted = Pieces {
            space: SpaceNo(0),
            mappings,
            cursor: 0,
            sees_inactive: false,
            ways: self.clearer.ways(process, [0; 2]),
            unclear: &mut Unclear::default(),
            found: Found::default(),
        };
        self.source.read(process, spans, &mut |record| {
            counted.split(record, &mut Nobody);
            counted.found.young.clear();
            listener.note_progress();
        })?;
        Ok(counted.found.nr_entries)
    }
}

/// Reads the tables of pieces again, right after they were cleared: what is accessed still can't be cleared, or is in use.
fn look_again(
    source: &mut dyn AccessSource,
    process: &Process,
    young: &[YoungPiece],
    unclear: &mut Unclear,
) -> Result<(), AccessError> {
    let spans = covering_spans(young.iter().map(|piece| piece.range));
    let mut still_accessed: BTreeMap<TableNo, Bits> = BTreeMap::new();
    source.see_inactive(false);
    source.read(process, &spans, &mut |record| {
        still_accessed.insert(record.table, accessed(record));
    })?;
    for piece in young {
        let still = still_accessed.get(&TableNo::containing(piece.range.start));
        let still = still.copied().unwrap_or(bits::NONE);
        let looked = unclear.look_at(process, piece, still);
        looked.map_err(io_error(process, "reading the pagemap"))?;
    }
    Ok(())
}

/// Tells which anonymous pages of these tables several processes map. A process that ends meanwhile is gone at the next
/// walk.
fn tell_mappers(asked: &Look, tables: &[TableNo], listener: &mut dyn Listener) {
    let mut entries: Vec<PagemapEntry> = Vec::new();
    for table in tables {
        let range = AddrRange::new(table.start(), table.start() + TABLE_BYTES);
        if listener.is_over() || asked.process.read_pagemap(range, &mut entries).is_err() {
            return;
        }
        let (mut known, mut several) = (bits::NONE, bits::NONE);
        for (index, entry) in entries.iter().enumerate().take(TABLE_ENTRIES) {
            if entry.is_present() && !entry.is_file_or_shmem() {
                bits::insert(&mut known, index);
                if !entry.is_exclusive() {
                    bits::insert(&mut several, index);
                }
            }
        }
        listener.mappers(asked.id, *table, known, several);
    }
}

fn io_error(process: &Process, what: &'static str) -> impl FnOnce(std::io::Error) -> AccessError {
    let pid = process.pid();
    move |source| AccessError::Io { what, pid, source }
}
