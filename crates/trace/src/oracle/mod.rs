//! The sequences that real kernels were measured on, exactly: `oracle:MODE/PATTERN`.
//!
//! A kernel in a virtual machine replayed these accesses in a memory cgroup of `M` pages, and what it
//! read back was counted. Whoever claims to behave like that kernel has to be shown the same accesses,
//! so everything here is fixed: seeds, lengths, and the order of turns.
//!
//! | pattern | page of access `i` | pages |
//! |---|---|---|
//! | uniform | any | 3/2 M |
//! | zipf | Zipf 0.99, shuffled | 3 M |
//! | hotscan | Zipf over 3/4 M, the last tenth of each 5 M accesses runs through 2 M cold pages | 11/4 M |
//! | loop | `i` modulo the range | 6/5 M |
//! | phase | Zipf over 3/2 M, from the middle on over 3/2 M others | 3 M |
//! | mixed | turns of 64: Zipf over M, then Zipf over 2 M others | 3 M |
//!
//! | mode | how |
//! |---|---|
//! | fdread | `pread` of a file |
//! | mmapread | loads from a shared read-only mapping of a file |
//! | anon | private memory: the first touch writes, later ones write one time in four |
//! | mixed | two processes in turn, for the pattern `mixed` alone: `anon` pages below M, then `fdread` |
//!
//! The kernels were recorded with some of the pairs; one process can play any pattern.
//!
//! Options after the pattern: `memory=M` (default 16384) and `accesses=N` (default 50 M).
//!
//! **Owns** the definition of these sequences. **Does not own** what kernels made of them.
//!
//! **Invariants**
//! - I1: with `M` = 16384 the page numbers have the published FNV-1a hashes (tests below).

use crate::{
    access::{Access, Backing, Op, PageKey, Via},
    generator::{
        GeneratorError, Options,
        rng::Rng,
        sequence::{HotScan, Phases, Sequence, Shuffled},
        zipf::USUAL_EXPONENT_HUNDREDTHS,
    },
};

const SEED_SEQUENCE: u64 = 0x9E37_79B9_7F4A_7C15;
const SEED_SECOND_SEQUENCE: u64 = 0xBF58_476D_1CE4_E5B9;
const SEED_SHUFFLE: u64 = 0xD1B5_4A32_D192_ED03;
const SEED_SECOND_SHUFFLE: u64 = 0x94D0_49BB_1331_11EB;
const SEED_READ_WRITE: u64 = 0x2545_F491_4F6C_DD1D;

/// Accesses before the other process has its turn.
const TURN_ACCESSES: u64 = 64;

/// Memory of the cgroup the kernels ran in, in pages.
pub const ORACLE_MEMORY_PAGES: u32 = 16384;

/// Smallest and largest memory a sequence is defined for.
const MEMORY_PAGES: std::ops::RangeInclusive<u64> = 64..=1 << 24;

strata_lru::named! {
    /// How pages are accessed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OracleMode {
        /// `pread` of a file.
        FdRead = "fdread",
        /// Loads from a mapped file.
        MmapRead = "mmapread",
        /// Private anonymous memory.
        Anon = "anon",
        /// Turns of `Anon` and `FdRead` in two processes.
        Mixed = "mixed",
    }
}

strata_lru::named! {
    /// In which order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OraclePattern {
        /// Any page.
        Uniform = "uniform",
        /// Zipf's law.
        Zipf = "zipf",
        /// A hot set and scans.
        HotScan = "hotscan",
        /// Round and round.
        Loop = "loop",
        /// Two working sets, one after the other.
        Phase = "phase",
        /// Turns of two Zipf sets; the one that [`OracleMode::Mixed`] plays.
        Mixed = "mixed",
    }
}

/// One of the sequences in progress.
#[derive(Clone, Debug)]
pub(crate) struct OracleSequence {
    mode: OracleMode,
    first: Sequence,
    /// The other half of the pattern `mixed`, and its first page.
    second: Option<(Sequence, u32)>,
    read_write: Rng,
    position: u64,
    touched: Vec<u64>,
    nr_accesses: u64,
}

