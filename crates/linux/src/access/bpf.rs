//! The page-table walk by BPF: every page of a process, exactly, without touching the process.
//!
//! **Owns** feeding spans to the walk in chunks, resuming it, and turning raw records into
//! [`TableRecord`]s. **Does not own** following the tables (`bpf/walk.bpf.c`) nor clearing (`clear`).
//!
//! **Invariants**
//! - I1: records come only from an address space that was alive for the whole run they came from.
//! - I2: a table that is not reported had nothing present and nothing swapped in it.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use super::locate::{self, Geometry, NAME};
use super::{
    AccessError, AccessSource, Grain, SourceInfo, TableRecord, TableShape, WalkCost, smaps_text,
};
use crate::addr::{AddrRange, TABLE_ENTRIES, TableNo, TableSpan};
use crate::process::{Process, VmFlags};
use crate::rights;
use crate::sys::bpf::{self, Attached, IterProgram, Target};
use crate::sys::bpf_shared::{
    HUGE_ACCESSED, HUGE_DIRTY, HUGE_INACTIVE, HUGE_MIGRATING, HUGE_NODE_SHIFT, HUGE_PRESENT,
    HUGE_PROTNONE, HUGE_SPECIAL, KIND_HUGE, NODE_RANGES_MAX, NodeRange, RecordHead, SPANS_MAX,
    STATUS_DONE, STATUS_MORE, STATUS_MOVED, SharedMemory, WalkHeader, WalkRecord, WalkSpan,
};
use crate::sys::mapping::HugeZeroMapping;
use strata_lru::NodeId;
use strata_lru::bits;

/// How long one run may keep its CPU.
const RUN_BUDGET: Duration = Duration::from_millis(1);
/// How often a walk looks for another thread when the one it went by ends.
const THREADS_TRIED_MAX: usize = 16;
/// Spans a chunk may hold: the last place is kept for a look at our own huge zero page.
const CHUNK_SPANS_MAX: usize = SPANS_MAX - 1;
/// Address bits in the entry of a huge page.
const HUGE_ADDRESS: u64 = 0x000f_ffff_ffe0_0000;
/// Bytes of one `struct vma_record`.
const VMA_RECORD_BYTES: usize = 24;
/// Read at once: more than the kernel hands out at once (8 pages), so that no record is cut.
const VMA_BUFFER_BYTES: usize = 64 << 10;

/// The source; each has programs and memory of its own, so several can work at once.
#[derive(Debug)]
pub struct BpfSource {
    walk: IterProgram,
    memory: SharedMemory,
    geometry: Geometry,
    /// `None` if the kernel can't list mappings by BPF: `smaps` is read instead.
    vma_lister: Option<IterProgram>,
    sees_inactive: bool,
    /// Ranges of memory nodes that the program knows; 0: it does not tell nodes.
    nr_node_ranges: u64,
}

/// Where the kernel's huge zero page is: one page for all who only read, so no page of theirs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HugeZero {
    /// Not looked for: nothing met so far could be it.
    Unknown,
    /// The kernel has no huge zero page.
    Absent,
    /// Address bits of the huge zero page.
    At(u64),
}

/// A walk of one task, over one or many runs of the program.
struct Run {
    attached: Attached,
    is_whole_process: bool,
    threads_tried: usize,
    /// The address space of the first run; later ones must see the same.
    space: Option<u64>,
    huge_zero: HugeZero,
}

