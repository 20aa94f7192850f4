//! `strata files`: which files fill the page cache, and which groups are charged for them.
//!
//! **Owns** the options and the two shapes of the answer. **Does not own** the census (`strata_host::access::census`) nor
//! what is told of files (`strata_host::observe::files`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use strata_host::access::census::Budget;
use strata_host::observe::files::{FileRow, FilesError, FilesQuestion, FilesReport, files};
use strata_host::units::Bytes;

use crate::cli::{parse_duration_ms, refuse_option};
use crate::failure::UsageError;
use crate::print;
use crate::progress::Bar;

/// Shortest census under a budget: in less nothing can be learnt.
const WITHIN_MIN_MS: u64 = 100;

/// Shows which files fill the page cache: how much of each is in memory, used and dirty, and who is charged
///
/// Looks at the kernel's own record of every page of the machine, and so finds page cache that no process has mapped
/// or open, too. Nobody is held up by it and nothing is changed.
///
/// A file that several cgroups have pages of has a line for each. USED is what was used again after it came to memory,
/// as far as the kernel remembers: it is mapped, or on the list of active pages (where the kernel keeps generations: it
/// was read more than once). Pages that were read only once are in memory but not used. OPEN tells whether a process has
/// the file open or mapped. A path is asked of those processes first, then of the kernel; where neither knows it,
/// the device and the place or the number in its file system are given.
///
/// By default as much is looked at as 1 % of a processor can in 5 seconds, in blocks of 2 MiB chosen at random. If that is
/// not all of memory, figures are estimates and small files may be missing. --whole looks at everything at once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  The files with most in memory:
      strata files

  All page cache that a service is charged for, exactly, for a script:
      strata files --cgroup /sys/fs/cgroup/system.slice/app.service --whole --top 0 --format json

  What the logs take:
      strata files --under /var/log --whole")]
pub(crate) struct FilesArgs {
    /// Only what is charged to this cgroup and those below it: its directory, or its path as /proc/PID/cgroup has it
    #[arg(short, long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    /// Only files in this directory and below it
    #[arg(short, long, value_name = "DIR")]
    under: Option<PathBuf>,

    /// How many files are listed, those with most in memory; 0 for all
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 30)]
    top: usize,

    /// How much of one processor the census may take, for example 1% or 20%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share_arg, allow_hyphen_values = true)]
    cpu: f64,

    /// How long the census may take; what it could not look at in that time is estimated
    ///
    /// A number with a unit ms, s, m or h; at least 100ms.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = within_arg, allow_hyphen_values = true)]
    within: u64,

    /// Look at all of memory at once, whatever it takes
    #[arg(long, conflicts_with_all = ["cpu", "within"])]
    whole: bool,

    /// How the answer is printed
    #[arg(long, value_enum, default_value = "table", value_name = "FORMAT")]
    format: Format,
}

/// A shape of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}

