//! Following a tree: children, grandchildren, orphans, exec, shared spaces, races.

use crate::process_support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use process_support::{Guest, patience, wait_until};
use strata_linux::hold_up::HoldUps;
use strata_linux::process::{Process, ProcessTree, TreeChange, tree_counted_bytes, tree_rss_bytes};

/// A tree that has yielded its root.
fn tree_of(guest: &Guest) -> ProcessTree {
    let root = Process::open(guest.pid()).expect("the guest runs");
    let mut tree = ProcessTree::new(Arc::new(root));
    let change = tree.refresh(None).expect("/proc can be read");
    assert_eq!(pids(&change.appeared), [guest.pid()]);
    tree
}

fn pids(processes: &[Arc<Process>]) -> Vec<i32> {
    processes.iter().map(|process| process.pid()).collect()
}

fn assert_quiet(change: &TreeChange) {
    assert!(change.is_empty(), "{change:?}");
}

#[test]
fn two_hundred_children_are_followed_quickly() {
    let mut guest = Guest::start();
    let mut tree = tree_of(&guest);
    guest.ask("threads 3");
    assert_quiet(&tree.refresh(None).unwrap());
    guest.ask("fork 200");
    let start = Instant::now();
    let change = tree.refresh(None).unwrap();
    let first = start.elapsed();
    assert_eq!(change.appeared.len(), 200);
    let start = Instant::now();
    assert_quiet(&tree.refresh(None).unwrap());
    let quiet = start.elapsed();
    println!("200 children: found in {first:?}, looked at again in {quiet:?}");
    assert!(first < Duration::from_millis(500) * patience());
    assert!(quiet < Duration::from_millis(250) * patience());

    let mut child_pids: BTreeSet<i32> = pids(&change.appeared).into_iter().collect();
    child_pids.insert(guest.pid());
    guest.kill();
    let mut ended = BTreeSet::new();
    wait_until("all have ended", || {
        ended.extend(pids(&tree.refresh(None).unwrap().ended));
        tree.is_empty()
    });
    assert_eq!(ended, child_pids);
}

#[test]
fn a_process_that_lost_its_parent_stays_in_the_tree() {
    let mut guest = Guest::start();
    let mut tree = tree_of(&guest);
    let orphan = guest.ask_number("orphan") as i32;
    let mut seen = BTreeSet::new();
    wait_until("child and grandchild", || {
        seen.extend(pids(&tree.refresh(None).unwrap().appeared));
        seen.len() == 2
    });
    assert!(seen.contains(&orphan));
    wait_until("the parent has ended", || {
        tree.refresh(None).unwrap();
        tree.processes().count() == 2
    });
    let process = Arc::clone(tree.get(orphan).unwrap());
    assert_ne!(process.stat().unwrap().ppid, guest.pid());
    process.signal(rustix::process::Signal::KILL).unwrap();
    wait_until("it has ended", || {
        tree.refresh(None).unwrap();
        tree.get(orphan).is_none()
    });
}

#[test]
fn exec_is_the_end_of_one_space_and_the_start_of_another() {
    let mut guest = Guest::start();
    let mut tree = tree_of(&guest);
    let before = Arc::clone(tree.get(guest.pid()).unwrap());
    guest.ask("exec");
    let change = tree.refresh(None).unwrap();
    assert_eq!(change.ended.len(), 1);
    assert!(Arc::ptr_eq(&change.ended[0], &before));
    assert_eq!(pids(&change.appeared), [guest.pid()]);
    assert!(!Arc::ptr_eq(&change.appeared[0], &before));
    assert_quiet(&tree.refresh(None).unwrap());
}

/// A command is known from before its exec, and first looked at when it has grown. Its pages were once
/// managed twice because of that: both spaces had appeared in the same refresh, the first had "ended"
/// before anybody had heard of it, and every walk read the command's pages once for each.
#[test]
fn a_space_that_ended_before_it_was_yielded_is_never_heard_of() {
    let mut guest = Guest::start();
    let root = Process::open(guest.pid()).expect("the guest runs");
    let mut tree = ProcessTree::new(Arc::new(root));
    guest.ask("exec");
    let change = tree.refresh(None).unwrap();
    assert_eq!(pids(&change.appeared), [guest.pid()]);
    assert!(change.ended.is_empty(), "{change:?}");
    assert!(change.appeared[0].is_space_current());
    assert_quiet(&tree.refresh(None).unwrap());
}

