//! Ending all processes of a group: `cgroup.kill` (v2), or SIGKILL to each.
//!
//! **Owns** the two ways. **Does not own** who is ended, and when: nobody is unless a rule asks for it.
//!
//! **Invariants** I1: neither Strata nor pid 1 is ended, nor a process that is not in the group any more.

use rustix::process::Signal;

use super::file::write_text;
use super::freeze::{HaltError, spared};
use super::reader::GroupReader;
use crate::process::Process;

/// Ends everybody in a group and in those below, after `tell` was told how many there are.
///
/// # Errors
/// [`HaltError`]: the group is one to spare, or gone.
pub fn kill(group: &GroupReader, tell: impl FnOnce(usize)) -> Result<(), HaltError> {
    let pids = spared(group)?;
    tell(pids.len());
    let file = group.path().join("cgroup.kill");
    if file.exists() {
        return Ok(write_text(&file, "1")?);
    }
    let handles: Vec<Process> = pids
        .iter()
        .filter_map(|pid| Process::open(*pid).ok())
        .collect();
    // A number that went to another process meanwhile is not in the group.
    let there = spared(group)?;
    let still = handles
        .iter()
        .filter(|process| there.contains(&process.pid()));
    for process in still {
        // Whoever has ended meanwhile is fine.
        let _is_there = process.signal(Signal::KILL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::mounts::Mount;
    use strata_lru::machine::CgroupVersion;

    #[test]
    fn that_a_group_is_ended_is_told_before_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("cgroup.kill");
        std::fs::write(&file, "").expect("written");
        std::fs::write(file.with_file_name("cgroup.procs"), "2147483646\n").expect("written");
        let mount = Mount {
            version: CgroupVersion::V2,
            point: directory.path().to_owned(),
            root: "/".into(),
        };
        let written = || std::fs::read_to_string(&file).expect("read");
        let group = GroupReader::at(&mount, directory.path().to_owned());
        let mut told = None;
        kill(&group, |nr_processes| {
            told = Some((nr_processes, written()))
        })
        .expect("killed");
        assert_eq!(
            (told, written()),
            (Some((1, String::new())), "1".to_owned())
        );
    }
}
