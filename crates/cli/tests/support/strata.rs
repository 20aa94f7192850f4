//! Running the tested binary: with a time limit, and with everything it said kept.
//!
//! **Owns** [`Strata`], a command line of `strata` to be run to its end, [`refused`], one that is to be refused, and what `strata doctor`
//! found out about this machine ([`missing`]). **Does not own** any expectation.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::json::parsed;

/// The path of the tested binary.
pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_strata")
}

/// How much longer everything may take: guests without hardware help are 10 to 30 times slower.
pub(crate) fn patience() -> u32 {
    std::env::var("STRATA_TEST_PATIENCE")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// A command line of `strata`, run to its end.
#[derive(Clone, Debug)]
pub(crate) struct Strata {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    time_limit: Duration,
}

impl Strata {
    /// Begins a command line.
    pub(crate) fn new<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Strata {
        let empty = Strata {
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            time_limit: Duration::from_secs(60),
        };
        empty.args(args)
    }

    /// A command line as it is typed, whose words have no blanks in them.
    pub(crate) fn line(words: &str) -> Strata {
        Strata::new(words.split_whitespace())
    }

    /// Adds an argument.
    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Strata {
        self.args([arg])
    }

    /// Adds arguments.
    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Strata {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Strata {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// What it reads on stdin (nothing by default).
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Strata {
        self.stdin = bytes.into();
        self
    }

    /// Fails the test if it takes longer, times [`patience`] (60 s by default).
    pub(crate) fn time_limit(mut self, limit: Duration) -> Strata {
        self.time_limit = limit;
        self
    }

    /// The command, for tests that drive it themselves.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.args(&self.args).envs(self.env.iter().cloned());
        command
    }

    /// Runs it to its end.
    pub(crate) fn finish(&self) -> Finished {
        let child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strata starts");
        finish(child, &self.stdin, self.time_limit * patience())
    }

    /// Runs it to its end with `--report FILE`, and reads the report. `verb` options come first, so
    /// this puts the two words right behind the first one (`run`).
    pub(crate) fn finish_with_report(mut self) -> (Finished, Value) {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let at = 1.min(self.args.len());
        self.args
            .splice(at..at, [OsString::from("--report"), file.path().into()]);
        let finished = self.finish();
        let text = std::fs::read_to_string(file.path()).expect("report");
        let report = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("report is not JSON ({e}): {text:?}\n{}", finished.stderr));
        (finished, report)
    }
}

/// What a command that has ended left.
#[derive(Debug)]
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Everything it wrote to stdout.
    pub(crate) stdout: String,
    /// Everything it wrote to stderr.
    pub(crate) stderr: String,
}

impl Finished {
    /// The exit status, `None` if a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Panics with all it said unless it ended with status 0.
    #[track_caller]
    pub(crate) fn expect_success(self) -> Finished {
        assert!(
            self.status.success(),
            "{}: {}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The one object that is all of stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        parsed(&self.stdout)
    }

    /// The objects among the lines of stdout that are JSON.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

/// Fails, and tells the whole text, where a part is not in it.
#[track_caller]
pub(crate) fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in: {text}");
}

/// The one message of a usage error, in which these arguments have to end.
#[track_caller]
pub(crate) fn refused(args: &[&str]) -> String {
    let said = Strata::new(args).finish();
    assert_eq!(said.code(), Some(2), "{args:?}: {}", said.stderr);
    assert_eq!(said.stdout, "", "{args:?}: nothing is data");
    let errors: Vec<&str> = said
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: ") || line.starts_with("strata: error: "))
        .collect();
    assert_eq!(
        errors.len(),
        1,
        "{args:?}: one message in:\n{}",
        said.stderr
    );
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
    said.stderr
}

/// Feeds a child, collects what it says, and ends it when it takes too long (then the test fails).
pub(crate) fn finish(mut child: Child, stdin: &[u8], time_limit: Duration) -> Finished {
    let start = Instant::now();
    let input = child.stdin.take().map(|mut pipe| {
        let bytes = stdin.to_vec();
        // A child that does not read its stdin is no error.
        thread::spawn(move || drop(pipe.write_all(&bytes)))
    });
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let mut late = false;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if start.elapsed() > time_limit {
            late = true;
            child.kill().expect("kill");
        }
        thread::sleep(Duration::from_millis(5));
    };
    // Past its end a grandchild may keep the pipes; the test then waits for it too, which is right:
    // a wrapper must not leave anybody behind who still writes.
    let text = |handle: Option<thread::JoinHandle<Vec<u8>>>| {
        let bytes = handle.map_or_else(Vec::new, |h| h.join().expect("collector"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let finished = Finished {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    };
    if let Some(input) = input {
        input.join().expect("feeder");
    }
    assert!(
        !late,
        "still running after {time_limit:?}: {}\n{}",
        finished.stdout, finished.stderr
    );
    finished
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("pipe");
        bytes
    })
}

/// What `strata doctor --format json` says, asked once a test binary.
pub(crate) fn doctor() -> &'static Value {
    static ANSWER: OnceLock<Value> = OnceLock::new();
    ANSWER.get_or_init(|| {
        let said = Strata::new(["doctor", "--format", "json"]).finish();
        serde_json::from_str(&said.stdout)
            .unwrap_or_else(|e| panic!("doctor: {e}: {:?} {:?}", said.stdout, said.stderr))
    })
}

/// The first of the named requirements that this machine does not meet, as a sentence.
pub(crate) fn missing(names: &[&str]) -> Option<String> {
    let checks = doctor()["checks"]
        .as_array()
        .expect("doctor lists its checks");
    names.iter().find_map(|name| {
        let check = checks
            .iter()
            .find(|check| check["name"] == *name)
            .unwrap_or_else(|| panic!("doctor has no check called {name}"));
        (check["status"] != "ok").then(|| {
            format!(
                "needs {name}: {}",
                check["found"].as_str().unwrap_or("not found")
            )
        })
    })
}
