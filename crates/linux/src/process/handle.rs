//! A process held by its pidfd, its start time and its address space.
//!
//! A pid names whoever has it now; a pidfd names one process for good. An `exec` keeps both but
//! replaces the address space, and page addresses known before mean nothing after it. An open
//! `/proc/PID/pagemap` belongs to the space it was opened on, so that it tells: reading an odd
//! number of bytes from it fails with EINVAL while the space is in use and gives end of file once
//! nobody uses it any more (checked on 6.1, 6.12 and 6.18), without taking any lock of the process.
//!
//! **Owns** opening, identity and liveness, and reads by pid that are checked afterwards.
//! **Does not own** what the files say (`maps`, `stat`, `usage`).
//!
//! **Invariants**
//! - I1: as long as [`Process::is_alive`] the pid has not been reused, so a read by pid that is
//!   followed by that check was of this process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::descriptors::{self, Room};
use super::maps::{RawMapping, parse_maps};
use super::pagemap::PagemapEntry;
use super::stat::Stat;
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::ready::is_any_readable;
use crate::sys::process as sys;

/// Why a process can't be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No such pid, or it ended while it was being opened, or is a zombie.
    #[error("no process {pid}: it does not exist or has ended; check the pid with ps")]
    NotFound {
        /// The pid asked for.
        pid: i32,
    },
    /// A pid that can't exist.
    #[error("{pid} is not a pid: give a number above 0")]
    NotAPid {
        /// The number asked for.
        pid: i32,
    },
    /// The id of a thread.
    #[error("{pid} is a thread of process {leader}: give that pid, its threads share the memory")]
    IsThread {
        /// The id asked for.
        pid: i32,
        /// The process that the thread belongs to.
        leader: i32,
    },
    /// A kernel thread has no user memory.
    #[error("process {pid} ({comm}) is a kernel thread: it has no memory of its own to manage")]
    KernelThread {
        /// The pid asked for.
        pid: i32,
        /// Name of the thread.
        comm: String,
    },
    /// The kernel does not let us look at the process.
    #[error(
        "process {pid} ({comm}) can't be read: it belongs to user {uid} or has changed its \
         privileges; {}",
        crate::rights::ptrace_advice()
    )]
    NotPermitted {
        /// The pid asked for.
        pid: i32,
        /// Name of the process.
        comm: String,
        /// Owner of the process.
        uid: u32,
    },
    /// No descriptor is left to hold the process with.
    #[error(
        "some processes are not watched: no more than {limit} files may be open; raise the hard limit \
         that Strata is started with (ulimit -Hn, or LimitNOFILE= of its unit)"
    )]
    NoDescriptors {
        /// The limit on open files.
        limit: u64,
    },
    /// Something else failed.
    #[error("{what} of process {pid} failed: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The pid asked for.
        pid: i32,
        /// The reason.
        source: io::Error,
    },
}

impl ProcessError {
    /// Whether the process merely ended, which is normal while following a tree.
    pub fn is_gone(&self) -> bool {
        matches!(self, ProcessError::NotFound { .. })
    }
}

/// One address space, held so that a reused pid is never mistaken for it.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    pidfd: OwnedFd,
    /// Opened on the space; see the module text. `None` where descriptors are scarce: then the stack's
    /// place tells one program from the next.
    pagemap: Option<File>,
    start_ticks: u64,
    start_stack: u64,
    comm: String,
}

