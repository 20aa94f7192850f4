//! Groups and devices that tests make, and waiting for their events.
#![allow(dead_code, reason = "a test binary uses a part of it")]

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strata_linux::cgroup::{BudgetGroup, Manager};
use strata_linux::swap::{SwapDevice, SwapError, SwapSpec};
use strata_linux::undo::Journal;

use crate::guard::Guard;
use crate::support::fresh_id;

pub(crate) fn make(what: &str) -> Guard<BudgetGroup> {
    let made = BudgetGroup::create(&fresh_id(what), Manager::ByHand, &Journal::none());
    Guard(made.expect("a group"))
}

pub(crate) fn zram(size: &str) -> Result<Guard<SwapDevice>, SwapError> {
    let spec: SwapSpec = format!("zram:{size}").parse().expect("a spec");
    SwapDevice::create(&spec, &Journal::none()).map(Guard)
}

pub(crate) fn is_readable(fd: &impl AsFd, wait_ms: i64) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let wait = Timespec {
        tv_sec: wait_ms / 1000,
        tv_nsec: (wait_ms % 1000) * 1_000_000,
    };
    poll(&mut fds, Some(&wait)).expect("poll") > 0
}
