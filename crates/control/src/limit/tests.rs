//! The limit against a group as the kernel would have it.

use super::*;
use crate::watermarks;

const MIB: u64 = 1 << 20;
const NOW: TimeMs = TimeMs(10_000);

/// A group as the kernel would have it, with a budget of 100 MiB: the backstop is at 108, the line at 99, and the
/// limit may rise to 164.
struct Group {
    limit: Limit,
    marks: Watermarks,
    limit_bytes: u64,
    usage_bytes: u64,
    /// What a raise is cut down to.
    ceiling_bytes: u64,
}

impl Group {
    fn new(version: CgroupVersion) -> Group {
        Group::configured(version, Config::DEFAULT)
    }

    fn configured(version: CgroupVersion, config: Config) -> Group {
        let marks = Watermarks::new(100 * MIB, &watermarks::Config::DEFAULT);
        Group {
            limit: Limit::new(version, &marks, config),
            marks,
            limit_bytes: marks.backstop_bytes,
            usage_bytes: 99 * MIB,
            ceiling_bytes: u64::MAX,
        }
    }

    /// What the kernel lists: so much can go, of all that is in use.
    fn lists(&mut self, now: TimeMs, evictable_mib: u64) {
        let stats = GroupStats {
            lru_anon_bytes: Some(evictable_mib * MIB),
            ..GroupStats::default()
        };
        self.limit
            .take_counters(now, Some(stats), self.usage_bytes, true);
    }

    /// Carries out what is decided; returns the steps that change something, and what is told.
    fn adjust(
        &mut self,
        now: TimeMs,
        standing: Standing,
        is_under_oom: bool,
    ) -> (Vec<Step>, Option<Trouble>) {
        let need = Need {
            standing,
            is_under_oom,
            has_free_swap: true,
            usage_bytes: self.usage_bytes,
        };
        let mut steps = Vec::new();
        let mut step = self.limit.start(now, need, &self.marks);
        for _ in 0..10 {
            if !matches!(step, Step::Done(_) | Step::LookAtLimit | Step::LookAtUsage) {
                steps.push(step);
            }
            let answer = match step {
                Step::Done(trouble) => return (steps, trouble),
                Step::LookAtLimit => Answer::Limit(Some(self.limit_bytes)),
                Step::LookAtUsage => Answer::Usage(self.usage_bytes),
                Step::Raise { bytes } => {
                    let before = self.limit_bytes;
                    self.limit_bytes = (before + bytes).min(self.ceiling_bytes.max(before));
                    Answer::Raised(self.limit_bytes - before)
                }
                Step::ReleaseLine => {
                    self.limit_bytes = self.marks.backstop_bytes;
                    Answer::Done
                }
                Step::HoldLine => Answer::Line(Line::Held),
                Step::ReleaseHigh | Step::HandBackOom | Step::Settle => Answer::Done,
            };
            step = self.limit.next(answer);
        }
        panic!("it does not end: {steps:?}");
    }
}

#[test]
fn where_nothing_is_wrong_the_kernel_holds_the_line() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let mut group = Group::new(version);
        group.lists(NOW, 90);
        let found = group.adjust(NOW, Standing::Fine, false);
        assert_eq!(found, (vec![Step::HoldLine], None));
        assert!(group.limit.is_line_held());
    }
}

#[test]
fn tasks_that_wait_get_a_step_and_twice_as_much_if_they_wait_again_soon() {
    let mut group = Group::new(CgroupVersion::V1);
    group.usage_bytes = group.limit_bytes;
    group.lists(NOW, 90);
    let mut raised = Vec::new();
    for ms in [0, 100, 200, 300, 400, 2000] {
        let (steps, trouble) = group.adjust(TimeMs(NOW.0 + ms), Standing::Fine, true);
        let [Step::ReleaseHigh, Step::Raise { bytes }] = steps[..] else {
            panic!("{steps:?}");
        };
        assert_eq!(trouble, None);
        raised.push(bytes);
        group.usage_bytes = group.limit_bytes;
    }
    let first = group.marks.high_bytes - group.marks.low_bytes;
    assert_eq!(
        raised,
        [first, 2 * first, 4 * first, 8 * MIB, 8 * MIB, first]
    );
    assert_eq!(group.limit.nr_raises(), 6);
    assert_eq!(group.limit.peak_bytes(), group.limit_bytes);
}

