//! `strata guard` on programs that hold more than they use.

use crate::support::prelude::*;

use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::sync_channel;
use strata_linux::swap::{SwapArea, swap_areas};

/// How long something may take that a guard has to learn first.
const LEARNING: Duration = Duration::from_secs(60);

/// A program of 64 MiB in a group of its own, of which it uses eight.
pub(crate) struct Idler {
    pub(crate) touch: Touch,
    pub(crate) group: TestGroup,
}

impl Idler {
    pub(crate) fn start(name: &str) -> Idler {
        let group = TestGroup::new(&format!("guard-{name}"));
        let mut touch = Touch::start(["--size", "64M"]);
        group.take(touch.pid);
        touch.ask("writerange 0 16384");
        touch.ask("hammer 1 2048");
        Idler { touch, group }
    }

    pub(crate) fn name(&self) -> String {
        self.group.name()
    }

    /// Ends the program and removes its group.
    pub(crate) fn end(mut self) {
        self.touch.ask("rest");
        assert_eq!(
            self.touch.ask("verify 0 16384"),
            "0",
            "pages are as they were"
        );
    }
}

/// A guard over the groups of this test. All that is idle goes as soon as it is known to be.
pub(crate) fn guard(options: &[&str]) -> Strata {
    let pattern = format!("/strata-test-guard-*-{}", std::process::id());
    Strata::new(["guard", "--format", "json", "--cgroup", &pattern])
        .args(["--min-age", "5s", "--cpu", "50%", "--history", "none"])
        .args(options)
}

/// A guard that goes by these rules, and the folder of their file, `guard.toml`.
pub(crate) fn guard_by(rules: &str) -> (Live, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    write_rules(folder.path(), rules);
    (guard_in(folder.path()), folder)
}

pub(crate) fn write_rules(folder: &Path, rules: &str) {
    let head = "swap = \"zram:1G\"\ncpu = \"50%\"\nhistory = \"none\"\n";
    let written = fs::write(folder.join("guard.toml"), head.to_owned() + rules);
    written.expect("rules");
}

/// A guard that goes by the rules in this folder.
pub(crate) fn guard_in(folder: &Path) -> Live {
    let strata = Strata::new(["guard", "--release", "--format", "json", "--config"]);
    Live::start(&strata.arg(folder.join("guard.toml")))
}

/// The swap that is made is taken down at the end.
pub(crate) const ACTING: [&str; 5] = ["--promise", "100%/min", "--swap", "zram:1G", "--release"];
/// The swap that is made stays, as it does by default.
pub(crate) const KEEPING: [&str; 4] = ["--promise", "100%/min", "--swap", "zram:1G"];

/// What a guard keeps as long as there is anything to undo.
pub(crate) fn state() -> PathBuf {
    run_dir().join("guard")
}

/// The swap in use that the guard's state names.
pub(crate) fn own_swap() -> Option<SwapArea> {
    let device = kept_swap(&state())?;
    let areas = swap_areas().expect("read");
    areas
        .into_iter()
        .find(|area| area.path.as_os_str() == device.as_str())
}

pub(crate) fn release() -> Finished {
    Strata::new(["guard", "--release"]).finish()
}

/// The group as a line tells of it; null where it does not.
pub(crate) fn of<'a>(status: &'a Value, group: &str) -> &'a Value {
    let groups = status["groups"].as_array().expect("groups");
    let found = groups.iter().find(|one| one["group"] == group);
    found.unwrap_or(&Value::Null)
}

pub(crate) fn bytes(group: &Value, name: &str) -> u64 {
    group[name].as_u64().unwrap_or(0)
}

/// Reads lines until one is as it should be.
#[track_caller]
pub(crate) fn wait_for(live: &Live, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
    let deadline = Instant::now() + LEARNING * patience();
    loop {
        let status = live.json();
        if is_so(&status) {
            return status;
        }
        assert!(
            Instant::now() < deadline,
            "waited in vain for {what}: {status:#}"
        );
    }
}

