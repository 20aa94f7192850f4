//! The fallback without privilege: `smaps` and `pagemap` of one's own processes.
//!
//! `pagemap` tells which pages are present or swapped; `smaps` tells how many of a mapping were
//! referenced, not which. The lowest resident pages of a mapping stand for them.
//!
//! **Owns** that assumption. **Does not own** the texts (`smaps_text`) nor clearing (`clear`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::smaps_text::{self, SmapsEntry};
use super::{AccessError, AccessSource, Grain, SourceInfo, TableRecord, TableShape, WalkCost};
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TableNo, TableSpan};
use crate::process::{Process, VmFlags};
use strata_lru::bits;

const PAGEMAP_PRESENT: u64 = 1 << 63;
const PAGEMAP_SWAP: u64 = 1 << 62;
/// Bytes of one entry of `pagemap`.
const ENTRY_BYTES: u64 = 8;
/// Entries read at once.
const CHUNK_ENTRIES: u64 = 16 * 1024;

/// The source; it keeps nothing of what it reads between calls.
#[derive(Debug, Default)]
pub struct SmapsSource {
    /// Why nothing better is used.
    instead: Option<String>,
}

impl SmapsSource {
    /// Always succeeds on Linux: whether a process may be read shows when it is read.
    pub fn new() -> SmapsSource {
        SmapsSource::default()
    }

    /// A source in place of a better one that was wanted; the error of that one goes into the report.
    pub(super) fn instead_of(error: &AccessError) -> SmapsSource {
        SmapsSource {
            instead: Some(format!("single pages: {error}")),
        }
    }
}

impl AccessSource for SmapsSource {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            name: "smaps",
            grain: Grain::Mapping,
            blind_spots: self.instead.iter().cloned().chain([
                "which pages of a mapping were accessed: only how many is known, and the lowest \
                 resident ones stand for them"
                    .to_owned(),
                "dirty pages, zero pages and pages made inaccessible look like any other"
                    .to_owned(),
                "huge pages look like 512 small ones".to_owned(),
                "accesses counted by smaps include pages the kernel itself holds for referenced"
                    .to_owned(),
                "processes with so many resident pages that reading smaps would hold them up for \
                 longer than 2 ms"
                    .to_owned(),
            ]).collect(),
        }
    }

    fn read(
        &mut self,
        process: &Process,
        spans: &[TableSpan],
        visit: &mut dyn FnMut(&TableRecord),
    ) -> Result<WalkCost, AccessError> {
        let started = Instant::now();
        let pid = process.pid();
        let entries = smaps_text::read(process)?;
        let pagemap = process
            .space_dir()
            .and_then(|dir| File::open(dir.join("pagemap")));
        let pagemap = pagemap.map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => AccessError::ProcessGone(pid),
            _ => AccessError::Io {
                what: "opening pagemap",
                pid,
                source,
            },
        })?;
        let mut tables = Tables {
            visit,
            current: None,
            cost: WalkCost {
                nr_runs: 2,
                ..WalkCost::default()
            },
        };
        for entry in &entries {
            scan_mapping(&pagemap, entry, spans, &mut tables).map_err(|source| {
                AccessError::Io {
                    what: "reading pagemap",
                    pid,
                    source,
                }
            })?;
        }
        tables.flush();
        let mut cost = tables.cost;
        cost.wall_ns = started.elapsed().as_nanos() as u64;
        Ok(cost)
    }

    fn vm_flags(&mut self, process: &Process) -> Result<Vec<(AddrRange, VmFlags)>, AccessError> {
        smaps_text::vm_flags(process)
    }
}

/// Collects entries that come in address order into one record a table.
struct Tables<'a> {
    visit: &'a mut dyn FnMut(&TableRecord),
    current: Option<TableRecord>,
    cost: WalkCost,
}

impl Tables<'_> {
    fn flush(&mut self) {
        if let Some(record) = self.current.take() {
            (self.visit)(&record);
        }
    }

    fn note(&mut self, addr: u64, is_swapped: bool, is_accessed: bool) {
        let table = TableNo::containing(addr);
        if self.current.is_none_or(|record| record.table != table) {
            self.flush();
            self.cost.nr_tables += 1;
        }
        let record = self
            .current
            .get_or_insert_with(|| TableRecord::empty(table, TableShape::Pages));
        let index = (addr % TABLE_BYTES / PAGE_BYTES) as usize;
        if is_swapped {
            bits::insert(&mut record.swapped, index);
        } else {
            bits::insert(&mut record.present, index);
            if is_accessed {
                bits::insert(&mut record.accessed, index);
            }
        }
    }
}

/// Whether the table is asked for; spans are sorted.
fn is_wanted(spans: &[TableSpan], table: TableNo) -> bool {
    let after = spans.partition_point(|span| span.first <= table);
    after > 0 && table < spans[after - 1].end
}

/// Goes through a mapping from its start, since the count of referenced pages is used up from there,
/// until all its pages were met or nothing behind is asked for.
fn scan_mapping(
    pagemap: &File,
    entry: &SmapsEntry,
    spans: &[TableSpan],
    tables: &mut Tables<'_>,
) -> std::io::Result<()> {
    let mut pages_left = entry.rss_pages + entry.swap_pages;
    let mut referenced_left = entry.referenced_pages;
    let wanted_end = spans.last().map_or(0, |span| span.end.start());
    let is_any_wanted = spans
        .iter()
        .any(|span| span.first.start() < entry.range.end && entry.range.start < span.end.start());
    if !is_any_wanted {
        return Ok(());
    }
    let end_page = entry.range.end.min(wanted_end) / PAGE_BYTES;
    let mut page = entry.range.start / PAGE_BYTES;
    let mut buffer = vec![0; (CHUNK_ENTRIES * ENTRY_BYTES) as usize];
    while page < end_page && pages_left > 0 {
        let nr_entries = CHUNK_ENTRIES.min(end_page - page);
        let wanted_bytes = (nr_entries * ENTRY_BYTES) as usize;
        let got = pagemap.read_at(&mut buffer[..wanted_bytes], page * ENTRY_BYTES)?;
        if got < ENTRY_BYTES as usize {
            break;
        }
        let (words, _) = buffer[..got].as_chunks::<8>();
        tables.cost.nr_entries += words.len() as u64;
        for (addr, word) in (page..).map(|p| p * PAGE_BYTES).zip(words) {
            let word = u64::from_ne_bytes(*word);
            if word & (PAGEMAP_PRESENT | PAGEMAP_SWAP) == 0 {
                continue;
            }
            pages_left = pages_left.saturating_sub(1);
            let is_swapped = word & PAGEMAP_PRESENT == 0;
            let is_accessed = !is_swapped && referenced_left > 0;
            referenced_left -= u64::from(is_accessed);
            if is_wanted(spans, TableNo::containing(addr)) {
                tables.note(addr, is_swapped, is_accessed);
            }
        }
        page += words.len() as u64;
    }
    Ok(())
}