#[test]
fn tasks_that_were_just_woken_are_not_taken_for_waiting() {
    let mut group = Group::new(CgroupVersion::V1);
    group.usage_bytes = group.limit_bytes;
    group.lists(NOW, 90);
    group.adjust(NOW, Standing::Fine, true);
    let (steps, _) = group.adjust(TimeMs(NOW.0 + 49), Standing::Fine, true);
    assert_eq!(steps, [Step::ReleaseHigh]);
    let (steps, _) = group.adjust(TimeMs(NOW.0 + 50), Standing::Fine, true);
    assert_eq!(steps.len(), 2);
}

#[test]
fn a_program_of_which_little_can_go_meets_the_kernel_at_the_bound() {
    let mut group = Group::new(CgroupVersion::V1);
    group.limit_bytes = Config::DEFAULT.most_bytes(&group.marks);
    group.usage_bytes = group.limit_bytes;
    group.lists(NOW, 4);
    let (steps, trouble) = group.adjust(NOW, Standing::Fine, true);
    assert_eq!(steps.last(), Some(&Step::HandBackOom));
    let refused = Trouble::Refused {
        limit_bytes: 164 * MIB,
        has_free_swap: true,
    };
    assert_eq!(trouble, Some(refused));
}

#[test]
fn while_tasks_wait_and_much_can_go_there_is_no_bound() {
    let mut group = Group::new(CgroupVersion::V1);
    group.limit_bytes = 2 * Config::DEFAULT.most_bytes(&group.marks);
    group.usage_bytes = group.limit_bytes;
    group.lists(NOW, 90);
    let (steps, trouble) = group.adjust(NOW, Standing::Fine, true);
    assert!(matches!(steps[1], Step::Raise { .. }) && trouble.is_none());
}

#[test]
fn what_cannot_go_has_the_limit_give_way_at_once_to_the_bound() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let mut group = Group::new(version);
        group.lists(NOW, 0);
        let (steps, trouble) = group.adjust(NOW, Standing::Fine, false);
        let bytes = Config::DEFAULT.most_bytes(&group.marks) - group.marks.backstop_bytes;
        assert_eq!(steps, [Step::ReleaseHigh, Step::Raise { bytes }]);
        assert_eq!((trouble, group.limit_bytes), (None, 164 * MIB));
        assert_eq!(group.limit.peak_bytes(), 164 * MIB);
        let is_v1 = version == CgroupVersion::V1;
        assert_eq!(group.limit.may_have_caused_fault(NOW), is_v1);
        assert!(!group.limit.may_have_caused_fault(TimeMs(NOW.0 + 1001)));
    }
}

#[test]
fn on_v1_the_line_is_released_first_and_that_may_be_enough() {
    let mut group = Group::new(CgroupVersion::V1);
    group.limit_bytes = group.marks.line_bytes;
    group.usage_bytes = 95 * MIB;
    // The floor is at 90: near a line at 99, not near the backstop at 108 by less than two steps.
    group.lists(NOW, 5);
    let (steps, trouble) = group.adjust(NOW, Standing::Fine, false);
    assert_eq!(steps, [Step::ReleaseLine, Step::Settle]);
    assert_eq!(trouble, None);
}

