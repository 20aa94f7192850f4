//! Memory that this process maps for itself, and one that the kernel's huge zero page is told by.
//!
//! **Owns** mapping and unmapping. **Does not own** what the memory is for.
#![expect(unsafe_code, reason = "mappings have no safe wrapper")]

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A mapping of ours; unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    nr_bytes: usize,
}

// SAFETY: nothing else holds the pointer, a mapping can be used from any thread, and what is shared is only read.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// So many bytes of fresh memory.
    pub(super) fn fresh(nr_bytes: usize, access: ProtFlags) -> rustix::io::Result<Mapping> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), nr_bytes, access, flags)? };
        Mapping::of(base, nr_bytes)
    }

    /// The first bytes of what others have mapped, too, to read and to write.
    pub(super) fn shared(file: BorrowedFd<'_>, nr_bytes: usize) -> io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Ok(Mapping::at(ptr::null_mut(), file, 0, nr_bytes, access)?)
    }

    /// A range of a file, shared; at an address that is free, or (null) of the kernel's choice.
    pub(super) fn at(
        place: *mut c_void,
        file: BorrowedFd<'_>,
        offset: u64,
        nr_bytes: usize,
        access: ProtFlags,
    ) -> rustix::io::Result<Mapping> {
        let flags = match place.is_null() {
            true => MapFlags::SHARED,
            false => MapFlags::SHARED | MapFlags::FIXED_NOREPLACE,
        };
        // SAFETY: the mapping takes the place of no other, and nothing points to it yet.
        let base = unsafe { mmap(place, nr_bytes, access, flags, file, offset)? };
        Mapping::of(base, nr_bytes)
    }

    fn of(base: *mut c_void, nr_bytes: usize) -> rustix::io::Result<Mapping> {
        let base = NonNull::new(base.cast()).ok_or(Errno::ADDRNOTAVAIL)?;
        Ok(Mapping { base, nr_bytes })
    }

    /// Where it begins.
    pub(super) fn base(&self) -> *mut c_void {
        self.base.as_ptr().cast()
    }

    /// How much of it there is.
    pub(super) fn nr_bytes(&self) -> usize {
        self.nr_bytes
    }

    /// A place for a value in it.
    ///
    /// # Panics
    /// The value would not lie in the mapping.
    pub(super) fn place<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset + size_of::<T>() <= self.nr_bytes, "in the mapping");
        // SAFETY: the offset was checked to lie inside the mapping.
        unsafe { self.base.add(offset) }.cast()
    }

    /// Reads a byte, which has the kernel back its page.
    pub(super) fn read(&self, offset: usize) -> u8 {
        let place = self.place::<u8>(offset);
        // SAFETY: the byte lies in the mapping, which can be read.
        unsafe { place.read_volatile() }
    }

    /// Writes a byte of a mapping that can be written to, which has the kernel back its page.
    pub(super) fn write(&mut self, offset: usize, byte: u8) {
        let place = self.place::<u8>(offset);
        // SAFETY: the byte lies in the mapping, and `&mut self` keeps others out.
        unsafe { place.write_volatile(byte) };
    }

    /// Advises the kernel on all of it, with an advice that changes no content.
    pub(super) fn advise(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: exactly the range that is mapped, and nothing of ours points into it.
        unsafe { madvise(self.base(), self.nr_bytes, advice) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped, and nothing points into it.
        let _unmapped = unsafe { munmap(self.base(), self.nr_bytes) };
    }
}

/// Bytes of a huge page.
const HUGE_BYTES: usize = 2 << 20;

/// A mapping that the kernel backs with its huge zero page, which it may give up only when this is dropped.
#[derive(Debug)]
pub(crate) struct HugeZeroMapping(Mapping);

impl HugeZeroMapping {
    /// Maps and reads it. What backs it then is for the caller to see: without transparent huge
    /// pages it is an ordinary zero page.
    pub(crate) fn new() -> io::Result<HugeZeroMapping> {
        // Twice as much, so that one whole huge page lies inside wherever the mapping starts.
        let memory = Mapping::fresh(2 * HUGE_BYTES, ProtFlags::READ)?;
        memory.advise(Advice::LinuxHugepage)?;
        let mapping = HugeZeroMapping(memory);
        let inside = mapping.address() as usize - mapping.0.base().addr();
        mapping.0.read(inside);
        Ok(mapping)
    }

    /// First byte of the whole huge page inside.
    pub(crate) fn address(&self) -> u64 {
        (self.0.base().addr() as u64).next_multiple_of(HUGE_BYTES as u64)
    }
}
