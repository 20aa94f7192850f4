//! What can go wrong with a group.

use std::io;
use std::path::{Path, PathBuf};

use crate::claim::Holder;
use crate::units::Bytes;

/// A process that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// Pid of the process.
    pub pid: i32,
    /// Name of the process, empty if it ended meanwhile.
    pub name: String,
}

/// A limit that is set on a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLimit {
    /// The group.
    pub group: PathBuf,
    /// The control file.
    pub file: &'static str,
    /// Value of the limit.
    pub value: String,
}

/// Why a group can't be made, changed, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// No memory controller is mounted.
    #[error(
        "no cgroup hierarchy with the memory controller is mounted; mount one \
         (`mount -t cgroup2 none /sys/fs/cgroup`) or use --no-cgroup"
    )]
    NoMemoryController,
    /// No ancestor can hand the memory controller to a new group.
    #[error(
        "no cgroup at or above {} can hand out the memory controller ({why}); {}, \
         have it delegated (`systemd-run --scope -p Delegate=yes ...`), or use --no-cgroup",
        own.display(),
        crate::rights::advice("the right to write there")
    )]
    NoDelegation {
        /// Our own group.
        own: PathBuf,
        /// Why the last one tried refused.
        why: String,
    },
    /// A group could only be made out of reach of a limit that Strata itself is under.
    #[error(
        "no group for the program can be made in {} ({why}), and one higher up would be out of reach of {} \
         ({}) of {group}; move the processes of {group} into a group below it (write each of them to \
         {group}/main/cgroup.procs; of a service of systemd: Delegate=yes, DelegateSubgroup=main) and start \
         Strata there, or use --no-cgroup",
        own.display(), limit.file, limit.value, group = limit.group.display()
    )]
    LeavesLimit {
        /// Our own group.
        own: PathBuf,
        /// Why none can be made there.
        why: String,
        /// What would be left behind.
        limit: FoundLimit,
    },
    /// Our own group can't be seen, so nobody knows which limits hold for us.
    #[error(
        "the cgroup that Strata runs in lies outside what is mounted on {}, so a group for the program could \
         be out of reach of its limits; mount the whole hierarchy, or use --no-cgroup",
        point.display()
    )]
    OutsideMount {
        /// The mount.
        point: PathBuf,
    },
    /// The path given is not a memory cgroup.
    #[error(
        "{} is not a memory cgroup ({why}); give the directory below the cgroup mount, or its path \
         relative to the mount",
        path.display()
    )]
    NotAGroup {
        /// The path.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Strata would be under the limit that it is to give way at.
    #[error(
        "Strata itself runs in {group}, or in a group below it: at the limit it would wait with the program instead of giving \
         way. Start it from outside: from a shell on the host, by `systemd-run --scope strata run ...`, or, from the shell at \
         hand, after leaving the group: `echo $$ > {above}/cgroup.procs` (on cgroup v2 a group without controllers of its own)",
        group = .0.display(), above = .0.parent().unwrap_or(.0).display()
    )]
    OwnGroup(PathBuf),
    /// The name would leave the directory.
    #[error("{0:?} can't be used in a group's name; use letters, digits, '-', '_' and '.'")]
    BadName(String),
    /// Another session acts on the group, or on a group above or below it.
    #[error(
        "cgroup {} can't have a budget of its own now: {holder}; two budgets would undo each other",
        path.display()
    )]
    Held {
        /// The group.
        path: PathBuf,
        /// Who does.
        holder: Holder,
    },
    /// A journal names it, but no journal of ours can.
    #[error(
        "{} is no group of ours and no control file of a group or of sysfs, so nothing was done to it",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// The group was deleted under us.
    #[error("cgroup {} is gone", .0.display())]
    Gone(PathBuf),
    /// A limit below what is in use would make the kernel reclaim or kill at once.
    #[error(
        "a limit of {} for cgroup {} is below the {} it uses now; give at least that, or have it reclaimed first",
        Bytes(*limit_bytes), path.display(), Bytes(*usage_bytes)
    )]
    LimitBelowUsage {
        /// The group.
        path: PathBuf,
        /// What was asked for.
        limit_bytes: u64,
        /// What is in use.
        usage_bytes: u64,
    },
    /// Usage could not be brought down to a limit.
    #[error(
        "cgroup {} uses {} and can't be brought down to {}: {why}; give a larger budget, or swap for what has no file (--swap)",
        path.display(), Bytes(*usage_bytes), Bytes(*limit_bytes)
    )]
    NotLowered {
        /// The group.
        path: PathBuf,
        /// What was asked for.
        limit_bytes: u64,
        /// What is in use.
        usage_bytes: u64,
        /// What the kernel answered at last.
        why: String,
    },
    /// Processes are left in a group that should go.
    #[error(
        "cgroup {} can't be removed: still in it {}; it goes when they have ended",
        path.display(), list_occupants(occupants)
    )]
    StillInhabited {
        /// The group.
        path: PathBuf,
        /// Who is in the group; empty if only child groups or dying charges are.
        occupants: Vec<Occupant>,
    },
    /// The version of cgroups here has no such control.
    #[error("cgroup {} has no {file}: {why}", path.display())]
    NotOffered {
        /// The group.
        path: PathBuf,
        /// The control file.
        file: &'static str,
        /// What would offer the setting.
        why: &'static str,
    },
    /// systemd did not make the scope.
    #[error("systemd did not make {unit}: {why}; try without it (by hand)")]
    Systemd {
        /// The scope.
        unit: String,
        /// What went wrong.
        why: String,
    },
    /// The journal could not be written, so the change was not made.
    #[error("the change of cgroup {} could not be recorded, so it was not made: {source}", path.display())]
    Journal {
        /// The group.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("{what} {} failed: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl CgroupError {
    /// Turns an errno into our words: a deleted group answers ENODEV on open files and ENOENT on paths.
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> CgroupError {
        let gone = matches!(source.raw_os_error(), Some(libc::ENODEV))
            || (source.kind() == io::ErrorKind::NotFound
                && path.parent().is_some_and(|group| !group.exists()));
        if gone {
            return CgroupError::Gone(path.parent().unwrap_or(path).to_owned());
        }
        CgroupError::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }
}

