//! What the live tests of groups, swap and keeper share.
#![allow(dead_code, unused_macros, reason = "a test binary uses a part of it")]

#[path = "../../../cli/tests/support/programs.rs"]
pub(crate) mod programs;
#[macro_use]
#[path = "../../../cli/tests/support/skip.rs"]
pub(crate) mod skip;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_strata-host-probe");

/// Why the tests that change the system can't run, if they can't.
pub(crate) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    strata_linux::cgroup::mounted_version()
        .err()
        .map(|error| error.to_string())
}

/// Returns from the test if it can't run here.
#[macro_export]
macro_rules! need_root_and_cgroup {
    () => {
        if let Some(reason) = $crate::support::obstacle() {
            $crate::skip!("{reason}");
        }
    };
}

/// What was made, or ends the test it stands in with the reason why there is none.
#[macro_export]
macro_rules! or_skip {
    ($made:expr) => {
        match $made {
            Ok(made) => made,
            Err(error) => $crate::skip!("{error}"),
        }
    };
}

/// A name no other test uses.
pub(crate) fn fresh_id(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{what}-{}-{next}", std::process::id())
}

/// By how much time limits are stretched: an emulated processor is slow.
pub(crate) fn patience() -> u32 {
    let patience = std::env::var("STRATA_TEST_PATIENCE").ok();
    patience.and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// Waits until `done`, at most 20 s.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20) * patience();
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program that holds memory in a group.
#[derive(Debug)]
pub(crate) struct Hog {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Hog {
    /// Starts it without waiting for its memory; `group` `None`: where we are.
    pub(crate) fn start(group: Option<&Path>, mib: u64) -> Hog {
        let procs = group.map_or_else(
            || "-".to_owned(),
            |group| group.join("cgroup.procs").display().to_string(),
        );
        let mut child = Command::new(PROBE)
            .args(["hog", &procs, &mib.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the probe runs");
        Hog {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    /// Starts it and waits until its memory is filled.
    pub(crate) fn filled(group: Option<&Path>, mib: u64) -> Hog {
        let mut hog = Hog::start(group, mib);
        assert_eq!(hog.answer().as_deref(), Some("ready"));
        hog
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("still open");
        writeln!(stdin, "{line}").expect("it reads");
    }

    /// Its next word; `None` if it has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.stdout.read_line(&mut line).unwrap_or(0);
        (count > 0).then(|| line.trim().to_owned())
    }

    pub(crate) fn ask(&mut self, line: &str) -> Option<String> {
        self.send(line);
        self.answer()
    }

    /// Lets it end.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.child.wait().expect("waited")
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
