//! `strata sim`: policies side by side on traces, in virtual time.
//!
//! **Owns** the options, the order of the work and where the output goes. **Does not own** the
//! replay, the figures or the plots (`strata-sim`), nor how traces are read (`strata-trace`).

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, ValueEnum};
use strata_lru::Swappiness;
use strata_lru::machine::CgroupVersion;
use strata_sim::guarded::GuardSetup;
use strata_sim::report::Report;
use strata_sim::{
    Actuator, CostModel, GroupSpec, IntervalOrder, MemorySize, PolicySpec, Setup, SteeredSetup,
    TierSetup, Tunables, Workload,
};

use crate::args::{Format, actuator_arg, memory_size_arg, one_of, refuse_option};
use crate::cmd::report_file::ReportFile;
use crate::cmd::sim_guard::{self, guard_arg};
use crate::cmd::sim_trace::{Lines, Watched};
use crate::failure::{UsageError, refuse};
use crate::print;
use crate::progress::Bar;
use crate::source::SourceArgs;

/// A longer file is no list of groups: 65,536 of them fit.
const GROUPS_BYTES_MAX: u64 = 16 << 20;

/// Replays traces under reclaim policies and tells how often each would have missed
///
/// A trace is read once, then replayed from empty memory for each policy with each amount of memory.
/// Every request is counted, the first touch of a page as a miss. The same arguments give the same
/// bytes on any machine; nothing of this machine is looked at or changed.
///
/// TRACE is a file, plain or compressed, or a generator: gen:zipf,pages=16384 for example, or one of
/// the sequences that kernels were measured on, oracle:mmapread/hotscan for example. A recording of
/// strata record is a trace as well: an access for each page of each interval, in random order.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("several").args(["groups", "tiers"]).multiple(true)))]
#[command(after_long_help = "\
POLICIES
  mglru                              the kernel's multi-generational LRU
    :v6.1                            the rules of kernel 6.1; :v2021 :v2022 :v6.14 :v7.2 likewise
      +distance                        judges refaults by distance where that misses less
    +distance=always                 judges refaults by distance everywhere
    +group_order=ORDER               goes round groups as another kernel does: memcg-lru (6.3 on),
                                     rounds-sparing-ageing (6.1, 6.2), rounds-sparing,
                                     rounds-sparing-both, rounds or tree
    +min-ttl=MS                      memory is out when no group has an older page
    +min-ttl-each=MS                 each group keeps what is younger
  two-list                           the classic active and inactive lists; takes +distance
  lru, fifo, clock, sieve, s3-fifo   pages alone, without a kernel around them
  opt                                Belady's optimum: knows the future
  docs/reference/sim.md has every option.

EXAMPLES
  Two policies beside the optimum, with a tenth and a quarter of the pages in memory:
      strata sim trace.lis.zst --policy mglru,lru,opt --memory 10%,25%

  Two groups of a trace, one protected, one without swap, in half of what they touch:
      strata sim gen:mixed,groups=2 --policy mglru,two-list --memory 50% \\
          --group web:low=60% --group batch:max=60%,swap.max=0

  How a kernel's generations grow old, as a picture:
      strata sim gen:phases --policy mglru:v6.1 --memory 4096 --plot generations.svg

  Miss-ratio curves as a picture:
      strata sim gen:zipf --policy lru,clock,opt --memory auto --plot curves.svg

  What the run of a live process would have missed with half of its memory:
      strata record --pid 4242 --for 1m -o run.strata
      strata sim run.strata --memory 50%

  The same trace under the kernel alone, and with strata run on top of it:
      strata sim run.strata --policy two-list --memory 50%
      strata sim run.strata --policy two-list --memory 50% --steered

  What strata guard would have taken of it, and what would have come back:
      strata sim run.strata --guard promise=0.2%/min,min_age=30s

  Why the control loop did what it did in such a run:
      strata sim run.strata --policy two-list --memory 50% --steered --trace ticks.jsonl

  For a program:
      strata sim trace.zst --memory 64MiB --format json")]
pub(crate) struct SimArgs {
    /// Files or generators, for example arc-p6.lis.zst or gen:hotscan
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,

