//! Miss ratios over memory: a curve a policy.
//!
//! **Owns** the curves of one trace. **Does not own** axes (`svg`).

use super::{
    COLOURS,
    svg::{Frame, Svg},
};
use crate::report::Record;

/// How a curve is drawn.
const LINE: &str = "fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\"";
/// Steps of the y axis, in millionths.
const RATIO_STEP: u64 = 50_000;

pub(super) fn draw(svg: &mut Svg, frame: Frame, records: &[Record]) {
    let x = |record: &Record| u64::from(record.memory_pages);
    let y = |record: &Record| record.miss_ratio.millionths();
    let x_max = records.iter().map(x).max().unwrap_or_default();
    let y_max = records.iter().map(y).max().unwrap_or_default();
    let frame = frame.spanning(x_max, y_max.max(1).next_multiple_of(RATIO_STEP));
    let title = records.first().map_or("", |first| first.trace.as_str());
    let ratio = |millionths: u64| {
        format!(
            "{}.{:02}",
            millionths / 1_000_000,
            millionths / 10_000 % 100
        )
    };
    frame.draw(svg, title, ["memory, pages", "miss ratio"], ratio);
    let mut policies: Vec<&str> = Vec::new();
    for record in records {
        if !policies.contains(&record.policy.as_str()) {
            policies.push(&record.policy);
        }
    }
    for (number, policy) in policies.into_iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let of_policy = records.iter().filter(|record| record.policy == policy);
        let mut points: Vec<_> = of_policy.map(|record| (x(record), y(record))).collect();
        points.sort_unstable();
        let points: Vec<_> = points.into_iter().map(|(x, y)| frame.at(x, y)).collect();
        if points.len() > 1 {
            svg.polyline(&points, format_args!("stroke=\"{colour}\" {LINE}"));
        }
        for point in points {
            svg.dot(point, colour);
        }
        frame.legend(svg, number, colour, policy);
    }
}
