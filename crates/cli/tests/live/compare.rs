//! `strata compare` on a real program: every arm has its runs, in turns, under its budget; what fails or is not found is
//! told; and nothing is left behind.

use crate::support::prelude::*;

/// `strata compare` with JSON.
fn compare(options: &[&str], work: &[&str]) -> Strata {
    Strata::new(["compare", "--format", "json"])
        .args(options)
        .arg("--")
        .args(work)
        // Several runs in turns, beside other tests.
        .time_limit(Duration::from_secs(150))
}

/// The one object on stdout.
#[track_caller]
fn json(finished: &Finished) -> Value {
    let mut lines = finished.json_lines();
    assert_eq!(lines.len(), 1, "{}\n{}", finished.stdout, finished.stderr);
    lines.remove(0)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().expect("a list")
}

fn path_of(name: &str) -> String {
    program(name).to_string_lossy().into_owned()
}

#[test]
fn each_arm_runs_in_turns_under_its_budget_and_every_figure_is_there() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let options = [
        "--memory",
        "48M",
        "--swap",
        "zram:128M",
        "--arms",
        "none,kernel,strata",
        "--runs",
        "2",
        "--warmup",
        "1",
        "--neighbours",
        "1",
        "--operations",
        r#""ops":([0-9]+)"#,
    ];
    let zipf = path_of("zipf");
    let work = [&zipf[..], "--size", "80M", "--seconds", "1"];
    let finished = compare(&options, &work).finish();
    let all = json(&finished);
    assert_eq!(all["is_interrupted"], false);
    // The kernel alone may kill a program that fills its memory fast.
    let killed = list(&all, "runs")
        .iter()
        .filter(|run| run["is_oom_kill"] == true);
    let killed: Vec<u64> = killed
        .map(|run| {
            assert_eq!(
                (&run["arm"], &run["is_counted"]),
                (&"kernel".into(), &false.into())
            );
            run["round"].as_u64().expect("a round")
        })
        .collect();
    let troubles = list(&all, "troubles");
    for trouble in troubles
        .iter()
        .map(|trouble| trouble.as_str().expect("text"))
    {
        assert!(
            trouble.ends_with("kernel 48 MiB: the kernel killed the command: out of memory"),
            "{trouble}"
        );
    }
    assert!(troubles.len() >= killed.len(), "{}", finished.stderr);
    assert_eq!(finished.code(), Some(i32::from(!troubles.is_empty())));

    // Each arm in both rounds; what came first in the first, for warmth, is not told. The order is the library's to test.
    let runs = list(&all, "runs");
    let of_arm = |arm: &str| runs.iter().filter(|run| run["arm"] == arm).count();
    assert_eq!(["none", "kernel", "strata"].map(of_arm), [2; 3]);
    for run in runs.iter().filter(|run| run["is_oom_kill"] == false) {
        let figures = &run["figures"];
        let figure = |name: &str| figures[name].as_f64();
        let known = |name: &str| figure(name).unwrap_or_else(|| panic!("no {name}: {run}"));
        assert_eq!(
            (&run["is_counted"], &run["exit_status"]),
            (&true.into(), &0.into())
        );
        assert!(known("wall_ms") >= 1000.0, "{run}");
        assert!(
            known("throughput_per_s") > 0.0 && known("operations_per_cpu_s") > 0.0,
            "{run}"
        );
        assert!(known("neighbour_iterations_per_s") > 0.0, "{run}");
        // Every page is touched once at least.
        assert!(known("nr_minor_faults") > 5000.0, "{run}");
        assert!(known("command_cpu_ms") > 0.0, "{run}");
        assert!(run["nr_memory_samples"].as_u64() >= Some(5), "{run}");
        let peak = known("peak_bytes") as u64;
        assert!(known("mean_bytes") <= peak as f64, "{run}");
        let parts = known("command_cpu_ms") + known("kernel_threads_cpu_ms");
        let strata_ms = figure("strata_cpu_ms");
        assert_eq!(
            known("total_cpu_ms"),
            parts + strata_ms.unwrap_or(0.0),
            "{run}"
        );
        match run["arm"].as_str() {
            Some("none") => {
                assert!(peak > 80 * MIB, "it has a limit: {run}");
                // A page of the program's own file may have to be read.
                assert!(known("nr_major_faults") < 50.0, "{run}");
                assert_eq!(strata_ms, None, "{run}");
                assert_eq!(run["budget_bytes"], Value::Null);
                assert_eq!(figure("above_budget_ms"), None, "{run}");
            }
            Some("kernel") => {
                // Only Strata has a limit that gives way.
                assert_eq!(figure("nr_limit_raises"), None, "{run}");
                // A charge that can't fail may go beyond a limit by some pages.
                assert!(peak <= 49 * MIB, "the kernel's limit is not held: {run}");
                assert!(known("nr_major_faults") > 0.0, "{run}");
                assert_eq!((strata_ms, figure("strata_bytes")), (None, None), "{run}");
            }
            _ => {
                assert!(figure("nr_limit_raises").is_some(), "{run}");
                // The limit behind the budget may give way rather than have the program killed.
                assert!(peak < 80 * MIB, "the budget is not held: {run}");
                assert!(known("mean_bytes") <= 50.0 * MIB as f64, "{run}");
                assert!(known("nr_major_faults") > 0.0, "{run}");
                assert!(
                    strata_ms > Some(0.0) && known("strata_bytes") > 0.0,
                    "{run}"
                );
            }
        }
    }
    // A round in which one of the two was killed is none.
    let time = &list(&all, "ratios")[1]["ratios"]["wall_ms"];
    let nr_rounds = time["nr_rounds"].as_u64().unwrap_or(0);
    assert_eq!(nr_rounds, 2 - killed.len() as u64, "{all}");
}

