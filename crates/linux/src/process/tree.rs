//! Following the processes of a command, or of a cgroup, as they come and go.
//!
//! Two sources say who belongs to it. A cgroup's list is exact: give it to
//! [`ProcessTree::refresh`]. Without one, a refresh reads the parent of every process (one `stat`
//! each; `/proc/PID/task/TID/children` would be shorter, but many kernels lack it and it may miss
//! children of a running task) and takes the descendants of everybody already known. A process that
//! was known stays so when its parent dies; only one that appeared and lost its parent between two
//! refreshes escapes.
//!
//! **Owns** membership, and noticing `exec` (the old space ends, a new one appears, same pid) and
//! shared spaces (a `vfork` child is not walked as long as it runs in its parent's space).
//! **Does not own** the cgroup.
//!
//! **Invariants**
//! - I1: every space is yielded `appeared` once and `ended` once, never both in one refresh; `ended` first.
//! - I2: no two yielded processes share a space, where the kernel can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::handle::read_stat;
use super::{Process, ProcessError, Stat};

/// What a refresh found.
#[derive(Debug, Default)]
pub struct TreeChange {
    /// Spaces that are new, parents before children.
    pub appeared: Vec<Arc<Process>>,
    /// Spaces that are gone: the process ended, left the group, or replaced its space (`exec`).
    pub ended: Vec<Arc<Process>>,
    /// Members that can't be watched, each told once.
    pub refused: Vec<(i32, ProcessError)>,
}

impl TreeChange {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.ended.is_empty() && self.refused.is_empty()
    }
}

/// One process of the tree.
#[derive(Debug)]
struct Member {
    process: Arc<Process>,
    sharing: Sharing,
}

/// Whether a member's space is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// The member has a space of its own: yielded.
    Own,
    /// Yielded, but the kernel could not tell whether it was the parent's when it was opened.
    Unknown,
    /// The space of the member with this pid: not yielded.
    With(i32),
}

/// The processes of a command or group, by pid.
#[derive(Debug, Default)]
pub struct ProcessTree {
    members: BTreeMap<i32, Member>,
    /// Not watched, and already said.
    refused: BTreeSet<i32>,
    /// Given by the caller, not yet yielded.
    root: Option<Arc<Process>>,
}

impl ProcessTree {
    /// Follows this process and its descendants. The first refresh yields it.
    pub fn new(root: Arc<Process>) -> ProcessTree {
        ProcessTree {
            root: Some(root),
            ..ProcessTree::default()
        }
    }

    /// Follows whatever the list given to each [`ProcessTree::refresh`] names.
    pub fn of_list() -> ProcessTree {
        ProcessTree::default()
    }

