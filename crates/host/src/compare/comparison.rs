//! What a comparison found: every run, each arm in a few numbers, and what one arm is to another.
//!
//! **Owns** the JSON, in both directions, and which runs make which number. **Does not own** the arithmetic (`summary`), nor
//! the runs (`compare`).
//!
//! **Invariants** I1: what is read back is what was written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::arms::{Arm, KernelLimit, base_of};
use super::figures::{Figures, Metric};
use super::summary::{Ratio, Spread, ratio, spread};

/// Version of what [`Comparison`] is serialized as; grows when a field changes its meaning or goes.
pub const COMPARISON_VERSION: u32 = 1;

/// One run of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Round of the run, from 1.
    pub round: u32,
    /// The how manieth of all runs it was, from 1.
    pub position: u32,
    /// The arm.
    #[serde(flatten)]
    pub arm: Arm,
    /// The limit or budget of this run; `None` without one.
    pub limit_bytes: Option<u64>,
    /// Whether the run counts in the figures.
    pub is_counted: bool,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
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
    /// Numbers that were asked for and did not occur in the output.
    #[serde(skip)]
    pub unmatched: Vec<String>,
}

/// The figures of one arm over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// The arm.
    #[serde(flatten)]
    pub arm: Arm,
    /// Runs that count.
    pub nr_runs: usize,
    /// Runs whose command failed, whether or not they count.
    pub nr_failed_runs: usize,
    /// Failed runs whose command the kernel killed for lack of memory.
    pub nr_oom_kills: usize,
    /// Each figure that is known.
    pub figures: BTreeMap<Metric, Spread>,
}

/// One arm over another, round by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmRatios {
    /// The one above.
    #[serde(flatten)]
    pub arm: Arm,
    /// The one below.
    pub over: Arm,
    /// Each figure that both know.
    pub ratios: BTreeMap<Metric, Ratio>,
}

/// All there is to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// What the limit of the kernel's arm was.
    pub kernel_limit: KernelLimit,
    /// Whether somebody ended the comparison before its time.
    pub is_interrupted: bool,
    /// What went wrong without ending the comparison.
    pub troubles: Vec<String>,
    /// Each arm in a few numbers.
    pub summaries: Vec<ArmSummary>,
    /// What one arm is to another.
    pub ratios: Vec<ArmRatios>,
    /// Every run of the rounds that count.
    pub runs: Vec<Run>,
}

impl Comparison {
    /// One arm's figure over another's, round by round. Rounds in which one of the two runs does not count are left out.
    pub fn rounds(&self, above: Arm, below: Arm, metric: Metric) -> Vec<(u32, f64, f64)> {
        let of = |arm: Arm| {
            let runs = self.runs.iter();
            runs.filter(move |run| run.arm == arm && run.is_counted)
        };
        let rounds = of(above).filter_map(|run| {
            let other = of(below).find(|other| other.round == run.round)?;
            Some((
                run.round,
                run.outcome.figures.get(metric)?,
                other.outcome.figures.get(metric)?,
            ))
        });
        rounds.collect()
    }

    /// Whether everything that was asked for is there.
    pub fn is_complete(&self) -> bool {
        !self.is_interrupted && self.troubles.is_empty()
    }

    /// Makes summaries and ratios of the runs.
    pub(super) fn sum_up(&mut self, arms: &[Arm]) {
        let counted: Vec<&Run> = self.runs.iter().filter(|run| run.is_counted).collect();
        let of = |arm: Arm| counted.iter().filter(move |run| run.arm == arm);
        let summary = |arm: &Arm| {
            let figures = Metric::ALL.into_iter().filter_map(|metric| {
                let values = of(*arm).filter_map(|run| run.outcome.figures.get(metric));
                let values: Vec<f64> = values.collect();
                Some((metric, spread(&values, metric.better())?))
            });
            let ran = || self.runs.iter().filter(|run| run.arm == *arm);
            ArmSummary {
                arm: *arm,
                nr_runs: of(*arm).count(),
                nr_failed_runs: ran().filter(|run| run.outcome.failure.is_some()).count(),
                nr_oom_kills: ran().filter(|run| run.outcome.is_oom_kill).count(),
                figures: figures.collect(),
            }
        };
        let ratios_of = |arm: &Arm| {
            let over = base_of(arms, *arm)?;
            let divided = Metric::ALL.into_iter().filter(|metric| metric.is_divided());
            let ratios = divided.filter_map(|metric| {
                let rounds = self.rounds(*arm, over, metric);
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