#[test]
fn a_limit_that_others_hold_down_is_told_once_it_can_not_rise() {
    let mut group = Group::new(CgroupVersion::V2);
    group.ceiling_bytes = group.limit_bytes;
    group.usage_bytes = group.limit_bytes;
    group.lists(NOW, 0);
    let (steps, trouble) = group.adjust(NOW, Standing::NothingEvictable, false);
    assert!(!steps.contains(&Step::HandBackOom), "{steps:?}");
    assert!(matches!(trouble, Some(Trouble::Refused { .. })));
    assert_eq!(group.limit.nr_raises(), 0);
}

#[test]
fn a_floor_above_the_budget_lifts_what_slows_and_holds_no_line() {
    let mut group = Group::new(CgroupVersion::V2);
    group.limit_bytes = Config::DEFAULT.most_bytes(&group.marks);
    group.usage_bytes = 110 * MIB;
    group.lists(NOW, 5);
    let (steps, _) = group.adjust(NOW, Standing::Fine, false);
    assert_eq!(steps, [Step::ReleaseHigh]);
    assert!(!group.limit.is_line_held());
}

#[test]
fn where_all_is_young_the_budget_is_exceeded_and_that_is_told() {
    let mut group = Group::new(CgroupVersion::V2);
    group.usage_bytes = 105 * MIB;
    group.lists(NOW, 90);
    let (steps, trouble) = group.adjust(NOW, Standing::Thrashing, false);
    assert!(matches!(steps[..], [Step::ReleaseHigh, Step::Raise { .. }]));
    assert_eq!(trouble, Some(Trouble::Exceeded));
    // With room enough there is no need.
    group.usage_bytes = 99 * MIB;
    let (steps, trouble) = group.adjust(TimeMs(NOW.0 + 5000), Standing::Thrashing, false);
    assert_eq!((&steps[..], trouble), (&[Step::ReleaseHigh][..], None));
}

#[test]
fn nothing_evictable_matters_above_the_urgent_mark_only() {
    let mut group = Group::new(CgroupVersion::V2);
    group.lists(NOW, 90);
    group.usage_bytes = group.marks.urgent_bytes;
    let (steps, _) = group.adjust(NOW, Standing::NothingEvictable, false);
    assert_eq!(steps, [Step::HoldLine]);
    group.usage_bytes = group.marks.backstop_bytes;
    let (steps, _) = group.adjust(NOW, Standing::NothingEvictable, false);
    assert!(matches!(steps[..], [Step::ReleaseHigh, Step::Raise { .. }]));
}

#[test]
fn the_kernels_counts_are_read_near_the_budget_and_no_more_often_than_they_tell() {
    let mut group = Group::new(CgroupVersion::V1);
    let marks = group.marks;
    let mut wants = |ms, usage_mib, is_under_oom| {
        let (now, usage_bytes) = (TimeMs(ms), usage_mib * MIB);
        let wanted = group
            .limit
            .wants_counters(now, &marks, usage_bytes, is_under_oom);
        if wanted == Some(true) {
            group.usage_bytes = usage_bytes;
            group.lists(now, usage_mib - 5);
        }
        wanted
    };
    assert_eq!(wants(0, 80, false), None);
    assert_eq!(wants(0, 80, true), Some(true), "tasks wait");
    assert_eq!(wants(5, 80, false), None);
    assert_eq!(wants(10, 98, false), Some(true));
    assert_eq!(wants(29, 98, false), Some(false));
    assert_eq!(wants(29, 101, false), Some(true), "it has grown");
    assert_eq!(wants(48, 101, false), Some(false));
    assert_eq!(wants(49, 101, false), Some(true));
}

#[test]
fn an_answer_that_belongs_to_nothing_ends_the_job() {
    let mut group = Group::new(CgroupVersion::V1);
    assert_eq!(group.limit.next(Answer::Done), Step::Done(None));
    let need = Need {
        standing: Standing::Fine,
        is_under_oom: false,
        has_free_swap: true,
        usage_bytes: 0,
    };
    group.limit.start(NOW, need, &group.marks);
    assert_eq!(group.limit.next(Answer::Raised(1)), Step::Done(None));
    assert_eq!(group.limit.next(Answer::Limit(None)), Step::Done(None));
}

