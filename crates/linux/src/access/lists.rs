//! How many pages the kernel has on its inactive and active lists for the memory group of a process.
//!
//! `memory.stat` tells the same, but to read it changes what the kernel does: its counts are brought up to date,
//! and by them it decides whether pages have to come from the active list to the inactive one. To look here
//! changes nothing.
//!
//! **Owns** the reading. **Does not own** what follows from it (`strata_control::list_balance`).

use std::fs;
use std::io::{self, Read};
use strata_control::list_balance::KernelLists;

use super::{AccessError, probe};
use crate::process::Process;
use crate::rights;
use crate::sys::bpf::{self, IterProgram, Target};

/// Bytes of a `struct lists_record`.
const RECORD_BYTES: usize = 16;

/// The reader.
#[derive(Debug)]
pub struct ListsSource {
    counter: IterProgram,
}

impl ListsSource {
    /// Loads the program.
    pub fn open() -> Result<ListsSource, AccessError> {
        let unavailable = |why: String| AccessError::Unavailable {
            source_name: "the count of the kernel's lists",
            why,
            remedy: format!(
                "boot Linux 6.1 or newer with CONFIG_DEBUG_INFO_BTF; {}",
                rights::advice("CAP_BPF or CAP_PERFMON")
            ),
        };
        if !probe::has_bpf_capabilities() {
            return Err(unavailable(
                "CAP_BPF and CAP_PERFMON are missing".to_owned(),
            ));
        }
        let counter = bpf::load_lists_counter(nr_nodes())
            .map_err(|error| unavailable(format!("its program does not load: {error}")))?;
        Ok(ListsSource { counter })
    }

    /// The lists of the group that the first thread of this process is in, by itself, without groups below it.
    /// `None` if that thread has ended.
    pub fn read(&self, process: &Process) -> io::Result<Option<KernelLists>> {
        let mut pass = self
            .counter
            .attach(Target::Thread(process.pid()))?
            .iterate()?;
        let mut record = [0; RECORD_BYTES];
        match pass.read(&mut record)? {
            RECORD_BYTES => {
                let word = |index: usize| {
                    let bytes = record.as_chunks::<8>().0[index];
                    u64::from_ne_bytes(bytes)
                };
                Ok(Some(KernelLists {
                    nr_inactive_pages: word(0),
                    nr_active_pages: word(1),
                }))
            }
            _ => Ok(None),
        }
    }
}

/// Memory nodes that this machine can have.
fn nr_nodes() -> u32 {
    let possible = fs::read_to_string("/sys/devices/system/node/possible").unwrap_or_default();
    nr_nodes_of(&possible)
}

/// Of a list like `0-1,3`.
fn nr_nodes_of(possible: &str) -> u32 {
    let last = possible.trim().rsplit([',', '-']).next();
    last.and_then(|last| last.parse::<u32>().ok())
        .map_or(1, |last| last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_node_of_the_list_tells_how_many_there_may_be() {
        assert_eq!(nr_nodes_of("0\n"), 1);
        assert_eq!(nr_nodes_of("0-3\n"), 4);
        assert_eq!(nr_nodes_of("0-1,6\n"), 7);
        assert_eq!(nr_nodes_of(""), 1);
    }
}
