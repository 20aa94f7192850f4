//! `strata plan`: how much memory a recorded run needs.
//!
//! **Owns** the options and the answer for people. **Does not own** the search (`strata_sim::plan`),
//! nor what is asked without a recording (`all`).

mod all;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use strata_sim::plan::{NR_REPLAYS_MAX, Plan, Point, Question, plan};
use strata_sim::{CostModel, Jobs, PolicySpec, Ratio, Workload};

use crate::cli::refuse_option;
use crate::cmd::report_file::ReportFile;
use crate::failure::UsageError;
use crate::print;
use crate::progress::Bar;
use crate::source::SourceArgs;

/// Largest slowdown that may be asked for, in percent.
const SLOWDOWN_PERCENT_MAX: u64 = 1000;
/// Millionths of a percent.
const PER_PERCENT: u64 = 10_000;

/// Tells the smallest memory budget under which a recorded run would be hardly slower
///
/// Replays a recording of strata record with less and less memory, prices what would have come back
/// too often (--cost), and compares that with the CPU time the recorded processes used. A recording
/// does not tell the order of accesses within an interval: the span is that of the best and the worst
/// order, the figure that of a random one.
///
/// With --all it needs no recording: it watches all cgroups and ranks them by what they could give.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  Record a minute of a service, then ask:
      strata record --pid 4242 --for 1m -o run.strata
      strata plan run.strata

  With a slowdown of no more than 1 %, and the curve as a picture:
      strata plan run.strata --slowdown 1% --plot run.svg

  Which services hold memory that they have not touched for ten minutes?
      strata plan --all --age 10m --under /sys/fs/cgroup/system.slice")]
pub(crate) struct PlanArgs {
    /// A recording, for example run.strata
    #[arg(value_name = "RECORDING", required_unless_present = "all")]
    recording: Option<String>,

    #[command(flatten)]
    everybody: all::AllArgs,

    /// Slowdown that is acceptable, as a share of the CPU time used, for example 3% or 0.5%
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = slowdown_arg, allow_hyphen_values = true)]
    slowdown: u64,

    /// Who decides which pages go, as for strata sim
    #[arg(short, long, value_name = "POLICY", default_value = "mglru", value_parser = str::parse::<PolicySpec>)]
    policy: PolicySpec,

    #[command(flatten)]
    source: SourceArgs,

    /// What refaults cost in nanoseconds, for example swap-in=5000,read=100000
    #[arg(long, value_name = "NAME=NS", default_value = "", hide_default_value = true, value_parser = str::parse::<CostModel>)]
    cost: CostModel,

    /// How the answer is printed
    #[arg(long, value_enum, default_value = "table")]
    format: PlanFormat,

    /// Draw the slowdown over memory, with its span, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Replays at a time; 0 is one a processor
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// For people
    Table,
    /// One object; docs/sim.md names the fields
    Json,
}

/// Replays and answers.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let asked = args.recording.as_ref().filter(|_| !args.everybody.all);
    let Some(name) = asked else {
        return all::run(&args.everybody, args.format);
    };
    let place = args.plot.clone().map(ReportFile::try_place).transpose()?;
    let mut source = args.source.open(name)?;
    let workload = Workload::read(name, source.reader.as_mut())?;
    let Some(info) = source.reader.recording() else {
        let reason = format!(
            "{name} is a trace but no recording: it does not tell how long its accesses took; \
             make one with strata record, or replay it with strata sim"
        );
        return Err(UsageError(reason).into());
    };
    if info.nr_walks == 0 || info.cpu_us == 0 {
        let reason =
            format!("{name} holds no interval in which the processes ran: record for longer");
        return Err(UsageError(reason).into());
    }
    let question = Question {
        policy: args.policy.clone(),
        slowdown_millionths: args.slowdown,
        cost: args.cost.clone(),
        busy_us: info.cpu_us,
        duration_us: info.duration_us(),
    };
    drop(source);
    let nr_requests = NR_REPLAYS_MAX * u64::from(workload.nr_requests());
    let bar = Bar::requests(name, nr_requests);
    let answer = plan(&workload, &question, &Jobs::try_new(args.jobs)?, &bar)?;
    bar.finish();
    match args.format {
        PlanFormat::Table => print::data(table(&answer))?,
        PlanFormat::Json => print::data(answer.json()?)?,
    }
    if let Some(place) = place {
        place.write_text(&answer.plot())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(plan: &Plan) -> String {
    let mut text = format!(
        "{}: {} accessed or in memory, {} s recorded, {} s of CPU time, {}\n\n",
        plan.recording,
        mib(plan.footprint_bytes),
        seconds(plan.duration_us),
        seconds(plan.busy_us),
        plan.policy
    );
    text.push_str("     memory  of it  refaults/s  slowdown  whatever the order\n");
    for point in &plan.points {
        text.push_str(&row(point));
    }
    let limit = percent(plan.slowdown_limit);
    let budget = &plan.budget_bytes;
    text.push_str(&match budget.expected {
        Some(bytes) => {
            let saved = plan.footprint_bytes.saturating_sub(bytes);
            let span = match (budget.lowest, budget.highest) {
                (Some(lowest), Some(highest)) => {
                    format!("between {} and {}", mib(lowest), mib(highest))
                }
                _ => "with no upper bound".to_owned(),
            };
            format!(
                "\nabout {} are enough for a slowdown of {limit}: {} less than it took ({span}, \
                 whatever the order)\n",
                mib(bytes),
                mib(saved)
            )
        }
        None => format!("\nno budget keeps the slowdown within {limit}\n"),
    });
    text
}

fn row(point: &Point) -> String {
    let per_second = point.refaults_per_second.millionths() / 1_000_000;
    let [expected, lowest, highest] = [
        point.slowdown.expected,
        point.slowdown.lowest,
        point.slowdown.highest,
    ]
    .map(percent);
    format!(
        "{:>11}  {:>5}  {per_second:>10}  {expected:>8}  {lowest} to {highest}\n",
        mib(point.memory_bytes),
        format!(
            "{} %",
            point.of_footprint.millionths().div_ceil(PER_PERCENT)
        ),
    )
}

fn mib(bytes: u64) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn seconds(us: u64) -> String {
    format!("{}.{:01}", us / 1_000_000, us % 1_000_000 / 100_000)
}

fn percent(ratio: Ratio) -> String {
    let millionths = ratio.millionths();
    let hundredths = millionths % PER_PERCENT / 100;
    format!("{}.{hundredths:02} %", millionths / PER_PERCENT)
}

/// Reads `3%` or `0.25%`, in millionths.
fn slowdown_arg(text: &str) -> Result<u64, String> {
    refuse_option(text)?;
    let bad =
        || "a slowdown is a percentage above 0 and up to 1000%, such as 3% or 0.5%".to_owned();
    let number = text.strip_suffix('%').ok_or_else(bad)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 4 {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let decimals: u64 = format!("{decimals:0<4}").parse().map_err(|_| bad())?;
    if whole > SLOWDOWN_PERCENT_MAX || whole + decimals == 0 {
        return Err(bad());
    }
    Ok(whole * PER_PERCENT + decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_is_a_percentage() {
        for (text, millionths) in [
            ("3%", 30_000),
            ("0.5%", 5000),
            ("0.0001%", 1),
            ("100%", 1_000_000),
        ] {
            assert_eq!(slowdown_arg(text), Ok(millionths), "{text}");
        }
        for text in [
            "", "%", "3", "0%", "-1%", "1.%", ".5%", "1e3%", "1.00001%", "1001%", "x%", "--plot",
        ] {
            assert!(slowdown_arg(text).is_err(), "{text}");
        }
    }
}
