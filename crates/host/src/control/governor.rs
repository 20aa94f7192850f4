//! When to reclaim, how much, by whom, and when to look again: arithmetic over usage samples.
//!
//! **Owns** the marks around the budget and the pace of the loop. **Does not own** a clock, a file or
//! a thread: samples go in, a [`Plan`] comes out.
//!
//! ```text
//!   low ------- high ---- urgent --- line - budget ---- backstop
//!    ^ reclaim    ^ reclaim  ^ the     ^ where the      ^ the kernel's hard limit: the program
//!      stops        starts     kernel's  kernel holds     would reclaim in its own faults
//!                              batched   it under
//!                              reclaim   pressure
//!                              takes over
//!                              (auto) for a while, and until usage is below high
//! ```
//!
//! Below them all lies the approach, from where walks come.
//!
//! Above the urgent mark for a moment a batch of pageout's is on its way; above it, and not back at the
//! high mark for longer than that, pageout does not keep up.
//!
//! The urgent mark lies below the line (`cgroup::line`): usage never gets past that, and a mark behind
//! it would never be reached.
//!
//! Where the kernel is told which pages are warm all of it is the kernel's while pages come back, from the high
//! mark on ([`Governor::set_beyond_pageout`]), and pageout has its turn when the kernel finds nothing. Where it is not, and programs that run on one processor
//! at a time wait for it ([`super::crowd`]), `auto` leaves all of it to pageout: the kernel's reclaim would take
//! turns with the program, and chooses worse. Where the programs fill all
//! processors by themselves `auto` leaves it to them, at the line, and only helps to get there.

use super::ActuatorChoice;
use super::crowd::Room;
use crate::addr::PAGE_BYTES;
use crate::cgroup::dip_step_bytes;
use strata_lru::TimeMs;

/// A batch for the pageout thread; larger ones would make look-around stale, smaller ones would pay
/// the re-reading of tables too often.
const PAGEOUT_BATCH_PAGES: u64 = 1024;
/// The distance between two marks is the budget divided by this.
const MARK_SHARE: u64 = 64;
/// ... but at least this, because the kernel charges in batches of 64 pages a CPU, ...
const MARK_BYTES_MIN: u64 = 512 << 10;
/// ... and at most this.
const MARK_BYTES_MAX: u64 = 128 << 20;
/// Generations should exist before the first eviction, and accessed bits that only filling has set be cleared:
/// walks come above this share of the budget, in percent.
const APPROACH_PERCENT: u64 = 90;
/// Reclaim must get ahead of growth by what the program can allocate while we react.
const REACTION_MS: u64 = 10;
/// Growth that is assumed possible at any time, for the time until the next look.
const GROWTH_ASSUMED_BYTES_PER_MS: u64 = 256 << 10;
/// While there is work.
const WAIT_MS_MIN: u64 = 5;
/// While the programs reclaim for themselves.
const WAIT_MS_LEFT: u64 = 20;
/// While nothing changes.
const WAIT_MS_MAX: u64 = 1000;
/// The kernel keeps at it for so long before pageout is tried again, ...
const HOLD_MS_MIN: u64 = 500;
/// ... twice as long each time that pageout did not keep up for as long as the kernel had it, up to
/// this: each try costs the program some reclaim of its own.
const HOLD_MS_MAX: u64 = 8000;
/// Above the urgent mark for so long pageout is not keeping up; for less, a batch is on its way.
const URGENT_PERSISTS_MS: u64 = 50;
/// The kernel's own reclaim is asked in steps of at most this, so that one step never takes long.
const SHRINK_BYTES_MAX: u64 = 32 << 20;

/// Usage at which something begins or ends, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// Walks come from here on.
    pub approach: u64,
    /// Reclaim stops here.
    pub low: u64,
    /// Reclaim starts here.
    pub high: u64,
    /// Above it, `auto` asks the kernel to help.
    pub urgent: u64,
    /// The promise.
    pub budget: u64,
}

