//! `strata files`: which files fill the page cache, and which groups are charged for them.
//!
//! **Owns** the options. **Does not own** the census (`strata_linux::access::census`), what is told of files
//! (`strata_host::observe::files`), dropping (`strata_linux::page_cache`), nor the text (`text`).

mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use strata_host::observe::files::{
    Cold, FilesError, FilesQuestion, FilesReport, FilesWatch, files, is_whole_cheap,
};
use strata_linux::access::census::Budget;
use strata_linux::page_cache::Dropped;
use strata_linux::units::Bytes;

use crate::args::{Format, at_least, parse_percent, refuse_option, table_or_json};
use crate::failure::{UsageError, refuse};
use crate::interrupt::Interrupt;
use crate::print;
use crate::progress::Bar;

/// Shortest census under a budget: in less nothing can be learnt.
const WITHIN_MIN: &str = "100ms";
/// Shortest watch: a part of it lies between two looks.
const WATCH_MIN: &str = "1s";

/// Shows which files fill the page cache, how much of each is used and who is charged; drops what is cold
///
/// Looks at the kernel's own record of every page of the machine, and so finds page cache that no process has mapped
/// or open, too. Nobody is held up by it, and without --drop-cold and --reset-counts nothing is changed.
///
/// A file that several cgroups have pages of has a line for each. USED is what was used again after it came to memory,
/// as far as the kernel remembers: it is mapped, or on the list of active pages (where the kernel keeps generations: it
/// was read more than once). Pages that were read only once are in memory but not used. OPEN tells whether a process has
/// the file open or mapped. A path is asked of those processes first, then of the kernel; where neither knows it,
/// the device and the place or the number in its file system are given.
///
/// All of memory is looked at, where that takes less than a second of one processor (up to 200 GiB). On a larger machine, in a
/// watch, and with --cpu or --within, as much is looked at as 1 % of a processor can in 5 seconds, in blocks of 2 MiB chosen at
/// random. If that is not all of memory, figures are estimates, marked with ~, and small files may be missing. --whole looks at
/// everything at once.
///
/// --watch looks again and again, and tells what was read meanwhile (READ) and what was not (IDLE). A page that was read
/// three times (where the kernel keeps generations: five times) is not counted further by the kernel, so that it is not
/// known whether it is still read (UNKNOWN); --reset-counts finds out. Nor is it known of mapped pages (MAPPED); strata
/// wss tells that. Dirty pages
/// count as read; a write that comes to the disk between two looks is not seen.
///
/// --drop-cold drops what was IDLE for as long as it says. The kernel reads it from the disk again when it is
/// wanted. What is dirty or mapped is left, and so are files on other file systems than ext4 and xfs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  The files with most in memory:
      strata files

  All page cache that a service is charged for, exactly, for a script:
      strata files --cgroup /sys/fs/cgroup/system.slice/app.service --whole --top 0 --format json

  What the logs take:
      strata files --under /var/log --whole

  What was not read for ten minutes:
      strata files --watch 10m

  How much of what was read often before is read no more, by a sample:
      strata files --watch 10m --reset-counts 2%

  Drop it; and how much that would be, for one service:
      strata files --drop-cold 10m
      strata files --drop-cold 10m --dry-run --cgroup /sys/fs/cgroup/system.slice/app.service")]
pub(crate) struct FilesArgs {
    /// Only what is charged to this cgroup and those below it: its directory, or its path as /proc/PID/cgroup has it
    #[arg(short, long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    /// Only files in this directory and below it
    #[arg(short, long, value_name = "DIR")]
    under: Option<PathBuf>,

    /// How many files are listed, those with most in memory (after a watch: idle); 0 for all
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "30", value_parser = count_arg, allow_hyphen_values = true)]
    top: usize,

    /// How much of one processor the census may take, for example 1% or 20%
    ///
    /// 1% where not all of memory is looked at.
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, allow_hyphen_values = true)]
    cpu: Option<f64>,

    /// How long the census may take; what it could not look at in that time is estimated
    ///
    /// A number with a unit ms, s, m or h; at least 100ms. 5s where not all of memory is looked at.
    #[arg(long, value_name = "DURATION", value_parser = at_least(WITHIN_MIN), allow_hyphen_values = true)]
    within: Option<u64>,

    /// Look at all of memory at once, whatever it takes
    #[arg(long, conflicts_with_all = ["cpu", "within"])]
    whole: bool,

    /// Watch for so long, and tell what was read meanwhile and what was not
    ///
    /// A number with a unit ms, s, m or h; at least 1s. Looks every 10 seconds, or more often in a short watch. Ctrl-C ends
    /// the watch early, with what was learnt so far.
    #[arg(long, value_name = "DURATION", value_parser = at_least(WATCH_MIN), allow_hyphen_values = true)]
    watch: Option<u64>,

    /// Watch for so long, then drop the page cache that was not read meanwhile
    ///
    /// Looks at all of memory, at the pace of --cpu, or at once with --whole. Ctrl-C ends the watch and drops nothing.
    #[arg(long, value_name = "AGE", value_parser = at_least(WATCH_MIN), allow_hyphen_values = true, conflicts_with_all = ["watch", "within"])]
    drop_cold: Option<u64>,

    /// In a watch, reset the kernel's count of reads of this share of the pages whose count is full, to learn how many of
    /// them are still read, for example 2% or 100%
    ///
    /// From these pages the answer estimates how many of the others are read. The kernel takes a page whose count was reset sooner
    /// than others, until it has been read as often again; that holds with --dry-run, too. This works for files on ext4 and xfs, for
    /// pages that are neither mapped, dirty nor locked, and before Linux 6.10 not for large folios. With --cgroup only pages of
    /// that cgroup are reset.
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, allow_hyphen_values = true)]
    reset_counts: Option<f64>,

    /// Drop nothing, only tell how much --drop-cold would drop
    #[arg(long, requires = "drop_cold")]
    dry_run: bool,

    /// How the answer is printed
    #[arg(long, value_parser = table_or_json(), default_value = "table", value_name = "FORMAT")]
    format: Format,
}

