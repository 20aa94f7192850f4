//! `put_away`: takes whole ranges of a process, whether they were accessed or not.
//!
//! `pageout` judges every page and spares what is in use before it takes this way; a program that is to leave memory as a
//! whole goes by this alone. Nothing is looked at: how much went, and why the rest stayed, page tables say afterwards.
//!
//! **Owns** the calls. **Does not own** which ranges, nor their order (the caller).
//!
//! **Invariants** I1: a range that the kernel refuses spoils no other (`advise`), and no call holds the lock of the address
//! space for long (`hold_up`).

use crate::addr::AddrRange;
use crate::hold_up::CallSize;
use crate::process::Process;
use crate::sys::madvise::{self, Advice};

use super::advise::{Advised, PageoutError, advise};

/// What the first pages are expected to take each, nanoseconds: 6,000 while their program sleeps, 27,000 while it runs on
/// another processor.
const PAGE_NS: f64 = 20_000.0;

/// What whole ranges are taken with: it learns how large a call may be.
#[derive(Debug)]
pub struct PutAway {
    size: CallSize,
}

impl Default for PutAway {
    fn default() -> PutAway {
        PutAway {
            size: CallSize::new(PAGE_NS, madvise::RANGES_MAX as u64),
        }
    }
}

impl PutAway {
    /// Asks the kernel to take ranges of a process: sorted, disjoint, whole pages. It leaves what it can't take.
    ///
    /// # Errors
    /// It may not be asked, or the process is gone; the ranges so far were taken.
    pub fn take(&mut self, process: &Process, ranges: &[AddrRange]) -> Result<(), PageoutError> {
        self.advise(process, ranges, || ())
            .error
            .map_or(Ok(()), Err)
    }

    /// As [`PutAway::take`]; what became of the ranges. `before_call` is called before each call.
    pub(super) fn advise(
        &mut self,
        process: &Process,
        ranges: &[AddrRange],
        before_call: impl Fn(),
    ) -> Advised {
        advise(process.pid(), ranges, &mut self.size, |call| {
            before_call();
            madvise::advise(process.pidfd(), call, Advice::Pageout)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PAGE_BYTES;
    use rustix::process::getpid;

    #[test]
    fn whoever_takes_much_tells_of_each_call() {
        let memory = vec![1_u8; 8 << 20];
        let first_page = (memory.as_ptr() as u64).div_ceil(PAGE_BYTES);
        let nr_pages = memory.len() as u64 / PAGE_BYTES - 1;
        let process = Process::open(getpid().as_raw_nonzero().get()).unwrap();
        let nr_told = std::cell::Cell::new(0);
        let ranges = [AddrRange::of_pages(first_page, nr_pages)];
        let tell = || nr_told.set(nr_told.get() + 1);
        let advised = PutAway::default().advise(&process, &ranges, tell);
        assert!(advised.nr_calls > 1, "{advised:?}");
        assert_eq!(nr_told.get(), advised.nr_calls);
    }
}
