//! `strata park`: an idle program is put away.
//!
//! **Owns** the options, and what is printed. **Does not own** what is done (`strata_host::park`).

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use strata_host::park::{self, Halted, Keep, ParkConfig, ParkError, ParkWatch, Parked};
use strata_linux::access::AccessChoice;
use strata_linux::swap::SwapSpec;
use strata_linux::units::Bytes;

use crate::args::{Format, access_arg, parse_duration_ms, refuse_option, size_arg, swap_arg};
use crate::cmd::wake;
use crate::failure::UsageError;
use crate::interrupt::Interrupt;
use crate::print;
use crate::target::Target;

/// Less than this that stayed for one reason is not told.
const TOLD_BYTES_MIN: u64 = 64 << 10;

/// Puts an idle program away: its memory goes, its state stays
///
/// All memory of the program that can go goes: anonymous memory to swap, clean pages of files are dropped, those that were
/// used longest ago first. The program goes on, unless --freeze stops it; what it touches comes back by itself. What it used
/// last is noted in /run/strata/parked/ID, so that strata wake can read it back before it is asked for. The last line says
/// what stayed, and why.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  Put an editor session with all its helpers away, into compressed memory:
      strata park --tree 4242 --swap zram:4G

  Before the work goes on:
      strata wake 4242

  Read it back as soon as it works again by itself:
      strata park --tree 4242 --watch

  What is parked?
      strata ctl parked")]
pub(crate) struct ParkArgs {
    #[command(flatten)]
    target: Target,

    /// Stop it before, and leave it stopped until strata wake: by the cgroup freezer, or by SIGSTOP where none holds just its processes
    #[arg(long)]
    freeze: bool,

    /// What stays in memory: SIZE of what was used last, for example 50M, or working-set, which is what is used during --look
    #[arg(long, value_name = "SIZE|working-set", value_parser = keep_arg, allow_hyphen_values = true)]
    keep: Option<Keep>,

    /// Where anonymous memory goes: existing, zram:SIZE, zram:SIZE,ALGORITHM, file:PATH:SIZE; 25% as SIZE is a share of memory
    ///
    /// What is made stays as long as something is parked; it goes with the last one, whoever wakes that.
    #[arg(long, value_name = "SWAP", value_parser = swap_arg, allow_hyphen_values = true, default_value = "existing")]
    swap: SwapSpec,

    /// How long it is looked at before, so that what is in use is known from the rest
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true, default_value = "1s")]
    look: u64,

    /// Stay, and read back what it used last as soon as it works again by itself; until it is woken, or Ctrl-C
    #[arg(long, conflicts_with_all = ["dry_run", "freeze"])]
    watch: bool,

    /// Say what there is, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// How it is printed: JSON is one object
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// What is to stay.
pub(crate) fn keep_arg(text: &str) -> Result<Keep, String> {
    refuse_option(text)?;
    match text {
        "working-set" => Ok(Keep::WorkingSet),
        _ => size_arg(text)
            .map(Keep::Bytes)
            .map_err(|why| format!("{why}, or working-set")),
    }
}

