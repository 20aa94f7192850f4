//! Whether marking warm pages accessed pays while the kernel reclaims.
//!
//! Touching warm pages costs a tenth of a processor and walks another. It is worth that where heat foretells
//! what is used next, which each walk shows: of the pages that the walk before took for warm, and of the
//! others, how many were used since.
//!
//! Walks that have to come much further apart than wanted, because clearing may take only so much of the time, find
//! nearly everything used and tell nothing.
//!
//! ```text
//!   On --8 walks, warm pages hardly more often used than others--> Off
//!    ^   or walks too far apart                                    | 2 s, twice as long each time
//!    +-------------------------------------------------------------+
//! ```
//!
//! **Owns** the judgement and the pace of these walks. **Does not own** the pages nor the touching.
//!
//! **Invariants** I1: what is judged is [`Config::nr_judged_walks`] walks in a row, each by what the one just before
//! it foretold.

use super::{Outcome, Strategy, View, Walk};
use crate::backoff::Backoff;
use crate::plan::Action;
use crate::sample::Lever;
use crate::tunables::config;
use strata_lru::{Foretold, TimeMs};

config! {
    /// How often the kernel is told which pages are warm, and when that is given up.
    "mark_accessed"

    /// A walk is due when, by the average refault rate, this part of the resident pages has refaulted since the last one: what
    /// eviction passes over once is not spared again before the next walk.
    turned_over_share: u64 = 16, 1..=64, "1/n of the pages";
    /// Two walks are at most so far apart, however little comes back.
    walk_ms_max: u64 = 1000, 500..=10_000, "ms";
    /// Walks that can only come so many times further apart than wanted tell too little: a quarter of memory goes between
    /// two at four times the distance, which is what heat is made for.
    pace_max: u64 = 4, 1..=16, "times";
    /// The warmest pages that are kept are so many of all. In `strata sim --steered` (zipf 0.99, two processors) 60 % gave as
    /// many faults with two touches, and with five touches (MGLRU) 75 % gave more, for 1.7 times the touches.
    warm_percent: u32 = 55, 1..=100, "percent of the pages";
    /// A trial is so many walks: a single one that shows nothing proves nothing.
    nr_judged_walks: u32 = 8, 1..=100, "walks";
    /// After a trial that showed nothing there is a first pause of so long; the pause doubles each time, up to 32 times.
    off_ms: u64 = 2000, 100..=10_000, "ms";
}

/// How far apart walks are to be, where so many pages are in memory and so many come back in a second.
fn walk_ms(config: &Config, nr_resident_pages: u64, refaulted_pages_per_s: f64) -> u64 {
    let nr_turned_over = (nr_resident_pages / config.turned_over_share) as f64;
    let due_ms = 1000.0 * nr_turned_over / refaulted_pages_per_s.max(1.0);
    (due_ms as u64).min(config.walk_ms_max)
}

/// The judgement so far.
#[derive(Debug)]
pub struct MarkAccessed {
    config: Config,
    lever: Lever,
    trial: Foretold,
    /// Walks of the trial; `None` until a first one has foretold something.
    nr_walks: Option<u32>,
    off: Backoff,
}

impl Strategy for MarkAccessed {
    /// Walks that no marking follows would only take accessed bits from the kernel.
    fn walk_ms(&self, view: &View) -> Option<u64> {
        let is_left = view.is_left_to_programs && self.lever == Lever::FiveTouches;
        let is_its_turn = (view.is_kernels_turn || is_left) && !view.is_dry_run;
        let can_come = is_its_turn && self.is_on(view.now) && !view.busy.marking;
        let (nr_pages, per_s) = (view.nr_resident_pages, view.refaulted_pages_per_s);
        can_come.then(|| walk_ms(&self.config, nr_pages, per_s))
    }

