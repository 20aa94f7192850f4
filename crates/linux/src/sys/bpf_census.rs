//! The census program and its maps: `bpf/census.h`, mirrored by hand.
//!
//! **Owns** the layout, the calls of the two programs, and reading the maps out. **Does not own** which pages are
//! looked at nor what the sums mean (`access::census`).

use std::array;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, libbpf_sys};

use super::bpf::{Parts, VMA_OBJECT, WALK_OBJECT, load_called, to_io};
use super::bpf_arrivals::{ArrivalLog, RING_BYTES};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/census.bpf.o"));

/// The BPF objects that Strata carries, and how large they are, bytes.
pub fn carried() -> [(&'static str, usize); 3] {
    [
        ("walk", WALK_OBJECT.len()),
        ("vma", VMA_OBJECT.len()),
        ("census", OBJECT.len()),
    ]
}

/// The program that the kernel calls when page cache comes to memory.
const WATCHER: &str = "note_arrival";
/// Kinds of folios, `enum census_kind`.
pub(crate) const NR_KINDS: usize = 4;
/// Generations, the first for none.
pub(crate) const NR_GENERATIONS: usize = 5;
/// Ages for which it is told what was read since.
pub(crate) const NR_AGES: usize = 4;
/// A page that was read longer ago counts as read so many censuses ago.
pub(crate) const NUMBERS_MAX: u64 = 0xf00;
/// Parts of a path, and bytes of each, in the map of names.
const NAMES_MAX: usize = 32;
const NAME_BYTES: usize = 256;
/// Entries taken out of a map by one call of the kernel.
const BATCH: u32 = 1024;
/// Words of a key and of the structs of these names.
const KEY_WORDS: usize = 2;
const RECORD_BYTES: usize = 9 * 8;
/// `PLACED_ACTIVE`, `PLACED_WORKINGSET`, `PLACED_GENERATION_SHIFT`.
const PLACED_ACTIVE: u64 = 1 << 48;
const PLACED_WORKINGSET: u64 = 1 << 49;
const PLACED_GENERATION_SHIFT: u32 = 50;
const GROUP_WORDS: usize = 1 + SUMS_WORDS;
const FILE_WORDS: usize = 7 + SUMS_WORDS;
const SUMS_WORDS: usize = PROBED_WORD + 2 + 2 * NR_AGES;
/// Where the words by age begin in sums.
const READ_WORD: usize = 6 + NR_GENERATIONS;
/// Where the words of what was probed begin in sums.
const PROBED_WORD: usize = READ_WORD + 2 * NR_AGES;

/// `struct census_call`; see there.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CensusCall {
    pub(crate) pages_base: u64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) node: u64,
    pub(crate) budget_ns: u64,
    pub(crate) wants_files: u64,
    pub(crate) wants_flush: u64,
    pub(crate) has_generations: u64,
    pub(crate) refs_flags: u64,
    pub(crate) gen_shift: u64,
    pub(crate) number: u64,
    pub(crate) first: u64,
    pub(crate) place: u64,
    pub(crate) rank_max: u64,
    pub(crate) ages: [u64; NR_AGES],
    pub(crate) records_age: u64,
    pub(crate) is_of_groups: u64,
    pub(crate) probe_limit: u64,
    pub(crate) probe_seed: u64,
    pub(crate) probe_pages_max: u64,
    pub(crate) probe_of_groups: u64,
    pub(crate) wants_full: u64,
    pub(crate) is_confirming: u64,
    pub(crate) mapping: u64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) generation: u64,
    pub(crate) wants_mapped: u64,
    pub(crate) nr_records: u64,
    pub(crate) nr_looked: u64,
    pub(crate) nr_holes: u64,
    pub(crate) nr_reset: u64,
    pub(crate) nr_lost: u64,
    pub(crate) kinds: [u64; NR_KINDS],
    pub(crate) mapped: [u64; NR_KINDS],
    pub(crate) nr_flags: u64,
    pub(crate) page_bytes: u64,
    pub(crate) file_bytes: u64,
}

/// `struct census_name_call`; see there.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct NameCall {
    pub(crate) mapping: u64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) generation: u64,
    pub(crate) nr_names: u64,
    pub(crate) is_complete: u64,
    pub(crate) is_there: u64,
}

