//! `strata ctl`: asks a running `strata run`, or changes how it goes on.
//!
//! **Owns** the requests' form on the command line and what is printed of an answer. **Does not own**
//! the requests or answers (`strata_host::remote`).

use std::process::ExitCode;

use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use serde_json::Value;
use strata_host::park;
use strata_host::remote::{Form, Request, Running};
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

use crate::args::{Format, id_arg, one_of, refuse_option, size_arg};
use crate::failure::UsageError;
use crate::{print, render};

/// Asks a running strata run how it stands, or changes how it goes on
///
/// strata ctl talks to the run over the run's control socket (/run/strata/ID/control.sock). Where several
/// runs are there, --name says which; the error without it lists them.
///
/// The kernel's own commands, as written to /sys/kernel/debug/lru_gen, are carried out on the pages of
/// the run, also where the kernel has no multi-generational LRU.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    arg_required_else_help = true,
    after_long_help = "\
COMMANDS OF THE KERNEL
  '+ MEMCG NODE SEQ [SWAPPINESS [FORCE]]'    walk, and begin a generation behind SEQ
  '- MEMCG NODE SEQ [SWAPPINESS [PAGES]]'    evict the generations up to SEQ

EXAMPLES
  How it stands:
      strata ctl status

  Give it less, and see what it does with that:
      strata ctl set-budget 300M

  Begin a generation, then evict everything older, at most 1000 pages:
      strata ctl generations
      strata ctl '+ 1 0 5'
      strata ctl '- 1 0 3 60 1000'

EXIT STATUS
  0 done, 1 refused or failed, 2 nobody (or nobody in particular) to ask, or wrong arguments."
)]
pub(crate) struct CtlArgs {
    /// Id or name of the run, for example 4242 or web; by default the only run there is
    #[arg(
        long,
        visible_alias = "name",
        global = true,
        value_name = "ID",
        value_parser = id_arg,
        allow_hyphen_values = true
    )]
    pub(crate) id: Option<String>,

    /// How the answer is printed
    #[arg(long, global = true, value_enum, default_value = "text")]
    format: Format,

    /// One of the kernel's commands, for example '+ 1 0 5'; several may be split by a comma
    #[arg(value_name = "'+ ...'|'- ...'", value_parser = command_arg, allow_hyphen_values = true)]
    command: Option<String>,

    #[command(subcommand)]
    wish: Option<Wish>,
}

/// What is asked for.
#[derive(Debug, Subcommand)]
enum Wish {
    /// How the run stands: usage, budget, evictions, what it costs
    Status,
    /// What strata park has put away: of no run, and told by nobody else
    Parked,
    /// The groups under the run's budget
    Groups,
    /// The generations of the run's pages, in the kernel's text
    Generations {
        /// With tiers and walks, as /sys/kernel/debug/lru_gen_full
        #[arg(long)]
        full: bool,
    },
    /// Set the budget: from now on the program may use SIZE
    SetBudget {
        /// The new budget, for example 512M or 1.5G
        #[arg(value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
        size: u64,
    },
    /// Take no page until strata ctl resume; the kernel's limit stays
    Pause,
    /// End a pause
    Resume,
    /// Take SIZE of memory now, the oldest pages first, whatever usage is
    Evict {
        /// How much memory to take, for example 64M
        #[arg(value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
        size: u64,
    },
    /// Decide which pages go without taking them, or take them again; the kernel's limit stays
    DryRun {
        /// on: decide only; off: take pages again. Left out, the other one of the two
        #[arg(value_parser = on_or_off(), value_name = "on|off")]
        is_on: Option<bool>,
    },
}

fn on_or_off() -> impl TypedValueParser<Value = bool> {
    one_of([
        ("on", "Decide only", true),
        ("off", "Decide and take", false),
    ])
}

impl CtlArgs {
    fn request(&self) -> Result<Request, UsageError> {
        let wish = match (&self.command, &self.wish) {
            (Some(text), None) => return Ok(Request::Command { text: text.clone() }),
            (None, Some(wish)) => wish,
            _ => {
                let why = "ask for one thing: status, a command such as '+ 1 0 5', or another verb of \
                           strata ctl --help";
                return Err(UsageError(why.to_owned()));
            }
        };
        let is_json = self.format == Format::Json;
        Ok(match *wish {
            Wish::Parked | Wish::Status => Request::Status {},
            Wish::Groups => Request::Groups {},
            Wish::Generations { full: true } => Request::LruGen { form: Form::Full },
            Wish::Generations { .. } if is_json => Request::Generations {},
            Wish::Generations { .. } => Request::LruGen { form: Form::Plain },
            Wish::SetBudget { size } => Request::SetBudget { bytes: size },
            Wish::Pause => Request::Pause {},
            Wish::Resume => Request::Resume {},
            Wish::Evict { size } => Request::Evict { bytes: size },
            Wish::DryRun { is_on } => Request::DryRun { on: is_on },
        })
    }
}

/// Asks, and prints the answer.
pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    if matches!(args.wish, Some(Wish::Parked)) {
        return parked(args.format);
    }
    let request = args.request()?;
    let answer = Running::find(args.id.as_deref())?
        .connect()?
        .ask(&request)?;
    print::answer(args.format, &answer, || told(&request, &answer))?;
    Ok(ExitCode::SUCCESS)
}