impl Marks {
    /// The marks of a budget.
    pub(super) fn new(budget: u64) -> Marks {
        let step = (budget / MARK_SHARE)
            .clamp(MARK_BYTES_MIN, MARK_BYTES_MAX)
            .min(budget / 8);
        Marks {
            approach: (u128::from(budget) * u128::from(APPROACH_PERCENT) / 100) as u64,
            low: budget - 2 * step,
            high: budget - step,
            urgent: budget - (step + dip_step_bytes(budget)) / 2,
            budget,
        }
    }
}

/// How much of a budget is in memory while pages have to go, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where usage that grows fast is brought down to: as far below the low mark as reclaim gets
    /// ahead at most.
    pub least_bytes: u64,
    /// Where it stands mostly: in the middle between the marks at which reclaim begins and ends.
    pub middle_bytes: u64,
    /// The line: usage stands there where the program takes memory as fast as it goes.
    pub most_bytes: u64,
}

impl Held {
    /// What is held of a budget.
    ///
    /// ```
    /// use strata_host::control::Held;
    ///
    /// let held = Held::of(128 << 20);
    /// assert!(held.least_bytes < held.middle_bytes && held.middle_bytes < held.most_bytes);
    /// assert!(held.most_bytes < 128 << 20);
    /// ```
    pub fn of(budget_bytes: u64) -> Held {
        let marks = Marks::new(budget_bytes);
        let least_bytes = marks.low - (marks.high - marks.low);
        let most_bytes = budget_bytes.saturating_sub(dip_step_bytes(budget_bytes));
        Held {
            least_bytes,
            middle_bytes: marks.low.midpoint(marks.high),
            most_bytes,
        }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Isolate so many pages for the pageout thread, if it is free.
    pub pageout_pages: u64,
    /// Ask the kernel for so many bytes, if it is not at it already.
    pub shrink_bytes: u64,
    /// Look again after this, unless woken.
    pub wait_ms: u64,
}

/// The state between samples.
#[derive(Debug)]
pub(super) struct Governor {
    marks: Marks,
    actuator: ActuatorChoice,
    last: Option<(TimeMs, u64)>,
    growth_bytes_per_ms: u64,
    is_reclaiming: bool,
    /// When the kernel took over, if it has.
    kernel_since: Option<TimeMs>,
    /// When pageout last took over again.
    pageout_since: Option<TimeMs>,
    /// How long the kernel keeps at it.
    hold_ms: u64,
    /// When usage passed the urgent mark, until it is back at the high one.
    above_since: Option<TimeMs>,
    room: Room,
    is_beyond_pageout: bool,
    wait_ms: u64,
}

impl Governor {
    /// Nothing seen yet.
    pub(super) fn new(budget: u64, actuator: ActuatorChoice) -> Governor {
        Governor {
            marks: Marks::new(budget),
            actuator,
            last: None,
            growth_bytes_per_ms: 0,
            is_reclaiming: false,
            kernel_since: None,
            pageout_since: None,
            hold_ms: HOLD_MS_MIN,
            above_since: None,
            room: Room::Free,
            is_beyond_pageout: false,
            wait_ms: WAIT_MS_MIN,
        }
    }

    /// From now on another budget holds.
    pub(super) fn set_budget(&mut self, budget: u64) {
        self.marks = Marks::new(budget);
        self.wait_ms = WAIT_MS_MIN;
    }

    /// From now on this one does the work.
    pub(super) fn set_actuator(&mut self, actuator: ActuatorChoice) {
        self.actuator = actuator;
    }

    /// The marks in force.
    pub(super) fn marks(&self) -> Marks {
        self.marks
    }