const _: () = assert!(size_of::<CensusCall>() == 47 * 8);
const _: () = assert!(size_of::<NameCall>() == 7 * 8);
const _: () = assert!(GROUP_WORDS == 30 && FILE_WORDS == 36);

/// `struct census_sums`, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawSums {
    pub(crate) pages: u64,
    pub(crate) mapped: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) unevictable: u64,
    pub(crate) used: u64,
    pub(crate) generations: [u64; NR_GENERATIONS],
    pub(crate) read: [u64; NR_AGES],
    pub(crate) unknown: [u64; NR_AGES],
    pub(crate) probed: u64,
    pub(crate) probed_squares: u64,
    pub(crate) probed_idle: [u64; NR_AGES],
    pub(crate) unprobed: [u64; NR_AGES],
}

/// An entry of the map of groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawGroup {
    pub(crate) id: u64,
    pub(crate) node: u32,
    pub(crate) kind: u32,
    pub(crate) sums: RawSums,
}

/// An entry of the map of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFile {
    pub(crate) mapping: u64,
    pub(crate) memcg: u64,
    pub(crate) group_id: u64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) generation: u64,
    pub(crate) nr_links: u64,
    pub(crate) is_disk: bool,
    pub(crate) is_in_memory_only: bool,
    pub(crate) sums: RawSums,
}

/// `struct census_record`: page cache of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawRecord {
    pub(crate) mapping: u64,
    pub(crate) memcg: u64,
    pub(crate) index: u64,
    pub(crate) nr_pages: u64,
    pub(crate) rank: u32,
    pub(crate) is_busy: bool,
    pub(crate) is_referenced: bool,
    pub(crate) is_mapped: bool,
    /// Where the count of reads is full, in a census of a watch.
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) generation: u64,
    /// Number of the page in physical memory.
    pub(crate) page: u64,
    pub(crate) is_active: bool,
    pub(crate) is_workingset: bool,
    /// MGLRU: the generation's number modulo 4.
    pub(crate) lru_generation: Option<u8>,
}

/// What was loaded.
#[derive(Debug)]
pub(crate) struct CensusProgram {
    look: OwnedFd,
    list: OwnedFd,
    name: OwnedFd,
    groups: MapHandle,
    files: MapHandle,
    names: MapHandle,
    records: MapHandle,
    watched: MapHandle,
    /// Where arrivals are to be watched: the program, its ring, and the map that counts what found no room there.
    arrivals: Option<(OwnedFd, MapHandle, MapHandle)>,
}

impl CensusProgram {
    /// Loads the programs, with room to remember the pages of so many blocks, and that which watches arrivals where wanted.
    pub(crate) fn load(nr_blocks: u32, watches_arrivals: bool) -> io::Result<CensusProgram> {
        let map_sizes = [("memory", nr_blocks.max(1)), ("arrivals", RING_BYTES)];
        let parts = match watches_arrivals {
            true => Parts {
                map_sizes: &map_sizes,
                left_out: &[],
            },
            false => Parts {
                map_sizes: &map_sizes[..1],
                left_out: &[WATCHER],
            },
        };
        load_called(OBJECT, parts, |object| {
            let program = |name: &str| {
                let found = object.progs().find(|program| program.name() == name);
                found
                    .ok_or_else(|| io::Error::other(format!("no program {name} in the object")))?
                    .as_fd()
                    .try_clone_to_owned()
            };
            let map = |name: &str| {
                let found = object.maps().find(|map| map.name() == name);
                let found = found
                    .ok_or_else(|| io::Error::other(format!("no map {name} in the object")))?;
                MapHandle::try_from(&found).map_err(to_io)
            };
            Ok(CensusProgram {
                look: program("take_census")?,
                list: program("list_file")?,
                name: program("name_file")?,
                groups: map("groups")?,
                files: map("files")?,
                names: map("names")?,
                records: map("records")?,
                watched: map("watched")?,
                arrivals: match watches_arrivals {
                    true => Some((program(WATCHER)?, map("arrivals")?, map("lost")?)),
                    false => None,
                },
            })
        })
    }

