//! The swappiness that the kernel's reclaim gets where the user has not said: biased to anon pages while there are hardly
//! any file pages.
//!
//! The kernel scans anon pages in proportion to swappiness and recent reclaim cost (`get_scan_count`). With hardly any
//! file pages a low swappiness wastes scan rounds, and each round interrupts the program's processor (docs/validation/speed.md).
//!
//! File pages are still looked at, at a fifth of what would be their share, so what is in use stays and what nobody wants
//! goes. When they become many, because the program reads through a file, say, the balance is as it was, and stays so the longer
//! the more often that happens: while it is biased they take room from anon pages.
//!
//! On v1 the setting is the group's, whoever reclaims, and a group made in it begins with it; so a group that was there
//! before us, where somebody may count on it, is not biased. On v2 it goes with each request of ours.
//!
//! **Owns** the decision. **Does not own** the setting (`cgroup`), nor the balance that the engine chooses by.
//!
//! **Invariants** I1: what the user has said holds all the time. I2: it is biased only by what was
//! last read of the kernel's lists, with usage near the budget and room in swap.

use crate::backoff::Backoff;
use crate::sample::GroupStats;
use crate::tunables::config;
use strata_lru::TimeMs;

config! {
    /// When the kernel's balance is biased to anon pages, and by how much.
    "swappiness"

    /// The balance is biased when fewer than this part of what the kernel could take are file pages, and no longer when more than
    /// twice as many are.
    file_share: u64 = 16, 2..=1000, "1/n of the lists";
    /// When file pages have become many the balance is not biased for a first pause of so long. The pause doubles each time, up to
    /// 32 times; when the balance was biased for longer than that, earlier pauses are forgotten.
    unbiased_ms: u64 = 10_000, 100..=100_000, "ms";
    /// The balance while it is biased. 160 and 200 were as fast (zipf 0.99, four runs of 5 s each); at 200 no file page
    /// would be looked at.
    biased: u8 = 180, 100..=199, "swappiness";
}

/// The kernel's own setting ends here; anon pages alone is for single requests.
const SWAPPINESS_MAX: u8 = 200;

/// What was decided so far.
#[derive(Debug)]
pub struct SwappinessBias {
    config: Config,
    base: u8,
    is_free: bool,
    /// Not before this, and how long it was last.
    pause: Backoff,
    /// What the group has.
    swappiness: u8,
    /// Since when the balance is biased, and for how long it was before.
    since: Option<TimeMs>,
    biased_before_ms: u64,
}

impl SwappinessBias {
    /// Where the group has this balance.
    pub fn new(base: u8, is_free: bool, config: Config) -> SwappinessBias {
        let base = base.min(SWAPPINESS_MAX);
        SwappinessBias {
            config,
            base,
            is_free,
            pause: Backoff::new(config.unbiased_ms),
            swappiness: base,
            since: None,
            biased_before_ms: 0,
        }
    }

    /// Whether the kernel's balance may be biased at all.
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// What the group is to have from now on, if that changes. `lists`: what was last read of it; `None` where the kernel is
    /// not asked to reclaim ahead, or has no reason or no room to.
    pub fn change(&mut self, now: TimeMs, lists: Option<&GroupStats>) -> Option<u8> {
        let has_little_file = lists.is_some_and(|stats| self.has_little_file(now, stats));
        let is_paused = self.pause.holds(now);
        let wanted = match self.is_free && has_little_file && !is_paused {
            true => self.config.biased,
            false => self.base,
        };
        if wanted == self.swappiness {
            return None;
        }
        self.end_bias(now);
        self.swappiness = wanted;
        self.since = (wanted == self.config.biased && self.is_free).then_some(now);
        Some(wanted)
    }

    fn has_little_file(&mut self, now: TimeMs, stats: &GroupStats) -> bool {
        let (Some(anon_bytes), Some(file_bytes)) = (stats.lru_anon_bytes, stats.lru_file_bytes)
        else {
            return false;
        };
        let is_biased = self.since.is_some();
        let few_bytes = (anon_bytes + file_bytes) / self.config.file_share;
        let is_little = match is_biased {
            true => file_bytes < few_bytes * 2,
            false => file_bytes < few_bytes,
        };
        if is_biased && !is_little {
            self.pause.failed_anew(now);
        }
        is_little
    }

    /// The setting did not take: it is left alone from here on.
    pub fn give_up(&mut self, now: TimeMs) {
        self.end_bias(now);
        self.is_free = false;
    }

    fn end_bias(&mut self, now: TimeMs) {
        self.biased_before_ms = self.biased_ms(now);
        self.since = None;
    }