#[test]
fn a_small_budget_gives_way_by_half_a_megabyte_at_first() {
    let mut group = Group::new(CgroupVersion::V1);
    group.marks = Watermarks::new(10 * MIB, &watermarks::Config::DEFAULT);
    group.limit_bytes = group.marks.backstop_bytes;
    group.usage_bytes = group.limit_bytes;
    group.lists(NOW, 15);
    let (steps, _) = group.adjust(NOW, Standing::Fine, true);
    let first = Step::Raise { bytes: MIB / 2 };
    assert_eq!(steps, [Step::ReleaseHigh, first]);
}

#[test]
fn growth_by_more_than_lies_between_the_marks_makes_counts_old() {
    let mut group = Group::new(CgroupVersion::V2);
    let marks = group.marks;
    group.lists(NOW, 90);
    let grown_bytes = group.usage_bytes + marks.high_bytes - marks.low_bytes;
    let mut wants = |usage_bytes| {
        let limit = &mut group.limit;
        limit.wants_counters(NOW, &marks, usage_bytes, false)
    };
    assert_eq!(wants(grown_bytes), Some(false));
    assert_eq!(wants(grown_bytes + 1), Some(true));
}

/// One reading that failed had the limit give way as far as it may: all that is in use was taken for what can't go.
#[test]
fn counts_that_can_not_be_read_leave_what_was_known() {
    let mut group = Group::new(CgroupVersion::V2);
    group.lists(NOW, 90);
    let usage_bytes = group.usage_bytes;
    group
        .limit
        .take_counters(TimeMs(NOW.0 + 20), None, usage_bytes, true);
    let found = group.adjust(TimeMs(NOW.0 + 20), Standing::Fine, false);
    assert_eq!(found, (vec![Step::HoldLine], None));
    // Nothing was ever known: nothing is said to be stuck.
    let mut group = Group::new(CgroupVersion::V2);
    group.limit.take_counters(NOW, None, usage_bytes, true);
    let found = group.adjust(NOW, Standing::Fine, false);
    assert_eq!(found, (vec![Step::HoldLine], None));
}

#[test]
fn a_limit_that_may_give_way_less_meets_the_kernel_earlier() {
    let config = Config {
        raised_bytes_min: 16 * MIB,
        raised_share: 10,
        ..Config::DEFAULT
    };
    let mut group = Group::configured(CgroupVersion::V1, config);
    group.lists(NOW, 0);
    group.adjust(NOW, Standing::Fine, false);
    assert_eq!(group.limit_bytes, 116 * MIB);
}

#[test]
fn what_can_not_go_is_a_pinch_only_above_its_bound() {
    let is_pinch = |floor_bytes| {
        let mut group = Group::new(CgroupVersion::V1);
        group.usage_bytes = floor_bytes;
        group.lists(NOW, 0);
        group.limit.is_pinch(&group.marks, floor_bytes)
    };
    let marks = Watermarks::new(100 * MIB, &watermarks::Config::DEFAULT);
    let most_bytes = Config::DEFAULT.floor_bytes_max(&marks);
    assert!(!is_pinch(most_bytes));
    assert!(is_pinch(most_bytes + 1));
}

#[test]
fn counts_are_read_where_what_can_not_go_may_be_near_and_reclaim_is_not() {
    let marks = Watermarks::new(320 << 20, &watermarks::Config::DEFAULT);
    let usage_bytes = marks.budget_bytes / 10 * 9;
    assert!(usage_bytes < marks.low_bytes);
    let mut limit = Limit::new(CgroupVersion::V1, &marks, Config::DEFAULT);
    let wants = limit.wants_counters(TimeMs(0), &marks, usage_bytes, false);
    assert_eq!(wants, Some(true));
    let far = limit.wants_counters(TimeMs(0), &marks, usage_bytes / 2, false);
    assert_eq!(far, None);
}
