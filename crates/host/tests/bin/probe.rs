//! The other processes of the live tests, in one binary.
//!
//! ```text
//!   hog PROCS_FILE MIB     joins a group, fills memory with numbered pages, then obeys stdin:
//!                            "touch"  reads and checks every page       -> "ok"
//!                            "grow N" fills N MiB more                  -> "ok"
//!                          and ends at end of file
//!   owner ID SWAP          a session with keeper, swap and a group with a budget of 64 MiB; says
//!                          "KEEPER_PID GROUP SWAP_DEVICE", then "end" on stdin ends it in order
//!   keeper --state DIR     what the owner starts as its keeper; with STRATA_PROBE_DEAF_KEEPER it hears nothing
//! ```

use std::fs;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use strata_host::keeper::{KEEPER_VERB, Keeper, Session, keeper_main};
use strata_linux::cgroup::{BudgetGroup, Manager};
use strata_linux::swap::{SwapDevice, SwapSpec};

const PAGE_WORDS: usize = 512;

#[expect(clippy::print_stderr, reason = "the tests' own diagnostics")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|verb| verb == KEEPER_VERB) {
        if std::env::var_os("STRATA_PROBE_DEAF_KEEPER").is_some() {
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        return keeper_main(args.into_iter().skip(1).map(Into::into));
    }
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["hog", procs, mib] => hog(procs, mib),
        ["owner", id, swap] => owner(id, swap),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "unknown role")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe {args:?}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hog(procs: &str, mib: &str) -> io::Result<()> {
    if procs != "-" {
        fs::write(procs, "0")?;
    }
    let mut memory = Vec::new();
    grow(&mut memory, mib)?;
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.split_once(' ') {
            None if line == "touch" => check(&memory)?,
            Some(("grow", mib)) => grow(&mut memory, mib)?,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, line)),
        }
        say("ok")?;
    }
    Ok(())
}

fn owner(id: &str, swap: &str) -> io::Result<()> {
    let session = Session::create(id).map_err(io::Error::other)?;
    let keeper = Keeper::spawn(&session)?;
    let journal = session.journal();
    let spec: SwapSpec = swap.parse().map_err(io::Error::other)?;
    let mut swap = SwapDevice::create(&spec, &journal).map_err(io::Error::other)?;
    let mut group = BudgetGroup::create(id, Manager::ByHand, &journal).map_err(io::Error::other)?;
    group.set_budget_bytes(64 << 20).map_err(io::Error::other)?;
    let _watch = group.watch_oom().map_err(io::Error::other)?;
    let device = swap
        .path()
        .map_or_else(|| "-".into(), |path| path.display().to_string());
    say(&format!(
        "{} {} {device}",
        keeper.pid(),
        group.path().display()
    ))?;
    for line in io::stdin().lock().lines() {
        if line? == "end" {
            group.remove().map_err(io::Error::other)?;
            swap.take_down().map_err(io::Error::other)?;
            let left = session.finish(Some(keeper));
            if let Some(error) = left.into_iter().next() {
                return Err(io::Error::other(error));
            }
            return say("ended");
        }
    }
    Ok(())
}

fn say(word: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}")?;
    out.flush()
}

/// One block a MiB, so that growing never copies.
fn grow(memory: &mut Vec<Vec<u64>>, mib: &str) -> io::Result<()> {
    let mib: usize = mib
        .parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    for _ in 0..mib {
        let block = memory.len() as u64;
        // Words that differ, so that compression has something to do and pages don't merge.
        let fill = (0..(1 << 20) / 8).map(|word| number_at(block, word));
        memory.push(fill.collect());
    }
    Ok(())
}

fn number_at(block: u64, word: u64) -> u64 {
    let page = block * 256 + word / PAGE_WORDS as u64;
    (page << 32) | (word & 0xf)
}

fn check(memory: &[Vec<u64>]) -> io::Result<()> {
    for (block, words) in memory.iter().enumerate() {
        for at in (0..words.len()).step_by(PAGE_WORDS) {
            if words[at] != number_at(block as u64, at as u64) {
                let why = format!("block {block} word {at} holds {:x}", words[at]);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
    Ok(())
}