    /// The spaces to walk, by pid.
    pub fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.members
            .values()
            .filter(|member| !matches!(member.sharing, Sharing::With(_)))
            .map(|member| &member.process)
    }

    /// The yielded process of this pid.
    pub fn get(&self, pid: i32) -> Option<&Arc<Process>> {
        let member = self.members.get(&pid)?;
        (!matches!(member.sharing, Sharing::With(_))).then_some(&member.process)
    }

    /// Whether nobody is left (as of the last refresh).
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.refused.is_empty() && self.root.is_none()
    }

    /// Number of processes, those in another's space and those that can't be watched included.
    pub fn nr_processes(&self) -> usize {
        self.members.len() + self.refused.len()
    }

    /// Looks again. `listed` is the content of the group's `cgroup.procs` where there is one; who is
    /// not in it is no member. `None` follows parents instead.
    pub fn refresh(&mut self, listed: Option<&[i32]>) -> io::Result<TreeChange> {
        let mut change = TreeChange::default();
        if let Some(root) = self.root.take() {
            let pid = root.pid();
            self.admit(pid, root, None, &mut change);
        }
        self.drop_ended(&mut change);
        match listed {
            Some(pids) => self.follow_list(pids, &mut change),
            None => self.follow_parents(&mut change)?,
        }
        self.settle_shared(&mut change);
        Ok(change)
    }

    /// Removes who has ended, and replaces who runs another program now.
    fn drop_ended(&mut self, change: &mut TreeChange) {
        let stale: Vec<i32> = self
            .members
            .iter()
            .filter(|(_, member)| {
                !member.process.is_space_current()
                    || (member.sharing == Sharing::Unknown && member.process.has_new_stack())
            })
            .map(|(pid, _)| *pid)
            .collect();
        for pid in stale {
            self.reopen(pid, change);
        }
    }

    /// Ends a member's space and opens the one it has now, if it lives.
    fn reopen(&mut self, pid: i32, change: &mut TreeChange) {
        let Some(old) = self.remove(pid, change) else {
            return;
        };
        if !old.is_alive() {
            return;
        }
        let opened = Process::open(pid);
        // The old handle decides whether the pid is still the same process.
        if old.is_alive() {
            self.take_in(pid, opened, None, change);
        }
    }

    /// Forgets a member. What was yielded is yielded as ended; what came with this very change is
    /// not yielded at all.
    fn remove(&mut self, pid: i32, change: &mut TreeChange) -> Option<Arc<Process>> {
        let Member { process, sharing } = self.members.remove(&pid)?;
        let is_it = |other: &Arc<Process>| Arc::ptr_eq(other, &process);
        if let Some(index) = change.appeared.iter().position(is_it) {
            change.appeared.remove(index);
        } else if !matches!(sharing, Sharing::With(_)) {
            change.ended.push(Arc::clone(&process));
        }
        Some(process)
    }

    fn follow_list(&mut self, pids: &[i32], change: &mut TreeChange) {
        let listed: BTreeSet<i32> = pids.iter().copied().collect();
        let left: Vec<i32> = self
            .members
            .keys()
            .filter(|pid| !listed.contains(pid))
            .copied()
            .collect();
        for pid in left {
            self.remove(pid, change);
        }
        self.refused.retain(|pid| listed.contains(pid));
        for pid in listed {
            if !self.members.contains_key(&pid) {
                self.take_in(pid, Process::open(pid), None, change);
            }
        }
    }

    fn follow_parents(&mut self, change: &mut TreeChange) -> io::Result<()> {
        let Parents {
            stats,
            mut children,
        } = read_parents()?;
        self.refused.retain(|pid| stats.contains_key(pid));
        let mut parents: Vec<i32> = self.members.keys().copied().collect();
        parents.extend(&self.refused);
        while let Some(parent) = parents.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                parents.push(child);
                if self.members.contains_key(&child) {
                    continue;
                }
                // A pid that was reused since the scan is somebody else's child.
                let start_ticks = stats.get(&child).map(|stat| stat.start_ticks);
                let opened = Process::open(child);
                let is_same = |process: &Process| Some(process.start_ticks()) == start_ticks;
                if opened.as_ref().map_or(true, is_same) {
                    self.take_in(child, opened, Some(parent), change);
                }
            }
        }
        Ok(())
    }

    /// Adds what was opened, or notes why not.
    fn take_in(
        &mut self,
        pid: i32,
        opened: Result<Process, ProcessError>,
        parent: Option<i32>,
        change: &mut TreeChange,
    ) {
        match opened {
            Ok(process) => {
                self.refused.remove(&pid);
                self.admit(pid, Arc::new(process), parent, change);
            }
            Err(error) if error.is_gone() => {
                self.refused.remove(&pid);
            }
            Err(error) => {
                if self.refused.insert(pid) {
                    change.refused.push((pid, error));
                }
            }
        }
    }

    fn admit(
        &mut self,
        pid: i32,
        process: Arc<Process>,
        parent: Option<i32>,
        change: &mut TreeChange,
    ) {
        let parent = parent.or_else(|| Some(process.stat().ok()?.ppid));
        let parent = parent.and_then(|parent| self.members.get(&parent));
        let sharing = parent.map_or(Sharing::Own, |parent| {
            match process.shares_space_with(&parent.process) {
                Some(true) => match parent.sharing {
                    Sharing::With(owner) => Sharing::With(owner),
                    Sharing::Own | Sharing::Unknown => Sharing::With(parent.process.pid()),
                },
                Some(false) => Sharing::Own,
                None => Sharing::Unknown,
            }
        });
        if !matches!(sharing, Sharing::With(_)) {
            change.appeared.push(Arc::clone(&process));
        }
        self.members.insert(pid, Member { process, sharing });
    }

    /// Looks at members that ran in another's space: are they on their own by now?
    fn settle_shared(&mut self, change: &mut TreeChange) {
        let sharing: Vec<(i32, i32)> = self
            .members
            .iter()
            .filter_map(|(pid, member)| match member.sharing {
                Sharing::With(owner) => Some((*pid, owner)),
                Sharing::Own | Sharing::Unknown => None,
            })
            .collect();
        for (pid, owner) in sharing {
            let is_shared = self.members.get(&owner).is_some_and(|owner| {
                let process = &self.members[&pid].process;
                process.shares_space_with(&owner.process) == Some(true)
            });
            if !is_shared {
                self.reopen(pid, change);
            }
        }
    }
}

/// Every process of the machine at one moment.
#[derive(Debug, Default)]
struct Parents {
    stats: BTreeMap<i32, Stat>,
    /// By the parent's pid.
    children: BTreeMap<i32, Vec<i32>>,
}

/// Reads the `stat` of every process.
fn read_parents() -> io::Result<Parents> {
    let mut parents = Parents::default();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Whoever ended since the listing has no stat.
        if let Ok(stat) = read_stat(pid) {
            parents.children.entry(stat.ppid).or_default().push(pid);
            parents.stats.insert(pid, stat);
        }
    }
    Ok(parents)
}
