//! `strata plan --all`: which cgroups and programs could give memory back, compared at equal age.
//!
//! **Owns** the options and the answer for people. **Does not own** walks and ranking
//! (`strata_host::observe`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use strata_host::observe::idle::{IdleGroups, Ranking};
use strata_host::observe::{Attention, Subject, Who, attend};
use strata_linux::units::Bytes;

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
        &mut |observer, _| {
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

/// A line of the table.
struct Row<'a> {
    idle_bytes: u64,
    resident_bytes: u64,
    nr_processes: u64,
    user: &'a str,
    who: String,
}

/// Groups, and the programs of those that hold several; most idle first.
fn rows(ranking: &Ranking) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for group in &ranking.groups {
        let only = match group.programs.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        let name = group.group.escape_default();
        rows.push(Row {
            idle_bytes: group.idle_bytes,
            resident_bytes: group.resident_bytes,
            nr_processes: group.nr_processes,
            user: only.map_or("-", |program| &program.user),
            who: only.map_or_else(
                || name.to_string(),
                |program| format!("{name}  {}", program.command),
            ),
        });
        let several = group.programs.iter().filter(|_| only.is_none());
        rows.extend(several.map(|program| Row {
            idle_bytes: program.idle_bytes,
            resident_bytes: program.resident_bytes,
            nr_processes: program.nr_processes,
            user: &program.user,
            who: format!("pid {}  {}", program.pid, program.command),
        }));
    }
    // Equal ones keep their order: a group, then what is in it.
    rows.sort_by_key(|row| std::cmp::Reverse(row.idle_bytes));
    rows
}

fn table(ranking: &Ranking) -> String {
    let age = Duration::from_millis(ranking.age_ms);
    let mut text = format!(
        "not accessed for {age:?}, of groups with anything in memory and of the programs of those that hold \
         several\n\n{:>11}  {:>5}  {:>11}  {:>9}  {:<10}  group or program\n",
        "could give", "of it", "resident", "processes", "user"
    );
    for row in rows(ranking) {
        let percent = row.idle_bytes * 100 / row.resident_bytes.max(1);
        text.push_str(&format!(
            "{:>11}  {:>5}  {:>11}  {:>9}  {:<10}  {}\n",
            Bytes(row.idle_bytes).to_string(),
            format!("{percent} %"),
            Bytes(row.resident_bytes).to_string(),
            row.nr_processes,
            row.user,
            row.who,
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

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::observe::idle::{KindBytes, RankedGroup, RankedProgram};

    fn program(pid: i32, idle_bytes: u64) -> RankedProgram {
        RankedProgram {
            pid,
            command: format!("server --number {pid}"),
            user: "nobody".to_owned(),
            nr_processes: 1,
            resident_bytes: 1 << 20,
            idle_bytes,
            idle: KindBytes::default(),
        }
    }

    fn group(name: &str, programs: Vec<RankedProgram>) -> RankedGroup {
        RankedGroup {
            group: name.to_owned(),
            unit: None,
            container: None,
            nr_processes: programs.len() as u64,
            resident_bytes: 1 << 20,
            idle_bytes: programs.iter().map(|program| program.idle_bytes).sum(),
            idle: KindBytes::default(),
            programs,
        }
    }

    #[test]
    fn programs_that_share_a_group_have_lines_of_their_own_and_all_lines_are_by_idle_memory() {
        let ranking = Ranking {
            groups: vec![
                group("/", vec![program(10, 300 << 10), program(20, 5 << 10)]),
                group("/web", vec![program(30, 100 << 10)]),
            ],
            ..Ranking::default()
        };
        let rows = rows(&ranking);
        let who: Vec<&str> = rows.iter().map(|row| row.who.as_str()).collect();
        assert_eq!(
            who,
            [
                "/",
                "pid 10  server --number 10",
                "/web  server --number 30",
                "pid 20  server --number 20"
            ]
        );
        let table = table(&ranking);
        assert_eq!(table.lines().count(), 3 + 4, "{table}");
    }
}
