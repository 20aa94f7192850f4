//! Makes one Markdown table of comparisons: a line of stdin is a row.
//!
//! ```text
//!   compared 'processors|load' operations faults <lines
//!
//!   free|zipf_0.99<TAB>{...}                        what strata compare --format json printed
//!   free|db_bench<TAB>skipped: there is no db_bench  a row that says why it is empty
//! ```
//!
//! The figures are `operations`, `operations_per_cpu`, `cpu_per_operation`, `faults`, `neighbours` and `memory`, in any
//! order. Each has a column with the medians of the kernel's arm and of Strata's, and one with the median ratio of
//! Strata to the kernel and the worst round in parentheses; `of N` says that only N rounds have both.
//!
//! **Owns** the columns, their text and their order. **Does not own** any figure or ratio (`strata_host::compare`).
//!
//! **Invariants** I1: a figure that no row knows has no column. I2: every line of stdin is a row, or the program fails.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::process::ExitCode;

use strata_host::compare::{ArmKind, ArmSummary, Better, Comparison, Metric, Ratio, Spread, ratio};

/// What a table can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Operations,
    OperationsPerCpu,
    CpuPerOperation,
    Faults,
    Neighbours,
    Memory,
}

/// Whether a figure is the inverse of the one it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AsItIs,
    Inverse,
}

impl Figure {
    const ALL: [Figure; 6] = [
        Figure::Operations,
        Figure::OperationsPerCpu,
        Figure::CpuPerOperation,
        Figure::Faults,
        Figure::Neighbours,
        Figure::Memory,
    ];

    fn name(self) -> &'static str {
        match self {
            Figure::Operations => "operations",
            Figure::OperationsPerCpu => "operations_per_cpu",
            Figure::CpuPerOperation => "cpu_per_operation",
            Figure::Faults => "faults",
            Figure::Neighbours => "neighbours",
            Figure::Memory => "memory",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Figure::Operations => "1000 operations/s",
            Figure::OperationsPerCpu => "1000 operations/CPU s",
            Figure::CpuPerOperation => "CPU, us/operation",
            Figure::Faults => "faults/1000 operations",
            Figure::Neighbours => "neighbours, 1000 iterations/s",
            Figure::Memory => "memory once full, MiB",
        }
    }

    fn source(self) -> (Metric, Side) {
        match self {
            Figure::Operations => (Metric::Throughput, Side::AsItIs),
            Figure::OperationsPerCpu => (Metric::OperationsPerCpu, Side::AsItIs),
            Figure::CpuPerOperation => (Metric::OperationsPerCpu, Side::Inverse),
            Figure::Faults => (Metric::FaultsPerThousand, Side::AsItIs),
            Figure::Neighbours => (Metric::Neighbours, Side::AsItIs),
            Figure::Memory => (Metric::FullMean, Side::AsItIs),
        }
    }

    /// A value of the metric behind it, in the unit of the heading.
    fn shown(self, value: f64) -> String {
        match self {
            Figure::Operations | Figure::OperationsPerCpu | Figure::Neighbours => {
                format!("{:.0}", value / 1000.0)
            }
            Figure::CpuPerOperation => format!("{:.3}", 1e6 / value),
            Figure::Faults => format!("{value:.1}"),
            Figure::Memory => format!("{:.0}", value / f64::from(1 << 20)),
        }
    }
}

/// One line of stdin.
#[derive(Debug)]
struct Row {
    labels: Vec<String>,
    found: Result<Comparison, String>,
}

impl Row {
    fn parse(line: &str) -> Result<Row, String> {
        let (labels, found) = line
            .split_once('\t')
            .ok_or_else(|| format!("a line has no tab behind its labels: {line}"))?;
        let found = match found.starts_with('{') {
            true => Ok(serde_json::from_str(found).map_err(|error| format!("{labels}: {error}"))?),
            false => Err(found.to_owned()),
        };
        let labels = labels.split('|').map(str::to_owned).collect();
        Ok(Row { labels, found })
    }

    /// The kernel's arm and Strata's.
    fn arms(&self) -> Option<(&ArmSummary, &ArmSummary)> {
        let of = |kind| {
            let summaries = self.found.as_ref().ok()?.summaries.iter();
            summaries.into_iter().find(|of| of.arm.kind == kind)
        };
        Some((of(ArmKind::Kernel)?, of(ArmKind::Strata)?))
    }

    /// The medians of both arms, as text; `None` if neither is known.
    fn medians(&self, figure: Figure) -> Option<String> {
        let (kernel, strata) = self.arms()?;
        let spread = |arm: &ArmSummary| arm.figures.get(&figure.source().0).copied();
        let median = |arm| spread(arm).map(|of: Spread| figure.shown(of.median));
        let (kernel, strata) = (median(kernel), median(strata));
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        (kernel.is_some() || strata.is_some())
            .then(|| format!("{} / {}", or_dash(&kernel), or_dash(&strata)))
    }

