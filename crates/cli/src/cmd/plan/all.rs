//! `strata plan --all`: which cgroups could give memory back, compared at equal age.
//!
//! **Owns** the options and the answer for people. **Does not own** walks and ranking
//! (`strata_host::observe`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use strata_host::observe::idle::{IdleGroups, Ranking};
use strata_host::observe::{Attention, Subject, Who, attend};
use strata_host::units::Bytes;

use super::PlanFormat;
use crate::cli::{AccessArg, parse_duration_ms};
use crate::print;

/// Shortest age: below it a ranking would say more of the walks than of the groups.
const AGE_MIN_MS: u64 = 500;
/// Walks within the age, so that none is off by more than a tenth of it.
const NR_WALKS: u32 = 10;
/// Things that went wrong and are told one by one; processes that end in the middle are normal.
const TOLD_MAX: usize = 3;

/// Ranking groups instead of planning with a recording.
#[derive(Debug, Args)]
pub(super) struct AllArgs {
    /// Rank all cgroups by what they could give, instead of planning with a recording
    ///
    /// Watches every process for a little longer than --age and lists, group by group, what none of
    /// the group's processes accessed for that long. Each walk clears accessed bits, which the kernel's
    /// own reclaim uses too; nothing is evicted.
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
    let path = args.under.as_deref().unwrap_or_else(|| Path::new("/"));
    let age = Duration::from_millis(args.age);
    let interval = age / NR_WALKS;
    let mut groups = IdleGroups::new();
    let mut troubles = Vec::new();
    attend(
        &Who::Running(Subject::Cgroup(path.to_owned())),
        args.access.into(),
        interval,
        // The first walk comes a little after the watch begins.
        Some(age + interval),
        &mut |observer| {
            troubles.extend(groups.observe(observer).troubles);
            Attention::GoOn
        },
    )?;
    for trouble in troubles.iter().take(TOLD_MAX) {
        print::warning(trouble);
    }
    if troubles.len() > TOLD_MAX {
        print::warning(&format!("{} troubles in all", troubles.len()));
    }
    let ranking = groups.ranking(age);
    if ranking.watched_ms < ranking.age_ms {
        print::warning(&format!(
            "the watch ended after {} ms: nothing can be known to be older",
            ranking.watched_ms
        ));
    }
    print::data(match format {
        PlanFormat::Table => table(&ranking),
        PlanFormat::Json => format!("{}\n", serde_json::to_string_pretty(&ranking)?),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn table(ranking: &Ranking) -> String {
    let age = Duration::from_millis(ranking.age_ms);
    let mut text = format!(
        "not accessed for {age:?}, of groups with anything in memory\n\n{:>11}  {:>5}  {:>11}  {:>9}  group\n",
        "could give", "of it", "resident", "processes"
    );
    for group in &ranking.groups {
        let percent = group.idle_bytes * 100 / group.resident_bytes.max(1);
        text.push_str(&format!(
            "{:>11}  {:>5}  {:>11}  {:>9}  {}\n",
            Bytes(group.idle_bytes).to_string(),
            format!("{percent} %"),
            Bytes(group.resident_bytes).to_string(),
            group.nr_processes,
            group.group.escape_default(),
        ));
    }
    text
}

fn age_arg(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ms if ms < AGE_MIN_MS => Err(format!("it must be at least {AGE_MIN_MS}ms")),
        ms => Ok(ms),
    }
}
