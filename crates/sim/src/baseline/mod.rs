//! The well-known policies to compare with: no kinds, no walks, no batches, a page is in or out.
//!
//! Each is a short file around arrays indexed by page number, because a workload's pages are dense:
//! no hashing and no allocation per request.
//!
//! **Owns** the list of baselines and the loop that replays them. **Does not own** the mechanism that
//! the kernel's policies need.
//!
//! **Invariants**
//! - I1: never more than `memory_pages` pages are in memory, and a page that was just asked for is.

mod in_order;
mod lru;
mod opt;
mod queue;
mod s3_fifo;
#[cfg(test)]
mod tests;

use strata_trace::Backing;

use crate::{
    outcome::Outcome,
    simulate::{PROGRESS_REQUESTS, Progress, Setup, SimError, Simulate},
    workload::{PageId, Workload, ends_before, next_end},
};

/// Whether the page of a request was in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Hit,
    Miss,
}

/// One baseline on one workload.
trait Cache<'w>: Sized {
    /// Empty, with room for `capacity` pages (at least 1).
    fn new(workload: &'w Workload, capacity: u32) -> Self;

    /// Request number `position` is for `page`: brings it in, and others out, as it sees fit.
    fn request(&mut self, position: u32, page: PageId) -> Found;

    /// A page is freed: it is not in memory any more, if it was.
    fn free(&mut self, page: PageId);

    /// Bytes allocated.
    fn memory_bytes(&self) -> u64;
}

strata_lru::named! {
    /// A policy without a mechanism.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Baseline or UnknownBaseline {
        /// Least recently used.
        Lru = "lru",
        /// First in, first out.
        Fifo = "fifo",
        /// FIFO with a second chance for what was used.
        Clock = "clock",
        /// Belady's optimum: evicts what is wanted again the latest.
        Opt = "opt",
        /// CLOCK whose hand does not move what it spares.
        Sieve = "sieve",
        /// A small queue on trial before the main one.
        S3Fifo = "s3-fifo",
    }
}

/// A name that is no baseline's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no baseline is called {0:?}")]
pub struct UnknownBaseline(pub String);

impl Simulate for Baseline {
    fn run(
        &self,
        workload: &Workload,
        setup: &Setup,
        progress: &dyn Progress,
    ) -> Result<Outcome, SimError> {
        if setup.memory_pages == 0 {
            return Err(SimError::NoMemory);
        }
        if setup.steered.is_some() {
            return Err(SimError::NotSteerable {
                policy: self.name(),
            });
        }
        // More room than there are pages makes no difference.
        let capacity = setup.memory_pages.min(workload.nr_pages().max(1));
        Ok(match self {
            Baseline::Lru => replay::<lru::Lru>(workload, capacity, progress),
            Baseline::Fifo => replay::<in_order::Fifo>(workload, capacity, progress),
            Baseline::Clock => replay::<in_order::Clock>(workload, capacity, progress),
            Baseline::Opt => replay::<opt::Opt>(workload, capacity, progress),
            Baseline::Sieve => replay::<in_order::Sieve>(workload, capacity, progress),
            Baseline::S3Fifo => replay::<s3_fifo::S3Fifo>(workload, capacity, progress),
        })
    }
}

fn replay<'w, C: Cache<'w>>(
    workload: &'w Workload,
    capacity: u32,
    progress: &dyn Progress,
) -> Outcome {
    let mut cache = C::new(workload, capacity);
    let (mut position, mut nr_misses) = (0, [0u64; 2]);
    let (requests, mut ends) = (workload.requests(), workload.ends());
    while position < requests.len() {
        for end in ends_before(&mut ends, position) {
            cache.free(end.page);
        }
        let to = next_end(ends, requests.len().min(position + PROGRESS_REQUESTS));
        for (request, position) in requests[position..to].iter().zip(position as u32..) {
            if cache.request(position, request.page()) == Found::Miss {
                let is_anon = workload.page(request.page()).backing == Backing::Anon;
                nr_misses[usize::from(!is_anon)] += 1;
            }
        }
        progress.advance((to - position) as u64);
        position = to;
    }
    Outcome {
        nr_accesses: position as u64,
        nr_misses: nr_misses.iter().sum(),
        nr_anon_misses: nr_misses[0],
        policy_bytes: cache.memory_bytes(),
        reclaim: None,
    }
}
