//! A running `strata run`, asked and changed through its control socket.

use crate::support::prelude::*;

use std::os::unix::net::UnixStream;
use strata_lru::lru_gen::parse_plain;

const PAGE: u64 = 4096;

#[test]
fn a_new_budget_is_held_and_a_larger_one_gives_room_again() {
    needs!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let mut run = Run::start(&["--memory", "160M", "--swap", "zram:256M"], "96M");
    let mode = fs::metadata(run.socket())
        .expect("socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    run.tell("writerange 0 24576");
    // Before the first look nothing is known of it.
    wait_until("the program to be in memory", || {
        let usage = run.ask(&["status"])["usage_bytes"].as_u64();
        usage > Some(96 * MIB)
    });
    assert_eq!(run.status("/usage/budget_bytes"), 160 * MIB);

    let answer = run.ask(&["set-budget", "64M"]);
    assert_eq!(answer["budget_bytes"], 64 * MIB, "{answer}");
    wait_until("usage to come down to the new budget", || {
        run.status("/usage_bytes") <= 64 * MIB
    });
    run.ask(&["set-budget", "160M"]);
    run.tell("readrange 0 24576");
    wait_until("the program to be back in memory", || {
        run.status("/usage_bytes") > 90 * MIB
    });
    run.tell("verify 0 24576");
    let refused = run.refused(&["set-budget", "4096"]);
    assert_has(&refused, "can't be held");
    assert_eq!(run.status("/usage/budget_bytes"), 160 * MIB);
    run.end();
}

#[test]
fn the_kernels_commands_age_and_evict_and_paused_or_dry_nothing_is_taken() {
    needs!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let mut run = Run::start(&["--memory", "256M", "--swap", "zram:256M"], "64M");
    run.tell("writerange 0 16384");
    let text = |full: &[&str]| {
        let said = Strata::new(["lru-gen"])
            .args(full)
            .env("STRATA_RUN_DIR", run.run_dir.path())
            .finish();
        said.expect_success().stdout
    };
    let youngest = || {
        let views = parse_plain(&text(&[])).expect("the kernel's text");
        views[0].generations.last().expect("a generation").seq.0
    };
    let resident = || {
        let views = parse_plain(&text(&[])).expect("the kernel's text");
        let sizes = views[0]
            .generations
            .iter()
            .flat_map(|of| of.nr_pages)
            .flatten();
        sizes.sum::<u64>()
    };
    // The first command finds the group's pages, so that there is a group on a node at all.
    run.ask(&["evict", "4K"]);
    let first = youngest();
    for step in 0..3 {
        let answer = run.ask(&[&format!("+ 1 0 {}", first + step)]);
        assert_eq!(
            (&answer["nr_walks"], &answer["nr_commands"]),
            (&1.into(), &1.into())
        );
        assert_eq!(youngest(), first + step + 1);
    }
    let before = resident();
    assert!(before >= 16_000, "{before} pages");
    assert!(text(&["--full"]).lines().count() > text(&[]).lines().count());

    let command = format!("- 1 0 {} 60 4096", youngest() - 2);
    let answer = run.ask(&[&command]);
    let applied = answer["nr_applied_pages"].as_u64().expect("a number");
    assert!((2048..=4608).contains(&applied), "{answer}");
    assert!(
        answer["nr_tried_pages"].as_u64() >= Some(applied),
        "{answer}"
    );
    assert!(
        resident() <= before - applied + 64,
        "{before} - {applied} is not {}",
        resident()
    );

    for (command, why) in [
        ("+ 1 0", "a command is"),
        ("+ 9 0 1", "no memcg 9"),
        ("+ 1 5 1", "no node 5"),
        ("- 1 0 9999", "out of range"),
        ("- 1 0 1 300", "swappiness"),
    ] {
        let refused = run.refused(&[command]);
        assert!(
            refused.contains(why) && refused.contains("EINVAL"),
            "{refused}"
        );
    }
    run.ask(&["pause"]);
    assert_eq!(run.ask(&["status"])["is_paused"], true);
    assert!(run.refused(&["evict", "8M"]).contains("resume it first"));
    assert!(run.refused(&["+ 1 0 3"]).contains("resume it first"));
    run.ask(&["resume"]);
    assert_eq!(run.ask(&["dry-run", "on"])["is_dry_run"], true);
    let decided = run.ask(&["evict", "4M"]);
    assert_eq!(decided["nr_applied_pages"], 0, "{decided}");
    assert!(decided["nr_tried_pages"].as_u64() > Some(0), "{decided}");
    assert_eq!(run.ask(&["dry-run"])["is_dry_run"], false, "toggled");
    let usage = run.status("/usage_bytes");
    let done = run.ask(&["evict", "8M"]);
    let applied = number(&done["nr_applied_pages"]) * PAGE;
    assert!((6 * MIB..=12 * MIB).contains(&applied), "{done}");
    wait_until("usage to fall", || {
        run.status("/usage_bytes") + applied / 2 < usage
    });
    run.tell("verify 0 16384");
    run.end();
}

#[test]
fn an_order_for_more_than_there_is_ends_and_lets_others_in() {
    needs!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let options = ["--memory", "256M", "--swap", "zram:512M", "--quiet"];
    // What is taken from it comes back at once.
    let mut run = Run::start_program(&options, &["zipf", "--size", "96M", "--seconds", "600"]);
    wait_until("the control socket", || run.socket().exists());
    // Before the first look nothing is known of it.
    wait_until("the program to be in memory", || {
        let usage = run.ask(&["status"])["usage_bytes"].as_u64();
        usage > Some(96 * MIB)
    });
    let usage = run.status("/usage_bytes");
    let done = run.ask(&["evict", "1T"]);
    let tried = done["nr_tried_pages"].as_u64().expect("a number") * PAGE;
    assert!(
        (MIB..=usage + 16 * MIB).contains(&tried),
        "each page is tried once: {done}, {usage} bytes were in memory"
    );

    let order = Strata::new(["ctl", "evict", "1T"]).env("STRATA_RUN_DIR", run.run_dir.path());
    let mut first = Live::start(&order);
    let second = run.ask(&["evict", "4K"]);
    assert!(second["nr_tried_pages"].as_u64() > Some(0), "{second}");
    assert_eq!(run.ask(&["pause"])["is_paused"], true);
    // Either it was through by then, or the pause has ended it.
    let code = first.end().code();
    assert!(matches!(code, Some(0 | 1)), "{}", first.stderr());
    let evicted = run.status("/eviction/nr_applied_pages");
    assert_eq!(run.status("/eviction/nr_applied_pages"), evicted);
    run.live.signal(Signal::TERM);
    assert_eq!(run.live.end().code(), Some(128 + 15));
}

#[test]
fn names_from_outside_give_the_terminal_no_orders() {
    needs!("page_walk", "memory_cgroup");
    let _guard = Guard::new();
    let directory = tempfile::tempdir().expect("directory");
    let evil = directory.path().join("e\x1b[2J\nstrata: all is well");
    fs::copy(program("touch"), &evil).expect("copied");
    let target = Touch::start_behind(&mut Command::new(&evil), ["--size", "8M"]);
    let pid = target.pid.to_string();
    let run = |words: &[&str]| {
        let run_dir = tempfile::tempdir().expect("directory");
        let strata = Strata::new(["run", "--memory", "256M", "--metrics", "127.0.0.1:0"]);
        let strata = strata.args(words).env("STRATA_RUN_DIR", run_dir.path());
        Run {
            live: Live::start(&strata),
            run_dir,
        }
    };
    let words = ["--", evil.to_str().expect("text"), "--size", "8M"];
    for mut run in [run(&["--pid", &pid]), run(&words)] {
        wait_until("the control socket", || run.socket().exists());
        let said = Strata::new(["ctl", "status"])
            .env("STRATA_RUN_DIR", run.run_dir.path())
            .finish()
            .expect_success();
        let metrics = scrape(&run.metrics_address());
        assert_has(&metrics, "e?[2J");
        run.live.signal(Signal::TERM);
        run.live.end();
        for text in [&said.stdout, &run.live.stderr(), &metrics] {
            assert!(!text.contains('\x1b'), "{text:?}");
            let forged = text.lines().find(|line| line.starts_with("strata: all is"));
            assert_eq!(forged, None, "{text:?}");
        }
    }
}

#[test]
fn hostile_clients_harm_neither_the_program_nor_those_who_ask() {
    needs!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let mut run = Run::start(&["--memory", "48M", "--swap", "zram:256M"], "96M");
    run.tell("writerange 0 24576");
    let connect = || UnixStream::connect(run.socket()).expect("connects");
    // They begin a line and never end it, send noise without end, ask and never read, hang up.
    let slow: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = connect();
            let _ = stream.write_all(b"{\"request\":\"sta");
            stream
        })
        .collect();
    let mut state = 1u64;
    for round in 0..60 {
        let mut stream = connect();
        stream
            .set_write_timeout(Some(Duration::from_secs(2)))
            .expect("timeout");
        let mut noise: Vec<u8> = (0..40_000).map(|_| next_random(&mut state) as u8).collect();
        if round % 3 == 0 {
            noise.retain(|byte| *byte != b'\n');
            noise = noise.repeat(4);
        }
        let _ = stream.write_all(&noise);
        let _ = stream.write_all(&b"{\"request\":\"status\"}\n".repeat(500));
    }
    let asked = Instant::now();
    let usage = run.status("/usage_bytes");
    assert!(asked.elapsed() < Duration::from_secs(10) * patience());
    assert!(usage <= 57 * MIB, "the budget is held meanwhile: {usage}");
    drop(slow);
    // What a line of the wrong kind is told.
    let mut stream = BufReader::new(connect());
    stream.get_mut().write_all(b"hello\n").expect("writes");
    let mut answer = String::new();
    stream.read_line(&mut answer).expect("an answer");
    assert_has(&answer, "\"ok\":false");
    run.tell("verify 0 24576");
    run.end();
}

#[test]
fn the_socket_speaks_lines_to_anything_that_can_write_to_it() {
    needs!("page_walk");
    let _guard = Guard::new();
    let run = Run::start(&["--memory", "256M", "--dry-run"], "16M");
    let mut stream = UnixStream::connect(run.socket()).expect("connects");
    stream
        .write_all(b"{\"request\":\"status\"}\n{\"request\":\"groups\"}\n{\"request\":\"pause\"}")
        .expect("writes");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shut down");
    let mut answers = String::new();
    stream
        .read_to_string(&mut answers)
        .expect("answers, then the end");
    let lines: Vec<Value> = answers
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3, "{answers}");
    assert!(lines.iter().all(|line| line["ok"] == true), "{answers}");
    assert_eq!(lines[1]["groups"][0]["budget_bytes"], 256 * MIB);
    assert_eq!(lines[2]["is_paused"], true);
    run.end();
}
