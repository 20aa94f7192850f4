//! What the live tests of pageout share: a guest seen from outside, and swap of their own.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use strata_linux::access::{
    self, AccessChoice, AccessError, AccessSource, ClearIntent, Clearer, Grain, TableShape,
    YoungPiece,
};
use strata_linux::actuator::{PageTarget, Pageout, PageoutReport, PageoutRequest};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableNo, covering_spans};
use strata_linux::process::Process;
use strata_linux::swap::{SwapDevice, SwapError};
use strata_lru::Verdict;

use crate::groups::zram;
use crate::guard::Guard;
use crate::process_support::Guest;
use crate::support::patience;

/// What a test works with: a guest, seen from outside.
pub(crate) struct Bench {
    pub(crate) guest: Guest,
    pub(crate) process: Arc<Process>,
    pub(crate) source: Box<dyn AccessSource>,
    pub(crate) pageout: Pageout,
}

impl Bench {
    /// An error where accesses of single pages can't be seen.
    pub(crate) fn new() -> Result<Bench, AccessError> {
        let source = access::open(AccessChoice::Bpf)?;
        Ok(Bench::with(source, AccessChoice::Bpf))
    }

    pub(crate) fn with(source: Box<dyn AccessSource>, choice: AccessChoice) -> Bench {
        stay_on_this_cpu();
        let guest = Guest::start();
        let process = Arc::new(Process::open(guest.pid()).expect("the guest runs"));
        let pageout = Pageout::start(access::open(choice).expect("opened before"));
        Bench {
            guest,
            process,
            source,
            pageout: pageout.expect("a thread starts"),
        }
    }

    /// Clears the accessed bits, as a walk does.
    pub(crate) fn forget_accesses(&mut self) {
        let young = YoungPiece::of_ranges(&[AddrRange::new(0, PAGE_BYTES)]);
        let cleared =
            Clearer::new(Grain::Page).clear_all(&self.process, &young, [1, 0], ClearIntent::Watch);
        cleared.expect("accessed bits can be cleared");
    }

    pub(crate) fn take(&mut self, pages: Vec<PageTarget>) -> PageoutReport {
        take(&mut self.pageout, &self.process, pages)
    }

    /// Splits the huge pages at these addresses.
    pub(crate) fn split(&mut self, huge: impl IntoIterator<Item = u64>) -> PageoutReport {
        let request = PageoutRequest {
            space: 7,
            process: Arc::clone(&self.process),
            pages: Vec::new(),
            runs: Vec::new(),
            splits: huge.into_iter().map(TableNo::containing).collect(),
        };
        carry_out(&mut self.pageout, request)
    }

    /// Takes base pages; returns the verdict of each beside the whole report.
    pub(crate) fn take_pages(
        &mut self,
        pages: impl IntoIterator<Item = u64>,
    ) -> (Vec<Verdict>, PageoutReport) {
        let report = self.take(targets(pages));
        let verdicts = report.results.iter().map(|(_, verdict)| *verdict);
        (verdicts.collect(), report)
    }

    pub(crate) fn present(&self, addr: u64, nr_pages: u64) -> Vec<bool> {
        let mut entries = Vec::new();
        let range = AddrRange::new(addr, addr + nr_pages * PAGE_BYTES);
        let read = self.process.read_pagemap(range, &mut entries);
        read.expect("the page map can be read");
        entries.iter().map(|entry| entry.is_present()).collect()
    }

    pub(crate) fn shape_at(&mut self, addr: u64) -> Option<TableShape> {
        let mut shape = None;
        let spans = covering_spans([AddrRange::new(addr, addr + 1)]);
        let read = self.source.read(&self.process, &spans, &mut |record| {
            shape = Some(record.shape)
        });
        read.expect("the guest can be read");
        shape
    }
}

pub(crate) fn targets(pages: impl IntoIterator<Item = u64>) -> Vec<PageTarget> {
    let target = |(token, addr)| PageTarget {
        token: token as u32,
        addr,
        order: 0,
    };
    pages.into_iter().enumerate().map(target).collect()
}

pub(crate) fn take(
    pageout: &mut Pageout,
    process: &Arc<Process>,
    pages: Vec<PageTarget>,
) -> PageoutReport {
    let request = PageoutRequest {
        space: 7,
        process: Arc::clone(process),
        pages,
        runs: Vec::new(),
        splits: Vec::new(),
    };
    carry_out(pageout, request)
}

fn carry_out(pageout: &mut Pageout, request: PageoutRequest) -> PageoutReport {
    let tokens: Vec<u32> = request.pages.iter().map(|page| page.token).collect();
    pageout.try_submit(request).expect("nothing else is out");
    let timeout = Timespec {
        tv_sec: 20 * i64::from(patience()),
        tv_nsec: 0,
    };
    loop {
        let fd = pageout.completion_fd().as_fd().try_clone_to_owned();
        let fd = fd.expect("a copy of the descriptor");
        let nr_ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout));
        assert_eq!(nr_ready, Ok(1), "no report in time");
        if let Some(report) = pageout.poll() {
            assert_eq!(report.space, 7);
            let answered: Vec<u32> = report.results.iter().map(|(token, _)| *token).collect();
            assert_eq!(answered, tokens);
            return report;
        }
    }
}

pub(crate) fn page(addr: u64, index: u64) -> u64 {
    addr + index * PAGE_BYTES
}

pub(crate) fn count(verdicts: &[Verdict], verdict: Verdict) -> usize {
    verdicts.iter().filter(|other| **other == verdict).count()
}

/// Waits until no other live test changes the machine's swap: taking a device down brings back
/// everybody's pages.
pub(crate) fn alone() -> File {
    let path = std::env::temp_dir().join("strata-live-tests.lock");
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let lock = lock.expect("a lock file");
    flock(&lock, FlockOperation::LockExclusive).expect("locked");
    lock
}

/// Swap of this test alone.
pub(crate) struct Swap {
    _device: Guard<SwapDevice>,
    _alone: File,
}

impl Swap {
    pub(crate) fn new() -> Result<Swap, SwapError> {
        let alone = alone();
        Ok(Swap {
            _device: zram("256M")?,
            _alone: alone,
        })
    }
}

/// A page that was touched a moment ago may still be in a batch of the CPU it was touched on, and
/// advice from another CPU finds it busy (16 of 512 pages once were). Threads and processes started
/// from here on inherit it.
fn stay_on_this_cpu() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).expect("a CPU we run on");
}
