//! The memory that the page-table walk shares with us: `bpf/shared.h`, mirrored by hand.
//!
//! **Owns** the layout and every access to the mapped memory. The kernel writes it only while a run
//! of the program is under way, that is, inside our own `read` of an iterator; still everything
//! goes through raw pointers and volatile copies, so that the compiler believes nothing about it.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use super::mapping::Mapping;

/// Spans one chunk holds (`MAX_SPANS`).
pub(crate) const SPANS_MAX: usize = 1024;
/// Records one run leaves at most (`MAX_RECORDS`).
pub(crate) const RECORDS_MAX: usize = 1024;
/// Ranges of memory nodes (`MAX_NODE_RANGES`).
pub const NODE_RANGES_MAX: usize = 64;
/// Bits of the number of a node (`NODE_BITS`).
pub const NODE_BITS: usize = 4;

/// `walk_status`: no task with an address space came by.
pub(crate) const STATUS_UNSEEN: u64 = 0;
/// `walk_status`: every span was walked.
pub(crate) const STATUS_DONE: u64 = 1;
/// `walk_status`: stopped early; run again to resume.
pub(crate) const STATUS_MORE: u64 = 2;
/// `walk_status`: the task left its address space meanwhile.
pub(crate) const STATUS_MOVED: u64 = 3;

/// `walk_record.kind`: one huge page; the other bits say in which state.
pub(crate) const KIND_HUGE: u64 = 1;
pub(crate) const HUGE_PRESENT: u64 = 2;
pub(crate) const HUGE_ACCESSED: u64 = 4;
pub(crate) const HUGE_DIRTY: u64 = 8;
pub(crate) const HUGE_SPECIAL: u64 = 16;
pub(crate) const HUGE_PROTNONE: u64 = 32;
pub(crate) const HUGE_MIGRATING: u64 = 64;
pub(crate) const HUGE_INACTIVE: u64 = 128;
/// Where the memory node of a huge page stands in `kind` (`HUGE_NODE_SHIFT`).
pub(crate) const HUGE_NODE_SHIFT: u32 = 8;

/// `struct walk_header`; see there.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct WalkHeader {
    pub(crate) direct_base: u64,
    pub(crate) ram_end: u64,
    pub(crate) encrypt_bits: u64,
    pub(crate) levels: u64,
    pub(crate) pages_base: u64,
    pub(crate) nr_spans: u64,
    pub(crate) budget_ns: u64,
    pub(crate) peek_addr: u64,
    pub(crate) wants_inactive: u64,
    pub(crate) nr_node_ranges: u64,
    pub(crate) span_index: u64,
    pub(crate) cursor: u64,
    pub(crate) span_end: u64,
    pub(crate) status: u64,
    pub(crate) tid: u64,
    pub(crate) mm: u64,
    pub(crate) pgd: u64,
    pub(crate) nr_records: u64,
    pub(crate) nr_tables: u64,
    pub(crate) nr_refused: u64,
    pub(crate) nr_torn: u64,
    pub(crate) nr_clean_huge: u64,
    pub(crate) peek_entry: u64,
    pub(crate) peek: [u64; 8],
    pub(crate) peek_base: u64,
    pub(crate) peek_index: u64,
    pub(crate) peek_flags: u64,
}

/// `struct walk_span`: tables `[first, end)`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct WalkSpan {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// The beginning of a `struct walk_record`: all there is of a huge page.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RecordHead {
    pub(crate) table: u64,
    pub(crate) kind: u64,
    pub(crate) leaf: u64,
}

/// `struct walk_record`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct WalkRecord {
    pub(crate) head: RecordHead,
    pub(crate) present: [u64; 8],
    pub(crate) accessed: [u64; 8],
    pub(crate) dirty: [u64; 8],
    pub(crate) swapped: [u64; 8],
    pub(crate) special: [u64; 8],
    pub(crate) protnone: [u64; 8],
    pub(crate) migrating: [u64; 8],
    pub(crate) inactive: [u64; 8],
    pub(crate) node: [[u64; 8]; NODE_BITS],
}

/// `struct node_range`: pages of physical memory, and their node.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct NodeRange {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) node: u64,
}

#[repr(C)]
struct WalkShared {
    header: WalkHeader,
    spans: [WalkSpan; SPANS_MAX],
    records: [WalkRecord; RECORDS_MAX],
    node_ranges: [NodeRange; NODE_RANGES_MAX],
}

const _: () = assert!(size_of::<WalkHeader>() == 34 * 8);
const _: () = assert!(size_of::<WalkRecord>() == 99 * 8);
const _: () = assert!(offset_of!(WalkShared, spans) == 34 * 8);

/// The mapped memory.
#[derive(Debug)]
pub(crate) struct SharedMemory(Mapping);

impl SharedMemory {
    /// Maps the `.bss.shared` map of a loaded walk program.
    pub(crate) fn map(map: BorrowedFd<'_>) -> io::Result<SharedMemory> {
        Mapping::shared(map, size_of::<WalkShared>()).map(SharedMemory)
    }

    /// Copies the header out.
    pub(crate) fn header(&self) -> WalkHeader {
        self.read(0)
    }

    /// Copies the header in.
    pub(crate) fn set_header(&mut self, header: WalkHeader) {
        self.write(0, header);
    }

    /// Sets span `index`, which must be below [`SPANS_MAX`].
    pub(crate) fn set_span(&mut self, index: usize, span: WalkSpan) {
        assert!(index < SPANS_MAX, "span {index} of {SPANS_MAX}");
        let first = offset_of!(WalkShared, spans);
        self.write(first + index * size_of::<WalkSpan>(), span);
    }

    /// Sets range `index` of a memory node, which must be below [`NODE_RANGES_MAX`].
    pub(crate) fn set_node_range(&mut self, index: usize, range: NodeRange) {
        assert!(
            index < NODE_RANGES_MAX,
            "range {index} of {NODE_RANGES_MAX}"
        );
        let first = offset_of!(WalkShared, node_ranges);
        self.write(first + index * size_of::<NodeRange>(), range);
    }

    /// Copies the head of record `index` out, which must be below [`RECORDS_MAX`].
    pub(crate) fn record_head(&self, index: usize) -> RecordHead {
        self.read(record_offset(index))
    }

    /// Copies record `index` out, which must be below [`RECORDS_MAX`].
    pub(crate) fn record(&self, index: usize) -> WalkRecord {
        self.read(record_offset(index))
    }

    fn read<T: Plain>(&self, offset: usize) -> T {
        let place = self.0.place::<T>(offset);
        #[expect(unsafe_code, reason = "memory shared with the kernel")]
        // SAFETY: the place lies inside the mapping and is aligned to 8 bytes, and any bits are a valid value.
        unsafe {
            place.read_volatile()
        }
    }

    fn write<T: Plain>(&mut self, offset: usize, value: T) {
        let place = self.0.place::<T>(offset);
        #[expect(unsafe_code, reason = "memory shared with the kernel")]
        // SAFETY: as in `read`; `&mut self` keeps other writers of ours out.
        unsafe {
            place.write_volatile(value);
        }
    }
}

fn record_offset(index: usize) -> usize {
    assert!(index < RECORDS_MAX, "record {index} of {RECORDS_MAX}");
    offset_of!(WalkShared, records) + index * size_of::<WalkRecord>()
}

/// What is made of `u64` only: any bits are a value of it.
trait Plain: Copy {}
impl Plain for WalkHeader {}
impl Plain for WalkSpan {}
impl Plain for NodeRange {}
impl Plain for RecordHead {}
impl Plain for WalkRecord {}