    /// Takes a sample of usage and says what to do.
    pub(super) fn plan(&mut self, now: TimeMs, usage: u64) -> Plan {
        let is_unchanged = self.last.is_some_and(|(_, last)| last == usage);
        self.learn_growth(now, usage);
        let ahead = self.growth_bytes_per_ms * REACTION_MS;
        let ahead = ahead.min(self.marks.high - self.marks.low);
        if usage > self.marks.high - ahead {
            self.is_reclaiming = true;
        } else if usage <= self.marks.low.saturating_sub(ahead) {
            self.is_reclaiming = false;
        }
        if self.room != Room::Crowded {
            self.change_hands(now, usage);
        }
        let mut plan = Plan::default();
        if self.is_reclaiming && self.is_left_to_programs() && usage <= self.marks.budget {
            self.wait_ms = WAIT_MS_LEFT;
        } else if self.is_reclaiming {
            let excess = usage.saturating_sub(self.marks.low.saturating_sub(ahead));
            self.divide(excess, &mut plan);
            self.wait_ms = WAIT_MS_MIN;
        } else if is_unchanged {
            self.wait_ms = (self.wait_ms * 2).min(WAIT_MS_MAX);
        } else {
            let headroom = (self.marks.high - ahead).saturating_sub(usage);
            let per_ms = self.growth_bytes_per_ms.max(GROWTH_ASSUMED_BYTES_PER_MS);
            self.wait_ms = (headroom / per_ms).clamp(WAIT_MS_MIN, WAIT_MS_MAX);
        }
        plan.wait_ms = self.wait_ms;
        plan
    }

    /// The kernel finds nothing more: pageout's turn again, unless usage is above the urgent mark at
    /// the next look, or until it is known anew that it has no chance.
    pub(super) fn kernel_is_done(&mut self) {
        (self.kernel_since, self.above_since) = (None, None);
        self.is_beyond_pageout = false;
    }

    /// Whether the kernel chooses the pages now, under `auto`.
    pub(super) fn is_kernels_turn(&self) -> bool {
        let is_asked = self.kernel_since.is_some() && self.room == Room::Free;
        self.actuator == ActuatorChoice::Auto && is_asked
    }

    /// Whether the programs reclaim in their own faults, under `auto`.
    pub(super) fn is_left_to_programs(&self) -> bool {
        self.actuator == ActuatorChoice::Auto && self.room == Room::Filled
    }

    /// Whether the kernel chooses the pages, for whoever reclaims, under `auto`.
    pub(super) fn is_kernels_choice(&self) -> bool {
        self.is_kernels_turn() || self.is_left_to_programs()
    }

    /// Who has the processors.
    pub(super) fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    /// Whether more pages come back than pageout could take, or the kernel is told which are warm: it need not be tried.
    pub(super) fn set_beyond_pageout(&mut self, is_beyond_pageout: bool) {
        self.is_beyond_pageout = is_beyond_pageout;
    }

    /// Waits longer: nothing can be reclaimed for now.
    pub(super) fn back_off(&mut self) -> u64 {
        self.wait_ms = (self.wait_ms * 2).clamp(WAIT_MS_MIN, WAIT_MS_MAX);
        self.wait_ms
    }

    /// Who does the work under `auto` while no others wait for a processor.
    fn change_hands(&mut self, now: TimeMs, usage: u64) {
        if usage <= self.marks.high {
            self.above_since = None;
            let is_over = |then: TimeMs| now.since(then) >= self.hold_ms;
            if self.kernel_since.is_some_and(is_over) && !self.is_beyond_pageout {
                (self.kernel_since, self.pageout_since) = (None, Some(now));
            }
        } else if self.kernel_since.is_none() {
            self.hand_to_kernel(now, usage);
        }
    }

    fn hand_to_kernel(&mut self, now: TimeMs, usage: u64) {
        if self.is_beyond_pageout {
            self.kernel_since = Some(now);
        } else if usage > self.marks.urgent {
            let since = *self.above_since.get_or_insert(now);
            if now.since(since) >= URGENT_PERSISTS_MS {
                let has_just_failed = |then: TimeMs| now.since(then) < self.hold_ms;
                self.hold_ms = match self.pageout_since.is_some_and(has_just_failed) {
                    true => (self.hold_ms * 2).min(HOLD_MS_MAX),
                    false => HOLD_MS_MIN,
                };
                self.kernel_since = Some(now);
            }
        }
    }