/// Ends a guard that has nothing to warn of but that its swap is left to the keeper, as pages of another test's group that is full may lie in it.
pub(crate) fn end(mut live: Live) {
    live.signal(Signal::INT);
    let status = live.end();
    let told = live.stderr();
    let warnings: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    let is_of_swap = |line: &&str| line.contains("stays in use");
    assert!(warnings.iter().all(is_of_swap), "{told}");
    assert!(status.success() || !warnings.is_empty(), "{told}");
}

#[test]
fn five_groups_give_what_they_do_not_use_and_those_that_end_leave_the_others_alone() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut idlers: Vec<Idler> = ["a", "b", "c", "d", "e"].map(Idler::start).into();
    let before: Vec<_> = idlers.iter().map(|idler| idler.group.values()).collect();
    let live = Live::start(&guard(&ACTING));
    let names: Vec<String> = idlers.iter().map(Idler::name).collect();
    let has_given =
        |status: &Value, name: &String| bytes(of(status, name), "away_bytes") > 16 * MIB;
    wait_for(&live, "all to give some", |status| {
        names.iter().all(|name| has_given(status, name))
    });
    let after: Vec<_> = idlers.iter().map(|idler| idler.group.values()).collect();
    assert_eq!(before, after, "no limit is set");
    // Two end in the middle.
    for idler in idlers.drain(..2) {
        idler.end();
    }
    let rest = &names[2..];
    let last = wait_for(&live, "the rest to give all", |status| {
        let has_all = |name: &String| bytes(of(status, name), "away_bytes") > 48 * MIB;
        of(status, &names[0]).is_null() && rest.iter().all(has_all)
    });
    for name in rest {
        let group = of(&last, name);
        // What is in use stays: eight MiB and the program itself.
        assert!(bytes(group, "resident_bytes") > 8 * MIB, "{group:#}");
        assert!(bytes(group, "came_back_bytes") < 4 * MIB, "{group:#}");
        // What it takes in compressed swap is not given back.
        let given_back = bytes(group, "given_back_bytes");
        assert!(
            given_back > 0 && given_back < bytes(group, "away_bytes"),
            "{group:#}"
        );
    }
    assert!(bytes(&last, "given_back_bytes") > 32 * MIB, "{last:#}");
    end(live);
    assert!(!state().exists(), "the guard's session is over");
    idlers.into_iter().for_each(Idler::end);
}

#[test]
fn a_group_whose_idle_memory_comes_back_is_left_alone_and_its_age_rises() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut idler = Idler::start("burst");
    let live = Live::start(&guard(&[
        "--promise",
        "20%/min",
        "--swap",
        "zram:1G",
        "--release",
    ]));
    let name = idler.name();
    wait_for(&live, "most to go", |status| {
        bytes(of(status, &name), "away_bytes") > 24 * MIB
    });
    idler.touch.ask("readrange 0 16384");
    let broken = wait_for(&live, "the promise to be broken", |status| {
        of(status, &name)["standing"] == "resting"
    });
    let taken_bytes = bytes(of(&broken, &name), "taken_bytes");
    assert_eq!(of(&broken, &name)["age_anon_ms"], 10_000);
    let later = wait_for(&live, "ten more walks", |status| {
        bytes(status, "nr_walks") > bytes(&broken, "nr_walks") + 10
    });
    assert_eq!(bytes(of(&later, &name), "taken_bytes"), taken_bytes);
    end(live);
    idler.end();
}

