//! What a group's memory is: by kind, how much there is, lies idle, and is away, and why the rest of what is idle stays.
//!
//! ```text
//!   Charge       what the kernel charges to the group        -> resident: the kinds add up to it
//!   Ages         page tables of its processes                -> used, idle and away of what is mapped
//!   CacheSeen    the census of page cache that nobody maps   -> as much of that, by class
//! ```
//!
//! **Owns** which part of a charge is which kind. **Does not own** any of the three readings, nor who takes what.
//!
//! **Limit**: the kernel says how much of a group is mapped, dirty or locked, and not of which pages two of that hold: what is dirty
//! counts as that, mapped or not. What is mapped and charged to another group is told of that group.
//!
//! **Invariants**
//! - I1: a page is of one kind; all kinds together are what is charged.
//! - I2: used and idle together are no more than what is in memory; what is in neither has no known age.

use super::Ages;
use std::borrow::Cow;
use std::time::Duration;
use strata_control::page_cache::NR_CACHE_CLASSES;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::Charge;
use strata_lru::ages::PageClass;

strata_lru::named! {
    /// A kind of memory.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum MemoryKind {
        /// Private anonymous memory in small pages.
        Anon = "anon",
        /// Private anonymous memory in huge pages.
        Huge = "huge",
        /// Anonymous and shared memory that several processes map.
        Shared = "shared",
        /// Of tmpfs, a memfd or shared memory, and not mapped by several processes.
        Tmpfs = "tmpfs",
        /// Page cache that a process has mapped.
        MappedFile = "mapped_file",
        /// Page cache that nobody has mapped, of files of which there is more.
        PageCache = "page_cache",
        /// Page cache that nobody has mapped, of small files, of those that no census looks at, and of file systems themselves.
        SmallFiles = "small_files",
        /// Page cache that is to be written to its file first.
        Dirty = "dirty",
        /// Locked in memory, whatever it is.
        Locked = "locked",
        /// The kernel's: dentries, inodes, stacks, page tables.
        Kernel = "kernel",
    }
}

/// Less than a MiB is no reason to say why it stays.
const WORTH_TELLING_BYTES: u64 = 1 << 20;

/// How much there is of a kind, bytes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KindFigures {
    /// Which.
    pub kind: MemoryKind,
    /// In memory and charged to the group.
    pub resident_bytes: u64,
    /// Part of that which was accessed within the age that counts as idle.
    pub used_bytes: u64,
    /// Part of that which was not.
    pub idle_bytes: u64,
    /// Taken, and not come back. Huge pages count as anonymous, and all of tmpfs and shared memory as tmpfs, once they are away.
    pub away_bytes: u64,
    /// Why what is not in use stays, in a few words.
    pub stays_because: Option<Cow<'static, str>>,
}

/// Kinds of which there is anything.
pub type Kinds = Vec<KindFigures>;

impl KindFigures {
    /// Why it stays, whoever takes memory; `None`: nothing in it says so.
    fn why_it_stays(&self) -> Option<&'static str> {
        let unknown_bytes = self.resident_bytes - self.used_bytes - self.idle_bytes;
        let (bytes, why) = match self.kind {
            MemoryKind::Anon | MemoryKind::Huge => return None,
            MemoryKind::MappedFile => (unknown_bytes, "whether it is used can't be seen"),
            MemoryKind::Shared => {
                let unused_bytes = self.idle_bytes + unknown_bytes;
                (unused_bytes, "several processes map it")
            }
            MemoryKind::Tmpfs | MemoryKind::PageCache | MemoryKind::SmallFiles => {
                (unknown_bytes, "when it was read is not known")
            }
            MemoryKind::Dirty => (self.resident_bytes, "is to be written first"),
            MemoryKind::Locked => (self.resident_bytes, "locked"),
            MemoryKind::Kernel => (self.resident_bytes, "the kernel's own"),
        };
        (bytes >= WORTH_TELLING_BYTES).then_some(why)
    }

    /// What keeps a group from giving more keeps this, too, if it lies idle and nothing else does.
    pub fn stays_with_group(&mut self, why: Option<&'static str>) {
        if self.stays_because.is_none() && self.idle_bytes >= WORTH_TELLING_BYTES {
            self.stays_because = why.map(Cow::Borrowed);
        }
    }

    /// Tells why huge pages stay of which more is in use than idle.
    pub fn stays_whole(&mut self, why: Option<&'static str>) {
        let is_used = self.used_bytes >= WORTH_TELLING_BYTES.max(self.idle_bytes);
        if self.kind == MemoryKind::Huge && is_used {
            self.stays_because = why.map(Cow::Borrowed);
        }
    }

    fn add(&mut self, other: &KindFigures) {
        self.resident_bytes += other.resident_bytes;
        self.used_bytes += other.used_bytes;
        self.idle_bytes += other.idle_bytes;
        self.away_bytes += other.away_bytes;
        match (&self.stays_because, &other.stays_because) {
            (Some(one), Some(other)) if one != other => {
                self.stays_because = Some("several reasons".into());
            }
            (None, other) => self.stays_because = other.clone(),
            _ => {}
        }
    }
}

