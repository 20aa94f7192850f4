//! The metrics of a running `strata run`: scraped, read from a file, and held to Prometheus' own checker.

use crate::support::prelude::*;

use std::net::TcpStream;
use strata_host::metrics::METRICS;

/// What a run grows whose pages are taken one by one.
const BY_PAGEOUT: &[&str] = &[
    "strata_run_info",
    "strata_uptime_seconds",
    "strata_paused",
    "strata_dry_run",
    "strata_processes",
    "strata_usage_bytes",
    "strata_usage_peak_bytes",
    "strata_usage_samples_total",
    "strata_budget_bytes",
    "strata_limit_bytes",
    "strata_observed_seconds_total",
    "strata_working_set_bytes",
    "strata_generation_bytes",
    "strata_generation_age_seconds",
    "strata_eviction_tried_bytes_total",
    "strata_eviction_applied_bytes_total",
    "strata_eviction_spared_bytes_total",
    "strata_refaulted_bytes_total",
    "strata_refaulted_recent_bytes_total",
    "strata_walks_total",
    "strata_walk_entries_total",
    "strata_walk_seconds_total",
    "strata_evicted_bytes",
    "strata_zram_bytes",
    "strata_own_memory_bytes",
    "strata_tracking_bytes",
    "strata_own_cpu_seconds_total",
];
/// What one grows for which the kernel reclaims.
const BY_RECLAIM: &[&str] = &[
    "strata_eviction_kernel_chosen_bytes_total",
    "strata_reclaim_asked_bytes_total",
    "strata_reclaim_freed_bytes_total",
];
/// What one grows whose memory is in huge pages, of which the kernel may make none.
pub(crate) const BY_HUGE: &[&str] = &["strata_split_bytes_total"];
/// What one grows that has more threads than there are processors.
const BY_FILLING: &[&str] = &["strata_left_to_programs_seconds_total"];
/// What one grows that would have to evict what `--min-ttl` protects.
const BY_THRASHING: &[&str] = &[
    "strata_thrashing_total",
    "strata_limit_raises_total",
    "strata_above_budget_seconds_total",
];
/// What one grows that comes near its budget, so that it is walked, and has no need to evict.
const BY_RESTING: &[&str] = &["strata_idle_bytes"];
/// Passed on from the kernel's counters, which not every kernel has; kills are what Strata prevents.
const KERNELS: &[&str] = &[
    "strata_kernel_major_faults_total",
    "strata_kernel_refaulted_bytes_total",
    "strata_kernel_oom_kills_total",
];

/// `strata run OPTIONS` of one of the test programs with metrics, and where they are, once the program has said a line.
pub(crate) fn start(options: &[&str], words: &[&str]) -> (Run, String) {
    let options = [&["--metrics", "127.0.0.1:0"], options].concat();
    let run = Run::start_program(&options, words);
    run.live.line();
    let address = run.metrics_address();
    (run, address)
}

/// Waits until each of these was above zero, seeing to it that there is something to count.
#[track_caller]
pub(crate) fn expect_to_grow(
    (run, address): &mut (Run, String),
    names: &[&'static str],
    mut work: impl FnMut(&mut Run),
) -> String {
    let mut grown: BTreeSet<&str> = BTreeSet::new();
    let mut text = String::new();
    let deadline = Instant::now() + Duration::from_secs(20) * patience();
    while grown.len() < names.len() {
        work(run);
        sleep(Duration::from_millis(20));
        text = scrape(address);
        grown.extend(names.iter().filter(|name| value(&text, name) > Some(0.0)));
        let missing: Vec<_> = names.iter().filter(|name| !grown.contains(*name)).collect();
        let is_late = Instant::now() >= deadline;
        assert!(!is_late, "{missing:?} did not grow:\n{text}");
    }
    text
}

fn end((run, address): (Run, String)) {
    run.end();
    let is_over = TcpStream::connect(address).is_err();
    assert!(is_over, "nobody answers any more");
}
/// Whether others wanted all processors for more than a second, so that the program reclaimed for itself and nothing was
/// done ahead.
fn was_crowded(text: &str) -> bool {
    value(text, BY_FILLING[0]) > Some(1.0)
}

#[test]
fn between_them_these_runs_grow_every_metric_there_is() {
    let declared: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let live = [BY_PAGEOUT, BY_RECLAIM, BY_HUGE, BY_FILLING, BY_THRASHING];
    let all = [live.concat(), BY_RESTING.to_vec(), KERNELS.to_vec()].concat();
    let grown: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(grown, declared);
    assert_eq!(grown.len(), all.len(), "one is named twice");
}

/// The kernel may stop above the mark at which reclaim ends. It was asked two hundred times a second for what it would
/// not give, while the program slept.
#[test]
fn the_kernel_is_not_asked_for_ever_by_a_program_that_sleeps() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    for actuator in ["auto", "reclaim"] {
        if let Some(reason) = asks_until_it_sleeps(actuator) {
            skip!("{reason}");
        }
    }
}

