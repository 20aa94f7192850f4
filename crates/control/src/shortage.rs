//! Memory that is short: of the host, or below the limit of a group; how much has to go, and when to look again.
//!
//! The host is a group whose budget is its memory, a limit is one by itself: reclaim begins at the high mark, ends at the low one, and gets
//! ahead of growth (`watermarks`, `pressure`). What is available of the host counts from the kernel's own watermarks on, so what goes here
//! goes before the kernel reclaims; page cache counts as available there, and as used below a limit, as the kernel reclaims at it.
//! The kernel frees that page cache only by reclaim, so the mark of a host is no lower than those watermarks, whatever is named.
//!
//! **Owns** when memory counts as short, and by how much. **Does not own** reading (the host), nor what goes then
//! (`oldest`).
//!
//! **Invariants** I1: where memory is left to the kernel nothing is missing of the host, whatever else is read.

use crate::pressure::{self, Pressure, Work};
use crate::watermarks::{self, Watermarks};
use strata_lru::TimeMs;

/// Tasks of the host that wait for memory for more than this share of the time, percent: memory is short, whatever counts as
/// available. A host with memory to spare is below 1.
const WAITING_PERCENT_MAX: f64 = 10.0;
/// While they wait, so much of the host's memory goes a second, a hundredth: the share that waits is told of the last ten seconds, so
/// larger steps would go on for long after there is enough.
const WAITING_STEP: f64 = 0.01;
const WAITING_STEP_MS: u64 = 1000;
/// Two marks lie a thirty-second of the memory apart, and at most 1 GiB: what a few programs take as they start.
const MARKS: watermarks::Config = watermarks::Config {
    mark_share: 32,
    mark_bytes_max: 1 << 30,
    ..watermarks::Config::DEFAULT
};
/// What is idle is found by a walk of everybody, and compressed page by page: that takes seconds, not the milliseconds within which a
/// budget's tunables may lie.
const PRESSURE: pressure::Config = pressure::Config {
    reaction_ms: 5000,
    growth_window_ms: 1000,
    wait_ms_min: 50,
    ..pressure::Config::DEFAULT
};
/// A program that starts takes hundreds of MiB within a second, more than two marks of a small host lie apart: while programs start, up to
/// an eighth of the host's memory is kept for that.
const HOST_PRESSURE: pressure::Config = pressure::Config {
    ahead_marks_max: 4,
    ..PRESSURE
};
/// Memory that will be short within so long is looked at more often, so that ages are known when they are needed.
const NEAR_MS: u64 = 30_000;

/// How much memory is to be available.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Free {
    /// A thirty-second, and what it grows by while Strata reacts, at most four times as much again.
    #[default]
    Auto,
    /// This share, and as much again as `Auto` adds for growth.
    Share(f64),
    /// That is left to the kernel.
    Any,
}

/// What is read of the host, or of a limit, at each look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// All memory; the limit.
    pub total_bytes: u64,
    /// What the kernel thinks new programs could have; what is left to the limit.
    pub available_bytes: u64,
    /// Share of the last ten seconds in which some task of the host waited for memory; `None`: the kernel does not tell, or it is not
    /// asked.
    pub waiting_percent: Option<f64>,
}

/// How the host, or a limit, stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Has to go, of all groups.
    pub missing_bytes: u64,
    /// With less available it is short; 0: it never is.
    pub wanted_bytes: u64,
    /// Half way from there to where reclaim ends.
    pub ample_bytes: u64,
    /// With less available it is short, or will be before anything more can go, as fast as it grows: at least `wanted_bytes`, and
    /// of a host what the kernel keeps free by itself.
    pub begin_bytes: u64,
    /// It is short, or will be soon.
    pub is_near: bool,
    /// Look again after this, milliseconds.
    pub wait_ms: u64,
}

/// Whether memory is short; see the module.
#[derive(Debug, Default)]
pub struct Shortage {
    is_of_host: bool,
    free: Free,
    total_bytes: u64,
    /// The kernel keeps so much free by itself.
    watermark_bytes: u64,
    /// With the marks, what is wanted. `None`: not looked at yet, or left to the kernel.
    budget: Option<(u64, Watermarks, Pressure)>,
    /// Memory went last because tasks waited.
    stepped_at: Option<TimeMs>,
    need: Need,
}

