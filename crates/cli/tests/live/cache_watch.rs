//! Page cache watched from census to census, held against reads that are known: what is said to be read was, what is said to
//! be idle was not, and what can't be told is not guessed.

use crate::support::prelude::*;

use std::os::unix::fs::DirEntryExt;
use strata_linux::access::census::{
    Budget, CacheWatch, FilePart, GroupPages, Probed, Sums, Taken, WHOLE_WATCH, Wanted,
    WatchQuestion,
};
use strata_linux::cgroup::GroupReader;
use strata_lru::machine::PageFound;

const FILE_MIB: u64 = 16;
/// So often a file is read that the kernel counts no further.
const OFTEN: usize = 8;
/// The first of the watch's ages.
const AGE: Duration = Duration::from_secs(1);
const SHORT: usize = 0;

macro_rules! open_watch {
    () => {
        open_watch!(0.0)
    };
    ($reset_share:expr) => {
        match CacheWatch::open(WatchQuestion {
            budget: None,
            is_whole: true,
            ages: [AGE; WHOLE_WATCH],
            reset_share: $reset_share,
        }) {
            Ok(watch) => watch,
            Err(error) => skip!("{error}"),
        }
    };
}

fn take(watch: &mut CacheWatch) -> Taken {
    take_resetting(watch, false)
}

