//! Groups and swap devices that go away with the test, also when it fails.

use std::ops::{Deref, DerefMut};
use std::thread;
use std::time::{Duration, Instant};

use strata_linux::cgroup::BudgetGroup;
use strata_linux::swap::SwapDevice;

/// What a test made on the machine.
pub(crate) trait Made {
    fn clean_up(&mut self);
}

impl Made for BudgetGroup {
    fn clean_up(&mut self) {
        let _ = self.remove();
    }
}

impl Made for SwapDevice {
    fn clean_up(&mut self) {
        if !thread::panicking() {
            return down(self);
        }
        let _ = self.take_down();
    }
}

/// Cleans up at the end of its scope; programs in a group are declared after it, so they go first.
#[derive(Debug)]
pub(crate) struct Guard<T: Made>(pub(crate) T);

impl<T: Made> Drop for Guard<T> {
    fn drop(&mut self) {
        self.0.clean_up();
    }
}

impl<T: Made> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Made> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Takes a device down. It holds pages of tests that run beside this one, too, and they may be at a limit of theirs.
#[track_caller]
pub(crate) fn down(swap: &mut SwapDevice) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = swap.take_down() {
        assert!(Instant::now() < deadline, "{error}");
        thread::sleep(Duration::from_millis(100));
    }
}
