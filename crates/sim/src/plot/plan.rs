//! The slowdown over memory, with the span of what isn't known.
//!
//! **Owns** that picture. **Does not own** axes (`svg`) or the figures (`crate::plan`).

use super::svg::{Frame, Svg};
use super::{COLOURS, PANEL_HEIGHT, WIDTH};
use crate::plan::{Plan, Point};
use crate::ratio::Ratio;

/// The axis ends at so many times the slowdown asked for, or above the cliff and what the budget costs in the
/// worst case; what is above that is of no interest.
const LIMITS_SHOWN: u64 = 5;
/// The x axis counts in tenths of a MiB.
const TENTHS: u64 = 10;
/// Least end of the axis, in millionths.
const SLOWDOWN_SHOWN_MIN: u64 = 50_000;
/// The span, paler than the curve.
const SPAN_COLOUR: &str = "#cfe3f2";

pub(crate) fn plan(plan: &Plan) -> String {
    let tenths = |bytes: u64| (bytes * TENTHS).div_ceil(1 << 20);
    let mib = |bytes: u64| format!("{} MiB", one_decimal(tenths(bytes)));
    let limit = plan.slowdown_limit.millionths();
    let y_max = y_max(plan);
    let mut svg = Svg::new(WIDTH, PANEL_HEIGHT);
    let largest = plan.points.iter().map(|one| one.memory_bytes).max();
    let right = tenths(plan.footprint_bytes.max(largest.unwrap_or_default()));
    let frame = Frame::of_panel(0, WIDTH, PANEL_HEIGHT).spanning(right, y_max);
    let at = |point: &Point, slowdown: Ratio| {
        frame.at(tenths(point.memory_bytes), slowdown.millionths())
    };
    let upper = plan.points.iter().map(|one| at(one, one.slowdown.highest));
    let lower = plan.points.iter().map(|one| at(one, one.slowdown.lowest));
    let around: Vec<_> = upper.chain(lower.rev()).collect();
    svg.area(&around, SPAN_COLOUR);
    let percent = |millionths: u64| match millionths % 10_000 {
        0 => format!("{} %", millionths / 10_000),
        rest => format!("{}.{:02} %", millionths / 10_000, rest / 100),
    };
    let names = ["memory, MiB", "slowdown"];
    frame.draw_labelled(&mut svg, &plan.recording, names, one_decimal, percent);
    let expected: Vec<_> = plan
        .points
        .iter()
        .map(|one| at(one, one.slowdown.expected))
        .collect();
    svg.polyline(&expected, COLOURS[0]);
    for point in expected {
        svg.dot(point, COLOURS[0]);
    }
    let dashed = format!("stroke=\"{}\" stroke-dasharray=\"6 4\"", COLOURS[3]);
    svg.line(frame.at(0, limit), frame.at(right, limit), &dashed);
    frame.legend(&mut svg, 0, COLOURS[0], "expected");
    frame.legend(&mut svg, 1, SPAN_COLOUR, "in the best and worst case");
    frame.legend(
        &mut svg,
        2,
        COLOURS[3],
        &format!("asked for: {}", percent(limit)),
    );
    let mut number = 3;
    let mut mark = |bytes: u64, colour: &str, dashes: &str, text: String| {
        let x = tenths(bytes);
        let style = format!("stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
        svg.line(frame.at(x, 0), frame.at(x, y_max), &style);
        frame.legend(&mut svg, number, colour, &text);
        number += 1;
    };
    let budget = &plan.budget_bytes;
    match (budget.highest, budget.expected) {
        (Some(safe), _) => mark(safe, COLOURS[2], "", format!("enough: {}", mib(safe))),
        (None, Some(mostly)) => mark(
            mostly,
            COLOURS[2],
            "",
            format!("mostly enough: {}", mib(mostly)),
        ),
        (None, None) => {}
    }
    if let Some(cliff) = &plan.cliff {
        let text = format!("falls off: {}", mib(cliff.below_bytes));
        mark(
            cliff.below_bytes,
            COLOURS[1],
            " stroke-dasharray=\"2 3\"",
            text,
        );
    }
    svg.finish()
}

/// A number of tenths.
fn one_decimal(tenths: u64) -> String {
    match tenths % TENTHS {
        0 => (tenths / TENTHS).to_string(),
        rest => format!("{}.{rest}", tenths / TENTHS),
    }
}

/// The end of the axis: above the cliff, and above the worst case at the budget that is expected to be enough.
fn y_max(plan: &Plan) -> u64 {
    let is_expected = |point: &&Point| Some(point.memory_bytes) == plan.budget_bytes.expected;
    let worst = plan.points.iter().find(is_expected);
    let worst = worst.map_or(0, |point| point.slowdown.highest.millionths());
    let cliff = plan.cliff.map_or(0, |cliff| cliff.slowdown.millionths());
    let shown = worst.max(cliff);
    let limits = plan
        .slowdown_limit
        .millionths()
        .saturating_mul(LIMITS_SHOWN);
    limits
        .max(shown.saturating_add(shown / 10))
        .max(SLOWDOWN_SHOWN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Cliff, Span};

    #[test]
    fn the_curve_its_span_the_limit_and_the_budget_are_drawn() {
        let ratio = |part| Ratio::of(part, 1000);
        let point = |mib: u64, [expected, lowest, highest]: [u64; 3]| Point {
            memory_bytes: mib << 20,
            held_bytes: Span::all(mib << 20),
            of_footprint: Ratio::of(mib, 100),
            refaults: Span {
                expected,
                lowest,
                highest,
            },
            refaults_per_second: ratio(expected),
            slowdown: Span {
                expected: ratio(expected),
                lowest: ratio(lowest),
                highest: ratio(highest),
            },
        };
        let figure = Plan {
            pageout_rate: 1,
            recording: "run.strata".to_owned(),
            policy: "mglru".to_owned(),
            held: "100%".to_owned(),
            footprint_bytes: 100 << 20,
            page_cache_bytes: None,
            duration_us: 1,
            busy_us: 1,
            slowdown_limit: ratio(30),
            budget_bytes: Span {
                expected: Some(60 << 20),
                lowest: Some(50 << 20),
                highest: Some(66 << 20),
            },
            cliff: Some(Cliff {
                below_bytes: 60 << 20,
                memory_bytes: 59 << 20,
                slowdown: ratio(700),
            }),
            points: vec![
                point(59, [700, 20, 900]),
                point(60, [29, 10, 380]),
                point(66, [20, 10, 28]),
            ],
        };
        let svg = plan(&figure);
        for text in [
            "enough: 66 MiB",
            "falls off: 60 MiB",
            "asked for: 3 %",
            "run.strata",
            "memory, MiB",
        ] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        // The cliff is within the axis: its dot is not drawn at the upper edge.
        assert!(y_max(&figure) > 700_000);
        let dots: Vec<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<circle"))
            .collect();
        assert!(!dots[0].contains("cy=\"40\""), "{}", dots[0]);
        assert_eq!(svg.matches("<polygon").count(), 1);
    }
}
