//! What `strata guard` says of itself: whether it goes on, which rules nobody goes by, and to whom it says nothing.

use crate::support::prelude::*;

use crate::guard::{Idler, guard};

fn status() -> Finished {
    Strata::new(["guard", "status", "--format", "json"]).finish()
}

#[test]
fn rules_that_nobody_goes_by_are_told_at_the_start_by_check_and_by_the_status() {
    live!("cap_bpf", "memory_cgroup");
    let idler = Idler::start("ruled");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("guard.toml");
    let (mount, _) = memory_mount().expect("a memory controller");
    let name = idler.name();
    let text = format!(
        "history = \"none\"\nexclude = [\"/no/such/lab\"]\n\
         [[rule]]\ncgroup = \"{}{name}\"\npromise = \"none\"\nmin_age = \"5s\"\n\
         [[rule]]\ncgroup = \"/no/such/group\"\n[[rule]]\ncgroup = \"*{name}\"\n",
        mount.display()
    );
    fs::write(&path, text).expect("a file");
    let config = ["--config", path.to_str().expect("text")];
    let nobody = [
        "rule 2 (cgroup \"/no/such/group\"): no group, as none fits in which a process is",
        "no group, as rule 1 comes before it and takes them",
        "exclude \"/no/such/lab\": no group, as none fits",
    ];
    let check = Strata::new(["guard", "--check"]).args(config).finish();
    let check = check.expect_success().stdout;
    let live = Live::start(&Strata::new(["guard", "--format", "json"]).args(config));
    let status = live.json();
    wait_until("a status", || self::status().code() == Some(0));
    let table = Strata::new(["guard", "status"]).finish().stdout;
    assert_has(&check, &format!("(cgroup \"{name}\"): 1 group\n"));
    for told in nobody {
        live.wait_for_stderr(told);
        assert_has(&check, told);
        assert_has(&table, told);
    }
    let fits = status["fits"].as_array().expect("rules");
    let nr_groups: Vec<&Value> = fits.iter().map(|fit| &fit["nr_groups"]).collect();
    assert_eq!(nr_groups, [1, 0, 0, 0], "{status:#}");
    live.json();
    live.json();
    assert_eq!(live.stderr().matches(nobody[0]).count(), 1, "once");
    // What is no file is not read, and nobody waits for it.
    fs::remove_file(&path).expect("removed");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("runs").success());
    for _ in 0..2 {
        live.signal(Signal::HUP);
        live.wait_for_stderr("no regular file");
    }
    let nr_readers = || {
        let threads = fs::read_dir(format!("/proc/{}/task", live.pid())).expect("threads");
        let names = threads
            .flatten()
            .filter_map(|of| fs::read_to_string(of.path().join("comm")).ok());
        names.filter(|name| name.trim() == "strata-rules").count()
    };
    wait_until("the readers to end", || nr_readers() == 0);
    let mut live = live;
    live.interrupt();
    idler.end();
}