    /// Judges what was foretold, and foretells anew, also while another strategy tells the kernel something.
    fn after_walk(&mut self, view: &View, walk: &Walk) -> Vec<Action> {
        let Some(wanted_ms) = walk.wanted_ms else {
            self.interrupt();
            return vec![Action::ForgetForecast];
        };
        if self.is_too_slow(view.now, wanted_ms, walk.pace_ms) {
            return vec![Action::ForgetForecast];
        }
        self.judge(view.now, walk.foretold);
        let percent = self.config.warm_percent;
        match view.is_left_to_programs && self.lever == Lever::Activation {
            true => vec![Action::Forecast { percent }],
            false => vec![Action::MarkAccessed { percent }],
        }
    }

    fn taken_up(&mut self, _: TimeMs, _: Outcome) {}
}

impl MarkAccessed {
    /// Nothing judged yet.
    pub fn new(config: Config, lever: Lever) -> MarkAccessed {
        MarkAccessed {
            config,
            lever,
            trial: Foretold::default(),
            nr_walks: None,
            off: Backoff::new(config.off_ms),
        }
    }

    /// What touching a page does.
    pub fn lever(&self) -> Lever {
        self.lever
    }

    /// Whether warm pages are to be touched now.
    pub fn is_on(&self, now: TimeMs) -> bool {
        !self.off.holds(now)
    }

    /// Takes a walk in that came while it was on.
    fn judge(&mut self, now: TimeMs, foretold: Foretold) {
        let Some(nr_walks) = &mut self.nr_walks else {
            self.nr_walks = Some(0);
            return;
        };
        self.trial += foretold;
        *nr_walks += 1;
        if *nr_walks < self.config.nr_judged_walks {
            return;
        }
        self.trial_is_over(now);
    }

    /// Walks pause, or come for another reason: the next one foretells anew.
    pub fn interrupt(&mut self) {
        (self.trial, self.nr_walks) = (Foretold::default(), None);
    }

    /// Whether walks that are wanted each `wanted_ms` and can come each `pace_ms` at most are too far apart; then it is
    /// off for a while.
    fn is_too_slow(&mut self, now: TimeMs, wanted_ms: u64, pace_ms: u64) -> bool {
        let is_too_slow = pace_ms > wanted_ms * self.config.pace_max;
        if is_too_slow {
            self.off.failed(now);
            self.interrupt();
        }
        is_too_slow
    }

