//! `strata sim` as a user meets it: what it prints, what it refuses, and with which status.

use crate::support::prelude::*;

#[track_caller]
fn stdout(args: &str) -> String {
    let said = Strata::line(&format!("sim {args}")).finish();
    let said = said.expect_success();
    assert_eq!(said.stderr, "", "nothing where it is no terminal");
    said.stdout
}

#[track_caller]
fn json(args: &str) -> Value {
    parsed(&stdout(&format!("{args} --format json")))
}

/// A trace whose pages a program has mapped, and a budget for 60 % of them.
const STEERED: &str = "gen:zipf,pages=4000,accesses=60000,backing=anon,via=mmap --policy two-list,mglru:v6.1 --memory 2400";

#[test]
fn a_steered_run_tells_who_reclaimed_and_the_same_at_every_time() {
    let args = format!("{STEERED} --steered");
    let table = stdout(&args);
    for word in ["faults/1000", "reclaimed ahead", "Strata, CPU"] {
        assert!(table.contains(word), "{table}");
    }
    assert_eq!(table, stdout(&args));
    let report = json(&args);
    for run in report["runs"].as_array().expect("runs") {
        let steered = &run["reclaim"]["steered"];
        let number = |name: &str| steered[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        assert!(number("reclaimed_ahead_pages") + number("paged_out_pages") > 0);
        assert!(number("strata_cpu_ms") > 0 && number("ticks") > 0);
        assert_eq!(number("peak_above_budget_pages"), 0);
    }
    let alone = stdout(&format!("{STEERED} --format json"));
    assert!(!alone.contains("steered"), "nobody steers");
}

#[test]
fn a_guard_on_a_trace_tells_what_went_and_what_came_back_and_the_same_at_every_time() {
    // Fourteen minutes: some memory is used all the time, the rest goes by in turn every five minutes.
    let args = "gen:hotscan,backing=anon,via=mmap --guard promise=0.2%/min,min_age=30s";
    let table = stdout(args);
    for word in ["worst min", "idle at", "could give"] {
        assert!(table.contains(word), "{table}");
    }
    assert_eq!(table, stdout(args));
    let report = json(args);
    let guard = &report["guards"][0];
    assert_eq!(guard["walk_interval_ms"], 5000);
    let group = &guard["groups"][0];
    let number = |name: &str| group[name].as_u64().unwrap_or_else(|| panic!("{name}"));
    assert!(number("away_mean_bytes") > 0 && number("came_back_bytes") > 0);
    let sum = number("away_mean_bytes") + number("resident_mean_bytes");
    assert_eq!(sum, number("footprint_mean_bytes"));
    let nr_faults = group["faults"]["anon"].as_u64().expect("faults");
    let nr_back = nr_faults + number("faults_read_back");
    assert!(number("came_back_bytes") <= nr_back * 4096);
}

const ZIPF: &str = "gen:zipf,pages=1000,accesses=20000";

#[test]
fn json_has_a_record_a_run_with_every_request_counted() {
    let report = json(&format!("{ZIPF} --policy lru,mglru:v6.1 --memory 10%,64"));
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        let number = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(
            (run["trace"].as_str(), number("accesses")),
            (Some(ZIPF), 20_000)
        );
        let (distinct, misses) = (number("distinct_pages"), number("misses"));
        assert!(misses >= distinct, "memory is empty at first");
        assert_eq!(number("refaults"), misses - distinct);
        let ratio = run["miss_ratio"].as_f64().expect("miss_ratio");
        assert!((ratio - misses as f64 / 20_000.0).abs() < 1e-6, "{ratio}");
    }
    let is_baseline = |run: &&Value| run["reclaim"].is_null();
    assert_eq!(runs.iter().filter(is_baseline).count(), 2);
    let samples = runs[2]["reclaim"]["generations"]
        .as_array()
        .expect("samples");
    assert!(samples.len() > 100, "the generations over time");
}

