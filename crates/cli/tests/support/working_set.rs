//! `working_set`, the workload that says which of its memory it uses, and the truth it tells.
//!
//! **Owns** reading what it said: which units were used in which span of time. **Does not own** what
//! it does (`tests/programs/working_set.c`).

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

use super::programs::program;

/// The program, running. Ended when dropped.
#[derive(Debug)]
pub(crate) struct WorkingSet {
    child: Child,
    lines: Receiver<String>,
    /// Its process.
    pub(crate) pid: i32,
    /// First byte of its region.
    pub(crate) address: u64,
    /// Bytes of the region.
    pub(crate) size_bytes: u64,
    /// Bytes of a page.
    pub(crate) unit_bytes: u64,
}

/// What it did: a round of accesses an entry.
#[derive(Debug)]
pub(crate) struct Truth {
    unit_bytes: u64,
    nr_units: u64,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    /// When it had ended; seconds of `CLOCK_MONOTONIC`.
    at_s: f64,
    /// Units used, by their number in the program's order.
    first: u64,
    end: u64,
}

/// Seconds of `CLOCK_MONOTONIC`, the program's clock.
pub(crate) fn monotonic_s() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

impl WorkingSet {
    /// Starts it and waits until its region is in memory; `Err` says why it can't run here.
    pub(crate) fn start(options: &[&str]) -> Result<WorkingSet, String> {
        let mut child = Command::new(program("working_set"))
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("working_set starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("readable");
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            let status = child.wait().expect("wait");
            assert_eq!(status.code(), Some(3), "working_set {options:?}");
            return Err("the kernel gives this program no huge pages".to_owned());
        };
        let number = |name: &str| ready[name].as_u64().expect("a number");
        Ok(WorkingSet {
            pid: child.id() as i32,
            address: number("address"),
            size_bytes: number("size"),
            unit_bytes: number("unit"),
            lines: collect(stdout),
            child,
        })
    }

    /// Ends it and tells what it did.
    pub(crate) fn finish(mut self) -> Truth {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
        let round = |line: String| {
            // The last one may be torn.
            let round: Value = serde_json::from_str(&line).ok()?;
            Some(Round {
                at_s: round["at"].as_f64()?,
                first: round["first"].as_u64()?,
                end: round["end"].as_u64()?,
            })
        };
        Truth {
            unit_bytes: self.unit_bytes,
            nr_units: self.size_bytes / self.unit_bytes,
            rounds: self.lines.iter().filter_map(round).collect(),
        }
    }
}

impl Drop for WorkingSet {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stdout: BufReader<ChildStdout>) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

impl Truth {
    /// When each unit was last used before `end_s`, by its number in the program's order.
    pub(crate) fn last_used_s(&self, end_s: f64) -> Vec<Option<f64>> {
        let mut last = vec![None; self.nr_units as usize];
        for round in self.rounds.iter().filter(|round| round.at_s <= end_s) {
            last[round.first as usize..round.end as usize].fill(Some(round.at_s));
        }
        last
    }

    /// Bytes used within `window_s` before `end_s`.
    pub(crate) fn used_bytes(&self, end_s: f64, window_s: f64) -> u64 {
        let last = self.last_used_s(end_s);
        let is_used = |last: &&Option<f64>| last.is_some_and(|at_s| at_s > end_s - window_s);
        last.iter().filter(is_used).count() as u64 * self.unit_bytes
    }
}
