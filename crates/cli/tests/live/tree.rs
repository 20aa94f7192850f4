//! Following a tree through what no command shows by itself: orphans, exec, and address spaces that several processes share.

use crate::support::prelude::*;

use std::sync::Arc;
use strata_linux::process::{Process, ProcessTree, TreeChange};

/// A program that forks, execs and shares as it is told.
struct Guest(Live);

impl Guest {
    fn start() -> Guest {
        let guest = Guest(Live::start_command(Command::new(program("process_guest"))));
        assert_eq!(guest.0.line(), "ready");
        guest
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.0.stdin(), "{command}").expect("it reads");
        self.0.line()
    }

    fn ask_pid(&mut self, command: &str) -> i32 {
        self.ask(command).parse().expect("a pid")
    }

    /// A tree that has yielded its root.
    fn tree(&self) -> ProcessTree {
        let mut tree = ProcessTree::new(Arc::new(Process::open(self.0.pid()).expect("it runs")));
        let change = tree.refresh(None).expect("looked");
        assert_eq!(pids(&change.appeared), [self.0.pid()]);
        tree
    }
}

fn pids(processes: &[Arc<Process>]) -> Vec<i32> {
    processes.iter().map(|process| process.pid()).collect()
}

fn assert_quiet(change: &TreeChange) {
    assert!(change.is_empty(), "{change:?}");
}

#[test]
fn a_process_that_lost_its_parent_stays_in_the_tree() {
    let mut guest = Guest::start();
    let mut tree = guest.tree();
    let orphan = guest.ask_pid("orphan");
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
    assert_ne!(
        tree.get(orphan).unwrap().stat().unwrap().ppid,
        guest.0.pid()
    );
    send(orphan, Signal::KILL);
    wait_until("it has ended", || {
        tree.refresh(None).unwrap();
        tree.get(orphan).is_none()
    });
}

#[test]
fn exec_is_the_end_of_one_space_and_the_start_of_another() {
    let mut guest = Guest::start();
    let mut tree = guest.tree();
    let before = Arc::clone(tree.get(guest.0.pid()).unwrap());
    guest.ask("exec");
    let change = tree.refresh(None).unwrap();
    assert_eq!(change.ended.len(), 1);
    assert!(Arc::ptr_eq(&change.ended[0], &before));
    assert_eq!(pids(&change.appeared), [guest.0.pid()]);
    assert!(!Arc::ptr_eq(&change.appeared[0], &before));
    assert_quiet(&tree.refresh(None).unwrap());
}

/// A command is known from before its exec, and first looked at when it has grown. Its pages were once
/// managed twice because of that: both spaces had appeared in the same refresh, the first had "ended"
/// before anybody had heard of it, and every walk read the command's pages once for each.
#[test]
fn a_space_that_ended_before_it_was_yielded_is_never_heard_of() {
    let mut guest = Guest::start();
    let root = Process::open(guest.0.pid()).unwrap();
    let mut tree = ProcessTree::new(Arc::new(root));
    guest.ask("exec");
    let change = tree.refresh(None).unwrap();
    assert_eq!(pids(&change.appeared), [guest.0.pid()]);
    assert!(change.ended.is_empty(), "{change:?}");
    assert!(change.appeared[0].is_space_current());
    assert_quiet(&tree.refresh(None).unwrap());
}

#[test]
fn a_child_in_its_parents_space_is_walked_only_after_its_exec() {
    let mut guest = Guest::start();
    let mut tree = guest.tree();
    let child = guest.ask_pid("share");
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
    let mut tree = guest.tree();
    let child = guest.ask_pid("share");
    tree.refresh(None).unwrap();
    let clone = Process::open(child).unwrap();
    guest.0.signal(Signal::KILL);
    guest.0.end();
    wait_until("the other process is walked instead", || {
        tree.refresh(None).unwrap();
        tree.get(child).is_some() || !clone.is_alive()
    });
    assert!(clone.is_alive() && tree.get(guest.0.pid()).is_none());
    send(child, Signal::KILL);
}
