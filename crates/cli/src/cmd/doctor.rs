//! `strata doctor`: what this machine offers, as a table or as JSON.
//!
//! **Owns** the two shapes of the answer. **Does not own** the checks (`strata_host::doctor`).

use std::path::PathBuf;
use std::process::ExitCode;

use strata_host::doctor::{Check, Refault, Status, can_run, examine, measure};
use strata_linux::swap::SwapSpec;
use strata_sim::table::aligned;

use crate::args::{Format, swap_arg, table_or_json};
use crate::print;

/// Says what this machine offers, what is missing, and the command that mends it.
///
/// Exit status 0 when `strata run` can work here, 1 when it can't.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Measure what a refault costs, too: a page that has left memory and is asked for again
    ///
    /// 32 MiB of this command's own memory go to swap and come back, and a file of 4 MiB without a name is read page by page. That
    /// takes some seconds, and tells the --cost of strata plan. Other work makes it dearer: measure where and when it is quiet.
    #[arg(long)]
    measure: bool,

    /// Swap to measure: existing, or zram:SIZE or file:PATH:SIZE, which is made for as long as it takes
    #[arg(long, value_name = "SPEC", default_value = "existing", value_parser = swap_arg, requires = "measure", allow_hyphen_values = true)]
    swap: SwapSpec,

    /// Where the file is
    #[arg(long, value_name = "DIR", default_value = ".", requires = "measure")]
    directory: PathBuf,

    /// How to print the answer; JSON has `can_run`, and `checks` with name, status, needed_for, found, remedy
    ///
    /// With --measure it has `refaults`, too: kind (swap; swap_with_eviction, where a page goes for each that comes, as at a
    /// limit; file), through, median_ns, p99_ns, mean_ns, nr_reads, and why where nothing is known.
    #[arg(long, value_parser = table_or_json(), default_value = "table", value_name = "FORMAT")]
    format: Format,
}

#[derive(serde::Serialize)]
struct Answer<'a> {
    can_run: bool,
    checks: &'a [Check],
    #[serde(skip_serializing_if = "Option::is_none")]
    refaults: Option<&'a [Refault]>,
}

/// Runs the command.
///
/// # Errors
/// The answer can't be written.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let can_run = can_run(&checks);
    let refaults = args.measure.then(|| measure(&args.swap, &args.directory));
    let answer = Answer {
        can_run,
        checks: &checks,
        refaults: refaults.as_deref(),
    };
    print::pretty_answer(args.format, &answer, || {
        table(&checks) + &refaults.as_deref().map_or_else(String::new, costs)
    })?;
    Ok(match can_run {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn table(checks: &[Check]) -> String {
    let rows = checks.iter().flat_map(|check| {
        let mark = match check.status {
            Status::Ok => "ok",
            Status::Limited => "limited",
            Status::Missing => "MISSING",
        };
        let row = |mark: &str, name: &str, text: String| [mark.to_owned(), name.to_owned(), text];
        let more = check.remedy.iter().flat_map(move |remedy| {
            let needed = format!("needed for: {}", check.needed_for);
            [needed, format!("to mend: {remedy}")].map(|text| row("", "", text))
        });
        std::iter::once(row(mark, check.name, check.found.clone())).chain(more)
    });
    let mut text = aligned("<|<|<", rows);
    let is_limited = checks.iter().any(|check| check.status == Status::Limited);
    text += match (can_run(checks), is_limited) {
        (false, _) => "\nstrata run can't work here: mend what is MISSING.\n",
        (true, true) => "\nstrata run can work here, without what is limited.\n",
        (true, false) => "\nstrata run can work here, with everything.\n",
    };
    text
}

/// What refaults cost, and how a plan is told.
fn costs(refaults: &[Refault]) -> String {
    let us =
        |ns: Option<u64>| ns.map_or_else(String::new, |ns| format!("{:.1} us", ns as f64 / 1e3));
    let rows = refaults.iter().map(|one| {
        let figures = [one.median_ns, one.p99_ns, one.mean_ns].map(us);
        let [median, p99, mean] = figures;
        let through = one.why.as_ref().unwrap_or(&one.through).clone();
        [one.kind.to_owned(), median, p99, mean, through]
    });
    let mut text = "\n".to_owned() + &aligned("<refault|median|p99|mean|<through", rows);
    let mean = |kind: &str| refaults.iter().find(|one| one.kind == kind)?.mean_ns;
    // Below a budget a page goes for each that comes.
    let known = [("swap-in", "swap_with_eviction"), ("read", "file")];
    let known = known
        .into_iter()
        .filter_map(|(name, kind)| Some(format!("{name}={}", mean(kind)?)));
    let known: Vec<String> = known.collect();
    if !known.is_empty() {
        text += &format!("\nstrata plan RECORDING --cost {}\n", known.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, status: Status) -> Check {
        let remedy = (status != Status::Ok).then(|| "do this".to_owned());
        Check {
            name,
            status,
            needed_for: "a test",
            found: "something".to_owned(),
            remedy,
        }
    }

    #[test]
    fn every_missing_line_is_followed_by_the_command_that_mends_it() {
        let text = table(&[check("first", Status::Ok), check("second", Status::Missing)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ok       first   something");
        assert_eq!(lines[1], "MISSING  second  something");
        assert_eq!(lines[2].trim(), "needed for: a test");
        assert_eq!(lines[3].trim(), "to mend: do this");
        assert!(text.ends_with("mend what is MISSING.\n"));
    }

    #[test]
    fn the_last_line_says_whether_run_can_work() {
        assert!(table(&[check("a", Status::Ok)]).ends_with("with everything.\n"));
        assert!(table(&[check("a", Status::Limited)]).ends_with("without what is limited.\n"));
    }

    #[test]
    fn what_was_measured_is_told_as_a_plan_takes_it() {
        let refault = |kind, mean_ns: Option<u64>| Refault {
            kind,
            through: "/dev/zram0".to_owned(),
            median_ns: mean_ns,
            p99_ns: mean_ns,
            mean_ns,
            nr_reads: 100,
            why: mean_ns.is_none().then(|| "no disk".to_owned()),
        };
        let all = ["swap", "swap_with_eviction", "file"];
        let text = costs(
            &[(0, 3000), (1, 12_340), (2, 95_000)].map(|(at, ns)| refault(all[at], Some(ns))),
        );
        assert!(text.contains("12.3 us"), "{text}");
        let told = "\nstrata plan RECORDING --cost swap-in=12340,read=95000\n";
        assert!(text.ends_with(told), "{text}");
        let text = costs(&[refault("file", None)]);
        assert!(
            text.contains("no disk") && !text.contains("strata plan"),
            "{text}"
        );
    }
}
