//! `strata run`: a program, or one that runs already, within a budget.
//!
//! **Owns** the options of `run` and the order of things around a run: report file first, then the
//! run, then the report. **Does not own** the run (`strata_host::run`) or the report's text
//! (`render`).
//!
//! **Invariants** R1: the report file's place is tried before the program starts. R2: the exit
//! status is the program's, whatever becomes of the report.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use strata_host::keeper::{BadSessionName, SessionName};
use strata_host::remote::MetricsConfig;
use strata_host::run::{
    self, ActuatorChoice, AtDetach, ControlConfig, Event, PolicyChoice, RunConfig,
    SwappinessChoice, Target,
};
use strata_linux::access::AccessChoice;
use strata_linux::swap::SwapSpec;
use strata_lru::{BadText, Swappiness};

use crate::args::{
    access_arg, actuator_arg, loopback_arg, parse_duration_ms, refuse_option, size_arg, swap_arg,
};
use crate::cmd::html;
use crate::cmd::report_file::{self, ReportFile};
use crate::failure::{UsageError, refuse};
use crate::render::Detail;
use crate::target::{CommandOrTarget, program};
use crate::{print, render};

/// Runs a program within a memory budget
///
/// Gives a memory budget to a command, or to a process or cgroup that runs already, and keeps in memory the
/// pages that are used. An evicted page goes to swap (anonymous memory) or is read again from its file, so
/// the program runs slower instead of being killed.
///
/// The program keeps its stdin, stdout, stderr, environment, working directory and exit status, so
/// `strata run ... --` can stand in front of any command in a script. Signals sent to Strata (HUP, INT,
/// QUIT, TERM, TSTP, CONT, USR1, USR2) are passed on to the program.
/// A short report is printed to stderr when the program has ended.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  A server within 512 MiB, with 1 GiB of compressed swap of its own for as long as it runs:
      strata run --memory 512M --swap zram:1G -- redis-server --port 6379

  The same, with only the kernel's limit, to compare:
      strata run --memory 512M --swap zram:1G --policy none -- redis-server --port 6379

  A process that runs already, which stays in its cgroup; Ctrl-C lets go of it:
      strata run --memory 2G --pid 4242

  What would be evicted, without changing anything, and the report as JSON:
      strata run --memory 1G --dry-run --report run.json -- ./job

ENVIRONMENT
  STRATA_RUN_DIR  where runs note what they change, for the keeper, strata ctl and the next start: the whole path of a
                  directory that only you can write; /run/strata by default

EXIT STATUS
  The program's own; 128+N if signal N ended it; 0 after letting go of a running one.
  2 if the arguments or the target can't be used, 125 if Strata itself failed, 126 if the command
  can't be executed, 127 if it was not found.")]
pub(crate) struct RunArgs {
    /// How much memory the program may use, for example 512M or 1.5G
    ///
    /// SIZE is a number with an optional suffix K, M, G or T (powers of 1024); without one, bytes. Everything the kernel
    /// charges to the program counts: its own pages, files it maps, page cache, kernel memory. No default.
    #[arg(short, long, value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
    memory: u64,

