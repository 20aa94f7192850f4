//! `strata completions`: what a shell needs to complete our command line.
//!
//! **Owns** nothing but the choice of the shell. **Does not own** the command line (`cli`).

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::print;

/// Prints the completion script of a shell to stdout
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  strata completions bash > /etc/bash_completion.d/strata
  strata completions zsh  > \"${fpath[1]}/_strata\"
  strata completions fish > ~/.config/fish/completions/strata.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "strata", &mut script);
    print::data(script)?;
    Ok(ExitCode::SUCCESS)
}
