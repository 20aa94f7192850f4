//! The same command with and without Strata, in turns.
//!
//! ```text
//!   CompareConfig -> arms -> rounds: there and back, there and back -> Run each -> Comparison
//!     none      a group whose limit is the machine's memory
//!     kernel B  the kernel's limit B alone
//!     strata B  a budget B, held by Strata
//! ```
//!
//! **Owns** going through the rounds, the memory of each run, and which runs count. **Does not own** which arms there are and
//! their order (`arms`), how a run goes (`arm`), what is made of the runs (`comparison`), nor any text but of errors and
//! troubles.
//!
//! **Invariants**
//! - I1: rounds are whole or left out of ratios: two figures are divided within a round only.
//! - I2: the order of the arms turns from round to round, but for an arm that is the measure of the next one's limit.
//! - I3: a run that failed, and a figure that is not known, count nowhere and are told.
//! - I4: a command that fails from the start is not run on: what fails by itself would fail each time.

mod arm;
mod arms;
mod comparison;
mod disks;
mod figures;
mod kernel_threads;
mod neighbours;
mod output;
mod report;
mod summary;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub use arms::{Arm, ArmKind, KernelLimit};
use arms::{arms, order};
pub use comparison::{ArmRatios, ArmSummary, COMPARISON_VERSION, Comparison, Outcome, Run};
pub use figures::{Better, Figures, Metric};
pub use output::{Pattern, PatternError};
use strata_linux::plain;
use strata_linux::process::launch::LaunchError;
pub use summary::{Ratio, Spread, ratio, spread};

/// Said where a comparison ends with the first run of an arm.
const FAILS_BY_ITSELF: &str = "the comparison ends with this run: the command fails by itself; see that it ends with status 0, or count such runs \
     (--ignore-failure)";

/// Whether a run counts whose command failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// A run whose command failed is told and left out.
    #[default]
    LeaveOut,
    /// A run whose command failed counts like any other.
    Count,
}

/// What whoever asked for a comparison wants by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// Everything.
    #[default]
    All,
    /// An end, with what there is so far.
    End,
    /// An end for which the command is not waited for.
    EndAtOnce,
}

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// The binary that each arm is a `run` of.
    pub strata: PathBuf,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Options of `run` that all arms have.
    pub options: Vec<OsString>,
    /// Options of `run` that only Strata's arm has.
    pub strata_options: Vec<OsString>,
    /// The kinds of arms, in the order in which they are to run and be shown.
    pub kinds: Vec<ArmKind>,
    /// Limits and budgets.
    pub budgets_bytes: Vec<u64>,
    /// Rounds that count.
    pub nr_rounds: u32,
    /// Rounds before them.
    pub nr_warmup_rounds: u32,
    /// Busy loops beside the command.
    pub nr_neighbours: usize,
    /// What the limit of the kernel's arm is.
    pub kernel_limit: KernelLimit,
    /// Operations a second in the command's output.
    pub throughput: Option<Pattern>,
    /// Operations in all in the command's output.
    pub operations: Option<Pattern>,
    /// A line for the shell before each run.
    pub prepare: Option<OsString>,
    /// Whether a run counts whose command failed.
    pub on_failure: OnFailure,
}