    /// Policies, with commas between them: a name, :MODEL and +OPTION or +OPTION=VALUE after it as wanted
    #[arg(
        short,
        long,
        value_name = "POLICY",
        default_value = "mglru,two-list,lru,opt",
        value_delimiter = ',',
        value_parser = str::parse::<PolicySpec>
    )]
    policy: Vec<PolicySpec>,

    /// Amounts of memory, with commas between them: pages, bytes or a share of the footprint
    ///
    /// For example 4096 (pages), 64MiB, 10%, each rounded to the nearest page; or auto, for the shares
    /// of a miss-ratio curve from 0.5% to 100%.
    #[arg(
        short,
        long,
        value_name = "SIZE",
        default_value = "10%",
        value_delimiter = ',',
        value_parser = memory_arg,
        allow_hyphen_values = true
    )]
    memory: Vec<MemoryArg>,

    /// Balance of anonymous and file pages, 0 to 201 or max, as in the kernel; lru, fifo, clock, sieve, s3-fifo and opt ignore it
    #[arg(long, value_name = "N", default_value = "60", value_parser = swappiness_arg)]
    swappiness: Swappiness,

    /// Divide memory into tiers, fastest first, in percent: 25:75, or 25:75+page-cache=five-conditions
    ///
    /// A tier is a memory node. Reclaim moves a page to the next slower tier before it evicts the page. A mapped page of a
    /// slower tier moves up when it faults soon enough. Options follow the shares, each after a +:
    ///
    /// page-cache=STRATEGY: which unmapped pages move up when they are read. never (default), first-access, rfc-as-coded,
    /// refs or five-conditions.
    ///
    /// scan=MS: how often mapped pages of slower tiers are made to fault (default 1000). Where the trace has no times, an
    /// access takes a microsecond.
    ///
    /// rate=MIB: most candidates for moving up, in MiB a second. promote=off: no page moves up.
    ///
    /// start=slow: a page that was never in memory lies on the slowest tier while that has room. phases=N: tell the time of each
    /// N-th part of the requests.
    ///
    /// docs/guide/guard.md explains each strategy. The policies lru, fifo, clock, sieve, s3-fifo and opt know no tiers.
    #[arg(long, value_name = "SHARES", value_parser = str::parse::<TierSetup>)]
    tiers: Option<TierSetup>,

    /// A group of the trace with its limits, as in cgroup v2: web:max=50%,low=1000; once for each group
    ///
    /// Keys are min, low, high, max and swap.max. Values are pages, bytes, a share of the run's memory, 0, or max for no limit.
    ///
    /// web/a lies below web. Only a group with none below it holds pages: those of the trace's group 0, 1, ... in the order
    /// given, or those of trace=N. A group of the trace that is not named has no limits.
    ///
    /// @FILE reads groups from its lines. The policies lru, fifo, clock, sieve, s3-fifo and opt know no groups.
    #[arg(
        long = "group",
        alias = "groups",
        value_name = "PATH[:KEY=VALUE,...]",
        value_parser = groups_arg
    )]
    groups: Vec<GroupsArg>,

    /// With groups or tiers: while less than this is free, reclaim from all of them in the background
    ///
    /// Reclaim goes on until twice as much is free, as the kernel's kswapd does it. SIZE is pages, bytes or a share of the run's
    /// memory; each tier keeps its share of SIZE free. Without this option whoever needs a page reclaims, and the fastest
    /// tier keeps a batch free.
    #[arg(long, value_name = "SIZE", requires = "several", value_parser = memory_size_arg)]
    background: Option<MemorySize>,

    /// Kill a group, as Android kills apps, when so many pages of files came back to the one in front: 5% of those in memory
    ///
    /// Groups of the trace are apps, of which one is in front at a time, as in gen:apps. As Android's lmkd does for its thrashing_limit,
    /// pages that come back are held against those of files in memory: since the app came to the front (there within a second), or
    /// since the last kill. The app that was in front longest ago is killed, also where nothing can be evicted: its anon pages are
    /// freed. When it comes to the front again, its first turn is replayed before: a cold start.
    ///
    /// SIZE is pages, bytes or a share of the pages of files in memory. The policies lru, fifo, clock, sieve, s3-fifo and opt kill nothing.
    #[arg(long, value_name = "SIZE", value_parser = memory_size_arg, conflicts_with_all = ["tiers", "steered", "guard"])]
    kill_at: Option<MemorySize>,

    /// Hold the memory as a budget by Strata's own control loop, on top of the policy, which plays the kernel
    ///
    /// The control loop is that of strata run --memory SIZE. It asks the played kernel to reclaim, takes pages, says which
    /// are warm and which are cold, and moves the limit. Each of these and each fault takes time, at the prices of
    /// docs/develop/steered.md. Only mglru and two-list play a kernel; other policies are refused.
    #[arg(long, conflicts_with_all = ["groups", "tiers"])]
    steered: bool,

    /// With --steered: processors of the machine
    #[arg(long, value_name = "N", default_value_t = 2, requires = "steered", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processors: u32,

    /// With --steered: threads of each program; a program is a space of the trace
    #[arg(long, value_name = "N", default_value_t = 1, requires = "steered", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// With --steered: who may take the pages, as under strata run
    #[arg(long, value_parser = actuator_arg(), default_value = "auto", requires = "steered")]
    actuator: Actuator,

    /// With --steered: the version of cgroups the budget is held by
    #[arg(long, value_parser = cgroup_arg(), default_value = "v2", requires = "steered")]
    cgroup: CgroupVersion,

    /// With --steered: leave page cache that no program has mapped to the played kernel's own choice
    ///
    /// Page cache is what the trace accesses through descriptors. Otherwise Strata drops what was read once, or what comes in where
    /// files are read in a loop, as under strata run.
    #[arg(long, requires = "steered")]
    keep_page_cache: bool,

    /// With --steered: a tunable of the control loop, once for each; docs/develop/tunables.md lists them
    ///
    /// For example walks.pause_ms_min=40. What is not set is as under strata run.
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "steered", value_parser = tunable_arg)]
    tunables: Vec<(String, f64)>,

    /// With --steered: write what each tick of the control loop read, decided and came to, as JSON lines
    ///
    /// The lines are those of strata run --trace; docs/reference/control-trace.md describes them. For one run: one trace, one
    /// policy, one amount of memory.
    #[arg(long, value_name = "FILE", requires = "steered")]
    trace: Option<PathBuf>,

    /// Play strata guard instead of policies: promise=0.2%/min, and min_age=60s and interval=10s if wanted
    ///
    /// The guard's own decisions in virtual time, from empty memory and without a limit: accesses set bits, each walk looks at
    /// them and takes what is idle, and what comes back is counted. min_age is that of strata guard; interval is the time
    /// between walks, a sixth of it by default. Where the trace has no times, an access takes a millisecond. Printed as a table
    /// or JSON.
    #[arg(
        long,
        value_name = "promise=SHARE/min[,KEY=DURATION...]",
        value_parser = guard_arg,
        allow_hyphen_values = true,
        conflicts_with_all = ["policy", "memory", "swappiness", "groups", "tiers", "steered", "order", "plot", "jobs"]
    )]
    guard: Option<GuardSetup>,

    #[command(flatten)]
    source: SourceArgs,

    /// Order of the accesses of an interval: shuffled, shuffled:SEED, address, best or worst
    ///
    /// A recording tells which pages were accessed in an interval, not in which order. The default for recordings is
    /// shuffled. best is the order in which an LRU misses least, worst that in which it misses most. Other traces are
    /// reordered only if this option is given, among accesses of the same time.
    #[arg(long, value_name = "ORDER", value_parser = str::parse::<IntervalOrder>)]
    order: Option<IntervalOrder>,

    /// Prices of the estimated time in nanoseconds, for example read=80000,scan=100:300:400
    ///
    /// One number, or the lowest, the usual and the highest. mappers=N and threads=N are numbers of them: how many map each mapped
    /// page, and how many make the requests. docs/reference/sim.md has them all.
    #[arg(long, value_name = "NAME=NS", default_value = "", hide_default_value = true, value_parser = str::parse::<CostModel>)]
    cost: CostModel,

    /// Tell the parts of what reclaim takes of the processors, and the time beside the first policy's
    ///
    /// As profiles of a kernel do: finding mappings (rmap), compression, lists, walks and so on, in percent, for policies that play
    /// a kernel; at the usual price of each thing, and the extremes over all lowest and highest ones.
    #[arg(long, conflicts_with = "guard")]
    profile: bool,

    /// How the figures are printed
    #[arg(long, value_enum, default_value = "table")]
    format: SimFormat,

    /// Draw miss ratios over memory or, with one amount of memory, generations over time, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Runs at a time, at most 1024; 0 is one a processor
    #[arg(short, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    jobs: u16,
}

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SimFormat {
    /// For people
    Table,
    /// One object with a record a run; docs/reference/sim.md names the fields
    Json,
    /// A line a run, without sizes over time
    Csv,
}

