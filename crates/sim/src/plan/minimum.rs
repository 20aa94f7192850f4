//! More memory is never told to cost more.
//!
//! A policy may miss less with less memory by accident (Belady's anomaly). Who has the larger budget can be held to the smaller one,
//! so its lesser slowdown and refaults stand for the larger one, too: the running minimum from small to large, of each figure.
//!
//! **Owns** that minimum. **Does not own** the search for what is enough (`super`), which goes by what was replayed.

use super::{Point, Span};

/// Has the slowdown and the refaults of a budget be those of a smaller one where these are less. Points are smallest first.
pub(super) fn running(mut points: Vec<Point>) -> Vec<Point> {
    for at in 1..points.len() {
        let (before, rest) = points.split_at_mut(at);
        let (Some(least), Some(point)) = (before.last(), rest.first_mut()) else {
            continue;
        };
        point.slowdown = lesser(point.slowdown, least.slowdown);
        point.longer = lesser(point.longer, least.longer);
        point.refaults = lesser(point.refaults, least.refaults);
        point.refaults_per_second = point.refaults_per_second.min(least.refaults_per_second);
    }
    points
}

fn lesser<T: Ord + Copy>(one: Span<T>, other: Span<T>) -> Span<T> {
    Span {
        expected: one.expected.min(other.expected),
        lowest: one.lowest.min(other.lowest),
        highest: one.highest.min(other.highest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::Ratio;

    #[test]
    fn more_memory_is_never_told_to_cost_more() {
        let times = |times: u64| Span::all(Ratio::of(times, 1000));
        let points = [90, 40, 60, 40, 10].map(|slowdown| Point {
            memory_bytes: 1,
            held_bytes: Span::all(1),
            of_footprint: Ratio::default(),
            refaults: Span::all(slowdown),
            refaults_per_second: Ratio::of(slowdown, 1),
            slowdown: times(slowdown),
            longer: times(slowdown),
            is_asked: false,
        });
        let found = running(points.to_vec());
        let least = [90, 40, 40, 40, 10];
        let of = |figure: fn(&Point) -> Span<Ratio>| found.iter().map(figure).collect::<Vec<_>>();
        assert_eq!(of(|point| point.slowdown), least.map(times));
        assert_eq!(of(|point| point.longer), least.map(times));
        let refaults: Vec<u64> = found.iter().map(|of| of.refaults.expected).collect();
        assert_eq!(refaults, least);
        let a_second = found.iter().map(|of| of.refaults_per_second);
        assert!(a_second.eq(least.map(|refaults| Ratio::of(refaults, 1))));
    }
}