impl CompareConfig {
    /// Runs in all, those that do not count included.
    pub fn nr_runs(&self) -> u64 {
        let nr_arms = arms(&self.kinds, &self.budgets_bytes).len() as u64;
        nr_arms * u64::from(self.nr_rounds + self.nr_warmup_rounds)
    }
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Strata could not be started again.
    #[error("starting strata run failed: {source}")]
    Launch {
        /// The reason.
        source: LaunchError,
    },
    /// Strata failed before the command ran, or instead of it.
    #[error("the arm {arm} could not be run (strata run ended with status {exit_status}): {said}")]
    NoReport {
        /// The arm.
        arm: Arm,
        /// Of `strata run`.
        exit_status: u8,
        /// Last lines that `strata run` printed.
        said: String,
    },
    /// What was to be done before each run failed.
    #[error("--prepare '{command}' failed ({status}) before the run of {arm}: {said}")]
    Prepare {
        /// The line.
        command: String,
        /// Before which run.
        arm: Arm,
        /// How the command ended.
        status: std::process::ExitStatus,
        /// Last lines that the command printed.
        said: String,
    },
    /// An operation of the operating system failed.
    #[error("{what} failed: {source}")]
    Io {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl CompareError {
    /// 2 for what was asked wrongly, else 1.
    pub fn exit_status(&self) -> u8 {
        match self {
            CompareError::NoReport { exit_status: 2, .. } => 2,
            _ => 1,
        }
    }
}

/// For `map_err` on plain I/O.
fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> CompareError {
    move |source| CompareError::Io { what, source }
}

/// What is told while a comparison goes on.
#[derive(Clone, Copy, Debug)]
pub enum CompareEvent<'a> {
    /// A run begins.
    Begun {
        /// Round of the run; rounds that do not count are numbered, too.
        round: u32,
        /// Arm of the run.
        arm: Arm,
    },
    /// A run has ended, however.
    Ended,
    /// A run does not count, or not in full.
    Trouble(&'a str),
}

/// Runs everything, until it is done, or something else is wanted, or an arm fails by itself before it ever did well.
///
/// # Errors
/// [`CompareError`] where an arm can't be run at all.
pub fn compare(
    config: &CompareConfig,
    wanted: &dyn Fn() -> Wanted,
    events: &mut dyn FnMut(CompareEvent<'_>),
) -> Result<Comparison, CompareError> {
    let arms = arms(&config.kinds, &config.budgets_bytes);
    let mut comparison = Comparison {
        version: COMPARISON_VERSION,
        command: shown(&config.command),
        nr_rounds: config.nr_rounds,
        nr_warmup_rounds: config.nr_warmup_rounds,
        nr_neighbours: config.nr_neighbours,
        kernel_limit: config.kernel_limit,
        ..Comparison::default()
    };
    let (mut position, mut unmatched) = (0, BTreeSet::new());
    // What Strata's arm of each budget used in this round.
    let mut used_bytes: Vec<(Arm, u64)> = Vec::new();
    let mut done_well: Vec<Arm> = Vec::new();
    'rounds: for number in 0..config.nr_warmup_rounds + config.nr_rounds {
        // The first round that counts is number 1.
        let round = (number + 1).checked_sub(config.nr_warmup_rounds);
        let round = round.filter(|round| *round > 0);
        for arm in order(&arms, number, config.kernel_limit) {
            events(CompareEvent::Begun {
                round: number + 1,
                arm,
            });
            let limit_bytes = limit_of(arm, config.kernel_limit, &used_bytes);
            let is_prepared = prepare(config, arm, wanted)?;
            let outcome = match is_prepared {
                true => arm::run_arm(config, arm, limit_bytes, wanted)?,
                false => None,
            };
            events(CompareEvent::Ended);
            let Some(outcome) = outcome else {
                comparison.is_interrupted = true;
                break 'rounds;
            };
            position += 1;
            let label = match round {
                Some(round) => format!("round {round}, {arm}"),
                None => format!("warm-up, {arm}"),
            };
            let is_tolerated = config.on_failure == OnFailure::Count;
            let failure = outcome.failure.as_ref().filter(|_| !is_tolerated);
            // A run may be out of memory and the next one not.
            let failure_is_own = failure.map(|_| !outcome.is_oom_kill);
            used_bytes.retain(|(other, _)| *other != arm);
            // A run that failed says nothing of what the command needs.
            let used = outcome.figures.get(Metric::FullMean);
            if let Some(bytes) = used.filter(|_| failure.is_none()) {
                used_bytes.push((arm, bytes.round() as u64));
            }
            let mut tell = |what: &str, is_told: bool| {
                let trouble = plain::lines(&format!("{label}: {what}")).into_owned();
                if !is_told {
                    events(CompareEvent::Trouble(&trouble));
                }
                comparison.troubles.push(trouble);
            };
            match failure {
                Some(failure) => tell(failure, false),
                // What failed had no chance to say its numbers.
                None => {
                    for what in &outcome.unmatched {
                        // An expression that never matches is told once, not at every run.
                        let is_told = unmatched.contains(what);
                        tell(what, is_told);
                        unmatched.insert(what.clone());
                    }
                }
            }
            if let Some(round) = round {
                comparison.runs.push(Run {
                    round,
                    position,
                    arm,
                    limit_bytes,
                    is_counted: failure.is_none(),
                    outcome,
                });
            }
            match failure_is_own {
                None => done_well.push(arm),
                Some(true) if !done_well.contains(&arm) => {
                    let ends = format!("{label}: {FAILS_BY_ITSELF}");
                    events(CompareEvent::Trouble(&ends));
                    comparison.troubles.push(ends);
                    break 'rounds;
                }
                Some(_) => {}
            }
        }
    }
    comparison.sum_up(&arms);
    Ok(comparison)
}

/// The limit or budget of a run; `None` without one. `used_bytes` has what each arm's last run used once it was full.
fn limit_of(arm: Arm, kernel_limit: KernelLimit, used_bytes: &[(Arm, u64)]) -> Option<u64> {
    let matched = || {
        let is_strata =
            |other: &Arm| other.kind == ArmKind::Strata && other.budget_bytes == arm.budget_bytes;
        let found = used_bytes.iter().find(|(other, _)| is_strata(other));
        found.map(|(_, bytes)| *bytes)
    };
    match (arm.kind, kernel_limit) {
        (ArmKind::Kernel, KernelLimit::MeanOfStrata) => matched().or(arm.budget_bytes),
        _ => arm.budget_bytes,
    }
}

/// Does what is to be done before each run; whether it may begin.
fn prepare(
    config: &CompareConfig,
    arm: Arm,
    wanted: &dyn Fn() -> Wanted,
) -> Result<bool, CompareError> {
    if wanted() != Wanted::All {
        return Ok(false);
    }
    let Some(line) = &config.prepare else {
        return Ok(true);
    };
    let output = Command::new("sh")
        .arg("-c")
        .arg(line)
        .stdin(Stdio::null())
        .output()
        .map_err(io_error("starting a shell for --prepare"))?;
    if wanted() != Wanted::All {
        return Ok(false);
    }
    match output.status.success() {
        true => Ok(true),
        false => Err(CompareError::Prepare {
            command: line.to_string_lossy().into_owned(),
            arm,
            status: output.status,
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

/// A command line as text.
fn shown(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    plain::line(&words.join(" ")).into_owned()
}

#[cfg(test)]
mod tests;
