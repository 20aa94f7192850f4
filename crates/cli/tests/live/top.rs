//! `strata top` on live processes: printed once, and as a person uses it, in a terminal that tmux plays.

use crate::support::prelude::*;

use std::sync::atomic::{AtomicU32, Ordering};

/// Between two walks.
fn interval_ms() -> u64 {
    300 * u64::from(patience().div_ceil(3))
}

fn once(args: &[&str]) -> Value {
    Strata::new(["top", "--once", "--format", "json", "--interval"])
        .arg(format!("{}ms", interval_ms()))
        .args(args)
        .finish()
        .expect_success()
        .json()
}

fn touch_64_mib() -> Touch {
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16384");
    touch
}

#[test]
fn bars_add_up_to_what_is_resident_and_the_largest_mapping_is_the_region() {
    live!("cap_bpf");
    let touch = touch_64_mib();
    let seen = once(&["--pid", &touch.pid.to_string()]);
    let target = &seen["targets"][0];
    assert_eq!(target["name"], format!("{} touch", touch.pid));
    assert_eq!(seen["source"], "bpf");
    let bars = target["ages"]["bars"].as_array().expect("bars");
    let sum: u64 = bars
        .iter()
        .map(|bar| number(&bar["anon_bytes"]) + number(&bar["file_bytes"]))
        .sum();
    let resident = rss_bytes(touch.pid);
    assert!(
        sum.abs_diff(resident) * 50 <= resident,
        "{sum} of {resident}: {seen}"
    );
    let largest = &target["ages"]["mappings"][0];
    let region = number(&largest["resident"]["anon_bytes"]);
    assert_eq!(largest["class"], "anon");
    assert!((64 * MIB..66 * MIB).contains(&region), "{largest}");
    // The table of one target has a line for it, its ages and its mappings.
    let run = Strata::new(["top", "--once", "--interval"]).arg(format!("{}ms", interval_ms()));
    let run = run.args(["--tree", &touch.pid.to_string()]).finish();
    let table = run.expect_success().stdout;
    let name = format!("{} touch and below", touch.pid);
    for part in [&*name, "by time not used", "by mapping", "[anon]", "RFLT/s"] {
        assert_has(&table, part);
    }
}

#[test]
fn the_last_look_clears_nothing_that_nobody_looks_at() {
    live!("cap_bpf");
    let mut busy = Command::new("sh");
    let mut busy = busy
        .args(["-c", "while :; do :; done"])
        .spawn()
        .expect("sh");
    let seen = Strata::new(["top", "--once", "--format", "json", "--interval", "10s"])
        .args(["--for", "500ms", "--pid", &busy.id().to_string()])
        .finish();
    busy.kill().and_then(|()| busy.wait()).expect("it ends");
    let seen = seen.expect_success().json();
    // It was walked twice.
    let watched_ms = number(&seen["targets"][0]["ages"]["watched_ms"]);
    assert!(watched_ms > 0, "{seen}");
    assert_eq!(seen["hold_up"]["clear_refs"]["nr_calls"], 1, "{seen}");
}

#[test]
fn everybody_is_walked_without_being_asked_for_and_a_group_has_the_ages_of_those_in_it() {
    live!("cap_bpf", "memory_cgroup");
    let group = TestGroup::new("everybody");
    let touch = touch_64_mib();
    group.take(touch.pid);
    // The share of processors is for large programs that run beside the test.
    let length = format!("{}s", 2 * patience());
    let seen = once(&["--for", &length, "--cpu", "20%"]);
    let targets = seen["targets"].as_array().expect("targets");
    let of_group = |target: &&Value| {
        let path = target["name"].as_str();
        path.is_some_and(|path| path != "/" && group.path.to_string_lossy().ends_with(path))
    };
    let target = targets.iter().find(of_group);
    let target = target.unwrap_or_else(|| panic!("no {}: {seen:#}", group.path.display()));
    assert_eq!(target["is_watched"], false, "{target:#}");
    // It sleeps: all but what it needed to say that it is done.
    assert!(
        number(&target["ages"]["idle_bytes"]) >= 60 * MIB,
        "{target:#}"
    );
    let resident = rss_bytes(touch.pid);
    assert!(
        number(&target["ages"]["idle_bytes"]) <= resident,
        "{target:#}"
    );
    assert_eq!(seen["source"], "bpf");
}

