//! `strata plan`: how much memory a recorded run needs.
//!
//! **Owns** the options and the answer for people. **Does not own** the search (`strata_sim::plan`).

mod promise;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use strata_host::run::AUTO_PAGEOUT_PAGES_PER_S;
use strata_linux::swap::device_bytes_for;
use strata_sim::plan::{BadHolding, Holding, Plan, Point, Question, plan, plan_bytes};
use strata_sim::table::aligned;
use strata_sim::{CostModel, MemorySize, PolicySpec, Ratio, Workload};

use crate::args::{Format, memory_size_arg, refuse_option, swap_option, table_or_json};
use crate::cmd::html;
use crate::cmd::report_file::ReportFile;
use crate::failure::refuse;
use crate::print;
use crate::progress::Bar;
use crate::source::SourceArgs;

/// Largest slowdown that may be asked for, in percent.
const SLOWDOWN_PERCENT_MAX: u64 = 1000;
/// Millionths of a percent.
const PER_PERCENT: u64 = 10_000;

/// What no plan tells.
const NOT_KNOWN: &str = "\
not known: how long single requests wait (a slowdown is of CPU time, over the whole recording), and what starting up
takes, unless the start was recorded
";
/// What no plan with page cache tells.
const NOT_KNOWN_OF_CACHE: &str = "\
not known of page cache: whether a page is read once the kernel's count of its reads is full, at three or five; the plan
takes it as read all the time
";

/// Tells the smallest memory budget under which a recorded run would be hardly slower
///
/// Replays a recording of strata record with less and less memory. The slowdown is what pages that come
/// back would cost (--cost), as a share of the CPU time that the recorded processes used. How much longer the run
/// takes is the same cost, as a share of the time recorded, or of the CPU time if that is more.
///
/// The plan assumes strata run with its defaults. strata run keeps a little of the budget free (--held). Its
/// policy takes as many pages as it has time for (--pageout-rate), and the kernel's own reclaim takes the rest
/// (--policy). Nothing of this machine is looked at: the same recording and options give the same answer anywhere.
///
/// A recording does not tell the order of accesses within an interval, how much of a budget is held from
/// moment to moment, or who takes which share of the pages. So each budget has an expected slowdown (random
/// order, what is mostly held, those shares) and one for the best and for the worst case.
///
/// The answer names the budget that is enough in the worst case, too, and says where less memory suddenly costs
/// much more. It does not say how long single requests wait, nor what starting up takes unless that was recorded.
///
/// With --promise it tells what strata guard would give back instead, and what of that would come back.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  Record a minute of a service, then ask:
      strata record --pid 4242 --for 1m -o run.strata
      strata plan run.strata

  With a slowdown of no more than 1 %, and a page with the curve:
      strata plan run.strata --slowdown 1% --html run.html

  Two budgets in particular, as the kernel's limit alone would hold them:
      strata plan run.strata --memory 512MiB,60% --policy two-list --held 100%

  What would strata guard give back of it?
      strata plan run.strata --promise 0.2%/min")]
pub(crate) struct PlanArgs {
    /// A recording, for example run.strata
    #[arg(value_name = "RECORDING")]
    recording: String,

    /// Gone: see the error
    #[arg(long, hide = true, num_args = 0, default_missing_value = "", value_parser = all_arg)]
    all: Option<u8>,

    #[command(flatten)]
    promised: promise::PromiseArgs,

