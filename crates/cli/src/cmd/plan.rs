//! `strata plan`: how much memory a recorded run needs.
//!
//! **Owns** the options and the answer for people. **Does not own** the search (`strata_sim::plan`),
//! nor what is asked without a recording (`all`).

mod all;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use strata_host::control::{AUTO_PAGEOUT_PAGES_PER_S, Held};
use strata_sim::plan::{Holding, Plan, Point, Question, SHARE_HELD_MIN, Span, plan, plan_bytes};
use strata_sim::{CostModel, MemorySize, PolicySpec, Ratio, Workload};

use crate::cli::refuse_option;
use crate::cmd::report_file::ReportFile;
use crate::cmd::sim::size_arg;
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
/// too often (--cost), and compares that with the CPU time the recorded processes used.
///
/// Assumed is a run under strata run as it is by default: it keeps a little of the budget free (--held),
/// and its policy takes what it has time for (--pageout-rate), the kernel's own reclaim the rest
/// (--policy). Nothing of this machine is looked at: the same recording and options give the same answer
/// anywhere. Not known are the order of accesses within an interval of the recording, how much of a
/// budget is held from moment to moment, and who really takes which share of the pages: the figure is
/// that of a random order, of what is mostly held, and of those shares, the span that of the best and
/// the worst case.
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

  Two budgets in particular, as the kernel's limit alone would hold them:
      strata plan run.strata --memory 512MiB,60% --policy two-list --held 100%

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

    /// Budgets to tell about besides those of the curve: pages, bytes or a share of the footprint
    ///
    /// With commas between them, for example 512MiB,60%.
    #[arg(short, long, value_name = "SIZE", value_delimiter = ',', value_parser = size_arg, allow_hyphen_values = true)]
    memory: Vec<MemorySize>,

    /// Who decides which pages go, as for strata sim; of several the first as far as it can
    ///
    /// strata run takes pages by mglru+heat, or has the kernel take them, told which are warm; under pressure the
    /// kernel takes them by two-list unless it has MGLRU. One alone is right where one does all of it: mglru+heat for
    /// strata run --actuator pageout, two-list for --actuator reclaim and --policy none.
    #[arg(
        short,
        long,
        value_name = "POLICY",
        default_value = "mglru+heat,two-list",
        value_delimiter = ',',
        value_parser = str::parse::<PolicySpec>
    )]
    policy: Vec<PolicySpec>,

    /// Pages a second that the first of several policies can take; the others share the rest
    ///
    /// Up to this rate as many pages come back as if heat chose all that goes: strata takes them one by one, or the
    /// kernel is told which are warm. Beyond, the kernel's lists have more of a say.
    #[arg(long, value_name = "PAGES", default_value_t = AUTO_PAGEOUT_PAGES_PER_S)]
    pageout_rate: u64,

    /// How much of a budget is in memory while pages have to go: strata, or a share such as 95%
    ///
    /// strata run begins to reclaim before the budget is reached; what it holds lies between 95.3 % and
    /// 99 % of a budget from 32 MiB to 800 MiB, more of larger and less of smaller ones.
    /// 100% is right where the kernel's limit alone holds the budget (strata run --policy none).
    #[arg(long, value_name = "SHARE", default_value = "strata", value_parser = holding_arg, allow_hyphen_values = true)]
    held: Holding,

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
    let workload = Workload::read_within(name, source.reader.as_mut(), source.bound.0)?;
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
        policies: args.policy.clone(),
        pageout_rate: args.pageout_rate,
        holding: args.held,
        budgets: args.memory.clone(),
        slowdown_millionths: args.slowdown,
        cost: args.cost.clone(),
        busy_us: info.cpu_us,
        duration_us: info.duration_us(),
        interval_us: info.duration_us() / info.nr_walks,
    };
    drop(source);
    let nr_requests = question.nr_replays_max() * u64::from(workload.nr_requests());
    let bar = Bar::requests(name, nr_requests);
    let jobs = args
        .source
        .bound()?
        .jobs(&workload, plan_bytes(&workload), args.jobs)?;
    let answer = plan(&workload, &question, &jobs, &bar)?;
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
    let who = match plan.policy.split_once(',') {
        Some((first, rest)) => format!(
            "up to {} a second by {first}, the others by {rest}",
            plan.pageout_rate
        ),
        None => format!("by {}", plan.policy),
    };
    let mut text = format!(
        "{}: {} accessed or in memory, {} s recorded, {} s of CPU time\n\
         assumed: pages go {who}; of a budget is held: {}\n\n",
        plan.recording,
        mib(plan.footprint_bytes),
        seconds(plan.duration_us),
        seconds(plan.busy_us),
        plan.held
    );
    text.push_str("     budget  of it         held  refaults/s  slowdown  best to worst case\n");
    for point in &plan.points {
        text.push_str(&row(point));
    }
    let limit = percent(plan.slowdown_limit);
    let budget = &plan.budget_bytes;
    text.push_str(&match budget.expected {
        Some(bytes) => {
            let saved = match plan.footprint_bytes.checked_sub(bytes) {
                Some(saved) => format!("{} less than it took", mib(saved)),
                None => "no less than it took".to_owned(),
            };
            let span = match (budget.lowest, budget.highest) {
                (Some(lowest), Some(highest)) => {
                    format!("between {} and {}", mib(lowest), mib(highest))
                }
                _ => "with no upper bound".to_owned(),
            };
            format!(
                "\nabout {} are enough for a slowdown of {limit}: {saved} ({span}, in the best and \
                 the worst case)\n",
                mib(bytes)
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
        "{:>11}  {:>5}  {:>11}  {per_second:>10}  {expected:>8}  {lowest} to {highest}\n",
        mib(point.memory_bytes),
        format!(
            "{} %",
            point.of_footprint.millionths().div_ceil(PER_PERCENT)
        ),
        mib(point.held_bytes.expected),
    )
}

/// What `strata run` holds of a budget.
const BY_STRATA: Holding = Holding::By {
    name: "strata",
    of: |budget_bytes| {
        let held = Held::of(budget_bytes);
        Span {
            expected: held.middle_bytes,
            lowest: held.least_bytes,
            highest: held.most_bytes,
        }
    },
};

/// Reads `strata` or a percentage of the budget.
fn holding_arg(text: &str) -> Result<Holding, String> {
    refuse_option(text)?;
    if text == "strata" {
        return Ok(BY_STRATA);
    }
    match text.parse() {
        Ok(MemorySize::Share(millionths)) if (SHARE_HELD_MIN..=1_000_000).contains(&millionths) => {
            Ok(Holding::Share(millionths))
        }
        _ => Err("it is strata, or a percentage from 10% to 100% such as 97.5%".to_owned()),
    }
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
    fn what_is_held_is_stratas_or_a_percentage() {
        for (text, shown) in [("strata", "strata"), ("100%", "100%"), ("97.5%", "97.5%")] {
            let holding = holding_arg(text).map(|holding| holding.to_string());
            assert_eq!(holding, Ok(shown.to_owned()));
        }
        for text in ["", "all", "9%", "101%", "512M", "95", "--plot"] {
            assert!(holding_arg(text).is_err(), "{text}");
        }
    }

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
