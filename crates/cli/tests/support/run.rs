//! A `strata run` with a run directory of its own, which is asked and changed meanwhile.
//!
//! **Owns** [`Run`]. **Does not own** any expectation but that what is asked is answered.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use super::leaks::assert_undone;
use super::live::Live;
use super::programs::program;
use super::strata::{Finished, Strata};

/// The run and where it keeps its state.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) live: Live,
    pub(crate) run_dir: TempDir,
}

impl Run {
    /// `strata run OPTIONS -- touch`, once that has its memory.
    pub(crate) fn start(options: &[&str], size: &str) -> Run {
        let run = Run::start_program(options, &["touch", "--size", size]);
        let line = run.live.line();
        assert!(line.starts_with("ready "), "{line}");
        run
    }

    /// The same with another program and its options, of which nothing is expected.
    pub(crate) fn start_program(options: &[&str], words: &[&str]) -> Run {
        let run_dir = tempfile::tempdir().expect("directory");
        let strata = Strata::new(["run"]).args(options).arg("--");
        let strata = strata.arg(program(words[0])).args(&words[1..]);
        Run {
            live: Live::start(&strata.env("STRATA_RUN_DIR", run_dir.path())),
            run_dir,
        }
    }

    /// Has the program do something.
    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.live.stdin(), "{command}").expect("touch listens");
        let answer = self.live.line();
        assert!(answer.starts_with("ok"), "{command}: {answer}");
    }

    /// `strata ctl --format json ARGS`.
    pub(crate) fn ctl(&self, args: &[&str]) -> Finished {
        let ctl = Strata::new(["ctl", "--format", "json"]).args(args);
        ctl.env("STRATA_RUN_DIR", self.run_dir.path()).finish()
    }

    /// An answer that says yes.
    #[track_caller]
    pub(crate) fn ask(&self, args: &[&str]) -> Value {
        self.ctl(args).expect_success().json()
    }

    /// An answer that says no.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let said = self.ctl(args);
        assert_eq!(said.code(), Some(1), "{}{}", said.stdout, said.stderr);
        said.stderr
    }

    /// A number of its status, by a JSON pointer.
    #[track_caller]
    pub(crate) fn status(&self, pointer: &str) -> u64 {
        super::json::number_at(&self.ask(&["status"]), pointer)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        let id = self.live.pid().to_string();
        self.run_dir.path().join(id).join("control.sock")
    }

    /// Where a run with `--metrics` says that it answers.
    pub(crate) fn metrics_address(&self) -> String {
        self.live.wait_for_stderr("/metrics");
        let stderr = self.live.stderr();
        let address = stderr.split("http://").nth(1);
        let address = address.and_then(|rest| rest.split('/').next());
        address.expect("the address is told").to_owned()
    }

    /// Has the program end; its status is the run's, and nothing is left.
    #[track_caller]
    pub(crate) fn end(mut self) {
        writeln!(self.live.stdin(), "exit 7").expect("touch listens");
        assert_eq!(self.live.end().code(), Some(7), "{}", self.live.stderr());
        assert_undone(self.run_dir.path(), &self.live.stderr());
    }
}