impl BpfSource {
    /// Loads the programs and proves that they read the truth.
    pub fn open() -> Result<BpfSource, AccessError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(AccessError::Unavailable {
                source_name: NAME,
                why: format!("no page-table layout for {}", std::env::consts::ARCH),
                remedy: "use the smaps source".to_owned(),
            });
        }
        if !rights::has_bpf_capabilities() {
            return Err(AccessError::Unavailable {
                source_name: NAME,
                why: "CAP_BPF and CAP_PERFMON are missing".to_owned(),
                remedy: format!(
                    "{}, or use the smaps source",
                    rights::advice("CAP_BPF or CAP_PERFMON")
                ),
            });
        }
        let (walk, mut memory) = bpf::load_walk().map_err(|error| AccessError::Unavailable {
            source_name: NAME,
            why: format!("the walk program does not load: {error}"),
            remedy: "boot Linux 6.1 or newer with CONFIG_DEBUG_INFO_BTF and no confidentiality \
                     lockdown, or use the smaps source"
                .to_owned(),
        })?;
        let geometry = locate::locate(&walk, &mut memory)?;
        let vma_lister = bpf::load_vma_lister()
            .inspect_err(|error| tracing::debug!(%error, "mappings are listed by smaps"))
            .ok();
        Ok(BpfSource {
            walk,
            memory,
            geometry,
            vma_lister,
            sees_inactive: false,
            nr_node_ranges: 0,
        })
    }

    /// What was found out about this machine, without giving the secret of KASLR away.
    pub fn describe(&self) -> String {
        format!(
            "loaded; {}-level page tables, {} GiB of physical addresses{}; inactive pages {}; mappings by {}",
            self.geometry.levels,
            self.geometry.ram_end.div_ceil(1 << 30),
            match self.geometry.encrypt_bits {
                0 => "",
                _ => ", encrypted",
            },
            match self.geometry.pages_base {
                0 => "not told",
                _ => "told",
            },
            match self.vma_lister {
                Some(_) => "bpf",
                None => "smaps",
            },
        )
    }

    /// Where the kernel's struct of physical page 0 lies; `None` where that was not found.
    pub(super) fn pages_base(&self) -> Option<u64> {
        (self.geometry.pages_base != 0).then_some(self.geometry.pages_base)
    }

    fn attach(&self, process: &Process, target: Target) -> Result<Attached, AccessError> {
        self.walk.attach(target).map_err(|source| AccessError::Io {
            what: "attaching the page-table walk",
            pid: process.pid(),
            source,
        })
    }

    fn begin(&self, process: &Process) -> Result<Run, AccessError> {
        Ok(Run {
            attached: self.attach(process, Target::Thread(process.pid()))?,
            is_whole_process: false,
            threads_tried: 0,
            space: None,
            huge_zero: HugeZero::Unknown,
        })
    }

    /// One run from `start` on. Goes by another thread when the one before has ended, and starts
    /// over when memory has grown since the source was opened.
    fn run(
        &mut self,
        process: &Process,
        run: &mut Run,
        start: WalkHeader,
        cost: &mut WalkCost,
    ) -> Result<WalkHeader, AccessError> {
        let mut start = start;
        loop {
            self.memory.set_header(start);
            run.attached.run().map_err(|source| AccessError::Io {
                what: "walking the page tables",
                pid: process.pid(),
                source,
            })?;
            cost.nr_runs += 1;
            let end = self.memory.header();
            match end.status {
                STATUS_DONE | STATUS_MORE => {}
                _ => {
                    if run.is_whole_process && end.status != STATUS_MOVED {
                        return Err(AccessError::ProcessGone(process.pid()));
                    }
                    run.threads_tried += 1;
                    if run.threads_tried > THREADS_TRIED_MAX {
                        return Err(AccessError::SpaceReplaced(process.pid()));
                    }
                    run.attached = self.attach(process, Target::Process(process.pid()))?;
                    run.is_whole_process = true;
                    continue;
                }
            }
            if *run.space.get_or_insert(end.mm) != end.mm {
                return Err(AccessError::SpaceReplaced(process.pid()));
            }
            if end.nr_clean_huge > 0 && run.huge_zero == HugeZero::Unknown {
                run.huge_zero = self.find_huge_zero();
                continue;
            }
            if end.nr_refused > 0 && self.has_memory_grown() {
                start.ram_end = self.geometry.ram_end;
                continue;
            }
            if end.nr_refused > 0 {
                tracing::warn!(
                    pid = process.pid(),
                    refused = end.nr_refused,
                    "page-table entries lead outside memory"
                );
            }
            return Ok(end);
        }
    }

    /// Finds the huge zero page by having it mapped to us. The kernel may give it up and make
    /// another when nobody uses it, so what is found holds for one walk, whose target uses it.
    fn find_huge_zero(&mut self) -> HugeZero {
        match self.walk_huge_zero() {
            Ok(Some(head)) if head.kind & KIND_HUGE != 0 => HugeZero::At(head.leaf & HUGE_ADDRESS),
            // Without transparent huge pages nobody has one.
            _ => HugeZero::Absent,
        }
    }

    fn walk_huge_zero(&mut self) -> io::Result<Option<RecordHead>> {
        let mapping = HugeZeroMapping::new()?;
        let table = TableNo::containing(mapping.address());
        let span = WalkSpan {
            first: table.0,
            end: table.0 + 1,
        };
        self.memory.set_span(CHUNK_SPANS_MAX, span);
        self.memory.set_header(WalkHeader {
            span_index: CHUNK_SPANS_MAX as u64,
            nr_spans: SPANS_MAX as u64,
            budget_ns: RUN_BUDGET.as_nanos() as u64,
            ..self.geometry.header()
        });
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        self.walk.attach(Target::Thread(me))?.run()?;
        let has_record = self.memory.header().nr_records > 0;
        Ok(has_record.then(|| self.memory.record_head(0)))
    }

    /// Whether memory was added (hotplug) since we looked; takes note of it.
    fn has_memory_grown(&mut self) -> bool {
        match locate::ram_end_bytes() {
            Ok(ram_end) if ram_end > self.geometry.ram_end => {
                self.geometry.ram_end = ram_end;
                true
            }
            _ => false,
        }
    }

    /// The header of a run that walks nothing: who is there, and in which address space.
    /// The flags in the kernel's struct of the page at an address of the process; `None` where they can't be read.
    ///
    /// # Errors
    /// [`AccessError`].
    pub(crate) fn page_flags(
        &mut self,
        process: &Process,
        address: u64,
    ) -> Result<Option<u64>, AccessError> {
        let mut run = self.begin(process)?;
        let header = WalkHeader {
            peek_addr: address,
            ..self.geometry.header()
        };
        let found = self.run(process, &mut run, header, &mut WalkCost::default())?;
        Ok((found.peek_flags != 0).then_some(found.peek_flags))
    }

    fn identify(&mut self, process: &Process) -> Result<WalkHeader, AccessError> {
        let mut run = self.begin(process)?;
        let header = self.geometry.header();
        self.run(process, &mut run, header, &mut WalkCost::default())
    }
}