impl Shortage {
    /// Of the host; `default` is that of a limit.
    pub fn of_host() -> Shortage {
        Shortage {
            is_of_host: true,
            ..Shortage::default()
        }
    }

    /// So much is to be available from now on.
    pub fn set_free(&mut self, free: Free) {
        if free != self.free {
            *self = Shortage {
                is_of_host: self.is_of_host,
                watermark_bytes: self.watermark_bytes,
                free,
                ..Shortage::default()
            };
        }
    }

    /// The kernel keeps so much of the host free by itself (the high watermarks of all zones).
    pub fn set_watermark(&mut self, watermark_bytes: u64) {
        if watermark_bytes != self.watermark_bytes {
            (self.watermark_bytes, self.total_bytes) = (watermark_bytes, 0);
        }
    }

    /// Whether memory can be short: it is not left to the kernel.
    pub fn can_be_short(&self) -> bool {
        self.free != Free::Any
    }

    /// How it stood at the last look.
    pub fn need(&self) -> Need {
        self.need
    }

    /// Ends reclaim, as nothing is left that is idle for long enough: it begins again at the high mark.
    pub fn settle(&mut self) {
        if let Some((.., pressure)) = &mut self.budget {
            pressure.settle();
        }
        self.need.missing_bytes = 0;
    }

    /// Counts memory as not short until the next look, as nothing can be read of it.
    pub fn forget(&mut self) {
        self.need = Need::default();
    }

    /// How it stands.
    pub fn look(&mut self, now: TimeMs, read: &Reading) -> Need {
        if self.total_bytes != read.total_bytes {
            self.total_bytes = read.total_bytes;
            let known = self.budget.take().map(|(.., pressure)| pressure);
            let config = match self.is_of_host {
                true => HOST_PRESSURE,
                false => PRESSURE,
            };
            let pressure = known.unwrap_or_else(|| Pressure::new(config, 0));
            let marks = marks_of(self.free, read.total_bytes, self.watermark_bytes);
            self.budget = marks.map(|(wanted_bytes, marks)| (wanted_bytes, marks, pressure));
        }
        let Some((wanted_bytes, marks, pressure)) = &mut self.budget else {
            return Need::default();
        };
        let usage_bytes = read.total_bytes.saturating_sub(read.available_bytes);
        pressure.sample(now, usage_bytes, marks);
        let ask = pressure.ask(marks, Work::Ours);
        // A burst on a host with much memory left lasts no half minute.
        let is_close = read.available_bytes < read.total_bytes / 4;
        // Tasks may wait below limits of their own, of which the host knows nothing.
        let waits = is_close && read.waiting_percent > Some(WAITING_PERCENT_MAX);
        let may_step = (self.stepped_at).is_none_or(|then| now.since(then) >= WAITING_STEP_MS);
        let step_bytes = match waits && may_step {
            true => (read.total_bytes as f64 * WAITING_STEP) as u64,
            false => 0,
        };
        if step_bytes > 0 {
            self.stepped_at = Some(now);
        }
        self.need = Need {
            missing_bytes: ask.excess_bytes.max(step_bytes),
            wanted_bytes: *wanted_bytes,
            ample_bytes: *wanted_bytes + (marks.high_bytes - marks.low_bytes) / 2,
            begin_bytes: read.total_bytes - pressure.begin_bytes(marks),
            is_near: waits
                || pressure.is_reclaiming()
                || is_close && pressure.is_near(marks, NEAR_MS),
            wait_ms: ask.wait_ms,
        };
        self.need
    }
}