/// Runs the command.
///
/// # Errors
/// A target that is not there, a missing right, or an answer that can't be written.
pub(crate) fn run(args: &FilesArgs) -> anyhow::Result<ExitCode> {
    let within = Duration::from_millis(args.within);
    let question = FilesQuestion {
        group: args.cgroup.clone(),
        under: args.under.clone(),
        nr_files_max: (args.top > 0).then_some(args.top),
        budget: (!args.whole).then_some(Budget {
            cpu_share: args.cpu,
            within,
        }),
    };
    let told = (!args.whole).then(|| Bar::watch("looking at memory", within));
    let report = files(&question);
    drop(told);
    let report = report.map_err(|error| match error {
        FilesError::Group(_) | FilesError::Directory { .. } => {
            anyhow::Error::new(UsageError(error.to_string()))
        }
        other => other.into(),
    })?;
    if report.lost_bytes > 0 {
        print::warning(&format!(
            "there are more files than can be listed: {} of page cache is in none of the figures",
            Bytes(report.lost_bytes)
        ));
    }
    print::data(match args.format {
        Format::Table => table(&report),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a share of a processor.
fn share_arg(text: &str) -> Result<f64, String> {
    refuse_option(text)?;
    let number = text.strip_suffix('%').unwrap_or_default();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("a share of a processor is more than 0% and at most 100%".to_owned()),
    }
}

/// Reads how long the census may take.
fn within_arg(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ms if ms < WITHIN_MIN_MS => Err(format!("at least {WITHIN_MIN_MS}ms")),
        ms => Ok(ms),
    }
}

fn table(report: &FilesReport) -> String {
    let widest = report.files.iter().map(|file| file.group.chars().count());
    let width = widest.max().unwrap_or_default().max("GROUP".len());
    let mut text = format!(
        "{:>10} {:>10} {:>10}  {:4}  {:width$}  FILE\n",
        "CACHED", "USED", "DIRTY", "OPEN", "GROUP"
    );
    for file in &report.files {
        text += &line(file, width);
    }
    text + &summary(report)
}

fn line(file: &FileRow, width: usize) -> String {
    format!(
        "{:>10} {:>10} {:>10}  {:4}  {:width$}  {}{}\n",
        Bytes(file.cached_bytes).to_string(),
        Bytes(file.used_bytes).to_string(),
        Bytes(file.dirty_bytes).to_string(),
        if file.is_open { "yes" } else { "no" },
        file.group,
        file.path,
        if file.is_deleted { " (deleted)" } else { "" },
    )
}

/// What all files have together, and how far that is to be trusted.
fn summary(report: &FilesReport) -> String {
    let total = Bytes(report.total_bytes);
    let listed = match report.nr_files - report.files.len() as u64 {
        0 => String::new(),
        nr_left => format!("; {nr_left} are not listed (--top 0 lists all)"),
    };
    let files = match report.nr_files {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let sampled = match report.sampled_share < 1.0 {
        false => String::new(),
        true => format!(
            "estimated from {:.1} % of memory; the page cache of the machine to +-{} (95 %); --whole looks at all of it\n",
            report.sampled_share * 100.0,
            Bytes(report.error_bytes)
        ),
    };
    format!("{total} in {files}{listed}\n{sampled}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sampled_share: f64, nr_files: u64) -> FilesReport {
        FilesReport {
            files: vec![FileRow {
                path: "/var/lib/db".to_owned(),
                group: "/system.slice/db.service".to_owned(),
                cached_bytes: 3 << 20,
                used_bytes: 1 << 20,
                dirty_bytes: 4096,
                is_open: false,
                is_deleted: true,
            }],
            nr_files,
            total_bytes: 5 << 20,
            error_bytes: 1 << 20,
            sampled_share,
            lost_bytes: 0,
            cost: Default::default(),
        }
    }

    #[test]
    fn a_deleted_file_says_so_and_what_is_not_listed_is_counted() {
        let text = table(&report(1.0, 7));
        assert!(text.contains("/var/lib/db (deleted)\n"), "{text}");
        assert!(
            text.contains("5 MiB in 7 files; 6 are not listed"),
            "{text}"
        );
        assert!(!text.contains("estimated"), "{text}");
    }

    #[test]
    fn an_estimate_is_called_one() {
        let text = table(&report(0.25, 1));
        assert!(text.contains("5 MiB in 1 file\n"), "{text}");
        assert!(text.contains("estimated from 25.0 % of memory"), "{text}");
        assert!(text.contains("+-1 MiB"), "{text}");
    }

    #[test]
    fn shares_of_a_processor_are_percentages() {
        assert_eq!(share_arg("1%"), Ok(0.01));
        assert_eq!(share_arg("100%"), Ok(1.0));
        for text in ["", "1", "0%", "101%", "-1%", "NaN%", "inf%", "--whole"] {
            assert!(share_arg(text).is_err(), "{text}");
        }
        assert!(within_arg("99ms").is_err());
        assert_eq!(within_arg("5s"), Ok(5000));
    }
}
