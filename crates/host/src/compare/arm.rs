//! One run of the command under one arm.
//!
//! Every arm is a `strata run` of its own, so that all have the same shape of group, the same swap and the same start; the
//! kernel's arm is one in which nobody but the kernel acts (`--policy none`). What is watched from here is watched in the same
//! way for each: usage every 100 ms, kernel threads and neighbours between the start and the end of the command.
//!
//! ```text
//!   started --session names the program--> under way --program ended--> clearing up --strata ended--> read
//!      |                                      |  usage every 100 ms
//!      +-- end asked for: TERM, then KILL ----+
//! ```
//!
//! **Owns** starting it, watching it, ending it when it is to be over, and reading its report. **Does not own** the order of
//! the runs (`compare`), nor what becomes of the figures (`summary`).
//!
//! **Invariants** I1: when this returns no process of the run is left, unless its program outlives the grace of
//! [`KILL_AFTER`]. I2: what was not seen is unknown.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::comparison::Outcome;
use super::disks;
use super::figures::Metric;
use super::kernel_threads::KernelThreads;
use super::neighbours::Neighbours;
use super::output::Output;
use super::report::RunReport;
use super::{Arm, ArmKind, CompareConfig, CompareError, Wanted, io_error};
use crate::keeper::look_at;
use strata_linux::cgroup::GroupReader;
use strata_linux::process::MachineMemory;
use strata_linux::process::launch::{Child, CommandSpec, InheritedSignals, spawn};
use strata_linux::ready::is_any_readable;
use strata_linux::run_dir::ProcessMark;

/// Time between two samples of usage.
const SAMPLE_PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks whether the program has started.
const START_PAUSE: Duration = Duration::from_millis(5);
/// A terminal's Ctrl-C has reached the program too; who has not ended after this is told so.
const TERM_AFTER: Duration = Duration::from_millis(300);
/// Who has not ended by then is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// A group is full once it has reached this share of its budget, or of its peak if that is lower.
const FULL_PERCENT: u128 = 95;
/// At each of so many samples it is looked whether the command is still in its group; then at every so manieth.
const LOOKS_IN_GROUP: u64 = 10;
/// What is warned of where it is not.
const LEFT_GROUP: &str = "the command left its cgroup: what it used there is not in these figures";
/// Lines of the output that a message quotes.
const QUOTED_LINES: usize = 5;

/// The program while it is under way.
#[derive(Debug)]
struct UnderWay {
    pid: i32,
    pidfd: OwnedFd,
    group: Option<GroupReader>,
    began: Instant,
    kernel_threads: Option<KernelThreads>,
    disk_read_bytes: Option<u64>,
    nr_iterations: Option<u64>,
    next_sample: Instant,
    nr_looks: u64,
}

/// What was seen from outside.
#[derive(Clone, Debug, Default)]
struct Seen {
    usage_bytes: Vec<u64>,
    kernel_threads_ms: Option<u64>,
    disk_read_bytes: Option<u64>,
    iterations_per_s: Option<f64>,
    has_left_group: bool,
}

/// Runs the command once, under a limit or budget of so many bytes (`None` without one). `None`: it was to be over before its
/// end.
pub(super) fn run_arm(
    config: &CompareConfig,
    arm: Arm,
    limit_bytes: Option<u64>,
    wanted: &dyn Fn() -> Wanted,
) -> Result<Option<Outcome>, CompareError> {
    // Without a name: nothing is left of it, whoever is killed.
    let mut report = tempfile::tempfile().map_err(io_error("making a file for the report"))?;
    let report_place = format!("/proc/{}/fd/{}", std::process::id(), report.as_raw_fd());
    let inherited = InheritedSignals::read().map_err(io_error("reading our signal settings"))?;
    let (from, to) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|errno| io_error("making a pipe")(errno.into()))?;
    // Of our end only: the program is to wait for a full pipe, not to see an error.
    fcntl_setfl(&from, OFlags::NONBLOCK)
        .map_err(|errno| io_error("making a pipe")(errno.into()))?;
    let neighbours =
        Neighbours::start(config.nr_neighbours).map_err(io_error("starting busy loops"))?;
    let mut spec = CommandSpec::new(
        &config.strata,
        words(config, arm.kind, limit_bytes, report_place.into())?,
    );
    spec.signals = inherited;
    spec.output = Some(to);
    let strata = spawn(spec).map_err(|source| CompareError::Launch { source })?;
    let mut watch = ArmWatch {
        strata,
        pipe: File::from(from),
        output: Output::new(config.throughput.as_ref(), config.operations.as_ref()),
        neighbours,
        program: None,
        seen: Seen::default(),
        told: None,
    };
    let status = watch.watch_until_end(wanted)?;
    if watch.told.is_some() || wanted() != Wanted::All {
        return Ok(None);
    }
    let mut text = String::new();
    report
        .rewind()
        .and_then(|()| report.read_to_string(&mut text))
        .map_err(io_error("reading the report"))?;
    let Some(report) = RunReport::parse(&text) else {
        return Err(CompareError::NoReport {
            arm,
            exit_status: status,
            said: last_words(&watch.output),
        });
    };
    Ok(Some(watch.outcome(config, arm, limit_bytes, &report)))
}

