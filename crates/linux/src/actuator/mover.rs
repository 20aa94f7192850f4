//! A thread that moves pages of programs from one memory node to another.
//!
//! ```text
//!   MoveRequest (process, pages, node) -> batches: which are there, move_pages, where are they now -> MoveReport
//! ```
//!
//! The kernel may stop telling of pages at the first that it could not move. So pages are looked up before and after, and
//! that is what is reported.
//!
//! **Owns** the thread, batches, and what became of each page. **Does not own** which pages (the guard).
//!
//! **Invariants**
//! - I1: nothing goes to a node where the process may have no memory (cpuset): the kernel refuses it.
//! - I2: what others have mapped stays: what one process may have mapped is checked by the kernel, what several have by
//!   `/proc/kpagecount` a moment before.
//! - I3: what was tried and what was moved are counted apart.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::sleep;

use rustix::io::Errno;

use super::worker::{StopFlag, Worker};
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up::PAUSE;
use crate::process::{PagemapEntry, Process};
use crate::sys::move_pages::{UNTOLD, move_pages, nodes_of};

/// Pages of one call: some hundred microseconds, in which a program that touches one of them waits.
const BATCH_PAGES: usize = 128;
/// Requests that the thread has at once.
const IN_FLIGHT_MAX: usize = 256;

/// Pages that are to go to another node.
#[derive(Clone, Debug)]
pub struct MoveRequest {
    /// Whose they are.
    pub process: Arc<Process>,
    /// Where they are, in order.
    pub addresses: Vec<u64>,
    /// Where they are to go, by the kernel's number.
    pub to: u32,
    /// How often those who may be concerned map each of them. Pages that are mapped more often stay. Above 1 the kernel asks
    /// for `CAP_SYS_NICE`; [`u8::MAX`]: nobody knows.
    pub nr_mappings: u8,
}

/// Why a page stayed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Unmoved {
    /// It was there already.
    There,
    /// It is not in memory any more, or the process is gone.
    Gone,
    /// Others have mapped it, too: it is not to be tried again.
    Shared,
    /// The process may have no memory on that node.
    Forbidden,
    /// The node is full.
    Full,
    /// It is locked, being written, pinned by a device, or was used at this moment.
    Busy,
}

/// Why each page stayed, in the order of the request; `None`: it moved. The last ones are missing where they were not tried.
pub type MoveReport = Vec<Option<Unmoved>>;

/// Moves pages of programs in a thread of its own.
pub type Mover = Worker<MoveRequest, MoveReport>;

/// Starts that thread.
///
/// # Errors
/// The thread can't be started.
pub fn start_mover() -> io::Result<Mover> {
    let mut counts = MapCounts::new();
    Worker::start("strata-mover", IN_FLIGHT_MAX, move |request, stop| {
        carry_out(&request, &mut counts, stop)
    })
}

fn carry_out(request: &MoveRequest, counts: &mut MapCounts, stop: &StopFlag) -> MoveReport {
    let mut report = MoveReport::with_capacity(request.addresses.len());
    for batch in request.addresses.chunks(BATCH_PAGES) {
        let may_ask = request.process.is_alive() && request.process.stalled().is_none();
        if stop.is_set() || !may_ask {
            break;
        }
        report.extend(move_batch(request, counts, batch));
        sleep(PAUSE);
    }
    report
}

fn move_batch(request: &MoveRequest, counts: &mut MapCounts, batch: &[u64]) -> MoveReport {
    let pid = request.process.pid();
    let before = nodes_of(pid, batch);
    let is_there = |node: i32| u32::try_from(node) == Ok(request.to);
    let wanted: Vec<u64> = match &before {
        Ok(nodes) => {
            let all = batch.iter().zip(nodes);
            let wanted = all.filter(|(_, node)| **node >= 0 && !is_there(**node));
            wanted.map(|(address, _)| *address).collect()
        }
        Err(_) => Vec::new(),
    };
    let is_shared = request.nr_mappings > 1;
    let (wanted, by_strangers): (Vec<u64>, Vec<u64>) = wanted.into_iter().partition(|address| {
        !is_shared || counts.has_at_most(&request.process, *address, request.nr_mappings)
    });
    let outcome = match wanted.is_empty() {
        true => Ok(Vec::new()),
        false => move_pages(pid, &wanted, request.to, is_shared),
    };
    let told = |address: u64| {
        let told = outcome.as_ref().ok()?;
        told.get(wanted.binary_search(&address).ok()?).copied()
    };
    let after = nodes_of(pid, batch);
    let gone = vec![UNTOLD; batch.len()];
    let (before, after) = (
        before.as_ref().unwrap_or(&gone),
        after.as_ref().unwrap_or(&gone),
    );
    let stayed = |((address, before), after): ((&u64, &i32), &i32)| match (before, after) {
        (before, _) if is_there(*before) => Some(Unmoved::There),
        (before, after) if *before < 0 || *after < 0 => Some(Unmoved::Gone),
        (_, after) if is_there(*after) => None,
        _ if by_strangers.binary_search(address).is_ok() => Some(Unmoved::Shared),
        _ => Some(why(&outcome, told(*address))),
    };
    batch.iter().zip(before).zip(after).map(stayed).collect()
}

/// Asks the kernel how often pages are mapped.
#[derive(Debug)]
struct MapCounts {
    /// `None` without the right to read it.
    kpagecount: Option<File>,
    entries: Vec<PagemapEntry>,
}

impl MapCounts {
    fn new() -> MapCounts {
        MapCounts {
            kpagecount: File::open("/proc/kpagecount").ok(),
            entries: Vec::new(),
        }
    }

    /// Whether a page is certainly mapped no more often than that; [`u8::MAX`] stands for any number.
    fn has_at_most(&mut self, process: &Process, address: u64, nr_mappings: u8) -> bool {
        let range = AddrRange::new(address, address + PAGE_BYTES);
        let entry = match process.read_pagemap(range, &mut self.entries) {
            Ok(()) => self.entries.first().copied().unwrap_or_default(),
            Err(_) => return false,
        };
        let (Some(kpagecount), true) = (&self.kpagecount, entry.frame() > 0) else {
            return false;
        };
        let mut count = [0; 8];
        kpagecount
            .read_exact_at(&mut count, entry.frame() * 8)
            .is_ok()
            && nr_mappings < u8::MAX
            && u64::from_ne_bytes(count) <= u64::from(nr_mappings)
    }
}

/// Why pages stayed that are in memory still.
fn why(outcome: &io::Result<Vec<i32>>, told: Option<i32>) -> Unmoved {
    match outcome.as_ref().map_err(Errno::from_io_error) {
        Ok(_) => match told.map(|told| Errno::from_raw_os_error(-told)) {
            Some(Errno::ACCESS) => Unmoved::Shared,
            Some(Errno::NOMEM) => Unmoved::Full,
            _ => Unmoved::Busy,
        },
        Err(Some(Errno::ACCESS | Errno::PERM)) => Unmoved::Forbidden,
        Err(Some(Errno::NOMEM | Errno::NODEV)) => Unmoved::Full,
        Err(Some(Errno::SRCH)) => Unmoved::Gone,
        Err(_) => Unmoved::Busy,
    }
}
