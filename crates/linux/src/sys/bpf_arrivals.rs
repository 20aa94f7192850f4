//! Page cache as it comes to memory: the ring that the census program writes to, `bpf/census_arrivals.h`.
//!
//! **Owns** the hook in the kernel and reading the ring out. **Does not own** loading (`bpf_census`), nor what arrivals mean
//! (`access::census`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder, libbpf_sys};

use super::bpf::to_io;

/// Bytes of the ring where arrivals are watched: a power of two, room for 70,000 of them.
pub(super) const RING_BYTES: u32 = 4 << 20;

/// `struct census_arrival`, a folio that came: its mapping, inode, device and generation, the first page and their number.
pub(crate) type ArrivalWords = [u64; 6];

/// The hook, and what it has told.
#[derive(Debug)]
pub(crate) struct ArrivalLog {
    ring: RingBuffer<'static>,
    found: Arc<Mutex<Vec<ArrivalWords>>>,
    lost: MapHandle,
    /// The kernel calls the program as long as this is open.
    _hook: OwnedFd,
}

impl ArrivalLog {
    /// Has the kernel call the program for each folio of page cache that comes to memory.
    pub(super) fn start(
        program: &OwnedFd,
        ring: &MapHandle,
        lost: &MapHandle,
    ) -> io::Result<ArrivalLog> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&found);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(ring, move |bytes| {
                if let Some(arrival) = words_of(bytes) {
                    into.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(arrival);
                }
                0
            })
            .map_err(to_io)?;
        let ring = builder.build().map_err(to_io)?;
        #[expect(unsafe_code, reason = "system call by way of libbpf")]
        // SAFETY: the program is open for as long as the call lasts, and its type names the place, so no name is given.
        let hook = unsafe { libbpf_sys::bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
        if hook < 0 {
            return Err(io::Error::from_raw_os_error(-hook));
        }
        #[expect(unsafe_code, reason = "a descriptor from libbpf")]
        // SAFETY: the call has just made this descriptor, and nobody else has it.
        let hook = unsafe { OwnedFd::from_raw_fd(hook) };
        Ok(ArrivalLog {
            ring,
            found,
            lost: MapHandle::try_from(lost).map_err(to_io)?,
            _hook: hook,
        })
    }

    /// What has come since the last time, in the order in which it came.
    pub(crate) fn take(&self) -> io::Result<Vec<ArrivalWords>> {
        self.ring.consume().map_err(to_io)?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *found))
    }

    /// Arrivals that found no room in the ring, since the start.
    pub(crate) fn nr_lost(&self) -> io::Result<u64> {
        let found = self.lost.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(to_io)?.unwrap_or_default();
        Ok(found.try_into().map_or(0, u64::from_ne_bytes))
    }
}

fn words_of(bytes: &[u8]) -> Option<ArrivalWords> {
    let (words, _) = bytes.as_chunks::<8>();
    let words: [[u8; 8]; 6] = words.try_into().ok()?;
    Some(words.map(u64::from_ne_bytes))
}
