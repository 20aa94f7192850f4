//! A host that is short of memory: how much is missing, and page cache that can go at once.
//!
//! ```text
//!   so much is missing              -> a census a second, until there is enough for a minute
//!   read once, and no more          -> dropped, those files first of which there is most
//!   what is missing then            -> told: pages of programs have to go
//! ```
//!
//! **Owns** which files go. **Does not own** when the host is short (`strata_control::shortage`), the census and dropping (`strata_linux::actuator`), nor
//! which pages of programs go (`acts`).
//!
//! **Invariants**
//! - I1: no page of a program is asked for while page cache is on its way out, or may be.
//! - I2: nothing is looked at while there is enough memory.

use std::cmp::Reverse;
use std::time::Duration;
use strata_control::{CacheSample, Reads, admit_cache, drop_cache};
use strata_linux::actuator::{CacheDone, CacheRequest, CacheThread};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::mount_point;

/// The thread is kept for so long after the last shortage.
const KEPT: Duration = Duration::from_secs(60);
/// Two censuses tell what is not read any more.
const NR_CENSUSES_MIN: u32 = 2;
/// Less than this of a file is not worth a look for it.
const WORTH_BYTES: u64 = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    cache: Option<CacheThread>,
    nr_censuses: u32,
    last_short: Duration,
    /// Page cache that was dropped.
    dropped_bytes: u64,
    /// What of it was asked for in the last round, and went.
    round_bytes: (u64, u64),
}

impl Shortage {
    /// Page cache that was dropped so far.
    pub(super) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// To be called about once a second with what is missing. Returns how many pages of programs have to go.
    pub(super) fn tick(&mut self, at: Duration, missing_bytes: u64) -> u64 {
        let sample = self.take_in();
        if missing_bytes == 0 {
            if at.saturating_sub(self.last_short) >= KEPT {
                (self.cache, self.nr_censuses) = (None, 0);
            }
            return 0;
        }
        self.last_short = at;
        if self.cache.is_none() {
            self.cache = start();
        }
        let Some(cache) = &mut self.cache else {
            return missing_bytes.div_ceil(PAGE_BYTES);
        };
        if cache.is_busy() {
            return 0;
        }
        // What is asked for and stays, as it is held or to be written, is not asked for again before programs give theirs.
        if let Some(sample) = &sample {
            let (asked_bytes, went_bytes) = self.round_bytes;
            let going_bytes = match went_bytes * 2 >= asked_bytes {
                true => drop_most(cache, sample, missing_bytes),
                false => 0,
            };
            self.round_bytes = (going_bytes, 0);
            if going_bytes > 0 {
                return 0;
            }
        }
        let is_known = sample.is_some() && self.nr_censuses >= NR_CENSUSES_MIN;
        cache.try_submit(CacheRequest::Census);
        match is_known {
            true => missing_bytes.div_ceil(PAGE_BYTES),
            false => 0,
        }
    }

    /// What the thread has done: a census, if there was one.
    fn take_in(&mut self) -> Option<CacheSample> {
        let mut sample = None;
        while let Some(outcome) = self.cache.as_mut().and_then(CacheThread::poll) {
            match outcome.of {
                CacheDone::Census(Ok(found)) => {
                    self.nr_censuses += 1;
                    sample = Some(found);
                }
                CacheDone::Census(Err(error)) => {
                    tracing::debug!("no census of page cache: {error}");
                    self.nr_censuses = NR_CENSUSES_MIN;
                    sample = Some(CacheSample::default());
                }
                CacheDone::Dropped { dropped, .. } => {
                    self.dropped_bytes += dropped.dropped_bytes;
                    self.round_bytes.1 += dropped.dropped_bytes;
                }
                CacheDone::Look(_) => {}
            }
        }
        sample
    }
}

/// For the page cache of all groups.
fn start() -> Option<CacheThread> {
    let group = mount_point().ok()?;
    let (idle, newcomers) = (
        drop_cache::Config::default(),
        admit_cache::Config::default(),
    );
    CacheThread::start(&group, idle, newcomers, false)
        .inspect_err(|error| tracing::warn!("page cache is left alone: {error}"))
        .ok()
}

/// Drops what was read once of files that have most of it; returns how much that is.
fn drop_most(cache: &mut CacheThread, sample: &CacheSample, bytes: u64) -> u64 {
    let mut files: Vec<_> = sample
        .files
        .iter()
        .filter(|file| file.once_idle_bytes >= WORTH_BYTES)
        .collect();
    files.sort_by_key(|file| Reverse(file.once_idle_bytes));
    let mut left_bytes = bytes;
    for file in files {
        let request = CacheRequest::Drop {
            file: file.file,
            reads: Reads::Once,
            bytes: file.once_idle_bytes.min(left_bytes),
        };
        if left_bytes == 0 || !cache.try_submit(request) {
            break;
        }
        left_bytes = left_bytes.saturating_sub(file.once_idle_bytes);
    }
    bytes - left_bytes
}
