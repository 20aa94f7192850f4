//! `strata run` stands in front of a command without being noticed: what the program is given, what
//! it says, how it ends.

use crate::support::prelude::*;

use std::os::unix::process::ExitStatusExt;

/// `strata run --memory 64M --quiet -- NAME`.
fn run_quietly(name: &str) -> Strata {
    Strata::new(["run", "--memory", "64M", "--quiet", "--"]).arg(program(name))
}

/// The same around a program of the system.
fn run_tool(words: &[&str]) -> Strata {
    Strata::new(["run", "--memory", "64M", "--quiet", "--"]).args(words)
}

#[test]
fn the_program_has_its_own_streams_environment_and_directory() {
    live!("cap_bpf", "memory_cgroup");
    let said = run_quietly("status")
        .arg("--echo")
        .stdin("one\ntwo\n")
        .finish();
    let said = said.expect_success();
    assert_eq!(
        (said.stdout.as_str(), said.stderr.as_str()),
        ("one\ntwo\n", "")
    );

    let said = run_tool(&["sh", "-c", "echo complaint >&2; exit 3"]).finish();
    assert_eq!((said.code(), &*said.stderr), (Some(3), "complaint\n"));

    let directory = tempfile::tempdir().expect("directory");
    let here = directory.path().canonicalize().expect("path");
    let output = run_quietly("status")
        .arg("--where")
        .env("STATUS_PROBE", "a b")
        .command()
        .current_dir(&here)
        .output()
        .expect("runs");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["cwd"], here.to_str().expect("text"));
    assert_eq!(told["probe"], "a b");
}

#[test]
fn the_exit_status_is_the_program_s_own_a_report_tells_it_and_quiet_says_nothing() {
    live!("cap_bpf", "memory_cgroup");
    for code in [0, 1, 7, 125, 255] {
        let run = run_quietly("status").args(["--code", &code.to_string()]);
        let (run, report) = run.finish_with_report();
        assert_eq!(run.code(), Some(code), "{}", run.stderr);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
        assert_eq!(report["ending"]["how"], "exited");
        assert!(warnings(&report).is_empty(), "{report:#}");
    }
}

