//! More memory is never told to cost more.
//!
//! A policy may miss less with less memory by accident (Belady's anomaly). Who has the larger budget can be held to the smaller one,
//! so the lesser slowdown stands for it, too: the running minimum from small to large.
//!
//! **Owns** that minimum. **Does not own** the search for what is enough (`super`), which goes by what was replayed.

use super::{Point, Ratio, Span};

/// Has the slowdown of a budget be that of a smaller one where that is less. Points are smallest first.
pub(super) fn running(mut points: Vec<Point>) -> Vec<Point> {
    let mut least: Option<Span<Ratio>> = None;
    for point in &mut points {
        let slowdown = &mut point.slowdown;
        if let Some(least) = least {
            slowdown.expected = slowdown.expected.min(least.expected);
            slowdown.lowest = slowdown.lowest.min(least.lowest);
            slowdown.highest = slowdown.highest.min(least.highest);
        }
        least = Some(*slowdown);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_is_never_told_to_cost_more() {
        let times = |times: u64| Span::all(Ratio::of(times, 1000));
        let points = [90, 40, 60, 40, 10].map(|slowdown| Point {
            memory_bytes: 1,
            held_bytes: Span::all(1),
            of_footprint: Ratio::default(),
            refaults: Span::all(0),
            refaults_per_second: Ratio::default(),
            slowdown: times(slowdown),
        });
        let found = running(points.to_vec());
        let found: Vec<_> = found.iter().map(|of| of.slowdown).collect();
        assert_eq!(found, [90, 40, 40, 40, 10].map(times));
    }
}
