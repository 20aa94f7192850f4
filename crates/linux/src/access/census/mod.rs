//! A census of physical memory: what every page of the machine is used for, and by whom.
//!
//! ```text
//!   ranges (which pages there are, by node) -> take (whole, or blocks in random order at a pace)
//!      -> bpf/census.bpf.c sums up in the kernel -> Taken: by kind, by (group, node, kind), by (file, group)
//!   watch: censuses one after the other, which tell what was read in between
//!   pages: all page cache of one group or of many, page by page
//!   groups, names: what the numbers in it are called
//! ```
//!
//! The kernel keeps a struct for every page. A BPF program reads them one after the other. It follows no list and takes
//! no lock, so nobody is held up; and it sees what no page table shows: page cache that nobody has mapped.
//!
//! **Owns** taking a census and what is told of it; here, the words for what is told. **Does not own** where the kernel's
//! structs lie (`locate`), nor what is done about what was found.
//!
//! **Invariants**
//! - I1: what was looked at is told. Where only a part was, every figure is scaled to the whole and the totals have an
//!   interval of confidence.
//! - I2: a large folio counts once, with its size. A page without a struct is a hole, and counted as one.
//! - I3: a call into the kernel ends after about 1 ms.
//! - I4: no name is guessed: a path is one at which this very file was found, or the place in its file system.

mod arrivals;
mod estimate;
mod idle;
mod names;
mod open;
mod pages;
mod probed;
mod take;
mod watch;

use std::time::Duration;

use strata_lru::machine;

pub use arrivals::Arrivals;
pub use idle::IdleRanges;
pub use names::{FileName, FileNames, is_at, size_at};
pub use open::Census;
pub use pages::{GroupPages, Whose};
pub use probed::{IdleEstimate, Probed};
pub use watch::{CacheWatch, WHOLE_WATCH, Wanted, WatchQuestion};

use crate::process::Device;
use crate::sys::bpf_census::{self, NR_KINDS};

/// Bits of the minor number in the kernel's number of a device.
const MINOR_BITS: u32 = 20;

/// Ages of a [`CacheWatch`], the whole watch included.
pub const NR_AGES: usize = bpf_census::NR_AGES;

/// What a page is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Memory of programs that no file is behind; the swap cache, too.
    Anon,
    /// Page cache of files and of disks.
    File,
    /// Page cache of files that are nowhere but in memory: tmpfs, memfd, shared memory.
    Shmem,
    /// Huge pages that were set aside and are in use. They are charged to no group.
    Hugetlb,
}

impl Kind {
    /// All, in the order of the kernel program's `enum census_kind`.
    pub const ALL: [Kind; NR_KINDS] = [Kind::Anon, Kind::File, Kind::Shmem, Kind::Hugetlb];

    /// Whether pages of this kind are page cache: of a file on a disk, or of one that is in memory only.
    pub fn is_page_cache(self) -> bool {
        matches!(self, Kind::File | Kind::Shmem)
    }
}

strata_lru::counts! {
    /// How much of something there is, bytes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
    pub struct Sums {
        /// In memory.
        pub bytes: u64,
        /// Mapped by a process.
        pub mapped_bytes: u64,
        /// To be written to its file; of [`Kind::File`] only, other kinds are always called dirty by the kernel.
        pub dirty_bytes: u64,
        /// Being written.
        pub writeback_bytes: u64,
        /// Locked in memory.
        pub unevictable_bytes: u64,
        /// Used again after it came to memory, as far as the kernel remembers: mapped, or active; under MGLRU in the workingset
        /// or with a count of accesses.
        pub used_bytes: u64,
        /// By MGLRU generation, number modulo 4. `None` where the kernel keeps none or they can't be told.
        pub generations_bytes: Option<[u64; 4]>,
        /// Page cache that nobody has mapped and that was read through a descriptor within each age of a [`CacheWatch`], came to
        /// memory within it, or was dirty. 0 outside of a watch.
        pub read_bytes: [u64; NR_AGES],
        /// Page cache that nobody has mapped, and of which it can't be told whether it was read within each age: the kernel's
        /// count of its reads was full before, or fell, or a process had it mapped. 0 outside of a watch.
        pub unknown_bytes: [u64; NR_AGES],
        /// What is known of pages whose count of reads was reset. Nothing outside of a watch that has counts reset.
        #[serde(skip)]
        pub probed: Probed,
    }
}

impl Sums {
    /// Page cache that nobody has mapped and that was not read within this age, the number of one of a [`CacheWatch`] that is
    /// told. A write that came to the disk between two censuses is missed, and so is a read that the kernel counted down
    /// again between two.
    pub fn idle_bytes(&self, age: usize) -> u64 {
        let of = |bytes: &[u64; NR_AGES]| bytes.get(age).copied().unwrap_or_default();
        let others = self.mapped_bytes + of(&self.read_bytes) + of(&self.unknown_bytes);
        self.bytes.saturating_sub(others)
    }
}

/// One kind in the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Total {
    /// Which.
    pub kind: Kind,
    /// How much there is.
    pub bytes: u64,
    /// Half of the interval that holds the true figure 95 times of 100; 0 where all was looked at.
    pub error_bytes: u64,
    /// How much of it is mapped.
    pub mapped_bytes: u64,
}