#[test]
fn the_kernel_gets_the_memory_that_strata_used_just_before() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let zipf = path_of("zipf");
    let work = [&zipf[..], "--size", "80M", "--seconds", "1"];
    let options = ["--memory", "48M,64M", "--swap", "zram:128M", "--runs", "2"];
    let options = [&options[..], &["--match-memory"]].concat();
    let all = json(&compare(&options, &work).finish());
    assert_eq!(all["kernel_limit"], "mean_of_strata");
    let runs = list(&all, "runs");
    assert_eq!(runs.len(), 8);
    for pair in runs.chunks(2) {
        let (strata, kernel) = (&pair[0], &pair[1]);
        assert_eq!(
            (&strata["arm"], &kernel["arm"]),
            (&"strata".into(), &"kernel".into())
        );
        let budget_bytes = &strata["budget_bytes"];
        assert_eq!(&strata["limit_bytes"], budget_bytes);
        let used_bytes = strata["figures"]["full_mean_bytes"].as_f64();
        let used_bytes = used_bytes.expect("a run of a second is seen");
        let limit_bytes = kernel["limit_bytes"].as_u64().expect("a limit");
        assert_eq!(limit_bytes, used_bytes as u64, "{kernel}");
        assert_ne!(Some(limit_bytes), budget_bytes.as_u64(), "{kernel}");
        let peak_bytes = kernel["figures"]["peak_bytes"].as_u64();
        // A charge that can't fail may go beyond a limit by some pages.
        assert!(peak_bytes <= Some(limit_bytes + MIB), "{kernel}");
    }
}

#[test]
fn a_run_whose_command_fails_is_told_and_left_out() {
    live!("memory_cgroup");
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("runs").display().to_string();
    // The first run does well.
    let line = r#"echo >>"$0"; [ "$(wc -l <"$0")" = 1 ] || { echo some reason >&2; exit 3; }"#;
    let work = ["sh", "-c", line, &mark];
    let options = ["--memory", "64M", "--arms", "kernel", "--runs", "3"];
    let finished = compare(&options, &work).finish();
    assert_eq!(finished.code(), Some(1), "{}", finished.stderr);
    let told = &finished.stderr;
    assert_has(
        told,
        "round 2, kernel 64 MiB: the command exited with status 3",
    );
    assert_has(told, "some reason");
    let all = json(&finished);
    assert_eq!(list(&all, "troubles").len(), 2);
    assert_eq!(list(&all, "runs").len(), 3);
    for run in &list(&all, "runs")[1..] {
        assert_eq!(
            (&run["is_counted"], &run["exit_status"]),
            (&false.into(), &3.into())
        );
    }
    assert_eq!(all["summaries"][0]["nr_runs"], 1);
    assert_eq!(all["summaries"][0]["nr_failed_runs"], 2);
    assert_eq!(all["summaries"][0]["nr_oom_kills"], 0);

    let options = [&options[..], &["--ignore-failure"]].concat();
    let finished = compare(&options, &work).finish().expect_success();
    assert_eq!(json(&finished)["summaries"][0]["nr_runs"], 3);
}

#[test]
fn a_command_that_leaves_its_cgroup_is_warned_of() {
    live!("memory_cgroup");
    let Some((mount, _)) = memory_mount() else {
        skip!("no memory controller is mounted");
    };
    let leave = mount.join("cgroup.procs").display().to_string();
    let options = ["--memory", "64M", "--arms", "kernel", "--runs", "1"];
    let line = r#"echo $$ > "$0"; sleep 0.5"#;
    let finished = compare(&options, &["sh", "-c", line, &leave])
        .finish()
        .expect_success();
    assert_has(&finished.stdout, "left its cgroup");
}