/// Why it can't be told, if so.
fn asks_until_it_sleeps(actuator: &str) -> Option<String> {
    let options = [
        "--memory",
        "72M",
        "--swap",
        "zram:256M",
        "--actuator",
        actuator,
    ];
    let (mut run, address) = start(&options, &["touch", "--size", "120M"]);
    run.tell("writerange 0 30720");
    let has_grown = |text: &str| BY_RECLAIM.iter().all(|name| value(text, name) > Some(0.0));
    let deadline = Instant::now() + Duration::from_secs(20) * patience();
    let mut text = String::new();
    while !has_grown(&text) && Instant::now() < deadline {
        run.tell("readrange 0 30720");
        sleep(Duration::from_millis(20));
        text = scrape(&address);
    }
    if !has_grown(&text) && was_crowded(&text) {
        end((run, address));
        return Some("others want the processors as well, so the kernel is not asked".to_owned());
    }
    assert!(has_grown(&text), "{text}");
    // What the kernel chooses is counted apart.
    let applied = value(&text, "strata_eviction_applied_bytes_total");
    assert!(actuator == "auto" || applied == Some(0.0), "{text}");
    let asked = || value(&scrape(&address), BY_RECLAIM[1]);
    let deadline = Instant::now() + Duration::from_secs(20) * patience();
    let mut before = asked();
    sleep(Duration::from_secs(1));
    while asked() != before {
        assert!(Instant::now() < deadline, "it is still asked ({actuator})");
        before = asked();
        sleep(Duration::from_secs(1));
    }
    end((run, address));
    None
}

/// Threads of the program were taken for a crowd, and pageout took their pages one by one: four on two
/// processors ran at half the speed of the kernel's limit alone.
#[test]
fn programs_that_fill_all_processors_reclaim_for_themselves() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let limits = ["--memory", "24M", "--swap", "zram:256M"];
    let seconds = (8 * patience().min(4)).to_string();
    let nr_processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = 4 * nr_processors;
    if threads > 64 {
        skip!("too many processors to fill with so little memory");
    }
    let nr_threads = threads.to_string();
    let words = [
        "zipf",
        "--size",
        "40M",
        "--theta",
        "1.2",
        "--seconds",
        &seconds,
        "--threads",
        &nr_threads,
    ];
    let is_filled = |text: &str| value(text, BY_FILLING[0]) >= Some(0.5);
    let (mut run, address) = start(&limits, &words);
    let deadline = Instant::now() + Duration::from_secs(6) * patience().min(4);
    let mut text = String::new();
    while !is_filled(&text) && Instant::now() < deadline {
        sleep(Duration::from_millis(500));
        text = scrape(&address);
    }
    let nr_runnable = nr_runnable();
    assert_eq!(run.live.end().code(), Some(0), "{}", run.live.stderr());
    let is_filled = is_filled(&text);
    if !is_filled && nr_runnable > threads + threads / 4 {
        skip!("others want the processors as well: {nr_runnable} threads");
    }
    assert!(is_filled, "{nr_runnable} threads want to run: {text}");
}