    /// Looks at pages, as the call says; the answer is in the call.
    pub(crate) fn look(&self, call: &mut CensusCall) -> io::Result<()> {
        run(&self.look, call)
    }

    /// Looks at the page cache of the file that the call names.
    pub(crate) fn list(&self, call: &mut CensusCall) -> io::Result<()> {
        run(&self.list, call)
    }

    /// From now on page cache of the watched groups is told as it comes to memory. To be called after a first look, which finds
    /// where the kernel keeps what. `None`: the program was not loaded for that.
    pub(crate) fn watch_arrivals(&self) -> io::Result<Option<ArrivalLog>> {
        let parts = self.arrivals.as_ref();
        parts
            .map(|(program, ring, lost)| ArrivalLog::start(program, ring, lost))
            .transpose()
    }

    /// Takes the sums by group out of the kernel.
    pub(crate) fn take_groups(&self) -> io::Result<Vec<RawGroup>> {
        let entries = take_all(&self.groups)?;
        let groups = entries.iter().filter_map(|(key, value)| {
            let key = words::<KEY_WORDS>(key)?;
            let value = words::<GROUP_WORDS>(value)?;
            Some(RawGroup {
                id: value[0],
                node: (key[1] >> 32) as u32,
                kind: key[1] as u32,
                sums: sums_of(&value[1..]),
            })
        });
        Ok(groups.collect())
    }

    /// Takes the sums by file out of the kernel.
    pub(crate) fn take_files(&self) -> io::Result<Vec<RawFile>> {
        let entries = take_all(&self.files)?;
        let files = entries.iter().filter_map(|(key, value)| {
            let key = words::<KEY_WORDS>(key)?;
            let value = words::<FILE_WORDS>(value)?;
            Some(RawFile {
                mapping: key[0],
                memcg: key[1],
                group_id: value[0],
                inode: value[1],
                device: value[2],
                generation: value[3],
                nr_links: value[4],
                is_disk: value[5] != 0,
                is_in_memory_only: value[6] != 0,
                sums: sums_of(&value[7..]),
            })
        });
        Ok(files.collect())
    }

    /// The first records that a call has left.
    pub(crate) fn records(&self, nr_records: u64) -> io::Result<Vec<RawRecord>> {
        let nr_records = nr_records as usize;
        let mut records = Vec::with_capacity(nr_records);
        let mut place = 0u32;
        while records.len() < nr_records {
            let found = self.records.lookup(&place.to_ne_bytes(), MapFlags::ANY);
            let found = found.map_err(to_io)?.unwrap_or_default();
            let (chunk, _) = found.as_chunks::<RECORD_BYTES>();
            let wanted = chunk.iter().take(nr_records - records.len());
            records.extend(wanted.map(record_of));
            if chunk.is_empty() {
                break;
            }
            place += 1;
        }
        Ok(records)
    }

    /// From now on page cache of these groups is told where that is wanted: inodes of their directories.
    pub(crate) fn watch_groups(&self, ids: &[u64]) -> io::Result<()> {
        let known: Vec<Vec<u8>> = self.watched.keys().collect();
        let is_wanted = |key: &&Vec<u8>| ids.iter().any(|id| id.to_ne_bytes() == ***key);
        for key in known.iter().filter(|key| !is_wanted(key)) {
            self.watched.delete(key).map_err(to_io)?;
        }
        for id in ids {
            let key = id.to_ne_bytes();
            self.watched
                .update(&key, &[1], MapFlags::ANY)
                .map_err(to_io)?;
        }
        Ok(())
    }

    /// The parts of a file's path in its file system, the last one first, and whether that is all of it; none where the
    /// kernel does not know it any more.
    pub(crate) fn name(&self, call: &mut NameCall) -> io::Result<Vec<Vec<u8>>> {
        run(&self.name, call)?;
        if call.nr_names == 0 {
            return Ok(Vec::new());
        }
        let found = self.names.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(to_io)?.unwrap_or_default();
        let names = found.chunks_exact(NAME_BYTES);
        let names = names.map(|name| {
            let end = name.iter().position(|byte| *byte == 0);
            name[..end.unwrap_or(name.len())].to_vec()
        });
        Ok(names
            .take((call.nr_names as usize).min(NAMES_MAX))
            .collect())
    }
}

