//! Whether a thread of a process waits in the kernel with a lock of the address space in its hands, or for one.
//!
//! A page fault holds the lock of its mapping while the file system prepares the page (`page_mkwrite`), and may wait there
//! for long: a frozen file system, a server that is gone. Whoever then wants the address space to write (`mmap`, `mprotect`,
//! `clear_refs`) waits with the lock of the whole space held, and everybody else behind it. So such a process is asked for
//! nothing that takes one of these locks.
//!
//! A thread in state `D` counts, unless its kernel stack says that it waits for something else (a `read`, a lock of a file),
//! or that its fault has let go of the locks. Without the right to read the stack every thread in `D` counts.
//!
//! **Owns** reading that. **Does not own** what is left out then.
//!
//! **Limit**: what a thread does right after the look is not known.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use super::{Process, Stat};

/// A kernel stack with one of these words in a name belongs to a call that takes a lock of the address space.
const LOCKING: [&str; 9] = [
    "fault", "mmap", "munmap", "mprotect", "mremap", "madvise", "mlock", "vma", "brk",
];
/// Faults that have let go of the locks before they wait.
const UNLOCKED: [&str; 3] = ["filemap_fault", "folio_lock_or_retry", "handle_userfault"];

/// How often a process is looked at before it counts as stalled.
const NR_LOOKS: u32 = 5;
/// Before the second look; each next one comes after twice the time.
const PAUSE: Duration = Duration::from_millis(2);

/// The thread that waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "thread {tid} of process {pid} waits in the kernel ({}) and may hold a lock of the address space",
    function.as_deref().unwrap_or("a wait that can't be interrupted")
)]
pub struct Stalled {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The kernel function that it waits in; `None` where that may not be read.
    pub function: Option<String>,
}

impl From<Stalled> for io::Error {
    fn from(stalled: Stalled) -> io::Error {
        io::Error::new(io::ErrorKind::WouldBlock, stalled)
    }
}

impl Process {
    /// Whether the process may be asked for its memory. Waits for a short while until no thread stalls the address space: most
    /// such waits are over within milliseconds.
    ///
    /// # Errors
    /// A thread of it does still.
    pub fn ensure_settled(&self) -> Result<(), Stalled> {
        let mut pause = PAUSE;
        for _ in 1..NR_LOOKS {
            if self.stalled().is_none() {
                return Ok(());
            }
            thread::sleep(pause);
            pause *= 2;
        }
        self.stalled().map_or(Ok(()), Err)
    }

    /// The first of its threads that stalls the address space now; `None`: there is none. Takes no lock of the process.
    pub fn stalled(&self) -> Option<Stalled> {
        stalled(self.pid())
    }
}

/// As [`Process::stalled`], by pid.
pub fn stalled(pid: i32) -> Option<Stalled> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads.flatten().find_map(|thread| {
        let stat = fs::read(thread.path().join("stat")).ok()?;
        let stat = Stat::parse(&String::from_utf8_lossy(&stat))?;
        if stat.state != 'D' {
            return None;
        }
        let function = match fs::read_to_string(thread.path().join("stack")) {
            Ok(stack) => Some(locking_function(&stack)?.to_owned()),
            Err(_) => None,
        };
        let tid = thread.file_name().to_str()?.parse().ok()?;
        Some(Stalled { pid, tid, function })
    })
}

/// Where a thread with this stack waits, if a lock of the address space may be held meanwhile.
fn locking_function(stack: &str) -> Option<&str> {
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let start = line.find("] ").map_or(0, |at| at + 2);
        let end = line.find('+').unwrap_or(line.len());
        (start < end).then_some((start, end))
    };
    let mut names = stack
        .lines()
        .filter_map(|line| name(line).map(|(start, end)| &line[start..end]));
    let first = names.clone().next()?;
    let is_unlocked = names
        .clone()
        .any(|name| UNLOCKED.iter().any(|known| name.contains(known)));
    let is_locking = names.any(|name| LOCKING.iter().any(|word| name.contains(word)));
    (is_locking && !is_unlocked).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_fault_on_a_frozen_file_system_stalls_and_a_read_does_not() {
        let fault = "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] ext4_page_mkwrite+0x4ab/0x580\n\
                     [<0>] do_wp_page+0xff/0xf90\n[<0>] handle_mm_fault+0xd0/0x310\n\
                     [<0>] exc_page_fault+0x176/0x770\n";
        assert_eq!(locking_function(fault), Some("percpu_rwsem_wait"));
        let mprotect = "[<0>] __vma_start_write+0x1/0x2\n[<0>] do_mprotect_pkey+0x1/0x2\n";
        assert_eq!(locking_function(mprotect), Some("__vma_start_write"));
        let read = "[<0>] io_schedule+0x1/0x2\n[<0>] filemap_read+0x1/0x2\n[<0>] ext4_file_read_iter+0x1/0x2\n";
        assert_eq!(locking_function(read), None);
        let file_lock =
            "[<0>] rwsem_down_write_slowpath+0x1/0x2\n[<0>] ext4_buffered_write_iter+0x1/0x2\n";
        assert_eq!(locking_function(file_lock), None);
        let major = "[<0>] folio_wait_bit_common+0x1/0x2\n[<0>] filemap_fault+0x1/0x2\n[<0>] handle_mm_fault+0x1/0x2\n";
        assert_eq!(locking_function(major), None);
        assert_eq!(locking_function(""), None, "it runs again");
    }

    #[test]
    fn who_runs_is_not_stalled() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(stalled(own), None);
        assert_eq!(stalled(i32::MAX), None, "nobody");
    }
}
