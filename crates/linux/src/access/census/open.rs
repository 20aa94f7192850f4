//! Opening a census: the kernel's structs of pages, the program that reads them, and where MGLRU keeps a page's generation and
//! its count of accesses in the flags word.
//!
//! The kernel's type information names single flags, but not these two. They are found on pages of our own: what five
//! touches change beyond the single flags is the count, and the generation lies right above it.
//!
//! **Owns** finding and proving all that. **Does not own** touching (`sys::touch`), nor what is read (`take`).
//!
//! **Invariants**
//! - I1: a place is used only if every page looked at had a generation there that MGLRU has.

use rustix::process::getpid;

use super::super::{AccessError, BpfSource};
use crate::nodes::ranges;
use crate::process::{Process, is_multi_gen_on};
use crate::rights;
use crate::sys::bpf_census::{CensusCall, CensusProgram};
use crate::sys::fresh_pages::FreshPages;
use crate::sys::touch;
use crate::units::Bytes;

/// Name in errors.
const NAME: &str = "the census of memory";
/// Bytes that are remembered of a block.
const BLOCK_MEMORY_BYTES: u64 = 4 * ranges::BLOCK_PAGES;
/// Bytes of the kernel's struct of a page that the program can read.
const STRUCT_BYTES: u64 = 64;
/// Touches that fill the count of accesses of a page (MGLRU).
const NR_FILLING: usize = 5;
/// Pages of the trial: the kernel puts pages on its lists in batches of up to 31 a processor.
const NR_PAGES: usize = 256;
/// Pages whose flags are looked at: those that have come to a list by the time the last was written.
const NR_LOOKED_PAGES: usize = 64;
/// Bits of the count.
const COUNT_BITS: u32 = 2;
/// Largest value of the generation's bits: 0 is none, then come four.
const GENERATION_MAX: u64 = 4;
const GENERATION_MASK: u64 = 7;

/// What is known of the flags word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Whether MGLRU is on.
    pub(super) has_generations: bool,
    /// The bits of the count; 0: not known.
    pub(super) refs_flags: u64,
    /// The lowest bit of the generation; 0: not known.
    pub(super) gen_shift: u64,
}

impl Places {
    /// Finds them where MGLRU is on. The lowest `nr_flags` bits are single flags.
    pub(super) fn find(source: &mut BpfSource, nr_flags: u64) -> Places {
        let unknown = Places {
            has_generations: is_multi_gen_on(),
            ..Places::default()
        };
        if !unknown.has_generations {
            return unknown;
        }
        let found = observe(source).and_then(|pairs| deduce(&pairs, nr_flags));
        if found.is_none() {
            tracing::debug!("generations can't be told from the kernel's structs of pages");
        }
        found.unwrap_or(unknown)
    }

    /// Into how many steps the kernel divides its count of reads.
    pub(super) fn rank_max(&self) -> u64 {
        match (self.has_generations, self.refs_flags) {
            (false, _) => 3,
            // Without the count's place only the first read shows.
            (true, 0) => 1,
            (true, _) => 5,
        }
    }
}

/// Who takes censuses.
#[derive(Debug)]
pub struct Census {
    pub(super) program: CensusProgram,
    pub(super) pages_base: u64,
    pub(super) places: Places,
}

impl Census {
    /// Finds the kernel's structs of pages, proves that they are what they seem, and loads the program.
    ///
    /// # Errors
    /// [`AccessError::Unavailable`]: without root, or on a kernel whose structs are not known.
    pub fn open() -> Result<Census, AccessError> {
        Census::open_with(0, false)
    }

    /// Opens as [`Census::open`] does, with room to remember the pages of so many blocks, and with a program that can tell of
    /// page cache as it comes to memory.
    pub(super) fn open_with(nr_blocks: u32, watches_arrivals: bool) -> Result<Census, AccessError> {
        let mut source = BpfSource::open().map_err(|error| match error {
            AccessError::Unavailable { why, remedy, .. } => AccessError::Unavailable {
                source_name: NAME,
                why,
                remedy: remedy.replace(", or use the smaps source", ""),
            },
            other => other,
        })?;
        let Some(pages_base) = source.pages_base() else {
            return Err(unavailable(
                "the kernel's structs of pages were not found".to_owned(),
            ));
        };
        let program = CensusProgram::load(nr_blocks, watches_arrivals).map_err(|error| {
            let memory = Bytes(u64::from(nr_blocks) * BLOCK_MEMORY_BYTES);
            unavailable(format!(
                "its program, with {memory} of memory, does not load: {error}"
            ))
        })?;
        let mut call = CensusCall::default();
        program
            .look(&mut call)
            .map_err(|error| unavailable(format!("its program does not run: {error}")))?;
        if call.page_bytes != STRUCT_BYTES {
            return Err(unavailable(format!(
                "this kernel's struct of a page has {} bytes, not {STRUCT_BYTES}",
                call.page_bytes
            )));
        }
        let places = Places::find(&mut source, call.nr_flags);
        Ok(Census {
            program,
            pages_base,
            places,
        })
    }
}

