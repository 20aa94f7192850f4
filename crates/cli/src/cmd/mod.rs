//! One module a verb.
//!
//! **Owns** the way from a verb to its exit status. **Does not own** what a verb does.

pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod ctl;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod guard;
pub(crate) mod html;
pub(crate) mod idle;
mod kinds;
pub(crate) mod lru_gen;
pub(crate) mod man;
pub(crate) mod park;
pub(crate) mod plan;
pub(crate) mod record;
mod report_file;
pub(crate) mod run;
pub(crate) mod sim;
mod sim_guard;
mod sim_trace;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod wake;
pub(crate) mod wss;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Verb};
use crate::failure::UsageError;
use crate::{failure, print};

/// Does what was asked; a failure is told on stderr.
pub(crate) fn dispatch(verb: Verb) -> ExitCode {
    let status_of = match &verb {
        Verb::Run(_) | Verb::Record(_) => failure::status_of_run,
        Verb::Guard(args) if args.has_command() => failure::status_of_run,
        _ => failure::status,
    };
    let done = match verb {
        _ if strata_linux::run_dir::is_run_dir_empty() => Err(UsageError(
            "STRATA_RUN_DIR is set, but empty: unset it, which means /run/strata, or give the whole path of a directory that \
             only you can write"
                .to_owned(),
        )
        .into()),
        Verb::Run(args) => run::run(*args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Ctl(args) => ctl::run(&args),
        Verb::LruGen(args) => lru_gen::run(&args),
        Verb::Record(args) => record::run(*args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Html(args) => html::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Guard(args) => guard::run(&args),
        Verb::Park(args) => park::run(&args),
        Verb::Wake(args) => wake::run(&args),
        Verb::Idle(args) => idle::run(&args),
        Verb::Wss(args) => wss::run(&args),
        Verb::Files(args) => files::run(&args),
        Verb::Trace(args) => trace::run(&args),
        Verb::Compare(args) => compare::run(*args),
        Verb::Completions(args) => completions::run(&args, Cli::command()),
        Verb::Man(args) => man::run(&args, Cli::command()),
    };
    let code = match done {
        Ok(code) => code,
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&print::chain(error.as_ref()));
            ExitCode::from(status_of(&error))
        }
    };
    print::finish();
    code
}