    /// Strata over the kernel.
    fn ratio(&self, figure: Figure) -> Option<Ratio> {
        let (kernel, strata) = self.arms()?;
        let (metric, side) = figure.source();
        let comparison = self.found.as_ref().ok()?;
        let rounds = comparison.rounds(strata.arm, kernel.arm, metric);
        match side {
            Side::AsItIs => ratio(&rounds, metric.better()),
            Side::Inverse => {
                let swapped: Vec<_> = rounds
                    .into_iter()
                    .map(|(round, above, below)| (round, below, above))
                    .collect();
                ratio(&swapped, opposite(metric.better()))
            }
        }
    }

    fn ratio_text(&self, figure: Figure) -> String {
        let nr_rounds = self.found.as_ref().map_or(0, |found| found.nr_rounds);
        let Some(ratio) = self.ratio(figure) else {
            return "-".to_owned();
        };
        let mut text = format!("{:.2} ({:.2})", ratio.median, ratio.worst);
        if ratio.nr_rounds < nr_rounds as usize {
            text += &format!(" of {}", ratio.nr_rounds);
        }
        text
    }

    fn killed(&self) -> Option<(usize, usize)> {
        let (kernel, strata) = self.arms()?;
        Some((kernel.nr_oom_kills, strata.nr_oom_kills))
    }
}

fn opposite(better: Better) -> Better {
    match better {
        Better::Lower => Better::Higher,
        Better::Higher => Better::Lower,
    }
}