/// The command line of the arm, without the program's name.
fn words(
    config: &CompareConfig,
    kind: ArmKind,
    limit_bytes: Option<u64>,
    report: OsString,
) -> Result<Vec<OsString>, CompareError> {
    let budget_bytes = match limit_bytes {
        Some(bytes) => bytes,
        // A group in which the limit is never met.
        None => {
            let machine = MachineMemory::read().map_err(io_error("reading /proc/meminfo"))?;
            machine.total_bytes
        }
    };
    let mut words: Vec<OsString> = ["run", "--quiet", "--report"].map(OsString::from).into();
    words.push(report);
    words.extend(["--memory".into(), budget_bytes.to_string().into()]);
    words.extend(config.options.iter().cloned());
    match kind {
        ArmKind::Strata => words.extend(config.strata_options.iter().cloned()),
        ArmKind::Kernel | ArmKind::None => words.extend(["--policy".into(), "none".into()]),
    }
    words.push("--".into());
    words.extend(config.command.iter().cloned());
    Ok(words)
}

/// A run in progress.
#[derive(Debug)]
struct ArmWatch<'a> {
    strata: Child,
    pipe: File,
    output: Output<'a>,
    neighbours: Neighbours,
    program: Option<UnderWay>,
    seen: Seen,
    /// When it was first noticed that the run is to be over, and what was sent since.
    told: Option<(Instant, Option<Signal>)>,
}

