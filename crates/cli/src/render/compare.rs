//! A comparison as a table: a figure a row, an arm three columns; then what one arm is to another.
//!
//! **Owns** units and spacing. **Does not own** any number or label (`strata_host::compare`).
//!
//! **Invariants** I1: a figure that no arm knows has no row; one that an arm does not know is a dash.

use std::collections::BTreeMap;
use std::fmt::Write;

use strata_host::compare::{ArmRatios, ArmSummary, Comparison, KernelLimit, Metric, Spread};
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

use strata_sim::table::grouped as count;

/// The whole of it, each line ended.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    let mut text = headline(comparison);
    text += "\n";
    text += &figures(&comparison.summaries, comparison.nr_rounds);
    for ratios in comparison.ratios.iter().filter(|of| !of.ratios.is_empty()) {
        text += "\n";
        text += &ratios_table(ratios);
    }
    for (warning, nr_runs) in warnings(comparison) {
        // A string takes everything.
        let _ = write!(text, "\nwarning ({nr_runs} runs): {warning}\n");
    }
    for line in comparison
        .ratios
        .iter()
        .filter_map(|ratios| conclusion(comparison, ratios))
    {
        let _ = write!(text, "\n{line}\n");
    }
    text
}

/// What it comes to: faster or slower, at what price, and whether that is more than runs differ by themselves.
fn conclusion(comparison: &Comparison, ratios: &ArmRatios) -> Option<String> {
    let ratio = |metric| ratios.ratios.get(&metric);
    let speed = [Metric::Throughput, Metric::Wall]
        .into_iter()
        .find_map(|metric| Some((metric, ratio(metric)?)));
    let (metric, speed) = speed?;
    // By how much longer or shorter the same work takes.
    let percent_more = |ratio: f64| (ratio - 1.0) * 100.0;
    let change = match metric {
        Metric::Throughput => percent_more(speed.median),
        _ => -percent_more(speed.median),
    };
    let spread_percent = [ratios.arm, ratios.over]
        .into_iter()
        .filter_map(|arm| {
            let summary = comparison.summaries.iter().find(|of| of.arm == arm)?;
            summary.figures.get(&metric)?.spread_percent
        })
        .fold(0.0, f64::max);
    let how = match change {
        change if change > 0.0 => format!("{} faster", percent(change)),
        change => format!("{} slower", percent(-change)),
    };
    let is_sure = match (speed.nr_rounds, change.abs() > spread_percent) {
        (1, _) => "one round does not say whether it would be so again".to_owned(),
        (_, true) => format!(
            "more than runs of one arm differ ({})",
            percent(spread_percent)
        ),
        (_, false) => format!(
            "no difference is shown: runs of one arm differ by {}",
            percent(spread_percent)
        ),
    };
    let price = [(Metric::TotalCpu, "CPU time"), (Metric::Mean, "memory")]
        .into_iter()
        .filter_map(|(metric, what)| {
            let more = percent_more(ratio(metric)?.median);
            Some(match more {
                more if more >= 0.0 => format!("{} more {what}", percent(more)),
                less => format!("{} less {what}", percent(-less)),
            })
        });
    let price: Vec<String> = price.collect();
    let price = match price.is_empty() {
        true => String::new(),
        false => format!("; {}", price.join(", ")),
    };
    Some(format!(
        "{} against {}: {how} ({is_sure}){price}",
        ratios.arm, ratios.over
    ))
}

fn headline(comparison: &Comparison) -> String {
    let rounds = match comparison.nr_rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    let warmup = match comparison.nr_warmup_rounds {
        0 => String::new(),
        rounds => format!(" after {rounds} to warm up"),
    };
    let neighbours = match comparison.nr_neighbours {
        0 => String::new(),
        1 => ", 1 busy loop beside it".to_owned(),
        loops => format!(", {loops} busy loops beside it"),
    };
    let limit = match comparison.kernel_limit {
        KernelLimit::Budget => "",
        KernelLimit::MeanOfStrata => {
            "the kernel's limit: mean memory of the strata run before it, once that was full\n"
        }
    };
    format!(
        "{}: {rounds}{warmup}{neighbours}\n{limit}",
        comparison.command
    )
}

