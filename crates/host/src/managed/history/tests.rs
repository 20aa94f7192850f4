//! A history through what may happen to it: power failures, full and slow disks, files of others, time.

use super::database::{HistoryError, log_of, open_to_write};
use super::keep::History;
use super::minutes::{HOST, Minute};
use super::store::{Bounds, HOUR_S, Store};
use super::{Account, By, Figures, Question, read};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strata_control::promise::Standing;

use crate::managed::status::{GroupStatus, Status};

const DAY_S: u64 = 24 * HOUR_S;
/// When tests begin: an hour begins then.
const NOW_S: u64 = 500_000 * HOUR_S;

/// A guard of groups of which so much was taken and came back.
pub(super) fn status(cpu_ns: u64, groups: &[(&str, u64, u64)]) -> Status {
    let group = |(path, taken, came_back): &(&str, u64, u64)| GroupStatus {
        group: (*path).to_owned(),
        name: None,
        pod: None,
        promise: Some("0.2%/min".to_owned()),
        promise_share_per_min: Some(0.002),
        memory_bytes: None,
        resident_bytes: 1000,
        used_lately_bytes: 400,
        used_within_bytes: BTreeMap::from([(60, 400)]),
        idle_bytes: 600,
        could_give_bytes: 600,
        shared_bytes: 0,
        unknown_bytes: 0,
        away_bytes: taken - came_back,
        away_anon_bytes: 0,
        given_back_bytes: 0,
        cache_bytes: None,
        idle_cache_bytes: None,
        dropped_cache_bytes: 0,
        taken_bytes: *taken,
        taken_by_amount_bytes: 0,
        came_back_bytes: *came_back,
        came_back_per_min_bytes: 0,
        allowed_per_min_bytes: 0,
        age_anon_ms: 60_000,
        age_file_ms: 60_000,
        standing: Standing::Kept,
        is_frozen: false,
        is_slowed: false,
        is_parked: false,
        nodes: BTreeMap::new(),
        why_not_more: None,
        gives_nothing: false,
        kinds: Vec::new(),
    };
    let min_age = Duration::from_secs(60);
    let groups = groups.iter().map(group).collect();
    Status::of(true, min_age, Duration::ZERO, 1, cpu_ns, 100, groups)
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept/history.db");
    (folder, path)
}

fn store(path: &Path) -> Store {
    Store::open(path, Bounds::default()).unwrap()
}

/// A minute in which each of so many groups, and the host, gave back and held away so much.
fn minute(at_s: u64, nr_groups: usize, bytes: u64) -> Minute {
    let figures = Figures {
        away_bytes: bytes,
        taken_bytes: bytes,
        ..Figures::default()
    };
    let groups = (0..nr_groups).map(|number| (format!("/app.slice/{number}"), figures));
    let all = groups.chain([(HOST.to_owned(), figures)]);
    let figures = all.collect::<BTreeMap<_, _>>();
    Minute { at_s, figures }
}

fn ask(path: &Path, since_s: u64, by: By, group: Option<&str>) -> Result<Account, HistoryError> {
    let (from_s, to_s) = (NOW_S - since_s, NOW_S + HOUR_S);
    read(
        path,
        &Question {
            from_s,
            to_s,
            by,
            group,
        },
    )
}

/// When a slot begins, and what was away and given back in it.
fn slots(account: &Account) -> Vec<(u64, u64, u64)> {
    let of = |slot: &super::Slot| (slot.at_s, slot.figures.away_bytes, slot.figures.taken_bytes);
    account.slots.iter().map(of).collect()
}

#[test]
fn what_is_kept_can_be_asked_by_minute_hour_and_group_while_it_is_written() {
    let (_folder, path) = place();
    let mut store = store(&path);
    for (after_s, bytes) in [(0, 10), (60, 30)] {
        store.add(&minute(NOW_S + after_s, 3, bytes)).unwrap();
    }
    // A clock that was set back: counters add up.
    store.add(&minute(NOW_S, 3, 20)).unwrap();
    let by_minute = ask(&path, 0, By::Minute, None).unwrap();
    assert_eq!(slots(&by_minute), [(NOW_S, 20, 30), (NOW_S + 60, 30, 30)]);
    let by_hour = ask(&path, 0, By::Hour, Some("app.slice/*")).unwrap();
    assert_eq!(slots(&by_hour), [(NOW_S, 3 * 25, 3 * 60)]);
    let one = ask(&path, 0, By::Hour, Some("/app.slice/2")).unwrap();
    assert_eq!((slots(&one), one.groups.len()), (vec![(NOW_S, 25, 60)], 1));
    assert_eq!(slots(&ask(&path, 0, By::Hour, Some("/none")).unwrap()), []);
}