impl OracleSequence {
    /// Parses `MODE/PATTERN` with its options.
    pub(crate) fn parse(name: &str, options: &mut Options<'_>) -> Result<Self, GeneratorError> {
        let unknown = || GeneratorError::UnknownOracle(name.to_owned());
        let (mode, pattern) = name.split_once('/').ok_or_else(unknown)?;
        let mode = OracleMode::ALL.iter().find(|of| of.name() == mode);
        let pattern = OraclePattern::ALL.iter().find(|of| of.name() == pattern);
        let (mode, pattern) = mode.copied().zip(pattern.copied()).ok_or_else(unknown)?;
        if mode == OracleMode::Mixed && pattern != OraclePattern::Mixed {
            return Err(unknown());
        }
        let memory_pages =
            options.number("memory", u64::from(ORACLE_MEMORY_PAGES), MEMORY_PAGES)? as u32;
        let usual = 50 * u64::from(memory_pages);
        let nr_accesses = options.number("accesses", usual, 1..=u64::MAX)?;
        Ok(Self::new(mode, pattern, memory_pages, nr_accesses))
    }

    fn new(mode: OracleMode, pattern: OraclePattern, memory_pages: u32, nr_accesses: u64) -> Self {
        OracleSequence {
            mode,
            first: first_sequence(pattern, memory_pages, nr_accesses),
            second: (pattern == OraclePattern::Mixed).then(|| {
                let pages = zipf(2 * memory_pages, SEED_SECOND_SHUFFLE, SEED_SECOND_SEQUENCE);
                // A second process has a file of its own; one process goes on behind the first half.
                let is_one_process = mode != OracleMode::Mixed;
                (pages, if is_one_process { memory_pages } else { 0 })
            }),
            read_write: Rng::from_state(SEED_READ_WRITE),
            position: 0,
            touched: vec![0; range(pattern, memory_pages).div_ceil(u64::BITS) as usize],
            nr_accesses,
        }
    }

    /// Accesses in all.
    pub(crate) fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// The next access.
    pub(crate) fn next_access(&mut self) -> Access {
        let is_second_turn = (self.position / TURN_ACCESSES) % 2 == 1;
        self.position += 1;
        let page = match &mut self.second {
            Some((second, first_page)) if is_second_turn => *first_page + second.next_page(),
            _ => self.first.next_page(),
        };
        match self.mode {
            OracleMode::Mixed if is_second_turn => file_access(1, page, Via::FileDescriptor),
            OracleMode::FdRead => file_access(0, page, Via::FileDescriptor),
            OracleMode::MmapRead => file_access(0, page, Via::PageTable),
            OracleMode::Anon | OracleMode::Mixed => self.anon_access(page),
        }
    }

    fn anon_access(&mut self, page: u32) -> Access {
        let (word, bit) = ((page / u64::BITS) as usize, 1 << (page % u64::BITS));
        // One draw an access, also where it does not matter.
        let is_write = self.read_write.next() >> 62 == 0 || self.touched[word] & bit == 0;
        self.touched[word] |= bit;
        Access {
            key: PageKey {
                space: 0,
                page: u64::from(page),
            },
            backing: Backing::Anon,
            op: if is_write { Op::Write } else { Op::Read },
            via: Via::PageTable,
            ..Access::default()
        }
    }
}

fn file_access(space: u32, page: u32, via: Via) -> Access {
    Access {
        key: PageKey {
            space,
            page: u64::from(page),
        },
        backing: Backing::File,
        via,
        ..Access::default()
    }
}

fn zipf(nr_pages: u32, shuffle: u64, seed: u64) -> Sequence {
    Sequence::Zipf(shuffled(nr_pages, shuffle, seed))
}

fn shuffled(nr_pages: u32, shuffle: u64, seed: u64) -> Shuffled {
    let mut shuffle = Rng::from_state(shuffle);
    Shuffled::new(
        nr_pages,
        USUAL_EXPONENT_HUNDREDTHS,
        &mut shuffle,
        Rng::from_state(seed),
    )
}

fn range(pattern: OraclePattern, memory_pages: u32) -> u32 {
    let m = memory_pages;
    match pattern {
        OraclePattern::Uniform => m + m / 2,
        OraclePattern::HotScan => 3 * (m / 4) + 2 * m,
        OraclePattern::Loop => m / 5 * 6,
        OraclePattern::Zipf | OraclePattern::Phase | OraclePattern::Mixed => 3 * m,
    }
}

