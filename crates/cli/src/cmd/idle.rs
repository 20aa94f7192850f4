//! `strata idle`: who holds memory that nobody uses, and how much of it.
//!
//! **Owns** the options, the pace and the table. **Does not own** walks, ranking and the safe budget
//! (`strata_host::observe`).

use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use strata_host::observe::ledger::{IdleGroups, RankedGroup, Ranking, sum_of};
use strata_host::observe::{Attention, Subject, Turn, Who, attend};
use strata_linux::access::AccessChoice;
use strata_linux::plain;
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

use crate::args::{Format, access_arg, at_least, swap_option};
use crate::cmd::kinds;
use crate::duration::span;
use crate::print::{self, Few};
use crate::progress::Bar;

/// Shortest age: below it a ranking would say more of the walks than of the groups.
const AGE_MIN: &str = "500ms";
/// Walks within the age, so that none is off by more than a tenth of it.
const NR_WALKS: u32 = 10;
/// Rows with less than this to give are told as one line.
const ROW_BYTES_MIN: u64 = 1 << 20;

/// Shows who holds memory that nobody uses
///
/// Watches every process for a little longer than --age. Lists each cgroup, and each program of a cgroup that holds
/// several, by the memory that none of its processes accessed for that long. A page that several processes map counts
/// once. The last line is a budget that is safe for the group that could give most, and the command that sets it.
///
/// Each walk clears accessed bits, which the kernel's own reclaim uses too. Nothing is evicted or limited.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  What was not used for ten minutes?
      strata idle --age 10m

  The same all the time, of one slice:
      strata idle --watch --under /sys/fs/cgroup/system.slice")]
pub(crate) struct IdleArgs {
    /// Memory is idle when it was not accessed for so long, for example 30s or 10m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = at_least(AGE_MIN), allow_hyphen_values = true)]
    age: u64,

    /// Only this cgroup and those below it
    #[arg(long, value_name = "PATH")]
    under: Option<PathBuf>,

    /// Print again at every tenth of the age, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// How long to watch, for example 5m; a little longer than --age by default, with --watch until Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = at_least(AGE_MIN), allow_hyphen_values = true)]
    length: Option<u64>,

    /// By kind of memory, of all that is charged to each cgroup
    #[arg(long)]
    kinds: bool,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// How it is printed: JSON is one object, with --watch one a line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl IdleArgs {
    fn age(&self) -> Duration {
        Duration::from_millis(self.age)
    }

    fn length(&self) -> Option<Duration> {
        self.length.map(Duration::from_millis)
    }

    fn interval(&self) -> Duration {
        self.age() / NR_WALKS
    }

    /// The first walk comes a little after the watch begins.
    fn whole_length(&self) -> Duration {
        self.length()
            .unwrap_or_else(|| self.age() + self.interval())
    }

    fn who(&self) -> Who {
        let path = self.under.as_deref().unwrap_or_else(|| Path::new("/"));
        Who::Running(Subject::Cgroup(path.to_owned()))
    }
}

/// Watches and tells.
pub(crate) fn run(args: &IdleArgs) -> anyhow::Result<ExitCode> {
    match args.watch {
        true => again_and_again(args),
        false => once(args),
    }
}

/// Watches, and tells at the end.
fn once(args: &IdleArgs) -> anyhow::Result<ExitCode> {
    let mut groups = IdleGroups::new();
    let mut troubles = Vec::new();
    let bar = Bar::watch("watching", args.whole_length());
    attend(
        &args.who(),
        args.access,
        args.interval(),
        Some(args.whole_length()),
        &mut |observer, _| {
            troubles.extend(groups.observe(observer).troubles);
            Attention::GoOn
        },
    )?;
    bar.finish();
    let mut few = Few::told("{nr} troubles in all");
    troubles.iter().for_each(|trouble| few.warning(trouble));
    drop(few);
    let ranking = groups.ranking(args.age());
    if ranking.watched_ms < ranking.age_ms {
        print::warning(&too_young(&ranking));
    }
    print::pretty_answer(args.format, &ranking, || text(&ranking, args.kinds))?;
    Ok(ExitCode::SUCCESS)
}

