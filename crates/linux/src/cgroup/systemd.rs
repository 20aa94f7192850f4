//! A group inside a transient scope of systemd.
//!
//! systemd owns the upper part of the v2 tree and moves or removes what it did not make, so where it
//! runs a group is asked from it: a scope with `Delegate=yes`, in which the tree is ours.
//!
//! ```text
//!   strata-<id>.scope/            systemd's; holds no process itself
//!     anchor/                     one `cat`, because a scope must never be empty
//!     strata-<id>/                the budget group
//! ```
//!
//! The anchor reads a pipe whose other end we hold: it ends when we do, and systemd takes the scope
//! down when the last process in it has ended. That is why there is nothing to undo here after a
//! crash.
//!
//! The scope is made in our own slice. A limit that is set on our own unit does not hold in it: then there is
//! no scope (see `place`).
//!
//! **Owns** the scope and its anchor. **Does not own** the budget group's controls.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::CgroupError;
use super::file::{read_text, write_text};
use super::mounts::Mount;
use super::place::{keep_pids_max, limit_left_behind};
use crate::undo::{Journal, Undo};
use strata_lru::machine::CgroupVersion as Version;

const START_WAIT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(10);

/// Whether systemd is the init here.
pub(super) fn is_running() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// The process that keeps a scope from being empty.
#[derive(Debug)]
pub(super) struct Anchor(Child);

impl Anchor {
    /// Lets the anchor end and waits for it.
    pub(super) fn release(&mut self) {
        drop(self.0.stdin.take());
        if let Err(error) = self.0.wait() {
            tracing::debug!("waiting for the anchor of a scope: {error}");
        }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        self.release();
    }
}

/// Makes the scope and the group inside.
pub(super) fn make_scope(
    mount: &Mount,
    name: &str,
    journal: &Journal,
) -> Result<(PathBuf, Anchor), CgroupError> {
    let unit = format!("{name}.scope");
    let failed = |why: String| CgroupError::Systemd {
        unit: unit.clone(),
        why,
    };
    if !is_running() {
        return Err(failed("systemd is not the init here".to_owned()));
    }
    if mount.version == Version::V1 {
        return Err(failed("memory is mounted as cgroup v1".to_owned()));
    }
    let child = start(&unit).map_err(|error| failed(format!("systemd-run: {error}")))?;
    let mut anchor = Anchor(child);
    let scope = wait_until_inside(mount, &unit, &mut anchor.0)?.map_err(&failed)?;
    let own = mount.group_of(None)?.unwrap_or_else(|| mount.point.clone());
    if let Some(limit) = limit_left_behind(&own, &scope) {
        return Err(failed(format!(
            "{} would be out of reach of {} ({}) of {}",
            scope.display(),
            limit.file,
            limit.value,
            limit.group.display()
        )));
    }

    let anchor_group = scope.join("anchor");
    let path = scope.join(name);
    fs::create_dir(&anchor_group)
        .map_err(|source| CgroupError::io("making", &anchor_group, source))?;
    let pid = anchor.0.id().to_string();
    write_text(&anchor_group.join("cgroup.procs"), &pid)?;
    let control = scope.join("cgroup.subtree_control");
    write_text(&control, "+memory")?;
    let offered = read_text(&scope.join("cgroup.controllers"))?;
    if offered.split_whitespace().any(|name| name == "pids") {
        write_text(&control, "+pids")?;
    }
    journal
        .record(&Undo::RemoveGroup { path: path.clone() })
        .map_err(|source| CgroupError::Journal {
            path: path.clone(),
            source,
        })?;
    fs::create_dir(&path).map_err(|source| CgroupError::io("making", &path, source))?;
    keep_pids_max(&own, &path);
    Ok((path, anchor))
}

/// `systemd-run --scope` asks the manager (our own user's where we are not root) and then becomes the
/// anchor, so that the anchor is our child.
fn start(unit: &str) -> std::io::Result<Child> {
    let mut command = Command::new("systemd-run");
    // Ours is the slice whose limits we are under; a user's manager has none of its own for a login session.
    command.arg(match rustix::process::geteuid().is_root() {
        true => "--slice-inherit",
        false => "--user",
    });
    command
        .args(["--scope", "--quiet", "--collect", "--property=Delegate=yes"])
        .arg(format!("--unit={unit}"))
        .arg("--description=Memory budget held by Strata")
        .args(["--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

fn wait_until_inside(
    mount: &Mount,
    unit: &str,
    child: &mut Child,
) -> Result<Result<PathBuf, String>, CgroupError> {
    let deadline = Instant::now() + START_WAIT;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            let mut said = String::new();
            if let Some(stderr) = &mut child.stderr {
                let _ = stderr.read_to_string(&mut said);
            }
            return Ok(Err(format!("systemd-run: {status}: {}", said.trim())));
        }
        let group = mount.group_of(Some(child.id() as i32))?;
        if let Some(group) = group
            && group.file_name().is_some_and(|name| name == unit)
        {
            return Ok(Ok(group));
        }
        thread::sleep(START_POLL);
    }
    Ok(Err("the scope did not appear within 10 s".to_owned()))
}