fn figures(arms: &[ArmSummary], nr_rounds: u32) -> String {
    let mut runs = vec!["runs that count".to_owned()];
    for arm in arms {
        let of = format!("{} of {nr_rounds}", arm.nr_runs);
        runs.extend([of, String::new(), String::new()]);
    }
    let mut rows = vec![runs];
    rows.extend(counts("failed", arms, |arm| arm.nr_failed_runs));
    rows.extend(counts("killed, out of memory", arms, |arm| {
        arm.nr_oom_kills
    }));
    for metric in Metric::ALL {
        let known: Vec<Option<&Spread>> = arms.iter().map(|arm| arm.figures.get(&metric)).collect();
        if known.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![metric.label().to_owned()];
        for spread in known {
            row.extend(match spread {
                Some(spread) => [
                    format!("  {}", value(metric, spread.median)),
                    value(metric, spread.worst),
                    spread.spread_percent.map_or_else(dash, percent),
                ],
                None => [dash(), String::new(), String::new()],
            });
        }
        rows.push(row);
    }
    let head = format!("  <{}", "|  median|worst|spread".repeat(arms.len()));
    let text = aligned(&head, rows);
    // Each arm's name stands at the end of its columns.
    let mut names = String::new();
    let ends = text.lines().next().unwrap_or_default();
    for (arm, (at, last)) in arms.iter().zip(ends.match_indices("spread")) {
        let width = (at + last.len()).saturating_sub(names.len());
        names += &format!("{:>width$}", arm.arm.to_string());
    }
    format!("{names}\n{text}")
}

/// A row of counts, of which there is one an arm; none if all are 0.
fn counts(
    label: &str,
    arms: &[ArmSummary],
    of: impl Fn(&ArmSummary) -> usize,
) -> Option<Vec<String>> {
    let mut row = vec![label.to_owned()];
    for arm in arms {
        row.extend([of(arm).to_string(), String::new(), String::new()]);
    }
    arms.iter().any(|arm| of(arm) > 0).then_some(row)
}

fn ratios_table(ratios: &ArmRatios) -> String {
    let title = format!("{} / {}", ratios.arm, ratios.over);
    let rows = ratios.ratios.iter().map(|(metric, ratio)| {
        [
            metric.label().to_owned(),
            format!("{:.2}", ratio.median),
            format!("{:.2}", ratio.worst),
            ratio.worst_round.to_string(),
            ratio.nr_rounds.to_string(),
        ]
    });
    let head = "  <|median|worst|in round|of rounds";
    format!("{title}\n{}", aligned(head, rows))
}

/// What `strata run` warned of, and in how many runs.
fn warnings(comparison: &Comparison) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for run in &comparison.runs {
        for warning in &run.outcome.warnings {
            *found.entry(format!("{}: {warning}", run.arm)).or_default() += 1;
        }
    }
    found
}

fn value(metric: Metric, value: f64) -> String {
    match metric.name() {
        name if name.ends_with("_ms") => time(value),
        name if name.ends_with("_percent") => percent(value),
        name if name.ends_with("_bytes") => Bytes(value.round() as u64).to_string(),
        _ if value < 100.0 && value.fract() != 0.0 => format!("{value:.1}"),
        _ => count(value.round() as u64),
    }
}

fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 100_000.0 => format!("{:.2} s", ms / 1000.0),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

