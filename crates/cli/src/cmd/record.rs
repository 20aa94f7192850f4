//! `strata record`: what a live process accesses, interval by interval, into a file.
//!
//! **Owns** the options, the files and when one is changed for the next. **Does not own** the walks
//! (`strata_host::observe`) nor the format (`strata_trace::recording`).
//!
//! **Invariants** C1: the file's place is tried before anything is started. C2: the exit status is
//! the command's, whatever becomes of the recording.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use strata_host::observe::{Attention, CacheGroup, Observer, Recorder, Subject, Turn, Who, attend};
use strata_host::whole_file;
use strata_linux::access::AccessChoice;
use strata_linux::hold_up::HoldUps;
use strata_linux::units::parse_size;
use strata_trace::TraceError;
use strata_trace::recording::About;

use crate::args::{INTERVAL_MIN, access_arg, at_least, parse_duration_ms, refuse_option};
use crate::failure::{UsageError, refuse};
use crate::print::{self, Few};
use crate::target::{CommandOrTarget, program};

/// Smallest `--max-size`: two files of it must each hold what is in memory and some walks more.
const MAX_SIZE_MIN: u64 = 1 << 20;
/// What a crash loses at most.
const FLUSH_INTERVAL: Duration = Duration::from_secs(2);

/// Records which pages a running process accesses, to replay the run later
///
/// Walks the page tables of the target again and again. Writes to a file which pages were accessed
/// between two walks, which were written, which came into memory, and which went. strata sim and strata
/// plan replay the file under any budget and any policy.
///
/// Page cache that no program has mapped is recorded, too: which pages of files are in memory, which come and go,
/// and which were read or written, by a census a second or more seldom. It belongs to cgroups: with --cgroup it is
/// that of the cgroup and those below, else that of the target's cgroup, if nobody else is in there. It needs root
/// and BPF.
///
/// The target is never stopped. Each walk clears accessed bits, which the kernel's own reclaim uses too:
/// while memory is short, the kernel is likelier to evict pages of the target. A very large target is walked
/// less often than --every says, so that it is not held up for more than 0.5 % of the time.
///
/// The file can be read at any time, also while it grows. After a crash at most its last two seconds are
/// missing. docs/reference/recording-format.md describes it byte by byte.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  A minute of process 4242 and its children:
      strata record --pid 4242 --for 1m -o run.strata

  A program from its first page to its last, passing its exit status on:
      strata record -o run.strata -- ./job --its-options

  The last hours of a service, in no more than 200 MiB of files:
      strata record --cgroup /sys/fs/cgroup/app.slice --max-size 200M -o app.strata

  How much memory does it need? What would other policies do?
      strata plan run.strata
      strata sim run.strata --memory 25%,50%,75% --policy mglru,two-list

EXIT STATUS
  The command's own; 128+N if signal N ended it; 0 after a target that ran already.
  2 if the arguments or the target can't be used, 125 if Strata itself failed, 126 if the command
  can't be executed, 127 if it was not found.")]
pub(crate) struct RecordArgs {
    /// The file to write, for example run.strata
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Time between two walks, for example 100ms or 1s; at least 10ms
    ///
    /// The shorter the interval, the nearer a replay comes to the run, and the more watching costs. An interval is too long
    /// if the target accesses a large part of the budget within it.
    #[arg(short, long, value_name = "DURATION", default_value = "100ms", value_parser = at_least(INTERVAL_MIN), allow_hyphen_values = true)]
    every: u64,

    /// End the recording after this time, for example 1m; a command goes on, and strata record waits for it
    #[arg(long = "for", value_name = "DURATION", value_parser = time_arg, allow_hyphen_values = true)]
    for_ms: Option<u64>,

    /// Most disk space to use; at half of it FILE is renamed to FILE.1, and an older FILE.1 is removed
    ///
    /// FILE and FILE.1 are whole recordings. SIZE is at least 1M. Without this option FILE grows as long as the recording
    /// lasts.
    #[arg(long, value_name = "SIZE", value_parser = max_size_arg, allow_hyphen_values = true)]
    max_size: Option<u64>,

    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,

    /// Leave out page cache that no program has mapped
    ///
    /// Without this option it is recorded where that is possible; if it is not, a note says why. Censuses take at most 2 %
    /// of a processor.
    #[arg(long)]
    no_page_cache: bool,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// Print no notes to stderr; errors and warnings still are
    #[arg(short, long)]
    quiet: bool,

    /// Say what the way in which accesses are seen does not show
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    target: CommandOrTarget,
}

