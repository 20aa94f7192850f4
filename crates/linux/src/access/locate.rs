//! Finding where the kernel maps physical memory, and proving it.
//!
//! With KASLR the direct map starts at a secret multiple of 1 GiB. The top-level table of a task
//! lies in it, so its virtual address narrows the start down to one candidate for each GiB of
//! memory. A candidate counts only if a walk of our own page tables from there reads a random
//! nonce back out of a page of ours: a wrong guess is an error, never garbage.
//!
//! **Owns** the search. **Does not own** the walk itself (`bpf/walk.bpf.c`).

use std::fs;
use std::io::{self, Read};

use crate::access::AccessError;
use crate::nodes::ranges;
use crate::rights;
use crate::sys::bpf::{IterProgram, Target};
use crate::sys::bpf_shared::{STATUS_UNSEEN, SharedMemory, WalkHeader};

/// Name of the source in reports.
pub(super) const NAME: &str = "bpf";
/// Alignment of the direct map (`PUD_SIZE`), and the distance between candidates.
const GIB: u64 = 1 << 30;
/// Address bits of a page-table entry.
const ENTRY_ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Rounds over all candidates: the page of the nonce may be moved or taken in the middle of one.
const ROUNDS_MAX: usize = 3;
/// Words in a page, and in a nonce.
const PAGE_WORDS: usize = 512;
const NONCE_WORDS: usize = 8;

/// Where physical memory is, and how entries point into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Virtual address of physical address 0.
    pub(super) direct_base: u64,
    /// First physical address beyond memory.
    pub(super) ram_end: u64,
    /// Address bits that mean "encrypted" (AMD SME and SEV) and not a place.
    pub(super) encrypt_bits: u64,
    /// Levels of page tables in use: 4 or 5.
    pub(super) levels: u64,
    /// Where the kernel's struct of physical page 0 lies; 0 where that was not found.
    pub(super) pages_base: u64,
}

impl Geometry {
    /// A header that walks nothing yet.
    pub(super) fn header(&self) -> WalkHeader {
        WalkHeader {
            direct_base: self.direct_base,
            ram_end: self.ram_end,
            encrypt_bits: self.encrypt_bits,
            levels: self.levels,
            pages_base: self.pages_base,
            ..WalkHeader::default()
        }
    }
}

/// Searches, with our own address space as the object to walk.
pub(super) fn locate(
    program: &IterProgram,
    memory: &mut SharedMemory,
) -> Result<Geometry, AccessError> {
    let fail = |why: String, remedy: &str| AccessError::Unavailable {
        source_name: NAME,
        why,
        remedy: remedy.to_owned(),
    };
    let io_fail = |what: &str, error: io::Error| {
        let advice = rights::advice("the right to attach BPF programs");
        let remedy = format!("{advice}, or use the smaps source");
        fail(format!("{what}: {error}"), &remedy)
    };
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    let attached = program
        .attach(Target::Thread(me))
        .map_err(|e| io_fail("the walk can't be attached to a task", e))?;
    let mut run = |header: WalkHeader| -> Result<WalkHeader, AccessError> {
        memory.set_header(header);
        attached
            .run()
            .map_err(|e| io_fail("the walk can't be run", e))?;
        Ok(memory.header())
    };

    let first = run(WalkHeader::default())?;
    if first.status == STATUS_UNSEEN {
        let remedy = "run Strata in the pid namespace it was started in";
        return Err(fail("the walk does not find our own task".into(), remedy));
    }
    let ram_end = ram_end_bytes().map_err(|e| io_fail("the size of memory can't be read", e))?;
    let beyond_ram = ENTRY_ADDRESS & !(ram_end.next_power_of_two() - 1);
    let levels = levels_of(first.pgd);
    let mut page = NoncePage::new().map_err(|e| io_fail("no random bytes", e))?;
    for _ in 0..ROUNDS_MAX {
        for direct_base in candidates(first.pgd, ram_end) {
            let found = run(WalkHeader {
                direct_base,
                ram_end,
                encrypt_bits: beyond_ram,
                levels,
                peek_addr: page.touch(),
                ..WalkHeader::default()
            })?;
            if found.peek == page.nonce {
                let geometry = Geometry {
                    direct_base,
                    ram_end,
                    encrypt_bits: found.peek_entry & beyond_ram,
                    levels,
                    pages_base: 0,
                };
                let pages_base = find_pages_base(&geometry, &mut run, &mut page)?;
                return Ok(Geometry {
                    pages_base,
                    ..geometry
                });
            }
        }
    }
    Err(fail(
        format!("the kernel's direct map was not found ({levels} levels)"),
        "use the smaps source, and report the kernel's version",
    ))
}

