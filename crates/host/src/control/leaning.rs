//! Which way the kernel's reclaim leans, to anon or to file pages, where the user has not said.
//!
//! The kernel takes pages 32 at a time, and begins each time with a 4096th of the inactive list, then twice that, and so
//! on. Of that it looks at a share of anon pages only, by swappiness and by what taking either kind has cost lately
//! (`get_scan_count`, mglru.md 8.7): at 60, with anon pages coming back, at 18 %. Where there are no file pages to look at
//! instead that means rounds of a page or two before one that gets somewhere, six for each request here, and each round
//! ends with an interrupt for the processor that the program runs on. At 180 it is 82 % and less than five rounds, a
//! quarter of the interrupts are gone, and a program with a Zipf load does 3 to 7 % more (docs/speed.md).
//!
//! File pages are still looked at, at a fifth of what would be their share, so what is in use stays and what nobody wants
//! goes. When they become many, because the program reads through a file, say, the balance is as it was, and stays so the longer
//! the more often that happens: while it leans they take room from anon pages.
//!
//! On v1 the setting is the group's, whoever reclaims, and a group made in it begins with it; so a group that was there
//! before us, where somebody may count on it, does not lean. On v2 it goes with each request of ours.
//!
//! **Owns** the decision. **Does not own** the setting (`cgroup`), nor the balance that the engine chooses by.
//!
//! **Invariants** I1: what the user has said holds all the time. I2: it leans only by what was
//! just read of the kernel's lists, with usage near the budget and room in swap.

use super::config::{ActuatorChoice, PolicyChoice, RunConfig, SwappinessChoice, Target};
use crate::access;
use crate::cgroup::GroupStats;
use strata_control::Backoff;
use strata_lru::TimeMs;

/// Of what the kernel could take fewer than one in so many are file pages: it leans ...
const FILE_SHARE_LITTLE: u64 = 16;
/// ... until they are more than one in so many.
const FILE_SHARE_MUCH: u64 = 10;
/// Then it does not lean for so long, ...
const UPRIGHT_MS_MIN: u64 = 10_000;
/// ... twice as long each time, up to this; when it has leaned for longer, that is forgotten.
const UPRIGHT_MS_MAX: u64 = 640_000;
/// While it leans. 160 and 200 were as fast (zipf 0.99, four runs of 5 s each); at 200 no file page would be looked at.
const LEANING: u8 = 180;
/// The kernel's own setting ends here; anon pages alone is for single requests.
const SWAPPINESS_MAX: u8 = 200;

/// What was decided so far.
#[derive(Debug)]
pub(super) struct Leaning {
    base: u8,
    may_lean: bool,
    /// Not before this, and how long it was last.
    upright: Backoff,
    /// What the group has.
    swappiness: u8,
    /// Since when it leans, and for how long it did before.
    since: Option<TimeMs>,
    leaned_ms: u64,
}

impl Leaning {
    /// As the arena has set it.
    pub(super) fn new(config: &RunConfig) -> Leaning {
        let asks_kernel = config.policy != PolicyChoice::None
            && config.actuator != ActuatorChoice::Pageout
            && !config.dry_run;
        let is_free = config.swappiness == SwappinessChoice::Auto
            && matches!(config.target, Target::Command { .. });
        Leaning::of(
            config.swappiness.base().get(),
            is_free && asks_kernel && !access::is_multi_gen_on(),
        )
    }

    /// Where the group has this balance.
    pub(super) fn of(base: u8, may_lean: bool) -> Leaning {
        let base = base.min(SWAPPINESS_MAX);
        Leaning {
            base,
            may_lean,
            upright: Backoff::new(UPRIGHT_MS_MIN, UPRIGHT_MS_MAX),
            swappiness: base,
            since: None,
            leaned_ms: 0,
        }
    }

    /// Whether it may lean at all.
    pub(super) fn may_lean(&self) -> bool {
        self.may_lean
    }

    /// What the group is to have from now on, if that changes. `lists`: what was last read of it; `None` where the kernel is
    /// not asked to reclaim ahead, or has no reason or no room to.
    pub(super) fn change(&mut self, now: TimeMs, lists: Option<&GroupStats>) -> Option<u8> {
        let has_little_file = lists.is_some_and(|stats| self.has_little_file(now, stats));
        let is_upright = self.upright.holds(now);
        let wanted = match self.may_lean && has_little_file && !is_upright {
            true => LEANING,
            false => self.base,
        };
        if wanted == self.swappiness {
            return None;
        }
        self.stand_up(now);
        self.swappiness = wanted;
        self.since = (wanted == LEANING && self.may_lean).then_some(now);
        Some(wanted)
    }

