//! `strata compare`: the same command with and without Strata, in turns.
//!
//! **Owns** the options, progress, and the exit status. **Does not own** the runs or the figures
//! (`strata_host::compare`), nor the table (`render`).
//!
//! **Invariants** C1: bad options are told before anything runs. C2: whatever has been measured is printed, also after
//! Ctrl-C.

mod carried;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap::builder::TypedValueParser;
use strata_host::compare::{
    ArmKind, CompareConfig, CompareEvent, KernelLimit, OnFailure, Pattern, Wanted, compare,
};

use crate::args::{Format, one_of, refuse_option, size_arg, table_or_json};
use crate::failure::refuse;
use crate::interrupt::Interrupt;
use crate::progress::Bar;
use crate::target::program;
use crate::{print, render};
use carried::Carried;

/// Runs a command with and without Strata, in turns, and tells what differs
///
/// An arm is a way to run the command. strata is strata run --memory SIZE. kernel is the kernel's limit alone: SIZE, or with
/// --match-memory what strata used. none has no limit. Each round runs the command once under each arm, and the next round in
/// the opposite order. Every run has a fresh cgroup, and swap of its own where --swap asks for it.
///
/// The table has each figure's median over the rounds, its worst round, and its spread (highest less lowest, as a share of
/// the median). A ratio is taken within one round, so that a machine that gets slower slows both sides of it. The
/// table has the median of these ratios and the worst round.
///
/// The command's stdin is empty. The command's output is read for --throughput and --operations, and not shown. A run whose
/// command fails is told and left out; where the first run of an arm fails, and not for lack of memory, the comparison ends there.
/// Ctrl-C ends the run in progress and prints what there is; a second Ctrl-C does not wait for the command. docs/guide/compare.md
/// explains each figure.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  What a budget of 512 MiB costs a job, with Strata and with the kernel alone:
      strata compare --memory 512M --swap zram:1G -- ./job

  The same with the job's own speed, which it prints as '1234 requests per second':
      strata compare --memory 512M --swap zram:1G --throughput '([0-9.]+) requests per second' -- ./job

  Does Strata help at the same memory? The kernel alone gets what Strata used:
      strata compare --memory 512M --match-memory --swap zram:1G -- ./job

  Which of three budgets is enough? With the run that has no limit beside them:
      strata compare --arms none,strata --memory 1G,768M,512M -- ./job

  What it costs others: a busy loop on each of two processors, iterations counted:
      strata compare --memory 512M --neighbours 2 --runs 10 -- ./job

  For a program:
      strata compare --memory 512M --format json -- ./job

EXIT STATUS
  0 if every run did well, 1 if a run failed, a number was not found in the output, or not all rounds ran,
  2 if the arguments can't be used.")]
pub(crate) struct CompareArgs {
    /// Budgets, with commas between them, for example 512M or 1G,768M,512M
    ///
    /// Each SIZE is the budget of an arm strata and the limit of an arm kernel. No default.
    #[arg(short, long, value_name = "SIZE", required = true, value_delimiter = ',', value_parser = size_arg, allow_hyphen_values = true)]
    memory: Vec<u64>,

    /// How the command is run, with commas between them
    #[arg(
        long,
        value_parser = arm_arg(),
        value_name = "ARM",
        default_value = "kernel,strata",
        value_delimiter = ','
    )]
    arms: Vec<ArmKind>,

    /// Give the kernel's arm the memory that strata's arm just before it used, instead of SIZE
    ///
    /// Strata keeps usage a step below the budget, so at the same SIZE the arm kernel has more memory. With this option the arm
    /// strata runs first in each round. The mean of its usage, from the moment at which the memory was full, becomes the
    /// limit of the arm kernel. Needs the arms kernel and strata.
    #[arg(long)]
    match_memory: bool,

    /// Rounds: runs of each arm
    #[arg(short, long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Rounds before the others that do not count
    #[arg(short, long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=1000))]
    warmup: u32,

    /// A number of the command's output that is its speed, operations a second, for example '([0-9.]+) op/s'
    ///
    /// A regular expression with one pair of parentheses, around the number. Lines of stdout and stderr are looked at one by
    /// one; the last match counts.
    #[arg(long, value_name = "REGEX", value_parser = pattern_arg, allow_hyphen_values = true)]
    throughput: Option<Pattern>,

    /// A number of the command's output that counts its operations, for example '([0-9]+) requests done'
    ///
    /// The expression is like that of --throughput. Give one of the two: the other follows from the time that the command took.
    #[arg(long, value_name = "REGEX", value_parser = pattern_arg, allow_hyphen_values = true)]
    operations: Option<Pattern>,

    /// Busy loops beside the command, whose iterations are counted: what is left to others
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(0..=1024))]
    neighbours: u16,

    /// A line for the shell before each run, outside of what is measured
    #[arg(short, long, value_name = "LINE")]
    prepare: Option<OsString>,

    /// Count runs whose command fails, too, for example of a server that is ended by a signal
    #[arg(short, long)]
    ignore_failure: bool,

    #[command(flatten)]
    carried: Carried,

    /// How the figures are printed
    #[arg(long, value_parser = table_or_json(), value_name = "FORMAT", default_value = "table")]
    format: Format,

    /// The command to run and its arguments, after --
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// How the command is run.
fn arm_arg() -> impl TypedValueParser<Value = ArmKind> {
    one_of([
        ("none", "Without a limit", ArmKind::None),
        ("kernel", "Under the kernel's limit alone", ArmKind::Kernel),
        (
            "strata",
            "Under a budget that Strata holds",
            ArmKind::Strata,
        ),
    ])
}