/// Everything in a map, which is empty afterwards. (The iterator of libbpf-rs takes a batch that is not full for the last
/// one, which it is not: the kernel ends a batch where the next few entries do not fit together.)
fn take_all(map: &MapHandle) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (key_bytes, value_bytes) = (map.key_size() as usize, map.value_size() as usize);
    let mut keys = vec![0u8; BATCH as usize * key_bytes];
    let mut values = vec![0u8; BATCH as usize * value_bytes];
    let mut entries = Vec::new();
    // Where the kernel goes on; at least as large as a key.
    let mut place: Option<Vec<u8>> = None;
    loop {
        let mut next = vec![0u8; key_bytes.max(size_of::<u64>())];
        let mut count = BATCH;
        let from = place
            .as_mut()
            .map_or(std::ptr::null_mut(), |place| place.as_mut_ptr());
        #[expect(unsafe_code, reason = "system call by way of libbpf")]
        // SAFETY: `keys` and `values` have room for `count` entries of this map, `from` and `next` for a key; all live
        // until the call returns.
        let status = unsafe {
            libbpf_sys::bpf_map_lookup_and_delete_batch(
                map.as_fd().as_raw_fd(),
                from.cast(),
                next.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                std::ptr::null(),
            )
        };
        let is_last = status == -libc::ENOENT;
        match -status {
            0 | libc::ENOENT => {}
            libc::EINTR => continue,
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let keys = keys.chunks_exact(key_bytes);
        let values = values.chunks_exact(value_bytes);
        let batch = keys.zip(values).take(count as usize);
        entries.extend(batch.map(|(key, value)| (key.to_vec(), value.to_vec())));
        if is_last {
            return Ok(entries);
        }
        place = Some(next);
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = chunks
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    rest.is_empty().then(|| words.try_into().ok()).flatten()
}

fn record_of(bytes: &[u8; RECORD_BYTES]) -> RawRecord {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word));
    // Rank, a mark of 16 bits above it, and two of 8 bits.
    let last = word(4);
    RawRecord {
        mapping: word(0),
        memcg: word(1),
        index: word(2),
        nr_pages: word(3),
        rank: last as u32,
        is_busy: last >> 32 & 0xffff != 0,
        is_referenced: last >> 48 & 0xff != 0,
        is_mapped: last >> 56 != 0,
        inode: word(5),
        device: word(6),
        generation: word(7),
        page: word(8) & (PLACED_ACTIVE - 1),
        is_active: word(8) & PLACED_ACTIVE != 0,
        is_workingset: word(8) & PLACED_WORKINGSET != 0,
        lru_generation: (word(8) >> PLACED_GENERATION_SHIFT)
            .checked_sub(1)
            .map(|number| number as u8),
    }
}

fn sums_of(words: &[u64]) -> RawSums {
    let from = |first: usize| move |index: usize| words[first + index];
    RawSums {
        pages: words[0],
        mapped: words[1],
        dirty: words[2],
        writeback: words[3],
        unevictable: words[4],
        used: words[5],
        generations: array::from_fn(from(6)),
        read: array::from_fn(from(READ_WORD)),
        unknown: array::from_fn(from(READ_WORD + NR_AGES)),
        probed: words[PROBED_WORD],
        probed_squares: words[PROBED_WORD + 1],
        probed_idle: array::from_fn(from(PROBED_WORD + 2)),
        unprobed: array::from_fn(from(PROBED_WORD + 2 + NR_AGES)),
    }
}

/// Runs a program once on what it is asked, where it also leaves its answer. `T` is made of `u64` alone.
fn run<T: Copy>(program: &OwnedFd, asked: &mut T) -> io::Result<()> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        ctx_in: std::ptr::from_mut(asked).cast_const().cast(),
        ctx_size_in: size_of::<T>() as u32,
        ..Default::default()
    };
    #[expect(unsafe_code, reason = "system call by way of libbpf")]
    // SAFETY: the kernel reads and writes `ctx_size_in` bytes at `ctx_in`, which is `asked`, borrowed mutably; any bits
    // are valid in it, as it is made of numbers.
    let status =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    match status {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
