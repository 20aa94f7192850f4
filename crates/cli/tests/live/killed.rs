//! Strata is killed at any moment: the program goes on unharmed, its limits go at once, and nothing is
//! left behind once it has ended.

use crate::support::prelude::*;

use rustix::process::{Pid, kill_process};

/// A program under pressure that checks its own data, begins and ends within seconds.
const WORK: &str = "checksum --size 160M --seconds 4 --threads 1";
const BUDGET: &str = "100M";
/// Limits must be gone so long after Strata was killed: at once, but for the wait for a processor on a busy machine.
const LIMITS_GONE: Duration = Duration::from_secs(3);
/// Everything else must be gone so long after the program has ended. Swap stays while pages of another test's full group may lie in it.
const ALL_GONE: Duration = Duration::from_secs(100);

/// `strata run` in front of a shell that notes when its work begins and how it ends.
struct Run {
    strata: Child,
    notes: TempDir,
}

impl Run {
    /// `work`: a workload and its options.
    fn start(work: &str) -> Run {
        Run::start_in_shell("", work)
    }

    /// `before`: shell commands that come first.
    fn start_in_shell(before: &str, work: &str) -> Run {
        let notes = tempfile::tempdir().expect("temporary directory");
        let (name, options) = work.split_once(' ').expect("NAME OPTIONS");
        let script = format!(
            "{before} echo $$ >begun; '{}' {options} >said; echo $? >ended.new; mv ended.new ended",
            program(name).display()
        );
        let log = File::create(notes.path().join("stderr")).expect("log");
        let strata = Command::new(binary())
            .args([
                "run",
                "--memory",
                BUDGET,
                "--swap",
                "zram:512M",
                "--report",
                "report",
                "--",
            ])
            .args(["sh", "-c", &script])
            .current_dir(notes.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("strata starts");
        Run { strata, notes }
    }

    fn note(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.notes.path().join(name)).ok()?;
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The shell's process, once the work begins.
    fn wait_until_begun(&self) -> i32 {
        let pid = wait_for(Duration::from_secs(10), || self.note("begun"));
        pid.unwrap_or_else(|| panic!("the program did not begin: {:?}", self.note("stderr")))
            .parse()
            .expect("pid")
    }

    fn state_directory(&self) -> PathBuf {
        run_dir().join(self.strata.id().to_string())
    }

    /// The group that was made for the program, if it was.
    fn group(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(self.state_directory().join("state.json")).ok()?;
        let state: Value = serde_json::from_str(&text).ok()?;
        let mut undo = state["undo"].as_array()?.iter();
        let step = undo.find(|step| step["undo"] == "remove_group")?;
        Some(PathBuf::from(step["path"].as_str()?))
    }

    fn keeper(&self) -> i32 {
        keepers_of(self.strata.id() as i32).pop().expect("a keeper")
    }

    fn report(&self) -> Value {
        let text = self.note("report").expect("a report");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The keeper, if it is another one than `former`.
    fn next_keeper(&self, former: i32) -> Option<i32> {
        let all = keepers_of(self.strata.id() as i32);
        all.into_iter().find(|&pid| pid != former)
    }

    fn kill_strata(&mut self) {
        self.strata.kill().expect("kill");
        self.strata.wait().expect("wait");
    }

    /// Waits for the program's own end; it must have found its data right.
    fn expect_right_end(&self) {
        let status = wait_for(Duration::from_secs(60), || self.note("ended"));
        let said = self.note("said").unwrap_or_default();
        assert_eq!(
            status.as_deref(),
            Some("0"),
            "{said} {:?}",
            self.note("stderr")
        );
        let said: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(said["bad"], 0, "{said}");
        assert!(said["verified"].as_u64() > Some(0), "{said}");
    }

    /// Waits for Strata's orderly end with the program's status.
    fn expect_orderly_end(&mut self) {
        let status = wait_for(Duration::from_secs(60), || {
            self.strata.try_wait().expect("wait")
        });
        let status = status.expect("strata ends");
        assert_eq!(status.code(), Some(0), "{:?}", self.note("stderr"));
        assert!(self.note("report").is_some(), "no report");
    }
}

fn wait_for<T>(limit: Duration, mut what: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit * patience();
    loop {
        let found = what();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        sleep(Duration::from_millis(10));
    }
}

/// What squeezes a group: its hard limit, the line below it, and an OOM killer that is off. `None` if
/// none does.
fn squeeze(group: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    let limit = limit.trim();
    // Without a limit v1 shows the largest number of whole pages.
    let is_limited = limit != "max" && limit.parse::<u64>().is_ok_and(|bytes| bytes < 1 << 62);
    let oom = read("memory.oom_control").unwrap_or_default();
    let is_oom_off = oom.lines().any(|line| line == "oom_kill_disable 1");
    let high = read("memory.high").unwrap_or_default();
    let is_throttled = !["", "max"].contains(&high.trim());
    (is_limited || is_oom_off || is_throttled)
        .then(|| format!("limit {limit}, high {high}, {}", oom.replace('\n', ", ")))
}

/// Fails unless the group, if it is there, is free within [`LIMITS_GONE`].
fn expect_limits_gone(group: &Path) {
    let start = Instant::now();
    let free = wait_for(LIMITS_GONE, || squeeze(group).is_none().then_some(()));
    assert!(
        free.is_some(),
        "after {:?} {}: {:?}",
        start.elapsed(),
        group.display(),
        squeeze(group)
    );
}

fn expect_all_gone(guard: &Guard) {
    let gone = wait_for(ALL_GONE, || guard.leaks().is_empty().then_some(()));
    assert!(gone.is_some(), "still there: {:?}", guard.leaks());
}

/// Killed after it had said so and before it had removed the directory itself, Strata once left it.
#[test]
fn a_keeper_that_hears_that_all_is_done_removes_the_state_directory() {
    let run_directory = tempfile::tempdir().expect("a directory");
    let state = run_directory.path().join("1-1");
    fs::create_dir(&state).expect("a directory");
    let mut keeper = Command::new(binary())
        .args(["keeper", "--state"])
        .arg(&state)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a keeper");
    let mut pipe = keeper.stdin.take().expect("its pipe");
    pipe.write_all(b"D").expect("somebody listens");
    drop(pipe);
    assert!(keeper.wait().expect("it ends").success());
    assert!(!state.exists());
}

/// Starts a Strata that has nothing to do but recover what others left, and returns what it says.
fn recover() -> String {
    let run = Strata::new(["run", "--verbose", "--memory", "64M", "--", "true"]).finish();
    run.expect_success().stderr
}

/// What such a Strata says without `--verbose`.
fn recover_in_short() -> String {
    let run = Strata::new(["run", "--memory", "64M", "--", "true"]).finish();
    run.expect_success().stderr
}

/// One life of a Strata that is killed so long after its start.
fn kill_after(moment: Duration) {
    let guard = Guard::new();
    let mut run = Run::start(WORK);
    sleep(moment);
    let before = run.group();
    let is_begun = run.note("begun").is_some();
    run.kill_strata();
    if let Some(group) = before.or_else(|| run.group()) {
        expect_limits_gone(&group);
    }
    // Killed before the program was started, there is nothing to go on; a program that was just
    // being started may still come.
    if is_begun || wait_for(Duration::from_secs(1), || run.note("begun")).is_some() {
        run.expect_right_end();
    }
    // Between making its state directory and starting the keeper Strata changes nothing, and leaves
    // that directory to the next start.
    let is_all_gone = wait_for(ALL_GONE, || guard.leaks().is_empty().then_some(())).is_some();
    if !is_all_gone {
        let state = format!("state {}", run.state_directory().display());
        assert_eq!(guard.leaks(), [state], "killed after {moment:?}");
        assert!(
            !is_begun,
            "the keeper left its directory, killed after {moment:?}"
        );
        recover();
        expect_all_gone(&guard);
    }
}

/// Every other moment lies in the set-up, the rest in the run.
fn kill_at_random_moments(seed: u64, count: u64) {
    let mut state = seed;
    for nth in 0..count {
        let range_ms = if nth % 2 == 0 { 250 } else { 3500 };
        let moment = Duration::from_millis(next_random(&mut state) % range_ms);
        // A guest's programs take some 7 times as long; patience is for limits, three times that.
        kill_after(moment * patience().div_ceil(3));
    }
}

#[test]
fn a_strata_killed_at_any_moment_harms_nobody_and_leaves_nothing() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    kill_at_random_moments(1, 5);
}

#[test]
#[ignore = "takes about four minutes"]
fn long_a_strata_killed_at_50_moments_harms_nobody_and_leaves_nothing() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    kill_at_random_moments(2, 50);
}