/// Two programs that know nothing of each other, one of them with a child, in one group.
#[test]
fn the_whole_machine_and_each_cgroup_are_told_by_kind_without_a_walk() {
    needs!("memory_cgroup");
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("kinds");
    let touch = touch_64_mib();
    group.take(touch.pid);
    write_file(&group, &directory.path().join("cached"), 32);
    let seen = once(&["--cpu", "0%"]);
    let of_group = |target: &&Value| {
        let path = target["name"].as_str();
        path.is_some_and(|path| group.path.to_string_lossy().ends_with(path))
    };
    let targets = seen["targets"].as_array().expect("targets");
    for target in targets {
        assert!(target["ages"].is_null(), "{target}");
        let is_group = target["kind"] == "cgroup";
        assert_eq!(target["nr_processes"].is_null(), is_group, "{target}");
    }
    let target = targets
        .iter()
        .find(|target| target["kind"] == "cgroup" && target["name"] != "/" && of_group(target));
    let target = target.unwrap_or_else(|| panic!("no {}: {seen:#}", group.path.display()));
    assert!(number(&target["file_bytes"]) >= 31 * MIB, "{target:#}");
    for part in ["mapped_bytes", "shmem_bytes", "dirty_bytes"] {
        assert!(
            number(&target[part]) <= number(&target["file_bytes"]),
            "{part}: {target:#}"
        );
    }
    let host = &seen["host"];
    assert!(number(&host["anon_bytes"]) >= 64 * MIB, "{host}");
    assert!(number(&host["file_bytes"]) >= 31 * MIB, "{host}");
    assert!(
        number(&host["total_bytes"]) >= number(&host["available_bytes"]),
        "{host}"
    );
    let is_walked = !seen["source"].is_null() || seen["walk_us"] != 0;
    assert!(!is_walked, "{seen}");
}

#[test]
fn a_cgroup_that_is_watched_tells_its_page_cache_by_file() {
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache");
    let touch = touch_64_mib();
    group.take(touch.pid);
    let path = directory
        .path()
        .canonicalize()
        .expect("a path")
        .join("cached");
    write_file(&group, &path, 64);
    let seconds = format!("{}s", 12 * patience().min(7));
    let seen = once(&[
        "--for",
        &seconds,
        "--cgroup",
        &group.path.display().to_string(),
    ]);
    let files = &seen["targets"][0]["files"];
    let rows = files["files"].as_array();
    let rows = rows.unwrap_or_else(|| panic!("no census in {seconds}: {seen:#}"));
    let row = rows
        .iter()
        .find(|row| row["path"] == path.display().to_string());
    let row = row.unwrap_or_else(|| panic!("no {}: {files:#}", path.display()));
    // The census may have looked at a part of memory only.
    assert!(
        (16 * MIB..=192 * MIB).contains(&number(&row["cached_bytes"])),
        "{row}"
    );
    assert_eq!(row["is_open"], false, "{row}");
    let cache = &seen["targets"][0]["cache"];
    assert!(
        (16 * MIB..=192 * MIB).contains(&number(&cache["cached_bytes"])),
        "{cache}"
    );
}

