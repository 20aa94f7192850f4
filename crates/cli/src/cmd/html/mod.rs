//! `strata html`: what was recorded, reported or kept, as one page that can be sent.
//!
//! **Owns** the options, telling files apart, and the bounds on what is read. **Does not own** the page (`page`), its pictures
//! (`chart`), nor what is in them (`recording`, `plan`, `report`, `history`).
//!
//! **Invariants**
//! - I1: the page is there as a whole, or what was there before still is.
//! - I2: what a file is, is found by its content, never by its name.

mod chart;
mod history;
mod page;
mod plan;
mod recording;
mod report;
mod value;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use strata_linux::units::Bytes;
use strata_sim::heat::{RecordingHeat, TraceHeat};
use strata_sim::plan::Plan;
use strata_trace::Generator;

use self::page::Page;
use self::plan::Planned;
pub(crate) use self::plan::{KERNEL_POLICY, question};
use crate::cmd::report_file::ReportFile;
use crate::failure::UsageError;
use crate::print;
use crate::source::SourceArgs;

/// Larger recordings and traces are refused: they would take minutes.
const TRACE_BYTES_MAX: u64 = 1 << 30;
/// Larger reports are none of ours.
const JSON_BYTES_MAX: u64 = 64 << 20;
/// Larger histories are none of ours: a guard keeps 64 MiB.
const HISTORY_BYTES_MAX: u64 = 128 << 20;
/// The first bytes of an SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Rows of the heat map of a recording, and bands they stand in.
const HEAT_ROWS: usize = 120;
const HEAT_BANDS: usize = 40;

/// Makes one page of a recording, a report, a guard's history or a trace, to look at and to send
///
/// The page is one file. It loads nothing, so it works without a network, and shows itself light or dark, on a phone, too. Each
/// number of a picture is told where the pointer is, and stands in a table. What kind of file it is, is found by its content:
///
/// a recording of strata record: which memory was used when, how old it is, and what a budget would cost (as strata plan tells,
/// of a sample of the pages where the recording is long);
///
/// what strata run --report, guard status, guard history, idle, wss, files and plan print as JSON: groups by idle memory, what was
/// given back, what it costs;
///
/// the history of a guard: what it gave back over time and what came back, by group;
///
/// a trace, as strata sim replays it: which pages were accessed when, and how soon again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  What did a service do with its memory?
      strata record --pid 4242 --for 1m -o run.strata
      strata html run.strata -o run.html

  What has the guard of this host given back?
      strata html /var/lib/strata/history.db -o guard.html

  The same, and which files fill its page cache:
      strata files --watch 1m --format json > files.json
      strata html /var/lib/strata/history.db --files files.json -o host.html

  Who holds idle memory?
      strata idle --format json > idle.json
      strata html idle.json -o idle.html")]
pub(crate) struct HtmlArgs {
    /// A recording, a report, a history or a trace; for example run.strata
    #[arg(value_name = "FILE")]
    file: String,

    /// Where the page goes; what is there is replaced when the page is whole
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// What strata files --format json printed of the same host: its page tells which files fill the page cache, too
    #[arg(long, value_name = "FILE")]
    files: Option<String>,

    #[command(flatten)]
    source: SourceArgs,
}