/// The recording and its files.
#[derive(Debug)]
struct Recording {
    recorder: Recorder<BufWriter<File>>,
    path: PathBuf,
    /// A file may grow to this.
    file_bytes_max: u64,
    flushed: Instant,
    begun: Instant,
    nr_files: u64,
    troubles: Few,
    is_quiet: bool,
}

/// Records until the target ends, the time is up, or Ctrl-C.
pub(crate) fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let (who, target) = who(&args.target)?;
    let file = create(&args.output, args.force)?;
    if args.max_size.is_some() && !args.output.is_file() {
        let shown = args.output.display();
        let reason = format!("--max-size needs a regular file to rename, and {shown} is none");
        return refuse(reason);
    }
    let about = About {
        interval_us: args.every * 1000,
        target,
        source: String::new(),
    };
    let (mut pending, mut recording) = (Some((file, about)), None);
    let mut failure: Option<TraceError> = None;
    let attended = attend(
        &who,
        args.access,
        Duration::from_millis(args.every),
        args.for_ms.map(Duration::from_millis),
        &mut |observer, turn| {
            let begun = match pending.take() {
                Some((file, about)) => Recording::begin(&args, file, about, observer),
                None => recording.take().ok_or(None),
            };
            let walked = begun.and_then(|mut begun| {
                let is_first = begun.recorder.nr_walks() == 0;
                begun.walk(observer).map_err(Some)?;
                if is_first && !args.no_page_cache {
                    begun.watch_cache(&who, observer);
                }
                if turn == Turn::Last {
                    // A command goes on, and what it reads after this is not asked for.
                    begun.recorder.end_cache()?;
                    begun.recorder.flush()?;
                }
                Ok(begun)
            });
            match walked {
                Ok(walked) => {
                    recording = Some(walked);
                    Attention::GoOn
                }
                Err(error) => {
                    // Told at once: a command may go on for long.
                    if let Some(error) = error {
                        print::error(&format!("the recording ends here: {error}"));
                        failure = Some(error);
                    }
                    Attention::Enough
                }
            }
        },
    );
    let attended = match attended {
        Ok(attended) => attended,
        Err(error) => {
            // Nothing was recorded: an empty file would only be taken for a recording.
            discard(&args.output);
            return Err(error.into());
        }
    };
    let mut has_failed = failure.is_some();
    match recording {
        Some(recording) => {
            if let Err(error) = recording.finish(&args, attended.nr_left_out) {
                print::error(&error);
                has_failed = true;
            }
        }
        None if attended.was_too_short => {
            print::warning(&"the command had ended before it could be watched: nothing recorded");
            discard(&args.output);
        }
        None => {}
    }
    Ok(match attended.exit_status {
        Some(status) => ExitCode::from(status),
        None if has_failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

impl Recording {
    /// Begins the file, now that it is known who sees the accesses.
    fn begin(
        args: &RecordArgs,
        file: File,
        about: About,
        observer: &Observer,
    ) -> Result<Recording, Option<TraceError>> {
        let source = observer.info();
        if args.verbose {
            print::limits(&source);
        }
        let about = About {
            source: source.name.to_owned(),
            ..about
        };
        let name = args.output.display().to_string();
        Ok(Recording {
            recorder: Recorder::new(&name, BufWriter::new(file), about)?,
            path: args.output.clone(),
            file_bytes_max: args.max_size.map_or(u64::MAX, |size| size / 2),
            flushed: Instant::now(),
            begun: Instant::now(),
            nr_files: 1,
            troubles: Few::told("{nr} troubles in all"),
            is_quiet: args.quiet,
        })
    }

    /// Has page cache told, too, where that can be; else says why not.
    fn watch_cache(&mut self, who: &Who, observer: &Observer) {
        let group = match who {
            Who::Running(Subject::Cgroup(path)) => CacheGroup::At(path),
            _ => CacheGroup::OfMembers,
        };
        let own = vec![self.path.clone(), older(&self.path)];
        if let Err(error) = self.recorder.watch_cache(observer, group, own) {
            self.note_without_cache(&error);
        }
    }

    fn note_without_cache(&self, why: &dyn std::fmt::Display) {
        if !self.is_quiet {
            let since = match self.recorder.nr_censuses() {
                0 => "",
                _ => " any more",
            };
            print::note(&format!("page cache is not recorded{since}: {why}"));
        }
    }

    fn walk(&mut self, observer: &mut Observer) -> Result<(), TraceError> {
        let walked = self.recorder.walk(observer)?;
        for trouble in &walked.troubles {
            self.troubles.warning(trouble);
        }
        if let Some(why) = self.recorder.take_cache_trouble() {
            self.note_without_cache(&why);
        }
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.recorder.flush()?;
            self.flushed = Instant::now();
            if self.recorder.written_bytes() >= self.file_bytes_max {
                self.rotate()?;
            }
        }
        Ok(())
    }

    /// Puts the file aside and goes on in a new one.
    fn rotate(&mut self) -> Result<(), TraceError> {
        let name = self.path.display().to_string();
        let failed = |error| TraceError::of_file(&name, error);
        fs::rename(&self.path, older(&self.path)).map_err(failed)?;
        let file = File::create_new(&self.path).map_err(failed)?;
        self.recorder.rotate(BufWriter::new(file))?;
        self.nr_files += 1;
        Ok(())
    }

    fn finish(mut self, args: &RecordArgs, nr_left_out: u64) -> Result<(), TraceError> {
        self.recorder.end_cache()?;
        if let Some(why) = self.recorder.take_cache_trouble() {
            self.note_without_cache(&why);
        }
        let cache = match self.recorder.nr_censuses() {
            0 => String::new(),
            1 => ", 1 census of page cache".to_owned(),
            nr_censuses => format!(", {nr_censuses} censuses of page cache"),
        };
        let elapsed = self.begun.elapsed();
        let (nr_walks, nr_accesses) = (self.recorder.nr_walks(), self.recorder.nr_accesses());
        self.recorder.finish()?;
        drop(self.troubles);
        if nr_left_out > 0 {
            print::warning(&format!(
                "{nr_left_out} walks were left out: one every {} ms would take too long, or hold the target up for \
                 more than 0.5 % of the time; a longer --every shows as much",
                args.every
            ));
        }
        if !args.quiet {
            let bytes = fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
            let shown = self.path.display();
            let pace = match nr_walks {
                0 | 1 => String::new(),
                _ => format!(
                    ", one every {} ms",
                    elapsed.as_millis() / u128::from(nr_walks)
                ),
            };
            let files = match self.nr_files {
                1 => String::new(),
                _ => format!("; what was before is in {}", older(&self.path).display()),
            };
            print::note(&format!(
                "{shown}: {nr_walks} walks{pace}{cache}, {nr_accesses} pages accessed or new, {bytes} bytes{files}; the target was \
                 held up {}",
                HoldUps::so_far().report(elapsed)
            ));
        }
        Ok(())
    }
}

/// Whom to watch, and what to call it.
fn who(target: &CommandOrTarget) -> Result<(Who, String), UsageError> {
    match (target.pid, &target.cgroup) {
        (Some(pid), _) => Ok((Who::Running(Subject::Tree(pid)), format!("process {pid}"))),
        (None, Some(path)) => {
            let name = format!("cgroup {}", path.display());
            Ok((Who::Running(Subject::Cgroup(path.clone())), name))
        }
        (None, None) => {
            let words = target.command.iter().map(|word| word.to_string_lossy());
            let name = words.collect::<Vec<_>>().join(" ");
            let (program, args) = program(target.command.clone())?;
            Ok((Who::Command { program, args }, name))
        }
    }
}

fn create(path: &Path, force: bool) -> Result<File, UsageError> {
    let shown = path.display();
    let made = match force {
        true => whole_file::truncate(path),
        false => File::create_new(path),
    };
    made.map_err(|error| {
        UsageError(match error.kind() {
            std::io::ErrorKind::AlreadyExists if !path.is_dir() => {
                format!("{shown} is already there: say --force to replace it")
            }
            _ => format!(
                "nothing can be written to {shown}: {error}; name a file in a directory that \
                 exists and is yours to write"
            ),
        })
    })
}

/// Takes away a file in which nothing was recorded; devices and pipes stay.
fn discard(path: &Path) {
    if path.is_file() {
        // That an empty file is left is the least of the troubles told before.
        let _ = fs::remove_file(path);
    }
}

/// The name of the file before this one.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new(".1"));
    PathBuf::from(name)
}

fn time_arg(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        0 => Err("it is no time at all".to_owned()),
        ms => Ok(ms),
    }
}

fn max_size_arg(text: &str) -> Result<u64, String> {
    refuse_option(text)?;
    match parse_size(text) {
        Ok(bytes) if bytes < MAX_SIZE_MIN => Err("it must be at least 1M".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(format!(
            "{}; a size is a number with an optional suffix K, M, G or T (powers of 1024)",
            error.why
        )),
    }
}
