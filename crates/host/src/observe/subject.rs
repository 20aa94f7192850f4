//! Who is looked at: one process, a process with its descendants, or a cgroup.
//!
//! **Owns** finding a subject's members again and again. **Does not own** following fork, exec and
//! exit (`process`).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use strata_linux::access::AccessError;
use strata_linux::cgroup::{CgroupError, GroupReader};
use strata_linux::process::{Process, ProcessError, ProcessTree, TreeChange};

/// Who is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One process and its threads.
    Process(i32),
    /// A process and its descendants, also those to come.
    Tree(i32),
    /// Every process in a cgroup and in the groups below; a path as [`GroupReader::open`] takes it.
    Cgroup(PathBuf),
    /// Certain processes; who they are is told anew before a walk ([`super::Observer::set_processes`]).
    Processes(Vec<i32>),
}

/// Why somebody can't be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubjectError {
    /// No such process, a kernel thread, a thread, or somebody else's.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No such group.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// No source of accesses works.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The mounts tell tmpfs files from others.
    #[error("reading the mounts failed: {0}; is /proc mounted?")]
    Mounts(#[source] io::Error),
    /// No thread.
    #[error("starting the thread that walks failed: {0}")]
    Thread(#[source] io::Error),
    /// The list of processes.
    #[error("the list of processes can't be read: {0}; is /proc mounted?")]
    List(#[source] io::Error),
}

impl SubjectError {
    /// 2 where the wrong thing was asked for, 125 where Strata or the machine can't.
    pub fn exit_status(&self) -> u8 {
        match self {
            SubjectError::Process(ProcessError::Io { .. })
            | SubjectError::Access(_)
            | SubjectError::Mounts(_)
            | SubjectError::Thread(_)
            | SubjectError::List(_) => 125,
            SubjectError::Process(_) | SubjectError::Cgroup(_) => 2,
        }
    }
}

/// Process id of Strata.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The members of a subject.
#[derive(Debug)]
pub(super) struct Members {
    tree: ProcessTree,
    listing: Listing,
    example_pid: i32,
}

#[derive(Debug)]
enum Listing {
    One(Arc<Process>),
    Descendants,
    Given(Vec<i32>),
    Group { group: GroupReader, is_gone: bool },
}

impl Members {
    pub(super) fn open(subject: &Subject) -> Result<Members, SubjectError> {
        let (tree, listing, example_pid) = match subject {
            Subject::Process(pid) => {
                let process = Arc::new(Process::open(*pid)?);
                (ProcessTree::of_list(), Listing::One(process), *pid)
            }
            Subject::Tree(pid) => {
                let root = Arc::new(Process::open(*pid)?);
                (ProcessTree::new(root), Listing::Descendants, *pid)
            }
            Subject::Processes(pids) => {
                let example = pids.first().copied().unwrap_or_else(own_pid);
                (
                    ProcessTree::of_list(),
                    Listing::Given(pids.clone()),
                    example,
                )
            }
            Subject::Cgroup(path) => {
                let group = GroupReader::open(path)?;
                let example = group.processes()?.into_iter().find(|pid| *pid > 0);
                let listing = Listing::Group {
                    group,
                    is_gone: false,
                };
                let example = example.unwrap_or_else(own_pid);
                (ProcessTree::of_list(), listing, example)
            }
        };
        Ok(Members {
            tree,
            listing,
            example_pid,
        })
    }

    /// A process with its descendants; or, `is_listed`, certain processes, who are told before a walk. Their mounts are those of
    /// `example_pid`.
    pub(super) fn of(root: Option<Arc<Process>>, is_listed: bool, example_pid: i32) -> Members {
        Members {
            tree: root.map_or_else(ProcessTree::of_list, ProcessTree::new),
            listing: match is_listed {
                true => Listing::Given(Vec::new()),
                false => Listing::Descendants,
            },
            example_pid,
        }
    }

    /// The processes as last refreshed.
    pub(super) fn tree(&self) -> &ProcessTree {
        &self.tree
    }

    /// A process whose mounts are those of the subject.
    pub(super) fn example_pid(&self) -> i32 {
        self.example_pid
    }

    /// From the next refresh on these are the members, where they are given.
    pub(super) fn give(&mut self, pids: &[i32]) {
        if let Listing::Given(given) = &mut self.listing {
            pids.clone_into(given);
        }
    }

    pub(super) fn refresh(&mut self) -> Result<TreeChange, SubjectError> {
        let listed = match &mut self.listing {
            Listing::One(process) if process.is_alive() => Some(vec![process.pid()]),
            Listing::One(_) => Some(Vec::new()),
            Listing::Descendants => None,
            Listing::Given(pids) => Some(pids.clone()),
            Listing::Group { group, is_gone } => match group.processes() {
                Ok(pids) => Some(pids),
                Err(CgroupError::Gone(_)) => {
                    *is_gone = true;
                    Some(Vec::new())
                }
                Err(error) => return Err(error.into()),
            },
        };
        self.tree
            .refresh(listed.as_deref())
            .map_err(SubjectError::List)
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.listing {
            Listing::One(process) => !process.is_alive(),
            Listing::Descendants => self.tree.is_empty(),
            Listing::Given(pids) => pids.is_empty(),
            // An empty group may fill again; one that was removed does not come back.
            Listing::Group { is_gone, .. } => *is_gone,
        }
    }
}
