//! The same command with and without Strata, in turns.
//!
//! ```text
//!   CompareConfig -> arms -> rounds: there and back, there and back -> Run each -> Comparison
//!     none      a group whose limit is the machine's memory
//!     kernel B  the kernel's limit B alone
//!     strata B  a budget B, held by Strata
//! ```
//!
//! **Owns** which arms there are, in which order they run, which runs count, and what is made of them. **Does not own** how
//! a run goes (`arm`), the arithmetic (`summary`), nor any text but of errors and troubles.
//!
//! **Invariants**
//! - I1: rounds are whole or left out of ratios: two figures are divided within a round only.
//! - I2: the order of the arms turns from round to round, so that none is always the first.
//! - I3: a run that failed, and a figure that is not known, count nowhere and are told.

mod arm;
mod figures;
mod kernel_threads;
mod neighbours;
mod output;
mod report;
mod summary;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Serialize, Serializer};

use crate::plain;
use crate::process::launch::LaunchError;
use crate::units::Bytes;
pub use figures::{Better, Figures, Metric};
pub use output::{Pattern, PatternError};
pub use summary::{Ratio, Spread, ratio, spread};

/// Version of what [`Comparison`] is serialized as; grows when a field changes its meaning or goes.
pub const COMPARISON_VERSION: u32 = 1;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmKind {
    /// Nobody, and no limit is met.
    None,
    /// The kernel, at its limit.
    Kernel,
    /// Strata.
    Strata,
}

/// One way in which the command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Who acts.
    pub kind: ArmKind,
    /// Limit or budget; `None` without one.
    pub budget_bytes: Option<u64>,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ArmKind::None => "none",
            ArmKind::Kernel => "kernel",
            ArmKind::Strata => "strata",
        })?;
        match self.budget_bytes {
            Some(bytes) => write!(f, " {}", Bytes(bytes)),
            None => Ok(()),
        }
    }
}

/// Whether a run counts whose command failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is told and left out.
    #[default]
    LeaveOut,
    /// It counts like any other.
    Count,
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
        /// Which.
        arm: Arm,
        /// Of `strata run`.
        exit_status: u8,
        /// Its last words.
        said: String,
    },
    /// What was to be done before each run failed.
    #[error("--prepare '{command}' failed ({status}) before the run of {arm}: {said}")]
    Prepare {
        /// The line.
        command: String,
        /// Before which run.
        arm: Arm,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its last words.
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

/// What is told while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum CompareEvent<'a> {
    /// A run begins.
    Begun {
        /// Its round; of those before the ones that count, too.
        round: u32,
        /// Its arm.
        arm: Arm,
    },
    /// A run has ended, however.
    Ended,
    /// A run does not count, or not in full.
    Trouble(&'a str),
}

/// One run of the command.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its round, from 1.
    pub round: u32,
    /// The how manieth of all runs it was, from 1.
    pub position: u32,
    /// Which arm.
    #[serde(flatten)]
    pub arm: Arm,
    /// Whether it counts.
    pub is_counted: bool,
    /// The command's status, as a shell has it.
    pub exit_status: u8,
    /// Whether the kernel killed the command for lack of memory.
    pub is_oom_kill: bool,
    /// Why the command is taken to have failed; `None` if it did well.
    pub failure: Option<String>,
    /// Samples of usage behind the mean.
    pub nr_memory_samples: u64,
    /// The figures.
    pub figures: Figures,
    /// What `strata run` warned of.
    pub warnings: Vec<String>,
}

/// The figures of one arm over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct ArmSummary {
    /// Which.
    #[serde(flatten)]
    pub arm: Arm,
    /// Runs that count.
    pub nr_runs: usize,
    /// Runs whose command failed, whether or not they count.
    pub nr_failed_runs: usize,
    /// Of those, the ones whose command the kernel killed for lack of memory.
    pub nr_oom_kills: usize,
    /// Each figure that is known.
    #[serde(serialize_with = "by_name")]
    pub figures: Vec<(Metric, Spread)>,
}

/// One arm over another, round by round.
#[derive(Clone, Debug, Serialize)]
pub struct ArmRatios {
    /// The one above.
    #[serde(flatten)]
    pub arm: Arm,
    /// The one below.
    pub over: Arm,
    /// Each figure that both know.
    #[serde(serialize_with = "by_name")]
    pub ratios: Vec<(Metric, Ratio)>,
}

/// All there is to say.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`COMPARISON_VERSION`].
    pub version: u32,
    /// The command with its arguments.
    pub command: String,
    /// Rounds that were asked for.
    pub nr_rounds: u32,
    /// Rounds before them, which do not count.
    pub nr_warmup_rounds: u32,
    /// Busy loops beside the command.
    pub nr_neighbours: usize,
    /// Whether somebody ended it before its time.
    pub is_interrupted: bool,
    /// What went wrong without ending it.
    pub troubles: Vec<String>,
    /// Each arm in a few numbers.
    pub summaries: Vec<ArmSummary>,
    /// What one arm is to another.
    pub ratios: Vec<ArmRatios>,
    /// Every run of the rounds that count.
    pub runs: Vec<Run>,
}

impl Serialize for Arm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Printed {
            arm: ArmKind,
            budget_bytes: Option<u64>,
        }
        let printed = Printed {
            arm: self.kind,
            budget_bytes: self.budget_bytes,
        };
        printed.serialize(serializer)
    }
}

