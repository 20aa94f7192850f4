//! What a minute says: looks at a guard, put together.
//!
//! **Owns** how looks become a minute. **Does not own** the clock: it is told what time it is, and a clock may be set.
//!
//! **Invariants** I1: what counters grow by is in one minute, once.

use crate::managed::status::{GroupStatus, Status};
use std::collections::BTreeMap;

/// Seconds.
pub(super) const MINUTE_S: u64 = 60;
/// The path of the row that stands for all groups and the guard itself; no group has it.
pub(super) const HOST: &str = "";

/// What is told of a group, or of all, in a minute or any longer time. Gauges are means, of minutes as of their last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Figures {
    /// In memory.
    pub resident_bytes: u64,
    /// Part of that which was accessed within the age that counts as idle.
    pub used_lately_bytes: u64,
    /// Taken, and not come back.
    pub away_bytes: u64,
    /// What that takes in swap and as ages: of a group its part by what is in swap, or in memory where nothing is.
    pub price_bytes: u64,
    /// The highest age that counted as idle, milliseconds.
    pub age_anon_ms: u64,
    /// Given back in that time.
    pub taken_bytes: u64,
    /// Found in memory again in that time.
    pub came_back_bytes: u64,
    /// Processor time of Strata in that time, nanoseconds; 0 for a group.
    pub cpu_ns: u64,
}

/// All that is told of one minute, by path.
#[derive(Debug, PartialEq)]
pub(super) struct Minute {
    /// Seconds since 1970 at which it begins.
    pub(super) at_s: u64,
    pub(super) figures: BTreeMap<String, Figures>,
}

/// The minute that is under way.
#[derive(Debug, Default)]
pub(super) struct Minutes {
    at_s: u64,
    figures: BTreeMap<String, Figures>,
    /// Counters at the last look: taken and come back.
    counted: BTreeMap<String, (u64, u64)>,
    cpu_ns: u64,
}

impl Minutes {
    /// Adds a look; returns the minute before, if another has begun.
    pub(super) fn add(&mut self, unix_s: u64, status: &Status) -> Option<Minute> {
        let at_s = unix_s - unix_s % MINUTE_S;
        let done = match at_s == self.at_s {
            true => None,
            false => self.end(),
        };
        self.at_s = at_s;
        let mut host = Figures {
            resident_bytes: status.resident_bytes,
            away_bytes: status.away_bytes,
            price_bytes: status.price_bytes,
            cpu_ns: grown(self.cpu_ns, status.cpu_ns),
            ..Figures::default()
        };
        self.cpu_ns = status.cpu_ns;
        let in_swap_bytes: u64 = status.groups.iter().map(|of| of.away_anon_bytes).sum();
        let mut counted = BTreeMap::new();
        for group in &status.groups {
            let before = self.counted.get(&group.group).copied();
            let (taken_bytes, came_back_bytes) = before.unwrap_or_default();
            let now = Figures {
                resident_bytes: group.resident_bytes,
                used_lately_bytes: group.used_lately_bytes,
                away_bytes: group.away_bytes,
                price_bytes: match in_swap_bytes {
                    0 => part(
                        status.price_bytes,
                        group.resident_bytes,
                        status.resident_bytes,
                    ),
                    _ => part(status.price_bytes, group.away_anon_bytes, in_swap_bytes),
                },
                age_anon_ms: group.age_anon_ms,
                taken_bytes: grown(taken_bytes, group.taken_bytes),
                came_back_bytes: grown(came_back_bytes, group.came_back_bytes),
                cpu_ns: 0,
            };
            host.used_lately_bytes += now.used_lately_bytes;
            host.age_anon_ms = host.age_anon_ms.max(now.age_anon_ms);
            host.taken_bytes += now.taken_bytes;
            host.came_back_bytes += now.came_back_bytes;
            self.enter(&group.group, now);
            counted.insert(group.group.clone(), counters(group));
        }
        self.counted = counted;
        self.enter(HOST, host);
        done
    }

    /// The minute so far, if there was any look.
    pub(super) fn end(&mut self) -> Option<Minute> {
        let figures = std::mem::take(&mut self.figures);
        let at_s = self.at_s;
        (!figures.is_empty()).then_some(Minute { at_s, figures })
    }

    fn enter(&mut self, path: &str, now: Figures) {
        let before = self.figures.get(path).copied().unwrap_or_default();
        let sum = Figures {
            age_anon_ms: before.age_anon_ms.max(now.age_anon_ms),
            taken_bytes: before.taken_bytes + now.taken_bytes,
            came_back_bytes: before.came_back_bytes + now.came_back_bytes,
            cpu_ns: before.cpu_ns + now.cpu_ns,
            ..now
        };
        self.figures.insert(path.to_owned(), sum);
    }
}

fn counters(group: &GroupStatus) -> (u64, u64) {
    (group.taken_bytes, group.came_back_bytes)
}

/// What a counter grew by. One that is lower than before began anew.
fn grown(before: u64, now: u64) -> u64 {
    match now < before {
        true => now,
        false => now - before,
    }
}

fn part(of: u64, share: u64, all: u64) -> u64 {
    let part = u128::from(of) * u128::from(share) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::status;
    use super::*;

    fn told(minute: &Minute, path: &str) -> (u64, u64) {
        let figures = minute.figures[path];
        (figures.taken_bytes, figures.came_back_bytes)
    }

    #[test]
    fn a_minute_has_what_counters_grew_by_and_the_last_gauges() {
        let mut minutes = Minutes::default();
        assert_eq!(
            minutes.add(600, &status(10, &[("/a", 50, 0), ("/b", 7, 7)])),
            None
        );
        assert_eq!(minutes.add(659, &status(30, &[("/a", 90, 10)])), None);
        let first = minutes.add(660, &status(35, &[("/a", 95, 10)])).unwrap();
        assert_eq!(
            (first.at_s, told(&first, "/a"), told(&first, "/b")),
            (600, (90, 10), (7, 7))
        );
        assert_eq!(first.figures["/a"].away_bytes, 80);
        assert_eq!(
            (told(&first, HOST), first.figures[HOST].cpu_ns),
            ((97, 17), 30)
        );
        assert_eq!(first.figures["/a"].price_bytes, 100);
        let second = minutes.end().unwrap();
        assert_eq!(
            (told(&second, "/a"), second.figures[HOST].cpu_ns),
            ((5, 0), 5)
        );
        assert_eq!(minutes.end(), None);
    }

    #[test]
    fn a_group_that_begins_anew_and_a_clock_that_is_set_back_spoil_nothing() {
        let mut minutes = Minutes::default();
        minutes.add(6000, &status(0, &[("/a", 50, 0)]));
        let before = minutes.add(60, &status(0, &[("/a", 20, 0)])).unwrap();
        assert_eq!((before.at_s, told(&before, "/a")), (6000, (50, 0)));
        let after = minutes.end().unwrap();
        assert_eq!((after.at_s, told(&after, "/a")), (60, (20, 0)));
    }
}
