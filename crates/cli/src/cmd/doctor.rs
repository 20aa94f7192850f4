//! `strata doctor`: what this machine offers, as a table or as JSON.
//!
//! **Owns** the two shapes of the answer. **Does not own** the checks (`strata_host::doctor`).

use std::process::ExitCode;

use strata_host::doctor::{Check, Status, can_run, examine};
use strata_sim::table::aligned;

use crate::args::{Format, table_or_json};
use crate::print;

/// Says what this machine offers, what is missing, and the command that mends it.
///
/// Exit status 0 when `strata run` can work here, 1 when it can't.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// How to print the answer; JSON has `can_run`, and `checks` with name, status, needed_for, found, remedy.
    #[arg(long, value_parser = table_or_json(), default_value = "table", value_name = "FORMAT")]
    format: Format,
}

#[derive(serde::Serialize)]
struct Answer<'a> {
    can_run: bool,
    checks: &'a [Check],
}

/// Runs the command.
///
/// # Errors
/// Only when the answer can't be written.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let can_run = can_run(&checks);
    let answer = Answer {
        can_run,
        checks: &checks,
    };
    print::pretty_answer(args.format, &answer, || table(&checks))?;
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
}