#[test]
fn a_program_ended_by_a_signal_gives_128_and_its_number() {
    live!("cap_bpf", "memory_cgroup");
    for signal in [2, 9, 11, 15] {
        let (run, report) = Strata::new(["run", "--memory", "64M", "--"])
            .arg(program("status"))
            .args(["--signal", &signal.to_string()])
            .finish_with_report();
        assert_eq!(run.code(), Some(128 + signal), "{}", run.stderr);
        assert_eq!(report["ending"]["how"], "signaled");
        assert_eq!(report["ending"]["signal"], signal);
        assert_eq!(report["ending"]["is_oom_kill"], false);
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_be_executed_126() {
    live!("cap_bpf", "memory_cgroup");
    let run = run_tool(&["no-such-program-anywhere"]).finish();
    assert_eq!(run.code(), Some(127), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("no-such-program-anywhere"));

    let plain = tempfile::NamedTempFile::new().expect("file");
    fs::set_permissions(plain.path(), fs::Permissions::from_mode(0o644)).expect("mode");
    // Closed: what is open for writing can't be executed for another reason.
    let file = tempfile::NamedTempFile::new().expect("file");
    let script = file.into_temp_path();
    fs::write(&script, "#!/no/such/interpreter\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("mode");
    for path in [plain.path(), &*script, Path::new("/")] {
        let path = path.to_str().expect("text");
        let run = run_tool(&[path]).finish();
        assert_eq!(run.code(), Some(126), "{path}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

/// 300 children under Strata under these `ulimit`s until it manages so many of them; its standard output and its report.
fn run_many(limits: &str, nr_managed: u64, run_dir: &Path) -> (String, Value) {
    let file = tempfile::NamedTempFile::new().expect("file");
    let shell = format!("{limits}; exec \"$0\" \"$@\"");
    let child = Command::new("sh")
        .args(["-c", &shell, binary(), "run"])
        .args(["--memory", "100M", "--swap", "zram:256M", "--report"])
        .arg(file.path())
        // The program says what it was given.
        .args(["--", "sh", "-c", "ulimit -Sn; exec \"$0\" \"$@\""])
        .arg(program("forker"))
        .args(["--children", "300", "--size", "512K", "--hold"])
        .env("STRATA_RUN_DIR", run_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let socket = run_dir.join(child.id().to_string()).join("control.sock");
    wait_until("the control socket", || socket.exists());
    let ask = |args: &[&str]| {
        let said = Strata::new(["ctl", "--format", "json"])
            .args(args)
            .env("STRATA_RUN_DIR", run_dir)
            .finish();
        said.expect_success().json()
    };
    wait_until("an answer about many processes", || {
        // Who sleeps below the limit gives no reason to walk: each walk is ordered.
        let youngest = ask(&["generations"]);
        let youngest = youngest["nodes"][0]["generations"].as_array();
        match youngest.and_then(|all| all.last()?["seq"].as_u64()) {
            Some(seq) => ask(&[&format!("+ 1 0 {seq}")]),
            None => ask(&["evict", "4K"]),
        };
        ask(&["status"])["nr_processes"].as_u64() >= Some(nr_managed)
    });
    let run = finish(child, b"", Duration::from_secs(60) * patience()).expect_success();
    let told = run.json_lines().pop().expect("what the program says");
    assert_eq!(told["failed"], 0, "{}", run.stdout);
    (run.stdout, json_in(file.path()))
}

#[test]
fn more_children_than_the_soft_limit_has_files_are_managed() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let run_dir = tempfile::tempdir().expect("directory");
    // Slow processors may leave so many programs just above the budget, which is told.
    let is_silent = |report: &Value| patience() > 1 || warnings(report).is_empty();
    let (stdout, report) = try_thrice(
        || run_many("ulimit -S -n 256", 300, run_dir.path()),
        |(_, report)| is_silent(report),
    );
    assert!(stdout.starts_with("256\n"), "the program's own: {stdout}");
    assert!(report["nr_processes"].as_u64() >= Some(300), "{report:#}");
    assert!(is_silent(&report), "{report:#}");
    let told = warnings(&report).join("\n");
    assert!(!told.contains("files") && !told.contains("swap"), "{told}");
}

#[test]
fn at_the_hard_limit_of_files_it_is_said_and_the_rest_is_managed() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let run_dir = tempfile::tempdir().expect("directory");
    let (_, report) = run_many("ulimit -n 256", 100, run_dir.path());
    let told = warnings(&report).join("\n");
    assert_has(&told, "no more than 256 files");
    assert!(!told.contains("swap"), "there is swap: {told}");
    assert!(report["nr_processes"].as_u64() >= Some(100), "{report:#}");
}

/// Started under nohup, it ignores HUP: so does the program, and nothing else.
#[test]
fn the_program_gets_the_signal_settings_strata_was_started_with() {
    live!("cap_bpf", "memory_cgroup");
    let strata = run_tool(&["grep", "Sig", "/proc/self/status"]).command();
    let said = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(strata.get_program())
        .args(strata.get_args())
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // Signals 32 and 33 belong to the C library, which nobody can tell how to treat them.
    let set = |key: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(key));
        let bits = line.unwrap_or_else(|| panic!("{said}")).trim();
        u64::from_str_radix(bits, 16).expect("bits") & !(3 << 31)
    };
    assert_eq!((set("SigIgn:"), set("SigBlk:")), (1, 0), "{said}");
}

#[test]
fn the_program_runs_as_the_user_that_is_named() {
    live!("cap_bpf", "memory_cgroup");
    let run = |user: &str| {
        let options = ["run", "--memory", "64M", "--quiet", "--user", user];
        Strata::new(options)
            .args(["--", "sh", "-c", "id -u; id -g; id -G"])
            .finish()
    };
    let own = Command::new("sh")
        .args(["-c", "id -u nobody; id -g nobody; id -G nobody"])
        .output()
        .expect("id");
    let said = run("nobody").expect_success();
    assert_eq!(said.stdout, String::from_utf8_lossy(&own.stdout));

    let said = run("3999999999").expect_success();
    assert!(said.stdout.starts_with("3999999999\n3999999999\n"));

    let refused = run("no-such-user");
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    assert_has(&refused.stderr, "no-such-user");
}

#[test]
fn a_run_that_is_over_before_a_walk_tells_what_the_kernel_took() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let (run, report) = Strata::new(["run", "--memory", "48M", "--swap", "zram:256M", "--"])
        .arg(program("checksum"))
        .args(["--size", "120M", "--seconds", "3"])
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let number = |path: &str| report.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let nr_gone = number("/eviction/nr_applied_pages") + number("/eviction/nr_kernel_chosen_pages");
    assert!(nr_gone * 4096 > 40 * MIB, "{report:#}");
    assert!(
        nr_gone * 4096 >= number("/saved/evicted_bytes"),
        "{report:#}"
    );
    let nr_back =
        number("/kernel/nr_refaulted_anon_pages") + number("/kernel/nr_refaulted_file_pages");
    assert!(nr_back <= nr_gone, "{report:#}");
    assert!(
        number("/eviction/nr_refaulted_pages") >= nr_back,
        "{report:#}"
    );
}

#[test]
fn the_report_tells_the_whole_run() {
    live!("cap_bpf", "memory_cgroup");
    // Pages that Strata takes itself are counted on a busy machine, too, where the rest is left to programs.
    let (run, report) = Strata::new(["run", "--memory", "48M", "--swap", "zram:128M"])
        .args(["--actuator", "pageout", "--"])
        .arg(program("checksum"))
        .args(["--size", "80M", "--seconds", "3"])
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("strata: "), "{}", run.stderr);
    let number = |path: &str| {
        let found = report.pointer(path).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("{path} in {report:#}"))
    };
    assert_eq!(number("/version"), 2.0);
    assert_eq!(report["ending"]["code"], 0);
    assert_eq!(report["policy"], "mglru");
    assert_eq!(report["actuator"], "pageout");
    assert_eq!(report["is_dry_run"], false);
    assert_eq!(number("/usage/budget_bytes"), (48 * MIB) as f64);
    assert!(number("/usage/mean_bytes") <= number("/usage/peak_bytes"));
    assert!(number("/usage/above_budget_ms") <= number("/usage/observed_ms"));
    assert!(number("/elapsed_ms") >= 3000.0);
    let applied = number("/eviction/nr_applied_pages");
    assert!(applied <= number("/eviction/nr_tried_pages"));
    assert!(applied > 0.0, "{report:#}");
    assert!(number("/walks/nr_walks") >= 1.0);
    assert!(number("/kernel/nr_major_faults") > 0.0);
    assert!(number("/strata_cpu_ms") > 0.0);
    assert!(number("/saved/strata_bytes") > 0.0);
    assert!(number("/nr_processes") >= 1.0);
    let net = number("/saved/evicted_bytes")
        - number("/saved/zram_bytes")
        - number("/saved/strata_bytes");
    assert_eq!(number("/saved/net_bytes"), net);
    let generations = report["generations"].as_array().expect("generations");
    assert!((2..=4).contains(&generations.len()), "{generations:?}");
    let ages: Vec<_> = generations.iter().map(|g| g["age_ms"].as_u64()).collect();
    assert!(
        ages.is_sorted_by(|older, younger| older >= younger),
        "{ages:?}"
    );
}