/// What a group has of a kind on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPart {
    /// Inode of the group's directory, which [`crate::cgroup::GroupNames`] tells the name of; 0: charged to no group.
    pub group_id: u64,
    /// The memory node; `None` where nodes overlap.
    pub node: Option<u32>,
    /// The kind.
    pub kind: Kind,
    /// How much.
    pub sums: Sums,
}

/// What is in memory of a file and charged to one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file.
    pub file: FileId,
    /// As in [`GroupPart`].
    pub group_id: u64,
    /// The memory node of all of it: a whole census, but that of a watch, tells a file that is on several nodes once for each.
    /// `None`: not told apart.
    pub node: Option<u32>,
    /// How much.
    pub sums: Sums,
    /// The kernel's struct of the group; never shown, as it is a secret.
    memcg: u64,
}

/// What makes a file the same one: its device, its number there, and which of the files that had this number it is.
pub type Identity = (Device, u64, u64);

/// A file as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device of its file system; of a disk, its own.
    pub device: Device,
    /// Its number there.
    pub inode: u64,
    /// Tells files apart that had the same number one after the other.
    pub generation: u64,
    /// Whether the file is deleted: it has no name any more, and its pages are freed when the last process closes it.
    pub is_deleted: bool,
    /// Whether the file is a block device: its pages are what file systems keep beside files, and what is read from the device itself.
    pub is_disk: bool,
    /// Whether the file is nowhere but in memory (tmpfs, memfd): its pages go to swap.
    pub is_in_memory_only: bool,
    /// The kernel's struct; never shown, as it is a secret.
    mapping: u64,
}

impl FileId {
    /// A file that is in a directory, as far as is known.
    pub(crate) fn new(device: Device, inode: u64, generation: u64, mapping: u64) -> FileId {
        FileId {
            device,
            inode,
            generation,
            is_deleted: false,
            is_disk: false,
            is_in_memory_only: false,
            mapping,
        }
    }

    /// What makes it the same file.
    pub fn identity(&self) -> Identity {
        (self.device, self.inode, self.generation)
    }

    /// The kernel keeps the file where `found` says: one that had left its memory has come back at another address.
    pub fn follow_to(&mut self, found: &machine::FileId) {
        self.mapping = found.key.0;
    }
}

/// Pages of a file of which the kernel's count of reads is full, and is to be reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullPages {
    /// Which file.
    pub(crate) file: FileId,
    /// Numbers of whole folios.
    pub(crate) pages: std::ops::Range<u64>,
}

impl From<FileId> for machine::FileId {
    fn from(file: FileId) -> machine::FileId {
        machine::FileId {
            device: device_number(file.device),
            inode: file.inode,
            generation: file.generation,
            key: machine::FileKey(file.mapping),
            is_in_memory_only: file.is_in_memory_only,
        }
    }
}

impl From<machine::FileId> for FileId {
    /// Whether the file has a name is found out when it is opened; disks are not told by page.
    fn from(file: machine::FileId) -> FileId {
        let device = Device {
            major: (file.device >> u32::BITS) as u32,
            minor: file.device as u32,
        };
        FileId {
            is_in_memory_only: file.is_in_memory_only,
            ..FileId::new(device, file.inode, file.generation, file.key.0)
        }
    }
}

/// The number by which a device is told to others.
fn device_number(device: Device) -> u64 {
    u64::from(device.major) << u32::BITS | u64::from(device.minor)
}

/// A device by the kernel's number of it.
fn device_of(number: u64) -> Device {
    Device {
        major: (number >> MINOR_BITS) as u32,
        minor: (number & ((1 << MINOR_BITS) - 1)) as u32,
    }
}

/// How much may be looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Share of one processor, 0.01 for 1 %.
    pub cpu_share: f64,
    /// The census ends after this long; what could not be looked at within both is estimated.
    pub within: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            cpu_share: 0.01,
            within: Duration::from_secs(5),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Question {
    /// Sum up by file, too.
    pub wants_files: bool,
    /// A sample as large as this allows; `None`: all of memory, at once.
    pub budget: Option<Budget>,
}

/// What a census cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CensusCost {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the longest call into the kernel, nanoseconds: for so long no other program had this processor.
    pub longest_call_ns: u64,
    /// Calls.
    pub nr_calls: u64,
}

impl CensusCost {
    /// Adds another census.
    pub fn add(&mut self, other: &CensusCost) {
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
        self.longest_call_ns = self.longest_call_ns.max(other.longest_call_ns);
        self.nr_calls += other.nr_calls;
    }
}

/// What a census found.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Pages of physical memory that there may be, holes included.
    pub nr_pages: u64,
    /// Pages of physical memory that were looked at.
    pub nr_looked_pages: u64,
    /// Pages looked at that the kernel has no struct for.
    pub nr_hole_pages: u64,
    /// Share of memory looked at: 1 for a whole census.
    pub sampled_share: f64,
    /// Bytes of groups and files that there was no room to sum up by themselves; they are in the totals.
    pub lost_bytes: u64,
    /// Bytes whose count of reads was reset, where looked at.
    pub reset_bytes: u64,
    /// By kind.
    pub totals: [Total; NR_KINDS],
    /// By group, node and kind; in no order.
    pub groups: Vec<GroupPart>,
    /// By file and group, where asked for; in no order.
    pub files: Vec<FilePart>,
    /// Which pages of files lie idle, where asked for.
    pub idle: IdleRanges,
    /// What it cost.
    pub cost: CensusCost,
}