impl AccessSource for BpfSource {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            name: NAME,
            grain: Grain::Page,
            blind_spots: vec![
                "an access is a set bit in a page table: reads and writes through file \
                 descriptors set none"
                    .to_owned(),
                "accessed bits are cleared without flushing every TLB: a page in constant use may \
                 show up one walk late"
                    .to_owned(),
                "the kernel's own reclaim (and DAMON) clears accessed bits, and fault-around sets \
                 them on untouched neighbours of a file page"
                    .to_owned(),
            ],
        }
    }

    fn read(
        &mut self,
        process: &Process,
        spans: &[TableSpan],
        visit: &mut dyn FnMut(&TableRecord),
    ) -> Result<WalkCost, AccessError> {
        let started = Instant::now();
        let tells_nodes = self.nr_node_ranges > 0;
        let mut cost = WalkCost::default();
        let mut run = self.begin(process)?;
        for chunk in spans.chunks(CHUNK_SPANS_MAX) {
            for (index, span) in chunk.iter().enumerate() {
                let span = WalkSpan {
                    first: span.first.0,
                    end: span.end.0,
                };
                self.memory.set_span(index, span);
            }
            let mut header = WalkHeader {
                nr_spans: chunk.len() as u64,
                wants_inactive: u64::from(self.sees_inactive),
                nr_node_ranges: self.nr_node_ranges,
                budget_ns: RUN_BUDGET.as_nanos() as u64,
                ..self.geometry.header()
            };
            loop {
                let end = self.run(process, &mut run, header, &mut cost)?;
                cost.nr_tables += end.nr_tables;
                cost.nr_entries += end.nr_tables * TABLE_ENTRIES as u64;
                for index in 0..end.nr_records as usize {
                    let head = self.memory.record_head(index);
                    if head.kind == 0 {
                        visit(&pages_record(&self.memory.record(index), tells_nodes));
                    } else {
                        cost.nr_entries += 1;
                        visit(&huge_record(head, run.huge_zero, tells_nodes));
                    }
                }
                if end.status == STATUS_DONE {
                    break;
                }
                header.ram_end = self.geometry.ram_end;
                header.span_index = end.span_index;
                header.cursor = end.cursor;
                header.span_end = end.span_end;
            }
        }
        cost.wall_ns = started.elapsed().as_nanos() as u64;
        Ok(cost)
    }

    fn see_inactive(&mut self, is_wanted: bool) -> bool {
        self.sees_inactive = is_wanted && self.geometry.pages_base != 0;
        self.sees_inactive
    }

    fn see_nodes(&mut self, ranges: &[(u64, u64, NodeId)]) -> bool {
        // Only this list tells which memory has a policy, and so stays on its node.
        let ranges = match &self.vma_lister {
            Some(_) => ranges.get(..NODE_RANGES_MAX).unwrap_or(ranges),
            None => &[],
        };
        for (index, (first, end, node)) in ranges.iter().enumerate() {
            let range = NodeRange {
                first: *first,
                end: *end,
                node: u64::from(node.0),
            };
            self.memory.set_node_range(index, range);
        }
        self.nr_node_ranges = ranges.len() as u64;
        self.nr_node_ranges > 0
    }

    fn tells_nodes(&self) -> bool {
        self.vma_lister.is_some()
    }

    fn vm_flags(&mut self, process: &Process) -> Result<Vec<(AddrRange, VmFlags)>, AccessError> {
        process
            .ensure_settled()
            .map_err(|stalled| AccessError::Stalled(stalled.to_string()))?;
        let Some(lister) = &self.vma_lister else {
            return smaps_text::vm_flags(process);
        };
        let to_error = |source| AccessError::Io {
            what: "listing the mappings",
            pid: process.pid(),
            source,
        };
        let direct = list_vmas(lister, process.pid()).map_err(to_error)?;
        if !direct.is_empty() {
            return Ok(direct);
        }
        // The first thread may have ended while others live on; and a process may be gone.
        let tid = self.identify(process)?.tid;
        let tid = i32::try_from(tid).map_err(|_| AccessError::ProcessGone(process.pid()))?;
        match &self.vma_lister {
            Some(lister) => list_vmas(lister, tid).map_err(to_error),
            None => smaps_text::vm_flags(process),
        }
    }
}