#[test]
fn programs_that_share_a_group_are_listed_and_watched_one_by_one() {
    live!("cap_bpf", "memory_cgroup");
    let group = TestGroup::new("share");
    let mut large = touch_64_mib();
    let small = Touch::start(["--size", "16M"]);
    large.ask("fork 1");
    let child = children(large.pid)[0];
    for pid in [large.pid, child, small.pid] {
        group.take(pid);
    }
    let seen = once(&[]);
    let in_group = |target: &&Value| {
        let path = target["who"]["group"].as_str();
        path.is_some_and(|path| group.path.to_string_lossy().ends_with(path))
    };
    let targets = seen["targets"].as_array().expect("targets");
    let found: Vec<&Value> = targets.iter().filter(in_group).collect();
    let of_kind = |kind: &str| found.iter().filter(|target| target["kind"] == kind).count();
    assert_eq!((of_kind("cgroup"), of_kind("tree")), (1, 2), "{found:?}");
    let named = |touch: &Touch| {
        let name = format!("{} touch", touch.pid);
        let of_name = found.iter().find(|target| target["name"] == name);
        *of_name.unwrap_or_else(|| panic!("{name}: {found:?}"))
    };
    let of_large = named(&large);
    assert_eq!(of_large["nr_processes"], 2, "with its child: {of_large}");
    assert!(number(&of_large["resident_bytes"]) > 64 * MIB, "{of_large}");
    let command = of_large["who"]["command"].as_str().expect("a command line");
    assert!(command.ends_with("touch --size 64M"), "{command}");
    assert_eq!(of_large["who"]["user"], "root", "{of_large}");
    assert_eq!(named(&small)["nr_processes"], 1);

    // A group with another below is not the one program that is in itself. (Under v2 the inner one has no counters.)
    if memory_mount().is_some_and(|(_, is_v1)| is_v1) {
        let inner = group.below("inner");
        inner.take(small.pid);
        let seen = once(&[]);
        let named = |name: &str| {
            let mut targets = seen["targets"].as_array().expect("targets").iter();
            let found =
                targets.find(|target| target["name"].as_str().is_some_and(|n| n.ends_with(name)));
            found.unwrap_or_else(|| panic!("{name}: {seen}")).clone()
        };
        assert_eq!(named("/inner")["who"]["pid"], small.pid);
        let outer = group.path.file_name().expect("a name").to_string_lossy();
        assert!(named(&outer)["who"]["pid"].is_null(), "{}", named(&outer));
        assert_eq!(named(&format!("{} touch", large.pid))["kind"], "tree");
        group.take(small.pid);
        drop(inner);
    }

    let age = format!("{}ms", 2 * interval_ms());
    let run = Strata::new(["idle", "--format", "json", "--age", &age, "--under"])
        .arg(&group.path)
        .finish()
        .expect_success();
    let ranking = run.json();
    let programs = ranking["groups"][0]["programs"]
        .as_array()
        .expect("programs");
    let pids: Vec<i64> = programs
        .iter()
        .filter_map(|program| program["pid"].as_i64())
        .collect();
    assert_eq!(
        pids,
        [i64::from(large.pid), i64::from(small.pid)],
        "{ranking}"
    );
    assert!(number(&programs[0]["idle_bytes"]) > 60 * MIB, "{ranking}");

    // Two that are watched: few mappings of each, and what was idle for as long as that.
    let run = Strata::new(["top", "--once", "--interval", &age, "--pid"])
        .arg(large.pid.to_string())
        .args(["--pid", &small.pid.to_string()])
        .finish()
        .expect_success();
    assert_eq!(
        run.stdout.matches("the 5 largest of").count(),
        2,
        "{}",
        run.stdout
    );
    assert_has(&run.stdout, " IDLE>");
    let line = run
        .stdout
        .lines()
        .find(|line| line.contains("touch --size 64M"));
    assert!(
        line.is_some_and(|line| line.contains("64M")),
        "{}",
        run.stdout
    );
    large.ask("reap");
    drop((large, small));
}

/// A terminal of 80 columns and 24 lines in which a shell ran one command; gone when dropped.
#[derive(Debug)]
struct Terminal {
    tmux: PathBuf,
    socket: String,
}

/// tmux, installed or unpacked.
fn tmux() -> Result<PathBuf, String> {
    let unpacked = target_dir().join("servers/bin/tmux");
    let found = [PathBuf::from("tmux"), unpacked].into_iter().find(|path| {
        let version = Command::new(path).arg("-V").output();
        version.is_ok_and(|output| output.status.success())
    });
    found.ok_or_else(|| "needs tmux: scripts/servers.sh tmux unpacks it".to_owned())
}