fn list_occupants(occupants: &[Occupant]) -> String {
    const SHOWN: usize = 8;
    if occupants.is_empty() {
        return "child groups or charges".to_owned();
    }
    let mut text = occupants
        .iter()
        .take(SHOWN)
        .map(|occupant| format!("{} ({})", occupant.pid, occupant.name))
        .collect::<Vec<_>>()
        .join(", ");
    if occupants.len() > SHOWN {
        text += &format!(" and {} more", occupants.len() - SHOWN);
    }
    text
}

/// Why the kernel did not reclaim.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReclaimError {
    /// The kernel found nothing it could take: back off.
    #[error("nothing reclaimable in cgroup {}", .0.display())]
    NothingReclaimable(PathBuf),
    /// The kernel can't be told to leave anonymous memory (before 6.9, and on cgroup v1).
    #[error("the kernel can't be asked for files of cgroup {} alone", .0.display())]
    NotByKind(PathBuf),
    /// The programs allocate or pull back as fast as the kernel reclaims (cgroup v1 only): pages did
    /// go, but usage did not come down.
    #[error("cgroup {} fills up as fast as it is reclaimed", .0.display())]
    Outpaced(PathBuf),
    /// No swap slot is free and too few file pages are left (cgroup v1 only).
    #[error("swap is full and cgroup {} holds too few file pages to reclaim", .0.display())]
    SwapFull(PathBuf),
    /// Tasks wait for memory at the limit; a dip would only hurt them (cgroup v1 only).
    #[error("cgroup {} is out of memory: raise its limit, don't reclaim ahead", .0.display())]
    UnderOom(PathBuf),
    /// Usage is one step below the budget or lower already (cgroup v1 only).
    #[error("cgroup {} is at its floor, one step below the budget", .0.display())]
    AtFloor(PathBuf),
    /// A dip needs to know how low it may go (cgroup v1 only).
    #[error("cgroup {} has no budget, so it can't be reclaimed from ahead on cgroup v1", .0.display())]
    NoBudget(PathBuf),
    /// The group itself failed.
    #[error(transparent)]
    Group(#[from] CgroupError),
}