/// Groups of which one comes late add up to the host, by minutes and by the hours that these become.
#[test]
fn means_of_groups_add_up_to_that_of_the_host_whenever_they_were_there() {
    let (_folder, path) = place();
    let mut store = store(&path);
    let old_s = NOW_S - 3 * DAY_S;
    for at_s in [old_s, NOW_S] {
        for (after_s, groups) in [(0, 1), (60, 2), (120, 2)] {
            let mut minute = minute(at_s + after_s, groups, 300);
            let host = minute.figures.get_mut(HOST).unwrap();
            host.away_bytes *= groups as u64;
            store.add(&minute).unwrap();
        }
    }
    // All that is there from the start, and a group that was there for two minutes of three.
    let away = |since_s, by| {
        let account = ask(&path, since_s, by, None).unwrap();
        let groups = account.groups.iter().map(|of| of.figures.away_bytes);
        let host: Vec<u64> = account
            .slots
            .iter()
            .map(|of| of.figures.away_bytes)
            .collect();
        (host, groups.collect::<Vec<u64>>())
    };
    assert_eq!(away(0, By::Hour), (vec![500], vec![300, 200]));
    assert_eq!(away(4 * DAY_S, By::Hour), (vec![500, 500], vec![300, 200]));
    let one = ask(&path, 0, By::Hour, Some("*/1")).unwrap();
    assert_eq!(slots(&one), [(NOW_S, 200, 600)]);
}

#[test]
fn minutes_become_hours_after_a_day_and_are_gone_after_two_weeks() {
    let (_folder, path) = place();
    let mut store = store(&path);
    for age_s in [15 * DAY_S, 13 * DAY_S, 13 * DAY_S - 60, 2 * HOUR_S, 0] {
        store
            .add(&minute(NOW_S - age_s, 2, age_s / HOUR_S))
            .unwrap();
    }
    let old_s = NOW_S - 13 * DAY_S;
    let (first, second) = (13 * 24, (13 * DAY_S - 60) / HOUR_S);
    let expected = [
        (old_s, (first + second) / 2, first + second),
        (NOW_S - 2 * HOUR_S, 2, 2),
        (NOW_S, 0, 0),
    ];
    let account = ask(&path, 20 * DAY_S, By::Minute, None).unwrap();
    assert_eq!(slots(&account), expected);
}

#[test]
fn a_history_keeps_within_its_bounds_and_loses_the_oldest() {
    let (_folder, path) = place();
    let bounds = Bounds {
        nr_pages_max: 64,
        log_bytes_max: 1 << 20,
    };
    let mut store = Store::open(&path, bounds).unwrap();
    for number in 0..600 {
        store.add(&minute(NOW_S + number * 60, 20, 1)).unwrap();
    }
    drop(store);
    assert!(fs::metadata(&path).unwrap().len() <= 64 * 4096);
    let db = rusqlite::Connection::open(&path).unwrap();
    let ask = |sql| db.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    assert!(ask("SELECT min(at_s) FROM figures") > NOW_S);
    assert_eq!(ask("SELECT max(at_s) FROM figures"), NOW_S + 599 * 60);
}

#[test]
fn a_power_failure_leaves_whole_minutes_wherever_it_cuts_the_log() {
    let (folder, path) = place();
    let mut store = store(&path);
    for number in 0..5 {
        store.add(&minute(NOW_S + number * 60, 50, 1)).unwrap();
    }
    let (file, log) = (fs::read(&path).unwrap(), fs::read(log_of(&path)).unwrap());
    let copy = folder.path().join("copy.db");
    let mut found = Vec::new();
    for cut in (0..=log.len()).step_by(1000).chain([log.len()]) {
        fs::write(&copy, &file).unwrap();
        // What was to be written there may be anything.
        let torn = [&log[..cut], &[0xa5; 700][..]].concat();
        fs::write(log_of(&copy), torn).unwrap();
        let mut again = Store::open(&copy, Bounds::default()).unwrap();
        again.add(&minute(NOW_S + HOUR_S - 60, 50, 1)).unwrap();
        let account = ask(&copy, 0, By::Minute, Some("/*")).unwrap();
        assert!(
            account
                .slots
                .iter()
                .all(|slot| slot.figures.taken_bytes == 50)
        );
        found.push(account.slots.len());
        drop(again);
        fs::remove_file(&copy).unwrap();
    }
    assert!(found.is_sorted() && found.last() == Some(&6), "{found:?}");
}