    /// Slowdown that is acceptable, as a share of the CPU time used, for example 3% or 0.5%
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = slowdown_arg, allow_hyphen_values = true)]
    slowdown: u64,

    /// More budgets to tell about: pages, bytes or a share of the recording's footprint
    ///
    /// With commas between them, for example 512MiB,60%.
    #[arg(short, long, value_name = "SIZE", value_delimiter = ',', value_parser = memory_size_arg, allow_hyphen_values = true)]
    memory: Vec<MemorySize>,

    /// Policies of strata sim that choose the pages: the first as far as it has time, the others the rest
    ///
    /// two-list stands for a kernel with the classic LRU lists, mglru for one with MGLRU. Under strata run the kernel chooses,
    /// unless a policy is asked for.
    ///
    /// For strata run --policy POLICY give POLICY and the kernel's; for strata run --actuator pageout the policy alone.
    #[arg(
        short,
        long,
        value_name = "POLICY",
        default_value = html::KERNEL_POLICY,
        value_delimiter = ',',
        value_parser = str::parse::<PolicySpec>
    )]
    policy: Vec<PolicySpec>,

    /// Pages a second that the first of several policies can take; the others share the rest
    ///
    /// The default is what a quarter of a processor can take. Pages that have to go faster than this are chosen by the other
    /// policies, in equal shares.
    #[arg(long, value_name = "PAGES", default_value_t = AUTO_PAGEOUT_PAGES_PER_S)]
    pageout_rate: u64,

    /// How much of a budget is in memory while pages have to go: strata, or a share such as 95%
    ///
    /// strata is what strata run holds. It begins to reclaim before the budget is reached, so it holds 95.3 % to 99 % of a
    /// budget between 32 MiB and 800 MiB, more of a larger and less of a smaller budget.
    ///
    /// 100% is right for strata run --policy none, where the kernel's limit alone holds the budget.
    #[arg(long, value_name = "SHARE", default_value = "strata", value_parser = holding_arg, allow_hyphen_values = true)]
    held: Holding,

    #[command(flatten)]
    source: SourceArgs,

    /// What refaults cost in nanoseconds, for example swap-in=5000,read=100000
    ///
    /// strata doctor --measure tells what they cost here.
    #[arg(long, value_name = "NAME=NS", default_value = "", hide_default_value = true, value_parser = str::parse::<CostModel>)]
    cost: CostModel,

    /// How the answer is printed; docs/reference/sim.md names the fields of JSON
    #[arg(long, value_parser = table_or_json(), default_value = "table")]
    format: Format,

    /// Make a page of the recording and the answer, as strata html does
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Replays at a time; 0 is one a processor
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

/// Replays and answers.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let name = &args.recording;
    let page = args.html.clone().map(ReportFile::try_place).transpose()?;
    let mut source = args.source.open(name)?;
    let workload = Workload::read_within(name, source.reader.as_mut(), source.bound.0)?;
    let Some(info) = source.reader.recording() else {
        let reason = format!(
            "{name} is a trace but no recording: it does not tell how long its accesses took; \
             make one with strata record, or replay it with strata sim"
        );
        return refuse(reason);
    };
    let promise = args.promised.promise();
    // What lay idle all the time has no slowdown, and is all that a promise is about.
    if info.nr_walks == 0 || info.cpu_us == 0 && promise.is_none() {
        let reason =
            format!("{name} holds no interval in which the processes ran: record for longer");
        return refuse(reason);
    }
    if let Some(promise) = promise {
        args.source.bound()?.check_replay(&workload)?;
        return promise::run(&workload, info, promise, &args.cost, args.format);
    }
    let target = info.about.as_ref().map_or("", |about| &about.target);
    let paste = Paste::new(target);
    let question = Question {
        policies: args.policy.clone(),
        pageout_rate: args.pageout_rate,
        holding: args.held,
        budgets: args.memory.clone(),
        slowdown_millionths: args.slowdown,
        cost: args.cost.clone(),
        ..html::question(info)
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
    print::pretty_answer(args.format, &answer, || table(&answer, &paste))?;
    if let Some(page) = page {
        page.write_text(&html::of_plan(&args.source, name, &answer)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(plan: &Plan, paste: &Paste) -> String {
    let who = match plan.policy.split_once(',') {
        Some((first, rest)) => format!(
            "up to {} a second by {first}, the others by {rest}",
            plan.pageout_rate
        ),
        None => format!("by {}", plan.policy),
    };
    let mut text = format!(
        "{}: {} accessed or in memory, {}{} s recorded, {} s of CPU time\n\
         assumed: pages go {who}\n\
         held, what of a budget is in memory while pages have to go: {}\n\n",
        plan.recording,
        mib(plan.footprint_bytes),
        plan.page_cache_bytes.map_or_else(String::new, |bytes| {
            format!("{} of it page cache that is not mapped, ", mib(bytes))
        }),
        seconds(plan.duration_us),
        seconds(plan.busy_us),
        match plan.held.as_str() {
            "strata" => "as under strata run",
            share => share,
        }
    );
    let head = "     budget|of it|       held|refaults/s|slowdown|<best to worst case|  longer";
    text.push_str(&aligned(head, plan.rows().into_iter().map(row)));
    text.push_str(&verdict(plan, paste));
    text
}

/// What follows `strata run --memory SIZE` to run again what was recorded.
#[derive(Debug)]
struct Paste(String);

impl Paste {
    /// `target` is what `strata record` calls it: `process 42`, `cgroup PATH`, or the words of the command.
    fn new(target: &str) -> Paste {
        let is_safe = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"/._-+=:,@% ".contains(&byte))
        };
        let text = match target {
            // What a shell would take apart is not offered.
            target if !is_safe(target) => "-- COMMAND".to_owned(),
            target => match (
                target.strip_prefix("process "),
                target.strip_prefix("cgroup "),
            ) {
                (Some(pid), _) if pid.bytes().all(|byte| byte.is_ascii_digit()) => {
                    format!("--pid {pid}")
                }
                (_, Some(path)) if path.starts_with('/') && !path.contains(' ') => {
                    format!("--cgroup {path}")
                }
                _ => format!("-- {target}"),
            },
        };
        Paste(text)
    }
}

/// The answer: what is safe, how far below that it gets dangerous, what was not looked at, and what to do.
fn verdict(plan: &Plan, paste: &Paste) -> String {
    let limit = plan.slowdown_limit.percent();
    let budget = &plan.budget_bytes;
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "no budget".to_owned(), mib);
    let mut text = format!(
        "\nSafe: {}. Likely enough: {}.\n",
        size(budget.highest),
        size(budget.expected)
    );
    match (budget.highest, budget.expected) {
        (Some(safe), _) => {
            let saved = plan
                .footprint_bytes
                .checked_sub(safe)
                .filter(|bytes| *bytes > 0);
            let saved = saved.map_or_else(String::new, |bytes| {
                format!("; {} less than it took", mib(bytes))
            });
            text.push_str(&format!(
                "safe: a slowdown of {limit} at most, in the worst case too{saved}\n"
            ));
        }
        (None, Some(_)) => text.push_str(&format!(
            "no budget keeps the slowdown within {limit} in the worst case\n"
        )),
        (None, None) => text.push_str(&format!("no budget keeps the slowdown within {limit}\n")),
    }
    if let Some(mostly) = budget
        .expected
        .filter(|of| budget.highest.is_none_or(|safe| *of < safe))
        && let Some(point) = plan.points.iter().find(|one| one.memory_bytes == mostly)
    {
        let [expected, highest] =
            [point.slowdown.expected, point.slowdown.highest].map(Ratio::percent);
        text.push_str(&format!(
            "likely enough: {expected} is expected there, {highest} in the worst case\n"
        ));
    }
    if let Some(cliff) = &plan.cliff {
        text.push_str(&format!(
            "below {} it falls off: {} is expected at {}\n",
            mib(cliff.below_bytes),
            cliff.slowdown.percent(),
            mib(cliff.memory_bytes)
        ));
    }
    text.push_str(NOT_KNOWN);
    if plan.page_cache_bytes.is_some() {
        text.push_str(NOT_KNOWN_OF_CACHE);
    }
    if let Some(bytes) = budget.highest.or(budget.expected) {
        let budget_mib = bytes.div_ceil(1 << 20);
        // What does not fit has to have somewhere to go, whatever the machine is that the command is given on.
        let swap = match plan.footprint_bytes.saturating_sub(bytes) {
            0 => String::new(),
            out_bytes => swap_option(device_bytes_for(out_bytes)),
        };
        text.push_str(&format!(
            "strata run --memory {budget_mib}M{swap} {}\n",
            paste.0
        ));
    }
    text
}