fn first_sequence(pattern: OraclePattern, memory_pages: u32, nr_accesses: u64) -> Sequence {
    let m = memory_pages;
    match pattern {
        OraclePattern::Uniform => Sequence::Uniform {
            nr_pages: range(pattern, m),
            rng: Rng::from_state(SEED_SEQUENCE),
        },
        OraclePattern::Zipf => zipf(range(pattern, m), SEED_SHUFFLE, SEED_SEQUENCE),
        OraclePattern::HotScan => {
            let period = 5 * u64::from(m);
            let hot = shuffled(3 * (m / 4), SEED_SHUFFLE, SEED_SEQUENCE);
            Sequence::HotScan(HotScan::new(hot, 2 * m, period, period / 10))
        }
        OraclePattern::Loop => Sequence::Loop {
            nr_pages: range(pattern, m),
            next: 0,
        },
        OraclePattern::Phase => {
            let mut shuffles = [SEED_SHUFFLE, SEED_SECOND_SHUFFLE].map(Rng::from_state);
            let rng = Rng::from_state(SEED_SEQUENCE);
            Sequence::Phases(Phases::new(
                m + m / 2,
                USUAL_EXPONENT_HUNDREDTHS,
                &mut shuffles,
                rng,
                nr_accesses / 2,
            ))
        }
        OraclePattern::Mixed => zipf(m, SEED_SHUFFLE, SEED_SEQUENCE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fnv_1a(numbers: &[u32]) -> u64 {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }

    fn numbers(mode: OracleMode, pattern: OraclePattern) -> Vec<u32> {
        let mut sequence = OracleSequence::new(mode, pattern, ORACLE_MEMORY_PAGES, 819_200);
        (0..819_200)
            .map(|_| {
                // The definition numbers the file's pages of `mixed` after the anon ones.
                let PageKey { space, page } = sequence.next_access().key;
                page as u32 + space * ORACLE_MEMORY_PAGES
            })
            .collect()
    }

    #[test]
    fn the_sequences_are_those_the_kernels_replayed() {
        use OracleMode::{Anon, FdRead, Mixed, MmapRead};
        type Published = (OracleMode, OraclePattern, usize, u64, [u32; 4]);
        let published: [Published; 8] = [
            (
                FdRead,
                OraclePattern::Uniform,
                24576,
                0x114f_8bb6_7444_ac68,
                [21474, 11385, 13122, 19335],
            ),
            (
                Anon,
                OraclePattern::Zipf,
                45820,
                0x96db_f473_50b1_2b4c,
                [41598, 30554, 8971, 26678],
            ),
            (
                MmapRead,
                OraclePattern::HotScan,
                45052,
                0x7055_2229_8d0e_3832,
                [3019, 6218, 5350, 5001],
            ),
            (
                FdRead,
                OraclePattern::Loop,
                19656,
                0xfb48_81b7_0347_9e05,
                [0, 1, 2, 3],
            ),
            (
                Anon,
                OraclePattern::Phase,
                46193,
                0xbf58_504b_361d_46c4,
                [6159, 4965, 12379, 12029],
            ),
            (
                Mixed,
                OraclePattern::Mixed,
                45250,
                0x4a5e_04c5_c49f_7a8b,
                [11379, 6664, 3768, 9065],
            ),
            (
                FdRead,
                OraclePattern::Mixed,
                45250,
                0x4a5e_04c5_c49f_7a8b,
                [11379, 6664, 3768, 9065],
            ),
            (
                Anon,
                OraclePattern::Mixed,
                45250,
                0x4a5e_04c5_c49f_7a8b,
                [11379, 6664, 3768, 9065],
            ),
        ];
        for (mode, pattern, nr_distinct, hash, first) in published {
            let mut numbers = numbers(mode, pattern);
            assert_eq!(numbers[..4], first, "{}", pattern.name());
            assert_eq!(fnv_1a(&numbers), hash, "{}", pattern.name());
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), nr_distinct, "{}", pattern.name());
        }
    }

    #[test]
    fn anon_pages_are_written_first_and_one_time_in_four_later() {
        let mut sequence = OracleSequence::new(
            OracleMode::Anon,
            OraclePattern::Zipf,
            ORACLE_MEMORY_PAGES,
            819_200,
        );
        let mut is_touched = vec![false; 3 * ORACLE_MEMORY_PAGES as usize];
        let (mut nr_later, mut nr_later_writes) = (0_u32, 0_u32);
        for _ in 0..819_200 {
            let access = sequence.next_access();
            let page = access.key.page as usize;
            if std::mem::replace(&mut is_touched[page], true) {
                nr_later += 1;
                nr_later_writes += u32::from(access.op == Op::Write);
            } else {
                assert_eq!(access.op, Op::Write, "the first touch of page {page}");
            }
        }
        let share = f64::from(nr_later_writes) / f64::from(nr_later);
        assert!((0.248..0.252).contains(&share), "{share}");
    }
}
