//! `sim --steered --trace`: the loop in the simulator writes what it writes on Linux.

use crate::support::prelude::*;

use strata_control::trace::Note;
use support::control_trace::{marks, notes, turns, violations};

/// A trace whose pages a program has mapped, and a budget for 60 % of them.
const TRACE: &str = "gen:zipf,pages=46080,accesses=400000,backing=anon,via=mmap";

/// A file that is read in a loop through descriptors, of which 60 % fit.
const LOOP: &str = "gen:loop,pages=12288,accesses=150000";

fn sim(trace: &str, more: &str) -> Finished {
    Strata::line(&format!("sim {trace} --steered --format json {more}")).finish()
}

/// The text of the trace, and the report.
fn traced(trace: &str, more: &str) -> (String, Value) {
    let folder = tempfile::tempdir().expect("a place");
    let path = folder.path().join("ticks");
    let to = format!("{more} --memory 60% --trace {}", path.display());
    let said = sim(trace, &to).expect_success();
    assert_eq!(said.stderr, "");
    let text = fs::read_to_string(&path).expect("a trace");
    (text, said.json())
}

#[test]
fn what_holds_of_any_trace_of_the_loop_holds_of_the_simulators_and_it_says_what_the_report_says() {
    let mut nr_reclaims = 0;
    for kernel in ["two-list", "mglru:v6.1", "mglru:v7.2"] {
        for (version, actuator) in [("v1", "auto"), ("v2", "auto"), ("v2", "pageout")] {
            let which = format!("{kernel} {version} {actuator}");
            let more = format!("--policy {kernel} --cgroup {version} --actuator {actuator}");
            let (text, report) = traced(TRACE, &more);
            let mut turns = turns(&text);
            let is_auto = actuator == "auto";
            let found = violations(&turns, is_auto);
            assert!(found.is_empty(), "{which}: {}", found.join("\n"));
            let steered = &report["runs"][0]["reclaim"]["steered"];
            let number = |name: &str| steered[name].as_u64().unwrap_or_else(|| panic!("{name}"));
            let count = |is: fn(&&Note) -> bool| notes(&turns).filter(is).count() as u64;
            let nr_turns = turns.iter().filter(|turn| turn.plan.is_some()).count();
            assert_eq!(nr_turns as u64, number("ticks"), "{which}");
            let nr_walks = count(|note| matches!(note, Note::Walk { .. }));
            assert_eq!(nr_walks, number("walks"), "{which}");
            let evicted = notes(&turns).map(|note| match note {
                Note::PagedOut {
                    nr_evicted_pages, ..
                } => *nr_evicted_pages,
                _ => 0,
            });
            let nr_evicted: u64 = evicted.sum();
            assert!(nr_evicted <= number("paged_out_pages"), "{which}");
            let nr_answers = count(|note| matches!(note, Note::Reclaimed { .. }));
            assert!(nr_answers == 0 || is_auto, "{which}: {nr_answers}");
            nr_reclaims += nr_answers;
            // What no loop says is found.
            let budget_bytes = marks(&turns).budget_bytes;
            let mut samples = turns.iter_mut().filter_map(|turn| turn.sample.as_mut());
            samples.next().expect("a sample").usage_bytes = budget_bytes + 1;
            let found = violations(&turns, is_auto);
            assert!(found[0].contains("nobody reclaims"), "{which}: {found:?}");
        }
    }
    assert!(nr_reclaims > 0, "the kernel is asked in some of them");
}

#[test]
fn page_cache_is_traced_as_on_linux_and_what_was_asked_for_is_what_was_dropped() {
    for kernel in ["two-list", "mglru:v6.1"] {
        let (text, report) = traced(LOOP, &format!("--policy {kernel}"));
        let turns = turns(&text);
        let found = violations(&turns, true);
        assert!(found.is_empty(), "{kernel}: {}", found.join("\n"));
        let cache = &report["runs"][0]["reclaim"]["steered"]["page_cache"];
        let number = |name: &str| cache[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        let looks = turns
            .iter()
            .filter_map(|of| of.sample.as_ref()?.cache.as_ref());
        let (mut nr_censuses, mut in_bytes, mut gone_bytes) = (0, 0, 0);
        for look in looks {
            nr_censuses += u64::from(look.found.is_some());
            let came_in = look.came_in.unwrap_or_default();
            in_bytes += came_in.in_bytes;
            gone_bytes += came_in.gone_bytes;
        }
        // The last answers come after the last turn.
        let is_most = |bytes: u64, pages: u64| bytes <= pages * 4096 && bytes * 2 > pages * 4096;
        assert!(is_most(in_bytes, number("in_pages")), "{kernel}");
        assert!(is_most(gone_bytes, number("newcomers_pages")), "{kernel}");
        assert!((1..=number("censuses")).contains(&nr_censuses), "{kernel}");
        let (kept, report) = traced(LOOP, &format!("--policy {kernel} --keep-page-cache"));
        assert!(!kept.contains("\"cache\":{"), "{kernel}");
        let steered = &report["runs"][0]["reclaim"]["steered"];
        assert!(steered["page_cache"].is_null(), "{kernel}");
    }
}

#[test]
fn the_same_arguments_write_the_same_trace_and_change_nothing_of_the_run() {
    let (text, report) = traced(TRACE, "--policy two-list");
    assert_eq!(traced(TRACE, "--policy two-list").0, text);
    let alone = sim(TRACE, "--policy two-list --memory 60%");
    assert_eq!(alone.json(), report);
}

#[test]
fn the_ticks_of_several_runs_are_not_mixed_in_one_file() {
    let folder = tempfile::tempdir().expect("a place");
    let path = folder.path().join("ticks");
    let more = "--policy two-list,mglru --memory 60% --trace";
    let said = sim(TRACE, &format!("{more} {}", path.display()));
    assert_eq!(said.code(), Some(2), "{}", said.stderr);
    assert_has(&said.stderr, "2 runs were asked for");
    assert!(!path.exists(), "nothing is left there");
}

#[test]
fn a_tunable_can_be_tried_out_and_the_trace_says_so() {
    let (text, report) = traced(TRACE, "--policy two-list --set watermarks.mark_share=32");
    let (plain, default) = traced(TRACE, "--policy two-list");
    let distance_bytes = |text: &str| {
        let marks = marks(&turns(text));
        marks.budget_bytes - marks.low_bytes
    };
    assert!(distance_bytes(&text) > distance_bytes(&plain));
    assert_ne!(report["runs"], default["runs"]);
}