    /// Where anonymous memory goes: existing, zram:SIZE, zram:SIZE,ALGORITHM, file:PATH:SIZE; 25% as SIZE is a share of memory
    ///
    /// existing uses what the machine has (without any swap only file pages can be evicted).
    /// zram:SIZE or zram:SIZE,ALGORITHM makes a compressed device in memory, for example zram:2G,lz4.
    /// file:PATH:SIZE makes a swap file, which must not exist yet, for example file:/var/tmp/s:4G.
    /// What was made is taken down when the program has ended. Swap belongs to the machine: while it is there,
    /// pages of every program may go to it.
    #[arg(
        long,
        value_name = "SPEC",
        default_value = "existing",
        value_parser = swap_arg,
        allow_hyphen_values = true
    )]
    swap: SwapSpec,

    /// Balance of anonymous and file pages: 0 (files only) to 200, max (anonymous only), or auto
    ///
    /// The number means what vm.swappiness means: 100 takes both alike, less spares anonymous pages, more spares file pages.
    ///
    /// auto is 60.
    ///
    /// On cgroup v2 the kernel takes the balance with each request to reclaim ahead, from Linux 6.8 on.
    #[arg(
        long,
        value_name = "N",
        default_value = "auto",
        value_parser = swappiness_arg,
        allow_hyphen_values = true
    )]
    swappiness: SwappinessChoice,

    /// Never evict what was used within this time, for example 1s; 0 is off
    ///
    /// DURATION is a number with a unit ms, s, m or h. Where the budget can't be met without evicting younger pages, the
    /// budget gives way, and the report calls that thrashing.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0",
        value_parser = parse_duration_ms,
        allow_hyphen_values = true
    )]
    min_ttl: u64,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// Who takes the pages
    #[arg(long, value_parser = actuator_arg(), value_name = "WHO", default_value = "auto")]
    actuator: ActuatorChoice,

    /// Have Strata choose page by page which go, by this policy: mglru, mglru+distance, two-list, or none
    ///
    /// Without this option the kernel chooses, and Strata asks it ahead of the limit. A policy costs more processor time.
    ///
    /// mglru goes by when a page was last accessed (the kernel's multi-generational LRU). mglru+distance judges by refault
    /// distance what comes back, where that misses less. two-list is the classic active and inactive list. none sets the
    /// kernel's limit and nothing else.
    ///
    /// A model and options may follow a name, as in strata sim: mglru:v6.1+nr_gens=8. docs/reference/sim.md lists them.
    #[arg(long, value_name = "POLICY", value_parser = policy_arg, allow_hyphen_values = true)]
    policy: Option<PolicyChoice>,

    /// Gone: see the error
    #[arg(long, hide = true, num_args = 0, default_missing_value = "", value_parser = prefetch_arg)]
    prefetch: Option<u8>,

    /// Gone: see the error
    #[arg(long, hide = true, value_name = "PRIORITY", value_parser = priority_arg)]
    priority: Option<u8>,

    /// Leave page cache that no program has mapped to the kernel's own choice
    ///
    /// Otherwise Strata looks which of the group's page cache was read once and not again, and drops that before anything
    /// else goes: clean pages of files on ext4 and xfs. Files of which much comes back are left alone.
    #[arg(long)]
    keep_page_cache: bool,

    /// Most processor time that Strata may take, in percent of one processor, for example 10%
    ///
    /// The share is for all of Strata's threads and its keeper together, over each second. When the share is spent, the
    /// program reclaims for itself in its own page faults until half of the share is free again. The budget is held all the
    /// time. One walk with what follows it may exceed the share. No default.
    #[arg(long, value_name = "SHARE", value_parser = cpu_arg, allow_hyphen_values = true)]
    cpu: Option<u32>,

    /// Hold the budget over resident memory, without a cgroup
    ///
    /// The summed resident memory of the program and its children is kept at or below the budget by
    /// evicting pages; there is no hard limit behind it.
    #[arg(long, conflicts_with = "cgroup")]
    no_cgroup: bool,

    /// Run the command as this user, for example nobody
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "cgroup"])]
    user: Option<String>,

    /// Say what would be evicted, and change nothing: no limit, no swap, no eviction
    ///
    /// The program runs as it would without Strata. At the end the report says how much would have been out of memory, from
    /// what kinds of mappings, and how much of it would have come back, once for each time. Page cache counts where the
    /// target runs in a cgroup already (--pid, --cgroup).
    #[arg(long)]
    dry_run: bool,

    /// With --pid or --cgroup: at the end, read the target's pages back in from swap
    ///
    /// Pages are read in after the limits are lifted: as many as fit into available memory and below the limits of the
    /// target's cgroups, for at most a minute. One more signal (Ctrl-C) ends it sooner.
    ///
    /// Without this option a page stays in swap until the program asks for it.
    #[arg(long, conflicts_with = "command")]
    bring_back: bool,

    /// Write the report as JSON to this file when the program has ended
    ///
    /// The file is replaced as a whole. Its place is tried before the program starts.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Make a page of the report when the program has ended, as strata html does
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write a line of JSON to this file for each turn of the control loop: what it read, what it decided, what became of it
    ///
    /// The trace tells why Strata did what it did. The file is emptied when the program starts. It grows by about 100 KiB a
    /// second while there is work, to 256 MiB at most. docs/reference/control-trace.md describes it.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Answer Prometheus scrapes on this loopback address, for example 127.0.0.1:9464
    ///
    /// The metrics are at http://ADDRESS:PORT/metrics. Only loopback addresses (127.0.0.0/8, ::1) are accepted: whoever can
    /// log in to this machine can read the metrics, nobody else. Port 0 takes any free port and says which.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback_arg, allow_hyphen_values = true)]
    metrics: Option<SocketAddr>,

    /// Write the metrics to this file every 15 s, for node_exporter's textfile collector
    ///
    /// The file is replaced as a whole, and removed when the run ends. Its name has to end in .prom for
    /// the collector to read it, for example /var/lib/node_exporter/strata.prom.
    #[arg(long, value_name = "FILE")]
    metrics_textfile: Option<PathBuf>,

    /// A name for the run, for example web: for strata ctl --name, metrics and /run/strata
    ///
    /// A name begins with a letter and has at most 64 letters, digits and - _ . in all. Two runs can't have one name at a time.
    ///
    /// A run without a name is called by the process id of its strata. In metrics each start of it begins a new series.
    #[arg(long, value_name = "NAME", value_parser = name_arg, allow_hyphen_values = true)]
    name: Option<SessionName>,

    /// Print no notes and no report to stderr; errors and warnings still are
    #[arg(short, long)]
    quiet: bool,

    /// Print the whole report: how pages are taken, costs, and what can't be seen
    ///
    /// At the start it also says what became of other runs that had died.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    target: CommandOrTarget,
}

