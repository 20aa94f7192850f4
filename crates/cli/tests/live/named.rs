//! Runs that have names.

use crate::support::prelude::*;

/// `strata run --name NAME OPTIONS -- touch`.
fn named(run_dir: &Path, name: &str, options: &[&str]) -> Strata {
    Strata::new(["run", "--memory", "64M", "--name", name])
        .args(options)
        .arg("--")
        .arg(program("touch"))
        .args(["--size", "8M"])
        .env("STRATA_RUN_DIR", run_dir)
}

fn start(run_dir: &Path, name: &str, options: &[&str]) -> Live {
    let live = Live::start(&named(run_dir, name, options));
    let line = live.line();
    assert!(line.starts_with("ready "), "{line}");
    live
}

fn ctl(run_dir: &Path, args: &[&str]) -> Finished {
    let strata = Strata::new(["ctl"]).args(args);
    strata.env("STRATA_RUN_DIR", run_dir).finish()
}

fn end(mut live: Live) {
    writeln!(live.stdin(), "exit 0").expect("touch listens");
    assert_eq!(live.end().code(), Some(0));
}

#[test]
fn a_run_is_asked_by_its_name_and_metrics_have_it() {
    live!("page_walk", "memory_cgroup");
    let folder = tempfile::tempdir().expect("directory");
    let run_dir = folder.path().join("run");
    let textfile = folder.path().join("strata.prom");
    let shown = textfile.display().to_string();
    let web = start(&run_dir, "web", &["--metrics-textfile", &shown]);
    let db = start(&run_dir, "db-2", &["--dry-run"]);
    for args in [
        &["--name", "web", "status", "--format", "json"][..],
        &["status", "--id", "web", "--format", "json"],
    ] {
        let said = ctl(&run_dir, args).expect_success();
        let status = said.json();
        assert_eq!(status["id"], "web", "{args:?}");
    }
    let unnamed = Strata::new(["run", "--memory", "256M", "--dry-run", "--"]);
    let unnamed = unnamed.arg(program("touch")).args(["--size", "8M"]);
    let unnamed = Live::start(&unnamed.env("STRATA_RUN_DIR", &run_dir));
    unnamed.line();
    let id = unnamed.pid().to_string();
    let said = ctl(&run_dir, &["--id", &id, "status", "--format", "json"]);
    assert_eq!(said.expect_success().json()["id"], id.as_str());
    // Which of them, has to be said.
    let said = ctl(&run_dir, &["status"]);
    assert_eq!(said.code(), Some(2));
    for id in ["db-2", "web", &id] {
        assert_has(&said.stderr, &format!("{id} ("));
    }
    let unknown = ctl(&run_dir, &["--id", "1-99", "status"]);
    assert_eq!(unknown.code(), Some(2));
    assert_has(&unknown.stderr, "no strata run has the id");
    end(unnamed);
    wait_until("metrics", || {
        fs::read_to_string(&textfile)
            .is_ok_and(|text| text.contains("strata_run_info{name=\"web\","))
    });
    end(db);
    end(web);
    assert!(!run_dir.join("web").exists());
    for args in [&["ctl", "status"][..], &["lru-gen"]] {
        let said = Strata::new(args).env("STRATA_RUN_DIR", &run_dir).finish();
        assert_eq!(said.code(), Some(2));
        assert_has(&said.stderr, "no strata run is running");
    }
}

#[test]
fn a_name_is_given_to_one_living_run_at_a_time() {
    live!("page_walk", "memory_cgroup");
    let folder = tempfile::tempdir().expect("directory");
    let run_dir = folder.path();
    let mut first = start(run_dir, "mail", &[]);
    let started = folder.path().join("started");
    let second = Strata::new(["run", "--memory", "64M", "--name", "mail", "--", "touch"])
        .arg(&started)
        .env("STRATA_RUN_DIR", run_dir);
    let refused = |what: &str| {
        let said = second.finish();
        assert_eq!(said.code(), Some(2), "{what}: {}", said.stderr);
        assert!(
            said.stderr.contains("a run named mail is there already"),
            "{what}: {}",
            said.stderr
        );
        assert!(!started.exists(), "{what}: the program was started");
    };
    refused("beside a living run");
    first.signal(Signal::KILL);
    first.end();
    // The keeper holds the name while the program goes on.
    refused("beside the program of a run that was killed");
    writeln!(first.stdin(), "exit 0").expect("touch listens");
    wait_until("the name to be free", || !run_dir.join("mail").exists());
    second.finish().expect_success();
    assert!(started.exists());
}
