//! When walks come: as often as the least age says, and no oftener than the processor time allows.
//!
//! **Owns** the time of the next walk, and what was used until the last. **Does not own** the walk (`observe`), what the least age is
//! (`rules`), nor how much of the processors there is (`need`).

use super::need::LOOK_FAR;
use super::status::WalkTimes;
use crate::run::overhead;
use std::time::Duration;

/// Once within the least age the guard gives back what it needed in passing, such as for processes that have ended since.
const NR_WALKS_PER_TRIM: u64 = 6;

/// See the module. Times are by the observer's clock.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Duration,
    /// When the last walk ended.
    ended_at: Duration,
    /// What the status says of all that.
    pub(super) times: WalkTimes,
    pub(super) nr_walks: u64,
    cpu_ns_at_start: u64,
    /// As the last walk began; 0: there was none.
    cpu_ns_at_walk: u64,
    /// What that walk and what followed it took of the processors.
    cost: Duration,
    /// What goes by the second was looked at.
    seconds_looked_at: Option<Duration>,
}

impl Pace {
    /// The first walk is due at once.
    pub(super) fn start() -> Pace {
        Pace {
            cpu_ns_at_start: overhead::cpu_ns(),
            ..Pace::default()
        }
    }

    /// Processor time that was used since the start.
    pub(super) fn cpu_ns(&self) -> u64 {
        overhead::cpu_ns() - self.cpu_ns_at_start
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// The next walk comes at once.
    pub(super) fn at_once(&mut self) {
        self.next = Duration::ZERO;
    }

    /// The next walk comes so long after the last one, or as soon as this share of a processor allows, if it is not due before.
    pub(super) fn sooner(&mut self, interval: Duration, processor_share: f64) {
        let interval = interval.max(self.cost.div_f64(processor_share));
        self.next = self.next.min(self.ended_at + interval);
    }

    /// Whether what is looked at once a second is due.
    pub(super) fn is_second(&mut self, now: Duration) -> bool {
        let is_due = (self.seconds_looked_at).is_none_or(|last| now >= last + LOOK_FAR);
        if is_due {
            self.seconds_looked_at = Some(now);
        }
        is_due
    }

    /// A walk has ended that began with so much processor time used. Returns whether it is time to give back what was needed in passing.
    pub(super) fn walked(&mut self) -> bool {
        self.nr_walks += 1;
        self.nr_walks.is_multiple_of(NR_WALKS_PER_TRIM)
    }

    /// How long walks and what follows them need from one to the next within this share of a processor: the last began with so much
    /// processor time used.
    pub(super) fn earliest(&mut self, cpu_ns: u64, processor_share: f64) -> Duration {
        let of_walk_ns = overhead::cpu_ns().saturating_sub(cpu_ns);
        let cost_ns = match self.cpu_ns_at_walk {
            0 => of_walk_ns,
            before => cpu_ns.saturating_sub(before).max(of_walk_ns),
        };
        self.cpu_ns_at_walk = cpu_ns;
        self.cost = Duration::from_nanos(cost_ns);
        self.cost.div_f64(processor_share)
    }

    /// All that follows a walk is done: the next comes after so long.
    pub(super) fn next_after(&mut self, now: Duration, interval: Duration) {
        self.next = now + interval;
        // What takes long between two walks stretches them, too.
        self.times = WalkTimes::now(interval.max(now - self.ended_at));
        self.ended_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_is_to_come_sooner_comes_no_sooner_than_the_processor_time_allows() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::start();
        pace.cost = second / 10;
        let mut due_after = |interval, processor_share| {
            pace.next_after(second, second * 100);
            pace.sooner(interval, processor_share);
            pace.next - second
        };
        assert_eq!(due_after(second * 5, 0.5), second * 5);
        assert_eq!(due_after(second * 5, 0.01), second * 10);
        assert_eq!(due_after(second * 500, 0.5), second * 100);
    }
}