#[test]
fn a_keeper_that_was_killed_is_replaced_and_the_next_one_does_its_work() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let guard = Guard::new();
    let mut run = Run::start(WORK);
    run.wait_until_begun();
    let first = run.keeper();
    send(first, Signal::KILL);
    let second = wait_for(Duration::from_secs(1), || run.next_keeper(first));
    let second = second.expect("no other keeper within a second");
    let told = wait_for(Duration::from_secs(1), || {
        let said = run.note("stderr")?;
        said.contains(&format!("another one (pid {second}) has taken its place"))
            .then_some(said)
    });
    let told = told.unwrap_or_else(|| panic!("not told: {:?}", run.note("stderr")));
    assert_has(&told, &format!("keeper (pid {first}) ended"));
    let group = run.group().expect("a group");
    run.kill_strata();
    expect_limits_gone(&group);
    run.expect_right_end();
    expect_all_gone(&guard);
}

#[test]
fn a_program_that_ignores_term_keeps_its_budget_and_the_report_tells_what_became_of_the_keeper() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let guard = Guard::new();
    let mut run = Run::start_in_shell("trap '' TERM;", WORK);
    run.wait_until_begun();
    let group = run.group().expect("a group");
    for _ in 0..3 {
        kill_process(Pid::from_child(&run.strata), Signal::TERM).expect("kill");
        sleep(Duration::from_millis(200));
    }
    assert!(squeeze(&group).is_some(), "the limit is gone");
    let keeper = run.keeper();
    send(keeper, Signal::STOP);
    let goes_on = wait_for(Duration::from_secs(1), || {
        let said = run.note("stderr").unwrap_or_default();
        (said.contains("was stopped") && state(keeper) != 'T').then_some(())
    });
    assert!(goes_on.is_some(), "{:?}", run.note("stderr"));
    send(keeper, Signal::KILL);
    let replaced = wait_for(Duration::from_secs(1), || run.next_keeper(keeper));
    assert!(replaced.is_some(), "no other keeper within a second");
    // Nobody waits for a keeper at the end.
    run.expect_orderly_end();
    let report = run.report();
    let told = ["nr_stops", "nr_deaths", "nr_replacements"].map(|name| &report["keeper"][name]);
    assert_eq!(told, [1; 3], "{report:#}");
    let warnings = report["warnings"].to_string();
    // Swap is left to it while pages of another test's full group may lie there.
    let end = match warnings.contains("stays in use") {
        true => "left",
        false => "dismissed",
    };
    assert_eq!(report["keeper"]["end"], end, "{report:#}");
    assert_has(&warnings, "ended before its time");
    run.expect_right_end();
    expect_all_gone(&guard);
}