    /// How long the balance was biased, all in all.
    pub fn biased_ms(&self, now: TimeMs) -> u64 {
        self.biased_before_ms + self.since.map_or(0, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(anon: u64, file: u64) -> GroupStats {
        GroupStats {
            lru_anon_bytes: Some(anon),
            lru_file_bytes: Some(file),
            ..GroupStats::default()
        }
    }

    const START: TimeMs = TimeMs(1000);
    const MINUTE_MS: u64 = 60_000;

    #[test]
    fn it_is_biased_where_there_are_hardly_any_file_pages() {
        let mut bias = SwappinessBias::new(60, true, Config::DEFAULT);
        assert_eq!(bias.change(START, Some(&lists(1500, 100))), None);
        let change = bias.change(START, Some(&lists(1501, 99)));
        assert_eq!(change, Some(Config::DEFAULT.biased));
        // Not to and fro.
        assert_eq!(bias.change(START, Some(&lists(1401, 199))), None);
        assert_eq!(bias.change(START, Some(&lists(1400, 200))), Some(60));
    }

    #[test]
    fn when_file_pages_become_many_the_bias_ends_and_longer_each_time() {
        let mut bias = SwappinessBias::new(60, true, Config::DEFAULT);
        let (little, much) = (lists(1600, 0), lists(1400, 200));
        let mut now = START;
        for pause_s in [10, 20, 40, 80, 160, 320, 320] {
            let pause_ms = pause_s * 1000;
            assert_eq!(
                bias.change(now, Some(&little)),
                Some(Config::DEFAULT.biased)
            );
            assert_eq!(bias.change(now, Some(&much)), Some(60));
            // File pages that are there anyway are no new reason.
            let later = TimeMs(now.0 + pause_ms / 2);
            assert_eq!(bias.change(later, Some(&much)), None);
            let before = TimeMs(now.0 + pause_ms - 1);
            assert_eq!(bias.change(before, Some(&little)), None);
            now = TimeMs(now.0 + pause_ms);
        }
    }

    #[test]
    fn after_a_long_bias_what_was_before_is_forgotten() {
        let mut bias = SwappinessBias::new(60, true, Config::DEFAULT);
        let (little, much) = (lists(1600, 0), lists(1400, 200));
        let mut now = START;
        for _ in 0..2 {
            assert_eq!(
                bias.change(now, Some(&little)),
                Some(Config::DEFAULT.biased)
            );
            now = TimeMs(now.0 + 15 * MINUTE_MS);
            assert_eq!(bias.change(now, Some(&much)), Some(60));
            now = TimeMs(now.0 + Config::DEFAULT.unbiased_ms);
        }
    }

    #[test]
    fn what_the_user_has_said_holds() {
        let mut bias = SwappinessBias::new(60, false, Config::DEFAULT);
        assert_eq!(bias.change(START, Some(&lists(1600, 0))), None);
        let mut bias = SwappinessBias::new(Config::DEFAULT.biased, false, Config::DEFAULT);
        assert_eq!(bias.change(START, Some(&lists(0, 1600))), None);
    }

    #[test]
    fn it_is_not_biased_by_what_is_not_known_and_that_is_no_sign_of_file_pages() {
        let mut bias = SwappinessBias::new(60, true, Config::DEFAULT);
        let (little, unknown) = (lists(1600, 0), GroupStats::default());
        assert_eq!(bias.change(START, None), None);
        assert_eq!(bias.change(START, Some(&unknown)), None);
        assert_eq!(bias.change(START, Some(&lists(0, 0))), None);
        for lists in [None, Some(&unknown)] {
            assert_eq!(
                bias.change(START, Some(&little)),
                Some(Config::DEFAULT.biased)
            );
            assert_eq!(bias.change(START, lists), Some(60));
        }
        assert_eq!(
            bias.change(START, Some(&little)),
            Some(Config::DEFAULT.biased)
        );
    }

    #[test]
    fn once_given_up_it_stays_as_it_was() {
        let mut bias = SwappinessBias::new(60, true, Config::DEFAULT);
        bias.change(START, Some(&lists(1600, 0)));
        bias.give_up(START);
        assert_eq!(bias.change(START, Some(&lists(1600, 0))), Some(60));
        assert_eq!(bias.change(START, Some(&lists(1600, 0))), None);
        assert_eq!(bias.biased_ms(TimeMs(9000)), 0);
    }

    #[test]
    fn how_long_it_was_biased_is_told_with_what_it_still_does() {
        let mut bias = SwappinessBias::new(60, true, Config::DEFAULT);
        bias.change(TimeMs(1000), Some(&lists(1600, 0)));
        bias.change(TimeMs(3000), None);
        assert_eq!(bias.biased_ms(TimeMs(7000)), 2000);
        bias.change(TimeMs(7000), Some(&lists(1600, 0)));
        assert_eq!(bias.biased_ms(TimeMs(8000)), 3000);
    }
}
