//! What `strata run` may not or can't do here, and whom it may not touch: one clear error, or less of
//! everything and a word about it.

use crate::support::prelude::*;

/// Runs `words` to its end.
fn run_words<S: AsRef<std::ffi::OsStr>>(words: &[S], stdin: &str) -> Option<Finished> {
    let child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    Some(finish(
        child,
        stdin.as_bytes(),
        Duration::from_secs(30) * patience(),
    ))
}

/// Copies that nobody, who may not look into everybody's checkout, can execute.
struct Shown(TempDir);

impl Shown {
    fn new() -> Shown {
        let directory = tempfile::Builder::new()
            .prefix("shown-")
            .tempdir_in("/tmp")
            .expect("directory");
        let mode = |bits| fs::Permissions::from_mode(bits);
        fs::set_permissions(directory.path(), mode(0o755)).expect("mode");
        for from in [PathBuf::from(binary()), program("idle")] {
            let copy = directory.path().join(from.file_name().expect("a name"));
            fs::copy(&from, &copy).expect("copy");
            fs::set_permissions(&copy, mode(0o755)).expect("mode");
        }
        Shown(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// `strata run OPTIONS` as nobody.
    fn run(&self, options: &[&str]) -> Finished {
        let strata = self.path("strata");
        let mut words = vec!["setpriv", "--reuid", "nobody", "--clear-groups", "--"];
        words.extend([strata.as_str(), "run", "--memory", "16M"]);
        words.extend(options);
        run_words(&words, "").expect("setpriv was there a moment ago")
    }
}

fn is_root_with_setpriv() -> bool {
    rustix::process::geteuid().is_root()
        && Command::new("setpriv")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

#[track_caller]
fn assert_one_error(run: &Finished, code: i32, why: &str) {
    assert_eq!(run.code(), Some(code), "{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.stdout, "", "nothing is started");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(why), "{why}: {}", run.stderr);
}

#[test]
fn without_root_and_for_a_process_of_another_there_is_one_clear_error_and_nothing_is_started() {
    if !is_root_with_setpriv() {
        skip!("needs root and setpriv, to become nobody");
    }
    let _guard = Guard::new();
    let shown = Shown::new();
    let run = shown.run(&["--", "echo", "started"]);
    assert_one_error(&run, 125, "run as root");
    let run = shown.run(&["--no-cgroup", "--access", "bpf", "--", "echo", "started"]);
    assert_one_error(&run, 125, "run as root, or use the smaps source");
    let run = shown.run(&["--no-cgroup", "--swap", "zram:64M", "--", "echo", "started"]);
    assert_one_error(&run, 125, "run as root");
    let own = std::process::id().to_string();
    for options in [&["--pid", &own][..], &["--no-cgroup", "--pid", &own]] {
        assert_one_error(&shown.run(options), 2, "it belongs to user 0");
    }
}

/// The budget can't be held then (the kernel takes no advice on others from nobody), and the reason
/// given was that the pages are locked or in use.
#[test]
fn without_root_a_program_of_one_s_own_is_watched_and_what_cannot_be_done_is_told() {
    if !is_root_with_setpriv() {
        skip!("needs root and setpriv, to become nobody");
    }
    let _guard = Guard::new();
    let shown = Shown::new();
    let idle = shown.path("idle");
    let seconds = (3 * patience()).to_string();
    let run = shown.run(&[
        "--no-cgroup",
        "--",
        &idle,
        "--size",
        // So little that it is read and cleared in one call on any machine.
        "28M",
        "--seconds",
        &seconds,
    ]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    if patience() > 1 && run.stderr.contains("smaps and clear_refs would hold it up") {
        skip!("an emulated processor reads smaps too slowly for pages to be looked at");
    }
    for told in [
        "CAP_SYS_NICE",
        "Strata can't take the pages of every process",
        "accesses      seen by smaps",
        "limit: single pages: bpf can't be used",
    ] {
        assert!(run.stderr.contains(told), "{told}: {}", run.stderr);
    }
}

/// `setpriv` words that leave root without what the page-table walk needs.
const NO_BPF: [&str; 6] = [
    "setpriv",
    "--bounding-set",
    "-bpf,-sys_admin,-perfmon",
    "--inh-caps",
    "-bpf,-sys_admin,-perfmon",
    "--",
];

#[test]
fn without_bpf_it_is_one_clear_error_to_ask_for_it_and_auto_falls_back_to_smaps_says_so_and_holds_the_budget()
 {
    needs!("memory_cgroup");
    if !is_root_with_setpriv() {
        skip!("needs root and setpriv, to drop capabilities");
    }
    let _guard = Guard::new();
    // The command is not started before it is known that the walk is impossible.
    let mut words = NO_BPF.to_vec();
    words.extend([binary(), "run", "--memory", "32M", "--access", "bpf"]);
    words.extend(["--", "echo", "started"]);
    let run = run_words(&words, "").expect("setpriv");
    assert_one_error(&run, 125, "CAP_BPF and CAP_PERFMON are missing");
    // Without CAP_SYS_ADMIN no swap can be made, so a file is mapped.
    let directory = match disk_directory() {
        Ok(directory) => directory,
        Err(reason) => skip!("{reason}"),
    };
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (report, file, touch) = (path("report"), path("file"), program("touch"));
    let mut words = NO_BPF.to_vec();
    words.extend([binary(), "run", "--memory", "40M", "--report", &report]);
    words.extend(["--", touch.to_str().expect("text"), "--shared"]);
    words.extend(["--size", "64M", "--file", &file]);
    let orders = format!(
        "writerange 0 16384\nsleep {}\nverify 0 16384\nexit 7\n",
        2 * patience()
    );
    let run = run_words(&words, &orders).expect("setpriv");
    assert_eq!(run.code(), Some(7), "{}", run.stderr);
    assert!(run.stdout.ends_with("ok 0\n"), "{}", run.stdout);
    let report = json_in(report);
    assert_eq!(report["access"]["name"], "smaps", "{report:#}");
    let blind = report["access"]["blind_spots"].to_string();
    assert!(blind.contains("CAP_BPF"), "why: {blind}");
    assert_has(&blind, "which pages of a mapping");
    let usage = |name: &str| report["usage"][name].as_u64().expect("bytes");
    assert!(usage("mean_bytes") <= 44 << 20, "{report:#}");
}

#[test]
fn watched_by_smaps_the_budget_holds_and_the_data_is_right() {
    live!("memory_cgroup", "zram", "process_madvise");
    let (run, report) = Strata::new(["run", "--memory", "40M", "--swap", "zram:128M"])
        .args(["--access", "smaps", "--"])
        .arg(program("checksum"))
        .args(["--size", "64M", "--seconds", "3"])
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(run.json_lines()[0]["bad"], 0, "{}", run.stdout);
    assert_eq!(report["access"]["name"], "smaps");
    let mean = report["usage"]["mean_bytes"].as_u64();
    assert!(mean <= Some(44 << 20), "{report:#}");
}

#[test]
fn a_cgroup_that_cannot_be_written_is_one_clear_error() {
    live!("memory_cgroup");
    let (mount, _) = memory_mount().expect("a memory controller");
    // In a mount namespace of its own, so that nobody else notices.
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec {1} run --memory 32M -- echo started",
        mount.display(),
        binary()
    );
    let run = run_words(&["unshare", "-m", "sh", "-c", &script], "").expect("unshare");
    assert_one_error(&run, 125, "Read-only file system");
    assert!(run.stderr.contains("--no-cgroup"), "{}", run.stderr);
}

#[test]
fn a_process_that_cannot_be_managed_is_one_clear_error() {
    live!("memory_cgroup");
    let mut gone = Command::new(program("status"))
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    gone.wait().expect("wait");
    let attach = |pid: u32| {
        Strata::new(["run", "--memory", "64M", "--pid"])
            .arg(pid.to_string())
            .finish()
    };
    assert_one_error(&attach(gone.id()), 2, "does not exist");
    let mut touch = Touch::start(["--size", "2M"]);
    touch.ask("threads 1");
    let threads = fs::read_dir(format!("/proc/{}/task", touch.pid)).expect("threads");
    let names = threads.flatten().map(|of| of.file_name().into_string());
    let ids = names.filter_map(|name| name.ok()?.parse::<u32>().ok());
    let id = ids.max().expect("a thread");
    assert_one_error(
        &attach(id),
        2,
        &format!("a thread of process {}", touch.pid),
    );
    for path in ["/no/such/group", "/", "../../proc", "/etc"] {
        let group = Strata::new(["run", "--memory", "64M", "--cgroup", path]);
        assert_one_error(&group.finish(), 2, "is not a memory cgroup");
    }
    // Where pid 2 is hidden or absent (a container), there is nothing to try.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n") {
        assert_one_error(&attach(2), 2, "kernel thread");
    }
}

/// In a pid namespace of its own: a process ends while Strata is stopped, and another one gets its
/// number before Strata can look.
const REUSE: &str = r#"
mem() { while read -r name kib _; do [ "$name" = "$2:" ] && echo "$kib"; done </proc/$1/status; }
"$IDLE" --size 64M >/dev/null & first=$!
"$STRATA" run --memory 32M --no-cgroup --swap zram:128M --report report --pid $first 2>err & strata=$!
until [ "$(mem $first VmSwap)" -gt 16384 ]; do sleep 0.05; done
kill -STOP $strata
kill -KILL $first
wait $first 2>/dev/null
echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
"$IDLE" --size 64M >said & second=$!
until [ -s said ]; do sleep 0.02; done
kill -CONT $strata
wait $strata
echo "status=$?"
[ $first = $second ] && echo reused
echo "swap=$(mem $second VmSwap)"
kill -TERM $second
wait $second 2>/dev/null
"#;

#[test]
fn a_pid_that_is_taken_by_another_process_is_let_go_of_untouched() {
    live!("cap_bpf", "zram", "process_madvise");
    let directory = tempfile::tempdir().expect("directory");
    // Sessions of others must not be judged from where their processes can't be seen.
    let child = Command::new("unshare")
        .args(["-pf", "--mount-proc", "sh", "-c", REUSE])
        .env("IDLE", program("idle"))
        .env("STRATA", binary())
        .env("STRATA_RUN_DIR", directory.path().join("sessions"))
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(child) = child else {
        skip!("needs unshare");
    };
    let run = finish(child, b"", Duration::from_secs(30) * patience());
    let said = fs::read_to_string(directory.path().join("err")).unwrap_or_default();
    assert_eq!(
        run.stdout, "status=0\nreused\nswap=0\n",
        "{}\n{said}",
        run.stderr
    );
    assert_has(&said, "has ended");
    assert!(Path::new(directory.path()).join("report").exists());
}
