//! What a refault costs here: a page that has left memory and is asked for again.
//!
//! **Owns** the measurement of a page of a file, swap that is made for the measurement, and that it is undone. **Does not own** the
//! measurement of swap (`strata_linux::swap`), nor what follows from it (`strata plan --cost`).
//!
//! **Invariants**
//! - I1: no memory but our own is paged out, no file but one without a name is read; swap that was made is taken down, by the keeper
//!   where we are killed.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, iter};

use rustix::fs::{Advice, fadvise};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::swap::{
    ReadTimes, Refaults, SwapDevice, SwapError, SwapSpec, measure_refaults, swap_areas,
};

use crate::keeper::{KeeperWatch, Session, SessionError, UndoError, fresh_id};

/// Pages of the file: 4 MiB.
const NR_PAGES: u64 = 1024;
/// A slow disk is asked no longer than this.
const MOST: Duration = Duration::from_secs(3);
/// From one page to the next that is read, as for swap.
const STRIDE: u64 = 97;
/// Reads after which it is looked whether the disk was asked for each.
const NR_AT_A_TIME: u64 = 16;

/// The swap that was asked for can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum MeasureError {
    /// What has to be undone can't be written down.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Nobody would undo it.
    #[error("starting the keeper: {0}")]
    Keeper(#[source] io::Error),
    /// The device can't be made.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// It stays.
    #[error("left to the keeper: {0}")]
    Left(#[source] UndoError),
}

/// What one kind of refault takes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Refault {
    /// `swap`; `swap_with_eviction`, where a page goes for each that comes, as at a limit; or `file`.
    pub kind: &'static str,
    /// Swap devices, or the directory of the file.
    pub through: String,
    /// Half of the reads took no longer, nanoseconds; `None`, as the others: see `why`.
    pub median_ns: Option<u64>,
    /// 99 of 100 reads took no longer, nanoseconds.
    pub p99_ns: Option<u64>,
    /// The mean, nanoseconds.
    pub mean_ns: Option<u64>,
    /// Reads.
    pub nr_reads: usize,
    /// Why nothing is known; `None` where it is.
    pub why: Option<String>,
}

impl Refault {
    fn new(
        kind: &'static str,
        through: String,
        told: Result<Option<ReadTimes>, String>,
        none: &str,
    ) -> Refault {
        let (times, why) = match told {
            Ok(Some(times)) => (Some(times), None),
            Ok(None) => (None, Some(none.to_owned())),
            Err(why) => (None, Some(why)),
        };
        let ns = |of: fn(ReadTimes) -> Duration| times.map(|times| of(times).as_nanos() as u64);
        Refault {
            kind,
            through,
            median_ns: ns(|times| times.median),
            p99_ns: ns(|times| times.p99),
            mean_ns: ns(|times| times.mean),
            nr_reads: times.map_or(0, |times| times.nr_reads),
            why,
        }
    }
}

/// Measures each kind: through the swap that is asked for, and in that directory. What can't be measured says why.
pub fn measure(spec: &SwapSpec, directory: &Path) -> Vec<Refault> {
    let mut refaults = match spec {
        SwapSpec::Existing => of_swap(Ok(())),
        made => with_swap(made, || of_swap(Ok(()))).unwrap_or_else(|error| of_swap(Err(error))),
    };
    let none = "no disk is read there";
    let through = directory.display().to_string();
    let told = of_file(directory).map_err(|error| error.to_string());
    refaults.push(Refault::new("file", through, told, none));
    refaults
}

/// Does something while there is such swap.
fn with_swap<T>(spec: &SwapSpec, what: impl FnOnce() -> T) -> Result<T, MeasureError> {
    let session = Session::create(&fresh_id())?;
    let keeper = match KeeperWatch::start(&session) {
        Ok(keeper) => keeper,
        Err(error) => {
            session.finish(None);
            return Err(MeasureError::Keeper(error));
        }
    };
    let done = SwapDevice::create(spec, &session.journal()).map(|_device| what());
    let (left, _) = keeper.finish(session);
    match (done?, left.into_iter().next()) {
        (done, None) => Ok(done),
        (_, Some(error)) => Err(MeasureError::Left(error)),
    }
}

fn of_swap(made: Result<(), MeasureError>) -> Vec<Refault> {
    let areas = swap_areas().unwrap_or_default();
    let through = areas.iter().map(|area| area.path.display().to_string());
    let through: Vec<String> = through.collect();
    let through = through.join(", ");
    let none = "no touch had to read: there is no swap (--swap zram:256M makes some), it is full, or pages were still in memory";
    let made = made.map_err(|error| error.to_string());
    let measured = made.and_then(|()| measure_refaults().map_err(|error| error.to_string()));
    let of_kind = |kind, of: fn(Refaults) -> Option<ReadTimes>| {
        Refault::new(kind, through.clone(), measured.clone().map(of), none)
    };
    vec![
        of_kind("swap", |of| of.alone),
        of_kind("swap_with_eviction", |of| of.with_eviction),
    ]
}

/// A file's pages, one by one; `None` where no disk was asked for them.
fn of_file(directory: &Path) -> io::Result<Option<ReadTimes>> {
    let mut file = tempfile::tempfile_in(directory)?;
    let mut word = 0x9E37_79B9_7F4A_7C15_u64;
    // Xorshift (Marsaglia, 2003): file systems compress other things.
    let words = iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    });
    let content: Vec<u8> = words
        .take((NR_PAGES * PAGE_BYTES / 8) as usize)
        .flatten()
        .collect();
    file.write_all(&content)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::Random)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let (begun, mut times) = (Instant::now(), Vec::new());
    let mut page_bytes = [0; PAGE_BYTES as usize];
    for first in (0..NR_PAGES).step_by(NR_AT_A_TIME as usize) {
        let (before, nr_before) = (bytes_from_disk()?, times.len());
        for nth in first..first + NR_AT_A_TIME {
            let page = nth * STRIDE % NR_PAGES;
            let asked = Instant::now();
            file.read_exact_at(&mut page_bytes, page * PAGE_BYTES)?;
            times.push(asked.elapsed());
        }
        if bytes_from_disk()? - before < NR_AT_A_TIME * PAGE_BYTES {
            times.truncate(nr_before);
        }
        if begun.elapsed() >= MOST {
            break;
        }
    }
    Ok(ReadTimes::of(&times))
}

/// What this thread had disks read so far.
fn bytes_from_disk() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/io")?;
    let told = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    let told = told.and_then(|bytes| bytes.parse().ok());
    told.ok_or_else(|| io::Error::other("/proc/thread-self/io tells no read_bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_disk_is_asked_for_has_no_cost_and_says_why() {
        // A tmpfs.
        let told = measure(&SwapSpec::Existing, Path::new("/dev/shm"));
        let file = told.iter().find(|one| one.kind == "file").expect("told");
        assert_eq!((file.mean_ns, file.nr_reads), (None, 0));
        assert_eq!(file.why.as_deref(), Some("no disk is read there"));
        let absent = Path::new("/nonexistent");
        assert!(of_file(absent).is_err());
        for one in told {
            assert_eq!(one.why.is_none(), one.mean_ns.is_some(), "{one:?}");
        }
    }
}