/// Lists what is parked, from the notes of it.
fn parked(format: Format) -> anyhow::Result<ExitCode> {
    let (notes, troubles): (Vec<_>, Vec<_>) = park::parked().into_iter().partition(Result::is_ok);
    let notes: Vec<_> = notes.into_iter().flatten().collect();
    let whys = troubles.iter().filter_map(|trouble| trouble.as_ref().err());
    whys.for_each(|why| print::error(why));
    let text = match format {
        Format::Json => {
            let notes = notes.iter().map(|note| {
                serde_json::json!({
                    "id": note.id, "name": note.name, "pids": note.running(), "halted": note.halted,
                    "parked_at_unix_s": note.parked_at_unix_s,
                    "resident_before_bytes": note.resident_before_bytes,
                    "swapped_before_bytes": note.swapped_before_bytes,
                    "resident_after_bytes": note.resident_after_bytes,
                })
            });
            format!("{}\n", Value::Array(notes.collect()))
        }
        Format::Text if notes.is_empty() => match troubles.is_empty() {
            true => "nothing is parked\n".to_owned(),
            false => String::new(),
        },
        Format::Text => {
            let head = "<ID                     |      WAS|       IS|<STOPPED|<WHAT";
            let rows = notes.iter().map(|note| {
                let is = note.resident_after_bytes;
                let halted = if note.halted.is_standing() {
                    "yes"
                } else {
                    "no"
                };
                [
                    note.id.clone(),
                    Bytes(note.held_before_bytes()).to_string(),
                    is.map_or_else(|| "?".to_owned(), |bytes| Bytes(bytes).to_string()),
                    halted.to_owned(),
                    note.name.clone(),
                ]
            });
            aligned(head, rows)
        }
    };
    print::data(text)?;
    Ok(match troubles.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn told(request: &Request, answer: &Value) -> String {
    match request {
        Request::Status {} => render::status(answer),
        Request::Groups {} => render::groups(answer),
        Request::LruGen { .. } | Request::Generations {} => {
            answer["text"].as_str().unwrap_or_default().to_owned()
        }
        Request::Command { .. } | Request::Evict { .. } => render::order(answer),
        Request::SetBudget { .. } => render::budget(answer),
        Request::Pause {} => "paused: nothing is taken until it is resumed\n".to_owned(),
        Request::Resume {} => "resumed\n".to_owned(),
        Request::DryRun { .. } => match answer["is_dry_run"].as_bool() {
            Some(true) => "decides, and takes nothing\n".to_owned(),
            _ => "decides, and takes\n".to_owned(),
        },
    }
}

fn command_arg(text: &str) -> Result<String, String> {
    match text.trim_start().starts_with(['+', '-']) && refuse_option(text).is_ok() {
        true => Ok(text.to_owned()),
        false => Err(
            "it is neither a verb (status, groups, generations, set-budget, pause, resume, evict, \
             dry-run) nor a command that begins with + or -"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser;

    fn asked(words: &[&str]) -> Result<Request, String> {
        let line = ["strata", "ctl"].iter().chain(words);
        let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
        let Verb::Ctl(args) = cli.verb else {
            return Err("another verb".to_owned());
        };
        args.request().map_err(|error| error.to_string())
    }

    #[test]
    fn every_wish_becomes_its_request() {
        let command = |text: &str| Request::Command {
            text: text.to_owned(),
        };
        for (line, request) in [
            ("status", Request::Status {}),
            ("--id|7|groups", Request::Groups {}),
            ("generations", Request::LruGen { form: Form::Plain }),
            ("generations|--full", Request::LruGen { form: Form::Full }),
            ("--format|json|generations", Request::Generations {}),
            ("set-budget|1G", Request::SetBudget { bytes: 1 << 30 }),
            ("evict|4K", Request::Evict { bytes: 4096 }),
            ("dry-run|off", Request::DryRun { on: Some(false) }),
            ("dry-run", Request::DryRun { on: None }),
            ("groups|--id|7", Request::Groups {}),
            ("evict|4K|--name=web", Request::Evict { bytes: 4096 }),
            ("generations|--format|json", Request::Generations {}),
            (
                "generations|--format|json|--full",
                Request::LruGen { form: Form::Full },
            ),
            ("+ 1 0 3|--id|7", command("+ 1 0 3")),
            ("- 1 0 3|--format|json", command("- 1 0 3")),
            ("+ 1 0 3", command("+ 1 0 3")),
            ("- 1 0 3 60 512", command("- 1 0 3 60 512")),
            ("--format|json|-1 0 3", command("-1 0 3")),
            (" + 1 0 3, - 1 0 2", command(" + 1 0 3, - 1 0 2")),
        ] {
            let words: Vec<&str> = line.split('|').collect();
            assert_eq!(asked(&words), Ok(request), "{line}");
        }
        assert!(asked(&["+ 1 0 3", "status"]).is_err_and(|why| why.contains("one thing")));
    }

    #[test]
    fn options_mean_the_same_on_either_side_of_the_verb() {
        for words in [
            &["--id", "web", "--format", "json", "status"][..],
            &["status", "--id", "web", "--format", "json"],
            &["--name", "web", "status", "--format=json"],
            &["--format", "json", "+ 1 0 3", "--name", "web"],
        ] {
            let line = ["strata", "ctl"].iter().chain(words);
            let cli = Cli::try_parse_from(line).expect("arguments");
            let Verb::Ctl(args) = cli.verb else {
                panic!("another verb");
            };
            assert_eq!(args.id.as_deref(), Some("web"), "{words:?}");
            assert_eq!(args.format, Format::Json, "{words:?}");
        }
    }
}