pub(super) fn unavailable(why: String) -> AccessError {
    AccessError::Unavailable {
        source_name: NAME,
        why,
        remedy: format!(
            "boot Linux 6.1 or newer with CONFIG_DEBUG_INFO_BTF; {}",
            rights::advice("CAP_BPF or CAP_PERFMON")
        ),
    }
}

/// The flags of pages of our own before and after five touches.
fn observe(source: &mut BpfSource) -> Option<Vec<(u64, u64)>> {
    let process = Process::open(getpid().as_raw_nonzero().get()).ok()?;
    // Memory that was used before may have a count already.
    let memory = FreshPages::new(NR_PAGES).ok()?;
    let pages = memory.addresses(NR_LOOKED_PAGES);
    let mut flags_of_all = || -> Option<Vec<u64>> {
        let flags = pages
            .iter()
            .map(|page| source.page_flags(&process, *page).ok()?);
        flags.collect()
    };
    let before = flags_of_all()?;
    let nr_touched = touch::touch(process.pid(), &pages, NR_FILLING).ok()?;
    let after = flags_of_all()?;
    drop(memory);
    (nr_touched == pages.len()).then(|| before.into_iter().zip(after).collect())
}

fn deduce(pairs: &[(u64, u64)], nr_flags: u64) -> Option<Places> {
    let above = u64::MAX.checked_shl(u32::try_from(nr_flags).ok()?)?;
    // Some pages may not be on a list yet, for which nothing is counted.
    let set = |(before, after): &(u64, u64)| after & !before & above;
    let refs_flags = pairs.iter().map(set).fold(0, |all, bits| all | bits);
    let shift = refs_flags.trailing_zeros();
    if refs_flags == 0 || refs_flags >> shift != (1 << COUNT_BITS) - 1 {
        return None;
    }
    let gen_shift = shift + COUNT_BITS;
    let generation = |flags: u64| flags >> gen_shift & GENERATION_MASK;
    let mut listed = pairs.iter().filter(|pair| set(pair) == refs_flags);
    let are_known = listed.clone().count() >= pairs.len() / 2
        && listed.all(|(_, after)| (1..=GENERATION_MAX).contains(&generation(*after)));
    are_known.then_some(Places {
        has_generations: true,
        refs_flags,
        gen_shift: u64::from(gen_shift),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of generation 3 on a kernel with 24 flags, whose count lies at bit 25.
    const IDLE: u64 = 3 << 27 | 1 << 5;
    const TOUCHED: u64 = IDLE | 3 << 25 | 1 << 2 | 1 << 9;

    #[test]
    fn the_count_is_what_touches_change_and_the_generation_lies_above_it() {
        let mut pairs = vec![(IDLE, TOUCHED); 60];
        pairs.extend([(1, 1); 4]);
        let found = deduce(&pairs, 24).expect("found");
        assert_eq!((found.refs_flags, found.gen_shift), (3 << 25, 27));
    }

    #[test]
    fn nothing_is_known_where_touches_change_nothing_or_something_else() {
        assert_eq!(deduce(&[(IDLE, IDLE); 64], 24), None);
        assert_eq!(deduce(&[(IDLE, IDLE | 1 << 25); 64], 24), None);
        assert_eq!(deduce(&[(1 << 5, 1 << 5 | 7 << 25); 64], 24), None);
        let impossible = 7 << 27;
        assert_eq!(deduce(&[(impossible, impossible | 3 << 25); 64], 24), None);
    }

    #[test]
    fn nothing_is_known_where_the_kernel_tells_no_number_of_flags_or_one_that_cant_be() {
        // Single flags would be taken for the count.
        let pairs = [(IDLE, TOUCHED); 64];
        for nr_flags in [0, 2, 26, 64, u64::MAX] {
            assert_eq!(deduce(&pairs, nr_flags), None, "{nr_flags} flags");
        }
        assert_eq!(deduce(&[], 24), None);
    }
}