/// Where the kernel keeps its structs of pages, 0 if that can't be told. Proof is that the one of a page
/// of ours names the place that the page has in our address space.
fn find_pages_base(
    geometry: &Geometry,
    run: &mut impl FnMut(WalkHeader) -> Result<WalkHeader, AccessError>,
    page: &mut NoncePage,
) -> Result<u64, AccessError> {
    let mut pages_base = 0;
    for _ in 0..ROUNDS_MAX {
        let address = page.touch();
        let found = run(WalkHeader {
            pages_base,
            peek_addr: address,
            ..geometry.header()
        })?;
        if pages_base != 0 && found.peek_index == address / crate::addr::PAGE_BYTES {
            return Ok(pages_base);
        }
        pages_base = found.peek_base;
    }
    tracing::debug!("the kernel's structs of pages were not found");
    Ok(0)
}

/// First physical address beyond memory, from the zones of every node; needs no privilege.
pub(super) fn ram_end_bytes() -> io::Result<u64> {
    let end = ranges::read()?.last().map_or(0, |range| range.end);
    Ok(end * ranges::BLOCK_PAGES * crate::addr::PAGE_BYTES)
}

/// The kernel half of 5-level addresses starts lower: there bits 48 to 55 are used.
fn levels_of(pgd: u64) -> u64 {
    if pgd >> 48 == 0xffff { 4 } else { 5 }
}

/// Every start of the direct map that puts `pgd` inside memory, nearest first.
fn candidates(pgd: u64, ram_end: u64) -> impl Iterator<Item = u64> {
    let nearest = pgd & !(GIB - 1);
    (0..=ram_end.div_ceil(GIB)).map_while(move |gib| nearest.checked_sub(gib * GIB))
}

/// A page of our own with a random beginning.
struct NoncePage {
    /// Two pages, so that one whole page lies inside wherever it starts.
    words: Vec<u64>,
    nonce: [u64; NONCE_WORDS],
}

impl NoncePage {
    fn new() -> io::Result<NoncePage> {
        let mut bytes = [0; NONCE_WORDS * 8];
        fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut nonce = [0; NONCE_WORDS];
        for (word, chunk) in nonce.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        Ok(NoncePage {
            words: vec![0; PAGE_WORDS * 2],
            nonce,
        })
    }

    /// Writes the nonce (so that the page is there) and returns its address.
    fn touch(&mut self) -> u64 {
        let address = self.words.as_ptr() as u64;
        let into_page = address % crate::addr::PAGE_BYTES;
        let skip_bytes = (crate::addr::PAGE_BYTES - into_page) % crate::addr::PAGE_BYTES;
        let first = (skip_bytes / 8) as usize;
        for (word, value) in self.words[first..].iter_mut().zip(self.nonce) {
            *word = std::hint::black_box(value);
        }
        address + skip_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_cover_the_whole_of_memory_and_stop() {
        let base = 0xffff_9a40_0000_0000_u64;
        let ram_end = 24 * GIB;
        for pgd in [base, base + 5 * GIB + 0x1000, base + ram_end - 4096] {
            assert!(candidates(pgd, ram_end).any(|candidate| candidate == base));
        }
        assert_eq!(candidates(base, ram_end).count(), 25);
    }

    #[test]
    fn levels_follow_from_where_kernel_addresses_start() {
        assert_eq!(levels_of(0xffff_8880_0123_4000), 4);
        assert_eq!(levels_of(0xff11_0000_0123_4000), 5);
    }
}
