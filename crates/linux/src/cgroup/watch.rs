//! Being told instead of asking: out-of-memory and usage events as file descriptors to poll.
//!
//! **Owns** the eventfds of v1 (`cgroup.event_control`) and the inotify watch of v2
//! (`memory.events`). **Does not own** the reaction.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::inotify;

use super::file::{ControlFile, keyed_number, write_text};
use super::{BudgetGroup, CgroupError, Version};

/// What happened since the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomEvents {
    /// v1: tasks are waiting for memory right now; nothing moves until the limit is raised or the
    /// decision is handed back. v2: always false, the kernel decides.
    pub is_under_oom: bool,
    /// Kills for want of memory since the watch was made.
    pub nr_oom_kills: u64,
}

/// Readable (poll `IN`) when the group ran out of memory; then call [`OomWatch::take`].
#[derive(Debug)]
pub struct OomWatch {
    events: OwnedFd,
    state: ControlFile,
    kills_before: u64,
}

impl OomWatch {
    pub(super) fn new(group: &BudgetGroup) -> Result<OomWatch, CgroupError> {
        let here = group.here();
        let (events, state) = match group.version {
            Version::V1 => {
                let state = ControlFile::open_read(here.join("memory.oom_control"))?;
                (register_eventfd(&here, &state, "")?, state)
            }
            Version::V2 => {
                let state = ControlFile::open_read(here.join("memory.events"))?;
                (watch_file(&state.path)?, state)
            }
        };
        let mut watch = OomWatch {
            events,
            state,
            kills_before: 0,
        };
        watch.kills_before = watch.look()?.nr_oom_kills;
        Ok(watch)
    }

    /// Clears the event and tells the state now.
    ///
    /// # Errors
    /// [`CgroupError::Gone`] if the group was deleted.
    pub fn take(&mut self) -> Result<OomEvents, CgroupError> {
        drain(self.events.as_fd());
        self.look()
    }

    fn look(&self) -> Result<OomEvents, CgroupError> {
        let text = self.state.read()?;
        let number = |name| keyed_number(&text, name).unwrap_or(0);
        Ok(OomEvents {
            is_under_oom: number("under_oom") == 1,
            nr_oom_kills: number("oom_kill").saturating_sub(self.kills_before),
        })
    }
}

impl AsFd for OomWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// Readable (poll `IN`) when usage crossed a threshold, upwards or downwards (v1).
#[derive(Debug)]
pub struct UsageWatch {
    events: OwnedFd,
}

impl UsageWatch {
    /// Clears the event; whether there was one.
    pub fn take(&self) -> bool {
        drain(self.events.as_fd())
    }
}

impl AsFd for UsageWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

fn register_eventfd(
    group: &Path,
    file: &ControlFile,
    argument: &str,
) -> Result<OwnedFd, CgroupError> {
    let control = group.join("cgroup.event_control");
    let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|errno| CgroupError::io("making an eventfd for", &control, errno.into()))?;
    let command = format!(
        "{} {} {argument}",
        events.as_raw_fd(),
        file.file().as_raw_fd()
    );
    write_text(&control, &command)?;
    Ok(events)
}

fn watch_file(path: &Path) -> Result<OwnedFd, CgroupError> {
    let watched = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
        .and_then(|events| {
            inotify::add_watch(&events, path, inotify::WatchFlags::MODIFY)?;
            Ok(events)
        });
    watched.map_err(|errno| CgroupError::io("watching", path, io::Error::from(errno)))
}

impl BudgetGroup {
    /// An event when usage crosses `bytes` (v1), so that an idle loop need not ask. `None` on v2:
    /// poll usage at a pace that follows the distance to the budget.
    pub fn usage_watch(&self, bytes: u64) -> Result<Option<UsageWatch>, CgroupError> {
        match self.version {
            Version::V1 => Ok(Some(UsageWatch {
                events: register_eventfd(&self.here(), &self.usage, &bytes.to_string())?,
            })),
            Version::V2 => Ok(None),
        }
    }
}

/// Reads what is there. An eventfd is empty after one read, an inotify queue after a few.
fn drain(events: BorrowedFd<'_>) -> bool {
    let mut buffer = [0; 1024];
    let mut has_event = false;
    while rustix::io::read(events, &mut buffer).is_ok_and(|count| count > 0) {
        has_event = true;
    }
    has_event
}
