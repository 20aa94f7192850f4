//! The kept traces of the control loop (`tests/control-traces`): what holds of any trace holds of them, and each shows what
//! it was recorded for.

use crate::support;

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use strata_host::run::trace::{
    CacheAsk, Line, Plan, Recorded, Report, Request, Standing, Tick, Who, read,
};
use support::control_trace::violations;
use support::programs::checkout;

/// One of a few KiB would show nothing, and more does not belong into a repository.
const FILE_BYTES_MAX: u64 = 300 << 10;

fn folder() -> PathBuf {
    checkout().join("tests/control-traces")
}

/// Name and text of each.
fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder())
        .expect("the folder of traces")
        .flatten()
    {
        let name = entry.file_name().into_string().expect("UTF-8");
        let Some(name) = name.strip_suffix(".jsonl.gz") else {
            continue;
        };
        let nr_bytes = entry.metadata().expect("readable").len();
        assert!(nr_bytes <= FILE_BYTES_MAX, "{name} has {nr_bytes} bytes");
        let mut text = String::new();
        let mut file = GzDecoder::new(File::open(entry.path()).expect("readable"));
        file.read_to_string(&mut text).expect("gzip");
        texts.push((name.to_owned(), text));
    }
    texts.sort();
    texts
}

fn parse(name: &str, text: &str) -> Recorded {
    read(BufReader::new(text.as_bytes())).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn trace(name: &str) -> Recorded {
    let texts = texts();
    let (_, text) = texts
        .iter()
        .find(|(of, _)| of == name)
        .unwrap_or_else(|| panic!("no trace {name}"));
    parse(name, text)
}

#[test]
fn what_holds_of_any_trace_holds_of_the_kept_ones() {
    let texts = texts();
    let mut found = Vec::new();
    for (name, text) in &texts {
        let recorded = parse(name, text);
        assert!(recorded.end.is_some(), "{name} was cut short");
        found.extend(
            violations(&recorded)
                .into_iter()
                .map(|what| format!("{name} {what}")),
        );
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The README names the command of each, and there is none it does not name.
#[test]
fn every_kept_trace_is_told_of() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("a README");
    let script =
        fs::read_to_string(checkout().join("scripts/control-traces.sh")).expect("a script");
    let texts = texts();
    assert!(texts.len() >= 10, "{} traces", texts.len());
    for (name, _) in texts {
        assert!(
            readme.contains(&format!("| `{name}` |")),
            "{name}: README.md"
        );
        assert!(
            script.contains(&format!("load_{}()", name.replace('-', "_"))),
            "{name}"
        );
    }
}

fn asked_bytes(plan: &Plan) -> u64 {
    plan.reclaim
        .filter(|ask| ask.is_taken)
        .map_or(0, |ask| ask.bytes)
}

fn is_left(tick: &&Tick) -> bool {
    tick.plan
        .reclaimer
        .is_some_and(|of| of.who == Who::Programs)
}

#[test]
fn each_shows_what_it_was_recorded_for() {
    for (name, text) in texts() {
        let recorded = parse(&name, &text);
        let ticks = || recorded.ticks.iter();
        let marks = recorded.header.run.marks;
        let near = ticks().filter(|tick| tick.sample.usage_bytes > Some(marks.low_bytes));
        let nr_near = near.count();
        if name.starts_with("idle") {
            let nr_asleep = ticks().filter(|tick| tick.plan.wait_ms == 1000).count();
            assert!(
                nr_asleep >= 3 && nr_near == 0,
                "{name}: {nr_asleep} {nr_near}"
            );
            continue;
        }
        assert!(nr_near >= 20, "{name}: {nr_near} ticks near the budget");
        let is_taken = ticks().any(|tick| asked_bytes(&tick.plan) > 0)
            || ticks().any(|tick| !tick.plan.batches.is_empty())
            || ticks().any(|tick| is_left(&tick));
        assert!(is_taken, "{name}: nobody reclaims");
        let nr_programs = ticks().filter_map(|tick| tick.sample.members.as_ref());
        let nr_programs = nr_programs.map(|of| of.programs.len()).max();
        if name.starts_with("two-processes") {
            assert!(nr_programs >= Some(2), "{name}: {nr_programs:?}");
        }
        if name == "many-threads" {
            let nr_left = ticks().filter(is_left).count();
            assert!(nr_left >= 20, "{name}: {nr_left}");
        }
        if name == "two-threads" {
            let mut shares = ticks().filter_map(|tick| tick.plan.share);
            assert!(shares.any(|share| share.wanted_threads > 1.5), "{name}");
        }
        if name == "steered-files" {
            let mut asks = ticks().flat_map(|tick| &tick.plan.cache);
            let is_newcomers = |ask: &CacheAsk| matches!(ask, CacheAsk::Newcomers { .. });
            assert!(asks.any(is_newcomers), "{name}: nothing is dropped");
        }
        if name.starts_with("guest") {
            let header = &recorded.header;
            assert!(header.run.measured_by == "cgroup_v2" && header.is_multi_gen_on);
        }
    }
}

#[test]
fn the_documents_example_is_a_tick() {
    let document =
        fs::read_to_string(checkout().join("docs/reference/control-trace.md")).expect("it");
    let (_, rest) = document.split_once("```json\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let line: Line = serde_json::from_str(example).expect("a line of a trace");
    let Line::Tick(tick) = line else {
        panic!("{line:?} is no tick");
    };
    assert!(asked_bytes(&tick.plan) > 0, "the text says so: {tick:?}");
}

/// What a trace can't say must be found, or nothing holds.
#[test]
fn a_trace_that_says_what_no_loop_does_is_found_out() {
    let good = trace("zipf");
    assert_eq!(violations(&good), Vec::<String>::new());
    let ask = |tick: &Tick| asked_bytes(&tick.plan) > 0;
    let at = good
        .ticks
        .iter()
        .position(ask)
        .expect("the kernel is asked");
    let answered = |tick: &Tick| {
        let mut reports = tick.reports.iter();
        reports.any(|report| matches!(report, Report::Reclaim(_)))
    };
    let back = good.ticks.iter().position(answered).expect("it answers");
    let walk = |tick: &Tick| !tick.sample.walks.is_empty();
    let walked = good.ticks.iter().position(walk).expect("a walk");
    let kept = good.ticks.len() - 1;
    type Change = fn(&mut Recorded, [usize; 4]);
    let changes: [(&str, Change); 15] = [
        ("time runs backwards", |of, _| of.ticks.swap(3, 9)),
        ("nothing woke it", |of, [at, ..]| {
            of.ticks[at].is_woken = false;
            of.ticks[at - 1].plan.wait_ms = 1_000_000;
        }),
        ("nobody reclaims", |of, [at, ..]| {
            of.ticks[at].sample.usage_bytes = Some(of.header.run.marks.backstop_bytes + 1);
            let who = of.ticks[at].plan.reclaimer.as_mut().expect("a plan");
            (who.reclaim_bytes, who.pageout_pages) = (0, 0);
        }),
        ("nobody asked for", |of, [_, back, ..]| {
            let again = of.ticks[back].reports.clone();
            of.ticks[back].reports.extend(again);
        }),
        ("other than was planned", |of, [at, ..]| {
            of.ticks[at].plan.reclaim = None;
        }),
        ("reclaim_asked_bytes", |of, _| {
            of.end.as_mut().expect("an end").totals.reclaim_asked_bytes += 1;
        }),
        ("peak_bytes", |of, [.., last]| {
            of.ticks[last].sample.usage_bytes = Some(1 << 40);
        }),
        ("are not in order", |of, _| {
            of.header.run.marks.low_bytes = of.header.run.marks.budget_bytes;
        }),
        ("not looked at", |of, [.., last]| {
            of.ticks[last].plan.standing = Standing::Thrashing;
        }),
        ("nobody asked", |of, [at, ..]| {
            of.ticks[at].plan.is_paused = true
        }),
        ("no other does", |of, [at, ..]| {
            of.ticks[at].sample.memory_stat.clear()
        }),
        ("nr_walks", |of, [_, _, walk, _]| {
            of.ticks[walk].sample.walks.clear();
            of.ticks[walk].plan.walks.clear();
            of.ticks[walk].plan.walk_asks.clear();
        }),
        ("do not add up", |of, [_, _, walk, _]| {
            of.ticks[walk].sample.walks[0].found.nr_resident_pages[0] += 1;
        }),
        ("the line is held", |of, [at, ..]| {
            let look = &mut of.ticks[at].plan.limit[0];
            look.is_line_held = !look.is_line_held;
        }),
        ("nobody was said to reclaim", |of, [at, ..]| {
            of.ticks[at].plan.reclaimer = None;
        }),
    ];
    for (what, change) in changes {
        let mut bad = good.clone();
        change(&mut bad, [at, back, walked, kept]);
        let found = violations(&bad);
        let is_found = found.iter().any(|violation| violation.contains(what));
        assert!(is_found, "{what}: {found:?}");
    }
}

/// A pause that somebody asked for is in order.
#[test]
fn what_others_asked_for_explains_what_follows() {
    let mut paused = trace("idle");
    let last = paused.ticks.len() - 1;
    let tick = &mut paused.ticks[last];
    tick.requests.push(Request::Pause);
    tick.plan.is_paused = true;
    (tick.plan.reclaimer, tick.sample.engine) = (None, None);
    assert_eq!(violations(&paused), Vec::<String>::new());
}
