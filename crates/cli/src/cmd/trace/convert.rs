//! `strata trace convert`: from any format to our own, or to CSV.
//!
//! **Owns** where the output goes: nowhere half, a file is complete or not there. **Does not own**
//! the formats.

use std::fs;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use strata_host::whole_file::{Draft, Fresh};
use strata_trace::{AccessReader, CSV_HEADER, Writer, write_csv};

use crate::failure::UsageError;
use crate::print;
use crate::source::SourceArgs;

/// Converts a trace to Strata's own format, or to CSV
///
/// Everything a trace says is kept: page, space or file, group, operation, path, size and time; what
/// its format leaves out is as the options say. docs/reference/trace-format.md describes the format.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A file or a generator, for example trace.csv.gz or gen:zipf
    #[arg(value_name = "TRACE")]
    trace: String,

    /// The file to write, for example trace.strata; - is stdout
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,

    /// Format to write; by default csv if OUTPUT ends in .csv, else strata
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Target>,

    /// Replace OUTPUT if it is there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Strata's own: compact, checked, keeps everything
    Strata,
    /// A table with a header; keeps everything, read by other tools
    Csv,
}

/// Converts, and says on stderr what came of it.
pub(super) fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    let is_csv = args.output.extension().is_some_and(|end| end == "csv");
    let target = match args.to {
        Some(target) => target,
        None if is_csv => Target::Csv,
        None => Target::Strata,
    };
    if args.output == Path::new("-") {
        let mut source = args.source.open(&args.trace)?;
        copy(source.reader.as_mut(), "stdout", stdout().lock(), target)?;
        return Ok(());
    }
    let shown = args.output.display();
    if args.output.exists() && !args.force {
        let reason = format!("{shown} is already there: say --force to replace it");
        return Err(UsageError(reason).into());
    }
    let mut source = args.source.open(&args.trace)?;
    // Where the output grows until it is whole: beside its place, so that renaming is all it takes.
    let draft = Draft::beside(&args.output, Fresh::ByUmask)
        .with_context(|| format!("{shown} can't be written"))?;
    let copied = copy(
        source.reader.as_mut(),
        &shown.to_string(),
        BufWriter::new(draft.file()),
        target,
    );
    drop(source);
    copied.and_then(|nr_accesses| {
        draft
            .put()
            .with_context(|| format!("{shown} can't be written"))?;
        let bytes = fs::metadata(&args.output)?.len();
        print::note(&format!("{shown}: {nr_accesses} accesses in {bytes} bytes"));
        Ok(())
    })
}

/// Copies all accesses; how many.
fn copy(
    reader: &mut dyn AccessReader,
    name: &str,
    out: impl Write,
    target: Target,
) -> anyhow::Result<u64> {
    let mut batch = Vec::new();
    match target {
        Target::Strata => {
            let mut writer = Writer::new(name, out)?;
            while reader.read_batch(&mut batch)? > 0 {
                writer.write(&batch)?;
            }
            let nr_accesses = writer.nr_accesses();
            writer.finish()?;
            Ok(nr_accesses)
        }
        Target::Csv => {
            let mut out = BufWriter::new(out);
            let mut nr_accesses = 0;
            writeln!(out, "{CSV_HEADER}")?;
            while reader.read_batch(&mut batch)? > 0 {
                write_csv(&batch, &mut out)?;
                nr_accesses += batch.len() as u64;
            }
            out.flush()?;
            Ok(nr_accesses)
        }
    }
}
