//! Whether processes of the group have been moved to another group while they run.
//!
//! A service manager or an operator may move a process at any time, and a process may move itself. Its group then
//! counts what it uses no more, so that the budget seems to hold better than ever.
//!
//! **Owns** telling a process that was moved from one that has ended, and what is said about it. **Does not own**
//! who is managed (`members`: whoever is in the group), nor the reading of groups (`cgroup`).
//!
//! **Invariants**
//! - I1: a process that has ended, or is about to, was not moved, and neither was another one that has its pid now.
//! - I2: however many processes are moved, no more than [`NR_TOLD_MAX`] lines are said about it.

use std::collections::{BTreeMap, BTreeSet};

use strata_linux::cgroup::{BudgetGroup, CgroupError, GroupReader};
use strata_linux::plain;
use strata_linux::process::{Stat, read_stat};

/// A program that has each of its children moved away would be told of without end.
const NR_TOLD_MAX: u32 = 8;
/// Processes that one line names.
const NR_NAMED_MAX: usize = 5;

/// Who was in the group when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// When each of them started; `None` before the first look.
    starts: Option<BTreeMap<i32, u64>>,
    nr_told: u32,
}

/// A process that is somewhere else now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stray {
    pid: i32,
    comm: String,
    /// The name of its group; `None`: one that is not mounted here.
    to: Option<String>,
}

impl Strays {
    /// Looks; returns what there is to say. `root`: the process the run is about, which may have left before the
    /// first look.
    pub(super) fn look(&mut self, group: &BudgetGroup, root: Option<i32>) -> Vec<String> {
        let listed = match group.processes() {
            Ok(listed) => listed,
            // Whoever was in it may have been moved first.
            Err(CgroupError::Gone(_)) => Vec::new(),
            Err(_) => return Vec::new(),
        };
        let start_of = |pid| read_stat(pid).ok().map(|stat| stat.start_ticks);
        let left = self.follow(&listed, root, start_of);
        let moved = left.into_iter().filter_map(|(pid, start)| {
            // Read in this order: a process that is about to end goes to the root first.
            let place = GroupReader::of_process(pid).ok()?;
            let stat = read_stat(pid).ok()?;
            let is_inside = place.as_ref().is_some_and(|place| group.contains(place));
            is_moved(&stat, start, is_inside).then(|| Stray {
                pid,
                comm: stat.comm,
                to: place.map(|place| plain::line(place.name()).into_owned()),
            })
        });
        let moved = moved.collect();
        self.tell(moved, &group.name())
    }

    /// Takes in who is in the group now; returns who was in it and is not listed any more.
    fn follow(
        &mut self,
        listed: &[i32],
        root: Option<i32>,
        start_of: impl Fn(i32) -> Option<u64>,
    ) -> Vec<(i32, u64)> {
        let mut former = self.starts.take().unwrap_or_else(|| {
            let root = root.and_then(|pid| Some((pid, start_of(pid)?)));
            root.into_iter().collect()
        });
        let listed: BTreeSet<i32> = listed.iter().copied().collect();
        let starts = listed.into_iter().filter_map(|pid| {
            let start = former.remove(&pid).or_else(|| start_of(pid))?;
            Some((pid, start))
        });
        self.starts = Some(starts.collect());
        former.into_iter().collect()
    }

    /// A line for each group that processes were moved to.
    fn tell(&mut self, moved: Vec<Stray>, from: &str) -> Vec<String> {
        let mut by_place: BTreeMap<Option<String>, Vec<Stray>> = BTreeMap::new();
        for one in moved {
            by_place.entry(one.to.clone()).or_default().push(one);
        }
        let mut lines = Vec::new();
        for (to, moved) in by_place {
            self.nr_told = self.nr_told.saturating_add(1);
            match self.nr_told {
                ..NR_TOLD_MAX => lines.push(line(&moved, from, to.as_deref())),
                NR_TOLD_MAX => lines.push(format!(
                    "more processes are moved out of {from} than are told here: the memory of those is not held to \
                     the budget any more either"
                )),
                _ => {}
            }
        }
        lines
    }
}

/// Whether the process that started at `start`, and is not in its group, lives outside.
fn is_moved(stat: &Stat, start: u64, is_inside: bool) -> bool {
    let is_ending = stat.is_exiting || matches!(stat.state, 'Z' | 'X');
    stat.start_ticks == start && !is_ending && !is_inside
}