impl CompareArgs {
    /// Takes the options together.
    fn into_config(self) -> anyhow::Result<CompareConfig> {
        program(self.command.clone())?;
        if has_twins(&self.arms) {
            return refuse("--arms names an arm twice; name each once");
        }
        if has_twins(&self.memory) {
            return refuse("--memory has a size twice; give each once");
        }
        let has_both = [ArmKind::Kernel, ArmKind::Strata]
            .iter()
            .all(|arm| self.arms.contains(arm));
        if self.match_memory && !has_both {
            return refuse(
                "--match-memory gives the arm kernel the memory that the arm strata used; name both in --arms",
            );
        }
        let options = self.carried;
        if options
            .for_strata
            .iter()
            .any(|word| word == "--policy=none")
        {
            return refuse(
                "--policy none is what the arm kernel is; leave it out, or compare --arms none,kernel",
            );
        }
        Ok(CompareConfig {
            strata: std::env::current_exe().context("finding our own program failed")?,
            command: self.command,
            options: options.for_all,
            strata_options: options.for_strata,
            kinds: self.arms,
            budgets_bytes: self.memory,
            nr_rounds: self.runs,
            nr_warmup_rounds: self.warmup,
            nr_neighbours: self.neighbours.into(),
            kernel_limit: match self.match_memory {
                true => KernelLimit::MeanOfStrata,
                false => KernelLimit::Budget,
            },
            throughput: self.throughput,
            operations: self.operations,
            prepare: self.prepare,
            on_failure: match self.ignore_failure {
                true => OnFailure::Count,
                false => OnFailure::LeaveOut,
            },
        })
    }
}

/// Runs everything, prints, and says whether it all went well.
pub(crate) fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    let format = args.format;
    let config = args.into_config()?;
    let interrupt = Interrupt::with_something_under_way()?;
    let bar = Bar::runs("compare", config.nr_runs());
    let shown = bar.clone_handle();
    let mut tell = |event: CompareEvent<'_>| match event {
        CompareEvent::Begun { round, arm } => shown.set_prefix(format!("round {round}, {arm}")),
        CompareEvent::Ended => shown.inc(1),
        CompareEvent::Trouble(text) => shown.suspend(|| print::warning(&text)),
    };
    let comparison = compare(&config, &|| interrupt.wanted(), &mut tell)?;
    bar.finish();
    if comparison.is_interrupted {
        if interrupt.wanted() == Wanted::EndAtOnce {
            print::note(&"the run in progress was ended at once: its command was killed");
        }
        print::note(&"ended before its time: what follows is of the runs that were over");
    }
    print::answer(format, &comparison, || render::comparison(&comparison))?;
    Ok(match comparison.is_complete() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn has_twins<T: PartialEq>(list: &[T]) -> bool {
    let mut entries = list.iter().enumerate();
    entries.any(|(at, entry)| list[..at].contains(entry))
}

fn pattern_arg(text: &str) -> Result<Pattern, String> {
    refuse_option(text)?;
    text.parse::<Pattern>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: CompareArgs,
    }

    fn config(words: &[&str]) -> CompareConfig {
        let line = [&["compare"], words, &["--", "job", "--its-option"]].concat();
        let line = Line::try_parse_from(line).expect("a command line");
        line.args.into_config().expect("a comparison")
    }

    #[test]
    fn the_defaults_are_five_rounds_of_the_kernel_alone_and_strata() {
        let config = config(&["--memory", "64M"]);
        assert_eq!(config.kinds, [ArmKind::Kernel, ArmKind::Strata]);
        assert_eq!(config.budgets_bytes, [64 << 20]);
        assert_eq!((config.nr_rounds, config.nr_warmup_rounds), (5, 0));
        assert_eq!(config.nr_runs(), 10);
        assert_eq!(config.command, ["job", "--its-option"]);
        assert_eq!(config.on_failure, OnFailure::LeaveOut);
        assert_eq!(config.kernel_limit, KernelLimit::Budget);
    }

    #[test]
    fn budgets_and_arms_are_lists() {
        let words = [
            "-m",
            "1G,64M",
            "--arms",
            "none,strata",
            "-r",
            "3",
            "-w",
            "1",
            "-i",
        ];
        let config = config(&words);
        assert_eq!(config.budgets_bytes, [1 << 30, 64 << 20]);
        assert_eq!(config.kinds, [ArmKind::None, ArmKind::Strata]);
        // One without a limit, two with Strata; four rounds.
        assert_eq!(config.nr_runs(), 3 * 4);
        assert_eq!(config.on_failure, OnFailure::Count);
    }
}