#[test]
fn what_a_dead_strata_and_a_dead_keeper_left_is_cleaned_by_the_next_start() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let guard = Guard::new();
    // Long enough for two more starts of Strata.
    let mut run = Run::start(&WORK.replace("--seconds 4", "--seconds 20"));
    run.wait_until_begun();
    let group = run.group().expect("a group");
    assert!(
        squeeze(&group).is_some(),
        "nothing limits {}",
        group.display()
    );
    // Stopped, else it might start another keeper, which has it go on within a second.
    let keeper = run.keeper();
    stop(Pid::from_child(&run.strata).as_raw_nonzero().get());
    send(keeper, Signal::KILL);
    run.kill_strata();
    sleep(Duration::from_millis(300));
    assert!(squeeze(&group).is_some(), "who lifted the limits?");

    let said = recover();
    assert_has(&said, "its limits are lifted");
    let said = recover_in_short();
    assert!(!said.contains("has died"), "told of another run: {said}");
    assert_eq!(squeeze(&group), None);
    assert!(run.note("ended").is_none(), "the program should still run");
    let device = kept_swap(&run.state_directory()).expect("a device");
    assert!(swap_devices().contains(&device), "its swap is gone");

    run.expect_right_end();
    let said = wait_for(Duration::from_secs(5), || {
        Some(recover()).filter(|said| said.contains("cleaned up"))
    });
    assert!(said.is_some(), "not cleaned up: {:?}", guard.leaks());
    expect_all_gone(&guard);
}

#[test]
fn a_keeper_whose_directory_somebody_removed_ends_when_all_is_undone() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let guard = Guard::new();
    let mut run = Run::start(WORK);
    run.wait_until_begun();
    let (group, keeper) = (run.group().expect("a group"), run.keeper());
    run.kill_strata();
    expect_limits_gone(&group);
    // The keeper writes there meanwhile.
    wait_until("it to be removed", || {
        let _again = fs::remove_dir_all(run.state_directory());
        !run.state_directory().exists()
    });
    run.expect_right_end();
    let has_ended = wait_for(ALL_GONE, || (state(keeper) == 'X').then_some(()));
    assert!(has_ended.is_some(), "{keeper}: {}", state(keeper));
    expect_all_gone(&guard);
}

#[test]
fn two_stratas_at_once_leave_each_other_alone() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let guard = Guard::new();
    let (mut one, mut other) = (Run::start(WORK), Run::start(WORK));
    one.wait_until_begun();
    other.wait_until_begun();
    let (one_group, other_group) = (one.group().expect("group"), other.group().expect("group"));
    assert_ne!(one_group, other_group);
    sleep(Duration::from_secs(1));
    one.kill_strata();
    expect_limits_gone(&one_group);
    assert!(squeeze(&other_group).is_some(), "the other's limit is gone");
    one.expect_right_end();
    other.expect_orderly_end();
    other.expect_right_end();
    expect_all_gone(&guard);
}