fn line(moved: &[Stray], from: &str, to: Option<&str>) -> String {
    let to = to.unwrap_or("a cgroup that is not mounted here");
    let named = moved.iter().take(NR_NAMED_MAX);
    let mut who: Vec<String> = named
        .map(|one| format!("{} ({})", one.pid, one.comm))
        .collect();
    if let Some(nr_more @ 1..) = moved.len().checked_sub(NR_NAMED_MAX) {
        who.push(format!("{nr_more} more"));
    }
    let (processes, was, their, it) = match moved.len() {
        1 => ("process", "was", "its", "it"),
        _ => ("processes", "were", "their", "them"),
    };
    format!(
        "{processes} {} {was} moved from {from} to {to} by somebody else: {their} memory is not held to the budget \
         any more. What is used for the first time from now on is charged to {to}; the limit of {from} holds for \
         what is still charged there, and Strata takes none of {their} pages. To have all governed again, move {it} \
         back to {from}",
        who.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(pid: i32, to: Option<&str>) -> Stray {
        Stray {
            pid,
            comm: "worker".to_owned(),
            to: to.map(str::to_owned),
        }
    }

    /// Every process starts at ten times its pid.
    fn start_of(pid: i32) -> Option<u64> {
        u64::try_from(pid).ok().map(|pid| pid * 10)
    }

    #[test]
    fn who_was_in_the_group_and_is_not_listed_any_more_has_left_once() {
        let mut strays = Strays::default();
        assert_eq!(strays.follow(&[1, 2, 3], Some(1), start_of), []);
        let never = |_| panic!("it is known when it started");
        assert_eq!(strays.follow(&[1, 3], None, never), [(2, 20)]);
        assert_eq!(strays.follow(&[1, 3], None, never), []);
        assert_eq!(strays.follow(&[], None, never), [(1, 10), (3, 30)]);
        // It comes back, and leaves once more.
        assert_eq!(strays.follow(&[2], None, start_of), []);
        assert_eq!(strays.follow(&[], None, never), [(2, 20)]);
    }

    #[test]
    fn a_program_that_left_before_the_first_look_has_left() {
        let mut strays = Strays::default();
        assert_eq!(strays.follow(&[5], Some(4), start_of), [(4, 40)]);
        assert_eq!(strays.follow(&[5], Some(4), start_of), []);
        assert_eq!(Strays::default().follow(&[], Some(4), |_| None), []);
    }

    #[test]
    fn who_has_ended_or_is_another_process_was_not_moved() {
        let text = "7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 70 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0";
        let stat = Stat::parse(text).expect("a stat line");
        assert!(is_moved(&stat, 70, false));
        assert!(!is_moved(&stat, 70, true), "it is back");
        assert!(!is_moved(&stat, 69, false), "another one with its pid");
        let zombie = Stat::parse(&text.replace(" S ", " Z ")).expect("a stat line");
        assert!(!is_moved(&zombie, 70, false));
        let exiting = Stat::parse(&text.replace("4194560", "4194564")).expect("a stat line");
        assert!(!is_moved(&exiting, 70, false));
    }

    #[test]
    fn a_line_names_who_was_moved_from_where_to_where_and_what_is_governed() {
        let told = Strays::default().tell(vec![moved(7, Some("/h"))], "/g");
        let [told] = &told[..] else {
            panic!("one line: {told:?}")
        };
        assert!(told.starts_with(
            "process 7 (worker) was moved from /g to /h by somebody else: its memory is not"
        ));
        let both = [7, 8].map(|pid| moved(pid, None));
        let told = line(&both, "/g", None);
        assert!(
            told.starts_with(
                "processes 7 (worker), 8 (worker) were moved from /g to a cgroup that"
            )
        );
        let many: Vec<Stray> = (0..1300).map(|pid| moved(pid, Some("/h"))).collect();
        let told = line(&many, "/g", Some("/h"));
        assert!(told.contains("4 (worker), 1295 more were moved"), "{told}");
        let exactly = line(&many[..NR_NAMED_MAX], "/g", Some("/h"));
        assert!(!exactly.contains(" more were"), "{exactly}");
    }

    #[test]
    fn processes_that_are_moved_without_end_are_not_told_of_without_end() {
        let mut strays = Strays::default();
        let each = (0..1000).map(|pid| vec![moved(pid, Some("/h"))]);
        let told: Vec<String> = each.flat_map(|moved| strays.tell(moved, "/g")).collect();
        assert_eq!(told.len(), NR_TOLD_MAX as usize);
        let last = told.last().expect("some");
        assert!(last.starts_with("more processes are moved"), "{last}");
        let to_two = vec![moved(1, Some("/h")), moved(2, Some("/i"))];
        assert_eq!(Strays::default().tell(to_two, "/g").len(), 2);
    }
}