    fn learn_growth(&mut self, now: TimeMs, usage: u64) {
        if let Some((then, last)) = self.last {
            let elapsed_ms = now.since(then).max(1);
            let rate = usage.saturating_sub(last) / elapsed_ms;
            self.growth_bytes_per_ms = rate.max(self.growth_bytes_per_ms * 3 / 4);
        }
        self.last = Some((now, usage));
    }

    fn divide(&self, excess: u64, plan: &mut Plan) {
        let pages = excess.div_ceil(PAGE_BYTES).min(PAGEOUT_BATCH_PAGES);
        let shrink = excess.min(SHRINK_BYTES_MAX);
        match self.actuator {
            ActuatorChoice::Pageout => plan.pageout_pages = pages,
            ActuatorChoice::Reclaim => plan.shrink_bytes = shrink,
            // Pageout as well would only take the CPU from it.
            ActuatorChoice::Auto if self.is_kernels_choice() => plan.shrink_bytes = shrink,
            ActuatorChoice::Auto => plan.pageout_pages = pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn nothing_is_reclaimed_below_the_high_mark() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        let plan = governor.plan(TimeMs(0), 314 * MIB);
        assert_eq!((plan.pageout_pages, plan.shrink_bytes), (0, 0));
    }

    #[test]
    fn reclaim_goes_on_down_to_the_low_mark() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Pageout);
        assert!(governor.plan(TimeMs(0), 316 * MIB).pageout_pages > 0);
        assert!(governor.plan(TimeMs(500), 312 * MIB).pageout_pages > 0);
        assert_eq!(governor.plan(TimeMs(1000), 310 * MIB).pageout_pages, 0);
        assert_eq!(governor.plan(TimeMs(1500), 312 * MIB).pageout_pages, 0);
    }