/// The whole table, each line ended.
fn table(label_names: &[&str], figures: &[Figure], rows: &[Row]) -> String {
    let known: Vec<Figure> = figures
        .iter()
        .copied()
        .filter(|figure| rows.iter().any(|row| row.medians(*figure).is_some()))
        .collect();
    let has_kills = |row: &Row| row.killed().is_some_and(|killed| killed != (0, 0));
    let are_kills_shown = rows.iter().any(has_kills);
    let mut headings: Vec<String> = label_names.iter().map(|name| (*name).to_owned()).collect();
    for figure in &known {
        headings.push(format!("{}: kernel / strata", figure.heading()));
        headings.push("ratio (worst)".to_owned());
    }
    if are_kills_shown {
        headings.push("killed: kernel / strata".to_owned());
    }
    let nr_labels = label_names.len();
    let mut text = String::new();
    // A string takes everything.
    let _ = writeln!(text, "| {} |", headings.join(" | "));
    let rules = (0..headings.len()).map(|at| if at < nr_labels { "---" } else { "---:" });
    let rules = rules.collect::<Vec<_>>().join("|");
    let _ = writeln!(text, "|{rules}|");
    for row in rows {
        let mut cells = row.labels.clone();
        match &row.found {
            Ok(_) => {
                for figure in &known {
                    cells.push(row.medians(*figure).unwrap_or_else(|| "-".to_owned()));
                    cells.push(row.ratio_text(*figure));
                }
                if are_kills_shown {
                    let (kernel, strata) = row.killed().unwrap_or_default();
                    cells.push(format!("{kernel} / {strata}"));
                }
            }
            Err(why) => cells.push(why.clone()),
        }
        cells.resize(headings.len(), String::new());
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn run(arguments: &[String], input: &str) -> Result<String, String> {
    let usage = "usage: compared 'LABEL|LABEL...' FIGURE... <LINES";
    let (labels, names) = arguments.split_first().ok_or(usage)?;
    let figures: Result<Vec<Figure>, String> = names
        .iter()
        .map(|name| {
            let found = Figure::ALL.into_iter().find(|figure| figure.name() == name);
            found.ok_or_else(|| format!("there is no figure {name}"))
        })
        .collect();
    let rows: Result<Vec<Row>, String> = input.lines().map(Row::parse).collect();
    let label_names: Vec<&str> = labels.split('|').collect();
    let rows = rows?;
    if let Some(row) = rows
        .iter()
        .find(|row| row.labels.len() != label_names.len())
    {
        return Err(format!(
            "{:?} are not as many labels as {labels}",
            row.labels
        ));
    }
    Ok(table(&label_names, &figures?, &rows))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut input = String::new();
    let printed = io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| format!("reading stdin: {error}"))
        .and_then(|_| run(&arguments, &input))
        .and_then(|text| {
            let written = io::stdout().write_all(text.as_bytes());
            written.map_err(|error| format!("writing stdout: {error}"))
        });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _unheard = writeln!(io::stderr(), "compared: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a comparison of three rounds prints, of which the kernel's second run was killed.
    fn printed() -> String {
        let figures = |faults: f64, per_cpu: f64| {
            serde_json::json!({
                "nr_major_faults_per_1000_operations": faults,
                "operations_per_cpu_s": per_cpu,
            })
        };
        let runs: Vec<serde_json::Value> = [
            (1, "strata", true, figures(9.0, 500_000.0)),
            (1, "kernel", true, figures(10.0, 1_000_000.0)),
            (2, "strata", true, figures(5.0, 800_000.0)),
            (2, "kernel", false, figures(1.0, 1.0)),
            (3, "strata", true, figures(33.0, 1_000_000.0)),
            (3, "kernel", true, figures(30.0, 1_000_000.0)),
        ]
        .into_iter()
        .enumerate()
        .map(|(at, (round, arm, is_counted, figures))| {
            serde_json::json!({
                "round": round, "position": at + 1, "arm": arm, "budget_bytes": 1024,
                "limit_bytes": 1024, "is_counted": is_counted, "exit_status": 0,
                "is_oom_kill": !is_counted, "failure": null, "nr_memory_samples": 9,
                "figures": figures, "warnings": [],
            })
        })
        .collect();
        let spread = |median: f64| {
            serde_json::json!({
                "nr_runs": 3, "median": median, "worst": median, "min": median, "max": median,
                "spread_percent": 0,
            })
        };
        let summary = |arm: &str, nr_oom_kills: usize, faults: f64, per_cpu: f64| {
            serde_json::json!({
                "arm": arm, "budget_bytes": 1024, "nr_runs": 3 - nr_oom_kills,
                "nr_failed_runs": nr_oom_kills, "nr_oom_kills": nr_oom_kills,
                "figures": {
                    "nr_major_faults_per_1000_operations": spread(faults),
                    "operations_per_cpu_s": spread(per_cpu),
                },
            })
        };
        serde_json::json!({
            "version": 1, "command": "job", "nr_rounds": 3, "nr_warmup_rounds": 0,
            "nr_neighbours": 0, "kernel_limit": "budget", "is_interrupted": false,
            "troubles": [], "ratios": [], "runs": runs,
            "summaries": [
                summary("kernel", 1, 20.0, 1_000_000.0),
                summary("strata", 0, 9.0, 800_000.0),
            ],
        })
        .to_string()
    }

    fn run_on(arguments: &[&str], input: &str) -> Result<String, String> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        run(&arguments, input)
    }

    #[test]
    fn a_ratio_is_of_the_rounds_that_both_arms_have_and_the_worst_is_on_the_bad_side() {
        let input = format!("6.12|zipf\t{}\n", printed());
        let arguments = ["kernel|load", "faults", "cpu_per_operation", "neighbours"];
        let table = run_on(&arguments, &input).expect("a table");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "| kernel | load | faults/1000 operations: kernel / strata | ratio (worst) \
             | CPU, us/operation: kernel / strata | ratio (worst) | killed: kernel / strata |"
        );
        assert_eq!(lines[1], "|---|---|---:|---:|---:|---:|---:|");
        // 9 / 10 and 33 / 30; 2 us / 1 us and 1 us / 1 us.
        assert_eq!(
            lines[2],
            "| 6.12 | zipf | 20.0 / 9.0 | 1.00 (1.10) of 2 | 1.000 / 1.250 | 1.50 (2.00) of 2 | 1 / 0 |"
        );
        let table = run_on(&["kernel|load", "operations_per_cpu"], &input).expect("a table");
        assert!(
            table.contains("| 1000 / 800 | 0.75 (0.50) of 2 |"),
            "{table}"
        );
    }

    #[test]
    fn a_load_that_was_skipped_has_a_row_that_says_why() {
        let input = format!("a\t{}\nb\tskipped: no b here\n", printed());
        let table = run_on(&["load", "faults"], &input).expect("a table");
        let last = table.lines().last().expect("rows");
        assert_eq!(last, "| b | skipped: no b here |  |  |");
    }

    #[test]
    fn what_can_not_be_read_is_an_error_and_not_a_missing_row() {
        let good = format!("a\t{}\n", printed());
        for (arguments, input, why) in [
            (&["load", "speed"][..], &good[..], "no figure speed"),
            (&["load", "faults"], "a{}\n", "no tab"),
            (&["load", "faults"], "a\t{}\n", "a: missing field"),
            (&["processors|load", "faults"], &good, "not as many labels"),
            (&[], "", "usage"),
        ] {
            let said = run_on(arguments, input).expect_err(why);
            assert!(said.contains(why), "{said}");
        }
    }
}
