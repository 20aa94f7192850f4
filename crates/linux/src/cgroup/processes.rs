//! Who is in a group: the processes of it and of the groups below, those of threaded groups included.
//!
//! (v2) A threaded group holds threads of processes that belong to the group at the root of the threaded
//! part, its threaded domain: the list of processes in a threaded group can't be read, the domain's names
//! them all, and their memory is charged to the domain.
//!
//! **Owns** the reading of `cgroup.procs`, `cgroup.events` and `cgroup.type`. **Does not own** what is done
//! with the processes.
//!
//! **Invariants** I1: only a list (or a `populated`) that was read says that nobody is there; what can't be
//! read is an error.

use std::collections::HashSet;
use std::path::Path;

use super::error::CgroupError;
use super::file::{children, keyed_number, read_text};

/// The processes in a group and in all groups below it, each once; sorted.
///
/// # Errors
/// [`CgroupError::Gone`]; or a list can't be read.
pub fn processes_below(group: &Path) -> Result<Vec<i32>, CgroupError> {
    let mut pids = HashSet::new();
    let mut to_visit = vec![group.to_owned()];
    while let Some(directory) = to_visit.pop() {
        match read_text(&directory.join("cgroup.procs")) {
            Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
            // A child group that went in the meantime.
            Err(CgroupError::Gone(_)) if directory != group => continue,
            // A threaded group below: the list of its domain, which is `group` or below it, has them.
            Err(error) if directory != group && is_refused_as_threaded(&error) => {}
            Err(error) => return Err(error),
        }
        to_visit.extend(children(&directory));
    }
    // 0 stands for a process outside our pid namespace: nobody we could name, but somebody.
    let mut pids: Vec<i32> = pids.into_iter().collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Whether anybody is in a group or in one below it.
pub fn is_inhabited(group: &Path) -> Result<bool, CgroupError> {
    // v2 says so in a word, for threaded groups too; v1 and the root have no such file.
    let populated = match read_text(&group.join("cgroup.events")) {
        Ok(text) => keyed_number(&text, "populated"),
        Err(CgroupError::Gone(group)) => return Err(CgroupError::Gone(group)),
        Err(_) => None,
    };
    match populated {
        Some(number) => Ok(number != 0),
        None => processes_below(group).map(|pids| !pids.is_empty()),
    }
}

fn is_refused_as_threaded(error: &CgroupError) -> bool {
    matches!(error, CgroupError::Io { source, .. } if source.raw_os_error() == Some(libc::EOPNOTSUPP))
}

/// Whether each of `pids` is `ancestor` or descends from it. Who has ended meanwhile does not count.
pub(super) fn is_all_below(ancestor: i32, pids: &[i32]) -> bool {
    /// No real tree is deeper; a bound against a changing one.
    const DEPTH_MAX: usize = 1024;
    pids.iter().all(|&pid| {
        let mut at = pid;
        for _ in 0..DEPTH_MAX {
            if at == ancestor {
                return true;
            }
            match crate::run_dir::parent_of(at) {
                Some(parent) if parent > 0 => at = parent,
                Some(_) => return false,
                None => return at == pid && pid != 0,
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_process_descends_from_itself_and_its_parents_only() {
        let own = std::process::id() as i32;
        let parent = crate::run_dir::parent_of(own).expect("a parent");
        assert!(is_all_below(own, &[own]));
        assert!(is_all_below(parent, &[own, parent]));
        assert!(!is_all_below(own, &[own, parent]));
        assert!(!is_all_below(own, &[own, 1]));
    }

    /// A made-up group whose list says `procs`; `None`: it can't be read.
    fn group(parent: &Path, name: &str, procs: Option<&str>) -> std::path::PathBuf {
        let path = parent.join(name);
        fs::create_dir(&path).expect("made");
        match procs {
            Some(text) => fs::write(path.join("cgroup.procs"), text),
            // Reading a directory fails, and not because it is gone.
            None => fs::create_dir(path.join("cgroup.procs")),
        }
        .expect("made");
        path
    }

    #[test]
    fn only_a_list_that_was_read_says_that_nobody_is_there() {
        let root = tempfile::tempdir().expect("a directory");
        let empty = group(root.path(), "empty", Some(""));
        assert!(!is_inhabited(&empty).expect("read"));
        let unreadable = group(root.path(), "unreadable", None);
        assert!(is_inhabited(&unreadable).is_err() && processes_below(&unreadable).is_err());
        let _below = group(&empty, "below", Some("7\n"));
        assert!(is_inhabited(&empty).expect("read"));
        let gone = is_inhabited(&root.path().join("none"));
        assert!(matches!(gone, Err(CgroupError::Gone(_))), "{gone:?}");
    }

    #[test]
    fn where_the_kernel_says_whether_a_group_is_populated_no_list_is_needed() {
        let root = tempfile::tempdir().expect("a directory");
        let threaded = group(root.path(), "threaded", None);
        for (events, expected) in [
            ("populated 1\nfrozen 0\n", true),
            ("populated 0\nfrozen 0\n", false),
        ] {
            fs::write(threaded.join("cgroup.events"), events).expect("written");
            assert_eq!(is_inhabited(&threaded).expect("read"), expected);
        }
    }

    #[test]
    fn the_list_of_a_threaded_group_below_is_not_needed_and_any_other_is() {
        let threaded = CgroupError::Io {
            what: "reading",
            path: "/g/t/cgroup.procs".into(),
            source: std::io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        };
        let denied = CgroupError::Io {
            what: "reading",
            path: "/g/t/cgroup.procs".into(),
            source: std::io::Error::from_raw_os_error(libc::EACCES),
        };
        assert!(is_refused_as_threaded(&threaded) && !is_refused_as_threaded(&denied));
    }
}
