//! One entry of `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
//!
//! **Owns** the bit positions. **Does not own** reading ([`super::Process::read_pagemap`]).

/// What the kernel says of one page of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagemapEntry(pub u64);

impl PagemapEntry {
    /// Mapped by this process alone (bit 56, since 4.2).
    pub fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 != 0
    }

    /// A page of a file or of shared memory (bit 61).
    pub fn is_file_or_shmem(self) -> bool {
        self.0 >> 61 & 1 != 0
    }

    /// In swap (bit 62); migrating pages look the same.
    pub fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 != 0
    }

    /// Where it is in swap: the kernel's number of the device (bits 0 to 4), and the page of that (bits 5 to 54).
    pub fn swap_place(self) -> Option<(u64, u64)> {
        let place = (self.0 & 0x1f, self.0 >> 5 & ((1 << 50) - 1));
        (self.is_swapped() && !self.is_present()).then_some(place)
    }

    /// In memory (bit 63).
    pub fn is_present(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Number of the page frame; 0 if not present, and always without CAP_SYS_ADMIN.
    pub fn frame(self) -> u64 {
        if self.is_present() {
            self.0 & ((1 << 55) - 1)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_the_kernel_documents_them() {
        let present = PagemapEntry(1 << 63 | 1 << 61 | 1 << 56 | 42);
        assert!(present.is_present() && present.is_exclusive() && present.is_file_or_shmem());
        assert_eq!(present.frame(), 42);
        let swapped = PagemapEntry(1 << 62 | 7 << 5 | 2);
        assert!(swapped.is_swapped() && !swapped.is_present());
        assert_eq!((swapped.frame(), swapped.swap_place()), (0, Some((2, 7))));
        assert_eq!(present.swap_place(), None);
    }
}