#[test]
fn a_killed_guard_leaves_its_swap_which_the_next_takes_over_and_a_second_one_is_refused() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let idler = Idler::start("killed");
    let live = Live::start(&guard(&ACTING));
    let name = idler.name();
    wait_for(&live, "some to go", |status| {
        bytes(of(status, &name), "away_bytes") > 8 * MIB
    });
    let asked = Strata::new(["guard", "status", "--format", "json"]).finish();
    let status = asked.expect_success().json_lines().remove(0);
    assert!(
        bytes(of(&status, &name), "away_bytes") > 8 * MIB,
        "{status:#}"
    );
    let second = guard(&ACTING).finish();
    assert_eq!(second.code(), Some(1), "{}", second.stderr);
    let named = format!("a guard runs already: pid {} (", live.pid());
    assert_has(&second.stderr, &named);
    assert_has(&second.stderr, "strata guard --format json");
    let busy = release();
    assert_eq!(busy.code(), Some(1), "{}", busy.stdout);
    live.signal(Signal::KILL);
    drop(live);
    let swap = own_swap().expect("it stays in use");
    assert!(swap.used_bytes > 0, "{swap:?}");
    let asked = Strata::new(["guard", "status"]).finish();
    assert_eq!(asked.code(), Some(1), "{}", asked.stdout);
    for told in [
        "no guard",
        "left swap in use",
        &*swap.path.to_string_lossy(),
    ] {
        assert!(asked.stderr.contains(told), "{told}: {}", asked.stderr);
    }
    // A run that starts cleans up after others, and leaves this alone.
    let run = Strata::new(["run", "--memory", "64M", "--quiet", "--", "true"]).finish();
    run.expect_success();
    assert_eq!(own_swap().map(|swap| swap.path), Some(swap.path.clone()));
    let another = guard(&["--promise", "100%/min", "--swap", "file:/tmp/none:8M"]).finish();
    assert_eq!(another.code(), Some(1), "{}", another.stdout);
    assert!(another.stderr.contains("--release"), "{}", another.stderr);
    let next = Live::start(&guard(&["--promise", "100%/min", "--swap", "zram:768M"]));
    next.wait_for_stderr("is taken over");
    next.wait_for_stderr("its size is 1 GiB, and 768 MiB is asked for");
    let status = next.json();
    assert!(bytes(&status["swap"], "used_bytes") > 0, "{status:#}");
    assert_eq!(own_swap().map(|swap| swap.path), Some(swap.path.clone()));
    next.signal(Signal::TERM);
    next.wait_for_stderr("stays in use");
    let mut next = next;
    assert_eq!(next.end().code(), Some(0), "{}", next.stderr());
    assert_eq!(own_swap().map(|swap| swap.path), Some(swap.path));
    let released = release().expect_success();
    assert_has(&released.stderr, "taken down");
    assert!(!state().exists() && own_swap().is_none());
    let again = release().expect_success();
    assert!(again.stderr.contains("no guard"), "{}", again.stderr);
    idler.end();
}

