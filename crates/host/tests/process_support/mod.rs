//! What the live tests of processes and pageout share: the obedient C program, and skipping loudly.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

pub(crate) use crate::support::{patience, wait_until};
use crate::support::{programs, skip};

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Names the compiled guest to a test that runs as somebody who can't reach the checkout.
const GUEST_VARIABLE: &str = "STRATA_TEST_GUEST";

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The obedient program, compiled when first asked for.
pub(crate) fn guest_program() -> PathBuf {
    std::env::var_os(GUEST_VARIABLE)
        .map_or_else(|| programs::program("process_guest"), PathBuf::from)
}

/// A running `process_guest`; ends with the value.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Guest {
    pub(crate) fn start() -> Guest {
        let mut child = Command::new(guest_program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut guest = Guest {
            child,
            stdin,
            stdout,
        };
        assert_eq!(guest.answer(), "ready");
        guest
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn send(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(!line.starts_with("error"), "{line}");
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    pub(crate) fn ask_addr(&mut self, command: &str) -> u64 {
        u64::from_str_radix(&self.ask(command), 16).unwrap()
    }

    pub(crate) fn ask_number(&mut self, command: &str) -> i64 {
        self.ask(command).parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Already ended is fine.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Runs the calling test (`module::name`) again as user nobody, from a copy of the test binary that it can reach.
pub(crate) fn again_as_nobody(test: &str) {
    let dir = tempfile::Builder::new()
        .prefix("strata-test-")
        .tempdir()
        .unwrap();
    let exe = dir.path().join("as-nobody");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let guest = dir.path().join("guest");
    std::fs::copy(guest_program(), &guest).unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(&exe);
    command
        .args(["--exact", test])
        .current_dir("/")
        .env_remove("STRATA_SKIP_LOG")
        .env(GUEST_VARIABLE, &guest)
        .uid(65534);
    match command.output() {
        Ok(output) => assert_one_passed(&output),
        Err(error) => skip::record(test, &format!("can't run as nobody: {error}")),
    }
}

/// Whether a test binary that was to run one test ran it, with success: told a wrong name it runs none, with success too.
pub(crate) fn assert_one_passed(output: &std::process::Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let is_one = output.status.success() && stdout.contains("test result: ok. 1 passed");
    assert!(is_one, "{output:?}");
}
