//! A few words of memory that two processes share: one says until when it will be heard of again, the other looks.
//!
//! **Owns** the mapping and the descriptor behind it. **Does not own** what follows from a beat that does not come.
//!
//! **Invariants** I1: neither side ever waits for the other. I2: times are of `CLOCK_MONOTONIC`, which stands still while the
//! machine sleeps.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::time::{ClockId, clock_gettime};

use super::mapping::Mapping;

/// What is shared.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// When the next beat comes at the latest, milliseconds; 0: none is expected.
    due_ms: AtomicU64,
    /// How often whoever looks has acted because none came.
    nr_missed: AtomicU64,
}

/// Either end; dropped, the mapping goes and the other end keeps its own.
#[derive(Debug)]
pub struct Heartbeat {
    file: File,
    memory: Mapping,
}

impl Heartbeat {
    /// Makes the memory; no beat is expected yet.
    pub fn create() -> io::Result<Heartbeat> {
        let file = File::from(memfd_create("strata-heartbeat", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, size_of::<Words>() as u64)?;
        Heartbeat::open(file)
    }

    /// Maps the memory that another process has made.
    ///
    /// # Errors
    /// Also if the file is shorter than what is shared.
    pub fn open(file: File) -> io::Result<Heartbeat> {
        if file.metadata()?.len() < size_of::<Words>() as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not the memory of a heartbeat",
            ));
        }
        // The file is as long as what is mapped, and nobody of ours shortens it.
        let memory = Mapping::shared(file.as_fd(), size_of::<Words>())?;
        Ok(Heartbeat { file, memory })
    }

    fn words(&self) -> &Words {
        #[expect(unsafe_code, reason = "the mapping made by `open`")]
        // SAFETY: mapped, aligned to a page and zeroed by the kernel, of the size of `Words`, whose fields are atomics; it stays
        // mapped as long as `self` lives.
        unsafe {
            self.memory.place::<Words>(0).as_ref()
        }
    }

    /// The next beat comes within so many milliseconds.
    pub fn beat(&self, within_ms: u64) {
        let due_ms = monotonic_ms() + within_ms;
        self.words().due_ms.store(due_ms, Ordering::Release);
    }

    /// No beat is expected from here on.
    pub fn rest(&self) {
        self.words().due_ms.store(0, Ordering::Release);
    }

    /// By how much a beat is late, milliseconds; `None`: it is not, or none is expected.
    pub fn late_ms(&self) -> Option<u64> {
        let due_ms = self.words().due_ms.load(Ordering::Acquire);
        let now_ms = monotonic_ms();
        (due_ms != 0 && now_ms > due_ms).then(|| now_ms - due_ms)
    }

    /// Notes that something was done because no beat came.
    pub fn note_missed(&self) {
        self.words().nr_missed.fetch_add(1, Ordering::AcqRel);
    }

    /// How often something was done because no beat came.
    pub fn nr_missed(&self) -> u64 {
        self.words().nr_missed.load(Ordering::Acquire)
    }
}

impl AsFd for Heartbeat {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_sees_a_beat_that_does_not_come() {
        let ours = Heartbeat::create().expect("made");
        let theirs = Heartbeat::open(ours.file.try_clone().expect("a copy")).expect("opened");
        assert_eq!(theirs.late_ms(), None, "none is expected yet");
        ours.beat(60_000);
        assert_eq!(theirs.late_ms(), None);
        ours.beat(0);
        while theirs.late_ms().is_none() {
            std::thread::yield_now();
        }
        ours.rest();
        assert_eq!(theirs.late_ms(), None);
        theirs.note_missed();
        assert_eq!(ours.nr_missed(), 1);
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let file = tempfile::tempfile().expect("a file");
        let refused = Heartbeat::open(file).expect_err("nothing is in it");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
