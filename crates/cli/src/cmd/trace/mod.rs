//! `strata trace`: looks into traces and converts them.
//!
//! **Owns** the two verbs below it, a file each. **Does not own** how a trace is read (`source`).

mod convert;
mod info;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Looks into page traces, and converts them to Strata's own format
///
/// TRACE is a file of any known format, plain or compressed, or the name of a generator such as
/// gen:zipf,pages=16384.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
EXAMPLES
  What is in it?
      strata trace info arc-p6.lis.zst

  The first three accesses, below a line with the names of the columns:
      strata trace convert trace.csv - --to csv --trace-columns id=lbn | head -n 4

  In Strata's own format, smaller and read faster:
      strata trace convert trace.csv.gz trace.strata"
)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    verb: TraceVerb,
}

/// What to do with a trace.
#[derive(Debug, Subcommand)]
enum TraceVerb {
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
}

/// Does what was asked.
pub(crate) fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    match &args.verb {
        TraceVerb::Info(args) => info::run(args)?,
        TraceVerb::Convert(args) => convert::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
