//! How long a program waits for a page that is read back from swap: measured on pages of our own.
//!
//! **Owns** the measurement: pages are written, paged out, and touched one by one, out of order, so that no read ahead
//! helps. A touch counts where the kernel had to read (a major fault). **Does not own** what follows from it.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::os::fd::AsFd;

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::process::Stat;
use crate::sys::fresh_pages::FreshPages;
use crate::sys::madvise::{Advice, advise};

/// 1 MiB, which a slow disk reads within a second or two.
const NR_PAGES: usize = 256;
/// From one page to the next that is touched: beyond what the kernel reads ahead, and no divisor of the pages there are.
const STRIDE: usize = 97;
/// Fewer reads than this tell nothing.
const READS_MIN: usize = 16;

/// The time that a page takes to be read back, the median of many; `None` where none went to swap.
///
/// # Errors
/// There is no memory for it, or the kernel refuses to page it out.
pub fn measure_read() -> io::Result<Option<Duration>> {
    let mut pages = FreshPages::new(NR_PAGES)?;
    pages.scribble();
    let start = pages.addresses(1)[0];
    let range = AddrRange::new(start, start + NR_PAGES as u64 * PAGE_BYTES);
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    advise(own.as_fd(), &[range], Advice::Pageout)?;
    let mut times = Vec::new();
    for nth in 0..NR_PAGES {
        let before = major_faults()?;
        let begun = Instant::now();
        pages.touch(nth * STRIDE % NR_PAGES);
        let passed = begun.elapsed();
        if major_faults()? > before {
            times.push(passed);
        }
    }
    times.sort_unstable();
    let is_known = times.len() >= READS_MIN;
    Ok(is_known.then(|| times[times.len() / 2]))
}

/// Of this thread, so far.
fn major_faults() -> io::Result<u64> {
    let stat = Stat::parse(&fs::read_to_string("/proc/thread-self/stat")?);
    let stat = stat.ok_or_else(|| io::Error::other("/proc/thread-self/stat tells no faults"))?;
    Ok(stat.nr_major_faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::total_swap_bytes;

    #[test]
    fn without_swap_nothing_is_read_back_and_no_time_is_told() {
        let told = measure_read().expect("measured");
        if total_swap_bytes().expect("meminfo") == 0 {
            assert_eq!(told, None);
        }
    }
}
