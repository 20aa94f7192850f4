//! The slowdown over memory, with the span of what isn't known.
//!
//! **Owns** that picture. **Does not own** axes (`svg`) or the figures (`crate::plan`).

use super::svg::{Frame, Svg};
use super::{COLOURS, PANEL_HEIGHT, WIDTH};
use crate::plan::{Plan, Point};
use crate::ratio::Ratio;

/// The axis ends at so many times the slowdown asked for; what is above it is of no interest.
const LIMITS_SHOWN: u64 = 5;
/// Least end of the axis, in millionths.
const SLOWDOWN_SHOWN_MIN: u64 = 50_000;
/// The span, paler than the curve.
const SPAN_COLOUR: &str = "#cfe3f2";

pub(crate) fn plan(plan: &Plan) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let limit = plan.slowdown_limit.millionths();
    let y_max = limit.saturating_mul(LIMITS_SHOWN).max(SLOWDOWN_SHOWN_MIN);
    let mut svg = Svg::new(WIDTH, PANEL_HEIGHT);
    let largest = plan.points.iter().map(|one| one.memory_bytes).max();
    let right = mib(plan.footprint_bytes.max(largest.unwrap_or_default()));
    let frame = Frame::of_panel(0, WIDTH, PANEL_HEIGHT).spanning(right, y_max);
    let at =
        |point: &Point, slowdown: Ratio| frame.at(mib(point.memory_bytes), slowdown.millionths());
    let upper = plan.points.iter().map(|one| at(one, one.slowdown.highest));
    let lower = plan.points.iter().map(|one| at(one, one.slowdown.lowest));
    let around: Vec<_> = upper.chain(lower.rev()).collect();
    svg.area(&around, SPAN_COLOUR);
    let percent = |millionths: u64| match millionths % 10_000 {
        0 => format!("{} %", millionths / 10_000),
        rest => format!("{}.{:02} %", millionths / 10_000, rest / 100),
    };
    frame.draw(
        &mut svg,
        &plan.recording,
        ["memory, MiB", "slowdown"],
        percent,
    );
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
    if let Some(budget) = plan.budget_bytes.expected {
        let x = mib(budget);
        let style = format!("stroke=\"{}\" stroke-width=\"2\"", COLOURS[2]);
        svg.line(frame.at(x, 0), frame.at(x, y_max), &style);
        frame.legend(&mut svg, 3, COLOURS[2], &format!("needed: {x} MiB"));
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Span;

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
            duration_us: 1,
            busy_us: 1,
            slowdown_limit: ratio(30),
            budget_bytes: Span {
                expected: Some(60 << 20),
                lowest: Some(50 << 20),
                highest: None,
            },
            points: vec![point(50, [300, 20, 900]), point(60, [29, 10, 80])],
        };
        let svg = plan(&figure);
        for text in [
            "needed: 60 MiB",
            "asked for: 3 %",
            "run.strata",
            "memory, MiB",
        ] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("<polygon").count(), 1);
    }
}