/// The second one ended `strata compare` alone, and the run went on without anybody who knew of it.
#[test]
fn a_second_ctrl_c_kills_the_command_and_leaves_nothing() {
    live!("memory_cgroup");
    let options = ["--memory", "64M", "--arms", "kernel", "--runs", "5"];
    let line = "trap '' INT TERM; echo $$ >&2; while :; do sleep 1; done";
    let mut live = Live::start(&compare(&options, &["sh", "-c", line]));
    sleep(Duration::from_secs(1));
    live.signal(Signal::INT);
    sleep(Duration::from_secs(1));
    live.signal(Signal::INT);
    let all = live.json();
    assert_eq!(live.end().code(), Some(1), "{}", live.stderr());
    assert_eq!(all["is_interrupted"], true);
    let said = live.stderr();
    assert_has(&said, "its command was killed");
}

#[test]
fn an_expression_that_never_matches_is_told_and_never_counted_as_nothing() {
    live!("memory_cgroup");
    let options = [
        "--memory",
        "64M",
        "--arms",
        "kernel",
        "--runs",
        "2",
        "--throughput",
        "speed ([0-9.]+)",
        "--operations",
        "done ([0-9,]+)",
    ];
    let work = [
        "sh",
        "-c",
        "echo done 1,000; sleep 0.1; echo done 2,000 >&2",
    ];
    let finished = compare(&options, &work).finish();
    assert_eq!(finished.code(), Some(1), "{}", finished.stderr);
    let told = "nothing in the output matches --throughput 'speed ([0-9.]+)'";
    assert_eq!(
        finished.stderr.matches(told).count(),
        1,
        "{}",
        finished.stderr
    );
    assert!(
        !finished.stderr.contains("--operations"),
        "{}",
        finished.stderr
    );
    let all = json(&finished);
    assert_eq!(list(&all, "troubles").len(), 2, "each run's, in the JSON");
    for run in list(&all, "runs") {
        // The count was found, the last one of either stream, and the speed follows from it.
        let of = |name: &str| run["figures"][name].as_f64().expect("a number");
        let nr_operations = of("throughput_per_s") * of("wall_ms") / 1000.0;
        assert!((nr_operations - 2000.0).abs() < 0.01, "{run}");
        assert_eq!(run["is_counted"], true);
    }
}

#[test]
fn ctrl_c_ends_the_run_in_progress_and_prints_those_that_were_over() {
    live!("memory_cgroup");
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("runs");
    // The first two runs are short, the third lasts.
    let line = r#"echo >>"$0"; [ "$(wc -l <"$0")" -lt 3 ] || exec sleep 600"#;
    let options = ["--memory", "64M", "--arms", "kernel", "--runs", "5"];
    let strata = compare(&options, &["sh", "-c", line]).arg(&mark);
    for is_terminal in [true, false] {
        let _ = fs::remove_file(&mark);
        let mut live = Live::start(&strata);
        wait_until("the third run", || {
            fs::read_to_string(&mark).is_ok_and(|text| text.lines().count() == 3)
        });
        match is_terminal {
            // As a terminal sends it, to everybody.
            true => live.signal_group(Signal::INT),
            false => live.signal(Signal::TERM),
        }
        let all = live.json();
        assert_eq!(live.end().code(), Some(1), "{}", live.stderr());
        assert_eq!(all["is_interrupted"], true);
        assert_eq!(list(&all, "runs").len(), 2, "{all}");
        assert_eq!(all["summaries"][0]["nr_runs"], 2);
        assert_has(&live.stderr(), "ended before its time");
    }
}

#[test]
fn what_fails_by_itself_or_can_not_be_run_ends_it_at_once_with_the_reason() {
    live!("memory_cgroup");
    let options = ["--memory", "64M", "--arms", "kernel", "--runs", "5"];
    let prepare = ["--prepare", "echo no room >&2; exit 4"];
    for (more, work, nr_runs, told) in [
        (
            &[][..],
            &["sh", "-c", "exit 3"][..],
            1,
            &["the comparison ends with this run"][..],
        ),
        (&[], &["/nowhere/at/all"], 0, &["was not found"]),
        (
            &prepare,
            &["true"],
            0,
            &["--prepare", "no room", "kernel 64 MiB"],
        ),
    ] {
        let finished = compare(&[&options, more].concat(), work).finish();
        assert_eq!(finished.code(), Some(1), "{}", finished.stderr);
        told.iter()
            .for_each(|part| assert_has(&finished.stderr, part));
        let found = finished.json_lines();
        assert_eq!(found.len(), nr_runs, "{}", finished.stdout);
        for all in &found {
            assert_eq!(list(all, "runs").len(), 1);
            assert_eq!(all["summaries"][0]["figures"], json!({}));
        }
    }
}
