//! Swap devices made and taken down on the machine we run on.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::guard::{self, Guard};
use strata_linux::cgroup::{BudgetGroup, Manager};
use strata_linux::swap::{SwapDevice, SwapError, SwapSpec, free_swap_bytes, swap_areas};
use strata_linux::undo::Journal;
use support::{Hog, MIB, fresh_id};

fn create(spec: &str) -> Result<Guard<SwapDevice>, SwapError> {
    SwapDevice::create(&spec.parse::<SwapSpec>().expect(spec), &Journal::none()).map(Guard)
}

fn is_swapped_to(path: &Path) -> bool {
    swap_areas()
        .expect("read")
        .iter()
        .any(|area| area.path == path)
}

/// The algorithms of a device of ours, or the reason why there is none.
fn algorithms() -> Result<Vec<String>, SwapError> {
    match create("zram:16M,no-such-algorithm") {
        Err(SwapError::UnknownAlgorithm { offered, .. }) => {
            Ok(offered.split(", ").map(str::to_owned).collect())
        }
        Err(error) => Err(error),
        Ok(_) => panic!("no such algorithm"),
    }
}

fn zram_devices() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/block")
        .expect("read")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("zram"))
        .collect();
    names.sort();
    names
}

fn size_of(device: &Path) -> Option<u64> {
    let name = device.file_name()?.to_str()?;
    let text = fs::read_to_string(format!("/sys/block/{name}/disksize")).ok()?;
    text.trim().parse().ok()
}

#[test]
fn each_zram_algorithm_works_and_an_unknown_one_is_refused() {
    need_root_and_cgroup!();
    let offered = or_skip!(algorithms());
    assert!(!offered.is_empty());
    let mut nr_usable = 0;
    for algorithm in offered {
        let mut swap = match create(&format!("zram:32M,{algorithm}")) {
            Ok(swap) => swap,
            // Named by the device, but its module is not there (seen on 6.1).
            Err(SwapError::UnusableAlgorithm { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        nr_usable += 1;
        let path = swap.path().expect("ours").to_owned();
        let area = swap_areas()
            .expect("read")
            .into_iter()
            .find(|area| area.path == path)
            .expect("swapped to");
        assert_eq!(area.priority, 32767, "the highest there is");
        assert!((31 * MIB..=32 * MIB).contains(&area.size_bytes));
        assert!(free_swap_bytes().expect("read") >= 31 * MIB);
        assert_eq!(swap.used_bytes().expect("read"), 0);
        let name = path.file_name().expect("a name").to_str().expect("ASCII");
        let limit = fs::read_to_string(format!("/sys/block/{name}/mm_stat")).expect("read");
        assert_eq!(
            limit.split_whitespace().nth(3),
            Some((32 * MIB).to_string().as_str()),
            "its memory is limited"
        );
        guard::down(&mut swap);
        assert!(!is_swapped_to(&path));
        assert!(size_of(&path).is_none_or(|size| size == 0), "given back");
        swap.take_down().expect("a second time is no error");
    }
    assert!(nr_usable > 0);
}

#[test]
fn two_runs_never_get_the_same_zram_device() {
    need_root_and_cgroup!();
    if let Err(error) = algorithms() {
        skip!("{error}");
    }
    let made: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| create("zram:16M"))).collect();
        starts
            .into_iter()
            .map(|start| start.join().expect("no panic"))
            .collect()
    });
    let mut paths = Vec::<PathBuf>::new();
    for result in &made {
        match result {
            Ok(swap) => paths.push(swap.path().expect("ours").to_owned()),
            // A kernel that can't add devices runs out of them.
            Err(SwapError::NoFreeZram { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(!paths.is_empty());
    let count = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), count);
    for swap in made {
        swap.map_or(Ok(()), |mut swap| swap.take_down())
            .expect("down");
    }
    let names = zram_devices();
    let is_kept = |path: &PathBuf| {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        names.contains(&name) && size_of(path) != Some(0)
    };
    assert!(!paths.iter().any(is_kept), "{names:?}");
}

/// A directory on a file system that can hold swap files; `/tmp` may be memory.
/// On a disk: in a guest the build directory is not on one.
fn directory_for_swap() -> tempfile::TempDir {
    let disk = std::env::var_os("STRATA_TEST_DISK");
    let place = disk.map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    tempfile::tempdir_in(place).expect("a directory")
}

#[test]
fn a_swap_file_is_private_has_no_holes_and_goes_at_the_end() {
    need_root_and_cgroup!();
    let dir = directory_for_swap();
    let path = dir.path().join("swap file");
    let mut swap = match create(&format!("file:{}:32M", path.display())) {
        Ok(swap) => swap,
        Err(error @ SwapError::Filesystem { .. }) => {
            assert!(!path.exists(), "what was begun is taken back");
            skip!("{error}");
        }
        Err(error) => panic!("{error}"),
    };
    assert!(is_swapped_to(&path));
    let metadata = fs::metadata(&path).expect("there");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata.len(), 32 * MIB);
    assert_eq!(swap.memory_bytes().expect("known"), 0);
    guard::down(&mut swap);
    assert!(!is_swapped_to(&path) && !path.exists());
}