/// Every key of objects in a value.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                found.insert(key.clone());
                keys(inner, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_the_json_is_explained() {
    let mut found = BTreeSet::new();
    let args = format!("{ZIPF} --policy mglru --group a --tiers 25:75+phases=2 --profile");
    keys(&json(&args), &mut found);
    let page = include_str!("../../../../docs/reference/sim.md");
    // What the page says of an average and a share it says in words.
    let in_words = ["runs", "age", "mean_pages", "share"];
    let is_missing =
        |key: &&String| !in_words.contains(&key.as_str()) && !page.contains(&format!("`{key}`"));
    let missing: Vec<&String> = found.iter().filter(is_missing).collect();
    assert!(
        missing.is_empty(),
        "not in docs/reference/sim.md: {missing:?}"
    );
}

#[test]
fn a_profile_adds_up_to_100_percent_and_phases_to_all_of_the_time() {
    let args = "gen:zipf,pages=3000,accesses=30000,backing=anon --policy two-list,mglru,lru --memory 1500 --tiers 50:50+phases=5 --profile";
    let report = json(args);
    let runs = report["runs"].as_array().expect("runs");
    for run in &runs[..2] {
        let profile = run["profile"].as_object().expect("a profile");
        let shares = profile.iter().filter(|(name, _)| *name != "time_of_first");
        let shares = shares.map(|(_, range)| range[1].as_f64().expect("a share"));
        assert_eq!(
            (shares.sum::<f64>() * 1000.0).round(),
            1000.0,
            "{profile:?}"
        );
        let phases = run["phases"].as_array().expect("phases");
        let phases = phases
            .iter()
            .map(|phase| phase["inline_ns"].as_u64().expect("ns"));
        assert_eq!(phases.sum::<u64>(), run["estimated_time"]["total_ns"]);
    }
    assert_eq!(runs[0]["profile"]["time_of_first"][2], 1.0);
    assert!(runs[2]["profile"].is_null(), "a baseline has no reclaim");
    let table = stdout(args);
    let head = table
        .lines()
        .find(|line| line.contains("rmap %"))
        .expect("a table");
    assert!(
        head.contains("compression %") && table.contains("another moves"),
        "{table}"
    );
    let shares = table
        .lines()
        .skip_while(|line| *line != head)
        .nth(1)
        .expect("a row");
    let usual = shares.split("  ").map(str::trim).filter_map(|cell| {
        let first = cell.split(' ').next()?;
        first
            .contains('.')
            .then(|| first.parse::<f64>().expect("a number"))
    });
    let usual: Vec<f64> = usual.collect();
    assert_eq!(usual.len(), 7, "{shares}");
    assert_eq!(
        (usual[..6].iter().sum::<f64>() * 10.0).round(),
        1000.0,
        "{shares}"
    );
}

const TWO_GROUPS: &str = "gen:mixed,anon=500,file=1000,accesses=20000,groups=2,turn=20";

#[test]
fn every_policy_of_a_kernel_plays_groups_tiers_and_a_background_together() {
    let args = "--policy mglru,two-list --memory 1000 --tiers 25:75+start=slow --background 2%";
    for groups in ["", "--group web:low=60% --group batch:max=40%"] {
        let report = json(&format!("{TWO_GROUPS} {args} {groups}"));
        let runs = report["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 2);
        for run in runs {
            let hits = run["reclaim"]["tiers"]["hits"].as_array().expect("hits");
            let nr_hits: u64 = hits.iter().filter_map(Value::as_u64).sum();
            let [misses, accesses] = ["misses", "accesses"].map(|of| run[of].as_u64());
            assert_eq!(misses.map(|misses| misses + nr_hits), accesses, "{run}");
        }
    }
}

#[test]
fn apps_that_are_killed_are_told_with_their_cold_starts_which_count_as_accesses() {
    let apps = "gen:apps,heap=300,code=100,files=100,turn=800,accesses=200000 --policy mglru,two-list --memory 30%";
    let killing = format!("{apps} --kill-at 5%");
    assert!(stdout(&killing).contains("cold starts"));
    let report = json(&killing);
    for run in report["runs"].as_array().expect("runs") {
        let [nr_kills, nr_cold_starts] = ["kills", "cold_starts"].map(|name| {
            let of_apps = &run["reclaim"]["apps"];
            of_apps[name].as_u64().expect("a number")
        });
        assert!(0 < nr_cold_starts && nr_cold_starts <= nr_kills, "{run}");
        // A start is once through all of an app.
        let nr_accesses = 200_000 + 500 * nr_cold_starts;
        assert_eq!(run["accesses"], nr_accesses);
    }
    assert!(!stdout(&format!("{apps} --format json")).contains("cold_starts"));
    let said = Strata::line(&format!("sim {killing} --steered")).finish();
    assert_eq!(said.code(), Some(2));
}

#[test]
fn tiers_go_with_groups_and_have_a_table_and_a_plot_of_their_own() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("plot.svg");
    let args = "--policy mglru,two-list,lru --memory 1500 --tiers 25:75+page-cache=refs --group web:low=60% --group batch:max=40%";
    let table = stdout(&format!("{TWO_GROUPS} {args} --plot {}", file.display()));
    assert_has(&table, "hits, fastest first");
    let of_batch = table.lines().filter(|line| line.starts_with("  batch"));
    assert_eq!(of_batch.count(), 2, "{table}");
    let plot = fs::read_to_string(&file).expect("plot");
    assert!(plot.contains("<polygon"), "generations over time");
}

#[test]
fn groups_can_stand_in_a_file() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("groups");
    let with = |options: &str| format!("{TWO_GROUPS} --policy mglru --group {options}");
    let by_file = with(&format!("@{}", file.display()));
    fs::write(&file, "# two\n\nweb:low=5%\n  batch:max=50% \n").expect("written");
    let by_hand = with("web:low=5% --group batch:max=50%");
    assert_eq!(stdout(&by_file), stdout(&by_hand));
    fs::write(&file, "web\nbatch:more=5\n").expect("written");
    let said = Strata::line(&format!("sim {by_file}")).finish();
    assert_has(&said.stderr, "line 2");
    assert_has(&said.stderr, "\"more\"");
    assert_eq!(said.code(), Some(2));
}

#[test]
fn the_same_arguments_give_the_same_bytes_whatever_the_threads() {
    let json = |jobs| stdout(&format!("{ZIPF} --memory auto --format json --jobs {jobs}"));
    assert_eq!(json(1), json(4));
}

#[test]
fn csv_has_a_line_a_run() {
    let csv = stdout(&format!(
        "{ZIPF} --policy lru,opt --memory 5%,10% --format csv"
    ));
    assert_eq!(csv.lines().count(), 5);
    let columns = |line: &str| line.replace(ZIPF, "trace").split(',').count();
    let mut widths = csv.lines().map(columns);
    let first = widths.next().expect("header");
    assert!(widths.all(|width| width == first), "{csv}");
}

#[test]
fn a_plot_is_a_complete_file() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("plot.svg");
    let with_plot = |args: &str| stdout(&format!("{ZIPF} {args} --plot {}", file.display()));
    with_plot("--policy lru,opt --memory auto");
    let curves = fs::read_to_string(&file).expect("plot");
    assert_eq!(curves.matches("<polyline").count(), 2);
    with_plot("--policy mglru");
    let generations = fs::read_to_string(&file).expect("plot");
    assert!(generations.contains("<polygon") && generations.ends_with("</svg>\n"));
}