impl Terminal {
    /// Runs `strata` with these arguments; when it ends the shell says so, and how the terminal is set.
    fn start(tmux: PathBuf, args: &str) -> Terminal {
        // A server that is told to end may take a moment: nobody is to meet the one before.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("strata-test-{}-{nth}", std::process::id());
        let terminal = Terminal { tmux, socket };
        let script = format!(
            "{} {args}; echo ended with $?; stty -a; exec sleep 1000",
            binary()
        );
        let (size, shell) = (["-x", "80", "-y", "24"], ["sh", "-c", &script]);
        let mut command = terminal.command();
        command.args(["-f", "/dev/null", "-u", "new-session", "-d"]);
        let started = command
            .args(size)
            .args(shell)
            .env("LC_ALL", "C.UTF-8")
            .output();
        let started = started.expect("tmux can be run");
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(started.status.success(), "tmux: {said}");
        terminal
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.tmux);
        command.args(["-L", &self.socket]);
        command
    }

    fn ask(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().expect("tmux can be run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    fn press(&self, key: &str) {
        self.ask(&["send-keys", key]);
    }

    /// What a terminal says of a click at this column and line, counted from 0.
    fn click(&self, column: usize, line: usize) {
        let press = format!("\u{1b}[<0;{};{}M", column + 1, line + 1);
        self.ask(&["send-keys", "-l", &press]);
    }

    fn flags(&self, flags: &str) -> String {
        self.ask(&["display-message", "-p", flags])
            .trim()
            .to_owned()
    }

    /// Waits until all these are on the screen, and returns it.
    #[track_caller]
    fn wait_for(&self, parts: &[&str]) -> String {
        let mut screen = String::new();
        wait_until(&format!("{parts:?} on the screen"), || {
            screen = self.screen();
            parts.iter().all(|part| screen.contains(part))
        });
        screen
    }

    /// The pid of `strata`, a child of the shell.
    fn strata_pid(&self) -> i32 {
        let shell = self.ask(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim().parse().expect("a pid");
        children(shell)[0]
    }

    /// Ended with this status, and left the terminal as a shell needs it.
    #[track_caller]
    fn expect_restored(&self, status: i32) {
        let screen = self.wait_for(&[&format!("ended with {status}"), "icanon"]);
        let words: Vec<&str> = screen.split([' ', '\n', ';']).collect();
        for mode in ["icanon", "echo", "isig"] {
            assert!(words.contains(&mode), "{mode} is off:\n{screen}");
        }
        let flags = self.flags("#{alternate_on} #{cursor_flag} #{mouse_any_flag}");
        assert_eq!(flags, "0 1 0", "alternate screen off, cursor on, mouse off");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}

#[test]
fn a_person_sees_ages_and_mappings_in_a_terminal_and_leaves_it_as_it_was() {
    needs!("cap_bpf");
    let tmux = match tmux() {
        Ok(tmux) => tmux,
        Err(why) => skip!("{why}"),
    };
    let _guard = Guard::new();
    let touch = touch_64_mib();
    let terminal = Terminal::start(
        tmux,
        &format!("top --pid {} --interval {}ms", touch.pid, interval_ms()),
    );
    // The region was written before the watch and is never used again: it stands in bars that move on.
    let name = format!("{} touch", touch.pid);
    let parts = [
        &*name,
        "  watched ",
        "bpf walk",
        "MAPPING by size",
        "[anon]",
        "\u{2588}",
    ];
    let screen = terminal.wait_for(&parts);
    let anon = screen.lines().find(|line| line.contains("[anon]"));
    let size = anon.and_then(|line| line.split_whitespace().nth(1));
    assert!(matches!(size, Some("64M" | "65M")), "{screen}");
    let resident = screen.lines().find(|line| line.contains("resident"));
    assert!(
        resident.is_some_and(|line| line.contains("anon 6")),
        "{screen}"
    );

    terminal.press("?");
    terminal.wait_for(&["Nothing is evicted"]);
    terminal.press("Enter");
    terminal.wait_for(&["MAPPING by size"]);
    terminal.press("s");
    let screen = terminal.wait_for(&["MAPPING by idle memory"]);
    let mut lines = screen.lines().enumerate();
    let title = lines.find_map(|(line, text)| Some((text.find("SIZE")?, line)));
    let (column, line) = title.expect("a column of sizes");
    terminal.click(column, line);
    terminal.wait_for(&["MAPPING by size"]);
    assert_eq!(terminal.flags("#{mouse_any_flag}"), "1");
    terminal.press("m");
    terminal.wait_for(&["mouse off"]);
    assert_eq!(
        terminal.flags("#{mouse_any_flag}"),
        "0",
        "text can be selected"
    );
    terminal.press("m");
    terminal.press("p");
    terminal.wait_for(&["PAUSED"]);
    terminal.press("p");
    terminal.press("Escape");
    terminal.wait_for(&["1 target, 1 watched", "TARGET"]);
    terminal.press("Enter");
    terminal.wait_for(&["MAPPING by size"]);
    drop(touch);
    // It stays on the screen until it is left.
    terminal.wait_for(&["has ended", "[anon]"]);
    terminal.press("q");
    terminal.expect_restored(0);
}

#[test]
fn the_terminal_is_given_back_when_a_signal_ends_strata() {
    needs!("cap_bpf");
    let tmux = match tmux() {
        Ok(tmux) => tmux,
        Err(why) => skip!("{why}"),
    };
    let _guard = Guard::new();
    let touch = touch_64_mib();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let args = format!("top --pid {} --interval {}ms", touch.pid, interval_ms());
        let terminal = Terminal::start(tmux.clone(), &args);
        terminal.wait_for(&["bpf walk"]);
        send(terminal.strata_pid(), signal);
        terminal.expect_restored(status);
    }
}