/// Makes the page.
pub(crate) fn run(args: &HtmlArgs) -> anyhow::Result<ExitCode> {
    let place = ReportFile::try_place(args.output.clone())?;
    let mut page = page_of(&args.source, &args.file)?;
    if let Some(files) = &args.files {
        report::add_files(&mut page, shown(files), &json_of(files)?)?;
    }
    let html = page.finish();
    place.write_text(&html)?;
    let size = Bytes(html.len() as u64);
    print::note(&format_args!("wrote {} ({size})", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// The page of what a verb tells as JSON, too.
pub(crate) fn of_report(name: &str, report: &impl Serialize) -> anyhow::Result<String> {
    let value = serde_json::to_value(report).context("the report is not JSON")?;
    Ok(report::page(name, &[value])?.finish())
}

/// The page of a recording with a plan that was made already.
pub(crate) fn of_plan(source: &SourceArgs, name: &str, plan: &Plan) -> anyhow::Result<String> {
    let plan = serde_json::to_value(plan)?;
    let planned = Planned::Known { plan, one_in: 1 };
    Ok(recording_or_trace(source, name, Some(planned))?.finish())
}

/// What a page calls a file: whoever gets the page need not learn where the file was.
fn shown(name: &str) -> &str {
    let file_name = Path::new(name).file_name();
    match Generator::is_name(name) {
        true => name,
        false => file_name.and_then(|name| name.to_str()).unwrap_or(name),
    }
}

/// The first bytes of a regular file, and how many it has.
fn head_of(name: &str) -> anyhow::Result<(Vec<u8>, u64)> {
    let wrong = |why: &str| UsageError(format!("{name} {why}"));
    let found = fs::metadata(name).map_err(|error| wrong(&format!("can't be read: {error}")))?;
    if !found.is_file() {
        let why = "has no page: it is no regular file, and has to be read twice; write it to a file first";
        return Err(wrong(why).into());
    }
    let (mut head, reading) = (Vec::new(), || format!("reading {name} failed"));
    let file = File::open(name).with_context(reading)?;
    file.take(64).read_to_end(&mut head).with_context(reading)?;
    Ok((head, found.len()))
}

/// Refuses what is longer than a page is made of.
fn within(
    name: &str,
    bytes: u64,
    what: &str,
    bytes_max: u64,
    hint: &str,
) -> Result<(), UsageError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let (bytes, bytes_max) = (Bytes(bytes), Bytes(bytes_max));
    Err(UsageError(format!(
        "{name} has {bytes}, and a page is made of {what} of up to {bytes_max}: {hint}"
    )))
}

/// The objects of a file of JSON.
fn json_of(name: &str) -> anyhow::Result<Vec<Value>> {
    let (_, bytes) = head_of(name)?;
    within(name, bytes, "reports", JSON_BYTES_MAX, "give a shorter one")?;
    let text = fs::read(name).with_context(|| format!("reading {name} failed"))?;
    let lines = serde_json::Deserializer::from_slice(&text).into_iter();
    let lines: Result<_, _> = lines.collect();
    Ok(lines
        .map_err(|error| UsageError(format!("{name} is no JSON as Strata prints it: {error}")))?)
}

fn page_of(source: &SourceArgs, name: &str) -> anyhow::Result<Page> {
    if Generator::is_name(name) {
        return recording_or_trace(source, name, None);
    }
    let (head, bytes) = head_of(name)?;
    if head.starts_with(SQLITE) {
        let hint = "a guard keeps no more than half of that";
        within(name, bytes, "histories", HISTORY_BYTES_MAX, hint)?;
        return history::kept(Path::new(name), shown(name));
    }
    if head.trim_ascii_start().starts_with(b"{") {
        return Ok(report::page(shown(name), &json_of(name)?)?);
    }
    let hint = "record for a shorter time, or with --max-size";
    within(name, bytes, "recordings and traces", TRACE_BYTES_MAX, hint)?;
    recording_or_trace(source, name, None)
}

fn recording_or_trace(
    source: &SourceArgs,
    name: &str,
    planned: Option<Planned>,
) -> anyhow::Result<Page> {
    let mut opened = source.open(name)?;
    let reader = opened.reader.as_mut();
    let Some(heat) = RecordingHeat::read(reader, HEAT_ROWS, HEAT_BANDS)? else {
        let heat = TraceHeat::read(name, reader, opened.bound.0)?;
        return Ok(recording::trace(shown(name), &opened.format, &heat));
    };
    let info = reader.recording().cloned().unwrap_or_default();
    drop(opened);
    let planned = match planned {
        Some(planned) => planned,
        None => plan::of_recording(source, name, &heat, &info)?,
    };
    Ok(recording::recording(shown(name), &heat, &info, &planned))
}