#[test]
fn a_child_in_its_parents_space_is_walked_only_after_its_exec() {
    let mut guest = Guest::start();
    let mut tree = tree_of(&guest);
    let child = guest.ask_number("share") as i32;
    assert_quiet(&tree.refresh(None).unwrap());
    assert_eq!(tree.nr_processes(), 2);
    assert!(tree.get(child).is_none());
    guest.ask("unshare");
    let mut appeared = Vec::new();
    wait_until("it has a space of its own", || {
        let change = tree.refresh(None).unwrap();
        assert!(change.ended.is_empty());
        appeared.extend(pids(&change.appeared));
        !appeared.is_empty()
    });
    assert_eq!(appeared, [child]);
    assert_quiet(&tree.refresh(None).unwrap());
}

#[test]
fn a_shared_space_outlives_the_process_it_was_known_by() {
    let mut guest = Guest::start();
    let mut tree = tree_of(&guest);
    let child = guest.ask_number("share") as i32;
    tree.refresh(None).unwrap();
    let clone = Process::open(child).unwrap();
    guest.kill();
    wait_until("the other process is walked instead", || {
        tree.refresh(None).unwrap();
        tree.get(child).is_some() || !clone.is_alive()
    });
    assert!(clone.is_alive() && tree.get(guest.pid()).is_none());
    clone.signal(rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_list_decides_who_is_a_member() {
    let mut one = Guest::start();
    let two = Guest::start();
    let child = one.ask_number("fork 1") as i32;
    let mut tree = ProcessTree::of_list();
    assert_quiet(&tree.refresh(Some(&[])).unwrap());
    let change = tree.refresh(Some(&[two.pid(), one.pid()])).unwrap();
    assert_eq!(change.appeared.len(), 2);
    // Listed by the kernel a moment ago, gone when it is opened.
    let gone = { Guest::start().pid() };
    let change = tree.refresh(Some(&[one.pid(), child, gone])).unwrap();
    assert_eq!(pids(&change.appeared), [child]);
    assert_eq!(pids(&change.ended), [two.pid()]);
    assert!(change.refused.is_empty());
}

#[test]
fn what_can_not_be_watched_is_said_once() {
    let guest = Guest::start();
    let kernel_thread = 2;
    if Process::open(kernel_thread).is_ok_and(|process| process.is_alive()) {
        skip!("kernel threads are not visible");
    }
    let mut tree = ProcessTree::of_list();
    let listed = [kernel_thread, guest.pid()];
    let change = tree.refresh(Some(&listed)).unwrap();
    assert_eq!(pids(&change.appeared), [guest.pid()]);
    assert_eq!(change.refused.len(), 1);
    assert_quiet(&tree.refresh(Some(&listed)).unwrap());
}

#[test]
fn processes_that_come_and_go_all_the_time_are_no_error() {
    let guest = Guest::start();
    let mut tree = ProcessTree::new(Arc::new(Process::open(std::process::id() as i32).unwrap()));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        let (mut appeared, mut ended) = (0, 0);
        let started = Instant::now();
        // On a busy machine 300 looks may fit between two processes.
        for nr_looks in 0.. {
            let change = tree.refresh(None).unwrap();
            appeared += change.appeared.len();
            ended += change.ended.len();
            let is_late = started.elapsed() > Duration::from_secs(60);
            if is_late || nr_looks >= 300 && ended >= 3 {
                break;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(appeared > ended && ended > 0, "{appeared} {ended}");
    });
    assert!(tree.get(guest.pid()).is_some());
}

#[test]
fn pages_shared_by_the_tree_count_once() {
    let mut guest = Guest::start();
    const NR_PAGES: u64 = 4096;
    guest.ask(&format!("anon {NR_PAGES}"));
    let mut tree = tree_of(&guest);
    let alone = tree_rss_bytes(&tree, u64::MAX);
    assert!(alone >= NR_PAGES * 4096);
    guest.ask("fork 4");
    tree.refresh(None).unwrap();
    assert_eq!(tree.processes().count(), 5);
    let shared = tree_rss_bytes(&tree, u64::MAX);
    assert!(
        shared < alone + NR_PAGES * 4096 / 4,
        "{alone} alone, {shared} with four children that wrote nothing"
    );
    // Who is too large to be gone through counts all it maps, and nobody's lock is taken for that.
    let before = HoldUps::so_far().smaps.nr_calls;
    let counted = tree_rss_bytes(&tree, NR_PAGES / 2);
    assert!(counted >= 5 * NR_PAGES * 4096, "{counted}");
    assert!(tree_counted_bytes(&tree) >= 5 * NR_PAGES * 4096);
    assert_eq!(HoldUps::so_far().smaps.nr_calls, before);
}
