//! `strata trace head`: the first accesses of a trace.
//!
//! **Owns** the three forms of the answer. **Does not own** how a trace is read.

use clap::{Args, ValueEnum};
use serde_json::json;
use strata_trace::{Access, CSV_HEADER, write_csv};

use crate::print;
use crate::source::SourceArgs;

/// Prints the first accesses of a trace
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// A file or a generator, for example arc-p6.lis.zst or gen:zipf
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Accesses to print
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    accesses: u64,

    #[command(flatten)]
    source: SourceArgs,

    /// How accesses are printed
    #[arg(long, value_enum, default_value = "table")]
    format: HeadFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HeadFormat {
    /// Columns for people
    Table,
    /// Columns with a header and commas between them
    Csv,
    /// One object a line
    Json,
}

/// Reads as far as needed and prints.
pub(super) fn run(args: &HeadArgs) -> anyhow::Result<()> {
    let mut source = args.source.open(&args.trace)?;
    let mut batch = Vec::new();
    let mut nr_left = args.accesses;
    match args.format {
        HeadFormat::Table => print::data(row(CSV_HEADER))?,
        HeadFormat::Csv => print::data(format!("{CSV_HEADER}\n"))?,
        HeadFormat::Json => {}
    }
    while nr_left > 0 {
        // What was read in front of a broken place is printed before the place is told.
        let read = source.reader.read_batch(&mut batch);
        batch.truncate(usize::try_from(nr_left).unwrap_or(usize::MAX));
        nr_left -= batch.len() as u64;
        print::data(text(&batch, args.format)?)?;
        if nr_left > 0 && read? == 0 {
            break;
        }
    }
    Ok(())
}

fn text(accesses: &[Access], format: HeadFormat) -> anyhow::Result<String> {
    if format == HeadFormat::Json {
        return Ok(accesses
            .iter()
            .map(|access| object(access) + "\n")
            .collect());
    }
    let mut lines = Vec::new();
    write_csv(accesses, &mut lines)?;
    let lines = String::from_utf8(lines)?;
    Ok(match format {
        HeadFormat::Table => lines.lines().map(row).collect(),
        HeadFormat::Csv | HeadFormat::Json => lines,
    })
}

/// A line with its columns apart: times and pages may take twenty digits, the rest few.
fn row(line: &str) -> String {
    const WIDTHS: [usize; 8] = [14, 7, 7, 20, 10, 7, 6, 9];
    let mut text = String::new();
    for (field, width) in line.split(',').zip(WIDTHS) {
        text.push_str(&format!("{field:>width$}"));
    }
    text + "\n"
}

fn object(access: &Access) -> String {
    json!({
        "time_us": access.time_us,
        "group": access.group,
        "space": access.key.space,
        "page": access.key.page,
        "size": access.size_bytes,
        "op": access.op.name(),
        "via": access.via.name(),
        "backing": access.backing.name(),
    })
    .to_string()
}