/// A census; where `resets`, the counts are reset that it finds full.
fn take_resetting(watch: &mut CacheWatch, resets: bool) -> Taken {
    let wanted = Wanted {
        files: true,
        idle_for: Some(WHOLE_WATCH),
        is_urgent: false,
        resets,
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
    // Another watch of this process knows as much.
    let mut other = open_watch!();
    take(&mut other);
    let sums = file_sums(&take(&mut other), &once);
    assert_class("read once before", &sums, WHOLE_WATCH, IDLE);
    sleep(AGE);
    let third = take(&mut watch);
    for path in [&again, &new] {
        let sums = file_sums(&third, path);
        assert_class("read before the last second", &sums, SHORT, IDLE);
        assert_class("read during the watch", &sums, WHOLE_WATCH, READ);
    }
}

/// Pages of one file of a group, and the sizes of their folios.
#[derive(Debug, PartialEq, Eq)]
struct InMemory {
    pages: BTreeSet<u64>,
    folios: BTreeMap<u64, u64>,
}

fn in_memory(group: &TestGroup, path: &Path) -> InMemory {
    let inode = fs::metadata(path).expect("a file").ino();
    let reader = GroupReader::open(&group.path).expect("a group");
    let mut pages = GroupPages::open(reader, false).expect("censuses");
    pages.search_if_due().expect("a search");
    let files = pages.files().clone();
    let mut found = InMemory {
        pages: BTreeSet::new(),
        folios: BTreeMap::new(),
    };
    let mut add = |page: PageFound| {
        if files
            .get(&page.file)
            .is_some_and(|file| file.inode == inode)
        {
            found.pages.extend(page.index..page.index + page.nr_pages);
            *found.folios.entry(page.nr_pages).or_default() += 1;
        }
    };
    pages
        .list_by_group(&mut |_, page, _| add(page))
        .expect("a list");
    found
}

/// Asserts that exactly those pages of the file were told to be idle that are in memory. Something else on the machine may evict
/// one meanwhile.
#[track_caller]
fn assert_all_idle(taken: &Taken, path: &Path, before: &InMemory, after: &InMemory) {
    let parts = parts_of(taken, path);
    let idle = parts.iter().flat_map(|part| taken.idle.of(part));
    let idle: BTreeSet<u64> = idle.cloned().flatten().collect();
    assert!(idle.is_subset(&before.pages), "{parts:?}");
    assert!(idle.is_superset(&after.pages), "{parts:?}");
    assert_near("in memory", after.pages.len() as u64 * 4096, FILE_MIB * MIB);
}

#[test]
fn pages_whose_count_was_full_and_is_reset_are_told_one_by_one() {
    let mut watch = open_watch!(1.0);
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-reset");
    let file = |name| unread(&group, directory.path(), name);
    let (before, throughout, mapped) = (file("before"), file("throughout"), file("mapped"));
    for path in [&before, &throughout, &mapped] {
        read_file(&group, path, OFTEN);
    }
    let holder = {
        let file = mapped.display().to_string();
        let size = format!("{FILE_MIB}M");
        let options = ["--size", &size, "--file", &file, "--shared"];
        let mut touch = Touch::start_behind(&mut in_group(&group, program("touch")), options);
        touch.ask(&format!("readrange 0 {}", FILE_MIB * 256));
        touch
    };
    watch
        .reset_only_of(&[fs::metadata(&group.path).expect("a group").ino()])
        .expect("watched");
    let at_first = in_memory(&group, &before);
    take_resetting(&mut watch, true);
    let whole = in_memory(&group, &before);
    for (size, count) in &whole.folios {
        let at_first = at_first.folios.get(size).copied().unwrap_or_default();
        assert!(*count <= at_first, "taken apart: {count} of {size} pages");
    }
    let tried_bytes = watch.resets().expect("asked for").tried_bytes;
    assert_near("reset", tried_bytes, 2 * FILE_MIB * MIB);
    sleep(AGE);
    read_file(&group, &throughout, 1);
    let second = take_resetting(&mut watch, true);
    assert_class("before", &file_sums(&second, &before), WHOLE_WATCH, IDLE);
    assert_class(
        "throughout",
        &file_sums(&second, &throughout),
        WHOLE_WATCH,
        READ,
    );
    assert_all_idle(&second, &before, &whole, &in_memory(&group, &before));
    // What is read often between two censuses is full again, and known to be read all the same.
    read_file(&group, &throughout, OFTEN);
    sleep(AGE);
    let third = take_resetting(&mut watch, true);
    assert_class(
        "throughout",
        &file_sums(&third, &throughout),
        WHOLE_WATCH,
        READ,
    );
    assert_class("before", &file_sums(&third, &before), SHORT, IDLE);
    drop(holder);
    for path in [&before, &throughout, &mapped] {
        assert_near("still there", resident_bytes(path), FILE_MIB * MIB);
    }
}

#[test]
fn a_sample_whose_counts_are_reset_tells_of_the_rest_and_the_rest_is_left_alone() {
    const SHARE: f64 = 0.25;
    const NR_FILES: u64 = 200;
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-sample");
    let other = TestGroup::new("cache-sample-other");
    let [cold, hot, others] = ["cold", "hot", "others"].map(|name| {
        let files = directory.path().join(name);
        fs::create_dir(&files).expect("made");
        for number in 0..NR_FILES {
            fs::write(files.join(number.to_string()), [1; 2 * 4096]).expect("written");
        }
        files
    });
    // As many folios as there are files, or more.
    for (group, files) in [(&group, &cold), (&group, &hot), (&other, &others)] {
        forget_all(files);
        read_all(group, files, OFTEN);
    }
    // A second watch has another sample: what the first one has reset is not full any more.
    for nth in ["first", "second"] {
        let mut watch = open_watch!(SHARE);
        watch
            .reset_only_of(&[fs::metadata(&group.path).expect("a group").ino()])
            .expect("watched");
        let began = take_resetting(&mut watch, true);
        let tried_bytes = watch.resets().expect("asked for").tried_bytes;
        let share = tried_bytes as f64 / (2 * NR_FILES * 2 * 4096) as f64;
        assert!((0.15..0.35).contains(&share), "{nth}: {share} was reset");
        assert!(began.reset_bytes >= tried_bytes * 9 / 10, "{nth}");
        sleep(AGE);
        read_all(&group, &hot, OFTEN);
        let taken = take(&mut watch);
        let [cold_sums, hot_sums, of_others] =
            [&cold, &hot, &others].map(|files| sums_below(&taken, files));
        let told = |sums: &Sums| sums.probed.idle_of_rest(WHOLE_WATCH).expect("enough");
        for (what, sums, idle_share) in [("cold", &cold_sums, 1.0), ("hot", &hot_sums, 0.0)] {
            let told = told(sums);
            let truth = sums.probed.unprobed_bytes[WHOLE_WATCH] as f64 * idle_share;
            let off = (told.idle_bytes as f64 - truth).abs();
            assert!(
                off <= 2.0 * told.error_bytes as f64,
                "{nth}, {what}: {told:?}"
            );
        }
        let mut both = cold_sums;
        both += hot_sums;
        let told = told(&both);
        let truth = cold_sums.probed.unprobed_bytes[WHOLE_WATCH];
        assert!(
            told.idle_bytes.abs_diff(truth) <= 2 * told.error_bytes,
            "{nth}: {told:?}, in truth {truth}"
        );
        assert_near(nth, of_others.unknown_bytes[WHOLE_WATCH], of_others.bytes);
        assert_eq!(of_others.probed, Probed::default(), "{nth}: another group");
        read_all(&group, &cold, OFTEN);
    }
}

/// What the files right below a directory have in memory.
fn sums_below(taken: &Taken, directory: &Path) -> Sums {
    let files = fs::read_dir(directory).expect("listed");
    let inodes: HashSet<u64> = files.map(|file| file.expect("a file").ino()).collect();
    let device = fs::metadata(directory).expect("there").dev();
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    let is_below = |part: &&FilePart| {
        let file = &part.file;
        (file.device.major, file.device.minor) == device && inodes.contains(&file.inode)
    };
    let parts = taken.files.iter().filter(is_below);
    sum(parts.map(|part| &part.sums))
}

fn forget_all(directory: &Path) {
    let sync = Command::new("sync").arg("-f").arg(directory).status();
    assert!(sync.expect("sync starts").success());
    let mut forget = Command::new(program("forget"));
    run({
        forget.arg(directory);
        forget
    });
}

/// Reads all files right below a directory so many times, one after the other.
fn read_all(group: &TestGroup, directory: &Path, nr_times: usize) {
    for _ in 0..nr_times {
        let mut cat = in_group(group, "sh");
        cat.args(["-c", "cat \"$0\"/* >/dev/null"]).arg(directory);
        run(cat);
    }
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
        reset_share: 0.0,
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
fn a_watch_of_a_sample_looks_at_the_same_pages_each_time() {
    let budget = Budget {
        cpu_share: 0.05,
        within: Duration::from_millis(500),
    };
    let question = WatchQuestion {
        budget: Some(budget),
        is_whole: false,
        ages: [AGE; WHOLE_WATCH],
        reset_share: 0.0,
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

/// The kernel puts pages on the active list in batches, and takes the first mark away before. It uses the struct, the number and
/// the memory of a deleted file for the next one.
#[test]
fn small_files_read_again_pages_to_be_written_and_new_files_in_place_of_deleted_ones_are_not_told_to_be_idle()
 {
    const NR_FILES: u64 = 48;
    let mut watch = open_watch!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("cache-anew");
    let noise = unread(&group, directory.path(), "noise");
    File::options()
        .write(true)
        .open(&noise)
        .and_then(|file| file.set_len(NR_FILES * (256 << 10)))
        .expect("as long as all files");
    let write_all = |name: &str| -> Vec<PathBuf> {
        let mut split = in_group(&group, "split");
        split.args(["-b", "256K", "-a", "2"]).arg(&noise);
        split.arg(directory.path().join(name));
        run(split);
        let entries = fs::read_dir(directory.path()).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_it = |path: &PathBuf| path.display().to_string().contains(&format!("/{name}"));
        let paths: Vec<PathBuf> = paths.filter(is_it).collect();
        for path in &paths {
            let file = File::open(path).expect("a file");
            file.sync_all().expect("written back");
        }
        paths
    };
    let numbers = |paths: &[PathBuf]| -> HashSet<u64> {
        let number = |path: &PathBuf| fs::metadata(path).expect("a file").ino();
        paths.iter().map(number).collect()
    };
    let old = write_all("old-");
    let written = unread(&group, directory.path(), "written");
    read_file(&group, &written, 1);
    let small = directory.path().join("small");
    fs::write(&small, vec![1; 8 * 4096]).expect("written");
    forget(&small);
    read_file(&group, &small, 1);
    take(&mut watch);
    read_file(&group, &small, 1);
    let taken = take(&mut watch);
    let sums = file_sums(&taken, &old[0]);
    assert_near("old", sums.idle_bytes(WHOLE_WATCH), 256 << 10);
    let (sums, parts) = (file_sums(&taken, &small), parts_of(&taken, &small));
    let found = (sums.bytes, sums.idle_bytes(WHOLE_WATCH));
    assert_eq!(found, (8 * 4096, 0), "{sums:?}");
    let is_none_told = parts.iter().all(|part| taken.idle.of(part).is_empty());
    assert!(is_none_told, "{parts:?}");
    // Pages to be written are in use although nobody reads them; the system may write them back at any moment.
    let file = File::options().write(true).open(&written);
    let file = file.expect("a file");
    let is_in_use = (0..5).any(|_| {
        file.write_all_at(&vec![7; (FILE_MIB * MIB) as usize], 0)
            .expect("written");
        let sums = file_sums(&take(&mut watch), &written);
        is_near(sums.read_bytes[WHOLE_WATCH], FILE_MIB * MIB)
    });
    assert!(is_in_use, "never told to be in use");
    let old_numbers = numbers(&old);
    old.iter()
        .for_each(|path| fs::remove_file(path).expect("removed"));
    let new = write_all("new-");
    let taken = take(&mut watch);
    let nr_same = numbers(&new).intersection(&old_numbers).count();
    let mut all_bytes = 0;
    for path in &new {
        let (sums, parts) = (file_sums(&taken, path), parts_of(&taken, path));
        let is_none_told = parts.iter().all(|part| taken.idle.of(part).is_empty());
        assert!(sums.bytes <= 256 << 10, "{}: {sums:?}", path.display());
        all_bytes += sums.bytes;
        assert!(
            sums.idle_bytes(WHOLE_WATCH) == 0 && is_none_told,
            "{} of {NR_FILES} numbers again: {sums:?}",
            nr_same
        );
    }
    assert_near("all new files", all_bytes, NR_FILES * (256 << 10));
}