fn by_name<T: Serialize, S: Serializer>(
    list: &[(Metric, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(list.iter().map(|(metric, value)| (metric.name(), value)))
}

/// The arms: those without a limit once, the others for each budget.
fn arms(kinds: &[ArmKind], budgets_bytes: &[u64]) -> Vec<Arm> {
    let is_limited = |kind: &&ArmKind| **kind != ArmKind::None;
    let without = kinds
        .iter()
        .filter(|kind| !is_limited(kind))
        .map(|kind| Arm {
            kind: *kind,
            budget_bytes: None,
        });
    let with = budgets_bytes.iter().flat_map(|bytes| {
        kinds.iter().filter(is_limited).map(|kind| Arm {
            kind: *kind,
            budget_bytes: Some(*bytes),
        })
    });
    without.chain(with).collect()
}

/// The order of the arms in a round: there, and back in the next.
fn order(arms: &[Arm], round: u32) -> Vec<Arm> {
    let mut order = arms.to_vec();
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// The arm that another is held against: at the same budget who does less, else the first.
fn base_of(arms: &[Arm], arm: Arm) -> Option<Arm> {
    let of_kind = |kind| {
        let mut of_kind = arms.iter().copied().filter(move |other| other.kind == kind);
        of_kind.find(|other| kind == ArmKind::None || other.budget_bytes == arm.budget_bytes)
    };
    let first = arms.first().copied().filter(|first| *first != arm);
    let has_strata = arms.iter().any(|other| other.kind == ArmKind::Strata);
    match arm.kind {
        ArmKind::None => None,
        ArmKind::Kernel if has_strata => of_kind(ArmKind::None),
        ArmKind::Kernel => of_kind(ArmKind::None).or(first),
        ArmKind::Strata => of_kind(ArmKind::Kernel)
            .or_else(|| of_kind(ArmKind::None))
            .or(first),
    }
}

/// Runs everything, until it is done or `is_over` says so.
///
/// # Errors
/// [`CompareError`] where an arm can't be run at all.
pub fn compare(
    config: &CompareConfig,
    is_over: &dyn Fn() -> bool,
    events: &mut dyn FnMut(CompareEvent<'_>),
) -> Result<Comparison, CompareError> {
    let arms = arms(&config.kinds, &config.budgets_bytes);
    let mut comparison = Comparison {
        version: COMPARISON_VERSION,
        command: shown(&config.command),
        nr_rounds: config.nr_rounds,
        nr_warmup_rounds: config.nr_warmup_rounds,
        nr_neighbours: config.nr_neighbours,
        is_interrupted: false,
        troubles: Vec::new(),
        summaries: Vec::new(),
        ratios: Vec::new(),
        runs: Vec::new(),
    };
    let (mut position, mut unmatched) = (0, BTreeSet::new());
    'rounds: for number in 0..config.nr_warmup_rounds + config.nr_rounds {
        // The first round that counts is number 1.
        let round = (number + 1).checked_sub(config.nr_warmup_rounds);
        let round = round.filter(|round| *round > 0);
        for arm in order(&arms, number) {
            events(CompareEvent::Begun {
                round: number + 1,
                arm,
            });
            let is_prepared = prepare(config, arm, is_over)?;
            let outcome = match is_prepared {
                true => arm::run_arm(config, arm, is_over)?,
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
                    is_counted: failure.is_none(),
                    exit_status: outcome.exit_status,
                    is_oom_kill: outcome.is_oom_kill,
                    failure: outcome.failure,
                    nr_memory_samples: outcome.nr_memory_samples,
                    figures: outcome.figures,
                    warnings: outcome.warnings,
                });
            }
        }
    }
    comparison.sum_up(&arms);
    Ok(comparison)
}

impl Comparison {
    /// Whether everything that was asked for is there.
    pub fn is_complete(&self) -> bool {
        !self.is_interrupted && self.troubles.is_empty()
    }

    fn sum_up(&mut self, arms: &[Arm]) {
        let counted: Vec<&Run> = self.runs.iter().filter(|run| run.is_counted).collect();
        let of = |arm: Arm| counted.iter().filter(move |run| run.arm == arm);
        let summary = |arm: &Arm| {
            let figures = Metric::ALL.into_iter().filter_map(|metric| {
                let values = of(*arm).filter_map(|run| run.figures.get(metric));
                let values: Vec<f64> = values.collect();
                Some((metric, spread(&values, metric.better())?))
            });
            let ran = || self.runs.iter().filter(|run| run.arm == *arm);
            ArmSummary {
                arm: *arm,
                nr_runs: of(*arm).count(),
                nr_failed_runs: ran().filter(|run| run.failure.is_some()).count(),
                nr_oom_kills: ran().filter(|run| run.is_oom_kill).count(),
                figures: figures.collect(),
            }
        };
        let ratios_of = |arm: &Arm| {
            let over = base_of(arms, *arm)?;
            let divided = Metric::ALL.into_iter().filter(|metric| metric.is_divided());
            let ratios = divided.filter_map(|metric| {
                let rounds = of(*arm).filter_map(|run| {
                    let below = of(over).find(|other| other.round == run.round)?;
                    let (above, below) = (run.figures.get(metric)?, below.figures.get(metric)?);
                    Some((run.round, above, below))
                });
                let rounds: Vec<_> = rounds.collect();
                Some((metric, ratio(&rounds, metric.better())?))
            });
            Some(ArmRatios {
                arm: *arm,
                over,
                ratios: ratios.collect(),
            })
        };
        let summaries = arms.iter().map(summary).collect();
        let ratios = arms.iter().filter_map(ratios_of).collect();
        (self.summaries, self.ratios) = (summaries, ratios);
    }
}

/// Does what is to be done before each run; whether it may begin.
fn prepare(
    config: &CompareConfig,
    arm: Arm,
    is_over: &dyn Fn() -> bool,
) -> Result<bool, CompareError> {
    if is_over() {
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
    if is_over() {
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