impl ArmWatch<'_> {
    /// Watches until Strata has ended; its exit status.
    fn watch_until_end(&mut self, wanted: &dyn Fn() -> Wanted) -> Result<u8, CompareError> {
        let mut has_started = false;
        loop {
            self.wait()?;
            self.read_output();
            if let Some(status) = self.strata.try_wait().map_err(io_error("waiting"))?
                && let Some(status) = status.exit_status().filter(|_| status.is_end())
            {
                self.close();
                // What was written last.
                self.read_output();
                return Ok(status as u8);
            }
            match &self.program {
                None if !has_started => has_started = self.look_for_program(),
                None => {}
                Some(seen) if has_ended(seen) => self.close(),
                Some(_) => self.sample(),
            }
            match wanted() {
                Wanted::All => {}
                Wanted::End => self.end(false),
                Wanted::EndAtOnce => self.end(true),
            }
        }
    }

    /// Sleeps until something happens or is due.
    fn wait(&self) -> Result<(), CompareError> {
        let due = match &self.program {
            Some(seen) => seen.next_sample.saturating_duration_since(Instant::now()),
            None => START_PAUSE,
        };
        let timeout = Timespec::try_from(due).ok();
        let mut fds = vec![
            PollFd::new(&self.pipe, PollFlags::IN),
            PollFd::from_borrowed_fd(self.strata.pidfd(), PollFlags::IN),
        ];
        if let Some(seen) = &self.program {
            fds.push(PollFd::new(&seen.pidfd, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(io_error("waiting for the command")(errno.into())),
        }
        // A pipe that nobody has open for writing any more is always ready.
        if fds[0].revents() == PollFlags::HUP {
            std::thread::sleep(due.min(START_PAUSE));
        }
        Ok(())
    }

    fn read_output(&mut self) {
        let mut buffer = [0; 64 << 10];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(nr_bytes) => self.output.feed(&buffer[..nr_bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Looks whether the session names its program; whether there is nothing more to look for.
    fn look_for_program(&mut self) -> bool {
        // A run without a name is called by its pid.
        let Some(state) = look_at(&self.strata.pid().to_string()) else {
            return false;
        };
        let Some(mark) = state.program else {
            return false;
        };
        let pidfd = Pid::from_raw(mark.pid)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .filter(|_| mark.is_running());
        let Some(pidfd) = pidfd else {
            // It has ended already.
            return true;
        };
        let group = state.groups.first();
        let now = Instant::now();
        self.program = Some(UnderWay {
            pid: mark.pid,
            pidfd,
            group: group.and_then(|group| GroupReader::open(&group.path).ok()),
            began: now,
            kernel_threads: KernelThreads::read(),
            disk_read_bytes: disks::read_bytes(),
            nr_iterations: self.neighbours.nr_iterations(),
            next_sample: now,
            nr_looks: 0,
        });
        true
    }

    fn sample(&mut self) {
        let Some(seen) = &mut self.program else {
            return;
        };
        let now = Instant::now();
        if now < seen.next_sample {
            return;
        }
        seen.next_sample = now + SAMPLE_PAUSE;
        if let Some(bytes) = seen.group.as_ref().and_then(GroupReader::usage_bytes) {
            self.seen.usage_bytes.push(bytes);
        }
        seen.nr_looks += 1;
        let is_due =
            seen.nr_looks <= LOOKS_IN_GROUP || seen.nr_looks.is_multiple_of(LOOKS_IN_GROUP);
        if let Some(group) = seen.group.as_ref().filter(|_| is_due) {
            self.seen.has_left_group |= is_outside(seen.pid, group.path());
        }
    }

    /// Takes the readings of the program's end.
    fn close(&mut self) {
        let Some(seen) = self.program.take() else {
            return;
        };
        let elapsed_s = seen.began.elapsed().as_secs_f64();
        let nr_iterations = self.neighbours.nr_iterations().zip(seen.nr_iterations);
        self.seen.iterations_per_s = nr_iterations
            .filter(|_| elapsed_s > 0.0)
            .map(|(after, before)| (after - before) as f64 / elapsed_s);
        let disks = disks::read_bytes().zip(seen.disk_read_bytes);
        self.seen.disk_read_bytes = disks.map(|(after, before)| after.saturating_sub(before));
        let kernel_threads = KernelThreads::read().zip(seen.kernel_threads);
        self.seen.kernel_threads_ms = kernel_threads.map(|(after, before)| after.since_ms(&before));
    }

    /// Has the run end: a terminal has told everybody already, others have not. The command alone is killed, late or `at_once`:
    /// Strata itself is to live, because it clears up.
    fn end(&mut self, at_once: bool) {
        let (since, sent) = *self.told.get_or_insert_with(|| (Instant::now(), None));
        let elapsed = since.elapsed();
        // Whoever is told may have ended; then its status comes next.
        let told = match (&self.program, sent) {
            (Some(_), Some(Signal::KILL)) => return,
            (Some(seen), _) if at_once || sent.is_some() && elapsed >= KILL_AFTER => {
                let _ended = pidfd_send_signal(&seen.pidfd, Signal::KILL);
                Signal::KILL
            }
            (_, None) if elapsed >= TERM_AFTER => {
                let _ended = self.strata.signal(Signal::TERM);
                Signal::TERM
            }
            _ => return,
        };
        self.told = Some((since, Some(told)));
    }

    fn outcome(
        mut self,
        config: &CompareConfig,
        arm: Arm,
        limit_bytes: Option<u64>,
        report: &RunReport,
    ) -> Outcome {
        let said = self.output.finish();
        let is_under_strata = arm.kind == ArmKind::Strata;
        let mut figures = report.figures(is_under_strata);
        let seen = &self.seen;
        let usage_bytes = &seen.usage_bytes[..];
        let as_figure = |bytes: u64| bytes as f64;
        if let Some(mean_bytes) = mean(usage_bytes) {
            figures.set(Metric::Mean, Some(as_figure(mean_bytes)));
        }
        let full_mean_bytes = full_mean(usage_bytes, limit_bytes);
        figures.set(Metric::FullMean, full_mean_bytes.map(as_figure));
        let peak_bytes = usage_bytes.iter().copied().max().unwrap_or(0);
        let peak = figures
            .get(Metric::Peak)
            .unwrap_or(0.0)
            .max(as_figure(peak_bytes));
        figures.set(Metric::Peak, Some(peak).filter(|peak| *peak > 0.0));
        let kernel_threads_ms = seen.kernel_threads_ms.map(|ms| ms as f64);
        figures.set(Metric::KernelThreadsCpu, kernel_threads_ms);
        figures.set(Metric::DiskRead, seen.disk_read_bytes.map(as_figure));
        figures.set(Metric::Neighbours, seen.iterations_per_s);
        if limit_bytes.is_none() {
            figures.set(Metric::AboveBudget, None);
        }
        figures.derive(said, is_under_strata);
        let asked = [
            ("--throughput", &config.throughput, said.throughput_per_s),
            ("--operations", &config.operations, said.nr_operations),
        ];
        let unmatched = asked.into_iter().filter_map(|(option, pattern, found)| {
            let pattern = pattern.as_ref().filter(|_| found.is_none())?;
            Some(format!(
                "nothing in the output matches {option} '{pattern}'"
            ))
        });
        let failure = report.failure().map(|why| {
            let said = self.output.last_lines(QUOTED_LINES);
            // Who is killed for lack of memory has no last words.
            match said.is_empty() || report.is_oom_kill() {
                true => why,
                false => format!("{why}; its last lines:\n{said}"),
            }
        });
        let mut warnings = report.warnings.clone();
        if seen.has_left_group {
            warnings.push(LEFT_GROUP.to_owned());
        }
        Outcome {
            figures,
            exit_status: report.exit_status(),
            is_oom_kill: report.is_oom_kill(),
            unmatched: unmatched.collect(),
            failure,
            warnings,
            nr_memory_samples: usage_bytes.len() as u64,
        }
    }
}

/// Whether a process, or a child of it, is in another group than the one at `group` and those below.
fn is_outside(pid: i32, group: &Path) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|of| of.parse().ok());
    std::iter::once(pid).chain(children).any(|pid: i32| {
        // Who has ended, or is just about to, is nowhere.
        let is_running = || ProcessMark::of(pid).is_some_and(ProcessMark::is_running);
        GroupReader::of_process(pid)
            .is_ok_and(|of| of.is_none_or(|of| !of.path().starts_with(group)))
            && is_running()
    })
}

/// The mean of samples of usage; `None` if there are none.
fn mean(usage_bytes: &[u64]) -> Option<u64> {
    let sum: u128 = usage_bytes.iter().copied().map(u128::from).sum();
    let mean = sum.checked_div(usage_bytes.len() as u128)?;
    u64::try_from(mean).ok()
}

/// The mean of samples of usage from the first one on that was full. The last sample is left out where there are others: it
/// may be of a command that gives its memory back as it ends.
fn full_mean(usage_bytes: &[u64], limit_bytes: Option<u64>) -> Option<u64> {
    let peak_bytes = *usage_bytes.iter().max()?;
    let most_bytes = limit_bytes.map_or(peak_bytes, |limit_bytes| limit_bytes.min(peak_bytes));
    let is_full = |bytes: &u64| u128::from(*bytes) * 100 >= u128::from(most_bytes) * FULL_PERCENT;
    let full = &usage_bytes[usage_bytes.iter().position(is_full)?..];
    match full {
        [full @ .., _last] if !full.is_empty() => mean(full),
        _ => mean(full),
    }
}

/// What `strata run` said at its end, without the mark of an error.
fn last_words(output: &Output<'_>) -> String {
    let said = output.last_lines(QUOTED_LINES);
    said.trim_start_matches("strata: error: ").to_owned()
}

fn has_ended(program: &UnderWay) -> bool {
    is_any_readable(&[program.pidfd.as_fd()], Duration::ZERO).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_still_filled_is_not_in_the_mean_of_full_memory() {
        let usage_bytes = [10, 50, 96, 100, 92, 30];
        assert_eq!(full_mean(&usage_bytes, Some(100)), Some(96));
        assert_eq!(mean(&usage_bytes), Some(63));
        // The budget was passed: full is where the budget was nearly reached.
        assert_eq!(full_mean(&usage_bytes, Some(50)), Some(84));
        // A command that never comes near its budget, or has none, is full at its own peak.
        assert_eq!(full_mean(&usage_bytes, Some(1000)), Some(96));
        assert_eq!(full_mean(&usage_bytes, None), Some(96));
    }

    #[test]
    fn a_command_that_was_seen_once_or_never_has_that_mean_or_none() {
        assert_eq!(full_mean(&[], Some(100)), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(full_mean(&[40], Some(100)), Some(40));
        assert_eq!(full_mean(&[10, 40], Some(100)), Some(40));
    }
}
