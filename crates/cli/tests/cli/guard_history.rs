//! `strata guard history` on a history that was kept, and on what is none.

use crate::support::prelude::*;

use std::time::{SystemTime, UNIX_EPOCH};
use strata_host::managed::Status;
use strata_host::managed::history::History;

/// A guard of one group of which so much was taken.
pub(crate) fn status(taken_bytes: u64) -> Status {
    let group = json!({
        "group": "/app.slice/shop.service", "name": null, "resident_bytes": 100 << 20, "used_lately_bytes": 60 << 20,
        "idle_bytes": 40 << 20, "could_give_bytes": 40 << 20, "shared_bytes": 0, "unknown_bytes": 0,
        "away_bytes": taken_bytes, "away_anon_bytes": taken_bytes, "cache_bytes": null, "idle_cache_bytes": null, "dropped_cache_bytes": 0, "taken_bytes": taken_bytes, "taken_by_amount_bytes": 0, "came_back_bytes": 0,
        "came_back_per_min_bytes": 0, "allowed_per_min_bytes": 0, "age_anon_ms": 60000, "age_file_ms": 60000,
        "standing": "kept", "why_not_more": null,
    });
    let status = json!({
        "is_acting": true, "min_age_ms": 60000, "watched_ms": 0, "nr_walks": 1,
        "cpu_ns": 0, "resident_bytes": 100 << 20, "away_bytes": taken_bytes, "price_bytes": 1 << 20,
        "given_back_bytes": taken_bytes, "dropped_cache_bytes": 0, "groups": [group],
    });
    serde_json::from_value(status).expect("a status")
}

/// Two minutes of history, up to now.
pub(crate) fn keep(path: &Path) {
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let mut history = History::start(path).expect("a thread");
    for (ago_s, taken_mib) in [(60, 8), (0, 24)] {
        let news = history.look(now_s.as_secs() - ago_s, &status(taken_mib << 20));
        assert_eq!(news, None);
    }
    assert_eq!(history.end(), Vec::<String>::new());
}

fn ask(path: &Path, args: &[&str]) -> Finished {
    let path = path.to_str().expect("text");
    Strata::new(["guard", "history", "--history", path])
        .args(args)
        .finish()
}

#[test]
fn what_was_kept_is_told_as_a_table_as_json_and_as_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    keep(&path);
    let picture = folder.path().join("picture.svg");
    let text = ask(&path, &["--svg", picture.to_str().expect("text")]);
    let text = text.expect_success().stdout;
    assert!(
        text.starts_with("given back 24 MiB, of which 0 B came back"),
        "{text}"
    );
    assert_has(&text, "/app.slice/shop.service");
    let svg = fs::read_to_string(picture).expect("a picture");
    assert_has(&svg, ">given back</text>");
    let by_minute = ["--since", "5m", "--format", "json", "app.slice/*"];
    let account = ask(&path, &by_minute)
        .expect_success()
        .json_lines()
        .remove(0);
    let slots = account["slots"].as_array().expect("slots");
    let taken: Vec<_> = slots
        .iter()
        .map(|slot| slot["taken_bytes"].as_u64())
        .collect();
    assert_eq!(taken, [Some(8 << 20), Some(16 << 20)], "{account:#}");
    let other = ask(&path, &["/other"]).expect_success().stdout;
    assert_has(&other, "no guard that keeps a history");
}

#[test]
fn what_is_no_history_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    let missing = ask(&path, &[]);
    assert_eq!(missing.code(), Some(1));
    assert_has(&missing.stderr, "there is no history at");
    fs::write(
        &path,
        "no database, but a text that is long enough".repeat(100),
    )
    .expect("written");
    let garbage = ask(&path, &[]);
    assert_eq!(garbage.code(), Some(1));
    assert_has(&garbage.stderr, "is no database");
}

#[test]
fn a_disk_without_room_is_called_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    keep(&path);
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("made");
    // A file system of its own, which goes with the last process that sees it.
    const FULL: &str = r#"mount -t tmpfs -o size=256k none "$1" && cp "$2" "$1/h.db" && echo mounted || exit 0
        head -c 1M /dev/zero >"$1/fill" 2>/dev/null
        exec "$3" guard history --history "$1/h.db""#;
    let done = Command::new("unshare")
        .args(["-rm", "sh", "-c", FULL, "sh"])
        .args([&disk, &path])
        .arg(env!("CARGO_BIN_EXE_strata"))
        .output();
    let done = match done {
        Ok(done) if done.stdout.starts_with(b"mounted") => done,
        other => crate::skip!("nothing can be mounted: {other:?}"),
    };
    let said = String::from_utf8_lossy(&done.stderr);
    assert_has(&said, "is full");
    assert_eq!(done.status.code(), Some(1));
}
