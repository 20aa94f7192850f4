//! Options of `strata run` that another verb passes on to it, as they were typed.
//!
//! They are taken from `run`'s own list, so that names, help, defaults and what is refused are the same.
//!
//! **Owns** which options are passed on, and to which arms. **Does not own** what they mean (`cmd::run`).

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::cmd::run::RunArgs;

/// What every arm has: the swap below it, and how the kernel weighs anonymous and file pages.
const FOR_ALL: [&str; 2] = ["swap", "swappiness"];
/// What means something to Strata only.
const FOR_STRATA: [&str; 5] = ["min_ttl", "access", "actuator", "policy", "cpu"];

/// Words of a command line of `strata run`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// For all arms.
    pub(super) for_all: Vec<OsString>,
    /// For Strata's.
    pub(super) for_strata: Vec<OsString>,
}

impl Args for Carried {
    fn augment_args(command: Command) -> Command {
        let run = RunArgs::augment_args(Command::new("run"));
        let is_carried = |id: &str| FOR_ALL.contains(&id) || FOR_STRATA.contains(&id);
        let carried = run
            .get_arguments()
            .filter(|arg| is_carried(arg.get_id().as_str()));
        // In the help they follow those that are there, not where they stood in run's.
        let nr_before = command
            .get_arguments()
            .filter(|arg| !arg.is_positional())
            .count();
        let placed = carried
            .enumerate()
            .map(|(at, arg)| arg.clone().display_order(nr_before + at));
        command.args(placed.collect::<Vec<_>>())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Carried::augment_args(command)
    }
}

impl FromArgMatches for Carried {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Carried, clap::Error> {
        let words = |ids: &[&str]| -> Vec<OsString> {
            ids.iter().filter_map(|id| typed(matches, id)).collect()
        };
        Ok(Carried {
            for_all: words(&FOR_ALL),
            for_strata: words(&FOR_STRATA),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Carried::from_arg_matches(matches)?;
        Ok(())
    }
}

/// An option with its value in one word; `None` where the default holds.
fn typed(matches: &ArgMatches, id: &str) -> Option<OsString> {
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return None;
    }
    let value = matches.get_raw(id)?.next_back()?;
    let mut word = OsString::from(format!("--{}=", id.replace('_', "-")));
    word.push(value);
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(words: &[&str]) -> Result<Carried, clap::Error> {
        let command = Carried::augment_args(Command::new("compare"));
        let matches = command.try_get_matches_from([&["compare"], words].concat())?;
        Carried::from_arg_matches(&matches)
    }

    #[test]
    fn what_was_typed_is_passed_on_and_nothing_else() {
        assert_eq!(carried(&[]).expect("nothing"), Carried::default());
        let words = [
            "--policy",
            "mglru",
            "--swap",
            "zram:1G,lz4",
            "--min-ttl=1s",
            "--swappiness",
            "100",
            "--actuator",
            "pageout",
            "--access=smaps",
        ];
        let found = carried(&words).expect("options of run");
        assert_eq!(found.for_all, ["--swap=zram:1G,lz4", "--swappiness=100"]);
        let expected = [
            "--min-ttl=1s",
            "--access=smaps",
            "--actuator=pageout",
            "--policy=mglru",
        ];
        assert_eq!(found.for_strata, expected);
    }

    #[test]
    fn every_name_is_an_option_of_run() {
        let command = Carried::augment_args(Command::new("compare"));
        let found: Vec<&str> = command
            .get_arguments()
            .map(|arg| arg.get_id().as_str())
            .collect();
        for id in FOR_ALL.iter().chain(&FOR_STRATA) {
            assert!(found.contains(id), "run has no option {id}");
        }
        assert_eq!(found.len(), FOR_ALL.len() + FOR_STRATA.len());
    }
}