/// What is wanted of so much memory, and the marks, no lower than this; `None`: it is the kernel's business.
fn marks_of(free: Free, total_bytes: u64, least_bytes: u64) -> Option<(u64, Watermarks)> {
    let auto = Watermarks::new(total_bytes, &MARKS);
    let step_bytes = auto.budget_bytes - auto.high_bytes;
    let wanted_bytes = match free {
        Free::Any => return None,
        Free::Auto => step_bytes,
        Free::Share(share) => (total_bytes as f64 * share) as u64,
    };
    let begin_bytes = wanted_bytes.max(least_bytes);
    let high_bytes = total_bytes.saturating_sub(begin_bytes);
    let marks = Watermarks {
        high_bytes,
        low_bytes: high_bytes.saturating_sub(step_bytes.min(begin_bytes)),
        ..auto
    };
    Some((wanted_bytes.min(total_bytes), marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What each look at a host of 8000 MiB asks for, MiB: a look a second.
    fn looks(free: Free, available_mib: &[u64], waiting_percent: Option<f64>) -> Vec<Need> {
        let mut shortage = Shortage::of_host();
        shortage.set_free(free);
        let look = |(second, mib): (usize, &u64)| {
            let host = Reading {
                total_bytes: 8000 * MIB,
                available_bytes: mib * MIB,
                waiting_percent,
            };
            shortage.look(TimeMs(second as u64 * 1000), &host)
        };
        available_mib.iter().enumerate().map(look).collect()
    }

    fn missing_mib(needs: &[Need]) -> Vec<u64> {
        let missing = needs.iter().map(|need| need.missing_bytes.div_ceil(MIB));
        missing.collect()
    }

    #[test]
    fn a_host_that_holds_still_is_short_below_a_thirty_second_and_until_as_much_again_is_available()
    {
        let needs = looks(Free::Auto, &[4000, 4000, 4000], None);
        assert!(
            needs
                .iter()
                .all(|need| !need.is_near && need.missing_bytes == 0)
        );
        assert_eq!(needs[2].wanted_bytes, 250 * MIB);
        // It comes down too slowly to be got ahead of.
        let slowly: Vec<u64> = (0..=120).map(|n| 350 - n).chain([400, 600, 590]).collect();
        let needs = looks(Free::Auto, &slowly, None);
        assert_eq!(missing_mib(&needs[..=90]), vec![0; 91]);
        assert!(needs[120].missing_bytes >= 270 * MIB && needs[120].is_near);
        assert_eq!(
            missing_mib(&needs[122..]),
            [0, 0],
            "until there is as much again"
        );
    }

    #[test]
    fn a_host_that_grows_fast_is_near_long_before_it_is_short_and_gets_ahead_of_that() {
        let fast: Vec<u64> = (0..80).map(|n| 4000 - 45 * n).collect();
        let needs = looks(Free::Auto, &fast, None);
        let first = |is_there: &dyn Fn(&Need) -> bool| needs.iter().position(is_there);
        let near = first(&|need| need.is_near).expect("near");
        let short = first(&|need| need.missing_bytes > 0).expect("short");
        let available_mib = |at: usize| fast[at];
        assert!((1400..2000).contains(&available_mib(near)), "{near}");
        assert!((430..=480).contains(&available_mib(short)), "{short}");
        assert_eq!(needs[short].wait_ms, PRESSURE.wait_ms_min);
    }

    #[test]
    fn while_programs_start_in_bursts_up_to_an_eighth_more_is_kept_and_a_host_that_holds_still_keeps_none()
     {
        let bursts: Vec<u64> = (0..9).map(|n| 4000 - 300 * n).collect();
        let needs = looks(Free::Auto, &bursts, None);
        let begins_mib = |need: &Need| need.begin_bytes / MIB;
        assert_eq!(begins_mib(&needs[8]), 250 + 4 * 250);
        assert_eq!(
            needs[8].wanted_bytes,
            250 * MIB,
            "short it is below that only"
        );
        let needs = looks(Free::Auto, &[1600; 20], None);
        assert_eq!(begins_mib(&needs[19]), 250);
        let most = looks(Free::Share(0.95), &[7900, 7000], None);
        assert_eq!(begins_mib(&most[1]), 8000, "no more than there is");
        let mut limit = Shortage::default();
        let mut begins_mib = 0;
        for (second, available_mib) in (0..).zip(bursts) {
            let read = Reading {
                total_bytes: 8000 * MIB,
                available_bytes: available_mib * MIB,
                waiting_percent: None,
            };
            begins_mib = limit.look(TimeMs(second * 1000), &read).begin_bytes / MIB;
        }
        assert_eq!(begins_mib, 2 * 250, "page cache fills what a limit leaves");
    }

    #[test]
    fn a_burst_on_a_host_with_much_memory_left_is_nothing_to_hurry_for() {
        let needs = looks(Free::Auto, &[7000, 5000, 5000, 5000], None);
        assert!(needs.iter().all(|need| !need.is_near), "{needs:?}");
    }

    #[test]
    fn a_share_says_when_a_host_is_short_and_left_to_the_kernel_it_never_is() {
        assert_eq!(missing_mib(&looks(Free::Share(0.1), &[900], None)), [0]);
        let short = looks(Free::Share(0.1), &[700], None);
        assert_eq!(missing_mib(&short), [350], "and a thirty-second more");
        assert_eq!(short[0].wanted_bytes, 800 * MIB);
        assert_eq!(looks(Free::Any, &[1], Some(100.0)), [Need::default()]);
    }

    #[test]
    fn however_little_is_named_the_mark_is_no_lower_than_what_the_kernel_keeps_free_and_growth_is_added()
     {
        for free in [Free::Auto, Free::Share(0.001)] {
            let mut shortage = Shortage::of_host();
            shortage.set_free(free);
            let mut look = |second: u64, available_mib: u64, watermark_mib: u64| {
                shortage.set_watermark(watermark_mib * MIB);
                let host = Reading {
                    total_bytes: 8000 * MIB,
                    available_bytes: available_mib * MIB,
                    waiting_percent: None,
                };
                let need = shortage.look(TimeMs(second * 1000), &host);
                let mib = [need.begin_bytes, need.missing_bytes, need.wanted_bytes];
                mib.map(|bytes| bytes / MIB)
            };
            let [_, _, wanted] = look(0, 410, 0);
            assert_eq!(look(1, 410, 400), [400, 0, wanted]);
            let [begin, missing, _] = look(2, 390, 400);
            assert!((499..=500).contains(&begin), "20 MiB/s, and 5 s to react");
            assert!(missing > 0 && wanted <= 250);
        }
    }

    #[test]
    fn a_host_whose_tasks_wait_gives_a_hundredth_with_each_look() {
        assert_eq!(missing_mib(&looks(Free::Auto, &[1500], Some(9.0))), [0]);
        assert_eq!(missing_mib(&looks(Free::Auto, &[1500], Some(11.0))), [80]);
        let far = looks(Free::Auto, &[4000], Some(60.0));
        assert_eq!(
            (missing_mib(&far), far[0].is_near),
            (vec![0], false),
            "they wait for something else"
        );
    }

    #[test]
    fn however_often_a_host_whose_tasks_wait_is_looked_at_a_hundredth_goes_a_second() {
        let mut shortage = Shortage::of_host();
        let mut missing_mib = 0;
        for now_ms in (0..3000).step_by(50) {
            let host = Reading {
                total_bytes: 8000 * MIB,
                available_bytes: 1500 * MIB,
                waiting_percent: Some(50.0),
            };
            missing_mib += shortage.look(TimeMs(now_ms), &host).missing_bytes / MIB;
        }
        assert_eq!(missing_mib, 240);
    }

    #[test]
    fn where_nothing_is_left_to_take_reclaim_begins_again_at_the_high_mark() {
        let mut shortage = Shortage::of_host();
        let look = |shortage: &mut Shortage, now_ms, available_mib: u64| {
            let host = Reading {
                total_bytes: 8000 * MIB,
                available_bytes: available_mib * MIB,
                waiting_percent: None,
            };
            shortage.look(TimeMs(now_ms), &host).missing_bytes / MIB
        };
        assert!(look(&mut shortage, 0, 200) > 0);
        assert!(look(&mut shortage, 1000, 400) > 0);
        shortage.settle();
        assert_eq!(look(&mut shortage, 2000, 400), 0);
        assert!(look(&mut shortage, 3000, 240) > 0);
    }
}
