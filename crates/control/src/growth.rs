//! How fast a group grows without a pause: a leak, told from a program that starts.
//!
//! A program that starts takes what it needs within seconds and holds still. One that grows in each of several spans in a row has no end
//! that anybody knows.
//!
//! **Owns** that distinction. **Does not own** what is done with such a group (`last_resort`).
//!
//! **Invariants** I1: a group that held still in one of the spans, or was not there for all of them, does not count as growing.

use std::collections::VecDeque;
use std::time::Duration;

/// A program that starts is done within one span.
const SPAN: Duration = Duration::from_secs(15);
/// Spans in a row in each of which a group that leaks has grown.
const NR_SPANS: u32 = 3;
/// Slower growth fills no host within minutes, bytes a second.
const BYTES_PER_S_MIN: u64 = 1 << 20;

/// From look to look: several within a span.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a group held at each look of late.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    looks: VecDeque<(Duration, u64)>,
}

impl Growth {
    /// Whether a group is to be looked at again at `at`: not at each look at the host.
    pub fn is_due(&self, at: Duration) -> bool {
        let last = self.looks.back();
        last.is_none_or(|(then, _)| at >= *then + LOOK_EVERY)
    }

    /// A group holds so much.
    pub fn look(&mut self, at: Duration, held_bytes: u64) {
        self.looks.push_back((at, held_bytes));
        let oldest = at.saturating_sub(SPAN * NR_SPANS);
        // One look before the first span tells what it began with.
        while self.looks.get(1).is_some_and(|(at, _)| *at <= oldest) {
            self.looks.pop_front();
        }
    }

    /// What it grew by in the span in which it grew least, bytes a second; 0: it held still in one.
    pub fn steady_bytes_per_s(&self) -> u64 {
        let Some((last, _)) = self.looks.back() else {
            return 0;
        };
        // Looks may be farther apart than spans.
        let held_at = |at: Duration| {
            let after = self.looks.iter().position(|(then, _)| *then >= at)?;
            let (end, last) = self.looks[after];
            let (begin, first) = self.looks[after.saturating_sub(usize::from(end > at))];
            if end > at && after == 0 {
                return None;
            }
            let share = match end - begin {
                Duration::ZERO => 1.0,
                // Nobody knows when it grew: it may have started.
                between if between > SPAN => f64::from(u8::from(at == end)),
                between => (at - begin).as_secs_f64() / between.as_secs_f64(),
            };
            Some((first as f64 + (last as f64 - first as f64) * share) as u64)
        };
        let grown = |number: u32| {
            let end = last.checked_sub(SPAN * number)?;
            let began = held_at(end.checked_sub(SPAN)?)?;
            Some(held_at(end)?.saturating_sub(began))
        };
        let least = (0..NR_SPANS).map(grown).min().flatten().unwrap_or(0);
        match least / SPAN.as_secs() {
            slow if slow < BYTES_PER_S_MIN => 0,
            bytes_per_s => bytes_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// How fast a group counts as growing that holds so many MiB from look to look, 5 s apart.
    fn mib_per_s(held_mib: impl IntoIterator<Item = u64>) -> u64 {
        let mut growth = Growth::default();
        for (number, mib) in held_mib.into_iter().enumerate() {
            growth.look(Duration::from_secs(5 * number as u64), mib * MIB);
        }
        growth.steady_bytes_per_s() / MIB
    }

    #[test]
    fn what_grows_without_a_pause_is_told_from_what_starts_and_from_what_comes_and_goes() {
        assert_eq!(mib_per_s((0..20).map(|n| 100 + 100 * n)), 20);
        assert_eq!(
            mib_per_s((0..20).map(|n| if n < 10 { 0 } else { 500 })),
            0,
            "it started"
        );
        assert_eq!(mib_per_s((0..20).map(|n| 500 + 100 * (n % 2))), 0);
        assert_eq!(mib_per_s((0..20).map(|n| 100 + n)), 0, "too slow to matter");
    }

    #[test]
    fn a_group_that_was_not_there_for_long_is_not_judged() {
        assert_eq!(mib_per_s((0..8).map(|n| 100 * n)), 0);
        assert_eq!(mib_per_s((0..10).map(|n| 100 * n)), 20);
        assert_eq!(mib_per_s([]), 0);
        let mut rarely = Growth::default();
        for number in 0..4 {
            rarely.look(Duration::from_secs(30 * number), 600 * number * MIB);
        }
        assert_eq!(rarely.steady_bytes_per_s(), 0, "looks are too far apart");
        assert!(rarely.is_due(Duration::from_secs(95)) && !rarely.is_due(Duration::from_secs(94)));
    }
}
