//! Page cache watched from census to census, held against reads that are known: what is said to be read was, what is said to
//! be idle was not, and what can't be told is not guessed.

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use strata_host::access::census::{
    Budget, CacheWatch, Sums, Taken, WHOLE_WATCH, Wanted, WatchQuestion,
};
use support::leaks::Guard;
use support::live::TestGroup;
use support::residency::{MIB, assert_near, file_sums, forget, is_near, read_file, write_file};

const FILE_MIB: u64 = 16;
/// So often a file is read that the kernel counts no further.
const OFTEN: usize = 8;
/// The first of the watch's ages.
const AGE: Duration = Duration::from_secs(1);
const SHORT: usize = 0;

macro_rules! open_watch {
    () => {
        match CacheWatch::open(WatchQuestion {
            budget: None,
            is_whole: true,
            ages: [AGE; WHOLE_WATCH],
        }) {
            Ok(watch) => watch,
            Err(error) => skip!("{error}"),
        }
    };
}

fn take(watch: &mut CacheWatch) -> Taken {
    let wanted = Wanted {
        files: true,
        idle_for: Some(WHOLE_WATCH),
        is_urgent: false,
    };
    watch.take(wanted, &|| false).expect("a census")
}

/// A file of noise of which nothing is in memory.
fn unread(group: &TestGroup, directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    write_file(group, &path, FILE_MIB);
    forget(&path);
    path
}

/// MiB read, idle and not told, and what the file has in memory but for what is mapped.
fn classes(sums: &Sums, age: usize) -> [u64; 3] {
    [
        sums.read_bytes[age],
        sums.idle_bytes(age),
        sums.unknown_bytes[age],
    ]
}

#[track_caller]
fn assert_class(what: &str, sums: &Sums, age: usize, expected: usize) {
    for (class, found) in classes(sums, age).into_iter().enumerate() {
        let truth = if class == expected { FILE_MIB * MIB } else { 0 };
        assert_near(&format!("{what}, class {class}"), found, truth);
    }
}

const READ: usize = 0;
const IDLE: usize = 1;
const UNKNOWN: usize = 2;

#[test]
fn each_file_is_told_to_be_read_idle_or_unknown_as_it_was_read() {
    let mut watch = open_watch!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-watch");
    let file = |name| unread(&group, directory.path(), name);
    let (once, often) = (file("once-before"), file("often-before"));
    let (again, throughout, new) = (file("read-again"), file("throughout"), file("new"));
    for (path, nr_times) in [
        (&once, 1),
        (&often, OFTEN),
        (&again, 1),
        (&throughout, OFTEN),
    ] {
        read_file(&group, path, nr_times);
    }
    let first = take(&mut watch);
    assert_eq!(watch.covered(WHOLE_WATCH), None);
    assert_eq!(file_sums(&first, &again).read_bytes, [0; WHOLE_WATCH + 1]);
    sleep(AGE);
    for (path, nr_times) in [(&again, 1), (&throughout, OFTEN), (&new, 1)] {
        read_file(&group, path, nr_times);
    }
    let second = take(&mut watch);
    assert!(watch.covered(SHORT).is_some_and(|covered| covered >= AGE));
    for age in [SHORT, WHOLE_WATCH] {
        for (name, path, class) in [
            ("read once before", &once, IDLE),
            ("read often before", &often, UNKNOWN),
            ("read again", &again, READ),
            ("read throughout", &throughout, UNKNOWN),
            ("new", &new, READ),
        ] {
            assert_class(name, &file_sums(&second, path), age, class);
        }
    }
    sleep(AGE);
    let third = take(&mut watch);
    for path in [&again, &new] {
        let sums = file_sums(&third, path);
        assert_class("read before the last second", &sums, SHORT, IDLE);
        assert_class("read during the watch", &sums, WHOLE_WATCH, READ);
    }
}

#[test]
fn idle_pages_are_told_one_by_one_and_those_of_other_groups_apart() {
    let mut watch = open_watch!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-idle");
    let path = unread(&group, directory.path(), "idle");
    read_file(&group, &path, 1);
    take(&mut watch);
    sleep(AGE);
    let taken = take(&mut watch);
    let parts = support::residency::parts_of(&taken, &path);
    let pages: Vec<_> = parts.iter().flat_map(|part| taken.idle.of(part)).collect();
    assert_eq!(pages, [&(0..FILE_MIB * MIB / 4096)], "{parts:?}");
    read_file(&group, &path, 1);
    let taken = take(&mut watch);
    let parts = support::residency::parts_of(&taken, &path);
    let nr_idle: u64 = parts
        .iter()
        .flat_map(|part| taken.idle.of(part))
        .map(|range| range.end - range.start)
        .sum();
    assert_near("idle after it was read", nr_idle * 4096, 0);
}

