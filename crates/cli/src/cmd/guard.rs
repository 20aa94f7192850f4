//! `strata guard`: a whole host gives back what nobody uses, within a promise.
//!
//! **Owns** the options, the pace of looks and the table. **Does not own** the rules file (`rules_file`), who is looked
//! after and what is taken (`strata_host::managed`), what was (`history`), nor what other programs are told (`service`).

mod aside;
mod command;
mod history;
mod rules_file;
mod service;
mod table;
mod values;

use std::ffi::OsString;
use std::io::{self, IsTerminal, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use signal_hook::consts::SIGHUP;
use strata_host::managed::{
    Hand, House, Managed, ManagedConfig, Promised, Rule, Rules, Status, StatusError,
    SwapWriteBound, TierRules, demand_demotion,
};
use strata_host::news::News;
use strata_host::observe::{Attention, Turn, Who, attend};
use strata_host::park::{self, Parker};
use strata_host::remote::MetricsConfig;
use strata_linux::access::AccessChoice;
use strata_linux::swap::SwapSpec;
use strata_linux::units::Bytes;

use crate::args::{
    Format, access_arg, loopback_arg, min_age_arg, one_of, parse_duration_ms, parse_percent,
    size_arg, swap_arg,
};
use crate::cmd::kinds::table as kinds_table;
use crate::cmd::{report_file, wake};
use crate::failure::{UsageError, refuse};
use crate::print;
use aside::{Read, Rereading, Talker};
use command::Command;
use rules_file::RulesFile;
use service::Service;
use table::table;
use values::{promised_arg, swap_writes_arg};

/// The share of all processors where nothing is said.
const CPU_SHARE: f64 = 0.02;
/// Time between two looks at what the pageout thread has done.
const TICK: Duration = Duration::from_secs(1);
/// Troubles that are told one by one; processes that end in the middle are normal.
const TOLD_MAX: usize = 3;
/// Texts that wait for whoever reads stdout; what comes beyond is lost.
const TEXTS_MAX: usize = 64;
/// The end waits no longer for whoever reads stdout.
const STDOUT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Gives back what nobody uses, on a whole host, within a promise
///
/// Watches every cgroup. With --promise, takes the memory that has not been accessed for long, the oldest first, and sees
/// what of it comes back. The promise is a bound on that: of what a group has in memory and what was taken of it, at most
/// this share comes back within a minute. The age that counts as idle rises at once where more does, and falls slowly
/// where less does. Without --promise nothing is taken: each group is told with what it could give.
///
/// No limit is set, no process is moved, and no budget has to be known. Anonymous memory needs swap to go to. Left alone
/// without --cgroup are the groups of pid 1, of sshd and of Strata, and always those that a strata run holds.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  What could each group give?
      strata guard

  Give it back, to a compressed swap device of Strata's own:
      strata guard --promise 0.2%/min --swap zram:2G

  How does it stand, from another terminal?
      strata guard status

  What has it given back since yesterday, and what came back?
      strata guard history

  Only one program, which is started for it:
      strata guard --promise 0.2%/min --swap zram:1G -- node server.js

  Only some groups, and what was not used for ten minutes:
      strata guard --promise 0.2%/min --cgroup '/system.slice/*' --min-age 10m

  Read back in what is in the swap of a guard that has ended, and take it down:
      strata guard --release

  Each group by its own rule; SIGHUP has the file read again:
      strata guard --config /etc/strata/guard.toml")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GuardArgs {
    #[command(subcommand)]
    verb: Option<GuardVerb>,

    /// Take idle memory, as long as at most this share of a group comes back within a minute, for example 0.2%/min
    ///
    /// Or 'slowdown 1%': as long as its tasks wait for memory for at most that share of each minute. The kernel tells that of
    /// groups of cgroup v2 where it has PSI; elsewhere it is major faults times what a read from swap takes, which is measured.
    #[arg(long, value_name = "PROMISE", value_parser = promised_arg, allow_hyphen_values = true)]
    promise: Option<Promised>,

    /// Rules for groups, in TOML
    ///
    /// The first rule that fits a group holds for it. A file that is wrong is refused as a whole, with line and column.
    /// SIGHUP has it read again; where it is wrong then, the rules stay as they were.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["promise", "min_age", "cgroups"])]
    config: Option<PathBuf>,

    /// Read the rules, say what is wrong with them, or how many groups go by each now, and end
    #[arg(long, requires = "config")]
    check: bool,

    /// Memory is never idle that was accessed within so long [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = min_age_arg, allow_hyphen_values = true)]
    min_age: Option<u64>,

    /// Only groups whose path fits this pattern, for example '/system.slice/*'; may be given several times
    #[arg(long = "cgroup", value_name = "GLOB")]
    cgroups: Vec<String>,

    /// Where anonymous memory goes: existing, zram:SIZE, zram:SIZE,ALGORITHM, file:PATH:SIZE; 25% as SIZE is a share of memory
    ///
    /// What is made stays in use when the guard ends, however it ends, and the next guard takes it over; --release takes it down.
    /// [default: existing, or what the rules say]
    #[arg(long, value_name = "SWAP", value_parser = swap_arg, allow_hyphen_values = true)]
    swap: Option<SwapSpec>,

    /// How much is written to swap a second at most, for example 10M/s, or none for any amount
    ///
    /// [default: 10M/s where swap lies on a disk, none where it is zram; or what the rules say]
    #[arg(long, value_name = "SIZE/s", value_parser = swap_writes_arg, allow_hyphen_values = true, conflicts_with = "config")]
    swap_writes: Option<SwapWriteBound>,

    /// Memory nodes with slower memory are used, too: what is idle goes there before it goes to swap, and comes up when it is used
    ///
    /// Slower are nodes that the kernel says so of, or nodes without processors. Which, and how fast pages come up, is said in rules.
    #[arg(long, conflicts_with = "config")]
    tiers: bool,

    /// At the end, read back in what is in the swap that was made, and take it down; without --promise or --config, do so with
    /// what a guard has left that has ended
    ///
    /// Swap that holds more than fits into memory stays in use, which is said.
    #[arg(long, conflicts_with = "dry_run")]
    release: bool,

    /// Decide all, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// The share of all processors that Strata may use where the host is not short of memory [default: 2%, or what the rules say]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    cpu: Option<f64>,

    /// How long, for example 10m; until Ctrl-C by default
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true)]
    length: Option<u64>,

    /// Who chooses pages: Strata (exact), the kernel (amount: memory.reclaim; memory.force_empty on v1), or the kernel where Strata can't take them, and on v2 where that is cheaper (auto)
    #[arg(long, value_parser = hand_arg(), value_name = "HAND", default_value = "auto")]
    hand: Hand,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// Where the history is kept, or none; by default /var/lib/strata/history.db where memory is taken, else none
    #[arg(long, value_name = "PATH")]
    history: Option<PathBuf>,

    /// Answer Prometheus scrapes on this loopback address, for example 127.0.0.1:9466; port 0 takes any free port and says which
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback_arg, allow_hyphen_values = true)]
    metrics: Option<SocketAddr>,

    /// Write the metrics to this file every 15 s, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    metrics_textfile: Option<PathBuf>,

    /// How it is printed: text is a table, again at each walk on a terminal and once at the end elsewhere; JSON is one
    /// object a line, at each walk
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// A command to start, in a cgroup of its own, which alone is looked after until it ends
    ///
    /// Signals are passed on to it, and its status is that of the guard. The table is printed to stderr when it has ended, and
    /// the swap that was made is taken down.
    #[arg(
        last = true,
        value_name = "COMMAND",
        requires = "promise",
        conflicts_with_all = ["config", "cgroups", "length", "dry_run"]
    )]
    command: Vec<OsString>,
}