#[test]
fn a_run_under_pressure_counts_what_it_does_and_prometheus_finds_no_fault() {
    live!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let place = tempfile::tempdir().expect("directory");
    let file = place.path().join("strata.prom");
    let path = file.to_str().expect("text");
    let options = ["--memory", "48M", "--swap", "zram:192M"];
    let more = ["--actuator", "pageout", "--metrics-textfile", path];
    let mut run = start(&[options, more].concat(), &["touch", "--size", "96M"]);
    run.0.tell("writerange 0 24576");
    run.0.ask(&["pause"]);
    expect_to_grow(&mut run, &["strata_paused"], |_| {});
    run.0.ask(&["resume"]);
    run.0.ask(&["dry-run", "on"]);
    // What is only decided is spared: not tried.
    run.0.ask(&["evict", "4M"]);
    let spared = ["strata_dry_run", "strata_eviction_spared_bytes_total"];
    expect_to_grow(&mut run, &spared, |_| {});
    run.0.ask(&["dry-run", "off"]);
    let seen = ["strata_paused", "strata_dry_run"];
    let names: Vec<&str> = BY_PAGEOUT
        .iter()
        .copied()
        .filter(|of| !seen.contains(of))
        .collect();
    let text = expect_to_grow(&mut run, &names, |run| run.tell("readrange 0 24576"));
    assert_eq!(
        value(&text, "strata_budget_bytes"),
        Some(48.0 * 1024.0 * 1024.0)
    );
    for name in &KERNELS[..2] {
        assert!(
            value(&text, name).is_none_or(|of| of > 0.0),
            "{name}: {text}"
        );
    }
    wait_until("the file", || file.exists());
    let in_file = fs::read_to_string(&file).expect("readable");
    end(run);
    assert!(
        !file.exists(),
        "figures of a run that is over would stay for ever"
    );
    match promtool() {
        Err(why) => skip!("needs promtool (Debian package prometheus): {why}"),
        Ok(promtool) => {
            check(promtool, &text);
            check(promtool, &in_file);
        }
    }
}

/// Once the kernel was asked to reclaim what `--min-ttl` protects, and the program thrashed.
#[test]
fn a_working_set_younger_than_min_ttl_makes_the_budget_give_way_and_that_is_told() {
    live!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let options = ["--memory", "64M", "--swap", "zram:192M", "--min-ttl", "10m"];
    let mut run = start(&options, &["touch", "--size", "90M"]);
    run.0.tell("writerange 0 23040");
    // More than the budget is in use all the time, and a little is not.
    run.0.tell("hammer 7 20000");
    let text = expect_to_grow(&mut run, BY_THRASHING, |_| {});
    let asked = value(&text, "strata_reclaim_asked_bytes_total");
    assert_eq!(asked, Some(0.0), "{text}");
    run.0.live.wait_for_stderr("younger than --min-ttl");
    run.0.tell("rest");
    end(run);
}

/// Under pressure walks come so fast that the oldest of four generations is younger than a second.
#[test]
fn memory_that_nobody_uses_shows_in_the_metrics() {
    live!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let options = ["--memory", "96M", "--swap", "zram:192M"];
    let mut run = start(&options, &["touch", "--size", "90M"]);
    run.0.tell("writerange 0 22400");
    let mut pages = (22400..23040).step_by(32);
    expect_to_grow(&mut run, BY_RESTING, |run| {
        // Where usage does not change there is nothing to walk for.
        if let Some(first) = pages.next() {
            run.tell(&format!("writerange {first} 32"));
        }
        sleep(Duration::from_millis(400));
    });
    end(run);
}

#[test]
fn the_dashboards_queries_are_such_as_prometheus_can_answer() {
    let promtool = match promtool() {
        Ok(promtool) => promtool,
        Err(why) => skip!("needs promtool (Debian package prometheus): {why}"),
    };
    let text = fs::read_to_string(checkout().join("docs/grafana-dashboard.json"));
    let text = text.expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let queries = targets
        .flatten()
        .filter_map(|target| target["expr"].as_str());
    // What Grafana puts in before it asks.
    let filled = queries.map(|query| {
        query
            .replace("$__rate_interval", "1m")
            .replace("$run", ".*")
    });
    let rules: Vec<Value> = filled
        .enumerate()
        .map(|(number, expr)| json!({ "record": format!("strata:panel_{number}"), "expr": expr }))
        .collect();
    assert!(rules.len() >= 10, "{rules:?}");
    let place = tempfile::tempdir().expect("directory");
    let file = place.path().join("rules.yml");
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(&file, groups.to_string()).expect("writes");
    let output = Command::new(promtool)
        .args(["check", "rules"])
        .arg(&file)
        .output()
        .expect("promtool runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_port_that_is_taken_stops_the_program_from_starting() {
    live!("page_walk");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("address").to_string();
    let run = Strata::new(["run", "--memory", "64M", "--dry-run", "--metrics", &address])
        .args(["--", "echo", "it ran"])
        .finish();
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert_has(&run.stderr, &address);
    assert_has(&run.stderr, "another port");
}