/// Parks, and tells.
pub(crate) fn run(args: &ParkArgs) -> anyhow::Result<ExitCode> {
    let interrupt = match args.watch {
        true => Some(Interrupt::install()?),
        false => None,
    };
    let config = ParkConfig {
        subject: args.target.subject()?,
        is_freezing: args.freeze,
        keep: args.keep.unwrap_or_default(),
        swap: args.swap.clone(),
        look: Duration::from_millis(args.look),
        access: args.access,
        is_dry_run: args.dry_run,
    };
    let parked = park::park(&config).map_err(|error| match error {
        ParkError::Subject(error) => error.into(),
        ParkError::Vital(_) | ParkError::Empty(_) => UsageError(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    parked.notes.iter().for_each(|note| print::note(note));
    print::answer(args.format, &parked, || told(&parked))?;
    if let Some(interrupt) = interrupt {
        watch(&parked.id, args.format, &interrupt)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads back what works again, and ends then.
fn watch(id: &str, format: Format, interrupt: &Interrupt) -> anyhow::Result<()> {
    let notes: Vec<_> = park::parked()
        .into_iter()
        .flatten()
        .filter(|note| note.id == id)
        .collect();
    let mut watch = ParkWatch::over(&notes);
    while !watch.is_over() && !interrupt.has_come() {
        thread::sleep(ParkWatch::INTERVAL);
        for woken in watch.look() {
            let woken = woken?;
            print::answer(format, &woken, || wake::told(&woken))?;
        }
    }
    if watch.is_over() {
        wake::tidy();
    }
    Ok(())
}

fn told(parked: &Parked) -> String {
    let bytes = |bytes| Bytes(bytes).to_string();
    let mut line = format!("{} ({})", parked.id, parked.name);
    if parked.is_dry_run {
        let goes = parked.resident_before_bytes - parked.resident_after_bytes;
        let (was, goes) = (bytes(parked.resident_before_bytes), bytes(goes));
        return format!("{line}: is {was}, of which at most {goes} would go\n");
    }
    line += &format!(
        ": was {}, is {}, ",
        bytes(parked.resident_before_bytes),
        bytes(parked.resident_after_bytes)
    );
    line += &match parked.compression() {
        Some(ratio) => format!(
            "{} in swap takes {} of memory ({ratio:.1} times less), ",
            bytes(parked.swapped_bytes),
            bytes(parked.swap_memory_bytes)
        ),
        None => format!("{} in swap, ", bytes(parked.swapped_bytes)),
    };
    line += &format!("{:.1} s", parked.seconds);
    if parked.halted != Halted::No {
        line += ", stopped until strata wake";
    }
    let kept = parked.kept.iter();
    let kept = kept.filter(|kept| kept.bytes >= TOLD_BYTES_MIN);
    let kept: Vec<String> = kept
        .map(|kept| format!("{} {}", bytes(kept.bytes), kept.reason.name()))
        .collect();
    if !kept.is_empty() {
        line += &format!("; stayed: {}", kept.join(", "));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::park::{Kept, WhyKept};

    #[test]
    fn the_last_line_says_what_was_what_is_what_it_costs_and_what_stayed_why() {
        let kept = |reason, bytes| Kept { reason, bytes };
        let mut parked = Parked {
            id: "4242".to_owned(),
            name: "redis-server".to_owned(),
            nr_processes: 1,
            is_dry_run: false,
            resident_before_bytes: 612 << 20,
            swapped_before_bytes: 0,
            resident_after_bytes: 14 << 20,
            swapped_bytes: 564 << 20,
            swap_memory_bytes: 141 << 20,
            net_freed_bytes: 457 << 20,
            seconds: 1.94,
            kept: vec![
                kept(WhyKept::Shared, 9 << 20),
                kept(WhyKept::Mlocked, 5 << 20),
                kept(WhyKept::Busy, 8 << 10),
            ],
            halted: Halted::No,
            notes: Vec::new(),
        };
        assert_eq!(
            told(&parked),
            "4242 (redis-server): was 612 MiB, is 14 MiB, 564 MiB in swap takes 141 MiB of memory (4.0 times less), 1.9 s; \
             stayed: 9 MiB shared with others, 5 MiB mlocked\n"
        );
        parked.swap_memory_bytes = 0;
        parked.kept.clear();
        assert!(
            told(&parked).ends_with("is 14 MiB, 564 MiB in swap, 1.9 s\n"),
            "{}",
            told(&parked)
        );
    }

    #[test]
    fn what_is_kept_is_a_size_or_the_working_set() {
        assert_eq!(keep_arg("working-set"), Ok(Keep::WorkingSet));
        assert_eq!(keep_arg("50M"), Ok(Keep::Bytes(50 << 20)));
    }
}