impl GuardArgs {
    /// Whether a command is started, whose status counts.
    pub(crate) fn has_command(&self) -> bool {
        !self.command.is_empty()
    }
}

/// Who chooses the pages that go.
fn hand_arg() -> impl TypedValueParser<Value = Hand> {
    one_of([
        (
            "auto",
            "The cheaper one that takes what is idle; the kernel what several processes map",
            Hand::Auto,
        ),
        (
            "exact",
            "Strata, page by page; what several processes map stays",
            Hand::Exact,
        ),
        (
            "amount",
            "The kernel, which is asked for no more than is idle",
            Hand::Amount,
        ),
    ])
}

/// What is asked of a guard that runs.
#[derive(Debug, Subcommand)]
enum GuardVerb {
    /// Shows what the guard that runs has done, as of its last walk; fails where that is older than three intervals and 15 s
    Status {
        /// Only how much more fits, and whether so much does, as strata guard room
        #[arg(long, value_name = "SIZE", num_args = 0..=1, value_parser = size_arg)]
        room: Option<Option<u64>>,
        /// What groups hold by kind of memory: in memory, used, idle and away, and why what is idle stays
        #[arg(long, conflicts_with = "room")]
        kinds: bool,
        /// How it is printed: JSON is one object
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Tells how much more fits on the host without a broken promise: what is available now, and what lies idle in groups
    ///
    /// With a size the exit status is 0 if so much fits, and 1 if not: strata guard room 300M && start-one.
    Room {
        /// How much is to fit, for example 300M
        #[arg(value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
        bytes: Option<u64>,
        /// How it is printed: JSON is one object
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Has the guard that runs with --tiers move so much to slower memory, the oldest first
    Demote {
        /// How much, for example 1G
        #[arg(value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
        bytes: u64,
    },
    /// Shows what guards have given back, what of it came back and what it cost, by minute or hour
    History(history::HistoryArgs),
}

/// Tells how much fits; fails where that is less than what is asked for.
fn room(bytes: Option<u64>, format: Format) -> anyhow::Result<ExitCode> {
    let status = Status::of_running()?;
    if status.walks.is_late() {
        return Err(StatusError::Late(status.walks).into());
    }
    let room = status.room_now().context(
        "how much fits is not told: the rules leave memory to the kernel ([host] free = \"none\")",
    )?;
    print::answer(format, &room, || format!("{room}\n"))?;
    match bytes.is_some_and(|bytes| room.room_bytes < bytes) {
        true => Ok(ExitCode::FAILURE),
        false => Ok(ExitCode::SUCCESS),
    }
}

fn status(format: Format, kinds: bool) -> anyhow::Result<ExitCode> {
    let status = Status::of_running().map_err(|error| match (&error, House::left()) {
        (StatusError::NoGuard, Some(swap)) => anyhow::anyhow!(
            "{error}; one that has ended has left swap in use, {swap}: the next guard takes it over, strata guard --release takes it down"
        ),
        _ => error.into(),
    })?;
    print::answer(format, &status, || {
        let columns = print::columns();
        let groups = status.groups.iter().map(|of| (&*of.group, &of.kinds));
        let text = match kinds {
            true => kinds_table(&status.kinds, groups, columns),
            false => table(&status, columns),
        };
        format!("{}\n{text}", status.walks)
    })?;
    match status.walks.is_late() {
        true => Err(StatusError::Late(status.walks).into()),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Says how many groups go by each rule.
fn check(rules: &Rules) -> anyhow::Result<ExitCode> {
    let nr_rules = rules.rules.len();
    let plural = if nr_rules == 1 { "" } else { "s" };
    print::data(format!("nothing is wrong: {nr_rules} rule{plural}\n"))?;
    match Managed::fits(rules) {
        Ok(fits) => fits
            .iter()
            .try_for_each(|fit| print::data(format!("{fit}\n")))?,
        Err(error) => print::warning(&format!("which groups go by them can't be told: {error}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn demote(bytes: u64) -> anyhow::Result<ExitCode> {
    demand_demotion(bytes)?;
    print::note(&format!(
        "up to {} go down after the next walk, as far as it lies idle; strata guard status shows it",
        Bytes(bytes)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Watches, takes and tells.
pub(crate) fn run(args: &GuardArgs) -> anyhow::Result<ExitCode> {
    match &args.verb {
        Some(GuardVerb::Status {
            room: None,
            kinds,
            format,
        }) => return status(*format, *kinds),
        Some(GuardVerb::Status {
            room: Some(bytes),
            format,
            ..
        }) => return room(*bytes, *format),
        Some(GuardVerb::Room { bytes, format }) => return room(*bytes, *format),
        Some(GuardVerb::Demote { bytes }) => return demote(*bytes),
        Some(GuardVerb::History(args)) => return history::show(args),
        None => {}
    }
    // First, as who sends it does not know how far this is.
    let hangs_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&hangs_up))
        .context("installing the handler of SIGHUP failed")?;
    let asked = asked(args)?;
    if args.check {
        return check(&asked.rules);
    }
    let is_asked_to_act = args.promise.is_some() || args.config.is_some();
    if args.release && !is_asked_to_act {
        return release_left();
    }
    let is_acting = is_asked_to_act && !args.dry_run && !asked.is_dry_run;
    let config = ManagedConfig {
        is_acting,
        hand: args.hand,
        access: args.access,
        cpu_share: args.cpu.or(asked.cpu_share).unwrap_or(CPU_SHARE),
    };
    if args
        .swap
        .as_ref()
        .is_some_and(|swap| *swap != SwapSpec::Existing)
        && !is_acting
    {
        return refuse(
            "--swap needs --promise or --config, and no --dry-run: nothing else takes memory",
        );
    }
    let swap = args.swap.clone().or(asked.swap).unwrap_or_default();
    let history = args.history.clone().or(asked.history);
    let mut service = Service::start(&MetricsConfig {
        address: args.metrics,
        textfile: (args.metrics_textfile.clone())
            .map(report_file::try_regular)
            .transpose()?,
    })?;
    let rules = asked.rules;
    let mut managed = Managed::start(config, rules.clone())?;
    let mut house = match config.is_acting {
        true => Some(House::prepare(&swap)?),
        false => None,
    };
    if let Some(swap) = house.as_ref().and_then(House::taken_over) {
        print::note(&format!(
            "the swap of the guard before is taken over: {swap}"
        ));
    }
    let give_up = |house: Option<House>| {
        if let Some(house) = house {
            let is_new = house.taken_over().is_none();
            end(house, is_new || args.release);
        }
    };
    if let Err(error) = managed.measure() {
        give_up(house);
        return refuse(error.to_string());
    }
    let prepared = match args.has_command() {
        false => Ok((None, Who::Served(Managed::subject()))),
        true => Command::prepare(&args.command, &mut managed, rules)
            .map(|(command, who)| (Some(command), who)),
    };
    let (command, who) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            give_up(house);
            return Err(error);
        }
    };
    if let Some(house) = &house {
        managed.may_halt(house.to_write(), tell_one);
    }
    let start_parker =
        || Parker::start(config.access).context("starting the thread that parks failed");
    let mut parker = is_acting.then(start_parker).transpose()?;
    let mut history = history::Keeping::start(history.as_deref(), is_acting);
    // From here on nobody waits for whoever reads what is said.
    print::hand_over();
    let write = |texts: Receiver<String>| texts.iter().try_for_each(print::data);
    let out = Talker::start("strata-stdout", TEXTS_MAX, write)
        .context("starting the thread that writes to stdout failed")?;
    let mut rereading = args.config.as_deref().map(Rereading::of);
    let mut can_tell = true;
    let attended = attend(
        &who,
        config.access,
        TICK,
        args.length.map(Duration::from_millis),
        &mut |observer, turn| {
            let latency = managed.read_latency();
            if let Some(read) = rereading.as_mut().and_then(|of| of.read(latency)) {
                hold_from_now_on(read, &mut managed);
            }
            // A hang-up is passed on to the command, if there is one.
            if hangs_up.swap(false, Ordering::Relaxed) && !args.has_command() {
                match &mut rereading {
                    Some(rereading) => read_again(rereading, latency),
                    None => return Attention::Enough,
                }
            }
            if let Some(parker) = &mut parker {
                parker.take_in();
                managed.parked(observer, |name| parker.parked_bytes(name));
            }
            if let Some(why) = managed.look_at_nodes(observer) {
                print::warning(&why);
            }
            if managed.tick(observer) {
                if let Some(parker) = &mut parker {
                    parker.park(managed.to_park());
                }
                for trouble in managed.troubles().iter().take(TOLD_MAX) {
                    tracing::debug!("{trouble}");
                }
                let mut status = managed.status();
                if let Some(house) = &mut house {
                    status.swap = house.swap();
                    house.leave(&status);
                    match house.demotion_asked_bytes() {
                        0 => {}
                        bytes => managed.demote(observer, bytes),
                    }
                }
                service.walked(&status);
                history.look(&status);
                can_tell = tell(&out, &status, args);
            }
            tell_news(managed.news());
            tell_news(house.as_mut().map(House::news).unwrap_or_default());
            tell_news(parker.as_mut().map(Parker::news).unwrap_or_default());
            service.turn();
            match can_tell && turn == Turn::Next {
                true => Attention::After(managed.next_look(observer.elapsed())),
                false => Attention::Enough,
            }
        },
    );
    // Groups that were frozen go on before anybody is waited for.
    managed.stop();
    parker.into_iter().for_each(Parker::end);
    service.end();
    tell_news(managed.news());
    let mut status = managed.status();
    if let Some(house) = house {
        let is_released = args.release || args.has_command();
        status.swap = house.swap().filter(|_| !is_released);
        end(house, is_released);
        if is_released {
            wake_parked(&managed);
        }
        wake::tidy();
    }
    // Those who have just ended may have to be waited for until they are out of it.
    command.into_iter().for_each(Command::end);
    history.end(&status);
    let attended = attended?;
    out.end(STDOUT_WAIT_MAX).transpose()?;
    match args.format {
        Format::Text if args.has_command() => print::block(&table(&status, None)),
        Format::Text if !stdout().is_terminal() => {
            print::data(table(&status, print::columns()))?;
        }
        Format::Text | Format::Json => {}
    }
    Ok(attended
        .exit_status
        .map_or(ExitCode::SUCCESS, ExitCode::from))
}

fn tell_news(all: Vec<News>) {
    all.into_iter().for_each(tell_one);
}

/// Says what is done with whole groups.
fn tell_one(news: News) {
    match news {
        News::Note(text) => print::note(&text),
        News::Warning(text) => print::warning(&text),
    }
}

/// Wakes what is parked of the groups looked after, as the swap is taken down that they were in.
fn wake_parked(managed: &Managed) {
    for note in park::parked().into_iter().flatten() {
        if note.group().is_some_and(|group| managed.looks_after(group))
            && let Err(error) = park::wake(&note.id, None)
        {
            print::warning(&error);
        }
    }
}

/// Ends what a guard has changed.
fn end(house: House, is_released: bool) {
    if is_released {
        if let Err(error) = house.release() {
            print::warning(&error);
        }
    } else if let Some(swap) = house.leave_swap() {
        print::note(&format!(
            "the swap stays in use: {swap}; the next guard takes it over, strata guard --release takes it down"
        ));
    }
}

/// Takes down the swap of a guard that has ended.
fn release_left() -> anyhow::Result<ExitCode> {
    match House::release_left()? {
        Some(path) => print::note(&format!("the swap {} is taken down", path.display())),
        None => print::note(&"no guard has left swap in use"),
    }
    Ok(ExitCode::SUCCESS)
}

/// What is asked, by options or by a file.
fn asked(args: &GuardArgs) -> anyhow::Result<RulesFile> {
    if let Some(path) = &args.config {
        return RulesFile::read(path);
    }
    let least = Rule::default();
    let rule = Rule {
        promise: args.promise.or(least.promise),
        min_age: args.min_age.map_or(least.min_age, Duration::from_millis),
        min_age_when_short: (args.min_age).map_or(least.min_age_when_short, Duration::from_millis),
        tiers: args.tiers,
        ..least
    };
    let rules = Rules::for_cgroups(&args.cgroups, &rule);
    let mut rules = rules.map_err(|error| UsageError(error.to_string()))?;
    rules.swap_writes = args.swap_writes.unwrap_or_default();
    rules.tiers = args.tiers.then(TierRules::default);
    Ok(RulesFile {
        rules,
        ..RulesFile::default()
    })
}

/// Has the file read; its rules hold once that is done.
fn read_again(file: &mut Rereading, known: Option<Duration>) {
    if let Err(error) = file.hang_up(known) {
        print::warning(&format_args!("the rules stay as they were: {error}"));
    }
}

/// Has the rules of a file hold; if they are wrong, those before stay.
fn hold_from_now_on(read: Read, managed: &mut Managed) {
    match read {
        Ok((file, latency)) => {
            managed.set_rules(file.rules, latency);
            print::note(&"the rules of the file hold now");
        }
        Err(error) => print::warning(&format!("the rules stay as they were: {error:#}")),
    }
}

/// Returns whether stdout can be written still.
fn tell(out: &Talker<String, io::Result<()>>, status: &Status, args: &GuardArgs) -> bool {
    match args.format {
        Format::Json => match serde_json::to_string(status) {
            Ok(line) => out.say(format!("{line}\n")),
            Err(_) => true,
        },
        // The terminal is the command's.
        Format::Text if !args.has_command() && stdout().is_terminal() => {
            out.say(print::CLEAR.to_owned() + &table(status, print::columns()))
        }
        Format::Text => true,
    }
}
