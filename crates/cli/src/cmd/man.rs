//! `strata man`: the manual pages, made from what `--help` says.
//!
//! **Owns** where they go. **Does not own** their text (`cli`, `cmd`).

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};

use crate::print;

/// Writes the manual pages, one for each verb
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory they are written to; made if it is not there
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes `strata.1`, `strata-run.1` and so on, and says where they are.
pub(crate) fn run(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let directory = args.directory.display();
    fs::create_dir_all(&args.directory).with_context(|| format!("{directory} can't be made"))?;
    clap_mangen::generate_to(command, &args.directory)
        .with_context(|| format!("the manual pages can't be written to {directory}"))?;
    print::note(&format!(
        "the manual pages are in {directory}; read one with man -l FILE"
    ));
    Ok(ExitCode::SUCCESS)
}