    fn trial_is_over(&mut self, now: TimeMs) {
        match self.trial.holds() {
            true => self.off.succeeded(),
            false => self.off.failed(now),
        }
        (self.trial, self.nr_walks) = (Foretold::default(), Some(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::TIMES_MAX;

    /// Between two walks.
    const WALK_MS: u64 = 100;

    fn foretold(nr_warm_used_pages: u64, nr_other_used_pages: u64) -> Foretold {
        Foretold {
            nr_warm_pages: 1000,
            nr_warm_used_pages,
            nr_other_pages: 800,
            nr_other_used_pages,
        }
    }

    /// How many walks in a row it was on, and off, with a walk each 100 ms that finds the same.
    fn runs(nr_walks: u64, found: Foretold) -> Vec<(bool, u64)> {
        let mut activation = MarkAccessed::new(Config::DEFAULT, Lever::Activation);
        let mut runs: Vec<(bool, u64)> = Vec::new();
        for walk in 0..nr_walks {
            let now = TimeMs(walk * WALK_MS);
            let is_on = activation.is_on(now);
            match is_on {
                true => activation.judge(now, found),
                false => activation.interrupt(),
            }
            match runs.last_mut() {
                Some((was_on, length)) if *was_on == is_on => *length += 1,
                _ => runs.push((is_on, 1)),
            }
        }
        runs
    }

    #[test]
    fn the_faster_pages_go_the_sooner_the_next_walk_comes() {
        assert_eq!(
            walk_ms(&Config::DEFAULT, 46_000, 80_000.0),
            35,
            "a sixteenth has come back"
        );
        assert_eq!(walk_ms(&Config::DEFAULT, 46_000, 20_000.0), 143);
        assert_eq!(
            walk_ms(&Config::DEFAULT, 46_000, 0.0),
            1000,
            "once a second at least"
        );
        assert_eq!(walk_ms(&Config::DEFAULT, 0, 0.0), 0);
    }

    #[test]
    fn it_goes_on_as_long_as_warm_pages_are_the_ones_that_are_used() {
        assert_eq!(runs(500, foretold(700, 200)), [(true, 500)]);
    }

    #[test]
    fn where_all_pages_are_used_alike_it_is_tried_ever_more_seldom() {
        let found = runs(150, foretold(500, 400));
        assert_eq!(
            found,
            [
                (true, 9),
                (false, 19),
                (true, 9),
                (false, 39),
                (true, 9),
                (false, 65)
            ]
        );
        let longest = runs(5000, foretold(500, 400)).into_iter();
        let longest = longest
            .filter(|(is_on, _)| !is_on)
            .map(|(_, length)| length);
        assert_eq!(
            longest.max(),
            Some(Config::DEFAULT.off_ms * TIMES_MAX / WALK_MS - 1)
        );
    }

    #[test]
    fn one_walk_that_shows_nothing_is_not_a_trial() {
        let mut activation = MarkAccessed::new(Config::DEFAULT, Lever::Activation);
        for walk in 0..80 {
            let found = match walk % 8 {
                0 => foretold(100, 400),
                _ => foretold(700, 200),
            };
            activation.judge(TimeMs(walk * WALK_MS), found);
            assert!(activation.is_on(TimeMs((walk + 1) * WALK_MS)));
        }
    }

    #[test]
    fn nothing_used_is_no_success_nor_is_nothing_warm() {
        assert_eq!(runs(10, foretold(0, 0)), [(true, 9), (false, 1)]);
        assert_eq!(runs(10, Foretold::default()), [(true, 9), (false, 1)]);
    }

    #[test]
    fn it_is_off_while_clearing_can_t_keep_pace_with_what_goes() {
        let mut activation = MarkAccessed::new(Config::DEFAULT, Lever::Activation);
        assert!(!activation.is_too_slow(TimeMs(0), 50, 200));
        assert!(activation.is_on(TimeMs(0)));
        assert!(activation.is_too_slow(TimeMs(0), 50, 201));
        assert!(!activation.is_on(TimeMs(Config::DEFAULT.off_ms - 1)));
        // Tried again, it takes twice as long until the next trial.
        assert!(activation.is_on(TimeMs(Config::DEFAULT.off_ms)));
        assert!(activation.is_too_slow(TimeMs(Config::DEFAULT.off_ms), 50, 201));
        assert!(!activation.is_on(TimeMs(3 * Config::DEFAULT.off_ms - 1)));
        assert!(!activation.is_too_slow(TimeMs(3 * Config::DEFAULT.off_ms), 75, 201));
    }

    /// What was warm a minute ago says nothing of heat.
    #[test]
    fn after_an_interruption_the_first_walk_is_not_judged() {
        let mut activation = MarkAccessed::new(Config::DEFAULT, Lever::Activation);
        for walk in 0..40 {
            let now = TimeMs(walk * WALK_MS);
            match walk % 4 {
                0 => activation.interrupt(),
                1 => activation.judge(now, foretold(0, 800)),
                _ => activation.judge(now, foretold(700, 200)),
            }
            assert!(activation.is_on(now));
        }
    }

    #[test]
    fn a_walk_that_nobody_wanted_for_telling_interrupts_what_is_judged() {
        let view = |ms| View {
            now: TimeMs(ms),
            is_left_to_programs: false,
            is_kernels_turn: true,
            is_dry_run: false,
            is_heat_believed: true,
            nr_resident_pages: 46_000,
            refaulted_pages_per_s: 50_000.0,
            is_coming_back: true,
            busy: Default::default(),
        };
        let mut activation = MarkAccessed::new(Config::DEFAULT, Lever::Activation);
        for no in 0..40 {
            let (wanted_ms, foretold) = match no % 4 {
                0 => (None, Foretold::default()),
                1 => (Some(100), foretold(0, 800)),
                _ => (Some(100), foretold(700, 200)),
            };
            let walk = Walk {
                wanted_ms,
                pace_ms: 100,
                foretold,
                ..Walk::default()
            };
            let view = view(no * WALK_MS);
            activation.after_walk(&view, &walk);
            assert!(activation.is_on(view.now), "walk {no}");
        }
    }
}