impl Process {
    /// Opens a process by its pid.
    pub fn open(pid: i32) -> Result<Process, ProcessError> {
        let raw_pid = Some(pid)
            .filter(|pid| *pid > 0)
            .and_then(Pid::from_raw)
            .ok_or(ProcessError::NotAPid { pid })?;
        let io = |what, source: io::Error| ProcessError::Io { what, pid, source };
        let pidfd = match pidfd_open(raw_pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::SRCH) => return Err(ProcessError::NotFound { pid }),
            Err(Errno::MFILE) => {
                let limit = descriptors::limit();
                return Err(ProcessError::NoDescriptors { limit });
            }
            // EINVAL before 6.15, ENOENT since: not the leader of its thread group.
            Err(Errno::INVAL | Errno::NOENT) => {
                return Err(match thread_group(pid) {
                    Some(leader) if leader != pid => ProcessError::IsThread { pid, leader },
                    _ => ProcessError::NotFound { pid },
                });
            }
            Err(errno) => return Err(io("opening a pidfd", errno.into())),
        };
        let limit = descriptors::limit();
        let room = descriptors::room(pidfd.as_raw_fd().unsigned_abs().into(), limit);
        if room == Room::Full {
            return Err(ProcessError::NoDescriptors { limit });
        }
        let gone_or = |what, source: io::Error| {
            if is_gone(&source) {
                ProcessError::NotFound { pid }
            } else {
                io(what, source)
            }
        };
        let stat = read_stat(pid).map_err(|error| gone_or("reading stat", error))?;
        if stat.is_kernel_thread {
            let comm = stat.comm;
            return Err(ProcessError::KernelThread { pid, comm });
        }
        let pagemap = match open_pagemap(pid) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let uid = std::fs::metadata(format!("/proc/{pid}"))
                    .map_err(|error| gone_or("looking up the owner", error))?
                    .uid();
                let comm = stat.comm;
                return Err(ProcessError::NotPermitted { pid, comm, uid });
            }
            Err(error) => return Err(gone_or("opening the page map", error)),
        };
        let process = Process {
            pid,
            pidfd,
            pagemap: (room == Room::Plenty).then_some(pagemap),
            start_ticks: stat.start_ticks,
            start_stack: stat.start_stack,
            comm: stat.comm,
        };
        // Everything above went by pid: it is of this process only if it still holds the pid.
        if process.is_alive() {
            Ok(process)
        } else {
            Err(ProcessError::NotFound { pid })
        }
    }

    /// The thread-group id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// A descriptor that names this process and no later one of the same pid.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Command name of the process when it was opened, at most 15 bytes.
    pub fn comm(&self) -> &str {
        &self.comm
    }

    /// When the process started, clock ticks (10 ms) after boot.
    pub fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Whether any of its threads lives. A dead leader with living threads is alive, a zombie is not.
    pub fn is_alive(&self) -> bool {
        is_any_readable(&[self.pidfd()], Duration::ZERO).is_ok_and(|has_ended| !has_ended)
    }

    /// Whether the address space it was opened on is still its own: false after `exec` and at the
    /// end. Cheap (two system calls, no lock of the process).
    pub fn is_space_current(&self) -> bool {
        if !self.is_alive() {
            return false;
        }
        let Some(pagemap) = &self.pagemap else {
            return !self.has_new_stack();
        };
        let mut odd = [0];
        // Something else than EINVAL or end of file can't be told apart from "still there".
        !matches!(pagemap.read_at(&mut odd, 0), Ok(0))
    }

    /// Whether another program runs in it now although the space it was opened on lives on: a
    /// `vfork` child that shared its parent's space until its `exec`. Costs a read of `stat`.
    pub fn has_new_stack(&self) -> bool {
        self.stat()
            // Zero: the leader has exited, or we may not see it.
            .is_ok_and(|stat| stat.start_stack != 0 && stat.start_stack != self.start_stack)
    }

    /// Whether the two processes share an address space, as a child of `vfork` shares its parent's until it calls `exec`. `None` where the kernel can't say (no `kcmp`).
    pub fn shares_space_with(&self, other: &Process) -> Option<bool> {
        sys::is_same_address_space(self.pid, other.pid).ok()
    }

    /// Sends a signal to the process, never to a later process of the same pid.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, signal)?)
    }

    /// CPU time of all its threads, ended ones included, nanoseconds. Unchanged between two calls
    /// means that it has not run in between.
    pub fn cpu_ns(&self) -> io::Result<u64> {
        let cpu_ns = sys::cpu_ns(self.pid)?;
        self.ensure_alive()?;
        Ok(cpu_ns)
    }

    /// `/proc/PID/stat` of the process.
    pub fn stat(&self) -> io::Result<Stat> {
        let stat = read_stat(self.pid)?;
        self.ensure_alive()?;
        Ok(stat)
    }

    /// Mappings of the process, sorted and disjoint. Where the leader has exited the first thread that still
    /// has a space is asked. Empty if it is ending.
    ///
    /// # Errors
    /// Also where a thread of it stalls the address space.
    pub fn read_maps(&self) -> io::Result<Vec<RawMapping>> {
        self.ensure_settled()?;
        let text = self.read_of_space("maps")?;
        parse_maps(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Reads the pagemap entries of `range` (cut to whole pages), one a page, into `entries`, which
    /// is cleared first. Ends early where user space ends.
    pub fn read_pagemap(
        &self,
        range: AddrRange,
        entries: &mut Vec<PagemapEntry>,
    ) -> io::Result<()> {
        entries.clear();
        let opened;
        let pagemap = match &self.pagemap {
            Some(pagemap) => pagemap,
            None => {
                opened = open_pagemap(self.pid)?;
                self.ensure_alive()?;
                &opened
            }
        };
        let first = range.start / PAGE_BYTES;
        let nr_pages = (range.end / PAGE_BYTES).saturating_sub(first);
        let mut bytes = [0u8; 4096];
        let mut done: u64 = 0;
        while done < nr_pages {
            let want = ((nr_pages - done) as usize).saturating_mul(8).min(4096);
            let got = pagemap.read_at(&mut bytes[..want], (first + done) * 8)?;
            if got < 8 {
                break;
            }
            let words = bytes[..got].chunks_exact(8);
            done += words.len() as u64;
            entries.extend(words.map(|word| {
                let mut le = [0; 8];
                le.copy_from_slice(word);
                PagemapEntry(u64::from_ne_bytes(le))
            }));
        }
        Ok(())
    }

    /// The `/proc` directory of its first thread that still has the address space: its own one unless
    /// the leader has exited.
    pub fn space_dir(&self) -> io::Result<PathBuf> {
        let (dir, _) = first_of_space(
            self.pid,
            |dir| Ok((dir.clone(), std::fs::read(dir.join("statm"))?)),
            // The total size comes first.
            |(_, sizes)| sizes.starts_with(b"0 "),
        )?;
        self.ensure_alive()?;
        Ok(dir)
    }

    /// Reads `/proc/PID/NAME`, for files that tell of the address space: `maps`, `smaps`,
    /// `smaps_rollup`, ... of the first thread that still has one.
    pub fn read_of_space(&self, name: &str) -> io::Result<Vec<u8>> {
        let text = first_of_space(self.pid, |dir| std::fs::read(dir.join(name)), Vec::is_empty)?;
        self.ensure_alive()?;
        Ok(text)
    }

    pub(super) fn ensure_alive(&self) -> io::Result<()> {
        if self.is_alive() {
            Ok(())
        } else {
            Err(Errno::SRCH.into())
        }
    }
}

/// Whether an error of `/proc` means that the process has ended.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Reads and parses `/proc/PID/stat`.
pub fn read_stat(pid: i32) -> io::Result<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat"))?;
    Stat::parse(&String::from_utf8_lossy(&text))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat in an unknown format"))
}

fn open_pagemap(pid: i32) -> io::Result<File> {
    // Before 6.15 opening succeeds although the leader has no space any more, and reads are empty.
    let has_no_space = |file: &File| matches!(file.read_at(&mut [0], 0), Ok(0));
    first_of_space(pid, |dir| File::open(dir.join("pagemap")), has_no_space)
}

/// Does `read` for the process and, if it finds nothing there (its leader has exited), for its
/// threads in turn.
pub(super) fn first_of_space<T>(
    pid: i32,
    read: impl Fn(&PathBuf) -> io::Result<T>,
    is_nothing: impl Fn(&T) -> bool,
) -> io::Result<T> {
    let first = read(&PathBuf::from(format!("/proc/{pid}")));
    match &first {
        Ok(found) if !is_nothing(found) => return first,
        Err(error) if !is_gone(error) => return first,
        _ => {}
    }
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return first;
    };
    for thread in threads.flatten() {
        if let Ok(found) = read(&thread.path())
            && !is_nothing(&found)
        {
            return Ok(found);
        }
    }
    first
}

/// The leader of the thread group that thread `tid` belongs to.
fn thread_group(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}