#[test]
fn policy_none_sets_the_kernel_s_limit_and_looks_at_nothing() {
    live!("memory_cgroup");
    let (run, report) = Strata::new([
        "run",
        "--memory",
        "48M",
        "--swap",
        "zram:128M",
        "--policy",
        "none",
        "--",
    ])
    .arg(program("idle"))
    .args(["--size", "64M", "--seconds", "1"])
    .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(report["policy"], "none");
    assert_eq!(report["walks"]["nr_walks"], 0);
    assert_eq!(report["eviction"]["nr_tried_pages"], 0);
    let peak = report["usage"]["peak_bytes"].as_u64().expect("peak");
    assert!(peak <= 48 * MIB, "the kernel holds its limit: {peak}");
}

#[test]
fn a_dry_run_of_a_command_leaves_it_in_our_group_and_makes_no_swap() {
    live!("cap_bpf");
    let own = fs::read_to_string("/proc/self/cgroup").expect("cgroup");
    let said = Strata::new(["run", "--memory", "64M", "--swap", "zram:67M", "--dry-run"])
        .args(["-q", "--", "cat", "/proc/self/cgroup", "/proc/swaps"])
        .finish()
        .expect_success();
    assert!(said.stdout.starts_with(&own), "{}", said.stdout);
    let is_made = |kib: &str| kib == "68608" || kib == "68604";
    assert!(
        !said.stdout.split_whitespace().any(is_made),
        "{}",
        said.stdout
    );
}

/// On v2 no group can be made below one that has processes, and one beside would be out of reach of the outer budget.
#[test]
fn a_wrapper_in_a_wrapper_works_or_says_what_is_in_its_way() {
    live!("cap_bpf", "memory_cgroup");
    let inner = [binary(), "run", "--memory", "64M", "-q", "--"];
    let said = run_tool(&inner)
        .args(["sh", "-c", "echo inside; kill -TERM $$"])
        .finish();
    let is_v1 = memory_mount().expect("a memory controller").1;
    if !is_v1 {
        assert_eq!((said.code(), said.stdout.as_str()), (Some(125), ""));
        let has_advice = said.stderr.contains("move the processes of");
        assert!(has_advice, "{}", said.stderr);
        return;
    }
    assert_eq!(said.stdout, "inside\n", "{}", said.stderr);
    // The inner Strata exits with 143 like a shell; it does not die by the signal.
    assert_eq!(
        (said.code(), said.status.signal()),
        (Some(143), None),
        "{}",
        said.stderr
    );
}
