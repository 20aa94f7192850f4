//! A file's page cache: which pages are in memory (`cachestat`, `mincore`), taking them for cold (`MADV_COLD`), sending those of files
//! that are in memory only to swap (`MADV_PAGEOUT`), and the number that tells a file from the one that had its inode before (`FS_IOC_GETVERSION`).
//!
//! **Owns** the calls. **Does not own** which file and which pages.
#![expect(unsafe_code, reason = "none of the calls has a safe wrapper")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mm::{Advice, ProtFlags, madvise};

use super::check;
use super::mapping::Mapping;
use super::move_pages::{OURSELVES, move_pages, nodes_of};
use crate::addr::{PAGE_BYTES, TABLE_BYTES};

/// `_IOR('v', 1, long)`.
const FS_IOC_GETVERSION: libc::Ioctl = 0x8008_7601;
/// Pages in one call: whole folios, if the first page is that of one.
const PAGES_MAX: u64 = 1 << 16;
/// What one table of page-table entries maps.
const HUGE_BYTES: usize = TABLE_BYTES as usize;
/// How often room for a mapping is looked for.
const NR_TRIES: u32 = 8;

/// Where the kernel has the call (6.5 and later), it saves mapping the file.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`, bytes.
#[repr(C)]
struct StatRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, pages.
#[derive(Default)]
#[repr(C)]
struct Stat {
    nr_cached: u64,
    nr_dirty: u64,
    nr_writeback: u64,
    nr_evicted: u64,
    nr_recently_evicted: u64,
}

/// How many pages of a range of the file are in memory; `None`: the kernel does not tell.
fn nr_cached(file: BorrowedFd<'_>, pages: &Range<u64>) -> Option<u64> {
    // A length of 0 means up to the end of the file.
    if pages.is_empty() {
        return Some(0);
    }
    let mut range = StatRange {
        offset: pages.start * PAGE_BYTES,
        length: (pages.end - pages.start) * PAGE_BYTES,
    };
    let mut stat = Stat::default();
    // SAFETY: the kernel reads the first struct and writes the second, both laid out as it has them; no flag is set.
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw mut range,
            &raw mut stat,
            0,
        )
    };
    (status == 0).then_some(stat.nr_cached)
}