    fn has_little_file(&mut self, now: TimeMs, stats: &GroupStats) -> bool {
        let (Some(anon_bytes), Some(file_bytes)) = (stats.lru_anon_bytes, stats.lru_file_bytes)
        else {
            return false;
        };
        let is_leaning = self.since.is_some();
        let share = match is_leaning {
            true => FILE_SHARE_MUCH,
            false => FILE_SHARE_LITTLE,
        };
        let is_little = file_bytes < (anon_bytes + file_bytes) / share;
        if is_leaning && !is_little {
            self.upright.failed_anew(now);
        }
        is_little
    }

    /// The setting did not take: it is left alone from here on.
    pub(super) fn give_up(&mut self, now: TimeMs) {
        self.stand_up(now);
        self.may_lean = false;
    }

    fn stand_up(&mut self, now: TimeMs) {
        self.leaned_ms = self.leaning_ms(now);
        self.since = None;
    }

    /// How long it has leaned, all in all.
    pub(super) fn leaning_ms(&self, now: TimeMs) -> u64 {
        self.leaned_ms + self.since.map_or(0, |since| now.since(since))
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
    fn it_leans_where_there_are_hardly_any_file_pages() {
        let mut leaning = Leaning::of(60, true);
        assert_eq!(leaning.change(START, Some(&lists(1500, 100))), None);
        let change = leaning.change(START, Some(&lists(1501, 99)));
        assert_eq!(change, Some(LEANING));
        // Not to and fro.
        assert_eq!(leaning.change(START, Some(&lists(1450, 150))), None);
        assert_eq!(leaning.change(START, Some(&lists(1440, 160))), Some(60));
    }

    #[test]
    fn when_file_pages_become_many_it_leans_no_longer_and_longer_each_time() {
        let mut leaning = Leaning::of(60, true);
        let (little, much) = (lists(1600, 0), lists(1440, 160));
        let mut now = START;
        for upright_s in [10, 20, 40, 80, 160, 320, 640, 640] {
            let upright_ms = upright_s * 1000;
            assert_eq!(leaning.change(now, Some(&little)), Some(LEANING));
            assert_eq!(leaning.change(now, Some(&much)), Some(60));
            // File pages that are there anyway are no new reason.
            let later = TimeMs(now.0 + upright_ms / 2);
            assert_eq!(leaning.change(later, Some(&much)), None);
            let before = TimeMs(now.0 + upright_ms - 1);
            assert_eq!(leaning.change(before, Some(&little)), None);
            now = TimeMs(now.0 + upright_ms);
        }
    }

    #[test]
    fn after_it_has_leaned_for_long_what_was_before_is_forgotten() {
        let mut leaning = Leaning::of(60, true);
        let (little, much) = (lists(1600, 0), lists(1440, 160));
        let mut now = START;
        for _ in 0..2 {
            assert_eq!(leaning.change(now, Some(&little)), Some(LEANING));
            now = TimeMs(now.0 + 15 * MINUTE_MS);
            assert_eq!(leaning.change(now, Some(&much)), Some(60));
            now = TimeMs(now.0 + UPRIGHT_MS_MIN);
        }
    }

    #[test]
    fn what_the_user_has_said_holds() {
        let mut leaning = Leaning::of(60, false);
        assert_eq!(leaning.change(START, Some(&lists(1600, 0))), None);
        let mut leaning = Leaning::of(LEANING, false);
        assert_eq!(leaning.change(START, Some(&lists(0, 1600))), None);
    }

    #[test]
    fn it_does_not_lean_on_what_is_not_known_and_that_is_no_sign_of_file_pages() {
        let mut leaning = Leaning::of(60, true);
        let (little, unknown) = (lists(1600, 0), GroupStats::default());
        assert_eq!(leaning.change(START, None), None);
        assert_eq!(leaning.change(START, Some(&unknown)), None);
        assert_eq!(leaning.change(START, Some(&lists(0, 0))), None);
        for lists in [None, Some(&unknown)] {
            assert_eq!(leaning.change(START, Some(&little)), Some(LEANING));
            assert_eq!(leaning.change(START, lists), Some(60));
        }
        assert_eq!(leaning.change(START, Some(&little)), Some(LEANING));
    }

    #[test]
    fn once_given_up_it_stays_as_it_was() {
        let mut leaning = Leaning::of(60, true);
        leaning.change(START, Some(&lists(1600, 0)));
        leaning.give_up(START);
        assert_eq!(leaning.change(START, Some(&lists(1600, 0))), Some(60));
        assert_eq!(leaning.change(START, Some(&lists(1600, 0))), None);
        assert_eq!(leaning.leaning_ms(TimeMs(9000)), 0);
    }

    #[test]
    fn how_long_it_leaned_is_told_with_what_it_still_does() {
        let mut leaning = Leaning::of(60, true);
        leaning.change(TimeMs(1000), Some(&lists(1600, 0)));
        leaning.change(TimeMs(3000), None);
        assert_eq!(leaning.leaning_ms(TimeMs(7000)), 2000);
        leaning.change(TimeMs(7000), Some(&lists(1600, 0)));
        assert_eq!(leaning.leaning_ms(TimeMs(8000)), 3000);
    }
}