#[test]
fn how_much_more_fits_is_told_and_so_is_who_stands_still_may_not_look_or_can_not_write() {
    live!("cap_bpf", "memory_cgroup");
    let room = |args: &[&str]| Strata::new(["guard", "room"]).args(args).finish();
    let none = room(&[]);
    assert_eq!(none.code(), Some(1));
    assert_has(&none.stderr, "no guard with --promise runs");
    let idler = Idler::start("room");
    let mut live = Live::start(&guard(&["--promise", "100%/min"]));
    wait_until("the room to be told", || room(&[]).code() == Some(0));
    let told = room(&["--format", "json"]).json_lines().remove(0);
    let bytes = |name: &str| told[name].as_u64().expect("bytes");
    let all = bytes("available_bytes") + bytes("idle_bytes");
    assert_eq!(
        bytes("room_bytes"),
        all.saturating_sub(bytes("wanted_bytes"))
    );
    // One group is looked after, of 64 MiB.
    assert!(
        (60 << 20..70 << 20).contains(&bytes("group_bytes")),
        "{told:#}"
    );
    assert_eq!(
        bytes("nr_more_groups"),
        bytes("room_bytes") / bytes("group_bytes")
    );
    let of_status = |size| Strata::new(["guard", "status", "--room", size]).finish();
    assert_eq!(of_status("1M").code(), Some(0));
    assert_eq!(of_status("1000T").code(), Some(1));
    let text = room(&["1M"]);
    assert_eq!(text.code(), Some(0));
    assert!(text.stdout.starts_with("room for "), "{}", text.stdout);
    assert_eq!(room(&["1000T"]).code(), Some(1));
    assert_rights_are_told(&idler.name());
    assert_standstill_is_told(&live);
    // Nothing can be renamed over it.
    let in_the_way = run_dir().join("guard/status.json");
    wait_until("a directory in its place", || {
        let _removed = fs::remove_file(&in_the_way);
        fs::create_dir_all(in_the_way.join("x")).is_ok()
    });
    live.wait_for_stderr("warning: the status can't be written");
    fs::remove_dir_all(&in_the_way).expect("removed");
    live.wait_for_stderr("the status can be written again");
    live.interrupt();
    assert_eq!(live.stderr().matches("warning").count(), 1, "once");
    idler.end();
}

/// Whoever may not look is told so, and not that no guard runs.
fn assert_rights_are_told(group: &str) {
    let closed = tempfile::tempdir().expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("root's alone");
    let history = closed.path().join("history.db");
    let history = ["history", "--history", history.to_str().expect("text")];
    for verb in [&["status"][..], &["demote", "1M"], &history] {
        let guard = Strata::new(["guard"])
            .args(verb)
            .command()
            .uid(65534)
            .gid(65534)
            .output();
        // This checkout may not be everybody's to read.
        let Ok(asked) = guard else { return };
        let told = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert_eq!(asked.status.code(), Some(1), "{told}");
        assert_has(&told, "denied");
        assert_eq!(told.matches("run as root").count(), 1, "{told}");
        let is_wrong = told.contains("no guard") || told.contains("no history");
        assert!(!is_wrong, "{told}");
    }
    let asked = |words: &[&str]| {
        let mut asked = Strata::new(words.iter().copied()).command();
        let asked = asked.uid(65534).gid(65534).output().expect("as before");
        String::from_utf8_lossy(&asked.stdout).into_owned()
            + &String::from_utf8_lossy(&asked.stderr)
    };
    for words in [
        &["park", "--cgroup", group][..],
        &[
            "guard", "--cgroup", group, "--access", "smaps", "--for", "1s",
        ],
        &["top", "--once", "--for", "2s"],
    ] {
        let told = asked(words);
        assert_has(&told, "can't be read");
        assert_has(&told, "run as root");
    }
    // The session of the guard is no run, let alone one that has died.
    assert_has(&asked(&["ctl", "status"]), "no strata run is running");
    let run = ["run", "--memory", "64M", "--no-cgroup", "--", "true"];
    assert!(!asked(&run).contains("has died"));
}

/// A guard that stands still is told as such, and one that goes on again is not.
fn assert_standstill_is_told(live: &Live) {
    live.signal(Signal::STOP);
    wait_until("the status to be old", || status().code() == Some(1));
    let told = status();
    assert_has(&told.stderr, "stands still: the last walk was");
    let old = &told.json_lines()[0];
    let ms = |name: &str| old[name].as_u64().expect("a time");
    assert!(ms("walk_age_ms") > 3 * ms("walk_interval_ms"), "{old:#}");
    let text = Strata::new(["guard", "status"]).finish().stdout;
    assert!(text.starts_with("the last walk was "), "{text}");
    live.signal(Signal::CONT);
    wait_until("the status to be new", || status().code() == Some(0));
}
