//! A trial of what a touch does under the kernel's multi-generational LRU.
//!
//! Under MGLRU the kernel counts reads through a descriptor (`process_vm_readv` is one to it) in the page's flags. The fifth
//! fills the count, and eviction moves such a page to the next generation instead of taking it. That is so since 6.7, and
//! in the 6.1 of Debian. Other kernels may differ, so it is tried before it is used.
//!
//! ```text
//!   a group of its own <- a process with 1024 pages
//!   aged until all lie in the oldest generation -> every other page touched five times -> half is reclaimed
//!   the touched ones are there, the others have gone: it works
//! ```
//!
//! **Owns** the trial: its group, its process, the verdict. **Does not own** which pages are touched (`activate`), nor asking
//! the kernel to age (`access`).
//!
//! **Invariants**
//! - I1: only pages of the trial's own process are reclaimed; group and process are gone afterwards.

use super::activate::touch_all;
use crate::access::{AccessError, AgeingError, Ager, BpfSource};
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::cgroup::{BudgetGroup, CgroupError, GroupReader, Manager, ReclaimError};
use crate::process::Process;
use crate::process::launch::{Child, CommandSpec, LaunchError, spawn};
use crate::undo::Journal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use strata_control::Lever;

/// The hidden verb the binary must pass on to [`lever_main`], before anything else it does.
pub const LEVER_VERB: &str = "lever-pages";
/// Pages of the trial.
const NR_PAGES: u64 = 1024;
/// Generations that MGLRU has at most: after so many ageings all pages lie in the oldest one.
const NR_AGEINGS: usize = 4;
/// The process of the trial ends by itself after so long.
const LIFE: Duration = Duration::from_secs(30);
/// The process of the trial is up within this time, even on an emulated processor.
const START_WAIT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
/// Pages whose flags are looked at.
const NR_SAMPLED_PAGES: usize = 64;
/// Reclaim is asked for in so many steps, a quarter of all pages in all.
const NR_STEPS: u64 = 8;