/// The kernel puts pages on the active list in batches, and takes the first mark away before.
#[test]
fn a_small_file_that_was_read_again_is_not_told_to_be_idle() {
    let mut watch = open_watch!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-small");
    let path = directory.path().join("small");
    fs::write(&path, vec![1; 8 * 4096]).expect("written");
    forget(&path);
    read_file(&group, &path, 1);
    take(&mut watch);
    read_file(&group, &path, 1);
    let taken = take(&mut watch);
    let sums = file_sums(&taken, &path);
    assert_eq!(
        (sums.bytes, sums.idle_bytes(WHOLE_WATCH)),
        (8 * 4096, 0),
        "{sums:?}"
    );
    let parts = support::residency::parts_of(&taken, &path);
    assert!(
        parts.iter().all(|part| taken.idle.of(part).is_empty()),
        "{parts:?}"
    );
}

#[test]
fn pages_to_be_written_are_in_use_although_nobody_reads_them() {
    let mut watch = open_watch!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-written");
    let path = unread(&group, directory.path(), "written");
    read_file(&group, &path, 1);
    take(&mut watch);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("a file");
    let nr_tries = 5;
    // The system may write them back at any moment.
    let is_read = (0..nr_tries).any(|_| {
        file.write_all_at(&vec![7; (FILE_MIB * MIB) as usize], 0)
            .expect("written");
        let sums = file_sums(&take(&mut watch), &path);
        is_near(sums.read_bytes[WHOLE_WATCH], FILE_MIB * MIB)
    });
    assert!(is_read, "never told to be in use");
}

#[test]
fn a_census_that_nobody_wants_any_more_ends_and_the_watch_goes_on() {
    let mut watch = match CacheWatch::open(WatchQuestion {
        budget: Some(Budget {
            cpu_share: 0.001,
            within: Duration::from_secs(3600),
        }),
        is_whole: true,
        ages: [AGE; WHOLE_WATCH],
    }) {
        Ok(watch) => watch,
        Err(error) => skip!("{error}"),
    };
    let error = watch
        .take(Wanted::default(), &|| true)
        .expect_err("nobody wants it");
    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
    let urgent = Wanted {
        is_urgent: true,
        ..Wanted::default()
    };
    let taken = watch.take(urgent, &|| false).expect("a census");
    assert_eq!(taken.sampled_share, 1.0);
}

#[test]
fn each_watch_of_a_process_knows_how_far_the_kernel_counts() {
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-twice");
    let path = unread(&group, directory.path(), "idle");
    read_file(&group, &path, 1);
    for _ in 0..3 {
        let mut watch = open_watch!();
        take(&mut watch);
        let sums = file_sums(&take(&mut watch), &path);
        assert_class("read once before", &sums, WHOLE_WATCH, IDLE);
    }
}

#[test]
fn a_watch_of_a_sample_looks_at_the_same_pages_each_time() {
    let budget = Budget {
        cpu_share: 0.05,
        within: Duration::from_millis(500),
    };
    let question = WatchQuestion {
        budget: Some(budget),
        is_whole: false,
        ages: [AGE; WHOLE_WATCH],
    };
    let mut watch = match CacheWatch::open(question) {
        Ok(watch) => watch,
        Err(error) => skip!("{error}"),
    };
    let takes: Vec<Taken> = (0..3)
        .map(|_| watch.take(Wanted::default(), &|| false).expect("a census"))
        .collect();
    let shares: Vec<f64> = takes.iter().map(|taken| taken.sampled_share).collect();
    assert!(
        shares[0] > 0.0 && shares.iter().all(|share| *share == shares[0]),
        "{shares:?}"
    );
    // Pages that are new to the watch would be told to be read.
    let sum = |figure: fn(&Sums) -> u64| {
        takes[2]
            .groups
            .iter()
            .map(|part| figure(&part.sums))
            .sum::<u64>()
    };
    let (all, read) = (
        sum(|sums| sums.bytes),
        sum(|sums| sums.read_bytes[WHOLE_WATCH]),
    );
    assert!(read <= all / 4, "{read} of {all} bytes");
}
