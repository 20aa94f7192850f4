//! `strata plan --all`: which cgroups and programs could give memory back; what `strata idle` tells once.
//!
//! **Owns** the options. **Does not own** the answer (`cmd::idle`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::PlanFormat;
use crate::cli::{AccessArg, Format};
use crate::cmd::idle::{self, Asked, age_arg};
use crate::print;

/// Ranking groups instead of planning with a recording.
#[derive(Debug, Args)]
pub(super) struct AllArgs {
    /// Rank all cgroups and programs by what they could give, instead of planning with a recording
    ///
    /// Watches every process for a little longer than --age. Lists for each cgroup the memory that none of its processes
    /// accessed for that long, and for each program of a cgroup that holds several.
    ///
    /// Each walk clears accessed bits, which the kernel's own reclaim uses too. Nothing is evicted.
    #[arg(long, conflicts_with_all = ["recording", "slowdown", "policy", "cost", "plot", "jobs"])]
    pub(super) all: bool,

    /// Only this cgroup and those below it
    #[arg(long, value_name = "PATH", conflicts_with = "recording")]
    under: Option<PathBuf>,

    /// The age at which groups are compared, for example 30s or 10m
    #[arg(long, value_name = "DURATION", conflicts_with = "recording", default_value = "1m", value_parser = age_arg, allow_hyphen_values = true)]
    age: u64,

    /// How accesses are seen
    #[arg(
        long,
        value_enum,
        value_name = "SOURCE",
        conflicts_with = "recording",
        default_value = "auto"
    )]
    access: AccessArg,
}

/// Watches and ranks.
pub(super) fn run(args: &AllArgs, format: PlanFormat) -> anyhow::Result<ExitCode> {
    print::note(&"strata idle tells the same, and goes on telling with --watch");
    idle::once(&Asked {
        under: args.under.clone(),
        age: Duration::from_millis(args.age),
        length: None,
        access: args.access.into(),
        format: match format {
            PlanFormat::Table => Format::Text,
            PlanFormat::Json => Format::Json,
        },
    })
}