fn percent(percent: f64) -> String {
    match percent < 9.95 {
        true => format!("{percent:.1} %"),
        false => format!("{percent:.0} %"),
    }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::compare::{Arm, ArmKind, COMPARISON_VERSION, ratio, spread};

    fn arm(kind: ArmKind) -> Arm {
        Arm {
            kind,
            budget_bytes: Some(180 << 20),
        }
    }

    fn summary(kind: ArmKind, figures: &[(Metric, &[f64])]) -> ArmSummary {
        let figures = figures
            .iter()
            .map(|(metric, values)| (*metric, spread(values, metric.better()).expect("values")));
        ArmSummary {
            arm: arm(kind),
            nr_runs: 3,
            nr_failed_runs: usize::from(kind == ArmKind::Kernel),
            nr_oom_kills: 0,
            figures: figures.collect(),
        }
    }

    #[test]
    fn a_row_is_a_figure_and_what_is_not_known_is_a_dash() {
        let kernel: [(Metric, &[f64]); 3] = [
            (Metric::Wall, &[5010.0, 5020.0, 5090.0]),
            (Metric::MajorFaults, &[123_456.0, 120_000.0, 130_000.0]),
            (Metric::Peak, &[188_743_680.0; 3]),
        ];
        let strata: [(Metric, &[f64]); 4] = [
            (Metric::Wall, &[5010.0, 5000.0, 5005.0]),
            (Metric::MajorFaults, &[100_000.0, 98_000.0, 110_000.0]),
            (Metric::Peak, &[187_000_000.0; 3]),
            (Metric::StrataCpu, &[900.0, 950.0, 1000.0]),
        ];
        let faults = [(1, 100.0, 123.0), (2, 98.0, 120.0), (3, 110.0, 130.0)];
        let rounds = |above, below| [(1, above, below), (2, above, below), (3, above, below)];
        let of = |metric: Metric, rounds: &[(u32, f64, f64)]| {
            (metric, ratio(rounds, metric.better()).expect("rounds"))
        };
        let shown = Comparison {
            version: COMPARISON_VERSION,
            command: "job --fast".to_owned(),
            nr_rounds: 3,
            nr_warmup_rounds: 1,
            nr_neighbours: 2,
            kernel_limit: KernelLimit::MeanOfStrata,
            is_interrupted: false,
            troubles: Vec::new(),
            summaries: vec![
                summary(ArmKind::Kernel, &kernel),
                summary(ArmKind::Strata, &strata),
            ],
            ratios: vec![ArmRatios {
                arm: arm(ArmKind::Strata),
                over: arm(ArmKind::Kernel),
                ratios: [
                    of(Metric::Wall, &rounds(104.0, 100.0)),
                    of(Metric::Mean, &rounds(95.0, 100.0)),
                    of(Metric::TotalCpu, &rounds(110.0, 100.0)),
                    of(Metric::MajorFaults, &faults),
                ]
                .into(),
            }],
            runs: Vec::new(),
        };
        let text = comparison(&shown);
        let head = "job --fast: 3 rounds after 1 to warm up, 2 busy loops beside it\n\
                    the kernel's limit: mean memory of the strata run before it, once that was full\n\n";
        assert!(text.starts_with(head), "{text}");
        let row = |label: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(label));
            let line = line.unwrap_or_else(|| panic!("no {label} in:\n{text}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("runs"), "runs that count 3 of 3 3 of 3");
        assert_eq!(row("failed"), "failed 1 0");
        assert!(!text.contains("killed"), "{text}");
        assert_eq!(row("time"), "time 5.02 s 5.09 s 1.6 % 5.00 s 5.01 s 0.2 %");
        assert_eq!(
            row("major"),
            "major faults 123,456 130,000 8.1 % 100,000 110,000 12 %"
        );
        assert_eq!(row("CPU of Strata"), "CPU of Strata - 950 ms 1.00 s 11 %");
        assert!(!text.contains("neighbours'"), "{text}");
        assert!(text.contains("strata 180 MiB / kernel 180 MiB\n"), "{text}");
        let table = text.rsplit_once("\n\n").expect("a conclusion").0;
        let last = table.lines().rfind(|line| line.contains("major"));
        let last = last.unwrap_or_default();
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(
            words,
            ["major", "faults", "0.82", "0.85", "3", "3"],
            "{text}"
        );
        assert_eq!(
            text.lines().last(),
            Some(
                "strata 180 MiB against kernel 180 MiB: 4.0 % slower (more than runs of one arm differ (1.6 %)); 10 % more CPU \
                 time, 5.0 % less memory"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }
}