#[test]
fn an_existing_path_is_never_overwritten() {
    need_root_and_cgroup!();
    let dir = directory_for_swap();
    let path = dir.path().join("precious");
    fs::write(&path, "data").expect("written");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).expect("made");
    for taken in [&path, &link] {
        let error = create(&format!("file:{}:1M", taken.display())).expect_err("taken");
        assert!(matches!(error, SwapError::Exists(_)), "{error}");
    }
    assert_eq!(fs::read_to_string(&path).expect("read"), "data");
    let error = create(&format!("file:{}/no/such/dir:1M", dir.path().display()));
    assert!(matches!(error, Err(SwapError::Io { .. })));
}

#[test]
fn a_file_system_in_memory_is_refused_and_nothing_stays() {
    need_root_and_cgroup!();
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = dir.path().join("swap");
    let error = create(&format!("file:{}:4M", path.display())).expect_err("tmpfs");
    assert!(matches!(error, SwapError::Filesystem { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_file_that_does_not_fit_on_the_disk_leaves_nothing() {
    need_root_and_cgroup!();
    let dir = directory_for_swap();
    let path = dir.path().join("swap");
    let error = create(&format!("file:{}:900T", path.display())).expect_err("too large");
    assert!(
        matches!(error, SwapError::Io { .. } | SwapError::Filesystem { .. }),
        "{error}"
    );
    assert!(!path.exists());
}

#[test]
fn existing_swap_is_never_touched() {
    let mut swap = create("existing").expect("nothing to make");
    assert_eq!(swap.path(), None);
    assert_eq!(swap.memory_bytes().expect("known"), 0);
    assert_eq!(swap.zram_stats().expect("known"), None);
    swap.take_down().expect("nothing to do");
}

#[test]
fn taking_a_device_down_reads_back_what_a_running_program_has_there() {
    need_root_and_cgroup!();
    let mut swap = or_skip!(create("zram:128M"));
    let made = BudgetGroup::create(&fresh_id("swapoff"), Manager::ByHand, &Journal::none());
    let mut group = Guard(made.expect("a group"));
    let mut hog = Hog::filled(Some(group.path()), 60);
    group.set_budget_bytes(30 * MIB).expect("set");
    assert_eq!(group.processes().expect("read"), [hog.pid()]);
    support::wait_until("it is swapped out", || {
        let _ = group.reclaim(30 * MIB);
        swap.used_bytes().expect("read") >= 10 * MIB
    });
    group.restore().expect("unlimited");
    swap.take_down().expect("there is memory for 30 MiB");
    assert_eq!(hog.ask("touch").as_deref(), Some("ok"));
    assert!(hog.end().success());
    group.remove().expect("removed");
}