/// Why five touches are not used.
#[derive(Debug, thiserror::Error)]
pub enum LeverError {
    /// No group for the trial.
    #[error("no cgroup for a trial: {0}")]
    Group(#[from] CgroupError),
    /// No process for the trial.
    #[error("no process for a trial: {0}")]
    Launch(#[from] LaunchError),
    /// The kernel can't be asked to age.
    #[error(transparent)]
    Ageing(#[from] AgeingError),
    /// Nothing can be reclaimed, as without swap.
    #[error("in a trial the kernel reclaimed nothing ({0}); is there free swap?")]
    Reclaim(#[from] ReclaimError),
    /// Reading or writing failed.
    #[error("a trial failed: {0}")]
    Io(#[from] io::Error),
    /// Accesses can't be seen.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Touched pages look like others.
    #[error("the kernel's structs of pages do not tell which pages were touched")]
    Flags,
    /// A touch spares nothing.
    #[error(
        "in a trial {nr_touched_gone} of the touched pages went and {nr_others_gone} of the others: this kernel does not \
         spare what is touched"
    )]
    NoEffect {
        /// Touched pages that were reclaimed.
        nr_touched_gone: u64,
        /// Other pages that were reclaimed.
        nr_others_gone: u64,
    },
}

/// Tries on pages of its own whether eviction spares what was touched five times. The flags by which such a page is known in
/// the kernel's struct of it.
///
/// # Errors
/// [`LeverError`]: it does not, or that can't be found out.
pub fn try_five_touches(id: &str, journal: &Journal) -> Result<u64, LeverError> {
    let mut group = BudgetGroup::create(&format!("{id}-lever"), Manager::ByHand, journal)?;
    let result = try_in(&group);
    if let Err(error) = group.remove() {
        tracing::debug!("the group of a trial: {error}");
    }
    result
}

fn try_in(group: &BudgetGroup) -> Result<u64, LeverError> {
    let (ours, theirs) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    let mut spec = CommandSpec::new("/proc/self/exe", [LEVER_VERB]);
    spec.cgroup_procs = Some(group.join_file()?);
    spec.output = Some(theirs);
    let child = spawn(spec)?;
    let result = try_with(group, &child, File::from(ours));
    let ended = child.signal(Signal::KILL).and_then(|()| child.wait());
    if let Err(error) = ended {
        tracing::debug!("the process of a trial: {error}");
    }
    result
}

fn try_with(group: &BudgetGroup, child: &Child, mut output: File) -> Result<u64, LeverError> {
    let pages = read_pages(&mut output)?;
    let process = Process::open(child.pid()).map_err(io::Error::other)?;
    let ager = Ager::open(&GroupReader::open(group.path())?)?;
    for _ in 1..NR_AGEINGS {
        ager.age()?;
    }
    let all = (pages.start..pages.end).step_by(PAGE_BYTES as usize);
    let touched: Vec<u64> = all.clone().filter(|page| is_touched(*page)).collect();
    let mut nr_touched_pages = 0;
    touch_all(
        &process,
        &touched,
        Lever::FiveTouches,
        || false,
        &mut nr_touched_pages,
    )?;
    let spared_flags = flags_of_touched(&process, pages)?;
    let mut gone = [0; 2];
    for _ in 0..NR_STEPS {
        group.reclaim(pages.len_bytes() / 4 / NR_STEPS)?;
    }
    let mut entries = Vec::new();
    process.read_pagemap(pages, &mut entries)?;
    for (page, entry) in all.zip(&entries) {
        gone[usize::from(is_touched(page))] += u64::from(!entry.is_present());
    }
    let [nr_others_gone, nr_touched_gone] = gone;
    tracing::debug!(
        nr_others_gone,
        nr_touched_gone,
        nr_touched_pages,
        "a trial of five touches"
    );
    match nr_others_gone >= NR_PAGES / 16 && nr_touched_gone <= nr_others_gone / 8 {
        true => Ok(spared_flags),
        false => Err(LeverError::NoEffect {
            nr_touched_gone,
            nr_others_gone,
        }),
    }
}

/// The flags that touched pages have and others have not.
fn flags_of_touched(process: &Process, pages: AddrRange) -> Result<u64, LeverError> {
    let mut source = BpfSource::open()?;
    let (mut touched, mut others) = (u64::MAX, 0);
    let sampled = (pages.start..pages.end).step_by(PAGE_BYTES as usize);
    for page in sampled.take(NR_SAMPLED_PAGES) {
        match (source.page_flags(process, page)?, is_touched(page)) {
            (Some(flags), true) => touched &= flags,
            (Some(flags), false) => others |= flags,
            (None, _) => return Err(LeverError::Flags),
        }
    }
    match touched & !others {
        0 => Err(LeverError::Flags),
        flags => Ok(flags),
    }
}

fn is_touched(page: u64) -> bool {
    (page / PAGE_BYTES).is_multiple_of(2)
}

/// Where the pages of the process lie.
fn read_pages(output: &mut File) -> io::Result<AddrRange> {
    let mut text = Vec::new();
    while !text.ends_with(b"\n") {
        let is_there = poll(
            &mut [PollFd::new(&*output, PollFlags::IN)],
            Some(&START_WAIT),
        )?;
        let mut bytes = [0; 64];
        let nr_bytes = match is_there {
            0 => return Err(io::ErrorKind::TimedOut.into()),
            _ => output.read(&mut bytes)?,
        };
        if nr_bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(&bytes[..nr_bytes]);
    }
    let text = String::from_utf8_lossy(&text);
    let start: u64 = text.trim().parse().map_err(io::Error::other)?;
    Ok(AddrRange::new(start, start + NR_PAGES * PAGE_BYTES))
}

/// The process of the trial: has pages of its own, says where they lie, and waits to be killed.
pub fn lever_main() -> ExitCode {
    // One touch of a huge page would be one of 512 pages.
    if rustix::thread::disable_transparent_huge_pages(true).is_err() {
        return ExitCode::FAILURE;
    }
    let page_bytes = PAGE_BYTES as usize;
    let mut memory = vec![0u8; (NR_PAGES as usize + 1) * page_bytes];
    for (number, page) in memory.chunks_mut(page_bytes).enumerate() {
        page[0] = number as u8 | 1;
    }
    let start = (memory.as_ptr().addr() as u64).next_multiple_of(PAGE_BYTES);
    let mut out = io::stdout();
    if writeln!(out, "{start}").and_then(|()| out.flush()).is_err() {
        return ExitCode::FAILURE;
    }
    std::thread::sleep(LIFE);
    std::hint::black_box(&memory);
    ExitCode::SUCCESS
}