/// Percent of one processor, with or without the sign.
fn cpu_arg(text: &str) -> Result<u32, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<u32>() {
        Ok(percent @ 1..=10_000) => Ok(percent),
        _ => Err(format!(
            "{text:?} is no share of a processor: give a whole number of percent from 1% on, for example 10%"
        )),
    }
}

impl RunArgs {
    /// What is younger than this is not taken, whichever way that was asked for.
    fn min_ttl_ms(&self, policy: &PolicyChoice) -> anyhow::Result<u64> {
        let Some(engine) = policy.engine() else {
            return Ok(self.min_ttl);
        };
        let own_ms = engine.config().min_ttl_ms;
        match (self.min_ttl, own_ms) {
            (0, _) => Ok(own_ms),
            (_, 0) if engine.has_generations() => Ok(self.min_ttl),
            (_, 0) => refuse(format!(
                "--min-ttl can't be used with --policy {policy}, which keeps no ages; leave one of them out, or use mglru"
            )),
            _ => refuse(format!(
                "--min-ttl and --policy {policy} both say what is too young to go; say it once"
            )),
        }
    }

    /// Takes the options together: some exclude each other.
    fn into_config(self) -> anyhow::Result<RunConfig> {
        if self.cpu.is_some() && self.no_cgroup {
            return refuse(
                "--cpu can't be used with --no-cgroup: where the cap is spent nobody would hold the budget; leave one of \
                 them out",
            );
        }
        if self.no_cgroup && self.actuator == ActuatorChoice::Reclaim {
            return refuse(
                "--actuator reclaim can't be used with --no-cgroup: the kernel reclaims from a \
                 cgroup; leave one of them out",
            );
        }
        let policy = self
            .policy
            .clone()
            .map_or_else(|| policy_arg(PolicyChoice::DEFAULT), Ok)
            .map_err(UsageError)?;
        let min_ttl_ms = self.min_ttl_ms(&policy)?;
        let is_exact = self.policy.is_some() || min_ttl_ms > 0;
        if self.no_cgroup && policy == PolicyChoice::None {
            return refuse(
                "--policy none can't be used with --no-cgroup: then nobody would hold the budget; \
                 leave one of them out",
            );
        }
        let target = match (self.target.pid, self.target.cgroup) {
            (Some(pid), _) => Target::Pid(pid),
            (None, Some(path)) => Target::Cgroup(path),
            (None, None) => {
                let (program, args) = program(self.target.command)?;
                Target::Command {
                    program,
                    args,
                    user: self.user,
                }
            }
        };
        Ok(RunConfig {
            name: self.name,
            target,
            budget_bytes: self.memory,
            swap: self.swap,
            swappiness: self.swappiness,
            min_ttl_ms,
            access: self.access,
            actuator: self.actuator,
            policy,
            is_exact,
            cpu_percent_max: self.cpu,
            no_cgroup: self.no_cgroup,
            dry_run: self.dry_run,
            drop_cache: !self.keep_page_cache,
            at_detach: match self.bring_back {
                true => AtDetach::BringBack,
                false => AtDetach::Leave,
            },
            metrics: MetricsConfig {
                address: self.metrics,
                textfile: self.metrics_textfile,
            },
            trace: self.trace,
            control: ControlConfig::default(),
        })
    }
}