/// Tells at every walk.
fn again_and_again(args: &IdleArgs) -> anyhow::Result<ExitCode> {
    let mut groups = IdleGroups::new();
    let mut outcome = Ok(());
    attend(
        &args.who(),
        args.access,
        args.interval(),
        args.length(),
        &mut |observer, turn| {
            groups.observe(observer);
            let ranking = groups.ranking(args.age());
            if ranking.watched_ms == 0 {
                return Attention::GoOn;
            }
            outcome = tell(&ranking, args);
            match (&outcome, turn) {
                (Ok(()), Turn::Next) => Attention::GoOn,
                _ => Attention::Enough,
            }
        },
    )?;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn tell(ranking: &Ranking, args: &IdleArgs) -> anyhow::Result<()> {
    print::answer(args.format, ranking, || {
        let mut text = String::new();
        if stdout().is_terminal() {
            text.push_str(print::CLEAR);
        }
        if ranking.watched_ms < ranking.age_ms {
            text.push_str(&format!("{}\n", too_young(ranking)));
        }
        text + &self::text(ranking, args.kinds)
    })
}

fn text(ranking: &Ranking, kinds: bool) -> String {
    let columns = print::columns();
    let groups = ranking.groups.iter().map(|of| (&*of.group, &of.kinds));
    match kinds {
        true => kinds::table(&sum_of(groups.clone().map(|(_, of)| of)), groups, columns),
        false => table(ranking, columns),
    }
}

fn too_young(ranking: &Ranking) -> String {
    let watched = span(ranking.watched_ms);
    format!("watched for {watched} so far: nothing can be known to be older")
}

/// The idle memory of a line of the table, and its cells.
type Row = (u64, [String; 6]);

/// Groups, and the programs of those that hold several; most idle first.
fn rows(ranking: &Ranking) -> Vec<Row> {
    let row = |idle_bytes: u64, resident_bytes: u64, nr_processes: u64, user: &str, who| {
        let percent = idle_bytes * 100 / resident_bytes.max(1);
        let cells = [
            Bytes(idle_bytes).to_string(),
            format!("{percent} %"),
            Bytes(resident_bytes).to_string(),
            nr_processes.to_string(),
            user.to_owned(),
            who,
        ];
        (idle_bytes, cells)
    };
    let mut rows = Vec::new();
    for of in &ranking.groups {
        let only = match of.programs.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        let (name, user) = (of.called(), only.map_or("-", |program| &program.user));
        let who = match only {
            Some(program) => format!("{name}  {}", print::command(&program.command)),
            None => name,
        };
        rows.push(row(
            of.idle_bytes,
            of.resident_bytes,
            of.nr_processes,
            user,
            who,
        ));
        rows.extend(of.programs.iter().filter(|_| only.is_none()).map(|of| {
            let who = format!("pid {}  {}", of.pid, print::command(&of.command));
            row(
                of.idle_bytes,
                of.resident_bytes,
                of.nr_processes,
                &of.user,
                who,
            )
        }));
    }
    // Equal ones keep their order: a group, then what is in it.
    rows.sort_by_key(|(idle_bytes, _)| std::cmp::Reverse(*idle_bytes));
    rows
}

/// For people; lines are cut at so many columns.
fn table(ranking: &Ranking, columns: Option<usize>) -> String {
    let rows = rows(ranking);
    let nr_told = rows.partition_point(|(idle_bytes, _)| *idle_bytes >= ROW_BYTES_MIN);
    let head = "  could give|of it|   resident|processes|<user      |<group or program";
    let cells = rows[..nr_told].iter().map(|(_, cells)| cells);
    let mut text = format!(
        "not accessed for {}: {} of {} that processes hold; by group, and by program where a group holds several\n\n{}",
        span(ranking.age_ms),
        Bytes(ranking.idle_bytes),
        Bytes(ranking.resident_bytes),
        print::cut(&aligned(head, cells), columns),
    );
    if nr_told < rows.len() {
        let rest = &rows[nr_told..];
        let (nr, limit) = (rest.len(), Bytes(ROW_BYTES_MIN));
        text.push_str(&format!(
            "{:>11}  {nr} more with less than {limit} each\n",
            ""
        ));
    }
    for (bytes, what) in [
        (
            of_groups(ranking, |group| group.shared_bytes),
            "shared with other groups",
        ),
        (
            of_groups(ranking, |group| group.unknown_bytes),
            "of unknown age, which is not idle: memory of guests, and pages whose accessed bits can't be cleared",
        ),
    ] {
        if bytes > 0 {
            text.push_str(&format!("{:>11}  {what}\n", Bytes(bytes).to_string()));
        }
    }
    text.push_str(&by_node(ranking, columns));
    if let Some(budget) = &ranking.safe_budget {
        let swap = budget.swap_bytes.map(swap_option).unwrap_or_default();
        text.push_str(&format!(
            "\nsafe: {} for {}, {} less than now: strata run --cgroup {} --memory {}M{swap}\n",
            Bytes(budget.budget_bytes),
            plain::line(&budget.group),
            Bytes(budget.saves_bytes),
            shell_word(&budget.group),
            budget.budget_bytes >> 20,
        ));
    }
    text
}

/// Where there are several memory nodes: what each group uses, where its pages are, and which node has room for what it uses.
fn by_node(ranking: &Ranking, columns: Option<usize>) -> String {
    if ranking.nodes.is_empty() {
        return String::new();
    }
    let mut text = "\n".to_owned();
    for node in &ranking.nodes {
        text.push_str(&format!(
            "memory node {}{}: {}, {} free\n",
            node.node,
            if node.is_upper { "" } else { ", slower" },
            Bytes(node.total_bytes),
            Bytes(node.free_bytes)
        ));
    }
    let on_nodes = ranking.nodes.iter();
    let on_nodes = on_nodes.map(|of| format!("|{:>11}", format!("on node {}", of.node)));
    let head = format!(
        "       used{}|fits node|<group",
        on_nodes.collect::<String>()
    );
    let told = ranking
        .groups
        .iter()
        .filter(|group| group.resident_bytes >= ROW_BYTES_MIN);
    let rows = told.map(|group| {
        let bytes = |bytes: u64| Bytes(bytes).to_string();
        let fits = group.fits_node;
        let mut row = vec![bytes(group.used_bytes())];
        let on_nodes = ranking.nodes.iter().map(|of| group.nodes.get(&of.node));
        row.extend(on_nodes.map(|held| bytes(held.copied().unwrap_or(0))));
        row.push(fits.map_or_else(|| "none".to_owned(), |node| node.to_string()));
        row.push(plain::line(&group.group).into_owned());
        row
    });
    text + "\n" + &print::cut(&aligned(&head, rows), columns)
}

fn of_groups(ranking: &Ranking, bytes: impl Fn(&RankedGroup) -> u64) -> u64 {
    ranking.groups.iter().map(bytes).sum()
}

/// A path as a shell takes it for one word.
fn shell_word(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=".contains(c);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::observe::ledger::{KindBytes, NodeStatus, RankedProgram, SafeBudget};

    fn program(pid: i32, idle_bytes: u64) -> RankedProgram {
        RankedProgram {
            pid,
            command: format!("server --number {pid}"),
            user: "nobody".to_owned(),
            nr_processes: 1,
            resident_bytes: 1 << 20,
            shared_bytes: 0,
            unknown_bytes: 0,
            idle_bytes,
            idle: KindBytes::default(),
        }
    }

    fn group(name: &str, programs: Vec<RankedProgram>) -> RankedGroup {
        RankedGroup {
            group: name.to_owned(),
            nr_processes: programs.len() as u64,
            resident_bytes: 1 << 20,
            idle_bytes: programs.iter().map(|program| program.idle_bytes).sum(),
            programs,
            ..RankedGroup::default()
        }
    }

    #[test]
    fn programs_that_share_a_group_have_lines_of_their_own_and_all_lines_are_by_idle_memory() {
        let ranking = Ranking {
            groups: vec![
                group("/", vec![program(10, 300 << 20), program(20, 5 << 20)]),
                group("/web", vec![program(30, 100 << 20)]),
            ],
            ..Ranking::default()
        };
        let rows = rows(&ranking);
        let who: Vec<&str> = rows.iter().map(|(_, cells)| cells[5].as_str()).collect();
        assert_eq!(
            who,
            [
                "/",
                "pid 10  server --number 10",
                "/web  server --number 30",
                "pid 20  server --number 20"
            ]
        );
        let table = table(&ranking, None);
        assert_eq!(table.lines().count(), 3 + 4, "{table}");
    }

    #[test]
    fn where_memory_nodes_are_several_it_is_told_what_each_group_uses_and_where_that_fits() {
        let mut web = group("/web", vec![program(30, 100 << 20)]);
        (web.resident_bytes, web.fits_node) = (140 << 20, Some(0));
        web.nodes = [(0, 30 << 20), (1, 110 << 20)].into();
        let node = |node| NodeStatus {
            node,
            is_upper: node == 0,
            total_bytes: 1 << 30,
            free_bytes: 500 << 20,
            resident_bytes: 0,
        };
        let ranking = Ranking {
            groups: vec![web],
            nodes: vec![node(0), node(1)],
            ..Ranking::default()
        };
        let text = table(&ranking, None);
        for told in [
            "memory node 1, slower: 1 GiB, 500 MiB free",
            "     40 MiB       30 MiB      110 MiB          0  /web",
        ] {
            assert!(text.contains(told), "{text}");
        }
        assert!(!table(&Ranking::default(), None).contains("node"));
    }

    #[test]
    fn the_last_line_can_be_pasted_and_what_is_hardly_anything_is_one_line() {
        let ranking = Ranking {
            age_ms: 60_000,
            groups: vec![
                group("/web app", vec![program(10, 300 << 20)]),
                group("/a", vec![program(20, 5 << 10)]),
                group("/b", vec![program(30, 0)]),
            ],
            safe_budget: Some(SafeBudget {
                group: "/web app".to_owned(),
                budget_bytes: 230 << 20,
                saves_bytes: 270 << 20,
                swap_bytes: Some(448 << 20),
            }),
            ..Ranking::default()
        };
        let text = table(&ranking, Some(60));
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.ends_with("strata run --cgroup '/web app' --memory 230M --swap zram:448M"),
            "{text}"
        );
        assert!(text.contains("2 more with less than 1 MiB each"), "{text}");
        let row = text.lines().nth(3).unwrap_or_default();
        assert_eq!(row.chars().count(), 60, "{text}");
    }
}