/// Of several groups together.
pub fn sum_of<'a>(all: impl IntoIterator<Item = &'a Kinds>) -> Kinds {
    let mut sum = Kinds::new();
    for figures in all.into_iter().flatten() {
        match sum.iter_mut().find(|of| of.kind == figures.kind) {
            Some(of) => of.add(figures),
            None => sum.push(figures.clone()),
        }
    }
    sum.sort_by_key(|of| of.kind);
    sum
}

/// Page cache of one class that nobody has mapped, as a census saw it, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSeen {
    /// In memory, of the files that it looked at.
    pub cached_bytes: u64,
    /// Part of that which was read within the age that counts as idle.
    pub used_bytes: u64,
    /// Part of that which was not, and can be dropped.
    pub idle_bytes: u64,
    /// Dropped, and not come back.
    pub away_bytes: u64,
    /// In memory, of files that can't be reached.
    pub unreachable_bytes: u64,
}

impl CacheSeen {
    /// This much of a kind was seen, beside what page tables tell of it.
    fn add_to(&self, of: &mut KindFigures) {
        let unknown_bytes = of.resident_bytes - of.used_bytes - of.idle_bytes;
        let idle_bytes = self.idle_bytes.min(unknown_bytes);
        of.idle_bytes += idle_bytes;
        of.used_bytes += self.used_bytes.min(unknown_bytes - idle_bytes);
        of.away_bytes += self.away_bytes;
        let unused_bytes = of.resident_bytes - of.used_bytes;
        if self.unreachable_bytes >= WORTH_TELLING_BYTES.max(unused_bytes / 2) {
            of.stays_because = Some("its file system can't be reached".into());
        }
    }
}