/// By what a steered run is limited.
fn cgroup_arg() -> impl TypedValueParser<Value = CgroupVersion> {
    one_of([
        ("v1", "memory.limit_in_bytes", CgroupVersion::V1),
        (
            "v2",
            "memory.max, memory.high and memory.reclaim",
            CgroupVersion::V2,
        ),
    ])
}

/// One entry of `--memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryArg {
    Auto,
    Size(MemorySize),
}

/// What one `--group` gives: a group, or those of a file.
#[derive(Clone, Debug)]
struct GroupsArg(Vec<GroupSpec>);

/// Replays and prints.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    if let Some(setup) = &args.guard {
        let format = match args.format {
            SimFormat::Table => Format::Text,
            SimFormat::Json => Format::Json,
            SimFormat::Csv => {
                return refuse("--guard is printed as a table or as JSON, not as CSV");
            }
        };
        return sim_guard::run(&args.traces, &args.source, setup, &args.cost, format);
    }
    if args.profile && args.format == SimFormat::Csv {
        return refuse("--profile is printed as a table or as JSON, not as CSV");
    }
    let plot = args.plot.clone().map(ReportFile::try_place).transpose()?;
    let tunables = tunables(&args.tunables)?;
    let lines = args.trace.clone().map(ReportFile::try_place).transpose()?;
    let lines = lines.map(Lines::new);
    let bound = args.source.bound()?;
    let mut report = Report {
        is_profiled: args.profile,
        ..Report::default()
    };
    for trace in &args.traces {
        let workload = load(trace, args)?;
        let setups = setups(args, &tunables, workload.footprint_pages());
        if lines.is_some() {
            refuse_several(args.traces.len() * args.policy.len() * setups.len())?;
        }
        let jobs = bound.jobs(&workload, workload.memory_bytes(), usize::from(args.jobs))?;
        let nr_runs = (args.policy.len() * setups.len()) as u64;
        let bar = Bar::requests(trace, nr_runs * u64::from(workload.nr_requests()));
        let watched = Watched {
            bar: &bar,
            lines: lines.as_ref(),
        };
        let runs = jobs.replay(&workload, &args.policy, &setups, &watched)?;
        bar.finish();
        report.add(&workload, &runs, &args.cost);
    }
    match args.format {
        SimFormat::Table => print::data(report.table())?,
        SimFormat::Json => print::data(report.json()?)?,
        SimFormat::Csv => print::data(report.csv())?,
    }
    if let Some(place) = plot {
        place.write_text(&report.plot())?;
    }
    if let Some(lines) = lines {
        lines.write()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The tunables of a steered run.
fn tunables(set: &[(String, f64)]) -> Result<Tunables, UsageError> {
    let mut tunables = Tunables::default();
    for (name, value) in set {
        tunables = tunables
            .with(name, *value)
            .map_err(|error| UsageError(format!("--set {name}={value}: {error}")))?;
    }
    Ok(tunables)
}

fn tunable_arg(text: &str) -> Result<(String, f64), String> {
    refuse_option(text)?;
    let pair = text.split_once('=');
    let pair = pair.and_then(|(name, value)| Some((name.to_owned(), value.parse::<f64>().ok()?)));
    pair.filter(|(_, value)| value.is_finite())
        .ok_or_else(|| "name a tunable and a number, for example walks.pause_ms_min=40".to_owned())
}

/// Ticks of two runs in one file could not be told apart.
fn refuse_several(nr_runs: usize) -> Result<(), UsageError> {
    match nr_runs {
        1 => Ok(()),
        _ => Err(UsageError(format!(
            "--trace writes the ticks of one run, and {nr_runs} runs were asked for: name one trace, one --policy and one \
             amount of --memory"
        ))),
    }
}

/// Reads a trace, or has it made.
fn load(trace: &str, args: &SimArgs) -> anyhow::Result<Workload> {
    let mut source = args.source.open(trace)?;
    let workload = Workload::read_within(trace, source.reader.as_mut(), source.bound.0)?;
    let is_recording = source.reader.recording().is_some();
    drop(source);
    Ok(match args.order {
        Some(order) => args.source.bound()?.reorder(&workload, order)?,
        None if is_recording => {
            let order = IntervalOrder::default();
            args.source.bound()?.reorder(&workload, order)?
        }
        None => workload,
    })
}

/// A setup for each amount of memory, in the order asked for; amounts that come to the same number
/// of pages are one.
fn setups(args: &SimArgs, tunables: &Tunables, footprint_pages: u32) -> Vec<Setup> {
    let sizes = args.memory.iter().flat_map(|arg| match arg {
        MemoryArg::Auto => MemorySize::CURVE.to_vec(),
        MemoryArg::Size(size) => vec![*size],
    });
    let groups = args.groups.iter().flat_map(|arg| arg.0.clone());
    let groups: Vec<GroupSpec> = groups.collect();
    let steered = args.steered.then(|| SteeredSetup {
        nr_processors: args.processors,
        threads_per_program: args.threads,
        actuator: args.actuator,
        hierarchy: args.cgroup,
        drops_cache: !args.keep_page_cache,
        config: *tunables,
        is_traced: args.trace.is_some(),
    });
    let mut setups: Vec<Setup> = Vec::new();
    for size in sizes {
        let setup = Setup {
            swappiness: args.swappiness,
            tiers: args.tiers.clone(),
            groups: groups.clone(),
            kill_at: args.kill_at,
            background: args.background,
            steered: steered.clone(),
            ..Setup::with_memory(size.pages(footprint_pages))
        };
        if !setups.contains(&setup) {
            setups.push(setup);
        }
    }
    setups
}

fn memory_arg(text: &str) -> Result<MemoryArg, String> {
    if text == "auto" {
        return Ok(MemoryArg::Auto);
    }
    memory_size_arg(text).map(MemoryArg::Size)
}

/// A group, or `@FILE` with one a line; empty lines and those that begin with `#` are passed over.
fn groups_arg(text: &str) -> Result<GroupsArg, String> {
    refuse_option(text)?;
    let parse = |text: &str| text.parse::<GroupSpec>().map_err(|error| error.to_string());
    let Some(file) = text.strip_prefix('@') else {
        return Ok(GroupsArg(vec![parse(text)?]));
    };
    let lines = read_groups(file).map_err(|error| format!("can't read {file}: {error}"))?;
    let lines = lines.lines().map(str::trim).zip(1..);
    let groups = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let groups = groups.map(|(line, number)| {
        parse(line).map_err(|error| format!("{file}, line {number}: {error}"))
    });
    Ok(GroupsArg(groups.collect::<Result<_, String>>()?))
}

/// The text of a file of groups, which may be a pipe or never end.
fn read_groups(file: &str) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(file)?.take(GROUPS_BYTES_MAX + 1);
    BufReader::new(file).read_to_string(&mut text)?;
    if text.len() as u64 > GROUPS_BYTES_MAX {
        let why = format!("it is longer than {GROUPS_BYTES_MAX} bytes: is this a list of groups?");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// Reads a balance; `max` is the kernel's word for the last one.
fn swappiness_arg(text: &str) -> Result<Swappiness, String> {
    let number = match text {
        "max" => Some(Swappiness::ANON_ONLY),
        number => number.parse().ok().and_then(Swappiness::try_new),
    };
    number.ok_or_else(|| "swappiness is a number from 0 to 201, or max".to_owned())
}