#[test]
fn a_service_manager_and_prometheus_are_told_how_it_stands_and_hold_no_guard_up_where_they_do_not_listen()
 {
    live!("cap_bpf", "memory_cgroup");
    let idler = Idler::start("served");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    // What is not taken from it stays in the socket.
    let (heard, hears) = sync_channel(0);
    thread::spawn(move || {
        let mut text = [0; 256];
        while let Ok(received) = socket.recv(&mut text) {
            let text = String::from_utf8_lossy(&text[..received]).into_owned();
            if heard.send(text).is_err() {
                return;
            }
        }
    });
    let said = || hears.try_recv().ok();
    let strata = guard(&["--metrics", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    let live = Live::start(&strata);
    let mut told = String::new();
    wait_until("the service manager to be told", || {
        told.extend(said());
        ["READY=1", "could be given back; 1 group\n", "WATCHDOG=1"]
            .iter()
            .all(|what| told.contains(what))
    });
    let name = idler.name();
    let last = wait_for(&live, "what could be given", |status| {
        bytes(of(status, &name), "could_give_bytes") > 48 * MIB
    });
    assert_eq!(last["is_acting"], false);
    let stderr = live.stderr();
    let address = stderr.split("http://").nth(1).expect("told");
    let text = scrape(address.split('/').next().expect("an address"));
    assert_has(&text, "strata_guard_group_used_within_bytes{");
    let could_give = value(&text, "strata_guard_group_could_give_bytes");
    assert!(could_give > Some(48.0 * MIB as f64), "{text}");
    assert_has(&text, "strata_guard_acting 0\n");
    // Each turn says something, and ten words fill the socket.
    wait_for(&live, "walks of which nobody takes a word", |status| {
        bytes(status, "nr_walks") > bytes(&last, "nr_walks") + 12
    });
    wait_until("the socket to be empty", || said().is_none());
    end(live);
    wait_until("the end to be told", || {
        told.extend(said());
        told.contains("STOPPING=1")
    });
    idler.end();
    match promtool() {
        Err(why) => skip!("needs promtool (Debian package prometheus): {why}"),
        Ok(promtool) => check(promtool, &text),
    }
}

#[test]
fn rules_hold_a_group_to_its_memory_and_a_hang_up_has_them_read_again() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let (held, free) = (Idler::start("held"), Idler::start("free"));
    let folder = tempfile::tempdir().expect("a folder");
    let write = |low: &str, more: &str| {
        let text = format!(
            "[[rule]]\ncgroup = \"{}\"\nmemory = \"24M\"\nmin_age = \"5s\"\nlow = \"{low}\"\n{more}",
            held.name()
        );
        write_rules(folder.path(), &text);
    };
    write("1M", "");
    let check = Strata::new(["guard", "--check", "--config"]).arg(folder.path().join("guard.toml"));
    check.finish().expect_success();
    let mut live = guard_in(folder.path());
    wait_until("what is held beyond to go", || {
        held.group.usage_bytes() <= 25 * MIB
    });
    assert!(free.group.usage_bytes() > 64 * MIB, "no rule is for it");
    write("1M", "[[rule]]\ncgroup = \"a[\"\n");
    live.signal(Signal::HUP);
    live.wait_for_stderr("the rules stay as they were");
    // Hung up faster than it looks, it says a word each time it looks all the same.
    write("2M", "");
    wait_until("words while it is hung up", || {
        live.signal(Signal::HUP);
        live.stderr().matches("hold now").count() >= 3
    });
    let more = format!(
        "[[rule]]\ncgroup = \"{}\"\npromise = \"100%/min\"\nmin_age = \"5s\"\n",
        free.name()
    );
    write("1M", &more);
    live.signal(Signal::HUP);
    wait_for(&live, "the other to give what is idle", |status| {
        bytes(of(status, &free.name()), "away_bytes") > 40 * MIB
    });
    live.interrupt();
    held.end();
    free.end();
}

#[test]
fn what_several_processes_map_goes_by_amount() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut idler = Idler::start("shared");
    // Children that sleep map all of it.
    idler.touch.ask("fork 2");
    let live = Live::start(&guard(&ACTING));
    let name = idler.name();
    let last = wait_for(&live, "what is shared to go", |status| {
        bytes(of(status, &name), "taken_by_amount_bytes") > 24 * MIB
    });
    let group = of(&last, &name);
    assert!(bytes(group, "resident_bytes") > 8 * MIB, "{group:#}");
    end(live);
    idler.touch.ask("reap");
    idler.end();
}

#[test]
fn a_host_that_is_short_of_memory_takes_what_is_idle_of_all_with_a_rule_promise_or_not() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let (watched, left) = (Idler::start("watched"), Idler::start("left"));
    // What the kernel protects of a group stays as what a rule keeps; v1 knows no protection.
    let low = match fs::write(watched.group.path.join("memory.low"), "20M") {
        Ok(()) => "",
        Err(_) => "low = \"20M\"\n",
    };
    let (live, _rules) = guard_by(&format!(
        "[host]\nfree = \"100%\"\n\
         [[rule]]\ncgroup = \"{}\"\npromise = \"none\"\nmin_age = \"5s\"\n{low}",
        watched.name()
    ));
    let last = wait_for(&live, "what is idle to go", |status| {
        bytes(of(status, &watched.name()), "away_bytes") > 32 * MIB
    });
    let group = of(&last, &watched.name());
    assert!(bytes(group, "resident_bytes") >= 19 * MIB, "{group:#}");
    assert!(left.group.usage_bytes() > 64 * MIB, "no rule is for it");
    end(live);
    watched.end();
    left.end();
}
