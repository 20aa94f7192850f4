//! Which way the kernel's reclaim leans, to anon or to file pages, where the user has not said.
//!
//! The kernel takes pages 32 at a time, and begins each time with a 4096th of the inactive list, then twice that, and so
//! on. Of that it looks at a share of anon pages only, by swappiness and by what taking either kind has cost lately
//! (`get_scan_count`, mglru.md 8.7): at 60, with anon pages coming back, at 18 %. Where there are no file pages to look at
//! instead that means rounds of a page or two before one that gets somewhere, six for each request here, and each round
//! ends with an interrupt for the processor that the program runs on. At 180 it is 82 % and less than five rounds, a
//! quarter of the interrupts are gone, and a program with a Zipf load does 3 to 6 % more (docs/speed.md).
//!
//! File pages are still looked at, at a fifth of what would be their share, so what is in use stays and what nobody wants
//! goes. When they become many, because the program reads through a file, say, the balance is as it was, and stays so the longer
//! the more often that happens: while it leans they take room from anon pages.
//!
//! **Owns** the decision. **Does not own** the setting (`cgroup`), nor the balance that the engine chooses by.
//!
//! **Invariants** I1: what the user has said holds all the time. I2: nothing leans on pages of which no count is known.

use super::config::{ActuatorChoice, PolicyChoice, RunConfig, SwappinessChoice};
use crate::access;
use crate::cgroup::GroupStats;
use strata_lru::TimeMs;

/// Of what the kernel could take fewer than one in so many are file pages: it leans ...
const FILE_SHARE_LITTLE: u64 = 16;
/// ... until they are more than one in so many.
const FILE_SHARE_MUCH: u64 = 10;
/// Then it does not lean for so long, ...
const UPRIGHT_MS_MIN: u64 = 10_000;
/// ... twice as long each time, up to this.
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
    has_little_file: bool,
    /// Not before this, and how long it was last.
    upright: Option<(TimeMs, u64)>,
    /// What the group has.
    swappiness: u8,
}

impl Leaning {
    /// As the arena has set it.
    pub(super) fn new(config: &RunConfig) -> Leaning {
        let asks_kernel = config.policy != PolicyChoice::None
            && config.actuator != ActuatorChoice::Pageout
            && !config.dry_run;
        let is_free = config.swappiness == SwappinessChoice::Auto;
        Leaning::of(
            config.swappiness.base().get(),
            is_free && asks_kernel && !access::is_multi_gen_on(),
        )
    }

    fn of(base: u8, may_lean: bool) -> Leaning {
        let base = base.min(SWAPPINESS_MAX);
        Leaning {
            base,
            may_lean,
            has_little_file: false,
            upright: None,
            swappiness: base,
        }
    }

    /// What the group is to have from now on, if that changes. `lists`: what was last read of it; `is_ahead`: the
    /// kernel is asked to reclaim ahead, so that this is read often.
    pub(super) fn change(
        &mut self,
        now: TimeMs,
        lists: Option<&GroupStats>,
        is_ahead: bool,
    ) -> Option<u8> {
        if let Some(stats) = lists {
            self.look(now, stats);
        }
        let may_lean = self.may_lean && self.upright.is_none_or(|(until, _)| now >= until);
        let wanted = match may_lean && is_ahead && self.has_little_file {
            true => LEANING,
            false => self.base,
        };
        let has_changed = std::mem::replace(&mut self.swappiness, wanted) != wanted;
        has_changed.then_some(wanted)
    }

    fn look(&mut self, now: TimeMs, stats: &GroupStats) {
        let anon_bytes = stats.lru_anon_bytes.unwrap_or(0);
        let had_little_file = self.has_little_file;
        self.has_little_file = stats.lru_file_bytes.is_some_and(|file_bytes| {
            let share = match had_little_file {
                true => FILE_SHARE_MUCH,
                false => FILE_SHARE_LITTLE,
            };
            file_bytes < (anon_bytes + file_bytes) / share
        });
        if !self.has_little_file && self.swappiness == LEANING {
            let upright_ms = self
                .upright
                .map_or(UPRIGHT_MS_MIN, |(_, last_ms)| last_ms * 2);
            let upright_ms = upright_ms.min(UPRIGHT_MS_MAX);
            self.upright = Some((TimeMs(now.0 + upright_ms), upright_ms));
        }
    }

    /// The setting did not take: it is left alone from here on.
    pub(super) fn give_up(&mut self) {
        self.may_lean = false;
    }

    /// What the group has.
    pub(super) fn swappiness(&self) -> u8 {
        self.swappiness
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

    #[test]
    fn it_leans_where_there_are_hardly_any_file_pages() {
        let mut leaning = Leaning::of(60, true);
        assert_eq!(leaning.change(START, Some(&lists(1500, 100)), true), None);
        let change = leaning.change(START, Some(&lists(1501, 99)), true);
        assert_eq!(change, Some(LEANING));
        // Not to and fro.
        assert_eq!(leaning.change(START, Some(&lists(1450, 150)), true), None);
        assert_eq!(leaning.swappiness(), LEANING);
    }

    #[test]
    fn when_file_pages_become_many_it_leans_no_longer_and_longer_each_time() {
        let mut leaning = Leaning::of(60, true);
        let (little, much) = (lists(1600, 0), lists(1440, 160));
        let mut now = START;
        for upright_ms in [10_000, 20_000, 40_000] {
            assert_eq!(leaning.change(now, Some(&little), true), Some(LEANING));
            assert_eq!(leaning.change(now, Some(&much), true), Some(60));
            // File pages that are there anyway are no new reason.
            let later = TimeMs(now.0 + upright_ms / 2);
            assert_eq!(leaning.change(later, Some(&much), true), None);
            let before = TimeMs(now.0 + upright_ms - 1);
            assert_eq!(leaning.change(before, Some(&little), true), None);
            now = TimeMs(now.0 + upright_ms);
        }
    }

    #[test]
    fn what_the_user_has_said_holds() {
        let mut leaning = Leaning::of(60, false);
        assert_eq!(leaning.change(START, Some(&lists(1600, 0)), true), None);
        assert_eq!(Leaning::of(201, false).swappiness(), SWAPPINESS_MAX);
    }

    #[test]
    fn it_does_not_lean_on_what_is_read_seldom_nor_on_what_is_not_known() {
        let mut leaning = Leaning::of(60, true);
        let unknown = GroupStats::default();
        assert_eq!(leaning.change(START, None, true), None);
        assert_eq!(leaning.change(START, Some(&unknown), true), None);
        assert_eq!(leaning.change(START, Some(&lists(0, 0)), true), None);
        assert_eq!(leaning.change(START, Some(&lists(1600, 0)), false), None);
        assert_eq!(leaning.change(START, None, true), Some(LEANING));
        assert_eq!(leaning.change(START, None, false), Some(60));
    }

    #[test]
    fn once_given_up_it_stays_as_it_was() {
        let mut leaning = Leaning::of(60, true);
        leaning.change(START, Some(&lists(1600, 0)), true);
        leaning.give_up();
        assert_eq!(leaning.change(START, None, true), Some(60));
        assert_eq!(leaning.change(START, Some(&lists(1600, 0)), true), None);
    }
}