/// What is charged to a group, by kind; anonymous memory and files are idle at these ages. Without a census all page cache that
/// nobody has mapped counts as such, small files, too.
pub fn kinds_of(
    charge: &Charge,
    ages: &Ages,
    idle_at: [Duration; 2],
    cache: Option<[CacheSeen; NR_CACHE_CLASSES]>,
) -> Kinds {
    use MemoryKind as Kind;
    use PageClass::{Anon, Common, CommonShmem, File, Huge, Locked, Shmem};
    let age = |class| idle_at[usize::from(class == File)];
    let (there, taken) = (ages.of.by_class(), ages.of.taken_by_class());
    let there = |class| there.of(class) * PAGE_BYTES;
    let taken = |class| taken.of(class) * PAGE_BYTES;
    let figures = |kind, resident_bytes: u64, classes: &[PageClass], away_bytes| {
        let idle = |class: &PageClass| ages.of.idle_by_class(age(*class)).of(*class);
        let used = |class: &PageClass| ages.of.accessed_by_class(age(*class)).of(*class);
        let idle_bytes = classes.iter().map(idle).sum::<u64>() * PAGE_BYTES;
        let used_bytes = classes.iter().map(used).sum::<u64>() * PAGE_BYTES;
        let idle_bytes = idle_bytes.min(resident_bytes);
        KindFigures {
            kind,
            resident_bytes,
            used_bytes: used_bytes.min(resident_bytes - idle_bytes),
            idle_bytes,
            away_bytes,
            stays_because: None,
        }
    };

    // Of what is swap-backed.
    let anon_bytes = charge.lru_anon_bytes;
    let shmem_bytes = charge.shmem_bytes.min(anon_bytes);
    let private_bytes = anon_bytes - shmem_bytes;
    let common_bytes = there(Common).min(private_bytes);
    let common_shmem_bytes = there(CommonShmem).min(shmem_bytes);
    let shared_bytes = common_bytes + common_shmem_bytes;
    let tmpfs_bytes = shmem_bytes - common_shmem_bytes;
    // The kernel counts huge pages whoever maps them: those of several are told as shared.
    let huge_bytes = charge.anon_thp_bytes.min(private_bytes - common_bytes);
    let small_bytes = private_bytes - common_bytes - huge_bytes;

    // Of files.
    let file_bytes = charge.lru_file_bytes;
    let dirty_bytes = charge.file_dirty_bytes.min(file_bytes);
    let shmem_mapped_bytes = there(Shmem) + there(CommonShmem);
    let mapped_bytes = charge.file_mapped_bytes.saturating_sub(shmem_mapped_bytes);
    let mapped_bytes = mapped_bytes.min(file_bytes - dirty_bytes);
    let unmapped_bytes = file_bytes - dirty_bytes - mapped_bytes;
    let [large, small, memory_only] = cache.unwrap_or_else(|| {
        let all = CacheSeen {
            cached_bytes: unmapped_bytes,
            ..CacheSeen::default()
        };
        [all, CacheSeen::default(), CacheSeen::default()]
    });
    let cached_bytes = large.cached_bytes.min(unmapped_bytes);
    let uncached_bytes = unmapped_bytes - cached_bytes;

    let mut tmpfs = figures(Kind::Tmpfs, tmpfs_bytes, &[Shmem], taken(Shmem));
    memory_only.add_to(&mut tmpfs);
    let mut page_cache = figures(Kind::PageCache, cached_bytes, &[], 0);
    large.add_to(&mut page_cache);
    let mut small_files = figures(Kind::SmallFiles, uncached_bytes, &[], 0);
    small.add_to(&mut small_files);
    let mut all = vec![
        figures(Kind::Anon, small_bytes, &[Anon], taken(Anon)),
        figures(Kind::Huge, huge_bytes, &[Huge], 0),
        figures(Kind::Shared, shared_bytes, &[Common, CommonShmem], 0),
        tmpfs,
        figures(Kind::MappedFile, mapped_bytes, &[File], taken(File)),
        page_cache,
        small_files,
        figures(Kind::Dirty, dirty_bytes, &[], 0),
        figures(Kind::Locked, charge.unevictable_bytes, &[Locked], 0),
        figures(Kind::Kernel, charge.kernel_bytes, &[], 0),
    ];
    all.retain(|of| of.resident_bytes + of.away_bytes > 0);
    for of in &mut all {
        let why = of.stays_because.take();
        of.stays_because = why.or_else(|| of.why_it_stays().map(Cow::Borrowed));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mib_of(kinds: &Kinds) -> Vec<(&'static str, u64)> {
        let of = |of: &KindFigures| (of.kind.name(), of.resident_bytes / MIB);
        kinds.iter().map(of).collect()
    }

    fn charge() -> Charge {
        Charge {
            lru_anon_bytes: 100 * MIB,
            anon_thp_bytes: 30 * MIB,
            shmem_bytes: 20 * MIB,
            lru_file_bytes: 80 * MIB,
            file_mapped_bytes: 10 * MIB,
            file_dirty_bytes: 5 * MIB,
            unevictable_bytes: 7 * MIB,
            kernel_bytes: 3 * MIB,
        }
    }

    #[test]
    fn kinds_add_up_to_what_is_charged_and_what_never_goes_says_why() {
        let seen = |cached_mib, used_mib, idle_mib, away_mib| CacheSeen {
            cached_bytes: cached_mib * MIB,
            used_bytes: used_mib * MIB,
            idle_bytes: idle_mib * MIB,
            away_bytes: away_mib * MIB,
            unreachable_bytes: 0,
        };
        let cache = [seen(40, 4, 36, 9), seen(20, 4, 16, 2), seen(12, 5, 7, 3)];
        let idle_at = [Duration::ZERO; 2];
        let kinds = kinds_of(&charge(), &Ages::default(), idle_at, Some(cache));
        let expected = [
            ("anon", 50),
            ("huge", 30),
            ("tmpfs", 20),
            ("mapped_file", 10),
            ("page_cache", 40),
            ("small_files", 25),
            ("dirty", 5),
            ("locked", 7),
            ("kernel", 3),
        ];
        assert_eq!(mib_of(&kinds), expected);
        let why = |kinds: &Kinds| -> Vec<String> {
            let why = kinds.iter().map(|of| of.stays_because.as_deref());
            why.map(|why| why.unwrap_or("-").to_owned()).collect()
        };
        let stays = [
            "-",
            "-",
            "when it was read is not known",
            "whether it is used can't be seen",
            "-",
            "when it was read is not known",
            "is to be written first",
            "locked",
            "the kernel's own",
        ];
        assert_eq!(why(&kinds), stays);
        let known_mib = |number: usize| {
            let of: &KindFigures = &kinds[number];
            [of.used_bytes, of.idle_bytes, of.away_bytes].map(|bytes| bytes / MIB)
        };
        assert_eq!(
            [2, 4, 5].map(known_mib),
            [[5, 7, 3], [4, 36, 9], [4, 16, 2]]
        );
        let mut kept = kinds.clone();
        kept.iter_mut()
            .for_each(|of| of.stays_with_group(Some("promise")));
        assert_eq!(why(&kept)[4], "promise", "it lies idle");
        assert_eq!(why(&kept)[0], "-", "nothing of it does");
        for of in &mut kept {
            of.used_bytes = of.resident_bytes - of.idle_bytes;
            of.stays_whole(Some("not split yet"));
        }
        assert_eq!(why(&kept)[..2], ["-", "not split yet"]);
        for (unreachable_mib, told) in [
            (17, "when it was read is not known"),
            (18, "its file system can't be reached"),
        ] {
            let mut cache = cache;
            cache[0].idle_bytes = 16 * MIB;
            cache[0].unreachable_bytes = unreachable_mib * MIB;
            let kinds = kinds_of(&charge(), &Ages::default(), idle_at, Some(cache));
            assert_eq!(why(&kinds)[4], told, "of 36 MiB that are not in use");
        }
        let without = kinds_of(&charge(), &Ages::default(), idle_at, None);
        assert_eq!(mib_of(&without)[4], ("page_cache", 65), "no census");
        let sum = sum_of([&kinds, &kept]);
        assert_eq!(sum[5].resident_bytes, 50 * MIB);
        assert_eq!(
            why(&sum)[4..6],
            ["promise", "when it was read is not known"]
        );
    }

    #[test]
    fn readings_of_different_moments_make_no_kind_negative_and_no_sum_too_large() {
        let charge = Charge {
            anon_thp_bytes: 500 * MIB,
            shmem_bytes: 90 * MIB,
            file_mapped_bytes: 300 * MIB,
            file_dirty_bytes: 75 * MIB,
            ..charge()
        };
        let cache = CacheSeen {
            cached_bytes: 400 * MIB,
            used_bytes: 300 * MIB,
            idle_bytes: 300 * MIB,
            away_bytes: 0,
            unreachable_bytes: 0,
        };
        let cache = [cache; NR_CACHE_CLASSES];
        let idle_at = [Duration::ZERO; 2];
        let kinds = kinds_of(&charge, &Ages::default(), idle_at, Some(cache));
        let sum: u64 = kinds.iter().map(|of| of.resident_bytes).sum();
        assert_eq!(sum, 190 * MIB);
        let is_within = |of: &KindFigures| of.used_bytes + of.idle_bytes <= of.resident_bytes;
        assert!(kinds.iter().all(is_within), "{kinds:?}");
    }
}
