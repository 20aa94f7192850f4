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
//! **Owns** the scope and its anchor. **Does not own** the budget group's controls.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::CgroupError;
use super::file::{read_text, write_text};
use super::mounts::Mount;
use crate::keeper::{Journal, Undo};

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
    /// Lets it end and waits for it.
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
    let child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("no process to put into it: {error}")))?;
    let anchor = Anchor(child);
    let pid = anchor.0.id();
    start_unit(&unit, pid).map_err(&failed)?;
    let scope = wait_until_inside(mount, &unit, pid as i32)?
        .ok_or_else(|| failed("the scope did not appear within 10 s".to_owned()))?;

    let anchor_group = scope.join("anchor");
    let path = scope.join(name);
    fs::create_dir(&anchor_group)
        .map_err(|source| CgroupError::io("making", &anchor_group, source))?;
    write_text(&anchor_group.join("cgroup.procs"), &pid.to_string())?;
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
    Ok((path, anchor))
}

/// Asks the manager (our own user's where we are not root) through `busctl`.
fn start_unit(unit: &str, pid: u32) -> Result<(), String> {
    let mut command = Command::new("busctl");
    if !rustix::process::geteuid().is_root() {
        command.arg("--user");
    }
    let pid = pid.to_string();
    let output = command
        .args([
            "call",
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            unit,
            "fail",
            "4",
        ])
        .args(["PIDs", "au", "1", &pid])
        .args(["Delegate", "b", "true"])
        .args(["CollectMode", "s", "inactive-or-failed"])
        .args(["Description", "s", "Memory budget held by Strata"])
        .arg("0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("busctl could not be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(match output.status.signal() {
        Some(signal) => format!("busctl died of signal {signal}"),
        None => said.trim().to_owned(),
    })
}

fn wait_until_inside(mount: &Mount, unit: &str, pid: i32) -> Result<Option<PathBuf>, CgroupError> {
    let deadline = Instant::now() + START_WAIT;
    while Instant::now() < deadline {
        if let Some(group) = mount.group_of(Some(pid))? {
            if group.file_name().is_some_and(|name| name == unit) {
                return Ok(Some(group));
            }
        }
        thread::sleep(START_POLL);
    }
    Ok(None)
}
