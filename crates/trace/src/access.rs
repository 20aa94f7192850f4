//! The record: one access of one page.
//!
//! **Owns** the words every reader, writer and generator shares. **Does not own** any encoding.

/// What a page is made of; the engine calls it its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Backing {
    /// Swap-backed memory.
    Anon,
    /// A file or a block device.
    #[default]
    File,
    /// A file that is mapped to be executed: the engine's kind is that of files, and some rules keep it for longer.
    Code,
}

impl Backing {
    /// Whether the content is that of a file, code or not.
    pub fn is_file(self) -> bool {
        self != Backing::Anon
    }
}

/// The path an access took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// A load or store through a mapping.
    PageTable,
    /// A read or write through a file descriptor.
    #[default]
    FileDescriptor,
}

/// What the access did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Left the page as it was.
    #[default]
    Read,
    /// Made the page dirty.
    Write,
}

/// Which page: a page number within an address space or a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageKey {
    /// Number of the address space or the file; formats without one use 0.
    pub space: u32,
    /// Page (or block, or key) number within it.
    pub page: u64,
}

/// Pages whose content nobody needs any more: they take no memory from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Which.
    pub what: FreedPages,
    /// Microseconds since the trace began: freed before anything that is accessed at this time.
    pub time_us: u64,
}

/// Which pages were freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedPages {
    /// One.
    Page(PageKey),
    /// All of a space.
    Space(u32),
}

/// One access of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The page.
    pub key: PageKey,
    /// Microseconds since the trace began; 0 throughout where the format has no time.
    pub time_us: u64,
    /// Size of what was asked for, in bytes; 0 where the format does not say.
    pub size_bytes: u32,
    /// Number of the group that is charged; 0 where the format has no groups.
    pub group: u16,
    /// Anon or file.
    pub backing: Backing,
    /// Read or write.
    pub op: Op,
    /// Through a mapping or a descriptor.
    pub via: Via,
}
