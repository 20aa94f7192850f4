//! The `strata` binary: arguments in, text out, no logic of its own.

mod cmd;

use std::process::ExitCode;

use clap::Parser;

/// Gives any running process or cgroup a memory budget and keeps the right pages in it.
#[derive(Debug, Parser)]
#[command(version)]
enum Cli {
    Doctor(cmd::doctor::DoctorArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse() {
        Cli::Doctor(args) => cmd::doctor::run(&args),
    }
}