#[test]
fn a_file_that_is_no_history_of_this_version_is_refused_and_left_as_it_is() {
    let (_folder, path) = place();
    drop(store(&path));
    let set = |sql: &str| {
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(sql)
            .unwrap()
    };
    let refused = || {
        let before = fs::read(&path).unwrap();
        let written = Store::open(&path, Bounds::default())
            .unwrap_err()
            .to_string();
        let asked = ask(&path, 0, By::Hour, None).unwrap_err().to_string();
        assert_eq!((&written, fs::read(&path).unwrap()), (&asked, before));
        written
    };
    set("PRAGMA user_version = 2");
    assert!(refused().contains("has version 2, this strata knows 1"));
    set("PRAGMA application_id = 7");
    assert!(refused().contains("no history of strata"));
    fs::write(&path, [7; 9000]).unwrap();
    assert!(refused().contains("damaged"));
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        ask(&path, 0, By::Hour, None),
        Err(HistoryError::Missing(_))
    ));
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    Store::open(&path, Bounds::default()).unwrap_err();
}

#[test]
fn a_guard_keeps_its_minutes_and_the_last_one_at_the_end() {
    let (_folder, path) = place();
    let mut history = History::start(&path).unwrap();
    for (after_s, taken) in [(0, 10), (30, 20), (60, 50)] {
        assert_eq!(
            history.look(NOW_S + after_s, &status(1, &[("/a", taken, 0)])),
            None
        );
    }
    assert_eq!(history.end(), Vec::<String>::new());
    let account = ask(&path, 0, By::Minute, Some("/a")).unwrap();
    assert_eq!(slots(&account), [(NOW_S, 20, 20), (NOW_S + 60, 50, 30)]);
}

#[test]
fn a_full_disk_and_a_place_that_can_not_be_are_told_once_and_the_guard_goes_on() {
    let (folder, path) = place();
    let bounds = Bounds {
        nr_pages_max: 8,
        log_bytes_max: 1 << 20,
    };
    let many: Vec<String> = (0..2000).map(|number| format!("/{number}")).collect();
    let many: Vec<(&str, u64, u64)> = many.iter().map(|path| (path.as_str(), 1, 0)).collect();
    let nowhere = folder.path().join("no/such/place.db");
    for (path, why) in [(&path, "is full"), (&nowhere, "No such file")] {
        let mut history = History::within(path, bounds).unwrap();
        let mut news = Vec::new();
        for number in 0..4 {
            news.extend(history.look(NOW_S + number * 60, &status(1, &many)));
        }
        news.extend(history.end());
        assert!(news.len() == 1 && news[0].contains(why), "{news:?}");
    }
    assert_eq!(slots(&ask(&path, 0, By::Hour, None).unwrap()), []);
}

#[test]
fn whoever_looks_does_not_wait_for_a_disk_that_is_slow() {
    let (_folder, path) = place();
    let mut holder = open_to_write(&path).unwrap();
    let held = holder.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
    let held = held.unwrap();
    let mut history = History::start(&path).unwrap();
    let began = Instant::now();
    for number in 0..20 {
        history.look(NOW_S + number * 60, &status(1, &[("/a", number + 1, 0)]));
    }
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    drop(held);
    let news = history.end();
    assert!(news.len() == 1 && news[0].contains("too slow"), "{news:?}");
    let account = ask(&path, 0, By::Hour, Some("/a")).unwrap();
    assert!(account.slots[0].figures.taken_bytes > 0);
}

#[test]
fn a_reader_that_never_ends_is_named_and_the_log_stays_small() {
    let (_folder, path) = place();
    let bounds = Bounds {
        nr_pages_max: 1 << 10,
        log_bytes_max: 64 << 10,
    };
    let mut store = Store::open(&path, bounds).unwrap();
    store.add(&minute(NOW_S, 50, 1)).unwrap();
    let mut reader = rusqlite::Connection::open(&path).unwrap();
    let reads = reader.transaction().unwrap();
    let count = "SELECT count(*) FROM figures";
    reads
        .query_row(count, [], |row| row.get::<_, u64>(0))
        .unwrap();
    let minutes = (1..100).map(|number| minute(NOW_S + number * 60, 50, 1));
    let error = minutes
        .map(|minute| store.add(&minute))
        .find_map(Result::err);
    assert!(matches!(error, Some(HistoryError::Held(_))), "{error:?}");
    assert!(fs::metadata(log_of(&path)).unwrap().len() < 128 << 10);
    drop(reads);
    store.add(&minute(NOW_S + HOUR_S, 50, 1)).unwrap();
}
