//! Pages of our own that nobody has used before: what the kernel notes of them is of this use alone.
//!
//! **Owns** the mapping. **Does not own** what the pages are looked at for.

use std::io;
use std::ptr::{self, NonNull};

use crate::addr::PAGE_BYTES;

/// The mapping; unmapped on drop.
#[derive(Debug)]
pub(crate) struct FreshPages {
    base: NonNull<u8>,
    nr_pages: usize,
}

impl FreshPages {
    /// Maps so many base pages and writes to each.
    pub(crate) fn new(nr_pages: usize) -> io::Result<FreshPages> {
        let nr_bytes = nr_pages * PAGE_BYTES as usize;
        #[expect(unsafe_code, reason = "system call")]
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                nr_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let pages = FreshPages { base, nr_pages };
        #[expect(unsafe_code, reason = "system call")]
        // SAFETY: the range is the mapping just made. Without transparent huge pages the advice is refused, and not needed.
        unsafe {
            libc::madvise(base.as_ptr().cast(), nr_bytes, libc::MADV_NOHUGEPAGE)
        };
        for page in 0..nr_pages {
            #[expect(unsafe_code, reason = "an address in the mapping")]
            // SAFETY: the page lies in the mapping.
            let byte = unsafe { base.add(page * PAGE_BYTES as usize) };
            #[expect(unsafe_code, reason = "the write that makes the kernel back the page")]
            // SAFETY: the byte is mapped, writable and ours alone.
            unsafe {
                byte.write_volatile(page as u8 | 1)
            };
        }
        Ok(pages)
    }

    /// Where the first pages are, at most all.
    pub(crate) fn addresses(&self, nr_pages: usize) -> Vec<u64> {
        let start = self.base.as_ptr().addr() as u64;
        let pages = 0..nr_pages.min(self.nr_pages) as u64;
        pages.map(|page| start + page * PAGE_BYTES).collect()
    }
}

impl Drop for FreshPages {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "system call")]
        // SAFETY: exactly the range that `new` mapped, and nothing points into it.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.nr_pages * PAGE_BYTES as usize,
            );
        }
    }
}