    #[test]
    fn the_kernel_takes_over_while_it_is_urgent() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        let plan = governor.plan(TimeMs(0), 315 * MIB + MIB / 2);
        assert!(plan.pageout_pages > 0 && plan.shrink_bytes == 0);
        governor.plan(TimeMs(950), 319 * MIB);
        let plan = governor.plan(TimeMs(1000), 319 * MIB);
        assert!(plan.pageout_pages == 0 && plan.shrink_bytes > 0);
        let plan = governor.plan(TimeMs(1400), 314 * MIB);
        assert!(plan.shrink_bytes > 0, "not for long enough");
        let plan = governor.plan(TimeMs(1600), 315 * MIB + MIB / 2);
        assert!(plan.shrink_bytes > 0, "usage is not below the high mark");
        let plan = governor.plan(TimeMs(1700), 314 * MIB);
        assert!(plan.pageout_pages > 0 && plan.shrink_bytes == 0);
    }

    #[test]
    fn pageout_is_not_tried_where_more_comes_back_than_it_could_take() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        governor.plan(TimeMs(0), 319 * MIB);
        assert!(governor.plan(TimeMs(50), 319 * MIB).shrink_bytes > 0);
        governor.set_beyond_pageout(true);
        for now in (100..20_000).step_by(100) {
            governor.plan(TimeMs(now), 314 * MIB);
            assert!(governor.plan(TimeMs(now + 50), 316 * MIB).shrink_bytes > 0);
        }
        governor.set_beyond_pageout(false);
        governor.plan(TimeMs(20_000), 314 * MIB);
        assert!(governor.plan(TimeMs(20_050), 316 * MIB).pageout_pages > 0);
    }

    #[test]
    fn what_is_beyond_pageout_is_the_kernels_from_the_high_mark_on_unless_it_finds_nothing() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        governor.set_beyond_pageout(true);
        let plan = governor.plan(TimeMs(0), 315 * MIB + MIB / 2);
        assert!(plan.shrink_bytes > 0 && plan.pageout_pages == 0, "at once");
        governor.kernel_is_done();
        let plan = governor.plan(TimeMs(5), 315 * MIB + MIB / 2);
        assert!(
            plan.shrink_bytes == 0 && plan.pageout_pages > 0,
            "somebody has to"
        );
        governor.set_beyond_pageout(true);
        assert!(governor.plan(TimeMs(100), 315 * MIB + MIB / 2).shrink_bytes > 0);
    }

    /// How long the kernel has it, turn by turn, where pageout fails at once each time.
    #[test]
    fn pageout_that_fails_again_and_again_is_tried_ever_less_often() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        let mut turns = Vec::new();
        let mut begun = None;
        for now in (0..40_000).step_by(50) {
            // The kernel keeps usage down, pageout does not.
            let usage = if begun.is_some() { 314 } else { 319 };
            let plan = governor.plan(TimeMs(now), usage * MIB);
            match (plan.shrink_bytes > 0, begun) {
                (true, None) => begun = Some(now),
                (false, Some(then)) => {
                    turns.push(now - then);
                    begun = None;
                }
                _ => {}
            }
        }
        assert_eq!(turns, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
    }

    /// The mark was passed for as long as a batch takes, and the kernel took over for two seconds from
    /// a pageout that kept up and chose better: a program that waits for a disk lost a tenth by it.
    #[test]
    fn pageout_that_keeps_up_is_not_relieved() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        for round in 0..20 {
            let now = TimeMs(round * 80);
            let plan = governor.plan(now, 319 * MIB);
            assert!(plan.pageout_pages > 0 && plan.shrink_bytes == 0);
            governor.plan(TimeMs(now.0 + 40), 314 * MIB);
        }
        let between_the_marks = 315 * MIB + MIB / 4;
        governor.plan(TimeMs(2000), 319 * MIB);
        governor.plan(TimeMs(2040), between_the_marks);
        let plan = governor.plan(TimeMs(2080), 319 * MIB);
        assert!(
            plan.shrink_bytes > 0,
            "it has not been down to the high mark since"
        );
    }

    #[test]
    fn in_a_crowd_pageout_does_all_of_it() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        governor.set_room(Room::Crowded);
        governor.plan(TimeMs(0), 319 * MIB);
        let plan = governor.plan(TimeMs(50), 319 * MIB);
        assert!(plan.pageout_pages > 0 && plan.shrink_bytes == 0);
        governor.set_room(Room::Free);
        governor.plan(TimeMs(60), 319 * MIB);
        let plan = governor.plan(TimeMs(110), 319 * MIB);
        assert!(plan.pageout_pages == 0 && plan.shrink_bytes > 0);
    }

    #[test]
    fn programs_that_fill_all_processors_reclaim_for_themselves_at_the_line() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        governor.set_room(Room::Filled);
        for now in (0..5000).step_by(20) {
            let plan = governor.plan(TimeMs(now), 317 * MIB);
            assert_eq!((plan.pageout_pages, plan.shrink_bytes), (0, 0));
            assert_eq!(plan.wait_ms, WAIT_MS_LEFT);
            assert!(!governor.is_kernels_turn());
        }
        let plan = governor.plan(TimeMs(5000), 322 * MIB);
        assert!(
            plan.pageout_pages == 0 && plan.shrink_bytes > 0,
            "over the budget"
        );
        governor.set_room(Room::Free);
        let plan = governor.plan(TimeMs(5020), 319 * MIB);
        assert!(
            plan.shrink_bytes > 0,
            "the kernel at once, it has been urgent for long"
        );
    }

    #[test]
    fn who_asked_for_pageout_gets_it_whoever_has_the_processors() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Pageout);
        governor.set_room(Room::Filled);
        assert!(governor.plan(TimeMs(0), 319 * MIB).pageout_pages > 0);
    }

    /// At the kernel's floor, between two marks, nobody did anything any more.
    #[test]
    fn pageout_goes_on_where_the_kernel_can_go_no_lower() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        governor.plan(TimeMs(0), 319 * MIB);
        assert!(governor.plan(TimeMs(50), 319 * MIB).shrink_bytes > 0);
        governor.kernel_is_done();
        let plan = governor.plan(TimeMs(1000), 315 * MIB + MIB / 2);
        assert!(plan.pageout_pages > 0 && plan.shrink_bytes == 0);
    }

    #[test]
    fn fast_growth_starts_reclaim_earlier() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Reclaim);
        governor.plan(TimeMs(0), 200 * MIB);
        let plan = governor.plan(TimeMs(200), 312 * MIB);
        assert!(
            plan.shrink_bytes > 0,
            "growing 112 MiB in 200 ms, 3 MiB below the high mark"
        );
    }

    #[test]
    fn a_smaller_budget_is_reclaimed_to_at_once() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Pageout);
        assert_eq!(governor.plan(TimeMs(0), 200 * MIB).pageout_pages, 0);
        governor.set_budget(160 * MIB);
        assert!(governor.plan(TimeMs(1000), 200 * MIB).pageout_pages > 0);
    }

    #[test]
    fn reclaim_begins_and_ends_within_what_is_said_to_be_held() {
        let budget = 320 * MIB;
        let held = Held::of(budget);
        // Growth as fast as can be: reclaim gets as far ahead as it may.
        let mut governor = Governor::new(budget, ActuatorChoice::Pageout);
        governor.plan(TimeMs(0), 100 * MIB);
        assert!(governor.plan(TimeMs(5), 316 * MIB).pageout_pages > 0);
        let pages = governor
            .plan(TimeMs(6), held.least_bytes + MIB)
            .pageout_pages;
        assert_eq!(pages, MIB / PAGE_BYTES, "down to the least, no further");
        assert_eq!(governor.plan(TimeMs(7), held.least_bytes).pageout_pages, 0);
        // No growth: between the marks, which lie between least and most.
        let marks = governor.marks();
        assert!(held.least_bytes < marks.low && marks.high < held.most_bytes);
    }

    #[test]
    fn a_larger_budget_holds_more_and_never_all_of_itself() {
        let budgets = (1..2000)
            .map(|n| n * 64 * PAGE_BYTES)
            .chain([1 << 33, 1 << 40]);
        let held: Vec<(u64, Held)> = budgets.map(|budget| (budget, Held::of(budget))).collect();
        for (budget, held) in &held {
            assert!(
                0 < held.least_bytes && held.most_bytes < *budget,
                "{held:?}"
            );
            assert!(held.least_bytes <= held.middle_bytes && held.middle_bytes <= held.most_bytes);
        }
        assert!(held.is_sorted_by_key(|(_, held)| held.least_bytes));
        assert!(held.is_sorted_by_key(|(_, held)| held.most_bytes));
    }

    #[test]
    fn an_idle_program_is_looked_at_once_a_second() {
        let mut governor = Governor::new(320 * MIB, ActuatorChoice::Auto);
        let mut now = 0;
        let mut wait_ms = 0;
        for _ in 0..12 {
            wait_ms = governor.plan(TimeMs(now), 100 * MIB).wait_ms;
            now += wait_ms;
        }
        assert_eq!(wait_ms, WAIT_MS_MAX);
    }

    /// The mark once lay above the line below 800 MiB: usage never reached it, the kernel was never
    /// asked, and the program reclaimed in its own faults at half the speed.
    #[test]
    fn the_urgent_mark_can_be_reached_below_the_line_at_every_budget() {
        for budget in [MIB / 2, 2 * MIB, 60 * MIB, 180 * MIB, 1 << 30, 1 << 36] {
            let marks = Marks::new(budget);
            let line = budget - dip_step_bytes(budget);
            assert!(0 < marks.low && marks.low < marks.high, "{marks:?}");
            assert!(
                marks.high < marks.urgent && marks.urgent < line,
                "{marks:?}"
            );
        }
    }
}
