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

    /// Writes to half of each page what compresses badly, as pages of programs do.
    pub(crate) fn scribble(&mut self) {
        let mut word = 0x9E37_79B9_7F4A_7C15_u64;
        for page in 0..self.nr_pages {
            for nth in 0..PAGE_BYTES as usize / 2 {
                // Xorshift (Marsaglia, 2003).
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                #[expect(unsafe_code, reason = "an address in the mapping")]
                // SAFETY: the byte lies in the first half of a page of the mapping.
                let byte = unsafe { self.base.add(page * PAGE_BYTES as usize + nth) };
                #[expect(unsafe_code, reason = "a write to our own page")]
                // SAFETY: the byte is mapped, writable and ours alone.
                unsafe {
                    byte.write_volatile(word as u8)
                };
            }
        }
    }

    /// Reads from a page, which has the kernel bring it back where it is not there.
    ///
    /// # Panics
    /// There is no such page.
    pub(crate) fn touch(&self, page: usize) -> u8 {
        assert!(page < self.nr_pages, "a page of the mapping");
        #[expect(unsafe_code, reason = "an address in the mapping")]
        // SAFETY: the page lies in the mapping.
        let byte = unsafe { self.base.add(page * PAGE_BYTES as usize) };
        #[expect(unsafe_code, reason = "the read that brings the page back")]
        // SAFETY: the byte is mapped, readable and ours alone.
        unsafe {
            byte.read_volatile()
        }
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