/// Reads the mappings of one thread's space. A pass does not reliably end by itself: on some kernels
/// (seen on 6.18) a read after the last mapping begins again a few mappings back, so the first
/// address that does not rise is the end.
fn list_vmas(lister: &IterProgram, tid: i32) -> io::Result<Vec<(AddrRange, VmFlags)>> {
    let mut pass = lister.attach(Target::Thread(tid))?.iterate()?;
    let mut vmas: Vec<(AddrRange, VmFlags)> = Vec::new();
    let mut buffer = vec![0; VMA_BUFFER_BYTES];
    loop {
        let got = pass.read(&mut buffer)?;
        let (records, _) = buffer[..got].as_chunks::<VMA_RECORD_BYTES>();
        if records.is_empty() {
            return Ok(vmas);
        }
        for record in records {
            let [start, end, flags] = words(record);
            if vmas.last().is_some_and(|(last, _)| start < last.end) {
                return Ok(vmas);
            }
            vmas.push((AddrRange::new(start, end), VmFlags(flags)));
        }
    }
}

/// The members of a `struct vma_record`.
fn words(record: &[u8; VMA_RECORD_BYTES]) -> [u64; 3] {
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(record.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

fn pages_record(raw: &WalkRecord, tells_nodes: bool) -> TableRecord {
    let (present, protnone) = (raw.present, raw.protnone);
    TableRecord {
        table: TableNo(raw.head.table),
        shape: TableShape::Pages,
        present,
        accessed: bits::and(raw.accessed, present),
        dirty: bits::and(raw.dirty, present),
        swapped: raw.swapped,
        special: raw.special,
        protnone,
        protnone_accessed: bits::and(raw.accessed, protnone),
        protnone_dirty: bits::and(raw.dirty, protnone),
        migrating: raw.migrating,
        inactive: raw.inactive,
        node: tells_nodes.then_some(raw.node),
    }
}

fn huge_record(head: RecordHead, huge_zero: HugeZero, tells_nodes: bool) -> TableRecord {
    let is_zero = huge_zero == HugeZero::At(head.leaf & HUGE_ADDRESS);
    let kind = match head.kind & HUGE_PRESENT != 0 && is_zero {
        true => KIND_HUGE | HUGE_SPECIAL,
        false => head.kind,
    };
    let all_if = |bit: u64| [if kind & bit != 0 { u64::MAX } else { 0 }; 8];
    TableRecord {
        table: TableNo(head.table),
        shape: TableShape::Huge,
        present: all_if(HUGE_PRESENT),
        accessed: bits::and(all_if(HUGE_ACCESSED), all_if(HUGE_PRESENT)),
        dirty: bits::and(all_if(HUGE_DIRTY), all_if(HUGE_PRESENT)),
        // Linux swaps out nothing larger than a page without splitting its entry.
        swapped: bits::NONE,
        special: all_if(HUGE_SPECIAL),
        protnone: all_if(HUGE_PROTNONE),
        protnone_accessed: bits::and(all_if(HUGE_ACCESSED), all_if(HUGE_PROTNONE)),
        protnone_dirty: bits::and(all_if(HUGE_DIRTY), all_if(HUGE_PROTNONE)),
        migrating: all_if(HUGE_MIGRATING),
        inactive: all_if(HUGE_INACTIVE),
        node: tells_nodes
            .then(|| std::array::from_fn(|bit| all_if(1 << (HUGE_NODE_SHIFT as usize + bit)))),
    }
}