/// Runs the command.
///
/// # Errors
/// A target that is not there, a missing right, or an answer that can't be written.
pub(crate) fn run(args: &FilesArgs) -> anyhow::Result<ExitCode> {
    let standard = Budget::default();
    let within = args.within.map_or(standard.within, Duration::from_millis);
    let is_bounded = args.cpu.is_some() || args.within.is_some();
    let is_watch = args.watch.or(args.drop_cold).is_some();
    let is_whole = args.whole || !is_bounded && !is_watch && is_whole_cheap();
    let question = FilesQuestion {
        group: args.cgroup.clone(),
        under: args.under.clone(),
        nr_files_max: (args.top > 0).then_some(args.top),
        budget: (!is_whole).then_some(Budget {
            cpu_share: args.cpu.unwrap_or(standard.cpu_share),
            within,
        }),
        reset_share: args.reset_counts.unwrap_or_default(),
    };
    if args.reset_counts.is_some() && args.watch.or(args.drop_cold).is_none() {
        return refuse(
            "--reset-counts is part of a watch: add --watch DURATION or --drop-cold AGE",
        );
    }
    if args.reset_counts.is_some() && args.under.is_some() && args.cgroup.is_none() {
        return refuse(
            "--reset-counts --under DIR would reset counts of files outside of DIR, too: leave --under out, or add --cgroup PATH",
        );
    }
    let (report, dropped) = match args.watch.or(args.drop_cold) {
        None => {
            let told = (!is_whole).then(|| Bar::watch("looking at memory", within));
            let report = files(&question);
            drop(told);
            (report.map_err(failed)?, None)
        }
        Some(length_ms) => watch(args, question, Duration::from_millis(length_ms))?,
    };
    if report.lost_bytes > 0 {
        print::warning(&format!(
            "there are more files than can be listed: {} of page cache is in none of the figures",
            Bytes(report.lost_bytes)
        ));
    }
    let answer = Answer {
        report: &report,
        dropped: dropped.as_ref(),
        is_dry_run: dropped.is_some().then_some(args.dry_run),
    };
    print::pretty_answer(args.format, &answer, || {
        text::table(&report, dropped.as_ref(), args.dry_run)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The answer as JSON.
#[derive(serde::Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    report: &'a FilesReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<&'a Dropped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_dry_run: Option<bool>,
}

/// Watches, and drops what is idle where that is asked for.
fn watch(
    args: &FilesArgs,
    question: FilesQuestion,
    length: Duration,
) -> anyhow::Result<(FilesReport, Option<Dropped>)> {
    let cold = match (args.drop_cold, args.dry_run) {
        (None, _) => Cold::Stays,
        (Some(_), true) => Cold::WouldGo,
        (Some(_), false) => Cold::Goes,
    };
    let is_whole = cold != Cold::Stays || args.whole;
    let watch = FilesWatch::open(question, length, is_whole).map_err(failed)?;
    let interrupt = Interrupt::install()?;
    let told = Bar::watch("watching page cache", length);
    let found = watch.run(cold, &|| interrupt.has_come()).map_err(failed)?;
    drop(told);
    let (report, dropped) = found.context("interrupted: nothing is dropped")?;
    let resets = report.watched.as_ref().and_then(|watched| watched.resets);
    if let Some(trouble) = resets.and_then(|resets| resets.trouble()) {
        print::warning(&trouble);
    }
    if report.watched.is_none() {
        print::warning(
            &"the watch ended before its second look: what was read meanwhile is not known",
        );
    }
    Ok((report, dropped))
}

fn failed(error: FilesError) -> anyhow::Error {
    match error {
        FilesError::Group(_) | FilesError::Directory { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

/// Reads how many to list.
fn count_arg(text: &str) -> Result<usize, String> {
    refuse_option(text)?;
    text.parse()
        .map_err(|_| "it is a whole number such as 30, or 0 for all".to_owned())
}
