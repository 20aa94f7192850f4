//! `strata sim` as a user meets it: what it prints, what it refuses, and with which status.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

fn sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command.arg("sim").args(args).output().expect("strata")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn stdout(args: &[&str]) -> String {
    let output = sim(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stderr),
        "",
        "nothing on stderr where it is no terminal"
    );
    text(&output.stdout)
}

/// A trace whose pages a program has mapped, and a budget for 60 % of them.
const STEERED: [&str; 5] = [
    "gen:zipf,pages=4000,accesses=60000,backing=anon,via=mmap",
    "--policy",
    "two-list,mglru:v6.1",
    "--memory",
    "2400",
];

#[test]
fn a_steered_run_tells_who_reclaimed_and_the_same_at_every_time() {
    let args = |more: &[&'static str]| [&STEERED[..], more].concat();
    let table = stdout(&args(&["--steered"]));
    for word in ["faults/1000", "reclaimed ahead", "Strata, CPU"] {
        assert!(table.contains(word), "{table}");
    }
    assert_eq!(table, stdout(&args(&["--steered"])));
    let json = stdout(&args(&["--steered", "--format", "json"]));
    let report: Value = serde_json::from_str(&json).expect("JSON");
    for run in report["runs"].as_array().expect("runs") {
        let steered = &run["reclaim"]["steered"];
        let number = |name: &str| steered[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        assert!(number("reclaimed_ahead_pages") + number("paged_out_pages") > 0);
        assert!(number("strata_cpu_ms") > 0 && number("ticks") > 0);
        assert_eq!(number("peak_above_budget_pages"), 0);
    }
    let alone = stdout(&args(&["--format", "json"]));
    assert!(!alone.contains("steered"), "nobody steers");
}

/// Fourteen minutes: some memory is used all the time, the rest goes by in turn every five minutes.
const COLD: &str = "gen:hotscan,backing=anon,via=mmap";

#[test]
fn a_guard_on_a_trace_tells_what_went_and_what_came_back_and_the_same_at_every_time() {
    let args = [COLD, "--guard", "promise=0.2%/min,min_age=30s"];
    let table = stdout(&args);
    for word in ["worst min", "idle at", "could give"] {
        assert!(table.contains(word), "{table}");
    }
    assert_eq!(table, stdout(&args));
    let json = stdout(&[&args[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_str(&json).expect("JSON");
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

#[test]
fn a_guard_that_can_not_be_played_is_refused() {
    for (args, why) in [
        (&["--guard", "min_age=1m"][..], "needs a promise"),
        (&["--guard", "promise=1%/min,colour=red"], "colour=red"),
        (
            &["--guard", "promise=1%/min", "--memory", "10%"],
            "--memory",
        ),
        (&["--guard", "promise=1%/min", "--format", "csv"], "CSV"),
        (
            &["--guard", "promise=1%/min,interval=1ms"],
            "longer interval",
        ),
    ] {
        let output = sim(&[&["gen:zipf,accesses=2000000,via=mmap"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let output = sim(&["gen:zipf", "--guard", "promise=1%/min"]);
    assert!(text(&output.stderr).contains("--via mmap"));
}

const ZIPF: &str = "gen:zipf,pages=1000,accesses=20000";

#[test]
fn json_has_a_record_a_run_with_every_request_counted() {
    let args = [
        ZIPF,
        "--policy",
        "lru,mglru:v6.1",
        "--memory",
        "10%,64",
        "--format",
        "json",
    ];
    let report: Value = serde_json::from_str(&stdout(&args)).expect("JSON");
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
    let json = stdout(&[
        ZIPF, "--policy", "mglru", "--group", "a", "--tiers", "25:75", "--format", "json",
    ]);
    let mut found = BTreeSet::new();
    keys(&serde_json::from_str(&json).expect("JSON"), &mut found);
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

const TWO_GROUPS: &str = "gen:mixed,anon=500,file=1000,accesses=20000,groups=2,turn=20";

#[test]
fn every_policy_of_a_kernel_plays_groups_tiers_and_a_background_together() {
    let args = [
        TWO_GROUPS,
        "--policy",
        "mglru,two-list",
        "--memory",
        "1000",
        "--tiers",
        "25:75+start=slow",
        "--background",
        "2%",
        "--format",
        "json",
    ];
    for groups in [
        &[][..],
        &["--group", "web:low=60%", "--group", "batch:max=40%"],
    ] {
        let json = stdout(&[&args[..], groups].concat());
        let report: Value = serde_json::from_str(&json).expect("JSON");
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
fn groups_have_limits_as_in_cgroup_v2_and_figures_of_their_own() {
    let args = [
        TWO_GROUPS,
        "--policy",
        "mglru,mglru:v2022,two-list,lru",
        "--memory",
        "1500",
        "--background",
        "2%",
        "--group",
        "web:low=60%",
        "--group",
        "batch:max=40%,swap.max=0",
    ];
    let json = stdout(&[&args[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    for run in &runs[..3] {
        let groups = run["reclaim"]["groups"].as_array().expect("groups");
        let number = |at: usize, name: &str| groups[at][name].as_u64().expect("a number");
        assert_eq!(groups[0]["group"], "web");
        assert_eq!((number(0, "trace_group"), number(1, "trace_group")), (0, 1));
        let sum = |name: &str| number(0, name) + number(1, name);
        for name in ["accesses", "distinct_pages", "misses"] {
            assert_eq!(run[name].as_u64(), Some(sum(name)), "{name}");
        }
        assert!(number(1, "current_pages") <= 600 && number(1, "swapped_out_pages") == 0);
        assert!(groups[1]["events"]["max"].as_u64() > Some(0));
        assert!(number(0, "misses") < number(1, "misses"), "protected");
    }
    assert!(runs[3]["reclaim"].is_null(), "a baseline knows no groups");
    let table = stdout(&args);
    assert!(table.contains("mglru:v2022 in 1,500 pages"), "{table}");
    let of_web = table.lines().filter(|line| line.starts_with("  web"));
    assert_eq!(of_web.count(), 3, "{table}");
}

#[test]
fn tiers_go_with_groups_and_have_a_table_and_a_plot_of_their_own() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("plot.svg");
    let table = stdout(&[
        TWO_GROUPS,
        "--policy",
        "mglru,two-list,lru",
        "--memory",
        "1500",
        "--tiers",
        "25:75+page-cache=refs",
        "--group",
        "web:low=60%",
        "--group",
        "batch:max=40%",
        "--plot",
        file.to_str().expect("UTF-8"),
    ]);
    assert!(table.contains("hits, fastest first"), "{table}");
    let of_batch = table.lines().filter(|line| line.starts_with("  batch"));
    assert_eq!(of_batch.count(), 2, "{table}");
    let plot = std::fs::read_to_string(&file).expect("plot");
    assert!(plot.contains("<polygon"), "generations over time");
}

#[test]
fn groups_can_stand_in_a_file() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("groups");
    let option = format!("@{}", file.display());
    let args = |option| [TWO_GROUPS, "--policy", "mglru", "--group", option];
    std::fs::write(&file, "# two\n\nweb:low=5%\n  batch:max=50% \n").expect("written");
    let by_hand = [
        TWO_GROUPS,
        "--policy",
        "mglru",
        "--group",
        "web:low=5%",
        "--group",
        "batch:max=50%",
    ];
    assert_eq!(stdout(&args(&option)), stdout(&by_hand));
    std::fs::write(&file, "web\nbatch:more=5\n").expect("written");
    let output = sim(&args(&option));
    let said = text(&output.stderr);
    assert!(
        said.contains("line 2") && said.contains("\"more\""),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_same_arguments_give_the_same_bytes_whatever_the_threads() {
    let args = |jobs| [ZIPF, "--memory", "auto", "--format", "json", "--jobs", jobs];
    assert_eq!(stdout(&args("1")), stdout(&args("4")));
}

#[test]
fn a_table_has_a_policy_a_column_and_csv_a_line_a_run() {
    let args = [ZIPF, "--policy", "lru,opt", "--memory", "5%,10%"];
    let table = stdout(&args);
    assert!(
        table.starts_with(&format!("{ZIPF}: 20,000 accesses of ")),
        "{table}"
    );
    // Of several amounts of memory: a table of miss ratios, and one of estimated times.
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let heads = table.lines().filter(|line| line.ends_with("opt"));
    let heads: Vec<Vec<String>> = heads.map(words).collect();
    assert_eq!(heads[0], ["miss", "ratio", "lru", "opt"], "{table}");
    assert_eq!(heads[1], ["estimated", "time", "lru", "opt"], "{table}");
    let ratios: Vec<(f64, f64)> = table
        .lines()
        .filter(|line| line.contains(" pages (") && !line.ends_with('s') && !line.ends_with(')'))
        .map(|line| {
            let cells = words(line);
            let number = |cell: &String| cell.parse::<f64>().expect("a ratio");
            (number(&cells[3]), number(&cells[4]))
        })
        .collect();
    assert_eq!(ratios.len(), 2, "{table}");
    let is_falling = |of: fn(&(f64, f64)) -> f64| of(&ratios[0]) > of(&ratios[1]);
    assert!(is_falling(|of| of.0) && is_falling(|of| of.1), "{table}");
    assert!(ratios.iter().all(|(lru, opt)| lru > opt), "{table}");
    // Of one amount: every measure has a line.
    let table = stdout(&[ZIPF, "--policy", "lru,opt", "--memory", "5%"]);
    for measure in [
        "in ",
        "misses",
        "miss ratio",
        "refaults",
        "walks",
        "estimated time",
    ] {
        let lines = table
            .lines()
            .filter(|line| line.starts_with(&format!("  {measure}")));
        assert_eq!(lines.count(), 1, "{measure} in {table}");
    }
    // Of one policy: an amount of memory has a line.
    let table = stdout(&[ZIPF, "--policy", "lru", "--memory", "5%,10%"]);
    assert_eq!(
        table
            .lines()
            .filter(|line| line.starts_with("  lru"))
            .count(),
        2,
        "{table}"
    );
    let csv = stdout(&[&args[..], &["--format", "csv"]].concat());
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
    let path = file.to_str().expect("UTF-8");
    stdout(&[
        ZIPF, "--policy", "lru,opt", "--memory", "auto", "--plot", path,
    ]);
    let curves = std::fs::read_to_string(&file).expect("plot");
    assert_eq!(curves.matches("<polyline").count(), 2);
    stdout(&[ZIPF, "--policy", "mglru", "--plot", path]);
    let generations = std::fs::read_to_string(&file).expect("plot");
    assert!(generations.contains("<polygon") && generations.ends_with("</svg>\n"));
}

#[test]
fn what_can_not_be_is_refused_with_a_reason() {
    for (args, status, why) in [
        (&["gen:zipf", "--policy", "lfu"][..], 2, "is no policy"),
        (
            &["gen:zipf", "--policy", "lru+distance"],
            2,
            "neither models nor options",
        ),
        (
            &["gen:zipf", "--policy", "mglru:v9"],
            2,
            "unknown kernel model",
        ),
        (&["gen:zipf", "--memory", "0"], 2, "no amount of memory"),
        (
            &["gen:zipf", "--memory", "10parsecs"],
            2,
            "no amount of memory",
        ),
        (&["gen:zipf", "--swappiness", "202"], 2, "0 to 201"),
        (
            &["gen:zipf", "--steered", "--policy", "lru"],
            1,
            "lru plays no kernel that could be steered",
        ),
        (
            &[
                "gen:zipf",
                "--steered",
                "--policy",
                "mglru",
                "--memory",
                "9",
            ],
            1,
            "give at least 1024",
        ),
        (
            &["gen:zipf", "--steered", "--tiers", "25:75"],
            2,
            "cannot be used with",
        ),
        (
            &["gen:zipf", "--steered", "--group", "a:max=10%"],
            2,
            "cannot be used with",
        ),
        (&["gen:zipf", "--processors", "3"], 2, "--steered"),
        (&["gen:zipf", "--jobs", "100000"], 2, "1024"),
        (&["gen:zipf", "--policy", "mglru+gens"], 2, "nr_gens=N"),
        (&["gen:zipf", "--cost", "reed=1"], 2, "no cost is called"),
        (&["gen:zipf", "--trace-format", "mp3"], 2, "mp3"),
        (
            &["gen:zipf", "--plot", "/nowhere/plot.svg"],
            2,
            "/nowhere/plot.svg",
        ),
        (
            &["gen:zipf", "--group", "web:most=1"],
            2,
            "no limit is called",
        ),
        (&["gen:zipf", "--group", "@/nowhere"], 2, "/nowhere"),
        (&["gen:zipf", "--background", "1%"], 2, "--group"),
        (
            &["gen:zipf", "--tiers", "25:75+start=middle"],
            2,
            "start=fast|slow",
        ),
        (
            &["gen:zipf", "--group", "a", "--group", "b"],
            1,
            "group b would be the trace's group 1, but the trace has 1",
        ),
        (
            &["gen:mixed,accesses=9999", "--group", "a:max=10,swap.max=0"],
            1,
            "out of memory: nothing of the 10 pages of group /a",
        ),
        (&["gen:nonsense"], 2, "unknown pattern"),
        (&["/nowhere/trace.lis"], 1, "/nowhere/trace.lis"),
        (&[], 2, "TRACE"),
    ] {
        let output = sim(args);
        let said = text(&output.stderr);
        assert!(said.contains(why), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}
