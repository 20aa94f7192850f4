//! The command line as a whole.
//!
//! **Owns** the list of verbs, and what `strata --help` says before any of them. **Does not own** a verb's own options
//! (`cmd`), nor how their values are read (`args`).

use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use strata_linux::access::carried;
use strata_linux::units::Bytes;

use crate::cmd::{
    compare, completions, ctl, doctor, files, guard, html, idle, lru_gen, man, park, plan, record,
    run, sim, top, trace, wake, wss,
};

/// What `--version` says: the commit that `scripts/package.sh` built, and the BPF objects inside.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let objects = carried().map(|(name, bytes)| format!("{name} {}", Bytes(bytes as u64)));
    format!(
        "{}\ncommit     {}\nBPF        {}; page tables of x86-64, Linux 6.1 or later with BTF",
        env!("CARGO_PKG_VERSION"),
        option_env!("STRATA_COMMIT").unwrap_or("not told: cargo built this alone"),
        objects.join(", "),
    )
});

/// Gives any running process or cgroup a memory budget, and keeps the right pages in it
///
/// Strata reads the accessed bits of a program's page tables, sorts its pages into generations by
/// age (the multi-generational LRU), and evicts the oldest when the program needs more than its
/// budget. The program is not changed, restarted or written to, and nothing is lost if Strata dies:
/// its pages belong to the kernel all the time.
#[derive(Debug, Parser)]
#[command(
    name = "strata",
    version,
    long_version = VERSION.as_str(),
    max_term_width = 100,
    arg_required_else_help = true,
    after_long_help = "\
EXAMPLES
  Does everything work on this machine?
      strata doctor

  A program that wants 2 GiB gets 1 GiB, and the rest goes to compressed memory:
      strata run --memory 1G --swap zram:2G -- ./server --port 8080

  What does a budget change for a program, beside the kernel's limit alone?
      strata compare --memory 1G --swap zram:2G -- ./job

  Who holds memory that nobody uses?
      strata idle

  Put an idle program with its children away, and bring it back:
      strata park --tree 4242 --swap zram:4G
      strata wake 4242

  Whose memory is old, and which mapping is cold?
      strata top

  How does a run stand, and what if it had less memory?
      strata ctl status
      strata ctl set-budget 800M

  How old are the pages of process 4242?
      strata lru-gen --pid 4242 --once

  How much memory does process 4242 need?
      strata wss --pid 4242

  Which files fill the page cache, and which group is charged for them?
      strata files

  With what budget would process 4242 be hardly slower?
      strata record --pid 4242 --for 1m -o run.strata
      strata plan run.strata

  What did it do with its memory, as a page to send?
      strata html run.strata -o run.html

EXIT STATUS
  0  done
  1  the check or the work failed
  2  the arguments can't be used
  run and record give the program's own status instead (128+N if signal N ended it), or 125 if
  Strata itself failed, 126 if the command can't be executed, 127 if it was not found.

ENVIRONMENT
  STRATA_LOG  what to log on stderr: a level (error, warn, info, debug, trace) or a filter such as
              strata_linux::access=debug; nothing by default"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Box<run::RunArgs>),
    Compare(Box<compare::CompareArgs>),
    Guard(Box<guard::GuardArgs>),
    Park(park::ParkArgs),
    Wake(wake::WakeArgs),
    Idle(idle::IdleArgs),
    Top(top::TopArgs),
    Ctl(ctl::CtlArgs),
    LruGen(lru_gen::LruGenArgs),
    Wss(wss::WssArgs),
    Files(files::FilesArgs),
    Record(Box<record::RecordArgs>),
    Plan(Box<plan::PlanArgs>),
    Html(Box<html::HtmlArgs>),
    Sim(Box<sim::SimArgs>),
    Trace(Box<trace::TraceArgs>),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use proptest::prelude::*;

    /// What people and scripts may type: real words in any order, near misses, and noise.
    fn word() -> impl Strategy<Value = String> {
        let values = "none,kernel ([0-9]+) json + - -- -m1G -q -o 1G zram:1G,lz4 file:/x:1G 60 1s 1s,10s 1% 3% auto mglru bash";
        let mut real: Vec<String> = values.split(' ').map(str::to_owned).collect();
        real.extend(["", "+ 1 0 3", "- 1 0 3", "--memory="].map(str::to_owned));
        let mut open = vec![Cli::command()];
        while let Some(verb) = open.pop() {
            let options = verb.get_arguments().filter_map(clap::Arg::get_long);
            real.extend(options.map(|option| format!("--{option}")));
            real.push(verb.get_name().to_owned());
            open.extend(verb.get_subcommands().cloned());
        }
        let real = prop::sample::select(real);
        prop_oneof![
            4 => real,
            1 => "\\PC{0,20}",
            1 => "(zram|file):[^ ]{0,12}",
            1 => "[-+]?[0-9.]{0,24}[a-zA-Z%]{0,3}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn no_arguments_panic(words in prop::collection::vec(word(), 0..12)) {
            let line = std::iter::once("strata".to_owned()).chain(words);
            if let Err(error) = Cli::try_parse_from(line) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_and_value_of_every_verb_is_explained() {
        let command = Cli::command();
        let verbs = command.get_subcommands();
        for verb in verbs.flat_map(|verb| std::iter::once(verb).chain(verb.get_subcommands())) {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for arg in verb.get_arguments() {
                let name = format!("{} {}", verb.get_name(), arg.get_id());
                assert!(arg.get_help().is_some(), "{name} has no help");
                // A flag's "values" are clap's own true and false.
                let takes_value = arg.get_action().takes_values();
                for value in arg.get_possible_values().iter().filter(|_| takes_value) {
                    let is_told = value.get_help().is_some() || arg.get_id() == "shell";
                    assert!(is_told, "{name} {} has no help", value.get_name());
                }
            }
        }
    }
}
