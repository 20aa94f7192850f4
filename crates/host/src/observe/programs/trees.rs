//! Which processes of a group belong together: a group may hold several programs that know nothing of each other.
//!
//! Services that somebody started by hand are all in the group of the shell they were started from, or in the root.
//! The kernel has no notion of a program, so it is told by who started whom:
//!
//! - A process whose parent is not in the group, or is init (pid 1), begins a tree.
//! - So does one that leads a session or a process group and runs another program than its parent: that is how
//!   shells with job control, supervisors and daemons start what is to stand by itself. A server whose workers lead
//!   sessions of their own (postgres) runs one program, and stays one tree.
//! - So does every child of a shell but the shell's own subshells; those of one pipeline stay together.
//! - Everybody else belongs to the parent's tree.
//!
//! **Owns** that rule. **Does not own** reading processes.
//!
//! **Invariants** I1: every process is in exactly one tree, and its root is one of its own.

use std::collections::BTreeMap;

/// Programs that start others on somebody's behalf.
const SHELLS: [&str; 11] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "tcsh", "csh", "tmux",
];
/// Init, which adopts whoever has lost its parent.
const INIT: i32 = 1;
/// Parents are followed so far: pids that are used again could make a circle.
const DEPTH_MAX: usize = 4096;

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Pid of the process that started this one.
    pub parent: i32,
    /// Session of the process.
    pub session: i32,
    /// Process group of the process.
    pub process_group: i32,
    /// What the process runs: the path of the executable, or its name.
    pub program: String,
}

impl Link {
    fn is_shell(&self) -> bool {
        let name = self.program.rsplit('/').next().unwrap_or_default();
        SHELLS.contains(&name.trim_start_matches('-'))
    }
}

/// The trees: for each root the processes of its tree, the root included, by pid.
pub fn split(links: &BTreeMap<i32, Link>) -> BTreeMap<i32, Vec<i32>> {
    let mut trees: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in links.keys() {
        trees.entry(root_of(*pid, links)).or_default().push(*pid);
    }
    trees
}

fn root_of(pid: i32, links: &BTreeMap<i32, Link>) -> i32 {
    let mut at = pid;
    for _ in 0..DEPTH_MAX {
        match above(at, links) {
            Some(next) => at = next,
            None => return at,
        }
    }
    // A circle: its lowest pid stands for it, whoever asks.
    circle(at, links)
}

fn circle(at: i32, links: &BTreeMap<i32, Link>) -> i32 {
    let around = std::iter::successors(above(at, links), |pid| above(*pid, links));
    let around = around.take_while(|pid| *pid != at).take(DEPTH_MAX);
    around.chain([at]).min().unwrap_or(at)
}

/// Whose tree a process belongs to; `None` if it begins one.
fn above(pid: i32, links: &BTreeMap<i32, Link>) -> Option<i32> {
    let own = links.get(&pid)?;
    let parent = links.get(&own.parent).filter(|_| own.parent != INIT)?;
    let is_other_program = own.program != parent.program;
    let is_leader = own.session == pid || own.process_group == pid;
    if is_leader && is_other_program {
        return None;
    }
    if parent.is_shell() && is_other_program {
        // Behind the first of its pipeline.
        let first = links.get(&own.process_group)?;
        let is_sibling = first.parent == own.parent && own.process_group != pid;
        return is_sibling.then_some(own.process_group);
    }
    Some(own.parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pid, parent, session, process group, program.
    type Row = (i32, i32, i32, i32, &'static str);

    fn trees(rows: &[Row]) -> Vec<(i32, Vec<i32>)> {
        let links = rows
            .iter()
            .map(|&(pid, parent, session, process_group, program)| {
                let link = Link {
                    parent,
                    session,
                    process_group,
                    program: program.to_owned(),
                };
                (pid, link)
            });
        split(&links.collect()).into_iter().collect()
    }

    #[test]
    fn daemons_that_init_has_adopted_stand_by_themselves() {
        let rows = [
            (1, 0, 1, 1, "/sbin/init"),
            (10, 1, 10, 10, "/usr/bin/redis-server"),
            (20, 1, 20, 20, "/usr/bin/postgres"),
            // Its workers lead sessions of their own.
            (21, 20, 21, 21, "/usr/bin/postgres"),
            (22, 20, 22, 22, "/usr/bin/postgres"),
        ];
        let expected = [(1, vec![1]), (10, vec![10]), (20, vec![20, 21, 22])];
        assert_eq!(trees(&rows), expected);
        // The same in a group that init is not in.
        assert_eq!(trees(&rows[1..]), expected[1..]);
    }

    #[test]
    fn jobs_of_a_shell_stand_by_themselves_with_their_pipeline() {
        let rows = [
            (5, 4, 5, 5, "/bin/bash"),
            (10, 5, 5, 10, "/usr/bin/redis-server"),
            (20, 5, 5, 20, "/usr/bin/node"),
            (21, 20, 5, 20, "/usr/bin/esbuild"),
            // zcat x | sort | head, and a subshell that sleeps.
            (30, 5, 5, 30, "/bin/zcat"),
            (31, 5, 5, 30, "/usr/bin/sort"),
            (40, 5, 5, 40, "/bin/bash"),
        ];
        let expected = [
            (5, vec![5, 40]),
            (10, vec![10]),
            (20, vec![20, 21]),
            (30, vec![30, 31]),
        ];
        assert_eq!(trees(&rows), expected);
    }

    #[test]
    fn what_a_script_starts_without_job_control_stands_by_itself_too() {
        let rows = [
            (5, 1, 5, 5, "/bin/sh"),
            (10, 5, 5, 5, "/usr/bin/redis-server"),
            (11, 5, 5, 5, "/usr/bin/memcached"),
            (12, 11, 5, 5, "/usr/bin/helper"),
        ];
        let expected = [(5, vec![5]), (10, vec![10]), (11, vec![11, 12])];
        assert_eq!(trees(&rows), expected);
    }

    #[test]
    fn a_server_and_its_helpers_are_one_tree_whatever_they_run() {
        let rows = [
            (10, 3, 10, 10, "/usr/sbin/nginx"),
            (11, 10, 10, 10, "/usr/sbin/nginx"),
            (12, 10, 10, 10, "/usr/bin/logger"),
        ];
        assert_eq!(trees(&rows), [(10, vec![10, 11, 12])]);
    }

    proptest! {
        #[test]
        fn everybody_is_in_one_tree_with_its_root(
            links in prop::collection::btree_map(
                1i32..30,
                (0i32..30, 0i32..30, 0i32..30, prop::sample::select(vec!["sh", "a", "b"])),
                0..30,
            ),
        ) {
            let rows: Vec<Row> = links
                .iter()
                .map(|(pid, (parent, session, group, program))| (*pid, *parent, *session, *group, *program))
                .collect();
            let trees = trees(&rows);
            let mut members: Vec<i32> = trees.iter().flat_map(|(_, members)| members.clone()).collect();
            members.sort_unstable();
            prop_assert!(members.iter().eq(links.keys()));
            for (root, members) in trees {
                prop_assert!(members.contains(&root));
            }
        }
    }
}