/// Runs it, reports, and gives the program's status.
pub(crate) fn run(mut args: RunArgs) -> anyhow::Result<ExitCode> {
    if args.trace.is_some() && args.trace == args.report {
        return refuse("--trace and --report name the same file; give each a file of its own");
    }
    let report_file = args.report.take().map(ReportFile::try_place).transpose()?;
    let page_file = args.html.take().map(ReportFile::try_place).transpose()?;
    args.metrics_textfile = args
        .metrics_textfile
        .take()
        .map(report_file::try_regular)
        .transpose()?;
    if let Some(path) = &args.trace {
        report_file::try_growing(path)?;
    }
    let is_quiet = args.quiet;
    let is_verbose = args.verbose;
    let detail = match is_verbose {
        true => Detail::Verbose,
        false => Detail::Short,
    };
    let config = args.into_config()?;
    let mut told = Vec::new();
    let mut tell = |event: Event<'_>| match event {
        Event::Note(_) if is_quiet => {}
        Event::OtherRun(_) if !is_verbose => {}
        Event::Note(text) | Event::OtherRun(text) => print::note(&text),
        Event::Warning(text) => {
            print::warning(&text);
            told.push(text.to_owned());
        }
    };
    print::hand_over();
    let report = run::run(&config, &mut tell)?;
    if !is_quiet {
        print::block(&render::report(&report, detail, &told));
    }
    if let Some(file) = report_file
        && let Err(error) = file.write(&report)
    {
        print::error(&print::chain(error.as_ref()));
    }
    if let Some(file) = page_file
        && let Err(error) =
            html::of_report("strata run", &report).and_then(|page| file.write_text_of_run(&page))
    {
        print::error(&print::chain(error.as_ref()));
    }
    Ok(ExitCode::from(report.ending.exit_status()))
}

fn policy_arg(text: &str) -> Result<PolicyChoice, String> {
    refuse_option(text)?;
    text.parse().map_err(|error: BadText| {
        // clap has quoted the text.
        let why = error.why.replace("use one of ", "use one of none, ");
        format!("{}{why}", strata_sim::suggestion(text))
    })
}

fn name_arg(text: &str) -> Result<SessionName, String> {
    refuse_option(text)?;
    text.parse()
        .map_err(|error: BadSessionName| error.to_string())
}

fn swappiness_arg(text: &str) -> Result<SwappinessChoice, String> {
    refuse_option(text)?;
    if text == "auto" {
        return Ok(SwappinessChoice::Auto);
    }
    let value = match text {
        "max" => Some(Swappiness::ANON_ONLY),
        // 201 is what the kernel prints for max; typed as a number it is a slip.
        number => number
            .parse()
            .ok()
            .filter(|n| *n <= 200)
            .and_then(Swappiness::try_new),
    };
    value.map(SwappinessChoice::Fixed).ok_or_else(|| {
        "it is a number from 0 to 200, max for anonymous pages only, or auto".to_owned()
    })
}

/// An option of release 0.1.
fn priority_arg(_: &str) -> Result<u8, String> {
    Err("--priority is gone since release 0.2, because neighbours paid for it with up to three quarters of their processor time: \
         Strata's threads run at the priority with which Strata was started; leave the option out"
        .to_owned())
}

/// An option of release 0.1.
fn prefetch_arg(_: &str) -> Result<u8, String> {
    Err("--prefetch is gone since release 0.2, because no real program gained by it: leave the option out".to_owned())
}