/// How many pages of a range of the file are in memory.
pub(crate) fn nr_resident(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<u64> {
    if let Some(nr_cached) = nr_cached(file, pages) {
        return Ok(nr_cached);
    }
    let mut nr_resident = 0;
    let mut first = pages.start;
    while first < pages.end {
        let end = pages.end.min(first + PAGES_MAX);
        nr_resident += nr_resident_of(file, first, (end - first) as usize)?;
        first = end;
    }
    Ok(nr_resident)
}

fn nr_resident_of(file: BorrowedFd<'_>, first: u64, nr_pages: usize) -> io::Result<u64> {
    let are_resident = are_resident(&mapped(file, first, nr_pages)?)?;
    Ok(are_resident.into_iter().map(u64::from).sum())
}

/// Which pages of a mapping are in memory.
fn are_resident(mapped: &Mapping) -> io::Result<Vec<bool>> {
    let mut states = vec![0u8; mapped.nr_bytes() / PAGE_BYTES as usize];
    // SAFETY: `states` has a byte for each page of the range, which is mapped.
    check(unsafe { libc::mincore(mapped.base(), mapped.nr_bytes(), states.as_mut_ptr()) })?;
    Ok(states.into_iter().map(|state| state & 1 != 0).collect())
}

/// Has the kernel take pages for cold, all of which are in memory: it forgets how often they were read, unless a process has them
/// mapped. Nothing is read from the disk, and nothing counts as an access.
pub(crate) fn deactivate(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<()> {
    let mut first = pages.start;
    while first < pages.end {
        let end = pages.end.min(first + PAGES_MAX);
        let mapped = mapped(file, first, (end - first) as usize)?;
        // At random, unmapping does not count as an access. Only what is mapped is taken for cold.
        mapped.advise(Advice::Random)?;
        mapped.advise(Advice::LinuxPopulateRead)?;
        mapped.advise(Advice::LinuxCold)?;
        first = end;
    }
    Ok(())
}

/// Has the kernel send pages of a file to swap that is in memory only, unless a process has them mapped. What is in swap stays there,
/// and nothing counts as an access.
pub(crate) fn page_out(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<()> {
    let mut first = pages.start;
    while first < pages.end {
        let end = pages.end.min(first + PAGES_MAX);
        let mapped = mapped(file, first, (end - first) as usize)?;
        mapped.advise(Advice::Random)?;
        let mut at = mapped.base();
        for alike in are_resident(&mapped)?.chunk_by(|one, next| one == next) {
            let nr_bytes = alike.len() * PAGE_BYTES as usize;
            if alike[0] {
                // SAFETY: pages of the range that is mapped, and read in at most.
                unsafe { madvise(at, nr_bytes, Advice::LinuxPopulateRead) }?;
                // SAFETY: pages of the range that is mapped keep their content in swap, and nothing points into them.
                unsafe { madvise(at, nr_bytes, Advice::LinuxPageOut) }?;
            }
            at = at.wrapping_byte_add(nr_bytes);
        }
        first = end;
    }
    Ok(())
}

/// Moves pages of a file that are in memory to a memory node, by the kernel's number. Returns how many were in memory and on
/// another node, and how many of these moved. Nothing is read from the disk, and nothing counts as an access.
pub(crate) fn move_to_node(
    file: BorrowedFd<'_>,
    pages: &Range<u64>,
    node: u32,
) -> io::Result<(u64, u64)> {
    let nr_pages = (pages.end - pages.start) as usize;
    let mapped = mapped(file, pages.start, nr_pages)?;
    let are_resident = are_resident(&mapped)?;
    // At random, unmapping does not count as an access.
    mapped.advise(Advice::Random)?;
    let page = PAGE_BYTES as usize;
    let mut addresses = Vec::with_capacity(nr_pages);
    for (index, _) in are_resident.iter().enumerate().filter(|(_, is)| **is) {
        let at = mapped.base().wrapping_byte_add(index * page);
        // SAFETY: one page of the range that is mapped; a page that has left memory meanwhile is read in, which changes nothing.
        if unsafe { madvise(at, page, Advice::LinuxPopulateRead) }.is_ok() {
            addresses.push(at.addr() as u64);
        }
    }
    if addresses.is_empty() {
        return Ok((0, 0));
    }
    let is_there = |told: &i32| u32::try_from(*told) == Ok(node);
    addresses = {
        let before = nodes_of(OURSELVES, &addresses)?;
        let away = addresses.iter().zip(&before);
        let away = away.filter(|(_, told)| **told >= 0 && !is_there(told));
        away.map(|(address, _)| *address).collect()
    };
    if addresses.is_empty() {
        return Ok((0, 0));
    }
    // What was refused is where it was.
    let _refused = move_pages(OURSELVES, &addresses, node, false);
    let after = nodes_of(OURSELVES, &addresses)?;
    let nr_moved = after.iter().filter(|told| is_there(told)).count();
    Ok((addresses.len() as u64, nr_moved as u64))
}

/// Maps a range of a file for a moment. Each folio lies in one table of page-table entries, as it does where it is a huge page: the
/// kernel would take one apart that it finds in two.
fn mapped(file: BorrowedFd<'_>, first: u64, nr_pages: usize) -> io::Result<Mapping> {
    let (nr_bytes, offset) = (nr_pages * PAGE_BYTES as usize, first * PAGE_BYTES);
    let mut nr_tries = 0;
    loop {
        // Where so many bytes of our address space are free, at this moment: nothing can be read or written there.
        let room = Mapping::fresh(nr_bytes + HUGE_BYTES, ProtFlags::empty())?.base();
        let ahead = (offset as usize).wrapping_sub(room.addr()) % HUGE_BYTES;
        let place = room.wrapping_byte_add(ahead);
        nr_tries += 1;
        match Mapping::at(place, file, offset, nr_bytes, ProtFlags::READ) {
            // Another thread has mapped something there meanwhile.
            Err(Errno::EXIST) if nr_tries < NR_TRIES => {}
            mapped => return Ok(mapped?),
        }
    }
}

/// The generation of a file's inode; `None` on a file system that has none to tell.
pub(crate) fn generation(file: BorrowedFd<'_>) -> Option<u32> {
    let mut generation: libc::c_long = 0;
    // SAFETY: the kernel writes an int or a long at the address, which is that of a long.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) };
    (status == 0).then_some(generation as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_just_written_is_in_memory_and_what_lies_behind_the_end_is_not() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![1; 8 * PAGE_BYTES as usize])
            .expect("written");
        let nr_of = |pages| nr_resident(file.as_fd(), &pages).expect("mincore");
        assert_eq!(nr_of(0..8), 8);
        assert_eq!(nr_of(6..PAGES_MAX + 10), 2);
        assert_eq!(nr_of(3..3), 0);
        // By mincore, too, as kernels without cachestat have it.
        let nr_by_mincore = nr_resident_of(file.as_fd(), 6, 10).expect("mincore");
        assert_eq!(nr_by_mincore, 2);
    }

    #[test]
    fn a_file_that_may_not_be_mapped_leaves_nothing_mapped() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = std::fs::File::create(directory.path().join("file")).expect("a file");
        let mapped_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("status");
            let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
            let kib = line.and_then(|line| line.split_whitespace().next());
            kib.expect("a size").parse::<u64>().expect("a number")
        };
        let before_kib = mapped_kib();
        // 50 GiB in all. The kernel joins neighbours, so mappings are not counted.
        for _ in 0..200 {
            let refused = nr_resident_of(file.as_fd(), 0, PAGES_MAX as usize);
            let refused = refused.expect_err("it is open for writing only");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
        // Other tests of this process map memory meanwhile.
        assert!(mapped_kib() < before_kib + (10 << 20), "{before_kib} KiB");
    }
}
