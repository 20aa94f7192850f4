//! A mapping of ours that the kernel backs with its huge zero page.

use std::io;
use std::ptr::{self, NonNull};

/// Bytes of a huge page.
const HUGE_BYTES: usize = 2 << 20;
/// Twice that, so that one whole huge page lies inside wherever the mapping starts.
const MAPPED_BYTES: usize = 2 * HUGE_BYTES;

/// The mapping; unmapped on drop, and only then may the kernel give its huge zero page up.
#[derive(Debug)]
pub(crate) struct HugeZeroMapping {
    base: NonNull<u8>,
}

impl HugeZeroMapping {
    /// Maps and reads it. What backs it then is for the caller to see: without transparent huge
    /// pages it is an ordinary zero page.
    pub(crate) fn new() -> io::Result<HugeZeroMapping> {
        #[expect(unsafe_code, reason = "system call")]
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                MAPPED_BYTES,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mapping = HugeZeroMapping { base };
        #[expect(unsafe_code, reason = "system call")]
        // SAFETY: the range is the mapping just made; the advice changes no content.
        let advised =
            unsafe { libc::madvise(base.as_ptr().cast(), MAPPED_BYTES, libc::MADV_HUGEPAGE) };
        if advised != 0 {
            return Err(io::Error::last_os_error());
        }
        let offset = base.as_ptr().align_offset(HUGE_BYTES);
        #[expect(unsafe_code, reason = "an address in the mapping")]
        // SAFETY: aligning up by at most one huge page stays inside the two that are mapped.
        let aligned = unsafe { base.add(offset) };
        #[expect(unsafe_code, reason = "the read that makes the kernel back the page")]
        // SAFETY: the byte is mapped for reading.
        unsafe {
            aligned.read_volatile()
        };
        Ok(mapping)
    }

    /// First byte of the whole huge page inside.
    pub(crate) fn address(&self) -> u64 {
        (self.base.as_ptr().addr() as u64).next_multiple_of(HUGE_BYTES as u64)
    }
}

impl Drop for HugeZeroMapping {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "system call")]
        // SAFETY: exactly the range that `new` mapped, and nothing points into it.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), MAPPED_BYTES);
        }
    }
}
