//! The kernel's flags of one mapping, as far as reclaim has to know them.
//!
//! **Owns** the bit values (`VM_*`, stable on x86-64 since long before 6.1) and the two-letter names
//! of `/proc/PID/smaps`. **Does not own** what follows from a flag (`classify`).

/// `vm_flags` of a mapping, the bits as the kernel has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VmFlags(pub u64);

impl VmFlags {
    /// Missing pages are supplied by a program (`userfaultfd`).
    pub const UFFD_MISSING: VmFlags = VmFlags(0x200);
    /// Page frames without `struct page` rules (device memory).
    pub const PFNMAP: VmFlags = VmFlags(0x400);
    /// `mlock`ed.
    pub const LOCKED: VmFlags = VmFlags(0x2000);
    /// Memory-mapped I/O.
    pub const IO: VmFlags = VmFlags(0x4000);
    /// `MADV_SEQUENTIAL`.
    pub const SEQ_READ: VmFlags = VmFlags(0x8000);
    /// `MADV_RANDOM`.
    pub const RAND_READ: VmFlags = VmFlags(0x1_0000);
    /// hugetlbfs pages.
    pub const HUGETLB: VmFlags = VmFlags(0x40_0000);
    /// Page frames and ordinary pages mixed.
    pub const MIXEDMAP: VmFlags = VmFlags(0x1000_0000);
    /// A memory policy, of the mapping or of the process, says on which nodes its pages lie. The kernel has no such flag: the list of
    /// mappings by BPF sets it.
    pub const BOUND: VmFlags = VmFlags(1 << 63);

    /// The names `smaps` prints after `VmFlags:`; names that mean nothing to reclaim are left out.
    const SMAPS_NAMES: [(&'static str, VmFlags); 8] = [
        ("um", VmFlags::UFFD_MISSING),
        ("pf", VmFlags::PFNMAP),
        ("lo", VmFlags::LOCKED),
        ("io", VmFlags::IO),
        ("sr", VmFlags::SEQ_READ),
        ("rr", VmFlags::RAND_READ),
        ("ht", VmFlags::HUGETLB),
        ("mm", VmFlags::MIXEDMAP),
    ];

    /// Whether any bit of `other` is set.
    pub fn intersects(self, other: VmFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// All flags that are in `self` or in `other`.
    pub const fn union(self, other: VmFlags) -> VmFlags {
        VmFlags(self.0 | other.0)
    }

    /// Reads what `smaps` prints after `VmFlags:`; unknown names are ignored, new kernels add some.
    pub fn from_smaps_names(names: &str) -> VmFlags {
        names
            .split_ascii_whitespace()
            .filter_map(|name| Self::SMAPS_NAMES.iter().find(|(known, _)| *known == name))
            .fold(VmFlags::default(), |all, (_, flag)| all.union(*flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_names_become_the_kernels_bits() {
        let flags = VmFlags::from_smaps_names("rd wr mr mw me lo um sr zz ");
        assert_eq!(flags, VmFlags(0x2000 | 0x200 | 0x8000));
        assert!(flags.intersects(VmFlags::LOCKED.union(VmFlags::IO)));
        assert!(!flags.intersects(VmFlags::HUGETLB));
    }
}
