//! `strata wake`: a parked program is brought back.
//!
//! **Owns** the options, and what is printed. **Does not own** what is done (`strata_host::park`).

use std::process::ExitCode;

use clap::Args;
use strata_host::park::{self, WakeError, Woken};
use strata_linux::units::Bytes;

use crate::args::{Format, id_arg, parse_pid, size_arg};
use crate::failure::{UsageError, refuse};
use crate::print;

/// Brings a parked program back, and reads in what it used last before it asks for it
///
/// A program that was stopped goes on first. What it used last is read in from swap, the youngest first, as far as memory is
/// free; the rest comes back when it is touched. When nothing is parked any more, the swap that strata park has made is taken
/// down.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  What is parked, and how is it called?
      strata ctl parked

  Bring one back, and read in at most 200 MiB of it:
      strata wake 4242 --limit 200M

  All:
      strata wake --all")]
pub(crate) struct WakeArgs {
    #[command(flatten)]
    who: WhoArgs,

    /// The most that is read in, of each program that is woken
    #[arg(long, value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
    limit: Option<u64>,

    /// How it is printed: JSON is one object a line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Who is woken.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WhoArgs {
    /// What strata park has called it, for example 4242
    #[arg(value_name = "ID", value_parser = id_arg)]
    id: Option<String>,

    /// What this process is parked with
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pid: Option<i32>,

    /// All that is parked, and all that a Strata has stopped which has died
    #[arg(short, long)]
    all: bool,
}

/// Wakes, and tells.
pub(crate) fn run(args: &WakeArgs) -> anyhow::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    let ids: Vec<String> = match (&args.who.id, args.who.pid) {
        (Some(id), _) => vec![id.clone()],
        (None, Some(pid)) => {
            let nobody = || UsageError(format!("process {pid} is not parked"));
            vec![park::find(pid)?.ok_or_else(nobody)?.id]
        }
        (None, None) => {
            if let Err(error) = park::recover() {
                print::warning(&format!(
                    "looking for what an ended Strata has left stopped failed: {error}"
                ));
            }
            let mut ids = Vec::new();
            for note in park::parked() {
                match note {
                    Ok(note) => ids.push(note.id),
                    Err(error) => {
                        print::error(&error);
                        status = ExitCode::FAILURE;
                    }
                }
            }
            ids
        }
    };
    for id in &ids {
        match park::wake(id, args.limit) {
            Ok(woken) => print::answer(args.format, &woken, || told(&woken))?,
            // Another one woke it, or it has ended.
            Err(WakeError::Unknown(_)) if args.who.all => {}
            Err(error @ WakeError::Unknown(_)) => {
                tidy();
                return refuse(error.to_string());
            }
            Err(error) => {
                print::error(&error);
                status = ExitCode::FAILURE;
            }
        }
    }
    if ids.is_empty() && status == ExitCode::SUCCESS {
        print::note(&"nothing is parked");
    }
    tidy();
    Ok(status)
}

/// Takes down the swap of park where it holds nothing that is parked.
pub(super) fn tidy() {
    match park::tidy() {
        Ok(None) => {}
        Ok(Some(path)) => print::note(&format!("the swap {} is taken down", path.display())),
        Err(error) => print::warning(&error),
    }
}

/// What was read back.
pub(super) fn told(woken: &Woken) -> String {
    let mut line = format!(
        "{} ({}): {} read back",
        woken.id,
        woken.name,
        Bytes(woken.read_back_bytes)
    );
    if woken.asked_bytes > 0 {
        line += &format!(", {} of files asked for", Bytes(woken.asked_bytes));
    }
    line += &format!(", {:.2} s", woken.seconds);
    if woken.was_halted {
        line += ", goes on";
    }
    if let Some(bound) = woken.cut_short_by {
        line += &format!("; the rest comes when it is touched: {bound} has no room for it");
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_how_long_and_what_was_in_the_way() {
        let mut woken = Woken {
            id: "4242".to_owned(),
            name: "node".to_owned(),
            nr_processes: 1,
            was_halted: true,
            read_back_bytes: 300 << 20,
            asked_bytes: 0,
            seconds: 0.412,
            cut_short_by: None,
        };
        assert_eq!(
            told(&woken),
            "4242 (node): 300 MiB read back, 0.41 s, goes on\n"
        );
        woken.cut_short_by = Some("memory that is free");
        assert!(told(&woken).contains("memory that is free has no room"));
    }
}
