//! Kept traces of the loop: fed what was read, it decides what it decided then.
//!
//! Two are of live runs on two processors, Linux 6.18 and cgroup v1, one is of the simulator; each was written by `--trace FILE`
//! and packed by `gzip -9n`:
//!
//! ```text
//! programs    strata run --memory 108M --swap zram:512M -- zipf --size 180M --theta 0.99 --seconds 6 --threads 12
//! pageout     strata run --memory 54M --swap zram:256M --policy mglru --actuator pageout -- zipf --size 90M --theta 0.99 --seconds 3
//! page-cache  strata sim gen:loop,pages=12288,accesses=140000 --policy two-list --memory 60% --steered
//! ```

use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use strata_control::Reclaimer;
use strata_control::drive::{Limits, hold_limit};
use strata_control::limit::{Answer, Limit, Standing, Step};
use strata_control::trace::{Note, Recorder, Turn};
use strata_control::{
    Action, Actuator, CgroupVersion, Config, Control, GroupStats, Setup, Watermarks,
};
use strata_lru::Swappiness;

fn kept(name: &str) -> Vec<Turn> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let file = File::open(folder.join(format!("{name}.jsonl.gz"))).expect("a trace");
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let turns = lines.map(|line| serde_json::from_str(&line.expect("gzip")).expect("a turn"));
    turns.collect()
}

fn marks(turns: &[Turn]) -> Watermarks {
    let mut notes = turns.iter().flat_map(|turn| &turn.notes);
    let marks = notes.find_map(|note| match note {
        Note::Marks(marks) => Some(*marks),
        _ => None,
    });
    marks.expect("a budget")
}

/// The first turn at which the loop decides otherwise than the trace says.
fn difference(turns: &[Turn], actuator: Actuator) -> Option<String> {
    let setup = Setup {
        budget_bytes: marks(turns).budget_bytes,
        actuator,
        swappiness: Swappiness::DEFAULT,
        min_ttl_ms: 0,
        is_dry_run: false,
        is_exact: actuator == Actuator::Pageout,
        has_pageout: true,
        has_kernel: true,
        cpu_percent_max: None,
        nr_processors: 2,
    };
    let mut control = Control::new(setup, &Config::default());
    turns.iter().find_map(|turn| {
        let is = control.tick(turn.sample.clone()?);
        if turn.standing != Standing::Fine {
            control.back_off();
        }
        let was = turn.plan.as_ref()?;
        (is != *was).then(|| format!("at {:?} {was:?} became {is:?}", turn.now))
    })
}

#[test]
fn fed_what_was_read_the_loop_decides_as_it_did() {
    for (name, actuator) in [
        ("programs", Actuator::Auto),
        ("pageout", Actuator::Pageout),
        ("page-cache", Actuator::Auto),
    ] {
        let turns = kept(name);
        assert_eq!(difference(&turns, actuator), None, "{name}");
        let plans = || turns.iter().filter_map(|turn| turn.plan.as_ref());
        let nr_of = |is: fn(&Action) -> bool| {
            plans()
                .flat_map(|of| &of.actions)
                .filter(|of| is(of))
                .count()
        };
        // Each shows what it was recorded for.
        let nr_shown = match name {
            "programs" => plans()
                .filter(|of| of.decision.reclaimer == Reclaimer::Programs)
                .count(),
            "pageout" => nr_of(|of| matches!(of, Action::PageOut { .. })),
            _ => nr_of(|of| matches!(of, Action::DropNewcomers { .. })),
        };
        assert!(nr_shown >= 20, "{name}: {nr_shown}");
    }
}

#[test]
fn fed_something_else_it_decides_otherwise() {
    let changes: [fn(&mut Turn); 3] = [
        |turn| turn.sample.iter_mut().for_each(|of| of.usage_bytes += 4096),
        |turn| turn.sample.iter_mut().for_each(|of| of.cpu = None),
        |turn| {
            turn.sample
                .iter_mut()
                .for_each(|of| of.now.0 += of.now.0 / 50)
        },
    ];
    for change in changes {
        let mut turns = kept("programs");
        turns.iter_mut().for_each(change);
        assert!(difference(&turns, Actuator::Auto).is_some());
    }
}

/// What was read of the limit and done to it in one turn, in order.
struct Replayed<'a> {
    notes: std::slice::Iter<'a, Note>,
    nr_steps: usize,
}

impl Limits for Replayed<'_> {
    type Error = String;

    fn counters(&mut self) -> Result<Option<GroupStats>, String> {
        match self.notes.next() {
            Some(Note::Counters(stats)) => Ok(*stats),
            other => Err(format!("{other:?} became a reading")),
        }
    }

    fn take_step(&mut self, step: Step) -> Result<Answer, String> {
        self.nr_steps += 1;
        match self.notes.next() {
            Some(Note::Step(was, Some(answer))) if *was == step => Ok(*answer),
            other => Err(format!("{other:?} became {step:?}")),
        }
    }
}

#[test]
fn fed_what_was_read_the_limit_is_moved_as_it_was() {
    for (name, version) in [
        ("programs", CgroupVersion::V1),
        ("pageout", CgroupVersion::V1),
        ("page-cache", CgroupVersion::V2),
    ] {
        let turns = kept(name);
        let (marks, config) = (marks(&turns), Config::default());
        let mut limit = Limit::new(version, &marks, config.limit);
        let mut nr_steps = 0;
        for turn in &turns {
            let mut on = Replayed {
                notes: turn.notes.iter(),
                nr_steps: 0,
            };
            while let Some(note) = on.notes.next() {
                let Note::Limit { need, can_swap } = *note else {
                    continue;
                };
                let none = Recorder::default();
                let held = hold_limit(&mut limit, &mut on, &none, turn.now, need, &marks, can_swap);
                held.unwrap_or_else(|why| panic!("{name} at {:?}: {why}", turn.now));
                let left = on.notes.as_slice().first();
                let is_left = matches!(left, Some(Note::Step(..) | Note::Counters(_)));
                assert!(!is_left, "{name} at {:?}: {left:?} is not done", turn.now);
            }
            nr_steps += on.nr_steps;
        }
        assert!(nr_steps >= 300, "{name}: {nr_steps}");
    }
}