fn row(point: &Point) -> [String; 7] {
    let per_second = point.refaults_per_second.millionths() / 1_000_000;
    let of_it = (point.of_footprint.millionths() + PER_PERCENT / 2) / PER_PERCENT;
    let slowdown = &point.slowdown;
    let [expected, lowest, highest] =
        [slowdown.expected, slowdown.lowest, slowdown.highest].map(Ratio::percent);
    [
        mib(point.memory_bytes),
        format!("{of_it} %"),
        mib(point.held_bytes.expected),
        per_second.to_string(),
        expected,
        format!("{lowest} to {highest}"),
        point.longer.expected.percent(),
    ]
}

/// Reads `strata` or a percentage of the budget.
fn holding_arg(text: &str) -> Result<Holding, String> {
    refuse_option(text)?;
    text.parse().map_err(|error: BadHolding| error.to_string())
}

/// Rounded up: a budget of what is printed holds what is meant.
fn mib(bytes: u64) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn seconds(us: u64) -> String {
    format!("{}.{:01}", us / 1_000_000, us % 1_000_000 / 100_000)
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

/// An option of release 0.1.
fn all_arg(_: &str) -> Result<u8, String> {
    Err(
        "plan --all is strata idle since release 0.2, which goes on telling with --watch"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::tests::assert_has;
    use strata_sim::plan::{Cliff, Span};

    fn plan_with(budget: Span<Option<u64>>, cliff: Option<Cliff>) -> Plan {
        let point = |mib: u64, [expected, lowest, highest]: [u64; 3]| Point {
            memory_bytes: mib << 20,
            held_bytes: Span::all(mib << 20),
            of_footprint: Ratio::of(mib, 100),
            refaults: Span::all(0),
            refaults_per_second: Ratio::default(),
            slowdown: Span {
                expected: Ratio::of(expected, 1000),
                lowest: Ratio::of(lowest, 1000),
                highest: Ratio::of(highest, 1000),
            },
            longer: Span::all(Ratio::of(expected, 2000)),
            is_asked: false,
        };
        Plan {
            recording: "run.strata".to_owned(),
            policy: "mglru".to_owned(),
            pageout_rate: 1,
            held: "strata".to_owned(),
            footprint_bytes: 100 << 20,
            page_cache_bytes: None,
            duration_us: 1,
            busy_us: 1,
            slowdown_limit: Ratio::of(30, 1000),
            budget_bytes: budget,
            cliff,
            points: vec![point(57, [220, 20, 900]), point(58, [29, 10, 660])],
        }
    }

    #[test]
    fn the_safe_budget_comes_first_and_the_cliff_is_named() {
        let mib = |mib: u64| Some(mib << 20);
        let budget = Span {
            expected: mib(58),
            lowest: mib(50),
            highest: mib(60),
        };
        let cliff = Cliff {
            below_bytes: 58 << 20,
            memory_bytes: 57 << 20,
            slowdown: Ratio::of(220, 1000),
        };
        let paste = Paste::new("sort -S 8M");
        let text = verdict(&plan_with(budget, Some(cliff)), &paste);
        let lines: Vec<&str> = text.trim_start().lines().collect();
        assert_eq!(
            lines[..4],
            [
                "Safe: 60.0 MiB. Likely enough: 58.0 MiB.",
                "safe: a slowdown of 3.00 % at most, in the worst case too; 40.0 MiB less than it took",
                "likely enough: 2.90 % is expected there, 66.00 % in the worst case",
                "below 58.0 MiB it falls off: 22.00 % is expected at 57.0 MiB",
            ]
        );
        assert_has(&text, "not known: how long single requests wait");
        assert!(
            text.ends_with("\nstrata run --memory 60M --swap zram:64M -- sort -S 8M\n"),
            "{text}"
        );
        let unsafe_only = Span {
            highest: None,
            ..budget
        };
        let text = verdict(&plan_with(unsafe_only, None), &paste);
        assert_has(
            &text,
            "no budget keeps the slowdown within 3.00 % in the worst case",
        );
        let more = Span::all(mib(101));
        let text = verdict(&plan_with(more, None), &paste);
        assert!(!text.contains("less than it took"), "{text}");
        let none = verdict(&plan_with(Span::all(None), None), &paste);
        assert!(
            none.starts_with("\nSafe: no budget. Likely enough: no budget.\nno budget keeps the slowdown within 3.00 %\n"),
            "{none}"
        );
        assert!(!none.contains("strata run"), "{none}");
    }

    #[test]
    fn what_was_recorded_is_named_as_strata_run_wants_it() {
        for (target, words) in [
            ("process 42", "--pid 42"),
            ("cgroup /sys/fs/cgroup/app", "--cgroup /sys/fs/cgroup/app"),
            ("cgroup app", "-- cgroup app"),
            ("sort -S 8M", "-- sort -S 8M"),
            ("sh -c echo $HOME; ls", "-- COMMAND"),
            ("", "-- COMMAND"),
        ] {
            assert_eq!(Paste::new(target).0, words, "{target}");
        }
    }

    #[test]
    fn percentages_are_rounded_to_the_nearest() {
        for (millionths, text) in [
            (0, "0.00 %"),
            (49, "0.00 %"),
            (50, "0.01 %"),
            (29_949, "2.99 %"),
            (29_950, "3.00 %"),
        ] {
            assert_eq!(Ratio::of(millionths, 1_000_000).percent(), text);
        }
        // 57 and 58 of 100.
        let plan = plan_with(Span::all(None), None);
        let rows = plan.points.iter().map(|point| row(point)[1].clone());
        let rows: Vec<String> = rows.collect();
        let has = |text: &str| rows.iter().any(|row| row == text);
        assert!(has("57 %") && has("58 %"), "{rows:?}");
        let mut slightly_more = plan.points[0].clone();
        slightly_more.of_footprint = Ratio::of(570_100, 1_000_000);
        assert_eq!(row(&slightly_more)[1], "57 %");
        assert_eq!(row(&slightly_more)[6], "11.00 %");
    }

    #[test]
    fn what_is_held_is_stratas_or_a_percentage() {
        for (text, shown) in [("strata", "strata"), ("100%", "100%"), ("97.5%", "97.5%")] {
            let holding = holding_arg(text).map(|holding| holding.to_string());
            assert_eq!(holding, Ok(shown.to_owned()));
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
    }
}
